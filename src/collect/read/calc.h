/* SPDX-License-Identifier: Apache-2.0 */
/* calc.h - quantiles, decimation, series IDs and search terms for the API. Pure functions. */
#ifndef SL_COLLECT_READ_CALC_H
#define SL_COLLECT_READ_CALC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/read/collect.h"

/* ---- a series is "INSTANCE/METRIC": 16 hex digits and a decimal metric id ---- */

struct collect_series_id {
	uint64_t instance;
	uint32_t metric;
};

#define COLLECT_SERIES_ID_BYTES 32 /* with NUL */
void collect_series_id_format(struct collect_series_id id, char out[COLLECT_SERIES_ID_BYTES]);

/* Parses 1 to 16 hex digits, which must fill all bytes of s. Returns 0 or -EINVAL. */
int collect_instance_parse(const char *s, size_t bytes, uint64_t *instance);

/*
 * Parses a list separated by commas and optional blanks. Returns the number of IDs, -EINVAL with
 * the invalid ID in bad (truncated), or -E2BIG for more than max.
 */
int collect_series_ids_parse(const char *s, struct collect_series_id *out, int max, char bad[40]);

/* ---- search: all terms must occur, ignoring case ---- */

#define COLLECT_TERMS_MAX 8
struct collect_terms {
	char text[256];
	const char *term[COLLECT_TERMS_MAX];
	unsigned int count;
};
/*
 * Splits q at blanks and drops double quotes. Returns 0, or -E2BIG if q is too long or has too many
 * terms.
 */
int collect_terms_parse(const char *q, struct collect_terms *out);
/*
 * A term with '=' matches the end of the key and the start of the value; a term without '=' matches
 * either key or value.
 */
bool collect_term_in_label(const char *term, const char *key, const char *value);
/* Returns a mask: bit i is set if term i occurs in the text, or in one of the labels. */
uint32_t collect_terms_in_text(const struct collect_terms *t, const char *text);
uint32_t collect_terms_in_labels(const struct collect_terms *t,
				 const struct region_text_label *labels, uint32_t count);

/* ---- values of metrics ---- */

/* Returns true if a scalar metric's value is a double. */
static inline bool collect_is_f64(const struct region_metric *m)
{
	return m->kind == SL_KIND_COUNTER_F64 || m->kind == SL_KIND_GAUGE_F64 ||
	       m->kind == SL_KIND_UNKNOWN || m->kind == SL_KIND_GAUGE_TIMED;
}
/*
 * Returns the word that the history stores for a metric with these cells; for a histogram or
 * summary it is the count. collect_history_double() returns the value of such a word.
 */
static inline uint64_t collect_history_word(const struct region_metric *m, const uint64_t *cell)
{
	uint64_t count = 0;

	if (m->kind == SL_KIND_SUMMARY)
		return cell[SL_SUMMARY_COUNT];
	if (!region_is_histogram(m))
		return m->kind == SL_KIND_INFO || !m->cells ? 0 : cell[0];
	for (uint32_t i = SL_HIST_BUCKETS; i < m->cells; i++)
		count += cell[i];
	return count;
}
double collect_history_double(const struct region_metric *m, uint64_t word);

/* ---- quantiles: NaN without observations ---- */

double collect_bucket_sum(const uint64_t *buckets, size_t count);

/*
 * Like histogram_quantile() of Prometheus for classic buckets: linear inside a bucket; the first
 * bucket starts at 0 if its bound is positive; ranks above the highest finite bound yield that
 * bound. buckets has bounds + 1 entries and is not cumulative.
 */
double collect_quantile_classic(const uint64_t *buckets, const double *bounds, size_t bound_count,
				double q);

/*
 * Exponential buckets as in region.h: [0] is the zero bucket, then first_bucket, ...; the last
 * bucket holds all larger values. Interpolation is exponential, as for native histograms of
 * Prometheus, and linear in the zero bucket.
 */
double collect_quantile_exponential(const uint64_t *buckets, size_t count, int scale,
				    int32_t first_bucket, double zero_threshold, double q);

/* The quantile of a classic or exponential histogram. */
double collect_quantile(const struct region_metric *m, const uint64_t *buckets, double q);

/* READ latency in seconds: bucket i (see collect.h) holds values up to 2^(i/4) microseconds. */
double collect_bucket_bound(unsigned int bucket);
double collect_quantile_latency(const uint64_t latency[COLLECT_LATENCY_BUCKETS], double q);

/* Upper bound of exponential bucket i: 2^(i * 2^-scale). */
double collect_exponential_bound(int scale, double i);

/* ---- decimation ---- */

#define COLLECT_DECIMATE_MIN 16
/*
 * Reduces n points in [from_ns, to_ns], oldest first, in place to at most max >=
 * COLLECT_DECIMATE_MIN: the first and the last point, and the lowest and highest point of each of
 * several equal intervals, in order. The intervals are aligned to multiples of their width since
 * the epoch, so that a moving chart does not flicker. Returns the number of points left.
 */
size_t collect_decimate(struct collect_point *points, size_t n, int64_t from_ns, int64_t to_ns,
			size_t max);

#endif
