/*
 * Who owns a data interrupt and has no file descriptor left loses neither its node nor a message when somebody connects, or
 * dies: only what needs a descriptor fails, and works again when there is one.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#define INTNO 12
#define LIMIT 64

static int taken[LIMIT];
static unsigned int taken_count;

static void take_all_descriptors(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        CHECK(taken_count < LIMIT);
        taken[taken_count++] = fd;
    }
    CHECK(errno == EMFILE);
}

static void receive(sci_local_data_interrupt_t interrupt, unsigned int wanted)
{
    sci_error_t e;
    unsigned int got, length = sizeof got;
    OK(SCIWaitForDataInterrupt(interrupt, &got, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    CHECK(length == sizeof got && got == wanted);
}

/* What needs the node's manager, and no descriptor. */
static void node_is_there(sci_desc_t sd)
{
    sci_error_t e;
    int reachable;
    OK(reachable = SCIProbeNode(sd, ADAPTER, my_node(), NO_FLAGS, &e));
    CHECK(reachable == 1);
}

static void own(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_data_interrupt_t interrupt, second;
    sci_local_segment_t segment;
    sci_remote_segment_t remote;
    struct rlimit limit = {LIMIT, LIMIT};
    unsigned int no = INTNO, second_no = INTNO + 1;
    OK(SCICreateDataInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    make_available(sd, INTNO, 64);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    take_all_descriptors();
    say("full");
    /* The first sender connects now, sends, and is killed; the second does so after it. */
    receive(interrupt, 1);
    node_is_there(sd);
    FAILS(SCI_ERR_NOSPC, SCIConnectSegment(sd, &remote, my_node(), INTNO, ADAPTER, NO_CALLBACK, NO_ARG, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOSPC, SCICreateSegment(sd, &segment, INTNO + 1, 64, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOSPC, SCICreateDataInterrupt(sd, &second, ADAPTER, &second_no, NO_CALLBACK, NO_ARG,
                                                SCI_FLAG_FIXED_INTNO, &e));
    say("received");
    receive(interrupt, 2);
    node_is_there(sd);
    while (taken_count > 0) CHECK(close(taken[--taken_count]) == 0);
    /* What failed has left nothing behind. */
    segment = make_available(sd, INTNO + 1, 64);
    remote = connect_to(sd, my_node(), INTNO);
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    OK(SCICreateDataInterrupt(sd, &second, ADAPTER, &second_no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    say("received");
    receive(interrupt, 3);
}

static void send_one(sci_desc_t sd, unsigned int node, unsigned int message)
{
    sci_error_t e;
    sci_remote_data_interrupt_t interrupt;
    OK(SCIConnectDataInterrupt(sd, &interrupt, node, ADAPTER, INTNO, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    OK(SCITriggerDataInterrupt(interrupt, &message, sizeof message, NO_FLAGS, &e));
    say("sent");
    hear("end");
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    if (argc > 2) send_one(sd, number(argv[1]), number(argv[2]));
    else own(sd);
    SCITerminate();
    return 0;
}
