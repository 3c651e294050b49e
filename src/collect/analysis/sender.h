/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sender.h - samples out of history to remote write, as many as act/sample.h says. One thread; what
 * takes long is done in slices, so that whoever else has that thread gets his turn.
 *
 * Counters, gauges, infos (as 1) and the counts of histograms are sent out of history. Of
 * histograms history has no more: their sums and buckets are sent as they are at the moment, one
 * every so often, and every second or so while their pod is within an anomaly. Exponential ones go
 * as native histograms if the receiver takes them, classic ones as series by "le". State sets are
 * for scrapes.
 */
#ifndef SL_COLLECT_ANALYSIS_SENDER_H
#define SL_COLLECT_ANALYSIS_SENDER_H

#include "act/sample.h"
#include "act/verdict.h"
#include "collect/collect.h"
#include "export/remote_write.h"

struct collect_sender;

struct collect_sender_stats {
	uint64_t pods;
	uint64_t windows;      /* spans at full resolution, or pieces of them */
	uint64_t late_ns;      /* of spans that were asked for too late */
	uint64_t skipped_ns;   /* of time that was given up as the receiver was too far behind */
	uint64_t truncated;    /* spans with more points than fit: the oldest were left out */
	uint64_t refused_pods; /* no memory */
};

/* NULL: ENOMEM. w is used by the sender's thread from now on, and not freed. */
struct collect_sender *collect_sender_new(struct collect_collector *c,
					  struct export_remote_write *w,
					  const struct act_sample_opts *opts, uint64_t period_ns,
					  bool native);
/* Something about an anomaly changed. */
void collect_sender_anomaly(struct collect_sender *s, const struct act_anomaly *a);
/* Works for slice_ns at most. True if there is more to do at once. */
bool collect_sender_poll(struct collect_sender *s, uint64_t slice_ns);
void collect_sender_stats(const struct collect_sender *s,
			  struct collect_sender_stats *out); /* any thread */
void collect_sender_free(struct collect_sender *s);

#endif
