/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.h - prefetches memory that will soon be read. The rows of several hundred pods do not stay
 * in caches, and each array of a pod is too short for the hardware prefetcher, so every array would
 * cost a cache miss. Does not affect results.
 */
#ifndef SL_ANALYSE_FETCH_H
#define SL_ANALYSE_FETCH_H

#include <stddef.h>

#define ANALYSE_LINE 64u

static inline void analyse_fetch(const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += ANALYSE_LINE)
		__builtin_prefetch((const char *)from + i);
}

#endif
