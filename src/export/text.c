// SPDX-License-Identifier: Apache-2.0
/*
 * text.c - Prometheus text format 0.0.4 and OpenMetrics 1.0. They differ in names of families,
 * UNIT, the escapes of HELP, types and "# EOF".
 */
#include <string.h>

#include "export/number.h"
#include "export/render.h"

static char *put_u64_value(char *p, uint64_t v)
{
	p = export_print_u64(p, v);
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
		return "histogram"; /* 0.0.4 has no other with buckets */
	return export_type_names[type] + 1;
}

/* OpenMetrics: the name must end with "_" and the unit; info and state sets have none. */
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
	/* 0.0.4 describes samples, OpenMetrics the family */
	const char *shown = openmetrics ? "" : suffix;
	size_t help = strlen(r->family.help), unit = strlen(r->family.unit);
	char *p = export_render_room(r, 3 * (sizeof(r->prefix) + 16) + 2 * help + unit);

	if (!p)
		return;
	if (help) {
		p = mempcpy(stpcpy(p, "# HELP "), r->name, r->name_bytes);
		p = stpcpy(p, shown);
		*p++ = ' ';
		p = export_render_escape(p, r->family.help, openmetrics);
		*p++ = '\n';
	}
	p = mempcpy(stpcpy(p, "# TYPE "), r->name, r->name_bytes);
	p = stpcpy(p, shown);
	*p++ = ' ';
	p = stpcpy(p, type_word(r->family.type, openmetrics));
	*p++ = '\n';
	if (openmetrics && unit_shows(r, unit)) {
		p = mempcpy(stpcpy(p, "# UNIT "), r->name, r->name_bytes);
		*p++ = ' ';
		p = mempcpy(p, r->family.unit, unit);
		*p++ = '\n';
	}
	export_render_took(r, p);
	p = mempcpy(r->prefix, r->name, r->name_bytes);
	p = stpcpy(p, suffix);
	r->prefix_bytes = (size_t)(p - r->prefix);
	r->phase = EXPORT_PHASE_SERIES;
}

/* ---- samples ---- */

static inline char *put_value(char *p, const struct export_series *s)
{
	if (s->value_type == EXPORT_VALUE_U64)
		p = export_print_u64(p, s->value.u64);
	else if (s->value_type == EXPORT_VALUE_I64)
		p = export_print_i64(p, s->value.i64);
	else
		p = export_print_f64(p, s->value.f64);
	*p++ = '\n';
	return p;
}

/* Seconds with all digits: a double cannot hold nanoseconds. */
static char *put_time(char *p, uint64_t ns)
{
	uint64_t fraction = ns % 1000000000u;

	p = export_print_u64(p, ns / 1000000000u);
	*p++ = '.';
	for (uint64_t unit = 100000000u; unit && (fraction || unit == 100000000u); unit /= 10) {
		*p++ = (char)('0' + fraction / unit);
		fraction %= unit;
	}
	return p;
}

#define EXEMPLAR_MAX 128u /* bound of its label set */

/* Replaces the end of the line: " # {trace_id="..."} 1 TIME". */
static char *put_exemplar(char *p, const struct export_series *s)
{
	size_t n = strlen(s->exemplar_trace);

	if (n + strlen("trace_id") > EXEMPLAR_MAX)
		return p;
	p = stpcpy(p - 1, " # {trace_id=\"");
	p = stpcpy(mempcpy(p, s->exemplar_trace, n), "\"} 1 ");
	p = put_time(p, s->exemplar_ns);
	*p++ = '\n';
	return p;
}

/* Prefix, suffix, and the labels before one that the caller appends with the closing brace. */
static inline char *put_open(char *p, const struct export_render *r, const char *suffix)
{
	p = stpcpy(mempcpy(p, r->prefix, r->prefix_bytes), suffix);
	*p++ = '{';
	if (r->series.label_bytes) {
		p = mempcpy(p, r->series.label_text, r->series.label_bytes);
		*p++ = ',';
	}
	return p;
}

/* Prefix, suffix, labels and the blank before the value. */
static inline char *put_name(char *p, const struct export_render *r, const char *suffix,
			     size_t suffix_bytes)
{
	p = mempcpy(p, r->prefix, r->prefix_bytes);
	p = mempcpy(p, suffix, suffix_bytes);
	if (r->series.label_bytes) {
		*p++ = '{';
		p = mempcpy(p, r->series.label_text, r->series.label_bytes);
		*p++ = '}';
	}
	*p++ = ' ';
	return p;
}

/* Bytes of a line: name, suffix, labels and value. */
static inline size_t line_room(const struct export_render *r)
{
	return r->prefix_bytes + r->series.label_bytes + 16 + EXPORT_NUMBER_MAX +
	       (r->series.exemplar_trace ? EXEMPLAR_MAX + 64 : 0);
}

/* Counters, gauges and info: one line each, as many as the buffer takes. */
static void scalars(struct export_render *r)
{
	char *p;

	do {
		if (!export_render_next_series(r, "")) {
			r->phase = EXPORT_PHASE_FAMILY;
			return;
		}
		p = export_render_room(r, line_room(r));
		if (!p)
			return;
		p = put_name(p, r, "", 0);
		if (r->family.type == EXPORT_FAMILY_INFO)
			p = mempcpy(p, "1\n", 2);
		else
			p = put_value(p, &r->series);
		if (r->series.exemplar_trace && r->format == EXPORT_FORMAT_OPENMETRICS &&
		    r->family.type == EXPORT_FAMILY_COUNTER)
			p = put_exemplar(p, &r->series);
		export_render_took(r, p);
	} while (r->out < r->end);
}

/* A line of a histogram: buckets, +Inf, sum, count. */
static void histogram_line(struct export_render *r)
{
	bool gauge = r->family.type == EXPORT_FAMILY_GAUGE_HISTOGRAM &&
		     r->format == EXPORT_FORMAT_OPENMETRICS;
	const struct export_series *s = &r->series;
	struct export_bounds *b = &r->bounds;
	const char *le = "le=\"+Inf\"} ";
	size_t le_bytes = 11, upto = s->bucket_count;
	char *p;

	if (r->line > b->count + 2) {
		r->phase = EXPORT_PHASE_SERIES;
		return;
	}
	p = export_render_room(r, line_room(r) + EXPORT_NUMBER_MAX);
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
	} else if (r->line == b->count + 1) {
		p = gauge ? put_name(p, r, "_gsum", 5) : put_name(p, r, "_sum", 4);
		p = export_print_f64(p, s->sum);
		*p++ = '\n';
	} else {
		p = gauge ? put_name(p, r, "_gcount", 7) : put_name(p, r, "_count", 6);
		p = put_u64_value(p, r->cumulative);
	}
	export_render_took(r, p);
	r->line++;
}

/* A line of a summary: quantiles, sum, count. */
static void summary_line(struct export_render *r)
{
	const struct export_series *s = &r->series;
	double v = s->sum;
	char *p;

	if (r->line > s->bound_count + 1) {
		r->phase = EXPORT_PHASE_SERIES;
		return;
	}
	p = export_render_room(r, line_room(r) + 2 * EXPORT_NUMBER_MAX);
	if (!p)
		return;
	if (r->line < s->bound_count) {
		memcpy(&v, &s->quantiles[r->line], sizeof(v));
		p = stpcpy(put_open(p, r, ""), "quantile=\"");
		p = export_print_bound(p, s->bounds[r->line],
				       r->format == EXPORT_FORMAT_OPENMETRICS);
		p = stpcpy(p, "\"} ");
	} else if (r->line == s->bound_count) {
		p = put_name(p, r, "_sum", 4);
	} else {
		p = put_u64_value(put_name(p, r, "_count", 6), s->value.u64);
	}
	if (r->line <= s->bound_count) {
		p = export_print_f64(p, v);
		*p++ = '\n';
	}
	export_render_took(r, p);
	r->line++;
}

/* A line of a state set: its labels, plus the state in a label named as the family. */
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
	p = export_render_escape(p, state, true); /* the same escapes */
	p = mempcpy(p, "\"} 0\n", 5);
	if (s->value.u64 >> r->line & 1)
		p[-2] = '1';
	export_render_took(r, p);
	r->line++;
}

static void begin_series(struct export_render *r)
{
	char buf[EXPORT_SHOWN_NAME_MAX + 1];
	const char *reserved;

	if (!export_is_lines(r->family.type)) {
		scalars(r);
		return;
	}
	reserved = export_reserved_label(r, buf);
	if (!export_render_next_series(r, reserved)) {
		r->phase = EXPORT_PHASE_FAMILY;
		return;
	}
	if (export_is_histogram(r->family.type) && !export_bounds_make(r))
		return;
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
