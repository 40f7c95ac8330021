// What FIONREAD says is what there is to read, while the writer returns bytes to the kernel: counted.c
//
// Behind a wait that has found something, no bytes mean the end, and so many bytes can be read. The writer sleeps now and then in a wait for
// this connection, for which the ring's bytes go back. Between the kernel's count and what follows it there may be a pause: slow.c.
#include "loopback.h"
#include <poll.h>
#include <sys/ioctl.h>

enum { CONNECTIONS = 30, WRITES = 60, SOME = 20000 };

static void writer(int seed)
{
    static char some[SOME];
    int fd = connects();
    srand(seed);
    for (int i = 0; i < WRITES; i++) {
        for (size_t left = 1 + rand() % SOME; left > 0;) {
            ssize_t n = write(fd, some, left);
            must(n > 0, "write");
            left -= n;
        }
        struct pollfd one = { fd, POLLIN, 0 };
        if (i % 10 == 5) poll(&one, 1, 1);
    }
    shutdown(fd, SHUT_WR);
    must(read(fd, some, 1) == 0, "the reader's end");
    close(fd);
}

int main(void)
{
    static char some[4 << 20];
    int listener = listens();
    long waits = 0, bytes = 0;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < CONNECTIONS; i++) writer(i);
        _exit(0);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept(listener, 0, 0);
        for (;; waits++) {
            struct pollfd one = { fd, POLLIN, 0 };
            if (poll(&one, 1, waits % 2 ? -1 : 0) == 0) continue;
            int count = -1;
            must(ioctl(fd, FIONREAD, &count) == 0, "FIONREAD");
            if (count == 0) break;
            must(count > 0 && count <= (int)sizeof some, "the count");
            must(waits % 3 || poll(&one, 1, 0) == 1, "a second look");
            ssize_t n = recv(fd, some, count, MSG_DONTWAIT);
            must(n > 0, "the read of what was counted");
            bytes += n;
        }
        must(recv(fd, some, sizeof some, 0) == 0, "the end");
        close(fd);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0, "the writer");
    printf("%ld bytes, each of them counted\n", bytes);
    return 0;
}
