/* Programs that clean nothing up: ended by SCITerminate, by exit alone, or killed. The next one finds all ids free. */
#include "check.h"

#define ID 55
#define INTNO 55
#define SIZE 100000

static sci_callback_action_t on_segment(void *arg, sci_local_segment_t segment, sci_segment_cb_reason_t reason,
                                        unsigned int node, unsigned int adapter, sci_error_t error)
{
    (void)arg, (void)segment, (void)reason, (void)node, (void)adapter, (void)error;
    return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t on_interrupt(void *arg, sci_local_interrupt_t interrupt, sci_error_t status)
{
    (void)arg, (void)interrupt, (void)status;
    return SCI_CALLBACK_CONTINUE;
}

static sci_callback_action_t on_data(void *arg, sci_local_data_interrupt_t interrupt, void *data, unsigned int length,
                                     sci_error_t status)
{
    (void)arg, (void)interrupt, (void)data, (void)length, (void)status;
    return SCI_CALLBACK_CONTINUE;
}

/* One of everything. An id of a program that was killed a moment ago may take a moment to be free. */
static void make_everything(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    sci_local_segment_t local;
    sci_remote_segment_t remote;
    sci_map_t map;
    sci_sequence_t sequence;
    sci_dma_queue_t queue;
    sci_local_interrupt_t interrupt;
    sci_remote_interrupt_t remote_interrupt;
    sci_local_data_interrupt_t data;
    sci_remote_data_interrupt_t remote_data;
    unsigned int no = INTNO, data_no = INTNO + 1;
    OK_AFTER(SCI_ERR_SEGMENTID_USED,
             SCICreateSegment(sd, &local, ID, SIZE, on_segment, NO_ARG, SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIPrepareSegment(local, ADAPTER, NO_FLAGS, &e));
    OK(SCISetSegmentAvailable(local, ADAPTER, NO_FLAGS, &e));
    remote = connect_to(sd, my_node(), ID);
    OK(SCIMapLocalSegment(local, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCIMapRemoteSegment(remote, &map, 1, 2, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
    OK(SCIStartDmaTransfer(queue, local, remote, 0, SIZE, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, on_interrupt, NO_ARG,
                          SCI_FLAG_USE_CALLBACK | SCI_FLAG_FIXED_INTNO, &e));
    OK(SCIConnectInterrupt(sd, &remote_interrupt, my_node(), ADAPTER, no, 0, NO_FLAGS, &e));
    OK(SCITriggerInterrupt(remote_interrupt, NO_FLAGS, &e));
    OK(SCICreateDataInterrupt(sd, &data, ADAPTER, &data_no, on_data, NO_ARG,
                              SCI_FLAG_USE_CALLBACK | SCI_FLAG_FIXED_INTNO, &e));
    OK(SCIConnectDataInterrupt(sd, &remote_data, my_node(), ADAPTER, data_no, 0, NO_FLAGS, &e));
    OK(SCITriggerDataInterrupt(remote_data, &no, sizeof no, NO_FLAGS, &e));
}

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "terminate";
    int i;
    make_everything();
    if (!strcmp(role, "exit")) return 0;
    if (!strcmp(role, "die")) {
        say("made");
        pause();
    }
    for (i = 0; i < 3; i++) {
        SCITerminate();
        make_everything();
    }
    SCITerminate();
    return 0;
}
