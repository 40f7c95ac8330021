/* Epolls that have several descriptors: a member is registered by one of them, and shows by each, whatever becomes of the one.

   The writer is this process, and writes before each wait: what is in a ring then, nobody tells the kernel. */
#include "say.h"
#include <aio.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { IN = EPOLLIN, ROUNDS = 2000 };

static int ends[2];

static int adds(int epoll, int fd)
{
    struct epoll_event event = {.events = IN, .data.u64 = 7};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int waits(int epoll)
{
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, 0);
}

static void writes(int fd)
{
    if (write(fd, "x", 1) != 1)
        _exit(97);
}

/* A connection, one end of which is registered before there is any; and what becomes of the copy by which it is. */
static int begins(int epoll)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, length) || listen(listener, 1) || getsockname(listener, (void *)&address, &length))
        _exit(95);
    adds(epoll, ends[0]);
    return listener;
}

static void connects(int listener)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    getsockname(listener, (void *)&address, &length);
    if (connect(ends[0], (void *)&address, length))
        _exit(94);
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
}

static void takes(void)
{
    char byte;
    if (recv(ends[0], &byte, 1, MSG_DONTWAIT) != 1)
        say("nothing to take\n");
}

/* The copy is closed; its number becomes another epoll. */
static void closed(void)
{
    int epoll = epoll_create1(0), copy = dup(epoll), listener = begins(copy), other;
    close(copy);
    connects(listener);
    other = epoll_create1(0);
    for (int round = 0; round < 3; round++) {
        writes(ends[1]);
        say("closed copy: %d, another epoll: %d\n", waits(epoll), waits(other));
        takes();
    }
    close(other), close(epoll), close(ends[0]), close(ends[1]);
}

/* What the library knew of the descriptor is forgotten before it is copied. */
static void doubted(void)
{
    int epoll = epoll_create1(0), copy, pipe[2];
    tcp(ends);
    syscall(SYS_pipe2, pipe, 0);
    copy = dup(epoll);
    adds(epoll, ends[0]);
    writes(ends[1]);
    say("doubted: %d\n", waits(copy));
    close(copy), close(epoll), close(ends[0]), close(ends[1]), close(pipe[0]), close(pipe[1]);
}

/* Deleted by another descriptor than it was registered by. */
static void deleted(void)
{
    int epoll = epoll_create1(0), copy = dup(epoll), listener = begins(copy);
    connects(listener);
    writes(ends[1]);
    say("deleted: %d\n", epoll_ctl(epoll, EPOLL_CTL_DEL, ends[0], NULL));
    say("by the first: %d, by the copy: %d\n", waits(epoll), waits(copy));
    close(copy), close(epoll), close(ends[0]), close(ends[1]);
}

static pthread_barrier_t both;
static int shared, member;

static void *copies(void *copy)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&both);
        *(int *)copy = dup(shared);
        pthread_barrier_wait(&both);
        pthread_barrier_wait(&both);
    }
    return NULL;
}

/* Copied and registered at once. */
static void races(void)
{
    int copy, lost = 0;
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, copies, &copy);
    for (int round = 0; round < ROUNDS; round++) {
        shared = epoll_create1(0);
        tcp(ends);
        member = ends[0];
        pthread_barrier_wait(&both);
        adds(shared, member);
        pthread_barrier_wait(&both);
        writes(ends[1]);
        lost += waits(copy) != 1;
        close(copy), close(shared), close(ends[0]), close(ends[1]);
        pthread_barrier_wait(&both);
    }
    pthread_join(thread, NULL);
    say("lost of races: %d\n", lost);
}

static void *sleeps(void *epoll)
{
    struct epoll_event event;
    return (void *)(intptr_t)epoll_wait(*(int *)epoll, &event, 1, 3000);
}

/* A thread sleeps in an epoll that is closed, and its number becomes another one's: who sleeps in that is counted right. */
static void reused(void)
{
    int first = epoll_create1(0), second, wakes = eventfd(0, 0);
    void *told;
    pthread_t thread;
    adds(first, wakes);
    pthread_create(&thread, NULL, sleeps, &first);
    usleep(100000);
    close(first);
    second = epoll_create1(0);
    if (write(wakes, "12345678", 8) != 8)
        _exit(93);
    pthread_join(thread, &told);
    say("same number: %d, told: %d\n", second == first, (int)(intptr_t)told);
    tcp(ends);
    pthread_create(&thread, NULL, sleeps, &second);
    usleep(100000);
    adds(second, ends[0]);
    writes(ends[1]);
    pthread_join(thread, &told);
    say("told: %d\n", (int)(intptr_t)told);
    close(wakes), close(second), close(ends[0]), close(ends[1]);
}

/* A list with a place without a block concerns the descriptors of the blocks alone, and not what a process has written that computes. */
static void listed(void)
{
    int others[2];
    char bytes[8];
    struct aiocb block = {.aio_buf = bytes, .aio_nbytes = 1, .aio_lio_opcode = LIO_READ};
    struct aiocb *list[2] = {NULL, &block};
    tcp(ends), tcp(others);
    block.aio_fildes = others[0];
    pid_t computes = fork();
    if (computes == 0) {
        writes(ends[1]);
        for (volatile int i = 0;; i++)
            if (getppid() == 1)
                _exit(0);
    }
    close(ends[1]);
    while (recv(ends[0], bytes, 1, MSG_PEEK) != 1) {
    }
    writes(others[1]);
    say("listed: %d", lio_listio(LIO_WAIT, list, 2, NULL));
    say(", read %zd", aio_return(&block));
    say("; beside it: %zd\n", read(ends[0], bytes, sizeof bytes));
    kill(computes, SIGKILL);
    waitpid(computes, NULL, 0);
    close(ends[0]), close(others[0]), close(others[1]);
}

int main(void)
{
    closed();
    doubted();
    deleted();
    races();
    reused();
    listed();
    say("== through\n");
    return 0;
}
