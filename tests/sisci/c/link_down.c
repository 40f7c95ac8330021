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
    pthread_t threads[2];
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
    /* One's own node is not behind that link. */
    segment = connect_to(sd, my_node(), 1);
    OK(SCIDisconnectSegment(segment, NO_FLAGS, &e));
    CHECK(SCIGetLocalSegmentId(own_segment) == 1);
    CHECK(pthread_create(&threads[0], NULL, connect_segment, &sd) == 0);
    CHECK(pthread_create(&threads[1], NULL, connect_interrupt, &sd) == 0);
    usleep(20000);
    say("waiting");
    CHECK(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
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
