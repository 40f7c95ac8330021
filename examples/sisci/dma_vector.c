/*
 * One DMA transfer that moves many pieces: a matrix is stored in the other node's memory turned by a quarter, row by column.
 *
 *   dma_vector receive
 *   dma_vector send NODE
 */
#include "common.h"

#define MATRIX 3
#define ROWS 16
#define CELLS (ROWS * ROWS)

static void receive(sci_desc_t sd)
{
    sci_error_t error;
    sci_local_segment_t segment;
    sci_local_interrupt_t done;
    unsigned int number = MATRIX, row, column;
    unsigned int (*matrix)[ROWS] = offer(sd, MATRIX, CELLS * sizeof **matrix, &segment);
    SCICreateInterrupt(sd, &done, ADAPTER, &number, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &error);
    must("SCICreateInterrupt", error);
    SCIWaitForInterrupt(done, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
    must("SCIWaitForInterrupt", error);
    for (row = 0; row < ROWS; row++) {
        for (column = 0; column < ROWS; column++) {
            if (matrix[row][column] != column * ROWS + row) {
                fprintf(stderr, "row %u, column %u: %u\n", row, column, matrix[row][column]);
                exit(1);
            }
        }
    }
    printf("received a matrix of %u cells\n", CELLS);
}

static void send_all(sci_desc_t sd, unsigned int node)
{
    sci_error_t error;
    sci_local_segment_t segment;
    sci_remote_segment_t remote = find(sd, node, MATRIX);
    sci_remote_interrupt_t done;
    sci_dma_queue_t queue;
    static dis_dma_vec_t vector[CELLS];
    unsigned int cell;
    unsigned int *matrix = offer(sd, MATRIX, CELLS * sizeof *matrix, &segment);
    for (cell = 0; cell < CELLS; cell++) {
        matrix[cell] = cell;
        vector[cell].size = sizeof *matrix;
        vector[cell].local_offset = cell * sizeof *matrix;
        vector[cell].remote_offset = (cell % ROWS * ROWS + cell / ROWS) * sizeof *matrix;
    }
    SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &error);
    must("SCICreateDMAQueue", error);
    SCIStartDmaTransferVec(queue, segment, remote, CELLS, vector, NO_CALLBACK, NO_ARG, NO_FLAGS, &error);
    must("SCIStartDmaTransferVec", error);
    if (SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error) != SCI_DMAQUEUE_DONE) {
        fprintf(stderr, "the transfer failed: %s\n", SCIGetErrorString(error));
        exit(1);
    }
    do {
        SCIConnectInterrupt(sd, &done, node, ADAPTER, MATRIX, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
    } while (error == SCI_ERR_NO_SUCH_INTNO);
    must("SCIConnectInterrupt", error);
    SCITriggerInterrupt(done, NO_FLAGS, &error);
    must("SCITriggerInterrupt", error);
    printf("sent a matrix of %u cells\n", CELLS);
}

int main(int argc, char **argv)
{
    sci_desc_t sd = begin();
    if (argc == 2 && !strcmp(argv[1], "receive")) receive(sd);
    else if (argc == 3 && !strcmp(argv[1], "send")) send_all(sd, (unsigned int)atoi(argv[2]));
    else wrong_usage("dma_vector receive | dma_vector send NODE");
    SCITerminate();
    return 0;
}
