/* A thread polls a connection that another one closes; the next connection gets its place. What is written to that while its reader sleeps in a read
   must be seen at once, also if the writer makes no further call: it computes until it is told, by memory, that the message was seen. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 1500, ROUNDS = 3, MOST_SECONDS = 20 };

static struct sockaddr_in address = {.sin_family = AF_INET};
static atomic_int *seen;
static int first, wake[2];

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        _exit(1);
    }
}

static void gives(int fd) { must(write(fd, "x", 1) == 1, "write"); }
static void takes(int fd)
{
    char byte;
    must(read(fd, &byte, 1) == 1, "read");
}

static void sleeps(long milliseconds)
{
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, NULL);
}

static void *polls(void *unused)
{
    struct pollfd both[2] = {{first, POLLIN, 0}, {wake[0], POLLIN, 0}};
    poll(both, 2, -1);
    return unused;
}

/* Computes until this is so, or for long; whether it was. */
static int computes_until(int count)
{
    time_t end = time(NULL) + MOST_SECONDS;
    while (atomic_load(seen) < count)
        if (time(NULL) > end)
            return 0;
    return 1;
}

static int connects(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    return fd;
}

static void client(void)
{
    int fd = connects();
    for (int turn = 0; turn < TURNS; turn++) {
        gives(fd);
        takes(fd);
    }
    int next = connects();
    for (int turn = 0; turn < 2 * TURNS; turn++) {
        gives(next);
        takes(next);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        takes(next);
        /* Its reader goes to sleep meanwhile. */
        sleeps(200);
        gives(next);
        if (!computes_until(round)) {
            printf("the reader sleeps over a message\n");
            fflush(stdout);
            _exit(1);
        }
    }
    _exit(0);
}

static void turns(int fd)
{
    for (int turn = 0; turn < TURNS; turn++) {
        takes(fd);
        gives(fd);
    }
}

int main(void)
{
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 9) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0 && pipe(wake) == 0, "getsockname");
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(seen != MAP_FAILED, "mmap");
    pid_t child = fork();
    if (child == 0)
        client();
    first = accept(listener, NULL, NULL);
    turns(first);
    pthread_t poller;
    must(pthread_create(&poller, NULL, polls, NULL) == 0, "pthread_create");
    sleeps(200);
    close(first);
    int next = accept(listener, NULL, NULL);
    turns(next);
    must(write(wake[1], "w", 1) == 1, "write");
    pthread_join(poller, NULL);
    turns(next);
    for (int round = 1; round <= ROUNDS; round++) {
        gives(next);
        takes(next);
        atomic_store(seen, round);
    }
    int said;
    must(waitpid(child, &said, 0) == child, "waitpid");
    if (said == 0)
        printf("each message was seen\n");
    return said != 0;
}
