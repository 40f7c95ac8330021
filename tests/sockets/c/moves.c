/* Moves known numbers of bytes over connections in the ways that are hard to count. */
#include "say.h"

static void move(int from, int to, size_t bytes)
{
    static char room[1000];
    while (bytes > 0) {
        size_t part = bytes < sizeof room ? bytes : sizeof room;
        for (size_t done = 0; done < part;) {
            ssize_t sent = write(from, room, part - done), got = 0;
            for (ssize_t taken = 0; taken < sent; taken += got)
                if ((got = read(to, room, (size_t)(sent - taken))) <= 0)
                    _exit(97);
            done += (size_t)sent;
        }
        bytes -= part;
    }
}

int main(int count, char **words)
{
    const char *way = count > 1 ? words[1] : "";
    int pair[2];
    if (strcmp(way, "seldom") == 0) {
        for (int turn = 0; turn < 100; turn++) {
            tcp(pair);
            move(pair[0], pair[1], 2);
            move(pair[1], pair[0], 2);
            close(pair[0]);
            close(pair[1]);
        }
        return 0;
    }
    tcp(pair);
    if (strcmp(way, "inherited") == 0) {
        for (int turn = 0; turn < 10; turn++)
            move(pair[0], pair[1], 10);
        int other[2], status;
        tcp(other);
        pid_t child = fork();
        if (child == 0) {
            /* The other end is its parent's now. */
            for (size_t done = 0; done < 50000;) {
                char room[1000];
                ssize_t got = read(other[1], room, sizeof room);
                if (got <= 0)
                    _exit(97);
                done += (size_t)got;
            }
            _exit(0);
        }
        close(other[1]);
        for (int turn = 0; turn < 50; turn++) {
            static char room[1000];
            if (write(other[0], room, 1000) != 1000)
                _exit(97);
        }
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    if (strcmp(way, "executed") == 0) {
        for (int turn = 0; turn < 20; turn++)
            move(pair[0], pair[1], 100);
        fcntl(pair[0], F_SETFD, FD_CLOEXEC);
        fcntl(pair[1], F_SETFD, FD_CLOEXEC);
        execl("/no/such/program", "no", (char *)NULL);
        execl("/proc/self/exe", words[0], "again", (char *)NULL);
        return 1;
    }
    if (strcmp(way, "again") == 0)
        for (int turn = 0; turn < 10; turn++)
            move(pair[0], pair[1], 100);
    if (strcmp(way, "copied") == 0) {
        for (int turn = 0; turn < 10; turn++)
            move(pair[0], pair[1], 100);
        int copy = dup(pair[0]);
        for (int turn = 0; turn < 20; turn++)
            move(copy, pair[1], 100);
        close(pair[0]);
        close(copy);
    }
    if (strcmp(way, "shut") == 0) {
        for (int turn = 0; turn < 10; turn++)
            move(pair[0], pair[1], 100);
        char byte;
        shutdown(pair[0], SHUT_WR);
        shutdown(pair[1], SHUT_WR);
        if (read(pair[1], &byte, 1) != 0 || read(pair[0], &byte, 1) != 0)
            return 1;
        close(pair[0]);
        close(pair[1]);
    }
    return 0;
}
