/* SPDX-License-Identifier: Apache-2.0 */
/* grow.h - arrays that double when full, and a comparison function to sort them. */
#ifndef SL_BASE_GROW_H
#define SL_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Makes space for at least count elements of size bytes in *array, a pointer of any type with space
 * for *room. Returns false without a change if memory is exhausted.
 */
bool base_grow(void *array, size_t *room, size_t count, size_t size);

/*
 * Compares two numbers or pointers, as for qsort(). To compare by several keys, write
 * BASE_ORDER(a, b) ?: BASE_ORDER(c, d).
 */
#define BASE_ORDER(a, b)                                       \
	({                                                     \
		__typeof__(a) order_a_ = (a);                  \
		__typeof__(b) order_b_ = (b);                  \
		(order_a_ > order_b_) - (order_a_ < order_b_); \
	})
/* Compares elements that begin with a u64, for qsort() and bsearch(). */
int base_by_u64(const void *a, const void *b);
int base_by_f32(const void *a, const void *b); /* the same for a float that is not NaN */

/*
 * Makes space for one more element of array v, which has `used` elements. room: any unsigned type.
 */
#define BASE_GROW(v, used, room)                                                    \
	((used) < (room) || ({                                                      \
		 size_t room_ = (room);                                             \
		 bool grown_ = base_grow(&(v), &room_, (used) + 1ul, sizeof(*(v))); \
		 (room) = room_;                                                    \
		 grown_;                                                            \
	 }))

#endif
