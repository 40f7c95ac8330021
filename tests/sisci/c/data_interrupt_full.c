/*
 * A receiver that does not look: its sender gets SCI_ERR_NOSPC, after a wait that it makes once. What was accepted until then
 * arrives, in order, what was refused does not, and can be sent again.
 */
#include "check.h"

#define INTNO 31
#define MORE 100
#define TRIES 10000
#define END 0xffffffffu

static void own(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_data_interrupt_t interrupt;
    unsigned int no = INTNO, got, length, next = 0;
    OK(SCICreateDataInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    say("ready");
    hear("look");
    for (;;) {
        length = sizeof got;
        OK(SCIWaitForDataInterrupt(interrupt, &got, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
        CHECK(length == sizeof got);
        if (got == END) break;
        if (got != next) FAIL("message %u came, not %u", got, next);
        next++;
    }
    CHECK(next > MORE);
    length = sizeof got;
    FAILS(SCI_ERR_TIMEOUT, SCIWaitForDataInterrupt(interrupt, &got, &length, 0, NO_FLAGS, &e));
    OK(SCIRemoveDataInterrupt(interrupt, NO_FLAGS, &e));
}

static void send_until_full(sci_desc_t sd, unsigned int node)
{
    sci_error_t e = SCI_ERR_OK;
    sci_remote_data_interrupt_t interrupt;
    unsigned int next, last, end = END, tries;
    OK(SCIConnectDataInterrupt(sd, &interrupt, node, ADAPTER, INTNO, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    for (next = 0; e == SCI_ERR_OK; next++) {
        SCITriggerDataInterrupt(interrupt, &next, sizeof next, NO_FLAGS, &e);
    }
    CHECK(e == SCI_ERR_NOSPC && next > 1);
    /* The next ones are refused as well: each that waited as long as the first did would end the test's patience. */
    next--;
    for (tries = 0; tries < TRIES; tries++) {
        FAILS(SCI_ERR_NOSPC, SCITriggerDataInterrupt(interrupt, &next, sizeof next, NO_FLAGS, &e));
    }
    say("full");
    /* The receiver looks meanwhile. */
    for (last = next + MORE; next < last; next++) {
        OK_AFTER(SCI_ERR_NOSPC, SCITriggerDataInterrupt(interrupt, &next, sizeof next, NO_FLAGS, &e));
    }
    OK(SCITriggerDataInterrupt(interrupt, &end, sizeof end, NO_FLAGS, &e));
    OK(SCIDisconnectDataInterrupt(interrupt, NO_FLAGS, &e));
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    if (argc > 1) send_until_full(sd, number(argv[1]));
    else own(sd);
    SCITerminate();
    return 0;
}
