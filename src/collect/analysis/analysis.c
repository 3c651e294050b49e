// SPDX-License-Identifier: Apache-2.0
/*
 * analysis.c - see analysis.h.
 *
 * A worker has a crew: its pods, their rows of the moment (every_ns), and the fleet that judges them
 * together when the next moment begins. A crew is its worker's alone; what is counted is looked at
 * by anybody.
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
#include "collect/analysis/features.h"
#include "collect/internal.h"
#include "collect/analysis/models.h"
#include "collect/analysis/record.h"

#define FEATURES_MIN 64u
#define FEATURES_MAX 512u	       /* a detector may need memory by their square */
#define AGENT	     "sidelight-agent" /* its own region is not analysed */
#define TCP	     " (tcp)" /* a workload's connections are known by other features than itself */
#define SPARE_NS     500000u  /* of a round, for pods that are new or saved: the others wait */

struct pod {
	struct crew *crew;
	struct sl_pipeline *pipeline;
	struct sl_verdict_pod *shown;
	struct sl_features f;
	char service[SL_POD_LABEL_BYTES];
	int64_t moment, begin_ns;
	int64_t phase_ns;    /* of a moment: rows of one round would make it late */
	bool warming, known; /* known: it has a threshold */
	bool recorded;	     /* its columns are known to the record */
	uint64_t asked;	     /* models_asked(), as it was answered */
	uint64_t instance;
	char name[SL_POD_LABEL_BYTES];
	uint64_t late, missing; /* of its pipeline, as they were counted */
};

struct crew {
	struct sl_analysis *a;
	struct sl_fleet *fleet;
	int64_t moment;
	/* What pods that were made or saved took of this round. */
	int64_t spare_round;
	uint64_t spare_ns;
	/* Scored rows of the moment. */
	struct pod **pod;
	struct sl_pipeline **pipeline;
	struct sl_verdict *verdict;
	uint32_t rows, room;
	uint32_t pods;
	/* Looked at by others. */
	struct sl_analysis_stats s;
};

struct sl_analysis {
	struct sl_analysis_opts o;
	const struct sl_detector_ops *detector, *shadow;
	struct sl_verdicts *verdicts;
	struct models *models;
	struct record *record; /* NULL: none */
	char *model;
	struct crew *crew;
};

/* The region of which there is to be no pod: refused, or not of interest. */
static struct pod nobody;

/* ---- findings ---------------------------------------------------------------------------------------- */

static void push(struct pod *p, const struct sl_verdict *v)
{
	struct sl_finding f = {
		.ns = (int64_t)v->t_ns,
		.score = v->score,
		.threshold = v->known && !p->warming ? 1 : INFINITY,
		.anomalous = v->anomalous && !p->warming,
		.drift = v->drift,
		.shadow_anomalous = v->shadow_anomalous && !p->warming,
		.shadow_score = p->crew->a->shadow ? v->shadow_score : NAN,
	};

	for (uint32_t i = 0; i < v->blamed && f.blames < SL_BLAMES; i++) {
		uint32_t c = v->blame[i].column;

		if (c >= p->f.count)
			continue;
		f.blame[f.blames].metric = p->f.name[c];
		f.blame[f.blames].share = (double)v->blame[i].share;
		f.blame[f.blames++].value = p->f.shown[c];
	}
	p->known = v->known;
	sl_verdict_push(p->shown, &f);
}

/* All rows of a moment are there. */
static void judge(struct crew *w)
{
	if (w->rows)
		sl_fleet_judge(w->fleet, w->pipeline, w->verdict, w->rows);
	for (uint32_t i = 0; i < w->rows; i++)
		push(w->pod[i], &w->verdict[i]);
	w->rows = 0;
	if (w->a->record)
		record_hand_over(w->a->record, (unsigned int)(w - w->a->crew));
}

static bool room_for(struct crew *w, uint32_t n)
{
	uint32_t room = w->room ? w->room * 2 : 64;
	void *to;

	if (n <= w->room)
		return true;
#define GROW(p) ((to = realloc((p), room * sizeof(*(p)))) ? ((p) = to, true) : false)
	if (!GROW(w->pod) || !GROW(w->pipeline) || !GROW(w->verdict))
		return false;
#undef GROW
	w->room = room;
	return true;
}

/* ---- pods --------------------------------------------------------------------------------------------- */

static void copy_label(char to[SL_POD_LABEL_BYTES], const char *from)
{
	snprintf(to, SL_POD_LABEL_BYTES, "%s", from);
}

static const char *label(const struct sl_region_info *info, const char *key)
{
	for (uint32_t i = 0; i < info->label_count; i++)
		if (!strcmp(info->labels[i].key, key))
			return info->labels[i].value;
	return "";
}

static void name_pod(struct pod *p, const struct sl_region_info *info)
{
	const char *service = label(info, "service");
	bool tcp = info->kind == SL_REGION_FLOWS;

	service = tcp && !*service ? label(info, "unit") : service;
	copy_label(p->name, label(info, "pod"));
	snprintf(p->service, sizeof(p->service), "%.*s%s", (int)(sizeof(p->service) - sizeof(TCP)),
		 service, tcp ? TCP : "");
}

static void pod_free(struct pod *p)
{
	sl_pipeline_free(p->pipeline);
	sl_features_free(&p->f);
	free(p);
}

static struct sl_pipeline *make_pipeline(const struct sl_analysis *a, const struct pod *p,
					 uint64_t instance)
{
	uint32_t features = p->f.count;
	struct sl_model_info info;
	struct sl_pipeline_opts o = {
		.sz = sizeof(o),
		.step_ns = a->o.step_ns,
		.rate_ns = a->o.step_ns,
		.false_alarms = a->o.false_alarms,
		.seed = instance,
		.detector = a->detector,
		.shadow = a->shadow,
	};

	/* Metrics come later, too: room for half as many again. */
	o.columns = features + features / 2;
	o.columns = o.columns < FEATURES_MIN ? FEATURES_MIN : o.columns;
	o.columns = o.columns > FEATURES_MAX ? FEATURES_MAX : o.columns;
	/* Or as many as what is known of it has. */
	if (!models_info(a->models, p->name, p->service, &info) && info.columns >= features &&
	    info.columns <= FEATURES_MAX)
		o.columns = info.columns;
	return sl_pipeline_create(&o);
}

/* What a sibling has learned spares the pod its warm-up. */
static bool warm(struct crew *w, struct pod *p)
{
	bool first = w->fleet && !sl_fleet_thresholds(w->fleet)->step.n;
	int err;

	/* A fleet that knows no threshold yet takes that of the model, any other keeps its own. */
	if (first)
		sl_fleet_join(w->fleet, p->pipeline);
	err = models_load(w->a->models, p->name, p->service, p->pipeline);
	if (!first)
		sl_fleet_join(w->fleet, p->pipeline);
	if (err && err != -ENOENT && err != -EAGAIN)
		sl_log_limited(SL_WARN, "analysis",
			       "what was known of a pod does not fit and is learned anew pod=%s "
			       "service=%s: %s",
			       p->name, p->service,
			       err == -EPROTONOSUPPORT
				       ? "a model of another version"
				       : "another detector, step or set of metrics");
	return !err;
}

static bool make_fleet(struct crew *w, const struct sl_pipeline *p)
{
	if (!w->fleet)
		w->fleet = sl_fleet_create(sl_pipeline_budget(p), 1);
	return w->fleet != NULL;
}

static void set_columns(struct crew *w, struct pod *p)
{
	struct sl_column *c = malloc((p->f.count + 1) * sizeof(*c));

	if (!c) {
		/* Rows without columns say nothing; with the next layout it is tried again. */
		sl_pipeline_columns(p->pipeline, NULL, 0);
		BUMP(w->s.refused_features, p->f.count);
		return;
	}
	for (uint32_t i = 0; i < p->f.count; i++)
		c[i] = (struct sl_column){p->f.name[i], p->f.counter[i]};
	BUMP(w->s.refused_features, sl_pipeline_columns(p->pipeline, c, p->f.count));
	free(c);
}

/* NULL: not now, or *nobody for never. */
static struct pod *make_pod(struct crew *w, const struct sl_tap_row *row)
{
	struct sl_analysis *a = w->a;
	struct sl_pod_name name = {.pod = ""};
	struct pod *p;

	if (!strcmp(label(row->info, "service"), AGENT))
		return &nobody;
	p = calloc(1, sizeof(*p));
	if (!p || sl_features_make(&p->f, row))
		goto refused;
	p->crew = w;
	p->begin_ns = row->ns;
	p->phase_ns = (int64_t)((row->instance * 0x9e3779b97f4a7c15ull >> 32) %
				(a->o.every_ns - a->o.every_ns / 4));
	name_pod(p, row->info);
	p->pipeline = make_pipeline(a, p, row->instance);
	if (!p->pipeline || !make_fleet(w, p->pipeline) || !room_for(w, w->pods + 1))
		goto refused;
	p->instance = row->instance;
	p->asked = models_asked(a->models);
	copy_label(name.pod, p->name);
	copy_label(name.service, p->service);
	copy_label(name.kube_namespace, label(row->info, "namespace"));
	copy_label(name.host, row->hostname);
	p->shown = sl_verdicts_add(a->verdicts, row->instance, &name);
	if (!p->shown && errno == EAGAIN) {
		pod_free(p);
		return NULL;
	}
	if (!p->shown)
		goto refused;
	p->warming = !warm(w, p);
	sl_pipeline_learning(p->pipeline, p->warming ? SL_LEARN_ALL : SL_LEARN_GATED);
	set_columns(w, p);
	w->pods++;
	BUMP(w->s.features, p->f.count);
	BUMP(w->s.warming, p->warming);
	return p;
refused:
	BUMP(w->s.refused_pods, 1);
	if (p)
		pod_free(p);
	return &nobody;
}

static void renew_features(struct crew *w, struct pod *p, const struct sl_tap_row *row)
{
	p->recorded = false;
	BUMP(w->s.features, -(uint64_t)p->f.count);
	if (sl_features_make(&p->f, row))
		BUMP(w->s.refused_features, row->columns);
	BUMP(w->s.features, p->f.count);
	set_columns(w, p);
}

static void keep_row(struct crew *w, struct pod *p, int64_t ns)
{
	struct record *r = w->a->record;
	unsigned int worker = (unsigned int)(w - w->a->crew);

	if (!p->recorded)
		p->recorded = record_layout(r, worker, p->instance, *p->name ? p->name : p->service,
					    &p->f);
	if (p->recorded)
		record_row(r, worker, p->instance, ns, &p->f);
}

static void score(struct crew *w, struct pod *p, const struct sl_tap_row *row)
{
	struct sl_pipeline_stats s;

	if (!sl_features_fit(&p->f, row))
		renew_features(w, p, row);
	sl_features_take(&p->f, row);
	if (w->a->record)
		keep_row(w, p, row->ns);
	if (row->ns < p->begin_ns)
		p->begin_ns = row->ns; /* the clock was set back */
	/* Who has no threshold yet is not warm, however long that takes. */
	if (p->warming && p->known && (uint64_t)(row->ns - p->begin_ns) > w->a->o.warm_up_ns) {
		p->warming = false;
		sl_pipeline_learning(p->pipeline, SL_LEARN_GATED);
		BUMP(w->s.warming, -1ull);
	}
	if (!sl_pipeline_score(p->pipeline, (uint64_t)row->ns, p->f.value, &w->verdict[w->rows])) {
		w->pod[w->rows] = p;
		w->pipeline[w->rows++] = p->pipeline;
		BUMP(w->s.rows, 1);
		BUMP(w->s.values, p->f.count);
	}
	sl_pipeline_stats(p->pipeline, &s);
	BUMP(w->s.late, s.backwards - p->late);
	BUMP(w->s.missing, s.missing - p->missing);
	p->late = s.backwards;
	p->missing = s.missing;
}

/* ---- the tap -------------------------------------------------------------------------------------------- */

/* Is there time in this round for what can wait? */
static bool spare(const struct crew *w, int64_t round)
{
	return w->spare_round != round || w->spare_ns < SPARE_NS;
}

static void spend(struct crew *w, int64_t round, uint64_t since)
{
	w->spare_ns = sl_now_ns() - since + (w->spare_round == round ? w->spare_ns : 0);
	w->spare_round = round;
}

/* What models are known by: that of its service is of use to its siblings. */
static const char *model_name(const struct pod *p)
{
	return *p->service ? p->service : p->name;
}

static void save(struct crew *w, struct pod *p, int64_t round, uint64_t asked)
{
	uint64_t start = sl_now_ns();

	if (p->warming || models_keep(w->a->models, model_name(p), p->pipeline) != -EAGAIN)
		p->asked = asked;
	spend(w, round, start);
}

static bool wants_row(void *arg, const struct sl_tap_row *row)
{
	const struct sl_analysis *a = arg;
	int64_t moment = row->ns / (int64_t)a->o.every_ns;
	const struct pod *p = *row->own;

	if (p == &nobody || (p && p->moment == moment) || row->state != SL_STATE_LIVE)
		return false;
	if (!p)
		return spare(&a->crew[row->worker], row->ns);
	/* Not yet, unless it was left out the last time. */
	return p->moment != moment - 1 || row->ns % (int64_t)a->o.every_ns >= p->phase_ns;
}

static void on_row(void *arg, const struct sl_tap_row *row)
{
	struct sl_analysis *a = arg;
	struct crew *w = &a->crew[row->worker];
	int64_t moment = row->ns / (int64_t)a->o.every_ns;
	struct pod *p = *row->own;
	uint64_t start = sl_now_ns(), asked;

	if (moment != w->moment) {
		judge(w);
		w->moment = moment;
	}
	if (!p) {
		*row->own = p = make_pod(w, row);
		spend(w, row->ns, start);
	}
	if (p && p != &nobody) {
		p->moment = moment;
		score(w, p, row);
		asked = models_asked(a->models);
		if (p->asked != asked && spare(w, row->ns))
			save(w, p, row->ns, asked);
	}
	BUMP(w->s.busy_ns, sl_now_ns() - start);
}

static void on_gone(void *arg, uint64_t instance, void *own)
{
	struct sl_analysis *a = arg;
	struct pod *p = own;
	struct crew *w = p->crew;
	uint32_t n = 0;

	(void)instance;
	if (p == &nobody)
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
	BUMP(w->s.features, -(uint64_t)p->f.count);
	BUMP(w->s.warming, -(uint64_t)p->warming);
	sl_verdict_gone(p->shown);
	if (!p->warming)
		models_keep_last(a->models, model_name(p), p->pipeline);
	pod_free(p);
}

/* ---- start and end ---------------------------------------------------------------------------------------- */

static const struct sl_detector_ops *find(const char *name, char *error, size_t bytes)
{
	const struct sl_detector_ops *d = sl_detector_find(name);
	size_t n;

	if (d)
		return d;
	n = (size_t)snprintf(error, bytes, "no detector '%.40s': there are", name);
	for (unsigned int i = 0; (d = sl_detector_at(i)) && n < bytes; i++)
		n += (size_t)snprintf(error + n, bytes - n, "%s %s", i ? "," : "", d->name);
	return NULL;
}

/* What can't be saved is better known at the start than after five minutes, or a day. */
static int look_at_folder(const char *path, char *error, size_t error_bytes)
{
	char *copy = strdup(path);
	int err = !copy ? ENOMEM : access(dirname(copy), W_OK | X_OK) ? errno : 0;

	if (err)
		snprintf(error, error_bytes, "%s: no file can be written there: %s", path,
			 strerror(err));
	free(copy);
	return err ? -1 : 0;
}

/* -1 after a line in error. */
static int read_models(struct sl_analysis *a, char *error, size_t error_bytes)
{
	int err = models_read(a->models, a->model, error, error_bytes);
	char *aside;

	if (!err || err == -ENOENT)
		return 0;
	if (err != -EINVAL && err != -EPROTONOSUPPORT)
		return -1;
	if (asprintf(&aside, "%s.refused", a->model) < 0)
		return -1;
	if (rename(a->model, aside)) {
		snprintf(error, error_bytes, "%s is damaged and can't be put aside: %s", a->model,
			 strerror(errno));
		free(aside);
		return -1;
	}
	sl_logf(SL_WARN, "analysis", "%s; what is usual is learned anew, and the file is now %s",
		error, aside);
	free(aside);
	/* What was good of it goes, too: half of a fleet that knows itself is hard to explain. */
	models_free(a->models);
	a->models = models_new();
	if (!a->models) {
		snprintf(error, error_bytes, "out of memory");
		return -1;
	}
	models_refused(a->models);
	return 0;
}

struct sl_analysis *sl_analysis_new(const struct sl_analysis_opts *opts, char *error,
				    size_t error_bytes)
{
	struct sl_analysis *a = calloc(1, sizeof(*a));
	struct sl_analysis_opts *o;

	snprintf(error, error_bytes, "out of memory");
	if (!a)
		return NULL;
	a->o = *opts;
	o = &a->o;
	o->workers = o->workers ? o->workers : 1;
	o->false_alarms = o->false_alarms > 0 ? o->false_alarms : 1;
	o->warm_up_ns = o->warm_up_ns ? o->warm_up_ns : 60000000000u;
	o->every_ns = o->every_ns ? o->every_ns : 100000000u;
	o->step_ns = o->step_ns ? o->step_ns : 1000000000u;
	o->detector = o->detector ? o->detector : "combined";
	a->detector = find(o->detector, error, error_bytes);
	if (!a->detector)
		goto fail;
	if (o->shadow) {
		a->shadow = find(o->shadow, error, error_bytes);
		if (!a->shadow)
			goto fail;
	}
	a->verdicts = sl_verdicts_new(&o->verdicts);
	a->crew = calloc(o->workers, sizeof(*a->crew));
	a->models = models_new();
	if (!a->verdicts || !a->crew || !a->models)
		goto fail;
	for (unsigned int i = 0; i < o->workers; i++)
		a->crew[i].a = a;
	if (o->model) {
		a->model = strdup(o->model);
		if (!a->model || look_at_folder(o->model, error, error_bytes) ||
		    read_models(a, error, error_bytes))
			goto fail;
	}
	if (o->record) {
		a->record = record_new(o->record, o->workers, error, error_bytes);
		if (!a->record)
			goto fail;
	}
	if (o->model && o->model_every_ns && models_start(a->models, a->model, o->model_every_ns)) {
		snprintf(error, error_bytes, "no thread for --model-every");
		goto fail;
	}
	return a;
fail:
	if (a->record)
		record_free(a->record);
	free(a->model);
	models_free(a->models);
	sl_verdicts_free(a->verdicts);
	free(a->crew);
	free(a);
	return NULL;
}

int sl_analysis_attach(struct sl_analysis *a, struct sl_collector *c)
{
	return sl_collector_tap(
		c, &(struct sl_tap){.row = on_row, .wants = wants_row, .gone = on_gone, .arg = a});
}

int sl_analysis_free(struct sl_analysis *a)
{
	int err = 0;

	if (!a)
		return 0;
	models_stop(a->models);
	if (a->model && (err = models_write(a->models, a->model)))
		sl_logf(SL_ERROR, "analysis", "%s: what was learned is lost: %s", a->model,
			strerror(-err));
	if (a->record) {
		uint64_t lost = record_lost(a->record);
		int bad = record_free(a->record);

		if (bad)
			sl_logf(SL_ERROR, "analysis", "%s: rows could not be recorded count>=%llu",
				a->o.record, (unsigned long long)lost);
		err = err ? err : bad;
	}
	for (unsigned int i = 0; i < a->o.workers; i++) {
		struct crew *w = &a->crew[i];

		sl_fleet_free(w->fleet);
		free(w->pod);
		free(w->pipeline);
		free(w->verdict);
	}
	models_free(a->models);
	sl_verdicts_free(a->verdicts);
	free(a->model);
	free(a->crew);
	free(a);
	return err;
}

struct sl_verdicts *sl_analysis_verdicts(struct sl_analysis *a)
{
	return a->verdicts;
}

void sl_analysis_turn(struct sl_analysis *a)
{
	if (a->record)
		record_write(a->record);
}

const struct sl_analysis_opts *sl_analysis_opts(const struct sl_analysis *a)
{
	return &a->o;
}

void sl_analysis_stats(const struct sl_analysis *a, struct sl_analysis_stats *out)
{
	struct models_stats m;

	*out = (struct sl_analysis_stats){0};
	for (unsigned int i = 0; i < a->o.workers; i++) {
		const struct sl_analysis_stats *s = &a->crew[i].s;

		out->rows += GET(s->rows);
		out->values += GET(s->values);
		out->busy_ns += GET(s->busy_ns);
		out->features += GET(s->features);
		out->refused_features += GET(s->refused_features);
		out->refused_pods += GET(s->refused_pods);
		out->late += GET(s->late);
		out->missing += GET(s->missing);
		out->warming += GET(s->warming);
	}
	out->lost_rows = a->record ? record_lost(a->record) : 0;
	models_stats(a->models, &m);
	out->models_loaded = m.loaded;
	out->models_refused = m.refused;
	out->models_written = m.written;
	out->models_failed = m.failed;
}
