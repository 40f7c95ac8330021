/*
 * Several senders, one receiver: each message arrives whole, and those of one sender in order.
 *
 *   data_interrupts receive SENDERS MESSAGES
 *   data_interrupts send NODE MESSAGES
 */
#include "common.h"

#define INBOX 7
#define NODES 256

struct message {
    unsigned int from;
    unsigned int number;
    char text[32];
};

static void receive(sci_desc_t sd, unsigned int senders, unsigned int messages)
{
    sci_error_t error;
    sci_local_data_interrupt_t inbox;
    unsigned int interrupt_no = INBOX, left = senders * messages, length;
    static unsigned int last[NODES];
    struct message message;
    SCICreateDataInterrupt(sd, &inbox, ADAPTER, &interrupt_no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &error);
    must("SCICreateDataInterrupt", error);
    while (left > 0) {
        length = sizeof message;
        SCIWaitForDataInterrupt(inbox, &message, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
        must("SCIWaitForDataInterrupt", error);
        if (length != sizeof message || message.from >= NODES || message.number != ++last[message.from]) {
            fprintf(stderr, "message %u of node %u came out of order\n", message.number, message.from);
            exit(1);
        }
        left--;
    }
    printf("%u messages of %u senders\n", senders * messages, senders);
}

static void send_all(sci_desc_t sd, unsigned int node, unsigned int messages)
{
    sci_error_t error;
    sci_remote_data_interrupt_t inbox;
    struct message message;
    memset(&message, 0, sizeof message);
    do {
        SCIConnectDataInterrupt(sd, &inbox, node, ADAPTER, INBOX, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
        if (error == SCI_ERR_NO_SUCH_INTNO) usleep(1000);
    } while (error == SCI_ERR_NO_SUCH_INTNO);
    must("SCIConnectDataInterrupt", error);
    message.from = own_node();
    for (message.number = 1; message.number <= messages; message.number++) {
        snprintf(message.text, sizeof message.text, "this is number %u", message.number);
        SCITriggerDataInterrupt(inbox, &message, sizeof message, NO_FLAGS, &error);
        must("SCITriggerDataInterrupt", error);
    }
    printf("sent %u messages\n", messages);
}

int main(int argc, char **argv)
{
    sci_desc_t sd = begin();
    if (argc == 4 && !strcmp(argv[1], "receive"))
        receive(sd, (unsigned int)atoi(argv[2]), (unsigned int)atoi(argv[3]));
    else if (argc == 4 && !strcmp(argv[1], "send"))
        send_all(sd, (unsigned int)atoi(argv[2]), (unsigned int)atoi(argv[3]));
    else wrong_usage("data_interrupts receive SENDERS MESSAGES | data_interrupts send NODE MESSAGES");
    SCITerminate();
    return 0;
}
