/* What the programs of this test share. A check that fails names itself and ends the program with status 1. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sisci_api.h>

#define NO_FLAGS 0

static sci_error_t error;

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
            fflush(stdout);                                                     \
            _Exit(1);                                                           \
        }                                                                       \
    } while (0)

/* The call before has left this error, and no other. */
#define EXPECT(code)                                                            \
    do {                                                                        \
        if (error != (code)) {                                                  \
            printf("%s:%d: expected %s, got %#x: %s\n", __FILE__, __LINE__, #code, (unsigned)error, \
                   SCIGetErrorString(error));                                   \
            fflush(stdout);                                                     \
            _Exit(1);                                                           \
        }                                                                       \
    } while (0)

/* As EXPECT, and the words of the error contain these. */
#define EXPECT_WORDS(code, words)                                               \
    do {                                                                        \
        EXPECT(code);                                                           \
        if (strstr(SCIGetErrorString(error), words) == NULL) {                  \
            printf("%s:%d: no \"%s\" in: %s\n", __FILE__, __LINE__, words, SCIGetErrorString(error)); \
            fflush(stdout);                                                     \
            _Exit(1);                                                           \
        }                                                                       \
    } while (0)

#define UNUSED __attribute__((unused))

UNUSED static sci_desc_t open_device(void) {
    sci_desc_t sd;
    SCIInitialize(NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIOpen(&sd, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    return sd;
}

UNUSED static unsigned int own_node(void) {
    unsigned int node;
    SCIGetLocalNodeId(0, &node, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    return node;
}

UNUSED static sci_local_segment_t create_segment(sci_desc_t sd, unsigned int id, size_t size) {
    sci_local_segment_t segment;
    SCICreateSegment(sd, &segment, id, size, NULL, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    return segment;
}

UNUSED static void open_segment(sci_local_segment_t segment) {
    SCIPrepareSegment(segment, 0, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCISetSegmentAvailable(segment, 0, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
}

UNUSED static sci_remote_segment_t connect_segment(sci_desc_t sd, unsigned int node, unsigned int id) {
    sci_remote_segment_t segment;
    do {
        SCIConnectSegment(sd, &segment, node, id, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, NO_FLAGS, &error);
    } while (error == SCI_ERR_NO_SUCH_SEGMENT);
    EXPECT(SCI_ERR_OK);
    return segment;
}

/* Says something to the test, which reads lines. */
UNUSED static void say(const char *line) {
    puts(line);
    fflush(stdout);
}

/* Waits until the test says the word. */
UNUSED static void await(const char *word) {
    char line[64];
    CHECK(fgets(line, sizeof line, stdin) != NULL);
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, word) != 0) {
        printf("expected to be told %s, was told %s\n", word, line);
        fflush(stdout);
        _Exit(1);
    }
}

#endif
