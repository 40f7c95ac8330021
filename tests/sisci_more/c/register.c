/* The program's own memory becomes a segment's, while its threads use it. The first argument says what is tried. */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { ID = 9, PAGES = 8, THREADS = 3, TIMES = 1000 };

static size_t page;
static sci_desc_t sd;

static sci_local_segment_t create_empty(size_t size) {
    sci_local_segment_t segment;
    SCICreateSegment(sd, &segment, ID, size, NULL, NULL, SCI_FLAG_EMPTY, &error);
    EXPECT(SCI_ERR_OK);
    return segment;
}

static void *map_pages(int access, int flags, int fd) {
    void *at = mmap(NULL, PAGES * page, access, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* One segment after another of the same kind of memory: in the heap, on this stack (not where it runs), in .bss and .data. */
static char in_bss[8 * 4096] __attribute__((aligned(4096)));
static char in_data[8 * 4096] __attribute__((aligned(4096))) = "data";

static void share(char *memory) {
    size_t size = PAGES * page;
    for (size_t at = 0; at < size; at += page)
        memory[at] = (char)(at / page + 1);
    sci_local_segment_t segment = create_empty(size);
    SCIRegisterSegmentMemory(memory, size, segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    open_segment(segment);
    sci_remote_segment_t remote = connect_segment(sd, own_node(), ID);
    sci_map_t map, local;
    volatile char *seen = SCIMapRemoteSegment(remote, &map, 0, size, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    for (size_t at = 0; at < size; at += page)
        CHECK(seen[at] == (char)(at / page + 1));
    seen[5] = 55;
    CHECK(((volatile char *)memory)[5] == 55);
    ((volatile char *)memory)[6] = 66;
    CHECK(seen[6] == 66);
    volatile char *again = SCIMapLocalSegment(segment, &local, 0, size, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(again[6] == 66);
    SCIUnmapSegment(local, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    /* By force: who is connected keeps what it has mapped, and reaches the program no more. */
    SCIRemoveSegment(segment, SCI_FLAG_FORCE_REMOVE, &error);
    EXPECT(SCI_ERR_OK);
    CHECK(((volatile char *)memory)[5] == 55 && ((volatile char *)memory)[6] == 66);
    seen[5] = 1;
    CHECK(((volatile char *)memory)[5] == 55);
    SCIUnmapSegment(map, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIDisconnectSegment(remote, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
}

static void kinds(void) {
    char *heap;
    CHECK(posix_memalign((void **)&heap, page, PAGES * page) == 0);
    share(heap);
    share(heap);
    free(heap);
    CHECK(page == 4096);
    share(in_bss);
    share(in_data);
    char on_stack[8 * 4096] __attribute__((aligned(4096)));
    share(on_stack);
    share(map_pages(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
}

static void refused(void) {
    size_t size = PAGES * page;
    sci_map_t map;
    sci_local_segment_t segment = create_empty(size);
    /* Without memory it is good for nothing. */
    SCIPrepareSegment(segment, 0, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_OPERATION, "SCIRegisterSegmentMemory");
    SCIMapLocalSegment(segment, &map, 0, page, NULL, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_OPERATION);
    char *memory = map_pages(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    SCIRegisterSegmentMemory(memory + 8, size, segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OFFSET_ALIGNMENT);
    SCIRegisterSegmentMemory(memory, size - 8, segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_SIZE_ALIGNMENT);
    SCIRegisterSegmentMemory(memory, size - page, segment, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_PARAMETER, "whole pages");
    SCIRegisterSegmentMemory(NULL, size, segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_ILLEGAL_ADDRESS);
    SCIRegisterSegmentMemory(map_pages(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1), size, segment, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_ADDRESS, "cannot be read and written");
    SCIRegisterSegmentMemory(map_pages(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1), size, segment,
                             NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_ADDRESS, "shared memory");
    CHECK(munmap(memory + 2 * page, page) == 0);
    SCIRegisterSegmentMemory(memory, size, segment, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_ADDRESS, "nothing is mapped");
    SCIAttachPhysicalMemory(0, memory, 0, size, segment, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_NOT_IMPLEMENTED, "SCIRegisterSegmentMemory");
    /* After all that it still takes memory, once; and memory is taken once. */
    memory = map_pages(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    SCIRegisterSegmentMemory(memory, size, segment, NO_FLAGS, &error);
    EXPECT(SCI_ERR_OK);
    SCIRegisterSegmentMemory(map_pages(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), size, segment,
                             NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_OPERATION, "already");
    sci_local_segment_t other;
    SCICreateSegment(sd, &other, ID + 1, size, NULL, NULL, SCI_FLAG_EMPTY, &error);
    EXPECT(SCI_ERR_OK);
    SCIRegisterSegmentMemory(memory, size, other, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_ADDRESS, "shared memory");
    sci_local_segment_t full = create_segment(sd, ID + 2, size);
    SCIRegisterSegmentMemory(memory, size, full, NO_FLAGS, &error);
    EXPECT_WORDS(SCI_ERR_ILLEGAL_OPERATION, "SCI_FLAG_EMPTY");
    /* SCITerminate gives it back, too. */
    memory[3] = 3;
    SCITerminate();
    CHECK(memory[3] == 3);
    memory[3] = 4;
}

static volatile uint64_t *counters;
static volatile int stop;
static volatile uint64_t alarms;

/* Stores without pause into every page, each thread its own word, and finds each time what it stored before. */
static void *store(void *argument) {
    size_t number = (size_t)argument;
    uint64_t count = 0;
    while (!stop) {
        count++;
        for (int at = 0; at < PAGES; at++) {
            volatile uint64_t *word = counters + at * page / sizeof *counters + number;
            CHECK(*word == count - 1);
            *word = count;
        }
    }
    for (int at = 0; at < PAGES; at++)
        CHECK(counters[at * page / sizeof *counters + number] == count);
    return NULL;
}

/* A signal handler stores there, too: also on the thread that registers the memory. */
static void on_alarm(int signal) {
    (void)signal;
    CHECK(counters[THREADS] == alarms);
    counters[THREADS] = ++alarms;
}

static void under_fire(void) {
    size_t size = PAGES * page;
    CHECK(posix_memalign((void **)&counters, page, size) == 0);
    memset((void *)counters, 0, size);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {.it_interval = {.tv_usec = 50}, .it_value = {.tv_usec = 50}}, never = {0};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    /* The threads inherit it: the alarms come to this one. */
    CHECK(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0);
    pthread_t threads[THREADS];
    for (size_t number = 0; number < THREADS; number++)
        CHECK(pthread_create(&threads[number], NULL, store, (void *)number) == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL) == 0);
    for (int time = 0; time < TIMES; time++) {
        sci_local_segment_t segment = create_empty(size);
        SCIRegisterSegmentMemory((void *)counters, size, segment, NO_FLAGS, &error);
        EXPECT(SCI_ERR_OK);
        SCIRemoveSegment(segment, NO_FLAGS, &error);
        EXPECT(SCI_ERR_OK);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    stop = 1;
    for (int number = 0; number < THREADS; number++)
        CHECK(pthread_join(threads[number], NULL) == 0);
}

static volatile sig_atomic_t faults;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    faults++;
    /* What this program does about its faults: it makes the page writable. */
    mprotect((void *)((uintptr_t)info->si_addr & ~(page - 1)), page, PROT_READ | PROT_WRITE);
}

/* A program's own handler is called for its own faults, whether it was installed before the library's or after. */
static void own_handler(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    char *guarded = map_pages(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (int round = 0; round < 3; round++) {
        if (round != 1)
            CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
        share(map_pages(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
        ((volatile char *)guarded)[round * page] = 1;
        CHECK(faults == round + 1);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    page = (size_t)sysconf(_SC_PAGESIZE);
    sd = open_device();
    if (strcmp(argv[1], "kinds") == 0)
        kinds();
    else if (strcmp(argv[1], "refused") == 0)
        refused();
    else if (strcmp(argv[1], "under-fire") == 0)
        under_fire();
    else if (strcmp(argv[1], "own-handler") == 0)
        own_handler();
    else
        CHECK(!"an argument that is known");
    SCITerminate();
    say("done");
    return 0;
}
