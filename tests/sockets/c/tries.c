// Writes that do not wait, behind which the writer makes no further call on the connection: tries.c WAY [SEED]
#include "say.h"

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); exit(1); } while (0)

static unsigned long state;

static unsigned below(unsigned limit)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) % limit;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void does_not_wait(int fd)
{
    if (fcntl(fd, F_SETFL, O_NONBLOCK)) FAIL("fcntl");
}

static int listens(struct sockaddr_in *name)
{
    socklen_t length = sizeof *name;
    *name = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)name, length) || listen(listener, 8) || getsockname(listener, (void *)name, &length)) FAIL("listen");
    return listener;
}

static char bytes[1 << 20];

// Everything that was written until the kernel took no more comes, though the reader looks without waiting.
static int rest(void)
{
    struct sockaddr_in name;
    int listener = listens(&name), here = socket(AF_INET, SOCK_STREAM, 0), there;
    if (connect(here, (void *)&name, sizeof name) || (there = accept(listener, 0, 0)) < 0) FAIL("connect");
    for (int round = 0; round < 60; round++)
        if (write(here, "?", 1) != 1 || read(there, bytes, 1) != 1 || write(there, "!", 1) != 1 || read(here, bytes, 1) != 1) FAIL("join");
    does_not_wait(here), does_not_wait(there);
    size_t written = 0, got = 0;
    for (ssize_t count; (count = write(here, bytes, 100000)) > 0;) written += count;
    if (errno != EAGAIN) FAIL("write");
    for (double end = now() + 30; got < written && now() < end;) {
        ssize_t count = recv(there, bytes, 1 << 16, 0);
        if (count > 0) got += count;
        else if (count == 0 || errno != EAGAIN) FAIL("recv");
    }
    if (got != written) FAIL("%zu bytes were written, %zu came", written, got);
    return 0;
}

static void reads(struct sockaddr_in *name, int connections)
{
    for (state += 99; connections--;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)name, sizeof *name)) FAIL("connect");
        if (write(fd, "all of it", 9) != 9) FAIL("ask");
        does_not_wait(fd);
        unsigned kind = below(3);
        for (ssize_t count;;) {
            count = recv(fd, bytes, kind == 0 ? 16384 : kind == 1 ? 102400 : 1 + below(200000), 0);
            if (count == 0) break;
            struct pollfd one = { fd, POLLIN, 0 };
            if (count < 0 && errno != EAGAIN) FAIL("recv");
            if (count < 0) poll(&one, 1, 1000);
            else if (below(300) == 0) usleep(below(3000));
        }
        close(fd);
    }
    exit(0);
}

// Who takes a short write for a full kernel is told by an edge when there is room again.
static int edges(void)
{
    enum { CONNECTIONS = 40 };
    struct sockaddr_in name;
    int listener = listens(&name), epoll = epoll_create1(0), part = 0;
    pid_t reader = fork();
    if (!reader) reads(&name, CONNECTIONS);
    for (int connection = 0; connection < CONNECTIONS; connection++) {
        int fd = accept4(listener, 0, 0, SOCK_NONBLOCK);
        struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
        if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) FAIL("accept");
        while (recv(fd, bytes, 4096, 0) < 0) if (epoll_wait(epoll, &event, 1, 20000) < 1) FAIL("no question");
        unsigned kind = below(3);
        for (size_t left = 1000000 + below(8000000); left;) {
            size_t piece = kind == 0 ? 4096 : kind == 1 ? 65536 : 1 + below(300000);
            if (piece > left) piece = left;
            ssize_t count = send(fd, bytes, piece, 0);
            if (count < 0 && errno != EAGAIN) FAIL("send");
            if (count > 0) left -= count;
            if (count == (ssize_t)piece) continue;
            part += count > 0;
            for (event.events = 0; !(event.events & EPOLLOUT);)
                if (epoll_wait(epoll, &event, 1, 20000) < 1) {
                    kill(reader, SIGKILL);
                    FAIL("no edge, with %zu bytes left of connection %d, after %d short writes", left, connection, part);
                }
        }
        close(fd);
    }
    int status;
    if (waitpid(reader, &status, 0) != reader || status) FAIL("the reader failed");
    return 0;
}

int main(int count, char **words)
{
    state = (count > 2 ? atol(words[2]) : 1) * 77 + 13;
    int failed = count > 1 && !strcmp(words[1], "edges") ? edges() : rest();
    if (!failed) puts("every byte came");
    return failed;
}
