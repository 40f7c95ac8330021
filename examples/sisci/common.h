/* What the examples share: a call that fails ends the program with the library's words. */
#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sisci_api.h>

#define ADAPTER 0
#define NO_FLAGS 0
#define NO_CALLBACK NULL
#define NO_ARG NULL

static inline void must(const char *call, sci_error_t error)
{
    if (error == SCI_ERR_OK) return;
    fprintf(stderr, "%s: %s\n", call, SCIGetErrorString(error));
    exit(1);
}

static inline sci_desc_t begin(void)
{
    sci_error_t error;
    sci_desc_t sd;
    SCIInitialize(NO_FLAGS, &error);
    must("SCIInitialize", error);
    SCIOpen(&sd, NO_FLAGS, &error);
    must("SCIOpen", error);
    return sd;
}

static inline unsigned int own_node(void)
{
    sci_error_t error;
    unsigned int node;
    SCIGetLocalNodeId(ADAPTER, &node, NO_FLAGS, &error);
    must("SCIGetLocalNodeId", error);
    return node;
}

/* A segment of this program, mapped, and open to everybody. */
static inline void *offer(sci_desc_t sd, unsigned int id, size_t size, sci_local_segment_t *segment)
{
    sci_error_t error;
    sci_map_t map;
    void *memory;
    SCICreateSegment(sd, segment, id, size, NO_CALLBACK, NO_ARG, NO_FLAGS, &error);
    must("SCICreateSegment", error);
    SCIPrepareSegment(*segment, ADAPTER, NO_FLAGS, &error);
    must("SCIPrepareSegment", error);
    memory = SCIMapLocalSegment(*segment, &map, 0, size, NULL, NO_FLAGS, &error);
    must("SCIMapLocalSegment", error);
    SCISetSegmentAvailable(*segment, ADAPTER, NO_FLAGS, &error);
    must("SCISetSegmentAvailable", error);
    return memory;
}

/* A segment of another program, which may still have to create it. */
static inline sci_remote_segment_t find(sci_desc_t sd, unsigned int node, unsigned int id)
{
    sci_error_t error;
    sci_remote_segment_t segment;
    do {
        SCIConnectSegment(sd, &segment, node, id, ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT, NO_FLAGS,
                          &error);
        if (error == SCI_ERR_NO_SUCH_SEGMENT) usleep(1000);
    } while (error == SCI_ERR_NO_SUCH_SEGMENT);
    must("SCIConnectSegment", error);
    return segment;
}

static inline void wrong_usage(const char *usage)
{
    fprintf(stderr, "usage: %s\n", usage);
    exit(2);
}

#endif
