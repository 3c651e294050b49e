// SPDX-License-Identifier: Apache-2.0
/* anomalies.c - results of analysis: verdicts on pods, anomalies, the scores of one pod over time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"
#include "api/internal.h"

#define ANOMALIES_MAX 1000u

/* JSON has no infinity: a threshold or score that is not known yet is null. */
static void put_finite(struct base_json *j, const char *key, double v)
{
	base_json_key(j, key);
	if (isfinite(v))
		base_json_f64(j, v);
	else
		base_json_null(j);
}

static void blame(struct base_json *j, const struct act_blame *b, uint32_t n)
{
	base_json_kbegin(j, "blame", '[');
	for (uint32_t i = 0; i < n; i++) {
		base_json_begin(j, '{');
		base_json_kstring(j, "metric", b[i].metric);
		put_finite(j, "share", b[i].share);
		put_finite(j, "value", b[i].value);
		base_json_end(j, '}');
	}
	base_json_end(j, ']');
}

void api_verdict(struct base_json *j, const struct act_pod_verdict *v)
{
	base_json_kbegin(j, "verdict", '{');
	put_finite(j, "score", v->score);
	base_json_kbool(j, "learning", isinf(v->threshold));
	base_json_kbool(j, "anomalous", v->anomalous);
	base_json_kbool(j, "drift", v->drift);
	api_time(j, "time", (uint64_t)v->ns);
	api_time(j, "since", v->anomalous ? (uint64_t)v->begin_ns : 0);
	base_json_ku64(j, "anomalies", v->anomalies);
	if (!isnan(v->shadow_score)) {
		put_finite(j, "shadow_score", v->shadow_score);
		base_json_kbool(j, "shadow_anomalous", v->shadow_anomalous);
	}
	blame(j, v->blame, v->anomalous ? v->blames : 0);
	base_json_end(j, '}');
}

static void hex(struct base_json *j, const char *key, const uint8_t *bytes, size_t n)
{
	char text[2 * ACT_TRACE_ID_BYTES + 1];

	base_hex(text, bytes, n);
	base_json_kstring(j, key, text);
}

static void anomaly(struct base_json *j, const struct act_anomaly *a)
{
	base_json_begin(j, '{');
	base_json_ku64(j, "id", a->id);
	api_instance(j, a->instance);
	base_json_kstring(j, "pod", a->name.pod);
	base_json_kstring(j, "service", a->name.service);
	base_json_kstring(j, "namespace", a->name.kube_namespace);
	base_json_kstring(j, "host", a->name.host);
	base_json_ktime(j, "begin", a->begin_ns);
	base_json_ktime(j, "last", a->last_ns);
	api_time(j, "end", (uint64_t)a->end_ns);
	base_json_kbool(j, "unread", a->unread);
	base_json_ku64(j, "findings", a->findings);
	put_finite(j, "peak", a->peak);
	blame(j, a->blame, a->blames);
	if (a->has_trace)
		hex(j, "trace", a->trace, ACT_TRACE_ID_BYTES);
	base_json_end(j, '}');
}

static void analysis(struct base_json *j, const struct collect_analysis_view *view)
{
	struct act_verdicts_stats s;

	act_verdicts_stats(view->verdicts, &s);
	base_json_begin(j, '{');
	base_json_kstring(j, "detector", view->detector);
	base_json_kstring(j, "shadow", view->shadow ? view->shadow : "");
	base_json_kf64(j, "false_alarms_per_hour", view->false_alarms);
	base_json_ku64(j, "pods", s.pods);
	base_json_ku64(j, "learning", view->warming);
	base_json_ku64(j, "anomalous", s.anomalous);
	base_json_ku64(j, "drifting", s.drifting);
	base_json_ku64(j, "anomalies", s.anomalies);
	base_json_end(j, '}');
}

void api_get_anomalies(struct http_request *req, void *arg)
{
	uint64_t limit = 100, after = 0;
	struct collect_analysis_view view;
	struct act_anomaly *list;
	struct api_answer *a;
	struct base_json *j;
	bool truncated = false, there;
	size_t n;

	if (!api_param_u64(req, "limit", 0, ANOMALIES_MAX, &limit) ||
	    !api_param_u64(req, "after", 0, UINT64_MAX, &after))
		return;
	there = collect_collector_analysis(arg, &view);
	list = malloc((limit + 1) * sizeof(*list));
	if (!list) {
		http_reply_error(req, 503, "out of memory");
		return;
	}
	a = api_answer_begin(req);
	if (!a)
		goto out;
	n = there ? act_verdicts_anomalies(view.verdicts, after, list, limit) : 0;
	j = &a->json;
	base_json_key(j, "analysis");
	if (there)
		analysis(j, &view);
	else
		base_json_null(j);
	base_json_kbegin(j, "anomalies", '[');
	for (size_t i = 0; i < n && !truncated; i++) {
		struct base_json_mark mark = base_json_mark(j);

		anomaly(j, &list[i]);
		truncated = !api_fits(j, mark);
	}
	base_json_end(j, ']');
	base_json_kbool(j, "truncated", truncated);
	api_answer_end(req, a);
out:
	free(list);
}

struct api_anomalies_course {
	int64_t ns[ACT_SCORES_KEPT];
	float score[ACT_SCORES_KEPT], threshold[ACT_SCORES_KEPT];
};

void api_get_scores(struct http_request *req, void *arg)
{
	const char *text = http_query(req, "instance");
	struct collect_analysis_view view;
	struct act_pod_verdict pod;
	struct api_answer *a;
	struct api_anomalies_course *course;
	struct base_json *j;
	uint64_t instance;
	size_t n;

	if (!text || collect_instance_parse(text, strlen(text), &instance)) {
		http_reply_error(req, 400, "instance=%.40s: not an instance of /api/v1/pods",
				 text ? text : "");
		return;
	}
	if (!collect_collector_analysis(arg, &view)) {
		http_reply_error(req, 404, "no analysis: start with --analyse");
		return;
	}
	if (!act_verdicts_pod(view.verdicts, instance, &pod)) {
		http_reply_error(req, 404, "pod not analysed: %.40s", text);
		return;
	}
	course = malloc(sizeof(*course));
	if (!course) {
		http_reply_error(req, 503, "out of memory");
		return;
	}
	a = api_answer_begin(req);
	if (!a)
		goto out;
	n = act_verdicts_scores(view.verdicts, instance, course->ns, course->score,
				course->threshold);
	j = &a->json;
	api_instance(j, instance);
	api_verdict(j, &pod);
	base_json_kbegin(j, "t", '[');
	for (size_t i = 0; i < n; i++)
		base_json_time(j, course->ns[i]);
	base_json_end(j, ']');
	base_json_kbegin(j, "score", '[');
	for (size_t i = 0; i < n; i++)
		base_json_f64(j, (double)course->score[i]);
	base_json_end(j, ']');
	base_json_kbegin(j, "threshold", '[');
	for (size_t i = 0; i < n; i++) {
		if (isfinite(course->threshold[i]))
			base_json_f64(j, (double)course->threshold[i]);
		else
			base_json_null(j);
	}
	base_json_end(j, ']');
	api_answer_end(req, a);
out:
	free(course);
}
