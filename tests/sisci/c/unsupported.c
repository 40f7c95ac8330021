/* One program: functions that need hardware say that they are not there. */
#include "check.h"

#define NOT_THERE(...) FAILS(SCI_ERR_NOT_IMPLEMENTED, __VA_ARGS__)

static void registers(sci_desc_t sd)
{
    sci_error_t e;
    sci_remote_segment_t remote;
    sci_address_t address = {0, 0, 0};
    NOT_THERE(CHECK(SCIGetCSRRegister(sd, ADAPTER, 4, 0, NO_FLAGS, &e) == 0));
    NOT_THERE(SCISetCSRRegister(sd, ADAPTER, 4, 0, 0, NO_FLAGS, &e));
    NOT_THERE(CHECK(SCIGetLocalCSR(sd, ADAPTER, 0, NO_FLAGS, &e) == 0));
    NOT_THERE(SCISetLocalCSR(sd, ADAPTER, 0, 0, NO_FLAGS, &e));
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

static void physical_memory(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment = make_available(sd, 1, 100);
    NOT_THERE(SCIphDmaEnqueue(NULL, 64, 0, 8, 0, 0, NO_FLAGS, &e));
    NOT_THERE(CHECK(SCIphDmaStart(NULL, NO_CALLBACK, NO_ARG, NO_FLAGS, &e) == SCI_DMAQUEUE_ERROR));
    NOT_THERE(SCIAttachPhysicalMemory(0x1000, NULL, 0, 64, segment, NO_FLAGS, &e));
}

static void devices(sci_desc_t sd)
{
    sci_error_t e;
    sci_smartio_device_t device = NULL;
    sci_smartio_device_info_t info = {0};
    sci_smartio_query_device_t query = {0};
    sci_remote_segment_t remote;
    sci_ioaddr_t address;
    unsigned int ids[4] = {0};
    NOT_THERE(SCIBorrowDevice(sd, &device, 1, SCI_FLAG_EXCLUSIVE, &e));
    NOT_THERE(SCIReturnDevice(device, NO_FLAGS, &e));
    NOT_THERE(SCIReleaseExclusiveBorrow(device, NO_FLAGS, &e));
    NOT_THERE(SCIConnectDeviceSegment(device, &remote, 1, SCI_MEMTYPE_BAR, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    NOT_THERE(SCIConnectDeviceSegmentPath(device, &remote, 1, SCI_MEMTYPE_BAR, ADAPTER, NO_CALLBACK, NO_ARG, NO_FLAGS,
                                          &e));
    NOT_THERE(SCIConnectDeviceMemory(sd, &remote, ADAPTER, device, 0, 0, SCI_FLAG_BAR, &e));
    NOT_THERE(SCICreateDeviceSegment(device, 1, 64, SCI_MEMTYPE_PRIVATE, SCI_MEMACCESS_DEVICE_READ, NO_FLAGS, &e));
    NOT_THERE(SCIMapLocalSegmentForDevice(NULL, ADAPTER, device, &address, 0, 64, NO_FLAGS, &e));
    NOT_THERE(SCIUnmapLocalSegmentForDevice(NULL, ADAPTER, device, NO_FLAGS, &e));
    NOT_THERE(SCIMapRemoteSegmentForDevice(NULL, device, &address, 0, 64, NO_FLAGS, &e));
    NOT_THERE(SCIUnmapRemoteSegmentForDevice(NULL, device, NO_FLAGS, &e));
    info.pci_class = 0x010802;
    NOT_THERE(CHECK(SCIGetDeviceList(sd, ids, 4, &info, NO_FLAGS, &e) == 0));
    CHECK(SCIGetFabricDeviceId(device) == 0);
    query.subcommand = SCI_Q_DEVICE_INFO;
    query.data = &info;
    NOT_THERE(SCIQuery(SCI_Q_DEVICE, &query, NO_FLAGS, &e));
    NOT_THERE(SCIRegisterPCIeRequester(sd, ADAPTER, 1, 0, SCI_FLAG_PCIE_REQUESTER_GLOBAL, &e));
    NOT_THERE(SCIUnregisterPCIeRequester(sd, ADAPTER, 1, 0, NO_FLAGS, &e));
}

int main(void)
{
    sci_desc_t sd = start();
    registers(sd);
    conditional_interrupts(sd);
    physical_memory(sd);
    devices(sd);
    SCITerminate();
    return 0;
}
