// SPDX-License-Identifier: Apache-2.0
/* target.c - metrics of libsidelight, with one case per kind */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/publish/internal.h"

#define RETRY_NS	30000000000u
#define CREATED_UNKNOWN 1u /* below SL_CREATED_KNOWN_NS */

static const char *copy_text(char **at, const char *s)
{
	char *to = *at;

	*at = stpcpy(to, s) + 1;
	return to;
}

struct collect_publish_target *collect_publish_target_new(const struct collect_publish *p,
							  const struct sl_label *labels, size_t n)
{
	const size_t bounds = p->kind == COLLECT_PUBLISH_HISTOGRAM ? p->words - 2 : 0;
	size_t bytes = sizeof(struct collect_publish_target) + 2 * p->words * sizeof(uint64_t) +
		       bounds * sizeof(double) + n * sizeof(*labels) + strlen(p->name) +
		       strlen(p->family->help) + 2;
	struct collect_publish_target *t;
	char *at;

	for (size_t i = 0; i < n; i++)
		bytes += strlen(labels[i].key) + strlen(labels[i].value) + 2;
	t = calloc(1, bytes);
	if (!t)
		return NULL;
	t->kind = p->kind;
	t->words = p->words;
	t->value = (uint64_t *)(t + 1);
	t->ended = t->value + t->words;
	t->bounds = (double *)(t->ended + t->words);
	if (bounds)
		memcpy(t->bounds, p->from->bounds, bounds * sizeof(double));
	t->labels = (struct sl_label *)(t->bounds + bounds);
	t->label_count = n;
	at = (char *)(t->labels + n);
	t->name = copy_text(&at, p->name);
	t->help = copy_text(&at, p->family->help);
	for (size_t i = 0; i < n; i++) {
		t->labels[i].key = copy_text(&at, labels[i].key);
		t->labels[i].value = copy_text(&at, labels[i].value);
	}
	return t;
}

/* utf8 also makes the metric's record replaceable. */
static struct sl_metric_opts opts_of(const struct collect_publish_target *t)
{
	const bool bounds = t->kind == COLLECT_PUBLISH_HISTOGRAM;

	return SL_OPTS(sl_metric_opts, .name = t->name, .help = t->help, .mirror = true,
		       .utf8 = true, .bounds = t->bounds, .bound_count = bounds ? t->words - 2 : 0);
}

#define CREATE(kind, member, create)                     \
	case COLLECT_PUBLISH_##kind:                     \
		t->of.member = create(p->publisher, &o); \
		return sl_##member##_valid(t->of.member)

static bool create_metric(const struct collect_publish *p, struct collect_publish_target *t)
{
	struct sl_metric_opts o = opts_of(t);

	o.labels = t->labels;
	o.label_count = t->label_count;
	/* A sum begins here; a copied series has the creation time of its origin, if known. */
	o.created_ns = t->sum ? 0 : t->created_ns ?: CREATED_UNKNOWN;
	switch (t->kind) {
		CREATE(COUNTER, counter, sl_counter_create);
		CREATE(COUNTER_F64, counter_f64, sl_counter_f64_create);
		CREATE(HISTOGRAM, histogram, sl_histogram_create_classic);
		CREATE(GAUGE, gauge, sl_gauge_create);
		CREATE(GAUGE_F64, gauge_f64, sl_gauge_f64_create);
	}
	return false;
}

bool collect_publish_target_set(struct collect_publish *p, struct collect_publish_target *t)
{
	const uint64_t *v = t->value;

	if (!t->created && p->now_ns < t->retry_ns)
		return false;
	if (!t->created && !create_metric(p, t)) {
		t->retry_ns = p->now_ns + RETRY_NS;
		return false;
	}
	t->created = true;
	if (t->kind == COLLECT_PUBLISH_COUNTER)
		sl_counter_mirror(t->of.counter, v[0]);
	else if (t->kind == COLLECT_PUBLISH_COUNTER_F64)
		sl_counter_f64_mirror(t->of.counter_f64, region_f64(v[0]));
	else if (t->kind == COLLECT_PUBLISH_HISTOGRAM)
		sl_histogram_mirror(t->of.histogram, v + 1, t->words - 1, region_f64(v[0]));
	else if (t->kind == COLLECT_PUBLISH_GAUGE)
		sl_gauge_set(t->of.gauge, (int64_t)v[0]);
	else
		sl_gauge_f64_set(t->of.gauge_f64, region_f64(v[0]));
	return true;
}

#define REMOVE(kind, member, create)                                                       \
	case COLLECT_PUBLISH_##kind:                                                       \
		sl_##member##_remove(create(p->publisher, &o), t->labels, t->label_count); \
		break

void collect_publish_target_remove(struct collect_publish *p, struct collect_publish_target *t)
{
	const struct sl_metric_opts o = opts_of(t);

	if (!t->created)
		return;
	t->created = false;
	switch (t->kind) {
		REMOVE(COUNTER, counter, sl_counter_family_create);
		REMOVE(COUNTER_F64, counter_f64, sl_counter_f64_family_create);
		REMOVE(HISTOGRAM, histogram, sl_histogram_family_create_classic);
		REMOVE(GAUGE, gauge, sl_gauge_family_create);
		REMOVE(GAUGE_F64, gauge_f64, sl_gauge_f64_family_create);
	}
}
