/* One program that forks after SCIInitialize: the child has nothing of its parent, and may begin anew. */
#include "check.h"

#include <sys/wait.h>

#define ID 66
#define SIZE 4096

static void be_child(sci_desc_t sd, sci_local_segment_t segment, sci_map_t map)
{
    sci_error_t e;
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIClose(sd, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIRemoveSegment(segment, SCI_FLAG_FORCE_REMOVE, &e));
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIUnmapSegment(map, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIWaitForLocalSegmentEvent(segment, NULL, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    CHECK(SCIGetMapPointer(map) == NULL);
    SCITerminate();
    sd = start();
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveSegment(segment, NO_FLAGS, &e));
    FAILS(SCI_ERR_SEGMENTID_USED, SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    segment = make_available(sd, ID + 1, SIZE);
    OK(SCIDisconnectSegment(connect_to(sd, my_node(), ID), NO_FLAGS, &e));
    SCITerminate();
    exit(0);
}

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    sci_local_segment_t segment = make_available(sd, ID, SIZE);
    sci_map_t map;
    char *bytes;
    int i, status;
    OK(bytes = SCIMapLocalSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    for (i = 0; i < 3; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) be_child(sd, segment, map);
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        /* The parent has lost nothing. */
        bytes[i] = 1;
        CHECK(SCIGetLocalSegmentId(segment) == ID && SCIGetMapPointer(map) == bytes);
    }
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK_AFTER(SCI_ERR_BUSY, SCIRemoveSegment(segment, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
