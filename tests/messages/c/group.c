/* One member of a group: group NODE[,NODE…] RANK MEMBERS [FAILS]. Members are on the nodes in turn; ports are ranks
 * + 1. With FAILS, the last member ends in the middle, and the others expect that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tieline_mq.h>

#define LIMIT 30000
#define MOST 16
#define BLOCK 5000
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("rank %zu: %s:%d: not so: %s (%s)\n", rank, __FILE__, __LINE__, #condition, tieline_mq_error()); \
            exit(1); \
        } \
    } while (0)
#define OK(call) CHECK((call) == TIELINE_MQ_OK)

static unsigned char mine[MOST * BLOCK], all[MOST * BLOCK];

int main(int argc, char **argv) {
    size_t rank = argc > 2 ? (size_t)atoi(argv[2]) : 0, members = argc > 3 ? (size_t)atoi(argv[3]) : 0;
    CHECK(argc >= 4 && members <= MOST);
    tieline_mq_options options = TIELINE_MQ_OPTIONS_INIT;
    tieline_mq *queue, *shared;
    tieline_mq_group group;
    uint32_t nodes[MOST], peers[MOST];
    size_t count = 0;
    for (char *at = argv[1]; *at != '\0' && count < MOST; at += *at == ',') nodes[count++] = (uint32_t)strtoul(at, &at, 10);
    CHECK(count > 0);
    options.node = nodes[rank % count];
    options.port = (uint32_t)rank + 1;
    OK(tieline_mq_open(&options, &queue));
    for (size_t other = 0; other < members; other++) {
        OK(tieline_mq_peer(queue, nodes[other % count], (uint32_t)other + 1, LIMIT, &peers[other]));
    }
    CHECK(tieline_mq_group_create(queue, peers, 0, 1, &group) == TIELINE_MQ_INVALID);
    OK(tieline_mq_group_create(queue, peers, members, 1, &group));
    /* It takes any message of the program, and none of the group. */
    tieline_mq_request any;
    OK(tieline_mq_irecv(queue, TIELINE_MQ_ANY_SOURCE, 0, TIELINE_MQ_ANY_TAG, all, sizeof all, &any));
    OK(tieline_mq_barrier(queue, group, LIMIT));
    OK(tieline_mq_cancel(queue, any));
    CHECK(tieline_mq_wait(queue, any, LIMIT, NULL) == TIELINE_MQ_CANCELLED);
    if (argc > 4) {
        if (rank == members - 1) {
            return 0;
        }
        int code = tieline_mq_barrier(queue, group, LIMIT);
        CHECK(code == TIELINE_MQ_PEER_GONE || code == TIELINE_MQ_GROUP_BROKEN);
        CHECK(tieline_mq_barrier(queue, group, LIMIT) == TIELINE_MQ_GROUP_BROKEN);
        puts("noticed");
        OK(tieline_mq_close(queue, LIMIT));
        return 0;
    }
    for (size_t length = 1; length <= BLOCK; length += BLOCK - 1) {
        for (size_t root = 0; root < members; root++) {
            memset(mine, rank == root ? (int)(root + 1) : 0, length);
            OK(tieline_mq_broadcast(queue, group, root, mine, length, LIMIT));
            CHECK(mine[0] == root + 1 && mine[length - 1] == root + 1);
        }
        memset(mine, (int)rank + 7, length);
        OK(tieline_mq_allgather(queue, group, mine, length, all, LIMIT));
        for (size_t other = 0; other < members; other++) {
            CHECK(all[other * length] == other + 7 && all[(other + 1) * length - 1] == other + 7);
        }
        for (size_t other = 0; other < members; other++) {
            memset(mine + other * length, (int)(10 * rank + other), length);
        }
        OK(tieline_mq_alltoall(queue, group, mine, all, length, LIMIT));
        for (size_t other = 0; other < members; other++) {
            CHECK(all[other * length] == (unsigned char)(10 * other + rank));
        }
    }
    double number = (double)rank + 0.5;
    int64_t bits[2] = {(int64_t)1 << rank, (int64_t)rank};
    OK(tieline_mq_allreduce(queue, group, &number, 1, TIELINE_MQ_DOUBLE, TIELINE_MQ_SUM, LIMIT));
    CHECK(number == (double)(members * (members - 1)) / 2 + 0.5 * (double)members);
    OK(tieline_mq_allreduce(queue, group, bits, 1, TIELINE_MQ_INT64, TIELINE_MQ_OR, LIMIT));
    CHECK(bits[0] == ((int64_t)1 << members) - 1);
    OK(tieline_mq_reduce(queue, group, members - 1, bits + 1, 1, TIELINE_MQ_INT64, TIELINE_MQ_MAX, LIMIT));
    CHECK(rank != members - 1 || bits[1] == (int64_t)members - 1);
    /* What is wrong at once breaks nothing. */
    CHECK(tieline_mq_allreduce(queue, group, &number, 1, TIELINE_MQ_DOUBLE, TIELINE_MQ_XOR, 0) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_allreduce(queue, group, &number, 1, 9, TIELINE_MQ_SUM, 0) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_allreduce(queue, group, (char *)bits + 1, 1, TIELINE_MQ_INT64, 0, 0) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_broadcast(queue, group, 0, NULL, 1, 0) == TIELINE_MQ_INVALID);
    OK(tieline_mq_barrier(queue, group, LIMIT));
    OK(tieline_mq_group_free(queue, group));
    CHECK(tieline_mq_barrier(queue, group, 0) == TIELINE_MQ_NO_SUCH_REQUEST);
    options.port = (uint32_t)rank + 101;
    options.threads = 1;
    OK(tieline_mq_open(&options, &shared));
    CHECK(tieline_mq_group_create(shared, peers, members, 2, &group) == TIELINE_MQ_INVALID);
    OK(tieline_mq_close(shared, LIMIT));
    OK(tieline_mq_close(queue, LIMIT));
    puts("all equal");
    return 0;
}
