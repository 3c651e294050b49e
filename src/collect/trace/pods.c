// SPDX-License-Identifier: Apache-2.0
/* pods.c - pods with spans, and the names that their spans use */
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "base/base.h"
#include "base/hash.h"
#include "collect/trace/internal.h"

#define RINGS_MAX 1024u

_Static_assert(RINGS_MAX *SL_LINE_SIZE <= COLLECT_FETCH_MAX, "one fetch reads all heads");

/* Returns a reference to the tenant of the region, or NULL if out of memory. */
static struct collect_trace_tenant *tenant_of(struct collect_tracer *t,
					      const struct collect_region_view *v)
{
	uint64_t hash = base_hash(base_hash_text(v->tenant.known, v->target), &v->tenant.key,
				  sizeof(v->tenant.key));
	struct collect_trace_tenant *whose = base_table_first(&t->tenants, hash);

	if (!whose) {
		whose = calloc(1, sizeof(*whose));
		if (!whose)
			return NULL;
		whose->exempt = v->tenant.trusted || !v->tenant.known;
		base_table_add(&t->tenants, whose, hash);
	}
	whose->refs++;
	return whose;
}

static void tenant_put(struct collect_tracer *t, struct collect_trace_tenant *whose)
{
	if (!whose || --whose->refs)
		return;
	base_table_remove(&t->tenants, whose);
	free(whose);
}

void collect_trace_pod_put(struct collect_trace_pod *p)
{
	if (--p->refs)
		return;
	tenant_put(p->t, p->tenant);
	region_schema_free(&p->schema);
	free(p->ring);
	free(p->info);
	free(p);
}

/* ---- names ---- */

void collect_trace_schema_ask(struct collect_tracer *t, struct collect_trace_pod *p)
{
	struct collect_trace_request *r;

	p->schema_wanted = true;
	if (p->schema_busy || p->gone)
		return;
	r = collect_trace_request_new(t, p, collect_trace_take_hot, SL_LINE_SIZE);
	if (!r)
		return;
	p->schema_busy = true;
	p->schema_wanted = false;
	collect_trace_ask(r, p->info->hot);
}

static void schema_next(struct collect_tracer *t, struct collect_trace_pod *p)
{
	uint64_t left = p->schema_used - p->schema.parsed;
	struct collect_trace_request *r;

	left = BASE_MIN(left, COLLECT_FETCH_MAX);
	r = left ? collect_trace_request_new(t, p, collect_trace_take_schema, (uint32_t)left)
		 : NULL;
	p->schema_busy = r != NULL;
	if (r)
		collect_trace_ask(r, p->info->schema + p->schema.parsed);
}

void collect_trace_take_hot(struct collect_tracer *t, struct collect_trace_request *r)
{
	struct collect_trace_pod *p = r->pod;
	struct region_hot hot;

	p->schema_busy = false;
	if (r->status || region_hot_parse(r->bytes, p->info, &hot) ||
	    hot.schema_used < p->schema.parsed)
		return; /* requested again when a name is missing */
	p->schema_used = hot.schema_used;
	schema_next(t, p);
}

void collect_trace_take_schema(struct collect_tracer *t, struct collect_trace_request *r)
{
	struct collect_trace_pod *p = r->pod;
	uint64_t before = p->schema.parsed;

	p->schema_busy = false;
	if (r->status)
		return;
	t->stats.bytes_schema += r->length;
	/* A fault ends parsing. Names parsed before are kept; missing ones are requested again. */
	(void)region_schema_append(&p->schema, p->info, r->bytes, r->length);
	if (p->schema.parsed > before)
		schema_next(t, p);
}

const char *collect_trace_name(struct collect_tracer *t, struct collect_trace_pod *p, uint32_t id,
			       uint32_t tries)
{
	const char *s = region_schema_string(&p->schema, id);

	if (s)
		return s;
	if (tries >= TRACE_TRIES)
		return "?";
	collect_trace_schema_ask(t, p);
	return NULL;
}

/* ---- presence of pods ---- */

struct collect_trace_pod *collect_trace_pod_find(const struct collect_tracer *t, uint64_t instance)
{
	return base_table_first(&t->pods, instance);
}

static void take_labels(struct collect_trace_pod *p)
{
	const char *who;

	p->service = region_label(p->info, "service");
	p->pod = region_label(p->info, "pod");
	/* Replicas of a service share their durations. */
	who = *p->service ? p->service : p->pod;
	p->key = act_trace_key(who, strlen(who));
}

static void see_region(const struct collect_region_view *v, void *arg)
{
	struct collect_tracer *t = arg;
	struct collect_trace_pod *p;

	if (!v->info->spans || !v->info->hot || (v->fault && *v->fault))
		return;
	p = collect_trace_pod_find(t, v->info->instance);
	if (p) {
		p->mark = t->tick;
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return; /* try again in the next period */
	p->rings = BASE_MIN(v->info->max_stripes, RINGS_MAX);
	p->ring = calloc(p->rings, sizeof(*p->ring));
	p->info = collect_region_info_copy(v->info);
	p->t = t;
	p->tenant = tenant_of(t, v);
	p->refs = 1;
	region_schema_init(&p->schema);
	if (!p->ring || !p->info || !p->tenant) {
		collect_trace_pod_put(p);
		return;
	}
	take_labels(p);
	if (!v->tenant.exempt)
		act_name_owner(p->owner, v->tenant.kube_namespace, v->tenant.uid);
	if (v->info->max_stripes > RINGS_MAX)
		base_log_limited(BASE_WARN, "trace",
				 "only the spans of the first %u threads are read "
				 "instance=%016llx threads=%u: open the publisher with fewer span "
				 "threads",
				 RINGS_MAX, (unsigned long long)v->info->instance,
				 v->info->max_stripes);
	p->schema.strings_only = true;
	p->instance = p->info->instance;
	p->mark = t->tick;
	base_table_add(&t->pods, p, p->instance);
}

static void forget_pods(struct collect_tracer *t)
{
	bool gone = false;

	BASE_TABLE_EACH(&t->pods, n) {
		struct collect_trace_pod *p = (struct collect_trace_pod *)n;

		p->gone = p->mark != t->tick;
		gone |= p->gone;
	}
	/* The pod's runs cannot be fetched any more: kept traces count them as lost. */
	for (size_t i = 0; gone && i < TRACE_RUNS; i++) {
		struct collect_trace_run *r = &t->run[i];

		if (!r->pod || !r->pod->gone)
			continue;
		collect_trace_pod_put(r->pod);
		r->pod = NULL;
	}
	BASE_TABLE_EACH(&t->pods, n) {
		struct collect_trace_pod *p = (struct collect_trace_pod *)n;

		if (!p->gone)
			continue;
		base_table_remove(&t->pods, p);
		collect_trace_pod_put(p);
	}
}

void collect_trace_pods_look(struct collect_tracer *t)
{
	collect_collector_regions(t->c, see_region, t);
	forget_pods(t);
}
