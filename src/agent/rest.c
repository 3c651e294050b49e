// SPDX-License-Identifier: Apache-2.0
/*
 * rest.c - MicroView's routes, in JSON, for clients that can't link the library.
 *
 * It is a control interface: bound to loopback unless there is a token, closed to web pages (a
 * page on the operator's own machine can send requests to loopback; it can't leave out Origin
 * and can't choose the Content-Type).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proxy.h"
#include "agent/rest.h"
#include "http/http.h"

#define TOKEN_MIN 16u
#define TOKEN_MAX 512u

struct route;
struct bound { /* the argument of a handler */
	struct sl_agent *a;
	const struct route *route;
};

#define ROUTES 9u

struct rest {
	struct sl_http *http;
	struct bound bound[ROUTES];
	char token[TOKEN_MAX + 1]; /* "" : none asked for */
	bool loopback;
};

/* ---- answers ---------------------------------------------------------------------------------------- */

static void fail(struct rest_reply *reply, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void fail(struct rest_reply *reply, int status, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	reply->status = status;
	reply->json = json_pack("{s:s}", "error", text);
	if (!reply->json) /* cut in the middle of a character */
		reply->json = json_pack("{s:s}", "error", "bad request");
}

static void fail_refused(struct rest_reply *reply, const struct refused *why)
{
	int status = 500;

	if (why->cause == REFUSED_REGIONS || why->cause == REFUSED_MEMORY ||
	    why->cause == REFUSED_QUOTA || why->cause == REFUSED_SYSTEM)
		status = 507;
	else if (why->cause == REFUSED_HEADER || why->cause == REFUSED_SIZE)
		status = 400;
	fail(reply, status, "%s", why->reason);
}

/* ---- fields ----------------------------------------------------------------------------------------- */

static json_t *parse_object(const struct rest_request *q, struct rest_reply *reply)
{
	json_error_t err;
	json_t *j = json_loadb(q->body ? q->body : "", q->bytes, JSON_REJECT_DUPLICATES, &err);

	if (!j) {
		fail(reply, 400, "the body is no JSON: %s (line %d, column %d)", err.text, err.line,
		     err.column);
		return NULL;
	}
	if (!json_is_object(j)) {
		fail(reply, 400, "the body must be a JSON object");
		json_decref(j);
		return NULL;
	}
	return j;
}

/* NULL after an answer was given. A field that is not there is "" unless it is needed. */
static const char *text_field(const json_t *j, const char *key, size_t max, bool need,
			      struct rest_reply *reply)
{
	const json_t *v = json_object_get(j, key);

	if (!v && !need)
		return "";
	if (!json_is_string(v) || (need && !json_string_length(v))) {
		fail(reply, 400, "\"%s\" must be a string%s", key,
		     need ? " that is not empty" : "");
		return NULL;
	}
	if (json_string_length(v) > max) {
		fail(reply, 400, "\"%s\" is %zu bytes long, at most %zu are allowed", key,
		     json_string_length(v), max);
		return NULL;
	}
	return json_string_value(v);
}

static bool name_ok(const char *s, bool colon)
{
	for (const char *p = s; *p; p++) {
		bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
			      (colon && *p == ':');

		if (!letter && (p == s || *p < '0' || *p > '9'))
			return false;
	}
	return *s != 0;
}

static bool unit_ok(const char *s)
{
	for (; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:", *s))
			return false;
	return true;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct proxy_label *)a)->key, ((const struct proxy_label *)b)->key);
}

/* The "labels" object, sorted. False after an answer was given. */
static bool labels_field(const json_t *j, struct proxy_label out[SL_LABELS_MAX], size_t *count,
			 struct rest_reply *reply)
{
	json_t *labels = json_object_get(j, "labels"), *v;
	const char *key;

	*count = 0;
	if (!labels || json_is_null(labels))
		return true;
	if (!json_is_object(labels)) {
		fail(reply, 400, "\"labels\" must be an object of strings");
		return false;
	}
	json_object_foreach(labels, key, v)
	{
		if (*count == SL_LABELS_MAX) {
			fail(reply, 400, "more than %u labels", SL_LABELS_MAX);
			return false;
		}
		if (strlen(key) > SL_NAME_MAX || !name_ok(key, false) || !strncmp(key, "__", 2)) {
			fail(reply, 400,
			     "label key \"%.64s\" is not [a-zA-Z_][a-zA-Z0-9_]*, at most %u bytes, "
			     "not \"__...\"",
			     key, SL_NAME_MAX);
			return false;
		}
		if (!json_is_string(v) || json_string_length(v) > SL_LABEL_VALUE_MAX) {
			fail(reply, 400, "label \"%.64s\" must be a string of at most %u bytes",
			     key, SL_LABEL_VALUE_MAX);
			return false;
		}
		out[(*count)++] = (struct proxy_label){key, json_string_value(v)};
	}
	qsort(out, *count, sizeof(*out), by_key);
	return true;
}

static const char *const known_fields[] = {"microservice_id", "name", "type", "value",	"add",
					   "labels",	      "help", "unit", "metrics"};

/* A misspelled field would be left out in silence. */
static bool fields_known(json_t *j, struct rest_reply *reply)
{
	const char *key;
	json_t *v;

	json_object_foreach(j, key, v)
	{
		size_t i = 0;

		while (i < sizeof(known_fields) / sizeof(*known_fields) &&
		       strcmp(key, known_fields[i]))
			i++;
		if (i == sizeof(known_fields) / sizeof(*known_fields)) {
			fail(reply, 400, "field \"%.64s\" is not known", key);
			return false;
		}
	}
	return true;
}

/* ---- POST /metrics ------------------------------------------------------------------------------------- */

struct update {
	const char *microservice;
	struct proxy_metric metric;
	struct proxy_label labels[SL_LABELS_MAX];
	bool add;
	double value;
};

static bool update_parse(json_t *j, struct update *u, struct rest_reply *reply)
{
	const json_t *value = json_object_get(j, "value"), *add = json_object_get(j, "add");
	const char *type;

	memset(u, 0, sizeof(*u));
	if (!fields_known(j, reply))
		return false;
	u->microservice = text_field(j, "microservice_id", PROXY_ID_MAX, true, reply);
	if (!u->microservice)
		return false;
	u->metric.name = text_field(j, "name", SL_NAME_MAX, true, reply);
	if (!u->metric.name)
		return false;
	if (!name_ok(u->metric.name, true)) {
		fail(reply, 400, "\"name\" is not [a-zA-Z_:][a-zA-Z0-9_:]*: \"%.64s\"",
		     u->metric.name);
		return false;
	}
	type = text_field(j, "type", 64, true, reply);
	if (!type)
		return false;
	if (!strcasecmp(type, "counter"))
		u->metric.kind = SL_KIND_COUNTER_F64;
	else if (!strcasecmp(type, "gauge"))
		u->metric.kind = SL_KIND_GAUGE_F64;
	if (!u->metric.kind) {
		fail(reply, 400,
		     "\"type\" must be \"counter\" or \"gauge\", not \"%.64s\": histograms need "
		     "libsidelight",
		     type);
		return false;
	}
	u->metric.help = text_field(j, "help", SL_HELP_MAX, false, reply);
	if (!u->metric.help)
		return false;
	u->metric.unit = text_field(j, "unit", SL_NAME_MAX, false, reply);
	if (!u->metric.unit)
		return false;
	if (!unit_ok(u->metric.unit)) {
		fail(reply, 400, "\"unit\" is not [a-zA-Z0-9_:]*");
		return false;
	}
	if (!labels_field(j, u->labels, &u->metric.label_count, reply))
		return false;
	u->metric.labels = u->labels;

	if (!value == !add) {
		fail(reply, 400, "give either \"value\" (the metric becomes it) or \"add\"");
		return false;
	}
	u->add = add != NULL;
	if (!json_is_number(u->add ? add : value)) {
		fail(reply, 400, "\"%s\" must be a number", u->add ? "add" : "value");
		return false;
	}
	u->value = json_number_value(u->add ? add : value);
	if (u->metric.kind == SL_KIND_COUNTER_F64 && u->value < 0) {
		fail(reply, 400, "a counter never goes below 0");
		return false;
	}
	return true;
}

static void post_metrics(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	struct refused why;
	struct update u;
	struct region *r;
	bool new_region, new_metric;
	uint32_t cell;
	json_t *j = parse_object(q, reply);
	double value;
	char hex[24];
	int err;

	if (!j)
		return;
	if (!update_parse(j, &u, reply))
		goto out;

	pthread_mutex_lock(&a->lock);
	if (proxy_open(a, u.microservice, 0, NULL, 0, &r, &new_region, &why)) {
		refused_count(a, why.cause);
		pthread_mutex_unlock(&a->lock);
		fail_refused(reply, &why);
		goto out;
	}
	err = proxy_metric(a, r, &u.metric, &cell, &new_metric);
	if (err) {
		pthread_mutex_unlock(&a->lock);
		if (err == -EEXIST)
			fail(reply, 409, "\"%s\" has these labels already, with another type",
			     u.metric.name);
		else
			fail(reply, 507,
			     "no room for another metric of \"%.64s\": create its region ahead by "
			     "POST /rdma/mrs/create with a larger \"metrics\"",
			     u.microservice);
		goto out;
	}
	value = u.add ? proxy_get(r, cell) + u.value : u.value;
	if (!u.add || isfinite(value))
		proxy_set(r, cell, value);
	a->n.rest_updates++;
	snprintf(hex, sizeof(hex), "%016" PRIx64, r->info->instance);
	reply->status = new_metric ? 201 : 200;
	reply->json = json_pack(
		"{s:s,s:I,s:s,s:s,s:s,s:i,s:I,s:f,s:b}", "microservice_id", u.microservice,
		"region", (json_int_t)r->id, "instance", hex, "name", u.metric.name, "type",
		u.metric.kind == SL_KIND_GAUGE_F64 ? "gauge" : "counter", "cell", (int)cell,
		"offset", (json_int_t)(r->info->stripes + sl_cell_offset(cell)), "value",
		proxy_get(r, cell), "created", new_metric);
	pthread_mutex_unlock(&a->lock);
out:
	json_decref(j);
}

/* ---- GET /metrics: the layout ----------------------------------------------------------------------------- */

/*
 * Of thousands of regions, so that it is written region by region: the lock is held while one is
 * copied, and what is decoded is the copy.
 */
struct layout {
	struct sl_agent *a;
	uint32_t slot;
	enum { LAYOUT_OPEN, LAYOUT_REGIONS, LAYOUT_END } at;
	bool first;
	char *text; /* of one region */
	size_t bytes, sent;
};

struct copied {
	json_t *json;
	struct sl_region_info info;
	struct sl_hot hot;
	void *schema;
	const char *fault;
};

/* With the lock held. False: out of memory. */
static bool copy_region(const struct sl_agent *a, const struct region *r, struct copied *c)
{
	enum sl_fault fault = SL_FAULT_UNSETTLED;
	uint64_t line[8];

	memset(&c->hot, 0, sizeof(c->hot));
	c->info = *r->info;
	for (uint32_t i = 0; i < c->info.label_count; i++) { /* they point into label_text */
		c->info.labels[i].key = c->info.label_text +
					(r->info->labels[i].key - r->info->label_text);
		c->info.labels[i].value = c->info.label_text +
					  (r->info->labels[i].value - r->info->label_text);
	}
	c->json = region_json(a, r);
	if (r->proxy)
		json_object_set_new(c->json, "microservice_id", json_string(proxy_microservice(r)));
	for (int i = 0; i < 100 && fault == SL_FAULT_UNSETTLED; i++) {
		sl_copy_words(line, (const uint64_t *)((const char *)r->map + r->info->hot), 8);
		fault = sl_hot_parse(line, r->info, &c->hot);
	}
	c->fault = fault ? sl_fault_name(fault) : NULL;
	c->schema = malloc(c->hot.schema_used + 1);
	if (!c->schema)
		return false;
	memcpy(c->schema, (const char *)r->map + r->info->schema, c->hot.schema_used);
	return true;
}

static const char *kind_name(enum sl_metric_kind kind)
{
	switch (kind) {
	case SL_KIND_COUNTER:
	case SL_KIND_COUNTER_F64:
		return "counter";
	case SL_KIND_GAUGE:
	case SL_KIND_GAUGE_F64:
		return "gauge";
	case SL_KIND_HISTOGRAM:
	case SL_KIND_HISTOGRAM_EXP:
		return "histogram";
	case SL_KIND_INFO:
		return "info";
	case SL_KIND_STATESET:
		return "stateset";
	}
	return "unknown";
}

static json_t *metrics_json(const struct copied *c, const char **fault)
{
	json_t *all = json_array();
	struct sl_schema schema;
	enum sl_fault f;

	sl_schema_init(&schema);
	f = sl_schema_append(&schema, &c->info, c->schema, c->hot.schema_used);
	if (f)
		*fault = sl_fault_name(f);
	for (size_t i = 0; i < schema.count; i++) {
		const struct sl_metric *m = schema.metrics[i];
		json_t *labels = json_object(), *j;

		for (uint32_t l = 0; l < m->label_count; l++)
			json_object_set_new(labels, m->labels[l].key,
					    json_string(m->labels[l].value));
		j = json_pack("{s:s,s:s,s:i,s:i,s:i,s:I,s:s,s:s,s:o}", "name", m->name, "type",
			      kind_name(m->kind), "kind", (int)m->kind, "cell", (int)m->cell,
			      "cells", (int)m->cells, "offset",
			      (json_int_t)(c->info.stripes + sl_cell_offset(m->cell)), "unit",
			      m->unit, "help", m->help, "labels", labels);
		json_array_append_new(all, j ? j : json_null());
	}
	sl_schema_free(&schema);
	return all;
}

/* The next region's text; false at the end or without memory. */
static bool layout_next(struct layout *l)
{
	struct sl_agent *a = l->a;
	struct copied *c = calloc(1, sizeof(*c));
	struct region *r = NULL;
	bool ok = false;

	if (!c)
		return false;
	pthread_mutex_lock(&a->lock);
	for (; l->slot < a->slot_count; l->slot++)
		if ((r = a->slots[l->slot]) && r->state != SL_STATE_RETIRED)
			break;
	if (l->slot < a->slot_count) {
		l->slot++;
		ok = copy_region(a, r, c);
	}
	pthread_mutex_unlock(&a->lock);
	if (ok) {
		json_t *stripes =
			json_pack("{s:I,s:I,s:i,s:i}", "offset", (json_int_t)c->info.stripes,
				  "stride", (json_int_t)c->info.stripe_stride, "max",
				  (int)c->info.max_stripes, "used", (int)c->hot.stripes_used);

		json_object_set_new(c->json, "stripes", stripes);
		json_object_set_new(c->json, "generation",
				    json_integer((json_int_t)c->hot.generation));
		json_object_set_new(c->json, "metrics", metrics_json(c, &c->fault));
		if (c->fault)
			json_object_set_new(c->json, "fault", json_string(c->fault));
		free(l->text);
		l->text = json_dumps(c->json, JSON_COMPACT);
		l->bytes = l->text ? strlen(l->text) : 0;
		l->sent = 0;
		ok = l->text != NULL;
	}
	json_decref(c->json);
	free(c->schema);
	free(c);
	return ok;
}

ssize_t layout_read(void *arg, char *buf, size_t max)
{
	struct layout *l = arg;
	size_t n = 0;

	if (l->at == LAYOUT_OPEN && max >= 32) {
		n = (size_t)snprintf(buf, max, "{\"regions\":[");
		l->at = LAYOUT_REGIONS;
	}
	while (n < max && l->at == LAYOUT_REGIONS) {
		size_t part = l->bytes - l->sent;

		if (!part) {
			if (n + 8 > max) /* room for a comma, or the end */
				return (ssize_t)n;
			if (layout_next(l)) {
				if (!l->first)
					buf[n++] = ',';
				l->first = false;
			} else {
				memcpy(buf + n, "]}\n", 3);
				n += 3;
				l->at = LAYOUT_END;
			}
			continue;
		}
		if (part > max - n)
			part = max - n;
		memcpy(buf + n, l->text + l->sent, part);
		l->sent += part;
		n += part;
	}
	return (ssize_t)n;
}

void layout_done(void *arg)
{
	struct layout *l = arg;

	free(l->text);
	free(l);
}

static void get_metrics(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	struct layout *l = calloc(1, sizeof(*l));

	(void)q;
	if (!l) {
		fail(reply, 500, "out of memory");
		return;
	}
	l->a = a;
	l->first = true;
	reply->status = 200;
	reply->layout = l;
}

/* ---- the other routes ---------------------------------------------------------------------------------------- */

static void get_health(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	uint32_t own; /* the agent's own region is not counted */

	(void)q;
	pthread_mutex_lock(&a->lock);
	own = a->self ? 1 : 0;
	reply->json =
		json_pack("{s:s,s:s,s:s,s:i,s:i,s:b}", "status", "ok", "version", SL_VERSION_STRING,
			  "host", a->host, "regions", (int)(a->region_count - own), "live",
			  (int)(a->state_count[SL_STATE_LIVE] - own), "rdma", a->rdma != NULL);
	pthread_mutex_unlock(&a->lock);
	reply->status = 200;
}

static void get_qps(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	(void)q;
	pthread_mutex_lock(&a->lock);
	reply->json = rdma_queues_json(a, -1);
	pthread_mutex_unlock(&a->lock);
	reply->status = 200;
}

/* -1 after an answer was given. */
static int64_t qp_number(const struct rest_request *q, struct rest_reply *reply)
{
	uint64_t n;

	if (sl_parse_u64(q->variable, 0, 0xffffff, &n)) {
		fail(reply, 400, "\"%.32s\" is no queue pair number (0 to 16777215)", q->variable);
		return -1;
	}
	return (int64_t)n;
}

static void get_qp(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	int64_t n = qp_number(q, reply);

	if (n < 0)
		return;
	pthread_mutex_lock(&a->lock);
	reply->json = rdma_queues_json(a, n);
	pthread_mutex_unlock(&a->lock);
	reply->status = 200;
	if (!reply->json)
		fail(reply, 404, "no queue pair has the number %d: GET /rdma/qps names them",
		     (int)n);
}

/*
 * MicroView's collector made a queue pair, posted its number and GID here and got the agent's.
 * Here librdmacm connects: the address is resolved, queue pairs are matched and reset by it, and
 * nothing is left to post. The answer says where to.
 */
static void post_connect(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	if (*q->variable && qp_number(q, reply) < 0)
		return;
	reply->status = 409;
	pthread_mutex_lock(&a->lock);
	reply->json =
		json_pack("{s:s,s:o}", "error",
			  a->rdma ? "queue pairs are not connected by REST: connect by RDMA-CM "
				    "(rdma_resolve_addr, rdma_connect), as sidelight collect does"
				  : "this agent has no RDMA device: start it with --rdma DEVICE",
			  "connect", rdma_connect_json(a));
	pthread_mutex_unlock(&a->lock);
}

static void get_mrs(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	json_t *all = json_array();

	(void)q;
	pthread_mutex_lock(&a->lock);
	for (uint32_t i = 0; i < a->slot_count; i++) {
		const struct region *r = a->slots[i];
		uint64_t addr;
		uint32_t rkey;

		if (!r || r->state == SL_STATE_RETIRED)
			continue;
		rdma_where(a, r, &addr, &rkey);
		json_array_append_new(
			all,
			json_pack("{s:I,s:s,s:I,s:I,s:I,s:s}", "region", (json_int_t)r->id,
				  "service", region_label(r, "service"), "address",
				  (json_int_t)addr, "length", (json_int_t)r->info->size, "rkey",
				  (json_int_t)rkey, "access", a->rdma ? "REMOTE_READ" : "none"));
	}
	reply->json = json_pack("{s:b,s:o,s:o}", "rdma", a->rdma != NULL, "directory",
				rdma_directory_json(a), "mrs", all);
	pthread_mutex_unlock(&a->lock);
	reply->status = 200;
}

static void post_mrs(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	struct proxy_label labels[SL_LABELS_MAX];
	json_t *j = parse_object(q, reply);
	const json_t *metrics;
	const char *microservice;
	struct refused why;
	struct region *r;
	uint32_t count = 0;
	size_t label_count;
	bool created;

	if (!j)
		return;
	if (!fields_known(j, reply))
		goto out;
	microservice = text_field(j, "microservice_id", PROXY_ID_MAX, true, reply);
	if (!microservice || !labels_field(j, labels, &label_count, reply))
		goto out;
	metrics = json_object_get(j, "metrics");
	if (metrics) {
		if (!json_is_integer(metrics) || json_integer_value(metrics) < 1 ||
		    json_integer_value(metrics) > PROXY_METRICS_MAX) {
			fail(reply, 400, "\"metrics\" must be an integer from 1 to %u",
			     PROXY_METRICS_MAX);
			goto out;
		}
		count = (uint32_t)json_integer_value(metrics);
	}
	pthread_mutex_lock(&a->lock);
	if (proxy_open(a, microservice, count, labels, label_count, &r, &created, &why)) {
		refused_count(a, why.cause);
		fail_refused(reply, &why);
	} else {
		reply->status = created ? 201 : 200;
		reply->json = region_json(a, r);
		json_object_set_new(reply->json, "microservice_id", json_string(microservice));
		json_object_set_new(reply->json, "created", json_boolean(created));
	}
	pthread_mutex_unlock(&a->lock);
out:
	json_decref(j);
}

static const struct route {
	const char *method, *path;
	void (*fn)(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply);
} routes[ROUTES] = {
	{"GET", "/health", get_health},
	{"GET", "/metrics", get_metrics},
	{"POST", "/metrics", post_metrics},
	{"GET", "/rdma/qps", get_qps},
	{"POST", "/rdma/qps/connect", post_connect},
	{"GET", "/rdma/qp/{}", get_qp},
	{"POST", "/rdma/qp/{}/connect", post_connect},
	{"GET", "/rdma/mrs", get_mrs},
	{"POST", "/rdma/mrs/create", post_mrs},
};

/* ---- who may ask ----------------------------------------------------------------------------------------------- */

/* The time that it takes says nothing of how much was right. */
static bool token_right(const char *token, const char *authorization)
{
	unsigned char wrong = 0;
	size_t n = strlen(token);

	if (!authorization || strncasecmp(authorization, "Bearer ", 7))
		return false;
	authorization += 7;
	if (strlen(authorization) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		wrong |= (unsigned char)(token[i] ^ authorization[i]);
	return !wrong;
}

/*
 * A name in Host that is none of ours is a web page whose own name was made to point to loopback
 * (DNS rebinding): to the browser its requests are of one origin.
 */
static bool host_is_local(const char *host)
{
	char name[256];
	unsigned char addr[16];
	size_t n;

	if (*host == '[') {
		n = strcspn(++host, "]");
	} else {
		n = strcspn(host, ":");
	}
	if (n >= sizeof(name))
		return false;
	memcpy(name, host, n);
	name[n] = 0;
	return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, addr) == 1 ||
	       inet_pton(AF_INET6, name, addr) == 1;
}

static bool json_content(const char *type)
{
	size_t n = type ? strcspn(type, "; \t") : 0;

	return n == strlen("application/json") && !strncasecmp(type, "application/json", n);
}

static bool allowed(const struct sl_agent *a, const struct rest_request *q,
		    struct rest_reply *reply)
{
	const struct rest *rest = a->rest;
	bool post = !strcmp(q->method, "POST");

	if (rest && rest->loopback && !*rest->token && q->host && !host_is_local(q->host)) {
		fail(reply, 403, "Host is neither localhost nor an address");
		return false;
	}
	if (post && q->origin) {
		fail(reply, 403, "requests of web pages are not taken (Origin: %.128s)", q->origin);
		return false;
	}
	if (rest && *rest->token && strcmp(q->path, "/health") &&
	    !token_right(rest->token, q->authorization)) {
		fail(reply, 401, "Authorization: Bearer TOKEN is missing or wrong");
		return false;
	}
	if (post && q->bytes && !json_content(q->content_type)) {
		fail(reply, 415, "the body must be sent as Content-Type: application/json");
		return false;
	}
	return true;
}

static void answer(struct sl_agent *a, const struct route *route, const struct rest_request *q,
		   struct rest_reply *reply)
{
	memset(reply, 0, sizeof(*reply));
	if (allowed(a, q, reply))
		route->fn(a, q, reply);
	if (!reply->json && !reply->layout)
		fail(reply, 500, "out of memory");
	pthread_mutex_lock(&a->lock);
	a->n.rest_requests++;
	if (reply->status >= 400)
		a->n.rest_errors++;
	pthread_mutex_unlock(&a->lock);
	if (!strcmp(q->method, "POST"))
		agent_wake(a); /* it may have started a timer, also when it was refused */
}

/* {} stands for one or more characters but '/'. */
static bool matches(const char *route, const char *path, char *variable, size_t bytes)
{
	const char *hole = strstr(route, "{}");
	size_t n;

	*variable = 0;
	if (!hole)
		return !strcmp(route, path);
	if (strncmp(route, path, (size_t)(hole - route)))
		return false;
	path += hole - route;
	n = strcspn(path, "/");
	if (!n || n >= bytes || strcmp(path + n, hole + 2))
		return false;
	memcpy(variable, path, n);
	variable[n] = 0;
	return true;
}

void rest_handle(struct sl_agent *a, const struct rest_request *q, struct rest_reply *reply)
{
	struct rest_request with = *q;
	char variable[64];
	bool path = false;

	for (size_t i = 0; i < ROUTES; i++) {
		if (!matches(routes[i].path, q->path, variable, sizeof(variable)))
			continue;
		path = true;
		if (strcmp(routes[i].method, q->method))
			continue;
		with.variable = variable;
		answer(a, &routes[i], &with, reply);
		return;
	}
	memset(reply, 0, sizeof(*reply));
	fail(reply, path ? 405 : 404, "%.64s", path ? "method not allowed" : "no such path");
}

/* ---- over HTTP ------------------------------------------------------------------------------------------------- */

static void on_request(struct sl_http_request *req, void *arg)
{
	const struct bound *b = arg;
	struct rest_request q = {
		.method = sl_http_method(req),
		.path = sl_http_path(req),
		.variable = sl_http_variable(req),
		.content_type = sl_http_header(req, "Content-Type"),
		.origin = sl_http_header(req, "Origin"),
		.host = sl_http_header(req, "Host"),
		.authorization = sl_http_header(req, "Authorization"),
	};
	struct rest_reply reply;

	q.body = sl_http_body(req, &q.bytes);
	answer(b->a, b->route, &q, &reply);
	if (reply.status == 401)
		sl_http_add_header(req, "WWW-Authenticate", "Bearer");
	if (reply.layout)
		sl_http_reply_stream(req, reply.status, "application/json", layout_read,
				     layout_done, reply.layout);
	else
		sl_http_reply_json(req, reply.status, reply.json);
}

static int read_token(const char *path, char *token, char *error, size_t bytes)
{
	char text[TOKEN_MAX + 2];
	struct stat st;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (n < 0 || fstat(fd, &st)) {
		int err = errno;

		snprintf(error, bytes, "cannot read the token file %s: %s", path, strerror(err));
		if (fd >= 0)
			close(fd);
		return -err;
	}
	close(fd);
	while (n && strchr(" \t\r\n", text[n - 1]))
		n--;
	if (n < (ssize_t)TOKEN_MIN || n > (ssize_t)TOKEN_MAX || memchr(text, 0, (size_t)n)) {
		snprintf(error, bytes, "the token in %s must have %u to %u bytes", path, TOKEN_MIN,
			 TOKEN_MAX);
		return -EINVAL;
	}
	memcpy(token, text, (size_t)n);
	token[n] = 0;
	if (st.st_mode & 077)
		sl_logf(SL_WARN, LOG, "others may read the token file path=%s: chmod 600 it", path);
	return 0;
}

int sl_agent_rest_check(const char *listen, bool has_token, char *error, size_t bytes)
{
	char host[256];
	uint16_t port;
	struct in6_addr v6;
	struct in_addr v4;
	bool loopback;

	if (sl_parse_address(listen, host, sizeof(host), &port)) {
		snprintf(error, bytes, "--rest '%s' is no ADDRESS:PORT", listen);
		return -EINVAL;
	}
	if (!*host || !strcasecmp(host, "localhost"))
		loopback = true;
	else if (inet_pton(AF_INET, host, &v4) == 1)
		loopback = (ntohl(v4.s_addr) >> 24) == 127;
	else if (inet_pton(AF_INET6, host, &v6) == 1)
		loopback = IN6_IS_ADDR_LOOPBACK(&v6);
	else
		loopback = false;
	if (!loopback && !has_token) {
		snprintf(error, bytes,
			 "--rest %s can be reached from elsewhere: give --rest-token-file, or bind "
			 "to loopback",
			 listen);
		return -EACCES;
	}
	return loopback;
}

int rest_init(struct sl_agent *a, char *error, size_t bytes)
{
	struct sl_http_opts o = {.listen = a->o.rest, .max_connections = 64, .no_gzip = false};
	struct rest *rest;
	int err;

	if (!a->o.rest || !*a->o.rest)
		return 0;
	err = sl_agent_rest_check(a->o.rest, a->o.rest_token_file != NULL, error, bytes);
	if (err < 0)
		return err;
	rest = calloc(1, sizeof(*rest));
	if (!rest) {
		snprintf(error, bytes, "out of memory");
		return -ENOMEM;
	}
	rest->loopback = err;
	if (a->o.rest_token_file) {
		err = read_token(a->o.rest_token_file, rest->token, error, bytes);
		if (err)
			goto err;
	}
	rest->http = sl_http_new(&o, error, bytes);
	if (!rest->http) {
		err = -errno;
		if (a->o.rest_optional) {
			sl_logf(SL_WARN, LOG, "no REST: %s; choose another by --rest ADDRESS:PORT",
				error);
			err = 0;
		}
		goto err;
	}
	for (size_t i = 0; i < ROUTES; i++) {
		rest->bound[i] = (struct bound){a, &routes[i]};
		err = sl_http_route(rest->http, routes[i].method, routes[i].path, on_request,
				    &rest->bound[i]);
		if (err) {
			snprintf(error, bytes, "route %s: %s", routes[i].path, strerror(-err));
			goto err_http;
		}
	}
	a->rest = rest;
	err = sl_http_start(rest->http, error, bytes);
	if (err) {
		a->rest = NULL;
		goto err_http;
	}
	return 0;
err_http:
	sl_http_free(rest->http);
err:
	free(rest);
	return err;
}

void rest_fini(struct sl_agent *a)
{
	if (!a->rest)
		return;
	sl_http_free(a->rest->http);
	free(a->rest);
	a->rest = NULL;
}

const char *sl_agent_rest(const struct sl_agent *a)
{
	return a->rest ? sl_http_address(a->rest->http) : NULL;
}
