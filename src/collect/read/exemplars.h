/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exemplars.h - copies of a region's exemplars. The region's worker is the only writer; any thread
 * reads without a lock, as each element verifies itself.
 */
#ifndef SL_COLLECT_READ_EXEMPLARS_H
#define SL_COLLECT_READ_EXEMPLARS_H

#include "collect/read/region.h"
#include "region/exemplars.h"

/*
 * Shown of one series at most: a region may have SL_EXEMPLARS_MAX, and a sum has those of all of
 * its members.
 */
#define COLLECT_SERIES_EXEMPLARS 1024u

/* Takes a copy of element i, from 1 on, of which the first call makes room. Worker only. */
void collect_exemplars_take(struct collect_region *r, uint32_t i,
			    const uint64_t words[REGION_EXEMPLAR_WORDS]);
void collect_exemplars_free(struct collect_region *r);

/*
 * The exemplars of a column's metric after element *at, which is 0 at first. False: no more. Any
 * thread.
 */
bool collect_exemplars_next(const struct collect_region *r, const struct collect_column *col,
			    uint32_t *at, struct region_exemplar *out);

/*
 * Of the newest kept traces, for histograms of latency: an exemplar that the page and a receiver of
 * traces have the trace of.
 */
struct collect_trace_link {
	uint64_t instance; /* of the root's region */
	uint64_t trace_hi, trace_lo, duration_ns, end_ns;
	char root[64];
};
#define COLLECT_TRACE_LINKS 256u

/* Newest first. Returns their number. */
size_t collect_trace_links(struct collect_collector *c,
			   struct collect_trace_link out[COLLECT_TRACE_LINKS]);
/*
 * The root of the trace may have been counted by this histogram: it is one of latency in seconds,
 * the longest value of its labels is in the root's name, and the bucket of its duration, *cell, is
 * not empty.
 */
bool collect_trace_link_fits(const struct collect_trace_link *l, const struct collect_def *d,
			     const uint64_t *cells, uint32_t *cell);
void collect_trace_link_exemplar(const struct collect_trace_link *l, uint32_t cell,
				 struct region_exemplar *out);

#endif
