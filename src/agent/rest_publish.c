// SPDX-License-Identifier: Apache-2.0
/*
 * rest_publish.c - handles POST requests that set a value, creating its metric and region on
 * demand, or create a region.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "agent/rest.h"
#include "region/text.h"

/* ---- POST /metrics ---- */

struct update {
	const char *microservice;
	struct agent_proxy_metric metric;
	struct region_text_label labels[SL_LABELS_MAX];
	bool add;
	double value;
};

static bool update_parse(json_t *j, struct update *u, struct agent_rest_reply *reply)
{
	static const char *const known[] = {"microservice_id", "name", "type", "value", "add",
					    "labels",	       "help", "unit", NULL};
	const json_t *value = json_object_get(j, "value"), *add = json_object_get(j, "add");
	struct agent_proxy_metric *m = &u->metric;
	const char *type;

	if (!agent_rest_fields_known(j, known, reply) ||
	    !(u->microservice = agent_rest_text(j, "microservice_id", PROXY_ID_MAX, true, reply)) ||
	    !(m->name = agent_rest_text(j, "name", SL_NAME_MAX, true, reply)))
		return false;
	if (!region_text_metric_name(m->name, strlen(m->name)))
		return agent_rest_fail(
			reply, 400, "\"name\" must match [a-zA-Z_:][a-zA-Z0-9_:]*, not \"%.64s\"",
			m->name);
	type = agent_rest_text(j, "type", 64, true, reply);
	if (!type)
		return false;
	if (!strcasecmp(type, "counter"))
		m->kind = SL_KIND_COUNTER_F64;
	else if (!strcasecmp(type, "gauge"))
		m->kind = SL_KIND_GAUGE_F64;
	else
		return agent_rest_fail(
			reply, 400,
			"\"type\" must be \"counter\" or \"gauge\", not \"%.64s\": histograms need "
			"libsidelight",
			type);
	if (!(m->help = agent_rest_text(j, "help", SL_HELP_MAX, false, reply)) ||
	    !(m->unit = agent_rest_text(j, "unit", SL_NAME_MAX, false, reply)))
		return false;
	if (!region_text_unit(m->unit, strlen(m->unit)))
		return agent_rest_fail(reply, 400, "\"unit\" must match [a-zA-Z0-9_:]*");
	if (!agent_rest_labels(j, u->labels, &m->label_count, reply))
		return false;
	m->labels = u->labels;

	if (!value == !add)
		return agent_rest_fail(reply, 400,
				       "give either \"value\" (set the metric) or \"add\"");
	u->add = add != NULL;
	if (!json_is_number(u->add ? add : value))
		return agent_rest_fail(reply, 400, "\"%s\" must be a number",
				       u->add ? "add" : "value");
	u->value = json_number_value(u->add ? add : value);
	if (m->kind == SL_KIND_COUNTER_F64 && u->value < 0)
		return agent_rest_fail(reply, 400, "a counter cannot be negative");
	return true;
}

/* Returns true if the metric may take the update; otherwise the reply shows its current value. */
static bool may_become(const struct update *u, double value, struct agent_rest_reply *reply)
{
	if (u->add && !isfinite(value + u->value))
		return agent_rest_fail(reply, 409, "the sum would not be finite");
	if (u->add || u->metric.kind != SL_KIND_COUNTER_F64 || u->value >= value)
		return true;
	agent_rest_fail(reply, 409,
			"%.17g is below the counter's value, %.17g: a counter never goes down; use "
			"\"add\" if this process counts from 0",
			u->value, value);
	json_object_set_new(reply->json, "value", json_real(value));
	return false;
}

void agent_rest_post_metrics(struct agent *a, const struct agent_rest_request *q,
			     struct agent_rest_reply *reply)
{
	struct agent_refused why;
	struct update u = {0};
	struct agent_region *r;
	bool created;
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
	if (agent_proxy_open(a, q->caller, u.microservice, 0, NULL, 0, &r, &created, &why)) {
		agent_rest_fail_refused(a, reply, &why);
		goto out_lock;
	}
	err = agent_proxy_metric(r, &u.metric, &cell, &created);
	if (err == -EEXIST)
		agent_rest_fail(reply, 409,
				"\"%s\" with these labels already exists with another "
				"type",
				u.metric.name);
	else if (err)
		agent_rest_fail(
			reply, 507,
			"the region of \"%.64s\" has no room for another metric: first create it "
			"with POST /rdma/mrs/create and a larger \"metrics\"",
			u.microservice);
	if (err)
		goto out_lock;
	value = agent_proxy_get(r, cell);
	if (!may_become(&u, value, reply))
		goto out_lock;
	value = u.add ? value + u.value : u.value;
	agent_proxy_set(r, cell, value);
	a->n.rest_updates++;
	snprintf(hex, sizeof(hex), "%016" PRIx64, r->instance);
	reply->status = created ? 201 : 200;
	reply->json = json_pack(
		"{s:s,s:I,s:s,s:s,s:s,s:i,s:I,s:f,s:b}", "microservice_id", u.microservice,
		"region", (json_int_t)r->id, "instance", hex, "name", u.metric.name, "type",
		u.metric.kind == SL_KIND_GAUGE_F64 ? "gauge" : "counter", "cell", (int)cell,
		"offset", (json_int_t)(r->info->stripes + sl_cell_offset(cell)), "value",
		agent_proxy_get(r, cell), "created", created);
out_lock:
	pthread_mutex_unlock(&a->lock);
out:
	json_decref(j);
}

/* ---- POST /rdma/mrs/create ---- */

void agent_rest_post_mrs(struct agent *a, const struct agent_rest_request *q,
			 struct agent_rest_reply *reply)
{
	static const char *const known[] = {"microservice_id", "labels", "metrics", NULL};
	struct region_text_label labels[SL_LABELS_MAX];
	json_t *j = agent_rest_object(q, reply);
	const json_t *metrics;
	const char *microservice;
	struct agent_refused why;
	struct agent_region *r;
	uint32_t count; /* number of metrics; 0 means use the default */
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
	if (metrics && (!json_is_integer(metrics) || json_integer_value(metrics) < 1 ||
			json_integer_value(metrics) > PROXY_METRICS_MAX)) {
		agent_rest_fail(reply, 400, "\"metrics\" must be an integer from 1 to %u",
				PROXY_METRICS_MAX);
		goto out;
	}
	count = (uint32_t)json_integer_value(metrics);
	pthread_mutex_lock(&a->lock);
	if (agent_proxy_open(a, q->caller, microservice, count, labels, label_count, &r, &created,
			     &why)) {
		agent_rest_fail_refused(a, reply, &why);
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
