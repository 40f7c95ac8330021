/* A library that is preloaded beside the other: an allocator that makes calls on descriptors whenever it is called. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static char pool[16 << 20] __attribute__((aligned(16)));
static size_t used;
static __thread int depth;

static void call(void)
{
    char bytes[16];
    if (depth++ == 0) {
        int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC), ends[2];
        read(fd, bytes, sizeof bytes);
        close(fd);
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
        send(ends[0], "x", 1, 0);
        recv(ends[1], bytes, 1, 0);
        close(ends[0]);
        close(ends[1]);
    }
    depth--;
}

void *malloc(size_t length)
{
    call();
    size_t at = __atomic_fetch_add(&used, (length + 31) & ~(size_t)15, __ATOMIC_RELAXED);
    if (at + length + 16 > sizeof pool)
        return NULL;
    *(size_t *)(pool + at) = length;
    return pool + at + 16;
}

void free(void *room)
{
    (void)room;
    call();
}

void *calloc(size_t count, size_t length)
{
    void *room = malloc(count * length);
    return room ? memset(room, 0, count * length) : room;
}

void *realloc(void *old, size_t length)
{
    void *room = malloc(length);
    if (room && old) {
        size_t before = *(size_t *)((char *)old - 16);
        memcpy(room, old, before < length ? before : length);
    }
    return room;
}
