/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h - what span.c and span_clock.c share, and what the rest of the library calls.
 *
 *   span.c          rings, and the spans that are written into them
 *   span_clock.c    time at the price of reading a register
 *   span_context.c  W3C trace context
 */
#ifndef SL_LIB_SPAN_H
#define SL_LIB_SPAN_H

#include <sidelight/span.h>

#include "internal.h"

/* ---- rings ---- */

/*
 * A ring as its writer knows it: what is in the region is never read back. Rings from 1 on belong
 * to whoever owns the stripe, who is kept out of his own way by sl__span_self.busy; of ring 0,
 * which everybody may write, the first three are atomic and the rest is not used.
 */
struct sl__ring {
	uint64_t lines, roots, index; /* numbers of the next ones */
	uint64_t spans, dropped, cut, head_check;
	uint64_t *head;
	uint8_t *base;
	uint32_t mask; /* span lines - 1 */
	bool ready;    /* its memory is there */
	bool own;      /* not ring 0 */
	uint32_t open; /* entries in the index line that still grows; 0: none does */
	uint64_t *open_line;
	uint64_t entry;				   /* the last one in it */
	uint64_t open_other, open_k, open_other_k; /* the other cell of its pair, their constants */
	uint64_t open_rest;			   /* the line's check, without that pair */
	uint64_t open_cells[8]; /* what it holds, but for the last entry, which may have grown */
};

/* publisher.c; all under the lock. 0 or -errno. */
SL__HIDDEN int sl__rings_make(struct sl_publisher *p);
SL__HIDDEN void sl__rings_free(struct sl_publisher *p);
SL__HIDDEN uint64_t sl__rings_bytes(uint32_t span_lines, uint32_t rings);

/* A thread that claims, or lost, a stripe; a forked child. */
SL__HIDDEN void sl__span_thread_reset(unsigned int slot);
SL__HIDDEN void sl__spans_forked(void);

/* ---- clock ---- */

enum sl__clock {
	SL__CLOCK_REALTIME = 0, /* clock_gettime() */
	SL__CLOCK_TSC = 1,
};

/*
 * What ticks mean, in one line of memory that changes once a second. Eight of them take turns, so
 * that one that is being read is not overwritten for seven seconds.
 */
struct sl__rate {
	uint64_t ticks;	  /* at the time of the calibration */
	uint64_t ns;	  /* CLOCK_REALTIME then */
	uint64_t mult;	  /* ns a tick, times 2^32 */
	uint64_t refresh; /* ticks after which to calibrate again */
};
struct sl__clock_state {
	_Atomic uint32_t source; /* enum sl__clock: what a span that starts now reads */
	_Atomic uint32_t turn;	 /* sl__rate[turn % 8] holds */
	struct sl__rate rate[8];
};
extern SL__HIDDEN struct sl__clock_state sl__clock_state;

/* Finds out whether this machine's TSC can be trusted; not on the way of a span. */
SL__HIDDEN void sl__clock_start(void);
/* Calibrates, if it is time and no other thread is at it. Async-signal-safe. */
SL__HIDDEN void sl__clock_refresh(void);

static inline uint64_t sl__ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

#endif
