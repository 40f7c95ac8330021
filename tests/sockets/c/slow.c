// Pauses behind each FIONREAD, as a thread that loses its processor there would.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <time.h>

enum { PAUSE_NS = 400000 };

static long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    int (*next)(int, unsigned long, void *) = (int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl");
    int result = next(fd, request, va_arg(arguments, void *));
    va_end(arguments);
    // Without a call.
    if (request == FIONREAD)
        for (long end = now_ns() + PAUSE_NS; now_ns() < end;) continue;
    return result;
}
