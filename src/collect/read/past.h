/* SPDX-License-Identifier: Apache-2.0 */
/*
 * past.h - what the history of values does not hold: what histograms observed in each bucket, about
 * once per second, and when publishers began and ended. A tap fills it, and any thread reads it.
 * A worker that finds it locked comes back with its next row, and loses nothing by that.
 */
#ifndef SL_COLLECT_READ_PAST_H
#define SL_COLLECT_READ_PAST_H

#include "collect/read/buckets.h"
#include "collect/read/collect.h"

struct collect_past;

/*
 * Taps c, which is not started yet; collect_past_free() comes after that of c. bytes: of the
 * buckets. NULL with errno: ENOMEM, EINVAL (too few bytes), or those of collect_collector_tap().
 */
struct collect_past *collect_past_new(struct collect_collector *c, size_t bytes);
void collect_past_free(struct collect_past *p); /* NULL is fine */

/* ---- buckets ---- */

/*
 * What a histogram observed between from_ns (exclusive) and to_ns, the newest first: fn gets what
 * is new in each bucket since the record before it, until it returns false. Returns the number of
 * calls, or -ENOENT: no such histogram, or nothing keeps this. fn must be short.
 */
ssize_t collect_collector_observed(struct collect_collector *c, uint64_t instance, uint32_t metric,
				   int64_t from_ns, int64_t to_ns,
				   bool (*fn)(void *arg, int64_t ns, const struct collect_bucket *v,
					      size_t n),
				   void *arg);

/* ---- lives ---- */

#define COLLECT_LIVES_MAX 4096u /* events kept */
#define COLLECT_LIFE_TEXT 96u	/* longer texts are truncated */

enum collect_life_kind { COLLECT_LIFE_START, COLLECT_LIFE_CLOSE, COLLECT_LIFE_DEATH };

struct collect_life {
	int64_t ns; /* CLOCK_REALTIME */
	enum collect_life_kind kind;
	uint64_t instance;
	uint32_t pid;
	/* version: of a label "version" or "image" of the publisher, or of one of its infos. */
	char service[COLLECT_LIFE_TEXT], kube_namespace[COLLECT_LIFE_TEXT], pod[COLLECT_LIFE_TEXT],
		version[COLLECT_LIFE_TEXT];
};

/* Copies the newest max events, oldest first. Returns their number. */
size_t collect_collector_lives(struct collect_collector *c, struct collect_life *out, size_t max);

#endif
