/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_write.h - sends samples to a receiver of Prometheus' remote write protocol, versions 1.0
 * (https://prometheus.io/docs/specs/remote_write_spec/) and 2.0 (remote_v2.h): protobuf, snappy's
 * block format, POST. Independent of where label sets and points come from.
 *
 * A receiver that supports 2.0 reports in its answers how much it wrote. Other receivers refuse the
 * request, or interpret it as a 1.0 request without samples and report nothing. EXPORT_REMOTE_AUTO
 * queues each body in both versions. If the receiver does not support 2.0, it sends the body as 1.0
 * and tries 2.0 again an hour later.
 *
 * A receiver accepts the samples of a series only in ascending order, with millisecond resolution.
 * A second sample within a millisecond, or an older sample, is skipped and counted, because a
 * receiver would refuse the whole request.
 */
#ifndef SL_EXPORT_REMOTE_WRITE_H
#define SL_EXPORT_REMOTE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/model.h"
#include "export/native.h"
#include "export/push.h"
#include "region/decode.h"

/* Bits of the NaN that marks the end of a series (prometheus/model/value: StaleNaN). */
#define EXPORT_STALE_NAN 0x7ff0000000000002ull

/* Metadata of a metric, for version 2.0. */
struct export_remote_meta;

/* A series in the form used by the protocol. Free it with free(). */
struct export_remote_series {
	const struct export_remote_meta *meta; /* set by the caller, like created_ms, or NULL */
	int64_t created_ms;		       /* 0 means unknown */
	double last;	     /* value of the last sample, unless it was a native histogram */
	uint64_t batch;	     /* number of the last request that contains the series; 0 means none */
	uint64_t opened;     /* number of the series in that request, for version 2.0 */
	int64_t last_ms;     /* time of the last sample; INT64_MIN means none yet */
	int64_t exemplar_ms; /* time of the last exemplar; INT64_MIN means none yet */
	uint64_t exemplar;   /* hash of the last exemplar without a usable timestamp */
	uint32_t label_bytes, longer_bytes;
	uint32_t order; /* rank among series with equal labels; the first is sent */
	bool native;	/* the last sample was a histogram */
	bool clashes;	/* another series has the same labels, so this one is not sent */
	/*
	 * the labels as protobuf; if the name is escaped, followed by the labels with the name's
	 * longer form
	 */
	uint8_t labels[];
};

/*
 * Creates a series. name and suffix form __name__. labels may be in any order; labels with an empty
 * value are omitted, which means the same. Version 1.0 of the protocol has no UTF-8 names, so names
 * are escaped unless utf8 is set. Returns NULL with errno ENOMEM.
 */
struct export_remote_series *export_remote_series_new(const char *name, const char *suffix,
						      const struct region_text_label *labels,
						      size_t count, bool utf8);
/*
 * Gives escaped names their longer form where another series already uses the shorter form. If
 * series have equal labels, sets `clashes` in all but the first, because a receiver would refuse
 * the whole request. Sorts series by labels.
 */
void export_remote_series_settle(struct export_remote_series **series, size_t n);
/* Orders series by their labels. Returns 0 if they are equal. */
int export_remote_series_compare(const struct export_remote_series *a,
				 const struct export_remote_series *b);
struct export_remote_series *export_remote_series_copy(const struct export_remote_series *s);

struct export_remote_point {
	int64_t ns; /* CLOCK_REALTIME */
	double value;
};

struct export_remote_write_stats {
	uint64_t samples;  /* number of samples accepted from the caller */
	uint64_t same_ms;  /* skipped: another sample in the same millisecond is sent */
	uint64_t clashing; /* skipped: another series has the same labels */
	uint64_t dropped_memory;
	uint64_t exemplars;	   /* number of exemplars accepted from the caller */
	uint64_t long_exemplars;   /* skipped because no receiver accepts exemplars this long */
	uint64_t future_exemplars; /* skipped because their time is far in the future */
	uint64_t before;      /* skipped: not later than the samples queued by an earlier process */
	uint64_t fallbacks;   /* switches from version 2.0 to 1.0 */
	unsigned int version; /* version of the requests currently sent, 1 or 2 */
	struct export_push_stats push; /* items are samples and exemplars */
};

struct export_remote_write;

enum export_remote_protocol { EXPORT_REMOTE_1, EXPORT_REMOTE_2, EXPORT_REMOTE_AUTO };

struct export_remote_opts {
	const char *url;
	const char *config;   /* settings file of http/client.h, or NULL */
	size_t batch_samples; /* maximum number of samples per request; 0 means 10000 */
	enum export_remote_protocol protocol;
	const char *queue;    /* file that stores unsent requests; NULL means in memory */
	uint64_t queue_bytes; /* size of a new queue file */
};

/* Returns NULL with errno and one line in error. */
struct export_remote_write *export_remote_write_open(const struct export_remote_opts *opts,
						     char *error, size_t error_bytes);
/*
 * Returns the metadata of a family, to be set in its series; valid until w is freed. Returns NULL
 * with version 1.0, if out of memory, or after EXPORT_REMOTE_METAS families.
 */
#define EXPORT_REMOTE_METAS 65536u
const struct export_remote_meta *export_remote_write_meta(struct export_remote_write *w,
							  enum export_family_type type,
							  const char *help, const char *unit);
/*
 * Adds n points in chronological order. Only one thread may call this function and the functions
 * below, except for statistics. Never waits.
 */
void export_remote_write_points(struct export_remote_write *w, struct export_remote_series *s,
				const struct export_remote_point *p, size_t n);
/* Adds a native histogram (Prometheus >= 2.40) at ns; the series must have no other points. */
void export_remote_write_native(struct export_remote_write *w, struct export_remote_series *s,
				int64_t ns, const struct export_native *n);
/*
 * Adds an exemplar unless it was already added. A series' exemplars must be in chronological order;
 * an exemplar without a time gets ns. Receivers accept no exemplar before the series' first sample.
 */
void export_remote_write_exemplar(struct export_remote_write *w, struct export_remote_series *s,
				  int64_t ns, const struct export_exemplar *e);
/* Ends the series with a staleness marker at ns. */
void export_remote_write_end(struct export_remote_write *w, struct export_remote_series *s,
			     int64_t ns);
/*
 * Replaces the series `old` with `now`; both must be settled. Series with the same labels continue;
 * the other series in old end at ns.
 */
void export_remote_write_follow(struct export_remote_write *w, struct export_remote_series **now,
				size_t n, struct export_remote_series **old, size_t olds,
				int64_t ns);
/* Sends the current batch. */
void export_remote_write_flush(struct export_remote_write *w);
/* Whether the receiver is behind, in which case the caller should hold back. */
bool export_remote_write_busy(struct export_remote_write *w);
/* Any thread may call it. */
void export_remote_write_stats(struct export_remote_write *w,
			       struct export_remote_write_stats *out);
void export_remote_write_free(struct export_remote_write *w, uint64_t linger_ns);

#endif
