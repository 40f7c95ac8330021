/* One program: threads that can be cancelled at any time are cancelled in the middle of calls, and the library
 * works on: no lock stays behind, and the handlers of the thread are run. */
#include "check.h"

#define ID 3
#define SIZE 65536
#define ROUNDS 400

static sci_desc_t sd;
static sci_remote_segment_t remote;
static sci_map_t map;
static sci_sequence_t sequence;
static char block[SIZE];
static volatile int started, cleaned;

static void clean(void *arg)
{
    sci_error_t e;
    sci_map_t own;
    (void)arg;
    /* Calls of the library while the thread is unwound. */
    CHECK(SCIMapRemoteSegment(remote, &own, 0, SIZE, NULL, NO_FLAGS, &e) != NULL);
    OK(SCIUnmapSegment(own, NO_FLAGS, &e));
    cleaned++;
}

static void *calls(void *arg)
{
    sci_error_t e;
    sci_map_t own;
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    started = 1;
    for (;;) {
        SCIFlush(sequence, NO_FLAGS);
        SCIMemCpy(sequence, block, map, 0, SIZE, NO_FLAGS, &e);
        SCICheckSequence(sequence, NO_FLAGS, &e);
        SCIMapRemoteSegment(remote, &own, 0, SIZE, NULL, NO_FLAGS, &e);
        SCIUnmapSegment(own, NO_FLAGS, &e);
    }
    pthread_cleanup_pop(0);
    return arg;
}

/* Maps of a thread that was cancelled behind the call that made them stay until the segment is let go. */
int main(void)
{
    sci_error_t e;
    int round;
    void *result;
    sci_local_segment_t local;
    sd = start();
    local = make_available(sd, ID, SIZE);
    CHECK(local != NULL);
    remote = connect_to(sd, my_node(), ID);
    OK(SCIMapRemoteSegment(remote, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    start_sequence(sequence);
    for (round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        started = 0;
        CHECK(pthread_create(&thread, NULL, calls, NULL) == 0);
        while (!started) sched_yield();
        usleep(round * 7 % 500);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        if (result != PTHREAD_CANCELED || cleaned != round + 1) {
            FAIL("round %d: result %p, %d handlers were run", round, result, cleaned);
        }
        OK(SCIMemCpy(sequence, block, map, 0, SIZE, NO_FLAGS, &e));
    }
    SCIClose(sd, NO_FLAGS, &e);
    SCITerminate();
    return 0;
}
