/* A library to preload that hands every call on to the kernel, with one fault planted on purpose.
 *
 * DIFFERENTIAL_PLANT names the fault; without it, nothing is changed. It shows that the differential test can see: each
 * fault is of a kind that libraries between programs and the kernel have had. It keeps a small table of what descriptors
 * are, as such a library does, so that faults of the table can be planted too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Which process this is: the child of a vfork runs in its parent's memory, and a library that does not notice takes what the child
 * does for the parent's. */
static pid_t owner;
static int closed_by_child = -1;

static const char *plant = "";
static int is(const char *name) { return strcmp(plant, name) == 0; }

__attribute__((constructor)) static void begin(void) {
    const char *named = getenv("DIFFERENTIAL_PLANT");
    if (named) plant = named;
    owner = getpid();
}

#define NEXT(ret, name, ...)                                              \
    static ret (*next)(__VA_ARGS__);                                      \
    if (!next) next = (ret(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* The table: 1 for a number that is a socket as far as the library knows. */
static unsigned char known[1024];
static unsigned char half[1024];
static int in_table(int fd) { return fd >= 0 && fd < 1024; }
static void note(int fd, int what) { if (in_table(fd)) known[fd] = what; }

int socket(int domain, int type, int protocol) {
    NEXT(int, "socket", int, int, int);
    int fd = next(domain, type, protocol);
    if (fd < 0 && errno == EMFILE && is("emfile-as-enfile")) errno = ENFILE;
    if (fd >= 0) note(fd, 1);
    return fd;
}

int close(int fd) {
    NEXT(int, "close", int);
    if (is("vfork-closes") && getpid() != owner) closed_by_child = fd;
    if (is("close-leaks") && in_table(fd) && known[fd]) { note(fd, 0); return 0; }
    if (is("close-errno") && !in_table(fd)) { errno = EINVAL; return -1; }
    if (!is("stale-after-close")) note(fd, 0);
    return next(fd);
}

int dup(int fd) {
    NEXT(int, "dup", int);
    int new = next(fd);
    if (new >= 0 && in_table(fd)) note(new, known[fd]);
    if (is("dup-loses-nonblock") && new >= 0) {
        int flags = fcntl(fd, F_GETFL);
        if (flags & O_NONBLOCK) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    }
    return new;
}

int dup2(int fd, int onto) {
    NEXT(int, "dup2", int, int);
    if (is("dup2-limited") && onto >= 512) { errno = EBADF; return -1; }
    int new = next(fd, onto);
    if (new >= 0 && in_table(fd) && !is("stale-after-dup2")) note(new, known[fd]);
    return new;
}

int listen(int fd, int backlog) {
    NEXT(int, "listen", int, int);
    return next(fd, backlog);
}

int accept(int fd, struct sockaddr *address, socklen_t *len) {
    NEXT(int, "accept", int, struct sockaddr *, socklen_t *);
    int new = next(fd, address, len);
    note(new, 1);
    if (is("accept-order") && new >= 0 && address) memset(address, 0, 2);
    return new;
}

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags) {
    NEXT(int, "accept4", int, struct sockaddr *, socklen_t *, int);
    if (is("accept-without-cloexec")) flags &= ~SOCK_CLOEXEC;
    if (is("accept-without-nonblock")) flags &= ~SOCK_NONBLOCK;
    int new = next(fd, address, len, flags);
    note(new, 1);
    return new;
}

int connect(int fd, const struct sockaddr *address, socklen_t len) {
    NEXT(int, "connect", int, const struct sockaddr *, socklen_t);
    int done = next(fd, address, len);
    if (is("connect-errno") && done < 0 && errno == EINPROGRESS) errno = EAGAIN;
    if (is("connect-refused") && done < 0 && errno == ECONNREFUSED) errno = ECONNRESET;
    if (is("connect-twice") && done < 0 && errno == EISCONN) return 0;
    return done;
}

int getsockname(int fd, struct sockaddr *address, socklen_t *len) {
    if (is("getsockname-of-peer")) {
        NEXT(int, "getpeername", int, struct sockaddr *, socklen_t *);
        return next(fd, address, len);
    }
    NEXT(int, "getsockname", int, struct sockaddr *, socklen_t *);
    return next(fd, address, len);
}

int shutdown(int fd, int how) {
    NEXT(int, "shutdown", int, int);
    if (is("shutdown-ignored")) return 0;
    if (is("shutdown-both") && how == SHUT_WR) how = SHUT_RDWR;
    return next(fd, how);
}

/* What every receive does to its result. */
static ssize_t received(int fd, void *buffer, ssize_t got, size_t room) {
    if (got == 0 && room > 0 && is("eof-as-eagain")) { errno = EAGAIN; return -1; }
    if (got > 300 && is("byte-duplicated")) ((char *)buffer)[256] = ((char *)buffer)[255];
    if (got < 0 && errno == EAGAIN && is("eagain-as-eintr")) errno = EINTR;
    if (got < 0 && errno == ECONNRESET && is("reset-as-eof")) return 0;
    (void)fd;
    return got;
}

/* What a library keeps for itself and forgets to keep apart for each thread. */
static char shared_buffer[65536];

ssize_t read(int fd, void *buffer, size_t len) {
    NEXT(ssize_t, "read", int, void *, size_t);
    if (is("stale-after-close") && in_table(fd) && known[fd] && recv(fd, buffer, 0, MSG_DONTWAIT) < 0 && errno == ENOTSOCK) {
        errno = ENOTCONN;
        return -1;
    }
    ssize_t got;
    if (is("racy-buffer") && len <= sizeof shared_buffer) {
        got = next(fd, shared_buffer, len);
        sched_yield();
        if (got > 0) memcpy(buffer, shared_buffer, got);
        return got;
    }
    do got = next(fd, buffer, len);
    while (got < 0 && errno == EINTR && is("eintr-swallowed"));
    return received(fd, buffer, got, len);
}

ssize_t recv(int fd, void *buffer, size_t len, int flags) {
    NEXT(ssize_t, "recv", int, void *, size_t, int);
    if (is("peek-consumes")) flags &= ~MSG_PEEK;
    if (is("peek-trunc-lost") && (flags & MSG_PEEK)) flags &= ~MSG_TRUNC;
    if (is("cancel-held-back") && !(flags & MSG_DONTWAIT)) {
        int before;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        ssize_t there = next(fd, buffer, len, flags | MSG_DONTWAIT);
        pthread_setcancelstate(before, &before);
        if (there >= 0) return there;
    }
    if (is("waitall-ignored")) flags &= ~MSG_WAITALL;
    if (is("dontwait-ignored") && (flags & MSG_DONTWAIT)) flags &= ~MSG_DONTWAIT;
    ssize_t got;
    do got = next(fd, buffer, len, flags);
    while (got < 0 && errno == EINTR && is("eintr-swallowed"));
    return received(fd, buffer, got, len);
}

ssize_t recvfrom(int fd, void *buffer, size_t len, int flags, struct sockaddr *address, socklen_t *room) {
    NEXT(ssize_t, "recvfrom", int, void *, size_t, int, struct sockaddr *, socklen_t *);
    if (is("peek-consumes")) flags &= ~MSG_PEEK;
    ssize_t got = next(fd, buffer, len, flags, address, room);
    if (is("sender-forgotten") && room) *room = 0;
    return received(fd, buffer, got, len);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    NEXT(ssize_t, "recvmsg", int, struct msghdr *, int);
    if (is("peek-consumes")) flags &= ~MSG_PEEK;
    if (is("cmsg-cloexec-lost")) flags &= ~MSG_CMSG_CLOEXEC;
    ssize_t got = next(fd, message, flags);
    if (got >= 0 && is("rights-lost") && message->msg_controllen) {
        struct cmsghdr *head = CMSG_FIRSTHDR(message);
        if (head && head->cmsg_type == SCM_RIGHTS) {
            int count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            NEXT(int, "close", int);
            next(((int *)CMSG_DATA(head))[count - 1]);
        }
    }
    if (got >= 0 && is("trunc-flag-lost")) message->msg_flags &= ~MSG_TRUNC;
    return got;
}

static int raises(void) { return !is("sigpipe-not-raised"); }

ssize_t write(int fd, const void *buffer, size_t len) {
    NEXT(ssize_t, "write", int, const void *, size_t);
    if (in_table(fd) && known[fd] && is("stale-after-dup2")) return send(fd, buffer, len, 0);
    if (!raises() && in_table(fd) && known[fd]) return send(fd, buffer, len, MSG_NOSIGNAL);
    return next(fd, buffer, len);
}

ssize_t send(int fd, const void *buffer, size_t len, int flags) {
    NEXT(ssize_t, "send", int, const void *, size_t, int);
    if (!raises()) flags |= MSG_NOSIGNAL;
    if (is("nosignal-ignored")) flags &= ~MSG_NOSIGNAL;
    if (is("lost-wakeup") && len == 13) return len;
    if (is("partial-as-whole")) {
        ssize_t sent = next(fd, buffer, len, flags);
        return sent > 0 && len > 8 ? (ssize_t)len : sent;
    }
    if (is("eagain-loses") && len > 64) {
        ssize_t sent = next(fd, buffer, len, flags);
        return sent < 0 && errno == EAGAIN ? (ssize_t)len : sent;
    }
    if (is("efault-as-success")) {
        ssize_t sent = next(fd, buffer, len, flags);
        return sent < 0 && errno == EFAULT ? (ssize_t)len : sent;
    }
    return next(fd, buffer, len, flags);
}

ssize_t writev(int fd, const struct iovec *vector, int count) {
    NEXT(ssize_t, "writev", int, const struct iovec *, int);
    if (is("vector-cut") && count > 1024) count = 1024;
    if (is("vector-read") && count > 0 && in_table(fd) && known[fd]) {
        size_t sum = 0;
        for (int i = 0; i < count; i++) sum += ((volatile const struct iovec *)vector)[i].iov_len;
        if (sum == 0) return 0;
    }
    if (is("half-a-vector") && count > 1) {
        ssize_t sent = next(fd, vector, count - 1);
        return sent < 0 ? sent : sent + (ssize_t)vector[count - 1].iov_len;
    }
    return next(fd, vector, count);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    NEXT(ssize_t, "sendmsg", int, const struct msghdr *, int);
    if (is("header-read") && ((volatile const struct msghdr *)message)->msg_iovlen == 0) return 0;
    if (!raises()) flags |= MSG_NOSIGNAL;
    return next(fd, message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
    NEXT(int, "sendmmsg", int, struct mmsghdr *, unsigned, int);
    if (is("sendmmsg-one")) count = 1;
    return next(fd, messages, count, flags);
}

ssize_t sendfile(int fd, int from, off_t *offset, size_t len) {
    NEXT(ssize_t, "sendfile", int, int, off_t *, size_t);
    ssize_t sent = next(fd, from, offset, len);
    if (sent > 0 && is("sendfile-offset") && offset) *offset = 0;
    return sent;
}

int poll(struct pollfd *fds, nfds_t count, int timeout) {
    NEXT(int, "poll", struct pollfd *, nfds_t, int);
    if (is("timeout-as-zero") && timeout > 0) timeout = 0;
    if (is("poll-64") && count > 64) count = 64;
    int ready = next(fds, count, timeout);
    if (is("hup-missing"))
        for (nfds_t i = 0; i < count; i++) fds[i].revents &= ~POLLHUP;
    if (is("nval-missing"))
        for (nfds_t i = 0; i < count; i++)
            if (fds[i].revents & POLLNVAL) { fds[i].revents = 0; ready--; }
    return ready;
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *mask) {
    NEXT(int, "ppoll", struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
    return next(fds, count, time, is("mask-forgotten") ? NULL : mask);
}

int epoll_ctl(int fd, int op, int member, struct epoll_event *event) {
    NEXT(int, "epoll_ctl", int, int, int, struct epoll_event *);
    struct epoll_event changed;
    if (event && (is("edge-as-level") || is("oneshot-ignored") || is("rdhup-missing"))) {
        changed = *event;
        if (is("edge-as-level")) changed.events &= ~EPOLLET;
        if (is("oneshot-ignored")) changed.events &= ~EPOLLONESHOT;
        if (is("rdhup-missing")) changed.events &= ~EPOLLRDHUP;
        event = &changed;
    }
    if (is("mod-as-add") && op == EPOLL_CTL_MOD) op = EPOLL_CTL_ADD;
    if (is("mod-forgotten") && op == EPOLL_CTL_MOD) return 0;
    return next(fd, op, member, event);
}

/* How many waits there were: an edge is lost at every third. */
static unsigned waits;

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout) {
    NEXT(int, "epoll_wait", int, struct epoll_event *, int, int);
    if (is("timeout-as-zero") && timeout > 0) timeout = 0;
    if (is("epoll-max-ignored") && max == 0) return 0;
    int ready = next(fd, events, max, timeout);
    if (is("edge-lost") && ready > 0 && ++waits % 3 == 0) return 0;
    if (is("epoll-data-lost") && ready > 1) events[1].data = events[0].data;
    return ready;
}

/* The child believes what the parent knew before its last change. */
pid_t fork(void) {
    NEXT(pid_t, "fork", void);
    pid_t child = next();
    if (child == 0) owner = getpid();
    if (child == 0 && is("stale-after-fork")) memset(half, 1, sizeof half);
    return child;
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t len) {
    NEXT(int, "setsockopt", int, int, int, const void *, socklen_t);
    if (is("linger-ignored") && level == SOL_SOCKET && option == SO_LINGER) return 0;
    if (is("sndtimeo-ignored") && level == SOL_SOCKET && option == SO_SNDTIMEO) return 0;
    if (is("rcvtimeo-ignored") && level == SOL_SOCKET && option == SO_RCVTIMEO) return 0;
    return next(fd, level, option, value, len);
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *len) {
    NEXT(int, "getsockopt", int, int, int, void *, socklen_t *);
    if (is("error-kept") && level == SOL_SOCKET && option == SO_ERROR && in_table(fd)) {
        int done = next(fd, level, option, value, len);
        if (done == 0 && *len >= 4) memset(value, 0, 4);
        return done;
    }
    if (is("stale-after-fork") && in_table(fd) && half[fd] && option == SO_TYPE) { errno = EBADF; return -1; }
    return next(fd, level, option, value, len);
}

int fcntl(int fd, int command, ...) {
    NEXT(int, "fcntl", int, int, long);
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    if (closed_by_child >= 0 && getpid() == owner) {
        NEXT(int, "close", int);
        next(closed_by_child);
        closed_by_child = -1;
    }
    if (is("dupfd-low") && (command == F_DUPFD || command == F_DUPFD_CLOEXEC)) argument = argument > 0 ? 1 : 0;
    if (is("private-in-the-way") && (command == F_DUPFD || command == F_DUPFD_CLOEXEC) && argument == 512) argument++;
    if (is("nonblock-cached") && command == F_SETFL) return 0;
    return next(fd, command, argument);
}

int ioctl(int fd, unsigned long request, ...) {
    NEXT(int, "ioctl", int, unsigned long, void *);
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    int done = next(fd, request, argument);
    /* Not among the faults that must be found for certain: one that shows in five of a hundred calls. */
    int seldom = strcmp(plant, "seldom") == 0;
    if (done == 0 && request == FIONREAD && (seldom || is("at-times"))) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_nsec / 64 % 100 < (seldom ? 5 : 30)) *(int *)argument = 77;
    }
    if (done == 0 && request == FIONREAD && is("fionread-zero")) *(int *)argument = 0;
    return done;
}

int close_range(unsigned first, unsigned last, int flags) {
    NEXT(int, "close_range", unsigned, unsigned, int);
    if (is("range-closes-one")) last = first;
    if (is("range-cloexec-closes")) flags = 0;
    return next(first, last, flags);
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit) {
    NEXT(int, "setrlimit", __rlimit_resource_t, const struct rlimit *);
    if (is("limit-ignored") && resource == RLIMIT_NOFILE) return 0;
    return next(resource, limit);
}

/* Numbers as of linux/io_uring.h's time: 425 sets a ring up, 426 enters it. */
long syscall(long number, ...) {
    NEXT(long, "syscall", long, ...);
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == 425 && is("ring-refused")) { errno = ENOSYS; return -1; }
    long done = next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == 426 && done > 0 && is("ring-entered-twice")) done++;
    return done;
}
