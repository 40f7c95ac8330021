/* Threads that are cancelled in calls: cancelled_thread NODE NODE
 *
 * A thread that can be cancelled at any time is cancelled when its call returns, and one that can be cancelled at
 * points only at its next point, which no call of the library is. The queue works on. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tieline_mq.h>

#define LIMIT 20000
#define ROUNDS 300
#define LONG 100000
#define ECHO_TAGS 1000
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, tieline_mq_error()); \
            exit(1); \
        } \
    } while (0)
#define OK(call) CHECK((call) == TIELINE_MQ_OK)

static tieline_mq *here, *there;
static uint32_t node_here, node_there, to_here, to_there;
static char out[LONG], in[LONG];
static volatile int started, cleaned, is_over, got_through;

static tieline_mq *open_queue(uint32_t node, uint32_t port, uint32_t threads) {
    tieline_mq_options options = TIELINE_MQ_OPTIONS_INIT;
    tieline_mq *queue = NULL;
    options.node = node;
    options.port = port;
    options.threads = threads;
    OK(tieline_mq_open(&options, &queue));
    return queue;
}

/* Sends each message back, with a tag that tells it from the others. */
static void *echo(void *arg) {
    static char bytes[LONG];
    while (!is_over) {
        tieline_mq_status status;
        int code = tieline_mq_recv(there, TIELINE_MQ_ANY_SOURCE, 0, TIELINE_MQ_ANY_TAG, bytes, sizeof bytes, 10, &status);
        if (code == TIELINE_MQ_TIMED_OUT) continue;
        CHECK(code == TIELINE_MQ_OK);
        OK(tieline_mq_send(there, status.source, status.tag + ECHO_TAGS, bytes, status.length));
    }
    return arg;
}

/* While the thread is unwound the library can be called. */
static void clean(void *arg) {
    tieline_mq_status status;
    uint32_t peer;
    (void)arg;
    OK(tieline_mq_peer(here, node_there, 1, LIMIT, &peer));
    CHECK(peer == to_there);
    CHECK(tieline_mq_probe(here, to_there, 7777, 0, 0, &status) == TIELINE_MQ_TIMED_OUT);
    cleaned++;
}

static void *calls(void *arg) {
    tieline_mq_status status;
    tieline_mq_request request;
    tieline_mq_counters counters = {sizeof counters, 0, 0, 0, 0, 0, 0, 0, 0};
    int ended, size, round = *(int *)arg;
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    started = 1;
    for (size = 8;; size = size == 8 ? LONG : 8) {
        tieline_mq_isend(here, to_there, (uint64_t)round, out, (size_t)size, &request);
        tieline_mq_wait(here, request, -1, &status);
        tieline_mq_recv(here, to_there, (uint64_t)(round + ECHO_TAGS), 0, in, sizeof in, -1, &status);
        tieline_mq_irecv(here, to_there, 7777, 0, in, sizeof in, &request);
        tieline_mq_cancel(here, request);
        tieline_mq_test(here, request, &ended, &status);
        tieline_mq_get_counters(here, &counters);
        tieline_mq_progress(here);
    }
    pthread_cleanup_pop(0);
    return arg;
}

/* A message there and back, behind the echoes that a thread which was cancelled has not received. */
static void talk(int round) {
    tieline_mq_status status;
    tieline_mq_request request;
    uint64_t tag = 100000 + (uint64_t)round;
    memset(in, 0, sizeof in);
    OK(tieline_mq_isend(here, to_there, tag, out, LONG, &request));
    do {
        OK(tieline_mq_recv(here, to_there, 0, TIELINE_MQ_ANY_TAG, in, sizeof in, LIMIT, &status));
    } while (status.tag != tag + ECHO_TAGS);
    CHECK(status.length == LONG && !memcmp(in, out, LONG));
    OK(tieline_mq_wait(here, request, LIMIT, &status));
}

static void at_any_time(void) {
    pthread_t thread, echoes;
    int round;
    CHECK(pthread_create(&echoes, NULL, echo, NULL) == 0);
    talk(0);
    for (round = 1; round <= ROUNDS; round++) {
        void *result;
        struct timespec pause = {0, round * 7919 % 700 * 1000};
        started = 0;
        CHECK(pthread_create(&thread, NULL, calls, &round) == 0);
        while (!started) continue;
        nanosleep(&pause, NULL);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED && cleaned == round);
        talk(round);
    }
    is_over = 1;
    CHECK(pthread_join(echoes, NULL) == 0);
}

/* Cancelled already, but at points only: it gets through all of this. */
static void *all_calls(void *arg) {
    tieline_mq *third, *single;
    tieline_mq_status status;
    tieline_mq_request request, receive;
    tieline_mq_group group;
    uint32_t peer, own, back;
    int ended = 0;
    CHECK(pthread_cancel(pthread_self()) == 0);
    third = open_queue(node_here, 3, 0);
    single = open_queue(node_there, 4, 0);
    OK(tieline_mq_peer(single, node_here, 3, LIMIT, &peer));
    OK(tieline_mq_peer(single, node_there, 4, LIMIT, &own));
    OK(tieline_mq_peer(third, node_there, 4, LIMIT, &back));
    /* The two meet, and a long wait sleeps. */
    OK(tieline_mq_issend(single, peer, 1, out, 8, &request));
    OK(tieline_mq_irecv(third, back, 1, 0, in, 8, &receive));
    while (!ended) {
        OK(tieline_mq_test(single, request, &ended, &status));
        OK(tieline_mq_progress(third));
    }
    OK(tieline_mq_wait(third, receive, LIMIT, &status));
    CHECK(tieline_mq_recv(single, peer, 2, 0, in, sizeof in, 50, &status) == TIELINE_MQ_TIMED_OUT);
    CHECK(tieline_mq_recv(single, TIELINE_MQ_ANY_SOURCE, 2, 0, in, sizeof in, 50, &status) == TIELINE_MQ_TIMED_OUT);
    CHECK(tieline_mq_wait(here, 12345, 0, &status) == TIELINE_MQ_NO_SUCH_REQUEST);
    OK(tieline_mq_group_create(single, &own, 1, 1, &group));
    OK(tieline_mq_barrier(single, group, LIMIT));
    OK(tieline_mq_group_free(single, group));
    /* A long message whose peer makes calls only at times: it ends, and its peer notices. */
    OK(tieline_mq_isend(single, peer, 3, out, LONG, &request));
    OK(tieline_mq_irecv(third, back, 3, 0, in, LONG, &receive));
    for (ended = 0; !ended;) {
        OK(tieline_mq_progress(single));
        OK(tieline_mq_test(third, receive, &ended, &status));
    }
    OK(tieline_mq_wait(single, request, LIMIT, &status));
    OK(tieline_mq_close(third, LIMIT));
    CHECK(tieline_mq_recv(single, peer, 4, 0, in, 8, LIMIT, &status) == TIELINE_MQ_PEER_GONE);
    CHECK(tieline_mq_peer(single, node_here, 99, 10, &peer) == TIELINE_MQ_NOT_FOUND);
    OK(tieline_mq_close(single, LIMIT));
    got_through = 1;
    pthread_testcancel();
    got_through = 2;
    return arg;
}

static void at_points(void) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, all_calls, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && got_through == 1);
}

int main(int argc, char **argv) {
    int at;
    CHECK(argc == 3);
    node_here = (uint32_t)atoi(argv[1]);
    node_there = (uint32_t)atoi(argv[2]);
    for (at = 0; at < LONG; at++) out[at] = (char)(at * 31);
    here = open_queue(node_here, 1, 1);
    there = open_queue(node_there, 1, 1);
    OK(tieline_mq_peer(here, node_there, 1, LIMIT, &to_there));
    OK(tieline_mq_peer(there, node_here, 1, LIMIT, &to_here));
    at_any_time();
    at_points();
    OK(tieline_mq_close(there, LIMIT));
    OK(tieline_mq_close(here, LIMIT));
    puts("all cancelled");
    return 0;
}
