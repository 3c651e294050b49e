/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - code shared by libsidelight and libsidelight-dta: extensible structures, time. */
#ifndef SL_LIB_COMMON_H
#define SL_LIB_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define SL__HIDDEN __attribute__((visibility("hidden")))

/* ---- structures that begin with size_t sz, see sidelight/common.h ---- */

/* True if the caller's version of the structure has this member. */
#define SL__HAS(p, member) \
	((p) && (p)->sz >= offsetof(__typeof__(*(p)), member) + sizeof((p)->member))

/* Copies options of any version to *to, `size` bytes. Returns false if an unknown member is set. */
static inline bool sl__opts_take(void *to, size_t size, const void *opts)
{
	const uint8_t *bytes = opts;
	size_t sz;

	memcpy(&sz, opts, sizeof(sz));
	for (size_t i = size; i < sz; i++)
		if (bytes[i])
			return false;
	memset(to, 0, size);
	memcpy(to, opts, sz < size ? sz : size);
	return true;
}

/* Copies an answer of `size` bytes to the caller's structure, which may be of any version. */
static inline void sl__answer_give(void *to, const void *answer, size_t size)
{
	size_t sz;

	memcpy(&sz, to, sizeof(sz));
	memcpy(to, answer, sz < size ? sz : size);
	memcpy(to, &sz, sizeof(sz));
}

/* ---- time ---- */

static inline uint64_t sl__clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t sl__realtime_ns(void)
{
	return sl__clock_ns(CLOCK_REALTIME);
}

static inline uint64_t sl__monotonic_ns(void)
{
	return sl__clock_ns(CLOCK_MONOTONIC);
}

#endif
