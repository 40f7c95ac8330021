/*
 * Ping-pong: each side stores a number into the other's memory and waits until the answer stands in its own.
 *
 *   ping_pong PEER ROUNDS     on both nodes, at the same time; the lower node id begins
 */
#include "common.h"

#define BALL 1

int main(int argc, char **argv)
{
    sci_desc_t sd = begin();
    sci_error_t error;
    sci_local_segment_t local;
    sci_remote_segment_t remote;
    sci_map_t map;
    volatile unsigned int *mine, *theirs;
    unsigned int peer, rounds, round, leads;
    if (argc != 3) wrong_usage("ping_pong PEER ROUNDS");
    peer = (unsigned int)atoi(argv[1]);
    rounds = (unsigned int)atoi(argv[2]);
    leads = own_node() < peer;
    mine = offer(sd, BALL, sizeof *mine, &local);
    remote = find(sd, peer, BALL);
    theirs = SCIMapRemoteSegment(remote, &map, 0, sizeof *theirs, NULL, NO_FLAGS, &error);
    must("SCIMapRemoteSegment", error);
    for (round = 1; round <= rounds; round++) {
        if (leads) *theirs = round;
        while (*mine < round) {
        }
        if (!leads) *theirs = round;
    }
    printf("%u round trips with node %u\n", rounds, peer);
    SCIUnmapSegment(map, NO_FLAGS, &error);
    must("SCIUnmapSegment", error);
    SCIDisconnectSegment(remote, NO_FLAGS, &error);
    must("SCIDisconnectSegment", error);
    SCITerminate();
    return 0;
}
