// SPDX-License-Identifier: Apache-2.0
/* publish.c - manages the families and series of a target; publish_set.c creates and sets them. */
#include "bridge/publish_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/text.h"

#define CELLS	     4096u /* size of the first region; the library adds regions as needed */
#define RECORD_BYTES 320u
#define EXEMPLARS    1023u
#define BYTES_MAX    (64u << 20)

/* ---- hash tables of indices ---- */

static void free_index(struct bridge_publish_index *t)
{
	free(t->at);
	*t = (struct bridge_publish_index){0};
}

static void index_put(struct bridge_publish_index *t, uint64_t hash, uint32_t i)
{
	size_t at = hash & (t->size - 1);

	while (t->at[at] != NONE)
		at = (at + 1) & (t->size - 1);
	t->at[at] = i;
	t->used++;
}

/* Makes room for another entry. Returns false if out of memory. */
static bool index_room(struct bridge_publish_index *t,
		       uint64_t (*hash_of)(const struct bridge_publisher *, uint32_t),
		       const struct bridge_publisher *p)
{
	struct bridge_publish_index old = *t, wide = {.size = t->size ? t->size * 2 : 64};

	if (t->used * 2 < t->size)
		return true;
	wide.at = malloc(wide.size * sizeof(*wide.at));
	if (!wide.at)
		return false;
	memset(wide.at, 0xff, wide.size * sizeof(*wide.at));
	for (size_t i = 0; i < old.size; i++)
		if (old.at[i] != NONE)
			index_put(&wide, hash_of(p, old.at[i]), old.at[i]);
	*t = wide;
	free(old.at);
	return true;
}

/* Removes the entry at `hole` and moves up the entries displaced by it (Knuth, TAOCP 3, 6.4 R). */
static void index_take(struct bridge_publish_index *t, size_t hole,
		       uint64_t (*hash_of)(const struct bridge_publisher *, uint32_t),
		       const struct bridge_publisher *p)
{
	size_t mask = t->size - 1;

	for (size_t at = (hole + 1) & mask; t->at[at] != NONE; at = (at + 1) & mask) {
		size_t home = hash_of(p, t->at[at]) & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		t->at[hole] = t->at[at];
		hole = at;
	}
	t->at[hole] = NONE;
	t->used--;
}

/* ---- families ---- */

static uint64_t family_hash(const struct bridge_publisher *p, uint32_t i)
{
	return p->families[i].hash;
}

static char *copy_text(struct bridge_text t, size_t max)
{
	/* Truncate a long help text at a character boundary. */
	size_t n = t.n;

	if (n > max)
		for (n = max; n && ((unsigned char)t.s[n] & 0xc0) == 0x80;)
			n--;
	return bridge_text_copy((struct bridge_text){t.s, n});
}

static bool is_reserved(struct bridge_text name)
{
	static const char *const own[] = {"up", "scrape_duration_seconds",
					  "scrape_samples_scraped"};

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (bridge_text_is(name, own[i], strlen(own[i])))
			return true;
	return false;
}

static uint64_t hash_of_announced(const struct bridge_publisher *p)
{
	struct base_hash h;

	base_hash_begin(&h, 0);
	base_hash_add(&h, &p->type, sizeof(p->type));
	base_hash_add(&h, p->name, strlen(p->name));
	base_hash_add(&h, p->help, strlen(p->help));
	return base_hash_end(&h);
}

static bool on_family(struct bridge_sink *s, const struct bridge_family *f)
{
	struct bridge_publisher *p = (struct bridge_publisher *)s;
	char *name = bridge_text_copy(f->name), *help = copy_text(f->help, SL_HELP_MAX);
	char *unit = copy_text(f->unit, SL_NAME_MAX);

	free(p->name);
	free(p->help);
	free(p->unit);
	p->name = name;
	p->help = help;
	p->unit = unit;
	p->type = f->type;
	p->family = NONE;
	if (!name || !help || !unit)
		return false;
	/* A region's help text must be valid UTF-8; drop any other text. */
	if (!base_utf8(help, strlen(help)))
		*help = 0;
	p->announced = hash_of_announced(p);
	p->skip = f->name.n > SL_NAME_MAX || strlen(name) != f->name.n ||
		  !base_utf8(name, f->name.n) || is_reserved(f->name);
	return true;
}

/* Distinguishes families with the same name by their buckets, quantiles and states. */
static uint64_t hash_of_family(const struct bridge_publisher *p, const struct bridge_point *t)
{
	struct base_hash h;

	if (!t->exponential && !t->bound_count && !t->state_count)
		return p->announced;
	base_hash_begin(&h, p->announced);
	base_hash_add(&h, t->exponential ? "e" : "c", 1);
	base_hash_add(&h, t->bounds, t->bound_count * sizeof(double));
	for (size_t i = 0; i < t->state_count; i++)
		base_hash_add(&h, t->states[i].s, t->states[i].n);
	return base_hash_end(&h);
}

/*
 * Returns the family of a point, or NONE if out of memory. A keyed 64-bit hash identifies the
 * family.
 */
static uint32_t find_family(struct bridge_publisher *p, const struct bridge_point *t)
{
	uint64_t h = hash_of_family(p, t);
	struct bridge_publish_family f = {.hash = h, .type = p->type};
	size_t mask;

	if (p->family != NONE && p->families[p->family].hash == h)
		return p->family;
	if (!index_room(&p->family_index, family_hash, p))
		return NONE;
	mask = p->family_index.size - 1;
	for (size_t at = h & mask; p->family_index.at[at] != NONE; at = (at + 1) & mask)
		if (p->families[p->family_index.at[at]].hash == h)
			return p->family = p->family_index.at[at];
	if (!BASE_GROW(p->families, p->family_count, p->family_room))
		return NONE;
	if (bridge_publish_family_create(p, &f, t))
		return NONE;
	p->families[p->family_count] = f;
	index_put(&p->family_index, h, (uint32_t)p->family_count);
	return p->family = (uint32_t)p->family_count++;
}

/* ---- series ---- */

static uint64_t series_hash(const struct bridge_publisher *p, uint32_t i)
{
	return p->series[i].hash;
}

/* Encodes the labels in scratch memory as KEY NUL VALUE NUL ..., and makes them point there. */
static bool encode_labels(struct bridge_publisher *p, const struct bridge_point *t, size_t *bytes)
{
	size_t n = 0;
	char *to;

	for (size_t i = 0; i < t->label_count; i++)
		n += t->labels[i].key.n + t->labels[i].value.n + 2;
	if (t->label_count > SL_LABELS_MAX || !base_grow(&p->scratch, &p->scratch_room, n + 1, 1))
		return false;
	to = p->scratch;
	for (size_t i = 0; i < t->label_count; i++) {
		const struct bridge_label *l = &t->labels[i];

		if (memchr(l->key.s, 0, l->key.n) ||
		    (l->value.n && memchr(l->value.s, 0, l->value.n)))
			return false;
		to = mempcpy(to, l->key.s, l->key.n);
		*to++ = 0;
		if (l->value.n)
			to = mempcpy(to, l->value.s, l->value.n);
		*to++ = 0;
	}
	*bytes = n;
	return true;
}

size_t bridge_publish_labels(const char *bytes, size_t n, struct sl_label *out)
{
	size_t count = 0;

	for (const char *s = bytes; s < bytes + n; count++) {
		out[count].key = s;
		s += strlen(s) + 1;
		out[count].value = s;
		s += strlen(s) + 1;
	}
	return count;
}

/* Marks a series as free. Indices of other series do not change, because .order refers to them. */
static void series_remove(struct bridge_publisher *p, uint32_t i)
{
	struct bridge_publish_series *s = &p->series[i];
	struct sl_label labels[SL_LABELS_MAX];
	size_t n = bridge_publish_labels(s->labels, s->label_bytes, labels);
	size_t at = s->hash & (p->series_index.size - 1);

	bridge_publish_remove(p, &p->families[s->family], labels, n);
	while (p->series_index.at[at] != i)
		at = (at + 1) & (p->series_index.size - 1);
	index_take(&p->series_index, at, series_hash, p);
	p->bytes -= s->bytes;
	free(s->labels);
	free(s->total);
	s->labels = NULL;
	s->total = NULL;
	s->family = p->series_free;
	p->series_free = i;
	p->counts.removed++;
}

/* Returns the index for a new series, or NONE if out of memory. */
static uint32_t series_number(struct bridge_publisher *p)
{
	if (p->series_free != NONE)
		return p->series_free;
	if (!BASE_GROW(p->series, p->series_used, p->series_room))
		return NONE;
	return (uint32_t)p->series_used;
}

static void series_take(struct bridge_publisher *p, uint32_t i)
{
	if (i == p->series_free)
		p->series_free = p->series[i].family;
	else
		p->series_used++;
}

/* Finds or creates the series of a point. Returns NONE if it is refused or there is no room. */
static uint32_t find_series(struct bridge_publisher *p, const struct bridge_point *t, bool *full)
{
	struct bridge_publish_series s = {0};
	uint32_t i;
	size_t bytes, mask, record;

	*full = false;
	if (!encode_labels(p, t, &bytes))
		return NONE;
	s.family = find_family(p, t);
	if (s.family == NONE || !index_room(&p->series_index, series_hash, p))
		return NONE;
	s.hash = base_hash(p->families[s.family].hash, p->scratch, bytes);
	mask = p->series_index.size - 1;
	for (size_t at = s.hash & mask; p->series_index.at[at] != NONE; at = (at + 1) & mask) {
		const struct bridge_publish_series *o = &p->series[p->series_index.at[at]];

		if (o->hash != s.hash || o->label_bytes != bytes ||
		    memcmp(o->labels, p->scratch, bytes))
			continue;
		if (t->delta || !t->created_ns || o->created_ns == t->created_ns)
			return p->series_index.at[at];
		/* The series was restarted. */
		series_remove(p, p->series_index.at[at]);
		break;
	}
	record = bridge_publish_record_bytes(p, t, bytes);
	*full = p->series_index.used >= p->series_max || p->bytes + record > p->bytes_max;
	i = *full ? NONE : series_number(p);
	if (i == NONE)
		return NONE;
	s.labels = malloc(bytes + 1);
	s.label_bytes = (uint32_t)bytes;
	if (!s.labels)
		return NONE;
	memcpy(s.labels, p->scratch, bytes);
	s.created_ns = t->created_ns;
	if (bridge_publish_series_create(p, &p->families[s.family], &s, t)) {
		free(s.labels);
		return NONE;
	}
	s.bytes = (uint32_t)record;
	p->bytes += record;
	series_take(p, i);
	p->series[i] = s;
	index_put(&p->series_index, s.hash, i);
	return i;
}

/* Deltas are summed here, because a mirrored library metric takes absolute values. */
static bool add_up(struct bridge_publish_series *s, const struct bridge_point *t)
{
	if (!s->total)
		s->total = calloc(t->value_count + 1, sizeof(*s->total));
	for (size_t i = 0; s->total && i < t->value_count; i++)
		s->total[i] += isnan(t->values[i]) ? 0 : t->values[i];
	return s->total;
}

static void set_values(struct bridge_publisher *p, struct bridge_publish_series *s,
		       const struct bridge_point *t)
{
	const double *values = t->values;

	if (t->delta && add_up(s, t))
		values = s->total;
	bridge_publish_set(p, &p->families[s->family], s, values, t->value_count);
}

static bool on_point(struct bridge_sink *sink, const struct bridge_point *t)
{
	struct bridge_publisher *p = (struct bridge_publisher *)sink;
	uint32_t i = NONE;
	struct bridge_point expanded;
	bool full = false, good = !p->skip;

	if (t->exponential && good) {
		good = bridge_publish_expand(&p->grid, t, p->expanded);
		/* count negative observations, which are not published */
		p->counts.refused += t->exponential->negative > 0;
		expanded = *t;
		expanded.values = p->expanded;
		expanded.value_count = p->grid.values;
		t = &expanded;
	}
	if (p->fresh_order)
		p->order_count = p->order_values = 0;
	p->fresh_order = false;
	if (good)
		i = find_series(p, t, &full);
	p->counts.full += full;
	p->counts.refused += i == NONE && !full;
	if (i != NONE) {
		p->series[i].round = p->round;
		p->series[i].set_ns = p->now_ns;
		set_values(p, &p->series[i], t);
		bridge_publish_exemplars(p, &p->families[p->series[i].family], &p->series[i], t);
	}
	if (!BASE_GROW(p->order, p->order_count, p->order_room))
		return false;
	p->order[p->order_count++] = (struct bridge_publish_place){i, (uint32_t)t->value_count};
	p->order_values += t->value_count;
	return true;
}

/* Sets all values, in the order of the previous body's points. */
static void on_values(struct bridge_sink *sink, const double *values, size_t n)
{
	struct bridge_publisher *p = (struct bridge_publisher *)sink;

	p->by_values = true;
	for (size_t i = 0; i < p->order_count && n == p->order_values; i++) {
		const struct bridge_publish_place *o = &p->order[i];

		if (o->series != NONE && p->series[o->series].labels) {
			const struct bridge_publish_series *s = &p->series[o->series];

			bridge_publish_set(p, &p->families[s->family], s, values, o->values);
		}
		values += o->values;
	}
}

/* ---- publishers ---- */

struct bridge_publisher *bridge_publish_open(const struct bridge_publish_opts *o)
{
	struct bridge_publisher *p = calloc(1, sizeof(*p));
	const int finer = BASE_MAX(o->scale - BRIDGE_SCALE, 0);
	/* room for the same number of histograms per region */
	const uint32_t cells = CELLS << finer;
	int err = ENOMEM;

	if (!p)
		return NULL;
	p->sink = (struct bridge_sink){on_family, on_point, on_values};
	p->service = strdup(o->service);
	p->pod = strdup(o->pod);
	p->bytes_max = o->bytes_max ?: BYTES_MAX;
	p->series_max = o->series_max ?: BRIDGE_POINTS_MAX;
	p->family = p->series_free = NONE;
	p->grid = bridge_publish_grid(o->scale ?: BRIDGE_SCALE);
	p->expanded = malloc(p->grid.values * sizeof(*p->expanded));
	if (p->service && p->pod && p->expanded) {
		p->publisher = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .service = p->service, .pod = p->pod,
				 .socket = o->socket, .max_cells = cells, .max_threads = 1,
				 .schema_bytes = CELLS * RECORD_BYTES, .exemplars = EXEMPLARS,
				 .flags = o->detached ? SL_PUBLISHER_DETACHED : 0));
		err = errno;
	}
	if (p->publisher)
		return p;
	bridge_publish_close(p);
	errno = err;
	return NULL;
}

void bridge_publish_close(struct bridge_publisher *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->series_used; i++) {
		free(p->series[i].labels);
		free(p->series[i].total);
	}
	for (size_t i = 0; i < p->family_count; i++)
		bridge_publish_family_free(&p->families[i]);
	sl_publisher_close(p->publisher);
	free_index(&p->series_index);
	free_index(&p->family_index);
	free(p->series);
	free(p->families);
	free(p->order);
	free(p->scratch);
	free(p->buckets);
	free(p->expanded);
	free(p->service);
	free(p->pod);
	free(p->name);
	free(p->help);
	free(p->unit);
	free(p);
}

struct bridge_sink *bridge_publish_sink(struct bridge_publisher *p)
{
	return &p->sink;
}

struct sl_publisher *bridge_publish_of(struct bridge_publisher *p)
{
	return p->publisher;
}

void bridge_publish_begin(struct bridge_publisher *p)
{
	p->round++;
	p->now_ns = base_now_ns();
	p->by_values = false;
	/* Assume a new order until the parser calls values(). */
	p->fresh_order = true;
	p->family = NONE;
}

void bridge_publish_end(struct bridge_publisher *p)
{
	if (p->by_values)
		return;
	if (p->fresh_order)
		p->order_count = p->order_values = 0;
	for (uint32_t i = 0; i < p->series_used; i++)
		if (p->series[i].labels && p->series[i].round != p->round)
			series_remove(p, i);
}

void bridge_publish_clear(struct bridge_publisher *p)
{
	p->order_count = p->order_values = 0;
	for (uint32_t i = 0; i < p->series_used; i++)
		if (p->series[i].labels)
			series_remove(p, i);
}

void bridge_publish_expire(struct bridge_publisher *p, uint64_t now_ns, uint64_t age_ns)
{
	for (uint32_t i = 0; i < p->series_used; i++)
		if (p->series[i].labels && now_ns - p->series[i].set_ns >= age_ns)
			series_remove(p, i);
}

size_t bridge_publish_series(const struct bridge_publisher *p)
{
	return p->series_index.used;
}

struct bridge_publish_counts bridge_publish_counts(const struct bridge_publisher *p)
{
	return p->counts;
}
