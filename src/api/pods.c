// SPDX-License-Identifier: Apache-2.0
/* pods.c - the list of pods and their state. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "api/internal.h"

/* A pod's place in the order of "sort=attention". */
struct pod_place {
	uint64_t instance; /* first, for base_by_u64() */
	unsigned int rank;
	uint32_t pid;
	char *name; /* its service, then its own */
	uint64_t position;
};

struct api_pods_walk {
	struct api_list list;
	struct pod_place *place; /* NULL: in the order of the collector */
	size_t places, room;
	uint64_t first; /* position of the first pod on the page */
	bool no_memory;
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

static bool wanted_pod(const struct api_pods_walk *walk, const struct collect_region_view *r)
{
	return (!walk->state || !strcmp(walk->state, api_state_name(r))) &&
	       api_region_terms(&walk->terms, r) == (1u << walk->terms.count) - 1;
}

/* Pods that need attention have a low rank; of those in one state, agents have the highest. */
static unsigned int rank_of(const struct api_pods_walk *walk, const struct collect_region_view *r)
{
	static const char *const order[] = {"dead", "dropped", "stale", "live", "closed"};
	const char *state = api_state_name(r);
	unsigned int i = 0;

	if (!strcmp(state, "live") && api_pod_anomalous(walk->collector, r->info->instance))
		return 0;
	while (i < sizeof(order) / sizeof(*order) && strcmp(state, order[i]))
		i++;
	return 2 * i + 2 + !strcmp(region_label(r->info, "service"), API_AGENT_SERVICE);
}

static void note_pod(const struct collect_region_view *r, void *arg)
{
	struct api_pods_walk *walk = arg;
	char *name;

	if (!wanted_pod(walk, r))
		return;
	if (!BASE_GROW(walk->place, walk->places, walk->room) ||
	    asprintf(&name, "%s\n%s", region_label(r->info, "service"), name_of(r->info)) < 0) {
		walk->no_memory = true;
		return;
	}
	walk->place[walk->places++] = (struct pod_place){
		.instance = r->info->instance,
		.rank = rank_of(walk, r),
		.pid = r->info->pid,
		.name = name,
	};
}

static int by_attention(const void *a, const void *b)
{
	const struct pod_place *x = a, *y = b;
	int names;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	names = strverscmp(x->name, y->name);
	if (names)
		return names;
	return x->pid != y->pid ? (x->pid < y->pid ? -1 : 1) : base_by_u64(a, b);
}

/* Gives each pod its position, and leaves the places in the order of their instances. */
static void find_places(struct api_pods_walk *walk)
{
	collect_collector_regions(walk->collector, note_pod, walk);
	if (!walk->places)
		return;
	qsort(walk->place, walk->places, sizeof(*walk->place), by_attention);
	for (size_t i = 0; i < walk->places; i++)
		walk->place[i].position = i;
	qsort(walk->place, walk->places, sizeof(*walk->place), base_by_u64);
}

static void free_places(struct api_pods_walk *walk)
{
	for (size_t i = 0; i < walk->places; i++)
		free(walk->place[i].name);
	free(walk->place);
}

static void pod_json(const struct collect_region_view *r, void *arg)
{
	struct api_pods_walk *walk = arg;
	struct base_json *j = walk->list.j;
	const struct region_info *info = r->info;
	const char *state = api_state_name(r);
	struct pod_place key = {.instance = info->instance}, *place = NULL;

	if (!wanted_pod(walk, r))
		return;
	if (walk->places) {
		place = bsearch(&key, walk->place, walk->places, sizeof(key), base_by_u64);
		if (!place || place->position < walk->first ||
		    place->position - walk->first >= walk->list.limit)
			return;
	}
	if (!api_item(&walk->list))
		return;
	if (place)
		base_put(j, KV("position", place->position));
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
	static const char *const orders[] = {"attention"};
	struct api_pods_walk walk = {.now_ns = base_realtime_ns(), .list.limit = API_LIMIT_DEFAULT};
	struct api_list *l = &walk.list;
	int order = -1, state = -1;

	if (!api_param_page(req, API_LIMIT_MAX, l) || !api_param_terms(req, &walk.terms) ||
	    !api_param_choice(req, "sort", orders, 1, &order) ||
	    !api_param_choice(req, "state", state_names, sizeof(state_names) / sizeof(*state_names),
			      &state))
		return;
	walk.state = state < 0 ? NULL : state_names[state];
	walk.collector = arg;
	l->j = api_answer_begin(req);
	if (!l->j)
		return;
	walk.first = l->offset;
	if (order >= 0) {
		find_places(&walk);
		l->offset = 0; /* only the pods on the page are items */
	}
	API_EACH(l->j, "pods", collect_collector_regions, arg, pod_json, &walk);
	base_put(l->j, KV("matching", order >= 0 ? walk.places : l->matching),
		 KV("offset", walk.first), KV("truncated", l->truncated));
	if (walk.no_memory) {
		l->j->overflow = true;
		base_log_limited(BASE_ERROR, "api", "out of memory endpoint=pods regions=%zu",
				 walk.places);
	}
	free_places(&walk);
	api_answer_end(req, l->j);
}
