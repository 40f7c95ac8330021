/*
 * One-sided operations of MPI between all ranks, with every byte checked: put, get, sums, fetch-and-add and
 * compare-and-swap, under fences and under locks.
 *
 * usage: onesided ROUNDS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 20 };

static int rank, size;

static void check(int is_so, const char *what, long number)
{
    if (!is_so) {
        fprintf(stderr, "onesided: rank %d: wrong: %s %ld\n", rank, what, number);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static unsigned char byte_of(int from, long round, long at)
{
    return (unsigned char)(from * 77 + round * 31 + at * 7 + (at >> 8));
}

/* Each rank writes its own part of each other's window, and reads it back. */
static void bytes(MPI_Win window, unsigned char *memory, long round, long length)
{
    unsigned char *out = malloc(length), *in = malloc(length);
    for (long at = 0; at < length; at++)
        out[at] = byte_of(rank, round, at);
    MPI_Win_fence(0, window);
    for (int to = 0; to < size; to++)
        MPI_Put(out, (int)length, MPI_BYTE, to, (MPI_Aint)rank * LONGEST, (int)length, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    for (int from = 0; from < size; from++)
        for (long at = 0; at < length; at++)
            check(memory[(long)from * LONGEST + at] == byte_of(from, round, at), "a byte that was put, at", at);
    int other = (rank + 1) % size;
    MPI_Win_fence(0, window);
    MPI_Get(in, (int)length, MPI_BYTE, other, (MPI_Aint)rank * LONGEST, (int)length, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    check(memcmp(in, out, length) == 0, "bytes that were got, of", length);
    free(out);
    free(in);
}

/* All add to the counter of rank 0: each sum is there once. */
static void counter(MPI_Win window, long *memory, long rounds)
{
    long one = 1, before, last = -1;
    for (long round = 0; round < rounds; round++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_unlock(0, window);
        check(before > last && before < rounds * size, "a sum", before);
        last = before;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        check(memory[0] == rounds * size, "the last sum", memory[0]);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/*
 * Under a lock that compare-and-swap makes, one rank at a time changes a number without an atomic operation. The rank
 * that has the number takes no part: Open MPI 4.1.4 cannot swap in a rank's own memory through any provider.
 */
static void swaps(MPI_Win window, long *memory, long rounds)
{
    long free_word = 0, own = rank + 1, found, value;
    MPI_Win_lock_all(0, window);
    for (long round = 0; rank > 0 && round < rounds; round++) {
        do {
            MPI_Compare_and_swap(&own, &free_word, &found, MPI_LONG, 0, 1, window);
            MPI_Win_flush(0, window);
        } while (found != 0);
        MPI_Get(&value, 1, MPI_LONG, 0, 2, 1, MPI_LONG, window);
        MPI_Win_flush(0, window);
        value++;
        MPI_Put(&value, 1, MPI_LONG, 0, 2, 1, MPI_LONG, window);
        MPI_Win_flush(0, window);
        MPI_Compare_and_swap(&free_word, &own, &found, MPI_LONG, 0, 1, window);
        MPI_Win_flush(0, window);
        check(found == own, "the lock's owner", found);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        check(memory[2] == rounds * (size - 1), "the number under the lock", memory[2]);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Sums of many elements of all ranks. */
static void sums(MPI_Win window, double *memory, long round)
{
    enum { COUNT = 3000 };
    static double add[COUNT];
    for (int at = 0; at < COUNT; at++)
        add[at] = rank + at;
    memset(memory, 0, sizeof add);
    MPI_Win_fence(0, window);
    for (int to = 0; to < size; to++)
        MPI_Accumulate(add, COUNT, MPI_DOUBLE, to, 0, COUNT, MPI_DOUBLE, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int at = 0; at < COUNT; at++)
        check(memory[at] == size * (size - 1) / 2.0 + (double)at * size, "a sum of all, in round", round);
    MPI_Win_fence(0, window);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = argc > 1 ? atol(argv[1]) : 5;
    unsigned char *memory;
    MPI_Win bytewise, longwise, doublewise;
    long *numbers;
    double *doubles;
    /* Memory of their own: what MPI allocates itself on one machine it would share without any provider. */
    memory = calloc((size_t)size, LONGEST);
    numbers = calloc(1, 4096);
    doubles = calloc(1, 65536);
    MPI_Win_create(memory, (MPI_Aint)size * LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &bytewise);
    MPI_Win_create(numbers, 4096, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &longwise);
    MPI_Win_create(doubles, 65536, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &doublewise);
    MPI_Barrier(MPI_COMM_WORLD);
    static const long lengths[] = {1, 8, 100, 4096, 4097, 20000, 65536, LONGEST};
    for (long round = 0; round < rounds; round++)
        for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++)
            bytes(bytewise, memory, round, lengths[at]);
    for (long round = 0; round < rounds; round++)
        sums(doublewise, doubles, round);
    counter(longwise, numbers, 100 * rounds);
    swaps(longwise, numbers, 10 * rounds);
    MPI_Win_free(&bytewise);
    MPI_Win_free(&longwise);
    MPI_Win_free(&doublewise);
    free(memory);
    free(numbers);
    free(doubles);
    if (rank == 0)
        printf("onesided: %ld rounds of %d ranks: all bytes and sums are right\n", rounds, size);
    MPI_Finalize();
    return 0;
}
