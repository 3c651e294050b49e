// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/judged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "analyse/role.h"
#include "base/base.h"
#include "collect/judge/record.h"

_Static_assert((int)ANALYSE_LEARNING == ACT_LEARNING && (int)ANALYSE_COARSE == ACT_COARSE &&
		       (int)ANALYSE_READY == ACT_READY,
	       "the same states");

#define NOW_S	0.5  /* time constants of the request rates: the present rate ... */
#define USUAL_S 60.0 /* ... and the usual rate */
#define CLEAR	3.0  /* number of standard deviations by which the two rates must differ */

/* ---- what metrics measure ---- */

static bool has_word(const char *name, size_t bytes, const char *const *words)
{
	for (; *words; words++)
		if (memmem(name, bytes, *words, strlen(*words)))
			return true;
	return false;
}

/*
 * True for counters of requests, including the counts of latency histograms. Labels do not matter:
 * a failed request is also a request.
 */
static bool counts_requests(const char *name, bool counter)
{
	static const char *const many[] = {"requests", "_jobs", "messages", "handled", NULL};
	static const char *const times[] = {"duration", "latency", "response_time", NULL};
	static const char *const not_these[] = {"error",   "fail",	 "client",
						"timeout", "retr",	 "database",
						"node_",   "container_", NULL};
	size_t n = strcspn(name, "{");
	bool count = n > 6 && !memcmp(name + n - 6, "_count", 6);

	return counter && !has_word(name, n, not_these) &&
	       (has_word(name, n, many) || (count && has_word(name, n, times)));
}

static enum act_measure find_measure(const char *name, bool counter)
{
	static const char *const waiting[] = {"in_flight", "inflight", "queue",	 "pending",
					      "backlog",   "waiting",  "active", NULL};
	struct analyse_role role = analyse_role_of(name, counter);
	size_t n = strcspn(name, "{");

	if (!counter && !has_word(name, n, (const char *const[]){"_seconds", "_bytes", NULL}) &&
	    has_word(name, n, waiting))
		return ACT_MEASURE_WAITING;
	switch (role.kind) {
	case ANALYSE_ROLE_LATENCY:
	case ANALYSE_ROLE_CLIENT:
	case ANALYSE_ROLE_SERVER:
		return ACT_MEASURE_LATENCY;
	case ANALYSE_ROLE_ERRORS:
		return ACT_MEASURE_ERRORS;
	case ANALYSE_ROLE_RESOURCE:
		return role.part == ANALYSE_CPU ? ACT_MEASURE_CPU : ACT_MEASURE_MEMORY;
	default:
		return role.kind == ANALYSE_ROLE_LOAD || counts_requests(name, counter)
			       ? ACT_MEASURE_LOAD
			       : ACT_MEASURE_OTHER;
	}
}

/* ---- requests ---- */

static void follow_rate(double *to, double rate, double seconds, double tau)
{
	*to += -expm1(-seconds / tau) * (rate - *to);
}

/*
 * Takes a row, and returns the requests per second divided by the usual requests per second, or 1
 * if the difference may be chance: if requests are independent, the mean rate r over a time
 * constant t has standard deviation sqrt(r / 2t).
 */
static double take_load(struct collect_judged *p, const struct collect_judge_finding *is)
{
	double sum = 0, seconds, rate, learned;

	for (uint32_t c = 0; c < p->columns; c++)
		if (p->requests[c] && isfinite(is->value[c]))
			sum += is->value[c];
	seconds = (double)(is->ns - p->load.ns) * 1e-9;
	rate = (sum - p->load.sum) / seconds;
	learned = (double)(is->ns - p->load.first_ns) * 1e-9;
	p->load.sum = sum;
	if (!p->load.ns || seconds <= 0 || rate < 0) {
		p->load.first_ns = p->load.ns ? p->load.first_ns : is->ns;
		p->load.ns = is->ns;
		return 0;
	}
	p->load.ns = is->ns;
	follow_rate(&p->load.now, rate, seconds, NOW_S);
	if (!is->anomalous)
		follow_rate(&p->load.usual, rate, seconds, fmin(USUAL_S, fmax(learned, seconds)));
	if (learned < 10 * NOW_S || !(p->load.usual > 0))
		return 0;
	return fabs(p->load.now - p->load.usual) < CLEAR * sqrt(p->load.usual / (2 * NOW_S))
		       ? 1
		       : p->load.now / p->load.usual;
}

/* ---- pods ---- */

struct collect_judged *collect_judged_new(struct act_verdicts *verdicts,
					  const struct collect_rows_entry *e, const uint8_t *entry)
{
	struct collect_judged *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->instance = e->instance;
	memcpy(&p->name, entry, sizeof(p->name));
	act_pod_label(&p->name, p->label, sizeof(p->label));
	p->shown = act_verdicts_add(verdicts, p->instance, &p->name);
	if (p->shown)
		return p;
	free(p);
	return NULL;
}

void collect_judged_free(struct collect_judged *p)
{
	if (p->shown)
		act_verdict_gone(p->shown);
	free(p->column);
	free(p->metric);
	free(p->measure);
	free(p->requests);
	free(p->text);
	free(p);
}

bool collect_judged_columns(struct collect_judged *p, const struct collect_rows_entry *e,
			    const uint8_t *entry)
{
	const char *names = (const char *)entry + sizeof(p->name);
	/* A name for replay is at most eight bytes longer than the displayed one. */
	size_t bytes = e->bytes - sizeof(p->name), room = 2 * bytes + 8 * (size_t)e->columns + 1;
	uint32_t n = e->columns;
	char *at;

	free(p->column);
	free(p->metric);
	free(p->measure);
	free(p->requests);
	free(p->text);
	memset(&p->load, 0, sizeof(p->load));
	p->column = calloc(n + 1, sizeof(*p->column));
	p->metric = calloc(n + 1, sizeof(*p->metric));
	p->measure = calloc(n + 1, sizeof(*p->measure));
	p->requests = calloc(n + 1, sizeof(*p->requests));
	p->text = at = malloc(room);
	p->columns = 0;
	if (!p->column || !p->metric || !p->measure || !p->requests || !p->text)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		bool counter = *names++ == '1';

		p->metric[i] = at;
		at = stpcpy(at, names) + 1;
		p->column[i] = (struct analyse_column){at, counter};
		p->measure[i] = find_measure(names, counter);
		p->requests[i] = counts_requests(names, counter);
		at += collect_record_name(at, names, counter);
		names += strlen(names) + 1;
	}
	p->columns = n;
	return true;
}

static void say_state(const struct collect_judged *p, const struct collect_judge_finding *is)
{
	base_log_limited(BASE_INFO, "analysis",
			 "pod state changed pod=%s service=%s host=%s state=%s "
			 "least_latency_factor=%.3g",
			 p->label, p->name.service, p->name.host, act_state_names[is->state],
			 is->least);
}

void collect_judged_show(struct collect_judged *p, const struct collect_judge_finding *is,
			 bool shadow)
{
	const struct analyse_verdict *v = is->verdict;
	struct act_finding f = {
		.ns = is->ns,
		.score = v->score,
		.suspicion = v->suspicion,
		.threshold = is->anomalous || (v->known && !is->warming) ? 1 : INFINITY,
		.anomalous = is->anomalous,
		.drift = v->drift,
		.state = (enum act_state)is->state,
		.least = is->least,
		.slowdown = is->slowdown,
		.shadow_anomalous = v->shadow_anomalous && !is->warming,
		.shadow_score = shadow ? v->shadow_score : NAN,
		.load = take_load(p, is),
		.delay = (double)v->delay,
		.callers = is->callers,
	};

	for (uint32_t i = 0; i < v->blamed && f.blames < ACT_BLAMES; i++) {
		uint32_t c = v->blame[i].column;

		if (c >= p->columns)
			continue;
		f.blame[f.blames].metric = p->metric[c];
		f.blame[f.blames].share = (double)v->blame[i].share;
		f.blame[f.blames].value = (double)v->blame[i].now;
		f.blame[f.blames].before = (double)v->blame[i].before;
		f.blame[f.blames].measure = p->measure[c];
		f.blame[f.blames++].rate = p->column[c].counter;
	}
	if (is->changed)
		say_state(p, is);
	if (p->shown)
		act_verdict_push(p->shown, &f);
}
