/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_write.h - samples to a receiver of Prometheus' remote write protocol, version 1.0
 * (https://prometheus.io/docs/specs/remote_write_spec/): protobuf, snappy's block format, POST.
 * Knows label sets and points, and not where they are from.
 *
 * A receiver takes the samples of a series by rising time, in milliseconds. What is the second in
 * a millisecond, or goes back, is left out here and counted: it would have the whole request
 * refused.
 */
#ifndef SL_EXPORT_REMOTE_WRITE_H
#define SL_EXPORT_REMOTE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/native.h"
#include "export/push.h"
#include "region/decode.h"

/* A series as the protocol names it; made once. Free with free(). */
struct sl_remote_series {
	int64_t last_ms; /* of the last sample; INT64_MIN: none yet */
	uint32_t label_bytes;
	uint8_t labels[]; /* protobuf */
};

/*
 * name and suffix make __name__; labels in any order; those without a value are left out, as they
 * mean the same as none. NULL: ENOMEM.
 */
struct sl_remote_series *sl_remote_series_new(const char *name, const char *suffix,
					      const struct sl_text_label *labels, size_t count);

struct sl_remote_point {
	int64_t ns; /* CLOCK_REALTIME */
	double value;
};

struct sl_remote_write_opts {
	const char *url;
	size_t max_bytes;     /* that wait; 0: 32 MiB */
	size_t batch_samples; /* in a request; 0: 10000 */
	uint64_t max_age_ns;  /* 0: 10 minutes */
};

struct sl_remote_write_stats {
	uint64_t samples;      /* taken */
	uint64_t same_ms;      /* left out: another one of its millisecond is sent */
	uint64_t dropped_memory;
	struct sl_push_stats push; /* items are samples */
};

struct sl_remote_write;

/* NULL with errno and one line in error. */
struct sl_remote_write *sl_remote_write_new(const struct sl_remote_write_opts *opts, char *error,
					    size_t error_bytes);
/* By one thread, as the following. n points by rising time. Never waits. */
void sl_remote_write_points(struct sl_remote_write *w, struct sl_remote_series *s,
			    const struct sl_remote_point *p, size_t n);
/* A native histogram (Prometheus 2.40 on takes them), at ns; its series has no other points. */
void sl_remote_write_native(struct sl_remote_write *w, struct sl_remote_series *s, int64_t ns,
			    const struct sl_native *n);
/* The series ends: the marker of staleness, at ns. */
void sl_remote_write_end(struct sl_remote_write *w, struct sl_remote_series *s, int64_t ns);
/* Sends what is there, however little. */
void sl_remote_write_flush(struct sl_remote_write *w);
/* More should wait, as the receiver is behind. */
bool sl_remote_write_busy(struct sl_remote_write *w);
/* Any thread. */
void sl_remote_write_stats(struct sl_remote_write *w, struct sl_remote_write_stats *out);
void sl_remote_write_free(struct sl_remote_write *w, uint64_t linger_ns);

#endif
