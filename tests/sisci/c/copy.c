/* One program, connected to its own node: every copy, both ways, and what lies outside. */
#include "check.h"

#define ID 8
#define SIZE 70000
#define ODD 101

static unsigned char from[SIZE], to[SIZE];
static sci_map_t map, other_map, local_map;
static unsigned char *mine;

static void fill(unsigned char seed)
{
    size_t i;
    for (i = 0; i < SIZE; i++) from[i] = (unsigned char)(i * 7 + seed);
    memset(to, 0, SIZE);
    memset(mine, 0, SIZE);
}

static void mem_cpy(sci_sequence_t sequence)
{
    sci_error_t e;
    fill(1);
    OK(SCIMemCpy(sequence, from, map, 0, SIZE, NO_FLAGS, &e));
    CHECK(memcmp(mine, from, SIZE) == 0);
    OK(SCIMemCpy(NULL, to, map, 0, SIZE, SCI_FLAG_BLOCK_READ, &e));
    CHECK(memcmp(to, from, SIZE) == 0);
    fill(2);
    OK(SCIMemCpy(sequence, from + 3, map, ODD, 5000, SCI_FLAG_ERROR_CHECK, &e));
    CHECK(memcmp(mine + ODD, from + 3, 5000) == 0 && mine[ODD - 1] == 0 && mine[ODD + 5000] == 0);
    OK(SCIMemCpy(sequence, to, map, ODD, 5000, SCI_FLAG_BLOCK_READ | SCI_FLAG_ERROR_CHECK, &e));
    CHECK(memcmp(to, from + 3, 5000) == 0 && to[5000] == 0);
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMemCpy(NULL, from, map, 1, SIZE, NO_FLAGS, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMemCpy(NULL, to, map, (size_t)-1, 2, SCI_FLAG_BLOCK_READ, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMemCpy(NULL, NULL, map, 0, 1, NO_FLAGS, &e));
    OK(SCIMemCpy(NULL, from, map, 0, 0, NO_FLAGS, &e));
}

static void older_copies(void)
{
    sci_error_t e;
    fill(3);
    OK(SCIMemCopy(from, map, ODD, 999, NO_FLAGS, &e));
    CHECK(memcmp(mine + ODD, from, 999) == 0 && mine[ODD + 999] == 0);
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMemCopy(from, map, 1, SIZE, NO_FLAGS, &e));
    fill(4);
    OK(SCIMemWrite(from, (volatile unsigned char *)SCIGetMapPointer(map) + 1, 333, NO_FLAGS, &e));
    CHECK(memcmp(mine + 1, from, 333) == 0 && mine[0] == 0 && mine[334] == 0);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMemWrite(NULL, SCIGetMapPointer(map), 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMemWrite(from, NULL, 1, NO_FLAGS, &e));
    CHECK(SetSciMemCopyFunction(3) == 0 && GetSciMemCopyFunction() == 3);
}

static void between_maps(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t second = make_available(sd, ID + 1, SIZE);
    sci_remote_segment_t remote = connect_to(sd, my_node(), ID + 1);
    sci_map_t second_map;
    unsigned char *bytes;
    OK(bytes = SCIMapLocalSegment(second, &second_map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCIMapRemoteSegment(remote, &other_map, 0, SIZE, NULL, NO_FLAGS, &e));
    fill(5);
    memcpy(mine, from, SIZE);
    OK(SCITransferBlock(local_map, 5, other_map, 6, 2000, NO_FLAGS, &e));
    CHECK(memcmp(bytes + 6, from + 5, 2000) == 0 && bytes[5] == 0 && bytes[2006] == 0);
    OK(SCITransferBlock(map, 0, second_map, 0, SIZE, NO_FLAGS, &e));
    CHECK(memcmp(bytes, from, SIZE) == 0);
    FAILS(SCI_ERR_OUT_OF_RANGE, SCITransferBlock(map, 1, second_map, 0, SIZE, NO_FLAGS, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE, SCITransferBlock(map, 0, second_map, 1, SIZE, NO_FLAGS, &e));
    fill(6);
    OK(SCIMemCpy_dual(NULL, map, NULL, other_map, from, ODD, 777, NO_FLAGS, &e));
    CHECK(memcmp(mine + ODD, from, 777) == 0 && memcmp(bytes + ODD, from, 777) == 0);
}

/* Programs order their stores with or without a sequence, or a map. */
static void order(sci_sequence_t sequence)
{
    sci_error_t e;
    SCIFlush(NULL, SCI_FLAG_FLUSH_CPU_BUFFERS_ONLY);
    SCIFlush(sequence, NO_FLAGS);
    SCIStoreBarrier(NULL, NO_FLAGS);
    SCIStoreBarrier(sequence, NO_FLAGS);
    SCIFlushReadBuffers(NULL);
    OK(SCICacheSync(NULL, from, SIZE, SCI_FLAG_CACHE_FLUSH, &e));
    OK(SCICacheSync(map, from, SIZE, SCI_FLAG_CACHE_FLUSH | SCI_FLAG_CACHE_INVALIDATE, &e));
}

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    sci_local_segment_t local = make_available(sd, ID, SIZE);
    sci_remote_segment_t remote = connect_to(sd, my_node(), ID);
    sci_sequence_t sequence, local_sequence;
    sci_sequence_status_t status;
    OK(mine = SCIMapLocalSegment(local, &local_map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCIMapRemoteSegment(remote, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, SCI_FLAG_FAST_BARRIER, &e));
    mem_cpy(sequence);
    /* Memory of one's own is copied and watched in the same way. */
    OK(SCICreateMapSequence(local_map, &local_sequence, NO_FLAGS, &e));
    OK(status = SCIStartSequence(local_sequence, NO_FLAGS, &e));
    CHECK(status == SCI_SEQ_OK);
    OK(SCIMemCpy(local_sequence, from, local_map, 1, 50, SCI_FLAG_ERROR_CHECK, &e));
    OK(SCIMemCpy(NULL, to, local_map, 1, 50, SCI_FLAG_BLOCK_READ, &e));
    CHECK(memcmp(to, from, 50) == 0);
    older_copies();
    between_maps(sd);
    order(sequence);
    SCITerminate();
    return 0;
}
