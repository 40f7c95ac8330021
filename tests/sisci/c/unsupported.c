/* One program: functions that need hardware say that they are not there. */
#include "check.h"

#define NOT_THERE(...) FAILS(SCI_ERR_NOT_IMPLEMENTED, __VA_ARGS__)

static void registers(sci_desc_t sd)
{
    sci_error_t e;
    unsigned int value = 0;
    sci_remote_segment_t remote;
    sci_address_t address = {0, 0, 0};
    NOT_THERE(SCIGetCSRRegister(sd, ADAPTER, 4, 0, &value, NO_FLAGS, &e));
    NOT_THERE(SCISetCSRRegister(sd, ADAPTER, 4, 0, 0, 0, NO_FLAGS, &e));
    NOT_THERE(SCIGetLocalCSR(sd, ADAPTER, 0, &value, NO_FLAGS, &e));
    NOT_THERE(SCISetLocalCSR(sd, ADAPTER, 0, 0, 0, NO_FLAGS, &e));
    NOT_THERE(SCIConnectSCISpace(sd, ADAPTER, &remote, address, 64, NO_FLAGS, &e));
}

static void conditional_interrupts(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_interrupt_t interrupt;
    unsigned int value;
    char name[] = "name";
    NOT_THERE(SCIRegisterInterruptFlag(ADAPTER, &interrupt, NULL, 0, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    NOT_THERE(SCIEnableConditionalInterrupt(NULL, NO_FLAGS, &e));
    NOT_THERE(SCIDisableConditionalInterrupt(NULL, NO_FLAGS, &e));
    NOT_THERE(SCIGetConditionalInterruptTrigCounter(NULL, &value, NO_FLAGS, &e));
    NOT_THERE(SCICreateNamedInterrupt(sd, &interrupt, ADAPTER, name, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
}

static void channels(sci_desc_t sd)
{
    sci_error_t e;
    sci_dma_channel_t channel;
    sci_local_segment_t segment = make_available(sd, 1, 100);
    NOT_THERE(SCIRequestDMAChannel(sd, &channel, ADAPTER, SCI_DMA_TYPE_DONTCARE, SCI_DMA_CHANNEL_ID_DONTCARE,
                                   NO_FLAGS, &e));
    NOT_THERE(SCIReturnDMAChannel(NULL, &e));
    NOT_THERE(SCIAssignDMAChannel(NULL, NULL, NO_FLAGS, &e));
    NOT_THERE(SCIphDmaEnqueue(NULL, 64, 0, 0, NO_FLAGS, &e));
    NOT_THERE(SCIphDmaStart(NULL, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    NOT_THERE(SCIAttachPhysicalMemory(0x1000, NULL, 0, 64, segment, NO_FLAGS, &e));
}

static void devices(sci_desc_t sd)
{
    sci_error_t e;
    sci_device_t device = NULL;
    sci_remote_segment_t remote;
    sci_local_segment_t local;
    sci_ioaddr_t address;
    unsigned long long id;
    unsigned int count = 1;
    NOT_THERE(SCIBorrowDevice(sd, &device, 1, NO_FLAGS, &e));
    NOT_THERE(SCIReturnDevice(device, NO_FLAGS, &e));
    NOT_THERE(SCIReleaseExclusiveBorrow(device, NO_FLAGS, &e));
    NOT_THERE(SCIConnectDeviceSegment(device, &remote, 1, SCI_MEMTYPE_BAR, SCI_MEMACCESS_HOST_READ, NO_FLAGS, &e));
    NOT_THERE(SCIConnectDeviceSegmentPath(device, &remote, 1, SCI_MEMTYPE_BAR, SCI_MEMACCESS_HOST_READ, ADAPTER,
                                          NO_FLAGS, &e));
    NOT_THERE(SCIConnectDeviceMemory(sd, &remote, 4, 1, 0, ADAPTER, NO_FLAGS, &e));
    NOT_THERE(SCICreateDeviceSegment(device, &local, 1, 64, SCI_MEMTYPE_PRIVATE, SCI_MEMACCESS_DEVICE_READ, NO_FLAGS,
                                     &e));
    NOT_THERE(SCIMapLocalSegmentForDevice(NULL, ADAPTER, device, &address, NO_FLAGS, &e));
    NOT_THERE(SCIUnmapLocalSegmentForDevice(NULL, ADAPTER, device, NO_FLAGS, &e));
    NOT_THERE(SCIMapRemoteSegmentForDevice(NULL, device, &address, NO_FLAGS, &e));
    NOT_THERE(SCIUnmapRemoteSegmentForDevice(NULL, device, NO_FLAGS, &e));
    NOT_THERE(SCIGetDeviceList(4, &id, &count, NO_FLAGS, &e));
    NOT_THERE(SCIGetFabricDeviceId(device, &id, NO_FLAGS, &e));
    NOT_THERE(SCIRegisterPCIeRequester(sd, ADAPTER, 0, 0, 0, NO_FLAGS, &e));
    NOT_THERE(SCIUnregisterPCIeRequester(sd, ADAPTER, 0, 0, 0, NO_FLAGS, &e));
}

int main(void)
{
    sci_desc_t sd = start();
    registers(sd);
    conditional_interrupts(sd);
    channels(sd);
    devices(sd);
    SCITerminate();
    return 0;
}
