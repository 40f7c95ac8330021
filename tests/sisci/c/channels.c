/* One program: DMA channels are given to whoever asks, and prepare segments as SCIPrepareSegment does. */
#include "check.h"

#define SIZE 4096

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = start();
    sci_dma_type_t type = SCI_DMA_TYPE_SYSTEM;
    sci_dma_channel_t channel = NULL, other = NULL;
    sci_dma_queue_t queue;
    sci_local_segment_t from, to;
    sci_map_t from_map, to_map;
    OK(SCIRequestDMAChannel(sd, &channel, ADAPTER, type, SCI_DMA_CHANNEL_ID_DONTCARE, NO_FLAGS, &e));
    OK(SCIRequestDMAChannel(sd, &other, ADAPTER, SCI_DMA_TYPE_ADAPTER, 3, NO_FLAGS, &e));
    CHECK(channel != NULL && other != NULL && channel != other);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER,
          SCIRequestDMAChannel(sd, NULL, ADAPTER, type, SCI_DMA_CHANNEL_ID_DONTCARE, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCIRequestDMAChannel(sd, &other, 7, type, 0, NO_FLAGS, &e));

    OK(SCICreateDMAQueue(sd, &queue, ADAPTER, 1, NO_FLAGS, &e));
    OK(SCIAssignDMAChannel(channel, queue, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIAssignDMAChannel(channel, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIAssignDMAChannel(NULL, queue, NO_FLAGS, &e));

    OK(SCICreateSegment(sd, &from, 1, SIZE, NO_CALLBACK, NO_ARG, SCI_FLAG_PRIVATE, &e));
    OK(SCICreateSegment(sd, &to, 2, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_SEGMENT_NOT_PREPARED, SCISetSegmentAvailable(to, ADAPTER, NO_FLAGS, &e));
    OK(SCIPrepareLocalSegmentForDMA(channel, from, NO_FLAGS, &e));
    OK(SCIPrepareLocalSegmentForDMA(channel, to, NO_FLAGS, &e));
    OK(SCISetSegmentAvailable(to, ADAPTER, NO_FLAGS, &e));
    sci_remote_segment_t remote = connect_to(sd, my_node(), 2);
    OK(SCIPrepareRemoteSegmentForDMA(channel, remote, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIPrepareRemoteSegmentForDMA(channel, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIPrepareLocalSegmentForDMA(channel, NULL, NO_FLAGS, &e));

    char *source, *target;
    OK(source = SCIMapLocalSegment(from, &from_map, 0, SIZE, NULL, NO_FLAGS, &e));
    OK(target = SCIMapLocalSegment(to, &to_map, 0, SIZE, NULL, NO_FLAGS, &e));
    memset(source, 0x5a, SIZE);
    OK(SCIStartDmaTransfer(queue, from, remote, 0, SIZE, 0, NO_CALLBACK, NO_ARG, SCI_FLAG_DMA_SYSDMA, &e));
    OK(SCIWaitForDMAQueue(queue, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    CHECK(memcmp(source, target, SIZE) == 0);

    OK(SCIUnprepareRemoteSegmentForDMA(channel, remote, NO_FLAGS, &e));
    OK(SCIUnprepareLocalSegmentForDMA(channel, from, NO_FLAGS, &e));
    OK(SCIReturnDMAChannel(channel, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIReturnDMAChannel(channel, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIUnprepareLocalSegmentForDMA(channel, from, NO_FLAGS, &e));

    /* The other channel is left to SCITerminate. */
    sci_desc_t more;
    OK(SCIOpen(&more, NO_FLAGS, &e));
    OK(SCIRequestDMAChannel(more, &channel, ADAPTER, type, 0, NO_FLAGS, &e));
    FAILS(SCI_ERR_BUSY, SCIClose(more, NO_FLAGS, &e));
    OK(SCIReturnDMAChannel(channel, &e));
    OK(SCIClose(more, NO_FLAGS, &e));
    SCITerminate();
    FAILS(SCI_ERR_NOT_INITIALIZED, SCIReturnDMAChannel(other, &e));
    return 0;
}
