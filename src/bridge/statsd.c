// SPDX-License-Identifier: Apache-2.0
/* statsd.c - parses StatsD lines and updates the series that they name. */
#include "bridge/statsd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"
#include "base/text.h"
#include "sketch/cells.h"

#define REPEATS_MAX   1000u /* maximum count for a sampled observation */
#define SET_REGISTERS 1024u /* number of registers of a set; about 3 % standard error */
#define SCALE	      2	    /* scale of histograms: factor 1.19 */
#define BUCKETS	      162u  /* number of buckets at this scale */
#define ONE_BY_ONE    128u  /* number of observations above which counting buckets is faster */
#define TEXT_BYTES    4096u /* room for the name and labels of a series */
#define KEYS_BYTES    (32u << 20)
#define RETRY_NS      10000000000ull /* time after which a refused series is tried again */

/* ---- lines ---- */

static bool take_type(struct bridge_text t, enum bridge_statsd_type *out)
{
	if (bridge_text_is(t, "c"))
		*out = STATSD_COUNTER;
	else if (bridge_text_is(t, "g"))
		*out = STATSD_GAUGE;
	else if (bridge_text_is(t, "ms"))
		*out = STATSD_TIMER;
	else if (bridge_text_is(t, "h") || bridge_text_is(t, "d"))
		*out = STATSD_HISTOGRAM;
	else if (bridge_text_is(t, "s"))
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
		return bridge_number(f.s + 1, f.s + f.n, &out->time) == f.s + f.n;
	default:
		if (f.n < 2 || f.s[1] != ':')
			return false;
		if (*f.s == 'c')
			out->container = (struct bridge_text){f.s + 2, f.n - 2};
		return *f.s == 'c' || *f.s == 'e';
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

	*out = (struct bridge_statsd_line){.rate = 1, .time = NAN};
	/* DogStatsD events and service checks are not metrics. NULs separate the parts of keys. */
	if (!at || at == s || (n > 3 && (!memcmp(s, "_e{", 3) || !memcmp(s, "_sc|", 4))) ||
	    memchr(s, 0, n))
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
	struct base_node node;
	const struct family *family;
	uint32_t key_bytes;
	uint64_t set_ns;
	uint8_t *set;	 /* registers of the HyperLogLog for a set */
	bool valid;	 /* if false, lines of this series are refused */
	bool filtered;	 /* a mapping rule drops the lines of this series */
	uint64_t target; /* hash of the published name and labels, which several series may share */
	uint64_t expire_ns; /* expiry of the mapping rule; 0 means the default */
	union {
		struct sl_counter_f64 counter;
		struct sl_gauge_f64 gauge;
		struct sl_histogram histogram;
	};
	char key[]; /* type, name, NUL, container, NUL, tags */
};

/* Families are never freed, because the library keeps theirs, too. */
struct family {
	struct base_node node; /* hash of the name */
	const double *bounds;  /* bounds of the mapping rule; NULL means exponential buckets */
	size_t bound_count;
	enum bridge_statsd_type type;
	union {
		struct sl_counter_f64_family counter;
		struct sl_gauge_f64_family gauge;
		struct sl_histogram_family histogram;
	};
	char name[];
};

struct value {
	double v;
	bool relative; /* has a sign, so it is added to a gauge instead of setting it */
};

struct bridge_statsd {
	struct sl_publisher *p;
	struct bridge_statsd_opts opts;
	struct bridge_statsd_counts counts;
	struct base_table series, families;
	size_t series_max, keys_bytes; /* keys_bytes: size of all keys */
	uint64_t set_until_ns, seed;
	char *key;
	size_t key_room;
	struct value *values; /* values of the current line */
	size_t value_count, value_room;
	uint64_t before[SL_BUCKETS_MAX], buckets[SL_BUCKETS_MAX];
	char text[TEXT_BYTES]; /* buffer for names and tags converted to labels */
};

struct bridge_statsd *bridge_statsd_new(struct sl_publisher *p,
					const struct bridge_statsd_opts *opts)
{
	struct bridge_statsd *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->p = p;
	if (opts)
		s->opts = *opts;
	s->series_max = s->opts.series ?: STATSD_SERIES_MAX;
	s->seed = base_hash(0, "set", 3);
	if (base_table_init(&s->series) && base_table_init(&s->families))
		return s;
	base_table_free(&s->series);
	free(s);
	return NULL;
}

static void free_series(struct series *e)
{
	free(e->set);
	free(e);
}

void bridge_statsd_free(struct bridge_statsd *s)
{
	if (!s)
		return;
	BASE_TABLE_EACH(&s->series, at)
		free_series((struct series *)at);
	base_table_free(&s->series);
	BASE_TABLE_EACH(&s->families, at)
		free(at);
	base_table_free(&s->families);
	free(s->key);
	free(s->values);
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

/* Labels of a series, whose text is in .text. */
struct labels {
	struct sl_label of[STATSD_TAGS_MAX];
	size_t n;
	char *to; /* where the next text goes in .text */
};

/*
 * Adds a label, or replaces the value of an existing key. Returns false if there is no room or the
 * value is malformed.
 */
static bool add_label(struct bridge_statsd *s, struct labels *l, struct bridge_text key,
		      struct bridge_text value)
{
	char *k = l->to, *v = plain_name(s, k, key);
	size_t i = 0;

	if (!v || (size_t)(s->text + sizeof(s->text) - v) < value.n + 1)
		return false;
	while (i < l->n && strcmp(l->of[i].key, k))
		i++;
	if (i == STATSD_TAGS_MAX)
		return false;
	l->of[i] = (struct sl_label){k, v};
	l->n += i == l->n;
	l->to = value.n ? mempcpy(v, value.s, value.n) : v;
	*l->to++ = 0;
	return base_utf8(v, value.n);
}

/*
 * Parses "key:value,key"; if a key is repeated, keeps the last. Returns false if there are too many
 * tags or they are too long.
 */
static bool add_tags(struct bridge_statsd *s, struct labels *l, struct bridge_text tags)
{
	const char *at = tags.n ? tags.s : "", *end = at + tags.n;

	while (at < end) {
		const char *stop = memchr(at, ',', (size_t)(end - at)) ?: end;
		const char *colon = memchr(at, ':', (size_t)(stop - at));
		struct bridge_text key = {at, (size_t)((colon ?: stop) - at)}, value = {"true", 4};

		if (colon)
			value = (struct bridge_text){colon + 1, (size_t)(stop - colon - 1)};
		if (key.n && !add_label(s, l, key, value))
			return false;
		at = stop + 1;
	}
	return true;
}

/* Adds DogStatsD's origin: "ci-ID", or just the ID of a container. "in-INODE" is not an ID. */
static bool add_container(struct bridge_statsd *s, struct labels *l, struct bridge_text c)
{
	if (!s->opts.dogstatsd || !c.n || (c.n > 3 && !memcmp(c.s, "in-", 3)))
		return true;
	if (c.n > 3 && !memcmp(c.s, "ci-", 3))
		c = (struct bridge_text){c.s + 3, c.n - 3};
	return add_label(s, l, BRIDGE_TEXT("container_id"), c);
}

/* A label without a value is no label to Prometheus, which would keep one of two equal series. */
static void drop_empty_labels(struct labels *l)
{
	const size_t n = l->n;

	l->n = 0;
	for (size_t i = 0; i < n; i++)
		if (*l->of[i].value)
			l->of[l->n++] = l->of[i];
}

/*
 * Writes the name to .text, followed by the labels: the container, the tags and the mapping rule's
 * labels. Returns false if they are malformed or there is no room.
 */
static bool name_series(struct bridge_statsd *s, const char *name, enum bridge_statsd_type type,
			struct bridge_text container, struct bridge_text tags, struct labels *l,
			const struct bridge_statsd_rule **rule)
{
	struct bridge_text captures[STATSD_CAPTURES];
	char text[SL_LABEL_VALUE_MAX + 1];
	struct bridge_text t = {name, strlen(name)};
	int n;

	l->n = 0;
	*rule = s->opts.map ? bridge_statsd_map_find(s->opts.map, name, type, captures) : NULL;
	if (*rule && (*rule)->name) {
		n = bridge_statsd_map_expand((*rule)->name, captures, text, sizeof(text));
		if (n <= 0)
			return false;
		t = (struct bridge_text){text, (size_t)n};
	}
	l->to = plain_name(s, s->text, t);
	if (!l->to || !add_container(s, l, container) || !add_tags(s, l, tags))
		return false;
	for (size_t i = 0; *rule && i < (*rule)->label_count; i++) {
		const char *const *label = (*rule)->labels[i];

		n = bridge_statsd_map_expand(label[1], captures, text, sizeof(text));
		if (n < 0 || !add_label(s, l, (struct bridge_text){label[0], strlen(label[0])},
					(struct bridge_text){text, (size_t)n}))
			return false;
	}
	drop_empty_labels(l);
	return true;
}

static uint64_t hash_of_target(const struct bridge_statsd *s, const struct labels *l)
{
	uint64_t h = base_hash_text(0, s->text), sum = 0;

	/* independent of the order of the labels */
	for (size_t i = 0; i < l->n; i++)
		sum += base_hash_text(base_hash_text(h, l->of[i].key), l->of[i].value);
	return h + sum;
}

/* False if another rule gave the family different buckets. */
static bool same_buckets(const struct family *f, const struct bridge_statsd_rule *rule)
{
	const double *bounds = rule ? rule->bounds : NULL;

	if (!f->bounds || !bounds || f->bounds == bounds)
		return f->bounds == bounds;
	return f->bound_count == rule->bound_count &&
	       !memcmp(f->bounds, bounds, f->bound_count * sizeof(*bounds));
}

/* Returns false if the library refuses the family. */
static bool create_family(struct bridge_statsd *s, struct family *f,
			  const struct bridge_statsd_rule *rule)
{
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = f->name, .help = "",
					  .unit = f->type == STATSD_TIMER ? "seconds" : NULL);

	if (rule) {
		f->bounds = rule->bounds;
		f->bound_count = rule->bound_count;
	}
	if (rule && rule->help)
		o.help = rule->help;
	if (f->bounds) {
		o.bounds = f->bounds;
		o.bound_count = f->bound_count;
	} else {
		o.scale = SCALE;
		o.use_scale = true;
	}
	switch (f->type) {
	case STATSD_COUNTER:
		f->counter = sl_counter_f64_family_create(s->p, &o);
		return f->counter.bits;
	case STATSD_GAUGE:
	case STATSD_SET:
		f->gauge = sl_gauge_f64_family_create(s->p, &o);
		return f->gauge.bits;
	default:
		f->histogram = f->bounds ? sl_histogram_family_create_classic(s->p, &o)
					 : sl_histogram_family_create(s->p, &o);
		return f->histogram.bits;
	}
}

/*
 * Returns the family with this name, creating it if necessary. Returns NULL if it has another type
 * or other buckets, or if there is no room. rule may be NULL.
 */
static const struct family *family_of(struct bridge_statsd *s, const char *name,
				      enum bridge_statsd_type type,
				      const struct bridge_statsd_rule *rule)
{
	const uint64_t hash = base_hash_text(0, name);
	struct family *f;

	for (f = base_table_first(&s->families, hash); f; f = base_table_next(f))
		if (!strcmp(f->name, name))
			return f->type == type && same_buckets(f, rule) ? f : NULL;
	if (s->families.count >= s->series_max)
		return NULL;
	f = calloc(1, sizeof(*f) + strlen(name) + 1);
	if (!f)
		return NULL;
	f->type = type;
	strcpy(f->name, name);
	if (!create_family(s, f, rule)) {
		free(f);
		return NULL;
	}
	base_table_add(&s->families, f, hash);
	return f;
}

/* A refused series stays in the table for a while, so that further lines are refused quickly. */
static void create_series(struct bridge_statsd *s, struct series *e,
			  const struct bridge_statsd_line *l)
{
	const struct bridge_statsd_rule *rule;
	struct labels named;
	const struct sl_label *labels = named.of;
	const struct family *f;
	size_t n;

	/* The key holds the name as a string. */
	if (!name_series(s, e->key + 1, l->type, l->container, l->tags, &named, &rule))
		return;
	e->filtered = rule && rule->drop;
	e->expire_ns = rule ? rule->expire_ns : 0;
	e->target = hash_of_target(s, &named);
	n = named.n;
	f = e->filtered ? NULL : family_of(s, s->text, l->type, rule);
	if (!f)
		return;
	e->family = f;
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
	const size_t container = s->opts.dogstatsd ? l->container.n : 0;
	char *to;

	*bytes = l->name.n + container + l->tags.n + 3;
	if (!base_grow(&s->key, &s->key_room, *bytes, 1))
		return false;
	to = s->key;
	*to++ = (char)('A' + l->type);
	to = mempcpy(to, l->name.s, l->name.n);
	*to++ = 0;
	if (container)
		to = mempcpy(to, l->container.s, container);
	*to++ = 0;
	if (l->tags.n)
		memcpy(to, l->tags.s, l->tags.n);
	return true;
}

/* Returns NULL if there is no room: for a series, or for the text of this one. */
static struct series *find_series(struct bridge_statsd *s, const struct bridge_statsd_line *l,
				  uint64_t now_ns)
{
	struct series *e;
	uint64_t hash;
	size_t bytes;

	if (!make_key(s, l, &bytes))
		return NULL;
	hash = base_hash(0, s->key, bytes);
	for (e = base_table_first(&s->series, hash); e; e = base_table_next(e))
		if (e->key_bytes == bytes && !memcmp(e->key, s->key, bytes))
			return e;
	if (s->series.count >= s->series_max || bytes > TEXT_BYTES ||
	    s->keys_bytes + bytes > KEYS_BYTES)
		return NULL;
	e = calloc(1, sizeof(*e) + bytes);
	if (!e)
		return NULL;
	memcpy(e->key, s->key, bytes);
	e->key_bytes = (uint32_t)bytes;
	e->set_ns = now_ns;
	s->keys_bytes += bytes;
	create_series(s, e, l);
	base_table_add(&s->series, e, hash);
	return e;
}

/* ---- values ---- */

static void add_to_set(struct bridge_statsd *s, struct series *e, struct bridge_text v)
{
	struct sketch_cells c;

	if (!sketch_cells_init(&c, SKETCH_HLL, SET_REGISTERS, 1, s->seed, e->set))
		sketch_cells_add(&c, base_hash(s->seed, v.s, v.n), 1);
}

static bool parse_value(const struct bridge_statsd *s, const struct bridge_statsd_line *l,
			struct bridge_text t, struct value *out)
{
	if (bridge_number(t.s, t.s + t.n, &out->v) != t.s + t.n || !t.n)
		return false;
	out->relative = !s->opts.dogstatsd && (*t.s == '+' || *t.s == '-');
	if (l->type == STATSD_COUNTER)
		out->v /= l->rate;
	return isfinite(out->v) && (l->type == STATSD_GAUGE || out->v >= 0);
}

/* Parses all values of a line except those of sets. Returns false if one is malformed. */
static bool parse_values(struct bridge_statsd *s, const struct bridge_statsd_line *l)
{
	const char *end = l->values.s + l->values.n;

	s->value_count = 0;
	for (const char *at = l->values.s; at <= end && l->type != STATSD_SET; at++) {
		const char *stop = memchr(at, ':', (size_t)(end - at)) ?: end;

		if (!BASE_GROW(s->values, s->value_count, s->value_room) ||
		    !parse_value(s, l, (struct bridge_text){at, (size_t)(stop - at)},
				 &s->values[s->value_count++]))
			return false;
		at = stop;
	}
	return true;
}

static double observe_values(struct bridge_statsd *s, const struct series *e, double divisor)
{
	double sum = 0;

	for (size_t i = 0; i < s->value_count; i++) {
		sl_histogram_observe(e->histogram, s->values[i].v / divisor);
		sum += s->values[i].v / divisor;
	}
	return sum;
}

/*
 * Observes each value of a line 1 / rate times. If that is many observations, observes each value
 * once, and then adds the increase of the buckets another times - 1 times in one step.
 */
static void add_observations(struct bridge_statsd *s, const struct series *e,
			     const struct bridge_statsd_line *l)
{
	const struct family *f = e->family;
	const size_t n = f->bounds ? f->bound_count + 1 : BUCKETS;
	const uint64_t times = (uint64_t)fmin(round(1 / l->rate), REPEATS_MAX);
	const double divisor = l->type == STATSD_TIMER ? 1000 : 1; /* ms per s */
	double sum;

	if (times == 1 || s->value_count * times <= ONE_BY_ONE) {
		for (uint64_t i = 0; i < times; i++)
			observe_values(s, e, divisor);
		return;
	}
	sl_histogram_buckets(e->histogram, s->before, n);
	sum = observe_values(s, e, divisor);
	sl_histogram_buckets(e->histogram, s->buckets, n);
	for (size_t i = 0; i < n; i++)
		s->buckets[i] = (s->buckets[i] - s->before[i]) * (times - 1);
	sl_histogram_add(e->histogram, s->buckets, n, sum * (double)(times - 1));
}

static void apply_value(const struct series *e, const struct bridge_statsd_line *l,
			const struct value *t)
{
	if (l->type == STATSD_COUNTER)
		sl_counter_f64_add(e->counter, t->v);
	else if (t->relative)
		sl_gauge_f64_add(e->gauge, t->v);
	else
		sl_gauge_f64_set(e->gauge, t->v);
}

/*
 * Counts events and service checks of DogStatsD, which are not metrics: "_e{N,N}:TITLE|TEXT..." and
 * "_sc|NAME|STATUS...". Returns false if the line is neither.
 */
static bool count_other(struct bridge_statsd *s, const char *line, size_t n)
{
	const char *status;

	if (n > 3 && !memcmp(line, "_e{", 3)) {
		if (memmem(line, n, "}:", 2))
			s->counts.events++;
		else
			s->counts.malformed++;
		return true;
	}
	if (n < 4 || memcmp(line, "_sc|", 4))
		return false;
	status = memchr(line + 4, '|', n - 4);
	if (status && status + 1 < line + n && status[1] >= '0' && status[1] <= '3')
		s->counts.checks++;
	else
		s->counts.malformed++;
	return true;
}

/*
 * A count is valid even if it is late. A gauge only has a current value, so its timestamp must be
 * in the same window as for scrapes.
 */
static bool is_timely(const struct bridge_statsd *s, const struct bridge_statsd_line *l)
{
	double now;

	if (!s->opts.dogstatsd || l->type != STATSD_GAUGE || isnan(l->time))
		return true;
	now = (double)base_realtime_ns() / 1e9;
	return l->time >= now - BRIDGE_PAST_SECONDS && l->time <= now + BRIDGE_FUTURE_SECONDS;
}

/* The values are parsed before the series is looked up, because a lookup may create it. */
static void take_line(struct bridge_statsd *s, const char *line, size_t n, uint64_t now_ns)
{
	struct bridge_statsd_line l;
	struct series *e;

	if (count_other(s, line, n))
		return;
	if (!bridge_statsd_parse(line, n, &l) || !parse_values(s, &l)) {
		s->counts.malformed++;
		return;
	}
	if (!is_timely(s, &l)) {
		s->counts.untimely++;
		return;
	}
	e = find_series(s, &l, now_ns);
	if (e && (e->valid || e->filtered))
		e->set_ns = now_ns;
	if (e && e->filtered) {
		s->counts.filtered++;
		return;
	}
	if (!e || !e->valid) {
		s->counts.refused++;
		return;
	}
	s->counts.lines++;
	if (l.type == STATSD_SET)
		add_to_set(s, e, l.values);
	else if (l.type == STATSD_TIMER || l.type == STATSD_HISTOGRAM)
		add_observations(s, e, &l);
	else
		for (size_t i = 0; i < s->value_count; i++)
			apply_value(e, &l, &s->values[i]);
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
static void remove_series(struct bridge_statsd *s, struct series *e)
{
	const char *name = e->key + 1, *container = name + strlen(name) + 1;
	const char *tags = container + strlen(container) + 1;
	const struct bridge_text t = {tags, (size_t)(e->key + e->key_bytes - tags)};
	const struct bridge_statsd_rule *rule;
	const struct family *f = e->family;
	struct labels l;

	if (!name_series(s, name, f->type, (struct bridge_text){container, strlen(container)}, t,
			 &l, &rule))
		return;
	if (f->type == STATSD_COUNTER)
		sl_counter_f64_remove(f->counter, l.of, l.n);
	else if (f->type == STATSD_GAUGE || f->type == STATSD_SET)
		sl_gauge_f64_remove(f->gauge, l.of, l.n);
	else
		sl_histogram_remove(f->histogram, l.of, l.n);
	s->counts.expired++;
}

/* shared: another series is published under the same name and labels, so it stays published. */
static void end_series(struct bridge_statsd *s, struct series *e, bool shared)
{
	if (e->valid && !shared)
		remove_series(s, e);
	s->keys_bytes -= e->key_bytes;
	base_table_remove(&s->series, e);
	free_series(e);
}

static bool is_expired(const struct series *e, uint64_t now_ns, uint64_t expire_ns)
{
	if (!e->valid && !e->filtered)
		return now_ns - e->set_ns >= RETRY_NS;
	expire_ns = e->expire_ns ?: expire_ns;
	return expire_ns && now_ns - e->set_ns >= expire_ns;
}

/*
 * Several series share a published series if their names differ only in characters that Prometheus
 * does not allow, or if a rule maps them to one name. It ends with the last of them.
 */
static void end_expired(struct bridge_statsd *s, uint64_t now_ns, uint64_t expire_ns)
{
	uint64_t *alive = NULL;
	size_t n = 0, expired = 0;

	BASE_TABLE_EACH(&s->series, at)
		expired += is_expired((struct series *)at, now_ns, expire_ns);
	if (!expired)
		return;
	alive = malloc((s->series.count + 1) * sizeof(*alive));
	if (!alive)
		return;
	BASE_TABLE_EACH(&s->series, at) {
		const struct series *e = (struct series *)at;

		if (e->valid && !is_expired(e, now_ns, expire_ns))
			alive[n++] = e->target;
	}
	qsort(alive, n, sizeof(*alive), base_by_u64);
	BASE_TABLE_EACH(&s->series, at) {
		struct series *e = (struct series *)at;

		if (is_expired(e, now_ns, expire_ns))
			end_series(s, e,
				   bsearch(&e->target, alive, n, sizeof(*alive), base_by_u64));
	}
	free(alive);
}

static void publish_set(const struct bridge_statsd *s, struct series *e)
{
	struct sketch_cells c;
	double error;

	if (!e->set || sketch_cells_init(&c, SKETCH_HLL, SET_REGISTERS, 1, s->seed, e->set))
		return;
	sl_gauge_f64_set(e->gauge, round(sketch_cells_estimate(&c, 0, &error)));
	memset(e->set, 0, SET_REGISTERS);
}

void bridge_statsd_tick(struct bridge_statsd *s, uint64_t now_ns, uint64_t expire_ns)
{
	if (now_ns >= s->set_until_ns) {
		s->set_until_ns = now_ns + STATSD_SET_NS;
		BASE_TABLE_EACH(&s->series, at)
			publish_set(s, (struct series *)at);
	}
	end_expired(s, now_ns, expire_ns);
}

struct bridge_statsd_counts bridge_statsd_counts(const struct bridge_statsd *s)
{
	return s->counts;
}

size_t bridge_statsd_series(const struct bridge_statsd *s)
{
	return s->series.count;
}
