/* Maps at a given address, and maps that cannot be written. The first argument says which. */
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

enum { ID = 7, PAGES = 4 };

static size_t page;

/* A range of addresses where nothing is mapped. */
static char *free_range(size_t size) {
    char *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    CHECK(munmap(at, size) == 0);
    return at;
}

static void fixed(sci_desc_t sd) {
    sci_local_segment_t local = create_segment(sd, ID, PAGES * page);
    open_segment(local);
    sci_remote_segment_t remote = connect_segment(sd, own_node(), ID);
    sci_map_t plain, map, refused;
    volatile char *memory = SCIMapLocalSegment(local, &plain, 0, PAGES * page, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);

    char *wanted = free_range(2 * page);
    volatile char *at = SCIMapLocalSegment(local, &map, page, 2 * page, wanted, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(at == wanted && SCIGetMapPointer(map) == wanted);
    at[3] = 11;
    CHECK(memory[page + 3] == 11);

    /* What is mapped already is not replaced, and stays as it is. */
    SCIMapLocalSegment(local, &refused, 0, page, wanted + page, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_ADDRESS, "something is mapped there");
    SCIMapRemoteSegment(remote, &refused, 0, page, wanted, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT(SCI_ERR_ILLEGAL_ADDRESS);
    CHECK(at[3] == 11);
    SCIMapLocalSegment(local, &refused, 0, page, wanted + 8, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_ADDRESS, "whole pages");
    SCIMapLocalSegment(local, &refused, 0, page, NULL, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT(SCI_ERR_ILLEGAL_ADDRESS);
    char *other = free_range(page);
    SCIMapLocalSegment(local, &refused, 100, page, other, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT(SCI_ERR_OFFSET_ALIGNMENT);
    SCIMapLocalSegment(local, &refused, page, PAGES * page, other, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT(SCI_ERR_OUT_OF_RANGE);

    /* A mapped segment is not removed; an unmapped address can be mapped again, here by the remote segment. */
    SCIRemoveSegment(local, NO_FLAGS, &error);
    EXPECT(SCI_ERR_BUSY);
    SCIUnmapSegment(map, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    at = SCIMapRemoteSegment(remote, &map, page, 2 * page, wanted, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(at == wanted && at[3] == 11);
    at[4] = 12;
    CHECK(memory[page + 4] == 12);

    /* Copies know it as any other map. */
    char block[3] = {1, 2, 3};
    SCIMemCpy(NULL, block, map, 10, sizeof block, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(at[12] == 3 && memory[page + 12] == 3);
    SCIUnmapSegment(map, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(mmap(wanted, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == wanted);
}

/* Loads and copies out of a map that cannot be written; then a store, which ends the program. */
static void read_only(sci_desc_t sd, int is_remote) {
    sci_local_segment_t local = create_segment(sd, ID, PAGES * page);
    open_segment(local);
    sci_remote_segment_t remote = connect_segment(sd, own_node(), ID);
    sci_map_t plain, map;
    volatile char *memory = SCIMapLocalSegment(local, &plain, 0, PAGES * page, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    volatile char *at = is_remote
        ? SCIMapRemoteSegment(remote, &map, 100, page, NULL, SCI_FLAG_READONLY_MAP, &error)
        : SCIMapLocalSegment(local, &map, 100, page, NULL, SCI_FLAG_READONLY_MAP, &error);
    EXPECT(SCI_ERR_OK);
    memory[105] = 42;
    CHECK(at[5] == 42);
    char block[2] = {0, 0};
    SCIMemCpy(NULL, block, map, 5, sizeof block, SCI_FLAG_BLOCK_READ, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(block[0] == 42);
    SCIMemCpy(NULL, block, map, 6, sizeof block, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ACCESS, "SCI_FLAG_READONLY_MAP");
    SCITransferBlock(plain, 0, map, 0, 1, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ACCESS);
    SCITransferBlock(map, 5, plain, 0, 1, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(memory[0] == 42);
    say("storing");
    at[5] = 1;
    say("stored");
}

/* Serves a segment until the test says so. */
static void serve(sci_desc_t sd) {
    sci_local_segment_t local = create_segment(sd, ID, PAGES * page);
    open_segment(local);
    sci_map_t map;
    volatile char *memory = SCIMapLocalSegment(local, &map, 0, PAGES * page, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    memory[page] = 77;
    say("serving");
    await("end");
}

/* Looks through two maps of their own whenever the test says so. */
static void look(sci_desc_t sd) {
    sci_remote_segment_t remote = connect_segment(sd, 8, ID);
    sci_map_t map, reader;
    char *wanted = free_range(page);
    volatile char *at = SCIMapRemoteSegment(remote, &map, page, page, wanted, SCI_FLAG_FIXED_MAP_ADDR, &error);
    EXPECT(SCI_ERR_OK);
    volatile char *from = SCIMapRemoteSegment(remote, &reader, page, page, NULL, SCI_FLAG_READONLY_MAP, &error);
    EXPECT(SCI_ERR_OK);
    say("mapped");
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "end\n") != 0) {
        printf("%d %d\n", at[0], from[0]);
        fflush(stdout);
        if (strcmp(line, "store\n") == 0)
            at[0] = 99;
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    page = (size_t)sysconf(_SC_PAGESIZE);
    sci_desc_t sd = open_device();
    if (strcmp(argv[1], "fixed") == 0)
        fixed(sd);
    else if (strcmp(argv[1], "read-only-local") == 0)
        read_only(sd, 0);
    else if (strcmp(argv[1], "read-only-remote") == 0)
        read_only(sd, 1);
    else if (strcmp(argv[1], "serve") == 0)
        serve(sd);
    else if (strcmp(argv[1], "look") == 0)
        look(sd);
    else
        CHECK(!"an argument that is known");
    SCITerminate();
    say("done");
    return 0;
}
