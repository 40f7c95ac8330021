/* Nodes by name, on two nodes of one machine. Arguments: own node, the peer. */
#include "check.h"
#include <unistd.h>

static void is_list(const unsigned int *list, unsigned int first, unsigned int second) {
    CHECK(list[0] == first && list[1] == second && list[2] == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    unsigned int own = (unsigned int)atoi(argv[1]), peer = (unsigned int)atoi(argv[2]);
    char host[256], name[300];
    CHECK(gethostname(host, sizeof host) == 0);
    dis_nodeId_list_t list;
    dis_virt_adapter_t adapter = 99;
    SCIGetNodeIdByAdapterName(host, &list, &adapter, NO_FLAGS, &error);
    EXPECT(SCI_ERR_NOT_INITIALIZED);
    open_device();
    memset(list, 0xff, sizeof list);
    SCIGetNodeIdByAdapterName(host, &list, &adapter, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    is_list(list, peer, own);
    CHECK(adapter == 0);
    snprintf(name, sizeof name, "%s_a0", host);
    unsigned int number = 99;
    memset(list, 0xff, sizeof list);
    SCIGetNodeInfoByAdapterName(name, &number, &list, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    is_list(list, peer, own);
    CHECK(number == 0);
    snprintf(name, sizeof name, "%s_a7", host);
    SCIGetNodeIdByAdapterName(name, &list, &adapter, NO_FLAGS, &error);
    EXPECT(SCI_ERR_NOT_FOUND);
    SCIGetNodeIdByAdapterName("nowhere.invalid", &list, &adapter, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_NOT_FOUND, "nowhere.invalid");
    SCIGetNodeIdByAdapterName(NULL, &list, &adapter, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_PARAMETER);
    SCIGetNodeIdByAdapterName(host, NULL, &adapter, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_PARAMETER);
    /* The link to the peer, asked for by its name in the header. */
    unsigned int operational = 99;
    sci_query_adapter_t query = {.subcommand = SCI_Q_ADAPTER_LINK_OPERATIONAL, .data = &operational};
    SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(operational == 1);
    query.subcommand = SCI_Q_ADAPTER_NODEID;
    SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(operational == own);
    query.subcommand = 0x111;
    SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_QUERY);
    SCITerminate();
    say("done");
    return 0;
}
