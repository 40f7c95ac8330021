// A process that finds a ring at the connection it has inherited, which went through the kernel alone when it was forked: sibling.c
//
// The writing end only reads until it has a second holder. The first holder then writes: to a ring, more than it takes, which goes back to the kernel,
// and to a ring again. The second one puts bytes into that and shuts down. The reading end, which has a second holder, too, and has shut down its own
// half, has to find all of it before the end.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)

enum { TURNS = 1000, FIRST = 300000, PIECE = 10000, LAST = 777 };
enum { FORKED = TURNS + 1, AWAKE = FORKED + TURNS, WRITTEN, SHUT, ENDED };
static _Atomic int *stage;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

// Without a sleep: who sleeps is awake for nobody.
static void spins_to(int wanted)
{
    double end = now() + 30;
    while (*stage < wanted) if (now() > end) FAIL("nobody got to stage %d", wanted);
}

// Of who has nothing to do meanwhile.
static void sleeps_to(int wanted)
{
    double end = now() + 30;
    while (*stage < wanted) { if (now() > end) FAIL("nobody got to stage %d", wanted); usleep(500); }
}

static unsigned char bytes[FIRST];
static int written;
static unsigned char byte_at(int at) { return (unsigned char)(at * 2654435761u >> 13); }

static void puts_more(int fd, int n)
{
    for (ssize_t sent; n > 0; n -= sent, written += sent) {
        for (int i = 0; i < n; i++) bytes[i] = byte_at(written + i);
        if ((sent = send(fd, bytes, n, MSG_DONTWAIT)) <= 0) FAIL("write behind %d", written);
    }
}

static void writes(int fd)
{
    for (int turn = 1; turn <= TURNS; turn++) {
        if (read(fd, bytes, 1) != 1) FAIL("read %d", turn);
        *stage = turn;
    }
    pid_t holder = fork();
    if (holder == 0) {
        sleeps_to(WRITTEN);
        written = TURNS + FIRST + 10;
        puts_more(fd, LAST);
        if (shutdown(fd, SHUT_WR)) FAIL("shutdown");
        *stage = SHUT;
        _exit(0);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        spins_to(FORKED + turn);
        puts_more(fd, 1);
    }
    spins_to(AWAKE);
    for (int i = 0; i < FIRST / PIECE; i++) puts_more(fd, PIECE);
    for (int i = 0; i < 10; i++) puts_more(fd, 1);
    *stage = WRITTEN;
    int status;
    if (waitpid(holder, &status, 0) != holder || status) FAIL("the second holder: %x", status);
    sleeps_to(ENDED);
    _exit(0);
}

static void reads(int fd)
{
    for (int turn = 1; turn <= TURNS; turn++) {
        if (write(fd, "x", 1) != 1) FAIL("write %d", turn);
        spins_to(turn);
    }
    pid_t holder = fork();
    if (holder == 0) { sleeps_to(ENDED); _exit(0); }
    // Each comes while this end looks for it.
    for (int turn = 0; turn < TURNS; turn++) {
        *stage = FORKED + turn;
        if (read(fd, bytes, 1) != 1 || bytes[0] != byte_at(turn)) FAIL("read %d", turn);
    }
    *stage = AWAKE;
    spins_to(WRITTEN);
    if (shutdown(fd, SHUT_WR)) FAIL("shutdown of the reader");
    spins_to(SHUT);
    // Until the end is there, too.
    usleep(20000);
    int at = TURNS;
    for (ssize_t n; (n = read(fd, bytes, 5000)) != 0; at += n) {
        if (n < 0) FAIL("read behind %d", at);
        for (int i = 0; i < n; i++) if (bytes[i] != byte_at(at + i)) FAIL("byte %d is wrong", at + i);
    }
    if (at != TURNS + FIRST + 10 + LAST) FAIL("an end behind %d", at);
    *stage = ENDED;
    _exit(0);
}

// With room for all of it in the kernel.
static int roomy(int one)
{
    int room = FIRST;
    setsockopt(one, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(one, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    return one;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    stage = mmap(0, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = roomy(socket(AF_INET, SOCK_STREAM, 0)), fd, failed = 0;
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    for (int end = 0; end < 2; end++) {
        if (fork() != 0) continue;
        if (end == 0) fd = accept(listener, 0, 0);
        else if (connect(fd = roomy(socket(AF_INET, SOCK_STREAM, 0)), (void *)&name, sizeof name)) FAIL("connect");
        close(listener);
        if (end == 0) writes(fd); else reads(fd);
    }
    for (int end = 0, status; end < 2; end++) failed |= wait(&status) < 0 || status;
    if (failed) return 1;
    printf("all bytes came before the end\n");
    return 0;
}
