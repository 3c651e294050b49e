/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h - selects the samples of a pod to forward: one per interval, and all samples around an
 * anomaly, including those before it. Pure: it handles neither samples nor receivers, but returns
 * spans of time to take from history.
 *
 * A receiver accepts the samples of a series only in order of time. A sample is therefore held back
 * until no anomaly can request it any more, which takes `around + late`; late is the maximum delay
 * of a verdict. If an anomaly began earlier than that, the samples before the cursor are not sent,
 * and the time is counted.
 *
 *	time     ----------|-------------- around --|-- late --| now
 *	sent or skipped    ^ cursor: everything before is decided
 *
 * The spans of a pod are in order of time and never overlap, so no sample is sent twice.
 */
#ifndef SL_ACT_SAMPLE_H
#define SL_ACT_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#define ACT_SAMPLE_FULL_MAX 8u /* maximum pending spans at full resolution per pod */

struct act_sample_opts {
	uint64_t every_ns;  /* interval of one sample; 0 means all samples */
	uint64_t around_ns; /* time at full resolution before and after an anomaly */
	uint64_t late_ns;   /* maximum delay of a verdict */
};

/* Selects samples with from_ns < t <= to_ns. */
struct act_sample_span {
	int64_t from_ns, to_ns;
	bool last; /* select only the newest of them */
};

/* State of a pod; initialise with act_sample_init(). */
struct act_sample_pod {
	int64_t cursor_ns; /* samples up to here have been sent or skipped */
	int64_t tick_ns;   /* time of the next single sample */
	struct {
		int64_t from_ns, to_ns; /* to_ns is INT64_MAX while the anomaly continues */
	} full[ACT_SAMPLE_FULL_MAX];	/* sorted, disjoint */
	uint32_t fulls;
	uint64_t clipped_ns; /* total time of spans that were requested too late */
};

/*
 * Returns the time within each interval at which a pod's sample is due. seed spreads the pods over
 * every_ns. For long intervals, the time is a whole number of seconds. If two collectors send
 * samples of the same pod, a store that keeps one sample per second or period thus finds both in
 * the same period.
 */
uint64_t act_sample_phase(const struct act_sample_opts *o, uint64_t seed);
/* Starts at from_ns. */
void act_sample_init(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t from_ns,
		     uint64_t seed);

/*
 * Reports that an anomaly that began at begin_ns continues (end_ns 0; may be repeated), or has
 * ended and was last seen at end_ns (reported once).
 */
void act_sample_anomaly(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t begin_ns,
			int64_t end_ns);

/*
 * Returns the next decided span, at most most_ns long, and counts it as sent. Returns false if
 * there is none now.
 */
bool act_sample_next(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t now_ns,
		     uint64_t most_ns, struct act_sample_span *out);

/* Skips to to_ns. Returns the skipped time, or 0 if the cursor was already there. */
uint64_t act_sample_skip(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t to_ns);

#endif
