/* Twenty things that a library in this program might do wrong, a line each. */
#include "say.h"

static char bytes[8192];
static volatile int handled;

static void handler(int number)
{
    handled = number;
}

static void limit(int fd)
{
    struct timeval soon = {0, 100000};
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
}

static int refused(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? errno : 0;
}

static int wakeups(void)
{
    int ends[2], seen = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    syscall(SYS_sendto, ends[0], "x", 1, 0, NULL, 0);
    struct pollfd polled = {ends[1], POLLIN, 0};
    for (int round = 0; round < 6; round++)
        seen += poll(&polled, 1, 100);
    return seen;
}

static int replaced(void)
{
    int a[2], b[2];
    char byte = '?';
    socketpair(AF_UNIX, SOCK_STREAM, 0, a);
    socketpair(AF_UNIX, SOCK_STREAM, 0, b);
    limit(a[0]);
    dup2(b[0], a[0]);
    write(b[1], "b", 1);
    read(a[0], &byte, 1);
    return byte;
}

static int doubled(void)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    write(ends[0], bytes, 5000);
    int waiting = 0;
    ioctl(ends[1], FIONREAD, &waiting);
    return waiting;
}

static int edges(void)
{
    int ends[2], set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    syscall(SYS_sendto, ends[0], "x", 1, 0, NULL, 0);
    epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event);
    return (int)syscall(SYS_epoll_wait, set, &event, 1, 100);
}

static int short_read(void)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    write(ends[0], "abc", 3);
    return (int)recv(ends[1], bytes, 100, 0);
}

static int end(void)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    syscall(SYS_close, ends[0]);
    return (int)recv(ends[1], bytes, 100, 0);
}

static int broken(void)
{
    int ends[2];
    handled = 0;
    signal(SIGPIPE, handler);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    syscall(SYS_close, ends[1]);
    write(ends[0], "x", 1);
    return handled;
}

static int interrupted(void)
{
    int ends[2];
    struct sigaction action = {.sa_handler = handler};
    struct itimerspec soon = {{0, 0}, {0, 20000000}};
    timer_t timer;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    sigaction(SIGALRM, &action, NULL);
    limit(ends[1]);
    timer_create(CLOCK_MONOTONIC, NULL, &timer);
    timer_settime(timer, 0, &soon, NULL);
    return recv(ends[1], bytes, 1, 0) < 0 ? errno : 0;
}

static int peeked(void)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    write(ends[0], "abc", 3);
    recv(ends[1], bytes, 3, MSG_PEEK);
    return (int)recv(ends[1], bytes, 3, MSG_DONTWAIT);
}

static int accepted(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 1);
    syscall(SYS_getsockname, listener, &address, &length);
    connect(fd, (struct sockaddr *)&address, sizeof address);
    return fcntl(accept4(listener, NULL, NULL, SOCK_CLOEXEC), F_GETFD);
}

static int copied(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    return (fcntl(dup(fd), F_GETFL) & O_NONBLOCK) != 0;
}

static int hung_up(void)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    syscall(SYS_close, ends[0]);
    struct pollfd polled = {ends[1], POLLIN, 0};
    poll(&polled, 1, 100);
    return polled.revents & POLLHUP;
}

static int named(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, other = address;
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bind(fd, (struct sockaddr *)&address, sizeof address);
    syscall(SYS_getsockname, fd, &other, &length);
    getsockname(fd, (struct sockaddr *)&address, &length);
    return address.sin_port == other.sin_port;
}

static int passed(void)
{
    int way[2];
    char byte = 'p', control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    socketpair(AF_UNIX, SOCK_STREAM, 0, way);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), way, sizeof(int));
    syscall(SYS_sendmsg, way[0], &message, 0);
    recvmsg(way[1], &message, 0);
    return message.msg_controllen > 0;
}

static int shut(void)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    shutdown(ends[0], SHUT_WR);
    return (int)syscall(SYS_recvfrom, ends[1], bytes, 1, MSG_DONTWAIT, NULL, NULL);
}

static int closed(void)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    close(ends[0]);
    return (int)syscall(SYS_recvfrom, ends[1], bytes, 1, MSG_DONTWAIT, NULL, NULL);
}

static int timed(void)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct timeval value = {0, 20000};
    socklen_t length = sizeof value;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
    getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &value, &length);
    return value.tv_usec > 0;
}

static int vector(void)
{
    int ends[2], waiting = 0;
    struct iovec parts[2] = {{bytes, 3}, {bytes, 5}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    sendmsg(ends[0], &message, 0);
    ioctl(ends[1], FIONREAD, &waiting);
    return waiting;
}

static int inherited(void)
{
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(syscall(SYS_fcntl, ends[0], F_GETFD) >= 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

int main(void)
{
    static const struct { const char *name; int (*does)(void); } all[] = {
        {"wrong-errno", refused}, {"lost-wakeup", wakeups}, {"stale-after-dup2", replaced}, {"byte-doubled", doubled},
        {"edge-lost", edges}, {"short-read-full", short_read}, {"eof-eagain", end}, {"no-sigpipe", broken},
        {"no-eintr", interrupted}, {"peek-consumes", peeked}, {"accept-no-cloexec", accepted}, {"dup-blocks", copied},
        {"hup-missing", hung_up}, {"wrong-name", named}, {"rights-lost", passed}, {"shutdown-ignored", shut},
        {"close-leaks", closed}, {"no-timeout", timed}, {"vector-halved", vector}, {"stale-in-child", inherited},
    };
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        say("%s: %d\n", all[at].name, all[at].does());
    return 0;
}
