/*
 * What calls and copies of the SISCI API cost, for `tieline bench acceptance --only sisci`.
 *
 * Two of these run, one on each node, and do what they are told on standard input, a line each, until it ends; each answers
 * with one line: a number of nanoseconds, or "error" and the reason. Between two lines a process sleeps, so that whoever
 * measures beside it has the processors for himself.
 *
 *     measure PEER CPU ID     the node of the other one, the processor to run on, and from where on segment ids are free
 *
 *     lines IN OUT            attach to segment IN of the own node, which somebody shares, and connect to segment OUT of the
 *                             other: round trips then use the very lines of whoever measures beside it
 *     tight 1 | paused 1      how round trips wait from now on: with nothing, or a pause of the processor, between two looks
 *     ping N AT | echo N AT   N round trips of 4 bytes stored through maps of these, AT bytes from their beginning: half a
 *                             round trip, the median of samples of 64 (tell "echo" to the other first)
 *     copy N | plain N        the fastest of N copies of 1 MiB into the map, by SCIMemCpy or by memcpy
 *     dma N                   the same by a DMA queue
 *     store N | put N         64 bytes that are stored through the map, or copied with SCIMemCpy, and a flush: the median of N
 *     call N                  SCIGetLocalSegmentSize, the mean of N
 *     connect N               connect to the other's segment, map, unmap, disconnect: the median of N
 *     cycle N                 create, prepare, make available, connect, map and take all back: the median of N
 *     fill                    1,000 segments, 10,000 maps and 256 DMA queues to begin with
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sisci_api.h"

#if defined __x86_64__
#define processor_pause() __builtin_ia32_pause()
#elif defined __aarch64__
#define processor_pause() __asm__ volatile("isb")
#else
#define processor_pause() (void)0
#endif

enum { BLOCK_BYTES = 1 << 20, SEGMENT_BYTES = 2 * BLOCK_BYTES, TRIES_MAX = 1 << 20 };
enum { SAMPLE_TRIPS = 64 };
enum { FILL_SEGMENTS = 1000, FILL_MAPS = 10000, FILL_QUEUES = 256 };

static sci_desc_t sd;
static unsigned own_node, peer_node, id_base;
static sci_local_segment_t local;
static sci_remote_segment_t remote;
static sci_map_t local_map, remote_map;
static sci_dma_queue_t queue;
static volatile uint32_t *in, *out;
static volatile uint32_t *lines_in, *lines_out;
static size_t lines_bytes;
static int paused;
static uint32_t round_trips;
static char *block;

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void fail(const char *what, sci_error_t error)
{
    printf("error %s: %s\n", what, SCIGetErrorString(error));
    fflush(stdout);
    exit(1);
}

/* Ends the program with the reason if the call before it failed. */
static void check(const char *what, sci_error_t error)
{
    if (error != SCI_ERR_OK) {
        fail(what, error);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static sci_local_segment_t create(unsigned id, size_t size)
{
    sci_error_t error;
    sci_local_segment_t segment;
    SCICreateSegment(sd, &segment, id, size, NULL, NULL, 0, &error);
    check("SCICreateSegment", error);
    SCIPrepareSegment(segment, 0, 0, &error);
    check("SCIPrepareSegment", error);
    SCISetSegmentAvailable(segment, 0, 0, &error);
    check("SCISetSegmentAvailable", error);
    return segment;
}

static sci_remote_segment_t connect_to(unsigned node, unsigned id)
{
    sci_error_t error;
    sci_remote_segment_t segment;
    unsigned tries = 0;
    do {
        SCIConnectSegment(sd, &segment, node, id, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &error);
        if (error == SCI_ERR_NO_SUCH_SEGMENT) {
            usleep(1000);
        }
    } while (error == SCI_ERR_NO_SUCH_SEGMENT && ++tries < 30000);
    check("SCIConnectSegment", error);
    return segment;
}

static void set_up(void)
{
    sci_error_t error;
    SCIInitialize(0, &error);
    check("SCIInitialize", error);
    SCIOpen(&sd, 0, &error);
    check("SCIOpen", error);
    SCIGetLocalNodeId(0, &own_node, 0, &error);
    check("SCIGetLocalNodeId", error);
    local = create(id_base, SEGMENT_BYTES);
    in = SCIMapLocalSegment(local, &local_map, 0, SEGMENT_BYTES, NULL, 0, &error);
    check("SCIMapLocalSegment", error);
    remote = connect_to(peer_node, id_base);
    out = SCIMapRemoteSegment(remote, &remote_map, 0, SEGMENT_BYTES, NULL, 0, &error);
    check("SCIMapRemoteSegment", error);
    SCICreateDMAQueue(sd, &queue, 0, 1, 0, &error);
    check("SCICreateDMAQueue", error);
    block = malloc(BLOCK_BYTES);
    memset(block, 0x5a, BLOCK_BYTES);
    memset((char *)in + BLOCK_BYTES, 0x5a, BLOCK_BYTES);
}

/* Another program of this node made `id_in`, and one of the other node `id_out`; they are kept until this program ends. */
static void share_lines(unsigned id_in, unsigned id_out)
{
    sci_error_t error;
    sci_local_segment_t attached;
    sci_map_t map;
    size_t size_out;
    SCIAttachLocalSegment(sd, &attached, id_in, &lines_bytes, NULL, NULL, 0, &error);
    check("SCIAttachLocalSegment", error);
    lines_in = SCIMapLocalSegment(attached, &map, 0, lines_bytes, NULL, 0, &error);
    check("SCIMapLocalSegment", error);
    sci_remote_segment_t connected = connect_to(peer_node, id_out);
    size_out = SCIGetRemoteSegmentSize(connected);
    lines_out = SCIMapRemoteSegment(connected, &map, 0, size_out, NULL, 0, &error);
    check("SCIMapRemoteSegment", error);
    lines_bytes = size_out < lines_bytes ? size_out : lines_bytes;
}

/* Are there lines, and is there a word so far behind their beginning? */
static int is_word(unsigned at)
{
    return at % sizeof *lines_in == 0 && at < lines_bytes;
}

/* Waits for a value. Which way is faster depends on the processor: whoever measures tries both. */
static void wait_for(volatile uint32_t *word, uint32_t value)
{
    if (paused) {
        while (*word != value) {
            processor_pause();
        }
    } else {
        while (*word != value) {
        }
    }
}

/* One side's round trips: tells the other, or answers it. */
static void round_trips_at(unsigned count, unsigned at, int first)
{
    volatile uint32_t *to = lines_out + at / sizeof *to, *from = lines_in + at / sizeof *from;
    for (unsigned n = 0; n < count; n++) {
        round_trips++;
        if (first) {
            *to = round_trips;
        }
        wait_for(from, round_trips);
        if (!first) {
            *to = round_trips;
        }
    }
}

/* The median of samples, as `tieline bench` takes it: what interrupts one of them does not count. */
static double ping(unsigned count, unsigned at)
{
    static double times[TRIES_MAX / SAMPLE_TRIPS];
    unsigned samples = count / SAMPLE_TRIPS;
    round_trips_at(count - samples * SAMPLE_TRIPS, at, 1);
    for (unsigned n = 0; n < samples; n++) {
        double start = now_ns();
        round_trips_at(SAMPLE_TRIPS, at, 1);
        times[n] = now_ns() - start;
    }
    return median(times, samples) / SAMPLE_TRIPS / 2;
}

/* One copy of 1 MiB into the second half of the other's segment. */
static void copy_once(const char *how)
{
    sci_error_t error = SCI_ERR_OK;
    if (how[0] == 'c') {
        SCIMemCpy(NULL, block, remote_map, BLOCK_BYTES, BLOCK_BYTES, 0, &error);
        check("SCIMemCpy", error);
    } else if (how[0] == 'd') {
        SCIStartDmaTransfer(queue, local, remote, BLOCK_BYTES, BLOCK_BYTES, BLOCK_BYTES, NULL, NULL, 0, &error);
        check("SCIStartDmaTransfer", error);
        SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, 0, &error);
        check("SCIWaitForDMAQueue", error);
    } else if (how[0] == 'l') {
        memcpy((char *)(uintptr_t)out + BLOCK_BYTES, (char *)(uintptr_t)in + BLOCK_BYTES, BLOCK_BYTES);
    } else {
        memcpy((char *)(uintptr_t)out + BLOCK_BYTES, block, BLOCK_BYTES);
    }
}

static double fastest_copy(const char *how, unsigned count)
{
    double best = 1e18;
    for (unsigned n = 0; n < count; n++) {
        double start = now_ns();
        copy_once(how);
        double took = now_ns() - start;
        best = took < best ? took : best;
    }
    return best;
}

static double calls(unsigned count)
{
    size_t sum = 0;
    double start = now_ns();
    for (unsigned n = 0; n < count; n++) {
        sum += SCIGetLocalSegmentSize(local);
    }
    double took = (now_ns() - start) / count;
    if (sum != (size_t)count * SEGMENT_BYTES) {
        fail("SCIGetLocalSegmentSize", SCI_ERR_SYSTEM);
    }
    return took;
}

static void connect_and_map(unsigned node, unsigned id)
{
    sci_error_t error;
    sci_map_t map;
    sci_remote_segment_t segment = connect_to(node, id);
    volatile uint32_t *words = SCIMapRemoteSegment(segment, &map, 0, 4096, NULL, 0, &error);
    check("SCIMapRemoteSegment", error);
    (void)words[1];
    SCIUnmapSegment(map, 0, &error);
    check("SCIUnmapSegment", error);
    SCIDisconnectSegment(segment, 0, &error);
    check("SCIDisconnectSegment", error);
}

static void cycle(void)
{
    sci_error_t error;
    sci_local_segment_t segment = create(id_base + 2, 4096);
    connect_and_map(own_node, id_base + 2);
    SCIRemoveSegment(segment, 0, &error);
    check("SCIRemoveSegment", error);
}

static double median_of(void (*once)(void), unsigned count)
{
    static double times[TRIES_MAX];
    for (unsigned n = 0; n < count; n++) {
        double start = now_ns();
        once();
        times[n] = now_ns() - start;
    }
    return median(times, count);
}

/* 64 bytes that are there when this returns, also at a peer on another host. */
static void store_and_flush(void)
{
    static unsigned char bytes[64];
    bytes[0]++;
    memcpy((char *)(uintptr_t)out + BLOCK_BYTES, bytes, sizeof bytes);
    SCIFlush(NULL, 0);
}

static void put_and_flush(void)
{
    sci_error_t error;
    SCIMemCpy(NULL, block, remote_map, BLOCK_BYTES, 64, 0, &error);
    check("SCIMemCpy", error);
    SCIFlush(NULL, 0);
}

static void connect_to_peer(void)
{
    connect_and_map(peer_node, id_base);
}

static void fill(void)
{
    sci_error_t error;
    for (unsigned n = 0; n < FILL_SEGMENTS; n++) {
        create(id_base + 3 + n, 4096);
    }
    for (unsigned n = 0; n < FILL_MAPS; n++) {
        sci_map_t map;
        SCIMapRemoteSegment(remote, &map, n % BLOCK_BYTES, 64, NULL, 0, &error);
        check("SCIMapRemoteSegment", error);
    }
    for (unsigned n = 0; n < FILL_QUEUES; n++) {
        sci_dma_queue_t more;
        SCICreateDMAQueue(sd, &more, 0, 16, 0, &error);
        check("SCICreateDMAQueue", error);
    }
}

static double obey(const char *what, unsigned count, unsigned at)
{
    if (strcmp(what, "lines") == 0) {
        share_lines(count, at);
        return 0;
    }
    if (strcmp(what, "tight") == 0 || strcmp(what, "paused") == 0) {
        paused = what[0] == 'p';
        return 0;
    }
    if (count == 0 || count > TRIES_MAX) {
        fail("number of tries", SCI_ERR_ILLEGAL_PARAMETER);
    }
    if (strcmp(what, "ping") == 0 && is_word(at) && count >= SAMPLE_TRIPS) {
        return ping(count, at);
    }
    if (strcmp(what, "echo") == 0 && is_word(at)) {
        round_trips_at(count, at, 0);
        return 0;
    }
    if (strcmp(what, "copy") == 0 || strcmp(what, "plain") == 0 || strcmp(what, "dma") == 0 ||
        strcmp(what, "local") == 0) {
        return fastest_copy(what, count);
    }
    if (strcmp(what, "store") == 0) {
        return median_of(store_and_flush, count);
    }
    if (strcmp(what, "put") == 0) {
        return median_of(put_and_flush, count);
    }
    if (strcmp(what, "call") == 0) {
        return calls(count);
    }
    if (strcmp(what, "connect") == 0) {
        return median_of(connect_to_peer, count);
    }
    if (strcmp(what, "cycle") == 0) {
        return median_of(cycle, count);
    }
    if (strcmp(what, "fill") == 0) {
        fill();
        return 0;
    }
    fail(what, SCI_ERR_ILLEGAL_PARAMETER);
    return 0;
}

int main(int argc, char **argv)
{
    char line[64], what[16];
    if (argc != 4) {
        fputs("usage: measure PEER CPU ID (with TIELINE_NODE set), commands on standard input\n", stderr);
        return 2;
    }
    peer_node = (unsigned)atoi(argv[1]);
    id_base = (unsigned)atoi(argv[3]);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(argv[2]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        fputs("error cannot run on that processor\n", stdout);
        return 4;
    }
    set_up();
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned count = 1, at = 0;
        if (sscanf(line, "%15s %u %u", what, &count, &at) < 1) {
            fail("command", SCI_ERR_ILLEGAL_PARAMETER);
        }
        printf("%.3f\n", obey(what, count, at));
        fflush(stdout);
    }
    SCITerminate();
    return 0;
}
