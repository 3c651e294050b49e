/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_v2.h - builds a remote write request of version 2.0
 * (https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/), series by series. Single-threaded.
 */
#ifndef SL_EXPORT_REMOTE_V2_H
#define SL_EXPORT_REMOTE_V2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/pb.h"

/* Metadata of a family. type: value as in the message Metadata (remote_v2.c). */
struct export_remote_v2_meta {
	const char *help, *unit;
	uint8_t type;
};

struct export_remote_v2;

struct export_remote_v2 *export_remote_v2_new(void);	/* returns NULL if out of memory */
void export_remote_v2_free(struct export_remote_v2 *v); /* NULL is ignored */

/*
 * Starts a series. labels: Label messages of version 1.0 in field 1, sorted. created_ms: 0 means
 * not known.
 */
void export_remote_v2_begin(struct export_remote_v2 *v, const uint8_t *labels, size_t label_bytes,
			    int64_t created_ms);
void export_remote_v2_sample(struct export_remote_v2 *v, int64_t ms, double value);
/* message: a Histogram message of version 1.0, with the time ms. */
void export_remote_v2_histogram(struct export_remote_v2 *v, int64_t ms, const uint8_t *message,
				size_t bytes);
/* labels: see export_remote_v2_begin(). */
void export_remote_v2_exemplar(struct export_remote_v2 *v, const uint8_t *labels,
			       size_t label_bytes, int64_t ms, double value);
/* Ends the series. meta: metadata, or NULL. */
void export_remote_v2_end(struct export_remote_v2 *v, const struct export_remote_v2_meta *meta);

/* Returns the size of the request so far. */
size_t export_remote_v2_bytes(const struct export_remote_v2 *v);
/*
 * Takes the request, whose series must be complete, and starts the next one. *items: number of
 * samples, histograms and exemplars, which the receiver should report. Free the result with free().
 * Returns NULL if out of memory.
 */
uint8_t *export_remote_v2_take(struct export_remote_v2 *v, size_t *bytes, uint64_t *items);

/* remote_series.c: labels in the protobuf format of Prometheus' protocols. */

struct export_label {
	const char *name, *value, *more; /* the value is the concatenation of value and more */
};

/* Returns the size of a field of n bytes, with its header. */
static inline size_t export_label_field(size_t n)
{
	return 1 + export_pb_varint_bytes(n) + n;
}

size_t export_labels_bytes(const struct export_label *l, size_t n);
/* Writes the labels. Returns the end. */
uint8_t *export_labels_put(uint8_t *p, const struct export_label *l, size_t n);

#endif
