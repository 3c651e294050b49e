// SPDX-License-Identifier: Apache-2.0
/* pods.c - the list of pods and their state. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "api/internal.h"

struct api_pods_walk {
	struct api_list list;
	uint64_t now_ns; /* CLOCK_REALTIME */
	struct collect_terms terms;
	const char *state;
	void *collector;
};

static const char *const state_names[] = {"live", "dead", "closed", "stale", "dropped", "retired"};

/*
 * Returns a pod's name. For a workload in a kernel table that is not a pod, returns its container,
 * service or unit.
 */
static const char *name_of(const struct region_info *info)
{
	static const char *const keys[] = {"pod", "container", "service", "unit"};
	size_t n = info->kind == SL_REGION_FLOWS ? sizeof(keys) / sizeof(keys[0]) : 1;
	const char *name = "";

	for (size_t i = 0; i < n && !*name; i++)
		name = region_label(info, keys[i]);
	return name;
}

/* Writes nothing if the directory has no tenant information. */
static void tenant_json(struct base_json *j, const struct collect_tenant_view *t)
{
	if (!t->known)
		return;
	base_put_object(
		j, "tenant", KV_ID("key", t->key), KV("uid", (uint32_t)strtoul(t->uid, NULL, 10)),
		KV("container", t->container), KV("pod_uid", t->pod), KV("trusted", t->trusted),
		KV("read_every", t->every), KV("series", t->series), KV("refused", t->refused),
		KV("conflicts", t->conflicts));
}

static void pod_json(const struct collect_region_view *r, void *arg)
{
	struct api_pods_walk *walk = arg;
	struct base_json *j = walk->list.j;
	const struct region_info *info = r->info;
	const char *state = api_state_name(r);

	if ((walk->state && strcmp(walk->state, state)) ||
	    api_region_terms(&walk->terms, r) != (1u << walk->terms.count) - 1 ||
	    !api_item(&walk->list))
		return;
	base_put(j, KV_ID("instance", info->instance), KV("service", region_label(info, "service")),
		 KV("pod", name_of(info)), KV("unit", region_label(info, "unit")),
		 KV("host", r->hostname ? r->hostname : ""),
		 KV("target", r->target ? r->target : ""));
	api_labels(j, info->labels, info->label_count);
	base_put(j, KV("pid", info->pid),
		 KV("source", info->kind == SL_REGION_FLOWS ? "tcp" : "application"),
		 KV("state", state), KV("stale", r->stale), KV_TIME("changed", r->changed_ns),
		 KV_QUANTILE("changed_seconds", api_age(r->changed_ns, walk->now_ns)),
		 KV_TIME("start", info->start_ns), KV_TIME("last_read", r->last_read_ns),
		 KV_QUANTILE("age_seconds", api_age(r->last_read_ns, walk->now_ns)),
		 KV("metrics", r->metrics), KV("series", r->series), KV("unsettled", r->unsettled),
		 KV("refused", r->refused), KV("rounds", r->rounds), KV("bytes", info->size),
		 KV("fault", r->fault ? r->fault : ""), KV("held", r->held ? r->held : ""));
	tenant_json(j, &r->tenant);
	api_pod_verdict(j, walk->collector, info->instance);
	api_item_end(&walk->list);
}

void api_get_pods(struct http_request *req, void *arg)
{
	struct api_pods_walk walk = {.now_ns = base_realtime_ns(), .list.limit = API_LIMIT_DEFAULT};
	struct api_list *l = &walk.list;
	struct api_answer *a;

	if (!api_param_page(req, API_LIMIT_MAX, l) || !api_param_terms(req, &walk.terms) ||
	    !api_param_choice(req, "state", state_names, sizeof(state_names) / sizeof(*state_names),
			      &walk.state))
		return;
	walk.collector = arg;
	a = api_answer_begin(req);
	if (!a)
		return;
	l->j = &a->json;
	API_EACH(l->j, "pods", collect_collector_regions, arg, pod_json, &walk);
	base_put(l->j, KV("matching", l->matching), KV("offset", l->offset),
		 KV("truncated", l->truncated));
	api_answer_end(req, a);
}
