/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.h - exponential buckets in the sparse form of Prometheus' native histograms: spans of
 * adjacent buckets and differences of counts. The messages of a scrape
 * (io.prometheus.client.Histogram) and of remote write (prometheus.Histogram) have the same fields
 * with different numbers.
 */
#ifndef SL_EXPORT_NATIVE_H
#define SL_EXPORT_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_native_span {
	int64_t offset; /* from the end of the previous span; of the first: the index itself */
	uint64_t length;
};

/* Starts zeroed; reusable. */
struct export_native {
	int schema;
	uint64_t count, zero_count;
	double sum, zero_threshold;
	size_t spans, deltas, delta_bytes;
	struct export_native_span *span;
	int64_t *delta;
	size_t delta_room, span_room;
};

/* As in struct export_series. */
struct export_native_buckets {
	const uint64_t *bucket; /* the zero bucket, the others, and one for all above */
	size_t count;
	int scale;
	int32_t first_bucket; /* index of bucket[1] */
	double zero_threshold, sum;
};

/* True if the buckets fit this form. */
bool export_native_fits(const struct export_native_buckets *b);
/* False: out of memory. */
bool export_native_make(struct export_native *n, const struct export_native_buckets *b);
void export_native_free(struct export_native *n);

/* Field numbers, where the messages differ. */
struct export_native_fields {
	uint8_t count, sum, schema, zero_threshold, zero_count, span, delta; /* each < 16 */
};

size_t export_native_bytes(const struct export_native *n); /* at most */
/* Returns the end. */
uint8_t *export_native_put(uint8_t *p, const struct export_native *n,
			   const struct export_native_fields *f);

#endif
