/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/span.h - spans in memory that a collector reads directly; the application exports
 * nothing.
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
 * The caller provides the memory of a span, usually on the stack. sl_span_end() writes the span to
 * a ring in the publisher's region, where it overwrites the oldest one; an open span is not
 * visible. A collector reads a small index, and later the spans of the traces that it keeps.
 *
 * Rules for all functions:
 *  - A publisher has space for spans if it was opened with span_bytes. Otherwise names and keys are
 *    refused like metrics: counted, logged once, and all calls with them do nothing.
 *  - Starting and ending a span and setting attributes take no lock, make no system call and
 *    allocate nothing (a thread's first span of a publisher may claim a ring, and the clock is
 *    calibrated every second). Any thread; a span may end in a different thread, but only one may
 *    use it at a time. Async-signal-safe after the thread's first span.
 *  - A span that is open during fork() can be ended in the parent only. Ending it in the child, or
 *    after sl_publisher_close(), does nothing.
 *  - With SL_PUBLISHER_EDGE, a span whose parent is in another process counts as the root of its
 *    trace, as that process publishes no spans.
 *  - A span that does nothing passes on its parent's context, so the trace continues.
 *  - Tracestate is not interpreted: forward the caller's header unchanged.
 *
 * C11 and C++17.
 */
#ifndef SIDELIGHT_SPAN_H
#define SIDELIGHT_SPAN_H

#include <sidelight/sidelight.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A good value for span_bytes of struct sl_publisher_opts: about a thousand spans per thread. */
#define SL_SPAN_BYTES (128u << 10)

/* ---- W3C trace context ---- */

#define SL_TRACEPARENT_LENGTH 55u /* length for version 00, without NUL */
#define SL_TRACE_SAMPLED      0x01u

/*
 * The identity of a span: https://www.w3.org/TR/trace-context/. Ids are numbers; their most
 * significant byte comes first in the header. A context with a trace id or span id of 0 is invalid.
 */
struct sl_trace_context {
	uint64_t trace_hi, trace_lo;
	uint64_t span_id;
	uint8_t flags;	/* trace flags: SL_TRACE_SAMPLED or 0 */
	uint8_t remote; /* true if the context was received from another process */
	uint8_t reserved[6];
};

static inline bool sl_trace_context_valid(const struct sl_trace_context *c)
{
	return (c->trace_hi | c->trace_lo) && c->span_id;
}

/*
 * Parses a traceparent header of version 00, or of a later version as the specification requires
 * (the parts of version 00, followed by nothing or a "-"). Returns 0 and a context with remote set,
 * or -EINVAL and an invalid context: sl_span_start() accepts it and starts a new trace. text need
 * not end with NUL. Thread-safe, async-signal-safe.
 */
SL_API int sl_traceparent_parse(const char *text, size_t length, struct sl_trace_context *context);

/*
 * Writes the header and a NUL. Returns its length, or 0 and an empty string if the context is
 * invalid. Thread-safe, async-signal-safe.
 */
SL_API size_t sl_traceparent_format(const struct sl_trace_context *context,
				    char text[SL_TRACEPARENT_LENGTH + 1]);

/* ---- names and keys ---- */

/* Handles, like metric handles: small values with private contents. */
struct sl_span_name {
	uint64_t bits;
};
struct sl_span_key {
	uint64_t bits;
};

/*
 * Interns a name ("GET /cart": a kind of work, without ids) or the key of an attribute
 * ("http.response.status_code"): UTF-8, 1 to SL_NAME_MAX bytes. The same string gives the same
 * handle. Thread-safe; not for signal handlers. Refused: malformed text, no space (schema_bytes), a
 * publisher without span_bytes, a NULL publisher.
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

/* All members except context are private. An open span must not be copied. */
struct sl_span {
	struct sl_trace_context context; /* context of this span: the parent for callees */
	uint64_t parent_id;
	uint64_t start;
	uint64_t end;
	uint32_t slot, epoch;
	uint8_t clock, remote, words, dropped, cut, set;
	uint64_t stream[1 + SL_SPAN_WORDS_MAX + 5];
};

/*
 * Starts a span now. parent: the context of the enclosing span (&other.context, or one from
 * sl_traceparent_parse()); NULL or an invalid context starts a new trace with this span as its
 * root. The parent may be freed after the call. Initialises *span.
 */
SL_API void sl_span_start(struct sl_span *span, struct sl_span_name name, enum sl_span_kind kind,
			  const struct sl_trace_context *parent);

/*
 * Attributes. If a key is set twice, readers take the later value. A span has space for 41 words of
 * 8 bytes: a number takes two, a string one plus its bytes. Attributes that do not fit are dropped
 * and counted. Strings are copied; one longer than 128 bytes is truncated at a character boundary,
 * and counted.
 */
SL_API void sl_span_set_i64(struct sl_span *span, struct sl_span_key key, int64_t value);
SL_API void sl_span_set_f64(struct sl_span *span, struct sl_span_key key, double value);
SL_API void sl_span_set_bool(struct sl_span *span, struct sl_span_key key, bool value);
SL_API void sl_span_set_text(struct sl_span *span, struct sl_span_key key, const char *value,
			     size_t bytes);
/* Like sl_span_set_text() for a NUL-terminated string. NULL is ignored. */
static inline void sl_span_set_string(struct sl_span *span, struct sl_span_key key,
				      const char *value)
{
	if (value)
		sl_span_set_text(span, key, value, __builtin_strlen(value));
}

/*
 * The last call wins. message, for SL_SPAN_ERROR, may be NULL; it takes the space of an attribute.
 */
SL_API void sl_span_set_status(struct sl_span *span, enum sl_span_status status,
			       const char *message);

/* Replace the time of the start or end call: nanoseconds since 1970 (CLOCK_REALTIME). */
SL_API void sl_span_set_start(struct sl_span *span, uint64_t ns);
SL_API void sl_span_set_end(struct sl_span *span, uint64_t ns);

/* Ends and writes the span. Ending a span twice, or a span of all zeros, does nothing. */
SL_API void sl_span_end(struct sl_span *span);

#ifdef __cplusplus
}
#endif
#endif
