/* SPDX-License-Identifier: Apache-2.0 */
/* api_internal.h - what the endpoints of the API share; see api.c. */
#ifndef SL_API_INTERNAL_H
#define SL_API_INTERNAL_H

#include "collect/calc.h"
#include "collect/collect.h"
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

/* NULL when a 503 was given in its place. */
struct api_answer *api_answer(struct http_request *req);
/* Each of these takes the answer over. */
void api_send(struct http_request *req, struct api_answer *a);	    /* 503 if it overflowed */
void api_drop(struct api_answer *a);				    /* nothing is sent */
void api_not_found(struct http_request *req, struct api_answer *a); /* of parameter series */
/* True while there is room for another item; takes the one after mark back if there is not. */
bool api_fits(struct base_json *j, struct base_json_mark mark);

/* ---- parameters: false, or -1, after a 400 was given ---- */

bool api_param_u64(struct http_request *req, const char *key, uint64_t min, uint64_t max,
		   uint64_t *out); /* out stays as it is without the parameter */
bool api_param_terms(struct http_request *req, struct collect_terms *terms); /* q */
/* The number of ids in "series"; 0 only if it is not needed. */
int api_param_series(struct http_request *req, struct collect_series_id ids[API_SERIES_MAX],
		     bool needed);

/* ---- pieces of JSON: a key and its value ---- */

void api_time(struct base_json *j, const char *key, uint64_t ns); /* null for 0 */
void api_age(struct base_json *j, const char *key, uint64_t then_ns, uint64_t now_ns);
void api_quantile(struct base_json *j, const char *key, double v); /* null for NaN */
void api_labels(struct base_json *j, const struct region_text_label *labels, uint32_t count);
void api_instance(struct base_json *j, uint64_t instance);
void api_target(struct base_json *j, const char *hostname, const char *target);
/*
 * An object of a list of hosts, {"host", "target", "present", ...}; end() takes all of it back if
 * it does not fit the answer.
 */
struct base_json_mark api_host_begin(struct base_json *j, const char *hostname, const char *target,
				     bool present);
void api_host_end(struct base_json *j, struct base_json_mark mark);
void api_verdict(struct base_json *j, const struct act_pod_verdict *v); /* "verdict": {...} */

/* ---- regions ---- */

const char *api_label_of(const struct region_info *info, const char *key); /* "" if none */
/* One word for a pod. Its end outweighs that its host can't be reached. */
const char *api_state_name(const struct collect_region_view *r);
/* The terms that its labels, its host or its instance match. */
uint32_t api_region_terms(const struct collect_terms *t, const struct collect_region_view *r);

/* ---- endpoints: arg is the collector ---- */

void api_status_begin(void);
/* From now on the status says that /api/v1/dta is there. */
void api_status_dta(void); /* starts the clock, forgets rates */
void api_get_status(struct http_request *req, void *arg);
void api_get_hosts(struct http_request *req, void *arg);
void api_get_latency(struct http_request *req, void *arg);
void api_get_pods(struct http_request *req, void *arg);
void api_get_anomalies(struct http_request *req, void *arg);
void api_get_flows(struct http_request *req, void *arg);
void api_flow_tables(struct base_json *j,
		     void *collector); /* "tcp": [...], "layers": [...], "net": [...] */
void api_get_layers(struct http_request *req, void *arg);
void api_get_net(struct http_request *req, void *arg);
void api_get_scores(struct http_request *req, void *arg);
void api_get_apis(struct http_request *req, void *arg);
void api_get_external_group(struct http_request *req, void *arg);
void api_get_external(struct http_request *req, void *arg);
void api_get_external_values(struct http_request *req, void *arg);
void api_get_metrics(struct http_request *req, void *arg);
void api_get_history(struct http_request *req, void *arg);
void api_get_buckets(struct http_request *req, void *arg);

#endif
