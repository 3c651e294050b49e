/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * line.h - writes self-verifying lines, the "plain" kind in sidelight/region.h, in eBPF programs: a
 * line has seven cells and a check word that grows by n * K[i] when cell i grows by n.
 */
#ifndef SL_SOURCE_TCP_BPF_LINE_H
#define SL_SOURCE_TCP_BPF_LINE_H

#include "kernel.h"

/* SL_LINE_K0 to SL_LINE_K6 of sidelight/region.h, and 0 for the check word itself. */
static const u64 line_k[8] = {
	0x9e3779b97f4a7c15ull, 0xbf58476d1ce4e5b9ull, 0x94d049bb133111ebull, 0xd6e8feb86659fd93ull,
	0xa0761d6478bd642full, 0xe7037ed1a0b428dbull, 0x8ebc6af09c88c6e3ull, 0};

/* For a line with a single writer at a time, such as a line per CPU with interrupts off. */
static __always_inline void line_add(u64 *line, u32 i, u64 n)
{
	line[i] += n;
	line[7] += n * line_k[i];
}

/*
 * For a line with several writers. Additions commute, so the line verifies once all writers are
 * done. Returns the previous value of the cell.
 */
static __always_inline u64 line_add_atomic(u64 *line, u32 i, u64 n)
{
	u64 before = __sync_fetch_and_add(&line[i], n);

	__sync_fetch_and_add(&line[7], n * line_k[i]);
	return before;
}

static __always_inline void line_set(u64 *line, u32 i, u64 to)
{
	u64 old = __sync_lock_test_and_set(&line[i], to);

	__sync_fetch_and_add(&line[7], (to - old) * line_k[i]);
}

#endif
