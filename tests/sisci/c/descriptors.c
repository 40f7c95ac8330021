/* One program: who has no file descriptor left for a connection keeps all that it has, and connects again later. */
#include <sys/resource.h>

#include "check.h"

#define MOST 200

int main(void)
{
    sci_error_t e;
    sci_error_t status;
    sci_desc_t sd = start();
    unsigned int node = my_node(), peer, adapter;
    sci_remote_segment_t first, more[MOST];
    struct rlimit limit;
    int made = 0;
    sci_local_segment_t segment = make_available(sd, 1, 4096);
    first = connect_to(sd, node, 1);
    CHECK(SCIWaitForLocalSegmentEvent(segment, &peer, &adapter, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e) == SCI_CB_CONNECT);

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 60;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    do {
        CHECK(made < MOST);
        SCIConnectSegment(sd, &more[made], node, 1, ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
    } while (e == SCI_ERR_OK && ++made);
    if (e != SCI_ERR_NOSPC) FAIL("%#x (%s) instead of SCI_ERR_NOSPC", (unsigned int)e, SCIGetErrorString(e));
    CHECK(strstr(SCIGetErrorString(e), "ulimit") != NULL);
    FAILS(SCI_ERR_NOSPC, SCIConnectSegment(sd, &more[made], node, 1, ADAPTER, NO_CALLBACK, NO_ARG,
                                           SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));

    /* Nothing that was there has ended. */
    FAILS(SCI_ERR_TIMEOUT, SCIWaitForRemoteSegmentEvent(first, &status, 100, NO_FLAGS, &e));
    CHECK(SCIProbeNode(sd, ADAPTER, node, NO_FLAGS, &e) == 1);
    for (int i = 0; i < made; i++) OK(SCIDisconnectSegment(more[i], NO_FLAGS, &e));
    OK(SCIConnectSegment(sd, &more[0], node, 1, ADAPTER, NO_CALLBACK, NO_ARG, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(more[0], NO_FLAGS, &e));
    OK(SCIDisconnectSegment(first, NO_FLAGS, &e));
    /* What failed is no user of the segment. */
    OK_AFTER(SCI_ERR_BUSY, SCIRemoveSegment(segment, NO_FLAGS, &e));
    OK(SCIClose(sd, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}
