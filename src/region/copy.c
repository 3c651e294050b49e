// SPDX-License-Identifier: Apache-2.0
/* copy.c - copies memory that other processes write. */
#include "region/decode.h"

void region_copy_words(uint64_t *to, const volatile uint64_t *from, size_t words)
{
	for (size_t i = 0; i < words; i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

bool region_copy_lines(uint64_t *to, const volatile uint64_t *from, size_t lines)
{
	for (size_t l = 0; l < lines; l++, to += 8, from += 8) {
		int tries = 1000; /* a writer needs only a few ns between its two additions */

		do {
			if (!tries--)
				return false;
			region_copy_words(to, from, 8);
		} while (to[7] != sl_line_check(to));
	}
	return true;
}
