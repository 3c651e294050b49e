// SPDX-License-Identifier: Apache-2.0
/* copy.c - copies memory that other processes write, and lines that they read. */
#include "region/decode.h"

#include <string.h>

void region_copy_words(uint64_t *to, const volatile uint64_t *from, size_t words)
{
	for (size_t i = 0; i < words; i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void region_store_line(uint64_t *to, const uint64_t cells[7])
{
	uint64_t line[8];

	memcpy(line, cells, 56);
	for (int i = 0; i < 7; i++)
		__atomic_store_n(&to[i], line[i], __ATOMIC_RELAXED);
	__atomic_store_n(&to[7], sl_line_check(line), __ATOMIC_RELEASE);
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
