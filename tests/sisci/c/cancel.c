/* One program: waits of one thread are ended by another, and callbacks remove the very thing that called them. */
#include "check.h"

#define THREADS 3

static sci_local_segment_t local;
static sci_remote_segment_t remote;
static sci_local_interrupt_t interrupt;
static sci_local_data_interrupt_t data_interrupt;

/* Whether SCITerminate ends the waits. */
static volatile int is_terminated;

static void is_ended(sci_error_t e)
{
    /* Who comes a moment later finds the handle gone, or the library. */
    if (is_terminated && e == SCI_ERR_NOT_INITIALIZED) return;
    if (e != SCI_ERR_CANCELLED && e != SCI_ERR_ILLEGAL_PARAMETER) FAIL("the wait ended with %#x", (unsigned int)e);
}

static void *wait_local(void *arg)
{
    sci_error_t e = UNSET;
    SCIWaitForLocalSegmentEvent(local, NULL, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
    is_ended(e);
    return arg;
}

static void *wait_remote(void *arg)
{
    sci_error_t e = UNSET;
    SCIWaitForRemoteSegmentEvent(remote, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
    is_ended(e);
    return arg;
}

static void *wait_interrupt(void *arg)
{
    sci_error_t e = UNSET;
    SCIWaitForInterrupt(interrupt, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
    is_ended(e);
    return arg;
}

static void *wait_data(void *arg)
{
    sci_error_t e = UNSET;
    char message[10];
    unsigned int length = sizeof message;
    SCIWaitForDataInterrupt(data_interrupt, message, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
    is_ended(e);
    return arg;
}

static sci_desc_t connecting;

/* Every other thread waits for a segment that never comes, the others for an interrupt. */
static void *wait_connecting(void *arg)
{
    static unsigned int threads;
    sci_error_t e = UNSET;
    sci_remote_segment_t segment;
    sci_remote_interrupt_t trigger;
    if (__sync_fetch_and_add(&threads, 1) % 2 == 0) {
        SCIConnectSegment(connecting, &segment, SCI_LOCAL_HOST, 2, ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT,
                          NO_FLAGS, &e);
    } else {
        SCIConnectInterrupt(connecting, &trigger, SCI_LOCAL_HOST, ADAPTER, 2, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
    }
    is_ended(e);
    return arg;
}

/* Several threads wait; `end` ends them all. */
static void ends(void *(*wait)(void *), void (*end)(void))
{
    pthread_t threads[THREADS];
    int i;
    for (i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, wait, NULL) == 0);
    usleep(20000);
    end();
    for (i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void disconnect(void)
{
    sci_error_t e;
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
}

static void remove_segment(void)
{
    sci_error_t e;
    OK(SCIRemoveSegment(local, NO_FLAGS, &e));
}

static void remove_interrupt(void)
{
    sci_error_t e;
    OK(SCIRemoveInterrupt(interrupt, NO_FLAGS, &e));
}

static void remove_data_interrupt(void)
{
    sci_error_t e;
    OK(SCIRemoveDataInterrupt(data_interrupt, NO_FLAGS, &e));
}

static void terminate_and_begin_anew(void)
{
    sci_error_t e;
    SCITerminate();
    OK(SCIInitialize(NO_FLAGS, &e));
}

static volatile int removed;

static sci_callback_action_t remove_myself(void *arg, sci_local_interrupt_t me, sci_error_t status)
{
    sci_error_t e;
    CHECK(arg == NULL && status == SCI_ERR_OK);
    OK(SCIRemoveInterrupt(me, NO_FLAGS, &e));
    removed = 1;
    return SCI_CALLBACK_CONTINUE;
}

static void from_a_callback(sci_desc_t sd)
{
    sci_error_t e;
    unsigned int no;
    sci_remote_interrupt_t trigger;
    OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, remove_myself, NULL, SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIConnectInterrupt(sd, &trigger, my_node(), ADAPTER, no, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    OK(SCITriggerInterrupt(trigger, NO_FLAGS, &e));
    UNTIL(removed);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveInterrupt(interrupt, NO_FLAGS, &e));
    OK(SCIDisconnectInterrupt(trigger, NO_FLAGS, &e));
}

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    unsigned int no, node, adapter;
    local = make_available(sd, 1, 100);
    remote = connect_to(sd, my_node(), 1);
    ends(wait_remote, disconnect);
    /* What happened so far, so that only the removal is left to wait for. */
    OK(SCIWaitForLocalSegmentEvent(local, &node, &adapter, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    OK(SCIWaitForLocalSegmentEvent(local, &node, &adapter, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    ends(wait_local, remove_segment);
    OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    ends(wait_interrupt, remove_interrupt);
    OK(SCICreateDataInterrupt(sd, &data_interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    ends(wait_data, remove_data_interrupt);
    from_a_callback(sd);
    OK_AFTER(SCI_ERR_BUSY, SCIClose(sd, NO_FLAGS, &e));

    /* SCITerminate ends waits as well. */
    sd = start();
    OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    is_terminated = 1;
    ends(wait_interrupt, SCITerminate);
    connecting = start();
    ends(wait_connecting, terminate_and_begin_anew);
    SCITerminate();
    return 0;
}
