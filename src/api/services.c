// SPDX-License-Identifier: Apache-2.0
/* services.c - the list of services; those that need attention come first. */
#include <math.h>
#include <stdlib.h>

#include "act/explain.h"
#include "api/api.h"
#include "api/internal.h"
#include "base/base.h"
#include "collect/services/services.h"

static const char *from_name(enum collect_service_from from)
{
	return from == COLLECT_FROM_KERNEL ? "kernel" : "application";
}

static void red_json(struct base_json *j, const struct collect_service_view *v)
{
	double ratio = v->requests > 0 ? BASE_MIN(v->errors / v->requests, 1.0) : 0;

	if (v->requests_from)
		base_put_object(j, "requests", KV_QUANTILE("per_second", v->requests),
				KV_QUANTILE("errors_per_second", v->errors),
				KV_QUANTILE("error_ratio", isnan(v->errors) ? NAN : ratio),
				KV("from", from_name(v->requests_from)),
				KV("metric", v->requests_metric));
	else
		base_json_knull(j, "requests");
	if (v->latency_from)
		base_put_object(j, "latency", KV_QUANTILE("p50_seconds", v->p50),
				KV_QUANTILE("p99_seconds", v->p99),
				KV("from", from_name(v->latency_from)),
				KV("metric", v->latency_metric));
	else
		base_json_knull(j, "latency");
}

static void saturation_json(struct base_json *j, const struct collect_service_saturation *s)
{
	bool pressed = !isnan(s->pressure[0]) || !isnan(s->pressure[1]) || !isnan(s->pressure[2]);

	if (isnan(s->cores) && isnan(s->bytes) && !pressed) {
		base_json_knull(j, "saturation");
		return;
	}
	base_json_kbegin(j, "saturation", '{');
	base_put(j, KV_QUANTILE("cpu_cores", s->cores), KV_QUANTILE("cpu_ratio", s->cpu_ratio),
		 KV_QUANTILE("memory_bytes", s->bytes),
		 KV_QUANTILE("memory_ratio", s->memory_ratio));
	if (pressed)
		base_put_object(j, "pressure", KV_QUANTILE("cpu", s->pressure[0]),
				KV_QUANTILE("memory", s->pressure[1]),
				KV_QUANTILE("io", s->pressure[2]));
	else
		base_json_knull(j, "pressure");
	base_json_end(j, '}');
}

static void connections_json(struct base_json *j, const struct collect_service_connections *c)
{
	if (!c->known) {
		base_json_knull(j, "connections");
		return;
	}
	base_put_object(
		j, "connections", KV("open", c->open), KV("bytes_per_second", c->bytes),
		KV("retransmits_per_second", c->retransmits), KV_QUANTILE("rtt_seconds", c->rtt),
		KV_QUANTILE("rtt_min_seconds", c->rtt_min),
		KV("limit", *c->why ? region_why_name(c->limit) : ""),
		KV("limit_label", *c->why ? region_why_label(c->limit) : ""), KV("why", c->why));
}

static void anomaly_json(struct base_json *j, const struct collect_service_view *v)
{
	char text[ACT_EXPLANATION_BYTES];

	if (!v->anomaly) {
		base_json_knull(j, "anomaly");
		return;
	}
	base_json_kbegin(j, "anomaly", '{');
	api_anomaly(j, v->anomaly);
	base_put(j, KV("sentence", act_explain(text, sizeof(text), v->anomaly)),
		 KV("culprit", v->culprit));
	base_json_end(j, '}');
}

static void service_json(const struct collect_service_view *v, void *arg)
{
	struct api_list *l = arg;
	struct base_json *j = l->j;

	if (!api_item(l))
		return;
	base_put(j, KV("service", v->service), KV("namespace", v->kube_namespace),
		 KV("pods", v->pods), KV("pods_live", v->live), KV("pods_stale", v->stale),
		 KV("pods_dead", v->dead));
	base_json_kbegin(j, "hosts", '[');
	for (uint32_t i = 0; i < v->hosts; i++)
		base_json_string(j, v->host[i]);
	base_json_end(j, ']');
	base_json_kbegin(j, "instances", '[');
	for (uint32_t i = 0; i < v->instances; i++) {
		char id[17];

		snprintf(id, sizeof(id), "%016llx", (unsigned long long)v->instance[i]);
		base_json_string(j, id);
	}
	base_json_end(j, ']');
	red_json(j, v);
	saturation_json(j, &v->saturation);
	connections_json(j, &v->connections);
	anomaly_json(j, v);
	base_json_kbegin(j, "spark", '[');
	for (uint32_t i = 0; i < COLLECT_SERVICES_WINDOW; i++)
		if (isnan(v->spark[i]))
			base_json_null(j);
		else
			base_json_f64(j, v->spark[i]);
	base_json_end(j, ']');
	base_put(j, KV("changing", v->changing), KV("unchanged", v->unchanged),
		 KV("attention", v->attention), KV("attention_why", v->attention_why));
	api_item_end(l);
}

struct base_json *api_window_begin(struct http_request *req, uint64_t *window)
{
	struct base_json *j;

	*window = 10;
	if (!api_params_once(req) ||
	    !api_param_u64(req, "window", 1, COLLECT_SERVICES_WINDOW, window))
		return NULL;
	j = api_answer_begin(req);
	if (j)
		base_put(j, KV("window_seconds", *window));
	return j;
}

static void get_services(struct http_request *req, void *arg)
{
	const struct api_services *known = arg;
	struct collect_services_totals totals;
	uint64_t window;
	struct api_list l = {.j = api_window_begin(req, &window), .limit = UINT64_MAX};

	if (!l.j)
		return;
	base_json_kbegin(l.j, "services", '[');
	collect_services_each(known->services, (unsigned int)window, service_json, &l, &totals);
	base_json_end(l.j, ']');
	base_put(l.j, KV("changing", totals.changing), KV("unchanged", totals.unchanged),
		 KV("truncated", l.truncated), KV("left_out", totals.left_out));
	api_answer_end(req, l.j);
}

static struct api_services of; /* one collector per process, as in api_register() */

bool *api_still(uint64_t instance, size_t metrics)
{
	bool *still = of.services ? calloc(metrics + 1, sizeof(*still)) : NULL;

	if (still)
		collect_services_still(of.services, instance, still, metrics);
	return still;
}

int api_services(struct http *http, struct collect_services *s, struct collect_tracer *tracer)
{
	int err;

	of = (struct api_services){s, tracer};
	err = http_route(http, "GET", "/api/v1/services", HTTP_READER, get_services, &of);
	return err ?: http_route(http, "GET", "/api/v1/map", HTTP_READER, api_get_map, &of);
}
