/*
 * A writer of a group. "wait": connects before there is a member, without waiting in the call. "sequence": looks at a sequence
 * while the link to a member goes down and comes up. Without an argument: a member, on whatever node.
 */
#include "check.h"

#define GROUP 5
#define SIZE 8192

static void member(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment;
    sci_map_t map;
    volatile unsigned int *words;
    OK(SCICreateSegment(sd, &segment, GROUP, SIZE, NO_CALLBACK, NO_ARG, SCI_FLAG_BROADCAST, &e));
    OK(SCIPrepareSegment(segment, ADAPTER, NO_FLAGS, &e));
    OK(words = SCIMapLocalSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    say("member");
    UNTIL(words[1] == 1);
    CHECK(words[0] == 4711);
    say("seen");
    UNTIL(words[1] == 2);
    CHECK(words[0] == 4712);
    say("seen");
    hear("end");
}

static volatile int connected;
static volatile sci_error_t connected_status;

static sci_callback_action_t called(void *arg, sci_remote_segment_t segment, sci_segment_cb_reason_t reason,
                                    sci_error_t status)
{
    CHECK(arg == &connected && segment != NULL && reason == SCI_CB_CONNECT);
    connected_status = status;
    __sync_synchronize();
    connected++;
    return SCI_CALLBACK_CONTINUE;
}

static sci_remote_segment_t begin(sci_desc_t sd, unsigned int timeout)
{
    sci_error_t e;
    sci_remote_segment_t segment;
    OK(SCIConnectSegment(sd, &segment, DIS_BROADCAST_NODEID_GROUP_ALL, GROUP, ADAPTER, called, (void *)&connected, timeout,
                         SCI_FLAG_BROADCAST | SCI_FLAG_ASYNCHRONOUS_CONNECT | SCI_FLAG_USE_CALLBACK, &e));
    return segment;
}

static volatile unsigned int *map_group(sci_remote_segment_t segment, sci_map_t *map)
{
    sci_error_t e;
    volatile unsigned int *words;
    CHECK(SCIGetRemoteSegmentSize(segment) == SIZE);
    OK(words = SCIMapRemoteSegment(segment, map, 0, SIZE, NULL, NO_FLAGS, &e));
    return words;
}

static void wait_for_member(sci_desc_t sd)
{
    sci_error_t e;
    sci_map_t map;
    volatile unsigned int *words;
    sci_remote_segment_t segment = begin(sd, 1);
    UNTIL(connected == 1);
    CHECK(connected_status == SCI_ERR_NO_SUCH_SEGMENT);
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    /* Given up before anybody came: nothing is told any more. */
    segment = begin(sd, SCI_INFINITE_TIMEOUT);
    FAILS(SCI_ERR_SEGMENT_NOT_CONNECTED, SCIMapRemoteSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    segment = begin(sd, SCI_INFINITE_TIMEOUT);
    CHECK(connected == 1);
    say("waiting");
    UNTIL(connected == 2);
    CHECK(connected_status == SCI_ERR_OK);
    words = map_group(segment, &map);
    words[0] = 4711;
    words[1] = 1;
    hear("again");
    words[0] = 4712;
    words[1] = 2;
    hear("end");
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
}

static void look_at_the_sequence(sci_desc_t sd)
{
    sci_error_t e;
    sci_map_t map;
    sci_sequence_t sequence, second;
    sci_sequence_status_t status;
    volatile unsigned int *words;
    unsigned int block[2] = {4711, 1};
    sci_remote_segment_t segment;
    segment = connect_to(sd, DIS_BROADCAST_NODEID_GROUP_ALL, GROUP);
    words = map_group(segment, &map);
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &second, NO_FLAGS, &e));
    start_sequence(sequence);
    sequence_says(sequence, SCI_SEQ_OK);
    sequence_says(second, SCI_SEQ_OK);
    OK(SCIMemCpy(sequence, block, map, 0, sizeof block, SCI_FLAG_ERROR_CHECK, &e));
    say("standing");
    hear("down");
    sequence_says(sequence, SCI_SEQ_PENDING);
    sequence_says(sequence, SCI_SEQ_PENDING);
    OK(status = SCIStartSequence(sequence, NO_FLAGS, &e));
    CHECK(status == SCI_SEQ_PENDING);
    say("seen");
    hear("up");
    /* One was not looked at meanwhile. Each says once that something may be missing. */
    sequence_says(second, SCI_SEQ_RETRIABLE);
    sequence_says(second, SCI_SEQ_OK);
    sequence_says(sequence, SCI_SEQ_RETRIABLE);
    start_sequence(sequence);
    words[0] = 4712;
    words[1] = 2;
    sequence_says(sequence, SCI_SEQ_OK);
    say("seen");
    hear("end");
    OK(SCIRemoveSequence(second, NO_FLAGS, &e));
    OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    if (argc < 2) member(sd);
    else if (!strcmp(argv[1], "wait")) wait_for_member(sd);
    else look_at_the_sequence(sd);
    SCITerminate();
    return 0;
}
