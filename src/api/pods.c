// SPDX-License-Identifier: Apache-2.0
/* pods.c - the list of pods and their state. */
#include <stdio.h>
#include <string.h>

#include <sidelight/flow.h>

#include "base/base.h"
#include "api/internal.h"

/* ---- pods ---- */

struct api_pods_list_walk {
	struct base_json *j;
	uint64_t now_ns; /* CLOCK_REALTIME */
	uint64_t offset, limit;
	uint64_t matching, given;
	bool truncated;
	const struct collect_terms *terms;
	const char *state;
	struct act_verdicts *verdicts; /* NULL: nothing is analysed */
};

static const char *const state_names[] = {"live", "dead", "closed", "stale", "dropped", "retired"};

/* A workload of kernel tables is not always a pod: then its container, service or unit. */
static const char *name_of(const struct region_info *info)
{
	static const char *const keys[] = {"pod", "container", "service", "unit"};
	size_t n = info->kind == SL_REGION_FLOWS ? sizeof(keys) / sizeof(keys[0]) : 1;
	const char *name = "";

	for (size_t i = 0; i < n && !*name; i++)
		name = api_label_of(info, keys[i]);
	return name;
}

static void pod_json(const struct collect_region_view *r, void *arg)
{
	struct api_pods_list_walk *walk = arg;
	struct base_json *j = walk->j;
	struct act_pod_verdict verdict;
	struct base_json_mark mark;
	const char *state = api_state_name(r);

	if (walk->state && strcmp(walk->state, state))
		return;
	if (api_region_terms(walk->terms, r) != (1u << walk->terms->count) - 1)
		return;
	if (walk->matching++ < walk->offset || walk->given >= walk->limit || walk->truncated)
		return;
	mark = base_json_mark(j);
	base_json_begin(j, '{');
	api_instance(j, r->info->instance);
	base_json_kstring(j, "service", api_label_of(r->info, "service"));
	base_json_kstring(j, "pod", name_of(r->info));
	base_json_kstring(j, "unit", api_label_of(r->info, "unit"));
	base_json_kstring(j, "host", r->hostname ? r->hostname : "");
	base_json_kstring(j, "target", r->target ? r->target : "");
	api_labels(j, r->info->labels, r->info->label_count);
	base_json_ku64(j, "pid", r->info->pid);
	base_json_kstring(j, "source", r->info->kind == SL_REGION_FLOWS ? "tcp" : "application");
	base_json_kstring(j, "state", state);
	base_json_kbool(j, "stale", r->stale);
	api_time(j, "changed", r->changed_ns);
	api_age(j, "changed_seconds", r->changed_ns, walk->now_ns);
	api_time(j, "start", r->info->start_ns);
	api_time(j, "last_read", r->last_read_ns);
	api_age(j, "age_seconds", r->last_read_ns, walk->now_ns);
	base_json_ku64(j, "metrics", r->metrics);
	base_json_ku64(j, "series", r->series);
	base_json_ku64(j, "unsettled", r->unsettled);
	base_json_ku64(j, "refused", r->refused);
	base_json_ku64(j, "rounds", r->rounds);
	base_json_ku64(j, "bytes", r->info->size);
	base_json_kstring(j, "fault", r->fault ? r->fault : "");
	if (walk->verdicts && act_verdicts_pod(walk->verdicts, r->info->instance, &verdict))
		api_verdict(j, &verdict);
	base_json_end(j, '}');
	walk->truncated = !api_fits(j, mark);
	if (!walk->truncated)
		walk->given++;
}

void api_get_pods(struct http_request *req, void *arg)
{
	struct collect_terms terms;
	struct api_pods_list_walk walk = {
		.now_ns = base_realtime_ns(),
		.limit = API_LIMIT_DEFAULT,
		.terms = &terms,
	};
	struct collect_analysis_view view;
	struct api_answer *a;

	if (!api_param_u64(req, "limit", 0, API_LIMIT_MAX, &walk.limit) ||
	    !api_param_u64(req, "offset", 0, UINT32_MAX, &walk.offset) ||
	    !api_param_terms(req, &terms) ||
	    !api_param_choice(req, "state", state_names, sizeof(state_names) / sizeof(*state_names),
			      &walk.state))
		return;
	if (collect_collector_analysis(arg, &view))
		walk.verdicts = view.verdicts;
	a = api_answer_begin(req);
	if (!a)
		return;
	walk.j = &a->json;
	base_json_kbegin(walk.j, "pods", '[');
	collect_collector_regions(arg, pod_json, &walk);
	base_json_end(walk.j, ']');
	base_json_ku64(walk.j, "matching", walk.matching);
	base_json_ku64(walk.j, "offset", walk.offset);
	base_json_kbool(walk.j, "truncated", walk.truncated);
	api_answer_end(req, a);
}
