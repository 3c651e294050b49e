// SPDX-License-Identifier: Apache-2.0
/* api_pods.c - the pods, and where they stand. */
#include <stdio.h>
#include <string.h>

#include <sidelight/flow.h>

#include "base/base.h"
#include "api/internal.h"

/* ---- pods ------------------------------------------------------------------------------------------ */

struct list_walk {
	struct sl_json *j;
	uint64_t now_ns; /* CLOCK_REALTIME */
	uint64_t offset, limit;
	uint64_t matching, given;
	bool truncated;
	const struct sl_terms *terms;
	const char *state;
	struct sl_verdicts *verdicts; /* NULL: nothing is analysed */
};

static const char *const state_names[] = {"live", "dead", "closed", "stale", "dropped", "retired"};

/* What the kernel tells of is not always of a pod: then whatever else it is called. */
static const char *name_of(const struct sl_region_info *info)
{
	static const char *const keys[] = {"pod", "container", "service", "unit"};
	size_t n = info->kind == SL_REGION_FLOWS ? sizeof(keys) / sizeof(keys[0]) : 1;
	const char *name = "";

	for (size_t i = 0; i < n && !*name; i++)
		name = sl_api_label_of(info, keys[i]);
	return name;
}

static void pod_json(const struct sl_region_view *r, void *arg)
{
	struct list_walk *walk = arg;
	struct sl_json *j = walk->j;
	struct sl_pod_verdict verdict;
	struct sl_json_mark mark;
	const char *state = sl_api_state_name(r);

	if (walk->state && strcmp(walk->state, state))
		return;
	if (sl_api_region_terms(walk->terms, r) != (1u << walk->terms->count) - 1)
		return;
	if (walk->matching++ < walk->offset || walk->given >= walk->limit || walk->truncated)
		return;
	mark = sl_json_mark(j);
	sl_json_begin(j, '{');
	sl_api_instance(j, r->info->instance);
	sl_json_kstring(j, "service", sl_api_label_of(r->info, "service"));
	sl_json_kstring(j, "pod", name_of(r->info));
	sl_json_kstring(j, "unit", sl_api_label_of(r->info, "unit"));
	sl_json_kstring(j, "host", r->hostname ? r->hostname : "");
	sl_json_kstring(j, "target", r->target ? r->target : "");
	sl_api_labels(j, r->info->labels, r->info->label_count);
	sl_json_ku64(j, "pid", r->info->pid);
	/* What the kernel tells of a workload's connections, or what an application publishes. */
	sl_json_kstring(j, "source", r->info->kind == SL_REGION_FLOWS ? "tcp" : "application");
	sl_json_kstring(j, "state", state);
	sl_json_kbool(j, "stale", r->stale);
	sl_api_time(j, "changed", r->changed_ns);
	sl_api_age(j, "changed_seconds", r->changed_ns, walk->now_ns);
	sl_api_time(j, "start", r->info->start_ns);
	sl_api_time(j, "last_read", r->last_read_ns);
	sl_api_age(j, "age_seconds", r->last_read_ns, walk->now_ns);
	sl_json_ku64(j, "metrics", r->metrics);
	sl_json_ku64(j, "series", r->series);
	sl_json_ku64(j, "unsettled", r->unsettled);
	sl_json_ku64(j, "refused", r->refused);
	sl_json_ku64(j, "rounds", r->rounds);
	sl_json_ku64(j, "bytes", r->info->size);
	sl_json_kstring(j, "fault", r->fault ? r->fault : "");
	if (walk->verdicts && sl_verdicts_pod(walk->verdicts, r->info->instance, &verdict))
		sl_api_verdict(j, &verdict);
	sl_json_end(j, '}');
	walk->truncated = !sl_api_fits(j, mark);
	if (!walk->truncated)
		walk->given++;
}

void sl_api_get_pods(struct sl_http_request *req, void *arg)
{
	struct sl_terms terms;
	struct list_walk walk = {
		.now_ns = sl_realtime_ns(),
		.limit = SL_API_LIMIT_DEFAULT,
		.terms = &terms,
		.state = sl_http_query(req, "state"),
	};
	struct sl_analysis_view view;
	struct sl_api_answer *a;
	bool known = false;

	if (!sl_api_param_u64(req, "limit", 0, SL_API_LIMIT_MAX, &walk.limit) ||
	    !sl_api_param_u64(req, "offset", 0, UINT32_MAX, &walk.offset) ||
	    !sl_api_param_terms(req, &terms))
		return;
	if (walk.state && !*walk.state)
		walk.state = NULL;
	for (size_t i = 0; i < sizeof(state_names) / sizeof(*state_names); i++)
		known |= walk.state && !strcmp(walk.state, state_names[i]);
	if (walk.state && !known) {
		sl_http_reply_error(req, 400,
				    "state=%.40s: not one of live, dead, closed, stale, dropped,"
				    " retired",
				    walk.state);
		return;
	}
	if (sl_collector_analysis(arg, &view))
		walk.verdicts = view.verdicts;
	a = sl_api_answer(req);
	if (!a)
		return;
	walk.j = &a->json;
	sl_json_begin(walk.j, '{');
	sl_json_ktime(walk.j, "time", (int64_t)walk.now_ns);
	sl_json_kbegin(walk.j, "pods", '[');
	sl_collector_regions(arg, pod_json, &walk);
	sl_json_end(walk.j, ']');
	sl_json_ku64(walk.j, "matching", walk.matching);
	sl_json_ku64(walk.j, "offset", walk.offset);
	sl_json_kbool(walk.j, "truncated", walk.truncated);
	sl_json_end(walk.j, '}');
	sl_api_send(req, a);
}
