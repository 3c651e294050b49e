// SPDX-License-Identifier: Apache-2.0
/* remote_series.c - series in the format of Prometheus' protocols: labels sorted, as protobuf. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "export/pb.h"
#include "export/remote_v2.h"
#include "export/remote_write.h"
#include "export/render.h"

#define LABELS_MAX 128u

static size_t label_message(const struct export_label *l)
{
	return export_label_field(strlen(l->name)) +
	       export_label_field(strlen(l->value) + strlen(l->more));
}

static uint8_t *put_label(uint8_t *p, const struct export_label *l)
{
	size_t value = strlen(l->value), more = strlen(l->more);

	p = export_pb_head(p, 1, label_message(l));
	p = export_pb_string(p, 1, l->name);
	p = export_pb_head(p, 2, value + more);
	p = (uint8_t *)mempcpy(p, l->value, value);
	return (uint8_t *)mempcpy(p, l->more, more);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct export_label *)a)->name,
		      ((const struct export_label *)b)->name);
}

size_t export_labels_bytes(const struct export_label *l, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += export_label_field(label_message(&l[i]));
	return bytes;
}

uint8_t *export_labels_put(uint8_t *p, const struct export_label *l, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p = put_label(p, &l[i]);
	return p;
}

/*
 * Creates a series with its labels in order. Unless longer is NULL, the labels follow once more
 * with the longer form of the name.
 */
static struct export_remote_series *series_of(struct export_label *l, size_t n, const char *longer)
{
	struct export_remote_series *s;
	size_t bytes, more = 0;
	struct export_label *name;
	uint8_t *p;

	qsort(l, n, sizeof(*l), by_name);
	for (name = l; strcmp(name->name, "__name__");)
		name++;
	bytes = export_labels_bytes(l, n);
	if (longer)
		more = bytes + export_label_field(label_message(
				       &(struct export_label){name->name, longer, name->more}));
	s = malloc(sizeof(*s) + bytes + more);
	if (!s)
		return NULL;
	*s = (struct export_remote_series){
		.last_ms = INT64_MIN,
		.exemplar_ms = INT64_MIN,
		.label_bytes = (uint32_t)bytes,
	};
	p = export_labels_put(s->labels, l, n);
	if (longer) {
		name->value = longer;
		s->longer_bytes = (uint32_t)(export_labels_put(p, l, n) - p);
	}
	return s;
}

struct export_remote_series *export_remote_series_new(const char *name, const char *suffix,
						      const struct region_text_label *labels,
						      size_t count, bool utf8)
{
	struct export_label sorted[LABELS_MAX] = {{"__name__", name, suffix}};
	const char *key[LABELS_MAX];
	char *keys = NULL, *shorter = NULL, *longer = NULL;
	struct export_remote_series *s = NULL;
	bool plain = true;
	size_t n = 1;

	for (size_t i = 0; i < count && n < LABELS_MAX; i++) {
		if (!*labels[i].value)
			continue;
		sorted[n++] = (struct export_label){labels[i].key, labels[i].value, ""};
		plain = plain && export_is_plain(labels[i].key, false);
	}
	if (!plain && !utf8) {
		for (size_t i = 1; i < n; i++)
			key[i - 1] = sorted[i].name;
		keys = export_distinct_keys(key, n - 1, sorted[0].name, n, false);
		if (!keys)
			return NULL;
		for (size_t i = 1; i < n; i++)
			sorted[i].name = key[i - 1];
	}
	if (!utf8 && !export_is_plain(name, true)) {
		shorter = malloc(2 * EXPORT_ESCAPED(strlen(name)));
		if (!shorter)
			goto out;
		longer = export_underscores(shorter, name, true) + 1;
		export_hex_name(longer, name);
		sorted[0].value = shorter;
	}
	s = series_of(sorted, n, longer);
out:
	free(shorter);
	free(keys);
	return s;
}

int export_remote_series_compare(const struct export_remote_series *a,
				 const struct export_remote_series *b)
{
	size_t least = BASE_MIN(a->label_bytes, b->label_bytes);
	int d = memcmp(a->labels, b->labels, least);

	return d ? d : (a->label_bytes > b->label_bytes) - (a->label_bytes < b->label_bytes);
}

/* Among equal labels, names without a longer form come first. */
static int by_labels(const void *a, const void *b)
{
	const struct export_remote_series *x = *(struct export_remote_series *const *)a;
	const struct export_remote_series *y = *(struct export_remote_series *const *)b;
	int d = export_remote_series_compare(x, y);

	if (!d)
		d = (x->longer_bytes > 0) - (y->longer_bytes > 0);
	return d ? d : (x->order > y->order) - (x->order < y->order);
}

static bool mark_clashes(struct export_remote_series **series, size_t n)
{
	bool any = false;

	qsort(series, n, sizeof(struct export_remote_series *), by_labels);
	for (size_t i = 1; i < n; i++) {
		series[i]->clashes = !export_remote_series_compare(series[i - 1], series[i]);
		any = any || series[i]->clashes;
	}
	return any;
}

void export_remote_series_settle(struct export_remote_series **series, size_t n)
{
	for (size_t i = 0; i < n; i++)
		series[i]->order = (uint32_t)i;
	if (!mark_clashes(series, n))
		return;
	for (size_t i = 0; i < n; i++) {
		struct export_remote_series *s = series[i];

		if (!s->clashes || !s->longer_bytes)
			continue;
		memmove(s->labels, s->labels + s->label_bytes, s->longer_bytes);
		s->label_bytes = s->longer_bytes;
		s->longer_bytes = 0;
	}
	for (size_t i = 0; i < n; i++)
		series[i]->clashes = false;
	mark_clashes(series, n);
}

struct export_remote_series *export_remote_series_copy(const struct export_remote_series *s)
{
	const size_t bytes = sizeof(*s) + s->label_bytes;
	struct export_remote_series *to = malloc(bytes);

	if (!to)
		return NULL;
	memcpy(to, s, bytes);
	to->longer_bytes = 0;
	return to;
}
