/* What a test program prints: each call with its result and, if it failed, its error. Two runs of it must print the same. */
#ifndef SAY_H
#define SAY_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Written at once: children print too, and nothing may be left in a buffer that both have. */
static inline void say(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (syscall(SYS_write, 1, line, (size_t)length) != length)
        _exit(99);
}

static inline long said(const char *call, long result)
{
    int error = errno;
    if (result < 0)
        say("%s: %ld %s\n", call, result, strerrorname_np(error));
    else
        say("%s: %ld\n", call, result);
    errno = error;
    return result;
}

/* A call with errno set to something that no call leaves. */
#define SAY(call) (errno = 0, said(#call, (long)(call)))
/* The same for a call whose result differs between runs: only whether it failed. */
#define OK(call) (errno = 0, said(#call, (long)(call) < 0 ? -1 : 0))

/* Two ends of a connection over loopback. */
static inline void tcp(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &length);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(pair[0], (struct sockaddr *)&address, sizeof address) != 0)
        _exit(98);
    pair[1] = accept(listener, NULL, NULL);
    close(listener);
}

/* Which descriptors are open. */
static inline void descriptors(const char *when)
{
    char line[512];
    int at = 0;
    for (int fd = 0; fd < 1024; fd++)
        if (syscall(SYS_fcntl, fd, F_GETFD) >= 0)
            at += snprintf(line + at, sizeof line - (size_t)at, " %d%s", fd,
                           syscall(SYS_fcntl, fd, F_GETFD) ? "x" : "");
    line[at] = 0;
    say("%s: open are%s\n", when, line);
}
#endif
