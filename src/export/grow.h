/* SPDX-License-Identifier: Apache-2.0 */
/* grow.h - growing arrays, and counters that one thread writes and any reads. */
#ifndef SL_EXPORT_GROW_H
#define SL_EXPORT_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Grows *array to at least count elements of size bytes by doubling. False: out of memory. */
static inline bool export_grow(void *array, size_t *room, size_t count, size_t size)
{
	size_t n = *room ? *room : 16;
	void *at;

	if (count <= *room)
		return true;
	while (n < count)
		n *= 2;
	memcpy(&at, array, sizeof(at)); /* any type of pointer */
	at = realloc(at, n * size);
	if (!at)
		return false;
	memcpy(array, &at, sizeof(at));
	*room = n;
	return true;
}

static inline void export_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

#endif
