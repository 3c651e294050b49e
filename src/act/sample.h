/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h - selects the samples of a pod to send on: one per interval, and all around an anomaly,
 * those before it included. Pure: it knows neither samples nor receivers, and says which spans of
 * time to take from history.
 *
 * A receiver takes the samples of a series in order of time only, so a sample waits until no
 * anomaly can ask for its time any more: `around + late`, where late is how long a verdict may come
 * after its rows. An anomaly that begins further back is clipped, and what it missed is counted.
 *
 *	time     ----------|-------------- around --|-- late --| now
 *	sent or left out   ^ cursor: all before is decided
 *
 * Spans of a pod come in order of time and never overlap, so no sample is sent twice.
 */
#ifndef SL_ACT_SAMPLE_H
#define SL_ACT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACT_SAMPLE_FULL_MAX 8u /* pending spans at full resolution per pod */

struct act_sample_opts {
	uint64_t every_ns;  /* one sample per interval; 0: all samples */
	uint64_t around_ns; /* before and after an anomaly */
	uint64_t late_ns;   /* bound of a verdict's delay */
};

/* Samples with from_ns < t <= to_ns. */
struct act_sample_span {
	int64_t from_ns, to_ns;
	bool last; /* only the newest of them */
};

/* State of a pod; act_sample_init() first. */
struct act_sample_pod {
	int64_t cursor_ns; /* all time up to here is decided */
	int64_t tick_ns;   /* when the next single sample is due */
	struct {
		int64_t from_ns, to_ns; /* INT64_MAX: the anomaly goes on */
	} full[ACT_SAMPLE_FULL_MAX];	/* sorted, disjoint */
	uint32_t fulls;
	uint64_t clipped_ns; /* time of spans that were requested too late */
};

/*
 * When in each interval a pod's sample is due. seed spreads the pods over every_ns. Long intervals
 * have whole seconds, so that a store that keeps one sample per second, or per period, finds those
 * that two collectors send of a pod in the same one.
 */
uint64_t act_sample_phase(const struct act_sample_opts *o, uint64_t seed);
/* Starts at from_ns. */
void act_sample_init(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t from_ns,
		     uint64_t seed);

/*
 * An anomaly that began at begin_ns goes on (end_ns 0; may be repeated), or is over and was last
 * seen at end_ns, reported once.
 */
void act_sample_anomaly(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t begin_ns,
			int64_t end_ns);

/* The next decided span at now_ns, no longer than most_ns; it counts as sent. False: none now. */
bool act_sample_next(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t now_ns,
		     uint64_t most_ns, struct act_sample_span *out);

/* Skips to to_ns. Returns the skipped time, 0 if it was decided already. */
uint64_t act_sample_skip(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t to_ns);

#endif
