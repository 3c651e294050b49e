/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spans.h - parses rings of spans for readers. Lines may be overwritten at any time, and the
 * publisher may be hostile. All functions work on private copies, like decode.h, and do not depend
 * on the transport.
 *
 * A reader calls:
 * - region_span_head_parse() each round, on the head line of each ring in use
 * - region_span_root_parse() on new root lines
 * - region_span_index_parse() on new index lines, and again on the last one
 * - region_span_parse() on the lines of the traces to keep
 */
#ifndef SL_REGION_SPANS_H
#define SL_REGION_SPANS_H

#include "region/decode.h"

/* ---- offsets of lines from the start of the region ---- */

uint64_t region_span_head_at(const struct region_info *info, uint32_t ring);
/* Offset of a line. The next line may wrap to the start of its part. */
uint64_t region_span_root_at(const struct region_info *info, uint32_t ring, uint64_t number);
uint64_t region_span_index_at(const struct region_info *info, uint32_t ring, uint64_t number);
uint64_t region_span_line_at(const struct region_info *info, uint32_t ring, uint64_t number);

/* ---- heads ---- */

struct region_span_head {
	uint64_t lines, roots, index; /* numbers of the next line, root line and index line */
	uint64_t spans;		      /* number of spans written */
	uint64_t dropped;	      /* number of attributes dropped */
	uint64_t cut;		      /* number of strings truncated */
};
/* UNSETTLED means read the line again; HOT means impossible values. Pure. */
enum region_fault region_span_head_parse(const uint64_t line[8], struct region_span_head *head);
/* Returns HOT if a number decreased. Pure. */
enum region_fault region_span_head_follows(const struct region_span_head *before,
					   const struct region_span_head *now);

/* ---- lines ---- */

/* Content of a slot where line `number` is expected. */
enum region_span_line {
	REGION_SPAN_LINE_GOOD = 0,
	REGION_SPAN_LINE_EARLY,	    /* empty or an older line: try again */
	REGION_SPAN_LINE_LATE,	    /* a later line: the expected one was overwritten */
	REGION_SPAN_LINE_UNSETTLED, /* does not verify: try again a few times */
	REGION_SPAN_LINE_INSIDE,    /* region_span_parse(): within a span that starts earlier */
	REGION_SPAN_LINE_SHORT,	    /* region_span_parse(): the copy ends within the span */
	REGION_SPAN_LINE_LIE,	    /* the line verifies, but has impossible values */
};

struct region_span_root {
	uint64_t trace_hi, trace_lo, span_id;
	uint64_t start_ns, duration_ns;
	uint32_t name; /* id of the name, for region_schema_string() */
	uint32_t kind, status, flags;
	bool remote; /* the span is a root because its parent is in another process */
};
enum region_span_line region_span_root_parse(const uint64_t line[8], uint64_t number,
					     struct region_span_root *root);

/* Returns the *count entries that are not 0, each with at least one line. */
enum region_span_line region_span_index_parse(const uint64_t line[8], uint64_t number,
					      uint64_t entries[SL_SPAN_ENTRIES], uint32_t *count);

/*
 * Extends the low 32 bits in an entry to the number of its first line: the last such number below
 * head_lines; UINT64_MAX if there is none.
 */
uint64_t region_span_entry_number(uint64_t entry, uint64_t head_lines);

struct region_span_attr {
	uint32_t key; /* id of the key, for region_schema_string() */
	enum sl_span_type type;
	bool cut;
	union {
		int64_t i64;
		double f64;
		bool boolean;
		const char *string; /* NUL-terminated UTF-8; invalid bytes become '?' */
	};
};

struct region_span_data {
	uint64_t trace_hi, trace_lo, span_id, parent_id;
	uint64_t start_ns, duration_ns;
	uint32_t name;
	uint32_t kind, status, flags;
	bool remote;
	uint32_t attr_count; /* keys are unique */
	struct region_span_attr attrs[SL_SPAN_WORDS_MAX];
	const char *message; /* status message, "" if none */
	/* storage of attrs and message, so the struct cannot be copied */
	char text[SL_SPAN_WORDS_MAX * 9 + 9];
};

/*
 * Parses the span that starts with line `number`; lines[0, count) are private copies of that line
 * and its successors. *lines_used: number of lines to advance, at least 1. data may be NULL.
 */
enum region_span_line region_span_parse(const uint64_t (*lines)[8], uint32_t count, uint64_t number,
					struct region_span_data *data, uint32_t *lines_used);

#endif
