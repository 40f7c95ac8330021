// A writer that does not sleep in a wait for its connection returns what its reader wants back: visits.c WAY
//
// The reader copies its descriptor with bytes unread, for which those go back to the kernel, and reads them by the copy. The writer
// meanwhile looks at another descriptor, or at the same connection (`same`), in one way again and again; or it waits for the connection
// in a call that the library does not carry out (`splice`), or for a child which looks at it (`child`). With `ready poll` and its like it
// waits, and always finds something at once. With `recvmmsg` the reader takes
// the bytes by that, and the writer makes no call.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAIL(what) do { fprintf(stderr, "%s: %s\n", what, strerror(errno)); _exit(1); } while (0)
enum { LENGTH = 100, ROUNDS = 20 };

// Rounds that the reader has read; both have it.
static volatile int *told;

// Looks at a descriptor that stays without bytes, or at the connection, without waiting.
static void look(const char *way, int fd, int epoll, int connection)
{
    static int listener = -1, ends[2];
    struct pollfd one = { fd, POLLIN, 0 };
    struct epoll_event event;
    struct timeval none = { 0, 0 };
    fd_set set;
    char byte;
    int there;
    if (!strcmp(way, "poll")) poll(&one, 1, 0);
    if (!strcmp(way, "epoll")) epoll_wait(epoll, &event, 1, 0);
    if (!strcmp(way, "recv")) recv(fd, &byte, 1, MSG_DONTWAIT);
    if (!strcmp(way, "same")) recv(connection, &byte, 1, MSG_DONTWAIT);
    if (!strcmp(way, "FIONREAD")) ioctl(connection, FIONREAD, &there);
    if (!strcmp(way, "nothing")) send(connection, "", 0, 0);
    if (!strcmp(way, "select")) { FD_ZERO(&set); FD_SET(fd, &set); select(fd + 1, &set, 0, 0, &none); }
    if (!strcmp(way, "ready poll")) { one.events = POLLOUT; poll(&one, 1, -1); }
    if (!strcmp(way, "ready select")) { FD_ZERO(&set); FD_SET(fd, &set); select(fd + 1, 0, &set, 0, 0); }
    if (!strcmp(way, "ready epoll")) {
        struct epoll_event room = { EPOLLOUT, { .fd = 0 } };
        epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &room);
        epoll_wait(epoll, &event, 1, -1);
    }
    if (!strcmp(way, "accept")) {
        if (listener < 0 && ((listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) < 0 || listen(listener, 1))) FAIL("listen");
        accept(listener, NULL, NULL);
    }
    // SPLICE_F_NONBLOCK is not of the connection: it waits until the reader has closed it.
    if (!strcmp(way, "splice")) {
        if (!ends[1] && pipe(ends)) FAIL("pipe");
        splice(connection, NULL, ends[1], NULL, 1, SPLICE_F_NONBLOCK);
    }
}

static void writer(const char *way, const struct sockaddr_in *name)
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
        if (!strcmp(way, "child")) {
            pid_t child = fork();
            if (!child) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                while (*told <= round) recv(fd, &byte, 1, MSG_DONTWAIT);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        }
        while (*told <= round) look(way, quiet[0], epoll, fd);
        close(fd);
    }
    _exit(0);
}

// Reads all of it by a copy of the descriptor.
static void read_by_copy(int fd, char some[LENGTH])
{
    int copy = dup(fd);
    for (ssize_t done = 0, n; done < LENGTH; done += n)
        if ((n = read(copy, some + done, LENGTH - done)) <= 0) FAIL("read by the copy");
    close(copy);
}

// Reads all of it as messages of a third and what is left.
static void read_several(int fd, char some[LENGTH])
{
    for (int done = 0; done < LENGTH;) {
        struct iovec parts[2] = { { some + done, (LENGTH - done + 2) / 3 } };
        parts[1] = (struct iovec){ some + done + parts[0].iov_len, LENGTH - done - parts[0].iov_len };
        struct mmsghdr both[2] = { { .msg_hdr = { .msg_iov = &parts[0], .msg_iovlen = 1 } }, { .msg_hdr = { .msg_iov = &parts[1], .msg_iovlen = 1 } } };
        int got = recvmmsg(fd, both, parts[1].iov_len ? 2 : 1, MSG_WAITFORONE, NULL);
        if (got <= 0 || !both[0].msg_len) FAIL("recvmmsg");
        if (got == 2 && both[0].msg_len != parts[0].iov_len) FAIL("a message behind one that is not full");
        done += both[0].msg_len + (got == 2 ? both[1].msg_len : 0);
    }
}

int main(int count, char **arguments)
{
    const char *way = arguments[count - 1];
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    char some[LENGTH];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&name, length) || listen(listener, 9) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) FAIL("mmap");
    pid_t child = fork();
    if (!child) { close(listener); writer(way, &name); }
    for (int round = 0; round < ROUNDS; round++) {
        int fd = accept(listener, 0, 0), there = 0;
        if (fd < 0 || write(fd, "a", 1) != 1) FAIL("accept");
        while (there < LENGTH) if (ioctl(fd, FIONREAD, &there)) FAIL("FIONREAD");
        if (strcmp(way, "recvmmsg")) read_by_copy(fd, some); else read_several(fd, some);
        for (int i = 0; i < LENGTH; i++) if (some[i] != (char)round) FAIL("wrong bytes");
        *told = round + 1;
        close(fd);
    }
    int status;
    waitpid(child, &status, 0);
    if (status) FAIL("the writer");
    printf("all came\n");
    return 0;
}
