/* Two nodes: an owner, and a user that looks for its segment as programs do, or that has a map of it for good. */
#include "check.h"

#define ID 42
#define SIZE 4096

static volatile int calls;
static volatile sci_error_t told;

static sci_callback_action_t connected(void *arg, sci_remote_segment_t segment, sci_segment_cb_reason_t reason,
                                       sci_error_t status)
{
    CHECK(arg == &calls && segment != NULL && reason == SCI_CB_CONNECT);
    told = status;
    __sync_fetch_and_add(&calls, 1);
    return SCI_CALLBACK_CONTINUE;
}

static void own(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment;
    OK(SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIPrepareSegment(segment, ADAPTER, NO_FLAGS, &e));
    say("prepared");
    hear("go on");
    OK(SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    say("available");
    hear("withdraw");
    OK(SCISetSegmentUnavailable(segment, ADAPTER, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIRemoveSegment(segment, NO_FLAGS, &e));
    say("withdrawn");
    /* Programs wait for the last user in such a loop. */
    OK_AFTER(SCI_ERR_BUSY, SCIRemoveSegment(segment, NO_FLAGS, &e));
    say("removed");
}

static void is_missing(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t segment;
    FAILS(SCI_ERR_NO_SUCH_SEGMENT, SCIConnectSegment(sd, &segment, owner, ID, ADAPTER, NO_CALLBACK, NO_ARG, 1000,
                                                     NO_FLAGS, &e));
}

static void asynchronously(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t segment;
    sci_map_t map;
    OK(SCIConnectSegment(sd, &segment, owner, ID, ADAPTER, connected, (void *)&calls, SCI_INFINITE_TIMEOUT,
                         SCI_FLAG_USE_CALLBACK | SCI_FLAG_ASYNCHRONOUS_CONNECT, &e));
    FAILS(SCI_ERR_SEGMENT_NOT_CONNECTED, SCIMapRemoteSegment(segment, &map, 0, 1, NULL, NO_FLAGS, &e));
    say("asked");
    UNTIL(calls == 1);
    CHECK(told == SCI_ERR_OK);
    OK(SCIMapRemoteSegment(segment, &map, 0, 1, NULL, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    /* What never comes: the time is over, and the callback is told. */
    OK(SCIConnectSegment(sd, &segment, owner, ID + 1, ADAPTER, connected, (void *)&calls, 10,
                         SCI_FLAG_USE_CALLBACK | SCI_FLAG_ASYNCHRONOUS_CONNECT, &e));
    UNTIL(calls == 2);
    CHECK(told == SCI_ERR_NO_SUCH_SEGMENT);
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    /* What is given up before it came calls nobody. */
    OK(SCIConnectSegment(sd, &segment, owner, ID + 1, ADAPTER, connected, (void *)&calls, SCI_INFINITE_TIMEOUT,
                         SCI_FLAG_USE_CALLBACK | SCI_FLAG_ASYNCHRONOUS_CONNECT, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    CHECK(calls == 2);
}

static void use(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t segment, other;
    sci_map_t map;
    sci_error_t told_event;
    is_missing(sd, owner);
    FAILS(SCI_ERR_ILLEGAL_NODEID,
          SCIConnectSegment(sd, &other, 5, ID, ADAPTER, NO_CALLBACK, NO_ARG, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_NODE_NOT_RESPONDING,
          SCIConnectSegment(sd, &other, 252 - 4, ID, ADAPTER, NO_CALLBACK, NO_ARG, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO,
          SCIConnectSegment(sd, &other, owner, ID, 9, NO_CALLBACK, NO_ARG, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIConnectSegment(sd, NULL, owner, ID, ADAPTER, NO_CALLBACK, NO_ARG, 0, NO_FLAGS, &e));
    asynchronously(sd, owner);
    segment = connect_to(sd, owner, ID);
    CHECK(SCIGetRemoteSegmentId(segment) == ID && SCIGetRemoteSegmentNodeId(segment) == owner);
    CHECK(SCIGetRemoteSegmentSize(segment) >= SIZE);
    OK(SCIMapRemoteSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    say("connected");
    hear("withdrawn");
    /* No new connections; those that there are stay. */
    is_missing(sd, owner);
    *(volatile int *)SCIGetMapPointer(map) = 7;
    FAILS(SCI_ERR_BUSY, SCIDisconnectSegment(segment, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    /* A connection without a map keeps nothing: the owner removes the segment, and this learns of it. */
    CHECK(SCIWaitForRemoteSegmentEvent(segment, &told_event, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e) == SCI_CB_DISCONNECT);
    FAILS(SCI_ERR_NOT_CONNECTED, SCIMapRemoteSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIDisconnectSegment(segment, NO_FLAGS, &e));
    /* Programs ask afterwards what it was. */
    CHECK(SCIGetRemoteSegmentId(segment) == ID && SCIGetRemoteSegmentNodeId(segment) == owner);
    OK(SCIClose(sd, NO_FLAGS, &e));
}

/* Has a map until it is killed. */
static void hold(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t segment;
    sci_map_t map;
    OK(SCIConnectSegment(sd, &segment, owner, ID, ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    SCIMapRemoteSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e);
    CHECK(e == SCI_ERR_OK);
    say("mapped");
    hear("never");
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    if (argc > 2 && !strcmp(argv[1], "hold")) hold(sd, number(argv[2]));
    else if (argc > 2) use(sd, number(argv[2]));
    else own(sd);
    SCITerminate();
    return 0;
}
