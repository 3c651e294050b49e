// SPDX-License-Identifier: Apache-2.0
/* text.c - parses bodies line by line, or by comparing them with the shape of the previous body. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "bridge/text_internal.h"

const char *const bridge_type_names[BRIDGE_TYPES] = {
	"unknown", "counter", "gauge", "summary", "histogram", "gaugehistogram", "info", "stateset",
};

int bridge_fail(struct bridge_error *e, int error, uint32_t line, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return error;
	e->error = error;
	e->line = line;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	for (char *c = e->text; *c; c++) /* the message quotes untrusted text */
		if (*c < 32 || *c > 126)
			*c = '?';
	return error;
}

/* ---- labels ---- */

static int by_key(const void *a, const void *b)
{
	return bridge_text_compare(((const struct bridge_label *)a)->key,
				   ((const struct bridge_label *)b)->key);
}

bool bridge_labels_sort(struct bridge_label *labels, size_t n)
{
	bool sorted = true;

	for (size_t i = 1; i < n && sorted; i++)
		sorted = by_key(&labels[i - 1], &labels[i]) < 0;
	if (sorted)
		return true;
	qsort(labels, n, sizeof(*labels), by_key);
	for (size_t i = 1; i < n; i++)
		if (!by_key(&labels[i - 1], &labels[i]))
			return false;
	return true;
}

bool bridge_labels_equal(const struct bridge_label *a, size_t n, const struct bridge_label *b,
			 size_t m)
{
	if (n != m)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!bridge_text_equal(a[i].key, b[i].key) ||
		    !bridge_text_equal(a[i].value, b[i].value))
			return false;
	return true;
}

uint64_t bridge_labels_hash(const struct bridge_label *labels, size_t n)
{
	struct base_hash h;

	base_hash_begin(&h, 0);
	for (size_t i = 0; i < n; i++) {
		base_hash_add(&h, labels[i].key.s, labels[i].key.n);
		base_hash_add(&h, labels[i].value.s, labels[i].value.n);
	}
	return base_hash_end(&h);
}

/* ---- parsers ---- */

struct bridge_text_parser *bridge_text_new(const struct bridge_limits *limits)
{
	struct bridge_text_parser *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	if (limits)
		p->limits = *limits;
	p->window = BRIDGE_ALL_TIMES;
	p->limits.points = p->limits.points ?: BRIDGE_POINTS_MAX;
	p->limits.values = p->limits.values ?: BRIDGE_VALUES_MAX;
	/* Also needed for lines without labels, because they refer to the array. */
	if (base_grow(&p->labels, &p->label_room, 1, sizeof(*p->labels)))
		return p;
	bridge_text_free(p);
	return NULL;
}

void bridge_text_free(struct bridge_text_parser *p)
{
	if (!p)
		return;
	free(p->shape_bytes);
	free(p->shape);
	free(p->equal);
	free(p->flat);
	free(p->arena);
	free(p->names);
	free(p->name_index.at);
	free(p->samples);
	free(p->labels);
	free(p->exemplars);
	free(p->groups.at);
	free(p->families);
	free(p->points);
	free(p->exemplars_of);
	free(p->joined);
	free(p->bounds);
	free(p->buckets);
	free(p->constants);
	free(p->states);
	free(p->point_exemplars);
	free(p);
}

void bridge_text_forget(struct bridge_text_parser *p)
{
	p->shaped = false;
}

void bridge_text_set_window(struct bridge_text_parser *p, const struct bridge_window *w)
{
	p->window = *w;
}

struct bridge_body_counts bridge_text_counts(const struct bridge_text_parser *p)
{
	return p->counts;
}

bool bridge_text_index_make(struct bridge_text_index *x, size_t count)
{
	for (x->size = 16; x->size < count * 2;)
		x->size *= 2;
	if (!base_grow(&x->at, &x->room, x->size, sizeof(*x->at)))
		return false;
	memset(x->at, 0xff, x->size * sizeof(*x->at));
	return true;
}

/* ---- comparison with the shape ---- */

/*
 * Parses the value at s. Returns the start of the next line, or NULL if the body must be parsed in
 * full.
 */
static const char *shaped_value(const struct bridge_text_parser *p,
				const struct bridge_text_shape *l, const char *s, const char *end)
{
	double *to = l->check == CHECK_SAME ? &p->constants[l->slot] : &p->flat[l->slot], v;

	s = bridge_number(s, end, &v);
	if (!s)
		return NULL;
	if (s < end && *s == ' ' && p->format == BRIDGE_TEXT_004) {
		double time;

		s = bridge_text_time(p, s + 1, end, &time);
		if (!s || !bridge_timely(&p->window, time))
			return NULL;
	}
	if (s == end || *s != '\n')
		return NULL;
	switch ((enum bridge_text_check)l->check) {
	case CHECK_NONE:
		break;
	case CHECK_POSITIVE:
		if (!(v >= 0))
			return NULL;
		break;
	/* at least the value of the previous bucket, which is stored before this one */
	case CHECK_RISING:
		if (!(v >= to[-1]))
			return NULL;
		break;
	case CHECK_STATE:
		if (v != 0 && v != 1)
			return NULL;
		break;
	case CHECK_SAME:
		if (memcmp(to, &v, sizeof(v)))
			return NULL;
		break;
	}
	*to = v;
	return s + 1;
}

/* Returns true if the body has the same shape; .flat then holds its values. */
static bool by_shape(struct bridge_text_parser *p)
{
	const char *shape = p->shape_bytes, *s = p->body;

	if (!bridge_timely(&p->window, p->oldest) || !bridge_timely(&p->window, p->newest))
		return false;
	for (size_t i = 0; i < p->shape_count; i++) {
		const struct bridge_text_shape *l = &p->shape[i];

		if ((size_t)(p->end - s) < l->bytes || memcmp(s, shape, l->bytes))
			return false;
		s += l->bytes;
		shape += l->bytes;
		if (l->slot == NONE)
			continue;
		s = shaped_value(p, l, s, p->end);
		if (!s)
			return false;
	}
	if (s != p->end)
		return false;
	for (size_t i = 0; i < p->equal_count; i++)
		if (p->flat[p->equal[i][0]] != p->flat[p->equal[i][1]])
			return false;
	return true;
}

/* Records a line in the shape; its index is the line number. */
static int record_line(struct bridge_text_parser *p, const char *s, size_t bytes)
{
	if (!BASE_GROW(p->shape, p->shape_count, p->shape_lines_room) ||
	    !base_grow(&p->shape_bytes, &p->shape_room, p->shape_used + bytes, 1))
		return TEXT_NO_MEMORY(p);
	memcpy(p->shape_bytes + p->shape_used, s, bytes);
	p->shape_used += bytes;
	p->shape[p->shape_count++] = (struct bridge_text_shape){.bytes = (uint32_t)bytes,
								.slot = NONE};
	return 0;
}

/* ---- line by line ---- */

static int read_sample(struct bridge_text_parser *p, const char *line, const char *s,
		       const char *end, const char *next)
{
	struct bridge_text_line l;
	int err = bridge_text_line_sample(p, s, end, &l);
	bool constant;
	uint32_t shape = (uint32_t)p->shape_count;

	if (err)
		return err;
	p->timed = p->timed || !isnan(l.time);
	if (p->timed && p->limits.untimed)
		return TEXT_BAD(p, "a sample has a timestamp, which is not supported here");
	/*
	 * If the line has parts that the shape can't represent, these must stay the same, or the
	 * next body is parsed in full.
	 */
	constant = l.exemplar != NONE || (!isnan(l.time) && p->format == BRIDGE_OPENMETRICS);
	if (constant) {
		p->oldest = fmin(p->oldest, l.time);
		p->newest = fmax(p->newest, l.time);
	}
	err = record_line(p, line, (size_t)((constant ? next : l.number) - line));
	return err ?: bridge_text_family_sample(p, &l, constant ? NONE : shape);
}

static int read_meta(struct bridge_text_parser *p, const char *line, const char *s, const char *end,
		     const char *next)
{
	struct bridge_text_meta m;
	int err = bridge_text_line_meta(p, s, end, &m);

	err = err ?: record_line(p, line, (size_t)(next - line));
	return err || !m.known ? err : bridge_text_family_meta(p, &m);
}

static bool is_end(const char *s, size_t n)
{
	return n == 5 && !memcmp(s, "# EOF", 5);
}

/* Parses all lines. */
static int read_lines(struct bridge_text_parser *p)
{
	const bool open_metrics = p->format == BRIDGE_OPENMETRICS;
	bool ended = false;
	int err = 0;

	for (const char *s = p->body, *next; s < p->end && !err; s = next) {
		const char *line = s, *end = memchr(s, '\n', (size_t)(p->end - s));

		next = end ? end + 1 : p->end;
		end = end ?: p->end;
		p->line++;
		/* Each value takes a line, and fewer lines describe families. */
		if (p->line > 2 * p->limits.values)
			return bridge_fail(p->error, -E2BIG, p->line, "more than %zu lines",
					   2 * p->limits.values);
		if (ended)
			return TEXT_BAD(p, "there is text after # EOF");
		if (!open_metrics) {
			while (s < end && (*s == ' ' || *s == '\t'))
				s++;
			while (end > s && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
				end--;
		}
		if (open_metrics && is_end(s, (size_t)(end - s))) {
			ended = true;
			err = record_line(p, line, (size_t)(next - line));
		} else if (s == end) {
			err = open_metrics ? TEXT_BAD(p, "empty line")
					   : record_line(p, line, (size_t)(next - line));
		} else if (*s == '#') {
			err = read_meta(p, line, s, end, next);
		} else {
			err = read_sample(p, line, s, end, next);
		}
	}
	if (!err && open_metrics && !ended)
		return TEXT_BAD(p, "# EOF is missing: the body is truncated");
	return err ?: bridge_text_family_end(p);
}

static int read_once(struct bridge_text_parser *p)
{
	p->line = 0;
	p->arena_used = 0;
	p->shape_used = p->shape_count = p->equal_count = p->flat_count = 0;
	p->constant_count = 0;
	p->no_shape = p->timed = false;
	p->oldest = p->newest = NAN;
	p->sample_count = p->label_count = p->exemplar_count = 0;
	p->family_count = p->point_count = 0;
	p->bound_count = p->state_count = p->exemplar_of_count = 0;
	p->announced = false;
	p->name_count = p->name_index.size = 0;
	p->family = (struct bridge_text_family){.active = false};
	p->described = 0;
	p->counts = (struct bridge_body_counts){0};
	return read_lines(p);
}

/* ---- passing a valid body to the sink ---- */

static int send_family(struct bridge_text_parser *p, struct bridge_sink *sink,
		       const struct bridge_text_family *f)
{
	const char *suffix = p->format == BRIDGE_TEXT_004 ? ""
			     : f->type == BRIDGE_COUNTER  ? "_total"
			     : f->type == BRIDGE_INFO	  ? "_info"
							  : "";
	struct bridge_family out = {f->name, f->help, f->unit, f->type};

	if (*suffix && !bridge_text_join(p, f->name, suffix, &out.name))
		return TEXT_NO_MEMORY(p);
	if (sink->family(sink, &out))
		return 0;
	return bridge_fail(p->error, -ENOSPC, 0, "the region has no room for family '%.*s'",
			   TEXT_SHOWN(f->name.n), f->name.s);
}

static void fill_exemplars(struct bridge_text_parser *p, const struct bridge_text_point *t)
{
	for (uint32_t i = 0; i < t->exemplar_count; i++) {
		const struct bridge_text_exemplar_of *of = &p->exemplars_of[t->exemplars + i];
		const struct bridge_text_exemplar *e = &p->exemplars[of->exemplar];

		p->point_exemplars[i] = (struct bridge_exemplar){.labels = p->labels + e->labels,
								 .label_count = e->label_count,
								 .value = e->value,
								 .time_ns = e->time_ns,
								 .bucket = of->bucket};
	}
}

static int send_point(struct bridge_text_parser *p, struct bridge_sink *sink,
		      const struct bridge_text_point *t)
{
	struct bridge_point out = {.labels = p->labels + t->labels,
				   .label_count = t->label_count,
				   .values = p->flat + t->values,
				   .value_count = t->value_count,
				   .bound_count = t->bound_count,
				   .state_count = t->state_count,
				   .exemplar_count = t->exemplar_count,
				   .created_ns = t->created_ns};

	if (!base_grow(&p->point_exemplars, &p->point_exemplar_room, t->exemplar_count,
		       sizeof(*p->point_exemplars)))
		return TEXT_NO_MEMORY(p);
	fill_exemplars(p, t);
	out.exemplars = p->point_exemplars;
	if (t->bound_count)
		out.bounds = p->bounds + t->bounds;
	if (t->state_count)
		out.states = p->states + t->states;
	if (sink->point(sink, &out))
		return 0;
	return bridge_fail(p->error, -ENOSPC, 0, "the region has no room for a series of '%.*s'",
			   TEXT_SHOWN(p->families[t->family].name.n),
			   p->families[t->family].name.s);
}

static int send_body(struct bridge_text_parser *p, struct bridge_sink *sink)
{
	uint32_t sent = 0; /* number of families */
	int err = 0;

	for (size_t i = 0; i < p->point_count && !err; i++) {
		const struct bridge_text_point *t = &p->points[i];

		/* A family has at least one point, and its points are consecutive. */
		if (t->family == sent)
			err = send_family(p, sink, &p->families[sent++]);
		err = err ?: send_point(p, sink, t);
	}
	return err;
}

int bridge_text_read(struct bridge_text_parser *p, enum bridge_text_format format, const char *body,
		     size_t bytes, struct bridge_sink *sink, struct bridge_error *error)
{
	struct bridge_error unread;
	int err;

	p->format = format;
	p->body = body;
	p->end = body + bytes;
	p->error = error ?: &unread;
	if (bytes > BRIDGE_BODY_MAX)
		return bridge_fail(error, -E2BIG, 0, "the body is longer than %u bytes",
				   BRIDGE_BODY_MAX);
	if (p->shaped && p->shape_format == format && sink->values && by_shape(p)) {
		p->counts.same_shape = true;
		sink->values(sink, p->flat, p->flat_count);
		return 0;
	}
	p->shaped = false;
	/* Unescaped text is never longer than its source. */
	if (!base_grow(&p->arena, &p->arena_room, bytes + 1, 1))
		return bridge_fail(error, -ENOMEM, 0, "out of memory");
	err = read_once(p);
	err = err ?: send_body(p, sink);
	p->shaped = !err && !p->no_shape;
	p->shape_format = format;
	return err;
}
