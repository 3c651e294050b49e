// SPDX-License-Identifier: Apache-2.0
/* statsd.c - parses StatsD lines and updates the series that they name. */
#include "bridge/statsd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/text.h"
#include "sketch/cells.h"

#define NONE	      UINT32_MAX
#define REPEATS_MAX   1000u /* maximum count for a sampled observation */
#define SET_REGISTERS 1024u /* number of registers of a set; about 3 % standard error */
#define SCALE	      2	    /* scale of histograms: factor 1.19, 162 cells */

/* ---- lines ---- */

static bool take_type(struct bridge_text t, enum bridge_statsd_type *out)
{
	if (bridge_text_is(t, "c", 1))
		*out = STATSD_COUNTER;
	else if (bridge_text_is(t, "g", 1))
		*out = STATSD_GAUGE;
	else if (bridge_text_is(t, "ms", 2))
		*out = STATSD_TIMER;
	else if (bridge_text_is(t, "h", 1) || bridge_text_is(t, "d", 1))
		*out = STATSD_HISTOGRAM;
	else if (bridge_text_is(t, "s", 1))
		*out = STATSD_SET;
	else
		return false;
	return true;
}

/*
 * Parses a field after the type: @RATE, #TAGS; in DogStatsD also c:CONTAINER, TTIMESTAMP, e:ENTITY.
 */
static bool take_field(struct bridge_text f, struct bridge_statsd_line *out)
{
	if (!f.n)
		return false;
	switch (*f.s) {
	case '@':
		return bridge_number(f.s + 1, f.s + f.n, &out->rate) == f.s + f.n &&
		       out->rate > 0 && out->rate <= 1;
	case '#':
		out->tags = (struct bridge_text){f.s + 1, f.n - 1};
		return true;
	case 'T':
		return true;
	default:
		return f.n > 1 && f.s[1] == ':' && (*f.s == 'c' || *f.s == 'e');
	}
}

/* Returns the next field, up to '|'. */
static struct bridge_text next_field(const char **at, const char *end)
{
	const char *s = *at, *stop = memchr(s, '|', (size_t)(end - s));

	stop = stop ?: end;
	*at = stop < end ? stop + 1 : NULL;
	return (struct bridge_text){s, (size_t)(stop - s)};
}

bool bridge_statsd_parse(const char *s, size_t n, struct bridge_statsd_line *out)
{
	const char *end = s + n, *at = memchr(s, ':', n);
	struct bridge_text type;

	*out = (struct bridge_statsd_line){.rate = 1};
	/* DogStatsD events and service checks are not metrics. */
	if (!at || at == s || (n > 3 && (!memcmp(s, "_e{", 3) || !memcmp(s, "_sc|", 4))))
		return false;
	out->name = (struct bridge_text){s, (size_t)(at - s)};
	at++;
	out->values = next_field(&at, end);
	if (!at || !out->values.n)
		return false;
	type = next_field(&at, end);
	if (!take_type(type, &out->type))
		return false;
	while (at)
		if (!take_field(next_field(&at, end), out))
			return false;
	return true;
}

/* ---- series ---- */

struct series {
	uint64_t hash;
	char *key; /* type, name, NUL, tags; NULL means that this element is free */
	uint32_t key_bytes;
	uint32_t family; /* the series' family; in a free element, index of the next free one */
	uint64_t set_ns;
	uint8_t *set; /* registers of a HyperLogLog */
	bool valid;   /* if false, lines of this series are refused */
	union {
		struct sl_counter_f64 counter;
		struct sl_gauge_f64 gauge;
		struct sl_histogram histogram;
	};
};

struct family {
	char *name;
	enum bridge_statsd_type type;
	union {
		struct sl_counter_f64_family counter;
		struct sl_gauge_f64_family gauge;
		struct sl_histogram_family histogram;
	};
};

struct bridge_statsd {
	struct sl_publisher *p;
	struct bridge_statsd_counts counts;
	struct series *series;
	size_t series_used, series_room, series_max, live;
	uint32_t series_free;
	uint32_t *index;
	size_t index_size;
	struct family *families;
	size_t family_count, family_room;
	uint64_t set_until_ns, seed;
	char *key;
	size_t key_room;
	char text[4096]; /* buffer for names and tags converted to labels */
};

struct bridge_statsd *bridge_statsd_new(struct sl_publisher *p, size_t series)
{
	struct bridge_statsd *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->p = p;
	s->series_max = series ?: STATSD_SERIES_MAX;
	s->series_free = NONE;
	s->seed = base_hash(0, "set", 3);
	/* The table is never more than half full. */
	for (s->index_size = 64; s->index_size < s->series_max * 2;)
		s->index_size *= 2;
	s->index = malloc(s->index_size * sizeof(*s->index));
	if (!s->index) {
		free(s);
		return NULL;
	}
	memset(s->index, 0xff, s->index_size * sizeof(*s->index));
	return s;
}

void bridge_statsd_free(struct bridge_statsd *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->series_used; i++) {
		free(s->series[i].key);
		free(s->series[i].set);
	}
	for (size_t i = 0; i < s->family_count; i++)
		free(s->families[i].name);
	free(s->series);
	free(s->families);
	free(s->index);
	free(s->key);
	free(s);
}

/*
 * Replaces characters outside [a-zA-Z_][a-zA-Z0-9_]*, the form of metric and label names, by "_".
 * Returns NULL if there is no room.
 */
static char *plain_name(struct bridge_statsd *s, char *to, struct bridge_text t)
{
	char *end = s->text + sizeof(s->text);

	if (!t.n || (size_t)(end - to) < t.n + 2)
		return NULL;
	if (*t.s >= '0' && *t.s <= '9')
		*to++ = '_';
	for (size_t i = 0; i < t.n; i++) {
		char c = t.s[i];
		bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '_';

		*to++ = good ? c : '_';
	}
	*to++ = 0;
	return to;
}

/*
 * Parses "key:value,key"; if a key is repeated, keeps the last. Returns false if there are too many
 * tags or they are too long.
 */
static bool tags_of(struct bridge_statsd *s, char *to, struct bridge_text tags,
		    struct sl_label *out, size_t *count)
{
	const char *at = tags.n ? tags.s : "", *end = at + tags.n;

	*count = 0;
	while (at < end) {
		const char *stop = memchr(at, ',', (size_t)(end - at)), *colon;
		struct bridge_text key;
		char *k = to;
		size_t i = 0, value;

		stop = stop ?: end;
		colon = memchr(at, ':', (size_t)(stop - at));
		key = (struct bridge_text){at, (size_t)((colon ?: stop) - at)};
		value = colon ? (size_t)(stop - colon - 1) : 0;
		if (key.n) {
			to = plain_name(s, to, key);
			if (!to || (size_t)(s->text + sizeof(s->text) - to) < value + 1)
				return false;
			while (i < *count && strcmp(out[i].key, k))
				i++;
			if (i == STATSD_TAGS_MAX)
				return false;
			out[i] = (struct sl_label){k, to};
			*count += i == *count;
			to = value ? mempcpy(to, colon + 1, value) : to;
			*to++ = 0;
			if (!base_utf8(out[i].value, value))
				return false;
		}
		at = stop + 1;
	}
	return true;
}

/*
 * Returns the family with this name and type, or NULL if it has another type or if out of memory.
 */
static struct family *family_of(struct bridge_statsd *s, const char *name,
				enum bridge_statsd_type type)
{
	const struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = name, .help = "",
						.unit = type == STATSD_TIMER ? "seconds" : NULL,
						.scale = SCALE, .use_scale = true);
	struct family f = {.type = type};

	/*
	 * A linear search is fast enough, because families are looked up only when a series is
	 * created.
	 */
	for (size_t i = 0; i < s->family_count; i++)
		if (!strcmp(s->families[i].name, name))
			return s->families[i].type == type ? &s->families[i] : NULL;
	if (!BASE_GROW(s->families, s->family_count, s->family_room))
		return NULL;
	f.name = strdup(name);
	if (!f.name)
		return NULL;
	switch (type) {
	case STATSD_COUNTER:
		f.counter = sl_counter_f64_family_create(s->p, &o);
		break;
	case STATSD_GAUGE:
	case STATSD_SET:
		f.gauge = sl_gauge_f64_family_create(s->p, &o);
		break;
	case STATSD_TIMER:
	case STATSD_HISTOGRAM:
		f.histogram = sl_histogram_family_create(s->p, &o);
		break;
	}
	s->families[s->family_count] = f;
	return &s->families[s->family_count++];
}

/* A refused series stays in the table, so that subsequent lines are refused quickly. */
static void create_series(struct bridge_statsd *s, struct series *e,
			  const struct bridge_statsd_line *l)
{
	struct sl_label labels[STATSD_TAGS_MAX];
	char *to = plain_name(s, s->text, l->name);
	struct family *f;
	size_t n;

	if (!to || !tags_of(s, to, l->tags, labels, &n))
		return;
	f = family_of(s, s->text, l->type);
	if (!f)
		return;
	e->family = (uint32_t)(f - s->families);
	switch (l->type) {
	case STATSD_COUNTER:
		e->counter = sl_counter_f64_with(f->counter, labels, n);
		e->valid = sl_counter_f64_valid(e->counter);
		break;
	case STATSD_SET:
		e->set = calloc(1, SET_REGISTERS);
		e->gauge = sl_gauge_f64_with(f->gauge, labels, n);
		e->valid = e->set && sl_gauge_f64_valid(e->gauge);
		break;
	case STATSD_GAUGE:
		e->gauge = sl_gauge_f64_with(f->gauge, labels, n);
		e->valid = sl_gauge_f64_valid(e->gauge);
		break;
	case STATSD_TIMER:
	case STATSD_HISTOGRAM:
		e->histogram = sl_histogram_with(f->histogram, labels, n);
		e->valid = sl_histogram_valid(e->histogram);
		break;
	}
}

static bool make_key(struct bridge_statsd *s, const struct bridge_statsd_line *l, size_t *bytes)
{
	char *to;

	*bytes = l->name.n + l->tags.n + 2;
	if (!base_grow(&s->key, &s->key_room, *bytes, 1))
		return false;
	to = s->key;
	*to++ = (char)('A' + l->type);
	to = mempcpy(to, l->name.s, l->name.n);
	*to++ = 0;
	if (l->tags.n)
		memcpy(to, l->tags.s, l->tags.n);
	return true;
}

/* Returns NULL if there is no room. */
static struct series *find_series(struct bridge_statsd *s, const struct bridge_statsd_line *l)
{
	size_t bytes, mask = s->index_size - 1, at;
	struct series e = {0};
	uint32_t i;

	if (!make_key(s, l, &bytes))
		return NULL;
	e.hash = base_hash(0, s->key, bytes);
	for (at = e.hash & mask; s->index[at] != NONE; at = (at + 1) & mask) {
		struct series *o = &s->series[s->index[at]];

		if (o->hash == e.hash && o->key_bytes == bytes && !memcmp(o->key, s->key, bytes))
			return o;
	}
	if (s->live >= s->series_max)
		return NULL;
	i = s->series_free != NONE ? s->series_free : (uint32_t)s->series_used;
	if (i == s->series_used && !BASE_GROW(s->series, s->series_used, s->series_room))
		return NULL;
	e.key = malloc(bytes);
	if (!e.key)
		return NULL;
	memcpy(e.key, s->key, bytes);
	e.key_bytes = (uint32_t)bytes;
	create_series(s, &e, l);
	if (i == s->series_used)
		s->series_used++;
	else
		s->series_free = s->series[i].family;
	s->series[i] = e;
	s->index[at] = i;
	s->live++;
	return &s->series[i];
}

/* ---- values ---- */

static void add_observation(const struct series *e, double v, double rate)
{
	unsigned int times = (unsigned int)fmin(round(1 / rate), REPEATS_MAX);

	for (unsigned int i = 0; i < times; i++)
		sl_histogram_observe(e->histogram, v);
}

static void add_to_set(struct bridge_statsd *s, struct series *e, struct bridge_text v)
{
	struct sketch_cells c;

	if (!sketch_cells_init(&c, SKETCH_HLL, SET_REGISTERS, 1, s->seed, e->set))
		sketch_cells_add(&c, base_hash(s->seed, v.s, v.n), 1);
}

/* Applies one value. Returns false if it is malformed. */
static bool apply_value(struct bridge_statsd *s, struct series *e,
			const struct bridge_statsd_line *l, struct bridge_text t)
{
	double v;

	if (l->type == STATSD_SET) {
		add_to_set(s, e, t);
		return t.n > 0;
	}
	if (bridge_number(t.s, t.s + t.n, &v) != t.s + t.n || !t.n || !isfinite(v))
		return false;
	switch (l->type) {
	case STATSD_COUNTER:
		if (v < 0)
			return false;
		sl_counter_f64_add(e->counter, v / l->rate);
		break;
	case STATSD_GAUGE:
		if (*t.s == '+' || *t.s == '-')
			sl_gauge_f64_add(e->gauge, v);
		else
			sl_gauge_f64_set(e->gauge, v);
		break;
	case STATSD_TIMER:
		if (v < 0)
			return false;
		add_observation(e, v / 1000, l->rate);
		break;
	default:
		if (v < 0)
			return false;
		add_observation(e, v, l->rate);
		break;
	}
	return true;
}

static void take_line(struct bridge_statsd *s, const char *line, size_t n, uint64_t now_ns)
{
	struct bridge_statsd_line l;
	struct series *e;
	const char *at, *end;

	if (!bridge_statsd_parse(line, n, &l)) {
		s->counts.malformed++;
		return;
	}
	e = find_series(s, &l);
	if (!e || !e->valid) {
		if (e)
			e->set_ns = now_ns;
		s->counts.refused++;
		return;
	}
	e->set_ns = now_ns;
	s->counts.lines++;
	end = l.values.s + l.values.n;
	for (at = l.values.s; at <= end; at++) {
		/* Values of a set may contain colons. */
		const char *stop = l.type == STATSD_SET ? end : memchr(at, ':', (size_t)(end - at));

		stop = stop ?: end;
		if (!apply_value(s, e, &l, (struct bridge_text){at, (size_t)(stop - at)}))
			s->counts.malformed++;
		at = stop;
	}
}

void bridge_statsd_packet(struct bridge_statsd *s, const char *bytes, size_t n, uint64_t now_ns)
{
	const char *end = bytes + n;

	for (const char *at = bytes, *next; at < end; at = next) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		next = stop ? stop + 1 : end;
		stop = stop ?: end;
		if (stop > at && stop[-1] == '\r')
			stop--;
		if (stop > at)
			take_line(s, at, (size_t)(stop - at), now_ns);
	}
}

/* ---- expiry ---- */

/* Rebuilds the labels of a series from its key, because removals are rare. */
static void end_series(struct bridge_statsd *s, uint32_t i)
{
	struct series *e = &s->series[i];
	const char *name = e->key + 1, *tags = name + strlen(name) + 1;
	const struct bridge_text t = {tags, (size_t)(e->key + e->key_bytes - tags)};
	const struct family *f;
	struct sl_label labels[STATSD_TAGS_MAX];
	size_t mask = s->index_size - 1, hole = e->hash & mask, n = 0;

	if (e->valid && tags_of(s, s->text, t, labels, &n)) {
		f = &s->families[e->family];
		if (f->type == STATSD_COUNTER)
			sl_counter_f64_remove(f->counter, labels, n);
		else if (f->type == STATSD_GAUGE || f->type == STATSD_SET)
			sl_gauge_f64_remove(f->gauge, labels, n);
		else
			sl_histogram_remove(f->histogram, labels, n);
		s->counts.expired++;
	}
	while (s->index[hole] != i)
		hole = (hole + 1) & mask;
	/* Move up entries that were displaced by the removed entry (Knuth, TAOCP 3, 6.4 R). */
	for (size_t at = (hole + 1) & mask; s->index[at] != NONE; at = (at + 1) & mask) {
		size_t home = s->series[s->index[at]].hash & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		s->index[hole] = s->index[at];
		hole = at;
	}
	s->index[hole] = NONE;
	free(e->key);
	free(e->set);
	*e = (struct series){.family = s->series_free};
	s->series_free = i;
	s->live--;
}

void bridge_statsd_tick(struct bridge_statsd *s, uint64_t now_ns, uint64_t expire_ns)
{
	const bool sets = now_ns >= s->set_until_ns;

	if (sets)
		s->set_until_ns = now_ns + STATSD_SET_NS;
	for (uint32_t i = 0; i < s->series_used; i++) {
		struct series *e = &s->series[i];
		struct sketch_cells c;

		if (!e->key)
			continue;
		if (sets && e->set &&
		    !sketch_cells_init(&c, SKETCH_HLL, SET_REGISTERS, 1, s->seed, e->set)) {
			double error;

			sl_gauge_f64_set(e->gauge, round(sketch_cells_estimate(&c, 0, &error)));
			memset(e->set, 0, SET_REGISTERS);
		}
		if (expire_ns && now_ns - e->set_ns >= expire_ns)
			end_series(s, i);
	}
}

struct bridge_statsd_counts bridge_statsd_counts(const struct bridge_statsd *s)
{
	return s->counts;
}

size_t bridge_statsd_series(const struct bridge_statsd *s)
{
	return s->live;
}
