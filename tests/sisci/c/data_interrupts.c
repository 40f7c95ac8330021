/* Several nodes send to one: no message is lost, cut, mixed with another's or out of its sender's order. */
#include "check.h"

#define INTNO 9
#define MESSAGES 200
/* The longest message that docs/sisci.md promises. */
#define LONGEST 8176

struct message {
    unsigned int sender;
    unsigned int index;
    unsigned char filling[LONGEST - 8];
};

static unsigned int next[256];
static volatile unsigned int received;

/* Lengths from the shortest to the longest that a message with a head can have. */
static unsigned int length_of(unsigned int index)
{
    return index % 50 == 49 ? LONGEST : 8 + index * 7 % 500;
}

static void take(const struct message *message, unsigned int length)
{
    unsigned int i;
    CHECK(message->sender < 256 && message->index == next[message->sender]);
    CHECK(length == length_of(message->index));
    for (i = 0; i < length - 8; i++) {
        CHECK(message->filling[i] == (unsigned char)(message->sender + message->index + i));
    }
    next[message->sender]++;
    __sync_fetch_and_add(&received, 1);
}

static sci_callback_action_t called(void *arg, sci_local_data_interrupt_t interrupt, void *data, unsigned int length,
                                    sci_error_t status)
{
    CHECK(arg == NULL && interrupt != NULL && status == SCI_ERR_OK);
    take(data, length);
    return SCI_CALLBACK_CONTINUE;
}

static void receive(sci_desc_t sd, unsigned int senders, int by_callback)
{
    sci_error_t e;
    sci_local_data_interrupt_t interrupt, second;
    unsigned int no = INTNO, length;
    static struct message message;
    unsigned int flags = SCI_FLAG_FIXED_INTNO | (by_callback ? SCI_FLAG_USE_CALLBACK : 0);
    OK(SCICreateDataInterrupt(sd, &interrupt, ADAPTER, &no, by_callback ? called : NULL, NO_ARG, flags, &e));
    FAILS(SCI_ERR_INTNO_USED,
          SCICreateDataInterrupt(sd, &second, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCICreateDataInterrupt(sd, NULL, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    say("ready");
    if (by_callback) {
        length = sizeof message;
        FAILS(SCI_ERR_ILLEGAL_OPERATION, SCIWaitForDataInterrupt(interrupt, &message, &length, 0, NO_FLAGS, &e));
        UNTIL(received == senders * MESSAGES);
    } else {
        while (received < senders * MESSAGES) {
            length = sizeof message;
            OK(SCIWaitForDataInterrupt(interrupt, &message, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
            take(&message, length);
        }
        length = sizeof message;
        FAILS(SCI_ERR_TIMEOUT, SCIWaitForDataInterrupt(interrupt, &message, &length, 1, NO_FLAGS, &e));
    }
    OK(SCIRemoveDataInterrupt(interrupt, NO_FLAGS, &e));
    OK(SCICreateDataInterrupt(sd, &second, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIRemoveDataInterrupt(second, NO_FLAGS, &e));
}

static void send_all(sci_desc_t sd, unsigned int node)
{
    sci_error_t e;
    sci_remote_data_interrupt_t interrupt;
    static struct message message;
    unsigned int i, k;
    OK_AFTER(SCI_ERR_NO_SUCH_INTNO, SCIConnectDataInterrupt(sd, &interrupt, node, ADAPTER, INTNO,
                                                            SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    message.sender = my_node();
    for (i = 0; i < MESSAGES; i++) {
        message.index = i;
        for (k = 0; k < length_of(i) - 8; k++) message.filling[k] = (unsigned char)(message.sender + i + k);
        OK_AFTER(SCI_ERR_NOSPC, SCITriggerDataInterrupt(interrupt, &message, length_of(i), NO_FLAGS, &e));
    }
    OK(SCIDisconnectDataInterrupt(interrupt, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCITriggerDataInterrupt(interrupt, &message, 8, NO_FLAGS, &e));
}

/* Owns the interrupt, and never looks: its senders fill it, and wait. */
static void ignore(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_data_interrupt_t interrupt;
    unsigned int no = INTNO;
    OK(SCICreateDataInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    say("ready");
    pause();
}

static void send_until_lost(sci_desc_t sd, unsigned int node)
{
    sci_error_t e;
    sci_remote_data_interrupt_t interrupt;
    OK(SCIConnectDataInterrupt(sd, &interrupt, node, ADAPTER, INTNO, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    say("sending");
    do {
        SCITriggerDataInterrupt(interrupt, &node, sizeof node, NO_FLAGS, &e);
    } while (e == SCI_ERR_OK || e == SCI_ERR_NOSPC);
    CHECK(e == SCI_ERR_NOT_CONNECTED);
    OK(SCIDisconnectDataInterrupt(interrupt, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
}

/* One program with both ends: lengths and buffers that do not fit. */
static void bounds(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_data_interrupt_t local;
    sci_remote_data_interrupt_t remote;
    unsigned int no, length, i;
    static unsigned char sent[LONGEST + 1], got[LONGEST + 1];
    OK(SCICreateDataInterrupt(sd, &local, ADAPTER, &no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_INTNO,
          SCIConnectDataInterrupt(sd, &remote, my_node(), ADAPTER, no + 1, 1000, NO_FLAGS, &e));
    OK(SCIConnectDataInterrupt(sd, &remote, SCI_LOCAL_HOST, ADAPTER, no, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    for (i = 0; i < sizeof sent; i++) sent[i] = (unsigned char)(i * 3 + 1);
    FAILS(SCI_ERR_OVERFLOW, SCITriggerDataInterrupt(remote, sent, LONGEST + 1, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCITriggerDataInterrupt(remote, NULL, 1, NO_FLAGS, &e));
    OK(SCITriggerDataInterrupt(remote, sent, LONGEST, NO_FLAGS, &e));
    OK(SCITriggerDataInterrupt(remote, NULL, 0, NO_FLAGS, &e));
    /* A buffer that is too small: nothing is written, nothing is lost. */
    memset(got, 0, sizeof got);
    length = 10;
    FAILS(SCI_ERR_OVERFLOW, SCIWaitForDataInterrupt(local, got, &length, 0, NO_FLAGS, &e));
    CHECK(got[0] == 0 && got[10] == 0);
    length = sizeof got;
    OK(SCIWaitForDataInterrupt(local, got, &length, 0, NO_FLAGS, &e));
    CHECK(length == LONGEST && memcmp(got, sent, LONGEST) == 0 && got[LONGEST] == 0);
    length = 0;
    OK(SCIWaitForDataInterrupt(local, NULL, &length, 0, NO_FLAGS, &e));
    CHECK(length == 0);
    length = 1;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIWaitForDataInterrupt(local, NULL, &length, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIWaitForDataInterrupt(local, got, NULL, 0, NO_FLAGS, &e));
    OK(SCIDisconnectDataInterrupt(remote, NO_FLAGS, &e));
    OK(SCIRemoveDataInterrupt(local, NO_FLAGS, &e));
}

/* A callback that makes and removes segments and answers: no lock may be held while it runs. */
static sci_desc_t shared;
static volatile int answered;

static sci_callback_action_t answer(void *arg, sci_local_data_interrupt_t me, void *data, unsigned int length,
                                    sci_error_t status)
{
    sci_error_t e;
    sci_local_segment_t segment;
    sci_remote_data_interrupt_t *back = arg;
    CHECK(me != NULL && length == 4 && status == SCI_ERR_OK);
    segment = make_available(shared, 77, 4096);
    OK(SCITriggerDataInterrupt(*back, data, length, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    answered++;
    return SCI_CALLBACK_CONTINUE;
}

static void callbacks_call_the_library(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_data_interrupt_t calling, waiting;
    sci_remote_data_interrupt_t to_calling, to_waiting;
    unsigned int calling_no, waiting_no, i, got, length;
    shared = sd;
    OK(SCICreateDataInterrupt(sd, &waiting, ADAPTER, &waiting_no, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIConnectDataInterrupt(sd, &to_waiting, my_node(), ADAPTER, waiting_no, 0, NO_FLAGS, &e));
    OK(SCICreateDataInterrupt(sd, &calling, ADAPTER, &calling_no, answer, &to_waiting, SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIConnectDataInterrupt(sd, &to_calling, my_node(), ADAPTER, calling_no, 0, NO_FLAGS, &e));
    for (i = 0; i < 20; i++) {
        OK(SCITriggerDataInterrupt(to_calling, &i, sizeof i, NO_FLAGS, &e));
        length = sizeof got;
        OK(SCIWaitForDataInterrupt(waiting, &got, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
        CHECK(length == sizeof got && got == i);
    }
    OK(SCIRemoveDataInterrupt(calling, NO_FLAGS, &e));
    CHECK(answered == 20);
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    const char *role = argc > 1 ? argv[1] : "bounds";
    if (!strcmp(role, "receive")) receive(sd, number(argv[2]), 0);
    else if (!strcmp(role, "receive-by-callback")) receive(sd, number(argv[2]), 1);
    else if (!strcmp(role, "send")) send_all(sd, number(argv[2]));
    else if (!strcmp(role, "ignore")) ignore(sd);
    else if (!strcmp(role, "send-until-lost")) send_until_lost(sd, number(argv[2]));
    else {
        bounds(sd);
        callbacks_call_the_library(sd);
    }
    SCITerminate();
    return 0;
}
