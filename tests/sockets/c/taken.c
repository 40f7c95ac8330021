/* What a call was given may be gone before the call is back, or may never have been there. */
#include "say.h"

enum { ROUNDS = 20000, PAGE = 4096 };

static int ends[2];

/* Unmaps each message as soon as its bytes have come: they say where it lies. */
static void *taker(void *unused)
{
    void *page;
    while (read(ends[1], &page, sizeof page) == sizeof page && page != NULL)
        munmap(page, PAGE);
    return unused;
}

static void taken_away(void)
{
    pthread_t thread;
    void *none = NULL;
    long sent = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pthread_create(&thread, NULL, taker, NULL);
    for (int n = 0; n < ROUNDS; n++) {
        char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct msghdr *message = (struct msghdr *)page;
        struct iovec *bytes = (struct iovec *)(page + 256);
        memcpy(page + 512, &page, sizeof page);
        *bytes = (struct iovec){page + 512, sizeof page};
        message->msg_iov = bytes;
        message->msg_iovlen = 1;
        sent += n % 2 ? sendmsg(ends[0], message, 0) : syscall(SYS_sendmsg, ends[0], message, 0);
    }
    if (write(ends[0], &none, sizeof none) != sizeof none)
        _exit(1);
    pthread_join(thread, NULL);
    say("sent: %ld\n", sent);
}

int main(void)
{
    taken_away();
    SAY(syscall(SYS_clone3, (void *)8, 88));
    SAY(syscall(SYS_clone3, NULL, 88));
    SAY(syscall(SYS_clone3, (void *)-4096L, 64));
    SAY(sendmsg(ends[0], (void *)8, 0));
    SAY(sendmmsg(ends[0], (void *)8, 1, 0));
    SAY(recvmsg(ends[0], (void *)8, MSG_DONTWAIT));
    return 0;
}
