/* Two nodes: plain interrupts, latched and counted, waited for and called back. */
#include "check.h"

#define FIXED ((3u << 16) | 3u)
#define TRIGGERS 100

static volatile int calls;

static sci_callback_action_t called(void *arg, sci_local_interrupt_t interrupt, sci_error_t status)
{
    CHECK(arg == (void *)&calls && interrupt != NULL && status == SCI_ERR_OK);
    return __sync_add_and_fetch(&calls, 1) == TRIGGERS ? SCI_CALLBACK_CANCEL : SCI_CALLBACK_CONTINUE;
}

static void own(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_interrupt_t fixed, second, free_one, counting, called_back;
    unsigned int no = FIXED, unset, counting_no = 7, called_no = 8;
    int i;
    OK(SCICreateInterrupt(sd, &fixed, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    CHECK(no == FIXED);
    FAILS(SCI_ERR_INTNO_USED,
          SCICreateInterrupt(sd, &second, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    /* Without the flag the number is the library's choice, whatever stands there. */
    unset = FIXED;
    OK(SCICreateInterrupt(sd, &free_one, ADAPTER, &unset, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    CHECK(unset != FIXED);
    OK(SCIRemoveInterrupt(free_one, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCICreateInterrupt(sd, NULL, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCICreateInterrupt(sd, &second, ADAPTER, NULL, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO,
          SCICreateInterrupt(sd, &second, 9, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCICreateInterrupt(sd, &counting, ADAPTER, &counting_no, NO_CALLBACK, NO_ARG,
                          SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &e));
    OK(SCICreateInterrupt(sd, &called_back, ADAPTER, &called_no, called, (void *)&calls,
                          SCI_FLAG_FIXED_INTNO | SCI_FLAG_USE_CALLBACK, &e));
    FAILS(SCI_ERR_TIMEOUT, SCIWaitForInterrupt(fixed, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_OPERATION, SCIWaitForInterrupt(called_back, 1, NO_FLAGS, &e));
    say("ready");
    /* All were triggered before anybody waited. */
    hear("triggered");
    OK(SCIWaitForInterrupt(fixed, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    for (i = 0; i < TRIGGERS; i++) OK(SCIWaitForInterrupt(counting, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    FAILS(SCI_ERR_TIMEOUT, SCIWaitForInterrupt(counting, 0, NO_FLAGS, &e));
    UNTIL(calls == TRIGGERS);
    usleep(1000);
    CHECK(calls == TRIGGERS);
    OK(SCIRemoveInterrupt(called_back, NO_FLAGS, &e));
    OK(SCIRemoveInterrupt(counting, NO_FLAGS, &e));
    OK(SCIRemoveInterrupt(fixed, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIRemoveInterrupt(fixed, NO_FLAGS, &e));
    /* The number is free again. */
    OK(SCICreateInterrupt(sd, &fixed, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCIRemoveInterrupt(fixed, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
    say("removed");
}

static sci_remote_interrupt_t connect_interrupt(sci_desc_t sd, unsigned int node, unsigned int no)
{
    sci_error_t e;
    sci_remote_interrupt_t interrupt = NULL;
    OK(SCIConnectInterrupt(sd, &interrupt, node, ADAPTER, no, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    CHECK(interrupt != NULL);
    return interrupt;
}

static void trigger(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_interrupt_t fixed, counting, called_back, other;
    int i;
    FAILS(SCI_ERR_NO_SUCH_INTNO, SCIConnectInterrupt(sd, &other, owner, ADAPTER, 12345, 1000,
                                                     NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_NODEID, SCIConnectInterrupt(sd, &other, 5, ADAPTER, FIXED, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_NODE_NOT_RESPONDING, SCIConnectInterrupt(sd, &other, 248, ADAPTER, FIXED, 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIConnectInterrupt(sd, NULL, owner, ADAPTER, FIXED, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCIConnectInterrupt(sd, &other, owner, 9, FIXED, 0, NO_FLAGS, &e));
    fixed = connect_interrupt(sd, owner, FIXED);
    counting = connect_interrupt(sd, owner, 7);
    called_back = connect_interrupt(sd, owner, 8);
    OK(SCITriggerInterrupt(fixed, NO_FLAGS, &e));
    for (i = 0; i < TRIGGERS; i++) {
        OK(SCITriggerInterrupt(counting, NO_FLAGS, &e));
        OK(SCITriggerInterrupt(called_back, NO_FLAGS, &e));
    }
    say("triggered");
    hear("removed");
    FAILS(SCI_ERR_NO_SUCH_INTNO, SCIConnectInterrupt(sd, &other, owner, ADAPTER, FIXED, 1000,
                                                     NO_FLAGS, &e));
    /* Who triggers what was removed is told as soon as the removal is known. */
    do {
        SCITriggerInterrupt(counting, NO_FLAGS, &e);
    } while (e == SCI_ERR_OK);
    CHECK(e == SCI_ERR_NOT_CONNECTED);
    OK(SCIDisconnectInterrupt(fixed, NO_FLAGS, &e));
    OK(SCIDisconnectInterrupt(counting, NO_FLAGS, &e));
    OK(SCIDisconnectInterrupt(called_back, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCITriggerInterrupt(fixed, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    if (argc > 1) trigger(sd, number(argv[1]));
    else own(sd);
    SCITerminate();
    return 0;
}
