// SPDX-License-Identifier: Apache-2.0
/*
 * api.c - responses, parameters and parts of JSON that the endpoints share, and the routes. A
 * response is one buffer of at most API_ANSWER_MAX bytes. All responses in flight hold at most
 * OUTSTANDING_MAX bytes; beyond this, clients get a 503.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "api/api.h"
#include "api/internal.h"
#include "region/layers.h"

#define OUTSTANDING_MAX ((size_t)64 << 20)
#define ANSWER_SPARE	((size_t)4096) /* reserved for the end of a truncated response */

/* Number of bytes held by all responses. */
static atomic_size_t outstanding;

/* Responses */

struct api_answer {
	struct base_json json; /* must be first: callers have only its address */
	size_t sent;
};

struct base_json *api_answer(struct http_request *req)
{
	struct api_answer *a;
	size_t before = atomic_fetch_add(&outstanding, API_ANSWER_MAX);

	/*
	 * Reserve half of the memory for clients that have no response in flight, because others
	 * may read theirs slowly or never.
	 */
	if (before > OUTSTANDING_MAX - API_ANSWER_MAX ||
	    (before > OUTSTANDING_MAX / 2 && http_answers(req) > 1)) {
		atomic_fetch_sub(&outstanding, API_ANSWER_MAX);
		http_reply_full(req, "too many responses are in progress: try again later");
		return NULL;
	}
	a = calloc(1, sizeof(*a));
	if (!a) {
		atomic_fetch_sub(&outstanding, API_ANSWER_MAX);
		http_reply_error(req, 503, "out of memory");
		return NULL;
	}
	base_json_init(&a->json, API_ANSWER_MAX);
	base_json_begin(&a->json, '{');
	return &a->json;
}

struct base_json *api_answer_begin(struct http_request *req)
{
	struct base_json *j = api_answer(req);

	if (j)
		base_put(j, KV_TIME("time", base_realtime_ns()));
	return j;
}

static void answer_free(void *arg)
{
	struct api_answer *a = arg;

	atomic_fetch_sub(&outstanding, a->json.cap);
	base_json_free(&a->json);
	free(a);
}

/* Replaces the reserved API_ANSWER_MAX bytes of a response with its actual size. */
static void answer_settle(const struct base_json *j)
{
	atomic_fetch_add(&outstanding, j->cap);
	atomic_fetch_sub(&outstanding, API_ANSWER_MAX);
}

static ssize_t answer_read(void *arg, char *buf, size_t max)
{
	struct api_answer *a = arg;
	size_t n = BASE_MIN(a->json.len - a->sent, max);

	memcpy(buf, a->json.buf + a->sent, n);
	a->sent += n;
	return (ssize_t)n;
}

void api_answer_end(struct http_request *req, struct base_json *j)
{
	base_json_end(j, '}');
	answer_settle(j);
	http_add_header(req, "Cache-Control", "no-store");
	if (http_over_budget(req)) {
		/* already answered: a partial result could be mistaken for the whole */
	} else if (j->overflow) {
		http_reply_error(req, 503, "the response exceeds %zu bytes", API_ANSWER_MAX);
	} else if (j->len > 32768) {
		http_reply_stream(req, 200, "application/json", answer_read, answer_free, j);
		return;
	} else {
		http_reply(req, 200, "application/json", j->buf, j->len);
	}
	answer_free(j);
}

void api_drop(struct base_json *j)
{
	answer_settle(j);
	answer_free(j);
}

void *api_alloc(struct http_request *req, size_t bytes)
{
	void *to = malloc(bytes);

	if (!to)
		http_reply_error(req, 503, "out of memory");
	return to;
}

bool api_item(struct api_list *l)
{
	if (l->matching++ < l->offset || l->given >= l->limit || l->truncated)
		return false;
	l->mark = base_json_mark(l->j);
	base_json_begin(l->j, '{');
	return true;
}

void api_item_end(struct api_list *l)
{
	base_json_end(l->j, '}');
	l->truncated = l->j->overflow || l->j->max - l->j->len < ANSWER_SPARE;
	if (l->truncated)
		base_json_back(l->j, l->mark);
	else
		l->given++;
}

/* Parameters */

bool api_param_u64(struct http_request *req, const char *key, uint64_t min, uint64_t max,
		   uint64_t *out)
{
	const char *s = http_query(req, key);

	if (!s || !*s)
		return true;
	if (!base_parse_u64(s, min, max, out))
		return true;
	http_reply_error(req, 400, "%s=%.40s: expected a number from %llu to %llu", key, s,
			 (unsigned long long)min, (unsigned long long)max);
	return false;
}

bool api_param_page(struct http_request *req, uint64_t max, struct api_list *list)
{
	return api_param_u64(req, "limit", 0, max, &list->limit) &&
	       api_param_u64(req, "offset", 0, UINT32_MAX, &list->offset);
}

const char *api_param_text(struct http_request *req, const char *key)
{
	const char *s = http_query(req, key);

	return s && *s ? s : NULL;
}

bool api_param_choice(struct http_request *req, const char *key, const char *const *names, size_t n,
		      int *out)
{
	const char *s = api_param_text(req, key);
	char all[128] = "";
	size_t used = 0;

	if (!s)
		return true;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(s, names[i])) {
			*out = (int)i;
			return true;
		}
		if (used < sizeof(all))
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
						 i ? ", " : "", names[i]);
	}
	http_reply_error(req, 400, "%s=%.40s: expected one of %s", key, s, all);
	return false;
}

bool api_param_terms(struct http_request *req, struct collect_terms *terms)
{
	const char *q = http_query(req, "q");

	terms->count = 0;
	if (!q || !collect_terms_parse(q, terms))
		return true;
	http_reply_error(req, 400, "q: at most %d terms and %zu characters are allowed",
			 COLLECT_TERMS_MAX, sizeof(terms->text) - 1);
	return false;
}

struct series_list {
	struct collect_series_id *ids;
	int n; /* number of IDs, or a negative errno */
	char bad[40];
};

static bool add_series(void *arg, const char *key, const char *value)
{
	struct series_list *l = arg;
	int n;

	if (strcmp(key, "series") || !*value)
		return true;
	n = collect_series_ids_parse(value, l->ids + l->n, API_SERIES_MAX - l->n, l->bad);
	l->n = n < 0 ? n : l->n + n;
	return n >= 0;
}

int api_param_series(struct http_request *req, struct collect_series_id ids[API_SERIES_MAX],
		     bool needed)
{
	struct series_list l = {.ids = ids};

	http_query_each(req, add_series, &l);
	if (!l.n && needed)
		http_reply_error(
			req, 400,
			"missing parameter series=INSTANCE/METRIC[,INSTANCE/METRIC]..., with IDs "
			"as in /api/v1/metrics");
	else if (l.n == -E2BIG)
		http_reply_error(req, 400, "series: at most %d are allowed per request",
				 API_SERIES_MAX);
	else if (l.n < 0)
		http_reply_error(req, 400, "series=%s: expected INSTANCE/METRIC", l.bad);
	return l.n < 0 || (!l.n && needed) ? -1 : l.n;
}

/* Parts of JSON */

double api_age(uint64_t then_ns, uint64_t now_ns)
{
	if (!then_ns)
		return NAN;
	return now_ns > then_ns ? (double)((now_ns - then_ns) / 1000) / 1e6 : 0;
}

void api_labels(struct base_json *j, const struct region_text_label *labels, uint32_t count)
{
	base_json_kbegin(j, "labels", '{');
	for (uint32_t i = 0; i < count; i++)
		base_put(j, KV(labels[i].key, labels[i].value));
	base_json_end(j, '}');
}

bool api_host_item(struct api_list *l, const char *hostname, const char *target, bool present)
{
	if (!api_item(l))
		return false;
	base_put(l->j, KV("host", hostname), KV("target", target), KV("present", present));
	return true;
}

struct api_summary api_layer_summary(const uint64_t *cell)
{
	uint64_t n = region_layer_count(cell);

	return (struct api_summary){
		.count = n,
		.mean = n ? (double)cell[SL_LAYER_SUM] * 1e-9 / (double)n : NAN,
		.p50 = region_layer_quantile(cell, 0.5) * 1e-9,
		.p90 = region_layer_quantile(cell, 0.9) * 1e-9,
		.p99 = region_layer_quantile(cell, 0.99) * 1e-9,
	};
}

void api_summary(struct base_json *j, const struct api_summary *s, bool p90)
{
	base_put(j, KV("count", s->count), KV_QUANTILE("mean", s->mean),
		 KV_QUANTILE("p50", s->p50));
	if (p90)
		base_put(j, KV_QUANTILE("p90", s->p90));
	base_put(j, KV_QUANTILE("p99", s->p99));
}

bool api_is_host(const char *host, const char *hostname, const char *target)
{
	return !host || !strcmp(host, hostname) || !strcmp(host, target);
}

static const char *const owner_keys[API_OWNER_LABELS] = {"namespace", "pod", "container", "service",
							 "unit"};

void api_owner_set(struct api_owner *o, const char *hostname, const char *target,
		   const struct region_info *info)
{
	o->hostname = hostname;
	o->target = target;
	o->instance = info ? info->instance : 0;
	for (size_t i = 0; i < API_OWNER_LABELS; i++)
		snprintf(o->label[i], sizeof(o->label[i]), "%s",
			 info ? region_label(info, owner_keys[i]) : "");
}

void api_owner(struct base_json *j, const struct api_owner *o)
{
	base_put(j, KV("host", o->hostname), KV("target", o->target));
	for (size_t i = 0; i < API_OWNER_LABELS; i++)
		base_put(j, KV(owner_keys[i], o->label[i]));
	if (o->instance)
		base_put(j, KV_ID("instance", o->instance));
}

const char *api_state_name(const struct collect_region_view *r)
{
	if (r->fault && *r->fault)
		return "dropped";
	return r->state == SL_STATE_LIVE && r->stale ? "stale" : region_state_name(r->state);
}

uint32_t api_region_terms(const struct collect_terms *t, const struct collect_region_view *r)
{
	char instance[COLLECT_SERIES_ID_BYTES];

	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)r->info->instance);
	return collect_terms_in_text(t, instance) |
	       collect_terms_in_text(t, r->hostname ? r->hostname : "") |
	       collect_terms_in_labels(t, r->info->labels, r->info->label_count);
}

/* Routes */

/* costly: its work grows with the number of series, points or observations */
static const struct {
	const char *path;
	http_handler handler;
	bool costly;
} routes[] = {
	{"/api/v1/status", api_get_status, false},
	{"/api/v1/hosts", api_get_hosts, false},
	{"/api/v1/pods", api_get_pods, false},
	{"/api/v1/metrics", api_get_metrics, true},
	{"/api/v1/history", api_get_history, true},
	{"/api/v1/buckets", api_get_buckets, true},
	{"/api/v1/latency", api_get_latency, false},
	{"/api/v1/flows", api_get_flows, false},
	{"/api/v1/flows/top", api_get_flows_top, false},
	{"/api/v1/layers", api_get_layers, false},
	{"/api/v1/net", api_get_net, false},
	{"/api/v1/group", api_get_group, true},
	{"/api/v1/heat", api_get_heat, true},
	{"/api/v1/marks", api_get_marks, false},
};

#define PARAMETERS_MAX 16

struct api_parameters {
	const char *key[PARAMETERS_MAX];
	size_t n;
	const char *twice; /* a repeated parameter; NULL means none */
};

static bool add_parameter(void *arg, const char *key, const char *value)
{
	struct api_parameters *p = arg;

	(void)value;
	if (!strcmp(key, "series") || !strcmp(key, "match"))
		return true;
	for (size_t i = 0; i < p->n && !p->twice; i++)
		if (!strcmp(p->key[i], key))
			p->twice = key;
	if (p->n < PARAMETERS_MAX)
		p->key[p->n] = key;
	return ++p->n <= PARAMETERS_MAX && !p->twice;
}

/* Refuses a repeated parameter, rather than ignore part of the request silently. */
bool api_params_once(struct http_request *req)
{
	struct api_parameters p = {.n = 0};

	http_query_each(req, add_parameter, &p);
	if (p.twice)
		http_reply_error(req, 400, "%.40s: given more than once", p.twice);
	else if (p.n > PARAMETERS_MAX)
		http_reply_error(req, 400, "more than %d parameters", PARAMETERS_MAX);
	return !p.twice && p.n <= PARAMETERS_MAX;
}

static void answer_request(struct http_request *req, void *collector)
{
	if (!api_params_once(req))
		return;
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++)
		if (!strcmp(routes[i].path, http_path(req))) {
			routes[i].handler(req, collector);
			return;
		}
	http_reply_error(req, 404, "no such path: %.200s", http_path(req));
}

int api_register(struct http *http, struct collect_collector *c)
{
	int err = 0;

	api_status_begin();
	for (size_t i = 0; !err && i < sizeof(routes) / sizeof(*routes); i++)
		err = (routes[i].costly ? http_route_costly : http_route)(
			http, "GET", routes[i].path, HTTP_READER, answer_request, c);
	err = err ?: api_prometheus_register(http, c);
	err = err ?: api_jobs_register(http, c);
	return err ? err : api_page_register(http);
}
