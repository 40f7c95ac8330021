/* Each function of tieline_mq.h, with two queues of two nodes in one process: all NODE NODE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tieline_mq.h>

#define LIMIT 20000
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, tieline_mq_error()); \
            exit(1); \
        } \
    } while (0)
#define OK(call) CHECK((call) == TIELINE_MQ_OK)

static char big[2][300000];

static tieline_mq *open_queue(uint32_t node, uint32_t port, uint32_t threads) {
    tieline_mq_options options = TIELINE_MQ_OPTIONS_INIT;
    tieline_mq *queue = NULL;
    options.node = node;
    options.port = port;
    options.threads = threads;
    OK(tieline_mq_open(&options, &queue));
    return queue;
}

/* Waits for a request of one queue while the other goes on. */
static int ends(tieline_mq *queue, tieline_mq *other, tieline_mq_request request, tieline_mq_status *status) {
    int ended = 0, code = TIELINE_MQ_OK;
    while (!ended) {
        OK(tieline_mq_progress(other));
        code = tieline_mq_test(queue, request, &ended, status);
    }
    return code;
}

static void sends_and_receives(tieline_mq *a, tieline_mq *b, uint32_t to_b, uint32_t to_a) {
    tieline_mq_status status, all[2];
    tieline_mq_request send, receives[2];
    char got[64];
    size_t index;
    uint32_t node, port;
    OK(tieline_mq_address(b, &node, &port));
    CHECK(port == 2);
    /* A short one is sent before anybody asks for it. */
    OK(tieline_mq_send(a, to_b, 7, "short", 6));
    OK(tieline_mq_probe(b, TIELINE_MQ_ANY_SOURCE, 0, TIELINE_MQ_ANY_TAG, LIMIT, &status));
    CHECK(status.source == to_a && status.tag == 7 && status.length == 6);
    OK(tieline_mq_recv(b, to_a, 7, 0, got, sizeof got, LIMIT, &status));
    CHECK(!strcmp(got, "short") && status.code == TIELINE_MQ_OK && status.length == 6);
    /* Too long for the receive. */
    OK(tieline_mq_send(a, to_b, 8, "too long", 9));
    CHECK(tieline_mq_recv(b, to_a, 8, 0, got, 3, LIMIT, &status) == TIELINE_MQ_TRUNCATED);
    CHECK(status.code == TIELINE_MQ_TRUNCATED && status.length == 9 && !memcmp(got, "too", 3));
    CHECK(strstr(tieline_mq_error(), "9 bytes") != NULL);
    /* Nothing comes. */
    CHECK(tieline_mq_recv(b, to_a, 8, 0, got, 3, 0, &status) == TIELINE_MQ_TIMED_OUT);
    CHECK(tieline_mq_probe(b, to_a, 8, 0, 1, NULL) == TIELINE_MQ_TIMED_OUT);
    CHECK(strstr(tieline_mq_error(), "no message came") != NULL);
    /* A long one, in pieces at both ends. */
    for (size_t at = 0; at < sizeof big[0]; at++) {
        big[0][at] = (char)(at * 7 + 1);
    }
    struct iovec out[2] = {{big[0], 100000}, {big[0] + 100000, 200000}};
    struct iovec in[3] = {{big[1], 1}, {NULL, 0}, {big[1] + 1, 299999}};
    OK(tieline_mq_irecvv(b, to_a, 9, 0, in, 3, &receives[0]));
    OK(tieline_mq_isendv(a, to_b, 9, out, 2, &send));
    OK(ends(b, a, receives[0], &status));
    CHECK(status.length == sizeof big[0] && !memcmp(big[0], big[1], sizeof big[0]));
    OK(ends(a, b, send, &status));
    /* A synchronous one has not ended before its receive. */
    OK(tieline_mq_issend(a, to_b, 10, "sync", 5, &send));
    CHECK(tieline_mq_wait(a, send, 20, NULL) == TIELINE_MQ_TIMED_OUT);
    OK(tieline_mq_irecv(b, to_a, 10, 0, got, sizeof got, &receives[0]));
    OK(ends(b, a, receives[0], NULL));
    OK(tieline_mq_wait(a, send, LIMIT, &status));
    CHECK(tieline_mq_wait(a, send, 0, NULL) == TIELINE_MQ_NO_SUCH_REQUEST);
    /* One of two, then both; and one that is given up. */
    OK(tieline_mq_irecv(b, to_a, 11, 0, got, 8, &receives[0]));
    OK(tieline_mq_irecv(b, to_a, 12, 0, got + 8, 8, &receives[1]));
    OK(tieline_mq_send(a, to_b, 12, "second", 7));
    OK(tieline_mq_wait_any(b, receives, 2, LIMIT, &index, &status));
    CHECK(index == 1 && status.tag == 12);
    OK(tieline_mq_irecv(b, to_a, 12, 0, got + 8, 8, &receives[1]));
    OK(tieline_mq_cancel(b, receives[0]));
    OK(tieline_mq_send(a, to_b, 12, "again", 6));
    CHECK(tieline_mq_wait_all(b, receives, 2, LIMIT, all) == TIELINE_MQ_CANCELLED);
    CHECK(all[0].code == TIELINE_MQ_CANCELLED && all[1].code == TIELINE_MQ_OK && all[1].length == 6);
    CHECK(tieline_mq_wait(b, receives[0], 0, NULL) == TIELINE_MQ_NO_SUCH_REQUEST);
}

static void less_common(tieline_mq *a, tieline_mq *b, uint32_t to_b, uint32_t to_a) {
    tieline_mq_status status;
    tieline_mq_request request;
    tieline_mq_message message;
    tieline_mq_persistent send, receive;
    tieline_mq_counters counters;
    char out[8] = "0", got[8];
    /* Set aside: no other receive gets it. */
    OK(tieline_mq_send(a, to_b, 20, "aside", 6));
    OK(tieline_mq_send(a, to_b, 20, "next", 5));
    OK(tieline_mq_mprobe(b, to_a, 20, 0, LIMIT, &message, &status));
    CHECK(status.length == 6);
    OK(tieline_mq_recv(b, to_a, 20, 0, got, sizeof got, LIMIT, NULL));
    CHECK(!strcmp(got, "next"));
    OK(tieline_mq_imrecv(b, message, got, sizeof got, &request));
    OK(ends(b, a, request, &status));
    CHECK(!strcmp(got, "aside"));
    CHECK(tieline_mq_imrecv(b, message, got, sizeof got, &request) == TIELINE_MQ_NO_SUCH_REQUEST);
    /* Again and again. */
    OK(tieline_mq_send_init(a, to_b, 21, out, sizeof out, &send));
    OK(tieline_mq_recv_init(b, to_a, 21, 0, got, sizeof got, &receive));
    for (int round = 0; round < 100; round++) {
        snprintf(out, sizeof out, "%d", round);
        OK(tieline_mq_start(b, receive));
        CHECK(tieline_mq_start(b, receive) == TIELINE_MQ_BUSY);
        CHECK(tieline_mq_free(b, receive) == TIELINE_MQ_BUSY);
        OK(tieline_mq_start(a, send));
        OK(tieline_mq_complete(a, send, LIMIT, NULL));
        OK(tieline_mq_complete(b, receive, LIMIT, &status));
        CHECK(status.length == sizeof out && !strcmp(got, out));
    }
    CHECK(tieline_mq_complete(b, receive, 0, NULL) == TIELINE_MQ_INVALID);
    OK(tieline_mq_start(b, receive));
    OK(tieline_mq_stop(b, receive));
    CHECK(tieline_mq_complete(b, receive, LIMIT, NULL) == TIELINE_MQ_CANCELLED);
    OK(tieline_mq_free(a, send));
    OK(tieline_mq_free(b, receive));
    CHECK(tieline_mq_start(b, receive) == TIELINE_MQ_NO_SUCH_REQUEST);
    counters.size = sizeof counters;
    OK(tieline_mq_get_counters(a, &counters));
    CHECK(counters.eager > 100 && counters.offered == 1);
    counters.size = 1;
    CHECK(tieline_mq_get_counters(a, &counters) == TIELINE_MQ_INVALID);
}

static void wrong_calls(tieline_mq *a, uint32_t node, uint32_t to_b) {
    tieline_mq_options options = TIELINE_MQ_OPTIONS_INIT;
    tieline_mq *none = NULL;
    tieline_mq_request request;
    uint32_t peer;
    options.node = node;
    options.port = 1;
    CHECK(tieline_mq_open(&options, &none) == TIELINE_MQ_PORT_IN_USE && none == NULL);
    options.size = 8;
    CHECK(tieline_mq_open(&options, &none) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_open(NULL, &none) == TIELINE_MQ_INVALID);
    options = (tieline_mq_options)TIELINE_MQ_OPTIONS_INIT;
    options.node = node;
    options.port = 9;
    options.ring_bytes = (size_t)1 << 40;
    CHECK(tieline_mq_open(&options, &none) == TIELINE_MQ_INVALID && strstr(tieline_mq_error(), "ring_bytes") != NULL);
    CHECK(tieline_mq_peer(a, node, 99, 0, &peer) == TIELINE_MQ_NOT_FOUND);
    CHECK(strstr(tieline_mq_error(), "tieline_mq_peer: ") != NULL && strstr(tieline_mq_error(), "port 99") != NULL);
    CHECK(tieline_mq_peer(a, 5, 1, 0, &peer) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_send(a, 77, 1, "x", 1) == TIELINE_MQ_NO_SUCH_PEER);
    CHECK(tieline_mq_send(a, to_b, 1, NULL, 1) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_send(NULL, to_b, 1, "x", 1) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_isend(a, to_b, 1, "x", 1, NULL) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_irecv(a, 77, 1, 0, big[0], 1, &request) == TIELINE_MQ_OK);
    CHECK(tieline_mq_wait(a, request, LIMIT, NULL) == TIELINE_MQ_NO_SUCH_PEER);
    CHECK(tieline_mq_close(NULL, 0) == TIELINE_MQ_INVALID);
    CHECK(tieline_mq_wait(a, UINT64_MAX, 0, NULL) == TIELINE_MQ_NO_SUCH_REQUEST);
    CHECK(tieline_mq_probe(a, 77, 1, 0, LIMIT, NULL) == TIELINE_MQ_NO_SUCH_PEER);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CHECK(tieline_mq_send(a, to_b, 1, "x", 1) == TIELINE_MQ_INVALID);
        CHECK(strstr(tieline_mq_error(), "parent") != NULL);
        OK(tieline_mq_close(a, LIMIT));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(strlen(tieline_mq_code_text(TIELINE_MQ_OTHER_HOST)) > 0 && strlen(tieline_mq_code_text(-5)) > 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    uint32_t nodes[2] = {(uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2])}, to_a, to_b;
    for (uint32_t threads = 0; threads < 2; threads++) {
        tieline_mq *a = open_queue(nodes[0], 1, threads), *b = open_queue(nodes[1], 2, threads);
        OK(tieline_mq_peer(a, nodes[1], 2, LIMIT, &to_b));
        OK(tieline_mq_peer(b, nodes[0], 1, LIMIT, &to_a));
        sends_and_receives(a, b, to_b, to_a);
        less_common(a, b, to_b, to_a);
        wrong_calls(a, nodes[0], to_b);
        OK(tieline_mq_close(a, LIMIT));
        /* What it sends to a queue that is closed ends with the reason. */
        char got[8];
        CHECK(tieline_mq_recv(b, to_a, 30, 0, got, sizeof got, LIMIT, NULL) == TIELINE_MQ_PEER_GONE);
        CHECK(tieline_mq_send(b, to_a, 30, "late", 5) == TIELINE_MQ_PEER_GONE);
        CHECK(tieline_mq_probe(b, to_a, 30, 0, LIMIT, NULL) == TIELINE_MQ_PEER_GONE);
        OK(tieline_mq_close(b, LIMIT));
    }
    puts("all done");
    return 0;
}
