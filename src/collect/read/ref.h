/* SPDX-License-Identifier: Apache-2.0 */
/* ref.h - reference counts of objects shared between threads */
#ifndef SL_COLLECT_READ_REF_H
#define SL_COLLECT_READ_REF_H

#include <stdbool.h>

static inline void collect_ref_get(unsigned int *refs)
{
	__atomic_fetch_add(refs, 1, __ATOMIC_RELAXED);
}

/* Returns true for the last reference: all accesses by other holders happened before the return. */
static inline bool collect_ref_put(unsigned int *refs)
{
	return __atomic_fetch_sub(refs, 1, __ATOMIC_ACQ_REL) == 1;
}

#endif
