// SPDX-License-Identifier: Apache-2.0
/* live.c - the collector's own series about analysis, sampling and receivers. */
#include <stddef.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/text.h"
#include "collect/read/index.h"
#include "collect/self/self.h"

#define HOUR_NS 3600000000000ll

static struct act_verdicts *verdicts(const struct collect_self *s)
{
	return collect_analysis_verdicts(s->c->live->analysis);
}

void collect_self_live_begin(struct collect_self *s)
{
	struct collect_live *l = s->c->live;

	if (l->analysis) {
		collect_analysis_stats(l->analysis, &s->analysis);
		act_verdicts_stats(verdicts(s), &s->verdicts);
	}
	if (l->notify)
		collect_notify_stats(l->notify, &s->notify);
	s->lost_changes = relaxed_load(l->lost_changes);
	s->lost_alerts = relaxed_load(l->lost_alerts);
	if (l->writer) {
		collect_sender_stats(l->sender, &s->sender);
		export_remote_write_stats(l->writer, &s->writer);
		s->push[s->pushes].to = "remote_write";
		s->push[s->pushes++].stats = s->writer.push;
	}
	if (l->alert) {
		s->push[s->pushes].to = "alert";
		export_push_stats(l->alert, &s->push[s->pushes++].stats);
	}
	if (l->webhook) {
		s->push[s->pushes].to = "webhook";
		export_push_stats(l->webhook, &s->push[s->pushes++].stats);
	}
}

/* ---- analysis ---- */

SINGLE(analysis_rows, s->analysis.rows)
SINGLE(analysis_told, s->notify.notified)
SINGLE(shadow_alarms, s->verdicts.shadow_alarms)

BY_LABEL(analysis_lost, "cause", OF_WALK("pods", analysis.refused_pods),
	 OF_WALK("features", analysis.refused_features), OF_WALK("late_rows", analysis.late),
	 OF_WALK("backward_rows", analysis.backwards), OF_WALK("queue", analysis.queue_lost),
	 OF_WALK("missing_values", analysis.missing), OF_WALK("models", analysis.models_refused),
	 OF_WALK("anomalies", verdicts.missed), OF_WALK("changes", lost_changes),
	 OF_WALK("alerts", lost_alerts), OF_WALK("recorded_rows", analysis.lost_rows),
	 OF_WALK("told", notify.untold), OF_WALK("saved_models", analysis.models_failed))
BY_LABEL(analysis_pods, "state", OF_WALK("all", verdicts.pods),
	 OF_WALK("warming_up", analysis.warming), OF_WALK("anomalous", verdicts.anomalous),
	 OF_WALK("drifting", verdicts.drifting))

static bool analysis_busy(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, 0) &&
	       collect_self_f64(out, (double)s->analysis.busy_ns * 1e-9);
}

/* How much of the budget of false alarms the anomalies of the last hour would use up if false. */
static bool budget_used(struct collect_self *s, struct export_series *out)
{
	const struct collect_analysis_opts *o = collect_analysis_opts(s->c->live->analysis);
	double allowed = (double)s->verdicts.pods * o->false_alarms;
	uint64_t n;

	if (s->at)
		return false;
	n = act_verdicts_begun(verdicts(s), (int64_t)base_realtime_ns() - HOUR_NS);
	return collect_self_single(s, out, 0) &&
	       collect_self_f64(out, s->verdicts.pods ? (double)n / allowed : 0);
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
	base_hex(s->trace_id, v->trace, ACT_TRACE_ID_BYTES);
	s->trace_label = (struct region_text_label){"trace_id", s->trace_id};
	s->exemplar = (struct export_exemplar){.value = 1,
					       .ns = (uint64_t)v->trace_ns,
					       .labels = &s->trace_label,
					       .label_count = 1};
	out->exemplars = &s->exemplar;
	out->exemplar_count = 1;
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

SERIES(scaling_anomalous, w, workload(s, out), collect_self_f64(out, w->anomalous_ratio))
SERIES(scaling_pressure, w, workload(s, out), collect_self_f64(out, w->pressure))

/* ---- receivers and sampling ---- */

BY_LABEL(push_dropped, "cause", OF_PUSH("full", dropped_full), OF_PUSH("refused", dropped_refused),
	 OF_PUSH("partial", dropped_partial), OF_PUSH("old", dropped_old),
	 OF_PUSH("stopping", dropped_stopping), OF_PUSH("corrupt", dropped_corrupt))
BY_LABEL(push_errors, "cause", OF_PUSH("connect", errors_connect),
	 OF_PUSH("timeout", errors_timeout), OF_PUSH("status", errors_status),
	 OF_PUSH("secret", errors_secret))
BY_LABEL(push_sent, NULL, OF_PUSH(NULL, sent_items))
BY_LABEL(push_waiting, NULL, OF_PUSH(NULL, waiting_bytes))

SINGLE(sampling_samples, s->writer.samples)
SINGLE(sampling_exemplars, s->writer.exemplars)
SINGLE(remote_write_fallbacks, s->writer.fallbacks)
SINGLE(remote_write_version, s->writer.version)
BY_LABEL(sampling_left_out, "cause", OF_WALK("same_millisecond", writer.same_ms),
	 OF_WALK("earlier_process", writer.before), OF_WALK("clash", writer.clashing),
	 OF_WALK("long_exemplar", writer.long_exemplars), OF_WALK("memory", writer.dropped_memory))

static bool sampling_lost(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"clock_went_back", "late_verdict", "receiver_behind"};
	const uint64_t ns[] = {s->sender.back_ns, s->sender.late_ns, s->sender.skipped_ns};

	return s->at < 3 && collect_self_label(s, out, "cause", names[s->at]) &&
	       collect_self_f64(out, (double)ns[s->at] * 1e-9);
}

static bool sampling_withheld(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, 0) &&
	       collect_self_f64(out, (double)s->sender.withheld_ns * 1e-9);
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
	 "How much longer requests to a workload's pods take than usually, smoothed; 1 is as "
	 "planned.",
	 scaling_pressure},
};

COLLECT_SELF_PART(analysis, analysis_exposed);

static bool push_exposed(const struct collect_self *s)
{
	return s->pushes > 0;
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
	{"sidelight_remote_write_fallbacks", COUNTER, "",
	 "Times that the receiver was found not to have version 2.0.", remote_write_fallbacks},
	{"sidelight_remote_write_version", GAUGE, "",
	 "Version of remote write that requests have: 1 or 2.", remote_write_version},
	{"sidelight_sampling_exemplars", COUNTER, "", "Exemplars chosen for remote write.",
	 sampling_exemplars},
	{"sidelight_sampling_left_out", COUNTER, "",
	 "Samples and exemplars chosen but not sent, by cause.", sampling_left_out},
	{"sidelight_sampling_lost_seconds", COUNTER, "seconds",
	 "Time without the samples that were to be sent, by cause.", sampling_lost},
	{"sidelight_sampling_samples", COUNTER, "", "Samples chosen for remote write.",
	 sampling_samples},
	{"sidelight_sampling_withheld_seconds", GAUGE, "seconds",
	 "Time until samples are sent again, as the clock went back.", sampling_withheld},
};

COLLECT_SELF_PART(sampling, sampling_exposed);
