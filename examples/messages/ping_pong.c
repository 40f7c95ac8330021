/* Half a round trip of a message between two programs.
 *
 *   ping_pong NODE PORT PEER_NODE PEER_PORT first|second [LENGTH [ROUNDS]]
 *
 * Start both, one as `first`; the order does not matter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tieline_mq.h>

#define TAG 1

static void must(int code) {
    if (code != TIELINE_MQ_OK) {
        fprintf(stderr, "ping_pong: %s\n", tieline_mq_error());
        exit(1);
    }
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "usage: ping_pong NODE PORT PEER_NODE PEER_PORT first|second [LENGTH [ROUNDS]]\n");
        return 2;
    }
    tieline_mq_options options = TIELINE_MQ_OPTIONS_INIT;
    options.node = (uint32_t)atoi(argv[1]);
    options.port = (uint32_t)atoi(argv[2]);
    int is_first = strcmp(argv[5], "first") == 0;
    size_t length = argc > 6 ? (size_t)atoll(argv[6]) : 8;
    int rounds = argc > 7 ? atoi(argv[7]) : 100000;
    char *bytes = calloc(length + 1, 1);
    if (bytes == NULL) {
        return 1;
    }

    tieline_mq *queue;
    uint32_t peer;
    must(tieline_mq_open(&options, &queue));
    must(tieline_mq_peer(queue, (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), 10000, &peer));
    double start = now_ns();
    for (int round = 0; round < rounds; round++) {
        if (is_first) {
            must(tieline_mq_send(queue, peer, TAG, bytes, length));
        }
        must(tieline_mq_recv(queue, peer, TAG, 0, bytes, length, -1, NULL));
        if (!is_first) {
            must(tieline_mq_send(queue, peer, TAG, bytes, length));
        }
    }
    if (is_first) {
        printf("%zu bytes: half a round trip takes %.0f ns\n", length, (now_ns() - start) / rounds / 2);
    }
    must(tieline_mq_close(queue, 10000));
    free(bytes);
    return 0;
}
