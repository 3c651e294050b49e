// SPDX-License-Identifier: Apache-2.0
/* families.c - the collector's own series about analysis */
#include <stddef.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/text.h"
#include "collect/read/index.h"
#include "collect/judge/live_internal.h"
#include "collect/read/self.h"

#define HOUR_NS 3600000000000ll

/* Statistics of the parts in use, as of the start of a walk. */
struct live_walk {
	struct collect_analysis_stats analysis;
	struct act_verdicts_stats verdicts;
	struct collect_notify_stats notify;
	struct act_incidents_stats incidents;
	uint64_t lost_changes, lost_alerts, unscaled;
	struct act_workload *workload;
	size_t workloads;
	/* Exemplar of the last series. */
	char trace_id[33]; /* in hex */
	struct region_text_label trace_label;
	struct export_exemplar exemplar;
};

static const struct collect_live *live_of(const struct collect_self *s)
{
	return s->arg;
}

static struct live_walk *walk_of(const struct collect_self *s)
{
	return s->own;
}

static struct act_verdicts *verdicts_of(const struct collect_self *s)
{
	return collect_analysis_verdicts(live_of(s)->analysis);
}

static bool begin_walk(struct collect_self *s)
{
	const struct collect_live *l = live_of(s);
	struct live_walk *w = walk_of(s);

	collect_analysis_stats(l->analysis, &w->analysis);
	act_verdicts_stats(verdicts_of(s), &w->verdicts);
	act_incidents_stats(l->incidents, &w->incidents);
	if (l->notify)
		collect_notify_stats(l->notify, &w->notify);
	w->lost_changes = relaxed_load(l->lost_changes);
	w->lost_alerts = relaxed_load(l->lost_alerts);
	w->unscaled = act_scale_left_out(l->scale);
	return true;
}

static void end_walk(struct collect_self *s)
{
	free(walk_of(s)->workload);
}

#define OF_LIVE(label, field) OF(label, OWN, live_walk, field)

/* ---- analysis ---- */

/*
 * Returns the fraction of the false-alarm budget that the last hour's anomalies would use up if all
 * were false.
 */
static bool budget_used(struct collect_self *s, struct export_series *out)
{
	double allowed = (double)walk_of(s)->verdicts.pods * live_of(s)->o.analysis.false_alarms;
	uint64_t n;

	if (s->at)
		return false;
	n = act_verdicts_begun(verdicts_of(s), (int64_t)base_realtime_ns() - HOUR_NS);
	return collect_self_single(s, out, 0) &&
	       collect_self_f64(out, walk_of(s)->verdicts.pods ? (double)n / allowed : 0);
}

/* ---- pods ---- */

/* Moves to the next analysed region. */
static bool next_pod(struct collect_self *s, struct export_series *out, struct act_pod_verdict *v)
{
	for (; s->x && s->at < s->x->regions; s->at++)
		if (act_verdicts_pod(verdicts_of(s), s->x->region[s->at]->instance, v))
			return collect_self_region(s, out) != NULL;
	return false;
}

#define POD_SERIES(name, expression)                                        \
	static bool name(struct collect_self *s, struct export_series *out) \
	{                                                                   \
		struct act_pod_verdict v;                                   \
		return next_pod(s, out, &v) && (expression);                \
	}

static bool set_exemplar(struct collect_self *s, struct export_series *out,
			 const struct act_pod_verdict *v)
{
	struct live_walk *w = walk_of(s);

	if (!v->trace_ns)
		return true;
	base_hex(w->trace_id, v->trace, ACT_TRACE_ID_BYTES);
	w->trace_label = (struct region_text_label){"trace_id", w->trace_id};
	w->exemplar = (struct export_exemplar){.value = 1,
					       .ns = (uint64_t)v->trace_ns,
					       .labels = &w->trace_label,
					       .label_count = 1};
	out->exemplars = &w->exemplar;
	out->exemplar_count = 1;
	return true;
}

POD_SERIES(anomalies, collect_self_u64(out, v.anomalies) && set_exemplar(s, out, &v))
POD_SERIES(anomalous, collect_self_u64(out, v.anomalous))
POD_SERIES(drift, collect_self_u64(out, v.drift))
POD_SERIES(score, collect_self_f64(out, v.score))

/* ---- workloads ---- */

static const struct act_workload *workload_at(struct collect_self *s, struct export_series *out)
{
	enum { MAX = 1024 };
	struct live_walk *w = walk_of(s);
	struct region_text_label labels[3];
	const struct act_workload *of;

	if (!w->workload) {
		w->workload = malloc(MAX * sizeof(*w->workload));
		if (!w->workload)
			return NULL;
		w->workloads = act_scale_workloads(live_of(s)->scale, w->workload, MAX);
		w->workloads = w->workloads < MAX ? w->workloads : MAX;
	}
	if (s->at >= w->workloads)
		return NULL;
	of = &w->workload[s->at];
	labels[0] = (struct region_text_label){"namespace", of->kube_namespace};
	labels[1] = (struct region_text_label){"service", of->service};
	labels[2] = (struct region_text_label){"uid", of->uid};
	return collect_self_labels(s, out, labels, *of->uid ? 3 : 2) ? of : NULL;
}

SERIES(scaling_anomalous, struct act_workload, w, workload_at(s, out),
       collect_self_f64(out, w->anomalous_ratio))
SERIES(scaling_pressure, struct act_workload, w, workload_at(s, out),
       collect_self_f64(out, w->pressure))

/* ---- the families ---- */

static const struct collect_self_family analysis_families[] = {
	{"sidelight_analysis_busy_seconds", COUNTER, "seconds",
	 "Time that workers spent on analysis, as part of their busy time.",
	 SINGLE(OF_LIVE(NULL, analysis.busy_ns))},
	{"sidelight_analysis_lost", COUNTER, "", "Items that the analysis skipped, by cause.",
	 BY_LABEL("cause", OF_LIVE("pods", analysis.refused_pods),
		  OF_LIVE("refused_rows", analysis.refused_rows),
		  OF_LIVE("features", analysis.judge.refused_features),
		  OF_LIVE("late_rows", analysis.late),
		  OF_LIVE("backward_rows", analysis.judge.late),
		  OF_LIVE("queue", analysis.queue_lost),
		  OF_LIVE("missing_values", analysis.judge.missing),
		  OF_LIVE("models", analysis.models.refused), OF_LIVE("anomalies", verdicts.missed),
		  OF_LIVE("incidents", incidents.refused), OF_LIVE("members", incidents.left_out),
		  OF_LIVE("calls", incidents.calls_left_out), OF_LIVE("changes", lost_changes),
		  OF_LIVE("alerts", lost_alerts), OF_LIVE("recorded_rows", analysis.lost_rows),
		  OF_LIVE("told", notify.untold), OF_LIVE("saved_models", analysis.models.failed),
		  OF_LIVE("old_models", analysis.models.removed), OF_LIVE("workloads", unscaled))},
	{"sidelight_analysis_pods", GAUGE, "", "Analysed pods, by state.",
	 BY_LABEL("state", OF_LIVE("all", verdicts.pods),
		  OF_LIVE("warming_up", analysis.judge.warming),
		  OF_LIVE("anomalous", verdicts.anomalous),
		  OF_LIVE("drifting", verdicts.drifting))},
	{"sidelight_analysis_rows", COUNTER, "", "Rows scored.",
	 SINGLE(OF_LIVE(NULL, analysis.judge.rows))},
	{"sidelight_analysis_told", COUNTER, "", "Verdicts written to the hosts of their pods.",
	 SINGLE(OF_LIVE(NULL, notify.notified))},
	{"sidelight_anomalies", COUNTER, "", "Anomalies of a pod.", .series = anomalies},
	{"sidelight_anomalous", GAUGE, "", "1 while a pod is anomalous.", .series = anomalous},
	{"sidelight_anomaly_budget_used_ratio", GAUGE, "ratio",
	 "Anomalies in the last hour, divided by the number that --false-alarms allows.",
	 .series = budget_used},
	{"sidelight_anomaly_drift", GAUGE, "",
	 "1 while a pod's scores differ from those learned: its model no longer fits.",
	 .series = drift},
	{"sidelight_anomaly_score", GAUGE, "", "Anomaly score of a pod; 1 is the threshold.",
	 .series = score},
	{"sidelight_anomaly_shadow_alarms", COUNTER, "",
	 "Rows that the detector of --shadow would have called anomalous.",
	 SINGLE(OF_LIVE(NULL, verdicts.shadow_alarms))},
	{"sidelight_incidents", COUNTER, "", "Incidents, by kind.",
	 BY_LABEL("kind", OF_LIVE("fault", incidents.faults), OF_LIVE("load", incidents.loads))},
	{"sidelight_incidents_open", GAUGE, "", "Ongoing incidents, by kind.",
	 BY_LABEL("kind", OF_LIVE("fault", incidents.open_faults),
		  OF_LIVE("load", incidents.open_loads))},
	{"sidelight_scaling_anomalous_ratio", GAUGE, "ratio",
	 "Share of a workload's pods that are anomalous.", .series = scaling_anomalous},
	{"sidelight_scaling_pressure", GAUGE, "",
	 "Smoothed ratio of the time that requests to a workload's pods take to the usual time; 1 is normal.",
	 .series = scaling_pressure},
};

const struct collect_part collect_live_part = {
	COLLECT_SELF_FAMILIES(analysis),
	.walk_bytes = sizeof(struct live_walk),
	.walk_begin = begin_walk,
	.walk_end = end_walk,
};
