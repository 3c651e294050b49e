// SPDX-License-Identifier: Apache-2.0
/*
 * values.c - the last good lines and their sums. This is the collector's hot path: an unchanged
 * line costs one comparison, a changed one seven multiplications.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "region/decode.h"
#include "base/base.h"

void region_values_init(struct region_values *v)
{
	memset(v, 0, sizeof(*v));
}

void region_values_free(struct region_values *v)
{
	free(v->memory);
	region_values_init(v);
}

int region_values_resize(struct region_values *v, uint32_t lines, uint32_t stripes)
{
	size_t words, offset;
	uint64_t *line, *sum;
	void *memory;

	lines = BASE_MAX(lines, v->lines);
	stripes = BASE_MAX(stripes, v->stripes);
	if (lines == v->lines && stripes == v->stripes)
		return 0;
	/* 2^32 lines x 2^32 stripes would overflow. */
	if (__builtin_mul_overflow((size_t)lines * 8, (size_t)stripes + (stripes > 1), &words) ||
	    words > SIZE_MAX / 16)
		return -ENOMEM;
	memory = calloc(1, words * 8 + SL_LINE_SIZE);
	if (!memory)
		return -ENOMEM;
	offset = -(uintptr_t)memory % SL_LINE_SIZE;
	line = (uint64_t *)((char *)memory + offset);
	sum = stripes > 1 ? line + (size_t)stripes * lines * 8 : NULL;
	for (uint32_t s = 0; s < v->stripes; s++)
		memcpy(line + (size_t)s * lines * 8, v->line + (size_t)s * v->lines * 8,
		       (size_t)v->lines * SL_LINE_SIZE);
	if (sum && v->stripes)
		memcpy(sum, v->sum ? v->sum : v->line, (size_t)v->lines * SL_LINE_SIZE);
	free(v->memory);
	v->memory = memory;
	v->line = line;
	v->sum = sum;
	v->lines = lines;
	v->stripes = stripes;
	return 0;
}

static inline bool same_line(const uint64_t *a, const uint64_t *b)
{
	uint64_t differ = 0;

	for (int i = 0; i < 8; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

uint32_t region_values_update(struct region_values *v, uint32_t stripe, uint32_t first,
			      const uint64_t (*lines)[8], uint32_t count, uint64_t *retry)
{
	uint32_t failed = 0;
	uint64_t *good, *sum;

	if (retry)
		memset(retry, 0, ((size_t)count + 63) / 64 * 8);
	if (stripe >= v->stripes || first >= v->lines)
		return 0;
	count = BASE_MIN(count, v->lines - first);
	good = v->line + ((size_t)stripe * v->lines + first) * 8;
	sum = v->sum ? v->sum + (size_t)first * 8 : NULL;
	for (uint32_t i = 0; i < count; i++, good += 8) {
		const uint64_t *now = lines[i];

		if (now[7] == good[7] && same_line(now, good))
			continue;
		if (now[7] != (stripe ? sl_line_check(now) : sl_mixed_check(now))) {
			failed++;
			if (retry)
				retry[i / 64] |= 1ull << i % 64;
			continue;
		}
		if (sum)
			for (int w = 0; w < 8; w++)
				sum[(size_t)i * 8 + w] += now[w] - good[w];
		memcpy(good, now, SL_LINE_SIZE);
	}
	v->unsettled += failed;
	return failed;
}

static inline size_t word_of(uint32_t cell)
{
	return (size_t)(cell / SL_LINE_CELLS) * 8 + cell % SL_LINE_CELLS;
}

uint64_t region_values_u64(const struct region_values *v, uint32_t cell)
{
	return (v->sum ? v->sum : v->line)[word_of(cell)];
}

double region_values_f64(const struct region_values *v, uint32_t cell)
{
	const uint64_t *word = v->line + word_of(cell);
	double sum = 0;

	for (uint32_t s = 0; s < v->stripes; s++, word += (size_t)v->lines * 8)
		sum += sl_f64_of_cell(*word);
	return sum;
}

uint64_t region_values_shared(const struct region_values *v, uint32_t cell)
{
	return v->line[word_of(cell)];
}

static uint64_t special_value(const struct region_values *v, const struct region_special *special,
			      uint32_t cell)
{
	uint64_t word = region_values_shared(v, cell);

	if (special->shared)
		return special->f64 ? word ^ word >> 32 : word;
	return region_f64_bits(region_values_f64(v, cell));
}

void region_values_flatten(const struct region_values *v, const struct region_special *special,
			   size_t specials, uint64_t cells, uint64_t *out)
{
	const uint64_t *line = v->sum ? v->sum : v->line;
	uint64_t held = v->stripes ? (uint64_t)v->lines * SL_LINE_CELLS : 0, at = 0;

	held = BASE_MIN(held, cells);
	for (; at + SL_LINE_CELLS <= held; at += SL_LINE_CELLS, line += 8)
		memcpy(out + at, line, SL_LINE_CELLS * 8);
	if (at < held)
		memcpy(out + at, line, (held - at) * 8);
	if (held < cells)
		memset(out + held, 0, (cells - held) * 8);
	for (size_t i = 0; i < specials; i++) {
		uint64_t cell = special[i].cell, end = BASE_MIN(cell + special[i].cells, held);

		for (; cell < end; cell++)
			out[cell] = special_value(v, &special[i], (uint32_t)cell);
	}
}
