// SPDX-License-Identifier: Apache-2.0
/* self_live.c - of the collector's own series, those of analysis and of what it causes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/analysis/live_internal.h"
#include "collect/self/self.h"

#define HOUR_NS 3600000000000ll

static bool analyses(const struct sl_live *l)
{
	return l->analysis;
}

static bool samples(const struct sl_live *l)
{
	return l->writer;
}

static bool pushes(const struct sl_live *l)
{
	return l->writer || l->alert || l->webhook;
}

bool self_live_there(const struct sl_collector *c, const char *family)
{
	static const struct {
		const char *prefix;
		bool (*there)(const struct sl_live *l);
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

static struct sl_verdicts *verdicts(const struct self *s)
{
	return sl_analysis_verdicts(s->c->live->analysis);
}

static bool cause(struct self *s, struct sl_series *out, const char *key, const char *const *names,
		  const uint64_t *values, size_t n)
{
	return s->at < n && self_label(s, out, key, names[s->at]) && self_u64(out, values[s->at]);
}

/* ---- analysis ------------------------------------------------------------------------------------------ */

bool self_analysis_busy(struct self *s, struct sl_series *out)
{
	struct sl_analysis_stats a;

	sl_analysis_stats(s->c->live->analysis, &a);
	return self_single(s, out, 0) && self_f64(out, (double)a.busy_ns * 1e-9);
}

bool self_analysis_rows(struct self *s, struct sl_series *out)
{
	struct sl_analysis_stats a;

	sl_analysis_stats(s->c->live->analysis, &a);
	return self_single(s, out, a.rows);
}

static struct tell_stats told(const struct self *s)
{
	struct tell_stats t = {0};

	if (s->c->live->tell)
		tell_stats(s->c->live->tell, &t);
	return t;
}

bool self_analysis_told(struct self *s, struct sl_series *out)
{
	return self_single(s, out, told(s).told);
}

bool self_analysis_lost(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"pods",	      "features",    "late_rows",
					    "missing_values", "models",	     "anomalies",
					    "changes",	      "alerts",	     "recorded_rows",
					    "told",	      "saved_models"};
	struct sl_analysis_stats a;
	struct sl_verdicts_stats v;

	sl_analysis_stats(s->c->live->analysis, &a);
	sl_verdicts_stats(verdicts(s), &v);
	return cause(s, out, "cause", names,
		     (uint64_t[]){a.refused_pods, a.refused_features, a.late, a.missing,
				  a.models_refused, v.missed, GET(s->c->live->lost_changes),
				  GET(s->c->live->lost_alerts), a.lost_rows, told(s).untold,
				  a.models_failed},
		     sizeof(names) / sizeof(*names));
}

bool self_analysis_pods(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"all", "warming_up", "anomalous", "drifting"};
	struct sl_analysis_stats a;
	struct sl_verdicts_stats v;

	sl_analysis_stats(s->c->live->analysis, &a);
	sl_verdicts_stats(verdicts(s), &v);
	return cause(s, out, "state", names,
		     (uint64_t[]){v.pods, a.warming, v.anomalous, v.drifting},
		     sizeof(names) / sizeof(*names));
}

/* How much of the budget of false alarms the anomalies of the last hour would use up if false. */
bool self_budget_used(struct self *s, struct sl_series *out)
{
	const struct sl_analysis_opts *o = sl_analysis_opts(s->c->live->analysis);
	int64_t since = (int64_t)sl_realtime_ns() - HOUR_NS;
	struct sl_verdicts_stats v;
	uint64_t n;

	if (s->at)
		return false;
	sl_verdicts_stats(verdicts(s), &v);
	n = sl_verdicts_begun(verdicts(s), since);
	return self_single(s, out, 0) &&
	       self_f64(out, v.pods ? (double)n / ((double)v.pods * o->false_alarms) : 0);
}

bool self_shadow_alarms(struct self *s, struct sl_series *out)
{
	struct sl_verdicts_stats v;

	sl_verdicts_stats(verdicts(s), &v);
	return self_single(s, out, v.shadow_alarms);
}

/* ---- pods ------------------------------------------------------------------------------------------------- */

/* The next region that is analysed. */
static bool next_pod(struct self *s, struct sl_series *out, struct sl_pod_verdict *v)
{
	for (; s->x && s->at < s->x->regions; s->at++)
		if (sl_verdicts_pod(verdicts(s), s->x->region[s->at]->instance, v))
			return self_region(s, out) != NULL;
	return false;
}

#define POD_SERIES(name, expression)                         \
	bool name(struct self *s, struct sl_series *out)     \
	{                                                    \
		struct sl_pod_verdict v;                     \
		return next_pod(s, out, &v) && (expression); \
	}

static bool exemplar(struct self *s, struct sl_series *out, const struct sl_pod_verdict *v)
{
	if (!v->trace_ns)
		return true;
	for (size_t i = 0; i < SL_TRACE_ID_BYTES; i++)
		snprintf(s->exemplar + 2 * i, 3, "%02x", v->trace[i]);
	out->exemplar_trace = s->exemplar;
	out->exemplar_ns = (uint64_t)v->trace_ns;
	return true;
}

POD_SERIES(self_anomalies, self_u64(out, v.anomalies) && exemplar(s, out, &v))
POD_SERIES(self_anomalous, self_u64(out, v.anomalous))
POD_SERIES(self_drift, self_u64(out, v.drift))
POD_SERIES(self_score, self_f64(out, v.score))

/* ---- workloads ---------------------------------------------------------------------------------------------- */

static const struct sl_workload *workload(struct self *s, struct sl_series *out)
{
	enum { MAX = 1024 };
	struct sl_text_label labels[2];

	if (!s->workload) {
		s->workload = malloc(MAX * sizeof(*s->workload));
		if (!s->workload)
			return NULL;
		s->workloads = sl_scale_workloads(s->c->live->scale, s->workload, MAX);
		s->workloads = s->workloads < MAX ? s->workloads : MAX;
	}
	if (s->at >= s->workloads)
		return NULL;
	labels[0] = (struct sl_text_label){"namespace", s->workload[s->at].kube_namespace};
	labels[1] = (struct sl_text_label){"service", s->workload[s->at].service};
	return self_labels(s, out, labels, 2) ? &s->workload[s->at] : NULL;
}

bool self_scaling_anomalous(struct self *s, struct sl_series *out)
{
	const struct sl_workload *w = workload(s, out);

	return w && self_f64(out, w->anomalous_ratio);
}

bool self_scaling_pressure(struct self *s, struct sl_series *out)
{
	const struct sl_workload *w = workload(s, out);

	return w && self_f64(out, w->pressure);
}

/* ---- receivers ------------------------------------------------------------------------------------------------ */

#define RECEIVERS 3u

/* The i-th of them that there is. */
static const char *receiver(const struct sl_live *l, size_t i, struct sl_push_stats *out)
{
	struct sl_remote_write_stats w;

	if (l->writer && !i--) {
		sl_remote_write_stats(l->writer, &w);
		*out = w.push;
		return "remote_write";
	}
	if (l->alert && !i--) {
		sl_push_stats(l->alert, out);
		return "alert";
	}
	if (l->webhook && !i--) {
		sl_push_stats(l->webhook, out);
		return "webhook";
	}
	return NULL;
}

static bool push_cause(struct self *s, struct sl_series *out, const char *to, const char *name,
		       uint64_t value)
{
	struct sl_text_label labels[] = {{"to", to}, {"cause", name}};

	return self_labels(s, out, labels, 2) && self_u64(out, value);
}

bool self_push_dropped(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"full", "refused", "old", "stopping"};
	struct sl_push_stats p;
	const char *to = receiver(s->c->live, s->at / 4, &p);

	return to && push_cause(s, out, to, names[s->at % 4],
				(uint64_t[]){p.dropped_full, p.dropped_refused, p.dropped_old,
					     p.dropped_stopping}[s->at % 4]);
}

bool self_push_errors(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"connect", "timeout", "status"};
	struct sl_push_stats p;
	const char *to = receiver(s->c->live, s->at / 3, &p);

	return to && push_cause(s, out, to, names[s->at % 3],
				(uint64_t[]){p.errors_connect, p.errors_timeout,
					     p.errors_status}[s->at % 3]);
}

bool self_push_sent(struct self *s, struct sl_series *out)
{
	struct sl_push_stats p;
	const char *to = receiver(s->c->live, s->at, &p);

	return to && self_label(s, out, "to", to) && self_u64(out, p.sent_items);
}

bool self_push_waiting(struct self *s, struct sl_series *out)
{
	struct sl_push_stats p;
	const char *to = receiver(s->c->live, s->at, &p);

	return to && self_label(s, out, "to", to) && self_u64(out, p.waiting_bytes);
}

/* ---- sampling --------------------------------------------------------------------------------------------------- */

bool self_sampling_samples(struct self *s, struct sl_series *out)
{
	struct sl_remote_write_stats w;

	sl_remote_write_stats(s->c->live->writer, &w);
	return self_single(s, out, w.samples);
}

bool self_sampling_left_out(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"same_millisecond", "memory"};
	struct sl_remote_write_stats w;

	sl_remote_write_stats(s->c->live->writer, &w);
	return cause(s, out, "cause", names, (uint64_t[]){w.same_ms, w.dropped_memory}, 2);
}

bool self_sampling_lost(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"late_verdict", "receiver_behind"};
	struct sender_stats t;

	sender_stats(s->c->live->sender, &t);
	return s->at < 2 && self_label(s, out, "cause", names[s->at]) &&
	       self_f64(out, (double)(s->at ? t.skipped_ns : t.late_ns) * 1e-9);
}

void self_live_end(struct self *s)
{
	free(s->workload);
}
