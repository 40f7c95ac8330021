// Two processes write small frames to one connection, which carried much before they shared it; the reader pauses now and then, so that
// they wait for room: no frame has bytes of another in its middle.
#include "loopback.h"
#include <signal.h>
#include <sys/wait.h>

enum { FRAMES = 20000, PAUSE_EVERY = 4000 };
struct frame { uint64_t writer, number; unsigned char rest[184]; };

static void writes(int conn, uint64_t writer) {
    struct frame frame = { .writer = writer };
    memset(frame.rest, (int)writer, sizeof frame.rest);
    for (; frame.number < FRAMES; frame.number++) must(write(conn, &frame, sizeof frame) == sizeof frame, "a frame is written whole");
}

static void reads(int conn) {
    struct frame frame;
    uint64_t next[3] = { 0 };
    char turn;
    for (int i = 0; i < 3000; i++) must(read(conn, &turn, 1) == 1 && write(conn, &turn, 1) == 1, "a turn");
    for (int frames = 0; frames < 2 * FRAMES; frames++) {
        if (frames % PAUSE_EVERY == 0) usleep(30000);
        must(recv(conn, &frame, sizeof frame, MSG_WAITALL) == sizeof frame, "a frame");
        must(frame.writer == 1 || frame.writer == 2, "a writer");
        must(frame.number == next[frame.writer]++, "the writer's next frame");
        for (size_t i = 0; i < sizeof frame.rest; i++) must(frame.rest[i] == frame.writer, "the writer's bytes");
    }
    must(read(conn, &turn, 1) == 0, "the end");
    _exit(0);
}

int main(void) {
    int listener = listens();
    pid_t reader = fork();
    if (!reader) reads(connects());
    int conn = accept(listener, NULL, NULL), status;
    must(conn >= 0, "accept");
    char turn = 't';
    for (int i = 0; i < 3000; i++) must(write(conn, &turn, 1) == 1 && read(conn, &turn, 1) == 1, "a turn");
    pid_t child = fork();
    if (!child) {
        writes(conn, 2);
        _exit(0);
    }
    writes(conn, 1);
    must(waitpid(child, &status, 0) == child && status == 0, "the other writer");
    close(conn);
    must(waitpid(reader, &status, 0) == reader && status == 0, "the reader");
    return 0;
}
