// SPDX-License-Identifier: Apache-2.0
/* self_live.c - of the collector's own series, those of analysis and of what it causes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"
#include "collect/analysis/live_internal.h"
#include "collect/self/self.h"

#define HOUR_NS 3600000000000ll

static bool analyses(const struct collect_live *l)
{
	return l->analysis;
}

static bool samples(const struct collect_live *l)
{
	return l->writer;
}

static bool pushes(const struct collect_live *l)
{
	return l->writer || l->alert || l->webhook;
}

bool collect_self_live_there(const struct collect_collector *c, const char *family)
{
	static const struct {
		const char *prefix;
		bool (*there)(const struct collect_live *l);
	} needs[] = {{"sidelight_analysis_", analyses},
		     {"sidelight_anomal", analyses},
		     {"sidelight_scaling_", analyses},
		     {"sidelight_push_", pushes},
		     {"sidelight_sampling_", samples}};

	for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
		if (!strncmp(family, needs[i].prefix, strlen(needs[i].prefix)))
			return c->live && needs[i].there(c->live);
	return true;
}

static struct act_verdicts *verdicts(const struct collect_self *s)
{
	return collect_analysis_verdicts(s->c->live->analysis);
}

static bool cause(struct collect_self *s, struct export_series *out, const char *key,
		  const char *const *names, const uint64_t *values, size_t n)
{
	return s->at < n && collect_self_label(s, out, key, names[s->at]) &&
	       collect_self_u64(out, values[s->at]);
}

/* ---- analysis ---- */

bool collect_self_analysis_busy(struct collect_self *s, struct export_series *out)
{
	struct collect_analysis_stats a;

	collect_analysis_stats(s->c->live->analysis, &a);
	return collect_self_single(s, out, 0) && collect_self_f64(out, (double)a.busy_ns * 1e-9);
}

bool collect_self_analysis_rows(struct collect_self *s, struct export_series *out)
{
	struct collect_analysis_stats a;

	collect_analysis_stats(s->c->live->analysis, &a);
	return collect_self_single(s, out, a.rows);
}

static struct collect_notify_stats notified(const struct collect_self *s)
{
	struct collect_notify_stats t = {0};

	if (s->c->live->notify)
		collect_notify_stats(s->c->live->notify, &t);
	return t;
}

bool collect_self_analysis_told(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, notified(s).notified);
}

bool collect_self_analysis_lost(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"pods",	      "features",    "late_rows",
					    "missing_values", "models",	     "anomalies",
					    "changes",	      "alerts",	     "recorded_rows",
					    "told",	      "saved_models"};
	struct collect_analysis_stats a;
	struct act_verdicts_stats v;

	collect_analysis_stats(s->c->live->analysis, &a);
	act_verdicts_stats(verdicts(s), &v);
	return cause(s, out, "cause", names,
		     (uint64_t[]){a.refused_pods, a.refused_features, a.late, a.missing,
				  a.models_refused, v.missed,
				  relaxed_load(s->c->live->lost_changes),
				  relaxed_load(s->c->live->lost_alerts), a.lost_rows,
				  notified(s).untold, a.models_failed},
		     sizeof(names) / sizeof(*names));
}

bool collect_self_analysis_pods(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"all", "warming_up", "anomalous", "drifting"};
	struct collect_analysis_stats a;
	struct act_verdicts_stats v;

	collect_analysis_stats(s->c->live->analysis, &a);
	act_verdicts_stats(verdicts(s), &v);
	return cause(s, out, "state", names,
		     (uint64_t[]){v.pods, a.warming, v.anomalous, v.drifting},
		     sizeof(names) / sizeof(*names));
}

/* How much of the budget of false alarms the anomalies of the last hour would use up if false. */
bool collect_self_budget_used(struct collect_self *s, struct export_series *out)
{
	const struct collect_analysis_opts *o = collect_analysis_opts(s->c->live->analysis);
	int64_t since = (int64_t)base_realtime_ns() - HOUR_NS;
	struct act_verdicts_stats v;
	uint64_t n;

	if (s->at)
		return false;
	act_verdicts_stats(verdicts(s), &v);
	n = act_verdicts_begun(verdicts(s), since);
	return collect_self_single(s, out, 0) &&
	       collect_self_f64(out, v.pods ? (double)n / ((double)v.pods * o->false_alarms) : 0);
}

bool collect_self_shadow_alarms(struct collect_self *s, struct export_series *out)
{
	struct act_verdicts_stats v;

	act_verdicts_stats(verdicts(s), &v);
	return collect_self_single(s, out, v.shadow_alarms);
}

/* ---- pods ---- */

/* The next region that is analysed. */
static bool next_pod(struct collect_self *s, struct export_series *out, struct act_pod_verdict *v)
{
	for (; s->x && s->at < s->x->regions; s->at++)
		if (act_verdicts_pod(verdicts(s), s->x->region[s->at]->instance, v))
			return self_region(s, out) != NULL;
	return false;
}

#define POD_SERIES(name, expression)                                 \
	bool name(struct collect_self *s, struct export_series *out) \
	{                                                            \
		struct act_pod_verdict v;                            \
		return next_pod(s, out, &v) && (expression);         \
	}

static bool exemplar(struct collect_self *s, struct export_series *out,
		     const struct act_pod_verdict *v)
{
	if (!v->trace_ns)
		return true;
	base_hex(s->exemplar, v->trace, ACT_TRACE_ID_BYTES);
	out->exemplar_trace = s->exemplar;
	out->exemplar_ns = (uint64_t)v->trace_ns;
	return true;
}

POD_SERIES(self_anomalies, collect_self_u64(out, v.anomalies) && exemplar(s, out, &v))
POD_SERIES(self_anomalous, collect_self_u64(out, v.anomalous))
POD_SERIES(self_drift, collect_self_u64(out, v.drift))
POD_SERIES(self_score, collect_self_f64(out, v.score))

/* ---- workloads ---- */

static const struct act_workload *workload(struct collect_self *s, struct export_series *out)
{
	enum { MAX = 1024 };
	struct region_text_label labels[2];

	if (!s->workload) {
		s->workload = malloc(MAX * sizeof(*s->workload));
		if (!s->workload)
			return NULL;
		s->workloads = act_scale_workloads(s->c->live->scale, s->workload, MAX);
		s->workloads = s->workloads < MAX ? s->workloads : MAX;
	}
	if (s->at >= s->workloads)
		return NULL;
	labels[0] = (struct region_text_label){"namespace", s->workload[s->at].kube_namespace};
	labels[1] = (struct region_text_label){"service", s->workload[s->at].service};
	return collect_self_labels(s, out, labels, 2) ? &s->workload[s->at] : NULL;
}

bool collect_self_scaling_anomalous(struct collect_self *s, struct export_series *out)
{
	const struct act_workload *w = workload(s, out);

	return w && collect_self_f64(out, w->anomalous_ratio);
}

bool collect_self_scaling_pressure(struct collect_self *s, struct export_series *out)
{
	const struct act_workload *w = workload(s, out);

	return w && collect_self_f64(out, w->pressure);
}

/* ---- receivers ---- */

#define RECEIVERS 3u

/* The i-th of them that there is. */
static const char *receiver(const struct collect_live *l, size_t i, struct export_push_stats *out)
{
	struct export_remote_write_stats w;

	if (l->writer && !i--) {
		export_remote_write_stats(l->writer, &w);
		*out = w.push;
		return "remote_write";
	}
	if (l->alert && !i--) {
		export_push_stats(l->alert, out);
		return "alert";
	}
	if (l->webhook && !i--) {
		export_push_stats(l->webhook, out);
		return "webhook";
	}
	return NULL;
}

static bool push_cause(struct collect_self *s, struct export_series *out, const char *to,
		       const char *name, uint64_t value)
{
	struct region_text_label labels[] = {{"to", to}, {"cause", name}};

	return collect_self_labels(s, out, labels, 2) && collect_self_u64(out, value);
}

bool collect_self_push_dropped(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"full", "refused", "old", "stopping"};
	struct export_push_stats p;
	const char *to = receiver(s->c->live, s->at / 4, &p);

	return to && push_cause(s, out, to, names[s->at % 4],
				(uint64_t[]){p.dropped_full, p.dropped_refused, p.dropped_old,
					     p.dropped_stopping}[s->at % 4]);
}

bool collect_self_push_errors(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"connect", "timeout", "status"};
	struct export_push_stats p;
	const char *to = receiver(s->c->live, s->at / 3, &p);

	return to && push_cause(s, out, to, names[s->at % 3],
				(uint64_t[]){p.errors_connect, p.errors_timeout,
					     p.errors_status}[s->at % 3]);
}

bool collect_self_push_sent(struct collect_self *s, struct export_series *out)
{
	struct export_push_stats p;
	const char *to = receiver(s->c->live, s->at, &p);

	return to && collect_self_label(s, out, "to", to) && collect_self_u64(out, p.sent_items);
}

bool collect_self_push_waiting(struct collect_self *s, struct export_series *out)
{
	struct export_push_stats p;
	const char *to = receiver(s->c->live, s->at, &p);

	return to && collect_self_label(s, out, "to", to) && collect_self_u64(out, p.waiting_bytes);
}

/* ---- sampling ---- */

bool collect_self_sampling_samples(struct collect_self *s, struct export_series *out)
{
	struct export_remote_write_stats w;

	export_remote_write_stats(s->c->live->writer, &w);
	return collect_self_single(s, out, w.samples);
}

bool collect_self_sampling_left_out(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"same_millisecond", "memory"};
	struct export_remote_write_stats w;

	export_remote_write_stats(s->c->live->writer, &w);
	return cause(s, out, "cause", names, (uint64_t[]){w.same_ms, w.dropped_memory}, 2);
}

bool collect_self_sampling_lost(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"late_verdict", "receiver_behind"};
	struct collect_sender_stats t;

	collect_sender_stats(s->c->live->sender, &t);
	return s->at < 2 && collect_self_label(s, out, "cause", names[s->at]) &&
	       collect_self_f64(out, (double)(s->at ? t.skipped_ns : t.late_ns) * 1e-9);
}

void collect_self_live_end(struct collect_self *s)
{
	free(s->workload);
}
