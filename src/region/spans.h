/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spans.h - the rings of spans as a reader sees them: lines that somebody may be overwriting, of
 * a publisher that may be hostile. Works on private copies, as decode.h does; knows no transport.
 *
 * How a reader goes about it:
 *   region_span_head_parse()    each round, on the head line of each ring in use
 *   region_span_root_parse()    on the root lines that are new since the last round
 *   region_span_index_parse()   on the index lines that are new, and on the last one again
 *   region_span_parse()         on the lines of the entries of those traces that are wanted
 */
#ifndef SL_REGION_SPANS_H
#define SL_REGION_SPANS_H

#include "region/decode.h"

/* ---- where things are: offsets from the start of the region, of checked numbers ---- */

uint64_t region_span_head_at(const struct region_info *info, uint32_t ring);
/* Of line `number`; the one after it may be at the start of its part again. */
uint64_t region_span_root_at(const struct region_info *info, uint32_t ring, uint64_t number);
uint64_t region_span_index_at(const struct region_info *info, uint32_t ring, uint64_t number);
uint64_t region_span_line_at(const struct region_info *info, uint32_t ring, uint64_t number);

/* ---- heads ---- */

struct region_span_head {
	uint64_t lines, roots, index; /* numbers of the next ones */
	uint64_t spans;		      /* written */
	uint64_t dropped;	      /* attributes */
	uint64_t cut;		      /* strings */
};
/* UNSETTLED: read it again. HOT: it lies. Pure. */
enum region_fault region_span_head_parse(const uint64_t line[8], struct region_span_head *head);
/* HOT if something went back. Pure. */
enum region_fault region_span_head_follows(const struct region_span_head *before,
					   const struct region_span_head *now);

/* ---- lines ---- */

/* What was found where line `number` of a ring belongs. */
enum region_span_line {
	REGION_SPAN_LINE_GOOD = 0,
	REGION_SPAN_LINE_EARLY,	    /* nothing yet, or what was there before: come again */
	REGION_SPAN_LINE_LATE,	    /* a later line: overrun, it is lost */
	REGION_SPAN_LINE_UNSETTLED, /* does not verify: come again, a few times */
	REGION_SPAN_LINE_INSIDE,    /* region_span_parse(): of a span that starts before it */
	REGION_SPAN_LINE_SHORT,	    /* region_span_parse(): the copy ends within the span */
	REGION_SPAN_LINE_LIE,	    /* verified, and is nonsense: the publisher's own loss */
};

struct region_span_root {
	uint64_t trace_hi, trace_lo, span_id;
	uint64_t start_ns, duration_ns;
	uint32_t name; /* region_schema_string() */
	uint32_t kind, status, flags;
	bool remote; /* a root because the publisher is at the edge */
};
enum region_span_line region_span_root_parse(const uint64_t line[8], uint64_t number,
					     struct region_span_root *root);

/* Entries that are not 0; *count of them, each with at least one line. */
enum region_span_line region_span_index_parse(const uint64_t line[8], uint64_t number,
					      uint64_t entries[SL_SPAN_ENTRIES], uint32_t *count);

/*
 * The number of the first line of an entry, of which it has 32 bits: the last such number below
 * head_lines. UINT64_MAX if there is none.
 */
uint64_t region_span_entry_number(uint64_t entry, uint64_t head_lines);

struct region_span_attr {
	uint32_t key; /* region_schema_string() */
	enum sl_span_type type;
	bool cut;
	union {
		int64_t i64;
		double f64;
		bool boolean;
		const char *string; /* NUL-terminated UTF-8; what was not is "?" */
	};
};

struct region_span_data {
	uint64_t trace_hi, trace_lo, span_id, parent_id;
	uint64_t start_ns, duration_ns;
	uint32_t name;
	uint32_t kind, status, flags;
	bool remote;
	uint32_t attr_count; /* each key once */
	struct region_span_attr attrs[SL_SPAN_WORDS_MAX];
	const char *message;		      /* of the status, "" if none */
	char text[SL_SPAN_WORDS_MAX * 9 + 9]; /* what strings point into: not to be copied about */
};

/*
 * The span that starts with line `number`, of which lines[0, count) are a private copy of it and
 * those behind it, in the order of their numbers. *lines_used: how many lines to go on by, at
 * least 1. data may be NULL.
 */
enum region_span_line region_span_parse(const uint64_t (*lines)[8], uint32_t count, uint64_t number,
					struct region_span_data *data, uint32_t *lines_used);

#endif
