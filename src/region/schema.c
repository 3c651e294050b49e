// SPDX-License-Identifier: Apache-2.0
/*
 * schema.c - parses the append-only records that describe cells. Each record is accepted in two
 * steps: its checksum shows that the copy is complete, then its content is checked against
 * sidelight-region(5). Memory is bounded by a small multiple of the records' bytes, plus one bit
 * per cell of a stripe.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "region/decode.h"
#include "base/text.h"
#include "region/text.h"

#define FIRST_BUCKET_MAX (1 << 20) /* limit of the absolute value; doubles reach 1075 << 8 */
#define SPECIALS_MAX	 3u	   /* per metric */

struct region_schema_string {
	uint32_t id;
	char *text;
};

/* A metric with the arrays and strings that it points to. */
struct entry {
	struct base_node node; /* hash of name and labels */
	struct region_metric metric;
};

/* A decoded record; points into the caller's copy. */
struct parts {
	struct sl_schema_record r;
	enum sl_metric_kind kind; /* kind without SL_KIND_REPLACEABLE */
	bool replaceable, removed;
	uint64_t created_ns;
	const char *name, *unit, *help, *label_text, *state_text;
	const uint8_t *bounds;
	struct region_text_label labels[SL_LABELS_MAX];
	uint32_t label_count;
};

static struct entry *entry_of(struct region_metric *m)
{
	return (struct entry *)((char *)m - offsetof(struct entry, metric));
}

void region_schema_init(struct region_schema *schema)
{
	memset(schema, 0, sizeof(*schema));
}

void region_schema_free(struct region_schema *schema)
{
	for (size_t i = 0; i < schema->count; i++)
		free(entry_of(schema->metrics[i]));
	free(schema->metrics);
	base_table_free(&schema->series);
	free(schema->specials);
	free(schema->taken);
	for (size_t i = 0; i < schema->string_count; i++)
		free(schema->strings[i].text);
	free(schema->strings);
	region_schema_init(schema);
}

static uint64_t hash_of(const struct parts *p)
{
	return base_hash(base_hash(0, p->name, p->r.name_bytes), p->label_text, p->r.label_bytes);
}

static bool same_series(const struct region_metric *m, const struct parts *p)
{
	if (strlen(m->name) != p->r.name_bytes || memcmp(m->name, p->name, p->r.name_bytes) ||
	    m->label_count != p->label_count)
		return false;
	for (uint32_t i = 0; i < m->label_count; i++)
		if (strcmp(m->labels[i].key, p->labels[i].key) ||
		    strcmp(m->labels[i].value, p->labels[i].value))
			return false;
	return true;
}

/* ---- the rules ---- */

/* True if the bounds are finite, ascending, and between low and high. */
static bool bounds_ascend(const struct parts *p, double low, double high)
{
	double before = -INFINITY;

	for (uint32_t i = 0; i < p->r.bound_count; i++) {
		double b;

		memcpy(&b, p->bounds + i * sizeof(b), sizeof(b));
		if (!(b > before) || !isfinite(b) || b < low || b > high)
			return false;
		before = b;
	}
	return true;
}

/* Stores the offset of each state name within state_text in at[]. */
static bool states_split(const struct parts *p, uint16_t at[SL_STATES_MAX])
{
	const char *s = p->state_text, *end = s + p->r.state_bytes;

	if (!p->r.state_count || p->r.state_count > SL_STATES_MAX)
		return false;
	for (uint32_t i = 0; i < p->r.state_count; i++) {
		const char *stop = s < end ? memchr(s, 0, (size_t)(end - s)) : NULL;

		if (!stop || stop == s || stop - s > SL_NAME_MAX ||
		    !base_utf8(s, (size_t)(stop - s)))
			return false;
		for (uint32_t j = 0; j < i; j++)
			if (!strcmp(p->state_text + at[j], s))
				return false;
		at[i] = (uint16_t)(s - p->state_text);
		s = stop + 1;
	}
	return s == end;
}

static bool has_label(const struct parts *p, const char *key, size_t bytes)
{
	for (uint32_t i = 0; i < p->label_count; i++)
		if (strlen(p->labels[i].key) == bytes && !memcmp(p->labels[i].key, key, bytes))
			return true;
	return false;
}

/* Checks the rules that depend on the kind. */
static enum region_fault check_kind(const struct parts *p, uint16_t state_at[SL_STATES_MAX])
{
	const struct sl_schema_record *r = &p->r;
	enum sl_metric_kind kind = p->kind;
	bool classic = kind == SL_KIND_HISTOGRAM || kind == SL_KIND_GAUGE_HISTOGRAM;
	bool bounds = classic || kind == SL_KIND_SUMMARY, states = kind == SL_KIND_STATESET;
	uint32_t buckets = r->cells - SL_HIST_BUCKETS; /* histograms only */

	if ((r->bound_count && !bounds) || ((r->state_count || r->state_bytes) && !states))
		return REGION_FAULT_RECORD;
	switch (kind) {
	case SL_KIND_COUNTER:
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE:
	case SL_KIND_GAUGE_F64:
	case SL_KIND_UNKNOWN:
		return r->cells == 1 ? REGION_FAULT_NONE : REGION_FAULT_RECORD;
	case SL_KIND_GAUGE_TIMED:
		return r->cells == 2 ? REGION_FAULT_NONE : REGION_FAULT_RECORD;
	case SL_KIND_INFO:
		return r->cells == 0 ? REGION_FAULT_NONE : REGION_FAULT_RECORD;
	case SL_KIND_STATESET:
		/* The exposition uses the metric's name as the label for the state. */
		if (r->cells != 1 || memchr(p->name, ':', r->name_bytes) ||
		    !states_split(p, state_at))
			return REGION_FAULT_RECORD;
		return has_label(p, p->name, r->name_bytes) ? REGION_FAULT_LABEL
							    : REGION_FAULT_NONE;
	case SL_KIND_SUMMARY:
		if (r->cells != SL_SUMMARY_QUANTILES + r->bound_count ||
		    r->bound_count > SL_QUANTILES_MAX || !bounds_ascend(p, 0, 1))
			return REGION_FAULT_RECORD;
		return has_label(p, "quantile", 8) ? REGION_FAULT_LABEL : REGION_FAULT_NONE;
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_GAUGE_HISTOGRAM_EXP:
		if (r->cells < SL_HIST_BUCKETS + 3 || buckets > SL_BUCKETS_MAX || r->scale < -4 ||
		    r->scale > 8 || r->first_bucket < -FIRST_BUCKET_MAX ||
		    r->first_bucket > FIRST_BUCKET_MAX || !(r->zero_threshold >= 0) ||
		    !isfinite(r->zero_threshold))
			return REGION_FAULT_RECORD;
		break;
	case SL_KIND_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM:
		if (r->cells != SL_HIST_BUCKETS + 1 + r->bound_count || buckets > SL_BUCKETS_MAX ||
		    !bounds_ascend(p, -INFINITY, INFINITY))
			return REGION_FAULT_RECORD;
		break;
	}
	return has_label(p, "le", 2) ? REGION_FAULT_LABEL : REGION_FAULT_NONE;
}

/* Checks the padding after the parts: at most 7 bytes, or any number if replaceable. */
static bool rest_fits(const uint8_t *bytes, uint64_t whole, const struct parts *p)
{
	if (!p->replaceable)
		return ((whole + 7) & ~7ull) == p->r.length;
	if (whole > p->r.length)
		return false;
	for (uint64_t i = whole; i < p->r.length; i++)
		if (bytes[i])
			return false;
	return true;
}

/* Splits a record with a correct checksum into its parts. */
static enum region_fault split_record(const uint8_t *bytes, struct parts *p)
{
	const struct sl_schema_record *r = &p->r;
	uint64_t text = (uint64_t)r->name_bytes + r->unit_bytes + r->help_bytes + r->label_bytes +
			r->state_bytes;
	bool utf8 = r->kind >= SL_KIND_SUMMARY;

	if (!rest_fits(bytes, sizeof(*r) + 8ull * r->bound_count + text, p))
		return REGION_FAULT_RECORD;
	p->bounds = bytes + sizeof(*r);
	p->name = (const char *)p->bounds + 8ull * r->bound_count;
	p->unit = p->name + r->name_bytes;
	p->help = p->unit + r->unit_bytes;
	p->label_text = p->help + r->help_bytes;
	p->state_text = p->label_text + r->label_bytes;
	if (!(utf8 ? region_text_name_utf8(p->name, r->name_bytes)
		   : region_text_metric_name(p->name, r->name_bytes)) ||
	    !region_text_unit(p->unit, r->unit_bytes) || r->help_bytes > SL_HELP_MAX ||
	    !base_utf8(p->help, r->help_bytes))
		return REGION_FAULT_RECORD;
	if (!region_text_labels(p->label_text, r->label_bytes, true, utf8, p->labels,
				&p->label_count))
		return REGION_FAULT_LABEL;
	return REGION_FAULT_NONE;
}

/* ---- growth: false if out of memory, with nothing changed but room ---- */

static bool grow_array(struct region_schema *s, void *array, size_t *room, size_t count,
		       size_t size)
{
	size_t before = *room;

	if (!base_grow(array, room, count, size))
		return false;
	s->bytes += (*room - before) * size;
	return true;
}

/* Makes space for the bits of all cells below end. */
static bool make_cells(struct region_schema *s, uint64_t end)
{
	size_t before = s->taken_words;

	if (!grow_array(s, &s->taken, &s->taken_words, (end + 63) / 64, sizeof(*s->taken)))
		return false;
	if (s->taken_words > before)
		memset(s->taken + before, 0, (s->taken_words - before) * sizeof(*s->taken));
	return true;
}

/* Returns the mask of bits first to end, exclusive, in the word whose first bit is `at`. */
static uint64_t bits_of(uint64_t at, uint64_t first, uint64_t end)
{
	uint64_t mask = ~0ull;

	if (first > at)
		mask <<= first - at;
	if (end < at + 64)
		mask &= ~0ull >> (at + 64 - end);
	return mask;
}

/* True if a cell in [first, end), at least one cell, belongs to an earlier record. */
static bool cells_taken(const struct region_schema *s, uint64_t first, uint64_t end)
{
	for (uint64_t at = first & ~63ull; at < end && at / 64 < s->taken_words; at += 64)
		if (s->taken[at / 64] & bits_of(at, first, end))
			return true;
	return false;
}

static void cells_take(struct region_schema *s, uint64_t first, uint64_t end)
{
	for (uint64_t at = first & ~63ull; at < end; at += 64)
		s->taken[at / 64] |= bits_of(at, first, end);
	if (end > s->cells)
		s->cells = end;
}

static size_t table_bytes(const struct region_schema *s)
{
	return s->series.buckets * sizeof(*s->series.bucket);
}

/* Makes space for one more metric. */
static bool make_room(struct region_schema *s)
{
	if (!s->series.buckets && base_table_init(&s->series))
		s->bytes += table_bytes(s);
	return s->series.buckets &&
	       grow_array(s, &s->metrics, &s->capacity, s->count + 1, sizeof(*s->metrics)) &&
	       grow_array(s, &s->specials, &s->special_capacity, s->special_count + SPECIALS_MAX,
			  sizeof(*s->specials));
}

static bool is_known(const struct region_schema *s, const struct parts *p, uint64_t hash)
{
	const struct entry *e = base_table_first(&s->series, hash);

	while (e && !same_series(&e->metric, p))
		e = base_table_next(e);
	return e;
}

static char *put_text(char **to, const char *from, size_t bytes)
{
	char *start = *to;

	memcpy(start, from, bytes);
	start[bytes] = 0;
	*to += bytes + 1;
	return start;
}

static struct entry *new_entry(const struct parts *p, const uint16_t state_at[SL_STATES_MAX],
			       size_t *bytes)
{
	const struct sl_schema_record *r = &p->r;
	size_t labels = p->label_count * sizeof(struct region_text_label);
	size_t bounds = r->bound_count * sizeof(double);
	size_t states = r->state_count * sizeof(char *);
	size_t text = (size_t)r->name_bytes + r->unit_bytes + r->help_bytes + r->label_bytes +
		      r->state_bytes + 5;
	size_t size = sizeof(struct entry) + labels + bounds + states + text;
	struct entry *e = malloc(size);
	struct region_metric *m;
	struct region_text_label *label;
	const char **state;
	char *to, *start;

	if (!e)
		return NULL;
	m = &e->metric;
	label = (struct region_text_label *)(e + 1);
	state = (const char **)((char *)label + labels + bounds);
	to = (char *)state + states;
	*m = (struct region_metric){
		.id = r->id,
		.kind = p->kind,
		.flags = r->flags,
		.replaceable = p->replaceable,
		.removed = p->removed,
		.created_ns = p->created_ns,
		.cell = r->cells ? r->cell : 0,
		.cells = r->cells,
		.label_count = p->label_count,
		.labels = label,
		.bound_count = r->bound_count,
		.bounds = (const double *)((char *)label + labels),
		.state_count = r->state_count,
		.states = state,
	};
	if (region_is_histogram(m) && r->length)
		m->bucket_count = r->cells - SL_HIST_BUCKETS;
	if (region_is_exponential(m)) {
		m->scale = r->scale;
		m->first_bucket = r->first_bucket;
		m->zero_threshold = r->zero_threshold;
	}
	memcpy((char *)label + labels, p->bounds, bounds);
	m->name = put_text(&to, p->name, r->name_bytes);
	m->unit = put_text(&to, p->unit, r->unit_bytes);
	m->help = put_text(&to, p->help, r->help_bytes);
	start = put_text(&to, p->label_text, r->label_bytes);
	for (uint32_t i = 0; i < p->label_count; i++)
		label[i] = (struct region_text_label){
			start + (p->labels[i].key - p->label_text),
			start + (p->labels[i].value - p->label_text),
		};
	start = put_text(&to, p->state_text, r->state_bytes);
	for (uint32_t i = 0; i < r->state_count; i++)
		state[i] = start + state_at[i];
	*bytes = size;
	return e;
}

static void put_special(struct region_schema *s, uint32_t cell, uint32_t cells, bool f64,
			bool shared)
{
	if (cells && (f64 || shared))
		s->specials[s->special_count++] = (struct region_special){cell, cells, f64, shared};
}

/* Adds at most SPECIALS_MAX entries. */
static void add_specials(struct region_schema *s, const struct region_metric *m)
{
	bool mirror = m->flags & SL_FLAG_MIRROR;

	switch (m->kind) {
	case SL_KIND_COUNTER:
	case SL_KIND_COUNTER_F64:
		put_special(s, m->cell, 1, m->kind == SL_KIND_COUNTER_F64, mirror);
		break;
	case SL_KIND_GAUGE:
	case SL_KIND_STATESET:
		put_special(s, m->cell, 1, false, true);
		break;
	case SL_KIND_GAUGE_F64:
	case SL_KIND_UNKNOWN:
		put_special(s, m->cell, 1, true, true);
		break;
	case SL_KIND_GAUGE_TIMED:
		put_special(s, m->cell, 1, true, true);
		put_special(s, m->cell + 1, 1, false, true);
		break;
	case SL_KIND_SUMMARY:
		put_special(s, m->cell + SL_SUMMARY_QUANTILES, m->cells - SL_SUMMARY_QUANTILES,
			    true, true);
		put_special(s, m->cell + SL_SUMMARY_SUM, 1, true, mirror);
		put_special(s, m->cell + SL_SUMMARY_COUNT, 1, false, mirror);
		break;
	case SL_KIND_GAUGE_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM_EXP:
		mirror = true;
		/* fall through */
	case SL_KIND_HISTOGRAM:
	case SL_KIND_HISTOGRAM_EXP:
		/* Only the first cell, the sum, is a double. */
		put_special(s, m->cell, 1, true, mirror);
		put_special(s, m->cell + 1, m->cells - 1, false, mirror);
		break;
	case SL_KIND_INFO:
		break;
	}
}

/* ---- strings of spans ---- */

static enum region_fault append_string(struct region_schema *s, const uint8_t *bytes,
				       const struct sl_schema_record *r)
{
	const char *text = (const char *)bytes + sizeof(*r);
	char *copy;

	if (r->cells || r->unit_bytes || r->help_bytes || r->label_bytes || r->state_bytes ||
	    r->bound_count || r->state_count || !r->name_bytes || r->name_bytes > SL_NAME_MAX ||
	    ((sizeof(*r) + r->name_bytes + 7) & ~7ull) != r->length ||
	    !base_utf8(text, r->name_bytes))
		return REGION_FAULT_RECORD;
	if (!grow_array(s, &s->strings, &s->string_capacity, s->string_count + 1,
			sizeof(*s->strings)))
		return REGION_FAULT_MEMORY;
	copy = calloc(1, (size_t)r->name_bytes + 1);
	if (!copy)
		return REGION_FAULT_MEMORY;
	memcpy(copy, text, r->name_bytes);
	s->strings[s->string_count++] = (struct region_schema_string){r->id, copy};
	s->bytes += (size_t)r->name_bytes + 1;
	return REGION_FAULT_NONE;
}

const char *region_schema_string(const struct region_schema *schema, uint32_t id)
{
	size_t i;

	BASE_LOWER_BOUND(i, 0, schema->string_count, schema->strings[i].id < id);
	return i < schema->string_count && schema->strings[i].id == id ? schema->strings[i].text
								       : NULL;
}

/* Returns the kind of a metric without SL_KIND_REPLACEABLE; 0 if unknown. */
static uint32_t known_kind(const struct sl_schema_record *r)
{
	uint32_t kind = r->kind;

	if (kind & SL_KIND_REPLACEABLE)
		kind -= SL_KIND_REPLACEABLE;
	return kind >= SL_KIND_COUNTER && kind <= SL_KIND_GAUGE_TIMED ? kind : 0;
}

/* Looks up the creation time of a record. Returns false if the record has no such cell. */
static bool created_of(const struct region_schema *s, uint32_t id, uint64_t *ns)
{
	if (!s->created || id / SL_LINE_CELLS >= s->created_lines)
		return false;
	*ns = s->created[id / SL_LINE_CELLS][id % SL_LINE_CELLS];
	return true;
}

/*
 * True if the writer may be replacing the record: then only the fields common to all possible
 * replacements are reliable.
 */
static bool may_change(const struct region_schema *s, const struct sl_schema_record *r)
{
	uint64_t ns;

	return known_kind(r) && r->kind & SL_KIND_REPLACEABLE && created_of(s, r->id, &ns) && !ns;
}

static enum region_fault append_metric(struct region_schema *s, struct parts *p)
{
	uint16_t state_at[SL_STATES_MAX];
	uint64_t hash = hash_of(p);
	struct entry *e;
	size_t size;

	if (!p->removed || !p->replaceable) {
		enum region_fault fault = check_kind(p, state_at);

		if (fault)
			return fault;
	}
	if (!make_room(s) || (p->r.cells && !make_cells(s, (uint64_t)p->r.cell + p->r.cells)))
		return REGION_FAULT_MEMORY;
	if (!p->removed && is_known(s, p, hash))
		return REGION_FAULT_RECORD;
	e = new_entry(p, state_at, &size);
	if (!e)
		return REGION_FAULT_MEMORY;
	s->metrics[s->count++] = &e->metric;
	if (!p->removed) {
		s->bytes -= table_bytes(s);
		base_table_add(&s->series, e, hash);
		s->bytes += table_bytes(s);
		add_specials(s, &e->metric);
	}
	if (p->r.cells)
		cells_take(s, p->r.cell, (uint64_t)p->r.cell + p->r.cells);
	s->bytes += size;
	return REGION_FAULT_NONE;
}

static enum region_fault append_one(struct region_schema *s, const struct region_info *info,
				    const uint8_t *bytes, const struct sl_schema_record *r)
{
	uint64_t first = r->cell, end = first + r->cells;
	struct parts p = {.r = *r, .kind = (enum sl_metric_kind)known_kind(r)};
	enum region_fault fault;

	if (r->id != s->count + s->skipped + s->string_count)
		return REGION_FAULT_RECORD;
	if (r->kind == SL_KIND_STRING)
		return append_string(s, bytes, r);
	if (s->strings_only) {
		s->skipped++;
		return REGION_FAULT_NONE;
	}
	if (r->cells &&
	    (end > (uint64_t)info->max_lines * SL_LINE_CELLS || cells_taken(s, first, end)))
		return REGION_FAULT_CELLS;
	if (!p.kind) {
		if (r->cells && !make_cells(s, end))
			return REGION_FAULT_MEMORY;
		if (r->cells)
			cells_take(s, first, end);
		s->skipped++;
		return REGION_FAULT_NONE;
	}
	p.replaceable = r->kind & SL_KIND_REPLACEABLE;
	p.removed = created_of(s, r->id, &p.created_ns) && !p.created_ns;
	if (p.removed && p.replaceable) {
		p.name = p.unit = p.help = p.label_text = p.state_text = "";
		/* length 0 means that the parts are unknown */
		p.r = (struct sl_schema_record){.cell = r->cell, .cells = r->cells, .id = r->id};
		p.bounds = (const uint8_t *)"";
	} else {
		fault = split_record(bytes, &p);
		if (fault)
			return fault;
	}
	return append_metric(s, &p);
}

uint64_t region_created_lines(const struct region_info *info, uint64_t schema_used)
{
	uint64_t records = schema_used / sizeof(struct sl_schema_record);

	return BASE_MIN(info->created_lines, (records + SL_LINE_CELLS - 1) / SL_LINE_CELLS);
}

enum region_fault region_schema_append(struct region_schema *schema, const struct region_info *info,
				       const void *bytes, size_t length)
{
	const uint8_t *p = bytes;

	if (schema->parsed > info->schema_bytes || length > info->schema_bytes - schema->parsed)
		return REGION_FAULT_SIZE;
	while (length) {
		struct sl_schema_record r;
		enum region_fault fault;
		uint64_t check;

		if (length < sizeof(r))
			return REGION_FAULT_CHECK;
		memcpy(&r, p, sizeof(r));
		if (r.length < sizeof(r) || r.length % 8 || r.length > length)
			return REGION_FAULT_CHECK;
		check = r.check;
		r.check = 0;
		if (!may_change(schema, &r) &&
		    sl_fnv1a(sl_fnv1a(SL_FNV_BASIS, &r, sizeof(r)), p + sizeof(r),
			     r.length - sizeof(r)) != check)
			return REGION_FAULT_CHECK;
		fault = append_one(schema, info, p, &r);
		if (fault)
			return fault;
		schema->parsed += r.length;
		p += r.length;
		length -= r.length;
	}
	return REGION_FAULT_NONE;
}
