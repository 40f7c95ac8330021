/* Programs on two hosts: `own NODE` has a segment and an interrupt and answers orders of the test, the other roles use them. */
#include "check.h"

#define ID 7
#define BACK_ID 8
#define INTERRUPT 5
#define BACK_INTERRUPT 6
#define DATA_INTERRUPT 9
#define MESSAGE_MAX 8176
#define SIZE 3000001
#define ODD 101

static unsigned char from[SIZE], to[SIZE];
static volatile int called;

static void pattern(unsigned char *bytes, size_t size, unsigned int seed)
{
    size_t i;
    for (i = 0; i < size; i++) bytes[i] = (unsigned char)((i * 7 + seed) ^ (i >> 11));
}

static void is_pattern(const unsigned char *bytes, size_t size, unsigned int seed)
{
    size_t i;
    for (i = 0; i < size; i++) {
        unsigned char wanted = (unsigned char)((i * 7 + seed) ^ (i >> 11));
        if (bytes[i] != wanted) FAIL("byte %zu is %u, not %u of pattern %u", i, bytes[i], wanted, seed);
    }
}

/* The segment that the others reach. What it says is what it found. */
static int own(sci_desc_t sd, unsigned int other)
{
    sci_error_t e;
    sci_local_segment_t segment = make_available(sd, ID, SIZE);
    sci_local_interrupt_t interrupt;
    sci_local_data_interrupt_t data;
    sci_remote_interrupt_t back;
    sci_map_t map;
    unsigned int no = INTERRUPT, data_no = DATA_INTERRUPT;
    unsigned char *mine;
    char line[100];
    static unsigned char message[MESSAGE_MAX];
    OK(mine = SCIMapLocalSegment(segment, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCICreateDataInterrupt(sd, &data, ADAPTER, &data_no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    say("ready");
    while (fgets(line, sizeof line, stdin)) {
        unsigned int seed = 0;
        if (sscanf(line, "check %u", &seed) == 1) {
            is_pattern(mine, SIZE, seed);
        } else if (sscanf(line, "fill %u", &seed) == 1) {
            pattern(mine, SIZE, seed);
        } else if (sscanf(line, "signalled %u", &seed) == 1) {
            /* What was copied before the signal is there with it. */
            OK(SCIWaitForInterrupt(interrupt, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
            is_pattern(mine, SIZE, seed);
        } else if (sscanf(line, "message %u", &seed) == 1) {
            unsigned int length = sizeof message;
            OK(SCIWaitForDataInterrupt(data, message, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
            CHECK(length == MESSAGE_MAX);
            is_pattern(message, length, seed);
            /* What was copied before is there with it, too. */
            is_pattern(mine, SIZE, seed);
        } else if (strcmp(line, "signal\n") == 0) {
            OK(SCIConnectInterrupt(sd, &back, other, ADAPTER, BACK_INTERRUPT, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
            OK(SCITriggerInterrupt(back, NO_FLAGS, &e));
            OK(SCIDisconnectInterrupt(back, NO_FLAGS, &e));
        } else if (strcmp(line, "withdraw\n") == 0) {
            OK(SCISetSegmentUnavailable(segment, ADAPTER, SCI_FLAG_FORCE_DISCONNECT, &e));
        } else {
            FAIL("unknown order: %s", line);
        }
        say("done");
    }
    return 0;
}

static void text_has(sci_error_t code, const char *part)
{
    const char *text = SCIGetErrorString(code);
    if (!strstr(text, part)) FAIL("`%s` does not contain `%s`", text, part);
}

/* Without the flag no map, and the text names what to do. */
static void maps_are_refused(sci_remote_segment_t remote)
{
    sci_error_t e;
    sci_map_t map;
    volatile void *pointer = &e;
    sci_query_remote_segment_t query;
    FAILS(SCI_ERR_NOT_SUPPORTED, pointer = SCIMapRemoteSegment(remote, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    CHECK(pointer == NULL);
    text_has(e, "is on another host");
    text_has(e, "SCI_FLAG_COPY_ONLY_MAP");
    FAILS(SCI_ERR_NOT_SUPPORTED,
          SCIMapRemoteSegment(remote, &map, 0, 4096, (void *)0x700000000000, SCI_FLAG_COPY_ONLY_MAP | SCI_FLAG_FIXED_MAP_ADDR, &e));
    text_has(e, "without SCI_FLAG_FIXED_MAP_ADDR");
    query.segment = remote;
    query.subcommand = SCI_Q_REMOTE_SEGMENT_IOADDR;
    FAILS(SCI_ERR_NOT_SUPPORTED, SCIQuery(SCI_Q_REMOTE_SEGMENT, &query, NO_FLAGS, &e));
}

static sci_map_t copy_map(sci_remote_segment_t remote, size_t offset, size_t size, unsigned int flags)
{
    sci_error_t e;
    sci_map_t map;
    volatile void *pointer;
    OK(pointer = SCIMapRemoteSegment(remote, &map, offset, size, NULL, SCI_FLAG_COPY_ONLY_MAP | flags, &e));
    CHECK(pointer != NULL && pointer == SCIGetMapPointer(map));
    return map;
}

static void copies(sci_desc_t sd, sci_remote_segment_t remote, sci_map_t map, sci_sequence_t sequence)
{
    sci_error_t e;
    sci_local_segment_t local = make_available(sd, BACK_ID, SIZE);
    sci_map_t local_map, part = copy_map(remote, ODD, 5000, NO_FLAGS);
    sci_map_t fixed = copy_map(remote, ODD, 5000, SCI_FLAG_READONLY_MAP);
    unsigned char *mine;
    OK(mine = SCIMapLocalSegment(local, &local_map, 0, SIZE, NULL, NO_FLAGS, &e));
    pattern(from, SIZE, 1);
    OK(SCIMemCpy(sequence, from, map, 0, SIZE, SCI_FLAG_ERROR_CHECK, &e));
    say("copied 1");
    hear("go on");
    OK(SCIMemCpy(NULL, to, map, 0, SIZE, SCI_FLAG_BLOCK_READ, &e));
    is_pattern(to, SIZE, 2);
    /* A part, and what lies outside of it. */
    OK(SCIMemCpy(NULL, from, part, 1, 4999, SCI_FLAG_ERROR_CHECK, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMemCpy(NULL, from, part, 1, 5000, NO_FLAGS, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMapRemoteSegment(remote, &part, 1, SIZE + 4096, NULL, SCI_FLAG_COPY_ONLY_MAP, &e));
    FAILS(SCI_ERR_ACCESS, SCIMemCpy(NULL, from, fixed, 0, 1, NO_FLAGS, &e));
    OK(SCIMemCpy(NULL, to, fixed, 0, 5000, SCI_FLAG_BLOCK_READ, &e));
    CHECK(memcmp(to + 1, from, 4999) == 0);
    /* The older copies. */
    OK(SCIMemWrite(from + 9, (volatile unsigned char *)SCIGetMapPointer(map) + 20000, 333, NO_FLAGS, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMemWrite(from, (volatile unsigned char *)SCIGetMapPointer(map) + SIZE - 1, 4096, NO_FLAGS, &e));
    OK(SCIMemCopy(from + 99, map, 30000, 77, NO_FLAGS, &e));
    sequence_says(sequence, SCI_SEQ_OK);
    OK(SCITransferBlock(map, 20000, local_map, 5, 15000, NO_FLAGS, &e));
    CHECK(memcmp(mine + 5, from + 9, 333) == 0 && memcmp(mine + 10005, from + 99, 77) == 0);
    pattern(mine, SIZE, 3);
    OK(SCITransferBlock(local_map, 0, map, 0, SIZE, NO_FLAGS, &e));
    SCIFlush(NULL, NO_FLAGS);
    /* From the one place to another of the other host, by way of this one. */
    OK(SCITransferBlock(map, 0, map, 1500000, 200000, NO_FLAGS, &e));
    OK(SCIMemCpy(NULL, to, map, 1500000, 200000, SCI_FLAG_BLOCK_READ, &e));
    is_pattern(to, 200000, 3);
    OK(SCITransferBlock(local_map, 0, map, 0, SIZE, NO_FLAGS, &e));
    SCIStoreBarrier(sequence, NO_FLAGS);
    say("copied 3");
    hear("go on");
}

static void interrupts(sci_desc_t sd, unsigned int owner, sci_map_t map)
{
    sci_error_t e;
    sci_local_interrupt_t back;
    sci_remote_interrupt_t interrupt;
    sci_remote_data_interrupt_t data;
    unsigned int no = BACK_INTERRUPT;
    OK(SCICreateInterrupt(sd, &back, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCIConnectInterrupt(sd, &interrupt, owner, ADAPTER, INTERRUPT, 1000, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_INTNO, SCIConnectInterrupt(sd, &interrupt, owner, ADAPTER, 12345, 1000, NO_FLAGS, &e));
    say("connected");
    pattern(from, SIZE, 4);
    OK(SCIMemCpy(NULL, from, map, 0, SIZE, NO_FLAGS, &e));
    OK(SCITriggerInterrupt(interrupt, NO_FLAGS, &e));
    OK(SCIWaitForInterrupt(back, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    OK(SCIDisconnectInterrupt(interrupt, NO_FLAGS, &e));
    OK(SCIConnectDataInterrupt(sd, &data, owner, ADAPTER, DATA_INTERRUPT, 1000, NO_FLAGS, &e));
    pattern(from, SIZE, 11);
    OK(SCIMemCpy(NULL, from, map, 0, SIZE, NO_FLAGS, &e));
    OK(SCITriggerDataInterrupt(data, from, MESSAGE_MAX, NO_FLAGS, &e));
    FAILS(SCI_ERR_OVERFLOW, SCITriggerDataInterrupt(data, from, MESSAGE_MAX + 1, NO_FLAGS, &e));
    OK(SCIDisconnectDataInterrupt(data, NO_FLAGS, &e));
    say("signalled");
    hear("go on");
}

static sci_callback_action_t on_end(void *arg, sci_dma_queue_t queue, sci_error_t status)
{
    (void)queue;
    *(sci_error_t *)arg = status;
    called = 1;
    return SCI_CALLBACK_CONTINUE;
}

static void dma(sci_desc_t sd, sci_remote_segment_t remote)
{
    sci_error_t e, status = UNSET;
    sci_dma_queue_t queue;
    sci_local_segment_t local;
    sci_map_t local_map;
    unsigned char *mine;
    dis_dma_vec_t vector[2];
    OK(SCICreateSegment(sd, &local, 0, SIZE, NO_CALLBACK, NO_ARG, SCI_FLAG_PRIVATE, &e));
    OK(SCIPrepareSegment(local, ADAPTER, NO_FLAGS, &e));
    OK(mine = SCIMapLocalSegment(local, &local_map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 16, NO_FLAGS, &e));
    pattern(mine, SIZE, 5);
    OK(SCIStartDmaTransfer(queue, local, remote, 0, SIZE, 0, on_end, &status, SCI_FLAG_USE_CALLBACK, &e));
    UNTIL(called);
    CHECK(status == SCI_ERR_OK);
    say("copied 5");
    hear("go on");
    OK(SCIStartDmaTransfer(queue, local, remote, 0, SIZE, 0, NO_CALLBACK, NO_ARG, SCI_FLAG_DMA_READ | SCI_FLAG_DMA_WAIT, &e));
    is_pattern(mine, SIZE, 6);
    memset(vector, 0, sizeof vector);
    vector[0].size = vector[1].size = 3000;
    vector[1].local_offset = vector[0].remote_offset = 7;
    OK(SCIStartDmaTransferVec(queue, local, remote, 2, vector, NO_CALLBACK, NO_ARG, SCI_FLAG_DMA_WAIT, &e));
    CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_DONE);
    FAILS(SCI_ERR_OUT_OF_RANGE,
          SCIStartDmaTransfer(queue, local, remote, 0, 2, SIZE - 1, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    pattern(from, SIZE, 7);
    OK(SCIStartDmaTransferMem(queue, from, remote, SIZE, 0, NO_CALLBACK, NO_ARG, SCI_FLAG_DMA_WAIT, &e));
    OK(SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    say("copied 7");
    hear("go on");
}

/* The end of the segment, as the test brings it about. */
static void ends(sci_remote_segment_t remote, sci_map_t map, sci_sequence_t sequence, sci_segment_cb_reason_t wanted)
{
    sci_error_t e, status;
    sci_segment_cb_reason_t reason;
    OK(reason = SCIWaitForRemoteSegmentEvent(remote, &status, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    if (reason != wanted) FAIL("the event is %d, not %d", (int)reason, (int)wanted);
    sequence_says(sequence, SCI_SEQ_NOT_RETRIABLE);
    FAILS(SCI_ERR_NOT_CONNECTED, SCIMemCpy(NULL, from, map, 0, 64, NO_FLAGS, &e));
    say("ended");
}

static int use(sci_desc_t sd, unsigned int owner, sci_segment_cb_reason_t end)
{
    sci_error_t e;
    sci_remote_segment_t remote = connect_to(sd, owner, ID);
    sci_map_t map;
    sci_sequence_t sequence;
    CHECK(SCIGetRemoteSegmentSize(remote) == SIZE && SCIGetRemoteSegmentNodeId(remote) == owner);
    CHECK(SCIProbeNode(sd, ADAPTER, owner, NO_FLAGS, &e) == 1);
    maps_are_refused(remote);
    map = copy_map(remote, 0, SIZE, NO_FLAGS);
    FAILS(SCI_ERR_BUSY, SCIDisconnectSegment(remote, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    start_sequence(sequence);
    copies(sd, remote, map, sequence);
    interrupts(sd, owner, map);
    dma(sd, remote);
    ends(remote, map, sequence, end);
    SCITerminate();
    return 0;
}

/* A program that knows nothing of the flag, and only copies. */
static int unchanged(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t remote = connect_to(sd, owner, ID);
    sci_map_t map;
    volatile void *pointer;
    OK(pointer = SCIMapRemoteSegment(remote, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    CHECK(pointer != NULL);
    pattern(from, SIZE, 8);
    OK(SCIMemCpy(NULL, from, map, 0, SIZE, NO_FLAGS, &e));
    /* Its copies arrive although it flushes nothing. */
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    say("copied 8");
    hear("go on");
    SCITerminate();
    return 0;
}

/* There is no memory behind the pointer. */
static int store(sci_desc_t sd, unsigned int owner)
{
    sci_map_t map = copy_map(connect_to(sd, owner, ID), 0, SIZE, NO_FLAGS);
    say("storing");
    *(volatile unsigned char *)SCIGetMapPointer(map) = 1;
    say("stored");
    return 0;
}

static int without_libfabric(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t remote;
    sci_remote_interrupt_t interrupt;
    FAILS(SCI_ERR_NOT_AVAILABLE,
          SCIConnectSegment(sd, &remote, owner, ID, ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    text_has(e, "install the package libfabric1");
    FAILS(SCI_ERR_NOT_AVAILABLE,
          SCIConnectInterrupt(sd, &interrupt, owner, ADAPTER, INTERRUPT, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}

/* The link is taken down and up again by the operator: nothing has to be connected anew. */
static int link_down(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e, status;
    sci_remote_segment_t remote = connect_to(sd, owner, ID);
    sci_map_t map = copy_map(remote, 0, SIZE, NO_FLAGS);
    sci_sequence_t sequence;
    sci_remote_interrupt_t interrupt;
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    start_sequence(sequence);
    OK(SCIConnectInterrupt(sd, &interrupt, owner, ADAPTER, INTERRUPT, 1000, NO_FLAGS, &e));
    OK(SCIMemCpy(sequence, from, map, 0, SIZE, SCI_FLAG_ERROR_CHECK, &e));
    say("connected");
    CHECK(SCIWaitForRemoteSegmentEvent(remote, &status, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e) == SCI_CB_NOT_OPERATIONAL);
    sequence_says(sequence, SCI_SEQ_PENDING);
    FAILS(SCI_ERR_NO_LINK_ACCESS, SCIMemCpy(NULL, from, map, 0, 64, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_LINK_ACCESS, SCITriggerInterrupt(interrupt, NO_FLAGS, &e));
    say("told");
    CHECK(SCIWaitForRemoteSegmentEvent(remote, &status, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e) == SCI_CB_OPERATIONAL);
    sequence_says(sequence, SCI_SEQ_RETRIABLE);
    pattern(from, SIZE, 10);
    OK(SCIMemCpy(sequence, from, map, 0, SIZE, SCI_FLAG_ERROR_CHECK, &e));
    say("copied 10");
    hear("go on");
    SCITerminate();
    return 0;
}

/* The cable is taken out, and put in again. */
static int cut(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_segment_t remote = connect_to(sd, owner, ID);
    sci_map_t map = copy_map(remote, 0, SIZE, NO_FLAGS);
    sci_sequence_t sequence;
    sci_remote_interrupt_t interrupt;
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    start_sequence(sequence);
    OK(SCIConnectInterrupt(sd, &interrupt, owner, ADAPTER, INTERRUPT, 1000, NO_FLAGS, &e));
    say("connected");
    hear("cut");
    pattern(from, SIZE, 9);
    e = UNSET;
    SCIMemCpy(NULL, from, map, 0, SIZE, NO_FLAGS, &e);
    /* It may have been taken before anybody noticed; then the interrupt says that it has not arrived. */
    if (e == SCI_ERR_OK) {
        SCITriggerInterrupt(interrupt, NO_FLAGS, &e);
    }
    if (e != SCI_ERR_NO_LINK_ACCESS && e != SCI_ERR_NOT_CONNECTED) FAIL("%#x (%s)", (unsigned int)e, SCIGetErrorString(e));
    sequence_says(sequence, SCI_SEQ_NOT_RETRIABLE);
    SCIMemCpy(sequence, from, map, 0, 64, SCI_FLAG_ERROR_CHECK, &e);
    CHECK(e != SCI_ERR_OK);
    say("failed");
    hear("again");
    OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    remote = connect_to(sd, owner, ID);
    map = copy_map(remote, 0, SIZE, NO_FLAGS);
    OK(SCIMemCpy(NULL, from, map, 0, SIZE, SCI_FLAG_ERROR_CHECK, &e));
    say("copied 9");
    hear("go on");
    SCITerminate();
    return 0;
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    unsigned int other;
    CHECK(argc == 3);
    other = number(argv[2]);
    if (strcmp(argv[1], "own") == 0) return own(sd, other);
    if (strcmp(argv[1], "use") == 0) return use(sd, other, SCI_CB_DISCONNECT);
    if (strcmp(argv[1], "use-until-death") == 0) return use(sd, other, SCI_CB_LOST);
    if (strcmp(argv[1], "unchanged") == 0) return unchanged(sd, other);
    if (strcmp(argv[1], "store") == 0) return store(sd, other);
    if (strcmp(argv[1], "without-libfabric") == 0) return without_libfabric(sd, other);
    if (strcmp(argv[1], "link-down") == 0) return link_down(sd, other);
    if (strcmp(argv[1], "cut") == 0) return cut(sd, other);
    FAIL("unknown role %s", argv[1]);
}
