/*
 * Functions that need hardware: they exist so that programs which name them link, and answer SCI_ERR_NOT_IMPLEMENTED.
 * Included by sisci_api.h. SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef SISCI_UNSUPPORTED_H
#define SISCI_UNSUPPORTED_H

/* ---- Registers of the adapter (SISCI 1.x, privileged) ---------------------------------------------------------------- */

void SCIGetCSRRegister(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId, unsigned int offset,
                       unsigned int *value, unsigned int flags, sci_error_t *error);
void SCISetCSRRegister(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId, unsigned int offset,
                       unsigned int value, unsigned int mask, unsigned int flags, sci_error_t *error);
void SCIGetLocalCSR(sci_desc_t sd, unsigned int localAdapterNo, unsigned int offset, unsigned int *value,
                    unsigned int flags, sci_error_t *error);
void SCISetLocalCSR(sci_desc_t sd, unsigned int localAdapterNo, unsigned int offset, unsigned int value,
                    unsigned int mask, unsigned int flags, sci_error_t *error);
void SCIConnectSCISpace(sci_desc_t sd, unsigned int localAdapterNo, sci_remote_segment_t *segment,
                        sci_address_t address, size_t size, unsigned int flags, sci_error_t *error);

/* ---- Conditional interrupts ------------------------------------------------------------------------------------------- */

void SCIRegisterInterruptFlag(unsigned int localAdapterNo, sci_local_interrupt_t *interrupt,
                              sci_local_segment_t segment, unsigned int offset, sci_cb_interrupt_t callback,
                              void *callbackArg, unsigned int flags, sci_error_t *error);
void SCIEnableConditionalInterrupt(sci_map_t interruptMap, unsigned int flags, sci_error_t *error);
void SCIDisableConditionalInterrupt(sci_map_t interruptMap, unsigned int flags, sci_error_t *error);
void SCIGetConditionalInterruptTrigCounter(sci_map_t interruptMap, unsigned int *interruptTrigCounter,
                                           unsigned int flags, sci_error_t *error);
void SCICreateNamedInterrupt(sci_desc_t sd, sci_local_interrupt_t *interrupt, unsigned int localAdapterNo,
                             char *name, sci_cb_interrupt_t callback, void *callbackArg, unsigned int flags,
                             sci_error_t *error);

/* ---- DMA channels and physical DMA -------------------------------------------------------------------------------------- */

void SCIRequestDMAChannel(sci_desc_t sd, sci_dma_channel_t *channel, unsigned int localAdapterNo, unsigned int type,
                          unsigned int channelId, unsigned int flags, sci_error_t *error);
void SCIReturnDMAChannel(sci_dma_channel_t channel, sci_error_t *error);
void SCIAssignDMAChannel(sci_dma_channel_t channel, sci_dma_queue_t queue, unsigned int flags, sci_error_t *error);
void SCIphDmaEnqueue(sci_dma_queue_t queue, unsigned int size, unsigned int localBusAddress,
                     unsigned int remoteSciAddress, unsigned int flags, sci_error_t *error);
void SCIphDmaStart(sci_dma_queue_t queue, sci_cb_dma_t callback, void *callbackArg, unsigned int flags,
                   sci_error_t *error);
void DISStartDmaTransfer(sci_dma_queue_t queue, sci_local_segment_t localSegment, sci_remote_segment_t remoteSegment,
                         size_t localOffset, size_t size, size_t remoteOffset, sci_cb_dma_t callback,
                         void *callbackArg, unsigned int flags, sci_error_t *error);
void DISStartDmaTransferVec(sci_dma_queue_t queue, sci_local_segment_t localSegment,
                            sci_remote_segment_t remoteSegment, size_t vectorLength, dis_dma_vec_t *vector,
                            sci_cb_dma_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);

/* ---- Devices ---------------------------------------------------------------------------------------------------------- */

void SCIBorrowDevice(sci_desc_t sd, sci_device_t *device, unsigned long long fabricDeviceId, unsigned int flags,
                     sci_error_t *error);
void SCIReturnDevice(sci_device_t device, unsigned int flags, sci_error_t *error);
void SCIReleaseExclusiveBorrow(sci_device_t device, unsigned int flags, sci_error_t *error);
void SCIConnectDeviceSegment(sci_device_t device, sci_remote_segment_t *segment, unsigned int segmentId,
                             unsigned int memoryType, unsigned int memoryAccess, unsigned int flags,
                             sci_error_t *error);
void SCIConnectDeviceSegmentPath(sci_device_t device, sci_remote_segment_t *segment, unsigned int segmentId,
                                 unsigned int memoryType, unsigned int memoryAccess, unsigned int localAdapterNo,
                                 unsigned int flags, sci_error_t *error);
void SCIConnectDeviceMemory(sci_desc_t sd, sci_remote_segment_t *segment, unsigned int nodeId,
                            unsigned long long fabricDeviceId, unsigned int bar, unsigned int localAdapterNo,
                            unsigned int flags, sci_error_t *error);
void SCICreateDeviceSegment(sci_device_t device, sci_local_segment_t *segment, unsigned int segmentId, size_t size,
                            unsigned int memoryType, unsigned int memoryAccess, unsigned int flags,
                            sci_error_t *error);
void SCIMapLocalSegmentForDevice(sci_local_segment_t segment, unsigned int localAdapterNo, sci_device_t device,
                                 sci_ioaddr_t *address, unsigned int flags, sci_error_t *error);
void SCIUnmapLocalSegmentForDevice(sci_local_segment_t segment, unsigned int localAdapterNo, sci_device_t device,
                                   unsigned int flags, sci_error_t *error);
void SCIMapRemoteSegmentForDevice(sci_remote_segment_t segment, sci_device_t device, sci_ioaddr_t *address,
                                  unsigned int flags, sci_error_t *error);
void SCIUnmapRemoteSegmentForDevice(sci_remote_segment_t segment, sci_device_t device, unsigned int flags,
                                    sci_error_t *error);
void SCIGetDeviceList(unsigned int nodeId, unsigned long long *devices, unsigned int *count, unsigned int flags,
                      sci_error_t *error);
void SCIGetFabricDeviceId(sci_device_t device, unsigned long long *fabricDeviceId, unsigned int flags,
                          sci_error_t *error);
void SCIRegisterPCIeRequester(sci_desc_t sd, unsigned int localAdapterNo, unsigned int bus, unsigned int device,
                              unsigned int function, unsigned int flags, sci_error_t *error);
void SCIUnregisterPCIeRequester(sci_desc_t sd, unsigned int localAdapterNo, unsigned int bus, unsigned int device,
                                unsigned int function, unsigned int flags, sci_error_t *error);

#endif
