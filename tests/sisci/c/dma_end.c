/* Two nodes: a transfer to a segment whose owner has died, or whose link is down, fails and says so; the queue lives on. */
#include "check.h"

#define ID 23
#define SIZE (4 << 20)

static volatile int told;
static volatile sci_error_t told_status;

static sci_callback_action_t done(void *arg, sci_dma_queue_t queue, sci_error_t status)
{
    CHECK(arg == NULL && queue != NULL);
    told_status = status;
    __sync_fetch_and_add(&told, 1);
    return SCI_CALLBACK_CONTINUE;
}

static void own(sci_desc_t sd)
{
    make_available(sd, ID, SIZE);
    say("ready");
    pause();
}

static void fails(sci_dma_queue_t queue, sci_local_segment_t source, sci_remote_segment_t remote, size_t size)
{
    sci_error_t e = UNSET;
    sci_dma_queue_state_t state;
    SCIStartDmaTransfer(queue, source, remote, 0, size, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e);
    /* Refused at once, or failed later: then the wait says so, and why. */
    if (e == SCI_ERR_OK) {
        state = SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
        CHECK(state == SCI_DMAQUEUE_ERROR && e != SCI_ERR_OK);
        CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_ERROR);
    }
    told_status = UNSET;
    told = 0;
    SCIStartDmaTransfer(queue, source, remote, 0, size, 0, done, NO_ARG, SCI_FLAG_USE_CALLBACK, &e);
    if (e == SCI_ERR_OK) {
        UNTIL(told == 1);
        CHECK(told_status != SCI_ERR_OK && told_status != UNSET);
    }
}

static void use(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_local_segment_t source;
    sci_remote_segment_t remote = connect_to(sd, owner, ID);
    sci_dma_queue_t queue;
    OK(SCICreateSegment(sd, &source, 0, SIZE, NO_CALLBACK, NO_ARG, SCI_FLAG_PRIVATE, &e));
    OK(SCIPrepareSegment(source, ADAPTER, NO_FLAGS, &e));
    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
    OK(SCIStartDmaTransfer(queue, source, remote, 0, 64, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    say("copied");
    hear("down");
    fails(queue, source, remote, 64);
    fails(queue, source, remote, SIZE);
    say("failed");
    hear("up");
    OK(SCIStartDmaTransfer(queue, source, remote, 0, SIZE, 0, NO_CALLBACK, NO_ARG, SCI_FLAG_DMA_WAIT, &e));
    CHECK(SCIDMAQueueState(queue) == SCI_DMAQUEUE_DONE);
    say("copied");
    hear("dead");
    CHECK(SCIWaitForRemoteSegmentEvent(remote, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e) == SCI_CB_NOT_OPERATIONAL);
    CHECK(SCIWaitForRemoteSegmentEvent(remote, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e) == SCI_CB_OPERATIONAL);
    CHECK(SCIWaitForRemoteSegmentEvent(remote, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e) == SCI_CB_LOST);
    fails(queue, source, remote, 64);
    fails(queue, source, remote, SIZE);
    OK(SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    OK(SCIRemoveSegment(source, NO_FLAGS, &e));
    OK_AFTER(SCI_ERR_BUSY, SCIClose(sd, NO_FLAGS, &e));
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    if (argc > 1) use(sd, number(argv[1]));
    else own(sd);
    SCITerminate();
    return 0;
}
