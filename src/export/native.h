/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.h - exponential buckets in the sparse form used by Prometheus' native histograms: spans of
 * adjacent buckets and differences between counts. The scrape message
 * (io.prometheus.client.Histogram) and the remote write message (prometheus.Histogram) have the
 * same fields with different field numbers.
 */
#ifndef SL_EXPORT_NATIVE_H
#define SL_EXPORT_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_native_span {
	/* distance from the end of the previous span; for the first span, the index itself */
	int64_t offset;
	uint64_t length;
};

/* Must be zeroed initially; reusable. */
struct export_native {
	int schema;
	uint64_t count, zero_count;
	double sum, zero_threshold;
	size_t spans, deltas, delta_bytes;
	struct export_native_span *span;
	int64_t *delta;
	size_t delta_room, span_room;
};

/* The same fields as in struct export_series. */
struct export_native_buckets {
	const uint64_t *bucket; /* the zero bucket, the regular ones, and one for larger values */
	size_t count;
	int scale;
	int32_t first_bucket; /* index of bucket[1] */
	double zero_threshold, sum;
};

/* Whether the buckets can be represented as a native histogram. */
bool export_native_fits(const struct export_native_buckets *b);
/* Returns false if out of memory. */
bool export_native_make(struct export_native *n, const struct export_native_buckets *b);
void export_native_free(struct export_native *n);

/* Field numbers, which differ between the messages. */
struct export_native_fields {
	uint8_t count, sum, schema, zero_threshold, zero_count, span, delta; /* each must be < 16 */
};

size_t export_native_bytes(const struct export_native *n); /* returns an upper bound */
/* Returns the end of the written bytes. */
uint8_t *export_native_put(uint8_t *p, const struct export_native *n,
			   const struct export_native_fields *f);

#endif
