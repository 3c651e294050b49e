// SPDX-License-Identifier: Apache-2.0
/* text_family.c - determines the family and role of each line. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "bridge/text_internal.h"

struct suffix {
	enum bridge_type type;
	const char *text;
	enum bridge_text_role role;
};

/* The samples of each type, in OpenMetrics. */
static const struct suffix open_metrics[] = {
	{BRIDGE_UNKNOWN, "", ROLE_VALUE},
	{BRIDGE_GAUGE, "", ROLE_VALUE},
	{BRIDGE_COUNTER, "_total", ROLE_TOTAL},
	{BRIDGE_COUNTER, "_created", ROLE_CREATED},
	{BRIDGE_SUMMARY, "", ROLE_QUANTILE},
	{BRIDGE_SUMMARY, "_sum", ROLE_SUM},
	{BRIDGE_SUMMARY, "_count", ROLE_COUNT},
	{BRIDGE_SUMMARY, "_created", ROLE_CREATED},
	{BRIDGE_HISTOGRAM, "_bucket", ROLE_BUCKET},
	{BRIDGE_HISTOGRAM, "_sum", ROLE_SUM},
	{BRIDGE_HISTOGRAM, "_count", ROLE_COUNT},
	{BRIDGE_HISTOGRAM, "_created", ROLE_CREATED},
	{BRIDGE_GAUGE_HISTOGRAM, "_bucket", ROLE_BUCKET},
	{BRIDGE_GAUGE_HISTOGRAM, "_gsum", ROLE_SUM},
	{BRIDGE_GAUGE_HISTOGRAM, "_gcount", ROLE_COUNT},
	{BRIDGE_INFO, "_info", ROLE_INFO},
	{BRIDGE_STATESET, "", ROLE_STATE},
	{0},
};
static const struct suffix text_004[] = {
	{BRIDGE_UNKNOWN, "", ROLE_VALUE},	    {BRIDGE_GAUGE, "", ROLE_VALUE},
	{BRIDGE_COUNTER, "", ROLE_TOTAL},	    {BRIDGE_SUMMARY, "", ROLE_QUANTILE},
	{BRIDGE_SUMMARY, "_sum", ROLE_SUM},	    {BRIDGE_SUMMARY, "_count", ROLE_COUNT},
	{BRIDGE_HISTOGRAM, "_bucket", ROLE_BUCKET}, {BRIDGE_HISTOGRAM, "_sum", ROLE_SUM},
	{BRIDGE_HISTOGRAM, "_count", ROLE_COUNT},   {0},
};

static const struct suffix *suffixes_of(const struct bridge_text_parser *p)
{
	return p->format == BRIDGE_OPENMETRICS ? open_metrics : text_004;
}

/* ---- names in use ---- */

static struct bridge_text_name *name_find(const struct bridge_text_parser *p,
					  struct bridge_text name)
{
	const struct bridge_text_index *x = &p->name_index;
	const uint64_t hash = base_hash(0, name.s, name.n);

	if (!x->size)
		return NULL;
	for (size_t at = hash & (x->size - 1); x->at[at] != NONE; at = TEXT_INDEX_NEXT(x, at))
		if (p->names[x->at[at]].hash == hash &&
		    bridge_text_equal(p->names[x->at[at]].name, name))
			return &p->names[x->at[at]];
	return NULL;
}

static int name_add(struct bridge_text_parser *p, struct bridge_text name, enum bridge_type type)
{
	struct bridge_text_index *x = &p->name_index;
	size_t i = p->name_count;

	if (!BASE_GROW(p->names, p->name_count, p->name_room))
		return TEXT_NO_MEMORY(p);
	p->names[p->name_count++] = (struct bridge_text_name){base_hash(0, name.s, name.n), name,
							      type};
	if (p->name_count * 2 > x->size) {
		if (!bridge_text_index_make(x, p->name_count * 2))
			return TEXT_NO_MEMORY(p);
		i = 0;
	}
	for (; i < p->name_count; i++) {
		size_t at = p->names[i].hash & (x->size - 1);

		while (x->at[at] != NONE)
			at = TEXT_INDEX_NEXT(x, at);
		x->at[at] = (uint32_t)i;
	}
	return 0;
}

bool bridge_text_join(struct bridge_text_parser *p, struct bridge_text name, const char *suffix,
		      struct bridge_text *out)
{
	const size_t n = strlen(suffix);

	if (!base_grow(&p->joined, &p->joined_room, name.n + n, 1))
		return false;
	memcpy(mempcpy(p->joined, name.s, name.n), suffix, n);
	*out = (struct bridge_text){p->joined, name.n + n};
	return true;
}

/* Splits off a suffix. Returns false if the name does not end in this suffix. */
static bool ends_with(struct bridge_text t, const char *suffix, struct bridge_text *base)
{
	size_t n = strlen(suffix);

	if (t.n <= n || memcmp(t.s + t.n - n, suffix, n))
		return false;
	*base = (struct bridge_text){t.s, t.n - n};
	return true;
}

/*
 * Returns the family, among those so far in the body, that has this name or a sample of this name.
 * Returns NULL if there is none.
 */
static const struct bridge_text_name *owner_of(const struct bridge_text_parser *p,
					       struct bridge_text name)
{
	const struct bridge_text_name *n = name_find(p, name);
	struct bridge_text base;

	for (const struct suffix *s = suffixes_of(p); s->text && !n; s++) {
		if (*s->text && ends_with(name, s->text, &base))
			n = name_find(p, base);
		if (n && n->type != s->type)
			n = NULL;
	}
	return n;
}

/* OpenMetrics: a family must not have the same name as another family's sample. */
static int take_name(struct bridge_text_parser *p)
{
	const struct bridge_text_family *f = &p->family;
	bool taken = owner_of(p, f->name);
	struct bridge_text sample;

	for (const struct suffix *s = open_metrics; s->text && !taken; s++) {
		if (s->type != f->type || !*s->text)
			continue;
		if (!bridge_text_join(p, f->name, s->text, &sample))
			return TEXT_NO_MEMORY(p);
		taken = name_find(p, sample);
	}
	return taken ? TEXT_BAD(p, "another family already uses the name of family '%.*s'",
				TEXT_SHOWN(f->name.n), f->name.s)
		     : name_add(p, f->name, f->type);
}

/* ---- families ---- */

static int check_unit(struct bridge_text_parser *p)
{
	const struct bridge_text_family *f = &p->family;

	if (!f->unit.n)
		return 0;
	if (f->type == BRIDGE_INFO || f->type == BRIDGE_STATESET)
		return TEXT_BAD(p, "%s '%.*s' must not have a unit", bridge_type_names[f->type],
				TEXT_SHOWN(f->name.n), f->name.s);
	if (f->name.n > f->unit.n + 1 && f->name.s[f->name.n - f->unit.n - 1] == '_' &&
	    !memcmp(f->name.s + f->name.n - f->unit.n, f->unit.s, f->unit.n))
		return 0;
	return TEXT_BAD(p, "the name '%.*s' does not end with its unit", TEXT_SHOWN(f->name.n),
			f->name.s);
}

int bridge_text_family_end(struct bridge_text_parser *p)
{
	struct bridge_text_family *f = &p->family;
	int err = 0;

	if (!f->active)
		return 0;
	if (p->format == BRIDGE_OPENMETRICS) {
		err = check_unit(p);
		err = err ?: take_name(p);
	} else if (f->typed) {
		struct bridge_text_name *n = name_find(p, f->name);

		if (n)
			n->type = f->type;
		else
			err = name_add(p, f->name, f->type);
	}
	if (!err && p->sample_count)
		err = bridge_text_points(p);
	f->active = false;
	p->sample_count = 0;
	p->announced = false;
	return err;
}

static int begin_family(struct bridge_text_parser *p, struct bridge_text name,
			enum bridge_type type)
{
	int err = bridge_text_family_end(p);

	p->family = (struct bridge_text_family){.name = name, .type = type, .active = true};
	return err;
}

static int type_of(struct bridge_text_parser *p, struct bridge_text word, enum bridge_type *type)
{
	const bool open = p->format == BRIDGE_OPENMETRICS;

	for (int i = 0; i < BRIDGE_TYPES; i++)
		if (bridge_text_is(word, bridge_type_names[i]) &&
		    (open || (i && i <= BRIDGE_HISTOGRAM))) {
			*type = (enum bridge_type)i;
			return 0;
		}
	if (!open && (bridge_text_is(word, "untyped") || bridge_text_is(word, "unknown"))) {
		*type = BRIDGE_UNKNOWN;
		return 0;
	}
	return TEXT_BAD(p, "unknown type '%.*s'", TEXT_SHOWN(word.n), word.s);
}

/*
 * In text 0.0.4, Prometheus accepts each sample independently of the others, and uses the last TYPE
 * line of a family. node_exporter is stricter with text files.
 */
static bool is_lenient(const struct bridge_text_parser *p)
{
	return p->format == BRIDGE_TEXT_004 && !p->limits.untimed;
}

/* Samples before a TYPE line keep the type that they had. */
static int set_type(struct bridge_text_parser *p, enum bridge_type type)
{
	const struct bridge_text_family before = p->family;
	int err;

	if (p->sample_count && type != before.type) {
		if (!is_lenient(p))
			return TEXT_BAD(p, "the TYPE line of '%.*s' comes after its samples",
					TEXT_SHOWN(before.name.n), before.name.s);
		err = begin_family(p, before.name, type);
		if (err)
			return err;
		p->family.help = before.help;
		p->family.typed = true;
	}
	p->family.type = type;
	return 0;
}

int bridge_text_family_meta(struct bridge_text_parser *p, const struct bridge_text_meta *m)
{
	const bool open = p->format == BRIDGE_OPENMETRICS;
	struct bridge_text_family *f = &p->family;
	enum bridge_type type = BRIDGE_UNKNOWN;
	bool *once;
	int err;

	if (!f->active || !bridge_text_equal(f->name, m->name)) {
		err = begin_family(p, m->name, BRIDGE_UNKNOWN);
		if (err)
			return err;
		if (p->described++ >= p->limits.points)
			return bridge_fail(p->error, -E2BIG, p->line, "more than %zu families",
					   p->limits.points);
	}
	once = m->what == 'T' ? &f->typed : m->what == 'H' ? &f->helped : &f->united;
	if (open && (*once || p->sample_count))
		return TEXT_BAD(p, "duplicate metadata, or metadata after samples");
	*once = true;
	if (m->what == 'H')
		f->help = m->rest;
	else if (m->what == 'U')
		f->unit = m->rest;
	if (m->what != 'T')
		return 0;
	err = type_of(p, m->rest, &type);
	return err ?: set_type(p, type);
}

/* ---- samples ---- */

/* Returns the role of a sample with this name in the current family. */
static const struct suffix *role_of(const struct bridge_text_parser *p, struct bridge_text name)
{
	const struct bridge_text_family *f = &p->family;

	if (!f->active || name.n < f->name.n || memcmp(name.s, f->name.s, f->name.n))
		return NULL;
	for (const struct suffix *s = suffixes_of(p); s->text; s++)
		if (s->type == f->type &&
		    bridge_text_is((struct bridge_text){name.s + f->name.n, name.n - f->name.n},
				   s->text))
			return s;
	return NULL;
}

/* Removes the label with this key from the sample's labels. Returns false if there is none. */
static bool take_label(struct bridge_text_parser *p, struct bridge_text_sample *s,
		       struct bridge_text key, struct bridge_text *value)
{
	struct bridge_label *l = p->labels + s->labels;

	for (uint32_t i = 0; i < s->label_count; i++) {
		if (!bridge_text_equal(l[i].key, key))
			continue;
		*value = l[i].value;
		memmove(l + i, l + i + 1, (s->label_count - i - 1) * sizeof(*l));
		s->label_count--;
		return true;
	}
	return false;
}

/* Removes the label le or quantile and parses its number. */
static int take_bound(struct bridge_text_parser *p, struct bridge_text_sample *s, const char *key)
{
	struct bridge_text t;

	if (!take_label(p, s, (struct bridge_text){key, strlen(key)}, &t))
		return TEXT_BAD(p, "no label '%s'", key);
	if (bridge_number(t.s, t.s + t.n, &s->bound) != t.s + t.n || isnan(s->bound) ||
	    (s->role == ROLE_QUANTILE && !(s->bound >= 0 && s->bound <= 1)) ||
	    (s->bound == INFINITY && p->format == BRIDGE_OPENMETRICS && !bridge_text_is(t, "+Inf")))
		return TEXT_BAD(p, "malformed label '%s'", key);
	return 0;
}

/* Applies the OpenMetrics rules for a single sample. */
static int check_sample(struct bridge_text_parser *p, const struct bridge_text_sample *s)
{
	const enum bridge_type type = p->family.type;
	const bool counts = s->role == ROLE_TOTAL || s->role == ROLE_BUCKET ||
			    s->role == ROLE_COUNT ||
			    (s->role == ROLE_SUM && type != BRIDGE_GAUGE_HISTOGRAM);

	if (isnan(s->value) && (counts || s->role == ROLE_SUM))
		return TEXT_BAD(p, "a count is NaN");
	if (s->value < 0 && (counts || s->role == ROLE_QUANTILE))
		return TEXT_BAD(p, "a negative count");
	if (s->role == ROLE_INFO && s->value != 1)
		return TEXT_BAD(p, "the value of an info metric must be 1");
	if (s->role == ROLE_STATE && s->value != 0 && s->value != 1)
		return TEXT_BAD(p, "the value of a state must be 0 or 1");
	if (s->exemplar != NONE && s->role != ROLE_TOTAL && s->role != ROLE_BUCKET)
		return TEXT_BAD(p, "this sample cannot have an exemplar");
	return 0;
}

static int fill_sample(struct bridge_text_parser *p, struct bridge_text_sample *s)
{
	int err = 0;

	if (s->role == ROLE_BUCKET)
		err = take_bound(p, s, "le");
	else if (s->role == ROLE_QUANTILE)
		err = take_bound(p, s, "quantile");
	else if (s->role == ROLE_STATE && !take_label(p, s, p->family.name, &s->state))
		err = TEXT_BAD(p, "a state has no label with the name of its family");
	if (!err && p->format == BRIDGE_OPENMETRICS)
		err = check_sample(p, s);
	return err;
}

int bridge_text_family_sample(struct bridge_text_parser *p, const struct bridge_text_line *l,
			      uint32_t shape)
{
	const struct suffix *role = role_of(p, l->name);
	struct bridge_text_sample s = {.labels = l->labels,
				       .label_count = l->label_count,
				       .value = l->value,
				       .time = l->time,
				       .exemplar = l->exemplar,
				       .line = p->line,
				       .shape = shape};
	int err = 0;

	if (!role) {
		/* Text 0.0.4 lets a family continue after samples of other families. */
		const struct bridge_text_name *known = p->format == BRIDGE_TEXT_004
							       ? owner_of(p, l->name)
							       : NULL;

		err = begin_family(p, known ? known->name : l->name,
				   known ? known->type : BRIDGE_UNKNOWN);
		if (err)
			return err;
		role = role_of(p, l->name);
		if (!role)
			return TEXT_BAD(p, "sample '%.*s' does not belong to any family",
					TEXT_SHOWN(l->name.n), l->name.s);
	}
	s.role = role->role;
	if (s.role == ROLE_CREATED && s.value > 0)
		s.created_ns = bridge_seconds_ns(l->number, p->end);
	err = fill_sample(p, &s);
	if (err == -EINVAL && is_lenient(p)) {
		p->counts.refused++;
		p->no_shape = true;
		return 0;
	}
	if (err)
		return err;
	s.hash = bridge_labels_hash(p->labels + s.labels, s.label_count);
	if (p->sample_count >= p->limits.values || p->sample_count >= NONE)
		return bridge_fail(p->error, -E2BIG, p->line, "more than %zu samples",
				   p->limits.values);
	if (!BASE_GROW(p->samples, p->sample_count, p->sample_room))
		return TEXT_NO_MEMORY(p);
	p->samples[p->sample_count++] = s;
	return 0;
}
