/* One program: callbacks end their own thing, everything else, and the library; none waits for itself. */
#include "check.h"

#define ID 61
#define SIZE 4096

static sci_desc_t sd;
static sci_dma_queue_t queue;
static sci_remote_segment_t remote;
static volatile int calls, is_connected;

static sci_callback_action_t end_segment(void *arg, sci_local_segment_t segment, sci_segment_cb_reason_t reason,
                                         unsigned int node, unsigned int adapter, sci_error_t error)
{
    sci_error_t e;
    CHECK(arg == NULL && reason == SCI_CB_CONNECT && node == my_node() && adapter == ADAPTER && error == SCI_ERR_OK);
    UNTIL(is_connected);
    /* Who is connected has no map. */
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    calls++;
    return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t end_remote(void *arg, sci_remote_segment_t segment, sci_segment_cb_reason_t reason,
                                        sci_error_t status)
{
    sci_error_t e;
    CHECK(arg == NULL && reason == SCI_CB_DISCONNECT && status == SCI_ERR_OK);
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    calls++;
    return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t end_queue(void *arg, sci_dma_queue_t which, sci_error_t status)
{
    sci_error_t e;
    CHECK(arg == NULL && which == queue && status == SCI_ERR_OK);
    OK(SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
    calls++;
    return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t end_data_interrupt(void *arg, sci_local_data_interrupt_t interrupt, void *data,
                                                unsigned int length, sci_error_t status)
{
    sci_error_t e;
    CHECK(arg == NULL && data != NULL && length == 1 && status == SCI_ERR_OK);
    OK(SCIRemoveDataInterrupt(interrupt, NO_FLAGS, &e));
    calls++;
    return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t end_library(void *arg, sci_local_interrupt_t interrupt, sci_error_t status)
{
    CHECK(arg == NULL && interrupt != NULL && status == SCI_ERR_OK);
    SCITerminate();
    calls++;
    return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t end_library_by_dma(void *arg, sci_dma_queue_t which, sci_error_t status)
{
    CHECK(arg == NULL && which != NULL && status == SCI_ERR_OK);
    SCITerminate();
    calls++;
    return SCI_CALLBACK_CONTINUE;
}

static void segments_end(void)
{
    sci_error_t e;
    sci_local_segment_t local;
    OK(SCICreateSegment(sd, &local, ID, SIZE, end_segment, NO_ARG, SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIPrepareSegment(local, ADAPTER, NO_FLAGS, &e));
    OK(SCISetSegmentAvailable(local, ADAPTER, NO_FLAGS, &e));
    OK(SCIConnectSegment(sd, &remote, my_node(), ID, ADAPTER, end_remote, NO_ARG, 0, SCI_FLAG_USE_CALLBACK, &e));
    is_connected = 1;
    UNTIL(calls == 2);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveSegment(local, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIDisconnectSegment(remote, NO_FLAGS, &e));
    calls = 0;
}

static void transfer(sci_cb_dma_t callback)
{
    sci_error_t e;
    sci_local_segment_t local = make_available(sd, ID, SIZE);
    remote = connect_to(sd, my_node(), ID);
    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
    OK(SCIStartDmaTransfer(queue, local, remote, 0, 64, 64, callback, NO_ARG, SCI_FLAG_USE_CALLBACK, &e));
    UNTIL(calls == 1);
    calls = 0;
}

static void data_interrupts_end(void)
{
    sci_error_t e;
    sci_local_data_interrupt_t local;
    sci_remote_data_interrupt_t to_it;
    unsigned int no;
    OK(SCICreateDataInterrupt(sd, &local, ADAPTER, &no, end_data_interrupt, NO_ARG, SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIConnectDataInterrupt(sd, &to_it, my_node(), ADAPTER, no, 0, NO_FLAGS, &e));
    OK(SCITriggerDataInterrupt(to_it, (void *)"x", 1, NO_FLAGS, &e));
    UNTIL(calls == 1);
    calls = 0;
    OK(SCIDisconnectDataInterrupt(to_it, NO_FLAGS, &e));
}

static void library_ends(void)
{
    sci_error_t e;
    sci_local_interrupt_t local;
    sci_remote_interrupt_t to_it;
    unsigned int no;
    OK(SCICreateInterrupt(sd, &local, ADAPTER, &no, end_library, NO_ARG, SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIConnectInterrupt(sd, &to_it, my_node(), ADAPTER, no, 0, NO_FLAGS, &e));
    OK(SCITriggerInterrupt(to_it, NO_FLAGS, &e));
    UNTIL(calls == 1);
    calls = 0;
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIClose(sd, NO_FLAGS, &e));
}

int main(void)
{
    sd = start();
    segments_end();
    transfer(end_queue);
    data_interrupts_end();
    library_ends();
    sd = start();
    transfer(end_library_by_dma);
    /* And it can begin again. */
    sd = start();
    SCITerminate();
    return 0;
}
