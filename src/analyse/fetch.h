/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.h - asks for memory that is about to be read. The rows of some hundred pods do not stay in
 * caches, and each of a pod's arrays is too short for the processor to see that it is read on: it
 * would wait for each anew. Has no effect on results.
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
