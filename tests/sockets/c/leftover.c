// Bytes that cannot go back to the kernel when their writer ends, because it is full: leftover.c WAY
//
// One end writes more than the kernel takes while the other one is awake, so that the rest stays in the ring, and ends. The other end, of
// which a child has become the reader, has to find every byte before the end. WAY is what happens in between:
//   half   the reader has shut down its own half before the writer exits
//   twice  the writer shuts down its half twice, and the reader then waits in an epoll
//   both   as half, and the writer's end, too, has a second holder
//   killed as half, but the writer is killed
//   ring   as killed, with bytes in the ring that nobody has tried to take back
//   write  the writer shuts down its half and writes again, which is refused, and the reader then waits in an epoll
//   after  one holder of the writing end has it in an epoll and shuts down, and the other one, who has put bytes into the ring, is refused
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...) do { fprintf(stderr, "%s: ", way); fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)

static const char *way;
static int is(const char *name) { return !strcmp(way, name); }
static unsigned char byte_at(uint64_t at) { return (unsigned char)(at * 2654435761u >> 13); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

// How far they are, and who is who.
enum { TALKING = 1, ASLEEP, READING, AWAKE, WRITTEN, ENDED };
static struct { _Atomic int stage; _Atomic uint64_t written; _Atomic pid_t reader; } *shared;
static unsigned char buffer[1 << 16];

// Without a sleep: who sleeps is awake for nobody.
static void spins_to(int stage)
{
    double end = now() + 30;
    while (shared->stage < stage) if (now() > end) FAIL("nobody got to stage %d", stage);
}

static void talk(int fd, int begins)
{
    for (int turn = 0; turn < 2000; turn++) {
        char byte = 7;
        if (turn % 2 == begins ? write(fd, &byte, 1) != 1 : read(fd, &byte, 1) != 1) FAIL("turn %d", turn);
    }
}

static int puts_one(int fd)
{
    size_t n = 777;
    for (size_t i = 0; i < n; i++) buffer[i] = byte_at(shared->written + i);
    ssize_t sent = send(fd, buffer, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || (errno == EPIPE && is("after")))) return 0;
    if (sent <= 0) FAIL("write");
    shared->written += sent;
    return 1;
}

// As much as there is room for. Whether that was any.
static int fills(int fd)
{
    int any = 0;
    while (puts_one(fd)) any = 1;
    return any;
}

// Without a shutdown of its own.
static int ends_by_itself(void) { return is("half") || is("both") || is("killed") || is("ring"); }

// The other holder, to whose ring nothing is told of an epoll.
static void writes_after(int fd)
{
    spins_to(AWAKE);
    puts_one(fd);
    shared->stage = WRITTEN;
    spins_to(ENDED);
    if (puts_one(fd)) FAIL("a write after the end was taken");
    _exit(0);
}

static void shuts_down_beside(int fd)
{
    pid_t holder = fork();
    if (holder == 0) writes_after(fd);
    int epoll = epoll_create1(EPOLL_CLOEXEC), status;
    struct epoll_event event = { EPOLLIN, { 0 } };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) FAIL("epoll_ctl");
    shared->stage = AWAKE;
    spins_to(WRITTEN);
    if (shutdown(fd, SHUT_WR)) FAIL("shutdown");
    shared->stage = ENDED;
    if (waitpid(holder, &status, 0) != holder || status) FAIL("the other holder: %x", status);
    _exit(0);
}

static void writes(int fd)
{
    talk(fd, 1);
    spins_to(ASLEEP);
    if (is("after")) {
        puts_one(fd);
        spins_to(READING);
        shuts_down_beside(fd);
    }
    // The reader is stopped asleep: all goes to the kernel.
    usleep(100000);
    kill(shared->reader, SIGSTOP);
    usleep(10000);
    while (fills(fd)) usleep(1000);
    kill(shared->reader, SIGCONT);
    spins_to(READING);
    // And this to the ring, from where it cannot go back.
    if (is("ring")) puts_one(fd); else fills(fd);
    pid_t holder = is("both") ? fork() : 0;
    if (holder > 0) { spins_to(ENDED); usleep(20000); waitpid(holder, 0, 0); _exit(0); }
    shared->stage = WRITTEN;
    if (ends_by_itself()) {
        struct pollfd one = { fd, POLLIN, 0 };
        if (poll(&one, 1, 20000) != 1) FAIL("poll");
        if (is("killed") || is("ring")) kill(getpid(), SIGKILL);
        if (read(fd, buffer, 1) != 0) FAIL("no end");
        _exit(0);
    }
    if (shutdown(fd, SHUT_WR)) FAIL("shutdown");
    if (is("twice") && shutdown(fd, SHUT_WR)) FAIL("second shutdown");
    if (is("write") && (write(fd, buffer, 1) != -1 || errno != EPIPE)) FAIL("a write after it");
    shared->stage = ENDED;
    if (read(fd, buffer, 1) != 0) FAIL("no end");
    _exit(0);
}

static void reads(int fd)
{
    talk(fd, 0);
    shared->reader = getpid();
    shared->stage = ASLEEP;
    if (read(fd, buffer, 1) != 1 || buffer[0] != byte_at(0)) FAIL("read");
    pid_t heir = fork();
    if (heir > 0) {
        int status;
        if (waitpid(heir, &status, 0) != heir) FAIL("waitpid");
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    shared->stage = READING;
    spins_to(WRITTEN);
    uint64_t at = 1;
    int epoll = -1;
    struct epoll_event event = { EPOLLIN, { 0 } };
    if (ends_by_itself()) {
        if (shutdown(fd, SHUT_WR)) FAIL("shutdown");
        shared->stage = ENDED;
        // Until the writer has gone.
        usleep(200000);
    } else {
        spins_to(ENDED);
        epoll = epoll_create1(0);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) FAIL("epoll_ctl");
    }
    for (;;) {
        if (epoll >= 0 && epoll_wait(epoll, &event, 1, 20000) != 1) FAIL("epoll_wait");
        ssize_t n = read(fd, buffer, 5000);
        if (n < 0) FAIL("read at %llu of %llu", (unsigned long long)at, (unsigned long long)shared->written);
        for (ssize_t i = 0; i < n; i++)
            if (buffer[i] != byte_at(at + i)) FAIL("byte %llu is wrong", (unsigned long long)(at + i));
        at += n;
        if (n == 0) break;
    }
    if (at != shared->written) FAIL("an end after %llu of %llu", (unsigned long long)at, (unsigned long long)shared->written);
    _exit(0);
}

int main(int count, char **words)
{
    way = count > 1 ? words[1] : "half";
    signal(SIGPIPE, SIG_IGN);
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    pid_t ends[2];
    for (int end = 0; end < 2; end++) {
        if ((ends[end] = fork()) != 0) continue;
        if (end == 0) fd = accept(listener, 0, 0);
        else if (connect(fd = socket(AF_INET, SOCK_STREAM, 0), (void *)&name, sizeof name)) FAIL("connect");
        close(listener);
        if (end == 0) writes(fd); else reads(fd);
    }
    int failed = 0;
    for (int end = 0, status; end < 2; end++) {
        if (waitpid(ends[end], &status, 0) != ends[end]) FAIL("waitpid");
        // The writer's process.
        if (end == 0 && (is("killed") || is("ring")) && WIFSIGNALED(status)) status = 0;
        failed |= status;
    }
    if (failed) return 1;
    printf("all %llu bytes came before the end\n", (unsigned long long)shared->written);
    return 0;
}
