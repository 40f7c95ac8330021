/*
 * A node of a group that does what it is told on standard input, and answers each line with one line.
 *
 * join GROUP SIZE      make this node's copy available, map it             -> joined
 * leave                give it up                                          -> left
 * connect GROUP        connect as a writer, map                            -> connected SIZE
 * lget/lset/lwait ...  load, store, wait in the own copy (u32 by index)    -> value, ok, ok
 * rget/rset/radd ...   load, store, atomic add through the group's map     -> value, ok, value before
 * fill INDEX COUNT V   a plain loop of stores        rcopy, rset8          -> ok
 * barrier, sequence    SCIStoreBarrier; SCICheckSequence                   -> ok, status
 */
#include <sisci_api.h>
#include <sisci_error.h>
#include <sisci_types.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <fcntl.h>

static sci_desc_t sd;
static sci_local_segment_t copy;
static sci_map_t copy_map;
static volatile uint32_t *own;
static sci_remote_segment_t group;
static sci_map_t group_map;
static sci_sequence_t sequence;
static volatile uint32_t *all;
static size_t group_size;

static void check(sci_error_t error, const char *what)
{
    if (error != SCI_ERR_OK) {
        fprintf(stderr, "%s: %s\n", what, SCIGetErrorString(error));
        exit(1);
    }
}

static void join(unsigned int id, size_t size)
{
    sci_error_t error;
    SCICreateSegment(sd, &copy, id, size, NULL, NULL, SCI_FLAG_BROADCAST, &error);
    check(error, "create");
    SCIPrepareSegment(copy, 0, SCI_FLAG_BROADCAST, &error);
    check(error, "prepare");
    own = SCIMapLocalSegment(copy, &copy_map, 0, size, NULL, 0, &error);
    check(error, "map local");
    SCISetSegmentAvailable(copy, 0, 0, &error);
    check(error, "available");
    printf("joined\n");
}

static void leave(void)
{
    sci_error_t error;
    SCIUnmapSegment(copy_map, 0, &error);
    check(error, "unmap");
    /* Also while writers are connected to the group, this program among them. */
    SCIRemoveSegment(copy, 0, &error);
    check(error, "remove");
    printf("left\n");
}

static void try_connect(unsigned int id)
{
    sci_error_t error;
    SCIConnectSegment(sd, &group, DIS_BROADCAST_NODEID_GROUP_ALL, id, 0, NULL, NULL, 1000,
                      SCI_FLAG_BROADCAST, &error);
    if (error == SCI_ERR_OK) {
        SCIDisconnectSegment(group, 0, &error);
        check(error, "disconnect");
        printf("there\n");
    } else {
        printf(error == SCI_ERR_NO_SUCH_SEGMENT ? "missing\n" : "%s\n", SCIGetErrorString(error));
    }
}

static void connect_to(unsigned int id)
{
    sci_error_t error;
    do {
        SCIConnectSegment(sd, &group, DIS_BROADCAST_NODEID_GROUP_ALL, id, 0, NULL, NULL, SCI_INFINITE_TIMEOUT,
                          SCI_FLAG_BROADCAST, &error);
    } while (error == SCI_ERR_NO_SUCH_SEGMENT);
    check(error, "connect");
    group_size = SCIGetRemoteSegmentSize(group);
    all = SCIMapRemoteSegment(group, &group_map, 0, group_size, NULL, 0, &error);
    check(error, "map remote");
    SCICreateMapSequence(group_map, &sequence, 0, &error);
    check(error, "sequence");
    while (SCIStartSequence(sequence, 0, &error) != SCI_SEQ_OK)
        check(error, "start sequence");
    printf("connected %zu\n", group_size);
}

static void disconnect(void)
{
    sci_error_t error;
    SCIRemoveSequence(sequence, 0, &error);
    check(error, "remove sequence");
    SCIUnmapSegment(group_map, 0, &error);
    check(error, "unmap");
    SCIDisconnectSegment(group, 0, &error);
    check(error, "disconnect");
    printf("disconnected\n");
}

/* Data first, then the flag, and again and again. */
static void flags(uint32_t rounds, uint32_t words)
{
    for (uint32_t round = 1; round <= rounds; round++) {
        for (uint32_t word = 1; word <= words; word++)
            all[word] = round;
        all[0] = round;
    }
    printf("ok\n");
}

/* Data is at least as new as the flag that was seen before. */
static void watch(uint32_t rounds, uint32_t words)
{
    uint32_t seen, wrong = 0;
    do {
        seen = __atomic_load_n(&own[0], __ATOMIC_ACQUIRE);
        for (uint32_t word = 1; word <= words; word++)
            wrong += own[word] < seen;
    } while (seen != rounds);
    printf("wrong %u\n", wrong);
}

/* The ways to write many bytes: each leaves VALUE in COUNT words from INDEX on. */
static void write_block(const char *way, uint32_t index, uint32_t count, uint32_t value)
{
    sci_error_t error = SCI_ERR_OK;
    size_t size = count * sizeof(uint32_t), offset = index * sizeof(uint32_t);
    uint32_t *block = malloc(size);
    for (uint32_t word = 0; word < count; word++)
        block[word] = value;
    if (!strcmp(way, "memcpy")) {
        memcpy((void *)(all + index), block, size);
    } else if (!strcmp(way, "memset")) {
        memset((void *)(all + index), (int)(value & 0xff), size);
    } else if (!strcmp(way, "loop")) {
        for (uint32_t word = 0; word < count; word++)
            all[index + word] = block[word];
    } else if (!strcmp(way, "SCIMemCpy")) {
        SCIMemCpy(sequence, block, group_map, offset, size, SCI_FLAG_ERROR_CHECK, &error);
    } else if (!strcmp(way, "SCIMemWrite")) {
        SCIMemWrite(block, all + index, size, 0, &error);
    } else if (!strcmp(way, "SCITransferBlock")) {
        sci_local_segment_t from;
        sci_map_t from_map;
        SCICreateSegment(sd, &from, 0, size, NULL, NULL, SCI_FLAG_PRIVATE, &error);
        check(error, "create source");
        memcpy(SCIMapLocalSegment(from, &from_map, 0, size, NULL, 0, &error), block, size);
        SCITransferBlock(from_map, 0, group_map, (unsigned int)offset, (unsigned int)size, 0, &error);
    } else {
        sci_dma_queue_t queue;
        SCICreateDMAQueue(sd, &queue, 0, 1, 0, &error);
        check(error, "DMA queue");
        SCIStartDmaTransferMem(queue, block, group, size, offset, NULL, NULL, 0, &error);
        check(error, "DMA");
        SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, 0, &error);
        check(error, "DMA wait");
        SCIRemoveDMAQueue(queue, 0, &error);
    }
    check(error, way);
    free(block);
    printf("ok\n");
}

/* What the kernel is asked to write there is refused, while there are several members. */
static void read_into(void)
{
    int file = open("/dev/zero", O_RDONLY);
    ssize_t got = read(file, (void *)all, 16);
    printf("%s\n", got >= 0 ? "read" : errno == EFAULT ? "EFAULT" : "other");
    close(file);
}

int main(void)
{
    char line[200], way[40];
    unsigned int a, b, c;
    sci_error_t error;
    setvbuf(stdout, NULL, _IOLBF, 0);
    SCIInitialize(0, &error);
    check(error, "initialise");
    SCIOpen(&sd, 0, &error);
    check(error, "open");
    printf("ready\n");
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "join %u %u", &a, &b) == 2)
            join(a, b);
        else if (!strncmp(line, "leave", 5))
            leave();
        else if (sscanf(line, "try %u", &a) == 1)
            try_connect(a);
        else if (sscanf(line, "connect %u", &a) == 1)
            connect_to(a);
        else if (!strncmp(line, "disconnect", 10))
            disconnect();
        else if (sscanf(line, "lget %u", &a) == 1)
            printf("%u\n", own[a]);
        else if (sscanf(line, "lset %u %u", &a, &b) == 2)
            own[a] = b, printf("ok\n");
        else if (sscanf(line, "lcount %u %u %u", &a, &b, &c) == 3) {
            unsigned int same = 0;
            for (unsigned int word = 0; word < b; word++)
                same += own[a + word] == c;
            printf("%u\n", same);
        } else if (sscanf(line, "rget %u", &a) == 1)
            printf("%u\n", all[a]);
        else if (sscanf(line, "rset %u %u", &a, &b) == 2)
            all[a] = b, printf("ok\n");
        else if (sscanf(line, "radd %u %u", &a, &b) == 2)
            printf("%u\n", __atomic_fetch_add(&all[a], b, __ATOMIC_SEQ_CST));
        else if (sscanf(line, "rmany %u %u %u", &a, &b, &c) == 3) {
            for (unsigned int round = 1; round <= c; round++)
                all[a] = b + round;
            printf("ok\n");
        } else if (sscanf(line, "flags %u %u", &a, &b) == 2)
            flags(a, b);
        else if (sscanf(line, "watch %u %u", &a, &b) == 2)
            watch(a, b);
        else if (sscanf(line, "write %39s %u %u %u", way, &a, &b, &c) == 4)
            write_block(way, a, b, c);
        else if (!strncmp(line, "barrier", 7))
            SCIStoreBarrier(sequence, 0), printf("ok\n");
        else if (!strncmp(line, "sequence", 8))
            printf("%u\n", (unsigned int)SCICheckSequence(sequence, 0, &error));
        else if (!strncmp(line, "kernel", 6))
            read_into();
        else
            printf("what?\n");
    }
    SCITerminate();
    return 0;
}
