// SPDX-License-Identifier: Apache-2.0
/*
 * analysis.c - an analysis worker per collector worker: its pods, their rows of the current
 * interval (every_ns), and the fleet that judges them together when the next interval begins. It
 * belongs to its worker alone, except for the counters.
 */
#include "collect/analysis/analysis.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sidelight/flow.h>

#include "analyse/fleet.h"
#include "base/base.h"
#include "base/grow.h"
#include "collect/analysis/features.h"
#include "collect/analysis/models.h"
#include "collect/analysis/record.h"
#include "collect/collector_internal.h"
#include "collect/worker.h"

#define FEATURES_MIN 64u
#define FEATURES_MAX 512u	       /* a detector's memory may grow by the square */
#define AGENT	     "sidelight-agent" /* the agent's own region is not analysed */
#define TCP	     " (tcp)"	       /* separates a workload's connections from the pod itself */
#define SPARE_NS     500000u	       /* per round, to make and save pods; the rest waits */

struct analysis_pod {
	struct analysis_worker *worker;
	struct analyse_pipeline *pipeline;
	struct act_verdict_pod *shown;
	struct collect_features f;
	struct act_pod_name name;
	int64_t moment, begin_ns;
	int64_t phase_ns;    /* of the interval, so that rows of one round share it */
	bool warming, known; /* known: it has a threshold */
	bool recorded;	     /* the record has its columns */
	uint64_t asked;	     /* collect_models_asked() when last answered */
	uint64_t instance;
	uint64_t late, missing; /* of its pipeline, counted so far */
};

struct analysis_worker {
	struct collect_analysis *a;
	struct analyse_fleet *fleet;
	int64_t moment;
	/* Time spent in this round on making and saving pods. */
	int64_t spare_round;
	uint64_t spare_ns;
	/* Scored rows of the interval. */
	struct analysis_pod **pod;
	struct analyse_pipeline **pipeline;
	struct analyse_verdict *verdict;
	uint32_t rows, room;
	uint32_t pods;
	/* Read by any thread. */
	struct collect_analysis_stats s;
};

struct collect_analysis {
	struct collect_analysis_opts o;
	const struct analyse_detector_ops *detector, *shadow;
	struct act_verdicts *verdicts;
	struct collect_models *models;
	struct collect_record *record; /* NULL: none */
	struct analysis_worker *worker;
};

/* Marks a region without a pod: refused, or not analysed. */
static struct analysis_pod no_pod;

/* ---- findings ---- */

static void push(struct analysis_pod *p, const struct analyse_verdict *v)
{
	struct act_finding f = {
		.ns = (int64_t)v->t_ns,
		.score = v->score,
		.threshold = v->known && !p->warming ? 1 : INFINITY,
		.anomalous = v->anomalous && !p->warming,
		.drift = v->drift,
		.shadow_anomalous = v->shadow_anomalous && !p->warming,
		.shadow_score = p->worker->a->shadow ? v->shadow_score : NAN,
	};

	for (uint32_t i = 0; i < v->blamed && f.blames < ACT_BLAMES; i++) {
		uint32_t c = v->blame[i].column;

		if (c >= p->f.count)
			continue;
		f.blame[f.blames].metric = p->f.name[c];
		f.blame[f.blames].share = (double)v->blame[i].share;
		f.blame[f.blames++].value = p->f.shown[c];
	}
	p->known = v->known;
	act_verdict_push(p->shown, &f);
}

/* Judges the rows of a complete interval. */
static void judge(struct analysis_worker *w)
{
	if (w->rows)
		analyse_fleet_judge(w->fleet, w->pipeline, w->verdict, w->rows);
	for (uint32_t i = 0; i < w->rows; i++)
		push(w->pod[i], &w->verdict[i]);
	w->rows = 0;
	if (w->a->record)
		collect_record_hand_over(w->a->record, (unsigned int)(w - w->a->worker));
}

static bool room_for(struct analysis_worker *w, uint32_t n)
{
	size_t pods = w->room, pipelines = w->room, verdicts = w->room;

	if (!base_grow(&w->pod, &pods, n, sizeof(*w->pod)) ||
	    !base_grow(&w->pipeline, &pipelines, n, sizeof(*w->pipeline)) ||
	    !base_grow(&w->verdict, &verdicts, n, sizeof(*w->verdict)))
		return false;
	w->room = (uint32_t)verdicts;
	return true;
}

/* ---- pods ---- */

static void copy_label(char to[ACT_POD_LABEL_BYTES], const char *from)
{
	snprintf(to, ACT_POD_LABEL_BYTES, "%s", from);
}

static void name_pod(struct act_pod_name *name, const struct collect_tap_row *row)
{
	const struct region_info *info = row->info;
	const char *service = region_label(info, "service");
	bool tcp = info->kind == SL_REGION_FLOWS;

	service = tcp && !*service ? region_label(info, "unit") : service;
	copy_label(name->pod, region_label(info, "pod"));
	snprintf(name->service, sizeof(name->service), "%.*s%s",
		 (int)(sizeof(name->service) - sizeof(TCP)), service, tcp ? TCP : "");
	copy_label(name->kube_namespace, region_label(info, "namespace"));
	copy_label(name->host, row->hostname);
}

static void pod_free(struct analysis_pod *p)
{
	analyse_pipeline_free(p->pipeline);
	collect_features_free(&p->f);
	free(p);
}

static struct analyse_pipeline *make_pipeline(const struct collect_analysis *a,
					      const struct analysis_pod *p, uint64_t instance)
{
	uint32_t features = p->f.count;
	struct analyse_model_info info;
	struct analyse_pipeline_opts o = {
		.step_ns = a->o.step_ns,
		.rate_ns = a->o.step_ns,
		.false_alarms = a->o.false_alarms,
		.seed = instance,
		.detector = a->detector,
		.shadow = a->shadow,
	};

	/* Leaves room for metrics that come later. */
	o.columns = BASE_MAX(features + features / 2, FEATURES_MIN);
	o.columns = BASE_MIN(o.columns, FEATURES_MAX);
	/* Or as many as its model has. */
	if (!collect_models_info(a->models, p->name.pod, p->name.service, &info) &&
	    info.columns >= features && info.columns <= FEATURES_MAX)
		o.columns = info.columns;
	return analyse_pipeline_create(&o);
}

/* Loads the model of the pod or of its service, which replaces the warm-up. */
static bool warm(struct analysis_worker *w, struct analysis_pod *p)
{
	bool first = w->fleet && !analyse_fleet_thresholds(w->fleet)->step.n;
	int err;

	/* A fleet without a threshold takes that of the model. */
	if (first)
		analyse_fleet_join(w->fleet, p->pipeline);
	err = collect_models_load(w->a->models, p->name.pod, p->name.service, p->pipeline);
	if (!first)
		analyse_fleet_join(w->fleet, p->pipeline);
	if (err && err != -ENOENT && err != -EAGAIN)
		base_log_limited(BASE_WARN, "analysis",
				 "model does not fit, learning again pod=%s "
				 "service=%s error=\"%s\"",
				 p->name.pod, p->name.service,
				 err == -EPROTONOSUPPORT
					 ? "a model of another version"
					 : "another detector, step or set of metrics");
	return !err;
}

static bool make_fleet(struct analysis_worker *w, const struct analyse_pipeline *p)
{
	if (!w->fleet)
		w->fleet = analyse_fleet_create(analyse_pipeline_budget(p), 1);
	return w->fleet != NULL;
}

static void set_columns(struct analysis_worker *w, struct analysis_pod *p)
{
	struct analyse_column *c = malloc((p->f.count + 1) * sizeof(*c));

	if (!c) {
		/* Without columns until the next layout. */
		analyse_pipeline_columns(p->pipeline, NULL, 0);
		relaxed_bump(w->s.refused_features, p->f.count);
		return;
	}
	for (uint32_t i = 0; i < p->f.count; i++)
		c[i] = (struct analyse_column){p->f.name[i], p->f.counter[i]};
	relaxed_bump(w->s.refused_features, analyse_pipeline_columns(p->pipeline, c, p->f.count));
	free(c);
}

/* NULL: try again; &no_pod: never. */
static struct analysis_pod *make_pod(struct analysis_worker *w, const struct collect_tap_row *row)
{
	struct collect_analysis *a = w->a;
	struct analysis_pod *p;

	if (!strcmp(region_label(row->info, "service"), AGENT))
		return &no_pod;
	p = calloc(1, sizeof(*p));
	if (!p || collect_features_make(&p->f, row))
		goto refused;
	p->worker = w;
	p->begin_ns = row->ns;
	p->phase_ns = (int64_t)((row->instance * 0x9e3779b97f4a7c15ull >> 32) %
				(a->o.every_ns - a->o.every_ns / 4));
	name_pod(&p->name, row);
	p->pipeline = make_pipeline(a, p, row->instance);
	if (!p->pipeline || !make_fleet(w, p->pipeline) || !room_for(w, w->pods + 1))
		goto refused;
	p->instance = row->instance;
	p->asked = collect_models_asked(a->models);
	p->shown = act_verdicts_add(a->verdicts, row->instance, &p->name);
	if (!p->shown && errno == EAGAIN) {
		pod_free(p);
		return NULL;
	}
	if (!p->shown)
		goto refused;
	p->warming = !warm(w, p);
	analyse_pipeline_learning(p->pipeline,
				  p->warming ? ANALYSE_LEARN_ALL : ANALYSE_LEARN_GATED);
	set_columns(w, p);
	w->pods++;
	relaxed_bump(w->s.features, p->f.count);
	relaxed_bump(w->s.warming, p->warming);
	return p;
refused:
	relaxed_bump(w->s.refused_pods, 1);
	if (p)
		pod_free(p);
	return &no_pod;
}

static void renew_features(struct analysis_worker *w, struct analysis_pod *p,
			   const struct collect_tap_row *row)
{
	p->recorded = false;
	relaxed_bump(w->s.features, -(uint64_t)p->f.count);
	if (collect_features_make(&p->f, row))
		relaxed_bump(w->s.refused_features, row->columns);
	relaxed_bump(w->s.features, p->f.count);
	set_columns(w, p);
}

static void keep_row(struct analysis_worker *w, struct analysis_pod *p, int64_t ns)
{
	struct collect_record *r = w->a->record;
	unsigned int worker = (unsigned int)(w - w->a->worker);

	if (!p->recorded)
		p->recorded = collect_record_layout(r, worker, p->instance,
						    *p->name.pod ? p->name.pod : p->name.service,
						    &p->f);
	if (p->recorded)
		collect_record_row(r, worker, p->instance, ns, &p->f);
}

static void score(struct analysis_worker *w, struct analysis_pod *p,
		  const struct collect_tap_row *row)
{
	struct analyse_pipeline_stats s;

	if (!collect_features_fit(&p->f, row))
		renew_features(w, p, row);
	collect_features_take(&p->f, row);
	if (w->a->record)
		keep_row(w, p, row->ns);
	if (row->ns < p->begin_ns)
		p->begin_ns = row->ns; /* the clock was set back */
	/* A pod without a threshold is not warm. */
	if (p->warming && p->known && (uint64_t)(row->ns - p->begin_ns) > w->a->o.warm_up_ns) {
		p->warming = false;
		analyse_pipeline_learning(p->pipeline, ANALYSE_LEARN_GATED);
		relaxed_bump(w->s.warming, -1ull);
	}
	if (!analyse_pipeline_score(p->pipeline, (uint64_t)row->ns, p->f.value,
				    &w->verdict[w->rows])) {
		w->pod[w->rows] = p;
		w->pipeline[w->rows++] = p->pipeline;
		relaxed_bump(w->s.rows, 1);
		relaxed_bump(w->s.values, p->f.count);
	}
	analyse_pipeline_stats(p->pipeline, &s);
	relaxed_bump(w->s.late, s.backwards - p->late);
	relaxed_bump(w->s.missing, s.missing - p->missing);
	p->late = s.backwards;
	p->missing = s.missing;
}

/* ---- the tap ---- */

/* The round has time for work that can wait. */
static bool spare(const struct analysis_worker *w, int64_t round)
{
	return w->spare_round != round || w->spare_ns < SPARE_NS;
}

static void spend(struct analysis_worker *w, int64_t round, uint64_t since)
{
	w->spare_ns = base_now_ns() - since + (w->spare_round == round ? w->spare_ns : 0);
	w->spare_round = round;
}

/* The name of its model: the service, so that its replicas share it. */
static const char *model_name(const struct analysis_pod *p)
{
	return *p->name.service ? p->name.service : p->name.pod;
}

static void save(struct analysis_worker *w, struct analysis_pod *p, int64_t round, uint64_t asked)
{
	uint64_t start = base_now_ns();

	if (p->warming ||
	    collect_models_keep(w->a->models, model_name(p), p->pipeline, false) != -EAGAIN)
		p->asked = asked;
	spend(w, round, start);
}

static bool wants_row(void *arg, const struct collect_tap_row *row)
{
	const struct collect_analysis *a = arg;
	int64_t moment = row->ns / (int64_t)a->o.every_ns;
	const struct analysis_pod *p = *row->own;

	if (p == &no_pod || (p && p->moment == moment) || row->state != SL_STATE_LIVE)
		return false;
	if (!p)
		return spare(&a->worker[row->worker], row->ns);
	/* Once per interval, later if the last one was missed. */
	return p->moment != moment - 1 || row->ns % (int64_t)a->o.every_ns >= p->phase_ns;
}

static void on_row(void *arg, const struct collect_tap_row *row)
{
	struct collect_analysis *a = arg;
	struct analysis_worker *w = &a->worker[row->worker];
	int64_t moment = row->ns / (int64_t)a->o.every_ns;
	struct analysis_pod *p = *row->own;
	uint64_t start = base_now_ns(), asked;

	if (moment != w->moment) {
		judge(w);
		w->moment = moment;
	}
	if (!p) {
		*row->own = p = make_pod(w, row);
		spend(w, row->ns, start);
	}
	if (p && p != &no_pod) {
		p->moment = moment;
		score(w, p, row);
		asked = collect_models_asked(a->models);
		if (p->asked != asked && spare(w, row->ns))
			save(w, p, row->ns, asked);
	}
	relaxed_bump(w->s.busy_ns, base_now_ns() - start);
}

static void on_gone(void *arg, uint64_t instance, void *own)
{
	struct collect_analysis *a = arg;
	struct analysis_pod *p = own;
	struct analysis_worker *w = p->worker;
	uint32_t n = 0;

	(void)instance;
	if (p == &no_pod)
		return;
	for (uint32_t i = 0; i < w->rows; i++) {
		if (w->pod[i] == p)
			continue;
		w->pod[n] = w->pod[i];
		w->pipeline[n] = w->pipeline[i];
		w->verdict[n++] = w->verdict[i];
	}
	w->rows = n;
	w->pods--;
	relaxed_bump(w->s.features, -(uint64_t)p->f.count);
	relaxed_bump(w->s.warming, -(uint64_t)p->warming);
	act_verdict_gone(p->shown);
	if (!p->warming)
		collect_models_keep(a->models, model_name(p), p->pipeline, true);
	pod_free(p);
}

/* ---- start and end ---- */

/* Fails at the start if the model cannot be saved. */
static int look_at_folder(const char *path, char *error, size_t error_bytes)
{
	char *copy = strdup(path);
	int err = !copy ? ENOMEM : access(dirname(copy), W_OK | X_OK) ? errno : 0;

	if (err)
		snprintf(error, error_bytes, "%s: cannot write: %s", path, strerror(err));
	free(copy);
	return err ? -1 : 0;
}

/* -1 after a line in error. */
static int read_models(struct collect_analysis *a, char *error, size_t error_bytes)
{
	int err = collect_models_read(a->models, a->o.model, error, error_bytes);
	char *aside;

	if (!err || err == -ENOENT)
		return 0;
	if (err != -EINVAL && err != -EPROTONOSUPPORT)
		return -1;
	if (asprintf(&aside, "%s.refused", a->o.model) < 0)
		return -1;
	if (rename(a->o.model, aside)) {
		snprintf(error, error_bytes, "%s is not valid and cannot be renamed: %s",
			 a->o.model, strerror(errno));
		free(aside);
		return -1;
	}
	base_logf(BASE_WARN, "analysis", "%s; learning again, file renamed to %s", error, aside);
	free(aside);
	return 0;
}

static void release(struct collect_analysis *a)
{
	for (unsigned int i = 0; a->worker && i < a->o.workers; i++) {
		struct analysis_worker *w = &a->worker[i];

		analyse_fleet_free(w->fleet);
		free(w->pod);
		free(w->pipeline);
		free(w->verdict);
	}
	collect_models_free(a->models);
	act_verdicts_free(a->verdicts);
	free(a->worker);
	free(a);
}

struct collect_analysis *collect_analysis_new(const struct collect_analysis_opts *opts, char *error,
					      size_t error_bytes)
{
	struct collect_analysis *a = calloc(1, sizeof(*a));
	struct collect_analysis_opts *o;

	snprintf(error, error_bytes, "out of memory");
	if (!a)
		return NULL;
	a->o = *opts;
	o = &a->o;
	o->warm_up_ns = o->warm_up_ns ? o->warm_up_ns : 60000000000u;
	o->detector = o->detector ? o->detector : "combined";
	a->detector = analyse_detector_named(o->detector, error, error_bytes);
	if (!a->detector)
		goto fail;
	if (o->shadow) {
		a->shadow = analyse_detector_named(o->shadow, error, error_bytes);
		if (!a->shadow)
			goto fail;
	}
	a->verdicts = act_verdicts_new(&o->verdicts);
	a->worker = calloc(o->workers, sizeof(*a->worker));
	a->models = collect_models_new();
	if (!a->verdicts || !a->worker || !a->models)
		goto fail;
	for (unsigned int i = 0; i < o->workers; i++)
		a->worker[i].a = a;
	if (o->model) {
		if (look_at_folder(o->model, error, error_bytes) ||
		    read_models(a, error, error_bytes))
			goto fail;
	}
	if (o->record) {
		a->record = collect_record_new(o->record, o->workers, error, error_bytes);
		if (!a->record)
			goto fail;
	}
	if (o->model && o->model_every_ns &&
	    collect_models_start(a->models, a->o.model, o->model_every_ns)) {
		snprintf(error, error_bytes, "no thread for --model-every");
		goto fail;
	}
	return a;
fail:
	collect_record_free(a->record);
	release(a);
	return NULL;
}

int collect_analysis_attach(struct collect_analysis *a, struct collect_collector *c)
{
	return collect_collector_tap(
		c, &(struct collect_tap){
			   .row = on_row, .wants = wants_row, .gone = on_gone, .arg = a});
}

int collect_analysis_free(struct collect_analysis *a)
{
	int err = 0;

	if (!a)
		return 0;
	collect_models_stop(a->models);
	if (a->o.model && (err = collect_models_write(a->models, a->o.model)))
		base_logf(BASE_ERROR, "analysis", "models lost file=%s error=\"%s\"", a->o.model,
			  strerror(-err));
	if (a->record) {
		uint64_t lost = collect_record_lost(a->record);
		int bad = collect_record_free(a->record);

		if (bad)
			base_logf(BASE_ERROR, "analysis", "rows not recorded folder=%s count>=%llu",
				  a->o.record, (unsigned long long)lost);
		err = err ? err : bad;
	}
	release(a);
	return err;
}

struct act_verdicts *collect_analysis_verdicts(struct collect_analysis *a)
{
	return a->verdicts;
}

void collect_analysis_poll(struct collect_analysis *a)
{
	if (a->record)
		collect_record_write(a->record);
}

const struct collect_analysis_opts *collect_analysis_opts(const struct collect_analysis *a)
{
	return &a->o;
}

void collect_analysis_stats(const struct collect_analysis *a, struct collect_analysis_stats *out)
{
	uint64_t *sum = (uint64_t *)out;
	struct collect_models_stats m;

	*out = (struct collect_analysis_stats){0};
	for (unsigned int i = 0; i < a->o.workers; i++)
		for (size_t k = 0; k < sizeof(*out) / sizeof(*sum); k++)
			sum[k] += relaxed_load(((const uint64_t *)&a->worker[i].s)[k]);
	out->lost_rows = a->record ? collect_record_lost(a->record) : 0;
	collect_models_stats(a->models, &m);
	out->models_refused = m.refused;
	out->models_failed = m.failed;
}
