/*
 * What writing to a group costs: group_cost GROUP, on a node of a cluster where members of the group run. Prints one line a
 * way, best of several rounds.
 */
#include <sisci_api.h>
#include <sisci_error.h>
#include <sisci_types.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7 };

static sci_desc_t sd;
static sci_remote_segment_t group;
static sci_map_t map;
static sci_sequence_t sequence;
static sci_dma_queue_t queue;
static volatile uint32_t *all;
static char *block;
static size_t size;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void check(sci_error_t error, const char *what)
{
    if (error != SCI_ERR_OK) {
        fprintf(stderr, "%s: %s\n", what, SCIGetErrorString(error));
        exit(1);
    }
}

/* Apart from each other, so that each is a store of its own. */
static void __attribute__((noinline)) one_store(uint32_t value)
{
    all[0] = value;
    /* An instruction that the library does not know ends what it takes together. */
    __asm__ volatile("rdtsc" ::: "eax", "edx");
}

static void single(int count)
{
    for (int i = 0; i < count; i++)
        one_store((uint32_t)i);
}

static void loop(int count)
{
    for (int i = 0; i < count; i++)
        all[i & 1023] = (uint32_t)i;
}

static void added(int count)
{
    for (int i = 0; i < count; i++)
        __atomic_fetch_add(&all[0], 1, __ATOMIC_SEQ_CST);
}

static void copy(int bytes)
{
    memcpy((void *)all, block, (size_t)bytes);
}

static void sci_copy(int bytes)
{
    sci_error_t error;
    SCIMemCpy(sequence, block, map, 0, (size_t)bytes, 0, &error);
    check(error, "SCIMemCpy");
}

static void dma(int bytes)
{
    sci_error_t error;
    SCIStartDmaTransferMem(queue, block, group, (size_t)bytes, 0, NULL, NULL, 0, &error);
    check(error, "DMA");
    SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, 0, &error);
    check(error, "DMA wait");
}

static double best(void (*way)(int), int count)
{
    double least = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        double begun = now_ns();
        way(count);
        double took = now_ns() - begun;
        least = took < least ? took : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    sci_error_t error;
    SCIInitialize(0, &error);
    check(error, "initialise");
    SCIOpen(&sd, 0, &error);
    check(error, "open");
    SCIConnectSegment(sd, &group, DIS_BROADCAST_NODEID_GROUP_ALL, argc > 1 ? (unsigned int)atoi(argv[1]) : 0, 0, NULL,
                      NULL, 0, SCI_FLAG_BROADCAST, &error);
    check(error, "connect");
    size = SCIGetRemoteSegmentSize(group);
    all = SCIMapRemoteSegment(group, &map, 0, size, NULL, 0, &error);
    check(error, "map");
    SCICreateMapSequence(map, &sequence, 0, &error);
    check(error, "sequence");
    SCICreateDMAQueue(sd, &queue, 0, 1, 0, &error);
    check(error, "queue");
    block = malloc(size);
    memset(block, 5, size);
    printf("store        %9.1f ns\n", best(single, 20000) / 20000);
    printf("store (loop) %9.1f ns\n", best(loop, 200000) / 200000);
    printf("fetch-add    %9.1f ns\n", best(added, 20000) / 20000);
    for (size_t bytes = 64; bytes <= size; bytes *= 16) {
        printf("%7zu bytes: memcpy %8.1f MB/s, SCIMemCpy %8.1f MB/s, DMA %8.1f MB/s\n", bytes,
               (double)bytes * 1e3 / best(copy, (int)bytes), (double)bytes * 1e3 / best(sci_copy, (int)bytes),
               (double)bytes * 1e3 / best(dma, (int)bytes));
    }
    SCITerminate();
    return 0;
}
