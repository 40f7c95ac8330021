/* Connections whose ends look for each other in the middle of what several threads write and read: each end of each connection has two threads
   that write numbered records at the same time, and one that reads. The records of each thread come whole and in their order.
   late CONNECTIONS RECORDS */
#include "loopback.h"
#include <pthread.h>
#include <stdint.h>

enum { WRITERS = 2 };

struct record {
    uint32_t writer, number;
    unsigned char fill[24];
};

static long records;

struct writes {
    int fd;
    uint32_t writer;
};

static void *writes(void *of)
{
    const struct writes *end = of;
    for (uint32_t number = 0; number < records; number++) {
        struct record record = {.writer = end->writer, .number = number};
        memset(record.fill, (int)(number + end->writer), sizeof record.fill);
        must(write(end->fd, &record, sizeof record) == sizeof record, "write");
    }
    return NULL;
}

static void *reads(void *of)
{
    uint32_t next[WRITERS] = {0};
    for (long at = 0; at < WRITERS * records; at++) {
        struct record record;
        for (size_t got = 0; got < sizeof record;) {
            ssize_t more = read(*(int *)of, (char *)&record + got, sizeof record - got);
            must(more > 0, "read");
            got += (size_t)more;
        }
        unsigned char fill = (unsigned char)(record.number + record.writer);
        int is_right = record.writer < WRITERS && record.number == next[record.writer]++;
        for (size_t byte = 0; byte < sizeof record.fill; byte++)
            is_right &= record.fill[byte] == fill;
        errno = 0;
        must(is_right, "a record is wrong, or not the next of its thread");
    }
    return NULL;
}

static void both_ways(int fd)
{
    pthread_t threads[WRITERS + 1];
    struct writes ends[WRITERS];
    must(pthread_create(&threads[WRITERS], NULL, reads, &fd) == 0, "pthread_create");
    for (uint32_t at = 0; at < WRITERS; at++) {
        ends[at] = (struct writes){fd, at};
        must(pthread_create(&threads[at], NULL, writes, &ends[at]) == 0, "pthread_create");
    }
    for (int at = 0; at <= WRITERS; at++)
        must(pthread_join(threads[at], NULL) == 0, "pthread_join");
}

int main(int argc, char **argv)
{
    long connections = argc > 1 ? atol(argv[1]) : 20;
    records = argc > 2 ? atol(argv[2]) : 2000;
    int listener = listens();
    pid_t child = fork();
    for (long at = 0; at < connections; at++) {
        int fd = child == 0 ? accept(listener, NULL, NULL) : connects();
        must(fd >= 0, "accept");
        both_ways(fd);
        must(close(fd) == 0, "close");
    }
    int status = 0;
    if (child == 0)
        _exit(0);
    must(waitpid(child, &status, 0) == child && status == 0, "the other end");
    printf("every record came in its order\n");
    return 0;
}
