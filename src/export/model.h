/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - what the exposition needs to know of samples, and no more: a source is walked family
 * by family and series by series. Who fills it is none of its business.
 */
#ifndef SL_EXPORT_MODEL_H
#define SL_EXPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum export_family_type {
	EXPORT_FAMILY_COUNTER = 1,
	EXPORT_FAMILY_GAUGE,
	EXPORT_FAMILY_HISTOGRAM, /* classic and exponential alike: see the series */
	EXPORT_FAMILY_INFO,
	EXPORT_FAMILY_STATESET,
};

struct export_family {
	const char *name; /* without "_total"/"_info": the OpenMetrics family name */
	const char *help; /* "" if none; not escaped */
	const char *unit; /* "" if none */
	enum export_family_type type;
	uint64_t series; /* number, for sizing only */
};

enum export_value_type { EXPORT_VALUE_U64 = 1, EXPORT_VALUE_I64, EXPORT_VALUE_F64 };

struct export_series {
	/*
	 * The labels as they stand between the braces, escaped: k1="v1",k2="v2" (the escapes \\ \"
	 * \n are the same in text 0.0.4 and OpenMetrics), label_bytes long, "" if none. The same
	 * labels unescaped for protobuf, in the same order. Valid until the next series call.
	 */
	const char *label_text;
	size_t label_bytes;
	const char *const *label_keys;
	const char *const *label_values;
	size_t label_count;

	enum export_value_type value_type;
	union {
		uint64_t u64;
		int64_t i64;
		double f64;
	} value; /* counter, gauge; stateset: u64 bit mask */

	/* histogram */
	double sum;
	bool exponential;
	const uint64_t *buckets; /* not cumulative */
	size_t bucket_count;	 /* classic: bound_count + 1 */
	const double *bounds;	 /* classic: bound_count ascending upper bounds */
	size_t bound_count;
	int scale;	      /* exponential: Prometheus schema */
	int32_t first_bucket; /* index of buckets[1]; buckets[0] is the zero bucket, the last
			       * one is for observations above all others */
	double zero_threshold;

	/* stateset */
	const char *const *states;
	size_t state_count;

	/*
	 * Counters: the trace that is an example of what was counted last, as a label set of
	 * OpenMetrics ("trace_id"), or NULL. Its value is 1.
	 */
	const char *exemplar_trace; /* hex */
	uint64_t exemplar_ns;	    /* CLOCK_REALTIME */

	uint64_t created_ns; /* CLOCK_REALTIME start of counter or histogram, 0 unknown */
};

/* A consistent walk; any number at the same time, from any thread. */
struct export_source {
	void *ctx;
	/* NULL with errno when out of memory. */
	void *(*begin)(void *ctx);
	/*
	 * 1: out is filled; 0: no more; < 0: -errno, the body is broken off. Families come sorted
	 * by name (strcmp). One name may come once a type, one after the other: see names.c for how
	 * they are then told apart. Strings are valid until the next call of next_family.
	 */
	int (*next_family)(void *walk, struct export_family *out);
	/*
	 * 1: out is filled; 0: no more in this family; < 0: -errno. out is not cleared between
	 * calls: fields that the family's type does not have need not be set. Series that are left
	 * over when next_family is called are skipped.
	 */
	int (*next_series)(void *walk, struct export_series *out);
	void (*end)(void *walk);
};

enum export_format { EXPORT_FORMAT_TEXT = 0, EXPORT_FORMAT_OPENMETRICS, EXPORT_FORMAT_PROTOBUF };

/* Picks by an HTTP Accept header (NULL: text), with q-values, as Prometheus sends them. */
enum export_format export_format_negotiate(const char *accept);
const char *export_format_content_type(enum export_format format);

/*
 * Renders a source piece by piece in bounded memory. Not thread-safe, one a request.
 * NULL with errno.
 */
struct export_render;
struct export_render *export_render_new(const struct export_source *source,
					enum export_format format);
/*
 * Adds OpenMetrics' "_created" samples. Off by default: Prometheus 2.x takes each for a series of
 * its own. Call before the first read.
 */
void export_render_created(struct export_render *r, bool on);
/*
 * Fills buf with up to max >= 1 bytes; 0 at the end, -errno on failure. The walk begins with the
 * first call and ends with export_render_free(): free it soon.
 */
ssize_t export_render_read(struct export_render *r, char *buf, size_t max);
void export_render_free(struct export_render *r);

#endif
