/* One program that never removes its sequences, as many do: its segments end all the same, at both ends. */
#include "check.h"

#define ID 41
#define SIZE 8192

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    sci_local_segment_t local = make_available(sd, ID, SIZE);
    sci_remote_segment_t remote = connect_to(sd, my_node(), ID);
    sci_map_t map, local_map;
    sci_sequence_t sequence, local_sequence;
    sci_sequence_status_t status;
    volatile unsigned char *bytes;
    unsigned char *mine, block[16] = {1};

    OK(bytes = SCIMapRemoteSegment(remote, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(mine = SCIMapLocalSegment(local, &local_map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    OK(SCICreateMapSequence(local_map, &local_sequence, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIDisconnectSegment(remote, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIRemoveSegment(local, NO_FLAGS, &e));
    OK(SCIUnmapSegment(local_map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    /* The owner need not wait for sequences. */
    OK(SCIRemoveSegment(local, NO_FLAGS, &e));
    /* Their memory is still there, and the id is free. */
    bytes[0] = 3;
    CHECK(mine[0] == 3);
    status = SCICheckSequence(sequence, NO_FLAGS, &e);
    CHECK(status == SCI_SEQ_OK || status == SCI_SEQ_NOT_RETRIABLE);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMemCpy(sequence, block, map, 0, sizeof block, NO_FLAGS, &e));
    local = make_available(sd, ID, SIZE);
    OK(SCIRemoveSegment(local, NO_FLAGS, &e));
    OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIClose(sd, NO_FLAGS, &e));
    OK(SCIRemoveSequence(local_sequence, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
