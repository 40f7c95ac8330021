/*
 * Helpers that demonstration and data acquisition programs expect beside the API: sleeping, the time of a loop, one's own
 * node. No library is needed for them. SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef SISCI_DEMOLIB_H
#define SISCI_DEMOLIB_H

#include <stddef.h>
#include <sys/select.h>
#include <sys/time.h>

#include "sisci_api.h"

/* When something began. */
typedef struct {
    struct timeval start_time;
} timer_start_t;

static inline void StartTimer(timer_start_t *timer_start)
{
    (void)gettimeofday(&timer_start->start_time, NULL);
}

/* Microseconds since then. */
static inline double StopTimer(timer_start_t timer_start)
{
    struct timeval now;
    (void)gettimeofday(&now, NULL);
    return (double)(now.tv_sec - timer_start.start_time.tv_sec) * 1e6 +
           (double)(now.tv_usec - timer_start.start_time.tv_usec);
}

/* At least so long, unless a signal comes. */
static inline void SleepMilliseconds(unsigned int milliseconds)
{
    struct timeval time;
    time.tv_sec = (time_t)(milliseconds / 1000U);
    time.tv_usec = (suseconds_t)(milliseconds % 1000U) * 1000;
    (void)select(0, NULL, NULL, NULL, &time);
}

static inline sci_error_t GetLocalNodeId(unsigned int localAdapterNo, unsigned int *localNodeId)
{
    sci_error_t error;
    SCIGetLocalNodeId(localAdapterNo, localNodeId, 0U, &error);
    return error;
}

#endif
