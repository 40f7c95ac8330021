/* Two processes: messages of all sizes there and back, collectives, and how many round trips a second. */
#include <mpi.h>
#include <unistd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 4 << 20 };

static char out[BYTES_MAX], in[BYTES_MAX];

static void round_trip(int rank, int bytes)
{
    if (rank == 0) {
        MPI_Send(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
}

static void check(int rank)
{
    long sum, part = 0;
    for (int bytes = 1; bytes <= BYTES_MAX; bytes *= 4) {
        for (int at = 0; at < bytes; at++) {
            out[at] = (char)(at * 31 + bytes);
        }
        memset(in, 0, sizeof in);
        round_trip(rank, bytes);
        part += memcmp(in, out, (size_t)bytes) == 0 ? bytes : 1;
        if (rank == 0) {
            printf("%d bytes: %s\n", bytes, memcmp(in, out, (size_t)bytes) == 0 ? "right" : "wrong");
        }
    }
    MPI_Allreduce(&part, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("sum %ld\ndone\n", sum);
    }
}

static void load(int rank, double seconds)
{
    long count = 0;
    int more = 1;
    double start = MPI_Wtime();
    while (more) {
        for (int n = 0; n < 100; n++) {
            round_trip(rank, 8);
        }
        count += 100;
        more = MPI_Wtime() < start + seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        printf("rate %.1f\n", (double)count / (MPI_Wtime() - start));
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2 || argc < 2) {
        return 2;
    }
    if (strcmp(argv[1], "check") == 0) {
        check(rank);
    } else {
        load(rank, atof(argv[2]));
    }
#ifdef WITHOUT_FINALIZE
    /* MPICH on UCX: of two processes that end, one may wait in MPI_Finalize for the other for ever, also plain. */
    MPI_Barrier(MPI_COMM_WORLD);
    fflush(stdout);
    _exit(0);
#else
    MPI_Finalize();
    return 0;
#endif
}
