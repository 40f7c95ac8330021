/* One program that the system allows little: errors of the API, where the system would send a signal. */
#include "check.h"

#include <sys/resource.h>

#define ID 3
#define ALLOWED 8192

int main(void)
{
    sci_error_t e;
    sci_desc_t sd;
    sci_local_segment_t segment;
    sci_local_data_interrupt_t interrupt;
    unsigned int number;
    const struct rlimit little = {ALLOWED, ALLOWED}, nothing = {0, 0};

    /* Memory that is shared is a file to this limit. */
    CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0);
    sd = start();
    FAILS(SCI_ERR_NOSPC,
          SCICreateSegment(sd, &segment, ID, ALLOWED + 1, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    CHECK(strstr(SCIGetErrorString(e), "ulimit -f") != NULL);
    FAILS(SCI_ERR_NOSPC,
          SCICreateSegment(sd, &segment, ID, ALLOWED + 1, NO_CALLBACK, NO_ARG, SCI_FLAG_EMPTY, &e));
    OK(SCICreateSegment(sd, &segment, ID, ALLOWED, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    CHECK(setrlimit(RLIMIT_FSIZE, &nothing) == 0);
    FAILS(SCI_ERR_NOSPC, SCICreateSegment(sd, &segment, ID, 1, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_NOSPC,
          SCICreateDataInterrupt(sd, &interrupt, ADAPTER, &number, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
