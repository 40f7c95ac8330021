// One thread on several stacks, each of which writes frames to one connection: stacks.c contexts|disarmed SECONDS
//
// contexts: a handler of SIGALRM moves the thread to the other stack (swapcontext) wherever it is, also within a write.
// disarmed: a handler on an alternative stack writes, of which the kernel does not tell (SS_AUTODISARM); it lies above the thread's own.
// The other end, a process, checks that all frames of each writer come, whole and in order. Ends with 0 if they do.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif
#define FAIL(...) do { int e = errno; fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(e)); _exit(1); } while (0)
enum { WRITERS = 2, FRAME = 64, IN_FLIGHT_MAX = 300, STACK = 1 << 20 };

struct frame { unsigned writer, number; unsigned char fill[FRAME - 8]; };
static int end;
static volatile unsigned written[WRITERS];
static volatile int is_over;
// Frames that were begun and those that came, so that the kernel's buffers never fill up and cut one.
static _Atomic unsigned long *came, begun;

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

static void make(struct frame *frame, unsigned writer, unsigned number)
{
    frame->writer = writer;
    frame->number = number;
    for (size_t i = 0; i < sizeof frame->fill; i++) frame->fill[i] = (unsigned char)(writer * 37 + number * 11 + i * 3);
}

static void write_one(unsigned writer)
{
    struct frame frame;
    while (begun - *came > IN_FLIGHT_MAX) if (is_over) return;
    begun++;
    make(&frame, writer, written[writer]);
    ssize_t count = write(end, &frame, FRAME);
    if (count != FRAME) FAIL("write %zd", count);
    written[writer]++;
}

static void all_read(int from, void *to, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t count = read(from, (char *)to + done, length - done);
        if (count > 0) done += count;
        else if (count == 0 || errno != EINTR) FAIL("read %zd", count);
    }
}

// Reads frames until one of no writer, which says how many each has written.
static void reads(int from)
{
    struct frame found, right;
    unsigned next[WRITERS] = { 0 }, told[WRITERS];
    for (;;) {
        all_read(from, &found, FRAME);
        if (found.writer == WRITERS) break;
        if (found.writer > WRITERS) FAIL("a frame of writer %u", found.writer);
        make(&right, found.writer, next[found.writer]);
        if (memcmp(&found, &right, FRAME)) FAIL("writer %u: frame %u, not %u", found.writer, found.number, next[found.writer]);
        next[found.writer]++;
        ++*came;
    }
    memcpy(told, found.fill, sizeof told);
    if (memcmp(told, next, sizeof told)) FAIL("%u and %u written, %u and %u came", told[0], told[1], next[0], next[1]);
    _exit(0);
}

static ucontext_t contexts[WRITERS];
static volatile int running;

static void switches(int signal)
{
    (void)signal;
    int from = running, number = errno;
    running = !from;
    swapcontext(&contexts[from], &contexts[!from]);
    errno = number;
}

static void mask(int how)
{
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(how, &alarm, 0);
}

static void second(void)
{
    // Only now, on this stack: a signal between the mask and the registers of the swapcontext that begins this context
    // would save into it the context that is left.
    mask(SIG_UNBLOCK);
    while (!is_over) write_one(1);
    for (;;) { }
}

static void handles(int signal)
{
    (void)signal;
    int number = errno;
    // Not while the thread waits for the other end: that would wait below it.
    if (begun - *came < IN_FLIGHT_MAX / 2) write_one(1);
    errno = number;
}

static void prepares(int is_contexts)
{
    struct sigaction action = { .sa_handler = is_contexts ? switches : handles, .sa_flags = SA_RESTART | SA_ONSTACK };
    if (is_contexts) {
        mask(SIG_BLOCK);
        getcontext(&contexts[1]);
        mask(SIG_UNBLOCK);
        contexts[1].uc_stack.ss_sp = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        contexts[1].uc_stack.ss_size = STACK;
        makecontext(&contexts[1], second, 0);
    } else {
        // Within the main thread's stack, above what it uses from here on.
        char *below = (char *)__builtin_frame_address(0) - STACK;
        stack_t stack = { .ss_sp = below + STACK / 2, .ss_size = STACK / 2 - 65536, .ss_flags = SS_AUTODISARM };
        if (sigaltstack(&stack, 0)) FAIL("sigaltstack");
    }
    sigaction(SIGALRM, &action, 0);
}

// Runs further down the stack than what `prepares` has set aside.
static __attribute__((noinline)) void runs(double seconds)
{
    volatile char room[STACK];
    room[0] = room[STACK - 1] = 0;
    struct itimerval often = { { 0, 40 }, { 0, 40 } }, never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &often, 0);
    for (double until = now() + seconds; now() < until;) for (int i = 0; i < 20; i++) write_one(0);
    // Both have ended their frames by then.
    is_over = 1;
    for (double until = now() + 0.1; now() < until;) { }
    // First the mask: a signal that comes with the end of the timer would leave the thread on the other stack for ever.
    mask(SIG_BLOCK);
    setitimer(ITIMER_REAL, &never, 0);
    (void)room[0];
}

int main(int count, char **words)
{
    if (count < 3) return 2;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    if (bind(listener, (void *)&name, length) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    came = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (!child) {
        int reader = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(reader, (void *)&name, length)) FAIL("connect");
        reads(reader);
    }
    end = accept(listener, 0, 0);
    prepares(!strcmp(words[1], "contexts"));
    runs(atof(words[2]));
    struct frame last = { .writer = WRITERS };
    unsigned all[WRITERS] = { written[0], written[1] };
    memcpy(last.fill, all, sizeof all);
    if (write(end, &last, FRAME) != FRAME) FAIL("the last frame");
    int status;
    waitpid(child, &status, 0);
    printf("%u and %u frames\n", all[0], all[1]);
    return status != 0;
}
