/* SPDX-License-Identifier: Apache-2.0 */
/* api_internal.h - what the endpoints of the API share; see api.c. */
#ifndef SL_API_INTERNAL_H
#define SL_API_INTERNAL_H

#include "collect/calc.h"
#include "collect/collect.h"
#include "api/json_out.h"
#include "http/http.h"

#define SL_API_ANSWER_MAX ((size_t)8 << 20)
#define SL_API_LIMIT_DEFAULT 500
#define SL_API_LIMIT_MAX 10000
#define SL_API_SERIES_MAX 32
#define SL_API_AGENT_SERVICE "sidelight-agent" /* label "service" of an agent's own region */

/* ---- answers ------------------------------------------------------------------------------------ */

struct sl_api_answer {
	struct sl_json json;
	size_t sent;
};

/* NULL when a 503 was given in its place. */
struct sl_api_answer *sl_api_answer(struct sl_http_request *req);
/* Each of these takes the answer over. */
void sl_api_send(struct sl_http_request *req, struct sl_api_answer *a); /* 503 if it overflowed */
void sl_api_drop(struct sl_api_answer *a); /* nothing is sent */
void sl_api_not_found(struct sl_http_request *req, struct sl_api_answer *a); /* of parameter series */
/* True while there is room for another item; takes the one after mark back if there is not. */
bool sl_api_fits(struct sl_json *j, struct sl_json_mark mark);

/* ---- parameters: false, or -1, after a 400 was given --------------------------------------------- */

bool sl_api_param_u64(struct sl_http_request *req, const char *key, uint64_t min, uint64_t max,
		      uint64_t *out); /* out stays as it is without the parameter */
bool sl_api_param_terms(struct sl_http_request *req, struct sl_terms *terms); /* q */
/* The number of ids in "series"; 0 only if it is not needed. */
int sl_api_param_series(struct sl_http_request *req, struct sl_series_id ids[SL_API_SERIES_MAX],
			bool needed);

/* ---- pieces of JSON: a key and its value --------------------------------------------------------- */

void sl_api_time(struct sl_json *j, const char *key, uint64_t ns); /* null for 0 */
void sl_api_age(struct sl_json *j, const char *key, uint64_t then_ns, uint64_t now_ns);
void sl_api_quantile(struct sl_json *j, const char *key, double v); /* null for NaN */
void sl_api_labels(struct sl_json *j, const struct sl_text_label *labels, uint32_t count);
void sl_api_instance(struct sl_json *j, uint64_t instance);
void sl_api_target(struct sl_json *j, const char *hostname, const char *target);
/*
 * An object of a list of hosts, {"host", "target", "present", ...}; end() takes all of it back if it does not
 * fit the answer.
 */
struct sl_json_mark sl_api_host_begin(struct sl_json *j, const char *hostname, const char *target,
				      bool present);
void sl_api_host_end(struct sl_json *j, struct sl_json_mark mark);
void sl_api_verdict(struct sl_json *j, const struct sl_pod_verdict *v); /* "verdict": {...} */

/* ---- regions -------------------------------------------------------------------------------------- */

const char *sl_api_label_of(const struct sl_region_info *info, const char *key); /* "" if none */
/* One word for a pod. Its end outweighs that its host can't be reached. */
const char *sl_api_state_name(const struct sl_region_view *r);
/* The terms that its labels, its host or its instance match. */
uint32_t sl_api_region_terms(const struct sl_terms *t, const struct sl_region_view *r);

/* ---- endpoints: arg is the collector -------------------------------------------------------------- */

void sl_api_status_begin(void);
/* From now on the status says that /api/v1/dta is there. */
void sl_api_status_dta(void); /* starts the clock, forgets rates */
void sl_api_get_status(struct sl_http_request *req, void *arg);
void sl_api_get_hosts(struct sl_http_request *req, void *arg);
void sl_api_get_latency(struct sl_http_request *req, void *arg);
void sl_api_get_pods(struct sl_http_request *req, void *arg);
void sl_api_get_anomalies(struct sl_http_request *req, void *arg);
void sl_api_get_flows(struct sl_http_request *req, void *arg);
void sl_api_flow_tables(struct sl_json *j, void *collector); /* "tcp": [...], "layers": [...], "net": [...] */
void sl_api_get_layers(struct sl_http_request *req, void *arg);
void sl_api_get_net(struct sl_http_request *req, void *arg);
void sl_api_get_scores(struct sl_http_request *req, void *arg);
void sl_api_get_apis(struct sl_http_request *req, void *arg);
void sl_api_get_external_group(struct sl_http_request *req, void *arg);
void sl_api_get_external(struct sl_http_request *req, void *arg);
void sl_api_get_external_values(struct sl_http_request *req, void *arg);
void sl_api_get_metrics(struct sl_http_request *req, void *arg);
void sl_api_get_history(struct sl_http_request *req, void *arg);
void sl_api_get_buckets(struct sl_http_request *req, void *arg);

#endif
