/* SPDX-License-Identifier: Apache-2.0 */
/*
 * past.h - adds to the value history the observations of histograms per bucket, about once per
 * second, and the starts and ends of publishers. A tap fills it, and any thread reads it. A worker
 * that finds it locked tries again with its next row, and loses nothing.
 */
#ifndef SL_COLLECT_READ_PAST_H
#define SL_COLLECT_READ_PAST_H

#include "collect/read/buckets.h"
#include "collect/read/collect.h"

struct collect_past;

/*
 * Taps c, which must not have been started yet; call collect_past_free() after c has been freed.
 * bytes: memory for the buckets. Returns NULL with errno ENOMEM, EINVAL (too few bytes), or an
 * error of collect_collector_tap().
 */
struct collect_past *collect_past_new(struct collect_collector *c, size_t bytes);
void collect_past_free(struct collect_past *p); /* p may be NULL */

/* ---- buckets ---- */

/*
 * Walks the observations of a histogram between from_ns (exclusive) and to_ns, newest first, until
 * fn returns false. fn receives the increase of each bucket since the previous record, and must be
 * short. Returns the number of calls, or -ENOENT if there is no such histogram or no record of it.
 */
ssize_t collect_collector_observed(struct collect_collector *c, const struct collect_series_ref *of,
				   int64_t from_ns, int64_t to_ns,
				   bool (*fn)(void *arg, int64_t ns, const struct collect_bucket *v,
					      size_t n),
				   void *arg);

/*
 * Like collect_collector_points() for the sum or the buckets of a histogram, with a point per
 * second.
 */
ssize_t collect_past_totals(struct collect_past *p, const struct collect_series_ref *of,
			    int64_t from_ns, int64_t to_ns, struct collect_point *out, size_t max,
			    struct base_budget *budget);

/* ---- lives ---- */

#define COLLECT_LIVES_MAX 4096u /* number of events kept */
#define COLLECT_LIFE_TEXT 96u	/* maximum length; longer texts are truncated */

enum collect_life_kind { COLLECT_LIFE_START, COLLECT_LIFE_CLOSE, COLLECT_LIFE_DEATH };

struct collect_life {
	int64_t ns; /* CLOCK_REALTIME */
	enum collect_life_kind kind;
	uint64_t instance;
	uint32_t pid;
	/* version: from a label "version" or "image" of the publisher, or from one of its infos */
	char service[COLLECT_LIFE_TEXT], kube_namespace[COLLECT_LIFE_TEXT], pod[COLLECT_LIFE_TEXT],
		version[COLLECT_LIFE_TEXT];
};

/* Copies the newest max events, oldest first. Returns their number. */
size_t collect_collector_lives(struct collect_collector *c, struct collect_life *out, size_t max);
/* True if the process behind the instance is known to have ended. */
bool collect_collector_ended(struct collect_collector *c, uint64_t instance);

#endif
