/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h - the interface between span.c, span_clock.c and the rest of the library.
 * - span.c: spans and their rings
 * - span_clock.c: timestamps from the processor's counter
 * - span_context.c: W3C trace context
 */
#ifndef SL_LIB_SPAN_H
#define SL_LIB_SPAN_H

#include <sidelight/span.h>

#include "internal.h"

/* ---- rings ---- */

/*
 * The writer's own state of a ring, because it never reads the region. Each ring except ring 0
 * belongs to the owner of its stripe; `busy` keeps that thread's signal handlers from writing to
 * it. Any thread may write to ring 0, so its first three members are atomic, and the others are
 * unused.
 */
struct sl__ring {
	uint64_t lines, roots, index; /* numbers of the next line, root and index line */
	uint64_t spans, dropped, cut, head_check;
	uint64_t *head;
	uint8_t *base;
	uint32_t mask; /* number of span lines - 1 */
	bool ready;    /* memory is allocated */
	bool own;      /* true for the ring of a stripe, false for ring 0 */
	uint32_t open; /* number of entries in the open index line; 0 means no open line */
	uint64_t *open_line;
	uint64_t entry; /* the last entry */
	/*
	 * for the check word of the open line: the other cell of the last entry's pair, and the
	 * constants of both cells
	 */
	uint64_t open_other, open_k, open_other_k;
	/*
	 * check word of the open line, without the contribution of the last entry's pair of cells
	 */
	uint64_t open_rest;
	/* cells of the open line, except the last entry, which may still grow */
	uint64_t open_cells[8];
};

/* For region.c; caller holds the lock. Return 0 or -errno. */
SL__HIDDEN int sl__rings_make(struct sl__region *r);
SL__HIDDEN void sl__rings_free(struct sl__region *r);
SL__HIDDEN uint64_t sl__rings_bytes(uint32_t span_lines, uint32_t rings);

/* Called when a thread claims a stripe, and in a forked child. */
SL__HIDDEN void sl__span_thread_reset(unsigned int slot);
SL__HIDDEN void sl__spans_forked(void);

/* ---- clock ---- */

enum sl__clock {
	SL__CLOCK_REALTIME = 0, /* clock_gettime() */
	SL__CLOCK_TICKS = 1,
};

/* A calibration, one per second. With eight entries, each stays valid for seven seconds. */
struct sl__rate {
	uint64_t ticks;	  /* counter at the time of the calibration */
	uint64_t ns;	  /* CLOCK_REALTIME at that time */
	uint64_t mult;	  /* ns per tick, times 2^32 */
	uint64_t refresh; /* ticks until the next calibration */
};
struct sl__clock_state {
	_Atomic uint32_t source; /* enum sl__clock for spans that start now */
	_Atomic uint32_t turn;	 /* index of the current entry: rate[turn % 8] */
	struct sl__rate rate[8];
};
extern SL__HIDDEN struct sl__clock_state sl__clock_state;

/* True after a second, and also if the counter is far behind: a suspension may reset it to 0. */
static inline bool sl__rate_expired(uint64_t now, uint64_t ticks, uint64_t refresh)
{
	return now - ticks + refresh > 2 * refresh;
}

/* Tests whether the processor's counter can be trusted. Slow. */
SL__HIDDEN void sl__clock_start(void);
/* Calibrates if due, unless another thread is doing so. Async-signal-safe. */
SL__HIDDEN void sl__clock_refresh(void);

static inline uint64_t sl__ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return 0;
#endif
}

#endif
