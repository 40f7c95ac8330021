/* One program whose threads use the library at the same time, each with its own things, while others come and go. */
#include "check.h"

#define THREADS 8
#define ROUNDS 30
#define SIZE 4096

static sci_desc_t sd;

static void *live(void *arg)
{
    sci_error_t e;
    unsigned int me = *(unsigned int *)arg, round;
    for (round = 0; round < ROUNDS; round++) {
        sci_local_segment_t local = make_available(sd, 100 + me, SIZE);
        sci_remote_segment_t remote = connect_to(sd, my_node(), 100 + me);
        sci_local_interrupt_t interrupt;
        sci_remote_interrupt_t trigger;
        sci_dma_queue_t queue;
        sci_sequence_t sequence;
        sci_map_t map;
        unsigned int no;
        volatile unsigned int *number;
        OK(number = SCIMapRemoteSegment(remote, &map, me * 4, 4, NULL, NO_FLAGS, &e));
        OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
        *number = round;
        OK(CHECK(SCICheckSequence(sequence, NO_FLAGS, &e) == SCI_SEQ_OK));
        CHECK(*number == round);
        OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
        OK(SCIStartDmaTransfer(queue, local, remote, 0, 100, 1000, NO_CALLBACK, NO_ARG, SCI_FLAG_DMA_WAIT, &e));
        OK(SCIRemoveDMAQueue(queue, NO_FLAGS, &e));
        OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
        OK(SCIConnectInterrupt(sd, &trigger, my_node(), ADAPTER, no, 0, NO_FLAGS, &e));
        OK(SCITriggerInterrupt(trigger, NO_FLAGS, &e));
        OK(SCIWaitForInterrupt(interrupt, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
        OK(SCIDisconnectInterrupt(trigger, NO_FLAGS, &e));
        OK(SCIRemoveInterrupt(interrupt, NO_FLAGS, &e));
        OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
        OK(SCIUnmapSegment(map, NO_FLAGS, &e));
        OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
        OK_AFTER(SCI_ERR_BUSY, SCIRemoveSegment(local, NO_FLAGS, &e));
    }
    return NULL;
}

static volatile int is_over;

static void *come_and_go(void *arg)
{
    sci_error_t e;
    int round;
    for (round = 0; round < 1000; round++) {
        OK(SCIRemoveSegment(make_available(sd, 7, SIZE), SCI_FLAG_FORCE_REMOVE, &e));
    }
    is_over = 1;
    return arg;
}

/* Whenever a segment goes away, who connects finds it or does not: programs look again after no other error. */
static void connect_to_what_goes_away(void)
{
    sci_error_t e;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, come_and_go, NULL) == 0);
    while (!is_over) {
        sci_remote_segment_t remote;
        SCIConnectSegment(sd, &remote, my_node(), 7, ADAPTER, NO_CALLBACK, NO_ARG, 0, NO_FLAGS, &e);
        if (e == SCI_ERR_OK) OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
        else if (e != SCI_ERR_NO_SUCH_SEGMENT) FAIL("%#x (%s)", (unsigned int)e, SCIGetErrorString(e));
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

static sci_local_interrupt_t common;
static volatile unsigned int taken;

static void *take(void *arg)
{
    sci_error_t e;
    for (;;) {
        SCIWaitForInterrupt(common, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
        if (e != SCI_ERR_OK) break;
        __sync_fetch_and_add(&taken, 1);
    }
    CHECK(e == SCI_ERR_CANCELLED || e == SCI_ERR_ILLEGAL_PARAMETER);
    return arg;
}

/* Several threads wait for one interrupt: each trigger is taken once. */
static void share_an_interrupt(void)
{
    sci_error_t e;
    pthread_t threads[THREADS];
    sci_remote_interrupt_t trigger;
    unsigned int no, i;
    OK(SCICreateInterrupt(sd, &common, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_COUNTING_INT, &e));
    OK(SCIConnectInterrupt(sd, &trigger, my_node(), ADAPTER, no, 0, NO_FLAGS, &e));
    for (i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, take, NULL) == 0);
    for (i = 0; i < 500; i++) OK(SCITriggerInterrupt(trigger, NO_FLAGS, &e));
    UNTIL(taken >= 500);
    OK(SCIRemoveInterrupt(common, NO_FLAGS, &e));
    for (i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(taken == 500);
    OK(SCIDisconnectInterrupt(trigger, NO_FLAGS, &e));
}

int main(void)
{
    sci_error_t e;
    pthread_t threads[THREADS];
    unsigned int numbers[THREADS], i;
    sd = start();
    for (i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, live, &numbers[i]) == 0);
    }
    for (i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    connect_to_what_goes_away();
    share_an_interrupt();
    OK_AFTER(SCI_ERR_BUSY, SCIClose(sd, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
