/*
 * The baseline of a connection through a ring: what half a round trip of the very cache lines takes in which its messages travel, one for
 * each direction, written by its own end and read by the other.
 *
 * The last word of such a line is not the library's (crates/sockets/src/rings/header.rs: `Message::unused`): both ends count in it,
 * each in its own region, through the mappings that the library has made. The cost of a line depends on its address, so no other
 * line would do.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

enum { RING_TAIL = 128 / 8, RING_UNUSED = (128 + 56) / 8, RINGS = 256, ROUNDS_OF_A_SAMPLE = 64 };

/* A message that asks the other end to count: `to` values from `from` on. No program sends it by chance. */
struct count_order {
    char magic[8];
    uint64_t from, to, pauses;
};

static const char COUNT_MAGIC[8] = "tlcount1";

/* The first word of a region: kind and version, and the bytes of the ring. */
static uint64_t ring_magic(void)
{
    uint64_t magic;
    memcpy(&magic, "TLsring4", sizeof magic);
    return magic ^ 256 << 10;
}

/* A region of a ring, where it is mapped, and what was published in it when this was looked at. */
struct ring_region {
    volatile uint64_t *words;
    uint64_t tail;
    int is_own;
};

/* All regions of rings of this process. */
static int ring_regions(struct ring_region regions[RINGS])
{
    char line[4096], rights[5];
    unsigned long from, to;
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && found < RINGS && fgets(line, sizeof line, maps)) {
        if (!strstr(line, "/memfd:tieline-ring") || sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || rights[0] != 'r')
            continue;
        volatile uint64_t *words = (volatile uint64_t *)from;
        if (words[0] == ring_magic())
            regions[found++] = (struct ring_region){words, words[RING_TAIL], rights[1] == 'w'};
    }
    if (maps)
        fclose(maps);
    return found;
}

/* The region of this end, or of the other one, in which something was published since `before`; NULL if that is not exactly one. */
static volatile uint64_t *changed_region(const struct ring_region before[RINGS], int count, int is_own)
{
    volatile uint64_t *changed = NULL;
    for (int at = 0; at < count; at++) {
        if (before[at].is_own != is_own || before[at].words[RING_TAIL] == before[at].tail)
            continue;
        if (changed)
            return NULL;
        changed = before[at].words;
    }
    return changed;
}

/* Waits for a value. 0: it has not come within some seconds. */
static int awaits(volatile uint64_t *word, uint64_t value, int pauses)
{
    time_t last = 0;
    for (uint64_t looks = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != value; looks++) {
        if (pauses)
            _mm_pause();
        if (looks % (1 << 22) != 0)
            continue;
        if (last == 0)
            last = time(NULL) + 10;
        else if (time(NULL) > last)
            return 0;
    }
    return 1;
}

/* The far end: answers each value with the same. */
static int answers_counts(volatile uint64_t *own, volatile uint64_t *other, const struct count_order *order)
{
    for (uint64_t value = order->from; value < order->to; value++) {
        if (!awaits(&other[RING_UNUSED], value, order->pauses != 0))
            return 0;
        __atomic_store_n(&own[RING_UNUSED], value, __ATOMIC_RELEASE);
    }
    return 1;
}

/* The near end: ticks of each sample of so many round trips. */
static int counts(volatile uint64_t *own, volatile uint64_t *other, const struct count_order *order, uint64_t *ticks)
{
    uint64_t last = __rdtsc();
    for (uint64_t value = order->from; value < order->to; value++) {
        __atomic_store_n(&own[RING_UNUSED], value, __ATOMIC_RELEASE);
        if (!awaits(&other[RING_UNUSED], value, order->pauses != 0))
            return 0;
        if ((value - order->from) % ROUNDS_OF_A_SAMPLE == ROUNDS_OF_A_SAMPLE - 1) {
            uint64_t now = __rdtsc();
            *ticks++ = now - last;
            last = now;
        }
    }
    return 1;
}
