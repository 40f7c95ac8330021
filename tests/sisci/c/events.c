/* Two nodes: what either end of a connection is told, by waiting and by callbacks. */
#include "check.h"

#define ID 12
#define SIZE 4096
#define SECONDS 1000

static volatile int came[MAX_CB_REASON + 1];
static volatile unsigned int peer;

static sci_callback_action_t at_owner(void *arg, sci_local_segment_t segment, sci_segment_cb_reason_t reason,
                                      unsigned int node, unsigned int adapter, sci_error_t error)
{
    CHECK(arg == (void *)came && segment != NULL && adapter == ADAPTER && error == SCI_ERR_OK);
    peer = node;
    __sync_fetch_and_add(&came[reason], 1);
    return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t at_user(void *arg, sci_remote_segment_t segment, sci_segment_cb_reason_t reason,
                                     sci_error_t status)
{
    CHECK(arg == (void *)came && segment != NULL && status == SCI_ERR_OK);
    __sync_fetch_and_add(&came[reason], 1);
    return SCI_CALLBACK_CONTINUE;
}

/* Waits for what the user does: connects, leaves, connects, dies. */
static void own_and_wait(sci_desc_t sd, unsigned int user)
{
    static const sci_segment_cb_reason_t wanted[] = {SCI_CB_CONNECT, SCI_CB_DISCONNECT, SCI_CB_CONNECT, SCI_CB_LOST};
    sci_error_t e;
    sci_local_segment_t segment = make_available(sd, ID, SIZE);
    unsigned int node, adapter;
    size_t i;
    sci_segment_cb_reason_t reason;
    FAILS(SCI_ERR_TIMEOUT, SCIWaitForLocalSegmentEvent(segment, &node, &adapter, 0, NO_FLAGS, &e));
    say("ready");
    for (i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        node = adapter = 77;
        OK(reason = SCIWaitForLocalSegmentEvent(segment, &node, &adapter, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
        if (reason != wanted[i]) FAIL("event %zu is %d, not %d", i, (int)reason, (int)wanted[i]);
        CHECK(node == user && adapter == ADAPTER);
    }
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
}

static void own_and_be_called(sci_desc_t sd, unsigned int user)
{
    sci_error_t e;
    sci_local_segment_t segment;
    OK(SCICreateSegment(sd, &segment, ID, SIZE, at_owner, (void *)came, SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIPrepareSegment(segment, ADAPTER, NO_FLAGS, &e));
    OK(SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_OPERATION, SCIWaitForLocalSegmentEvent(segment, NULL, NULL, 0, NO_FLAGS, &e));
    say("ready");
    UNTIL(came[SCI_CB_CONNECT] == 2 && came[SCI_CB_DISCONNECT] == 1 && came[SCI_CB_LOST] == 1);
    CHECK(peer == user);
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
}

/* Connects, leaves, connects again, and is killed. */
static void come_and_go(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    OK(SCIDisconnectSegment(connect_to(sd, owner, ID), NO_FLAGS, &e));
    connect_to(sd, owner, ID);
    say("there");
    pause();
}

/* The other way round: the user hears of the link, and of what its owner does. */
static void use_and_wait(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e, status;
    sci_remote_segment_t segment = connect_to(sd, owner, ID);
    static const sci_segment_cb_reason_t wanted[] = {SCI_CB_NOT_OPERATIONAL, SCI_CB_OPERATIONAL, SCI_CB_DISCONNECT};
    size_t i;
    sci_segment_cb_reason_t reason;
    sci_map_t map;
    FAILS(SCI_ERR_TIMEOUT, SCIWaitForRemoteSegmentEvent(segment, &status, 0, NO_FLAGS, &e));
    say("connected");
    for (i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        status = UNSET;
        OK(reason = SCIWaitForRemoteSegmentEvent(segment, &status, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
        if (reason != wanted[i]) FAIL("event %zu is %d, not %d", i, (int)reason, (int)wanted[i]);
        CHECK(status == SCI_ERR_OK);
        say("told");
    }
    FAILS(SCI_ERR_NOT_CONNECTED, SCIMapRemoteSegment(segment, &map, 0, 1, NULL, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
}

static void use_and_be_called(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t segment;
    OK_AFTER(SCI_ERR_NO_SUCH_SEGMENT,
             SCIConnectSegment(sd, &segment, owner, ID, ADAPTER, at_user, (void *)came, SECONDS,
                               SCI_FLAG_USE_CALLBACK, &e));
    FAILS(SCI_ERR_ILLEGAL_OPERATION, SCIWaitForRemoteSegmentEvent(segment, NULL, 0, NO_FLAGS, &e));
    say("connected");
    UNTIL(came[SCI_CB_NOT_OPERATIONAL] == 1);
    say("told");
    UNTIL(came[SCI_CB_OPERATIONAL] == 1);
    say("told");
    UNTIL(came[SCI_CB_LOST] == 1);
    say("told");
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
}

static void own(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment = make_available(sd, ID, SIZE);
    say("ready");
    hear("disconnect");
    OK(SCISetSegmentUnavailable(segment, ADAPTER, SCI_FLAG_FORCE_DISCONNECT, &e));
    OK(SCIRemoveSegment(segment, SCI_FLAG_FORCE_REMOVE, &e));
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    unsigned int other = argc > 2 ? number(argv[2]) : 0;
    const char *role = argc > 1 ? argv[1] : "";
    if (!strcmp(role, "own-and-wait")) own_and_wait(sd, other);
    else if (!strcmp(role, "own-and-be-called")) own_and_be_called(sd, other);
    else if (!strcmp(role, "come-and-go")) come_and_go(sd, other);
    else if (!strcmp(role, "use-and-wait")) use_and_wait(sd, other);
    else if (!strcmp(role, "use-and-be-called")) use_and_be_called(sd, other);
    else if (!strcmp(role, "own")) own(sd);
    else FAIL("no such role: %s", role);
    SCITerminate();
    return 0;
}
