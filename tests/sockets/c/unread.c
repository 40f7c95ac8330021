/* An end is gone: killed with bytes unread it is a reset, of which the writer is told once; killed or ended with none unread it is a clean end. */
#include "loopback.h"
#include <signal.h>

enum way { KILLED_UNREAD, KILLED, ENDED };

/* What the writer is told first, and then. */
static void gone(enum way way, const char *name)
{
    int listener = listens(), line[2];
    must(pipe(line) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        int accepted = accept(listener, NULL, NULL);
        answers(accepted);
        if (way == ENDED)
            exit(0);
        char byte;
        read(line[0], &byte, 1);
        if (way == KILLED) {
            char bytes[1000];
            for (size_t done = 0; done < sizeof bytes;)
                done += (size_t)read(accepted, bytes, sizeof bytes - done);
        }
        computes(60);
    }
    int fd = connects();
    asks(fd);
    static char bytes[1000];
    if (way != ENDED) {
        must(write(fd, bytes, sizeof bytes) == sizeof bytes, "write");
        must(write(line[1], "x", 1) == 1, "write");
        computes(0.3);
        kill(child, SIGKILL);
    }
    must(waitpid(child, NULL, 0) == child, "waitpid");
    char byte;
    printf("%s:", name);
    for (int turn = 0; turn < 2; turn++) {
        ssize_t count = read(fd, &byte, 1);
        printf(" %zd %s", count, count < 0 ? strerrorname_np(errno) : "");
    }
    puts("");
    fflush(stdout);
    close(fd);
    close(listener);
}

int main(void)
{
    gone(KILLED_UNREAD, "killed with bytes unread");
    gone(KILLED, "killed");
    gone(ENDED, "ended");
    return 0;
}
