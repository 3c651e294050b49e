/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/span.h - spans in memory, which a collector fetches: the application exports nothing.
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
 * The memory of a span is the caller's, usually on the stack. sl_span_end() writes it into a ring
 * in the publisher's region, over the oldest span there; before that it is not visible. A collector
 * reads a small index, and later the spans of the traces that it keeps.
 *
 * Rules for all functions:
 *  - A publisher has room for spans if it was opened with span_bytes. Otherwise names and keys are
 *    refused as metrics are: counted, logged once, and all calls with them do nothing.
 *  - Start, attributes and end take no lock, make no system call and allocate nothing (a thread's
 *    first span of a publisher may claim a ring, and the clock is calibrated every second). Any
 *    thread; a span may end in another thread than it started in, but is used by one thread at a
 *    time. Async-signal-safe after the thread's first span.
 *  - A span that is open across a fork() ends in the parent only. Its end in the child, or after
 *    sl_publisher_close(), does nothing.
 *  - With SL_PUBLISHER_EDGE, a span whose parent is in another process counts as the root of its
 *    trace, as no span of that process will come.
 *  - A span that does nothing hands its parent's context on, so that the trace continues.
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

/* For span_bytes of struct sl_publisher_opts: about a thousand spans per thread. */
#define SL_SPAN_BYTES (128u << 10)

/* ---- W3C trace context ---- */

#define SL_TRACEPARENT_LENGTH 55u /* of version 00, without NUL */
#define SL_TRACE_SAMPLED      0x01u

/*
 * The identity of a span: https://www.w3.org/TR/trace-context/. Ids are numbers whose most
 * significant byte is the first in the header. With a trace id or span id of 0 it is not a context.
 */
struct sl_trace_context {
	uint64_t trace_hi, trace_lo;
	uint64_t span_id;
	uint8_t flags;	/* trace-flags: SL_TRACE_SAMPLED */
	uint8_t remote; /* received from another process */
	uint8_t reserved[6];
};

static inline bool sl_trace_context_valid(const struct sl_trace_context *c)
{
	return (c->trace_hi | c->trace_lo) && c->span_id;
}

/*
 * Reads a traceparent header of version 00, or of a later one as the specification demands (the
 * parts of version 00, then nothing or a "-"). Returns 0 and a context with remote set, or -EINVAL
 * and one that is not a context: sl_span_start() accepts it and starts a new trace. text need not
 * end with NUL. Thread-safe, async-signal-safe.
 */
SL_API int sl_traceparent_parse(const char *text, size_t length, struct sl_trace_context *context);

/*
 * Writes the header and a NUL. Returns its length, or 0 and an empty string if it is not a context.
 * Thread-safe, async-signal-safe.
 */
SL_API size_t sl_traceparent_format(const struct sl_trace_context *context,
				    char text[SL_TRACEPARENT_LENGTH + 1]);

/* ---- names and keys ---- */

/* Handles as those of metrics: small values, whose contents are private. */
struct sl_span_name {
	uint64_t bits;
};
struct sl_span_key {
	uint64_t bits;
};

/*
 * Interns a name ("GET /cart": a kind of work, without ids) or the key of an attribute
 * ("http.response.status_code"): UTF-8, 1 to SL_NAME_MAX bytes. The same string gives the same
 * handle. Thread-safe; not for signal handlers. Refused: malformed, no room (schema_bytes), a
 * publisher without span_bytes, p is NULL.
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

/* All members but context are private. Must not be copied while it is open. */
struct sl_span {
	struct sl_trace_context context; /* of this span: the parent for callees */
	uint64_t parent_id;
	uint64_t start;
	uint64_t end;
	uint32_t slot, epoch;
	uint8_t clock, remote, words, dropped, cut, set;
	uint64_t stream[1 + SL_SPAN_WORDS_MAX + 5];
};

/*
 * Starts a span now. parent: the context of the span that it is part of (&other.context, or one
 * from sl_traceparent_parse()); NULL, or not a context: the root of a new trace. The parent may be
 * freed after the call. Initialises *span.
 */
SL_API void sl_span_start(struct sl_span *span, struct sl_span_name name, enum sl_span_kind kind,
			  const struct sl_trace_context *parent);

/*
 * Attributes; of two with one key a reader takes the later one. A span has room for 41 words of 8
 * bytes: a number takes two, a string one and its bytes. What does not fit is dropped and counted.
 * Strings are copied; one above 128 bytes is cut, between characters, and counted.
 */
SL_API void sl_span_set_i64(struct sl_span *span, struct sl_span_key key, int64_t value);
SL_API void sl_span_set_f64(struct sl_span *span, struct sl_span_key key, double value);
SL_API void sl_span_set_bool(struct sl_span *span, struct sl_span_key key, bool value);
SL_API void sl_span_set_text(struct sl_span *span, struct sl_span_key key, const char *value,
			     size_t bytes);
/* The same for a NUL-terminated string. NULL: nothing. */
static inline void sl_span_set_string(struct sl_span *span, struct sl_span_key key,
				      const char *value)
{
	if (value)
		sl_span_set_text(span, key, value, __builtin_strlen(value));
}

/* The last call wins. message, for SL_SPAN_ERROR, may be NULL; it takes the room of a string. */
SL_API void sl_span_set_status(struct sl_span *span, enum sl_span_status status,
			       const char *message);

/* Times in place of those of the calls: nanoseconds since 1970 (CLOCK_REALTIME). */
SL_API void sl_span_set_start(struct sl_span *span, uint64_t ns);
SL_API void sl_span_set_end(struct sl_span *span, uint64_t ns);

/* Ends and writes the span. A second end, and the end of a span of all zeroes, does nothing. */
SL_API void sl_span_end(struct sl_span *span);

#ifdef __cplusplus
}
#endif
#endif
