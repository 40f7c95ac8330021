/*
 * Loads and stores through a shadow map, TIELINE_SISCI_SHADOW=1: `own NODE` has the segment and answers orders of the test, `use
 * NODE` stores to it and loads from it, `fork NODE` has children meanwhile, `read NODE` has a map that is read only. `member NODE` has a copy of a group and answers the same orders, `write NODE` stores to it.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

#define ID 7
#define GROUP 3
#define WORDS 512
#define PLAIN_BYTES 200000

/* The owner and the user write to bytes that lie side by side. */
struct shared {
    volatile uint64_t data[WORDS]; /* the user's, before its number */
    volatile uint32_t number;
    volatile uint32_t again;       /* the owner takes it back to 0 */
    volatile unsigned char mixed[4096]; /* even bytes: the user's; odd ones: the owner's */
    volatile uint32_t theirs;      /* the owner's number: before its data, so that it lies below them */
    volatile uint64_t their_data[WORDS];
    volatile uint64_t sum;
    volatile uint32_t seen; /* the owner's number that the user has seen */
    unsigned char plain[PLAIN_BYTES];
};

static struct shared expected;

/* All widths of stores that compilers and libraries make, and blocks of many lengths. */
static void store_all(struct shared *to, unsigned int seed)
{
    size_t at = 0, length = 1;
    unsigned char *plain = to->plain;
    static unsigned char from[PLAIN_BYTES];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 13 + seed);
    for (; at + length <= PLAIN_BYTES / 2; at += length, length = length * 2 + 1) memcpy(plain + at, from + at, length);
    memset(plain + at, (int)seed, 1000);
    at += 1000;
    *(volatile uint8_t *)(plain + at) = (uint8_t)seed;
    *(volatile uint16_t *)(plain + at + 2) = (uint16_t)(seed * 3);
    *(volatile uint32_t *)(plain + at + 4) = seed * 5;
    *(volatile uint64_t *)(plain + at + 8) = seed * UINT64_C(0x100000001);
    memmove(plain + at + 17, from + 5, 4096);
    at += 17 + 4096;
    for (size_t i = 0; i < 1000; i++) ((volatile unsigned char *)plain)[at + i] = (unsigned char)(seed + i);
    /* In the last page, up to the last byte. */
    memcpy(plain + PLAIN_BYTES - 4099, from, 4099);
}

static void is_the_same(const unsigned char *found, const unsigned char *wanted, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (found[i] != wanted[i]) FAIL("byte %zu is %u, not %u", i, found[i], wanted[i]);
    }
}

/* What the user stored before its number is there with it, without any flush. */
static void comes_in_order(struct shared *mine, uint32_t numbers)
{
    uint32_t number = 0;
    while (number < numbers) {
        number = mine->number;
        for (unsigned int i = 0; i < WORDS; i += 37) {
            uint64_t data = mine->data[i];
            if (data < number) FAIL("word %u is %llu with number %u", i, (unsigned long long)data, number);
        }
    }
}

static sci_local_segment_t join(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_segment_t copy;
    OK(SCICreateSegment(sd, &copy, GROUP, sizeof(struct shared), NO_CALLBACK, NO_ARG, SCI_FLAG_BROADCAST, &e));
    OK(SCIPrepareSegment(copy, ADAPTER, SCI_FLAG_BROADCAST, &e));
    OK(SCISetSegmentAvailable(copy, ADAPTER, NO_FLAGS, &e));
    return copy;
}

static int own(sci_local_segment_t segment)
{
    sci_error_t e;
    sci_map_t map;
    struct shared *mine;
    char line[100];
    OK(mine = SCIMapLocalSegment(segment, &map, 0, sizeof *mine, NULL, NO_FLAGS, &e));
    mine->their_data[5] = 55;
    say("ready");
    while (fgets(line, sizeof line, stdin)) {
        unsigned int n = 0;
        if (sscanf(line, "stored %u", &n) == 1) {
            memset(expected.plain, 0, sizeof expected.plain);
            store_all(&expected, n);
            is_the_same(mine->plain, expected.plain, PLAIN_BYTES);
        } else if (sscanf(line, "await %u", &n) == 1) {
            memset(expected.plain, 0, sizeof expected.plain);
            store_all(&expected, n);
            UNTIL(memcmp(mine->plain, expected.plain, PLAIN_BYTES) == 0);
        } else if (sscanf(line, "copied %u", &n) == 1) {
            for (unsigned int i = 0; i < 1000; i++) CHECK(mine->mixed[i] == n);
        } else if (sscanf(line, "order %u", &n) == 1) {
            comes_in_order(mine, n);
        } else if (sscanf(line, "again %u", &n) == 1) {
            UNTIL(mine->again == n);
            mine->again = 0;
        } else if (sscanf(line, "odd %u", &n) == 1) {
            for (unsigned int i = 1; i < sizeof mine->mixed; i += 2) mine->mixed[i] = (unsigned char)n;
        } else if (sscanf(line, "even %u", &n) == 1) {
            for (unsigned int i = 0; i < sizeof mine->mixed; i += 2) CHECK(mine->mixed[i] == n);
            for (unsigned int i = 1; i < sizeof mine->mixed; i += 2) CHECK(mine->mixed[i] == n + 1);
        } else if (sscanf(line, "feed %u", &n) == 1) {
            for (uint32_t number = 1; number <= n; number++) {
                for (unsigned int i = 0; i < WORDS; i++) mine->their_data[i] = number;
                mine->theirs = number;
                while (mine->seen != number) usleep(10);
            }
        } else if (sscanf(line, "sum %u", &n) == 1) {
            UNTIL(mine->sum == n);
        } else if (sscanf(line, "number %u", &n) == 1) {
            CHECK(mine->number == n && mine->again == 0);
        } else if (sscanf(line, "seen %u", &n) == 1) {
            UNTIL(mine->seen == n);
        } else {
            FAIL("unknown order: %s", line);
        }
        say("done");
    }
    return 0;
}

static void *add_up(void *argument)
{
    struct shared *their = argument;
    for (int i = 0; i < 500; i++) __atomic_fetch_add(&their->sum, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void two_threads_add(struct shared *their)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, add_up, their) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(their->sum == 1000);
}

/* What the owner wrote before its number is loaded with it or after it. */
static void loads_in_order(struct shared *their, uint32_t numbers)
{
    uint32_t number = 0;
    while (number < numbers) {
        uint32_t found = their->theirs;
        for (unsigned int i = 0; i < WORDS; i += 37) {
            uint64_t data = their->their_data[i];
            if (data < found) FAIL("word %u is %llu with number %u", i, (unsigned long long)data, found);
        }
        if (found != number) their->seen = found;
        number = found;
    }
}

static int use(sci_desc_t sd, unsigned int node)
{
    sci_error_t e;
    sci_remote_segment_t remote;
    sci_map_t map, part;
    sci_sequence_t sequence;
    struct shared *their;
    volatile uint64_t *word;
    static unsigned char block[10000];
    remote = connect_to(sd, node, ID);
    OK(their = (struct shared *)SCIMapRemoteSegment(remote, &map, 0, sizeof *their, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    /* What was there before the map. */
    CHECK(their->their_data[5] == 55);

    store_all(their, 3);
    SCIFlush(sequence, NO_FLAGS);
    say("stored");
    hear("go on");
    /* The program's own loads see its stores at once, and a second map is the same memory. */
    store_all(their, 9);
    store_all(&expected, 9);
    is_the_same(their->plain, expected.plain, PLAIN_BYTES);
    OK(word = SCIMapRemoteSegment(remote, &part, 8, 8, NULL, NO_FLAGS, &e));
    CHECK((unsigned char *)word == (unsigned char *)their + 8);
    OK(CHECK(SCICheckSequence(sequence, NO_FLAGS, &e) == SCI_SEQ_OK));
    say("stored");
    hear("go on");

    /* Without any flush: data, then the number. */
    say("in order");
    for (uint32_t number = 1; number <= 400; number++) {
        for (unsigned int i = 0; i < WORDS; i++) their->data[i] = number;
        their->number = number;
    }
    hear("go on");

    /* The same value again, which the owner has changed meanwhile. */
    for (int i = 0; i < 2; i++) {
        their->again = 77;
        SCIFlush(NULL, NO_FLAGS);
        say("again");
        hear("go on");
    }

    /* Only the bytes that are stored are written. */
    for (unsigned int i = 0; i < sizeof their->mixed; i += 2) their->mixed[i] = 21;
    SCIFlush(NULL, NO_FLAGS);
    say("mixed");
    hear("go on");
    OK(SCICacheSync(map, (void *)their, sizeof *their, SCI_FLAG_CACHE_INVALIDATE, &e));
    for (unsigned int i = 1; i < sizeof their->mixed; i += 2) CHECK(their->mixed[i] == 22);

    /* Copies and stores keep their order, and loads see copies. */
    memset(block, 31, sizeof block);
    for (int i = 0; i < 100; i++) {
        their->plain[i] = 30;
        OK(SCIMemCpy(sequence, block, map, (size_t)(their->plain - (unsigned char *)their), 100, NO_FLAGS, &e));
        CHECK(their->plain[i] == 31);
        their->plain[i] = (unsigned char)i;
        OK(SCIMemCpy(sequence, block, map, (size_t)(their->plain - (unsigned char *)their), 100, SCI_FLAG_BLOCK_READ, &e));
        CHECK(block[i] == (unsigned char)i);
        memset(block, 31, sizeof block);
    }
    two_threads_add(their);
    say("added");
    hear("go on");

    /* Loads find what the owner writes, in its order, without any call. */
    say("looking");
    loads_in_order(their, 300);
    say("looked");
    hear("go on");

    OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
    OK(SCIUnmapSegment(part, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}

/* Until the test says `go on`, which it does when all members have it: those that have just joined are reached some time later. */
static void store_until_told(struct shared *group, sci_sequence_t sequence, unsigned int seed)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    say("storing");
    do {
        store_all(group, seed);
        SCIFlush(sequence, NO_FLAGS);
    } while (poll(&input, 1, 1) == 0);
    hear("go on");
}

static int write_to_group(sci_desc_t sd)
{
    sci_error_t e;
    sci_remote_segment_t remote = connect_to(sd, DIS_BROADCAST_NODEID_GROUP_ALL, GROUP);
    sci_map_t map;
    sci_sequence_t sequence;
    struct shared *group;
    static unsigned char block[1000];
    OK(group = (struct shared *)SCIMapRemoteSegment(remote, &map, 0, sizeof *group, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    store_all(group, 3);
    SCIFlush(sequence, NO_FLAGS);
    say("stored");
    hear("go on");
    store_until_told(group, sequence, 9);
    say("in order");
    for (uint32_t number = 1; number <= 400; number++) {
        for (unsigned int i = 0; i < WORDS; i++) group->data[i] = number;
        group->number = number;
    }
    hear("go on");
    memset(block, 41, sizeof block);
    OK(SCIMemCpy(NULL, block, map, (size_t)(group->mixed - (unsigned char *)group), 500, NO_FLAGS, &e));
    OK(SCIMemWrite(block, group->mixed + 500, 500, NO_FLAGS, &e));
    SCIFlush(sequence, NO_FLAGS);
    say("copied");
    hear("go on");
    store_until_told(group, sequence, 5);
    OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}

/* Stores until the owner is gone: the sequence says so, and no store hangs. */
static int use_until_death(sci_desc_t sd, unsigned int node)
{
    sci_error_t e;
    sci_remote_segment_t remote = connect_to(sd, node, ID);
    sci_map_t map;
    sci_sequence_t sequence;
    sci_sequence_status_t status;
    struct shared *their;
    OK(their = (struct shared *)SCIMapRemoteSegment(remote, &map, 0, sizeof *their, NULL, NO_FLAGS, &e));
    OK(SCICreateMapSequence(map, &sequence, NO_FLAGS, &e));
    say("storing");
    do {
        for (int i = 0; i < 1000; i++) store_all(their, 4);
        OK(status = SCICheckSequence(sequence, NO_FLAGS, &e));
    } while (status == SCI_SEQ_OK);
    CHECK(status == SCI_SEQ_NOT_RETRIABLE);
    say("ended");
    OK(SCIRemoveSequence(sequence, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}

/* The program's own handler, which the library's calls for what is not the library's. */
static volatile int faults;
static void *volatile faulted;
static void on_fault(int number, siginfo_t *info, void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    (void)number;
    (void)context;
    faults++;
    faulted = info->si_addr;
    /* Memory that is not there cannot be made writable. */
    if (mprotect((void *)(address & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE) != 0) _exit(9);
}

static pid_t child_that(void (*acts)(struct shared *, unsigned int), struct shared *their, unsigned int node)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) return child;
    acts(their, node);
    exit(0);
}

static int end_of(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* There is nothing at the parent's address. */
static void touches(struct shared *their, unsigned int node)
{
    (void)node;
    their->number = 1;
}

/* Memory of the child's own at the parent's address is the child's, and so are its faults. */
static void has_own_memory(struct shared *their, unsigned int node)
{
    size_t bytes = (sizeof *their + 4095) & ~(size_t)4095;
    (void)node;
    SCIFlush(NULL, NO_FLAGS);
    CHECK(mmap(their, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)their);
    *(volatile unsigned char *)&their->plain[50000] = 7;
    if (faults != 1 || faulted != (void *)&their->plain[50000] || their->plain[50000] != 7) {
        FAIL("%d faults, the last at %p; the byte at %p is %d", faults, faulted, (void *)&their->plain[50000], their->plain[50000]);
    }
    SCIFlush(NULL, NO_FLAGS);
}

#define ADDED 3000

/* A child that begins anew has a shadow of its own. */
static void begins_anew(struct shared *their, unsigned int node)
{
    sci_error_t e;
    sci_map_t map;
    sci_remote_segment_t remote;
    struct shared *own;
    (void)their;
    remote = connect_to(start(), node, ID);
    OK(own = (struct shared *)SCIMapRemoteSegment(remote, &map, 0, sizeof *own, NULL, NO_FLAGS, &e));
    for (int i = 0; i < ADDED; i++) __atomic_fetch_add(&own->seen, 1, __ATOMIC_SEQ_CST);
    CHECK(own->seen == ADDED);
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    SCITerminate();
}

static int have_children(sci_desc_t sd, unsigned int node)
{
    sci_error_t e;
    sci_map_t map;
    sci_remote_segment_t remote;
    struct shared *their;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    pid_t child;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    remote = connect_to(sd, node, ID);
    OK(their = (struct shared *)SCIMapRemoteSegment(remote, &map, 0, sizeof *their, NULL, NO_FLAGS, &e));
    store_all(their, 3);
    CHECK(end_of(child_that(touches, their, node)) == 9);
    for (int i = 0; i < 3; i++) CHECK(end_of(child_that(has_own_memory, their, node)) == 0);
    SCIFlush(NULL, NO_FLAGS);
    say("stored");
    hear("go on");
    /* Instructions that run elsewhere, in both at the same time. */
    child = child_that(begins_anew, their, node);
    for (int i = 0; i < ADDED; i++) __atomic_fetch_add(&their->sum, 1, __ATOMIC_SEQ_CST);
    CHECK(end_of(child) == 0 && their->sum == ADDED && faults == 0);
    SCIFlush(NULL, NO_FLAGS);
    say("added");
    hear("go on");
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}

static sigjmp_buf before_fault;
static void on_store(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    faulted = info->si_addr;
    siglongjmp(before_fault, 1);
}

/* The address at which a store to `word` ended, NULL if it did not. */
static void *fault_of_store(volatile void *word, int is_copied)
{
    sci_error_t e;
    static unsigned int value = 99;
    faulted = NULL;
    if (sigsetjmp(before_fault, 1) == 0) {
        if (is_copied) {
            SCIMemWrite(&value, word, sizeof value, NO_FLAGS, &e);
        } else {
            *(volatile unsigned int *)word = value;
        }
    }
    return faulted;
}

static int read_only(sci_desc_t sd, unsigned int node)
{
    sci_error_t e;
    sci_map_t map, loads;
    sci_remote_segment_t remote;
    struct shared *their, *read;
    struct sigaction action = {.sa_sigaction = on_store, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    remote = connect_to(sd, node, ID);
    OK(read = (struct shared *)SCIMapRemoteSegment(remote, &loads, 0, sizeof *read, NULL, SCI_FLAG_READONLY_MAP, &e));
    CHECK(read->their_data[5] == 55);
    OK(their = (struct shared *)SCIMapRemoteSegment(remote, &map, 0, sizeof *their, NULL, NO_FLAGS, &e));
    for (unsigned int i = 1; i <= 100; i++) {
        their->number = i;
        CHECK(read->number == i);
        /* Also in the middle of what the library carries out. */
        CHECK(fault_of_store(i % 2 ? &read->number : &read->again, i % 3 == 0) == (void *)(i % 2 ? &read->number : &read->again));
        CHECK(their->number == i && read->number == i && read->again == 0);
    }
    FAILS(SCI_ERR_ACCESS, SCIMemCpy(NULL, (void *)"1", loads, 0, 1, NO_FLAGS, &e));
    /* What the owner stores is found through both. */
    say("looking");
    while (read->theirs != 1 || their->theirs != 1) {}
    their->seen = 1;
    SCIFlush(NULL, NO_FLAGS);
    say("looked");
    hear("go on");
    OK(SCIUnmapSegment(loads, NO_FLAGS, &e));
    OK(SCIUnmapSegment(map, NO_FLAGS, &e));
    OK(SCIDisconnectSegment(remote, NO_FLAGS, &e));
    SCITerminate();
    return 0;
}

int main(int argc, char **argv)
{
    sci_desc_t sd;
    unsigned int node;
    CHECK(argc == 3);
    sd = start();
    node = (unsigned int)atoi(argv[2]);
    if (strcmp(argv[1], "own") == 0) return own(make_available(sd, ID, sizeof(struct shared)));
    if (strcmp(argv[1], "member") == 0) return own(join(sd));
    if (strcmp(argv[1], "write") == 0) return write_to_group(sd);
    if (strcmp(argv[1], "use") == 0) return use(sd, node);
    if (strcmp(argv[1], "read") == 0) return read_only(sd, node);
    if (strcmp(argv[1], "fork") == 0) return have_children(sd, node);
    if (strcmp(argv[1], "use-until-death") == 0) return use_until_death(sd, node);
    return 2;
}
