/*
 * What calls on sockets cost, for `tieline bench acceptance --only sockets`: an ordinary program that knows of nothing.
 *
 * It does what it is told on standard input, a line each, until it ends, and answers with one line: a number of nanoseconds, or
 * "error" and the reason. The other ends of its connections are children of its own. Between two lines all of them sleep.
 *
 *     measure CPU [CPU]   the processor that all of them run on: there, what a call costs is not hidden by waking another one.
 *                         With a second one, that is where the other ends run
 *
 *     echo N          N times 64 bytes there and back over one connection, write and read: one round trip
 *     connect N       N times socket, connect, read until the other end has closed, close: one of them
 *     epoll N         N times a byte there and back over 64 connections, which both ends wait for with epoll: one message
 *     latency BYTES N     N times so many bytes there and back over one connection: half of one round trip, median and 99.9 %
 *     lines N         N round trips in the cache lines of that connection's ring, without a pause between two looks and with one: half
 *                     of one round trip, both medians
 *     request N           N times connect, 64 bytes there and back, close: one of them
 *     short M BYTES N     N times connect, read M messages of so many bytes that the other end sends, up to its end, close: one of them
 *     idle N              N connections, each used a little, then let alone: how many there are, and the process at their other ends
 *     inside TEXT     1 if a library with this text in its name is loaded, or 0
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "ring_lines.h"

enum { MESSAGE_BYTES = 64, CONNECTIONS = 64, LATENCY_BYTES = 4096, USES = 32, ATTEMPTS = 20, MANY_USES = 600, USED_MUCH = 1024, SPARE = 256 };

static int echo_connection, epoll_of_all, all[CONNECTIONS], other_cpu;
static struct sockaddr_in connect_address, request_address, short_address;

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Ends the program with the reason if the call before it failed. */
static int check(const char *what, int result)
{
    if (result < 0) {
        printf("error %s: %s\n", what, strerror(errno));
        fflush(stdout);
        exit(1);
    }
    return result;
}

/* Moves exactly so many bytes; 0 if the other end has closed. */
static int read_all(int fd, char *to, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = check("read", (int)read(fd, to + done, length - done));
        if (got == 0)
            return 0;
        done += (size_t)got;
    }
    return 1;
}

static void write_all(int fd, const char *from, size_t length)
{
    for (size_t done = 0; done < length;)
        done += (size_t)check("write", (int)write(fd, from + done, length - done));
}

static int listening(struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;
    int fd = check("socket", socket(AF_INET, SOCK_STREAM, 0));
    /* Any address of this host: the ends of many short connections must differ. */
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    check("bind", bind(fd, (struct sockaddr *)address, sizeof *address));
    check("listen", listen(fd, 2 * CONNECTIONS));
    check("getsockname", getsockname(fd, (struct sockaddr *)address, &length));
    return fd;
}

static int connected(struct sockaddr_in address, uint32_t number)
{
    int yes = 1, fd = check("socket", socket(AF_INET, SOCK_STREAM, 0));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (number & 0xffff));
    check("connect", connect(fd, (struct sockaddr *)&address, sizeof address));
    check("setsockopt", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
    return fd;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    check("sched_setaffinity", sched_setaffinity(0, sizeof set, &set));
}

/* A child that serves the listening socket, and ends with this process. */
static int serve(int listener, void (*service)(int))
{
    int child = check("fork", fork());
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* No connection is to get this number: it would stay with the kernel (docs/sockets.md). */
        check("open", dup2(check("open", open("/dev/null", O_RDONLY)), 0));
        pin(other_cpu);
        service(listener);
        _exit(0);
    }
    close(listener);
    return child;
}

/* Counts with the other end in the lines of the one ring that this process has. */
static void answer_counts(const char *bytes)
{
    struct ring_region regions[RINGS];
    struct count_order order;
    memcpy(&order, bytes, sizeof order);
    if (ring_regions(regions) != 2 || regions[0].is_own == regions[1].is_own)
        _exit(1);
    int own = regions[0].is_own ? 0 : 1;
    if (!answers_counts(regions[own].words, regions[1 - own].words, &order))
        _exit(1);
}

static void echo_service(int listener)
{
    char bytes[LATENCY_BYTES];
    int got, yes = 1, fd = check("accept", accept(listener, NULL, NULL));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    while ((got = check("read", (int)read(fd, bytes, sizeof bytes))) > 0) {
        if (got == sizeof(struct count_order) && memcmp(bytes, COUNT_MAGIC, sizeof COUNT_MAGIC) == 0)
            answer_counts(bytes);
        else
            write_all(fd, bytes, (size_t)got);
    }
}

/* One request of each connection, one after another. */
static void request_service(int listener)
{
    char bytes[MESSAGE_BYTES];
    for (;;) {
        int fd = check("accept", accept(listener, NULL, NULL));
        if (read_all(fd, bytes, sizeof bytes))
            write_all(fd, bytes, sizeof bytes);
        close(fd);
    }
}

/* What each connection is to get comes first: how many messages, of how many bytes. */
static void short_service(int listener)
{
    static char bytes[LATENCY_BYTES];
    for (;;) {
        uint32_t wanted[2];
        int fd = check("accept", accept(listener, NULL, NULL));
        if (read_all(fd, (char *)wanted, sizeof wanted) && wanted[1] <= sizeof bytes)
            for (uint32_t message = 0; message < wanted[0]; message++)
                write_all(fd, bytes, wanted[1]);
        close(fd);
    }
}

static void close_service(int listener)
{
    for (;;)
        close(check("accept", accept(listener, NULL, NULL)));
}

static void watch(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    check("epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static void accepted(int listener, int set)
{
    int yes = 1, fd = check("accept", accept(listener, NULL, NULL));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    watch(set, fd);
}

static void epoll_service(int listener)
{
    struct epoll_event events[CONNECTIONS];
    int set = check("epoll_create1", epoll_create1(0));
    watch(set, listener);
    for (;;) {
        int ready = check("epoll_wait", epoll_wait(set, events, CONNECTIONS, -1));
        for (int at = 0; at < ready; at++) {
            char byte;
            int fd = events[at].data.fd;
            if (fd == listener) {
                accepted(listener, set);
            } else if (check("recv", (int)recv(fd, &byte, 1, 0)) == 1) {
                check("send", (int)send(fd, &byte, 1, 0));
            } else {
                _exit(0);
            }
        }
    }
}

/* Connections that are used a little, all in one epoll; for as long as the other end lives. */
static void idle_service(int listener)
{
    struct epoll_event events[CONNECTIONS];
    int set = check("epoll_create1", epoll_create1(0));
    watch(set, listener);
    for (;;) {
        int ready = check("epoll_wait", epoll_wait(set, events, CONNECTIONS, -1));
        for (int at = 0; at < ready; at++) {
            char bytes[MESSAGE_BYTES];
            int got, fd = events[at].data.fd;
            if (fd == listener) {
                accepted(listener, set);
            } else if ((got = check("read", (int)read(fd, bytes, sizeof bytes))) > 0) {
                write_all(fd, bytes, (size_t)got);
            } else {
                close(fd);
            }
        }
    }
}

static double echo(long rounds)
{
    char bytes[MESSAGE_BYTES] = {0};
    double start = now_ns();
    for (long round = 0; round < rounds; round++) {
        write_all(echo_connection, bytes, sizeof bytes);
        read_all(echo_connection, bytes, sizeof bytes);
    }
    return (now_ns() - start) / (double)rounds;
}

static int ascending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Each round trip begins where the one before ended, so that one reading of the clock is part of it, and no more. */
static void latency(long size, long rounds)
{
    static char bytes[LATENCY_BYTES];
    uint64_t *ticks = malloc((size_t)rounds * sizeof *ticks);
    if (!ticks || size > LATENCY_BYTES) {
        printf("error too much: %ld times %ld bytes\n", rounds, size);
        free(ticks);
        return;
    }
    double start = now_ns();
    uint64_t first = __rdtsc(), last = first;
    for (long round = 0; round < rounds; round++) {
        write_all(echo_connection, bytes, (size_t)size);
        read_all(echo_connection, bytes, (size_t)size);
        uint64_t now = __rdtsc();
        ticks[round] = now - last;
        last = now;
    }
    double half_ns = (now_ns() - start) / (double)(last - first) / 2;
    qsort(ticks, (size_t)rounds, sizeof *ticks, ascending);
    printf("%.1f %.1f\n", (double)ticks[rounds / 2] * half_ns, (double)ticks[rounds * 999 / 1000] * half_ns);
    free(ticks);
}

/* The median half round trip in the lines of this ring. 0: there is none, or the other end has not answered. */
static double line_ns(volatile uint64_t *own, volatile uint64_t *other, uint64_t rounds, int pauses, uint64_t *ticks)
{
    struct count_order order = {.from = own[RING_UNUSED] + 1, .pauses = (uint64_t)pauses};
    size_t samples = rounds / ROUNDS_OF_A_SAMPLE;
    order.to = order.from + samples * ROUNDS_OF_A_SAMPLE;
    memcpy(order.magic, COUNT_MAGIC, sizeof order.magic);
    write_all(echo_connection, (const char *)&order, sizeof order);
    double start = now_ns();
    uint64_t first = __rdtsc();
    if (!counts(own, other, &order, ticks))
        return 0;
    double tick_ns = (now_ns() - start) / (double)(__rdtsc() - first);
    qsort(ticks, samples, sizeof *ticks, ascending);
    return (double)ticks[samples / 2] * tick_ns / ROUNDS_OF_A_SAMPLE / 2;
}

static void lines(long rounds)
{
    struct ring_region regions[RINGS];
    uint64_t *ticks = calloc((size_t)rounds / ROUNDS_OF_A_SAMPLE + 1, sizeof *ticks);
    int count = ring_regions(regions);
    volatile uint64_t *own = NULL, *other = NULL;
    /* The first of them go through the kernel, where the other end sleeps; on a busy machine perhaps all do. */
    for (int attempt = 0; attempt < ATTEMPTS && !(own && other); attempt++) {
        echo(USES);
        own = changed_region(regions, count, 1);
        other = changed_region(regions, count, 0);
    }
    if (!ticks || !own || !other || rounds < ROUNDS_OF_A_SAMPLE) {
        printf("error the connection has no ring, or there are too few round trips: %d regions, %ld round trips\n", count, rounds);
    } else {
        double at_once_ns = line_ns(own, other, (uint64_t)rounds, 0, ticks);
        double paused_ns = at_once_ns > 0 ? line_ns(own, other, (uint64_t)rounds, 1, ticks) : 0;
        if (paused_ns > 0)
            printf("%.1f %.1f\n", at_once_ns, paused_ns);
        else
            printf("error the other end of the connection does not count\n");
    }
    free(ticks);
}

static double request(long rounds)
{
    static uint32_t number;
    double start = now_ns();
    for (long round = 0; round < rounds; round++) {
        char bytes[MESSAGE_BYTES] = {0};
        int fd = connected(request_address, number++);
        write_all(fd, bytes, sizeof bytes);
        read_all(fd, bytes, sizeof bytes);
        close(fd);
    }
    return (now_ns() - start) / (double)rounds;
}

static double short_connections(uint32_t messages, uint32_t size, long rounds)
{
    static uint32_t number;
    static char bytes[LATENCY_BYTES];
    uint32_t wanted[2] = {messages, size};
    double start = now_ns();
    for (long round = 0; round < rounds; round++) {
        long got = 0;
        int fd = connected(short_address, number++);
        write_all(fd, (char *)wanted, sizeof wanted);
        for (int count; (count = check("read", (int)read(fd, bytes, sizeof bytes))) > 0; got += count)
            continue;
        close(fd);
        if (got != (long)messages * size) {
            printf("error %ld bytes came\n", got);
            exit(1);
        }
    }
    return (now_ns() - start) / (double)rounds;
}

/* As many connections as there is room for. The child inherits the limit. */
static void idle(long wanted)
{
    struct sockaddr_in address;
    struct rlimit limit;
    check("getrlimit", getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    check("setrlimit", setrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_cur != RLIM_INFINITY && wanted > (long)limit.rlim_cur - SPARE)
        wanted = (long)limit.rlim_cur - SPARE;
    int listener = listening(&address), other = serve(listener, idle_service);
    for (long number = 0; number < wanted; number++) {
        char bytes[MESSAGE_BYTES] = {0};
        int fd = connected(address, (uint32_t)number);
        /* Enough for a ring, on as many as may have one. */
        int uses = number < USED_MUCH ? MANY_USES : USES;
        for (int use = 0; use < uses; use++) {
            write_all(fd, bytes, sizeof bytes);
            read_all(fd, bytes, sizeof bytes);
        }
    }
    printf("%ld %d\n", wanted, other);
}

static double connect_close(long rounds)
{
    static uint32_t number;
    double start = now_ns();
    for (long round = 0; round < rounds; round++) {
        char byte;
        int fd = connected(connect_address, number++);
        check("read", (int)read(fd, &byte, 1));
        close(fd);
    }
    return (now_ns() - start) / (double)rounds;
}

static double epoll(long rounds)
{
    struct epoll_event events[CONNECTIONS];
    double start = now_ns();
    for (long round = 0; round < rounds; round++) {
        for (int at = 0; at < CONNECTIONS; at++)
            check("send", (int)send(all[at], "x", 1, 0));
        for (int left = CONNECTIONS; left > 0;) {
            int ready = check("epoll_wait", epoll_wait(epoll_of_all, events, CONNECTIONS, -1));
            for (int at = 0; at < ready; at++) {
                char byte;
                left -= check("recv", (int)recv(events[at].data.fd, &byte, 1, 0));
            }
        }
    }
    return (now_ns() - start) / (double)rounds / CONNECTIONS;
}

static int inside(const char *text)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, text) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static void begin(void)
{
    struct sockaddr_in echo_address, epoll_address;
    serve(listening(&echo_address), echo_service);
    serve(listening(&connect_address), close_service);
    serve(listening(&request_address), request_service);
    serve(listening(&short_address), short_service);
    serve(listening(&epoll_address), epoll_service);
    /* Now that no child is made any more which would have them too. */
    echo_connection = connected(echo_address, 0);
    epoll_of_all = check("epoll_create1", epoll_create1(0));
    for (int at = 0; at < CONNECTIONS; at++) {
        all[at] = connected(epoll_address, 0);
        watch(epoll_of_all, all[at]);
    }
}

int main(int argc, char **argv)
{
    char line[256], word[32], text[128];
    long number, size, messages;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: measure CPU [CPU]\n");
        return 2;
    }
    signal(SIGCHLD, SIG_IGN);
    pin(atoi(argv[1]));
    other_cpu = atoi(argv[argc - 1]);
    begin();
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "inside %127s", text) == 1)
            printf("%d\n", inside(text));
        else if (sscanf(line, "latency %ld %ld", &size, &number) == 2 && size > 0 && number > 0)
            latency(size, number);
        else if (sscanf(line, "short %ld %ld %ld", &messages, &size, &number) == 3 && size > 0 && size <= LATENCY_BYTES)
            printf("%.1f\n", short_connections((uint32_t)messages, (uint32_t)size, number));
        else if (sscanf(line, "%31s %ld", word, &number) != 2 || number < 1)
            printf("error not understood: %s", line);
        else if (strcmp(word, "echo") == 0)
            printf("%.1f\n", echo(number));
        else if (strcmp(word, "connect") == 0)
            printf("%.1f\n", connect_close(number));
        else if (strcmp(word, "epoll") == 0)
            printf("%.1f\n", epoll(number));
        else if (strcmp(word, "request") == 0)
            printf("%.1f\n", request(number));
        else if (strcmp(word, "lines") == 0)
            lines(number);
        else if (strcmp(word, "idle") == 0)
            idle(number);
        else
            printf("error not understood: %s", line);
        fflush(stdout);
    }
    return 0;
}
