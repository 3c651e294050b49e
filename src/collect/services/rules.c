// SPDX-License-Identifier: Apache-2.0
#include "collect/services/rules.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"

#define NAME_BYTES 128u

/*
 * Metric names, without "_total" or a unit at the end, and with '_' for dots. '*' matches any
 * prefix. The first match is the rule; its index in the table is its rank.
 *
 * Sources: "Metric and label naming" of prometheus.io; the default names of the client libraries
 * and of promhttp, Micrometer and go-grpc-prometheus; OpenTelemetry's semantic conventions for
 * HTTP, RPC and processes.
 */
static const struct {
	const char *name;
	enum collect_rule_role role;
} rules[] = {
	/* Metrics that do not count the service's own requests. */
	{"sidelight_*", COLLECT_RULE_NONE},
	{"promhttp_*", COLLECT_RULE_NONE},
	{"node_*", COLLECT_RULE_NONE},
	{"container_*", COLLECT_RULE_NONE},
	{"http_client_*", COLLECT_RULE_NONE},
	{"rpc_client_*", COLLECT_RULE_NONE},
	{"grpc_client_*", COLLECT_RULE_NONE},

	{"*_request_errors", COLLECT_RULE_ERRORS},
	{"*_requests_failed", COLLECT_RULE_ERRORS},
	{"*_failed_requests", COLLECT_RULE_ERRORS},
	{"*_jobs_failed", COLLECT_RULE_ERRORS},
	{"*_errors", COLLECT_RULE_ERRORS},
	{"*_failures", COLLECT_RULE_ERRORS},
	{"*_failed", COLLECT_RULE_ERRORS},
	{"*_exceptions", COLLECT_RULE_ERRORS},

	{"http_server_requests", COLLECT_RULE_REQUESTS},
	{"http_requests", COLLECT_RULE_REQUESTS},
	{"grpc_server_handled", COLLECT_RULE_REQUESTS},
	{"*_http_requests", COLLECT_RULE_REQUESTS},
	{"*_requests", COLLECT_RULE_REQUESTS},
	{"*_requests_handled", COLLECT_RULE_REQUESTS},
	{"*_jobs_done", COLLECT_RULE_REQUESTS},
	{"*_jobs_processed", COLLECT_RULE_REQUESTS},
	{"*_messages_processed", COLLECT_RULE_REQUESTS},
	{"*_jobs", COLLECT_RULE_REQUESTS},

	{"http_server_request_duration", COLLECT_RULE_LATENCY},
	{"http_request_duration", COLLECT_RULE_LATENCY},
	{"http_server_duration", COLLECT_RULE_LATENCY},
	{"http_server_requests", COLLECT_RULE_LATENCY},
	{"grpc_server_handling", COLLECT_RULE_LATENCY},
	{"rpc_server_duration", COLLECT_RULE_LATENCY},
	{"rpc_server_call_duration", COLLECT_RULE_LATENCY},
	{"*_http_request_duration", COLLECT_RULE_LATENCY},
	{"*_request_duration", COLLECT_RULE_LATENCY},
	{"*_request_latency", COLLECT_RULE_LATENCY},
	{"*_response_time", COLLECT_RULE_LATENCY},
	{"*_job_duration", COLLECT_RULE_LATENCY},
	{"*_duration", COLLECT_RULE_LATENCY},
	{"*_latency", COLLECT_RULE_LATENCY},

	{"process_cpu", COLLECT_RULE_CPU},
	{"process_cpu_time", COLLECT_RULE_CPU},
	{"*_cpu", COLLECT_RULE_CPU},

	{"process_resident_memory", COLLECT_RULE_MEMORY},
	{"process_memory_usage", COLLECT_RULE_MEMORY},
	{"*_resident_memory", COLLECT_RULE_MEMORY},
};

static const struct {
	const char *text;
	double seconds;
} units[] = {
	{"seconds", 1},		{"s", 1},     {"milliseconds", 1e-3}, {"ms", 1e-3},
	{"microseconds", 1e-6}, {"us", 1e-6}, {"nanoseconds", 1e-9},  {"ns", 1e-9},
	{"bytes", 1},
};

/*
 * Removes "_total" and the unit from the name; *unit is taken from the name, or else from the
 * metric.
 */
static bool normalise_name(const struct region_metric *m, char name[NAME_BYTES], double *unit)
{
	size_t n = strlen(m->name);

	if (n >= NAME_BYTES)
		return false;
	for (size_t i = 0; i <= n; i++)
		name[i] = m->name[i] == '.' ? '_' : m->name[i];
	if (n > 6 && !strcmp(name + n - 6, "_total"))
		name[n -= 6] = '\0';
	*unit = 1;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (!strcmp(units[i].text, m->unit))
			*unit = units[i].seconds;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		size_t of = strlen(units[i].text);

		if (n > of + 1 && name[n - of - 1] == '_' &&
		    !strcmp(name + n - of, units[i].text)) {
			name[n - of - 1] = '\0';
			*unit = units[i].seconds;
			break;
		}
	}
	return true;
}

static bool fits_rule(const char *rule, const char *name)
{
	size_t n = strlen(name), r = strlen(rule);

	if (*rule == '*')
		return n >= r && !strcmp(name + n - (r - 1), rule + 1);
	if (rule[r - 1] == '*')
		return !strncmp(name, rule, r - 1);
	return !strcmp(name, rule);
}

static bool is_kind(const struct region_metric *m, enum collect_rule_role role)
{
	switch (role) {
	case COLLECT_RULE_REQUESTS:
	case COLLECT_RULE_ERRORS:
	case COLLECT_RULE_CPU:
		return region_is_counter(m);
	case COLLECT_RULE_LATENCY:
		return m->kind == SL_KIND_HISTOGRAM || m->kind == SL_KIND_HISTOGRAM_EXP;
	case COLLECT_RULE_MEMORY:
		return m->kind == SL_KIND_GAUGE || m->kind == SL_KIND_GAUGE_F64;
	case COLLECT_RULE_NONE:
	case COLLECT_RULE_ROLES:
		break;
	}
	return true;
}

struct collect_rule collect_rule_of(const struct region_metric *m)
{
	struct collect_rule rule = {.role = COLLECT_RULE_NONE};
	char name[NAME_BYTES];

	if (!normalise_name(m, name, &rule.unit))
		return rule;
	for (uint32_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (is_kind(m, rules[i].role) && fits_rule(rules[i].name, name)) {
			rule.role = rules[i].role;
			rule.rank = i;
			break;
		}
	return rule;
}

struct collect_rule collect_rule_again(struct collect_rule_memo *memo, size_t n,
				       const struct region_metric *m)
{
	struct collect_rule_memo *at = &memo[base_hash_text(0, m->name) % n];

	if (at->kind == m->kind && !strcmp(at->name, m->name) && !strcmp(at->unit, m->unit))
		return at->rule;
	if (strlen(m->name) >= sizeof(at->name) || strlen(m->unit) >= sizeof(at->unit))
		return collect_rule_of(m);
	strcpy(at->name, m->name);
	strcpy(at->unit, m->unit);
	at->kind = m->kind;
	at->rule = collect_rule_of(m);
	return at->rule;
}

/* ---- outcomes ---- */

static bool is_one_of(const char *text, const char *const *words)
{
	while (*words && strcasecmp(text, *words))
		words++;
	return *words;
}

enum collect_outcome collect_outcome_of(const struct region_metric *m)
{
	static const char *const keys[] = {"code",
					   "status",
					   "status_code",
					   "http_status",
					   "http_status_code",
					   "http_response_status_code",
					   "http.response.status_code",
					   "http.status_code",
					   "grpc_code",
					   "rpc.grpc.status_code",
					   "rpc_grpc_status_code",
					   "outcome",
					   "result",
					   NULL};
	/* gRPC codes that are the server's fault according to OpenTelemetry. */
	static const char *const wrong[] = {
		"error",	 "failed",	     "failure",	 "server_error",
		"Unknown",	 "Internal",	     "DataLoss", "Unavailable",
		"Unimplemented", "DeadlineExceeded", "5xx",	 NULL};
	static const char *const none[] = {"", "none", "ok", NULL};
	enum collect_outcome out = COLLECT_OUTCOME_UNKNOWN;

	for (uint32_t i = 0; i < m->label_count; i++) {
		const struct region_text_label *l = &m->labels[i];
		const char *v = l->value;

		if (is_one_of(l->key, (const char *const[]){"error.type", "error_type", NULL})) {
			if (!is_one_of(v, none))
				return COLLECT_OUTCOME_ERROR;
		} else if (is_one_of(l->key, keys)) {
			bool http = v[0] == '5' && isdigit((unsigned char)v[1]) &&
				    isdigit((unsigned char)v[2]) && !v[3];

			if (http || is_one_of(v, wrong))
				return COLLECT_OUTCOME_ERROR;
			out = COLLECT_OUTCOME_FINE;
		}
	}
	return out;
}
