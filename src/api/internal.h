/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the endpoints of the API share: answers, parameters, pieces of JSON. */
#ifndef SL_API_INTERNAL_H
#define SL_API_INTERNAL_H

#include "act/verdict.h"
#include "collect/read/calc.h"
#include "collect/read/collect.h"
#include "base/json.h"
#include "http/http.h"

#define API_ANSWER_MAX	  ((size_t)8 << 20)
#define API_LIMIT_DEFAULT 500
#define API_LIMIT_MAX	  10000
#define API_SERIES_MAX	  32
#define API_AGENT_SERVICE "sidelight-agent" /* label "service" of an agent's own region */

/* ---- answers ---- */

struct api_answer {
	struct base_json json;
	size_t sent;
};

/* An answer begun as an object; NULL after a 503. */
struct api_answer *api_answer(struct http_request *req);
/* The same, which begins with "time". */
struct api_answer *api_answer_begin(struct http_request *req);
/* The same of what is told of services over a window of seconds, which it says. */
struct api_answer *api_window_begin(struct http_request *req, uint64_t *window);
/* Each takes the answer over: ends the object and sends it (a 503 if it overflowed); drops it. */
void api_answer_end(struct http_request *req, struct api_answer *a);
void api_drop(struct api_answer *a);
/* malloc(); NULL after a 503. */
void *api_alloc(struct http_request *req, size_t bytes);

/* A list of objects in an answer. */
struct api_list {
	struct base_json *j;
	uint64_t offset, limit;	  /* the page */
	uint64_t matching, given; /* items so far: all, and those in the answer */
	bool truncated;		  /* the answer was full: the rest is only counted */
	struct base_json_mark mark;
};
/* Counts an item, and begins its object if it is on the page. False: it is not to be written. */
bool api_item(struct api_list *l);
/* Ends the object; removes it if the answer is full. */
void api_item_end(struct api_list *l);

/* A list in an answer, written by each(from, item, arg), which calls item(..., arg) for each. */
#define API_EACH(j, key, each, from, item, arg) \
	(base_json_kbegin(j, key, '['), each(from, item, arg), base_json_end(j, ']'))

/* ---- parameters: false, or -1, after a 400 ---- */

bool api_params_once(struct http_request *req); /* each but "series" is given once */
bool api_param_u64(struct http_request *req, const char *key, uint64_t min, uint64_t max,
		   uint64_t *out); /* without the parameter, *out stays */
bool api_param_terms(struct http_request *req, struct collect_terms *terms); /* q */
/* NULL if it is missing or empty. */
const char *api_param_text(struct http_request *req, const char *key);
/* limit (at most max) and offset of a list */
bool api_param_page(struct http_request *req, uint64_t max, struct api_list *list);
/* One of the names, or NULL without the parameter. */
bool api_param_choice(struct http_request *req, const char *key, const char *const *names, size_t n,
		      const char **out);
/* The number of IDs in "series"; 0 only if needed is false. */
int api_param_series(struct http_request *req, struct collect_series_id ids[API_SERIES_MAX],
		     bool needed);

/* ---- pieces of JSON ---- */

double api_age(uint64_t then_ns, uint64_t now_ns); /* s; NaN if then_ns is 0 */
void api_labels(struct base_json *j, const struct region_text_label *labels, uint32_t count);
/* api_item() and the first keys of an object in a list of hosts. */
bool api_host_item(struct api_list *l, const char *hostname, const char *target, bool present);
/* Count, mean and quantiles of a histogram: NaN is null. */
struct api_summary {
	uint64_t count;
	double mean, p50, p90, p99; /* s */
};
struct api_summary api_layer_summary(const uint64_t *cell); /* of a layer */
/* "count", "mean", "p50", "p90" if asked for, "p99" */
void api_summary(struct base_json *j, const struct api_summary *s, bool p90);
void api_verdict(struct base_json *j, const struct act_pod_verdict *v); /* "verdict": {...} */
void api_anomaly(struct base_json *j, const struct act_anomaly *a);	/* its members */

/* ---- regions ---- */

/* host: NULL for any, otherwise a hostname or target. */
bool api_is_host(const char *host, const char *hostname, const char *target);
/* The owner of a kernel table's row: its labels and instance, kept beyond the view's callback. */
#define API_OWNER_LABELS 5
struct api_owner {
	const char *target, *hostname; /* never freed before the collector */
	uint64_t instance;	       /* 0: not known */
	char label[API_OWNER_LABELS][ACT_POD_LABEL_BYTES];
};
/* info: NULL if not known. */
void api_owner_set(struct api_owner *o, const char *hostname, const char *target,
		   const struct region_info *info);
/* "host", "target", the labels, and "instance" if it is known */
void api_owner(struct base_json *j, const struct api_owner *o);
/* One word for the state of a pod. The end of a pod outweighs a stale host. */
const char *api_state_name(const struct collect_region_view *r);
/* The terms that match its labels, its host or its instance. */
uint32_t api_region_terms(const struct collect_terms *t, const struct collect_region_view *r);

/* ---- endpoints: arg is the collector, except where it says otherwise ---- */

struct api_services {
	struct collect_services *services;
	struct collect_tracer *tracer; /* or NULL */
};

void api_status_begin(void);	   /* starts the clock, forgets rates */
int64_t api_status_begun_ns(void); /* CLOCK_REALTIME of that */
void api_status_dta(void);	   /* from now on the status says that /api/v1/dta exists */
void api_get_status(struct http_request *req, void *arg);
void api_get_hosts(struct http_request *req, void *arg);
void api_get_latency(struct http_request *req, void *arg);
void api_get_pods(struct http_request *req, void *arg);
void api_get_anomalies(struct http_request *req, void *arg);
void api_get_flows(struct http_request *req, void *arg);
void api_get_flows_top(struct http_request *req, void *arg);
/* "tcp": [...], "layers": [...], "net": [...] */
void api_flow_tables(struct base_json *j, void *collector);
void api_get_layers(struct http_request *req, void *arg);
void api_get_net(struct http_request *req, void *arg);
void api_get_scores(struct http_request *req, void *arg);
void api_get_apis(struct http_request *req, void *arg);
void api_get_openapi(struct http_request *req, void *arg);
void api_get_external_group(struct http_request *req, void *arg);
void api_get_external(struct http_request *req, void *arg);
void api_get_external_values(struct http_request *req, void *arg);
void api_get_metrics(struct http_request *req, void *arg);
void api_get_history(struct http_request *req, void *arg);
void api_get_buckets(struct http_request *req, void *arg);
void api_get_group(struct http_request *req, void *arg);
void api_get_heat(struct http_request *req, void *arg);
void api_get_marks(struct http_request *req, void *arg);
void api_post_read(struct http_request *req, void *arg);
/* Which of a pod's metrics have not changed in the last minute; NULL: not known. The caller frees
 * it. */
bool *api_still(uint64_t instance, size_t metrics);
void api_get_services(struct http_request *req, void *arg); /* arg: struct api_services */
void api_get_map(struct http_request *req, void *arg);	    /* likewise */
/* Adds the routes of Prometheus' API. 0 or -errno. */
int api_prometheus_register(struct http *http, struct collect_collector *c);
/* Adds the routes of the page: "/", its scripts, its style. 0 or -errno. */
int api_page_register(struct http *http);

#endif
