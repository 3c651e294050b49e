/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - the state of the publisher of series; used by its thread unless noted otherwise */
#ifndef SL_COLLECT_PUBLISH_INTERNAL_H
#define SL_COLLECT_PUBLISH_INTERNAL_H

#include <sidelight/sidelight.h>

#include "base/table.h"
#include "base/thread.h"
#include "collect/publish/publish.h"

/* Why a selected series is not published as its rule says. */
enum collect_publish_cause {
	COLLECT_PUBLISH_NONE,
	COLLECT_PUBLISH_SELECTOR, /* an earlier rule publishes it */
	COLLECT_PUBLISH_TYPE,
	COLLECT_PUBLISH_LABELS,
	COLLECT_PUBLISH_REGEX,
	COLLECT_PUBLISH_OWN,
	COLLECT_PUBLISH_ROOM,
	COLLECT_PUBLISH_AGENT,
	COLLECT_PUBLISH_CAUSES
};

enum collect_publish_kind {
	COLLECT_PUBLISH_COUNTER,
	COLLECT_PUBLISH_COUNTER_F64,
	COLLECT_PUBLISH_HISTOGRAM, /* the last kind whose values only grow */
	COLLECT_PUBLISH_GAUGE,
	COLLECT_PUBLISH_GAUGE_F64,
};

/*
 * A metric of libsidelight: a series, or a sum. A value is an array of words: u64, i64 or the bits
 * of a double; of a histogram, the bits of the sum and then the buckets.
 */
struct collect_publish_target {
	struct base_node node; /* hash of name and labels */
	enum collect_publish_kind kind;
	bool sum, created; /* created: the metric exists */
	uint64_t retry_ns; /* libsidelight refused it: time of the next attempt */
	uint64_t pass;	   /* last pass that had a value for it */
	uint64_t created_ns;
	size_t refs; /* number of series */
	union {
		struct sl_counter counter;
		struct sl_counter_f64 counter_f64;
		struct sl_histogram histogram;
		struct sl_gauge gauge;
		struct sl_gauge_f64 gauge_f64;
	} of;
	size_t label_count, words;
	/* Allocated with the target. ended: the part of the value from forgotten series. */
	uint64_t *value, *ended;
	double *bounds; /* [words - 2] of a histogram */
	struct sl_label *labels;
	const char *name, *help;
};

struct collect_publish {
	struct collect_collector *c;
	struct collect_publish_opts o;
	struct base_thread thread;
	struct sl_publisher *publisher;
	char host[65], pid[16]; /* labels of sums */
	uint64_t pass, now_ns;
	struct base_table series, targets;
	size_t ended; /* number of series that are only remembered for sums */
	/* The series at hand: its name, the rules for this name as bits, and its value. */
	char name[SL_NAME_MAX + 8];
	const struct export_family *family;
	const struct export_series *from;
	uint32_t mask;
	enum collect_publish_kind kind;
	uint64_t *word;
	size_t words, word_room;
	bool logged[COLLECT_PUBLISH_CAUSES];
	/* Read by any thread. */
	uint64_t left_out[COLLECT_PUBLISH_CAUSES], published, passes, spent_ns;
};

/* Publishes all series once. Returns 0 or -errno; the published values are then older. */
int collect_publish_pass(struct collect_publish *p);
void collect_publish_forget(struct collect_publish *p); /* frees all series and targets */

/* A word of such a value is a double. */
static inline bool collect_publish_is_f64(enum collect_publish_kind kind, size_t word)
{
	return kind == COLLECT_PUBLISH_COUNTER_F64 || kind == COLLECT_PUBLISH_GAUGE_F64 ||
	       (kind == COLLECT_PUBLISH_HISTOGRAM && !word);
}

/* Returns a target for the series at hand, or NULL if out of memory. */
struct collect_publish_target *collect_publish_target_new(const struct collect_publish *p,
							  const struct sl_label *labels, size_t n);
/* Sets the metric, which is created first. Returns false if libsidelight refuses it. */
bool collect_publish_target_set(struct collect_publish *p, struct collect_publish_target *t);
void collect_publish_target_remove(struct collect_publish *p, struct collect_publish_target *t);

#endif
