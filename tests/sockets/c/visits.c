// A writer that never sleeps returns what its reader wants back: visits.c poll|epoll|select|recv|same
//
// It looks at another descriptor, or at the same connection (`same`).
//
// The reader copies its descriptor with bytes unread, for which those go back to the kernel, and reads them by the copy.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAIL(what) do { fprintf(stderr, "%s: %s\n", what, strerror(errno)); _exit(1); } while (0)
enum { LENGTH = 100, ROUNDS = 20 };

// Looks at a descriptor that stays without bytes, or at the connection, without waiting.
static void look(const char *way, int fd, int epoll, int connection)
{
    struct pollfd one = { fd, POLLIN, 0 };
    struct epoll_event event;
    struct timeval none = { 0, 0 };
    fd_set set;
    char byte;
    if (!strcmp(way, "poll")) poll(&one, 1, 0);
    if (!strcmp(way, "epoll")) epoll_wait(epoll, &event, 1, 0);
    if (!strcmp(way, "recv")) recv(fd, &byte, 1, MSG_DONTWAIT);
    if (!strcmp(way, "same")) recv(connection, &byte, 1, MSG_DONTWAIT);
    if (!strcmp(way, "select")) { FD_ZERO(&set); FD_SET(fd, &set); select(fd + 1, &set, 0, 0, &none); }
}

static void writer(const char *way, const struct sockaddr_in *name, const int pair[2])
{
    char some[LENGTH], byte;
    struct epoll_event event = { EPOLLIN, { .fd = 0 } };
    int quiet[2], epoll = epoll_create1(EPOLL_CLOEXEC);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, quiet)) FAIL("socketpair");
    epoll_ctl(epoll, EPOLL_CTL_ADD, quiet[0], &event);
    // It would look for ever if the reader failed.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int round = 0; round < ROUNDS; round++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (const void *)name, sizeof *name)) FAIL("connect");
        // An answer, so that both ends have used it.
        if (read(fd, &byte, 1) != 1) FAIL("read");
        memset(some, round, LENGTH);
        if (write(fd, some, LENGTH) != LENGTH) FAIL("write");
        for (int told = 0; !told; ioctl(pair[1], FIONREAD, &told)) look(way, quiet[0], epoll, fd);
        if (read(pair[1], &byte, 1) != 1) FAIL("read from the reader");
        close(fd);
    }
    _exit(0);
}

int main(int count, char **arguments)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    char some[LENGTH];
    int listener = socket(AF_INET, SOCK_STREAM, 0), pair[2];
    if (bind(listener, (void *)&name, length) || listen(listener, 9) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) FAIL("socketpair");
    pid_t child = fork();
    if (!child) { close(listener); writer(arguments[count - 1], &name, pair); }
    for (int round = 0; round < ROUNDS; round++) {
        int fd = accept(listener, 0, 0), there = 0, done = 0;
        if (fd < 0 || write(fd, "a", 1) != 1) FAIL("accept");
        while (there < LENGTH) if (ioctl(fd, FIONREAD, &there)) FAIL("FIONREAD");
        int copy = dup(fd);
        while (done < LENGTH) {
            ssize_t n = read(copy, some + done, LENGTH - done);
            if (n <= 0) FAIL("read by the copy");
            done += n;
        }
        for (int i = 0; i < LENGTH; i++) if (some[i] != (char)round) FAIL("wrong bytes");
        if (write(pair[0], "b", 1) != 1) FAIL("write to the writer");
        close(copy);
        close(fd);
    }
    int status;
    waitpid(child, &status, 0);
    if (status) FAIL("the writer");
    printf("all came\n");
    return 0;
}
