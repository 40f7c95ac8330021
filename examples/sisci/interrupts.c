/*
 * Two programs that hand a turn to each other, one waiting for its interrupt, the other called back by it.
 *
 *   interrupts wait NODE TURNS
 *   interrupts answer NODE
 */
#include "common.h"

#define QUESTION 4
#define ANSWER 5
#define STOP 6

static sci_local_interrupt_t listen_for(sci_desc_t sd, unsigned int number, sci_cb_interrupt_t callback, void *arg)
{
    sci_error_t error;
    sci_local_interrupt_t interrupt;
    unsigned int flags = SCI_FLAG_FIXED_INTNO | (callback ? SCI_FLAG_USE_CALLBACK : 0);
    SCICreateInterrupt(sd, &interrupt, ADAPTER, &number, callback, arg, flags, &error);
    must("SCICreateInterrupt", error);
    return interrupt;
}

static sci_remote_interrupt_t reach(sci_desc_t sd, unsigned int node, unsigned int number)
{
    sci_error_t error;
    sci_remote_interrupt_t interrupt;
    do {
        SCIConnectInterrupt(sd, &interrupt, node, ADAPTER, number, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
        if (error == SCI_ERR_NO_SUCH_INTNO) usleep(1000);
    } while (error == SCI_ERR_NO_SUCH_INTNO);
    must("SCIConnectInterrupt", error);
    return interrupt;
}

static void trigger(sci_remote_interrupt_t interrupt)
{
    sci_error_t error;
    SCITriggerInterrupt(interrupt, NO_FLAGS, &error);
    must("SCITriggerInterrupt", error);
}

static void await(sci_local_interrupt_t interrupt)
{
    sci_error_t error;
    SCIWaitForInterrupt(interrupt, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
    must("SCIWaitForInterrupt", error);
}

/* Called on a thread of the library; it may use the library as any other. */
static sci_callback_action_t reply(void *arg, sci_local_interrupt_t interrupt, sci_error_t status)
{
    (void)interrupt;
    must("callback", status);
    trigger(*(sci_remote_interrupt_t *)arg);
    return SCI_CALLBACK_CONTINUE;
}

static void ask(sci_desc_t sd, unsigned int node, unsigned int turns)
{
    sci_local_interrupt_t answer = listen_for(sd, ANSWER, NO_CALLBACK, NO_ARG);
    sci_remote_interrupt_t question = reach(sd, node, QUESTION);
    unsigned int turn;
    for (turn = 0; turn < turns; turn++) {
        trigger(question);
        await(answer);
    }
    trigger(reach(sd, node, STOP));
    printf("%u questions answered\n", turns);
}

static void answer_all(sci_desc_t sd, unsigned int node)
{
    static sci_remote_interrupt_t answer;
    sci_local_interrupt_t stop = listen_for(sd, STOP, NO_CALLBACK, NO_ARG);
    answer = reach(sd, node, ANSWER);
    listen_for(sd, QUESTION, reply, &answer);
    await(stop);
    printf("done\n");
}

int main(int argc, char **argv)
{
    sci_desc_t sd = begin();
    if (argc == 4 && !strcmp(argv[1], "wait")) ask(sd, (unsigned int)atoi(argv[2]), (unsigned int)atoi(argv[3]));
    else if (argc == 3 && !strcmp(argv[1], "answer")) answer_all(sd, (unsigned int)atoi(argv[2]));
    else wrong_usage("interrupts wait NODE TURNS | interrupts answer NODE");
    SCITerminate();
    return 0;
}
