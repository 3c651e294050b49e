/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.h - exponential buckets in the sparse form of Prometheus' native histograms: spans of
 * neighbours, and differences of counts. The scrape's message (io.prometheus.client.Histogram) and
 * that of remote write (prometheus.Histogram) have the same fields by other numbers.
 */
#ifndef SL_EXPORT_NATIVE_H
#define SL_EXPORT_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_native_span {
	int64_t offset; /* from the end of the span before; of the first: the index itself */
	uint64_t length;
};

/* Starts as zeros; used again and again. */
struct export_native {
	int schema;
	uint64_t count, zero_count;
	double sum, zero_threshold;
	size_t spans, deltas, delta_bytes;
	struct export_native_span *span;
	int64_t *delta;
	size_t room;
};

/* As struct export_series has them. */
struct export_native_buckets {
	const uint64_t *bucket; /* the zero bucket, the others, and one for all above */
	size_t count;
	int scale;
	int32_t first_bucket; /* index of bucket[1] */
	double zero_threshold, sum;
};

/* Can it be said in this form? */
bool export_native_fits(const struct export_native_buckets *b);
/* False: out of memory. */
bool export_native_make(struct export_native *n, const struct export_native_buckets *b);
void export_native_free(struct export_native *n);

/* The numbers of the fields, where they differ. */
struct export_native_fields {
	uint8_t count, sum, schema, zero_threshold, zero_count, span, delta; /* each < 16 */
};

size_t export_native_bytes(const struct export_native *n); /* at most */
/* Returns the end. */
uint8_t *export_native_put(uint8_t *p, const struct export_native *n,
			   const struct export_native_fields *f);

#endif
