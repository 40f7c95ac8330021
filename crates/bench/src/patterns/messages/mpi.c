/* Messages between the ranks of any MPI: the rival of message queues.
 *
 *   mpi CPU0 CPU1 echo BYTES COUNT
 *   mpi CPU0 CPU1 stream BYTES COUNT WINDOW TAGS BUFFERS
 *   mpi CPU0 CPU1 allreduce BYTES COUNT
 *   mpi CPU0 CPU1 put BYTES COUNT, or get
 *
 * Ranks take turns on the two processors. Rank 0 prints
 *   echo: half the time of a round trip in ns; of more than two ranks each even one does it with the next, and the
 *   mean of all is printed,
 *   stream: the time of all messages in ns until the receiver has confirmed the last one,
 *   allreduce: the mean time of a call in ns, over all ranks,
 *   put, get: the mean time in ns of an access to memory of rank 1, which takes no part; a put counts with its flush. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 17
#define WARM_UP_PART 16
#define WINDOW_MAX 1024

struct stream {
    char *bytes;
    int length;
    long count;
    int window, tags, buffers;
};

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static double mean_of_all(double value, int ranks) {
    double sum = 0;
    MPI_Reduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return sum / ranks;
}

static double echo(int rank, int ranks, char *bytes, int length, long rounds) {
    double began = 0;
    long warm_up = rounds / WARM_UP_PART;
    int other = rank ^ 1, is_first = rank % 2 == 0;
    for (long round = 0; round < warm_up + rounds; round++) {
        if (round == warm_up) {
            began = MPI_Wtime();
        }
        if (is_first) {
            MPI_Send(bytes, length, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
        }
        MPI_Recv(bytes, length, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!is_first) {
            MPI_Send(bytes, length, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
        }
    }
    double ns = (MPI_Wtime() - began) * 1e9 / (2.0 * (double)rounds);
    return mean_of_all(ns, ranks);
}

/* As many messages under way as the window has. */
static void transfer(int rank, const struct stream *stream, long count) {
    MPI_Request requests[WINDOW_MAX];
    for (long sent = 0; sent < count; sent += stream->window) {
        int some = count - sent < stream->window ? (int)(count - sent) : stream->window;
        for (int at = 0; at < some; at++) {
            long number = sent + at;
            char *bytes = stream->bytes + (number % stream->buffers) * stream->length;
            int tag = TAG + 2 + (int)(number % stream->tags);
            if (rank == 0) {
                MPI_Isend(bytes, stream->length, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &requests[at]);
            } else {
                MPI_Irecv(bytes, stream->length, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[at]);
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

static double time_of_stream(int rank, const struct stream *stream) {
    transfer(rank, stream, stream->count / WARM_UP_PART + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    transfer(rank, stream, stream->count);
    return (MPI_Wtime() - began) * 1e9;
}

/* Between two calls there is a barrier that does not count. */
static double allreduce(int ranks, int length, long count) {
    int words = length / 8 > 0 ? length / 8 : 1;
    unsigned long long *from = calloc((size_t)words, 8), *to = calloc((size_t)words, 8);
    double seconds = 0;
    if (from == NULL || to == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    for (long call = -(count / WARM_UP_PART + 1); call < count; call++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        MPI_Allreduce(from, to, words, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (call >= 0) {
            seconds += MPI_Wtime() - began;
        }
    }
    free(from);
    free(to);
    return mean_of_all(seconds * 1e9 / (double)count, ranks);
}

static double access_memory(int rank, char *bytes, int length, long count, int is_put) {
    char *memory;
    MPI_Win window;
    double began = 0;
    long warm_up = count / WARM_UP_PART;
    MPI_Win_allocate(length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 2, (size_t)length);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
        for (long round = 0; round < warm_up + count; round++) {
            if (round == warm_up) {
                began = MPI_Wtime();
            }
            if (is_put) {
                MPI_Put(bytes, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
            } else {
                MPI_Get(bytes, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
            }
            MPI_Win_flush(1, window);
        }
        began = MPI_Wtime() - began;
        /* What was put is 1, what was there is 2. */
        memset(bytes, 0, (size_t)length);
        MPI_Get(bytes, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
        MPI_Win_flush(1, window);
        if (length > 0 && bytes[length - 1] != (is_put ? 1 : 2)) {
            MPI_Abort(MPI_COMM_WORLD, 5);
        }
        MPI_Win_unlock(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window);
    return began * 1e9 / (double)count;
}

static int argument(int argc, char **argv, int at, int otherwise) {
    return at < argc ? atoi(argv[at]) : otherwise;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct stream stream = {
        .length = argument(argc, argv, 4, 0),
        .count = argc > 5 ? atol(argv[5]) : 0,
        .window = argument(argc, argv, 6, 1),
        .tags = argument(argc, argv, 7, 1),
        .buffers = argument(argc, argv, 8, 1),
    };
    if (argc < 6 || ranks < 2 || stream.window < 1 || stream.window > WINDOW_MAX || stream.tags < 1 ||
        stream.buffers < 1) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pin(atoi(argv[1 + rank % 2]));
    size_t all = (size_t)stream.length * (size_t)stream.buffers + 1;
    stream.bytes = malloc(all);
    if (stream.bytes == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    memset(stream.bytes, 1, all);
    double ns;
    if (strcmp(argv[3], "echo") == 0) {
        ns = echo(rank, ranks, stream.bytes, stream.length, stream.count);
    } else if (strcmp(argv[3], "allreduce") == 0) {
        ns = allreduce(ranks, stream.length, stream.count);
    } else if (strcmp(argv[3], "put") == 0 || strcmp(argv[3], "get") == 0) {
        ns = access_memory(rank, stream.bytes, stream.length, stream.count, strcmp(argv[3], "put") == 0);
    } else {
        ns = time_of_stream(rank, &stream);
    }
    if (rank == 0) {
        printf("%.3f\n", ns);
    }
    free(stream.bytes);
    MPI_Finalize();
    return 0;
}
