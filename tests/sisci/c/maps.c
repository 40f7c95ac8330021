/* One program, connected to its own node: maps at any byte, as many as one likes, and what lies outside. */
#include "check.h"

#define ID 7
#define SIZE 300000
#define MANY 2000

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    sci_local_segment_t local = make_available(sd, ID, SIZE);
    sci_remote_segment_t remote = connect_to(sd, my_node(), ID), again;
    sci_map_t map, whole, other;
    volatile unsigned char *bytes, *part;
    unsigned char *mine;
    static const size_t offsets[] = {0, 1, 101377, SIZE - 1};
    static sci_map_t maps[MANY];
    size_t i, page = (size_t)sysconf(_SC_PAGESIZE), pages = (SIZE + page - 1) / page * page;

    CHECK(SCIGetRemoteSegmentSize(remote) >= SIZE);
    OK(bytes = SCIMapRemoteSegment(remote, &whole, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(mine = SCIMapLocalSegment(local, &map, 0, SIZE, NULL, NO_FLAGS, &e));
    CHECK(SCIGetMapPointer(whole) == bytes && SCIGetMapPointer(map) == mine);
    CHECK(SCIGetMapPhysAddr(whole) != 0);
    CHECK(mine[0] == 0 && mine[SIZE - 1] == 0);
    /* The same variable again and again, as programs do that never unmap. */
    for (i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        OK(part = SCIMapRemoteSegment(remote, &other, offsets[i], 1, NULL, SCI_FLAG_BROADCAST, &e));
        CHECK(part == bytes + offsets[i]);
        *part = (unsigned char)(i + 1);
        CHECK(mine[offsets[i]] == i + 1);
        OK(part = SCIMapLocalSegment(local, &other, offsets[i], SIZE - offsets[i], NULL, NO_FLAGS, &e));
        CHECK(part == mine + offsets[i]);
    }
    for (i = 0; i < MANY; i++) OK(SCIMapRemoteSegment(remote, &maps[i], i * 101 + 1, 97, NULL, NO_FLAGS, &e));
    for (i = 0; i < MANY; i++) OK(SCIUnmapSegment(maps[i], NO_FLAGS, &e));
    for (i = 0; i < MANY; i++) FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIUnmapSegment(maps[i], NO_FLAGS, &e));

    part = bytes;
    /* Pages are mapped whole: a program may ask for more than the segment was made for, up to the end of the last. */
    OK(part = SCIMapRemoteSegment(remote, &other, 1, pages - 1, NULL, NO_FLAGS, &e));
    part[pages - 2] = 77;
    OK(part = SCIMapLocalSegment(local, &other, 0, pages, NULL, NO_FLAGS, &e));
    CHECK(part[pages - 1] == 77);
    part = bytes;
    FAILS(SCI_ERR_OUT_OF_RANGE, part = SCIMapRemoteSegment(remote, &other, 1, pages, NULL, NO_FLAGS, &e));
    CHECK(part == NULL);
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMapRemoteSegment(remote, &other, (size_t)-1, 2, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMapLocalSegment(local, &other, 0, pages + 1, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_OUT_OF_RANGE, SCIMapLocalSegment(local, &other, pages, 1, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMapLocalSegment(local, NULL, 0, 1, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIMapRemoteSegment(remote, NULL, 0, 1, NULL, NO_FLAGS, &e));

    FAILS(SCI_ERR_BUSY, SCIDisconnectSegment(remote, NO_FLAGS, &e));
    /* A second connection of the same program has maps of its own. */
    again = connect_to(sd, SCI_LOCAL_HOST, ID);
    CHECK(SCIGetRemoteSegmentNodeId(again) == my_node() && SCIGetRemoteSegmentId(again) == ID);
    OK(SCIDisconnectSegment(again, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIRemoveSegment(local, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
