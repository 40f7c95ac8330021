/* Every call that the library takes the place of, on sockets and on what is none, with its errors. */
#include "say.h"
#include <aio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

extern ssize_t __read_chk(int, void *, size_t, size_t);
extern ssize_t __recv_chk(int, void *, size_t, size_t, int);
extern ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
extern int __poll_chk(struct pollfd *, nfds_t, int, size_t);
extern int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
extern ssize_t __read(int, void *, size_t), __write(int, const void *, size_t), __send(int, const void *, size_t, int);
extern int __close(int), __dup2(int, int), __fcntl(int, int, ...), __pipe(int *), __open(const char *, int, ...);
extern int __open64(const char *, int, ...), __connect(int, const struct sockaddr *, socklen_t);
extern int __poll(struct pollfd *, nfds_t, int), __open_2(const char *, int), __open64_2(const char *, int);
extern int __openat_2(int, const char *, int), __openat64_2(int, const char *, int);
extern int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *);

static char bytes[256];
static struct iovec vector[2] = {{bytes, 3}, {bytes + 3, 5}};

static void create(void)
{
    int pair[2], fd;
    say("== create\n");
    for (int kind = 1; kind < 6; kind++) {
        fd = (int)SAY(socket(AF_INET, kind, 0));
        SAY(close(fd));
    }
    SAY(socket(-1, SOCK_STREAM, 0));
    SAY(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    SAY(fcntl(3, F_GETFL) & O_NONBLOCK);
    SAY(fcntl(3, F_GETFD));
    SAY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    SAY(socketpair(AF_INET, SOCK_STREAM, 0, pair));
    SAY(pipe(pair));
    SAY(pipe2(pair, O_CLOEXEC));
    SAY(pipe2(pair, -1));
    SAY(__pipe(pair));
    SAY(pipe2((int *)8, 0));
    SAY(eventfd(3, EFD_NONBLOCK));
    sigset_t none;
    sigemptyset(&none);
    SAY(signalfd(-1, &none, 0));
    SAY(timerfd_create(CLOCK_MONOTONIC, 0));
    SAY(inotify_init());
    SAY(inotify_init1(IN_CLOEXEC));
    SAY(memfd_create("x", MFD_CLOEXEC));
    SAY(epoll_create(1));
    SAY(epoll_create(0));
    SAY(epoll_create1(EPOLL_CLOEXEC));
    SAY(open("/dev/null", O_RDWR));
    SAY(open("/nowhere/x", O_RDWR));
    SAY(open64("/dev/null", O_RDONLY));
    SAY(__open("/dev/null", O_RDONLY));
    SAY(__open64("/dev/null", O_RDONLY));
    SAY(__open_2("/dev/null", O_RDONLY));
    SAY(__open64_2("/dev/null", O_RDONLY));
    SAY(openat(AT_FDCWD, "/dev/null", O_RDONLY));
    SAY(openat64(AT_FDCWD, "/dev/null", O_RDONLY));
    SAY(__openat_2(AT_FDCWD, "/dev/null", O_RDONLY));
    SAY(__openat64_2(AT_FDCWD, "/dev/null", O_RDONLY));
    SAY(creat("/nowhere/x", 0600));
    SAY(creat64("/nowhere/x", 0600));
    char name[] = "/tmp/tieline-test-XXXXXX";
    OK(fd = mkstemp(name));
    unlink(name);
    SAY(fd = open(name, O_CREAT | O_RDWR, 0640));
    struct stat stat;
    fstat(fd, &stat);
    unlink(name);
    say("mode %o\n", stat.st_mode & 0777 & ~022);
    descriptors("after creation");
    SAY(close_range(3, ~0U, 0));
    descriptors("after close_range");
}

static void names(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, other;
    socklen_t length = sizeof address;
    int value = 1;
    say("== names\n");
    int fd = (int)SAY(socket(AF_INET, SOCK_STREAM, 0));
    SAY(getsockname(fd, (struct sockaddr *)&other, &length));
    SAY(getpeername(fd, (struct sockaddr *)&other, &length));
    SAY(bind(fd, (struct sockaddr *)&address, 1));
    SAY(bind(fd, (struct sockaddr *)&address, sizeof address));
    SAY(bind(fd, (struct sockaddr *)&address, sizeof address));
    SAY(getsockname(fd, (struct sockaddr *)&address, &length));
    int client = (int)SAY(socket(AF_INET, SOCK_STREAM, 0));
    SAY(connect(client, (struct sockaddr *)&address, sizeof address));
    SAY(connect(client, (struct sockaddr *)8, sizeof address));
    SAY(accept(fd, NULL, NULL));
    SAY(listen(fd, 5));
    SAY(listen(0, 5));
    SAY(__connect(client, (struct sockaddr *)&address, sizeof address));
    SAY(connect(client, (struct sockaddr *)&address, sizeof address));
    int server = (int)SAY(accept4(fd, (struct sockaddr *)&other, &length, SOCK_CLOEXEC));
    say("accepted from %s, %u\n", inet_ntoa(other.sin_addr), length);
    SAY(accept4(fd, NULL, NULL, -1));
    SAY(getpeername(server, (struct sockaddr *)&other, &length));
    SAY(setsockopt(server, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof value));
    SAY(setsockopt(server, SOL_SOCKET, 9999, &value, sizeof value));
    SAY(setsockopt(0, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof value));
    value = 0;
    length = sizeof value;
    SAY(getsockopt(server, SOL_SOCKET, SO_KEEPALIVE, &value, &length));
    say("value %d of %u\n", value, length);
    SAY(getsockopt(-1, SOL_SOCKET, SO_KEEPALIVE, &value, &length));
    SAY(shutdown(client, SHUT_WR));
    SAY(read(server, bytes, 10));
    SAY(shutdown(client, 99));
    SAY(shutdown(fd, SHUT_RDWR));
    SAY(shutdown(0, SHUT_RDWR));
    SAY(close(client));
    SAY(close(client));
    SAY(close(server));
    SAY(close(fd));
}

static void data(const char *what, int a, int b)
{
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    struct mmsghdr several[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
    struct timespec soon = {0, 1000000};
    struct timeval limit = {0, 10000};
    int waiting;
    say("== data on %s\n", what);
    /* Where a datagram was taken in part, its rest is gone. */
    setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    memcpy(bytes, "abcdefghijklmnop", 16);
    SAY(write(a, bytes, 5));
    SAY(read(b, bytes + 32, 3));
    SAY(ioctl(b, FIONREAD, &waiting));
    say("waiting %d, read %.3s\n", waiting, bytes + 32);
    SAY(__read(b, bytes + 32, 100));
    SAY(__write(a, bytes, 5));
    SAY(__read_chk(b, bytes + 32, 100, 200));
    SAY(send(a, bytes, 4, 0));
    SAY(recv(b, bytes + 32, 100, MSG_PEEK));
    SAY(recv(b, bytes + 32, 100, 0));
    SAY(__send(a, bytes, 4, MSG_NOSIGNAL));
    SAY(__recv_chk(b, bytes + 32, 100, 200, 0));
    SAY(sendto(a, bytes, 6, 0, NULL, 0));
    SAY(recvfrom(b, bytes + 32, 100, 0, NULL, NULL));
    SAY(sendto(a, bytes, 6, 0, NULL, 0));
    SAY(__recvfrom_chk(b, bytes + 32, 100, 200, 0, NULL, NULL));
    SAY(writev(a, vector, 2));
    SAY(readv(b, vector, 2));
    SAY(pwritev2(a, vector, 2, -1, 0));
    SAY(preadv2(b, vector, 2, -1, 0));
    SAY(pwritev64v2(a, vector, 2, -1, 0));
    SAY(preadv64v2(b, vector, 2, -1, 0));
    SAY(sendmsg(a, &message, 0));
    SAY(recvmsg(b, &message, 0));
    SAY(sendmmsg(a, several, 2, 0));
    say("lengths %u %u\n", several[0].msg_len, several[1].msg_len);
    SAY(recvmmsg(b, several, 2, MSG_WAITFORONE, &soon));
    say("lengths %u %u\n", several[0].msg_len, several[1].msg_len);
    SAY(recv(b, bytes, 10, MSG_DONTWAIT));
    SAY(recvmsg(b, &message, MSG_DONTWAIT));
    SAY(recvmmsg(b, several, 2, MSG_DONTWAIT, NULL));
    SAY(send(a, (void *)8, 10, MSG_DONTWAIT));
    SAY(recv(-1, bytes, 10, 0));
    SAY(send(a, bytes, 0, 0));
    SAY(writev(a, vector, -1));
    SAY(readv(b, (struct iovec *)8, 2));
    SAY(send(a, "u", 1, MSG_OOB));
}

static void moves(void)
{
    int ends[2], tube[2], other[2];
    off_t at = 0;
    say("== moved by the kernel\n");
    tcp(ends);
    pipe(tube);
    pipe(other);
    int file = memfd_create("file", 0);
    write(file, "0123456789", 10);
    SAY(sendfile(ends[0], file, &at, 4));
    SAY(sendfile64(ends[0], file, &at, 4));
    SAY(sendfile(ends[0], ends[1], NULL, 4));
    SAY(recv(ends[1], bytes, 8, MSG_WAITALL));
    write(tube[1], "abcd", 4);
    SAY(tee(tube[0], other[1], 2, 0));
    SAY(splice(tube[0], NULL, ends[0], NULL, 4, 0));
    SAY(splice(ends[1], NULL, other[1], NULL, 4, 0));
    SAY(vmsplice(tube[1], vector, 2, 0));
    SAY(read(tube[0], bytes, 100));
    struct aiocb block = {.aio_fildes = ends[0], .aio_buf = bytes, .aio_nbytes = 3};
    const struct aiocb *list[1] = {&block};
    SAY(aio_write(&block));
    SAY(aio_suspend(list, 1, NULL));
    SAY(aio_return(&block));
    block.aio_fildes = ends[1];
    SAY(aio_read(&block));
    SAY(aio_suspend(list, 1, NULL));
    SAY(aio_return(&block));
    SAY(close_range(3, ~0U, 0));
}

static void waits(void)
{
    int ends[2];
    struct timespec now = {0, 0};
    struct timeval none = {0, 0};
    struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.u64 = 7}, events[4];
    say("== waits\n");
    tcp(ends);
    struct pollfd polled[2] = {{ends[0], POLLIN | POLLOUT | POLLRDHUP, 0}, {99, POLLIN, 0}};
    SAY(poll(polled, 2, 0));
    say("%x %x\n", polled[0].revents, polled[1].revents);
    SAY(poll(polled, 1, 1));
    SAY(__poll(polled, 1, 1));
    SAY(__poll_chk(polled, 2, 0, sizeof polled));
    SAY(ppoll(polled, 1, &now, NULL));
    SAY(__ppoll_chk(polled, 1, &now, NULL, sizeof polled));
    SAY(poll((struct pollfd *)8, 1, 0));
    fd_set in;
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    SAY(select(ends[0] + 1, &in, NULL, NULL, &none));
    FD_SET(ends[0], &in);
    SAY(__select(ends[0] + 1, NULL, &in, NULL, &none));
    SAY(pselect(ends[0] + 1, NULL, &in, NULL, &now, NULL));
    SAY(select(-1, NULL, NULL, NULL, &none));
    int set = (int)SAY(epoll_create1(0)), outer = (int)SAY(epoll_create1(0));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    SAY(epoll_ctl(outer, EPOLL_CTL_ADD, set, &event));
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, outer, &event));
    SAY(epoll_wait(set, events, 4, 0));
    write(ends[1], "x", 1);
    SAY(epoll_wait(outer, events, 4, -1));
    SAY(epoll_wait(set, events, 4, -1));
    SAY(epoll_wait(set, events, 4, 0));
    write(ends[1], "y", 1);
    SAY(epoll_pwait(set, events, 4, -1, NULL));
    close(ends[1]);
    SAY(epoll_pwait2(set, events, 4, NULL, NULL));
    say("events %x of %d\n", events[0].events, (int)events[0].data.u64);
    SAY(epoll_wait(set, events, 0, 0));
    SAY(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL));
    SAY(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event));
    SAY(poll(polled, 1, 0));
    say("%x\n", polled[0].revents);
    SAY(close_range(3, ~0U, 0));
}

static void streams(void)
{
    int ends[2];
    char line[64] = "";
    say("== streams\n");
    tcp(ends);
    SAY(dprintf(ends[0], "%s %d %.2f %Lf\n", "text", 42, 1.5, (long double)2.25));
    FILE *in = fdopen(ends[1], "r"), *out = fdopen(ends[0], "w");
    say("%s", fgets(line, sizeof line, in));
    SAY(fprintf(out, "%a %d\n", 3.0, -1));
    SAY(fflush(out));
    say("%s", fgets(line, sizeof line, in));
    say("%d\n", fdopen(77, "r") == NULL && errno == EBADF);
    SAY(fclose(out));
    say("%d\n", fgets(line, sizeof line, in) == NULL);
    in = freopen("/dev/null", "r", in);
    SAY(fileno(in));
    SAY(fclose(in));
    FILE *memory = fmemopen(line, sizeof line, "w");
    errno = 0;
    SAY(fclose(memory));
    FILE *piped = popen("echo piped", "r");
    say("%s", fgets(line, sizeof line, piped));
    SAY(pclose(piped));
    descriptors("after streams");
}

static void by_number(void)
{
    int ends[2];
    say("== by number\n");
    int fd = (int)SAY(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
    SAY(syscall(SYS_dup2, fd, 9));
    SAY(syscall(SYS_close, fd));
    SAY(syscall(SYS_close, fd));
    SAY(syscall(SYS_close_range, 3, ~0U, 0));
    tcp(ends);
    SAY(syscall(SYS_sendto, ends[0], "abc", 3, 0, NULL, 0));
    SAY(syscall(SYS_recvfrom, ends[1], bytes, 10, 0, NULL, NULL));
    /* Six arguments, of which the last lies on the stack. */
    void *page = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mapped %d\n", page != MAP_FAILED && *(char *)page == 0);
    OK(syscall(SYS_gettid));
    SAY(syscall(99999));
    SAY(syscall(SYS_io_uring_setup, 0, NULL));
    int child = (int)syscall(SYS_fork);
    if (child == 0)
        _exit(5);
    int status;
    OK(waitpid(child, &status, 0));
    say("status %d\n", WEXITSTATUS(status));
    child = (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (child == 0)
        _exit(6);
    OK(waitpid(child, &status, 0));
    say("status %d\n", WEXITSTATUS(status));
    SAY(close_range(3, ~0U, 0));
}

static void limits(void)
{
    struct rlimit limit;
    say("== limits\n");
    SAY(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 6;
    SAY(setrlimit(RLIMIT_NOFILE, &limit));
    SAY(dup(0));
    SAY(dup(0));
    SAY(dup(0));
    SAY(dup(0));
    SAY(socket(AF_INET, SOCK_STREAM, 0));
    limit.rlim_cur = 64;
    SAY(setrlimit64(RLIMIT_NOFILE, (struct rlimit64 *)&limit));
    SAY(prlimit(0, RLIMIT_NOFILE, NULL, &limit));
    say("limit %ld\n", (long)limit.rlim_cur);
    SAY(dup2(0, 64));
    SAY(fcntl(0, F_DUPFD, 64));
    SAY(prctl(PR_SET_NAME, "name", 0, 0, 0));
    SAY(setuid(getuid()));
    SAY(seteuid(geteuid()));
    SAY(setreuid(-1, -1));
    SAY(setresuid(-1, -1, -1));
    SAY(setgid(getgid()));
    SAY(setegid(getegid()));
    SAY(setregid(-1, -1));
    SAY(setresgid(-1, -1, -1));
    SAY(chroot("/nowhere"));
    SAY(close_range(3, ~0U, 0));
}

int main(void)
{
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    create();
    names();
    tcp(ends);
    data("tcp", ends[0], ends[1]);
    SAY(close_range(3, ~0U, 0));
    for (int kind = SOCK_STREAM; kind <= SOCK_DGRAM; kind++) {
        socketpair(AF_UNIX, kind, 0, ends);
        data(kind == SOCK_STREAM ? "unix" : "unix datagrams", ends[0], ends[1]);
        SAY(close_range(3, ~0U, 0));
    }
    moves();
    waits();
    streams();
    by_number();
    limits();
    return 0;
}
