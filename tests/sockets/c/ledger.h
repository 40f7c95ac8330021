/* What a test program's own calls have moved, by process: an account beside the library's, which must say the same. */
#ifndef LEDGER_H
#define LEDGER_H
#include "say.h"
#include <sched.h>
#include <stdatomic.h>

struct account {
    _Atomic pid_t pid;
    _Atomic uint64_t in, out;
};
enum { ACCOUNTS = 200 };
static struct ledger {
    _Atomic int used;
    /* How many writes were told that a part of them was taken. */
    _Atomic int parts;
    struct account of[ACCOUNTS];
} *ledger;
/* This process's; a child of vfork has its parent's. */
static struct account *mine;

static inline void opens_account(void)
{
    if (!ledger)
        ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int at = ledger->used++;
    if (ledger == MAP_FAILED || at >= ACCOUNTS)
        _exit(96);
    mine = &ledger->of[at];
    mine->pid = getpid();
}

static inline pid_t forks(void)
{
    pid_t child = fork();
    if (child == 0)
        opens_account();
    return child;
}

static inline ssize_t sent(ssize_t result)
{
    if (result > 0)
        mine->out += (uint64_t)result;
    return result;
}

static inline ssize_t got(ssize_t result)
{
    if (result > 0)
        mine->in += (uint64_t)result;
    return result;
}

static inline void tells_accounts(void)
{
    for (int at = 0; at < ledger->used; at++)
        say("account %d %llu %llu\n", ledger->of[at].pid, (unsigned long long)ledger->of[at].in,
            (unsigned long long)ledger->of[at].out);
}

/* Runs on this processor from here on, if there is more than one. */
static inline void runs_on(int processor)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2)
        return;
    for (int at = 0, nth = 0; at < CPU_SETSIZE; at++)
        if (CPU_ISSET(at, &set) && nth++ == processor % CPU_COUNT(&set)) {
            CPU_ZERO(&set);
            CPU_SET(at, &set);
            sched_setaffinity(0, sizeof set, &set);
            return;
        }
}

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static inline void computes(double seconds)
{
    for (double until = now() + seconds; now() < until;) {
    }
}
#endif
