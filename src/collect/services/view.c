// SPDX-License-Identifier: Apache-2.0
/*
 * view.c - makes the views: the results of the looks in a window, with the current anomalies,
 * sorted by attention
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "act/incident.h"
#include "base/grow.h"
#include "collect/judge/live.h"
#include "collect/services/internal.h"

#define ANOMALIES_MAX 256u
#define RECENT_NS     60000000000ll
#define SUSPECT	      1.0 /* minimum suspicion of a culprit; 0 if its callers are not known */

/* ---- anomalies ---- */

static struct collect_services_service *service_of(struct collect_services *s, uint64_t instance)
{
	struct collect_services_region *r = collect_services_region(s, instance);

	return r ? r->service : NULL;
}

/* An ongoing anomaly outweighs an ended one; otherwise the higher peak wins. */
static bool is_worse(const struct act_anomaly *a, const struct act_anomaly *b)
{
	if (!a->end_ns != !b->end_ns)
		return !a->end_ns;
	return a->peak / a->threshold > b->peak / b->threshold;
}

/*
 * Assigns to each service its worst anomaly of the last minute. Returns the culprit, which is the
 * service with an open anomaly whose pod is the most suspicious, or NULL if there is none.
 */
static struct collect_services_service *take_anomalies(struct collect_services *s, int64_t now_ns)
{
	struct act_anomaly *found = malloc(ANOMALIES_MAX * sizeof(*found));
	struct collect_services_service *culprit = NULL;
	struct collect_analysis_view view;
	size_t n = 0;

	for (struct collect_services_service *v = s->first; v; v = v->next) {
		free(v->anomaly);
		v->anomaly = NULL;
		v->suspicion = 0;
	}
	if (found && collect_collector_analysis(s->c, &view))
		n = act_verdicts_anomalies(view.verdicts, 0, found, ANOMALIES_MAX);
	for (size_t i = 0; i < n; i++) {
		struct collect_services_service *v = service_of(s, found[i].instance);
		struct act_worst worst;

		if (!v || (found[i].end_ns && now_ns - found[i].last_ns > RECENT_NS))
			continue;
		/* More or fewer requests are no reason for attention. */
		if (!found[i].end_ns && act_incidents_is_load(view.incidents, found[i].instance))
			continue;
		worst = act_verdicts_worst(view.verdicts, found[i].instance, now_ns - RECENT_NS);
		if (!found[i].end_ns && worst.suspicion > v->suspicion)
			v->suspicion = worst.suspicion;
		if (v->anomaly && !is_worse(&found[i], v->anomaly))
			continue;
		v->anomaly = v->anomaly ?: malloc(sizeof(*v->anomaly));
		if (v->anomaly)
			*v->anomaly = found[i];
	}
	for (struct collect_services_service *v = s->first; v; v = v->next)
		if (v->anomaly && !v->anomaly->end_ns && v->suspicion >= SUSPECT &&
		    (!culprit || v->suspicion > culprit->suspicion))
			culprit = v;
	free(found);
	return culprit;
}

/* ---- figures ---- */

static void view_requests(const struct collect_services *s,
			  const struct collect_services_service *v, unsigned int window,
			  struct collect_service_view *to)
{
	double n = 0, errors = 0, told = 0, passed = 0;
	struct collect_latency latency = {0};

	for (uint32_t i = 0; i < COLLECT_SERVICES_WINDOW; i++)
		to->spark[i] = NAN;
	for (uint32_t i = 0; i < COLLECT_SERVICES_WINDOW && i < s->tick; i++) {
		const uint32_t at = (s->tick - i) % SERVICES_TICKS;
		const struct collect_services_tick *t = &v->tick[at];
		double seconds = s->seconds[at];

		if (t->told)
			to->spark[COLLECT_SERVICES_WINDOW - 1 - i] = t->requests;
		if (passed >= window)
			continue;
		passed += seconds;
		if (t->told) {
			n += t->requests * seconds;
			errors += t->errors * seconds;
			told += seconds;
		}
		if (v->latency)
			collect_latency_sum(&latency, &v->latency[at]);
	}
	to->requests = to->errors = to->p50 = to->p99 = NAN;
	to->requests_metric = v->requests_metric;
	to->latency_metric = v->latency_metric;
	if (told > 0) {
		to->requests_from = COLLECT_FROM_APPLICATION;
		to->requests = n / told;
		to->errors = errors / told;
	} else if (!isnan(v->kernel_requests)) {
		to->requests_from = COLLECT_FROM_KERNEL;
		to->requests = v->kernel_requests;
		to->requests_metric = "";
	}
	if (collect_latency_count(&latency) > 0) {
		to->latency_from = COLLECT_FROM_APPLICATION;
	} else if (*v->latency_metric == '\0' && collect_latency_count(&v->kernel_latency) > 0) {
		to->latency_from = COLLECT_FROM_KERNEL;
		latency = v->kernel_latency;
		to->latency_metric = "";
	} else {
		return;
	}
	to->p50 = collect_latency_quantile(&latency, 0.5);
	to->p99 = collect_latency_quantile(&latency, 0.99);
}

bool collect_services_name(struct collect_services *s, uint64_t instance,
			   struct collect_service_name *out)
{
	struct collect_services_service *v;

	pthread_mutex_lock(&s->lock);
	v = service_of(s, instance);
	if (v)
		*out = v->name;
	pthread_mutex_unlock(&s->lock);
	return v;
}

/* Returns an actionable limit, unless its weight is small compared to the other limits. */
static enum region_why_limit find_dominating(const struct collect_services_limits *l)
{
	enum region_why_limit fine = REGION_WHY_IDLE, problem = REGION_WHY_IDLE;
	double all = 0;

	for (int i = 0; i < REGION_WHY_LIMITS; i++) {
		enum region_why_limit *most = region_why_fine((enum region_why_limit)i) ? &fine
											: &problem;

		all += l->weight[i];
		if (l->weight[i] > l->weight[*most])
			*most = (enum region_why_limit)i;
	}
	return l->weight[problem] > 0.2 * all ? problem : fine;
}

static void view_connections(const struct collect_services_service *v,
			     struct collect_service_connections *to)
{
	*to = (struct collect_service_connections){
		.known = v->connected,
		.open = v->open,
		.bytes = v->flow_bytes,
		.retransmits = v->flow_retransmits,
		.rtt = v->rtt_weight > 0 ? v->rtt_sum / v->rtt_weight : NAN,
		.rtt_min = v->rtt_weight > 0 ? v->rtt_min_sum / v->rtt_weight : NAN,
		.why = "",
	};
	if (!v->limits)
		return;
	to->limit = find_dominating(v->limits);
	to->why = v->limits->why[to->limit];
}

/* ---- views ---- */

static void make_view(const struct collect_services *s, const struct collect_services_service *v,
		      unsigned int window, const struct collect_services_service *culprit,
		      struct collect_service_view *to)
{
	*to = (struct collect_service_view){
		.service = v->name.service,
		.kube_namespace = v->name.kube_namespace,
		.pods = v->pods,
		.live = v->live,
		.stale = v->stale,
		.dead = v->dead,
		.hosts = v->hosts,
		.instances = v->instances,
		.saturation = {.cores = v->cores,
			       .cpu_ratio = v->cpu_ratio,
			       .bytes = v->bytes,
			       .memory_ratio = v->memory_ratio,
			       .pressure = {v->pressure[0], v->pressure[1], v->pressure[2]}},
		.anomaly = v->anomaly,
		.culprit = v == culprit,
		.changing = v->changing,
		.unchanged = v->unchanged,
	};
	memcpy(to->host, v->host, sizeof(to->host));
	memcpy(to->instance, v->instance, sizeof(to->instance));
	view_requests(s, v, window, to);
	view_connections(v, &to->connections);
	collect_services_attention(to);
}

static int by_attention(const void *a, const void *b)
{
	const struct collect_service_view *x = a, *y = b;

	return BASE_ORDER(y->attention, x->attention) ?: strcmp(x->service, y->service) ?:
	       strcmp(x->kube_namespace, y->kube_namespace);
}

void collect_services_each(struct collect_services *s, unsigned int window,
			   void (*fn)(const struct collect_service_view *, void *), void *arg,
			   struct collect_services_totals *totals)
{
	struct collect_service_view *view;
	struct collect_services_service *culprit;
	size_t n = 0;

	pthread_mutex_lock(&s->lock);
	*totals = (struct collect_services_totals){.left_out = s->left_out};
	view = malloc((s->services + 1) * sizeof(*view));
	if (!view)
		totals->left_out += s->services;
	culprit = take_anomalies(s, s->now_ns);
	for (struct collect_services_service *v = s->first; v && view; v = v->next) {
		make_view(s, v, window, culprit, &view[n++]);
		totals->changing += v->changing;
		totals->unchanged += v->unchanged;
	}
	if (n)
		qsort(view, n, sizeof(*view), by_attention);
	for (size_t i = 0; i < n; i++)
		fn(&view[i], arg);
	pthread_mutex_unlock(&s->lock);
	free(view);
}
