/* One program: the DMA of SISCI 1.x, where transfers are gathered first and posted together. */
#include "check.h"

#define ID 22
#define SIZE 65536
#define ENTRIES 4

static volatile int ended;

static sci_callback_action_t done(void *arg, sci_dma_queue_t queue, sci_error_t status)
{
    CHECK(arg == NULL && queue != NULL && status == SCI_ERR_OK);
    __sync_fetch_and_add(&ended, 1);
    return SCI_CALLBACK_CONTINUE;
}

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    sci_local_segment_t source = make_available(sd, ID, SIZE), target = make_available(sd, ID + 1, SIZE);
    sci_remote_segment_t remote = connect_to(sd, my_node(), ID + 1);
    sci_dma_queue_t queue;
    sci_dma_queue_state_t state;
    sci_map_t map;
    unsigned char *from, *to;
    unsigned int i;
    OK(from = SCIMapLocalSegment(source, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(to = SCIMapLocalSegment(target, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    for (i = 0; i < SIZE; i++) from[i] = (unsigned char)(i * 3);
    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, ENTRIES, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_OPERATION, SCIPostDMAQueue(queue, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    for (i = 0; i < ENTRIES; i++) {
        OK(state = SCIEnqueueDMATransfer(queue, source, remote, i * 1000, i * 2000, 500, NO_FLAGS, &e));
        CHECK(state == SCI_DMAQUEUE_GATHER);
    }
    CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_GATHER && to[0] == 0 && to[2001] == 0);
    FAILS(SCI_ERR_MAX_ENTRIES, SCIEnqueueDMATransfer(queue, source, remote, 0, 0, 1, NO_FLAGS, &e));
    OK(SCIPostDMAQueue(queue, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(state = SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    CHECK(state == SCI_DMAQUEUE_DONE);
    for (i = 0; i < ENTRIES; i++) CHECK(memcmp(to + i * 2000, from + i * 1000, 500) == 0 && to[i * 2000 + 500] == 0);
    OK(SCIResetDMAQueue(queue, NO_FLAGS, &e));
    CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_IDLE);
    /* What was gathered and reset is not copied by the next post. */
    OK(SCIEnqueueDMATransfer(queue, source, remote, 1, 60000, 1, NO_FLAGS, &e));
    OK(SCIResetDMAQueue(queue, NO_FLAGS, &e));
    OK(SCIEnqueueDMATransfer(queue, source, remote, 1, 50000, 1, NO_FLAGS, &e));
    OK(SCIPostDMAQueue(queue, done, NO_ARG, SCI_FLAG_USE_CALLBACK, &e));
    UNTIL(ended == 1);
    CHECK(to[50000] == from[1] && to[60000] == 0);
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIEnqueueDMATransfer(queue, source, remote, SIZE, 0, 1, NO_FLAGS, &e));
    /* In one call, more often than the queue has entries. */
    for (i = 0; i < 3 * ENTRIES; i++) {
        OK(state = SCIEnqueueDMATransfer(queue, source, remote, i * 7, 30000 + i * 100, 99,
                                         SCI_FLAG_DMA_POST | SCI_FLAG_DMA_WAIT | SCI_FLAG_DMA_RESET, &e));
        CHECK(state == SCI_DMAQUEUE_IDLE && SCIDMAQueueState(queue) == SCI_DMAQUEUE_IDLE);
        CHECK(memcmp(to + 30000 + i * 100, from + i * 7, 99) == 0);
    }
    OK(SCIEnqueueDMATransfer(queue, source, remote, 0, 35000, 10, NO_FLAGS, &e));
    OK(state = SCIEnqueueDMATransfer(queue, source, remote, 0, 36000, 10, SCI_FLAG_DMA_POST | SCI_FLAG_DMA_WAIT, &e));
    CHECK(state == SCI_DMAQUEUE_DONE && memcmp(to + 35000, from, 10) == 0 && memcmp(to + 36000, from, 10) == 0);
    OK(SCIEnqueueDMATransfer(queue, source, remote, 0, 37000, 10, SCI_FLAG_DMA_POST, &e));
    OK(state = SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    CHECK(state == SCI_DMAQUEUE_DONE && memcmp(to + 37000, from, 10) == 0);
    FAILS(SCI_ERR_OUT_OF_RANGE, state = SCIEnqueueDMATransfer(queue, source, remote, SIZE, 0, 1,
                                                             SCI_FLAG_DMA_POST | SCI_FLAG_DMA_WAIT, &e));
    CHECK(state == SCI_DMAQUEUE_ERROR);
    /* The queue is of use after a refusal. */
    OK(SCIStartDmaTransfer(queue, source, remote, 0, 10, 40000, NO_CALLBACK, NO_ARG, SCI_FLAG_DMA_WAIT, &e));
    CHECK(memcmp(to + 40000, from, 10) == 0);
    OK(DISStartDmaTransfer(queue, source, remote, 7, 1, 45000, NO_CALLBACK, NO_ARG, SCI_FLAG_DMA_WAIT, &e));
    CHECK(to[45000] == from[7]);
    OK(SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
