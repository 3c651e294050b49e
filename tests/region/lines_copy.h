/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines_copy.h - copies lines while others write to them, in any order and granularity: worse than
 * any READ can be.
 */
#ifndef SL_TESTS_LINES_COPY_H
#define SL_TESTS_LINES_COPY_H

#include <stdint.h>

#include "make_region.h"

#define LINES_MAX 16

enum type { COUNTER, COUNTER_F64, GAUGE, GAUGE_F64, TYPES };

struct line {
	const volatile uint8_t *at;
	unsigned int stripe, number;
	enum type type;
	uint64_t last[8]; /* the last accepted cells */
};

struct plan {
	uint8_t bytes; /* bytes per step; 0: each step has its own */
	uint16_t steps;
	uint16_t step[LINES_MAX * 64]; /* where, in the block; bits 12-15: bytes, if mixed */
};

/*
 * Orders: lines one after the other, with cells in any order within each; or everything in any
 * order.
 */
void make_plan(struct rng *r, struct plan *p, unsigned int lines);
/* block: 64 bytes per line, aligned to 64. */
void copy_block(const struct plan *p, const struct line *line, uint8_t *block);

#endif
