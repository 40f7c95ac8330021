/* Programs of one node share a segment. The first argument says what this one does; `create` and `attach` run beside each other
 * and are told by the test when to go on. */
#include "check.h"

enum { ID = 21, OTHER = 22, SIZE = 5000, AT = 4321 };

static sci_desc_t sd;

static sci_local_segment_t attach(size_t *size) {
    sci_local_segment_t segment = NULL;
    SCIAttachLocalSegment(sd, &segment, ID, size, NULL, NULL, NO_FLAGS, &error);
    return segment;
}

static volatile char *map_whole(sci_local_segment_t segment, sci_map_t *map) {
    volatile char *at = SCIMapLocalSegment(segment, map, 0, SIZE, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    return at;
}

static void create(void) {
    sci_local_segment_t segment = create_segment(sd, ID, SIZE);
    sci_map_t map;
    volatile char *mine = map_whole(segment, &map);
    say("created");
    await("share");
    SCIShareSegment(segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIShareSegment(segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    mine[AT] = 11;
    say("shared");
    /* The other one has stored, and made it available. */
    await("look");
    CHECK(mine[AT] == 22);
    SCISetSegmentUnavailable(segment, 0, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCISetSegmentUnavailable(segment, 0, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_OPERATION, "not available");
    SCIUnmapSegment(map, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIRemoveSegment(segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_BUSY);
    say("busy");
    await("remove");
    SCIRemoveSegment(segment, SCI_FLAG_FORCE_REMOVE, &error);
    EXPECT(SCI_ERR_OK);
    say("removed");
    await("end");
}

/* By DMA to a segment of another program of the node, and back to another place. */
static void copy_by_dma(sci_local_segment_t segment, volatile char *mine) {
    sci_local_segment_t target = create_segment(sd, OTHER, SIZE);
    open_segment(target);
    sci_remote_segment_t remote = connect_segment(sd, own_node(), OTHER);
    sci_dma_queue_t queue;
    SCICreateDMAQueue(sd, &queue, 0, 1, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    mine[1] = 33;
    SCIStartDmaTransfer(queue, segment, remote, 1, 1, 2, NULL, NULL, SCI_FLAG_DMA_WAIT, &error);
    EXPECT(SCI_ERR_OK);
    SCIStartDmaTransfer(queue, segment, remote, 3, 1, 2, NULL, NULL, SCI_FLAG_DMA_WAIT | SCI_FLAG_DMA_READ, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(mine[3] == 33);
    SCIRemoveDMAQueue(queue, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIDisconnectSegment(remote, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIRemoveSegment(target, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
}

static void attach_and_use(void) {
    size_t size = 0;
    attach(&size);
    EXPECT_WORDS(SCI_ERR_NO_SUCH_SEGMENT, "not shared");
    say("not shared");
    await("attach");
    sci_local_segment_t segment = attach(&size);
    EXPECT(SCI_ERR_OK);
    CHECK(size == SIZE && SCIGetLocalSegmentSize(segment) == SIZE && SCIGetLocalSegmentId(segment) == ID);
    sci_map_t map, outside;
    volatile char *mine = map_whole(segment, &map);
    CHECK(mine[AT] == 11);
    mine[AT] = 22;
    SCIMapLocalSegment(segment, &outside, 0, 64 * SIZE, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OUT_OF_RANGE);
    copy_by_dma(segment, mine);
    /* Not available yet for who connects. */
    sci_remote_segment_t remote;
    SCIConnectSegment(sd, &remote, own_node(), ID, 0, NULL, NULL, 1000, NO_FLAGS, &error);
    EXPECT(SCI_ERR_NO_SUCH_SEGMENT);
    SCISetSegmentUnavailable(segment, 0, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_OPERATION, "not available");
    open_segment(segment);
    SCIDisconnectSegment(connect_segment(sd, own_node(), ID), NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    /* A second handle is let go, which removes nothing. */
    SCIRemoveSegment(segment, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_BUSY, "mapped");
    sci_local_segment_t again = attach(NULL);
    EXPECT(SCI_ERR_OK);
    SCIRemoveSegment(again, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(SCIGetLocalSegmentSize(again) == 0);
    say("used");
    await("wait");
    unsigned int node = 0, adapter = 9;
    SCIWaitForLocalSegmentEvent(segment, &node, &adapter, 0, NO_FLAGS, &error);
    EXPECT(SCI_ERR_TIMEOUT);
    say("waiting");
    sci_segment_cb_reason_t reason =
        SCIWaitForLocalSegmentEvent(segment, &node, &adapter, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(reason == SCI_CB_LOST && node == own_node() && adapter == 0);
    /* The memory stays, nobody else gets it. */
    CHECK(mine[AT] == 22);
    attach(&size);
    EXPECT(SCI_ERR_NO_SUCH_SEGMENT);
    SCISetSegmentAvailable(segment, 0, NO_FLAGS, &error);
    EXPECT(SCI_ERR_NOT_CONNECTED);
    SCIUnmapSegment(map, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIRemoveSegment(segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIClose(sd, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    say("lost");
}

static sci_callback_action_t on_event(void *argument, sci_local_segment_t segment, sci_segment_cb_reason_t reason,
                                      unsigned int node, unsigned int adapter, sci_error_t status) {
    (void)segment, (void)node, (void)adapter, (void)status;
    say(reason == SCI_CB_LOST ? argument : "another event");
    return SCI_CALLBACK_CONTINUE;
}

static void attach_with_callback(void) {
    sci_local_segment_t segment;
    size_t size;
    SCIAttachLocalSegment(sd, &segment, ID, &size, on_event, "called back", SCI_FLAG_USE_CALLBACK, &error);
    EXPECT(SCI_ERR_OK);
    SCIWaitForLocalSegmentEvent(segment, NULL, NULL, 0, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_OPERATION);
    say("attached");
    await("end");
    SCITerminate();
}

static void refused(void) {
    sci_local_segment_t segment;
    SCICreateSegment(sd, &segment, ID, SIZE, NULL, NULL, SCI_FLAG_PRIVATE, &error);
    EXPECT(SCI_ERR_OK);
    SCIShareSegment(segment, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_OPERATION, "SCI_FLAG_PRIVATE");
    SCICreateSegment(sd, &segment, ID, SIZE, NULL, NULL, SCI_FLAG_EMPTY, &error);
    EXPECT(SCI_ERR_OK);
    SCIShareSegment(segment, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_OPERATION, "SCIRegisterSegmentMemory");
    SCICreateSegment(sd, &segment, 1, SIZE, NULL, NULL, SCI_FLAG_BROADCAST, &error);
    EXPECT(SCI_ERR_OK);
    SCIShareSegment(segment, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_OPERATION, "group");
    SCIAttachLocalSegment(sd, NULL, ID, NULL, NULL, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_PARAMETER);
    attach(NULL);
    EXPECT_WORDS(SCI_ERR_NO_SUCH_SEGMENT, "not shared");
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    sd = open_device();
    if (strcmp(argv[1], "create") == 0)
        create();
    else if (strcmp(argv[1], "attach") == 0)
        attach_and_use();
    else if (strcmp(argv[1], "callback") == 0)
        attach_with_callback();
    else
        refused();
    say("done");
    return 0;
}
