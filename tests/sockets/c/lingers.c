/* A thread sleeps in the close of a connection that lingers, because nobody reads what it has sent. The kernel gives the number to the next connection
   at once: that is used by another thread, and may not wait for the close. (The close ends with the other end's process, on a busy machine too.) */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 2000, LINGER_SECONDS = 600 };

static atomic_int is_closed;

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        _exit(1);
    }
}

static int connects(struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(fd >= 0 && connect(fd, (struct sockaddr *)address, sizeof *address) == 0, "connect");
    return fd;
}

static void echoes(int fd)
{
    char byte;
    while (read(fd, &byte, 1) == 1)
        must(write(fd, &byte, 1) == 1, "write");
}

static void turns(int fd)
{
    char byte = 'x';
    for (int turn = 0; turn < TURNS; turn++)
        must(write(fd, &byte, 1) == 1 && read(fd, &byte, 1) == 1, "a turn");
}

/* The other end of the first connection answers for some turns, and then reads nothing; that of the second one answers to its end. */
static void server(int listener)
{
    int first = accept(listener, NULL, NULL);
    char byte;
    for (int turn = 0; turn < TURNS; turn++)
        must(read(first, &byte, 1) == 1 && write(first, &byte, 1) == 1, "the server's turn");
    echoes(accept(listener, NULL, NULL));
    _exit(0);
}

static void *closes(void *which)
{
    close((int)(intptr_t)which);
    atomic_store(&is_closed, 1);
    return NULL;
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 9) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    pid_t child = fork();
    if (child == 0)
        server(listener);
    int first = connects(&address);
    turns(first);
    struct linger linger = {1, LINGER_SECONDS};
    must(setsockopt(first, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0, "SO_LINGER");
    static char much[1 << 16];
    while (send(first, much, sizeof much, MSG_DONTWAIT) > 0)
        continue;
    must(errno == EAGAIN, "send");
    pthread_t closer;
    must(pthread_create(&closer, NULL, closes, (void *)(intptr_t)first) == 0, "pthread_create");
    /* The number is free as soon as the close has begun. */
    while (fcntl(first, F_GETFD) >= 0)
        continue;
    int second = connects(&address);
    must(second == first, "the number is not used again");
    turns(second);
    int was_closed = atomic_load(&is_closed);
    close(second);
    pthread_join(closer, NULL);
    int said;
    must(waitpid(child, &said, 0) == child, "waitpid");
    printf("the next connection was used %s the close\n", was_closed ? "only after" : "during");
    return was_closed || said != 0;
}
