/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp.h - sends spans to an OTLP/HTTP 1.x receiver in protobuf
 * (https://opentelemetry.io/docs/specs/otlp/) through push.h. The caller never waits, and spans
 * that the receiver does not accept are counted. Independent of where spans come from.
 */
#ifndef SL_EXPORT_OTLP_H
#define SL_EXPORT_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/push.h"

struct export_otlp_attr {
	const char *key;
	enum { EXPORT_OTLP_STRING, EXPORT_OTLP_BOOL, EXPORT_OTLP_I64, EXPORT_OTLP_F64 } type;
	union {
		const char *string; /* the string is UTF-8 */
		bool boolean;
		int64_t i64;
		double f64;
	};
};

struct export_otlp_span {
	uint64_t trace_hi, trace_lo, span_id, parent_id; /* a parent_id of 0 means no parent */
	uint64_t start_ns, end_ns;
	uint32_t kind;	 /* values of opentelemetry.proto.trace.v1: 1 internal, 2 server, ... */
	uint32_t status; /* 0 means unset, 1 ok, 2 error */
	uint32_t flags;	 /* trace flags and EXPORT_OTLP_... */
	const char *name, *message;
	const struct export_otlp_attr *attrs;
	size_t attr_count;
};
/* EXPORT_OTLP_IS_REMOTE states whether the parent is in another process */
#define EXPORT_OTLP_HAS_REMOTE 0x100u
#define EXPORT_OTLP_IS_REMOTE  0x200u

struct export_otlp_stats {
	uint64_t spans;		       /* number of spans accepted from callers */
	uint64_t dropped_memory;       /* spans dropped for lack of memory */
	uint64_t known;		       /* traces skipped because the receiver already has them */
	struct export_push_stats push; /* items are spans */
};

struct export_otlp;

/*
 * url: if it has no path, /v1/traces is appended. config: settings file of http/client.h, or NULL.
 * sent: file of sent traces (see below), or NULL. Returns NULL with errno and one line in error.
 */
struct export_otlp *export_otlp_new(const char *url, const char *config, const char *sent,
				    char *error, size_t error_bytes);
/*
 * Adds spans of one resource, which has attributes ("service.name", ...). Only one thread may call
 * this function and the functions below, except for statistics. Never waits.
 */
void export_otlp_spans(struct export_otlp *o, const struct export_otlp_attr *resource,
		       size_t resource_count, const struct export_otlp_span *spans, size_t n);
/*
 * Returns true, and counts the trace, if the receiver has already accepted it from this process or
 * its predecessor, so that it need not be sent again.
 */
bool export_otlp_known(struct export_otlp *o, uint64_t trace_hi, uint64_t trace_lo);
/*
 * Whether there was an earlier file, so that export_otlp_known() also covers traces sent before
 * this process started.
 */
bool export_otlp_certain(const struct export_otlp *o);
/* Sends the current batch. */
void export_otlp_flush(struct export_otlp *o);
/* Any thread may call it. */
void export_otlp_stats(struct export_otlp *o, struct export_otlp_stats *out);
/* NULL is ignored. */
void export_otlp_free(struct export_otlp *o, uint64_t linger_ns);

/* ---- reading OTLP: untrusted answers from receivers, and our own requests ---- */

/*
 * Returns the number of spans that the receiver rejected from an accepted request; 0 if the answer
 * is malformed or truncated before that field. why receives the reason or a warning, which may
 * contain any bytes except NUL; it is unchanged if the answer has neither.
 */
uint64_t export_otlp_left_out(const void *answer, size_t bytes, char *why, size_t why_bytes);
/* Calls fn for each trace in a request, once per run of consecutive spans. */
void export_otlp_traces(const void *request, size_t bytes,
			void (*fn)(void *arg, uint64_t trace_hi, uint64_t trace_lo), void *arg);

/*
 * sent.c: remembers which traces a receiver has, in a file that outlives the process. The next
 * process finds the same traces in the pods' rings and must not send them again.
 *
 * The file holds 65,536 IDs; a new ID replaces the oldest of the 16 in its set. It is written
 * without fsync(): it survives if the process is killed, but after a machine crash a few traces may
 * be sent twice.
 */

struct export_sent;

/*
 * Opens or creates the file in an existing directory. Only one process may use it at a time.
 * Returns NULL with errno and one line in error. EBUSY means that another process uses it, EINVAL
 * that it is a different kind of file.
 */
struct export_sent *export_sent_open(const char *path, char *error, size_t error_bytes);
/* Whether the file existed before, in which case unknown IDs were definitely not sent. */
bool export_sent_old(const struct export_sent *s);
/* Any thread may call these two functions. ID 0 is never known. */
bool export_sent_has(struct export_sent *s, uint64_t trace_hi, uint64_t trace_lo);
/* Returns false if the write failed (disk full); then only this process knows the ID. */
bool export_sent_add(struct export_sent *s, uint64_t trace_hi, uint64_t trace_lo);
/* NULL is ignored. */
void export_sent_close(struct export_sent *s);

#endif
