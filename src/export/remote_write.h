/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_write.h - sends samples to a receiver of Prometheus' remote write protocol 1.0
 * (https://prometheus.io/docs/specs/remote_write_spec/): protobuf, snappy's block format, POST.
 * Knows label sets and points, not where they come from.
 *
 * A receiver takes a series' samples in ascending order of milliseconds. A sample that is second in
 * its millisecond, or goes back, is skipped and counted, as it would have the whole request
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

/* A series as the protocol names it. Free with free(). */
struct export_remote_series {
	int64_t last_ms; /* of the last sample; INT64_MIN: none yet */
	uint32_t label_bytes;
	uint8_t labels[]; /* protobuf */
};

/*
 * name and suffix make __name__; labels in any order; labels with an empty value are left out,
 * which means the same. NULL: ENOMEM.
 */
struct export_remote_series *export_remote_series_new(const char *name, const char *suffix,
						      const struct region_text_label *labels,
						      size_t count);
struct export_remote_series *export_remote_series_copy(const struct export_remote_series *s);

struct export_remote_point {
	int64_t ns; /* CLOCK_REALTIME */
	double value;
};

struct export_remote_write_stats {
	uint64_t samples; /* taken */
	uint64_t same_ms; /* skipped: another of its millisecond is sent */
	uint64_t dropped_memory;
	struct export_push_stats push; /* items are samples */
};

struct export_remote_write;

/* batch_samples: per request; 0: 10000. NULL with errno and one line in error. */
struct export_remote_write *export_remote_write_new(const char *url, size_t batch_samples,
						    char *error, size_t error_bytes);
/*
 * Adds n points in order of time. One thread calls this and the functions below, except for
 * statistics. Never waits.
 */
void export_remote_write_points(struct export_remote_write *w, struct export_remote_series *s,
				const struct export_remote_point *p, size_t n);
/* Adds a native histogram (Prometheus >= 2.40) at ns; its series has no other points. */
void export_remote_write_native(struct export_remote_write *w, struct export_remote_series *s,
				int64_t ns, const struct export_native *n);
/* Ends the series with a staleness marker at ns. */
void export_remote_write_end(struct export_remote_write *w, struct export_remote_series *s,
			     int64_t ns);
/* Sends the current batch. */
void export_remote_write_flush(struct export_remote_write *w);
/* True if the receiver is behind and the caller should hold back. */
bool export_remote_write_busy(struct export_remote_write *w);
/* Any thread. */
void export_remote_write_stats(struct export_remote_write *w,
			       struct export_remote_write_stats *out);
void export_remote_write_free(struct export_remote_write *w, uint64_t linger_ns);

#endif
