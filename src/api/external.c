// SPDX-License-Identifier: Apache-2.0
/*
 * external.c - scaling signals in Kubernetes' external metrics API, version v1beta1
 * (k8s.io/metrics, pkg/apis/external_metrics). An autoscaler queries the API server, which forwards
 * the request. A workload without a namespace is in "default".
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "act/kubernetes.h"
#include "act/scale.h"
#include "base/base.h"
#include "base/text.h"
#include "api/internal.h"
#include "collect/judge/live.h"

#define GROUP	      "external.metrics.k8s.io"
#define VERSION	      GROUP "/v1beta1"
#define WORKLOADS_MAX 1024u

static const struct {
	const char *name;
	size_t offset;
} metrics[] = {
	{"sidelight_scaling_anomalous_ratio", offsetof(struct act_workload, anomalous_ratio)},
	{"sidelight_scaling_pressure", offsetof(struct act_workload, pressure)},
};
#define METRICS (sizeof(metrics) / sizeof(*metrics))

/* Errors are Status objects of meta/v1. */
__attribute__((format(printf, 4, 5))) static void
reply_status(struct http_request *req, int code, const char *reason, const char *fmt, ...)
{
	char message[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	base_harmless(message);
	http_reply_json(req, code,
			json_pack("{s:s,s:s,s:{},s:s,s:s,s:s,s:i}", "kind", "Status", "apiVersion",
				  "v1", "metadata", "status", "Failure", "message", message,
				  "reason", reason, "code", code));
}

/* Discovery */

/* json_pack() format of an APIGroup's members. */
#define GROUP_FORMAT "s:s,s:[{s:s,s:s}],s:{s:s,s:s}"
#define GROUP_VALUES                                                              \
	"name", GROUP, "versions", "groupVersion", VERSION, "version", "v1beta1", \
		"preferredVersion", "groupVersion", VERSION, "version", "v1beta1"

void api_get_apis(struct http_request *req, void *arg)
{
	(void)arg;
	http_reply_json(req, 200,
			json_pack("{s:s,s:s,s:[{" GROUP_FORMAT "}]}", "kind", "APIGroupList",
				  "apiVersion", "v1", "groups", GROUP_VALUES));
}

void api_get_external_group(struct http_request *req, void *arg)
{
	(void)arg;
	http_reply_json(req, 200,
			json_pack("{s:s,s:s," GROUP_FORMAT "}", "kind", "APIGroup", "apiVersion",
				  "v1", GROUP_VALUES));
}

void api_get_external(struct http_request *req, void *arg)
{
	json_t *resources = json_array();

	(void)arg;
	for (size_t i = 0; i < METRICS; i++)
		json_array_append_new(resources,
				      json_pack("{s:s,s:s,s:b,s:s,s:[s]}", "name", metrics[i].name,
						"singularName", "", "namespaced", 1, "kind",
						"ExternalMetricValueList", "verbs", "get"));
	http_reply_json(req, 200,
			json_pack("{s:s,s:s,s:s,s:o}", "kind", "APIResourceList", "apiVersion",
				  "v1", "groupVersion", VERSION, "resources", resources));
}

/*
 * kube-apiserver merges the OpenAPI documents of its extension servers. If a server has no
 * document, kube-apiserver repeats the request and logs an error each time. The metrics have no
 * types of their own, so this document describes no paths.
 */
void api_get_openapi(struct http_request *req, void *arg)
{
	(void)arg;
	http_reply_json(req, 200,
			json_pack("{s:s,s:{s:s,s:s},s:{}}", "swagger", "2.0", "info", "title",
				  "Sidelight", "version", "v1beta1", "paths"));
}

/* Values */

/* Without a value, an autoscaler leaves the workload unchanged. */
static bool has_value(const struct act_workload *w, size_t metric)
{
	double v;

	memcpy(&v, (const char *)w + metrics[metric].offset, sizeof(v));
	return !isnan(v);
}

static bool names_key(const struct act_selector *s, const char *key)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->need[i].key, key))
			return true;
	return false;
}

static json_t *value_json(const struct act_workload *w, const char *ns, size_t metric)
{
	time_t s = (time_t)(w->ns / 1000000000);
	char quantity[32], time[32];
	struct tm tm;
	double v;

	memcpy(&v, (const char *)w + metrics[metric].offset, sizeof(v));
	act_quantity(v, quantity);
	gmtime_r(&s, &tm);
	strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_pack("{s:s,s:{s:s,s:s,s:s*},s:s,s:s}", "metricName", metrics[metric].name,
			 "metricLabels", "namespace", ns, "service", w->service, "uid",
			 *w->uid ? w->uid : NULL, "timestamp", time, "value", quantity);
}

/* Serves namespaces/NAMESPACE/METRIC. The route's variable is the part after "namespaces/". */
void api_get_external_values(struct http_request *req, void *arg)
{
	const char *path = http_variable(req), *selector_text, *name;
	struct act_selector selector;
	struct collect_analysis_view view;
	struct act_workload *w;
	json_t *items;
	char ns[256];
	size_t metric = 0, n;

	name = strchr(path, '/');
	if (!name || name == path || (size_t)(name - path) >= sizeof(ns) || strchr(name + 1, '/')) {
		reply_status(req, 404, "NotFound",
			     "the server could not find the requested resource");
		return;
	}
	memcpy(ns, path, (size_t)(name - path));
	ns[name++ - path] = '\0';
	while (metric < METRICS && strcmp(metrics[metric].name, name))
		metric++;
	if (metric == METRICS) {
		reply_status(req, 404, "NotFound", "no such metric: %.200s", name);
		return;
	}
	selector_text = http_query(req, "labelSelector");
	if (act_selector_parse(selector_text ? selector_text : "", &selector)) {
		reply_status(req, 400, "BadRequest", "unable to parse labelSelector %.200s",
			     selector_text);
		return;
	}
	if (!collect_collector_analysis(arg, &view)) {
		reply_status(req, 404, "NotFound",
			     "analysis is off: start the collector with --analyse");
		return;
	}
	w = malloc(WORKLOADS_MAX * sizeof(*w));
	if (!w) {
		reply_status(req, 503, "ServiceUnavailable", "out of memory");
		return;
	}
	n = act_scale_workloads(view.scale, w, WORKLOADS_MAX);
	items = json_array();
	for (size_t i = 0; i < BASE_MIN(n, WORKLOADS_MAX); i++) {
		const char *own = *w[i].kube_namespace ? w[i].kube_namespace : "default";
		struct act_selector_label labels[] = {
			{"namespace", own}, {"service", w[i].service}, {"uid", w[i].uid}};
		size_t count = *w[i].uid ? 3 : 2;

		/* An autoscaler adds up all items, so a user's claim must be asked for. */
		if (has_value(&w[i], metric) && !strcmp(own, ns) &&
		    (!*w[i].uid || names_key(&selector, "uid")) &&
		    act_selector_matches(&selector, labels, count))
			json_array_append_new(items, value_json(&w[i], own, metric));
	}
	free(w);
	http_reply_json(req, 200,
			json_pack("{s:s,s:s,s:{},s:o}", "kind", "ExternalMetricValueList",
				  "apiVersion", VERSION, "metadata", "items", items));
}
