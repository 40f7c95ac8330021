/* Memory that cannot be had is an error of the call that wants it, and leaves nothing behind; then all works again. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define ID 60
#define LARGE ((size_t)64 << 20)
/* Room for what the C library and the stacks need. */
#define SPARE ((rlim_t)8 << 20)

static unsigned int open_descriptors(void)
{
    unsigned int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

static unsigned long mapped_pages(void)
{
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages;
}

static void limit(int resource, rlim_t most)
{
    struct rlimit limit;
    CHECK(getrlimit((__rlimit_resource_t)resource, &limit) == 0);
    limit.rlim_cur = most == RLIM_INFINITY ? limit.rlim_max : most;
    CHECK(setrlimit((__rlimit_resource_t)resource, &limit) == 0);
}

static void limit_address_space(void)
{
    limit(RLIMIT_AS, (rlim_t)mapped_pages() * (rlim_t)sysconf(_SC_PAGESIZE) + SPARE);
}

static void refused(sci_desc_t sd, size_t size, unsigned int flags)
{
    sci_error_t e;
    sci_local_segment_t segment;
    FAILS(SCI_ERR_NOSPC, SCICreateSegment(sd, &segment, ID, size, NO_CALLBACK, NO_ARG, flags, &e));
}

/* The id is free, and the memory is there. */
static void works(sci_desc_t sd, size_t size)
{
    sci_error_t e;
    sci_local_segment_t segment = make_available(sd, ID, size);
    sci_remote_segment_t remote = connect_to(sd, my_node(), ID);
    sci_map_t map;
    volatile char *bytes;
    OK(bytes = SCIMapRemoteSegment(remote, &map, 0, size, NULL, NO_FLAGS, &e));
    bytes[size - 1] = 1;
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
}

static void creating(sci_desc_t sd)
{
    static const unsigned int flags[] = {NO_FLAGS, SCI_FLAG_PRIVATE, SCI_FLAG_AUTO_ID, SCI_FLAG_BROADCAST, SCI_FLAG_EMPTY};
    unsigned int i;
    for (i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        refused(sd, SIZE_MAX, flags[i]);
        refused(sd, SIZE_MAX / 4, flags[i]);
        limit_address_space();
        refused(sd, LARGE, flags[i]);
        limit(RLIMIT_AS, RLIM_INFINITY);
        /* A limit for files ends programs by SIGXFSZ elsewhere. */
        limit(RLIMIT_FSIZE, LARGE / 2);
        refused(sd, LARGE, flags[i]);
        limit(RLIMIT_FSIZE, RLIM_INFINITY);
    }
    /* More than any machine of a test has. */
    refused(sd, (size_t)1 << 46, NO_FLAGS);
    works(sd, LARGE);
}

/* The other end has the memory; here is no room for it. */
static void connecting(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment = make_available(sd, ID, LARGE);
    sci_remote_segment_t remote;
    sci_map_t map;
    limit_address_space();
    FAILS(SCI_ERR_NOSPC, SCIConnectSegment(sd, &remote, my_node(), ID, ADAPTER, NO_CALLBACK, NO_ARG,
                                           SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    limit(RLIMIT_AS, RLIM_INFINITY);
    /* A map of its own takes as much again. */
    remote = connect_to(sd, my_node(), ID);
    limit_address_space();
    FAILS(SCI_ERR_NOSPC, SCIMapRemoteSegment(remote, &map, 0, LARGE, NULL, SCI_FLAG_READONLY_MAP, &e));
    FAILS(SCI_ERR_NOSPC, SCIMapLocalSegment(segment, &map, 0, LARGE, NULL, SCI_FLAG_READONLY_MAP, &e));
    limit(RLIMIT_AS, RLIM_INFINITY);
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    /* Nobody is connected, and nothing mapped, so it needs no force. */
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
}

static void registering(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t segment;
    size_t i;
    char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (i = 0; i < LARGE; i += 4096) memory[i] = (char)(i >> 12);
    OK(SCICreateSegment(sd, &segment, ID, LARGE, NO_CALLBACK, NO_ARG, SCI_FLAG_EMPTY, &e));
    limit(RLIMIT_FSIZE, LARGE / 2);
    limit(RLIMIT_MEMLOCK, 0);
    limit_address_space();
    /* What it takes now is the kernel's business; what it holds is the program's. */
    e = UNSET;
    SCIRegisterSegmentMemory(memory, LARGE, segment, NO_FLAGS, &e);
    if (e != SCI_ERR_OK) CHECK(e == SCI_ERR_NOSPC);
    for (i = 0; i < LARGE; i += 4096) CHECK(memory[i] == (char)(i >> 12));
    limit(RLIMIT_AS, RLIM_INFINITY);
    limit(RLIMIT_FSIZE, RLIM_INFINITY);
    if (e != SCI_ERR_OK) OK(SCIRegisterSegmentMemory(memory, LARGE, segment, NO_FLAGS, &e));
    for (i = 0; i < LARGE; i += 4096) CHECK(memory[i] == (char)(i >> 12));
    memory[0] = 77;
    limit_address_space();
    OK(SCIRemoveSegment(segment, NO_FLAGS, &e));
    limit(RLIMIT_AS, RLIM_INFINITY);
    CHECK(memory[0] == 77 && memory[4096] == 1);
    CHECK(munmap(memory, LARGE) == 0);
}

int main(void)
{
    sci_desc_t sd = start();
    unsigned int descriptors;
    unsigned long pages;
    /* What is made once stays. */
    works(sd, 4096);
    descriptors = open_descriptors();
    creating(sd);
    connecting(sd);
    registering(sd);
    pages = mapped_pages();
    creating(sd);
    connecting(sd);
    registering(sd);
    CHECK(open_descriptors() == descriptors);
    if (mapped_pages() > pages + (LARGE >> 12) / 2) FAIL("%lu pages more are mapped", mapped_pages() - pages);
    SCITerminate();
    return 0;
}
