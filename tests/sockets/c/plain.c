/* Calls that every C library has. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void said(const char *what, long result) { printf("%s: %ld%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerror(errno) : ""); }

static void *other(void *argument)
{
    int *pair = argument;
    char room[8];
    said("in a thread", read(pair[1], room, 8));
    return NULL;
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int pair[2], status;
    char room[64];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    said("bind", bind(listener, (struct sockaddr *)&address, sizeof address));
    said("listen", listen(listener, 4));
    said("getsockname", getsockname(listener, (struct sockaddr *)&address, &length));
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    said("connect", connect(pair[0], (struct sockaddr *)&address, sizeof address));
    pair[1] = accept(listener, NULL, NULL);
    for (int turn = 0; turn < 10; turn++)
        if (send(pair[0], "abc", 3, 0) != 3 || recv(pair[1], room, 8, 0) != 3)
            return 1;
    said("send", send(pair[0], "abc", 3, 0));
    struct pollfd one = {pair[1], POLLIN, 0};
    said("poll", poll(&one, 1, 1000));
    pthread_t thread;
    pthread_create(&thread, NULL, other, pair);
    pthread_join(thread, NULL);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    said("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, pair[1], &event));
    said("epoll_wait", epoll_wait(epoll, &event, 1, 0));
    said("dup2", dup2(pair[0], 50));
    said("fcntl", fcntl(50, F_GETFD));
    said("close", close(50));
    said("close", close(50));
    pid_t child = fork();
    if (child == 0)
        _exit(write(pair[0], "child", 5) == 5 ? 7 : 8);
    said("waitpid", waitpid(child, &status, 0) - child);
    said("status", WEXITSTATUS(status));
    said("read", read(pair[1], room, 64));
    child = vfork();
    if (child == 0) {
        close(pair[1]);
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    waitpid(child, &status, 0);
    said("vfork", status);
    FILE *stream = fdopen(dup(pair[0]), "w");
    fprintf(stream, "hello\n");
    fclose(stream);
    stream = fdopen(pair[1], "r");
    printf("stream: %s", fgets(room, sizeof room, stream));
    stream = popen("echo from a pipe", "r");
    printf("popen: %s", fgets(room, sizeof room, stream));
    said("pclose", pclose(stream));
    said("system", system("exit 3"));
    said("syscall", syscall(SYS_close, 50));
    return 0;
}
