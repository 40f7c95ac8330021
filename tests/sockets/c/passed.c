/* A server that hands its connections on to a worker, all over one UNIX socket, by sendmsg, sendmmsg and syscall. Each connection has answered before, and
   a request of it is unread when it is handed on, by a client that computes for a while from then on. The worker gets every byte of the requests, and the client every byte of the answers. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 4, REQUEST = 3000, ANSWER = 200000 };

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        _exit(1);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void write_all(int fd, const char *from, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t wrote = write(fd, from + done, length - done);
        must(wrote > 0, "write");
        done += wrote;
    }
}

static void read_all(int fd, char *to, size_t length, const char *what)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = read(fd, to + done, length - done);
        must(got > 0, what);
        done += got;
    }
}

static void check(const char *bytes, size_t length, int number, const char *what)
{
    for (size_t at = 0; at < length; at++)
        must(bytes[at] == (char)(at * 7 + number), what);
}

static void fill(char *bytes, size_t length, int number)
{
    for (size_t at = 0; at < length; at++)
        bytes[at] = (char)(at * 7 + number);
}

/* One that has nothing beside its byte; then two that hand a descriptor on, by the call of this round. */
static void pass(int way, int fd, int round)
{
    char byte = 'p';
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof fd)];
    } control;
    struct iovec part = {&byte, 1};
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = &part,
                                               .msg_iovlen = 1,
                                               .msg_control = &control,
                                               .msg_controllen = sizeof control.room}}};
    if (round % 3 == 1) {
        must(sendmmsg(way, messages, 2, 0) == 2, "sendmmsg");
        return;
    }
    must(sendmsg(way, &messages[0].msg_hdr, 0) == 1, "sendmsg");
    long sent = round % 3 == 0 ? sendmsg(way, &messages[1].msg_hdr, 0)
                               : syscall(SYS_sendmsg, way, &messages[1].msg_hdr, 0);
    must(sent == 1, "sendmsg of a descriptor");
}

static int take(int way)
{
    for (;;) {
        char byte;
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec part = {&byte, 1};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        must(recvmsg(way, &message, 0) == 1, "recvmsg");
        if (message.msg_controllen == 0)
            continue;
        int fd;
        memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
        return fd;
    }
}

static void works(int way)
{
    static char request[REQUEST], answer[ANSWER];
    for (int number = 0; number < CONNECTIONS; number++) {
        int fd = take(way);
        read_all(fd, request, sizeof request, "the worker's read");
        check(request, sizeof request, number, "a request is another");
        fill(answer, sizeof answer, number);
        write_all(fd, answer, sizeof answer);
        close(fd);
    }
    _exit(0);
}

static void asks(int listener)
{
    static char request[REQUEST], answer[ANSWER];
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    for (int number = 0; number < CONNECTIONS; number++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        must(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        char byte = 'x';
        for (int round = 0; round < 100; round++) {
            write_all(fd, &byte, 1);
            read_all(fd, &byte, 1, "an echo");
        }
        fill(request, sizeof request, number);
        write_all(fd, request, sizeof request);
        /* No call that anybody sees: the request stays where it was written. */
        for (double start = now(); now() - start < 0.5;)
            ;
        read_all(fd, answer, sizeof answer, "an answer");
        check(answer, sizeof answer, number, "an answer is another");
        must(read(fd, &byte, 1) == 0, "the end");
        close(fd);
    }
    _exit(0);
}

int main(void)
{
    alarm(120);
    int way[2], listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 4) == 0, "listen");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, way) == 0, "socketpair");
    pid_t worker = fork();
    if (worker == 0)
        works(way[1]);
    pid_t client = fork();
    if (client == 0)
        asks(listener);
    for (int number = 0; number < CONNECTIONS; number++) {
        int fd = accept(listener, NULL, NULL);
        char byte;
        for (int round = 0; round < 100; round++) {
            read_all(fd, &byte, 1, "a request");
            write_all(fd, &byte, 1);
        }
        /* Until the request has been written: to the ring, if there is one. */
        usleep(20000);
        pass(way[0], fd, number);
        close(fd);
    }
    int said[2];
    must(waitpid(worker, &said[0], 0) == worker && waitpid(client, &said[1], 0) == client, "waitpid");
    if (said[0] != 0 || said[1] != 0)
        return 1;
    printf("%d connections were handed on, and every byte came\n", CONNECTIONS);
    return 0;
}
