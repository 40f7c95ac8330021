/*
 * What the test programs share. A program ends with 0 when all is as expected, else with 1 and the place. It speaks with
 * the test by lines: `say` on standard output, `hear` on standard input. Who hangs is ended by the test.
 */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sisci_api.h>

#define NO_FLAGS 0
#define NO_CALLBACK NULL
#define NO_ARG NULL
#define ADAPTER 0

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fprintf(stderr, "\n");                                                                                         \
        exit(1);                                                                                                       \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) FAIL("not so: %s", #condition);                                                              \
    } while (0)

/* No code of the API: shows a call that does not set its error. */
#define UNSET ((sci_error_t)0x7777)

/* CALL sets `e`, to WANTED. */
#define FAILS(wanted, ...)                                                                                             \
    do {                                                                                                               \
        e = UNSET;                                                                                                     \
        __VA_ARGS__;                                                                                                   \
        if (e != (wanted)) {                                                                                           \
            FAIL("%s: %#x (%s) instead of %s", #__VA_ARGS__, (unsigned int)e, SCIGetErrorString(e), #wanted);          \
        }                                                                                                              \
    } while (0)

#define OK(...) FAILS(SCI_ERR_OK, __VA_ARGS__)

/* CALL is repeated as long as it says RETRY, as programs do that wait for another. */
#define OK_AFTER(retry, ...)                                                                                           \
    do {                                                                                                               \
        do {                                                                                                           \
            e = UNSET;                                                                                                 \
            __VA_ARGS__;                                                                                               \
            if (e == (retry)) usleep(1000);                                                                            \
        } while (e == (retry));                                                                                        \
        if (e != SCI_ERR_OK) FAIL("%s: %#x (%s)", #__VA_ARGS__, (unsigned int)e, SCIGetErrorString(e));                \
    } while (0)

/* Waits until something is so that another thread or program brings about. */
#define UNTIL(condition)                                                                                               \
    while (!(condition)) usleep(1000)

static inline void say(const char *line)
{
    printf("%s\n", line);
    fflush(stdout);
}

static inline void hear(const char *wanted)
{
    char line[100];
    if (!fgets(line, sizeof line, stdin)) FAIL("the test has gone, before it said: %s", wanted);
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, wanted) != 0) FAIL("the test said `%s`, not `%s`", line, wanted);
}

static inline sci_desc_t start(void)
{
    sci_error_t e;
    sci_desc_t sd = NULL;
    OK(SCIInitialize(NO_FLAGS, &e));
    OK(SCIOpen(&sd, NO_FLAGS, &e));
    CHECK(sd != NULL);
    return sd;
}

static inline unsigned int my_node(void)
{
    sci_error_t e;
    unsigned int node = 0;
    OK(SCIGetLocalNodeId(ADAPTER, &node, NO_FLAGS, &e));
    return node;
}

/* A segment that others can connect to. */
static inline sci_local_segment_t make_available(sci_desc_t sd, unsigned int id, size_t size)
{
    sci_error_t e;
    sci_local_segment_t segment = NULL;
    OK(SCICreateSegment(sd, &segment, id, size, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIPrepareSegment(segment, ADAPTER, NO_FLAGS, &e));
    OK(SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    return segment;
}

static inline sci_remote_segment_t connect_to(sci_desc_t sd, unsigned int node, unsigned int id)
{
    sci_error_t e;
    sci_remote_segment_t segment = NULL;
    OK_AFTER(SCI_ERR_NO_SUCH_SEGMENT, SCIConnectSegment(sd, &segment, node, id, ADAPTER, NO_CALLBACK, NO_ARG,
                                                        SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    return segment;
}

/* What the sequence says now, which is never an error. */
static inline void sequence_says(sci_sequence_t sequence, sci_sequence_status_t wanted)
{
    sci_error_t e;
    sci_sequence_status_t status;
    OK(status = SCICheckSequence(sequence, NO_FLAGS, &e));
    if (status != wanted) FAIL("the sequence says %d, not %d", (int)status, (int)wanted);
}

/* Starts anew, as programs do. */
static inline void start_sequence(sci_sequence_t sequence)
{
    sci_error_t e;
    sci_sequence_status_t status;
    do {
        OK(status = SCIStartSequence(sequence, NO_FLAGS, &e));
    } while (status == SCI_SEQ_PENDING);
    CHECK(status == SCI_SEQ_OK);
}

static inline unsigned int number(const char *text)
{
    return (unsigned int)strtoul(text, NULL, 10);
}

#endif
