/* Two nodes: what a sequence says while its link stands, is down, is up again, and when the owner has died. */
#include "check.h"

#define ID 3
#define SIZE 4096

static void own(sci_desc_t sd)
{
    sci_local_segment_t segment = make_available(sd, ID, SIZE);
    CHECK(segment != NULL);
    say("ready");
    pause();
}

/* A copy that arrived is doubted once if the link failed since the sequence was looked at. */
static void checked_copy(sci_map_t map, sci_sequence_t sequence)
{
    sci_error_t e;
    char block[64] = {0};
    FAILS(SCI_ERR_TRANSFER_FAILED,
          SCIMemCpy(sequence, block, map, 0, sizeof block, SCI_FLAG_ERROR_CHECK, &e));
    start_sequence(sequence);
    OK(SCIMemCpy(sequence, block, map, 0, sizeof block, SCI_FLAG_ERROR_CHECK, &e));
}

/* A copy over a link that is down fails, and its check says so. */
static void copies_fail(sci_map_t map, sci_sequence_t sequence)
{
    sci_error_t e;
    char block[64] = {0};
    FAILS(SCI_ERR_NO_LINK_ACCESS, SCIMemCpy(NULL, block, map, 0, sizeof block, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_LINK_ACCESS, SCIMemCpy(sequence, block, map, 0, sizeof block, SCI_FLAG_ERROR_CHECK, &e));
    FAILS(SCI_ERR_NO_LINK_ACCESS, SCIMemCpy(NULL, block, map, 0, sizeof block, SCI_FLAG_BLOCK_READ, &e));
}

static void use(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t segment = connect_to(sd, owner, ID);
    sci_map_t map;
    sci_sequence_t sequence, second, third;
    volatile int *numbers;
    sci_sequence_status_t status;
    OK(numbers = SCIMapRemoteSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &second, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &third, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICreateMapSequence(map, NULL, NO_FLAGS, &e));
    start_sequence(sequence);
    start_sequence(second);
    numbers[0] = 1;
    SCIFlush(sequence, NO_FLAGS);
    SCIStoreBarrier(sequence, NO_FLAGS);
    SCIFlushReadBuffers(sequence);
    sequence_says(sequence, SCI_SEQ_OK);
    sequence_says(sequence, SCI_SEQ_OK);
    say("standing");
    hear("down");
    sequence_says(sequence, SCI_SEQ_PENDING);
    sequence_says(sequence, SCI_SEQ_PENDING);
    OK(status = SCIStartSequence(sequence, NO_FLAGS, &e));
    CHECK(status == SCI_SEQ_PENDING);
    copies_fail(map, sequence);
    say("seen");
    hear("up");
    /* Both were not looked at in between; each tells once that something may be missing. */
    sequence_says(second, SCI_SEQ_RETRIABLE);
    sequence_says(second, SCI_SEQ_OK);
    sequence_says(sequence, SCI_SEQ_RETRIABLE);
    checked_copy(map, third);
    start_sequence(sequence);
    numbers[0] = 2;
    sequence_says(sequence, SCI_SEQ_OK);
    say("seen");
    hear("dead");
    UNTIL(SCICheckSequence(sequence, NO_FLAGS, &e) == SCI_SEQ_NOT_RETRIABLE);
    CHECK(e == SCI_ERR_OK);
    OK(status = SCIStartSequence(sequence, NO_FLAGS, &e));
    CHECK(status == SCI_SEQ_NOT_RETRIABLE);
    /* Stores harm nobody, and are seen by nobody. */
    numbers[1] = 3;
    FAILS(SCI_ERR_NOT_CONNECTED, SCIMemCpy(NULL, &status, map, 0, sizeof status, NO_FLAGS, &e));
    OK(SCIRemoveSequence(third, NO_FLAGS, &e));
    OK(SCIRemoveSequence(second, NO_FLAGS, &e));
    OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveSequence(sequence, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    if (argc > 1) use(sd, number(argv[1]));
    else own(sd);
    SCITerminate();
    return 0;
}
