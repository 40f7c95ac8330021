/* Any number of nodes: each writes its own place in everybody's segment, and waits until all others have written its own. */
#include "check.h"

#define ID 90
#define ROUNDS 50
#define PLACE 64

int main(int argc, char **argv)
{
    sci_error_t e;
    sci_desc_t sd = start();
    unsigned int nodes = (unsigned int)argc - 1, me = nodes, i, round;
    size_t size = nodes * PLACE;
    sci_local_segment_t local;
    sci_map_t map;
    volatile unsigned char *mine;
    volatile unsigned char *theirs[64];
    OK(SCICreateSegment(sd, &local, ID, size, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIPrepareSegment(local, ADAPTER, NO_FLAGS, &e));
    OK(mine = SCIMapLocalSegment(local, &map, 0, size, NULL, NO_FLAGS, &e));
    OK(SCISetSegmentAvailable(local, ADAPTER, NO_FLAGS, &e));
    for (i = 0; i < nodes; i++) {
        unsigned int node = number(argv[i + 1]);
        if (node == my_node()) me = i;
        OK(theirs[i] = SCIMapRemoteSegment(connect_to(sd, node, ID), &map, 0, size, NULL, NO_FLAGS, &e));
    }
    CHECK(me < nodes);
    for (round = 1; round <= ROUNDS; round++) {
        for (i = 0; i < nodes; i++) theirs[i][me * PLACE] = (unsigned char)round;
        SCIFlush(NULL, NO_FLAGS);
        for (i = 0; i < nodes; i++) {
            /* Somebody may be one round ahead, no more: it waits for this one's place. */
            while (mine[i * PLACE] != round && mine[i * PLACE] != round + 1) usleep(10);
        }
    }
    SCITerminate();
    return 0;
}
