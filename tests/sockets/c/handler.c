// A signal handler that writes to the connection that its thread is just writing to: handler.c SECONDS
//
// The reader sleeps between most messages, so that what was put into the ring goes back to the kernel again and again: signals that come
// meanwhile are delivered at the end of that. Every byte that was written comes.
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)

static int the_fd;
// Of the handler, and of the rest of the program.
static volatile uint64_t handled;
static uint64_t written;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

static void handler(int signal)
{
    (void)signal;
    int before = errno;
    if (send(the_fd, "h", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) handled++;
    errno = before;
}

static void writes(int fd, double seconds)
{
    the_fd = fd;
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = { { 0, 70 }, { 0, 70 } }, never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &often, 0);
    char message[300];
    memset(message, 'm', sizeof message);
    for (double end = now() + seconds; now() < end;) {
        for (int i = 0; i < 50; i++) {
            ssize_t n = write(fd, message, 1 + (written * 7919) % 299);
            if (n <= 0) FAIL("write");
            written += n;
        }
    }
    setitimer(ITIMER_REAL, &never, 0);
    if (shutdown(fd, SHUT_WR)) FAIL("shutdown");
    uint64_t got;
    if (read(fd, &got, sizeof got) != sizeof got) FAIL("no answer");
    if (got != written + handled) FAIL("%llu and %llu bytes were written, %llu came", (unsigned long long)written, (unsigned long long)handled, (unsigned long long)got);
    printf("%llu bytes of the program and %llu of its handler came\n", (unsigned long long)written, (unsigned long long)handled);
}

static void reads(int fd)
{
    static char buffer[1 << 16];
    uint64_t got = 0;
    for (;;) {
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) FAIL("read");
        if (n == 0) break;
        got += n;
    }
    if (write(fd, &got, sizeof got) != sizeof got) FAIL("answer");
}

int main(int count, char **words)
{
    double seconds = count > 1 ? atof(words[1]) : 1;
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    pid_t child = fork();
    if (child == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)&name, sizeof name)) FAIL("connect");
        close(listener);
        reads(fd);
        _exit(0);
    }
    int fd = accept(listener, 0, 0), status;
    if (fd < 0) FAIL("accept");
    close(listener);
    writes(fd, seconds);
    if (waitpid(child, &status, 0) != child || status != 0) FAIL("the reader: %x", status);
    return 0;
}
