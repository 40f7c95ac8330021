/*
 * A queue of work that survives workers which die. The master's segment holds the results. Workers are connected to it, so the
 * master is told when one dies, and gives what that one had to another. One worker a node.
 *
 *   work_queue master JOBS
 *   work_queue worker NODE             any number of them, at any time
 *   work_queue worker NODE LAST        dies with its job number LAST undone
 */
#include "common.h"

#define RESULTS 8
#define REQUESTS 9
#define ORDERS 10
#define NODES 256
#define JOBS_MAX 10000
#define STOP 0xffffffffU
#define NOBODY 0

struct request {
    unsigned int node;
    unsigned int done; /* the job just done, or STOP: none yet */
};

/* ---- The master ---------------------------------------------------------------------------------------------------- */

static sci_desc_t sd;
static unsigned int jobs;
static unsigned int given_to[JOBS_MAX];
static volatile unsigned char is_done[JOBS_MAX], has_died[NODES];
static unsigned int given_again;

/* Called on a thread of the library: only notes who died. */
static sci_callback_action_t on_worker(void *arg, sci_local_segment_t segment, sci_segment_cb_reason_t reason,
                                       unsigned int node, unsigned int adapter, sci_error_t error)
{
    (void)arg, (void)segment, (void)adapter, (void)error;
    if (reason == SCI_CB_LOST && node < NODES) has_died[node] = 1;
    return SCI_CALLBACK_CONTINUE;
}

/* What the dead had is nobody's again. */
static void take_back(void)
{
    unsigned int node, job;
    for (node = 0; node < NODES; node++) {
        if (!has_died[node]) continue;
        has_died[node] = 0;
        for (job = 0; job < jobs; job++) {
            if (given_to[job] != node || is_done[job]) continue;
            given_to[job] = NOBODY;
            given_again++;
        }
    }
}

static unsigned int next_job(unsigned int node)
{
    unsigned int job;
    for (job = 0; job < jobs; job++) {
        if (given_to[job] == NOBODY) {
            given_to[job] = node;
            return job;
        }
    }
    return STOP;
}

static unsigned int count_done(void)
{
    unsigned int job, done = 0;
    for (job = 0; job < jobs; job++) done += is_done[job];
    return done;
}

/* Tells a worker what to do. It may have died meanwhile, which the master hears by its callback. */
static void order(unsigned int node, unsigned int job)
{
    sci_error_t error;
    sci_remote_data_interrupt_t orders;
    SCIConnectDataInterrupt(sd, &orders, node, ADAPTER, ORDERS, 0, NO_FLAGS, &error);
    if (error != SCI_ERR_OK) return;
    SCITriggerDataInterrupt(orders, &job, sizeof job, NO_FLAGS, &error);
    SCIDisconnectDataInterrupt(orders, NO_FLAGS, &error);
}

static void serve(sci_local_data_interrupt_t requests)
{
    static unsigned int idle[NODES];
    unsigned int idle_count = 0, length, i;
    sci_error_t error;
    struct request request;
    while (count_done() < jobs) {
        length = sizeof request;
        SCIWaitForDataInterrupt(requests, &request, &length, 20, NO_FLAGS, &error);
        if (error == SCI_ERR_OK) {
            if (request.done < jobs) is_done[request.done] = 1;
            if (request.node < NODES && idle_count < NODES) idle[idle_count++] = request.node;
        } else if (error != SCI_ERR_TIMEOUT) {
            must("SCIWaitForDataInterrupt", error);
        }
        take_back();
        /* Who finds nothing to do stays idle: work may come back from the dead. */
        while (idle_count > 0) {
            unsigned int job = next_job(idle[idle_count - 1]);
            if (job == STOP) break;
            order(idle[--idle_count], job);
        }
    }
    for (i = 0; i < idle_count; i++) order(idle[i], STOP);
}

static void be_master(void)
{
    sci_error_t error;
    sci_local_segment_t segment;
    sci_local_data_interrupt_t requests;
    sci_map_t map;
    unsigned int number = REQUESTS, job;
    unsigned int *results;
    SCICreateSegment(sd, &segment, RESULTS, JOBS_MAX * sizeof *results, on_worker, NO_ARG, SCI_FLAG_USE_CALLBACK,
                     &error);
    must("SCICreateSegment", error);
    results = SCIMapLocalSegment(segment, &map, 0, JOBS_MAX * sizeof *results, NULL, NO_FLAGS, &error);
    must("SCIMapLocalSegment", error);
    SCICreateDataInterrupt(sd, &requests, ADAPTER, &number, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &error);
    must("SCICreateDataInterrupt", error);
    SCIPrepareSegment(segment, ADAPTER, NO_FLAGS, &error);
    must("SCIPrepareSegment", error);
    SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &error);
    must("SCISetSegmentAvailable", error);
    serve(requests);
    for (job = 0; job < jobs; job++) {
        if (results[job] != job * job) {
            fprintf(stderr, "job %u came to %u\n", job, results[job]);
            exit(1);
        }
    }
    printf("%u jobs done, %u given out again\n", jobs, given_again);
}

/* ---- A worker ------------------------------------------------------------------------------------------------------ */

static void be_worker(unsigned int master, unsigned int last)
{
    sci_error_t error;
    sci_local_data_interrupt_t orders;
    sci_remote_data_interrupt_t requests;
    sci_map_t map;
    volatile unsigned int *results;
    struct request request;
    unsigned int number = ORDERS, job, length, done = 0;
    SCICreateDataInterrupt(sd, &orders, ADAPTER, &number, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &error);
    must("SCICreateDataInterrupt", error);
    results = SCIMapRemoteSegment(find(sd, master, RESULTS), &map, 0, JOBS_MAX * sizeof *results, NULL, NO_FLAGS,
                                  &error);
    must("SCIMapRemoteSegment", error);
    SCIConnectDataInterrupt(sd, &requests, master, ADAPTER, REQUESTS, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
    must("SCIConnectDataInterrupt", error);
    request.node = own_node();
    request.done = STOP;
    for (;;) {
        SCITriggerDataInterrupt(requests, &request, sizeof request, NO_FLAGS, &error);
        must("SCITriggerDataInterrupt", error);
        length = sizeof job;
        SCIWaitForDataInterrupt(orders, &job, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
        must("SCIWaitForDataInterrupt", error);
        if (job >= JOBS_MAX) break;
        if (++done == last) abort();
        results[job] = job * job;
        SCIFlush(NULL, NO_FLAGS);
        request.done = job;
    }
    printf("did %u jobs\n", done);
}

int main(int argc, char **argv)
{
    sd = begin();
    if (argc == 3 && !strcmp(argv[1], "master")) {
        jobs = (unsigned int)atoi(argv[2]);
        if (jobs > JOBS_MAX) wrong_usage("at most 10000 jobs");
        be_master();
    } else if (argc >= 3 && argc <= 4 && !strcmp(argv[1], "worker")) {
        be_worker((unsigned int)atoi(argv[2]), argc == 4 ? (unsigned int)atoi(argv[3]) : 0);
    } else {
        wrong_usage("work_queue master JOBS | work_queue worker NODE [LAST]");
    }
    SCITerminate();
    return 0;
}
