/* One program that has closed its standard descriptors, as daemons do: what it prints all the same harms nothing. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>

#define ID 3
#define SIZE 4096

/* Where failures are told: standard error is closed. */
static int told;

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            dprintf(told, "%s:%d: not so: %s: %s\n", __FILE__, __LINE__, #condition, SCIGetErrorString(e));            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static void close_standard(void)
{
    int number;
    for (number = 0; number < 3; number++) close(number);
}

/* To all that a careless part of a program may write to. Nobody takes it, or nobody minds. */
static void print(void)
{
    static const char line[] = "a line that was to be printed, long enough to be a message of some protocol\n";
    int number;
    for (number = 0; number < 3; number++) (void)!write(number, line, sizeof line);
}

int main(void)
{
    sci_error_t e = SCI_ERR_OK;
    sci_desc_t sd;
    sci_local_segment_t segment[2];
    sci_remote_segment_t remote;
    sci_map_t map;
    unsigned int node;
    int round, i;

    told = fcntl(2, F_DUPFD, 100);
    close_standard();
    SCIInitialize(NO_FLAGS, &e);
    SCIOpen(&sd, NO_FLAGS, &e);
    MUST(e == SCI_ERR_OK);
    SCIGetLocalNodeId(ADAPTER, &node, NO_FLAGS, &e);
    for (round = 0; round < 2; round++) {
        const unsigned char *bytes;
        print();
        SCICreateSegment(sd, &segment[round], ID + round, SIZE, NO_CALLBACK, NO_ARG, NO_FLAGS, &e);
        MUST(e == SCI_ERR_OK);
        SCIPrepareSegment(segment[round], ADAPTER, NO_FLAGS, &e);
        SCISetSegmentAvailable(segment[round], ADAPTER, NO_FLAGS, &e);
        MUST(e == SCI_ERR_OK);
        print();
        SCIConnectSegment(sd, &remote, node, ID + round, ADAPTER, NO_CALLBACK, NO_ARG, 1000, NO_FLAGS, &e);
        MUST(e == SCI_ERR_OK);
        print();
        bytes = (const unsigned char *)SCIMapRemoteSegment(remote, &map, 0, SIZE, NULL, NO_FLAGS, &e);
        MUST(e == SCI_ERR_OK);
        for (i = 0; i < SIZE; i++) MUST(bytes[i] == 0);
        /* Once more, by a program that closes them only now. */
        close_standard();
    }
    SCITerminate();
    return 0;
}
