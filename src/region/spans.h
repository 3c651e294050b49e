/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spans.h - the rings of spans as a reader sees them: lines that somebody may be overwriting, of
 * a publisher that may be hostile. Works on private copies, as decode.h does; knows no transport.
 *
 * How a reader goes about it:
 *   sl_span_head_parse()    each round, on the head line of each ring in use
 *   sl_span_root_parse()    on the root lines that are new since the last round
 *   sl_span_index_parse()   on the index lines that are new, and on the last one again
 *   sl_span_parse()         on the lines of the entries of those traces that are wanted
 */
#ifndef SL_REGION_SPANS_H
#define SL_REGION_SPANS_H

#include "region/decode.h"

/* ---- where things are: offsets from the start of the region, of checked numbers ---------------- */

uint64_t sl_span_head_at(const struct sl_region_info *info, uint32_t ring);
/* Of line `number`; the one after it may be at the start of its part again. */
uint64_t sl_span_root_at(const struct sl_region_info *info, uint32_t ring, uint64_t number);
uint64_t sl_span_index_at(const struct sl_region_info *info, uint32_t ring, uint64_t number);
uint64_t sl_span_line_at(const struct sl_region_info *info, uint32_t ring, uint64_t number);

/* ---- heads ------------------------------------------------------------------------------------ */

struct sl_span_head {
	uint64_t lines, roots, index; /* numbers of the next ones */
	uint64_t spans;               /* written */
	uint64_t dropped;             /* attributes */
	uint64_t cut;                 /* strings */
};
/* UNSETTLED: read it again. HOT: it lies. Pure. */
enum sl_fault sl_span_head_parse(const uint64_t line[8], struct sl_span_head *head);
/* HOT if something went back. Pure. */
enum sl_fault sl_span_head_follows(const struct sl_span_head *before,
				   const struct sl_span_head *now);

/* ---- lines ------------------------------------------------------------------------------------ */

/* What was found where line `number` of a ring belongs. */
enum sl_span_line {
	SL_SPAN_LINE_GOOD = 0,
	SL_SPAN_LINE_EARLY,     /* nothing yet, or what was there before: come again */
	SL_SPAN_LINE_LATE,      /* a later line: overrun, it is lost */
	SL_SPAN_LINE_UNSETTLED, /* does not verify: come again, a few times */
	SL_SPAN_LINE_INSIDE,    /* sl_span_parse(): of a span that starts before it */
	SL_SPAN_LINE_SHORT,     /* sl_span_parse(): the copy ends within the span */
	SL_SPAN_LINE_LIE,       /* verified, and is nonsense: the publisher's own loss */
};

struct sl_span_root {
	uint64_t trace_hi, trace_lo, span_id;
	uint64_t start_ns, duration_ns;
	uint32_t name;   /* sl_schema_string() */
	uint32_t kind, status, flags;
	bool remote;     /* a root because the publisher is at the edge */
};
enum sl_span_line sl_span_root_parse(const uint64_t line[8], uint64_t number,
				     struct sl_span_root *root);

/* Entries that are not 0; *count of them, each with at least one line. */
enum sl_span_line sl_span_index_parse(const uint64_t line[8], uint64_t number,
				      uint64_t entries[SL_SPAN_ENTRIES], uint32_t *count);

/*
 * The number of the first line of an entry, of which it has 32 bits: the last such number below
 * head_lines. UINT64_MAX if there is none.
 */
uint64_t sl_span_entry_number(uint64_t entry, uint64_t head_lines);

struct sl_span_attr {
	uint32_t key;             /* sl_schema_string() */
	enum sl_span_type type;
	bool cut;
	union {
		int64_t i64;
		double f64;
		bool boolean;
		const char *string; /* NUL-terminated UTF-8; what was not is "?" */
	};
};

struct sl_span_data {
	uint64_t trace_hi, trace_lo, span_id, parent_id;
	uint64_t start_ns, duration_ns;
	uint32_t name;
	uint32_t kind, status, flags;
	bool remote;
	uint32_t attr_count;      /* each key once */
	struct sl_span_attr attrs[SL_SPAN_WORDS_MAX];
	const char *message;      /* of the status, "" if none */
	char text[SL_SPAN_WORDS_MAX * 9 + 9]; /* what strings point into: not to be copied about */
};

/*
 * The span that starts with line `number`, of which lines[0, count) are a private copy of it and
 * those behind it, in the order of their numbers. *lines_used: how many lines to go on by, at
 * least 1. data may be NULL.
 */
enum sl_span_line sl_span_parse(const uint64_t (*lines)[8], uint32_t count, uint64_t number,
				struct sl_span_data *data, uint32_t *lines_used);

#endif
