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
#define RESEND_NS    (900 * 1000000000ull)
#define FAMILY_BYTES 512u /* memory for a family here and in the library, without its texts */

/* ---- families ---- */

/* Truncates a long help text. */
static char *copy_text(struct bridge_text t, size_t max)
{
	return bridge_text_copy((struct bridge_text){t.s, base_utf8_cut(t.s, t.n, max)});
}

static bool is_reserved(struct bridge_text name)
{
	static const char *const own[] = {"up", "scrape_duration_seconds",
					  "scrape_samples_scraped"};

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (bridge_text_is(name, own[i]))
			return true;
	return false;
}

static uint64_t hash_of_announced(const struct bridge_publisher *p)
{
	struct base_hash h;

	base_hash_begin(&h, 0);
	base_hash_add(&h, &p->type, sizeof(p->type));
	base_hash_add(&h, p->name, strlen(p->name));
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
	p->family = NULL;
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

/* Series of a family may differ in their buckets, quantiles and states. */
static uint64_t hash_of_shape(const struct bridge_point *t)
{
	struct base_hash h;

	if (!t->bound_count && !t->state_count)
		return 0;
	base_hash_begin(&h, 0);
	base_hash_add(&h, t->bounds, t->bound_count * sizeof(double));
	for (size_t i = 0; i < t->state_count; i++)
		base_hash_add(&h, t->states[i].s, t->states[i].n);
	return base_hash_end(&h);
}

/* A region has no histograms without bounds: their sum and count make a summary. */
static enum bridge_type type_of(const struct bridge_publisher *p, const struct bridge_point *t)
{
	return p->type == BRIDGE_HISTOGRAM && !t->exponential && !t->bound_count ? BRIDGE_SUMMARY
										 : p->type;
}

/* A family takes its memory until the publisher closes, because the library never frees it. */
static size_t family_bytes(const struct bridge_publisher *p, const struct bridge_point *t)
{
	struct bridge_point without_cells = *t;

	without_cells.value_count = 0;
	return FAMILY_BYTES + bridge_publish_record_bytes(p, &without_cells, 0);
}

static void family_free(struct bridge_publish_family *f)
{
	free(f->name);
	free(f->help);
	free(f);
}

/*
 * Returns the family of a point, or NULL if the library refuses it or there is no room. Its name
 * and type identify it, as in the library: a different help text changes nothing.
 */
static struct bridge_publish_family *find_family(struct bridge_publisher *p,
						 const struct bridge_point *t, bool *full)
{
	const enum bridge_type type = type_of(p, t);
	uint64_t hash = t->exponential	  ? base_hash(p->announced, "e", 1)
			: type != p->type ? base_hash(p->announced, "s", 1)
					  : p->announced;
	struct bridge_publish_family *f = p->family;
	size_t bytes;

	if (f && f->node.hash == hash)
		return f;
	f = base_table_first(&p->families, hash);
	if (f)
		return p->family = f;
	bytes = family_bytes(p, t);
	*full = p->bytes + bytes > p->bytes_max;
	f = *full ? NULL : calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->type = type;
	f->shape = hash_of_shape(t);
	if (!bridge_publish_family_create(p, f, t)) {
		family_free(f);
		return NULL;
	}
	p->bytes += bytes;
	base_table_add(&p->families, f, hash);
	return p->family = f;
}

/* ---- series ---- */

char *bridge_publish_put(char *to, struct bridge_text t)
{
	if (t.n && memchr(t.s, 0, t.n))
		return NULL;
	to = t.n ? mempcpy(to, t.s, t.n) : to;
	*to++ = 0;
	return to;
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
		to = bridge_publish_put(to, t->labels[i].key);
		to = to ? bridge_publish_put(to, t->labels[i].value) : NULL;
		if (!to)
			return false;
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

/* Keeps the memory of a series for another one, because .order may refer to it. */
static void release_series(struct bridge_publisher *p, struct bridge_publish_series *s)
{
	free(s->labels);
	free(s->total);
	*s = (struct bridge_publish_series){.next_free = p->series_free};
	p->series_free = s;
}

static void series_remove(struct bridge_publisher *p, struct bridge_publish_series *s)
{
	struct sl_label labels[SL_LABELS_MAX];
	size_t n = bridge_publish_labels(s->labels, s->label_bytes, labels);

	bridge_publish_remove(p, s->family, labels, n);
	base_table_remove(&p->series, s);
	p->bytes -= s->bytes;
	release_series(p, s);
	p->counts->removed++;
}

static struct bridge_publish_series *new_series(struct bridge_publisher *p)
{
	struct bridge_publish_series *s = p->series_free;

	if (!s)
		return calloc(1, sizeof(*s));
	p->series_free = s->next_free;
	s->next_free = NULL;
	return s;
}

/* Finds or creates the series of a point. Returns NULL if it is refused or there is no room. */
static struct bridge_publish_series *find_series(struct bridge_publisher *p,
						 const struct bridge_point *t, bool *full)
{
	struct bridge_publish_family *f;
	struct bridge_publish_series *s;
	size_t bytes, record;
	uint64_t hash, shape;

	*full = false;
	if (!encode_labels(p, t, &bytes))
		return NULL;
	f = find_family(p, t, full);
	if (!f)
		return NULL;
	hash = base_hash(f->node.hash, p->scratch, bytes);
	shape = hash_of_shape(t);
	for (s = base_table_first(&p->series, hash); s; s = base_table_next(s)) {
		if (s->label_bytes != bytes || memcmp(s->labels, p->scratch, bytes))
			continue;
		if (s->shape != shape && s->round == p->round)
			return NULL;
		if (s->shape == shape && t->delta == !!s->total &&
		    (t->delta || !t->created_ns || s->created_ns == t->created_ns))
			return s;
		/* The series restarted, or its temporality or buckets changed. */
		series_remove(p, s);
		break;
	}
	record = bridge_publish_record_bytes(p, t, bytes);
	*full = p->series.count >= p->series_max || p->bytes + record > p->bytes_max;
	s = *full ? NULL : new_series(p);
	if (!s)
		return NULL;
	s->labels = malloc(bytes + 1);
	s->label_bytes = (uint32_t)bytes;
	s->family = f;
	s->shape = shape;
	s->created_ns = t->created_ns;
	if (s->labels)
		memcpy(s->labels, p->scratch, bytes);
	errno = 0;
	if (!s->labels || !bridge_publish_series_create(p, f, s, t)) {
		*full = errno == ENOSPC; /* the bridges have no further region */
		release_series(p, s);
		return NULL;
	}
	s->bytes = (uint32_t)record;
	p->bytes += record;
	base_table_add(&p->series, s, hash);
	return s;
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
	bridge_publish_set(p, s->family, s, values, t->value_count);
}

/*
 * Returns true if the point has been published before: a delta that was sent again because the
 * response was lost, maybe with others, or a point that is not newer than another one in this body.
 * Exporters send nothing again after so long that the sender's clock must have been set back.
 */
static bool is_duplicate(const struct bridge_publisher *p, const struct bridge_publish_series *s,
			 const struct bridge_point *t)
{
	if (t->delta)
		return t->time_ns && t->time_ns <= s->time_ns &&
		       s->time_ns - t->time_ns <= RESEND_NS;
	return s->round == p->round && t->time_ns <= s->time_ns;
}

static bool on_point(struct bridge_sink *sink, const struct bridge_point *t)
{
	struct bridge_publisher *p = (struct bridge_publisher *)sink;
	struct bridge_publish_series *s = NULL;
	struct bridge_point expanded;
	bool full = false, good = !p->skip;

	if (t->exponential && good) {
		good = bridge_publish_expand(&p->grid, t, p->expanded);
		p->counts->refused += t->exponential->negative > 0;
		p->counts->negative += t->exponential->negative > 0;
		expanded = *t;
		expanded.values = p->expanded;
		expanded.value_count = p->grid.values;
		t = &expanded;
	}
	if (p->fresh_order)
		p->order_count = p->order_values = 0;
	p->fresh_order = false;
	if (good)
		s = find_series(p, t, &full);
	p->counts->full += full;
	p->counts->refused += !s && !full;
	if (s && is_duplicate(p, s, t)) {
		p->counts->refused++;
		p->counts->duplicate++;
		s = NULL;
	}
	if (s) {
		s->round = p->round;
		s->set_ns = p->now_ns;
		s->time_ns = t->time_ns;
		set_values(p, s, t);
		bridge_publish_exemplars(p, s->family, s, t);
	}
	if (!BASE_GROW(p->order, p->order_count, p->order_room))
		return false;
	p->order[p->order_count++] = (struct bridge_publish_place){s, t->value_count};
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
		const struct bridge_publish_series *s = o->series;

		if (s && s->labels)
			bridge_publish_set(p, s->family, s, values, o->values);
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
	p->counts = o->counts ?: &p->own_counts;
	p->bytes_max = o->bytes_max ?: BYTES_MAX;
	p->series_max = o->series_max ?: BRIDGE_POINTS_MAX;
	p->round = 1; /* series that are missing from the current body have another round number */
	p->grid = bridge_publish_grid(o->scale ?: BRIDGE_SCALE);
	p->expanded = malloc(p->grid.values * sizeof(*p->expanded));
	if (p->expanded && base_table_init(&p->families) && base_table_init(&p->series)) {
		p->publisher = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .service = o->service, .pod = o->pod,
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
	struct bridge_publish_series *s;

	if (!p)
		return;
	BASE_TABLE_EACH(&p->series, at) {
		s = (struct bridge_publish_series *)at;
		free(s->labels);
		free(s->total);
		free(s);
	}
	while ((s = p->series_free)) {
		p->series_free = s->next_free;
		free(s);
	}
	BASE_TABLE_EACH(&p->families, at)
		family_free((struct bridge_publish_family *)at);
	sl_publisher_close(p->publisher);
	base_table_free(&p->series);
	base_table_free(&p->families);
	free(p->order);
	free(p->scratch);
	free(p->buckets);
	free(p->expanded);
	free(p->name);
	free(p->help);
	free(p->unit);
	free(p);
}

const char *bridge_publish_why(int error)
{
	return error == ENOSPC ? "all 63 regions of the bridges are in use: read fewer targets, or "
				 "let programs publish with a library"
			       : strerror(error);
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
	p->family = NULL;
}

void bridge_publish_end(struct bridge_publisher *p)
{
	if (p->by_values)
		return;
	if (p->fresh_order)
		p->order_count = p->order_values = 0;
	BASE_TABLE_EACH(&p->series, at)
		if (((struct bridge_publish_series *)at)->round != p->round)
			series_remove(p, (struct bridge_publish_series *)at);
}

void bridge_publish_clear(struct bridge_publisher *p)
{
	p->order_count = p->order_values = 0;
	BASE_TABLE_EACH(&p->series, at)
		series_remove(p, (struct bridge_publish_series *)at);
}

void bridge_publish_expire(struct bridge_publisher *p, uint64_t now_ns, uint64_t age_ns)
{
	BASE_TABLE_EACH(&p->series, at)
		if (now_ns - ((struct bridge_publish_series *)at)->set_ns >= age_ns)
			series_remove(p, (struct bridge_publish_series *)at);
}

size_t bridge_publish_series(const struct bridge_publisher *p)
{
	return p->series.count;
}

struct bridge_publish_counts bridge_publish_counts(const struct bridge_publisher *p)
{
	return *p->counts;
}
