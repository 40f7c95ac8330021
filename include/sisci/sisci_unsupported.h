/*
 * Functions that need hardware: they exist so that programs which name them link, and answer SCI_ERR_NOT_IMPLEMENTED.
 * Included by sisci_api.h. SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef SISCI_UNSUPPORTED_H
#define SISCI_UNSUPPORTED_H

/* ---- Registers of the adapter (SISCI 1.x, privileged) ---------------------------------------------------------------- */

unsigned int SCIGetCSRRegister(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId, unsigned int offset,
                               unsigned int flags, sci_error_t *error);
void SCISetCSRRegister(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId, unsigned int offset,
                       unsigned int value, unsigned int flags, sci_error_t *error);
unsigned int SCIGetLocalCSR(sci_desc_t sd, unsigned int localAdapterNo, unsigned int offset, unsigned int flags,
                            sci_error_t *error);
void SCISetLocalCSR(sci_desc_t sd, unsigned int localAdapterNo, unsigned int offset, unsigned int value,
                    unsigned int flags, sci_error_t *error);
void SCIConnectSCISpace(sci_desc_t sd, unsigned int localAdapterNo, sci_remote_segment_t *segment,
                        sci_address_t address, size_t size, unsigned int flags, sci_error_t *error);

/* ---- Conditional interrupts ------------------------------------------------------------------------------------------- */

void SCIRegisterInterruptFlag(unsigned int localAdapterNo, sci_local_interrupt_t *interrupt,
                              sci_local_segment_t segment, unsigned int offset, sci_cb_interrupt_t callback,
                              void *callbackArg, unsigned int flags, sci_error_t *error);
void SCIEnableConditionalInterrupt(sci_local_interrupt_t interrupt, unsigned int flags, sci_error_t *error);
void SCIDisableConditionalInterrupt(sci_local_interrupt_t interrupt, unsigned int flags, sci_error_t *error);
void SCIGetConditionalInterruptTrigCounter(sci_local_interrupt_t interrupt, unsigned int *interruptTrigCounter,
                                           unsigned int flags, sci_error_t *error);
void SCICreateNamedInterrupt(sci_desc_t sd, sci_local_interrupt_t *interrupt, unsigned int localAdapterNo,
                             char *name, sci_cb_interrupt_t callback, void *callbackArg, unsigned int flags,
                             sci_error_t *error);

/* ---- Physical DMA ------------------------------------------------------------------------------------------------------- */

void SCIphDmaEnqueue(sci_dma_queue_t queue, unsigned int size, sci_ioaddr_t localBusAddress, unsigned int remoteNodeId,
                     unsigned int remoteHighAddress, unsigned int remoteLowAddress, unsigned int flags,
                     sci_error_t *error);
sci_dma_queue_state_t SCIphDmaStart(sci_dma_queue_t queue, sci_cb_dma_t callback, void *callbackArg,
                                    unsigned int flags, sci_error_t *error);
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
                             unsigned int memoryType, sci_cb_remote_segment_t callback, void *callbackArg,
                             unsigned int flags, sci_error_t *error);
void SCIConnectDeviceSegmentPath(sci_device_t device, sci_remote_segment_t *segment, unsigned int segmentId,
                                 unsigned int memoryType, unsigned int localAdapterNo,
                                 sci_cb_remote_segment_t callback, void *callbackArg, unsigned int flags,
                                 sci_error_t *error);
void SCIConnectDeviceMemory(sci_desc_t sd, sci_remote_segment_t *segment, unsigned int localAdapterNo,
                            sci_device_t device, unsigned int segmentNo, unsigned int timeout, unsigned int flags,
                            sci_error_t *error);
void SCICreateDeviceSegment(sci_device_t device, unsigned int segmentId, size_t size, unsigned int memoryType,
                            unsigned int accessHints, unsigned int flags, sci_error_t *error);
void SCIMapLocalSegmentForDevice(sci_local_segment_t segment, unsigned int localAdapterNo, sci_device_t device,
                                 sci_ioaddr_t *address, size_t offset, size_t size, unsigned int flags,
                                 sci_error_t *error);
void SCIUnmapLocalSegmentForDevice(sci_local_segment_t segment, unsigned int localAdapterNo, sci_device_t device,
                                   unsigned int flags, sci_error_t *error);
void SCIMapRemoteSegmentForDevice(sci_remote_segment_t segment, sci_device_t device, sci_ioaddr_t *address,
                                  size_t offset, size_t size, unsigned int flags, sci_error_t *error);
void SCIUnmapRemoteSegmentForDevice(sci_remote_segment_t segment, sci_device_t device, unsigned int flags,
                                    sci_error_t *error);
/* How many devices there are, of which so many as have room are written. */
size_t SCIGetDeviceList(sci_desc_t sd, unsigned int *fabricDeviceIds, size_t length,
                        sci_smartio_device_info_t *filter, unsigned int flags, sci_error_t *error);
unsigned int SCIGetFabricDeviceId(sci_device_t device);
void SCIRegisterPCIeRequester(sci_desc_t sd, unsigned int localAdapterNo, unsigned int bus, unsigned int devfn,
                              unsigned int flags, sci_error_t *error);
void SCIUnregisterPCIeRequester(sci_desc_t sd, unsigned int localAdapterNo, unsigned int bus, unsigned int devfn,
                                unsigned int flags, sci_error_t *error);

/* ---- Argument lists of older releases --------------------------------------------------------------------------------- */

/* Programs that were written for them map a segment for a device without a size (offset, flags): all of it. */
#define SISCI_PICK_8(a1, a2, a3, a4, a5, a6, a7, a8, name, ...) name
#define SISCI_PICK_7(a1, a2, a3, a4, a5, a6, a7, name, ...) name

#define SISCI_MAP_LOCAL_8(segment, adapter, device, address, offset, size, flags, error)                               \
    (SCIMapLocalSegmentForDevice)(segment, adapter, device, address, offset, size, flags, error)
#define SISCI_MAP_LOCAL_7(segment, adapter, device, address, offset, flags, error)                                     \
    (SCIMapLocalSegmentForDevice)(segment, adapter, device, address, offset, SCIGetLocalSegmentSize(segment), flags,   \
                                  error)
#define SCIMapLocalSegmentForDevice(...)                                                                               \
    SISCI_PICK_8(__VA_ARGS__, SISCI_MAP_LOCAL_8, SISCI_MAP_LOCAL_7, 0)(__VA_ARGS__)

#define SISCI_MAP_REMOTE_7(segment, device, address, offset, size, flags, error)                                       \
    (SCIMapRemoteSegmentForDevice)(segment, device, address, offset, size, flags, error)
#define SISCI_MAP_REMOTE_6(segment, device, address, offset, flags, error)                                             \
    (SCIMapRemoteSegmentForDevice)(segment, device, address, offset, SCIGetRemoteSegmentSize(segment), flags, error)
#define SCIMapRemoteSegmentForDevice(...)                                                                              \
    SISCI_PICK_7(__VA_ARGS__, SISCI_MAP_REMOTE_7, SISCI_MAP_REMOTE_6, 0)(__VA_ARGS__)

/* They name the device before the adapter. C++ tells the two by an overload, which lies behind the `extern "C"` of sisci_api.h. */
#if !defined(__cplusplus) && defined(__GNUC__)
#define SISCI_IS_DEVICE(thing) __builtin_types_compatible_p(__typeof__(thing), sci_device_t)
#define SCIConnectDeviceMemory(sd, segment, first, second, segmentNo, timeout, flags, error)                           \
    (SCIConnectDeviceMemory)(sd, segment,                                                                              \
                             SISCI_IS_DEVICE(first) ? (unsigned int)(size_t)(second) : (unsigned int)(size_t)(first),  \
                             SISCI_IS_DEVICE(first) ? (sci_device_t)(size_t)(first) : (sci_device_t)(size_t)(second),  \
                             segmentNo, timeout, flags, error)
#endif

#endif
