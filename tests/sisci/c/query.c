/* Two nodes are up; one program asks everything that can be asked. */
#include "check.h"

#define ID 31

static unsigned int adapter_says(unsigned int subcommand, unsigned int port)
{
    sci_error_t e;
    unsigned int value = 0xabcdef;
    /* As programs of the 1.x days name it. */
    struct sci_query_adapter query;
    query.localAdapterNo = ADAPTER;
    query.portNo = port;
    query.subcommand = subcommand;
    query.data = &value;
    OK(SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &e));
    CHECK(value != 0xabcdef);
    return value;
}

static void adapters(void)
{
    static const unsigned int others[] = {
        SCI_Q_ADAPTER_SERIAL_NUMBER, SCI_Q_ADAPTER_CARD_TYPE, SCI_Q_ADAPTER_DMA_MTU, SCI_Q_ADAPTER_MCAST_MAX_GROUPS,
        SCI_Q_ADAPTER_BDF, SCI_Q_ADAPTER_DMA_SIZE_ALIGNMENT, SCI_Q_ADAPTER_DMA_OFFSET_ALIGNMENT,
        SCI_Q_ADAPTER_SUGGESTED_MIN_DMA_SIZE, SCI_Q_ADAPTER_SUGGESTED_MIN_BLOCK_SIZE, SCI_Q_ADAPTER_NUMBER_OF_STREAMS,
        SCI_Q_ADAPTER_STREAM_BUFFER_SIZE, SCI_Q_ADAPTER_NUMBER, SCI_Q_ADAPTER_INSTANCE_NUMBER,
        SCI_Q_ADAPTER_CONNECTED_TO_SWITCH, SCI_Q_ADAPTER_LOCAL_SWITCH_TYPE, SCI_Q_ADAPTER_LOCAL_SWITCH_PORT_NUMBER,
        SCI_Q_ADAPTER_CONNECTED_TO_EXPECTED_SWITCH_PORT, SCI_Q_ADAPTER_ATT_PAGE_SIZE,
        SCI_Q_ADAPTER_ATT_NUMBER_OF_ENTRIES, SCI_Q_ADAPTER_ATT_AVAILABLE_ENTRIES};
    static const unsigned int of_links[] = {
        SCI_Q_ADAPTER_LINK_WIDTH, SCI_Q_ADAPTER_LINK_SPEED, SCI_Q_ADAPTER_LINK_UPTIME, SCI_Q_ADAPTER_LINK_DOWNTIME,
        SCI_Q_ADAPTER_LINK_PARTNER_PORT_NO};
    sci_error_t e;
    unsigned int value = 0;
    sci_query_adapter_t query;
    size_t i;
    CHECK(adapter_says(SCI_Q_ADAPTER_NODEID, 0) == my_node());
    CHECK(adapter_says(SCI_Q_ADAPTER_CONFIGURED, 0) == 1);
    CHECK(adapter_says(SCI_Q_ADAPTER_HW_LINK_STATUS_IS_OK, 0) == 1);
    CHECK(adapter_says(SCI_Q_ADAPTER_FIRMWARE_OK, 0) == 1);
    CHECK(adapter_says(SCI_Q_ADAPTER_NUMBER_OF_LINKS, 0) == 1);
    CHECK(adapter_says(SCI_Q_ADAPTER_LINK_OPERATIONAL, 0) == 1);
    CHECK(adapter_says(SCI_Q_ADAPTER_LINK_CABLE_INSERTED, 0) == 1);
    CHECK(adapter_says(SCI_Q_ADAPTER_LINK_ENABLED, 0) == 1);
    CHECK(adapter_says(SCI_Q_ADAPTER_LINK_DOWNTIME, 0) == 0);
    for (i = 0; i < sizeof others / sizeof *others; i++) adapter_says(others[i], 0);
    for (i = 0; i < sizeof of_links / sizeof *of_links; i++) adapter_says(of_links[i], 0);
    CHECK(strlen(SCIGetAdapterTypeString(adapter_says(SCI_Q_ADAPTER_CARD_TYPE, 0))) > 0);
    CHECK(strlen(SCIGetAdapterFamilyString(adapter_says(SCI_Q_ADAPTER_CARD_TYPE, 0))) > 0);
    CHECK(strlen(SCIGetAdapterTypeString(0xffff)) > 0);

    query.localAdapterNo = ADAPTER;
    query.portNo = 1;
    query.subcommand = SCI_Q_ADAPTER_LINK_WIDTH;
    query.data = &value;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &e));
    query.subcommand = 0xffff;
    FAILS(SCI_ERR_ILLEGAL_QUERY, SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &e));
    query.subcommand = SCI_Q_ADAPTER_NODEID;
    query.data = NULL;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &e));
    query.data = &value;
    query.localAdapterNo = 9;
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &e));
    /* Whether an adapter is there is a question without an error. */
    value = 5;
    query.subcommand = SCI_Q_ADAPTER_CONFIGURED;
    OK(SCIQuery(SCI_Q_ADAPTER, &query, NO_FLAGS, &e));
    CHECK(value == 0);
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(SCI_Q_ADAPTER, NULL, NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCIGetLocalNodeId(9, &value, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIGetLocalNodeId(ADAPTER, NULL, NO_FLAGS, &e));
}

static void systems(void)
{
    static const unsigned int all[] = {SCI_Q_SYSTEM_CPU_CACHE_LINE_SIZE, SCI_Q_SYSTEM_HOSTBRIDGE,
                                       SCI_Q_SYSTEM_WRITE_POSTING_ENABLED, SCI_Q_SYSTEM_WRITE_COMBINING_ENABLED};
    sci_error_t e;
    unsigned int value;
    sci_query_system_t query;
    size_t i;
    query.data = &value;
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        value = 0xabcdef;
        query.subcommand = all[i];
        OK(SCIQuery(SCI_Q_SYSTEM, &query, NO_FLAGS, &e));
        CHECK(value != 0xabcdef);
        if (i == 0) CHECK(value == 64);
    }
    query.subcommand = 0;
    FAILS(SCI_ERR_ILLEGAL_QUERY, SCIQuery(SCI_Q_SYSTEM, &query, NO_FLAGS, &e));
}

static void text(unsigned int command)
{
    sci_error_t e;
    char room[100];
    sci_query_string_t query;
    memset(room, 'x', sizeof room);
    query.str = room;
    query.length = sizeof room;
    OK(SCIQuery(command, &query, NO_FLAGS, &e));
    CHECK(strncmp(room, "tieline", 7) == 0 && strlen(room) < sizeof room);
    memset(room, 'x', sizeof room);
    query.length = 4;
    OK(SCIQuery(command, &query, NO_FLAGS, &e));
    CHECK(strcmp(room, "tie") == 0 && room[4] == 'x');
    query.length = 0;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(command, &query, NO_FLAGS, &e));
    query.length = 4;
    query.str = NULL;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(command, &query, NO_FLAGS, &e));
}

static void segments_and_maps(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t local = make_available(sd, ID, 4096);
    sci_remote_segment_t remote = connect_to(sd, my_node(), ID);
    sci_map_t map;
    volatile void *address;
    sci_query_local_segment_t of_local;
    sci_query_remote_segment_t of_remote;
    sci_query_map_t of_map;
    unsigned int subcommand;
    of_local.segment = local;
    for (subcommand = SCI_Q_LOCAL_SEGMENT_IOADDR; subcommand <= SCI_Q_LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR; subcommand++) {
        of_local.subcommand = subcommand;
        of_local.data.ioaddr = 0;
        OK(SCIQuery(SCI_Q_LOCAL_SEGMENT, &of_local, NO_FLAGS, &e));
        CHECK(of_local.data.ioaddr != 0);
    }
    of_local.subcommand = 1;
    FAILS(SCI_ERR_ILLEGAL_QUERY, SCIQuery(SCI_Q_LOCAL_SEGMENT, &of_local, NO_FLAGS, &e));
    of_remote.segment = remote;
    of_remote.subcommand = SCI_Q_REMOTE_SEGMENT_IOADDR;
    of_remote.data.ioaddr = 0;
    OK(SCIQuery(SCI_Q_REMOTE_SEGMENT, &of_remote, NO_FLAGS, &e));
    CHECK(of_remote.data.ioaddr != 0);
    OK(address = SCIMapRemoteSegment(remote, &map, 8, 16, NULL, NO_FLAGS, &e));
    of_map.map = map;
    of_map.subcommand = SCI_Q_MAP_IOADDR;
    OK(SCIQuery(SCI_Q_MAP, &of_map, NO_FLAGS, &e));
    CHECK(of_map.data == (sci_ioaddr_t)(size_t)address);
    of_map.subcommand = SCI_Q_MAP_PHYS_ADDR;
    OK(SCIQuery(SCI_Q_MAP, &of_map, NO_FLAGS, &e));
    CHECK(of_map.data == SCIGetMapPhysAddr(map));
    /* Some programs ask a map under the other command. */
    of_map.subcommand = SCI_Q_MAP_MAPPED_TO_LOCAL_TARGET;
    of_map.data = 0;
    OK(SCIQuery(SCI_Q_REMOTE_SEGMENT, &of_map, NO_FLAGS, &e));
    CHECK(of_map.data == 1);
    of_map.map = NULL;
    FAILS(SCI_ERR_ILLEGAL_PARAMETER, SCIQuery(SCI_Q_MAP, &of_map, NO_FLAGS, &e));
}

static void dma(void)
{
    static const unsigned int kinds[] = {SCI_FLAG_DMA_ADAPTER, SCI_FLAG_DMA_GLOBAL, SCI_FLAG_DMA_SYSDMA};
    sci_error_t e;
    unsigned int available;
    sci_dma_capabilities_t can;
    sci_query_dma_t query;
    size_t i;
    query.localAdapterNo = ADAPTER;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        available = 0;
        query.subcommand = SCI_Q_DMA_AVAILABLE;
        query.data = &available;
        OK(SCIQuery(SCI_Q_DMA, &query, kinds[i], &e));
        CHECK(available == 1);
        memset(&can, 0, sizeof can);
        query.subcommand = SCI_Q_DMA_CAPABILITIES;
        query.data = &can;
        OK(SCIQuery(SCI_Q_DMA, &query, kinds[i], &e));
        CHECK(can.num_channels > 0 && can.max_transfer_size > 0 && can.max_vector_length >= DIS_DMA_MAX_VECLEN);
        CHECK(can.support_mem2io == 1 && can.support_io2mem == 1 && can.min_align_bytes == 1);
    }
    query.subcommand = 0;
    FAILS(SCI_ERR_ILLEGAL_QUERY, SCIQuery(SCI_Q_DMA, &query, NO_FLAGS, &e));
}

static void probes(sci_desc_t sd, unsigned int other)
{
    sci_error_t e;
    int there;
    OK(there = SCIProbeNode(sd, ADAPTER, my_node(), NO_FLAGS, &e));
    CHECK(there == 1);
    OK(there = SCIProbeNode(sd, ADAPTER, SCI_LOCAL_HOST, NO_FLAGS, &e));
    CHECK(there == 1);
    OK(there = SCIProbeNode(sd, ADAPTER, other, NO_FLAGS, &e));
    CHECK(there == 1);
    FAILS(SCI_ERR_NO_REMOTE_LINK_ACCESS, there = SCIProbeNode(sd, ADAPTER, 248, NO_FLAGS, &e));
    CHECK(there == 0);
    FAILS(SCI_ERR_ILLEGAL_NODEID, there = SCIProbeNode(sd, ADAPTER, 5, NO_FLAGS, &e));
    CHECK(there == 0);
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, there = SCIProbeNode(sd, 9, other, NO_FLAGS, &e));
    CHECK(there == 0);
    say("probed");
    hear("down");
    FAILS(SCI_ERR_NO_REMOTE_LINK_ACCESS, there = SCIProbeNode(sd, ADAPTER, other, NO_FLAGS, &e));
    CHECK(there == 0 && adapter_says(SCI_Q_ADAPTER_LINK_OPERATIONAL, 0) == 0);
    say("probed");
    hear("up");
    OK(there = SCIProbeNode(sd, ADAPTER, other, NO_FLAGS, &e));
    CHECK(there == 1 && adapter_says(SCI_Q_ADAPTER_LINK_OPERATIONAL, 0) == 1);
}

/* The words of a code, and of the last error. */
static void words(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment;
    CHECK(strlen(SCIGetErrorString(SCI_ERR_OK)) > 0);
    CHECK(strlen(SCIGetErrorString(SCI_ERR_BUSY)) > 0);
    CHECK(strlen(SCIGetErrorString(UNSET)) > 0);
    OK(SCICreateSegment(sd, &segment, ID + 1, 10, NO_CALLBACK, NO_ARG, NO_FLAGS, &e));
    FAILS(SCI_ERR_SEGMENT_NOT_PREPARED, SCISetSegmentAvailable(segment, ADAPTER, NO_FLAGS, &e));
    CHECK(strstr(SCIGetErrorString(e), "SCISetSegmentAvailable") && strstr(SCIGetErrorString(e), "SCIPrepareSegment"));
}

int main(int argc, char **argv)
{
    sci_error_t e;
    sci_desc_t sd = start();
    CHECK(argc > 1);
    adapters();
    systems();
    text(SCI_Q_VENDORID);
    text(SCI_Q_API);
    text(SCI_Q_SISCI_DRIVER_VERSION);
    segments_and_maps(sd);
    dma();
    FAILS(SCI_ERR_NOT_IMPLEMENTED, SCIQuery(SCI_Q_DEVICE, &sd, NO_FLAGS, &e));
    FAILS(SCI_ERR_ILLEGAL_QUERY, SCIQuery(0x7fff, &sd, NO_FLAGS, &e));
    words(sd);
    probes(sd, number(argv[1]));
    SCITerminate();
    return 0;
}
