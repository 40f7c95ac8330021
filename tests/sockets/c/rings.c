// Two processes and a connection between them, of which every byte is checked: rings.c WAY
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAIL(...) do { fprintf(stderr, "%s: ", way); fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)

static const char *way;
static uint64_t state = 88172645463325252ull;
static unsigned below(unsigned n) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state % n; }
static unsigned char byte_at(uint64_t at) { return (unsigned char)(at * 2654435761u >> 13); }
static void fill(unsigned char *to, uint64_t at, size_t n) { for (size_t i = 0; i < n; i++) to[i] = byte_at(at + i); }
static void check(const unsigned char *got, uint64_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (got[i] != byte_at(at + i)) FAIL("byte %llu is wrong", (unsigned long long)(at + i));
}

static unsigned char buffer[1 << 17];
static int epoll = -1;

static void waits(int fd, short events)
{
    if (!strcmp(way, "poll")) {
        struct pollfd one = { fd, events, 0 };
        if (poll(&one, 1, 20000) != 1) FAIL("poll");
    } else if (!strcmp(way, "select")) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        struct timeval limit = { 20, 0 };
        if (select(fd + 1, events & POLLIN ? &set : 0, events & POLLOUT ? &set : 0, 0, &limit) != 1) FAIL("select");
    } else {
        struct epoll_event event = { (events & POLLIN ? EPOLLIN : 0) | (events & POLLOUT ? EPOLLOUT : 0), { .fd = fd } }, got;
        if (!strcmp(way, "edge")) {
            if (epoll < 0) {
                epoll = epoll_create1(0);
                event.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP;
                if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) FAIL("epoll_ctl");
            }
        } else if (epoll < 0) {
            epoll = epoll_create1(0);
            if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) FAIL("epoll_ctl");
        } else if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event)) FAIL("epoll_ctl");
        if (epoll_wait(epoll, &got, 1, 20000) != 1) FAIL("epoll_wait");
    }
}

static int blocks(void) { return !strcmp(way, "block") || !strcmp(way, "apart") || !strcmp(way, "kill") || !strcmp(way, "exec") || !strcmp(way, "half"); }

static ssize_t some(int fd, size_t most)
{
    for (int told = 0;;) {
        ssize_t got;
        switch (below(3)) {
        case 0: got = read(fd, buffer, most); break;
        case 1: got = recv(fd, buffer, most, 0); break;
        default: {
            struct iovec parts[2] = { { buffer, most / 3 }, { buffer + most / 3, most - most / 3 } };
            got = readv(fd, parts, 2);
        }
        }
        if (got >= 0 || errno != EAGAIN) return got;
        // What is told is there: nobody else reads it. An edge may be one of room.
        if (told && strcmp(way, "edge")) FAIL("told of bytes, and there are none");
        waits(fd, POLLIN);
        told = 1;
    }
}

static ssize_t from_file(int fd, size_t done, size_t n)
{
    static int file = -1;
    if (file < 0) file = memfd_create("bytes", 0);
    if (pwrite(file, buffer + done, n - done, 77) != (ssize_t)(n - done)) FAIL("pwrite");
    off_t at = 77;
    ssize_t sent = sendfile(fd, file, &at, n - done);
    if (at != 77 + (sent < 0 ? 0 : sent)) FAIL("sendfile sent %zd and is at %ld", sent, (long)at);
    // What comes behind it is not sent.
    if (ftruncate(file, 0)) FAIL("ftruncate");
    return sent;
}

// A connection takes no notice of where it is told to send to.
static ssize_t named(int fd, size_t done, size_t n)
{
    struct sockaddr_in name = { .sin_family = AF_INET };
    struct iovec part = { buffer + done, n - done };
    struct msghdr message = { .msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &part, .msg_iovlen = 1 };
    return below(2) ? sendto(fd, buffer + done, n - done, MSG_NOSIGNAL, (void *)&name, sizeof name) : sendmsg(fd, &message, 0);
}

static void all(int fd, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t sent = !strcmp(way, "file") ? from_file(fd, done, n) : !strcmp(way, "apart") ? named(fd, done, n) : below(2) ? write(fd, buffer + done, n - done) : send(fd, buffer + done, n - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) { waits(fd, POLLOUT); continue; }
        if (sent <= 0) FAIL("write");
        done += sent;
    }
}

// Each answers what the other one says: sizes of all kinds.
static void talk(int fd, int begins, int rounds)
{
    uint64_t sent = 0, got = 0;
    for (int round = 0; round < rounds; round++) {
        // Both know all sizes.
        unsigned size = round % 50 == 49 ? 1 + (round * 7919u) % 100000 : 1 + (round * 7919u) % 200;
        for (int turn = 0; turn < 2; turn++) {
            if (turn != begins) { fill(buffer, sent, size); all(fd, size); sent += size; continue; }
            for (unsigned done = 0; done < size;) {
                ssize_t n = some(fd, size - done);
                if (n <= 0) FAIL("read");
                check(buffer, got, n);
                got += n;
                done += n;
            }
        }
    }
}

int main(int count, char **words)
{
    way = words[1];
    if (count > 2) {
        // Executed in the place of the other program: goes on reading where that stopped.
        int fd = atoi(words[2]);
        uint64_t at = strtoull(words[3], 0, 10), end = strtoull(words[4], 0, 10);
        while (at < end) {
            ssize_t n = read(fd, buffer, sizeof buffer);
            if (n <= 0) FAIL("after exec: read at %llu", (unsigned long long)at);
            check(buffer, at, n);
            at += n;
        }
        puts("the executed program got the rest");
        return 0;
    }
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 4) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    pid_t child = fork();
    if (child == 0) {
        close(listener);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)&name, sizeof name)) FAIL("connect");
        state += 12345;
    } else {
        fd = accept(listener, 0, 0);
        if (fd < 0) FAIL("accept");
    }
    if (!strcmp(way, "apart")) {
        // On two processors, where there are two.
        cpu_set_t all, one;
        if (sched_getaffinity(0, sizeof all, &all)) FAIL("sched_getaffinity");
        CPU_ZERO(&one);
        for (int cpu = 0, left = child == 0 && CPU_COUNT(&all) > 1; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
            if (CPU_ISSET(cpu, &all) && left-- == 0) CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one)) FAIL("sched_setaffinity");
    }
    if (!blocks()) fcntl(fd, F_SETFL, O_NONBLOCK);
    if (strcmp(way, "stream")) talk(fd, child == 0, 2000);
    else waits(fd, POLLOUT);
    if (!strcmp(way, "stream")) {
        // More than rings and buffers hold, at the speed of who is slower.
        uint64_t at = 0, end = 64 << 20;
        if (child == 0) {
            while (at < end) {
                size_t n = 1 + below(sizeof buffer - 1);
                if (n > end - at) n = end - at;
                fill(buffer, at, n);
                all(fd, n);
                at += n;
            }
            shutdown(fd, SHUT_WR);
            if (some(fd, 1) != 0) FAIL("no end");
        } else {
            for (ssize_t n; (n = some(fd, 1 + below(sizeof buffer - 1))) != 0; at += n) {
                if (n < 0) FAIL("read");
                check(buffer, at, n);
                if (below(500) == 0) usleep(3000);
            }
            if (at != end) FAIL("an end after %llu", (unsigned long long)at);
        }
    } else if (!strcmp(way, "kill") && child == 0) {
        // Written is written, whatever becomes of the writer.
        fill(buffer, 0, 3000);
        all(fd, 3000);
        kill(getpid(), SIGKILL);
    } else if (!strcmp(way, "kill")) {
        uint64_t at = 0;
        usleep(20000);
        for (ssize_t n; (n = some(fd, 700)) > 0; at += n) check(buffer, at, n);
        if (at != 3000) FAIL("an end after %llu", (unsigned long long)at);
    } else if (!strcmp(way, "half") && child == 0) {
        fill(buffer, 0, 5000);
        all(fd, 5000);
        shutdown(fd, SHUT_WR);
        uint64_t at = 0;
        for (ssize_t n; (n = some(fd, 999)) > 0; at += n) check(buffer, at, n);
        if (at != 7000) FAIL("an end after %llu", (unsigned long long)at);
    } else if (!strcmp(way, "half")) {
        uint64_t at = 0;
        for (ssize_t n; (n = some(fd, 999)) > 0; at += n) check(buffer, at, n);
        if (at != 5000) FAIL("an end after %llu", (unsigned long long)at);
        fill(buffer, 0, 7000);
        all(fd, 7000);
    } else if (!strcmp(way, "exec") && child == 0) {
        fill(buffer, 0, 9000);
        all(fd, 9000);
        if (some(fd, 1) != 0) FAIL("no end");
    } else if (!strcmp(way, "exec")) {
        if (some(fd, 100) != 100) FAIL("read");
        check(buffer, 0, 100);
        char number[16];
        snprintf(number, sizeof number, "%d", fd);
        execl(words[0], words[0], way, number, "100", "9000", (char *)0);
        FAIL("exec");
    }
    close(fd);
    if (child == 0) return 0;
    int status;
    if (waitpid(child, &status, 0) != child) FAIL("waitpid");
    if (strcmp(way, "kill") ? status != 0 : !WIFSIGNALED(status)) FAIL("the other end: %d", status);
    puts("every byte came, once and in order");
    return 0;
}
