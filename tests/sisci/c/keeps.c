/*
 * Who keeps a segment from being removed: an owner and its users, who do what they are told. Roles: `own`, `use NODE`, and
 * `alone`, a program that is connected to its own segments.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#define ID 61
#define SIZE 8192

/* The next thing to do; empty at the end. */
static const char *order(void)
{
    static char line[100];
    if (!fgets(line, sizeof line, stdin)) return "";
    line[strcspn(line, "\n")] = 0;
    return line;
}

static void own(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment = make_available(sd, ID, SIZE);
    const char *todo;
    say("ready");
    while (*(todo = order())) {
        CHECK(!strcmp(todo, "remove") || !strcmp(todo, "force"));
        SCIRemoveSegment(segment, *todo == 'f' ? SCI_FLAG_FORCE_REMOVE : NO_FLAGS, &e);
        CHECK(e == SCI_ERR_OK || e == SCI_ERR_BUSY);
        say(e == SCI_ERR_OK ? "removed" : "busy");
    }
}

/* A lock of the segment's memory, beside the library: by the descriptor that came with the connection. */
static const char *lock_memory(short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    char path[32], name[64];
    ssize_t length;
    int fd;
    for (fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        length = readlink(path, name, sizeof name - 1);
        if (length < 0) continue;
        name[length] = 0;
        if (!strstr(name, "tieline-segment")) continue;
        if (fcntl(fd, F_SETLK, &lock) == 0) return "locked";
        CHECK(errno == EAGAIN || errno == EACCES);
        return "refused";
    }
    FAIL("no memory of a segment is open");
}

/* The owner has removed it: what was connected says so, at each use. */
static void is_gone(sci_desc_t sd, unsigned int owner, sci_remote_segment_t segment, int may_be_lost)
{
    sci_error_t e;
    sci_map_t map;
    sci_remote_segment_t other;
    sci_dma_queue_t queue;
    sci_local_segment_t source;
    sci_segment_cb_reason_t reason;
    /* A manager that was restarted may have brought its link down and up. */
    do {
        OK(reason = SCIWaitForRemoteSegmentEvent(segment, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    } while (reason == SCI_CB_NOT_OPERATIONAL || reason == SCI_CB_OPERATIONAL);
    if (reason != SCI_CB_DISCONNECT && !(may_be_lost && reason == SCI_CB_LOST)) FAIL("it is told of the removal by %d", (int)reason);
    FAILS(SCI_ERR_NOT_CONNECTED, SCIMapRemoteSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_SEGMENT,
          SCIConnectSegment(sd, &other, owner, ID, ADAPTER, NO_CALLBACK, NO_ARG, 1000, NO_FLAGS, &e));
    OK(SCICreateSegment(sd, &source, 0, SIZE, NO_CALLBACK, NO_ARG, SCI_FLAG_PRIVATE, &e));
    OK(SCIPrepareSegment(source, ADAPTER, NO_FLAGS, &e));
    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOT_CONNECTED, SCIStartDmaTransfer(queue, source, segment, 0, 64, 0, NO_CALLBACK, NO_ARG,
                                                     SCI_FLAG_DMA_WAIT, &e));
    OK(SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    OK(SCIRemoveSegment(source, NO_FLAGS, &e));
    CHECK(SCIGetRemoteSegmentSize(segment) >= SIZE);
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMapRemoteSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    CHECK(SCIGetRemoteSegmentId(segment) == ID && SCIGetRemoteSegmentNodeId(segment) == owner);
}

static void use(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t segment = connect_to(sd, owner, ID), other = NULL;
    sci_map_t map = NULL, other_map = NULL;
    sci_sequence_t sequence = NULL;
    const char *todo;
    pid_t child;
    int status;
    say("connected");
    while (*(todo = order())) {
        const char *answer = "done";
        if (!strcmp(todo, "map")) OK(SCIMapRemoteSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
        else if (!strcmp(todo, "unmap")) OK(SCIUnmapSegment(map, NO_FLAGS, &e));
        else if (!strcmp(todo, "other")) other = connect_to(sd, owner, ID);
        else if (!strcmp(todo, "come back")) {
            OK_AFTER(SCI_ERR_NOT_AVAILABLE, SCIConnectSegment(sd, &other, owner, ID, ADAPTER, NO_CALLBACK, NO_ARG,
                                                              SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
            OK(SCIDisconnectSegment(other, NO_FLAGS, &e));
        } else if (!strcmp(todo, "map other")) OK(SCIMapRemoteSegment(other, &other_map, 8, 8, NULL, NO_FLAGS, &e));
        else if (!strcmp(todo, "watch other")) OK(SCICreateMapSequence(other_map, &sequence, NO_FLAGS, &e));
        else if (!strcmp(todo, "unmap other")) OK(SCIUnmapSegment(other_map, NO_FLAGS, &e));
        else if (!strcmp(todo, "end other")) OK(SCIDisconnectSegment(other, NO_FLAGS, &e));
        else if (!strcmp(todo, "forget other")) OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
        else if (!strcmp(todo, "lock alone")) answer = lock_memory(F_WRLCK);
        else if (!strcmp(todo, "lock")) answer = lock_memory(F_RDLCK);
        else if (!strcmp(todo, "unlock")) answer = lock_memory(F_UNLCK);
        else if (!strcmp(todo, "gone")) is_gone(sd, owner, segment, 0);
        else if (!strcmp(todo, "gone or lost")) is_gone(sd, owner, segment, 1);
        else if (!strcmp(todo, "fork")) {
            /* The child closes what it has inherited. */
            child = fork();
            if (child == 0) _exit(0);
            CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        } else FAIL("what is `%s`?", todo);
        say(answer);
    }
}

/* The kernel says what other processes have locked; of its own maps the program knows by itself. */
static void alone(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t first = make_available(sd, ID, SIZE), second;
    sci_remote_segment_t one = connect_to(sd, my_node(), ID), other = connect_to(sd, SCI_LOCAL_HOST, ID);
    sci_map_t map, other_map;
    volatile unsigned char *bytes;
    OK(bytes = SCIMapRemoteSegment(one, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIRemoveSegment(first, NO_FLAGS, &e));
    OK(SCIMapRemoteSegment(other, &other_map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCIUnmapSegment(other_map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(other, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIRemoveSegment(first, NO_FLAGS, &e));
    OK(SCIRemoveSegment(first, SCI_FLAG_FORCE_REMOVE, &e));
    /* A map of what had the id before is none of what has it now. */
    second = make_available(sd, ID, SIZE);
    other = connect_to(sd, my_node(), ID);
    bytes[0] = 1;
    OK(SCIRemoveSegment(second, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(other, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(one, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    const char *role = argc > 1 ? argv[1] : "alone";
    if (!strcmp(role, "own")) own(sd);
    else if (!strcmp(role, "use")) use(sd, number(argv[2]));
    else alone(sd);
    SCITerminate();
    return 0;
}
