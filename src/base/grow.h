/* SPDX-License-Identifier: Apache-2.0 */
/* grow.h - arrays that double when they are full, and their order. */
#ifndef SL_BASE_GROW_H
#define SL_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Makes room for at least count elements of size bytes in *array, a pointer of any type, which has
 * room for *room. False: out of memory, and nothing changed.
 */
bool base_grow(void *array, size_t *room, size_t count, size_t size);

/* For qsort() and bsearch() of elements that begin with a u64. */
int base_by_u64(const void *a, const void *b);

/* Makes room for one more element of array v, of which used are in use. room: any unsigned type. */
#define BASE_GROW(v, used, room)                                                    \
	((used) < (room) || ({                                                      \
		 size_t room_ = (room);                                             \
		 bool grown_ = base_grow(&(v), &room_, (used) + 1ul, sizeof(*(v))); \
		 (room) = room_;                                                    \
		 grown_;                                                            \
	 }))

#endif
