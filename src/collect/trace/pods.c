// SPDX-License-Identifier: Apache-2.0
/* trace_pods.c - of the tracer: pods that have spans, and the names that their spans use. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/trace/internal.h"

#define RINGS_MAX 1024u /* whose heads come with one fetch */

_Static_assert(RINGS_MAX *SL_LINE_SIZE <= SL_FETCH_MAX, "the heads are one fetch");

void trace_pod_put(struct trace_pod *p)
{
	if (--p->refs)
		return;
	sl_schema_free(&p->schema);
	free(p->ring);
	free(p->info);
	free(p);
}

/* ---- names ---------------------------------------------------------------------------------------- */

void trace_schema_ask(struct sl_tracer *t, struct trace_pod *p)
{
	struct trace_request *r;

	p->schema_wanted = true;
	if (p->schema_busy || p->gone)
		return;
	r = trace_request_new(t, p, TRACE_WANT_HOT, SL_LINE_SIZE);
	if (!r)
		return;
	p->schema_busy = true;
	p->schema_wanted = false;
	trace_ask(r, p->info->hot);
}

static void schema_next(struct sl_tracer *t, struct trace_pod *p)
{
	uint64_t left = p->schema_used - p->schema.parsed;
	struct trace_request *r;

	r = left ? trace_request_new(t, p, TRACE_WANT_SCHEMA,
				     left < SL_FETCH_MAX ? (uint32_t)left : SL_FETCH_MAX)
		 : NULL;
	p->schema_busy = r != NULL;
	if (r)
		trace_ask(r, p->info->schema + p->schema.parsed);
}

void trace_take_hot(struct sl_tracer *t, struct trace_request *r)
{
	struct trace_pod *p = r->pod;
	struct sl_hot hot;

	p->schema_busy = false;
	if (r->status || sl_hot_parse(r->bytes, p->info, &hot) ||
	    hot.schema_used < p->schema.parsed)
		return; /* whoever misses a name asks again */
	p->schema_used = hot.schema_used;
	schema_next(t, p);
}

void trace_take_schema(struct sl_tracer *t, struct trace_request *r)
{
	struct trace_pod *p = r->pod;
	uint64_t before = p->schema.parsed;

	p->schema_busy = false;
	if (r->status)
		return;
	t->stats.bytes_schema += r->length;
	/* A fault stops it where it is. What is there stays, and what is missing is asked for. */
	(void)sl_schema_append(&p->schema, p->info, r->bytes, r->length);
	if (p->schema.parsed > before)
		schema_next(t, p);
}

const char *trace_name(struct sl_tracer *t, struct trace_pod *p, uint32_t id, uint32_t tries)
{
	const char *s = sl_schema_string(&p->schema, id);

	if (s)
		return s;
	if (tries >= TRACE_TRIES)
		return "?";
	trace_schema_ask(t, p);
	return NULL;
}

/* ---- who is there ----------------------------------------------------------------------------------- */

struct trace_pod *trace_pod_find(const struct sl_tracer *t, uint64_t instance)
{
	struct trace_pod *p = t->by_instance[instance % 1024];

	while (p && p->instance != instance)
		p = p->hash_next;
	return p;
}

/* What a view has ends with the last label: the rest of its text may not be there. */
static void copy_info(struct sl_region_info *to, const struct sl_region_info *from)
{
	char *text = to->label_text;

	memcpy(to, from, offsetof(struct sl_region_info, label_text));
	for (uint32_t i = 0; i < to->label_count; i++) {
		to->labels[i].key = text;
		text = stpcpy(text, from->labels[i].key) + 1;
		to->labels[i].value = text;
		text = stpcpy(text, from->labels[i].value) + 1;
	}
}

static void take_labels(struct trace_pod *p)
{
	const char *who;

	p->service = p->pod = "";
	for (uint32_t i = 0; i < p->info->label_count; i++) {
		struct sl_text_label *l = &p->info->labels[i];

		if (!strcmp(l->key, "service"))
			p->service = l->value;
		else if (!strcmp(l->key, "pod"))
			p->pod = l->value;
	}
	/* Replicas of a service are as fast as each other. */
	who = *p->service ? p->service : p->pod;
	p->key = sl_trace_key(who, strlen(who));
}

static void see_region(const struct sl_region_view *v, void *arg)
{
	struct sl_tracer *t = arg;
	struct trace_pod **bucket = &t->by_instance[v->info->instance % 1024], *p;

	if (!v->info->spans || !v->info->hot || (v->fault && *v->fault))
		return;
	p = trace_pod_find(t, v->info->instance);
	if (p) {
		p->mark = t->tick;
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return; /* next time */
	p->rings = v->info->max_stripes < RINGS_MAX ? v->info->max_stripes : RINGS_MAX;
	p->ring = calloc(p->rings, sizeof(*p->ring));
	p->info = calloc(1, sizeof(*p->info));
	if (!p->ring || !p->info) {
		free(p->ring);
		free(p->info);
		free(p);
		return;
	}
	copy_info(p->info, v->info);
	take_labels(p);
	if (v->info->max_stripes > RINGS_MAX)
		sl_log_limited(SL_WARN, "trace",
			       "spans of threads beyond %u are not read instance=%016llx "
			       "threads=%u; open the publisher with fewer",
			       RINGS_MAX, (unsigned long long)v->info->instance,
			       v->info->max_stripes);
	sl_schema_init(&p->schema);
	p->schema.strings_only = true;
	p->instance = p->info->instance;
	p->mark = t->tick;
	p->refs = 1;
	p->next = t->pods;
	t->pods = p;
	p->hash_next = *bucket;
	*bucket = p;
	t->stats.pods++;
}

static void forget_pods(struct sl_tracer *t)
{
	struct trace_pod **at = &t->pods, **link, *p, *gone = NULL;

	while ((p = *at)) {
		if (p->mark == t->tick) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		link = &t->by_instance[p->instance % 1024];
		while (*link != p)
			link = &(*link)->hash_next;
		*link = p->hash_next;
		p->gone = true;
		p->next = gone;
		gone = p;
		t->stats.pods--;
	}
	/* Their runs can't be fetched any more: a trace that is kept counts them as lost. */
	for (size_t i = 0; gone && i < t->o.index_entries; i++) {
		struct trace_run *r = &t->run[i];

		if (!r->pod || !r->pod->gone)
			continue;
		trace_pod_put(r->pod);
		r->pod = NULL;
	}
	while ((p = gone)) {
		gone = p->next;
		trace_pod_put(p);
	}
}

void trace_pods_look(struct sl_tracer *t)
{
	sl_collector_regions(t->c, see_region, t);
	forget_pods(t);
}
