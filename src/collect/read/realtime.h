/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realtime.h - gives a worker priority over ordinary threads for a bounded share of its CPU, so
 * that it keeps its deadlines on busy CPUs. When a timer of the worker's CPU time expires, whatever
 * the worker is doing, it becomes an ordinary thread until the next window begins.
 */
#ifndef SL_COLLECT_READ_REALTIME_H
#define SL_COLLECT_READ_REALTIME_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define COLLECT_REALTIME_WINDOW_NS 100000000u
#define COLLECT_REALTIME_SHARE_NS  33000000u

struct collect_realtime {
	bool allowed;	    /* relaxed: the worker has real-time priority for its share */
	bool on;	    /* relaxed: the worker has real-time priority now */
	uint64_t used_up;   /* relaxed: number of windows whose share was used up */
	uint64_t window_ns; /* time at which the next window begins */
	timer_t timer;
};

/*
 * Raises RLIMIT_RTPRIO, so that threads can still get real-time priority after capabilities were
 * dropped. Returns false if this is not allowed; threads then need CAP_SYS_NICE.
 */
bool collect_realtime_permit(void);
/*
 * Gives the calling thread real-time priority for its share of each window. A thread that already
 * has such a priority keeps it. Returns 0 or -errno (-EPERM if this is not allowed).
 */
int collect_realtime_begin(struct collect_realtime *r);
/* Begins the next window if its time has come. */
void collect_realtime_turn(struct collect_realtime *r, uint64_t now_ns);
void collect_realtime_end(struct collect_realtime *r);

#endif
