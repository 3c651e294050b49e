/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_write.h - sends samples to a receiver of Prometheus' remote write protocol, versions 1.0
 * (https://prometheus.io/docs/specs/remote_write_spec/) and 2.0 (remote_v2.h): protobuf, snappy's
 * block format, POST. Knows label sets and points, not where they come from.
 *
 * A receiver that has 2.0 says in its answers how much it wrote. One that has not refuses the
 * request, or takes it for one of 1.0 without samples and says nothing: EXPORT_REMOTE_AUTO queues
 * bodies in both versions, sends that body as 1.0 then, and tries 2.0 again an hour later.
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

#include "export/model.h"
#include "export/native.h"
#include "export/push.h"
#include "region/decode.h"

/* What version 2.0 says of a metric. */
struct export_remote_meta;

/* A series as the protocol names it. Free with free(). */
struct export_remote_series {
	const struct export_remote_meta *meta; /* set by the caller, as created_ms; or NULL */
	int64_t created_ms;		       /* 0: unknown */
	double last;			       /* unless native */
	uint64_t batch;			       /* the last request that has it; 0: none */
	uint64_t opened;		       /* its number in version 2.0 there */
	int64_t last_ms;		       /* of the last sample; INT64_MIN: none yet */
	int64_t exemplar_ms;		       /* of the last exemplar; INT64_MIN: none yet */
	uint64_t exemplar;		       /* hash of the last one that had no time */
	uint32_t label_bytes, longer_bytes;
	uint32_t order;	  /* which of those with equal labels is sent */
	bool native;	  /* its last sample is a histogram */
	bool clashes;	  /* another series has these labels: nothing is sent */
	uint8_t labels[]; /* protobuf; then, of an escaped name, those with its longer form */
};

/*
 * name and suffix make __name__; labels in any order; labels with an empty value are left out,
 * which means the same. Version 1.0 of the protocol has no names in UTF-8: without utf8 they are
 * escaped. NULL: ENOMEM.
 */
struct export_remote_series *export_remote_series_new(const char *name, const char *suffix,
						      const struct region_text_label *labels,
						      size_t count, bool utf8);
/*
 * Gives escaped names their longer form where others have the shorter, and sets `clashes` of all
 * but the first of series that have equal labels, for which a receiver refuses the whole request.
 * Sorts series by labels.
 */
void export_remote_series_settle(struct export_remote_series **series, size_t n);
struct export_remote_series *export_remote_series_copy(const struct export_remote_series *s);

struct export_remote_point {
	int64_t ns; /* CLOCK_REALTIME */
	double value;
};

struct export_remote_write_stats {
	uint64_t samples;  /* taken */
	uint64_t same_ms;  /* skipped: another of its millisecond is sent */
	uint64_t clashing; /* skipped: of a series whose labels another one has */
	uint64_t dropped_memory;
	uint64_t exemplars;	       /* taken */
	uint64_t long_exemplars;       /* left out: no receiver takes them */
	uint64_t before;	       /* skipped: not later than what an earlier process queued */
	uint64_t fallbacks;	       /* from version 2.0 to 1.0 */
	unsigned int version;	       /* 1 or 2: of the requests sent now */
	struct export_push_stats push; /* items are samples and exemplars */
};

struct export_remote_write;

enum export_remote_protocol { EXPORT_REMOTE_1, EXPORT_REMOTE_2, EXPORT_REMOTE_AUTO };

struct export_remote_opts {
	const char *url;
	const char *config;   /* how to connect: http/client.h; or NULL */
	size_t batch_samples; /* per request; 0: 10000 */
	enum export_remote_protocol protocol;
	const char *queue;    /* file that holds requests until they are sent; NULL: memory */
	uint64_t queue_bytes; /* of a new one */
};

/* NULL with errno and one line in error. */
struct export_remote_write *export_remote_write_open(const struct export_remote_opts *opts,
						     char *error, size_t error_bytes);
/* The same with version 1.0 and the queue in memory. */
struct export_remote_write *export_remote_write_new(const char *url, size_t batch_samples,
						    char *error, size_t error_bytes);
/*
 * The metadata of a family, to be set in its series; valid until w is freed. NULL: version 1.0, or
 * no memory, or more than EXPORT_REMOTE_METAS of them.
 */
#define EXPORT_REMOTE_METAS 65536u
const struct export_remote_meta *export_remote_write_meta(struct export_remote_write *w,
							  enum export_family_type type,
							  const char *help, const char *unit);
/*
 * Adds n points in order of time. One thread calls this and the functions below, except for
 * statistics. Never waits.
 */
void export_remote_write_points(struct export_remote_write *w, struct export_remote_series *s,
				const struct export_remote_point *p, size_t n);
/* Adds a native histogram (Prometheus >= 2.40) at ns; its series has no other points. */
void export_remote_write_native(struct export_remote_write *w, struct export_remote_series *s,
				int64_t ns, const struct export_native *n);
/*
 * Adds an exemplar, once: of one series they come in ascending order of time, and those without a
 * time are of ns. A receiver takes none before the series' first sample.
 */
void export_remote_write_exemplar(struct export_remote_write *w, struct export_remote_series *s,
				  int64_t ns, const struct export_exemplar *e);
/* Ends the series with a staleness marker at ns. */
void export_remote_write_end(struct export_remote_write *w, struct export_remote_series *s,
			     int64_t ns);
/*
 * `now` takes the place of `old`, both settled: series with the same labels go on, the others of
 * old end at ns.
 */
void export_remote_write_follow(struct export_remote_write *w, struct export_remote_series **now,
				size_t n, struct export_remote_series **old, size_t olds,
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
