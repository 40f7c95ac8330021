/* A reader with unread bytes in the ring tries to execute a program that is not there, and reads on by calls that leave the ring: the bytes come,
   or the connection is reset, and no end stands in their place. The writer makes no call after its writes, and is killed.
   exec_failed splice|dup */
#include "loopback.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

enum { BYTES = 400 };

static volatile int *step;

static void writer(void)
{
    char bytes[BYTES / 4];
    memset(bytes, 'w', sizeof bytes);
    int fd = connects();
    asks(fd);
    while (*step != 1)
        continue;
    for (int at = 0; at < 4; at++)
        must(write(fd, bytes, sizeof bytes) == sizeof bytes, "write");
    *step = 2;
    while (*step != 3)
        continue;
    computes(0.5);
    kill(getpid(), SIGKILL);
}

/* Until the end, or an error. */
static ssize_t reads(int fd, int by_splice, size_t *got)
{
    char bytes[BYTES];
    int way[2];
    must(pipe(way) == 0, "pipe");
    int other = by_splice ? fd : dup(fd);
    for (;;) {
        ssize_t more = by_splice ? splice(fd, NULL, way[1], NULL, BYTES, 0) : read(other, bytes, sizeof bytes);
        if (more <= 0)
            return more;
        if (by_splice)
            must(read(way[0], bytes, sizeof bytes) == more, "the pipe");
        for (ssize_t at = 0; at < more; at++)
            must(bytes[at] == 'w', "a byte is wrong");
        *got += (size_t)more;
    }
}

int main(int argc, char **argv)
{
    int listener = listens(), by_splice = argc > 1 && strcmp(argv[1], "splice") == 0, status = 0;
    step = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(step != MAP_FAILED, "mmap");
    pid_t child = fork();
    if (child == 0)
        writer();
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    must(fd >= 0, "accept");
    answers(fd);
    *step = 1;
    while (*step != 2)
        continue;
    char *words[] = {"x", NULL};
    must(execv("/nonexistent/x", words) == -1 && errno == ENOENT, "execv");
    *step = 3;
    size_t got = 0;
    ssize_t last = reads(fd, by_splice, &got);
    printf("%zu bytes, then %s\n", got, last < 0 ? strerror(errno) : "the end");
    errno = 0;
    must(got == BYTES || (last < 0 && got < BYTES), "an end in place of bytes");
    must(waitpid(child, &status, 0) == child, "waitpid");
    return 0;
}
