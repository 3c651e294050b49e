/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - the exposition's view of samples. A source is walked family by family and series by
 * series. Independent of how sources are implemented.
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
	EXPORT_FAMILY_HISTOGRAM, /* classic or exponential, depending on the series */
	EXPORT_FAMILY_INFO,
	EXPORT_FAMILY_STATESET,
	EXPORT_FAMILY_SUMMARY,
	EXPORT_FAMILY_UNKNOWN,
	EXPORT_FAMILY_GAUGE_HISTOGRAM, /* uses the fields of a histogram */
	/* a counter whose samples have the family name without a suffix */
	EXPORT_FAMILY_BARE_COUNTER,
};

struct export_family {
	const char *name; /* OpenMetrics family name, without "_total" or "_info" */
	const char *help; /* without escapes; "" if there is none */
	const char *unit; /* "" if there is none */
	enum export_family_type type;
	uint64_t series; /* number of series; only a size hint */
};

/* An observation with additional data. */
struct export_exemplar {
	uint32_t bucket; /* index into buckets, for a histogram's exemplar */
	double value;
	uint64_t ns; /* CLOCK_REALTIME; 0 means unknown */
	const struct region_text_label *labels;
	size_t label_count;
};

/*
 * Whether there are too many labels, or the labels have more characters than OpenMetrics 1.0 allows
 * ("Exemplars").
 */
bool export_exemplar_is_long(const struct export_exemplar *e);

/*
 * How much of an exponential histogram the text formats show, unless the client requests all of it
 * (export_render_classic()).
 */
enum export_detail {
	EXPORT_DETAIL_ALL = 0,
	EXPORT_DETAIL_FEW,  /* a few bounds */
	EXPORT_DETAIL_MEAN, /* no bounds: only sum and count */
	EXPORT_DETAIL_NONE, /* the series is left out */
};

enum export_value_type { EXPORT_VALUE_U64 = 1, EXPORT_VALUE_I64, EXPORT_VALUE_F64 };

struct export_series {
	/*
	 * The labels, in two forms with the same order. label_text is escaped as it appears between
	 * the braces (k1="v1",k2="v2"); it is label_bytes long, and "" if there are no labels. Text
	 * 0.0.4 and OpenMetrics share the escapes for backslash, quote and newline. Keys that
	 * require UTF-8 are quoted in label_text. label_keys and label_values are not escaped; they
	 * are for protobuf. Valid until the next call for a series.
	 */
	const char *label_text;
	size_t label_bytes;
	const char *const *label_keys;
	const char *const *label_values;
	size_t label_count;
	bool utf8; /* a key requires UTF-8 */

	enum export_value_type value_type;
	union {
		uint64_t u64;
		int64_t i64;
		double f64;
		/*
		 * value of a counter, gauge or unknown; bit mask (u64) of a stateset; count (u64)
		 * of a summary
		 */
	} value;

	/* For a summary, bounds contains the ranks of bound_count quantiles. */
	const uint64_t *quantiles; /* bits of IEEE 754 doubles */

	/* for histograms and summaries */
	double sum;
	bool exponential;
	enum export_detail detail; /* exponential */
	const uint64_t *buckets;   /* counts per bucket, not cumulative */
	size_t bucket_count;	   /* classic: bound_count + 1 */
	const double *bounds;	   /* classic: bound_count ascending upper bounds */
	size_t bound_count;
	int scale; /* for exponential buckets: the Prometheus schema */
	/*
	 * index of buckets[1]; buckets[0] is the zero bucket, and the last bucket counts
	 * observations above all other buckets
	 */
	int32_t first_bucket;
	double zero_threshold;

	/* for statesets */
	const char *const *states;
	size_t state_count;

	/* for counters and histograms; sorted by bucket */
	const struct export_exemplar *exemplars;
	size_t exemplar_count;

	/* created_ns is the creation time of the series itself, not just of its process */
	bool created_known;
	/* CLOCK_REALTIME at the start of a counter, histogram or summary; 0 means unknown */
	uint64_t created_ns;
};

/* Consistent walks. Several may run at the same time, in any threads. */
struct export_source {
	void *ctx;
	/* Returns NULL with errno. */
	void *(*begin)(void *ctx);
	/*
	 * Returns 1 with out filled in, 0 at the end, or -errno, which aborts the body. Families
	 * are sorted by name (strcmp). A name may occur once per type; its families are
	 * consecutive, with a counter last. names.c makes the names distinct. Strings are valid
	 * until the next call of next_family.
	 */
	int (*next_family)(void *walk, struct export_family *out);
	/*
	 * Returns 1 with out filled in, 0 at the end of the family, or -errno. out is not cleared
	 * between calls, so fields that the family's type does not use need not be set. next_family
	 * skips the remaining series.
	 */
	int (*next_series)(void *walk, struct export_series *out);
	void (*end)(void *walk);
	/*
	 * Whether there is a family with this name. NULL means that the source has no UTF-8 names.
	 */
	bool (*has_family)(void *walk, const char *name);
	bool created; /* emit "_created" in OpenMetrics */
	/*
	 * Counter that is incremented for each family left out because it has no unique name. Any
	 * thread may access it; may be NULL.
	 */
	uint64_t *left_out;
};

/*
 * Computes the finite bounds of a histogram in the text formats and, for each bound, the last
 * bucket below it. The caller frees both arrays. Returns 0 or -errno.
 */
int export_bounds_of(const struct export_series *s, double **bound, uint32_t **bucket, size_t *n);

enum export_format { EXPORT_FORMAT_TEXT = 0, EXPORT_FORMAT_OPENMETRICS, EXPORT_FORMAT_PROTOBUF };

/*
 * Chooses a format from an HTTP Accept header with q-values, as sent by Prometheus; NULL selects
 * text.
 */
enum export_format export_format_negotiate(const char *accept);
const char *export_format_content_type(enum export_format format, bool utf8);

/*
 * Renders a source in pieces, with bounded memory. Without utf8, names that need UTF-8 are escaped
 * (escape.c). One renderer per request; not thread-safe. Returns NULL with errno.
 */
struct export_render;
struct export_render *export_render_new(const struct export_source *source,
					enum export_format format, bool utf8);
/*
 * Fills buf with up to max >= 1 bytes. Returns the number of bytes, 0 at the end, or -errno. The
 * walk starts with the first call and ends with export_render_free().
 */
ssize_t export_render_read(struct export_render *r, char *buf, size_t max);
/* Shows histograms of any detail completely in text. Call it before the first read. */
void export_render_classic(struct export_render *r);
void export_render_free(struct export_render *r);

#endif
