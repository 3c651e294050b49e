/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp.h - spans to a receiver of OTLP/HTTP 1.x in protobuf
 * (https://opentelemetry.io/docs/specs/otlp/): by push.h, so that whoever has spans never waits,
 * and what a receiver does not take, wholly or in part, is counted. Knows spans, and not where they
 * are from.
 */
#ifndef SL_EXPORT_OTLP_H
#define SL_EXPORT_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/push.h"
#include "region/decode.h"

struct export_otlp_attr {
	const char *key;
	enum { EXPORT_OTLP_STRING, EXPORT_OTLP_BOOL, EXPORT_OTLP_I64, EXPORT_OTLP_F64 } type;
	union {
		const char *string; /* UTF-8 */
		bool boolean;
		int64_t i64;
		double f64;
	};
};

struct export_otlp_span {
	uint64_t trace_hi, trace_lo, span_id, parent_id; /* parent 0: none */
	uint64_t start_ns, end_ns;
	uint32_t kind;	 /* as in opentelemetry.proto.trace.v1: 1 internal, 2 server, ... */
	uint32_t status; /* 0 unset, 1 ok, 2 error */
	uint32_t flags;	 /* trace-flags, and EXPORT_OTLP_... */
	const char *name, *message;
	const struct export_otlp_attr *attrs;
	size_t attr_count;
};
#define EXPORT_OTLP_HAS_REMOTE 0x100u /* it is known whether the parent is in another process */
#define EXPORT_OTLP_IS_REMOTE  0x200u

struct export_otlp_opts {
	const char *url;     /* without a path: /v1/traces is appended */
	size_t max_bytes;    /* that wait; 0: 32 MiB */
	size_t batch_bytes;  /* of a request; 0: 512 KiB */
	uint64_t max_age_ns; /* 0: 10 minutes */
	const char *sent;    /* a file of which traces were sent (sent.h), or NULL */
};

struct export_otlp_stats {
	uint64_t spans;		       /* taken */
	uint64_t dropped_memory;       /* spans */
	uint64_t known;		       /* traces that the receiver has already */
	struct export_push_stats push; /* items are spans */
};

struct export_otlp;

/* NULL with errno and one line in error. */
struct export_otlp *export_otlp_new(const struct export_otlp_opts *opts, char *error,
				    size_t error_bytes);
/*
 * Spans of one resource, which its attributes describe ("service.name", ...). By one thread, as
 * export_otlp_flush(). Never waits.
 */
void export_otlp_spans(struct export_otlp *o, const struct export_otlp_attr *resource,
		       size_t resource_count, const struct export_otlp_span *spans, size_t n);
/*
 * Did the receiver take this trace already, from us or from a process before us? By the one thread,
 * and counted: what is known need not be given again.
 */
bool export_otlp_known(struct export_otlp *o, uint64_t trace_hi, uint64_t trace_lo);
/* May a trace from before our start be told from one that was sent? Not without an earlier file. */
bool export_otlp_certain(const struct export_otlp *o);
/* Sends what is there, however little. */
void export_otlp_flush(struct export_otlp *o);
/* Any thread. */
void export_otlp_stats(struct export_otlp *o, struct export_otlp_stats *out);
/* NULL is let pass. */
void export_otlp_free(struct export_otlp *o, uint64_t linger_ns);

#endif
