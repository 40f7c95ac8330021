/* Block transfers of SISCI 1.x. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

enum { ID = 5, SIZE = 8192 };

static sem_t called;
static pthread_t started_by;
static volatile int calls;

static int on_end(void *argument, sci_block_transfer_t block, sci_error_t status) {
    CHECK(argument == &called && block != NULL && status == SCI_ERR_OK);
    CHECK(!pthread_equal(pthread_self(), started_by));
    calls++;
    sem_post(&called);
    return 0;
}

int main(void) {
    sci_desc_t sd = open_device();
    sci_local_segment_t local = create_segment(sd, ID, SIZE);
    sci_local_segment_t target = create_segment(sd, ID + 1, SIZE);
    open_segment(target);
    sci_remote_segment_t remote = connect_segment(sd, own_node(), ID + 1);
    sci_map_t from, to, seen;
    volatile char *source = SCIMapLocalSegment(local, &from, 0, SIZE, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIMapRemoteSegment(remote, &to, 0, SIZE, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    volatile char *arrived = SCIMapLocalSegment(target, &seen, 0, SIZE, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    for (int at = 0; at < SIZE; at++)
        source[at] = (char)(at % 251);

    sci_block_transfer_t block;
    SCITransferBlockAsync(from, 100, to, 200, 4000, &block, NULL, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIWaitForBlockTransfer(block, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    for (int at = 0; at < SIZE; at++)
        CHECK(arrived[at] == (at >= 200 && at < 4200 ? source[at - 100] : 0));
    /* The wait has ended it. */
    SCIWaitForBlockTransfer(block, 0, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_PARAMETER);
    SCITransferBlockAsync(from, 0, to, 0, 8, &block, NULL, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIAbortBlockTransfer(block, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCITransferBlockAsync(from, SIZE - 4, to, 0, 8, &block, NULL, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OUT_OF_RANGE);
    SCITransferBlockAsync(from, 0, to, 0, 8, NULL, NULL, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_PARAMETER);

    /* A function that was not asked for is not called; one that was is, once, by another thread. */
    CHECK(sem_init(&called, 0, 0) == 0);
    started_by = pthread_self();
    SCITransferBlockAsync(from, 0, to, 0, 8, &block, on_end, &called, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIWaitForBlockTransfer(block, 0, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    for (int time = 1; time <= 50; time++) {
        source[7] = (char)time;
        SCITransferBlockAsync(from, 0, to, 0, 8, &block, on_end, &called, SCI_FLAG_USE_CALLBACK, &error);
        EXPECT(SCI_ERR_OK);
        CHECK(arrived[7] == time);
        while (sem_wait(&called) != 0)
            ;
        CHECK(calls == time);
    }
    SCITerminate();
    CHECK(calls == 50);
    say("done");
    return 0;
}
