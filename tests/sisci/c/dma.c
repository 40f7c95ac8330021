/* One program, connected to its own node: transfers of every kind, queues that are used again, and what is refused. */
#include "check.h"

#define ID 21
#define SIZE (8 << 20)
#define VECTOR 256
/* The longest vector that docs/sisci.md promises. */
#define LONGEST 65536
#define CHAIN 5

static sci_dma_queue_t queue;
static sci_local_segment_t source;
static sci_remote_segment_t remote;
static unsigned char *near_bytes, *far_bytes;

static void fill(unsigned char seed)
{
    size_t i;
    for (i = 0; i < SIZE; i++) near_bytes[i] = (unsigned char)(i * 13 + seed);
    memset(far_bytes, 0, SIZE);
}

static void ends_well(void)
{
    sci_error_t e;
    sci_dma_queue_state_t state;
    OK(state = SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    CHECK(state == SCI_DMAQUEUE_DONE);
    CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_DONE);
    /* Waiting for what has ended is no error. */
    OK(state = SCIWaitForDMAQueue(queue, 0, NO_FLAGS, &e));
    CHECK(state == SCI_DMAQUEUE_DONE);
}

static void push_and_pull(size_t size, unsigned int flags)
{
    sci_error_t e;
    fill((unsigned char)size);
    OK(SCIStartDmaTransfer(queue, source, remote, 3, size, 5, NO_CALLBACK, NO_ARG, flags, &e));
    ends_well();
    CHECK(memcmp(far_bytes + 5, near_bytes + 3, size) == 0 && far_bytes[4] == 0 && far_bytes[5 + size] == 0);
    memset(near_bytes, 0, SIZE);
    OK(SCIStartDmaTransfer(queue, source, remote, 9, size, 5, NO_CALLBACK, NO_ARG, flags | SCI_FLAG_DMA_READ, &e));
    ends_well();
    CHECK(memcmp(near_bytes + 9, far_bytes + 5, size) == 0 && near_bytes[8] == 0 && near_bytes[9 + size] == 0);
}

static void vectors(void)
{
    sci_error_t e;
    static dis_dma_vec_t vector[VECTOR];
    size_t i;
    memset(vector, 0, sizeof vector);
    for (i = 0; i < VECTOR; i++) {
        vector[i].size = 100 + i;
        vector[i].local_offset = i * 1000;
        vector[i].remote_offset = (VECTOR - i) * 1001;
    }
    fill(1);
    OK(SCIStartDmaTransferVec(queue, source, remote, VECTOR, vector, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    ends_well();
    for (i = 0; i < VECTOR; i++) {
        CHECK(memcmp(near_bytes + i * 1000, far_bytes + (VECTOR - i) * 1001, 100 + i) == 0);
    }
    memset(near_bytes, 0, SIZE);
    OK(SCIStartDmaTransferVec(queue, source, remote, VECTOR, vector, NO_CALLBACK, NO_ARG,
                              SCI_FLAG_DMA_READ | SCI_FLAG_DMA_WAIT, &e));
    ends_well();
    for (i = 0; i < VECTOR; i++) CHECK(memcmp(near_bytes + i * 1000, far_bytes + (VECTOR - i) * 1001, 100 + i) == 0);
    /* One entry that lies outside spoils the whole, before a byte is copied. */
    fill(2);
    vector[VECTOR - 1].remote_offset = SIZE;
    FAILS(SCI_ERR_OUT_OF_RANGE,
          SCIStartDmaTransferVec(queue, source, remote, VECTOR, vector, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    CHECK(far_bytes[(VECTOR - 0) * 1001] == 0);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIStartDmaTransferVec(queue, source, remote, 1, NULL, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_MAX_ENTRIES,
          SCIStartDmaTransferVec(queue, source, remote, 0, vector, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_MAX_ENTRIES,
          SCIStartDmaTransferVec(queue, source, remote, (size_t)-1, vector, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
}

static void plain_memory(void)
{
    sci_error_t e;
    static unsigned char block[5000];
    memset(block, 0x33, sizeof block);
    fill(3);
    OK(SCIStartDmaTransferMem(queue, block, remote, sizeof block, 77, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    ends_well();
    CHECK(memcmp(far_bytes + 77, block, sizeof block) == 0 && far_bytes[77 + sizeof block] == 0);
    memset(far_bytes, 0x44, SIZE);
    OK(SCIStartDmaTransferMem(queue, block, remote, sizeof block, 0, NO_CALLBACK, NO_ARG,
                              SCI_FLAG_DMA_READ | SCI_FLAG_DMA_WAIT, &e));
    CHECK(block[0] == 0x44 && block[sizeof block - 1] == 0x44);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIStartDmaTransferMem(queue, NULL, remote, 1, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
}

static volatile int ended;
static pthread_t caller;

/* Starts the next transfer from the callback of the last. */
static sci_callback_action_t next(void *arg, sci_dma_queue_t which, sci_error_t status)
{
    sci_error_t e;
    CHECK(arg == (void *)&ended && which == queue && status == SCI_ERR_OK);
    CHECK(!pthread_equal(pthread_self(), caller));
    CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_DONE);
    if (ended + 1 < CHAIN) {
        OK(SCIStartDmaTransfer(queue, source, remote, 0, 64, (size_t)(ended + 1) * 64, next, arg,
                               SCI_FLAG_USE_CALLBACK, &e));
    }
    __sync_fetch_and_add(&ended, 1);
    return SCI_CALLBACK_CONTINUE;
}

static void callbacks(void)
{
    sci_error_t e;
    int i;
    fill(4);
    caller = pthread_self();
    OK(SCIStartDmaTransfer(queue, source, remote, 0, 64, 0, next, (void *)&ended, SCI_FLAG_USE_CALLBACK, &e));
    UNTIL(ended == CHAIN);
    for (i = 0; i < CHAIN; i++) CHECK(memcmp(far_bytes + i * 64, near_bytes, 64) == 0);
    ends_well();
    /* Without the flag nobody is called. */
    OK(SCIStartDmaTransfer(queue, source, remote, 0, 64, 0, next, (void *)&ended, NO_FLAGS, &e));
    ends_well();
    CHECK(ended == CHAIN);
}

static void refusals(sci_desc_t sd)
{
    sci_error_t e;
    sci_dma_queue_t other;
    sci_local_segment_t fresh;
    FAILS(SCI_ERR_OUT_OF_RANGE,
          SCIStartDmaTransfer(queue, source, remote, 1, SIZE, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE,
          SCIStartDmaTransfer(queue, source, remote, 0, SIZE, 1, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIStartDmaTransfer(queue, source, remote, (size_t)-1, 2, 0, NO_CALLBACK, NO_ARG,
                                                    SCI_FLAG_DMA_WAIT, &e));
    OK(SCICreateSegment(sd, &fresh, ID + 1, 64, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_SEGMENT_NOT_PREPARED,
          SCIStartDmaTransfer(queue, fresh, remote, 0, 64, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIRemoveSegment(fresh, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICreateDMAQueue(sd, &other, ADAPTER, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCICreateDMAQueue(sd, NULL, ADAPTER, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCICreateDMAQueue(sd, &other, 9, 1, NO_FLAGS, &e));
}

static volatile int told;
static volatile sci_error_t told_status;

static sci_callback_action_t tell(void *arg, sci_dma_queue_t which, sci_error_t status)
{
    CHECK(arg == NULL && which == queue);
    told_status = status;
    __sync_fetch_and_add(&told, 1);
    return SCI_CALLBACK_CONTINUE;
}

/* Half a terabyte, which is on its way for a while: what may not be done meanwhile, and an abort that is told once. */
static void on_its_way(void)
{
    sci_error_t e;
    static dis_dma_vec_t vector[LONGEST];
    sci_dma_queue_state_t state;
    size_t i;
    memset(vector, 0, sizeof vector);
    for (i = 0; i < LONGEST; i++) vector[i].size = SIZE;
    OK(SCIStartDmaTransferVec(queue, source, remote, LONGEST, vector, tell, NO_ARG, SCI_FLAG_USE_CALLBACK, &e));
    FAILS(SCI_ERR_TIMEOUT, state = SCIWaitForDMAQueue(queue, 0, NO_FLAGS, &e));
    CHECK(state == SCI_DMAQUEUE_POSTED && SCIDMAQueueState(queue) == SCI_DMAQUEUE_POSTED);
    FAILS(SCI_ERR_BUSY, SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIStartDmaTransfer(queue, source, remote, 0, 1, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIResetDMAQueue(queue, NO_FLAGS, &e));
    OK(SCIAbortDMAQueue(queue, NO_FLAGS, &e));
    UNTIL(told == 1);
    CHECK(told_status == SCI_ERR_CANCELLED && SCIDMAQueueState(queue) == SCI_DMAQUEUE_ABORTED);
    OK(state = SCIWaitForDMAQueue(queue, 0, NO_FLAGS, &e));
    CHECK(state == SCI_DMAQUEUE_ABORTED && told == 1);
}

static void aborts(void)
{
    sci_error_t e;
    sci_dma_queue_state_t state;
    OK(SCIStartDmaTransfer(queue, source, remote, 0, SIZE, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIAbortDMAQueue(queue, NO_FLAGS, &e));
    state = SCIDMAQueueState(queue);
    /* It may have been over before; it is over now, and nothing comes after it. */
    CHECK(state == SCI_DMAQUEUE_ABORTED || state == SCI_DMAQUEUE_DONE);
    memset(far_bytes, 0, SIZE);
    usleep(1000);
    CHECK(far_bytes[SIZE - 1] == 0);
    OK(SCIAbortDMAQueue(queue, NO_FLAGS, &e));
    push_and_pull(1000, NO_FLAGS);
}

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    sci_local_segment_t target = make_available(sd, ID, SIZE);
    sci_map_t map;
    OK(SCICreateSegment(sd, &source, 0, SIZE, NO_CALLBACK, NO_ARG, SCI_FLAG_PRIVATE | SCI_FLAG_DMA_SOURCE_ONLY, &e));
    /* Prepared is enough. */
    OK(SCIPrepareSegment(source, ADAPTER, SCI_FLAG_DMA_SOURCE_ONLY, &e));
    OK(near_bytes = SCIMapLocalSegment(source, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(far_bytes = SCIMapLocalSegment(target, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    remote = connect_to(sd, my_node(), ID);
    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
    CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_IDLE);
    OK(SCIWaitForDMAQueue(queue, 0, NO_FLAGS, &e));
    push_and_pull(1, NO_FLAGS);
    push_and_pull(100000, SCI_FLAG_BROADCAST | SCI_FLAG_DMA_GLOBAL);
    push_and_pull(5000000, NO_FLAGS);
    push_and_pull(5000000, SCI_FLAG_DMA_WAIT);
    vectors();
    plain_memory();
    callbacks();
    refusals(sd);
    aborts();
    on_its_way();
    push_and_pull(100, NO_FLAGS);
    OK(SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
