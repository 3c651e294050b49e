/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - samples as the exposition sees them: a source is walked family by family and series by
 * series. Knows no implementation of a source.
 */
#ifndef SL_EXPORT_MODEL_H
#define SL_EXPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "region/text.h"

enum export_family_type {
	EXPORT_FAMILY_COUNTER = 1,
	EXPORT_FAMILY_GAUGE,
	EXPORT_FAMILY_HISTOGRAM, /* classic and exponential alike: see the series */
	EXPORT_FAMILY_INFO,
	EXPORT_FAMILY_STATESET,
	EXPORT_FAMILY_SUMMARY,
	EXPORT_FAMILY_UNKNOWN,
	EXPORT_FAMILY_GAUGE_HISTOGRAM, /* fields as of a histogram */
	EXPORT_FAMILY_BARE_COUNTER,    /* its samples have the family's name, as it is */
};

struct export_family {
	const char *name; /* OpenMetrics family name, without "_total" or "_info" */
	const char *help; /* "" if none; not escaped */
	const char *unit; /* "" if none */
	enum export_family_type type;
	uint64_t series; /* their number, for sizing only */
};

/* An observation of which more is known. */
struct export_exemplar {
	uint32_t bucket; /* of a histogram: its number in buckets */
	double value;
	uint64_t ns; /* CLOCK_REALTIME; 0: unknown */
	const struct region_text_label *labels;
	size_t label_count;
};

/* Its labels have more characters than OpenMetrics 1.0 ("Exemplars") allows, or it has too many. */
bool export_exemplar_is_long(const struct export_exemplar *e);

enum export_value_type { EXPORT_VALUE_U64 = 1, EXPORT_VALUE_I64, EXPORT_VALUE_F64 };

struct export_series {
	/*
	 * The labels as between the braces, escaped: k1="v1",k2="v2" (text 0.0.4 and OpenMetrics
	 * share the escapes \\ \" \n), label_bytes long, "" if none; and unescaped for protobuf, in
	 * the same order. Keys that need UTF-8 stand there in quotes. Valid until the next series
	 * call.
	 */
	const char *label_text;
	size_t label_bytes;
	const char *const *label_keys;
	const char *const *label_values;
	size_t label_count;
	bool utf8; /* a key needs it */

	enum export_value_type value_type;
	union {
		uint64_t u64;
		int64_t i64;
		double f64;
	} value; /* counter, gauge, unknown; stateset: u64 bit mask; summary: u64 count */

	/* summary: bounds are the ranks of bound_count quantiles */
	const uint64_t *quantiles; /* IEEE 754 bits */

	/* histogram, summary */
	double sum;
	bool exponential;
	bool brief; /* exponential: text shows few of its bounds, unless asked for more */
	const uint64_t *buckets; /* not cumulative */
	size_t bucket_count;	 /* classic: bound_count + 1 */
	const double *bounds;	 /* classic: bound_count ascending upper bounds */
	size_t bound_count;
	int scale;	      /* exponential: Prometheus schema */
	int32_t first_bucket; /* index of buckets[1]; buckets[0] is the zero bucket, the last one
				 counts observations above all others */
	double zero_threshold;

	/* stateset */
	const char *const *states;
	size_t state_count;

	/* Counters, histograms: by bucket, ascending. */
	const struct export_exemplar *exemplars;
	size_t exemplar_count;

	bool created_known;  /* of the series itself, not only of its process */
	uint64_t created_ns; /* CLOCK_REALTIME start of counter, histogram or summary, 0: unknown */
};

/* Consistent walks, any number at a time, from any thread. */
struct export_source {
	void *ctx;
	/* NULL with errno. */
	void *(*begin)(void *ctx);
	/*
	 * 1: out is filled; 0: no more; < 0: -errno, which aborts the body. Families are sorted by
	 * name (strcmp). A name may occur once per type, consecutively, a counter last; names.c
	 * tells them apart. Strings are valid until the next call of next_family.
	 */
	int (*next_family)(void *walk, struct export_family *out);
	/*
	 * 1: out is filled; 0: no more in this family; < 0: -errno. out is not cleared between
	 * calls, so fields that the family's type lacks need not be set. next_family skips the
	 * remaining series.
	 */
	int (*next_series)(void *walk, struct export_series *out);
	void (*end)(void *walk);
	/* True: there is a family of this name. NULL: the source has no names in UTF-8. */
	bool (*has_family)(void *walk, const char *name);
	bool created; /* OpenMetrics has "_created" */
	/* Counts families for which there is no name, each time. Any thread; may be NULL. */
	uint64_t *left_out;
};

enum export_format { EXPORT_FORMAT_TEXT = 0, EXPORT_FORMAT_OPENMETRICS, EXPORT_FORMAT_PROTOBUF };

/* Picks by an HTTP Accept header (NULL: text) with q-values, as Prometheus sends them. */
enum export_format export_format_negotiate(const char *accept);
const char *export_format_content_type(enum export_format format, bool utf8);

/*
 * Renders a source in pieces with bounded memory. Without utf8, names in UTF-8 are escaped
 * (escape.c). One renderer per request, not thread-safe. NULL with errno.
 */
struct export_render;
struct export_render *export_render_new(const struct export_source *source,
					enum export_format format, bool utf8);
/*
 * Fills buf with up to max >= 1 bytes; 0 at the end, -errno on failure. The walk begins with the
 * first call and ends with export_render_free().
 */
ssize_t export_render_read(struct export_render *r, char *buf, size_t max);
/* Before the first read: text has all bounds of brief histograms. */
void export_render_classic(struct export_render *r);
void export_render_free(struct export_render *r);

#endif
