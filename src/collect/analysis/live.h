/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - what goes on beside the collector's rounds: analysis in the workers, and a thread that
 * keeps the anomalies and does what they cause. Whoever is told outside (receivers of samples and
 * alerts) is told by threads of their own: nothing out there holds up a round, nor this thread.
 *
 *	collect_live_new()
 *	collect_collector_new(), collect_live_start(), collect_collector_start()
 *	...
 *	collect_live_stop(), collect_collector_free(), collect_live_free()
 */
#ifndef SL_COLLECT_ANALYSIS_LIVE_H
#define SL_COLLECT_ANALYSIS_LIVE_H

#include "collect/analysis/analysis.h"
#include "collect/collect.h"

struct http;

struct collect_live_opts {
	bool analyse;
	struct collect_analysis_opts analysis;
	uint64_t period_ns;	  /* of the collector's rounds */
	const char *remote_write; /* URL, or NULL */
	bool native_histograms;	  /* it takes them */
	uint64_t sample_every_ns; /* 0: all samples */
	uint64_t sample_around_ns;
	const char *alert, *webhook; /* URLs, or NULL */
	uint64_t verdict_ttl_ns; /* pods are told what is thought of them, for so long; 0: not */
	const char *link;	 /* where people find the page: goes into alerts; NULL: no link */
};

struct collect_live;

/* NULL with one line in error. */
struct collect_live *collect_live_new(const struct collect_live_opts *opts, char *error,
				      size_t error_bytes);
/* 0 or -errno. */
int collect_live_start(struct collect_live *l, struct collect_collector *c);
/* Ends the thread; what waits for receivers gets a second to go out. */
void collect_live_stop(struct collect_live *l);
/* 0, or -errno of writing what is to be written, which is logged. NULL is let pass. */
int collect_live_free(struct collect_live *l);

#endif
