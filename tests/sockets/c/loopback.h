/* Two processes with a connection over loopback. */
#pragma once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Round trips until both ends have met and use a ring. */
enum { TURNS = 2000 };

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        _exit(1);
    }
}

static struct sockaddr_in address = {.sin_family = AF_INET};

static int listens(void)
{
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = 0;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 9) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    return listener;
}

static int connects(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    return fd;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Makes no call: what it has written to a ring stays there. */
static inline void computes(double seconds)
{
    for (double end = now() + seconds; now() < end;)
        continue;
}

static void asks(int fd)
{
    char byte = 'x';
    for (int turn = 0; turn < TURNS; turn++)
        must(write(fd, &byte, 1) == 1 && read(fd, &byte, 1) == 1, "a turn");
}

static void answers(int fd)
{
    char byte;
    for (int turn = 0; turn < TURNS; turn++)
        must(read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1, "an answer");
}
