/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sender.h - sends samples of history by remote write, as many as act/sample.h chooses. One thread,
 * in short slices.
 *
 * Counters, gauges, infos (as 1) and counts of histograms come from history. Sums and buckets are
 * not in history: their current values are sent, at the sampling interval, and about every second
 * during an anomaly of the pod. Exponential histograms go as native ones if the receiver takes
 * them, classic ones as series by "le". Exemplars are sent with the current values. State sets are
 * not sent. A receiver takes samples in order of time only: after the clock went back they are
 * withheld until it has caught up.
 */
#ifndef SL_COLLECT_JUDGE_SENDER_H
#define SL_COLLECT_JUDGE_SENDER_H

#include "act/sample.h"
#include "act/verdict.h"
#include "collect/read/collect.h"
#include "export/remote_write.h"

struct collect_sender;

/* What the receiver takes. */
struct collect_sender_form {
	bool native;			/* native histograms */
	bool utf8;			/* names in UTF-8 */
	struct export_remote_write *to; /* set by collect_sender_new() */
};

struct collect_sender_stats {
	uint64_t pods;
	uint64_t windows;      /* spans at full resolution, or parts of them */
	uint64_t late_ns;      /* of spans chosen too late */
	uint64_t skipped_ns;   /* of time given up because the receiver was too far behind */
	uint64_t withheld_ns;  /* until samples are sent again, as the clock went back; 0: sent */
	uint64_t back_ns;      /* of time whose samples were withheld for it */
	uint64_t truncated;    /* spans with more points than fit: the oldest were dropped */
	uint64_t refused_pods; /* out of memory */
};

/* NULL: ENOMEM. The sender's thread uses w from now on; it does not free it. */
struct collect_sender *collect_sender_new(struct collect_collector *c,
					  struct export_remote_write *w,
					  const struct act_sample_opts *opts, uint64_t period_ns,
					  const struct collect_sender_form *form);
/* An anomaly began or ended. */
void collect_sender_anomaly(struct collect_sender *s, const struct act_anomaly *a);
/* Works for at most slice_ns. True if there is more to do now. */
bool collect_sender_poll(struct collect_sender *s, uint64_t slice_ns);
void collect_sender_stats(const struct collect_sender *s,
			  struct collect_sender_stats *out); /* any thread */
void collect_sender_free(struct collect_sender *s);

#endif
