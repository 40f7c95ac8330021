/* Processes of OpenSHMEM: memory of others is written and read, words are added up, all is checked.
 * Rank 0 says what was right, in lines that do not depend on time. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 20, ROUNDS = 200 };

static char into[LONGEST], own[LONGEST];
static long counter, words[8], sums[8], flag;

static void check(int is_so, const char *what, long number)
{
    if (!is_so) {
        fprintf(stderr, "shmem: rank %d: wrong: %s %ld\n", shmem_my_pe(), what, number);
        shmem_global_exit(1);
    }
}

static void bytes(int me, int other, long length)
{
    char *got = malloc((size_t)length);
    long at;
    for (at = 0; at < length; at++) own[at] = (char)(at * 31 + length + me);
    shmem_barrier_all();
    shmem_putmem(into, own, (size_t)length, other);
    shmem_barrier_all();
    for (at = 0; at < length; at++) check(into[at] == (char)(at * 31 + length + other), "a byte that was put, at", at);
    shmem_getmem(got, own, (size_t)length, other);
    for (at = 0; at < length; at++) check(got[at] == (char)(at * 31 + length + other), "a byte that was got, at", at);
    shmem_barrier_all();
    free(got);
}

int main(void)
{
    int me, all, other;
    long length, round, before;
    shmem_init();
    me = shmem_my_pe();
    all = shmem_n_pes();
    other = (me + 1) % all;
    for (length = 1; length <= LONGEST; length *= 4) {
        bytes(me, other, length);
        if (me == 0) printf("%ld bytes are put and got right\n", length);
    }
    for (round = 0; round < ROUNDS; round++) shmem_long_atomic_inc(&counter, 0);
    shmem_barrier_all();
    if (me == 0) {
        check(counter == (long)ROUNDS * all, "a sum of", counter);
        printf("%ld words are added up\n", counter);
    }
    shmem_barrier_all();
    for (round = 0; round < ROUNDS; round++) {
        /* In turn: each waits for the word of the other. */
        if (me == 0) shmem_long_atomic_set(&flag, round + 1, other);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, round + 1);
        if (me != 0) shmem_long_atomic_set(&flag, round + 1, other);
        before = shmem_long_atomic_compare_swap(&counter, -1, 5, other);
        check(before >= 0, "a word that was there,", before);
    }
    for (round = 0; round < 8; round++) words[round] = me + round;
    shmem_barrier_all();
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sums, words, 8);
    for (round = 0; round < 8; round++) check(sums[round] == all * (all - 1) / 2 + all * round, "a reduction,", round);
    shmem_barrier_all();
    if (me == 0) {
        puts("signals and a reduction are right");
        puts("done");
    }
    shmem_finalize();
    return 0;
}
