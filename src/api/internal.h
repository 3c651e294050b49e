/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - functions that the endpoints share: responses, parameters, and parts of JSON. */
#ifndef SL_API_INTERNAL_H
#define SL_API_INTERNAL_H

#include "act/incident.h"
#include "base/json.h"
#include "collect/read/calc.h"
#include "collect/read/collect.h"
#include "http/http.h"

#define API_ANSWER_MAX	  ((size_t)8 << 20)
#define API_LIMIT_DEFAULT 500
#define API_LIMIT_MAX	  10000
#define API_SERIES_MAX	  32
#define API_AGENT_SERVICE "sidelight-agent" /* label "service" of an agent's own region */

/* Responses */

/* Begins a response that is a JSON object. On failure, answers with 503 and returns NULL. */
struct base_json *api_answer(struct http_request *req);
/* Like api_answer(), but the object begins with "time". */
struct base_json *api_answer_begin(struct http_request *req);
/*
 * Like api_answer_begin(), but for figures of services over a window in seconds, which the object
 * includes.
 */
struct base_json *api_window_begin(struct http_request *req, uint64_t *window);
/*
 * api_answer_end() ends the object and sends the response, or an error if it overflowed or the
 * budget of the request is used up. api_drop() discards the response. Both free it.
 */
void api_answer_end(struct http_request *req, struct base_json *j);
void api_drop(struct base_json *j);
/* Like malloc(), but returns NULL after a 503 response. */
void *api_alloc(struct http_request *req, size_t bytes);

/* A list of objects in a response. */
struct api_list {
	struct base_json *j;
	uint64_t offset, limit; /* items to write: skip offset items, then write at most limit */
	/* number of items so far: all matching items, and those in the response */
	uint64_t matching, given;
	bool truncated; /* true if the response is full; further items are only counted */
	struct base_json_mark mark;
};
/*
 * Counts an item, and begins its object if it is on the page. Returns false if the caller must not
 * write the item.
 */
bool api_item(struct api_list *l);
/* Ends the object. Removes it if the response is full. */
void api_item_end(struct api_list *l);

/* Writes a list by calling each(from, item, arg), which calls item(..., arg) per element. */
#define API_EACH(j, key, each, from, item, arg) \
	(base_json_kbegin(j, key, '['), each(from, item, arg), base_json_end(j, ']'))

/* Parameters; these functions return false or -1 after a 400 response */

/* checks that no parameter but "series" is repeated */
bool api_params_once(struct http_request *req);
bool api_param_u64(struct http_request *req, const char *key, uint64_t min, uint64_t max,
		   uint64_t *out); /* *out is unchanged if the parameter is missing */
bool api_param_terms(struct http_request *req, struct collect_terms *terms); /* parameter "q" */
/* Returns NULL if the parameter is missing or empty. */
const char *api_param_text(struct http_request *req, const char *key);
/* parameters "limit" (at most max) and "offset" of a list */
bool api_param_page(struct http_request *req, uint64_t max, struct api_list *list);
/* Sets *out to the index of one of the names. It is unchanged if the parameter is missing. */
bool api_param_choice(struct http_request *req, const char *key, const char *const *names, size_t n,
		      int *out);
/* Returns the number of IDs in "series", which may be 0 only if needed is false. */
int api_param_series(struct http_request *req, struct collect_series_id ids[API_SERIES_MAX],
		     bool needed);

/* Parts of JSON */

double api_age(uint64_t then_ns, uint64_t now_ns); /* age in seconds; NaN if then_ns is 0 */
void api_labels(struct base_json *j, const struct region_text_label *labels, uint32_t count);
/* Calls api_item() and writes the first members of an object in a host list. */
bool api_host_item(struct api_list *l, const char *hostname, const char *target, bool present);
/* Count, mean and quantiles of a histogram. NaN becomes null. */
struct api_summary {
	uint64_t count;
	double mean, p50, p90, p99; /* seconds */
};
struct api_summary api_layer_summary(const uint64_t *cell); /* summary of a layer */
/* Writes "count", "mean", "p50", "p90" (optional) and "p99". */
void api_summary(struct base_json *j, const struct api_summary *s, bool p90);
/* writes "verdict": {...}, or nothing if the pod has no verdict */
void api_pod_verdict(struct base_json *j, void *collector, uint64_t instance);
bool api_pod_anomalous(void *collector, uint64_t instance); /* now, by its verdict */
/* Visits the incidents, newest first, like act_incidents_each(). */
void api_incidents(void *collector, bool (*fn)(const struct act_incident *i, void *arg), void *arg);
/* writes the members of an anomaly */
void api_anomaly(struct base_json *j, const struct act_anomaly *a);

/* Regions */

/* Returns true if host matches. host: a hostname or target; NULL matches any. */
bool api_is_host(const char *host, const char *hostname, const char *target);
/*
 * The owner of a row in a kernel table. The labels and instance are copied, so that they outlive
 * the view.
 */
#define API_OWNER_LABELS 5
struct api_owner {
	const char *target, *hostname; /* valid until the collector is freed */
	uint64_t instance;	       /* instance of the region; 0 means unknown */
	char label[API_OWNER_LABELS][ACT_POD_LABEL_BYTES];
};
/* Fills in *o. info is NULL if unknown. */
void api_owner_set(struct api_owner *o, const char *hostname, const char *target,
		   const struct region_info *info);
/* Writes "host", "target", the labels, and "instance" if known. */
void api_owner(struct base_json *j, const struct api_owner *o);
/*
 * Returns one word for the state of a pod. An ended pod is reported as such even if its host is
 * stale.
 */
const char *api_state_name(const struct collect_region_view *r);
/* Returns a bit mask of the terms that match the region's labels, host or instance. */
uint32_t api_region_terms(const struct collect_terms *t, const struct collect_region_view *r);

/* Endpoints; arg is the collector unless stated otherwise */

struct api_services {
	struct collect_services *services;
	struct collect_tracer *tracer; /* may be NULL */
};

void api_status_begin(void);	   /* starts the clock and resets the rates */
int64_t api_status_begun_ns(void); /* CLOCK_REALTIME when api_status_begin() was called */
void api_status_dta(void);	   /* makes the status report that /api/v1/dta exists */
void api_get_status(struct http_request *req, void *arg);
void api_get_hosts(struct http_request *req, void *arg);
void api_get_latency(struct http_request *req, void *arg);
void api_get_pods(struct http_request *req, void *arg);
void api_get_flows(struct http_request *req, void *arg);
void api_get_flows_top(struct http_request *req, void *arg);
/* Writes "tcp": [...], "layers": [...], "net": [...]. */
void api_flow_tables(struct base_json *j, void *collector);
void api_get_layers(struct http_request *req, void *arg);
void api_get_net(struct http_request *req, void *arg);
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
/*
 * Returns a flag per metric of a pod: true if unchanged for a minute. Returns NULL if unknown. The
 * caller frees the array.
 */
bool *api_still(uint64_t instance, size_t metrics);
void api_get_map(struct http_request *req, void *arg); /* arg: struct api_services */
/* dta_seen.c: flows by device, drops and top talkers; arg is the store server */
void api_get_dta_paths(struct http_request *req, void *arg);
void api_get_dta_drops(struct http_request *req, void *arg);
void api_get_dta_top(struct http_request *req, void *arg);
/* Adds the routes of Prometheus' API. Returns 0 or a negative errno. */
int api_prometheus_register(struct http *http, struct collect_collector *c);
/* Adds the routes of jobs. Returns 0 or a negative errno. */
int api_jobs_register(struct http *http, struct collect_collector *c);
/* Adds the routes of the page: "/", its scripts and style. Returns 0 or a negative errno. */
int api_page_register(struct http *http);

/* range.c: the time range of a request and its division into steps. */

struct api_range {
	int64_t from_ns, to_ns; /* both CLOCK_REALTIME */
};

/*
 * Parses seconds since the epoch, or RFC 3339 in UTC or with an offset, with millisecond precision.
 */
bool api_parse_time(const char *s, int64_t *ns);
/* Returns false after a 400 response. *ns is unchanged if the parameter is missing. */
bool api_param_time(struct http_request *req, const char *key, int64_t *ns);
/*
 * Parses start and end, or last, a duration that ends now (default last_ns). The range is at most
 * 24 h. Returns false after a 400 response.
 */
bool api_param_range(struct http_request *req, uint64_t last_ns, struct api_range *out);

/*
 * Steps of equal width. They end at multiples of the width since the epoch; an incomplete step is
 * excluded.
 */
struct api_steps {
	int64_t first_ns; /* end of the first step */
	int64_t width_ns;
	size_t n;
};
struct api_steps api_steps(const struct api_range *r, uint64_t most, int64_t least_ns);
/*
 * Returns the index of the step that contains a time. The result is negative or at least n outside
 * of all steps.
 */
int64_t api_step_of(const struct api_steps *s, int64_t ns);
int64_t api_step_ns(const struct api_steps *s, size_t i); /* returns the end of step i */

/* Time limit for the computation of one request, and a function that checks it. */
#define API_WORK_NS 1000000000ull
bool api_is_late(uint64_t begun_ns); /* begun_ns: start of the request by base_now_ns() */

#endif
