// SPDX-License-Identifier: Apache-2.0
/* live.c - the collector's own series about analysis, sampling and receivers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"
#include "collect/analysis/live_internal.h"
#include "collect/self/self.h"

#define HOUR_NS 3600000000000ll

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

static bool analysis_busy(struct collect_self *s, struct export_series *out)
{
	struct collect_analysis_stats a;

	collect_analysis_stats(s->c->live->analysis, &a);
	return collect_self_single(s, out, 0) && collect_self_f64(out, (double)a.busy_ns * 1e-9);
}

static bool analysis_rows(struct collect_self *s, struct export_series *out)
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

SINGLE(analysis_told, notified(s).notified)

static bool analysis_lost(struct collect_self *s, struct export_series *out)
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

static bool analysis_pods(struct collect_self *s, struct export_series *out)
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
static bool budget_used(struct collect_self *s, struct export_series *out)
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

static bool shadow_alarms(struct collect_self *s, struct export_series *out)
{
	struct act_verdicts_stats v;

	act_verdicts_stats(verdicts(s), &v);
	return collect_self_single(s, out, v.shadow_alarms);
}

/* ---- pods ---- */

/* Moves to the next analysed region. */
static bool next_pod(struct collect_self *s, struct export_series *out, struct act_pod_verdict *v)
{
	for (; s->x && s->at < s->x->regions; s->at++)
		if (act_verdicts_pod(verdicts(s), s->x->region[s->at]->instance, v))
			return collect_self_region(s, out) != NULL;
	return false;
}

#define POD_SERIES(name, expression)                                        \
	static bool name(struct collect_self *s, struct export_series *out) \
	{                                                                   \
		struct act_pod_verdict v;                                   \
		return next_pod(s, out, &v) && (expression);                \
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

POD_SERIES(anomalies, collect_self_u64(out, v.anomalies) && exemplar(s, out, &v))
POD_SERIES(anomalous, collect_self_u64(out, v.anomalous))
POD_SERIES(drift, collect_self_u64(out, v.drift))
POD_SERIES(score, collect_self_f64(out, v.score))

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

static bool scaling_anomalous(struct collect_self *s, struct export_series *out)
{
	const struct act_workload *w = workload(s, out);

	return w && collect_self_f64(out, w->anomalous_ratio);
}

static bool scaling_pressure(struct collect_self *s, struct export_series *out)
{
	const struct act_workload *w = workload(s, out);

	return w && collect_self_f64(out, w->pressure);
}

/* ---- receivers ---- */

/* Receiver i of those configured; NULL: there is none. */
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

static bool push_dropped(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"full", "refused", "old", "stopping"};
	struct export_push_stats p;
	const char *to = receiver(s->c->live, s->at / 4, &p);

	return to && push_cause(s, out, to, names[s->at % 4],
				(uint64_t[]){p.dropped_full, p.dropped_refused, p.dropped_old,
					     p.dropped_stopping}[s->at % 4]);
}

static bool push_errors(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"connect", "timeout", "status"};
	struct export_push_stats p;
	const char *to = receiver(s->c->live, s->at / 3, &p);

	return to && push_cause(s, out, to, names[s->at % 3],
				(uint64_t[]){p.errors_connect, p.errors_timeout,
					     p.errors_status}[s->at % 3]);
}

static bool push_sent(struct collect_self *s, struct export_series *out)
{
	struct export_push_stats p;
	const char *to = receiver(s->c->live, s->at, &p);

	return to && collect_self_label(s, out, "to", to) && collect_self_u64(out, p.sent_items);
}

static bool push_waiting(struct collect_self *s, struct export_series *out)
{
	struct export_push_stats p;
	const char *to = receiver(s->c->live, s->at, &p);

	return to && collect_self_label(s, out, "to", to) && collect_self_u64(out, p.waiting_bytes);
}

/* ---- sampling ---- */

static bool sampling_samples(struct collect_self *s, struct export_series *out)
{
	struct export_remote_write_stats w;

	export_remote_write_stats(s->c->live->writer, &w);
	return collect_self_single(s, out, w.samples);
}

static bool sampling_left_out(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"same_millisecond", "memory"};
	struct export_remote_write_stats w;

	export_remote_write_stats(s->c->live->writer, &w);
	return cause(s, out, "cause", names, (uint64_t[]){w.same_ms, w.dropped_memory}, 2);
}

static bool sampling_lost(struct collect_self *s, struct export_series *out)
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

/* ---- the families ---- */

static bool analysis_exposed(const struct collect_self *s)
{
	return s->c->live && s->c->live->analysis;
}

static const struct collect_self_family analysis_families[] = {
	{"sidelight_analysis_busy_seconds", COUNTER, "seconds",
	 "Time that workers spent on analysis, as part of their busy time.", analysis_busy},
	{"sidelight_analysis_lost", COUNTER, "", "Items that analysis left out, by cause.",
	 analysis_lost},
	{"sidelight_analysis_pods", GAUGE, "", "Analysed pods, by state.", analysis_pods},
	{"sidelight_analysis_rows", COUNTER, "", "Rows scored.", analysis_rows},
	{"sidelight_analysis_told", COUNTER, "", "Verdicts written to the hosts of their pods.",
	 analysis_told},
	{"sidelight_anomalies", COUNTER, "", "Anomalies of a pod.", anomalies},
	{"sidelight_anomalous", GAUGE, "", "1 while a pod is anomalous.", anomalous},
	{"sidelight_anomaly_budget_used_ratio", GAUGE, "ratio",
	 "Anomalies of the last hour over what --false-alarms allows.", budget_used},
	{"sidelight_anomaly_drift", GAUGE, "",
	 "1 while a pod's scores differ from those learned: its model no longer fits.", drift},
	{"sidelight_anomaly_score", GAUGE, "", "Anomaly score of a pod; 1 is the threshold.",
	 score},
	{"sidelight_anomaly_shadow_alarms", COUNTER, "",
	 "Rows that the detector of --shadow would have called anomalous.", shadow_alarms},
	{"sidelight_scaling_anomalous_ratio", GAUGE, "ratio",
	 "Share of a workload's pods that are anomalous.", scaling_anomalous},
	{"sidelight_scaling_pressure", GAUGE, "",
	 "Mean score of a workload's pods, smoothed; 1 is the threshold.", scaling_pressure},
};

COLLECT_SELF_PART(analysis, analysis_exposed);

static bool push_exposed(const struct collect_self *s)
{
	return s->c->live && (s->c->live->writer || s->c->live->alert || s->c->live->webhook);
}

static const struct collect_self_family push_families[] = {
	{"sidelight_push_dropped", COUNTER, "",
	 "Samples or alerts not delivered to a receiver, by cause.", push_dropped},
	{"sidelight_push_errors", COUNTER, "", "Failed attempts that are retried, by cause.",
	 push_errors},
	{"sidelight_push_sent", COUNTER, "", "Samples or alerts that a receiver accepted.",
	 push_sent},
	{"sidelight_push_waiting_bytes", GAUGE, "bytes", "Bytes queued for a receiver.",
	 push_waiting},
};

COLLECT_SELF_PART(push, push_exposed);

static bool sampling_exposed(const struct collect_self *s)
{
	return s->c->live && s->c->live->writer;
}

static const struct collect_self_family sampling_families[] = {
	{"sidelight_sampling_left_out", COUNTER, "", "Samples chosen but not sent, by cause.",
	 sampling_left_out},
	{"sidelight_sampling_lost_seconds", COUNTER, "seconds",
	 "Time around anomalies without samples sent, by cause.", sampling_lost},
	{"sidelight_sampling_samples", COUNTER, "", "Samples chosen for remote write.",
	 sampling_samples},
};

COLLECT_SELF_PART(sampling, sampling_exposed);
