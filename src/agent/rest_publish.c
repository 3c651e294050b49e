// SPDX-License-Identifier: Apache-2.0
/* rest_publish.c - POST: a value, with its metric and region created on demand; or a region. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "agent/rest.h"
#include "agent/status.h"

/* ---- POST /metrics ---- */

static bool unit_ok(const char *s)
{
	for (; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:", *s))
			return false;
	return true;
}

struct update {
	const char *microservice;
	struct agent_proxy_metric metric;
	struct agent_proxy_label labels[SL_LABELS_MAX];
	bool add;
	double value;
};

static bool update_parse(json_t *j, struct update *u, struct agent_rest_reply *reply)
{
	static const char *const known[] = {"microservice_id", "name", "type", "value", "add",
					    "labels",	       "help", "unit", NULL};
	const json_t *value = json_object_get(j, "value"), *add = json_object_get(j, "add");
	const char *type;

	memset(u, 0, sizeof(*u));
	if (!agent_rest_fields_known(j, known, reply))
		return false;
	u->microservice = agent_rest_text(j, "microservice_id", PROXY_ID_MAX, true, reply);
	if (!u->microservice)
		return false;
	u->metric.name = agent_rest_text(j, "name", SL_NAME_MAX, true, reply);
	if (!u->metric.name)
		return false;
	if (!agent_rest_name_ok(u->metric.name, true)) {
		agent_rest_fail(reply, 400, "\"name\" is not [a-zA-Z_:][a-zA-Z0-9_:]*: \"%.64s\"",
				u->metric.name);
		return false;
	}
	type = agent_rest_text(j, "type", 64, true, reply);
	if (!type)
		return false;
	if (!strcasecmp(type, "counter"))
		u->metric.kind = SL_KIND_COUNTER_F64;
	else if (!strcasecmp(type, "gauge"))
		u->metric.kind = SL_KIND_GAUGE_F64;
	if (!u->metric.kind) {
		agent_rest_fail(
			reply, 400,
			"\"type\" must be \"counter\" or \"gauge\", not \"%.64s\": histograms need "
			"libsidelight",
			type);
		return false;
	}
	u->metric.help = agent_rest_text(j, "help", SL_HELP_MAX, false, reply);
	if (!u->metric.help)
		return false;
	u->metric.unit = agent_rest_text(j, "unit", SL_NAME_MAX, false, reply);
	if (!u->metric.unit)
		return false;
	if (!unit_ok(u->metric.unit)) {
		agent_rest_fail(reply, 400, "\"unit\" is not [a-zA-Z0-9_:]*");
		return false;
	}
	if (!agent_rest_labels(j, u->labels, &u->metric.label_count, reply))
		return false;
	u->metric.labels = u->labels;

	if (!value == !add) {
		agent_rest_fail(reply, 400, "give either \"value\" (set the metric) or \"add\"");
		return false;
	}
	u->add = add != NULL;
	if (!json_is_number(u->add ? add : value)) {
		agent_rest_fail(reply, 400, "\"%s\" must be a number", u->add ? "add" : "value");
		return false;
	}
	u->value = json_number_value(u->add ? add : value);
	if (u->metric.kind == SL_KIND_COUNTER_F64 && u->value < 0) {
		agent_rest_fail(reply, 400, "a counter never goes below 0");
		return false;
	}
	return true;
}

void agent_rest_post_metrics(struct agent *a, const struct agent_rest_request *q,
			     struct agent_rest_reply *reply)
{
	struct agent_refused why;
	struct update u;
	struct agent_region *r;
	bool new_region, new_metric;
	uint32_t cell;
	json_t *j = agent_rest_object(q, reply);
	double value;
	char hex[24];
	int err;

	if (!j)
		return;
	if (!update_parse(j, &u, reply))
		goto out;

	pthread_mutex_lock(&a->lock);
	if (agent_proxy_open(a, u.microservice, 0, NULL, 0, &r, &new_region, &why)) {
		agent_refused_count(a, why.cause);
		pthread_mutex_unlock(&a->lock);
		agent_rest_fail_refused(reply, &why);
		goto out;
	}
	err = agent_proxy_metric(a, r, &u.metric, &cell, &new_metric);
	if (err) {
		pthread_mutex_unlock(&a->lock);
		if (err == -EEXIST)
			agent_rest_fail(reply, 409,
					"\"%s\" with these labels exists with another type",
					u.metric.name);
		else
			agent_rest_fail(
				reply, 507,
				"no room for another metric of \"%.64s\": create its region by "
				"POST /rdma/mrs/create with a larger \"metrics\" first",
				u.microservice);
		goto out;
	}
	value = u.add ? agent_proxy_get(r, cell) + u.value : u.value;
	if (!isfinite(value)) {
		pthread_mutex_unlock(&a->lock);
		agent_rest_fail(reply, 409, "the sum would not be finite");
		goto out;
	}
	agent_proxy_set(r, cell, value);
	a->n.rest_updates++;
	snprintf(hex, sizeof(hex), "%016" PRIx64, r->info->instance);
	reply->status = new_metric ? 201 : 200;
	reply->json = json_pack(
		"{s:s,s:I,s:s,s:s,s:s,s:i,s:I,s:f,s:b}", "microservice_id", u.microservice,
		"region", (json_int_t)r->id, "instance", hex, "name", u.metric.name, "type",
		u.metric.kind == SL_KIND_GAUGE_F64 ? "gauge" : "counter", "cell", (int)cell,
		"offset", (json_int_t)(r->info->stripes + sl_cell_offset(cell)), "value",
		agent_proxy_get(r, cell), "created", new_metric);
	pthread_mutex_unlock(&a->lock);
out:
	json_decref(j);
}

/* ---- POST /rdma/mrs/create ---- */

void agent_rest_post_mrs(struct agent *a, const struct agent_rest_request *q,
			 struct agent_rest_reply *reply)
{
	static const char *const known[] = {"microservice_id", "labels", "metrics", NULL};
	struct agent_proxy_label labels[SL_LABELS_MAX];
	json_t *j = agent_rest_object(q, reply);
	const json_t *metrics;
	const char *microservice;
	struct agent_refused why;
	struct agent_region *r;
	uint32_t count = 0;
	size_t label_count;
	bool created;

	if (!j)
		return;
	if (!agent_rest_fields_known(j, known, reply))
		goto out;
	microservice = agent_rest_text(j, "microservice_id", PROXY_ID_MAX, true, reply);
	if (!microservice || !agent_rest_labels(j, labels, &label_count, reply))
		goto out;
	metrics = json_object_get(j, "metrics");
	if (metrics) {
		if (!json_is_integer(metrics) || json_integer_value(metrics) < 1 ||
		    json_integer_value(metrics) > PROXY_METRICS_MAX) {
			agent_rest_fail(reply, 400, "\"metrics\" must be an integer from 1 to %u",
					PROXY_METRICS_MAX);
			goto out;
		}
		count = (uint32_t)json_integer_value(metrics);
	}
	pthread_mutex_lock(&a->lock);
	if (agent_proxy_open(a, microservice, count, labels, label_count, &r, &created, &why)) {
		agent_refused_count(a, why.cause);
		agent_rest_fail_refused(reply, &why);
	} else {
		reply->status = created ? 201 : 200;
		reply->json = agent_region_json(a, r);
		json_object_set_new(reply->json, "microservice_id", json_string(microservice));
		json_object_set_new(reply->json, "created", json_boolean(created));
	}
	pthread_mutex_unlock(&a->lock);
out:
	json_decref(j);
}
