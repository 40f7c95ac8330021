/* Signal handlers write frames to the connection on which they interrupt a write of small messages. Each frame and each message arrives whole. */
#include "loopback.h"
#include <signal.h>
#include <sys/time.h>

enum { FRAME = 64, MESSAGE = 24, SECONDS = 2 };

static int fd;
static volatile long frames;
static volatile int is_broken;

static void handles(int signal)
{
    (void)signal;
    int error = errno;
    char frame[FRAME];
    memset(frame, 'H', sizeof frame);
    if (write(fd, frame, sizeof frame) != sizeof frame)
        is_broken = 1;
    frames++;
    errno = error;
}

/* Runs of each kind are made of whole ones. */
static void reads(int from, int line)
{
    static char bytes[1 << 16];
    long run = 0, frame_bytes = 0;
    char last = 'm';
    for (ssize_t count; (count = read(from, bytes, sizeof bytes)) > 0;) {
        for (ssize_t i = 0; i < count; i++) {
            if (bytes[i] != last) {
                must(run % (last == 'H' ? FRAME : MESSAGE) == 0, "a torn message or frame");
                run = 0;
                last = bytes[i];
            }
            run++;
            frame_bytes += bytes[i] == 'H';
        }
    }
    long sent = 0;
    must(read(line, &sent, sizeof sent) == sizeof sent, "the count");
    must(frame_bytes == sent * FRAME, "frames are missing");
    _exit(0);
}

int main(void)
{
    int listener = listens(), line[2];
    must(pipe(line) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        int accepted = accept(listener, NULL, NULL);
        answers(accepted);
        reads(accepted, line[0]);
    }
    fd = connects();
    asks(fd);
    struct sigaction action = {.sa_handler = handles, .sa_flags = SA_RESTART};
    must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
    char message[MESSAGE];
    memset(message, 'm', sizeof message);
    for (double end = now() + SECONDS; now() < end;)
        must(write(fd, message, sizeof message) == sizeof message, "write");
    must(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer");
    must(!is_broken && frames > 0, "a handler's write");
    long sent = frames;
    must(write(line[1], &sent, sizeof sent) == sizeof sent, "write");
    shutdown(fd, SHUT_WR);
    int said;
    must(waitpid(child, &said, 0) == child && said == 0, "the reader");
    puts("each frame arrived whole");
    return 0;
}
