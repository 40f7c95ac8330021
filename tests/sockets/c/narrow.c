// Narrow cases that random programs have shown, one each: narrow.c spliced|dupped|added|wrong. Ends with 0 if it is as the kernel has it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int a, b;

static void connects(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    bind(listener, (void *)&name, length);
    listen(listener, 1);
    getsockname(listener, (void *)&name, &length);
    a = socket(AF_INET, SOCK_STREAM, 0);
    connect(a, (void *)&name, length);
    b = accept(listener, 0, 0);
    close(listener);
}

static int is(const char *what, long found, long right)
{
    printf("%s: %ld, right is %ld\n", what, found, right);
    return found == right;
}

// A reset that `splice` is told of: what was read before is not read again.
static int spliced(void)
{
    char bytes[4];
    int way[2];
    struct linger at_once = { 1, 0 };
    if (pipe(way)) return 0;
    setsockopt(a, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    write(a, "wxyz", 4);
    close(a);
    return is("read", read(b, bytes, 4), 4) & is("splice", splice(b, 0, way[1], 0, 4, 0), -1) & is("errno", errno, ECONNRESET)
        & is("read again", read(b, bytes, 4), 0);
}

// An end that has shut down its reading half copies its descriptor, with bytes of another process unread: it still writes.
static int dupped(void)
{
    sem_t *turns = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) sem_init(&turns[i], 1, 0);
    signal(SIGPIPE, SIG_IGN);
    pid_t child = fork();
    if (!child) {
        shutdown(a, SHUT_RD);
        close(b);
        sem_post(&turns[0]);
        sem_wait(&turns[1]);
        int copy = dup(a), is_right = copy >= 0 && is("write", write(a, "efgh", 4), 4);
        fflush(stdout);
        sem_post(&turns[2]);
        _exit(!is_right);
    }
    sem_wait(&turns[0]);
    write(b, "abcd", 4);
    sem_post(&turns[1]);
    sem_wait(&turns[2]);
    int status;
    waitpid(child, &status, 0);
    return status == 0;
}

static int epoll;

static void *sleeps(void *found)
{
    struct epoll_event events[4];
    *(int *)found = epoll_wait(epoll, events, 4, 10000);
    return 0;
}

// A connection with bytes is added to an epoll in which a thread sleeps.
static int added(void)
{
    int found = -9;
    struct epoll_event event = { .events = EPOLLIN };
    pthread_t sleeper;
    epoll = epoll_create1(0);
    pthread_create(&sleeper, 0, sleeps, &found);
    usleep(100000);
    write(a, "abcd", 4);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    pthread_join(sleeper, 0);
    return is("events", found, 1);
}

// A wait in no epoll, with a connection that has been taken out of one.
static int wrong(void)
{
    struct epoll_event event = { .events = EPOLLIN }, events[4];
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    epoll_ctl(epoll, EPOLL_CTL_DEL, b, 0);
    write(a, "abcd", 4);
    return is("events", epoll_wait(-1, events, 4, 0), -1) & is("errno", errno, EBADF);
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    connects();
    int is_right = !strcmp(what, "spliced") ? spliced() : !strcmp(what, "dupped") ? dupped() : !strcmp(what, "added") ? added() : !strcmp(what, "wrong") && wrong();
    return !is_right;
}
