/* Types of the SISCI API. SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef SISCI_TYPES_H
#define SISCI_TYPES_H

#include <stddef.h>

#include "dis_types.h"
#include "sisci_error.h"

/* Directions of parameters, for readers. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef IN_OUT
#define IN_OUT
#endif

/* What the library gives out: never to be looked into, checked by every call that takes it. */
typedef struct sci_desc *sci_desc_t;
typedef struct sci_local_segment *sci_local_segment_t;
typedef struct sci_remote_segment *sci_remote_segment_t;
typedef struct sci_map *sci_map_t;
typedef struct sci_sequence *sci_sequence_t;
typedef struct sci_dma_queue *sci_dma_queue_t;
typedef struct sci_dma_channel *sci_dma_channel_t;
typedef struct sci_local_interrupt *sci_local_interrupt_t;
typedef struct sci_remote_interrupt *sci_remote_interrupt_t;
typedef struct sci_local_data_interrupt *sci_local_data_interrupt_t;
typedef struct sci_remote_data_interrupt *sci_remote_data_interrupt_t;
typedef struct sci_block_transfer *sci_block_transfer_t;
typedef struct sci_device *sci_device_t;
typedef sci_device_t sci_smartio_device_t;

/* An address as a device would see it; here the address in the calling program. */
typedef unsigned long long sci_ioaddr_t;

/* Why a segment's callback is called, or a wait for its events ended. */
typedef enum {
    SCI_CB_CONNECT = 1,
    SCI_CB_DISCONNECT,
    SCI_CB_NOT_OPERATIONAL,
    SCI_CB_OPERATIONAL,
    SCI_CB_LOST
} sci_segment_cb_reason_t;

#define MAX_CB_REASON SCI_CB_LOST

/* Where a DMA queue stands. */
typedef enum {
    SCI_DMAQUEUE_IDLE,
    SCI_DMAQUEUE_GATHER,
    SCI_DMAQUEUE_POSTED,
    SCI_DMAQUEUE_DONE,
    SCI_DMAQUEUE_ABORTED,
    SCI_DMAQUEUE_ERROR
} sci_dma_queue_state_t;

/* What a sequence found. */
typedef enum {
    SCI_SEQ_OK,
    SCI_SEQ_RETRIABLE,
    SCI_SEQ_NOT_RETRIABLE,
    SCI_SEQ_PENDING
} sci_sequence_status_t;

/* Whether a callback wants to be called again. */
typedef enum {
    SCI_CALLBACK_CANCEL = 1,
    SCI_CALLBACK_CONTINUE
} sci_callback_action_t;

/* A kind of DMA engine: SCI_DMA_TYPE_. */
typedef unsigned int sci_dma_type_t;

/* An address of SISCI 1.x. */
typedef struct {
    unsigned short nodeId;
    unsigned short offsHi;
    unsigned int offsLo;
} sci_address_t;

/* One entry of a DMA vector: bytes, and where they lie in either segment. */
typedef struct {
    size_t size;
    size_t local_offset;
    size_t remote_offset;
    unsigned int flags;
} dis_dma_vec_t;

typedef sci_callback_action_t (*sci_cb_local_segment_t)(void *arg, sci_local_segment_t segment,
                                                        sci_segment_cb_reason_t reason, unsigned int nodeId,
                                                        unsigned int localAdapterNo, sci_error_t error);
typedef sci_callback_action_t (*sci_cb_remote_segment_t)(void *arg, sci_remote_segment_t segment,
                                                         sci_segment_cb_reason_t reason, sci_error_t status);
typedef sci_callback_action_t (*sci_cb_dma_t)(void *arg, sci_dma_queue_t queue, sci_error_t status);
typedef sci_callback_action_t (*sci_cb_interrupt_t)(void *arg, sci_local_interrupt_t interrupt, sci_error_t status);
typedef sci_callback_action_t (*sci_cb_data_interrupt_t)(void *arg, sci_local_data_interrupt_t interrupt, void *data,
                                                         unsigned int length, sci_error_t status);
typedef int (*sci_cb_block_transfer_t)(void *arg, sci_block_transfer_t block, sci_error_t status);

/* What SCIQuery takes, by command. Programs of the 1.x days name the structures rather than the types. */
typedef struct sci_query_string {
    char *str;
    unsigned int length;
} sci_query_string_t;

typedef struct sci_query_adapter {
    unsigned int localAdapterNo;
    unsigned int portNo;
    unsigned int subcommand;
    void *data;
} sci_query_adapter_t;

typedef struct sci_query_system {
    unsigned int subcommand;
    void *data;
} sci_query_system_t;

typedef struct sci_query_local_segment {
    sci_local_segment_t segment;
    unsigned int subcommand;
    union {
        sci_ioaddr_t ioaddr;
    } data;
} sci_query_local_segment_t;

typedef struct sci_query_remote_segment {
    sci_remote_segment_t segment;
    unsigned int subcommand;
    union {
        sci_ioaddr_t ioaddr;
    } data;
} sci_query_remote_segment_t;

typedef struct sci_query_map {
    sci_map_t map;
    unsigned int subcommand;
    sci_ioaddr_t data;
} sci_query_map_t;

typedef struct sci_query_dma {
    unsigned int localAdapterNo;
    unsigned int subcommand;
    void *data;
} sci_query_dma_t;

typedef struct {
    unsigned int fdid;
    unsigned int subcommand;
    void *data;
} sci_smartio_query_device_t;

/* What there would be to know of a device; also which devices are looked for. */
typedef struct {
    unsigned int fdid;
    unsigned int node_id;
    unsigned int adapter;
    unsigned int pci_class;
    unsigned int pci_vendor_id;
    unsigned int pci_device_id;
    char user_name[64];
} sci_smartio_device_info_t;

/* What a DMA engine can do; sizes in bytes. */
typedef struct {
    unsigned int num_channels;
    unsigned int max_transfer_size;
    unsigned int max_vector_length;
    unsigned int support_mem2io;
    unsigned int support_io2mem;
    unsigned int support_io2io;
    unsigned int min_align_bytes;
    unsigned int suggested_align_bytes;
} sci_dma_capabilities_t;

#endif
