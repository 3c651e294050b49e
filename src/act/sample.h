/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h - which samples of a pod are worth sending on: one every so often, and all of them
 * around an anomaly, those before it included. Pure: knows neither samples nor where they go; it
 * says which spans of time are to be taken out of history.
 *
 * A receiver takes the samples of a series in the order of time only. What was before an anomaly is
 * known to be wanted when the anomaly is there, so nothing may be sent before it is certain that no
 * anomaly will ask for its time: samples leave `around + late` behind time, where late is how long
 * a verdict may come after what it is about. An anomaly that begins further back than that is
 * clipped, and what it missed is counted.
 *
 *	time     ----------|-------------- around --|-- late --| now
 *	sent or left out   ^ cursor: all before is decided
 *
 * Spans of a pod come in the order of time and never overlap, so no sample is sent twice.
 */
#ifndef SL_ACT_SAMPLE_H
#define SL_ACT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACT_SAMPLE_FULL_MAX 8u /* spans at full resolution that wait in a pod */

struct act_sample_opts {
	uint64_t every_ns;  /* one sample in so long; 0: all of them, always */
	uint64_t around_ns; /* before and after an anomaly */
	uint64_t late_ns;   /* how long after its time a verdict may come */
};

/* Samples with from_ns < t <= to_ns. */
struct act_sample_span {
	int64_t from_ns, to_ns;
	bool last; /* only the newest of them */
};

/* The plan of a pod. Starts with act_sample_init(). */
struct act_sample_pod {
	int64_t cursor_ns; /* all up to here is decided */
	int64_t tick_ns;   /* the next one at which one sample is due */
	struct {
		int64_t from_ns, to_ns; /* to_ns INT64_MAX: the anomaly goes on */
	} full[ACT_SAMPLE_FULL_MAX];	/* sorted, disjoint */
	uint32_t fulls;
	uint64_t clipped_ns; /* of spans that were asked for too late */
};

/* Nothing before from_ns is ever sent. seed spreads the pods' samples over every_ns. */
void act_sample_init(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t from_ns,
		     uint64_t seed);

/*
 * An anomaly that began at begin_ns goes on (end_ns 0; saying it again is harmless), or is over and
 * was last seen at end_ns, which must be said once.
 */
void act_sample_anomaly(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t begin_ns,
			int64_t end_ns);

/*
 * The next span that is decided at now_ns, and no longer than most_ns. False: none for now. What it
 * returned counts as sent.
 */
bool act_sample_next(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t now_ns,
		     uint64_t most_ns, struct act_sample_span *out);

/* Gives up what is before to_ns. Returns the time that is given up, 0 if it was decided before. */
uint64_t act_sample_skip(struct act_sample_pod *p, const struct act_sample_opts *o, int64_t to_ns);

#endif
