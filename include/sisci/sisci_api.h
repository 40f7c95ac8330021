/*
 * The SISCI API: shared memory between nodes, from C and C++.
 *
 * Link with -lsisci. Each function sets its last argument to SCI_ERR_OK or to an error code of sisci_error.h, which
 * SCIGetErrorString puts into words. docs/sisci.md says of each function what it does and where it differs.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef SISCI_API_H
#define SISCI_API_H

#include "sisci_error.h"
#include "sisci_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Constants ---------------------------------------------------------------------------------------------------- */

#define SCI_INFINITE_TIMEOUT 0xffffffffU
#define SCI_LOCAL_HOST 0U
#define DIS_BROADCAST_NODEID_GROUP_ALL 252U
#define DIS_DMA_MAX_VECLEN 256U

/* Flags. Their values overlap between functions. Open and create: */
#define SCI_FLAG_USE_CALLBACK 0x1U
#define SCI_FLAG_EMPTY 0x2U
#define SCI_FLAG_PRIVATE 0x4U
#define SCI_FLAG_DMA_SOURCE_ONLY 0x8U
#define SCI_FLAG_FORCE_REMOVE 0x20U
#define SCI_FLAG_ALLOW_UNICAST 0x80U
#define SCI_FLAG_LOCK_USER_MEM 0x400U
#define SCI_FLAG_PHYSICAL 0x1000U
#define SCI_FLAG_CUDA_BUFFER 0x2000U
#define SCI_FLAG_SCIF_BUFFER 0x4000U
#define SCI_FLAG_BROADCAST 0x40000U
#define SCI_FLAG_AUTO_ID 0x20000000U
#define SCI_FLAG_THREAD_SAFE 0x100000U
#define SCI_FLAG_ASYNCHRONOUS_CONNECT 0x200000U
/* SCISetSegmentUnavailable: */
#define SCI_FLAG_FORCE_DISCONNECT 0x1U
#define SCI_FLAG_NOTIFY 0x2U
/* Maps: */
#define SCI_FLAG_FIXED_MAP_ADDR 0x1U
#define SCI_FLAG_READONLY_MAP 0x2U
#define SCI_FLAG_LOCK_OPERATION 0x4U
#define SCI_FLAG_CONDITIONAL_INTERRUPT_MAP 0x8U
#define SCI_FLAG_UNCONDITIONAL_DATA_INTERRUPT_MAP 0x10U
#define SCI_FLAG_UNCONDITIONAL_INTERRUPT_MAP SCI_FLAG_UNCONDITIONAL_DATA_INTERRUPT_MAP
#define SCI_FLAG_READ_PREFETCH_AGGR_HOLD_MAP 0x20U
#define SCI_FLAG_READ_PREFETCH_NO_HOLD_MAP 0x40U
#define SCI_FLAG_IO_MAP_IOSPACE 0x80U
#define SCI_FLAG_DMOVE_MAP 0x100U
#define SCI_FLAG_WRITES_DISABLE_GATHER_MAP 0x200U
#define SCI_FLAG_DISABLE_128_BYTES_PACKETS 0x400U
#define SCI_FLAG_NO_MEMORY_LOOPBACK 0x800U
#define SCI_FLAG_NO_MEMORY_LOOPBACK_MAP SCI_FLAG_NO_MEMORY_LOOPBACK
#define SCI_FLAG_SHARED_MAP 0x2000U
#define SCI_FLAG_WRITE_BACK_CACHE_MAP 0x08000000U
/* tieline's own: for copies alone, not for loads and stores. */
#define SCI_FLAG_COPY_ONLY_MAP 0x400000U
/* DMA: */
#define SCI_FLAG_DMA_CHANNEL_SHARED 0x1U
#define SCI_FLAG_DMA_WAIT 0x4U
#define SCI_FLAG_DMA_READ 0x10U
#define SCI_FLAG_DMA_PHDMA 0x20U
#define SCI_FLAG_DMA_GLOBAL 0x40U
#define SCI_FLAG_DMA_SYSDMA 0x100U
#define SCI_FLAG_DMA_USER_MEM 0x200U
#define SCI_FLAG_DMA_ADAPTER 0x800U
#define SCI_FLAG_DMA_POST 0x1000U
#define SCI_FLAG_DMA_RESET 0x2000U
/* Interrupts: */
#define SCI_FLAG_FIXED_INTNO 0x2U
#define SCI_FLAG_SHARED_INT 0x4U
#define SCI_FLAG_CONDITIONAL_INTERRUPT 0x8U
#define SCI_FLAG_COUNTING_INT 0x20U
#define SCI_FLAG_SHARE_EXTERNAL 0x40U
/* Copies, sequences and flushes: */
#define SCI_FLAG_BLOCK_READ 0x2U
#define SCI_FLAG_ERROR_CHECK 0x8U
#define SCI_FLAG_FAST_BARRIER 0x1U
#define SCI_FLAG_NO_FLUSH 0x10U
#define SCI_FLAG_NO_STORE_BARRIER 0x20U
#define SCI_FLAG_FLUSH_CPU_BUFFERS_ONLY 0x40U
#define FLUSH_CPU_BUFFERS_ONLY SCI_FLAG_FLUSH_CPU_BUFFERS_ONLY
#define SCI_FLAG_CACHE_FLUSH 0x100000U
#define SCI_FLAG_CACHE_INVALIDATE 0x200000U
/* Devices: */
#define SCI_FLAG_BAR 0x1U
#define SCI_FLAG_SHARED 0x2U
#define SCI_FLAG_EXCLUSIVE 0x01000000U
#define SCI_FLAG_DEVICE_SIDE_ONLY 0x02001000U
#define SCI_FLAG_LOCAL_ONLY 0x02002000U
#define SCI_FLAG_DEVICE_PREFER_BANDWIDTH 0x04000001U
#define SCI_FLAG_HOST_PREFER_BANDWIDTH 0x04000002U
#define SCI_FLAG_SPECIFY_PATH 0x10000000U
#define SCI_FLAG_SPECIFY_SLOT 0x20000000U
#define SCI_FLAG_PCIE_REQUESTER_GLOBAL 0x1U
#define SCI_MEMTYPE_BAR 1U
#define SCI_MEMTYPE_PRIVATE 2U
#define SCI_MEMTYPE_SHARED 4U
#define SCI_MEMACCESS_DEVICE_READ 0x1U
#define SCI_MEMACCESS_DEVICE_WRITE 0x2U
#define SCI_MEMACCESS_HOST_READ 0x4U
#define SCI_MEMACCESS_HOST_WRITE 0x8U
#define SCI_MEMACCESS_MULTIHOST_READ (0x10U | SCI_MEMACCESS_HOST_READ)
#define SCI_MEMACCESS_MULTIHOST_WRITE (0x10U | SCI_MEMACCESS_HOST_WRITE)
#define SCI_MEMACCESS_P2P_READ (0x20U | SCI_MEMACCESS_DEVICE_READ)
#define SCI_MEMACCESS_P2P_WRITE (0x20U | SCI_MEMACCESS_DEVICE_WRITE)

/* Kinds of DMA engines. */
#define SCI_DMA_TYPE_DONTCARE 1U
#define SCI_DMA_TYPE_ADAPTER 2U
#define SCI_DMA_TYPE_GLOBAL 3U
#define SCI_DMA_TYPE_SYSTEM 4U
#define SCI_DMA_TYPE_TRANSPARENT 5U
#define SCI_DMA_CHANNEL_ID_DONTCARE 0xffffffffU

/* Commands of SCIQuery, and their subcommands. */
#define SCI_Q_ADAPTER 1U
#define SCI_Q_SYSTEM 2U
#define SCI_Q_LOCAL_SEGMENT 3U
#define SCI_Q_REMOTE_SEGMENT 4U
#define SCI_Q_MAP 5U
#define SCI_Q_VENDORID 6U
#define SCI_Q_API 7U
#define SCI_Q_DMA 8U
#define SCI_Q_SISCI_DRIVER_VERSION 9U
#define SCI_Q_DEVICE 10U

#define SCI_Q_ADAPTER_SERIAL_NUMBER 0x101U
#define SCI_Q_ADAPTER_CARD_TYPE 0x102U
#define SCI_Q_ADAPTER_NODEID 0x103U
#define SCI_Q_ADAPTER_CONFIGURED 0x104U
#define SCI_Q_ADAPTER_DMA_MTU 0x105U
#define SCI_Q_ADAPTER_MCAST_MAX_GROUPS 0x106U
#define SCI_Q_ADAPTER_BDF 0x107U
#define SCI_Q_ADAPTER_NUMBER_OF_LINKS 0x108U
#define SCI_Q_ADAPTER_LINK_OPERATIONAL 0x109U
#define SCI_Q_ADAPTER_LINK_WIDTH 0x10AU
#define SCI_Q_ADAPTER_LINK_SPEED 0x10BU
#define SCI_Q_ADAPTER_LINK_UPTIME 0x10CU
#define SCI_Q_ADAPTER_LINK_DOWNTIME 0x10DU
#define SCI_Q_ADAPTER_LINK_CABLE_INSERTED 0x10EU
#define SCI_Q_ADAPTER_LINK_ENABLED 0x10FU
#define SCI_Q_ADAPTER_LINK_PARTNER_PORT_NO 0x110U
#define SCI_Q_ADAPTER_DMA_SIZE_ALIGNMENT 0x120U
#define SCI_Q_ADAPTER_DMA_OFFSET_ALIGNMENT 0x121U
#define SCI_Q_ADAPTER_SUGGESTED_MIN_DMA_SIZE 0x122U
#define SCI_Q_ADAPTER_SUGGESTED_MIN_BLOCK_SIZE 0x123U
#define SCI_Q_ADAPTER_NUMBER_OF_STREAMS 0x124U
#define SCI_Q_ADAPTER_STREAM_BUFFER_SIZE 0x125U
#define SCI_Q_ADAPTER_HW_LINK_STATUS_IS_OK 0x126U
#define SCI_Q_ADAPTER_NUMBER 0x127U
#define SCI_Q_ADAPTER_INSTANCE_NUMBER 0x128U
#define SCI_Q_ADAPTER_FIRMWARE_OK 0x129U
#define SCI_Q_ADAPTER_CONNECTED_TO_SWITCH 0x12AU
#define SCI_Q_ADAPTER_LOCAL_SWITCH_TYPE 0x12BU
#define SCI_Q_ADAPTER_LOCAL_SWITCH_PORT_NUMBER 0x12CU
#define SCI_Q_ADAPTER_CONNECTED_TO_EXPECTED_SWITCH_PORT 0x12DU
#define SCI_Q_ADAPTER_ATT_PAGE_SIZE 0x12EU
#define SCI_Q_ADAPTER_ATT_NUMBER_OF_ENTRIES 0x12FU
#define SCI_Q_ADAPTER_ATT_AVAILABLE_ENTRIES 0x130U

#define SCI_Q_SYSTEM_CPU_CACHE_LINE_SIZE 0x201U
#define SCI_Q_SYSTEM_HOSTBRIDGE 0x202U
#define SCI_Q_SYSTEM_WRITE_POSTING_ENABLED 0x203U
#define SCI_Q_SYSTEM_WRITE_COMBINING_ENABLED 0x204U
/* What SCI_Q_SYSTEM_HOSTBRIDGE and SCI_Q_SYSTEM_WRITE_POSTING_ENABLED answer. */
#define HOSTBRIDGE_NOT_AVAILABLE 0U
#define HOSTBRIDGE_UNKNOWN 1U
#define HOSTBRIDGE_WRITE_POSTING_DISABLED 0U
#define HOSTBRIDGE_WRITE_POSTING_ENABLED 1U

#define SCI_Q_LOCAL_SEGMENT_IOADDR 0x301U
#define SCI_Q_LOCAL_SEGMENT_PHYS_ADDR 0x302U
#define SCI_Q_LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR 0x303U
#define SCI_Q_REMOTE_SEGMENT_IOADDR 0x401U
#define SCI_Q_MAP_MAPPED_TO_LOCAL_TARGET 0x501U
#define SCI_Q_MAP_IOADDR 0x502U
#define SCI_Q_MAP_PHYS_ADDR 0x503U
#define SCI_Q_DMA_AVAILABLE 0x801U
#define SCI_Q_DMA_CAPABILITIES 0x802U
#define SCI_Q_DEVICE_INFO 0xA01U

/* ---- Beginning and end ---------------------------------------------------------------------------------------------- */

void SCIInitialize(unsigned int flags, sci_error_t *error);
void SCITerminate(void);
void SCIOpen(sci_desc_t *sd, unsigned int flags, sci_error_t *error);
void SCIClose(sci_desc_t sd, unsigned int flags, sci_error_t *error);

/* ---- Local segments ------------------------------------------------------------------------------------------------- */

void SCICreateSegment(sci_desc_t sd, sci_local_segment_t *segment, unsigned int segmentId, size_t size,
                      sci_cb_local_segment_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);
void SCIPrepareSegment(sci_local_segment_t segment, unsigned int localAdapterNo, unsigned int flags,
                       sci_error_t *error);
void SCISetSegmentAvailable(sci_local_segment_t segment, unsigned int localAdapterNo, unsigned int flags,
                            sci_error_t *error);
void SCISetSegmentUnavailable(sci_local_segment_t segment, unsigned int localAdapterNo, unsigned int flags,
                              sci_error_t *error);
void SCIRemoveSegment(sci_local_segment_t segment, unsigned int flags, sci_error_t *error);
void *SCIMapLocalSegment(sci_local_segment_t segment, sci_map_t *map, size_t offset, size_t size, void *addr,
                         unsigned int flags, sci_error_t *error);
size_t SCIGetLocalSegmentSize(sci_local_segment_t segment);
unsigned int SCIGetLocalSegmentId(sci_local_segment_t segment);
sci_segment_cb_reason_t SCIWaitForLocalSegmentEvent(sci_local_segment_t segment, unsigned int *sourcenodeId,
                                                    unsigned int *localAdapterNo, unsigned int timeout,
                                                    unsigned int flags, sci_error_t *error);
void SCIShareSegment(sci_local_segment_t segment, unsigned int flags, sci_error_t *error);
void SCIAttachLocalSegment(sci_desc_t sd, sci_local_segment_t *segment, unsigned int segmentId, size_t *size,
                           sci_cb_local_segment_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);
void SCIRegisterSegmentMemory(void *address, size_t size, sci_local_segment_t segment, unsigned int flags,
                              sci_error_t *error);
void SCIAttachPhysicalMemory(sci_ioaddr_t ioaddress, void *address, unsigned int busNo, size_t size,
                             sci_local_segment_t segment, unsigned int flags, sci_error_t *error);

/* ---- Remote segments ------------------------------------------------------------------------------------------------ */

void SCIConnectSegment(sci_desc_t sd, sci_remote_segment_t *segment, unsigned int nodeId, unsigned int segmentId,
                       unsigned int localAdapterNo, sci_cb_remote_segment_t callback, void *callbackArg,
                       unsigned int timeout, unsigned int flags, sci_error_t *error);
void SCIDisconnectSegment(sci_remote_segment_t segment, unsigned int flags, sci_error_t *error);
volatile void *SCIMapRemoteSegment(sci_remote_segment_t segment, sci_map_t *map, size_t offset, size_t size,
                                   void *addr, unsigned int flags, sci_error_t *error);
size_t SCIGetRemoteSegmentSize(sci_remote_segment_t segment);
unsigned int SCIGetRemoteSegmentId(sci_remote_segment_t segment);
unsigned int SCIGetRemoteSegmentNodeId(sci_remote_segment_t segment);
sci_segment_cb_reason_t SCIWaitForRemoteSegmentEvent(sci_remote_segment_t segment, sci_error_t *status,
                                                     unsigned int timeout, unsigned int flags, sci_error_t *error);

/* ---- Maps ----------------------------------------------------------------------------------------------------------- */

void SCIUnmapSegment(sci_map_t map, unsigned int flags, sci_error_t *error);
volatile void *SCIGetMapPointer(sci_map_t map);
sci_ioaddr_t SCIGetMapPhysAddr(sci_map_t map);

/* ---- Ordering and error check --------------------------------------------------------------------------------------- */

void SCICreateMapSequence(sci_map_t map, sci_sequence_t *sequence, unsigned int flags, sci_error_t *error);
void SCIRemoveSequence(sci_sequence_t sequence, unsigned int flags, sci_error_t *error);
sci_sequence_status_t SCIStartSequence(sci_sequence_t sequence, unsigned int flags, sci_error_t *error);
sci_sequence_status_t SCICheckSequence(sci_sequence_t sequence, unsigned int flags, sci_error_t *error);
void SCIStoreBarrier(sci_sequence_t sequence, unsigned int flags);
void SCIFlush(sci_sequence_t sequence, unsigned int flags);
void SCIFlushReadBuffers(sci_sequence_t sequence);
void SCICacheSync(sci_map_t map, void *addr, size_t bytes, unsigned int flags, sci_error_t *error);

/* ---- Copies --------------------------------------------------------------------------------------------------------- */

void SCIMemCpy(sci_sequence_t sequence, void *memAddr, sci_map_t remoteMap, size_t remoteOffset, size_t size,
               unsigned int flags, sci_error_t *error);
void SCIMemCpy_dual(sci_sequence_t sequence1, sci_map_t remoteMap1, sci_sequence_t sequence2, sci_map_t remoteMap2,
                    void *memAddr, size_t remoteOffset, size_t size, unsigned int flags, sci_error_t *error);
void SCIMemWrite(void *memAddr, volatile void *remoteAddr, size_t size, unsigned int flags, sci_error_t *error);
void SCIMemCopy(void *memAddr, sci_map_t remoteMap, unsigned int remoteOffset, unsigned int size, unsigned int flags,
                sci_error_t *error);
void SCITransferBlock(sci_map_t sourceMap, unsigned int sourceOffset, sci_map_t destinationMap,
                      unsigned int destinationOffset, unsigned int size, unsigned int flags, sci_error_t *error);
void SCITransferBlockAsync(sci_map_t sourceMap, unsigned int sourceOffset, sci_map_t destinationMap,
                           unsigned int destinationOffset, unsigned int size, sci_block_transfer_t *block,
                           sci_cb_block_transfer_t callback, void *callbackArg, unsigned int flags,
                           sci_error_t *error);
void SCIWaitForBlockTransfer(sci_block_transfer_t block, unsigned int timeout, unsigned int flags, sci_error_t *error);
void SCIAbortBlockTransfer(sci_block_transfer_t block, unsigned int flags, sci_error_t *error);
int SetSciMemCopyFunction(int function);
int GetSciMemCopyFunction(void);

/* ---- DMA ------------------------------------------------------------------------------------------------------------ */

void SCICreateDMAQueue(sci_desc_t sd, sci_dma_queue_t *queue, unsigned int localAdapterNo, unsigned int maxEntries,
                       unsigned int flags, sci_error_t *error);
void SCIRemoveDMAQueue(sci_dma_queue_t queue, unsigned int flags, sci_error_t *error);
void SCIAbortDMAQueue(sci_dma_queue_t queue, unsigned int flags, sci_error_t *error);
void SCIStartDmaTransfer(sci_dma_queue_t queue, sci_local_segment_t localSegment, sci_remote_segment_t remoteSegment,
                         size_t localOffset, size_t size, size_t remoteOffset, sci_cb_dma_t callback,
                         void *callbackArg, unsigned int flags, sci_error_t *error);
void SCIStartDmaTransferMem(sci_dma_queue_t queue, void *localAddress, sci_remote_segment_t remoteSegment, size_t size,
                            size_t remoteOffset, sci_cb_dma_t callback, void *callbackArg, unsigned int flags,
                            sci_error_t *error);
void SCIStartDmaTransferVec(sci_dma_queue_t queue, sci_local_segment_t localSegment,
                            sci_remote_segment_t remoteSegment, size_t vectorLength, dis_dma_vec_t *vector,
                            sci_cb_dma_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);
sci_dma_queue_state_t SCIDMAQueueState(sci_dma_queue_t queue);
sci_dma_queue_state_t SCIWaitForDMAQueue(sci_dma_queue_t queue, unsigned int timeout, unsigned int flags,
                                         sci_error_t *error);
sci_dma_queue_state_t SCIEnqueueDMATransfer(sci_dma_queue_t queue, sci_local_segment_t localSegment,
                                            sci_remote_segment_t remoteSegment, unsigned int localOffset,
                                            unsigned int remoteOffset, unsigned int size, unsigned int flags,
                                            sci_error_t *error);
void SCIPostDMAQueue(sci_dma_queue_t queue, sci_cb_dma_t callback, void *callbackArg, unsigned int flags,
                     sci_error_t *error);
void SCIResetDMAQueue(sci_dma_queue_t queue, unsigned int flags, sci_error_t *error);
void SCIRequestDMAChannel(sci_desc_t sd, sci_dma_channel_t *channel, unsigned int localAdapterNo, sci_dma_type_t type,
                          unsigned int channelId, unsigned int flags, sci_error_t *error);
void SCIReturnDMAChannel(sci_dma_channel_t channel, sci_error_t *error);
void SCIAssignDMAChannel(sci_dma_channel_t channel, sci_dma_queue_t queue, unsigned int flags, sci_error_t *error);
void SCIPrepareLocalSegmentForDMA(sci_dma_channel_t channel, sci_local_segment_t segment, unsigned int flags,
                                  sci_error_t *error);
void SCIUnprepareLocalSegmentForDMA(sci_dma_channel_t channel, sci_local_segment_t segment, unsigned int flags,
                                    sci_error_t *error);
void SCIPrepareRemoteSegmentForDMA(sci_dma_channel_t channel, sci_remote_segment_t segment, unsigned int flags,
                                   sci_error_t *error);
void SCIUnprepareRemoteSegmentForDMA(sci_dma_channel_t channel, sci_remote_segment_t segment, unsigned int flags,
                                     sci_error_t *error);

/* ---- Interrupts ----------------------------------------------------------------------------------------------------- */

void SCICreateInterrupt(sci_desc_t sd, sci_local_interrupt_t *interrupt, unsigned int localAdapterNo,
                        unsigned int *interruptNo, sci_cb_interrupt_t callback, void *callbackArg, unsigned int flags,
                        sci_error_t *error);
void SCIRemoveInterrupt(sci_local_interrupt_t interrupt, unsigned int flags, sci_error_t *error);
void SCIWaitForInterrupt(sci_local_interrupt_t interrupt, unsigned int timeout, unsigned int flags,
                         sci_error_t *error);
void SCIConnectInterrupt(sci_desc_t sd, sci_remote_interrupt_t *interrupt, unsigned int nodeId,
                         unsigned int localAdapterNo, unsigned int interruptNo, unsigned int timeout,
                         unsigned int flags, sci_error_t *error);
void SCIDisconnectInterrupt(sci_remote_interrupt_t interrupt, unsigned int flags, sci_error_t *error);
void SCITriggerInterrupt(sci_remote_interrupt_t interrupt, unsigned int flags, sci_error_t *error);

void SCICreateDataInterrupt(sci_desc_t sd, sci_local_data_interrupt_t *interrupt, unsigned int localAdapterNo,
                            unsigned int *interruptNo, sci_cb_data_interrupt_t callback, void *callbackArg,
                            unsigned int flags, sci_error_t *error);
void SCIRemoveDataInterrupt(sci_local_data_interrupt_t interrupt, unsigned int flags, sci_error_t *error);
void SCIWaitForDataInterrupt(sci_local_data_interrupt_t interrupt, void *data, unsigned int *length,
                             unsigned int timeout, unsigned int flags, sci_error_t *error);
void SCIConnectDataInterrupt(sci_desc_t sd, sci_remote_data_interrupt_t *interrupt, unsigned int nodeId,
                             unsigned int localAdapterNo, unsigned int interruptNo, unsigned int timeout,
                             unsigned int flags, sci_error_t *error);
void SCIDisconnectDataInterrupt(sci_remote_data_interrupt_t interrupt, unsigned int flags, sci_error_t *error);
void SCITriggerDataInterrupt(sci_remote_data_interrupt_t interrupt, void *data, unsigned int length,
                             unsigned int flags, sci_error_t *error);

/* ---- Information ---------------------------------------------------------------------------------------------------- */

int SCIProbeNode(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId, unsigned int flags,
                 sci_error_t *error);
void SCIQuery(unsigned int command, void *data, unsigned int flags, sci_error_t *error);
void SCIGetLocalNodeId(unsigned int localAdapterNo, unsigned int *nodeId, unsigned int flags, sci_error_t *error);
void SCIGetNodeIdByAdapterName(char *adapterName, dis_nodeId_list_t *nodeIds, dis_virt_adapter_t *adapter,
                               unsigned int flags, sci_error_t *error);
void SCIGetNodeInfoByAdapterName(char *adapterName, unsigned int *adapterNo, dis_nodeId_list_t *nodeIds,
                                 dis_virt_adapter_t *adapter, unsigned int flags, sci_error_t *error);
/* The words stay until the thread's next call of this function; those of its last error say more than the code. */
char *SCIGetErrorString(sci_error_t error);
const char *SCIGetAdapterTypeString(unsigned int type);
const char *SCIGetAdapterFamilyString(unsigned int type);

#include "sisci_unsupported.h"

#ifdef __cplusplus
}

/* The argument list of older releases, which names the device before the adapter. */
inline void SCIConnectDeviceMemory(sci_desc_t sd, sci_remote_segment_t *segment, sci_device_t device,
                                   unsigned int localAdapterNo, unsigned int segmentNo, unsigned int timeout,
                                   unsigned int flags, sci_error_t *error)
{
    SCIConnectDeviceMemory(sd, segment, localAdapterNo, device, segmentNo, timeout, flags, error);
}
#endif

#endif
