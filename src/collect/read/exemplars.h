/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exemplars.h - copies of a region's exemplars. The region's worker is the only writer; any thread
 * reads without a lock, because each element carries its own check word.
 */
#ifndef SL_COLLECT_READ_EXEMPLARS_H
#define SL_COLLECT_READ_EXEMPLARS_H

#include "collect/read/region.h"
#include "region/exemplars.h"

/*
 * Maximum number of exemplars exposed per series: a region may have SL_EXEMPLARS_MAX, and a sum
 * combines the exemplars of all its members.
 */
#define COLLECT_SERIES_EXEMPLARS 1024u

/*
 * Stores a copy of element i (starting at 1); the first call allocates the memory. Worker thread
 * only.
 */
void collect_exemplars_take(struct collect_region *r, uint32_t i,
			    const uint64_t words[REGION_EXEMPLAR_WORDS]);
void collect_exemplars_free(struct collect_region *r);

/*
 * Finds the next exemplar of a column's metric after element *at, which is initially 0. Returns
 * false if there are no more. Thread-safe.
 */
bool collect_exemplars_next(const struct collect_region *r, const struct collect_column *col,
			    uint32_t *at, struct region_exemplar *out);

/*
 * Root span of a recently kept trace. A latency histogram's exemplar made from it names a trace
 * that the web page and the receiver of traces also have.
 */
struct collect_trace_link {
	uint64_t instance; /* instance of the root span's region */
	uint64_t trace_hi, trace_lo, duration_ns, end_ns;
	char root[64];
};
#define COLLECT_TRACE_LINKS 256u

/* Lists the newest traces first. Returns their number. */
size_t collect_trace_links(struct collect_collector *c,
			   struct collect_trace_link out[COLLECT_TRACE_LINKS]);
/*
 * Returns true if this histogram may have counted the root span: its unit is seconds, the root's
 * name contains the longest value of its labels, and the bucket of the root's duration, *cell, is
 * not empty.
 */
bool collect_trace_link_fits(const struct collect_trace_link *l, const struct collect_def *d,
			     const uint64_t *cells, uint32_t *cell);
void collect_trace_link_exemplar(const struct collect_trace_link *l, uint32_t cell,
				 struct region_exemplar *out);

#endif
