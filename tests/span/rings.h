/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rings.h - the rings of a region as a collector on this machine sees them; and spans all of whose
 * words follow from one number, so that an accepted torn span is noticed.
 */
#ifndef SL_TEST_RINGS_H
#define SL_TEST_RINGS_H

#include <sidelight/span.h>

#include "../lib/reader.h"
#include "region/spans.h"

static inline uint64_t test_mix(uint64_t x, uint64_t k)
{
	x = (x + k) * 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

struct made {
	struct sl_span_name name;
	struct sl_span_key number, ratio, text;
};

static inline struct made made_names(struct sl_publisher *p)
{
	return (struct made){sl_span_name_create(p, "made"), sl_span_key_create(p, "number"),
			     sl_span_key_create(p, "ratio"), sl_span_key_create(p, "text")};
}

/* One span in four has no ratio, so that they differ in their number of lines. */
static inline void make_span(const struct made *m, uint64_t x)
{
	struct sl_trace_context parent = {
		.trace_hi = test_mix(x, 1), .trace_lo = test_mix(x, 2) | 1, .span_id = x | 1};
	uint64_t text[5];
	struct sl_span span;

	for (int i = 0; i < 5; i++)
		text[i] = (test_mix(x, 10 + (uint64_t)i) & 0x0f0f0f0f0f0f0f0full) +
			  0x4141414141414141ull;
	sl_span_start(&span, m->name, (enum sl_span_kind)(x % 5), &parent);
	sl_span_set_start(&span, test_mix(x, 3) >> 8);
	sl_span_set_end(&span, (test_mix(x, 3) >> 8) + (x & 0xffff));
	sl_span_set_i64(&span, m->number, (int64_t)x);
	if (x % 4)
		sl_span_set_i64(&span, m->ratio, (int64_t)test_mix(x, 4));
	sl_span_set_text(&span, m->text, (const char *)text, x % 41);
	sl_span_set_status(&span, (enum sl_span_status)(x % 3), NULL);
	sl_span_end(&span);
}

/* Returns true if every word is as written by make_span(). */
static inline bool span_is_made(const struct region_span_data *d)
{
	uint64_t x, text[6] = {0};

	if (d->attr_count < 2 || d->attrs[0].type != SL_SPAN_TYPE_I64 ||
	    d->attr_count != (d->attrs[0].i64 % 4 ? 3u : 2u) ||
	    d->attrs[d->attr_count - 1].type != SL_SPAN_TYPE_STRING)
		return false;
	x = (uint64_t)d->attrs[0].i64;
	for (int i = 0; i < 5; i++)
		text[i] = (test_mix(x, 10 + (uint64_t)i) & 0x0f0f0f0f0f0f0f0full) +
			  0x4141414141414141ull;
	((char *)text)[x % 41] = 0;
	return d->trace_hi == test_mix(x, 1) && d->trace_lo == (test_mix(x, 2) | 1) &&
	       d->parent_id == (x | 1) && d->start_ns == test_mix(x, 3) >> 8 &&
	       d->duration_ns == (x & 0xffff) && d->kind == x % 5 && d->status == x % 3 &&
	       (!(x % 4) || (uint64_t)d->attrs[1].i64 == test_mix(x, 4)) &&
	       !strcmp(d->attrs[d->attr_count - 1].string, (const char *)text);
}

/* Copies bytes from the region in some order. */
typedef void (*copy_fn)(uint64_t *to, const uint64_t *from, size_t words);

static inline void copy_in_order(uint64_t *to, const uint64_t *from, size_t words)
{
	region_copy_words(to, from, words);
}

/* The results for the places of a ring. */
struct ring_tally {
	struct region_span_head head;
	bool head_settled;
	uint64_t good, early, late, unsettled, lies, first_inside;
};

typedef void (*span_fn)(const struct region_span_data *d, uint64_t number, uint32_t lines,
			void *arg);

static inline bool ring_head(const struct reader *r, uint32_t ring, copy_fn copy,
			     struct region_span_head *head)
{
	uint64_t line[8];

	for (int i = 0; i < 1000; i++) {
		copy(line, (const uint64_t *)(r->map + region_span_head_at(&r->info, ring)), 8);
		if (!region_span_head_parse(line, head))
			return true;
	}
	return false;
}

/* Reads the contents of a ring, from its oldest line on, and passes on every span that verifies. */
static inline struct ring_tally ring_read(const struct reader *r, uint32_t ring, copy_fn copy,
					  span_fn fn, void *arg)
{
	uint32_t size = r->info.span_lines, n;
	struct ring_tally t = {0};
	struct region_span_data *d = malloc(sizeof(*d));
	uint64_t(*lines)[8] = malloc((size_t)size * 64);
	uint64_t first;

	t.head_settled = ring_head(r, ring, copy, &t.head);
	first = t.head.lines > size ? t.head.lines - size : 0;
	for (uint64_t i = first; i < t.head.lines; i++)
		copy(lines[i - first],
		     (const uint64_t *)(r->map + region_span_line_at(&r->info, ring, i)), 8);
	for (uint64_t i = first; i < t.head.lines; i += n) {
		switch (region_span_parse((const uint64_t(*)[8])lines + (i - first),
					  (uint32_t)(t.head.lines - i), i, d, &n)) {
		case REGION_SPAN_LINE_GOOD:
			t.good++;
			if (fn)
				fn(d, i, n, arg);
			break;
		case REGION_SPAN_LINE_EARLY:
			t.early++;
			break;
		case REGION_SPAN_LINE_LATE:
			t.late++;
			break;
		case REGION_SPAN_LINE_INSIDE:
			t.first_inside++;
			break;
		case REGION_SPAN_LINE_UNSETTLED:
		case REGION_SPAN_LINE_SHORT:
			t.unsettled++;
			break;
		case REGION_SPAN_LINE_LIE:
			t.lies++;
			break;
		}
	}
	free(lines);
	free(d);
	return t;
}

#endif
