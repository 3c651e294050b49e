// SPDX-License-Identifier: Apache-2.0
/*
 * external.c - scaling signals in Kubernetes' external metrics API, version v1beta1
 * (k8s.io/metrics, pkg/apis/external_metrics). An autoscaler queries the API server, which forwards
 * the request. A workload without a namespace is in "default".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "act/kubernetes.h"
#include "act/scale.h"
#include "base/base.h"
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
static void reply_status(struct http_request *req, int code, const char *reason,
			 const char *message)
{
	struct base_json j;

	base_json_init(&j, 4096);
	base_json_begin(&j, '{');
	base_put(&j, KV("kind", "Status"), KV("apiVersion", "v1"));
	base_json_kbegin(&j, "metadata", '{');
	base_json_end(&j, '}');
	base_put(&j, KV("status", "Failure"), KV("message", message), KV("reason", reason),
		 KV("code", (uint64_t)code));
	base_json_end(&j, '}');
	if (j.overflow)
		http_reply(req, 500, "application/json", "{}", 2);
	else
		http_reply(req, code, "application/json", j.buf, j.len);
	base_json_free(&j);
}

/* Discovery */

/* Begins a response object of this kind. */
static void begin_object(struct base_json *j, size_t max, const char *kind, const char *version)
{
	base_json_init(j, max);
	base_json_begin(j, '{');
	base_put(j, KV("kind", kind), KV("apiVersion", version));
}

static void end_object(struct http_request *req, struct base_json *j)
{
	base_json_end(j, '}');
	if (j->overflow)
		reply_status(req, 503, "ServiceUnavailable", "the response is too large");
	else
		http_reply(req, 200, "application/json", j->buf, j->len);
	base_json_free(j);
}

static void put_group(struct base_json *j)
{
	base_put(j, KV("name", GROUP));
	base_json_kbegin(j, "versions", '[');
	base_put_object(j, NULL, KV("groupVersion", VERSION), KV("version", "v1beta1"));
	base_json_end(j, ']');
	base_put_object(j, "preferredVersion", KV("groupVersion", VERSION),
			KV("version", "v1beta1"));
}

void api_get_apis(struct http_request *req, void *arg)
{
	struct base_json j;

	(void)arg;
	begin_object(&j, 4096, "APIGroupList", "v1");
	base_json_kbegin(&j, "groups", '[');
	base_json_begin(&j, '{');
	put_group(&j);
	base_json_end(&j, '}');
	base_json_end(&j, ']');
	end_object(req, &j);
}

void api_get_external_group(struct http_request *req, void *arg)
{
	struct base_json j;

	(void)arg;
	begin_object(&j, 4096, "APIGroup", "v1");
	put_group(&j);
	end_object(req, &j);
}

void api_get_external(struct http_request *req, void *arg)
{
	struct base_json j;

	(void)arg;
	begin_object(&j, 4096, "APIResourceList", "v1");
	base_put(&j, KV("groupVersion", VERSION));
	base_json_kbegin(&j, "resources", '[');
	for (size_t i = 0; i < METRICS; i++) {
		base_json_begin(&j, '{');
		base_put(&j, KV("name", metrics[i].name), KV("singularName", ""),
			 KV_BOOL("namespaced", true), KV("kind", "ExternalMetricValueList"));
		base_json_kbegin(&j, "verbs", '[');
		base_json_string(&j, "get");
		base_json_end(&j, ']');
		base_json_end(&j, '}');
	}
	base_json_end(&j, ']');
	end_object(req, &j);
}

/*
 * kube-apiserver merges the OpenAPI documents of its extension servers. If a server has no
 * document, kube-apiserver repeats the request and logs an error each time. The metrics have no
 * types of their own, so this document describes no paths.
 */
void api_get_openapi(struct http_request *req, void *arg)
{
	struct base_json j;

	(void)arg;
	base_json_init(&j, 4096);
	base_json_begin(&j, '{');
	base_put(&j, KV("swagger", "2.0"));
	base_put_object(&j, "info", KV("title", "Sidelight"), KV("version", "v1beta1"));
	base_json_kbegin(&j, "paths", '{');
	base_json_end(&j, '}');
	end_object(req, &j);
}

/* Values */

/* Without a value, an autoscaler leaves the workload unchanged. */
static bool has_value(const struct act_workload *w, size_t metric)
{
	double v;

	memcpy(&v, (const char *)w + metrics[metric].offset, sizeof(v));
	return !isnan(v);
}

static void put_value(struct base_json *j, const struct act_workload *w, const char *ns,
		      size_t metric)
{
	time_t s = (time_t)(w->ns / 1000000000);
	char quantity[32], time[32];
	struct tm tm;
	double v;

	memcpy(&v, (const char *)w + metrics[metric].offset, sizeof(v));
	act_quantity(v, quantity);
	gmtime_r(&s, &tm);
	strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm);
	base_json_begin(j, '{');
	base_put(j, KV("metricName", metrics[metric].name));
	base_put_object(j, "metricLabels", KV("namespace", ns), KV("service", w->service));
	base_put(j, KV("timestamp", time), KV("value", quantity));
	base_json_end(j, '}');
}

/* Serves namespaces/NAMESPACE/METRIC. The route's variable is the part after "namespaces/". */
void api_get_external_values(struct http_request *req, void *arg)
{
	const char *path = http_variable(req), *selector_text, *name;
	struct act_selector selector;
	struct collect_analysis_view view;
	struct act_workload *w;
	struct base_json j;
	char ns[256], message[400];
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
		snprintf(message, sizeof(message), "no such metric: %.200s", name);
		reply_status(req, 404, "NotFound", message);
		return;
	}
	selector_text = http_query(req, "labelSelector");
	if (act_selector_parse(selector_text ? selector_text : "", &selector)) {
		snprintf(message, sizeof(message), "unable to parse labelSelector %.200s",
			 selector_text);
		reply_status(req, 400, "BadRequest", message);
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
	begin_object(&j, (size_t)1 << 20, "ExternalMetricValueList", VERSION);
	base_json_kbegin(&j, "metadata", '{');
	base_json_end(&j, '}');
	base_json_kbegin(&j, "items", '[');
	for (size_t i = 0; i < BASE_MIN(n, WORKLOADS_MAX); i++) {
		const char *own = *w[i].kube_namespace ? w[i].kube_namespace : "default";
		struct act_selector_label labels[] = {{"namespace", own},
						      {"service", w[i].service}};

		if (has_value(&w[i], metric) && !strcmp(own, ns) &&
		    act_selector_matches(&selector, labels, 2))
			put_value(&j, &w[i], own, metric);
	}
	base_json_end(&j, ']');
	free(w);
	end_object(req, &j);
}
