/* SPDX-License-Identifier: Apache-2.0 */
/* grow.h - arrays that double when they are full. */
#ifndef SL_BASE_GROW_H
#define SL_BASE_GROW_H

#include <stdlib.h>

/*
 * Makes room for one more element of array v, of which used of room are in use. False: out of
 * memory, and nothing changed. room is an lvalue of any unsigned type.
 */
#define BASE_GROW(v, used, room)                                    \
	((used) < (room) || ({                                      \
		 __typeof__(room) room_ = (room) ? 2 * (room) : 64; \
		 void *to_ = realloc((v), room_ * sizeof(*(v)));    \
		 if (to_) {                                         \
			 (v) = to_;                                 \
			 (room) = room_;                            \
		 }                                                  \
		 to_ != NULL;                                       \
	 }))

#endif
