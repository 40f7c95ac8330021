/* Half a round trip of 8 bytes, and bandwidth of 1 MiB one way with a window of 8, between two processes.
 *
 * usage: pingpong [ROUNDS]; prints "LATENCY_US BANDWIDTH_MB_S", medians of 11 blocks each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 11, WINDOW = 8, BIG = 1 << 20 };

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, rounds = argc > 1 ? atoi(argv[1]) : 20000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char word[8] = "word", *buffers = malloc((size_t)WINDOW * BIG);
    memset(buffers, rank, (size_t)WINDOW * BIG);
    double latency[BLOCKS], bandwidth[BLOCKS];
    for (int block = 0; block < BLOCKS; block++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < rounds; i++) {
            if (rank == 0) {
                MPI_Send(word, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
                MPI_Recv(word, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(word, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(word, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
            }
        }
        latency[block] = (MPI_Wtime() - start) / rounds / 2 * 1e6;
        int batches = 1 + rounds / 1000;
        MPI_Request requests[WINDOW];
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int i = 0; i < batches; i++) {
            for (int w = 0; w < WINDOW; w++) {
                if (rank == 0) MPI_Isend(buffers + (size_t)w * BIG, BIG, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[w]);
                else MPI_Irecv(buffers + (size_t)w * BIG, BIG, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[w]);
            }
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        }
        if (rank == 0) MPI_Recv(word, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Send(word, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        bandwidth[block] = (double)batches * WINDOW * BIG / (MPI_Wtime() - start) / 1e6;
    }
    qsort(latency, BLOCKS, sizeof *latency, by_size);
    qsort(bandwidth, BLOCKS, sizeof *bandwidth, by_size);
    if (rank == 0) printf("%.3f %.0f\n", latency[BLOCKS / 2], bandwidth[BLOCKS / 2]);
    MPI_Finalize();
    return 0;
}
