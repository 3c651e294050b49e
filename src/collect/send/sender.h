/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sender.h - sends samples of history by remote write, as selected by act/sample.h. Not
 * thread-safe; works in short slices.
 *
 * Counters, gauges, infos (as 1) and counts of histograms come from history. Sums and buckets are
 * not in history: their current values are sent at the sampling interval, and about every second
 * during an anomaly of the pod. Exponential histograms are sent as native histograms if the
 * receiver accepts them, classic histograms as series by "le". Exemplars are sent with the current
 * values. State sets are not sent. A receiver accepts samples only in order of time: after the
 * clock was set back, samples are withheld until it has caught up.
 */
#ifndef SL_COLLECT_SEND_SENDER_H
#define SL_COLLECT_SEND_SENDER_H

#include "act/sample.h"
#include "act/verdict.h"
#include "collect/read/collect.h"
#include "collect/send/relabel.h"
#include "export/remote_write.h"

#define COLLECT_SENDER_LABELS 16u

struct collect_sender;

/* Capabilities of the receiver. */
struct collect_sender_form {
	bool native; /* accepts native histograms */
	bool utf8;   /* accepts names in UTF-8 */
	/* Labels added to every series, unless it already has one of that name. */
	const struct region_text_label *label;
	uint32_t labels;		 /* at most COLLECT_SENDER_LABELS */
	struct collect_relabel *relabel; /* rules for all series, or NULL */
	/* Of `shards` senders to the same receiver, this is number `shard`. 0 means 1 sender. */
	unsigned int shard, shards;
	uint64_t *relabel_failed;	/* series that a rule could not be applied to; relaxed */
	struct export_remote_write *to; /* set by collect_sender_new() */
};

struct collect_sender_stats {
	uint64_t late_ns;    /* total time missing in spans that were selected too late */
	uint64_t skipped_ns; /* total time given up because the receiver was too far behind */
	/* time until samples are sent again after the clock was set back; 0 means not withheld */
	uint64_t withheld_ns;
	uint64_t back_ns; /* total time whose samples were withheld after the clock was set back */
	uint64_t relabel_failed; /* series not sent because relabelling them took too long */
};

/*
 * Returns NULL if out of memory. Only the sender's thread may use w from now on; the caller still
 * frees w.
 */
struct collect_sender *collect_sender_new(struct collect_collector *c,
					  struct export_remote_write *w,
					  const struct act_sample_opts *opts, uint64_t period_ns,
					  const struct collect_sender_form *form);
/* Called when an anomaly began or ended. */
void collect_sender_anomaly(struct collect_sender *s, const struct act_anomaly *a);
/* Works for at most slice_ns. Returns true if there is more to do now. */
bool collect_sender_poll(struct collect_sender *s, uint64_t slice_ns);
void collect_sender_stats(const struct collect_sender *s,
			  struct collect_sender_stats *out); /* may be called by any thread */
void collect_sender_free(struct collect_sender *s);

#endif
