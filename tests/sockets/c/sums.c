/* Random calls on connections between two processes, each of which runs on a processor of its own; what they have moved is told: sums.c SEED ROUNDS
 *
 * Reads, looks and writes in all forms, waits, children that read, write, wait or only have the connection, threads, copies of its number, small
 * buffers: whatever brings bytes from a ring back to the kernel. Each round ends when both have shut down and read all there is. */
#include "ledger.h"

enum { LARGEST = 70000 };
static char room[LARGEST];
/* Whether this end waits in writes: if both did, they might for each other. */
static int may_wait;
static uint64_t state;

static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state * 2685821657736338717ull >> 33) % n;
}

static size_t a_size(void)
{
    static const size_t sizes[] = {1, 2, 14, 40, 41, 500, 4000, 20000, LARGEST};
    return 1 + below((unsigned)sizes[below(9)]);
}

static void writes_some(int fd)
{
    size_t n = a_size();
    struct iovec parts[2] = {{room, n / 2}, {room, n - n / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    struct mmsghdr several[2] = {{message, 0}, {message, 0}};
    int flags = MSG_DONTWAIT | MSG_NOSIGNAL, file, done;
    off_t at = 0;
    switch (below(8)) {
    case 0:
        sent(sendmsg(fd, &message, flags));
        break;
    case 1:
        done = sendmmsg(fd, several, 2, flags);
        for (int i = 0; i < done; i++)
            sent(several[i].msg_len);
        break;
    case 2:
        sent(may_wait ? write(fd, room, n) : send(fd, room, 1 + n % 50, flags));
        break;
    case 3:
        if (!may_wait)
            break;
        file = open("/proc/self/exe", O_RDONLY);
        n %= 5000;
        sent(sendfile(fd, file, &at, n + 1));
        close(file);
        break;
    case 4:
        sent(syscall(SYS_sendto, fd, room, n, flags, NULL, 0));
        break;
    case 5:
        for (int turn = 0; turn < 20; turn++)
            sent(send(fd, room, 1 + n % 100, flags));
        break;
    default:
        sent(send(fd, room, n, flags));
    }
}

static void reads_some(int fd)
{
    size_t n = a_size();
    struct iovec parts[2] = {{room, n / 2}, {room, n - n / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    struct mmsghdr several[2] = {{message, 0}, {message, 0}};
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int done;
    switch (below(9)) {
    case 0:
        got(recvmsg(fd, &message, MSG_DONTWAIT));
        break;
    case 1:
        done = recvmmsg(fd, several, 2, MSG_DONTWAIT, NULL);
        for (int i = 0; i < done; i++)
            got(several[i].msg_len);
        break;
    case 2:
        recv(fd, room, n, MSG_DONTWAIT | MSG_PEEK);
        break;
    case 3:
        got(recv(fd, room, n, MSG_DONTWAIT | MSG_TRUNC));
        break;
    case 4:
        got(syscall(SYS_recvfrom, fd, room, n, MSG_DONTWAIT, NULL, NULL));
        break;
    case 5:
        if (poll(&one, 1, (int)below(3)) > 0)
            got(recv(fd, room, n, MSG_DONTWAIT));
        break;
    case 6:
        for (int turn = 0; turn < 50; turn++)
            got(recv(fd, room, 1 + n % 200, MSG_DONTWAIT));
        break;
    default:
        got(recv(fd, room, n, MSG_DONTWAIT));
    }
}

static void *moves_some(void *of)
{
    /* The generator belongs to the first thread. */
    int fd = *(int *)of;
    char few[100];
    for (int turn = 0; turn < 50; turn++) {
        sent(send(fd, few, 10, MSG_DONTWAIT | MSG_NOSIGNAL));
        got(recv(fd, few, sizeof few, MSG_DONTWAIT));
    }
    return NULL;
}

static void does_something(int fd, int *children, int *copies)
{
    pthread_t thread;
    pid_t child;
    int copy;
    struct epoll_event event = {.events = EPOLLIN};
    switch (below(60)) {
    case 0:
        usleep(below(2000));
        break;
    case 1:
        if (*children >= 3)
            break;
        ++*children;
        if (forks() != 0)
            break;
        state ^= 0x123456789;
        for (int turn = (int)below(30), way = (int)below(4); turn > 0; turn--)
            if (way == 0) {
                int epoll = epoll_create1(0);
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
                epoll_wait(epoll, &event, 1, 1);
                close(epoll);
            } else if (way & 1)
                writes_some(fd);
            else
                reads_some(fd);
        below(2) ? _exit(0) : exit(0);
    case 2:
        if (below(4))
            break;
        pthread_create(&thread, NULL, moves_some, &fd);
        moves_some(&fd);
        pthread_join(thread, NULL);
        break;
    case 3:
        /* A connection with two numbers stays with the kernel. That waits for the other end, which must not wait for this one meanwhile. */
        if (!may_wait || below(8) || *copies > 1)
            break;
        copy = dup(fd);
        ++*copies;
        writes_some(copy);
        reads_some(copy);
        close(copy);
        break;
    case 4:
        child = vfork();
        if (child == 0) {
            sent(send(fd, room, 3, MSG_DONTWAIT | MSG_NOSIGNAL));
            _exit(0);
        }
        waitpid(child, NULL, 0);
        break;
    default:
        switch (below(6)) {
        case 0:
            computes(below(60) / 1e6);
            break;
        case 1:
        case 2:
        case 3:
            reads_some(fd);
            break;
        default:
            writes_some(fd);
        }
    }
}

static void takes_part(int fd, int turns)
{
    int children = 0, copies = 0, on = 1;
    if (below(2))
        setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
    if (below(3) == 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){8192}, sizeof(int));
    /* As often as two ends need to meet. */
    for (int turn = 0; turn < 40; turn++) {
        sent(send(fd, room, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
        got(recv(fd, room, 1, MSG_DONTWAIT));
        computes(20e-6);
    }
    for (int turn = 0; turn < turns; turn++)
        does_something(fd, &children, &copies);
    while (wait(NULL) > 0) {
    }
    /* Then what was sent need not be what is received. */
    if (shutdown(fd, SHUT_WR) != 0)
        say("reset: shutdown says %s\n", strerrorname_np(errno));
    errno = 0;
    while (got(read(fd, room, a_size())) > 0) {
    }
    if (errno != 0)
        say("reset: read says %s\n", strerrorname_np(errno));
    close(fd);
}

int main(int count, char **words)
{
    uint64_t seed = count > 1 ? strtoull(words[1], NULL, 10) : 1;
    int rounds = count > 2 ? atoi(words[2]) : 3, status, failed = 0;
    alarm(100);
    signal(SIGPIPE, SIG_IGN);
    opens_account();
    for (int round = 0; round < rounds; round++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;
        int listener = socket(AF_INET, SOCK_STREAM, 0), turns = 1500;
        bind(listener, (struct sockaddr *)&address, sizeof address);
        listen(listener, 1);
        getsockname(listener, (struct sockaddr *)&address, &length);
        for (int end = 0; end < 2; end++) {
            if (forks() != 0)
                continue;
            alarm(100);
            runs_on(end);
            may_wait = end;
            state = (seed * 1000 + (uint64_t)round * 2 + (uint64_t)end + 1) * 0x9E3779B97F4A7C15ull;
            int fd = end ? accept(listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
            if (!end && connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
                _exit(98);
            close(listener);
            takes_part(fd, turns);
            exit(0);
        }
        close(listener);
        for (pid_t child; (child = wait(&status)) > 0;)
            if (status != 0) {
                say("process %d of round %d ended with status %#x\n", child, round, status);
                failed = 1;
            }
    }
    tells_accounts();
    return failed;
}
