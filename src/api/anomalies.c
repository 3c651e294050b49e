// SPDX-License-Identifier: Apache-2.0
/*
 * anomalies.c - results of the analysis: verdicts on pods, anomalies, incidents, and a pod's scores
 * over time.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "api/api.h"
#include "act/explain.h"
#include "api/internal.h"
#include "collect/judge/live.h"

#define ANOMALIES_MAX 1000u
#define INCIDENTS_MAX 256u

static void put_blame(struct base_json *j, const struct act_blame *b, uint32_t n)
{
	base_json_kbegin(j, "blame", '[');
	/* JSON has no infinity: an unknown threshold or score becomes null. */
	for (uint32_t i = 0; i < n; i++) {
		base_json_begin(j, '{');
		base_put(j, KV("metric", b[i].metric), KV_FINITE("share", b[i].share),
			 KV_FINITE("value", b[i].value), KV_FINITE("before", b[i].before));
		if (b[i].siblings)
			base_put(j, KV("siblings", b[i].siblings));
		if (b[i].grows)
			base_put(j, KV("grows", b[i].grows));
		base_json_end(j, '}');
	}
	base_json_end(j, ']');
}

static void put_verdict(struct base_json *j, const struct act_pod_verdict *v)
{
	const enum act_state state = isinf(v->threshold) ? ACT_LEARNING : v->state;

	base_json_kbegin(j, "verdict", '{');
	base_put(j, KV_FINITE("score", v->score), KV_BOOL("learning", state == ACT_LEARNING),
		 KV("state", act_state_names[state]),
		 KV_FINITE("least_latency_factor", v->least > 0 ? v->least : INFINITY),
		 KV("anomalous", v->anomalous), KV("drift", v->drift),
		 KV_TIME("time", (uint64_t)v->ns),
		 KV_TIME("since", v->anomalous ? (uint64_t)v->begin_ns : 0),
		 KV("anomalies", v->anomalies));
	if (!isnan(v->shadow_score))
		base_put(j, KV_FINITE("shadow_score", v->shadow_score),
			 KV("shadow_anomalous", v->shadow_anomalous));
	put_blame(j, v->blame, v->anomalous ? v->blames : 0);
	base_json_end(j, '}');
}

static void put_trace(struct base_json *j, const uint8_t id[ACT_TRACE_ID_BYTES])
{
	char trace[2 * ACT_TRACE_ID_BYTES + 1];

	base_hex(trace, id, ACT_TRACE_ID_BYTES);
	base_put(j, KV("trace", trace));
}

void api_anomaly(struct base_json *j, const struct act_anomaly *a)
{
	char event[ACT_EVENT_ID_BYTES], text[ACT_EXPLANATION_BYTES];

	act_anomaly_event_id(a, event);
	base_put(j, KV("id", a->id), KV("event_id", event), KV_ID("instance", a->instance),
		 KV("pod", a->name.pod), KV("service", a->name.service),
		 KV("namespace", a->name.kube_namespace), KV("host", a->name.host),
		 KV("container", a->name.container), KV("pid", a->name.process),
		 KV_TIME("begin", a->begin_ns), KV_TIME("last", a->last_ns),
		 KV_TIME("end", a->end_ns), KV("unread", a->unread), KV("findings", a->findings),
		 KV_BOOL("from_start", a->born_ns != 0), KV_FINITE("peak", a->peak),
		 KV_FINITE("suspicion", a->suspicion),
		 KV("explanation", act_explain(text, sizeof(text), a)));
	put_blame(j, a->blame, a->blames);
	if (a->has_trace)
		put_trace(j, a->trace);
}

static bool verdict_of(void *collector, uint64_t instance, struct act_pod_verdict *verdict)
{
	struct collect_analysis_view view;

	return collect_collector_analysis(collector, &view) &&
	       act_verdicts_pod(view.verdicts, instance, verdict);
}

void api_pod_verdict(struct base_json *j, void *collector, uint64_t instance)
{
	struct act_pod_verdict verdict;

	if (verdict_of(collector, instance, &verdict))
		put_verdict(j, &verdict);
}

bool api_pod_anomalous(void *collector, uint64_t instance)
{
	struct act_pod_verdict verdict;

	return verdict_of(collector, instance, &verdict) && verdict.anomalous;
}

void api_incidents(void *collector, bool (*fn)(const struct act_incident *i, void *arg), void *arg)
{
	struct collect_analysis_view view;

	if (collect_collector_analysis(collector, &view))
		act_incidents_each(view.incidents, 0, fn, arg);
}

/* Writes and returns the view of the analysis, or null and false if it is off. */
static bool put_analysis(struct base_json *j, struct collect_collector *c,
			 struct collect_analysis_view *view)
{
	struct act_verdicts_stats s;

	if (!collect_collector_analysis(c, view)) {
		base_json_knull(j, "analysis");
		return false;
	}
	act_verdicts_stats(view->verdicts, &s);
	base_put_object(j, "analysis", KV("detector", view->detector),
			KV("shadow", view->shadow ? view->shadow : ""),
			KV("false_alarms_per_hour", view->false_alarms), KV("pods", s.pods),
			KV("learning", view->warming), KV("anomalous", s.anomalous),
			KV("drifting", s.drifting), KV("anomalies", s.anomalies));
	return true;
}

static void put_incident_of(struct base_json *j, struct act_incidents *incidents,
			    const struct act_anomaly *a)
{
	char id[ACT_EVENT_ID_BYTES];

	if (act_incidents_id(incidents, a, id))
		base_put(j, KV("incident", id));
	else
		base_json_knull(j, "incident");
}

static void get_anomalies(struct http_request *req, void *arg)
{
	struct api_list l = {.limit = 100};
	struct collect_analysis_view view;
	struct act_anomaly *found;
	uint64_t after = 0;
	size_t n = 0;

	if (!api_params_once(req) || !api_param_u64(req, "limit", 0, ANOMALIES_MAX, &l.limit) ||
	    !api_param_u64(req, "after", 0, UINT64_MAX, &after))
		return;
	found = api_alloc(req, (l.limit + 1) * sizeof(*found));
	if (!found)
		return;
	l.j = api_answer_begin(req);
	if (!l.j)
		goto out;
	if (put_analysis(l.j, arg, &view))
		n = act_verdicts_anomalies(view.verdicts, after, found, l.limit);
	base_json_kbegin(l.j, "anomalies", '[');
	for (size_t i = 0; i < n && api_item(&l); i++) {
		api_anomaly(l.j, &found[i]);
		put_incident_of(l.j, view.incidents, &found[i]);
		api_item_end(&l);
	}
	base_json_end(l.j, ']');
	base_put(l.j, KV("truncated", l.truncated));
	api_answer_end(req, l.j);
out:
	free(found);
}

static void put_member(struct base_json *j, const struct act_member *m)
{
	base_put_object(j, NULL, KV("anomaly", m->anomaly), KV("anomalies", m->anomalies),
			KV_ID("instance", m->instance), KV("pod", m->name.pod),
			KV("service", m->name.service), KV("namespace", m->name.kube_namespace),
			KV("host", m->name.host), KV("container", m->name.container),
			KV("pid", m->name.process), KV_TIME("begin", m->begin_ns),
			KV_TIME("last", m->last_ns), KV_TIME("end", m->end_ns),
			KV_FINITE("peak", m->peak), KV_FINITE("suspicion", m->suspicion));
}

static const char *const incident_states[] = {"open", "ended"};

static void put_incident(struct base_json *j, const struct act_incident *i)
{
	base_put(j, KV("number", i->number), KV("id", i->id),
		 KV("kind", act_incident_kinds[i->kind]),
		 KV("state", incident_states[i->end_ns != 0]), KV_TIME("begin", i->begin_ns),
		 KV_TIME("last", i->last_ns), KV_TIME("end", i->end_ns),
		 KV("sentence", i->sentence), KV_FINITE("load", i->load > 0 ? i->load : INFINITY),
		 KV("part_of", i->joined));
	base_json_kbegin(j, "cause", '{');
	api_anomaly(j, &i->cause);
	base_json_end(j, '}');
	base_json_kbegin(j, "members", '[');
	for (uint32_t k = 0; k < i->members; k++)
		put_member(j, &i->member[k]);
	base_json_end(j, ']');
	base_put(j, KV("members_left_out", i->left_out));
	if (i->has_trace)
		put_trace(j, i->trace);
}

struct api_anomalies_listed {
	struct api_list list;
	int state; /* index in incident_states; -1 means both */
};

static bool put_listed(const struct act_incident *i, void *arg)
{
	struct api_anomalies_listed *to = arg;

	if (to->state >= 0 && to->state != (i->end_ns != 0))
		return true;
	if (!api_item(&to->list))
		return false;
	put_incident(to->list.j, i);
	api_item_end(&to->list);
	return true;
}

static void get_incidents(struct http_request *req, void *arg)
{
	struct api_anomalies_listed to = {.list.limit = 50, .state = -1};
	struct api_list *l = &to.list;
	struct collect_analysis_view view;
	uint64_t after = 0;
	bool is;

	if (!api_params_once(req) || !api_param_u64(req, "limit", 0, INCIDENTS_MAX, &l->limit) ||
	    !api_param_u64(req, "after", 0, UINT64_MAX, &after) ||
	    !api_param_choice(req, "state", incident_states, 2, &to.state))
		return;
	l->j = api_answer_begin(req);
	if (!l->j)
		return;
	is = put_analysis(l->j, arg, &view);
	base_json_kbegin(l->j, "incidents", '[');
	if (is)
		act_incidents_each(view.incidents, after, put_listed, &to);
	base_json_end(l->j, ']');
	base_put(l->j, KV("truncated", l->truncated));
	api_answer_end(req, l->j);
}

struct api_anomalies_accepted {
	const char *id;
	bool found;
	uint32_t n;
	uint64_t instance[ACT_MEMBERS]; /* members whose anomaly continues */
};

static bool find_open_members(const struct act_incident *i, void *arg)
{
	struct api_anomalies_accepted *to = arg;

	if (strcmp(i->id, to->id))
		return true;
	to->found = true;
	for (uint32_t k = 0; k < i->members; k++)
		if (!i->member[k].end_ns)
			to->instance[to->n++] = i->member[k].instance;
	return false;
}

/* Declares the present behaviour of an incident's members normal, which ends the incident. */
static void post_accept(struct http_request *req, void *arg)
{
	struct api_anomalies_accepted members = {.id = http_variable(req)};
	struct collect_analysis_view view;
	uint32_t accepted = 0;
	int err = 0;

	if (collect_collector_analysis(arg, &view))
		act_incidents_each(view.incidents, 0, find_open_members, &members);
	if (!members.found) {
		http_reply_error(req, 404, "no such incident");
		return;
	}
	if (!members.n) {
		http_reply_error(req, 409, "this incident has already ended");
		return;
	}
	while (!err && accepted < members.n) {
		err = collect_analysis_accept(view.analysis, members.instance[accepted]);
		accepted += !err;
	}
	if (err)
		http_reply_error(req, 503, "%u of %u pods were accepted: %s", accepted, members.n,
				 strerror(-err));
	else
		http_reply_json(req, 200, json_pack("{s:i}", "accepted", (int)accepted));
}

struct api_anomalies_course {
	int64_t ns[ACT_SCORES_KEPT];
	float score[ACT_SCORES_KEPT], threshold[ACT_SCORES_KEPT];
};

static void get_scores(struct http_request *req, void *arg)
{
	const char *text = http_query(req, "instance");
	struct collect_analysis_view view;
	struct act_pod_verdict pod;
	struct api_anomalies_course *course;
	struct base_json *j;
	uint64_t instance;
	size_t n;

	if (!api_params_once(req))
		return;
	if (!text || collect_instance_parse(text, strlen(text), &instance)) {
		http_reply_error(req, 400,
				 "instance=%.40s: no such instance; /api/v1/pods lists "
				 "them",
				 text ? text : "");
		return;
	}
	if (!collect_collector_analysis(arg, &view)) {
		http_reply_error(req, 404, "analysis is off: start the collector with --analyse");
		return;
	}
	if (!act_verdicts_pod(view.verdicts, instance, &pod)) {
		http_reply_error(req, 404, "the collector does not analyse this pod: %.40s", text);
		return;
	}
	course = api_alloc(req, sizeof(*course));
	if (!course)
		return;
	j = api_answer_begin(req);
	if (!j)
		goto out;
	n = act_verdicts_scores(view.verdicts, instance, course->ns, course->score,
				course->threshold);
	base_put(j, KV_ID("instance", instance));
	put_verdict(j, &pod);
	base_json_kbegin(j, "t", '[');
	for (size_t i = 0; i < n; i++)
		base_json_time(j, course->ns[i]);
	base_json_end(j, ']');
	base_json_kbegin(j, "score", '[');
	for (size_t i = 0; i < n; i++)
		base_json_f64(j, (double)course->score[i]);
	base_json_end(j, ']');
	base_json_kbegin(j, "threshold", '[');
	for (size_t i = 0; i < n; i++)
		if (isfinite(course->threshold[i]))
			base_json_f64(j, (double)course->threshold[i]);
		else
			base_json_null(j);
	base_json_end(j, ']');
	api_answer_end(req, j);
out:
	free(course);
}

int api_analysis(struct http *http, struct collect_collector *c)
{
	/* The external endpoints return errors in the format of Kubernetes, too. */
	static const struct {
		const char *path;
		http_handler handler;
	} routes[] = {
		{"/api/v1/anomalies", get_anomalies},
		{"/api/v1/incidents", get_incidents},
		{"/api/v1/scores", get_scores},
		{"/apis", api_get_apis},
		{"/openapi/v2", api_get_openapi},
		{"/apis/external.metrics.k8s.io", api_get_external_group},
		{"/apis/external.metrics.k8s.io/v1beta1", api_get_external},
		{"/apis/external.metrics.k8s.io/v1beta1/namespaces/{*}", api_get_external_values},
	};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(routes) / sizeof(*routes); i++)
		err = http_route(http, "GET", routes[i].path, HTTP_READER, routes[i].handler, c);
	return err
		       ?: http_route(http, "POST", "/api/v1/incidents/{}/accept", HTTP_ACTOR,
				     post_accept, c);
}
