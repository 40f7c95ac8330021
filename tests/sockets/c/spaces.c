/* Two processes write to one connection, one of them in a namespace of process numbers of its own: there the other's number is nobody's. */
#include "loopback.h"
#include <sched.h>

enum { CHUNK = 200, SECONDS = 2 };

/* Its bytes count up, in seven bits; the eighth says whose they are. */
static void writes(int fd, int who)
{
    unsigned char chunk[CHUNK];
    unsigned next = 0;
    for (double end = now() + SECONDS; now() < end;) {
        for (int i = 0; i < CHUNK; i++)
            chunk[i] = (unsigned char)(who << 7 | (int)(next++ % 127));
        /* Who is kept waiting may be interrupted. */
        for (int done = 0; done < CHUNK;) {
            ssize_t count = write(fd, chunk + done, (size_t)(CHUNK - done));
            must(count > 0, "write");
            done += (int)count;
        }
    }
}

static void reads(int fd)
{
    static unsigned char bytes[1 << 16];
    unsigned next[2] = {0, 0};
    for (ssize_t count; (count = read(fd, bytes, sizeof bytes)) > 0;) {
        for (ssize_t i = 0; i < count; i++) {
            int who = bytes[i] >> 7;
            errno = 0;
            must((bytes[i] & 127) == next[who], "bytes lost, doubled or out of order");
            next[who] = (next[who] + 1) % 127;
        }
    }
    _exit(0);
}

int main(void)
{
    int listener = listens();
    pid_t reader = fork();
    if (reader == 0) {
        int accepted = accept(listener, NULL, NULL);
        answers(accepted);
        reads(accepted);
    }
    int fd = connects();
    asks(fd);
    if (unshare(CLONE_NEWPID) != 0) {
        puts("not tried: no namespace of process numbers may be made here");
        shutdown(fd, SHUT_WR);
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        writes(fd, 1);
        _exit(0);
    }
    writes(fd, 0);
    int said;
    must(waitpid(child, &said, 0) == child && said == 0, "the other writer");
    shutdown(fd, SHUT_WR);
    must(waitpid(reader, &said, 0) == reader && said == 0, "the reader");
    puts("bytes of both arrived in order");
    return 0;
}
