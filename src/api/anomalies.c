// SPDX-License-Identifier: Apache-2.0
/* api_anomalies.c - what analysis found: scores of pods, anomalies, the course of one pod's score. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "api/internal.h"

#define ANOMALIES_MAX 1000u

/* JSON has no infinity: a threshold that is not known yet is null, as a score that does not exist. */
static void put_finite(struct sl_json *j, const char *key, double v)
{
	sl_json_key(j, key);
	if (isfinite(v))
		sl_json_f64(j, v);
	else
		sl_json_null(j);
}

static void blame(struct sl_json *j, const struct sl_blame *b, uint32_t n)
{
	sl_json_kbegin(j, "blame", '[');
	for (uint32_t i = 0; i < n; i++) {
		sl_json_begin(j, '{');
		sl_json_kstring(j, "metric", b[i].metric);
		put_finite(j, "share", b[i].share);
		put_finite(j, "value", b[i].value);
		sl_json_end(j, '}');
	}
	sl_json_end(j, ']');
}

void sl_api_verdict(struct sl_json *j, const struct sl_pod_verdict *v)
{
	sl_json_kbegin(j, "verdict", '{');
	put_finite(j, "score", v->score);
	sl_json_kbool(j, "learning", isinf(v->threshold));
	sl_json_kbool(j, "anomalous", v->anomalous);
	sl_json_kbool(j, "drift", v->drift);
	sl_api_time(j, "time", (uint64_t)v->ns);
	sl_api_time(j, "since", v->anomalous ? (uint64_t)v->begin_ns : 0);
	sl_json_ku64(j, "anomalies", v->anomalies);
	if (!isnan(v->shadow_score)) {
		put_finite(j, "shadow_score", v->shadow_score);
		sl_json_kbool(j, "shadow_anomalous", v->shadow_anomalous);
	}
	blame(j, v->blame, v->anomalous ? v->blames : 0);
	sl_json_end(j, '}');
}

static void hex(struct sl_json *j, const char *key, const uint8_t *bytes, size_t n)
{
	char text[2 * SL_TRACE_ID_BYTES + 1];

	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	sl_json_kstring(j, key, text);
}

static void anomaly(struct sl_json *j, const struct sl_anomaly *a)
{
	sl_json_begin(j, '{');
	sl_json_ku64(j, "id", a->id);
	sl_api_instance(j, a->instance);
	sl_json_kstring(j, "pod", a->name.pod);
	sl_json_kstring(j, "service", a->name.service);
	sl_json_kstring(j, "namespace", a->name.kube_namespace);
	sl_json_kstring(j, "host", a->name.host);
	sl_json_ktime(j, "begin", a->begin_ns);
	sl_json_ktime(j, "last", a->last_ns);
	sl_api_time(j, "end", (uint64_t)a->end_ns);
	sl_json_kbool(j, "unread", a->unread);
	sl_json_ku64(j, "findings", a->findings);
	put_finite(j, "peak", a->peak);
	blame(j, a->blame, a->blames);
	if (a->has_trace)
		hex(j, "trace", a->trace, SL_TRACE_ID_BYTES);
	sl_json_end(j, '}');
}

static void analysis(struct sl_json *j, const struct sl_analysis_view *view)
{
	struct sl_verdicts_stats s;

	sl_verdicts_stats(view->verdicts, &s);
	sl_json_begin(j, '{');
	sl_json_kstring(j, "detector", view->detector);
	sl_json_kstring(j, "shadow", view->shadow ? view->shadow : "");
	sl_json_kf64(j, "false_alarms_per_hour", view->false_alarms);
	sl_json_ku64(j, "pods", s.pods);
	sl_json_ku64(j, "learning", view->warming);
	sl_json_ku64(j, "anomalous", s.anomalous);
	sl_json_ku64(j, "drifting", s.drifting);
	sl_json_ku64(j, "anomalies", s.anomalies);
	sl_json_end(j, '}');
}

void sl_api_get_anomalies(struct sl_http_request *req, void *arg)
{
	uint64_t limit = 100, after = 0;
	struct sl_analysis_view view;
	struct sl_anomaly *list;
	struct sl_api_answer *a;
	struct sl_json *j;
	bool truncated = false, there;
	size_t n;

	if (!sl_api_param_u64(req, "limit", 0, ANOMALIES_MAX, &limit) ||
	    !sl_api_param_u64(req, "after", 0, UINT64_MAX, &after))
		return;
	there = sl_collector_analysis(arg, &view);
	list = malloc((limit + 1) * sizeof(*list));
	if (!list) {
		sl_http_reply_error(req, 503, "out of memory");
		return;
	}
	a = sl_api_answer(req);
	if (!a)
		goto out;
	n = there ? sl_verdicts_anomalies(view.verdicts, after, list, limit) : 0;
	j = &a->json;
	sl_json_begin(j, '{');
	sl_json_ktime(j, "time", (int64_t)sl_realtime_ns());
	sl_json_key(j, "analysis");
	if (there)
		analysis(j, &view);
	else
		sl_json_null(j);
	sl_json_kbegin(j, "anomalies", '[');
	for (size_t i = 0; i < n && !truncated; i++) {
		struct sl_json_mark mark = sl_json_mark(j);

		anomaly(j, &list[i]);
		truncated = !sl_api_fits(j, mark);
	}
	sl_json_end(j, ']');
	sl_json_kbool(j, "truncated", truncated);
	sl_json_end(j, '}');
	sl_api_send(req, a);
out:
	free(list);
}

struct course {
	int64_t ns[SL_SCORES_KEPT];
	float score[SL_SCORES_KEPT], threshold[SL_SCORES_KEPT];
};

void sl_api_get_scores(struct sl_http_request *req, void *arg)
{
	const char *text = sl_http_query(req, "instance");
	struct sl_analysis_view view;
	struct sl_pod_verdict pod;
	struct sl_api_answer *a;
	struct course *course;
	struct sl_json *j;
	uint64_t instance;
	size_t n;

	if (!text || sl_instance_parse(text, strlen(text), &instance)) {
		sl_http_reply_error(req, 400,
				    "instance=%.40s: not an instance as /api/v1/pods"
				    " gives them",
				    text ? text : "");
		return;
	}
	if (!sl_collector_analysis(arg, &view)) {
		sl_http_reply_error(req, 404, "nothing is analysed: start with --analyse");
		return;
	}
	if (!sl_verdicts_pod(view.verdicts, instance, &pod)) {
		sl_http_reply_error(req, 404, "no pod %.40s is analysed", text);
		return;
	}
	course = malloc(sizeof(*course));
	if (!course) {
		sl_http_reply_error(req, 503, "out of memory");
		return;
	}
	a = sl_api_answer(req);
	if (!a)
		goto out;
	n = sl_verdicts_scores(view.verdicts, instance, course->ns, course->score,
			       course->threshold);
	j = &a->json;
	sl_json_begin(j, '{');
	sl_json_ktime(j, "time", (int64_t)sl_realtime_ns());
	sl_api_instance(j, instance);
	sl_api_verdict(j, &pod);
	sl_json_kbegin(j, "t", '[');
	for (size_t i = 0; i < n; i++)
		sl_json_time(j, course->ns[i]);
	sl_json_end(j, ']');
	sl_json_kbegin(j, "score", '[');
	for (size_t i = 0; i < n; i++)
		sl_json_f64(j, (double)course->score[i]);
	sl_json_end(j, ']');
	sl_json_kbegin(j, "threshold", '[');
	for (size_t i = 0; i < n; i++) {
		if (isfinite(course->threshold[i]))
			sl_json_f64(j, (double)course->threshold[i]);
		else
			sl_json_null(j);
	}
	sl_json_end(j, ']');
	sl_json_end(j, '}');
	sl_api_send(req, a);
out:
	free(course);
}
