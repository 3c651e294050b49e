/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/span.h - traces in memory: spans that nobody has to export.
 *
 *	struct sl_span_name get = sl_span_name_create(p, "GET /cart");
 *	struct sl_span_key items = sl_span_key_create(p, "cart.items");
 *	...
 *	struct sl_trace_context caller;
 *	struct sl_span span;
 *
 *	sl_traceparent_parse(header, header_length, &caller);
 *	sl_span_start(&span, get, SL_SPAN_SERVER, &caller);
 *	sl_span_set_i64(&span, items, 3);
 *	sl_span_end(&span);
 *
 * A span is the caller's, usually on the stack. Nothing is seen of it before sl_span_end(), which
 * writes it into a ring in the publisher's region, over the oldest one there. A collector learns
 * from a small index what there is, and reads the spans of those traces that it keeps, later.
 *
 * Rules that hold everywhere:
 *  - A publisher has room for spans if it was opened with span_bytes. If not, names and keys are
 *    refused as metrics are: counted, logged once, and every call with them does nothing.
 *  - Start, attributes and end take no lock, make no system call and allocate nothing (a thread's
 *    first span of a publisher, and once a second the calibration of the clock, may read a clock
 *    or claim a ring). Any thread; a span may end in another thread than the one that started it,
 *    but is used by one at a time. Async-signal-safe after the thread's first span.
 *  - A span that was started before a fork() ends in the parent alone; in the child, and after
 *    sl_publisher_close(), its end does nothing.
 *  - A span that does nothing hands its parent's context on, so that the trace goes past it.
 *  - Tracestate is not looked at: pass the caller's header on as it came.
 *
 * C11 and C++17.
 */
#ifndef SIDELIGHT_SPAN_H
#define SIDELIGHT_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sidelight/region.h>
#include <sidelight/sidelight.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sensible span_bytes of struct sl_publisher_opts: about a thousand spans a thread. */
#define SL_SPAN_BYTES (128u << 10)

/* ---- W3C trace context ---- */

#define SL_TRACEPARENT_LENGTH 55u /* of version 00, without NUL */
#define SL_TRACE_SAMPLED      0x01u

/*
 * Who is speaking: https://www.w3.org/TR/trace-context/. Ids are numbers whose most significant
 * byte is the first in the header. A trace id of 0, or a span id of 0, is no context.
 */
struct sl_trace_context {
	uint64_t trace_hi, trace_lo;
	uint64_t span_id;
	uint8_t flags;	/* trace-flags: SL_TRACE_SAMPLED */
	uint8_t remote; /* it came from another process */
	uint8_t reserved[6];
};

static inline bool sl_trace_context_valid(const struct sl_trace_context *c)
{
	return (c->trace_hi | c->trace_lo) && c->span_id;
}

/*
 * Reads a traceparent header of version 00, or of a later one as the specification asks (what
 * version 00 has, then a "-" and anything). Returns 0 and a context with remote set, or -EINVAL
 * and one that is no context: it may be given to sl_span_start() unchecked, which then starts a
 * new trace. text need not end with NUL. Thread-safe, async-signal-safe.
 */
SL_API int sl_traceparent_parse(const char *text, size_t length, struct sl_trace_context *context);

/*
 * Writes the header, with a NUL behind it: to send along with a request. Returns its length, or 0
 * and an empty string if there is no context. Thread-safe, async-signal-safe.
 */
SL_API size_t sl_traceparent_format(const struct sl_trace_context *context,
				    char text[SL_TRACEPARENT_LENGTH + 1]);

/* ---- names and keys ---- */

/* Handles, as those of metrics: small values; one of all zeroes does nothing. Bits are private. */
struct sl_span_name {
	uint64_t bits;
};
struct sl_span_key {
	uint64_t bits;
};

/*
 * Interns a name ("GET /cart": few of them, no ids in it) or the key of an attribute
 * ("http.response.status_code"): UTF-8, 1 to SL_NAME_MAX bytes. The same string gives the same
 * handle. Thread-safe; not for signal handlers. Refused: ill-formed, no room left (schema_bytes),
 * a publisher without span_bytes, p is NULL.
 */
SL_API struct sl_span_name sl_span_name_create(struct sl_publisher *p, const char *name);
SL_API struct sl_span_key sl_span_key_create(struct sl_publisher *p, const char *key);

static inline bool sl_span_name_valid(struct sl_span_name n)
{
	return n.bits >> 32;
}
static inline bool sl_span_key_valid(struct sl_span_key k)
{
	return k.bits >> 32;
}

/* ---- spans ---- */

/* Everything but context is private to the library. Not to be copied while it is open. */
struct sl_span {
	struct sl_trace_context context; /* this span's: what a callee gets as its parent */
	uint64_t parent_id;
	uint64_t start;
	uint64_t end;
	uint32_t slot, epoch;
	uint8_t clock, remote, words, dropped, cut, set;
	uint64_t stream[1 + SL_SPAN_WORDS_MAX + 5];
};

/*
 * Starts a span now. parent: the context of the span that it is part of (&other.context, or what
 * sl_traceparent_parse() gave); NULL, or no context: the root of a new trace. The parent need not
 * live on. Initialises all of *span that matters.
 */
SL_API void sl_span_start(struct sl_span *span, struct sl_span_name name, enum sl_span_kind kind,
			  const struct sl_trace_context *parent);

/*
 * Attributes, each key once (of two, a reader takes the later one). What does not fit, 41 words
 * of 8 bytes where a number takes two and a string one and its length, is dropped and counted. A
 * string is copied, and cut at a character at most 128 bytes from its start, which is counted.
 */
SL_API void sl_span_set_i64(struct sl_span *span, struct sl_span_key key, int64_t value);
SL_API void sl_span_set_f64(struct sl_span *span, struct sl_span_key key, double value);
SL_API void sl_span_set_bool(struct sl_span *span, struct sl_span_key key, bool value);
SL_API void sl_span_set_text(struct sl_span *span, struct sl_span_key key, const char *value,
			     size_t bytes);
/* The same of a string that ends with NUL. NULL: nothing. */
static inline void sl_span_set_string(struct sl_span *span, struct sl_span_key key,
				      const char *value)
{
	if (value)
		sl_span_set_text(span, key, value, __builtin_strlen(value));
}

/* The last one wins. message, for SL_SPAN_ERROR, may be NULL; it takes the room of a string. */
SL_API void sl_span_set_status(struct sl_span *span, enum sl_span_status status,
			       const char *message);

/* In place of the time of the call: nanoseconds since 1970 (CLOCK_REALTIME). */
SL_API void sl_span_set_start(struct sl_span *span, uint64_t ns);
SL_API void sl_span_set_end(struct sl_span *span, uint64_t ns);

/* Ends it and writes it. A second end, and one of a span of all zeroes, does nothing. */
SL_API void sl_span_end(struct sl_span *span);

#ifdef __cplusplus
}
#endif
#endif
