/* SPDX-License-Identifier: Apache-2.0 */
/* time.c - the clocks, in nanoseconds. Both use the vDSO. */
#include "base/base.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts); /* does not fail for these clocks */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t base_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t base_realtime_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

void base_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

bool base_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t ns)
{
	const struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	return !pthread_cond_timedwait(c, lock, &t);
}
