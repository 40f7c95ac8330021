/* A library to preload, which says on standard error what it hands on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

ssize_t write(int fd, const void *from, size_t length)
{
    static ssize_t (*next)(int, const void *, size_t);
    if (next == NULL)
        next = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    next(2, "write\n", 6);
    return next(fd, from, length);
}
