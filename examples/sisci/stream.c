/*
 * A stream of blocks that survives a link which fails: a sequence says whether what was stored has arrived, and what may not
 * have is stored again.
 *
 *   stream receive BLOCKS
 *   stream send NODE BLOCKS
 */
#include "common.h"

#define STREAM 2
#define WORDS 1000

struct block {
    volatile unsigned int number; /* stored last: the words are there */
    volatile unsigned int taken;  /* set by the receiver */
    volatile unsigned int words[WORDS];
};

static void receive(sci_desc_t sd, unsigned int blocks)
{
    sci_local_segment_t segment;
    struct block *block = offer(sd, STREAM, sizeof *block, &segment);
    unsigned int number, i;
    for (number = 1; number <= blocks; number++) {
        while (block->number != number) usleep(10);
        for (i = 0; i < WORDS; i++) {
            if (block->words[i] != number + i) {
                fprintf(stderr, "block %u: word %u is %u\n", number, i, block->words[i]);
                exit(1);
            }
        }
        block->taken = number;
    }
    printf("received %u blocks\n", blocks);
    sleep(1); /* the sender still looks at what was taken */
}

/* While the link is down the status is pending; when it is up again the sequence can be started. */
static void start(sci_sequence_t sequence)
{
    sci_error_t error;
    sci_sequence_status_t status;
    do {
        status = SCIStartSequence(sequence, NO_FLAGS, &error);
        must("SCIStartSequence", error);
        if (status == SCI_SEQ_PENDING) usleep(1000);
    } while (status == SCI_SEQ_PENDING);
    if (status != SCI_SEQ_OK) {
        fprintf(stderr, "the receiver is gone\n");
        exit(1);
    }
}

/* Whether all that was stored since the start has arrived. */
static int has_arrived(sci_sequence_t sequence)
{
    sci_error_t error;
    sci_sequence_status_t status = SCICheckSequence(sequence, NO_FLAGS, &error);
    must("SCICheckSequence", error);
    return status == SCI_SEQ_OK;
}

/* The number goes after the words have arrived, not only after they were stored: the link may come back between the two. */
static unsigned int send_block(struct block *block, sci_sequence_t sequence, unsigned int number)
{
    unsigned int tries = 0, i;
    do {
        start(sequence);
        for (i = 0; i < WORDS; i++) block->words[i] = number + i;
        tries++;
    } while (!has_arrived(sequence));
    do {
        start(sequence);
        block->number = number;
    } while (!has_arrived(sequence));
    return tries;
}

static void send_all(sci_desc_t sd, unsigned int node, unsigned int blocks)
{
    sci_error_t error;
    sci_map_t map;
    sci_sequence_t sequence;
    struct block *block;
    unsigned int number, tries = 0;
    block = (struct block *)SCIMapRemoteSegment(find(sd, node, STREAM), &map, 0, sizeof *block, NULL, NO_FLAGS, &error);
    must("SCIMapRemoteSegment", error);
    SCICreateMapSequence(map, &sequence, NO_FLAGS, &error);
    must("SCICreateMapSequence", error);
    printf("streaming to node %u\n", node);
    fflush(stdout);
    for (number = 1; number <= blocks; number++) {
        tries += send_block(block, sequence, number);
        while (block->taken != number) usleep(10);
    }
    printf("sent %u blocks, %u again\n", blocks, tries - blocks);
}

int main(int argc, char **argv)
{
    sci_desc_t sd = begin();
    if (argc == 3 && !strcmp(argv[1], "receive")) receive(sd, (unsigned int)atoi(argv[2]));
    else if (argc == 4 && !strcmp(argv[1], "send"))
        send_all(sd, (unsigned int)atoi(argv[2]), (unsigned int)atoi(argv[3]));
    else wrong_usage("stream receive BLOCKS | stream send NODE BLOCKS");
    SCITerminate();
    return 0;
}
