// SPDX-License-Identifier: Apache-2.0
/*
 * text.c - Prometheus text format 0.0.4 and OpenMetrics 1.0. These differ in family names, UNIT,
 * escapes in HELP, types and "# EOF".
 */
#include <string.h>

#include "base/number.h"
#include "export/render.h"

static char *put_u64_value(char *p, uint64_t v)
{
	p = base_print_u64(p, v);
	*p++ = '\n';
	return p;
}

/* ---- family ---- */

static const char *type_word(enum export_family_type type, bool openmetrics)
{
	if (!openmetrics && (type == EXPORT_FAMILY_INFO || type == EXPORT_FAMILY_STATESET))
		return "gauge";
	if (!openmetrics && type == EXPORT_FAMILY_UNKNOWN)
		return "untyped";
	if (!openmetrics && type == EXPORT_FAMILY_GAUGE_HISTOGRAM)
		return "histogram"; /* 0.0.4 has no other type with buckets */
	/* In OpenMetrics, counter samples must end in "_total"; samples of this type do not. */
	if (openmetrics && type == EXPORT_FAMILY_BARE_COUNTER)
		return "unknown";
	return export_type_names[type] + 1;
}

/* Writes the family name for HELP, TYPE and UNIT. */
static char *put_family(char *p, const struct export_render *r, const char *suffix)
{
	if (!r->quoted)
		return stpcpy(mempcpy(p, r->name, r->name_bytes), suffix);
	*p++ = '"';
	p = stpcpy(export_render_escape(p, r->name, true), suffix);
	*p++ = '"';
	return p;
}

/* OpenMetrics: the name must end in "_" and the unit; info and state sets have no unit. */
static bool unit_shows(const struct export_render *r, size_t unit_bytes)
{
	const char *end = r->name + r->name_bytes;

	return unit_bytes && unit_bytes < r->name_bytes && end[-(ptrdiff_t)unit_bytes - 1] == '_' &&
	       !memcmp(end - unit_bytes, r->family.unit, unit_bytes) &&
	       r->family.type != EXPORT_FAMILY_INFO && r->family.type != EXPORT_FAMILY_STATESET;
}

static void begin_family(struct export_render *r)
{
	bool openmetrics = r->format == EXPORT_FORMAT_OPENMETRICS;
	const char *suffix = export_sample_suffix(r->family.type);
	/* 0.0.4 describes samples, OpenMetrics describes families */
	const char *shown = openmetrics ? "" : suffix;
	size_t help = strlen(r->family.help), unit = strlen(r->family.unit);
	char *p = export_render_room(r, 3 * (sizeof(r->prefix) + 16) + 2 * help + unit);

	if (!p)
		return;
	if (help) {
		p = put_family(stpcpy(p, "# HELP "), r, shown);
		*p++ = ' ';
		p = export_render_escape(p, r->family.help, openmetrics);
		*p++ = '\n';
	}
	p = put_family(stpcpy(p, "# TYPE "), r, shown);
	*p++ = ' ';
	p = stpcpy(p, type_word(r->family.type, openmetrics));
	*p++ = '\n';
	if (openmetrics && unit_shows(r, unit)) {
		p = put_family(stpcpy(p, "# UNIT "), r, "");
		*p++ = ' ';
		p = mempcpy(p, r->family.unit, unit);
		*p++ = '\n';
	}
	export_render_took(r, p);
	p = r->prefix;
	if (r->quoted)
		p = export_render_escape(stpcpy(p, "{\""), r->name, true);
	else
		p = mempcpy(p, r->name, r->name_bytes);
	r->created_bytes = (size_t)(p - r->prefix);
	p = stpcpy(p, suffix);
	r->prefix_bytes = (size_t)(p - r->prefix);
	r->phase = EXPORT_PHASE_SERIES;
}

/* ---- samples ---- */

static inline char *put_value(char *p, const struct export_series *s)
{
	if (s->value_type == EXPORT_VALUE_U64)
		p = base_print_u64(p, s->value.u64);
	else if (s->value_type == EXPORT_VALUE_I64)
		p = base_print_i64(p, s->value.i64);
	else
		p = base_print_f64(p, s->value.f64);
	*p++ = '\n';
	return p;
}

/* Writes seconds with nine decimals, because a double can't hold nanoseconds. */
static char *put_time(char *p, uint64_t ns)
{
	uint64_t fraction = ns % 1000000000u;

	p = base_print_u64(p, ns / 1000000000u);
	*p++ = '.';
	for (uint64_t unit = 100000000u; unit && (fraction || unit == 100000000u); unit /= 10) {
		*p++ = (char)('0' + fraction / unit);
		fraction %= unit;
	}
	return p;
}

#define EXEMPLAR_ROOM (2 * SL_EXEMPLAR_LABELS + 8 * SL_LABELS_MAX + 128)

/* Replaces the end of the line with " # {trace_id="..."} VALUE TIME". */
static char *put_exemplar(char *p, const struct export_exemplar *e)
{
	if (export_exemplar_is_long(e))
		return p;
	p = stpcpy(p - 1, " # {");
	for (size_t i = 0; i < e->label_count; i++) {
		p = stpcpy(stpcpy(stpcpy(p, i ? "," : ""), e->labels[i].key), "=\"");
		p = export_render_escape(p, e->labels[i].value, true);
		*p++ = '"';
	}
	p = base_print_f64(stpcpy(p, "} "), e->value);
	if (e->ns) {
		*p++ = ' ';
		p = put_time(p, e->ns);
	}
	*p++ = '\n';
	return p;
}

/* Writes the exemplar for the lines up to this bucket. */
static char *put_exemplar_upto(char *p, struct export_render *r, size_t bucket)
{
	const struct export_exemplar *e = r->format == EXPORT_FORMAT_OPENMETRICS
						  ? export_exemplar_upto(r, bucket)
						  : NULL;

	return e ? put_exemplar(p, e) : p;
}

/* Writes prefix, suffix and labels; the caller appends a last label and the closing brace. */
static inline char *put_open(char *p, const struct export_render *r, const char *suffix)
{
	p = stpcpy(mempcpy(p, r->prefix, r->prefix_bytes), suffix);
	p = stpcpy(p, r->quoted ? "\"," : "{");
	if (r->series.label_bytes) {
		p = mempcpy(p, r->series.label_text, r->series.label_bytes);
		*p++ = ',';
	}
	return p;
}

/* Writes the labels and the space before the value. */
static inline char *put_labels(char *p, const struct export_render *r)
{
	if (r->quoted) {
		*p++ = '"';
		if (r->series.label_bytes)
			*p++ = ',';
	} else if (r->series.label_bytes) {
		*p++ = '{';
	}
	p = mempcpy(p, r->series.label_text, r->series.label_bytes);
	if (r->quoted || r->series.label_bytes)
		*p++ = '}';
	*p++ = ' ';
	return p;
}

/* Writes prefix, suffix, labels and the space before the value. */
static inline char *put_name(char *p, const struct export_render *r, const char *suffix,
			     size_t suffix_bytes)
{
	p = mempcpy(p, r->prefix, r->prefix_bytes);
	return put_labels(mempcpy(p, suffix, suffix_bytes), r);
}

/* Returns the maximum length of a line: name, suffix, labels and value. */
static inline size_t line_room(const struct export_render *r)
{
	return r->prefix_bytes + r->series.label_bytes + 24 + BASE_NUMBER_MAX +
	       (r->series.exemplar_count ? EXEMPLAR_ROOM : 0);
}

/* Whether to write the series' creation time. */
static bool has_created(const struct export_render *r)
{
	return r->source.created && r->format == EXPORT_FORMAT_OPENMETRICS &&
	       r->series.created_ns &&
	       (r->family.type == EXPORT_FAMILY_COUNTER ||
		r->family.type == EXPORT_FAMILY_HISTOGRAM ||
		r->family.type == EXPORT_FAMILY_SUMMARY);
}

static char *put_created(char *p, const struct export_render *r)
{
	p = stpcpy(mempcpy(p, r->prefix, r->created_bytes), "_created");
	p = put_time(put_labels(p, r), r->series.created_ns);
	*p++ = '\n';
	return p;
}

/* Writes counters, gauges and infos: one line each, as many as fit into the buffer. */
static void put_scalars(struct export_render *r)
{
	char *p;

	do {
		if (!export_render_next_series(r, "")) {
			r->phase = EXPORT_PHASE_FAMILY;
			return;
		}
		p = export_render_room(r, 2 * line_room(r));
		if (!p)
			return;
		p = put_name(p, r, "", 0);
		if (r->family.type == EXPORT_FAMILY_INFO)
			p = mempcpy(p, "1\n", 2);
		else
			p = put_value(p, &r->series);
		if (r->series.exemplar_count && r->family.type == EXPORT_FAMILY_COUNTER)
			p = put_exemplar_upto(p, r, SIZE_MAX);
		if (has_created(r))
			p = put_created(p, r);
		export_render_took(r, p);
	} while (r->out < r->end);
}

/* Writes one line of a histogram: a bucket, +Inf, the sum or the count. */
static void histogram_line(struct export_render *r)
{
	bool gauge = r->family.type == EXPORT_FAMILY_GAUGE_HISTOGRAM &&
		     r->format == EXPORT_FORMAT_OPENMETRICS;
	const struct export_series *s = &r->series;
	struct export_bounds *b = &r->bounds;
	const char *le = "le=\"+Inf\"} ";
	size_t le_bytes = 11, upto = s->bucket_count;
	char *p;

	if (r->line > b->count + 2 + has_created(r)) {
		r->phase = EXPORT_PHASE_SERIES;
		return;
	}
	p = export_render_room(r, line_room(r) + BASE_NUMBER_MAX);
	if (!p)
		return;
	if (r->line <= b->count) {
		if (r->line < b->count) {
			le = b->text + b->text_at[r->line];
			le_bytes = b->text_at[r->line + 1] - b->text_at[r->line];
			upto = b->bucket[r->line] + 1;
		}
		while (r->bucket < upto)
			r->cumulative += s->buckets[r->bucket++];
		p = mempcpy(put_open(p, r, "_bucket"), le, le_bytes);
		p = put_u64_value(p, r->cumulative);
		if (s->exemplar_count)
			p = put_exemplar_upto(p, r, upto);
	} else if (r->line == b->count + 1) {
		p = gauge ? put_name(p, r, "_gsum", 5) : put_name(p, r, "_sum", 4);
		p = base_print_f64(p, s->sum);
		*p++ = '\n';
	} else if (r->line == b->count + 2) {
		p = gauge ? put_name(p, r, "_gcount", 7) : put_name(p, r, "_count", 6);
		p = put_u64_value(p, r->cumulative);
	} else {
		p = put_created(p, r);
	}
	export_render_took(r, p);
	r->line++;
}

/* Writes one line of a summary: a quantile, the sum or the count. */
static void summary_line(struct export_render *r)
{
	const struct export_series *s = &r->series;
	double v = s->sum;
	char *p;

	if (r->line > s->bound_count + 1 + has_created(r)) {
		r->phase = EXPORT_PHASE_SERIES;
		return;
	}
	p = export_render_room(r, line_room(r) + 2 * BASE_NUMBER_MAX);
	if (!p)
		return;
	if (r->line < s->bound_count) {
		memcpy(&v, &s->quantiles[r->line], sizeof(v));
		p = stpcpy(put_open(p, r, ""), "quantile=\"");
		p = base_print_bound(p, s->bounds[r->line], r->format == EXPORT_FORMAT_OPENMETRICS);
		p = stpcpy(p, "\"} ");
	} else if (r->line == s->bound_count) {
		p = put_name(p, r, "_sum", 4);
	} else if (r->line == s->bound_count + 1) {
		p = put_u64_value(put_name(p, r, "_count", 6), s->value.u64);
	} else {
		p = put_created(p, r);
	}
	if (r->line <= s->bound_count) {
		p = base_print_f64(p, v);
		*p++ = '\n';
	}
	export_render_took(r, p);
	r->line++;
}

/* Writes one line of a state set: its labels, plus the state in a label named after the family. */
static void state_line(struct export_render *r)
{
	const struct export_series *s = &r->series;
	const char *state, *label;
	char buf[EXPORT_SHOWN_NAME_MAX + 1], *p;

	if (r->line >= s->state_count || r->line >= 64) {
		r->phase = EXPORT_PHASE_SERIES;
		return;
	}
	state = s->states[r->line];
	label = export_render_state_label(r, buf);
	p = export_render_room(r, line_room(r) + r->name_bytes + 2 * strlen(state) + 8);
	if (!p)
		return;
	p = stpcpy(stpcpy(put_open(p, r, ""), label), "=\"");
	p = export_render_escape(p, state, true); /* states need the same escapes as label values */
	p = mempcpy(p, "\"} 0\n", 5);
	if (s->value.u64 >> r->line & 1)
		p[-2] = '1';
	export_render_took(r, p);
	r->line++;
}

static bool is_left_out(const struct export_render *r)
{
	return r->series.exponential && r->series.detail == EXPORT_DETAIL_NONE && !r->classic;
}

static void begin_series(struct export_render *r)
{
	char buf[EXPORT_SHOWN_NAME_MAX + 1];
	const char *reserved;

	if (!export_is_lines(r->family.type)) {
		put_scalars(r);
		return;
	}
	reserved = export_reserved_label(r, buf);
	if (!export_render_next_series(r, reserved)) {
		r->phase = EXPORT_PHASE_FAMILY;
		return;
	}
	if (export_is_histogram(r->family.type)) {
		if (is_left_out(r))
			return; /* the next step writes the next series */
		if (!export_bounds_make(r))
			return;
	}
	r->line = 0;
	r->bucket = 0;
	r->cumulative = 0;
	r->phase = EXPORT_PHASE_LINES;
}

static void next_family(struct export_render *r)
{
	int more = r->source.next_family(r->walk, &r->family);
	char *p;

	if (more < 0)
		r->error = more;
	else if (more && export_names_take(r))
		begin_family(r);
	if (more)
		return;
	r->phase = EXPORT_PHASE_END;
	if (r->format == EXPORT_FORMAT_OPENMETRICS) {
		p = export_render_room(r, 6);
		if (p)
			export_render_took(r, mempcpy(p, "# EOF\n", 6));
	}
}

void export_text_step(struct export_render *r)
{
	if (r->phase == EXPORT_PHASE_FAMILY)
		next_family(r);
	else if (r->phase == EXPORT_PHASE_SERIES)
		begin_series(r);
	else if (export_is_histogram(r->family.type))
		histogram_line(r);
	else if (r->family.type == EXPORT_FAMILY_SUMMARY)
		summary_line(r);
	else
		state_line(r);
}
