/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realtime.h - lets a worker run before other threads for a bounded share of its CPU, so that it
 * keeps its deadlines where the CPUs are busy. A timer of its CPU time ends the share, wherever the
 * worker is then: it goes on as an ordinary thread until the next window begins.
 */
#ifndef SL_COLLECT_READ_REALTIME_H
#define SL_COLLECT_READ_REALTIME_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define COLLECT_REALTIME_WINDOW_NS 100000000u
#define COLLECT_REALTIME_SHARE_NS  25000000u

struct collect_realtime {
	bool allowed;	    /* relaxed: the worker has real-time priority while its share lasts */
	bool on;	    /* relaxed: it has it now */
	uint64_t used_up;   /* relaxed: windows whose share was used up */
	uint64_t window_ns; /* when the next window begins */
	timer_t timer;
};

/*
 * Call before capabilities are dropped: raises RLIMIT_RTPRIO, so that threads may have real-time
 * priority afterwards. Returns false if that is not allowed; then they need CAP_SYS_NICE.
 */
bool collect_realtime_permit(void);
/*
 * Gives the calling thread real-time priority for its share of each window. Returns 0 or -errno;
 * -EPERM: it is not allowed to.
 */
int collect_realtime_begin(struct collect_realtime *r);
/* Begins another window if it is time. */
void collect_realtime_turn(struct collect_realtime *r, uint64_t now_ns);
void collect_realtime_end(struct collect_realtime *r);

#endif
