/* One program: every function is given NULL, made-up, foreign and ended handles, and refuses each. */
#include "check.h"

#define SIZE 4096

static void *bad;
/* It led to a remote segment once, of which id and node are still told. */
static int was_remote;
static int quiet_calls;

/* A handle of every kind in turn is wrong, so a good one of another kind is never enough. */
static void descriptors(void)
{
    sci_error_t e;
    sci_desc_t sd = bad;
    sci_local_segment_t local;
    sci_remote_segment_t remote;
    sci_dma_queue_t queue;
    sci_local_interrupt_t interrupt;
    sci_remote_interrupt_t remote_interrupt;
    sci_local_data_interrupt_t data;
    sci_remote_data_interrupt_t remote_data;
    unsigned int no = 1;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIClose(sd, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICreateSegment(sd, &local, 1, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIConnectSegment(sd, &remote, 4, 1, ADAPTER, NO_CALLBACK, NO_ARG, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIConnectInterrupt(sd, &remote_interrupt, 4, ADAPTER, 1, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCICreateDataInterrupt(sd, &data, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIConnectDataInterrupt(sd, &remote_data, 4, ADAPTER, 1, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIProbeNode(sd, ADAPTER, 4, NO_FLAGS, &e));
}

static void segments(void)
{
    sci_error_t e;
    sci_local_segment_t local = bad;
    sci_remote_segment_t remote = bad;
    sci_map_t map;
    sci_query_local_segment_t of_local;
    sci_query_remote_segment_t of_remote;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIPrepareSegment(local, ADAPTER, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCISetSegmentAvailable(local, ADAPTER, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCISetSegmentUnavailable(local, ADAPTER, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveSegment(local, SCI_FLAG_FORCE_REMOVE, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMapLocalSegment(local, &map, 0, 1, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIWaitForLocalSegmentEvent(local, NULL, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIShareSegment(local, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRegisterSegmentMemory(&e, 1, local, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIAttachPhysicalMemory(0, NULL, 0, 1, local, NO_FLAGS, &e));
    CHECK(SCIGetLocalSegmentId(local) == 0 && SCIGetLocalSegmentSize(local) == 0);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIDisconnectSegment(remote, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMapRemoteSegment(remote, &map, 0, 1, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIWaitForRemoteSegmentEvent(remote, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    CHECK(SCIGetRemoteSegmentSize(remote) == 0);
    CHECK(SCIGetRemoteSegmentId(remote) == (was_remote ? 1 : 0));
    CHECK(SCIGetRemoteSegmentNodeId(remote) == (was_remote ? my_node() : 0));
    of_local.segment = local;
    of_local.subcommand = SCI_Q_LOCAL_SEGMENT_IOADDR;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(SCI_Q_LOCAL_SEGMENT, &of_local, NO_FLAGS, &e));
    of_remote.segment = remote;
    of_remote.subcommand = SCI_Q_REMOTE_SEGMENT_IOADDR;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(SCI_Q_REMOTE_SEGMENT, &of_remote, NO_FLAGS, &e));
}

static void maps(void)
{
    sci_error_t e;
    sci_map_t map = bad;
    sci_sequence_t sequence = bad;
    sci_query_map_t of_map;
    char byte = 0;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIUnmapSegment(map, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    CHECK(SCIGetMapPointer(map) == NULL && SCIGetMapPhysAddr(map) == 0);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMemCpy(NULL, &byte, map, 0, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMemCpy(NULL, &byte, map, 0, 1, SCI_FLAG_BLOCK_READ, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMemCpy_dual(NULL, map, NULL, map, &byte, 0, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMemCopy(&byte, map, 0, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCITransferBlock(map, 0, map, 0, 1, NO_FLAGS, &e));
    if (map != NULL) FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICacheSync(map, NULL, 0, NO_FLAGS, &e));
    of_map.map = map;
    of_map.subcommand = SCI_Q_MAP_IOADDR;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(SCI_Q_MAP, &of_map, NO_FLAGS, &e));
    sequence = bad;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveSequence(sequence, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, CHECK(SCIStartSequence(sequence, NO_FLAGS, &e) == SCI_SEQ_NOT_RETRIABLE));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, CHECK(SCICheckSequence(sequence, NO_FLAGS, &e) == SCI_SEQ_NOT_RETRIABLE));
    /* These have no error to set: they must only not crash. */
    SCIStoreBarrier(sequence, NO_FLAGS);
    SCIFlush(sequence, NO_FLAGS);
    SCIFlushReadBuffers(sequence);
    quiet_calls++;
}

static void dma(void)
{
    sci_error_t e;
    sci_dma_queue_t queue = bad;
    dis_dma_vec_t vector = {1, 0, 0, 0};
    char byte;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIAbortDMAQueue(queue, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIStartDmaTransfer(queue, bad, bad, 0, 1, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIStartDmaTransferMem(queue, &byte, bad, 1, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIStartDmaTransferVec(queue, bad, bad, 1, &vector, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          DISStartDmaTransfer(queue, bad, bad, 0, 1, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          DISStartDmaTransferVec(queue, bad, bad, 1, &vector, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_ERROR);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIEnqueueDMATransfer(queue, bad, bad, 0, 0, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIPostDMAQueue(queue, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIResetDMAQueue(queue, NO_FLAGS, &e));
}

static void interrupts(void)
{
    sci_error_t e;
    char byte;
    unsigned int length = 1;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveInterrupt(bad, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIWaitForInterrupt(bad, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIDisconnectInterrupt(bad, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCITriggerInterrupt(bad, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveDataInterrupt(bad, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIWaitForDataInterrupt(bad, &byte, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIDisconnectDataInterrupt(bad, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCITriggerDataInterrupt(bad, &byte, 1, NO_FLAGS, &e));
}

static void all_but(int kind, void *handle)
{
    enum { DESCRIPTOR = 1, SEGMENT, MAP, QUEUE, INTERRUPT };
    bad = handle;
    if (kind != DESCRIPTOR) descriptors();
    if (kind != SEGMENT) segments();
    if (kind != MAP) maps();
    if (kind != QUEUE) dma();
    if (kind != INTERRUPT) interrupts();
}

int main(void)
{
    sci_error_t e;
    static char memory[256];
    sci_desc_t sd = start();
    sci_local_segment_t local = make_available(sd, 1, SIZE);
    sci_remote_segment_t remote = connect_to(sd, my_node(), 1);
    sci_map_t map;
    sci_sequence_t sequence;
    sci_dma_queue_t queue;
    sci_local_interrupt_t interrupt;
    unsigned int no;
    OK(SCIMapRemoteSegment(remote, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
    OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    all_but(0, NULL);
    all_but(0, (void *)1);
    all_but(0, (void *)(size_t)-1);
    all_but(0, memory);
    all_but(1, sd);
    all_but(2, local);
    all_but(2, remote);
    all_but(3, map);
    all_but(3, sequence);
    all_but(4, queue);
    all_but(5, interrupt);
    OK(SCIRemoveInterrupt(interrupt, NO_FLAGS, &e));
    OK(SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    OK_AFTER(SCI_ERR_BUSY, SCIRemoveSegment(local, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
    /* What was good once. */
    all_but(0, sd);
    all_but(0, local);
    was_remote = 1;
    all_but(0, remote);
    was_remote = 0;
    all_but(0, map);
    all_but(0, sequence);
    all_but(0, queue);
    all_but(0, interrupt);
    CHECK(quiet_calls > 0);
    SCITerminate();
    return 0;
}
