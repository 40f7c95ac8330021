/* Two nodes: who connects while the link is down waits for it, as long as it was told to. */
#include "check.h"

#define ID 44

static void own(sci_desc_t sd)
{
    sci_error_t e;
    unsigned int no = ID, data_no = ID + 1;
    sci_local_interrupt_t interrupt;
    sci_local_data_interrupt_t data;
    make_available(sd, ID, 4096);
    OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCICreateDataInterrupt(sd, &data, ADAPTER, &data_no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    say("ready");
    hear("end");
}

static void *connect_segment(void *arg)
{
    sci_error_t e;
    sci_remote_segment_t segment;
    OK(SCIConnectSegment(*(sci_desc_t *)arg, &segment, 4, ID, ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT,
                         NO_FLAGS, &e));
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    return NULL;
}

static void *connect_interrupt(void *arg)
{
    sci_error_t e;
    sci_remote_interrupt_t interrupt;
    OK(SCIConnectInterrupt(*(sci_desc_t *)arg, &interrupt, 4, ADAPTER, ID, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    OK(SCITriggerInterrupt(interrupt, NO_FLAGS, &e));
    return NULL;
}

static void *connect_data_interrupt(void *arg)
{
    sci_error_t e;
    sci_remote_data_interrupt_t interrupt;
    OK(SCIConnectDataInterrupt(*(sci_desc_t *)arg, &interrupt, 4, ADAPTER, ID + 1, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    OK(SCITriggerDataInterrupt(interrupt, &e, sizeof e, NO_FLAGS, &e));
    return NULL;
}

static volatile int called_back;

static sci_callback_action_t called(void *arg, sci_remote_segment_t segment, sci_segment_cb_reason_t reason,
                                    sci_error_t status)
{
    CHECK(arg == NULL && segment != NULL && reason == SCI_CB_CONNECT);
    /* The first gives up, the second connects. */
    CHECK(status == (called_back == 0 ? SCI_ERR_NODE_NOT_RESPONDING : SCI_ERR_OK));
    called_back++;
    return SCI_CALLBACK_CANCEL;
}

static sci_remote_segment_t connect_later(sci_desc_t sd, unsigned int timeout)
{
    sci_error_t e;
    sci_remote_segment_t segment;
    OK(SCIConnectSegment(sd, &segment, 4, ID, ADAPTER, called, NO_ARG, timeout,
                         SCI_FLAG_ASYNCHRONOUS_CONNECT | SCI_FLAG_USE_CALLBACK, &e));
    return segment;
}

/* Maps of what is connected, and sequences of them, can be made; they tell of the link. */
static sci_sequence_t map_while_down(sci_remote_segment_t segment)
{
    sci_error_t e;
    sci_map_t map, further;
    sci_sequence_t sequence;
    volatile int *numbers;
    OK(numbers = SCIMapRemoteSegment(segment, &map, 4, 64, NULL, NO_FLAGS, &e));
    CHECK(numbers != NULL);
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMapRemoteSegment(segment, &further, 4096, 1, NULL, NO_FLAGS, &e));
    OK(SCIMapRemoteSegment(segment, &further, 0, 64, NULL, SCI_FLAG_READONLY_MAP, &e));
    OK(SCIUnmapSegment(further, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    sequence_says(sequence, SCI_SEQ_PENDING);
    FAILS(SCI_ERR_NO_LINK_ACCESS, SCIMemCpy(sequence, &e, map, 0, sizeof e, NO_FLAGS, &e));
    return sequence;
}

/* Once at least; with faults a map leads nowhere for a moment longer. */
static void tells_of_the_failure(sci_sequence_t sequence)
{
    sci_error_t e;
    sci_sequence_status_t status;
    do {
        OK(status = SCICheckSequence(sequence, NO_FLAGS, &e));
    } while (status == SCI_SEQ_PENDING);
    CHECK(status == SCI_SEQ_RETRIABLE);
    do {
        OK(status = SCICheckSequence(sequence, NO_FLAGS, &e));
    } while (status == SCI_SEQ_RETRIABLE);
    sequence_says(sequence, SCI_SEQ_OK);
}

/* What is connected already cannot be triggered for a while. */
static void trigger(sci_remote_interrupt_t interrupt, sci_remote_data_interrupt_t data, sci_error_t wanted)
{
    sci_error_t e;
    FAILS(wanted, SCITriggerInterrupt(interrupt, NO_FLAGS, &e));
    FAILS(wanted, SCITriggerDataInterrupt(data, &e, sizeof e, NO_FLAGS, &e));
}

static void use(sci_desc_t sd)
{
    sci_error_t e;
    sci_remote_interrupt_t connected;
    sci_remote_data_interrupt_t data_connected;
    sci_remote_segment_t segment;
    sci_remote_interrupt_t interrupt;
    sci_remote_data_interrupt_t data;
    sci_local_segment_t own_segment = make_available(sd, 1, 64);
    sci_remote_segment_t before = connect_to(sd, 4, ID), later;
    sci_sequence_t sequence;
    pthread_t threads[3];
    OK(SCIConnectInterrupt(sd, &connected, 4, ADAPTER, ID, 0, NO_FLAGS, &e));
    OK(SCIConnectDataInterrupt(sd, &data_connected, 4, ADAPTER, ID + 1, 0, NO_FLAGS, &e));
    trigger(connected, data_connected, SCI_ERR_OK);
    say("connected");
    hear("down");
    trigger(connected, data_connected, SCI_ERR_NO_LINK_ACCESS);
    FAILS(SCI_ERR_NODE_NOT_RESPONDING,
          SCIConnectSegment(sd, &segment, 4, ID, ADAPTER, NO_CALLBACK, NO_ARG, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_NODE_NOT_RESPONDING, SCIConnectInterrupt(sd, &interrupt, 4, ADAPTER, ID, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_NODE_NOT_RESPONDING, SCIConnectDataInterrupt(sd, &data, 4, ADAPTER, ID + 1, 1, NO_FLAGS, &e));
    sequence = map_while_down(before);
    later = connect_later(sd, 1);
    UNTIL(called_back == 1);
    OK(SCIDisconnectSegment(later, NO_FLAGS, &e));
    later = connect_later(sd, SCI_INFINITE_TIMEOUT);
    /* One's own node is not behind that link. */
    segment = connect_to(sd, my_node(), 1);
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    CHECK(SCIGetLocalSegmentId(own_segment) == 1);
    CHECK(pthread_create(&threads[0], NULL, connect_segment, &sd) == 0);
    CHECK(pthread_create(&threads[1], NULL, connect_interrupt, &sd) == 0);
    CHECK(pthread_create(&threads[2], NULL, connect_data_interrupt, &sd) == 0);
    usleep(20000);
    CHECK(called_back == 1);
    say("waiting");
    CHECK(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
    CHECK(pthread_join(threads[2], NULL) == 0);
    UNTIL(called_back == 2);
    CHECK(SCIGetRemoteSegmentSize(later) == 4096);
    tells_of_the_failure(sequence);
    trigger(connected, data_connected, SCI_ERR_OK);
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    (void)argv;
    if (argc > 1) use(sd);
    else own(sd);
    SCITerminate();
    return 0;
}
