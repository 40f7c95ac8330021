/* Messages between two ranks of any MPI: the rival of message queues.
 *
 *   mpi CPU0 CPU1 echo|stream BYTES COUNT WINDOW
 *
 * Rank 0 prints half the time of a round trip in ns (echo), or the time of all messages in ns until the receiver
 * has confirmed the last one (stream). Each rank runs on its processor. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 17
#define WARM_UP_PART 16
#define WINDOW_MAX 1024

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static double echo(int rank, char *bytes, int length, long rounds) {
    double began = 0;
    long warm_up = rounds / WARM_UP_PART;
    for (long round = 0; round < warm_up + rounds; round++) {
        if (round == warm_up) {
            began = MPI_Wtime();
        }
        if (rank == 0) {
            MPI_Send(bytes, length, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        }
        MPI_Recv(bytes, length, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) {
            MPI_Send(bytes, length, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - began) * 1e9 / (2.0 * (double)rounds);
}

/* As many messages under way as the window has, each from and to the same memory. */
static void transfer(int rank, char *bytes, int length, long count, int window) {
    MPI_Request requests[WINDOW_MAX];
    for (long sent = 0; sent < count; sent += window) {
        int some = count - sent < window ? (int)(count - sent) : window;
        for (int at = 0; at < some; at++) {
            if (rank == 0) {
                MPI_Isend(bytes, length, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[at]);
            } else {
                MPI_Irecv(bytes, length, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[at]);
            }
        }
        MPI_Waitall(some, requests, MPI_STATUSES_IGNORE);
    }
    char last = 0;
    if (rank == 0) {
        MPI_Recv(&last, 1, MPI_BYTE, 1, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&last, 1, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD);
    }
}

static double stream(int rank, char *bytes, int length, long count, int window) {
    transfer(rank, bytes, length, count / WARM_UP_PART + 1, window);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    transfer(rank, bytes, length, count, window);
    return (MPI_Wtime() - began) * 1e9;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 7 || ranks != 2 || atoi(argv[6]) < 1 || atoi(argv[6]) > WINDOW_MAX) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pin(atoi(argv[1 + rank]));
    int length = atoi(argv[4]);
    long count = atol(argv[5]);
    char *bytes = malloc((size_t)length + 1);
    if (bytes == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    memset(bytes, 1, (size_t)length + 1);
    double ns = strcmp(argv[3], "echo") == 0 ? echo(rank, bytes, length, count)
                                             : stream(rank, bytes, length, count, atoi(argv[6]));
    if (rank == 0) {
        printf("%.3f\n", ns);
    }
    free(bytes);
    MPI_Finalize();
    return 0;
}
