// SPDX-License-Identifier: Apache-2.0
/*
 * row.c - series with labels. A file lists its devices in the same order each time, so the row
 * after the last one found is nearly always the right one. A value that has not changed is not
 * written again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "source/host/internal.h"
#include "source/tcp/cgroup.h"

struct host_group *host_group(struct host *h, struct host_group *g, const struct host_desc *descs,
			      size_t n, const char *const *keys, size_t key_count)
{
	if (g->h)
		return g;
	*g = (struct host_group){.h = h,
				 .after = h->groups,
				 .descs = descs,
				 .n = n,
				 .keys = keys,
				 .key_count = key_count};
	h->groups = g;
	return g;
}

uint64_t host_family(struct host *h, const struct host_desc *d)
{
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = d->name, .help = d->help,
					  .mirror = d->type == HOST_COUNTER);

	switch (d->type) {
	case HOST_COUNTER:
		return sl_counter_f64_family_create(h->publisher, &o).bits;
	case HOST_GAUGE:
		return sl_gauge_f64_family_create(h->publisher, &o).bits;
	case HOST_UNKNOWN:
		break;
	}
	return sl_unknown_family_create(h->publisher, &o).bits;
}

union host_handle host_series(enum host_type type, uint64_t family, const struct sl_label *labels,
			      size_t n)
{
	union host_handle u = {.bits = 0};

	switch (type) {
	case HOST_COUNTER:
		u.counter = sl_counter_f64_with((struct sl_counter_f64_family){family}, labels, n);
		break;
	case HOST_GAUGE:
		u.gauge = sl_gauge_f64_with((struct sl_gauge_f64_family){family}, labels, n);
		break;
	case HOST_UNKNOWN:
		u.unknown = sl_unknown_with((struct sl_unknown_family){family}, labels, n);
		break;
	}
	return u;
}

void host_set(struct host_cell *c, enum host_type type, double v)
{
	/* Compare bytes, so that NaN equals itself. */
	if (!memcmp(&c->value, &v, sizeof(v)) && c->tried)
		return;
	c->tried = true;
	c->value = v;
	switch (type) {
	case HOST_COUNTER:
		sl_counter_f64_mirror(c->handle.counter, v);
		break;
	case HOST_GAUGE:
		sl_gauge_f64_set(c->handle.gauge, v);
		break;
	case HOST_UNKNOWN:
		sl_unknown_set(c->handle.unknown, v);
		break;
	}
}

static size_t labels_of(const struct host_group *g, const struct host_row *r,
			const struct host_desc *d, struct sl_label *out)
{
	const char *value = r->values;
	size_t n = 0;

	for (size_t i = 0; i < g->key_count; i++) {
		if (*value || !g->skip_empty)
			out[n++] = (struct sl_label){g->keys[i], value};
		value += strlen(value) + 1;
	}
	for (size_t i = 0; i < HOST_LEN(d->key) && d->key[i]; i++)
		out[n++] = (struct sl_label){d->key[i], d->value[i]};
	return n;
}

static void create_series(struct host_group *g, struct host_row *r, size_t i)
{
	struct sl_label labels[HOST_LABELS_MAX + HOST_LEN(g->descs->key)];
	const struct host_desc *d = &g->descs[i];

	if (!g->families)
		g->families = calloc(g->n, sizeof(*g->families));
	if (!g->families) {
		g->h->counts.refused++;
		return;
	}
	if (!g->families[i])
		g->families[i] = host_family(g->h, d);
	r->cells[i].handle = host_series(d->type, g->families[i], labels,
					 labels_of(g, r, d, labels));
	g->h->counts.refused += !r->cells[i].handle.bits;
}

void host_put(struct host_group *g, struct host_row *r, size_t i, double v)
{
	if (!r)
		return;
	if (!r->cells[i].tried)
		create_series(g, r, i);
	host_set(&r->cells[i], g->descs[i].type, v);
}

static void remove_series(struct host_group *g, struct host_row *r, size_t i)
{
	struct sl_label labels[HOST_LABELS_MAX + HOST_LEN(g->descs->key)];
	const struct host_desc *d = &g->descs[i];
	size_t n = labels_of(g, r, d, labels);

	switch (d->type) {
	case HOST_COUNTER:
		sl_counter_f64_remove((struct sl_counter_f64_family){g->families[i]}, labels, n);
		break;
	case HOST_GAUGE:
		sl_gauge_f64_remove((struct sl_gauge_f64_family){g->families[i]}, labels, n);
		break;
	case HOST_UNKNOWN:
		sl_unknown_remove((struct sl_unknown_family){g->families[i]}, labels, n);
		break;
	}
}

void host_unput(struct host_group *g, struct host_row *r, size_t i)
{
	if (r->cells[i].handle.bits)
		remove_series(g, r, i);
	r->cells[i] = (struct host_cell){.tried = false};
}

static void row_free(struct host_row *r)
{
	free(r->raw);
	free(r->values);
	free(r);
}

static void free_row(struct host_group *g, struct host_row *r)
{
	for (size_t i = 0; i < g->n; i++)
		if (r->cells[i].handle.bits)
			remove_series(g, r, i);
	row_free(r);
}

void host_group_free(struct host_group *g)
{
	for (size_t i = 0; i < g->count; i++)
		row_free(g->rows[i]);
	free(g->rows);
	free(g->families);
	g->rows = NULL;
	g->families = NULL;
	g->count = g->room = 0;
}

/* Returns the total size of the values, each followed by a NUL. A NUL inside a value ends it. */
static size_t raw_bytes(const struct host_group *g, const struct host_text *values)
{
	size_t n = 0;

	for (size_t i = 0; i < g->key_count; i++)
		n += host_length(values[i]) + 1;
	return n;
}

/* The pointer of an empty value may be NULL, which memcpy() and memcmp() do not allow. */
static const char *start_of(struct host_text value)
{
	return value.p ? value.p : "";
}

static bool raw_is(const struct host_group *g, const struct host_row *r,
		   const struct host_text *values)
{
	const char *p = r->raw, *end = r->raw + r->raw_bytes;

	for (size_t i = 0; i < g->key_count; i++) {
		size_t n = host_length(values[i]);

		if ((size_t)(end - p) < n + 1 || memcmp(p, start_of(values[i]), n) || p[n])
			return false;
		p += n + 1;
	}
	return p == end;
}

/* Converts the values to publishable labels: valid UTF-8, no control characters, limited length. */
static char *clean_labels(const struct host_group *g, const struct host_text *values)
{
	char *out = malloc(raw_bytes(g, values) + 1), *p = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < g->key_count; i++) {
		tcp_cgroup_text(p, SL_LABEL_VALUE_MAX + 1, start_of(values[i]),
				host_length(values[i]));
		p += strlen(p) + 1;
	}
	return out;
}

static size_t clean_bytes(const struct host_group *g, const char *values)
{
	const char *p = values;

	for (size_t i = 0; i < g->key_count; i++)
		p += strlen(p) + 1;
	return (size_t)(p - values);
}

/*
 * Finds a row by its published labels. Two rows with the same labels would share a series, and
 * removing one row would remove the other's series, too.
 */
static struct host_row *find_clean(const struct host_group *g, const char *values)
{
	size_t n = clean_bytes(g, values);

	for (size_t i = 0; i < g->count; i++)
		if (clean_bytes(g, g->rows[i]->values) == n &&
		    !memcmp(g->rows[i]->values, values, n))
			return g->rows[i];
	return NULL;
}

static struct host_row *row_new(struct host_group *g, const struct host_text *values, char *clean)
{
	struct host_row *r = calloc(1, sizeof(*r) + g->n * sizeof(*r->cells));
	char *p;

	if (!r)
		return NULL;
	r->raw_bytes = raw_bytes(g, values);
	r->raw = p = malloc(r->raw_bytes + 1);
	if (!p) {
		free(r);
		return NULL;
	}
	for (size_t i = 0; i < g->key_count; i++) {
		p = mempcpy(p, start_of(values[i]), host_length(values[i]));
		*p++ = 0;
	}
	r->values = clean;
	return r;
}

static struct host_row *add_row(struct host_group *g, const struct host_text *values)
{
	char *labels = clean_labels(g, values);
	struct host_row *r = labels ? find_clean(g, labels) : NULL;

	if (r) {
		free(labels);
		r->seen = true;
		return r;
	}
	if (labels && g->count < HOST_ROWS_MAX && BASE_GROW(g->rows, g->count, g->room))
		r = row_new(g, values, labels);
	if (!r) {
		free(labels);
		g->h->counts.refused++;
		return NULL;
	}
	r->seen = true;
	g->rows[g->count++] = r;
	g->next = g->count;
	return r;
}

struct host_row *host_row(struct host_group *g, const struct host_text *values)
{
	for (size_t i = 0; i < g->count; i++) {
		size_t at = g->next + i;

		at -= at >= g->count ? g->count : 0;
		if (!raw_is(g, g->rows[at], values))
			continue;
		g->next = at + 1;
		g->rows[at]->seen = true;
		return g->rows[at];
	}
	return add_row(g, values);
}

void host_row_remove(struct host_group *g, struct host_row *r)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->rows[i] == r) {
			free_row(g, r);
			memmove(&g->rows[i], &g->rows[i + 1], (--g->count - i) * sizeof(*g->rows));
			break;
		}
	g->next = 0;
}

void host_group_end(struct host_group *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->count; i++) {
		struct host_row *r = g->rows[i];

		if (!r->seen) {
			free_row(g, r);
			continue;
		}
		r->seen = false;
		g->rows[kept++] = r;
	}
	g->count = kept;
	g->next = 0;
}
