/* Every call that waits, interrupted: by a handler that restarts and one that does not, by cancellation, by a jump. */
#include "say.h"
#include <setjmp.h>

static int ends[2], listener, set;
static volatile int handled, stop_ringing;
static sigjmp_buf place;

static void handler(int number)
{
    char byte;
    int error = errno;
    handled++;
    /* Calls in a handler, on the descriptor that the interrupted call waits for. */
    recv(ends[0], &byte, 1, MSG_DONTWAIT);
    write(-1, &byte, 1);
    errno = error;
    /* The last signal may come when the call that it was for is over. */
    if (number == SIGUSR2 && !stop_ringing)
        siglongjmp(place, 1);
}

static char bytes[1 << 16];

static long waiting(int call)
{
    struct iovec vector = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    struct mmsghdr several = {.msg_hdr = message};
    struct pollfd polled = {ends[0], POLLIN, 0};
    struct epoll_event event;
    fd_set in;
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    switch (call) {
    case 0: return read(ends[0], bytes, 10);
    case 1: return recv(ends[0], bytes, 10, 0);
    case 2: return recvfrom(ends[0], bytes, 10, 0, NULL, NULL);
    case 3: return recvmsg(ends[0], &message, 0);
    case 4: return recvmmsg(ends[0], &several, 1, 0, NULL);
    case 5: return readv(ends[0], &vector, 1);
    case 6: return accept(listener, NULL, NULL);
    case 7: return accept4(listener, NULL, NULL, 0);
    case 8: return poll(&polled, 1, -1);
    case 9: return ppoll(&polled, 1, NULL, NULL);
    case 10: return select(ends[0] + 1, &in, NULL, NULL, NULL);
    case 11: return pselect(ends[0] + 1, &in, NULL, NULL, NULL, NULL);
    case 12: return epoll_wait(set, &event, 1, -1);
    case 13: return epoll_pwait(set, &event, 1, -1, NULL);
    case 14: return epoll_pwait2(set, &event, 1, NULL, NULL);
    default:
        for (;;) {
            /* Until the other end's room is full. */
            ssize_t sent = call == 15   ? write(ends[1], bytes, sizeof bytes)
                           : call == 16 ? send(ends[1], bytes, sizeof bytes, 0)
                           : call == 17 ? writev(ends[1], &vector, 1)
                                        : sendmsg(ends[1], &message, 0);
            if (sent < (ssize_t)sizeof bytes)
                return sent < 0 ? sent : 1;
        }
    }
}
enum { CALLS = 19, READS = 15 };

static pthread_t waiter;

/* Sends the signal again and again: the first may come before the call. */
static void *ring(void *number)
{
    while (!stop_ringing) {
        usleep(2000);
        if (!stop_ringing)
            pthread_kill(waiter, (int)(intptr_t)number);
    }
    return NULL;
}

static void with_signal(int number, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
    waiter = pthread_self();
    for (int call = 0; call < READS; call++) {
        pthread_t ringer;
        stop_ringing = handled = 0;
        pthread_create(&ringer, NULL, ring, (void *)(intptr_t)number);
        if (number == SIGUSR2 && sigsetjmp(place, 1)) {
            stop_ringing = 1;
            say("call %d: jumped out\n", call);
        } else {
            errno = 0;
            long result = waiting(call);
            int error = errno;
            stop_ringing = 1;
            say("call %d: %ld %s, handled %d\n", call, result, strerrorname_np(error), handled > 0);
        }
        pthread_join(ringer, NULL);
    }
}

static void *wait_there(void *call)
{
    int how;
    int kind = (int)(intptr_t)call;
    pthread_setcanceltype(kind >= 100 ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, &how);
    waiting(kind % 100);
    return NULL;
}

static void begin(void);

static void cancelled(void)
{
    for (int kind = 0; kind < 200; kind += 100)
        for (int call = 0; call < CALLS; call++) {
            pthread_t thread;
            void *result;
            /* What was written before must not be what is read now. */
            closefrom(3);
            begin();
            pthread_create(&thread, NULL, wait_there, (void *)(intptr_t)(kind + call));
            usleep(2000);
            pthread_cancel(thread);
            pthread_join(thread, &result);
            say("call %d: %s\n", kind + call, result == PTHREAD_CANCELED ? "cancelled" : "came back");
        }
}

static void begin(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    tcp(ends);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 5);
    set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
}

static volatile int pipes;
static void broken(int number)
{
    (void)number;
    pipes++;
}

static void broken_pipes(void)
{
    struct iovec vector = {bytes, 3};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    struct mmsghdr several = {.msg_hdr = message};
    int pair[2], file = memfd_create("f", 0);
    off_t at = 0;
    write(file, "abc", 3);
    signal(SIGPIPE, broken);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    close(pair[1]);
    SAY(write(pair[0], "x", 1));
    SAY(send(pair[0], "x", 1, 0));
    SAY(send(pair[0], "x", 1, MSG_NOSIGNAL));
    SAY(sendto(pair[0], "x", 1, 0, NULL, 0));
    SAY(writev(pair[0], &vector, 1));
    SAY(sendmsg(pair[0], &message, 0));
    SAY(sendmmsg(pair[0], &several, 1, 0));
    SAY(sendfile(pair[0], file, &at, 3));
    SAY(dprintf(pair[0], "x"));
    say("broken pipes: %d\n", pipes);
}

int main(void)
{
    begin();
    with_signal(SIGUSR1, 0);
    with_signal(SIGUSR2, 0);
    cancelled();
    broken_pipes();
    closefrom(3);
    begin();
    struct timeval soon = {0, 20000};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    SAY(recv(ends[0], bytes, 10, 0));
    return 0;
}
