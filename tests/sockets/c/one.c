// Both ends of twenty connections in one thread, each used a few times: one.c
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)

static void say(int from, int to, int round, size_t length)
{
    unsigned char bytes[3000], got[3000];
    for (size_t i = 0; i < length; i++) bytes[i] = round * 31 + i;
    if (send(from, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) FAIL("send");
    for (size_t done = 0; done < length;) {
        struct pollfd one = { to, POLLIN, 0 };
        if (round % 3 == 0 && poll(&one, 1, 10000) != 1) FAIL("poll");
        ssize_t n = recv(to, got + done, sizeof got - done, round % 3 == 1 ? MSG_DONTWAIT : 0);
        if (n < 0 && errno == EAGAIN && round % 3 == 1) continue;
        if (n <= 0) FAIL("recv after %zu", done);
        done += n;
    }
    if (memcmp(bytes, got, length)) FAIL("a byte is wrong");
}

int main(void)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    for (int connection = 0; connection < 20; connection++) {
        int here = socket(AF_INET, SOCK_STREAM, 0), there;
        char end;
        if (connect(here, (void *)&name, sizeof name) || (there = accept(listener, 0, 0)) < 0) FAIL("connect");
        for (int round = 0; round < 6; round++) {
            say(here, there, round, 1 + round * 500);
            say(there, here, round, 1 + round * 300);
        }
        if (connection % 2) {
            close(here);
            if (read(there, &end, 1) != 0) FAIL("no end");
            close(there);
        } else {
            if (shutdown(there, SHUT_WR) || read(here, &end, 1) != 0) FAIL("no end");
            close(there);
            close(here);
        }
    }
    printf("every byte came\n");
    return 0;
}
