/* One program: from SCIInitialize to SCITerminate, each state of a segment, and what is refused in it. */
#include "check.h"

#define ID 100
#define SIZE 10000

static void before_the_beginning(void)
{
    sci_error_t e;
    sci_desc_t sd;
    unsigned int node;
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIOpen(&sd, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIClose(NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIGetLocalNodeId(ADAPTER, &node, NO_FLAGS, &e));
    SCITerminate();
}

static void descriptors(void)
{
    sci_error_t e;
    sci_desc_t one, two;
    sci_local_segment_t segment;
    OK(SCIOpen(&one, NO_FLAGS, &e));
    OK(SCIOpen(&two, NO_FLAGS, &e));
    CHECK(one != two);
    OK(SCICreateSegment(one, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIClose(one, NO_FLAGS, &e));
    OK(SCIClose(two, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    OK(SCIClose(one, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIClose(one, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIOpen(NULL, NO_FLAGS, &e));
}

static void states(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment, second;
    sci_map_t map;
    void *address;
    OK(SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    CHECK(SCIGetLocalSegmentId(segment) == ID);
    CHECK(SCIGetLocalSegmentSize(segment) >= SIZE);
    FAILS(SCI_ERR_SEGMENTID_USED, SCICreateSegment(sd, &second, ID, 1, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_SEGMENT_NOT_PREPARED, SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_OPERATION, SCISetSegmentUnavailable(segment, ADAPTER, NO_FLAGS, &e));
    OK(SCIPrepareSegment(segment, ADAPTER, NO_FLAGS, &e));
    /* Programs map between preparation and availability. */
    address = NULL;
    OK(address = SCIMapLocalSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    CHECK(address != NULL);
    memset(address, 0x5a, SIZE);
    OK(SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIRemoveSegment(segment, NO_FLAGS, &e));
    OK(SCISetSegmentUnavailable(segment, ADAPTER, NO_FLAGS, &e));
    OK(SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveSegment(segment, NO_FLAGS, &e));
    /* The id is free again. */
    OK(SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIMapLocalSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, SCI_FLAG_FORCE_REMOVE, &e));
    OK(SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
}

static void arguments(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICreateSegment(sd, NULL, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICreateSegment(sd, &segment, ID, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOSPC,
          SCICreateSegment(sd, &segment, ID, (size_t)1 << 62, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCIPrepareSegment(segment, 9, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_ADAPTERNO, SCIPrepareSegment(segment, 1000, NO_FLAGS, &e));
    /* Flags that public programs give although they mean nothing here. */
    OK(SCIPrepareSegment(segment, ADAPTER, SCI_FLAG_BROADCAST, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCISetSegmentAvailable(segment, 9, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCISetSegmentUnavailable(segment, 9, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    /* Who does not want to know the error gives NULL. */
    SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, NULL);
    SCIRemoveSegment(segment, NO_FLAGS, NULL);
}

static void private_segments(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment, other;
    OK(SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, SCI_FLAG_PRIVATE, &e));
    OK(SCICreateSegment(sd, &other, ID, SIZE, NO_CALLBACK, NO_ARG, SCI_FLAG_PRIVATE, &e));
    OK(SCIPrepareSegment(segment, ADAPTER, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_OPERATION, SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    OK(SCIRemoveSegment(other, NO_FLAGS, &e));
}

static void automatic_ids(sci_desc_t sd)
{
    sci_error_t e;
    enum { MOST = 129 };
    sci_local_segment_t segments[MOST], one_more;
    char seen[MOST] = {0};
    int i;
    for (i = 0; i < MOST; i++) {
        unsigned int id;
        OK(SCICreateSegment(sd, &segments[i], 1024, 64, NO_CALLBACK, NO_ARG, SCI_FLAG_AUTO_ID, &e));
        id = SCIGetLocalSegmentId(segments[i]);
        CHECK(id >= 1024 && id <= 1152 && !seen[id - 1024]);
        seen[id - 1024] = 1;
    }
    FAILS(SCI_ERR_SEGMENTID_USED,
          SCICreateSegment(sd, &one_more, 1024, 64, NO_CALLBACK, NO_ARG, SCI_FLAG_AUTO_ID, &e));
    for (i = 0; i < MOST; i++) OK(SCIRemoveSegment(segments[i], NO_FLAGS, &e));
}

static void the_end(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment;
    OK(SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    SCITerminate();
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIRemoveSegment(segment, NO_FLAGS, &e));
    SCITerminate();
    /* And from the beginning: nothing is left, and no handle from before is good. */
    OK(SCIInitialize(NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveSegment(segment, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIClose(sd, NO_FLAGS, &e));
    OK(SCIOpen(&sd, NO_FLAGS, &e));
    OK(SCICreateSegment(sd, &segment, ID, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
    SCITerminate();
}

int main(void)
{
    sci_error_t e;
    sci_desc_t sd;
    before_the_beginning();
    OK(SCIInitialize(NO_FLAGS, &e));
    OK(SCIInitialize(NO_FLAGS, &e));
    descriptors();
    OK(SCIOpen(&sd, NO_FLAGS, &e));
    states(sd);
    arguments(sd);
    private_segments(sd);
    automatic_ids(sd);
    the_end(sd);
    return 0;
}
