/*
 * Connecting to interrupts: what is missing is an error at once, whatever the finite time-out; who is away is waited for as long as
 * was said. Arguments: the nodes of the cluster.
 */
#include "check.h"

#define INTNO 21
/* No node of a test has it. */
#define NOBODY 244

/* What is missing is waited for without an end if the time-out has none: so the last is long only. */
static const unsigned int timeouts[] = {0, 1, 20, 100000};

static void fails(sci_desc_t sd, unsigned int node, unsigned int no, unsigned int timeout, sci_error_t wanted)
{
    sci_error_t e;
    sci_remote_interrupt_t plain;
    sci_remote_data_interrupt_t data;
    FAILS(wanted, SCIConnectInterrupt(sd, &plain, node, ADAPTER, no, timeout, NO_FLAGS, &e));
    FAILS(wanted, SCIConnectDataInterrupt(sd, &data, node, ADAPTER, no, timeout, NO_FLAGS, &e));
}

/* To a node that is there: missing, of the other kind, then connected, with each time-out. */
static void to_node(sci_desc_t sd, unsigned int node)
{
    sci_error_t e;
    sci_remote_interrupt_t plain;
    sci_remote_data_interrupt_t data;
    unsigned int i;
    for (i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        fails(sd, node, INTNO + 100, timeouts[i], SCI_ERR_NO_SUCH_INTNO);
        FAILS(SCI_ERR_ILLEGAL_PARAMETER,
              SCIConnectInterrupt(sd, &plain, node, ADAPTER, INTNO + 1, timeouts[i], NO_FLAGS, &e));
        FAILS(SCI_ERR_ILLEGAL_PARAMETER,
              SCIConnectDataInterrupt(sd, &data, node, ADAPTER, INTNO, timeouts[i], NO_FLAGS, &e));
        OK(SCIConnectInterrupt(sd, &plain, node, ADAPTER, INTNO, timeouts[i], NO_FLAGS, &e));
        OK(SCIConnectDataInterrupt(sd, &data, node, ADAPTER, INTNO + 1, timeouts[i], NO_FLAGS, &e));
        OK(SCITriggerInterrupt(plain, NO_FLAGS, &e));
        OK(SCITriggerDataInterrupt(data, &node, sizeof node, NO_FLAGS, &e));
        OK(SCIDisconnectInterrupt(plain, NO_FLAGS, &e));
        OK(SCIDisconnectDataInterrupt(data, NO_FLAGS, &e));
    }
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    sci_error_t e;
    sci_local_interrupt_t plain;
    sci_local_data_interrupt_t data;
    unsigned int no = INTNO, data_no = INTNO + 1, got, length;
    int i;
    OK(SCICreateInterrupt(sd, &plain, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCICreateDataInterrupt(sd, &data, ADAPTER, &data_no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    say("ready");
    hear("all are ready");
    for (i = 1; i < argc; i++) to_node(sd, number(argv[i]));
    for (got = 0; got < 3; got++) fails(sd, NOBODY, INTNO, timeouts[got], SCI_ERR_NODE_NOT_RESPONDING);
    fails(sd, 0x10000, INTNO, SCI_INFINITE_TIMEOUT, SCI_ERR_ILLEGAL_NODEID);
    say("done");
    hear("all are done");
    /* From each node, this one too, as often as there are time-outs; and no more. */
    for (i = 1; i < argc; i++) {
        unsigned int k;
        for (k = 0; k < sizeof timeouts / sizeof timeouts[0]; k++) {
            OK(SCIWaitForInterrupt(plain, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
            length = sizeof got;
            OK(SCIWaitForDataInterrupt(data, &got, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
            CHECK(length == sizeof got && got == my_node());
        }
    }
    length = sizeof got;
    FAILS(SCI_ERR_TIMEOUT, SCIWaitForInterrupt(plain, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_TIMEOUT, SCIWaitForDataInterrupt(data, &got, &length, 0, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
