// SPDX-License-Identifier: Apache-2.0
/*
 * analysis.c - workers turn rows into features and queue them (rows.h); one thread takes everything
 * that the workers queued for a moment (every_ns), and judges it (judge.h). The thread waits at
 * most LATE_NS for a late worker; rows that arrive after that are counted and left out.
 */
#include "collect/judge/analysis.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "act/explain.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/thread.h"
#include "collect/judge/edges.h"
#include "collect/judge/features.h"
#include "collect/judge/judged.h"
#include "collect/judge/measured.h"
#include "collect/judge/models.h"
#include "collect/judge/record.h"
#include "collect/judge/rows.h"
#include "collect/read/collector_internal.h"
#include "collect/read/attach.h"
#include "collect/tables/tables.h"

#define HOST	  "host"	    /* service of a host's own metrics */
#define EXPORTED  "exported_"	    /* precedes a claimed name that is reserved, as in region.c */
#define AGENT	  "sidelight-agent" /* service of the agent's own region, which is not analysed */
#define LATE_NS	  1000000000
#define HOLD_NS	  500000000u /* an anomaly ends this long after the last anomalous row */
#define HOLD_ROWS 3u	     /* minimum number of normal rows before an anomaly ends */
#define TRACE_NS  100000000u /* minimum time between two traces for the call graph */
/* after this long without a trace, the call graph is derived from connections */
#define SILENT_NS 60000000000u
#define MADE	  10u /* number of traces synthesized from connections at a time */
#define ASKED	  64u /* number of pods per worker whose columns the judge asks for at a time */
/* a moment that is earlier than the previous one by this much means that the clock was set back */
#define BACK_NS 10000000000

/* ---- per worker ---- */

struct analysis_pod {
	struct analysis_worker *worker;
	struct collect_features f;
	struct act_pod_name name;
	uint64_t instance;
	int64_t moment;
	int64_t phase_ns; /* phase within the interval, so that rows of one round share it */
	bool queued;	  /* the pod's columns have been queued */
	bool again;	  /* the same columns had been queued before */
};

struct analysis_worker {
	struct collect_analysis *a;
	struct collect_rows queue;
	int64_t moment, given; /* given: the last moment handed over completely */
	uint32_t pods;
	/* Instances whose columns the judge has refused, by ask_at(); also written by the judge. */
	uint64_t ask[ASKED];
	/* Read by any thread. */
	uint64_t busy_ns, lost_rows, refused_pods;
};

struct collect_analysis {
	struct collect_analysis_opts o;
	struct act_verdicts *verdicts;
	struct collect_models *models;
	struct collect_record *record; /* NULL if nothing is recorded */
	struct collect_judge *judge;
	struct analysis_worker *worker;
	pthread_mutex_t trace_lock;
	struct collect_rows traces;  /* rows of traces; their writer holds trace_lock */
	uint64_t trace_ns;	     /* time of the last kept trace; read by any thread */
	struct collect_edges *edges; /* used only by the polling thread */
	struct base_thread thread;
	int wake; /* eventfd */
	/* Used by the judge's thread. */
	int64_t moment; /* last judged moment */
	uint64_t asked; /* value of collect_models_asked() when the models were last saved */
	/* Read by any thread. */
	struct collect_analysis_stats s;
};

/* Stands for a pod that was refused, or is not analysed. */
static struct analysis_pod no_pod;

/*
 * Several pods share a place. One that finds the place taken by another is asked after one of its
 * later rows.
 */
static uint64_t *ask_at(struct analysis_worker *w, uint64_t instance)
{
	return &w->ask[base_hash_u64(instance) % ASKED];
}

/* ---- the tap ---- */

static void copy_label(char to[ACT_POD_LABEL_BYTES], const char *from)
{
	snprintf(to, ACT_POD_LABEL_BYTES, "%.*s", (int)ACT_POD_LABEL_BYTES - 1, from);
}

/*
 * A publisher chooses the label `service`, and a user names systemd units. But only a trusted
 * publisher's metrics are those of a host, and only the kernel's connections have the suffix, or a
 * name in parentheses, such as "(host)". Any other name like these is changed.
 */
static void name_service(struct act_pod_name *name, const struct collect_tap_row *row)
{
	enum { BYTES = sizeof(name->service) + 1 - sizeof(COLLECT_MEASURED_SERVICE) };
	const bool tcp = row->info->kind == SL_REGION_FLOWS;
	const bool host = !tcp && row->tenant->exempt;
	const char *claimed = region_label(row->info, "service");
	char *service = name->service;

	snprintf(service, BYTES, "%s", claimed);
	if (*service == '(' || act_is_connections(name) || (!host && !strcmp(service, HOST)))
		snprintf(service, BYTES, EXPORTED "%.*s", BYTES - (int)sizeof(EXPORTED), claimed);
	while (act_is_connections(name))
		service[act_service_length(service)] = '\0';
	if (!tcp)
		return;
	if (!*service)
		snprintf(service, BYTES, "%s", region_label(row->info, "unit"));
	strcat(service, COLLECT_MEASURED_SERVICE);
}

static void name_owner(struct act_pod_name *name, const struct collect_tap_row *row)
{
	const struct collect_tenant *t = row->tenant;

	if (t->exempt) {
		copy_label(name->kube_namespace, region_label(row->info, "namespace"));
		if (row->info->kind == SL_REGION_FLOWS)
			copy_label(name->owner, name->kube_namespace);
		return;
	}
	copy_label(name->kube_namespace, t->who.names.kube_namespace);
	act_name_owner(name->owner, name->kube_namespace, t->uid);
	/* The key is unique only on its host. */
	name->tenant = base_hash(t->who.key, row->hostname, strlen(row->hostname));
}

static void name_pod(struct act_pod_name *name, const struct collect_tap_row *row)
{
	const struct region_info *info = row->info;

	name_service(name, row);
	name_owner(name, row);
	copy_label(name->pod, region_label(info, "pod"));
	copy_label(name->container, region_label(info, "container"));
	copy_label(name->host, row->hostname);
	name->process = info->kind == SL_REGION_FLOWS ? 0 : info->pid;
}

/* Returns NULL if out of memory. */
static struct analysis_pod *make_pod(struct analysis_worker *w, const struct collect_tap_row *row)
{
	struct analysis_pod *p;

	if (!strcmp(region_label(row->info, "service"), AGENT))
		return &no_pod;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->worker = w;
	p->instance = row->instance;
	p->phase_ns = (int64_t)((row->instance * 0x9e3779b97f4a7c15ull >> 32) %
				(w->a->o.every_ns - w->a->o.every_ns / 4));
	name_pod(&p->name, row);
	relaxed_bump(w->pods, 1);
	return p;
}

/* Queues the pod's columns. */
static bool queue_layout(struct analysis_worker *w, const struct analysis_pod *p, int64_t ns)
{
	const struct collect_features *f = &p->f;
	struct collect_rows_entry e = {.instance = p->instance,
				       .ns = ns,
				       .moment = w->moment,
				       .kind = COLLECT_ROWS_LAYOUT,
				       .columns = f->count,
				       .again = p->again,
				       .bytes = sizeof(p->name)};
	char *at;

	for (uint32_t i = 0; i < f->count; i++)
		e.bytes += 2 + strlen(f->name[i]);
	at = (char *)collect_rows_put(&w->queue, &e);
	if (!at)
		return false;
	memcpy(at, &p->name, sizeof(p->name));
	at += sizeof(p->name);
	for (uint32_t i = 0; i < f->count; i++) {
		*at++ = f->counter[i] ? '1' : '0';
		at = stpcpy(at, f->name[i]) + 1;
	}
	return true;
}

static void queue_row(struct analysis_worker *w, struct analysis_pod *p,
		      const struct collect_tap_row *row)
{
	struct collect_rows_entry e = {.instance = p->instance,
				       .ns = row->ns,
				       .moment = w->moment,
				       .kind = COLLECT_ROWS_VALUES};
	uint64_t *ask = ask_at(w, p->instance);
	uint8_t *at = NULL;

	if (relaxed_load(*ask) == p->instance) {
		relaxed_store(*ask, 0);
		p->again = p->again || p->queued;
		p->queued = false;
	}
	if (!collect_features_fit(&p->f, row)) {
		p->queued = p->again = false;
		if (collect_features_make(&p->f, row)) {
			relaxed_bump(w->lost_rows, 1);
			return;
		}
	}
	collect_features_take(&p->f, row);
	p->queued = p->queued || queue_layout(w, p, row->ns);
	e.columns = p->f.count;
	e.bytes = e.columns * sizeof(double);
	if (p->queued)
		at = collect_rows_put(&w->queue, &e);
	if (at && e.bytes)
		memcpy(at, p->f.value, e.bytes);
	else if (!at)
		relaxed_bump(w->lost_rows, 1);
}

/* Hands the queued rows to the judge; all moments before w->moment are complete. */
static void give_rows(struct analysis_worker *w, bool wait)
{
	if (w->given == w->moment || !collect_rows_give(&w->queue, w->moment, wait))
		return;
	w->given = w->moment;
	eventfd_write(w->a->wake, 1);
}

static bool wants_row(void *arg, const struct collect_tap_row *row)
{
	const struct collect_analysis *a = arg;
	int64_t moment = row->ns / (int64_t)a->o.every_ns;
	const struct analysis_pod *p = *row->own;

	if (p == &no_pod || (p && p->moment == moment) || row->state != SL_STATE_LIVE)
		return false;
	if (row->info->origin) /* the series of many pods, which another collector analyses */
		return false;
	/* Accept one row per interval, or a late one if the last interval was missed. */
	return !p || p->moment != moment - 1 || row->ns % (int64_t)a->o.every_ns >= p->phase_ns;
}

static void on_row(void *arg, const struct collect_tap_row *row)
{
	struct collect_analysis *a = arg;
	struct analysis_worker *w = &a->worker[row->worker];
	struct analysis_pod *p = *row->own;
	uint64_t start = base_now_ns();

	w->moment = row->ns / (int64_t)a->o.every_ns;
	give_rows(w, false);
	if (!p)
		*row->own = p = make_pod(w, row);
	if (p && p != &no_pod) {
		p->moment = w->moment;
		queue_row(w, p, row);
	} else if (!p) {
		relaxed_bump(w->refused_pods, 1);
	}
	relaxed_bump(w->busy_ns, base_now_ns() - start);
}

static void on_gone(void *arg, uint64_t instance, void *own)
{
	struct analysis_pod *p = own;
	struct analysis_worker *w = p->worker;
	const struct collect_rows_entry e = {
		.instance = instance, .kind = COLLECT_ROWS_GONE, .moment = w ? w->moment : 0};

	(void)arg;
	if (p == &no_pod)
		return;
	/* If out of memory, the judge keeps a pod without rows. */
	if (!collect_rows_put(&w->queue, &e))
		relaxed_bump(w->lost_rows, 1);
	relaxed_bump(w->pods, -1);
	collect_features_free(&p->f);
	free(p);
	if (w->pods)
		return;
	w->moment = INT64_MAX; /* no later row will hand over the queue */
	give_rows(w, true);
}

/* ---- traces ---- */

bool collect_analysis_wants_trace(struct collect_analysis *a)
{
	const uint64_t last_ns = relaxed_load(a->trace_ns);

	/* The call graph changes slowly, and every trace costs time. */
	return base_now_ns() - last_ns >= TRACE_NS;
}

static struct act_call_end call_end(const struct collect_edges_span *s)
{
	return (struct act_call_end){.service = s->service, .owner = s->owner, .kernel = s->kernel};
}

/* Called with trace_lock held. Returns false if there is no room. */
static bool put_trace(struct collect_analysis *a, const struct collect_edges_span *span, uint32_t n)
{
	struct collect_rows_entry e = {.kind = COLLECT_ROWS_TRACE, .columns = n};
	uint8_t *at;

	for (uint32_t i = 0; i < n; i++)
		e.bytes += sizeof(uint32_t) + collect_judge_span(NULL, &span[i]);
	at = n ? collect_rows_put(&a->traces, &e) : NULL;
	for (uint32_t i = 0; at && i < n; i++) {
		if (span[i].parent < i) { /* false for ANALYSE_SPAN_ROOT, which exceeds any index */
			struct act_call_end caller = call_end(&span[span[i].parent]),
					    callee = call_end(&span[i]);

			act_incidents_call(a->o.incidents, &caller, &callee,
					   (int64_t)base_realtime_ns());
		}
		memcpy(at, &span[i].parent, sizeof(uint32_t));
		at += sizeof(uint32_t);
		at += collect_judge_span((char *)at, &span[i]);
	}
	return at;
}

void collect_analysis_trace(struct collect_analysis *a, const struct collect_edges_span *span,
			    uint32_t n)
{
	pthread_mutex_lock(&a->trace_lock);
	if (put_trace(a, span, n)) {
		relaxed_store(a->trace_ns, base_now_ns());
		collect_rows_give(&a->traces, 0, true);
	}
	pthread_mutex_unlock(&a->trace_lock);
}

int collect_analysis_accept(struct collect_analysis *a, uint64_t instance)
{
	const struct collect_rows_entry e = {.kind = COLLECT_ROWS_ACCEPT, .instance = instance};
	bool done;

	pthread_mutex_lock(&a->trace_lock);
	done = collect_rows_put(&a->traces, &e) && collect_rows_give(&a->traces, 0, true);
	pthread_mutex_unlock(&a->trace_lock);
	return done ? 0 : -ENOMEM;
}

static void add_flow(const struct collect_flow_view *v, void *arg)
{
	collect_edges_flow(arg, v, (int64_t)base_realtime_ns());
}

/* Called with trace_lock held. Returns false if no service calls another, or there is no room. */
static bool make_trace(struct collect_analysis *a)
{
	struct collect_edges_span span[COLLECT_EDGES_SPANS];

	return put_trace(a, span, collect_edges_trace(a->edges, span));
}

void collect_analysis_connections(struct collect_analysis *a, struct collect_collector *c)
{
	const uint64_t last_ns = relaxed_load(a->trace_ns);
	uint32_t made = 0;

	if (last_ns && base_now_ns() - last_ns <= SILENT_NS)
		return;
	collect_collector_flows(c, add_flow, a->edges);
	collect_edges_settle(a->edges);
	pthread_mutex_lock(&a->trace_lock);
	while (made < MADE && make_trace(a))
		made++;
	if (made)
		collect_rows_give(&a->traces, 0, true);
	pthread_mutex_unlock(&a->trace_lock);
}

/* ---- findings ---- */

static void take_finding(void *arg, const struct collect_judge_finding *is)
{
	struct collect_analysis *a = arg;
	struct collect_judged *p = is->own;

	if (a->record) {
		char line[COLLECT_JUDGE_LINE];

		collect_judge_line(line, sizeof(line), p->label, is, p->column);
		collect_record_entry(a->record,
				     &(struct collect_rows_entry){.kind = COLLECT_ROWS_VERDICT,
								  .bytes = strlen(line) + 1},
				     line);
	}
	collect_judged_show(p, is, a->o.shadow);
}

/* ---- the judge's thread ---- */

static void take_layout(struct collect_analysis *a, int64_t moment,
			const struct collect_rows_entry *e, const uint8_t *bytes)
{
	struct collect_judged *p = collect_judge_own(a->judge, e->instance), *made = NULL;
	struct collect_judge_pod is;

	if (e->again && p && p->columns) /* not refused any more */
		return;
	/* Without columns there is nothing to judge or to record. */
	if (!e->columns) {
		if (p)
			p->columns = 0;
		return;
	}
	if (!p)
		p = made = collect_judged_new(a->verdicts, e, bytes);
	if (!p || !collect_judged_columns(p, e, bytes))
		goto refused;
	is = (struct collect_judge_pod){.instance = e->instance,
					.ns = e->ns,
					.name = *p->name.pod ? p->name.pod : p->name.service,
					.service = p->name.service,
					.owner = p->name.owner,
					.label = p->label,
					.own = p};
	if (collect_judge_layout(a->judge, &is, p->column, p->columns))
		goto refused;
	p->recorded = a->record &&
		      collect_record_layout(a->record, moment, &is, p->column, p->columns);
	return;
refused:
	relaxed_bump(a->s.refused_pods, !e->again);
	if (p)
		p->columns = 0;
	if (!made)
		return;
	collect_judge_gone(a->judge, e->instance);
	collect_judged_free(made);
}

static void take_row(struct collect_analysis *a, struct analysis_worker *w,
		     const struct collect_rows_entry *e, const uint8_t *bytes)
{
	const struct collect_judged *p = collect_judge_own(a->judge, e->instance);

	if (!e->columns) /* nothing to judge */
		return;
	if (!p || p->columns != e->columns) { /* refused: there may be room at the next row */
		relaxed_bump(a->s.refused_rows, 1);
		relaxed_store(*ask_at(w, e->instance), e->instance);
		return;
	}
	if (e->moment <= a->moment ||
	    collect_judge_row(a->judge, e->instance, e->ns, (const double *)(const void *)bytes)) {
		relaxed_bump(a->s.late, 1);
		return;
	}
	if (p->recorded)
		collect_record_entry(a->record, e, bytes);
}

static void take_gone(struct collect_analysis *a, int64_t moment, struct collect_rows_entry *e)
{
	struct collect_judged *p = collect_judge_gone(a->judge, e->instance);

	e->moment = moment;
	if (p && p->recorded)
		collect_record_entry(a->record, e, NULL);
	if (p)
		collect_judged_free(p);
}

static void take_accept(struct collect_analysis *a, const struct collect_rows_entry *e)
{
	const struct collect_judged *p = collect_judge_own(a->judge, e->instance);

	if (collect_judge_accept(a->judge, e->instance))
		return;
	base_logf(BASE_INFO, "analysis", "behaviour accepted as normal pod=%s service=%s", p->label,
		  p->name.service);
	if (p->recorded)
		collect_record_entry(a->record, e, NULL);
}

static void take_trace(struct collect_analysis *a, struct collect_rows_entry *e,
		       const uint8_t *bytes)
{
	size_t n;
	uint8_t *spans = collect_judge_resolve(a->judge, bytes, e->columns, &n);

	/* If out of memory, skip this trace, as others will follow. */
	if (spans && !collect_judge_trace(a->judge, spans, e->columns) && a->record) {
		e->bytes = n;
		collect_record_entry(a->record, e, spans);
	}
	free(spans);
}

/* Handles traces and users' acceptances before the rows of the moment. */
static void take_requests(struct collect_analysis *a, int64_t moment)
{
	struct collect_rows_entry e;
	const uint8_t *bytes;

	collect_rows_take(&a->traces);
	for (; collect_rows_peek(&a->traces, &e, &bytes); collect_rows_next(&a->traces)) {
		e.moment = moment;
		if (e.kind == COLLECT_ROWS_ACCEPT)
			take_accept(a, &e);
		else
			take_trace(a, &e, bytes);
	}
}

/* Finds the earliest queued moment; returns false if there is none. */
static bool find_earliest(struct collect_analysis *a, int64_t *moment)
{
	struct collect_rows_entry e;
	const uint8_t *bytes;
	bool any = false;

	for (unsigned int i = 0; i < a->o.workers; i++)
		if (collect_rows_peek(&a->worker[i].queue, &e, &bytes)) {
			*moment = any ? BASE_MIN(*moment, e.moment) : e.moment;
			any = true;
		}
	return any;
}

/*
 * Returns true if no worker that reads pods can still add rows to the moment, or if the wait has
 * been too long.
 */
static bool is_complete(struct collect_analysis *a, int64_t moment)
{
	int64_t now = (int64_t)base_realtime_ns(), every = (int64_t)a->o.every_ns;

	/* A moment in the future is from before the clock was set back. */
	if (now - (moment + 1) * every > LATE_NS || moment * every - now > LATE_NS)
		return true;
	for (unsigned int i = 0; i < a->o.workers; i++)
		if (relaxed_load(a->worker[i].pods) && a->worker[i].queue.taken_passed <= moment)
			return false;
	return true;
}

static void judge_moment(struct collect_analysis *a, int64_t moment)
{
	struct collect_rows_entry e;
	const uint8_t *bytes;
	int64_t now;

	/* After the clock is set back, the same moments occur again. */
	if (a->moment - moment > BACK_NS / (int64_t)a->o.every_ns)
		a->moment = moment - 1;
	/* The moment of late rows has been judged already, so they form a new, later moment. */
	now = BASE_MAX(moment, a->moment + 1);
	take_requests(a, now);
	for (unsigned int i = 0; i < a->o.workers; i++) {
		struct collect_rows *q = &a->worker[i].queue;

		while (collect_rows_peek(q, &e, &bytes) && e.moment <= moment) {
			if (e.kind == COLLECT_ROWS_LAYOUT)
				take_layout(a, now, &e, bytes);
			else if (e.kind == COLLECT_ROWS_VALUES)
				take_row(a, &a->worker[i], &e, bytes);
			else
				take_gone(a, now, &e);
			collect_rows_next(q);
		}
	}
	collect_judge_moment(a->judge);
	a->moment = BASE_MAX(a->moment, moment);
	if (a->record)
		collect_record_hand_over(a->record);
}

static void show_stats(struct collect_analysis *a)
{
	const uint64_t *from = (const uint64_t *)collect_judge_stats(a->judge);

	for (size_t k = 0; k < sizeof(a->s.judge) / sizeof(uint64_t); k++)
		relaxed_store(((uint64_t *)&a->s.judge)[k], from[k]);
}

/* Judges all complete moments or, at the end, all moments. */
static void judge_rows(struct collect_analysis *a, bool all)
{
	uint64_t asked = collect_models_asked(a->models);
	int64_t moment = 0;

	for (unsigned int i = 0; i < a->o.workers; i++)
		collect_rows_take(&a->worker[i].queue);
	while (find_earliest(a, &moment) && (all || is_complete(a, moment)))
		judge_moment(a, moment);
	if (a->asked != asked) {
		collect_judge_keep(a->judge);
		if (a->record)
			collect_record_entry(a->record,
					     &(struct collect_rows_entry){.kind = COLLECT_ROWS_KEPT,
									  .moment = a->moment + 1},
					     NULL);
	}
	a->asked = asked;
	show_stats(a);
}

static void *judge_main(void *arg)
{
	struct collect_analysis *a = arg;
	eventfd_t woken;

	pthread_setname_np(pthread_self(), "judge");
	for (;;) {
		struct pollfd on[] = {{.fd = a->thread.stop, .events = POLLIN},
				      {.fd = a->wake, .events = POLLIN}};

		/* The timeout limits the wait for late workers. */
		if (poll(on, 2, (int)(LATE_NS / 1000000)) < 0 && errno != EINTR)
			break;
		if (on[0].revents)
			break;
		if (on[1].revents)
			eventfd_read(a->wake, &woken);
		judge_rows(a, false);
	}
	return NULL;
}

/* ---- start and end ---- */

/* Checks on startup that the model can be saved. */
static int look_at_folder(const char *path, char *error, size_t error_bytes)
{
	char *copy = strdup(path);
	int err = !copy ? ENOMEM : access(dirname(copy), W_OK | X_OK) ? errno : 0;

	if (err)
		snprintf(error, error_bytes, "%s: cannot write: %s", path, strerror(err));
	free(copy);
	return err ? -1 : 0;
}

/* Returns -1 with a one-line message in error. */
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

static void release_workers(struct collect_analysis *a)
{
	collect_judge_free(a->judge);
	for (unsigned int i = 0; a->worker && i < a->o.workers; i++)
		collect_rows_fini(&a->worker[i].queue);
	collect_rows_fini(&a->traces);
	collect_edges_free(a->edges);
	pthread_mutex_destroy(&a->trace_lock);
	collect_models_free(a->models);
	act_verdicts_free(a->verdicts);
	if (a->wake >= 0)
		close(a->wake);
	free(a->worker);
	free(a);
}

static int start_record(struct collect_analysis *a, char *error, size_t error_bytes)
{
	const struct collect_analysis_opts *o = &a->o;
	char options[256];

	if (!o->record)
		return 0;
	snprintf(options, sizeof(options),
		 "%s,%s,%.17g,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, o->detector,
		 o->shadow ?: "", o->false_alarms, o->warm_up_ns, o->every_ns, o->step_ns,
		 o->hold_ns);
	a->record = collect_record_new(o->record, options, a->models, error, error_bytes);
	return a->record ? 0 : -1;
}

/* Copies the options, fills in defaults, and looks up detectors by name. */
static int set_options(struct collect_analysis *a, const struct collect_analysis_opts *opts,
		       struct collect_judge_opts *j, char *error, size_t error_bytes)
{
	struct collect_analysis_opts *o = &a->o;

	a->o = *opts;
	o->warm_up_ns = o->warm_up_ns ? o->warm_up_ns : 60000000000u;
	o->detector = o->detector ? o->detector : "combined";
	*j = (struct collect_judge_opts){
		.detector = analyse_detector_named(o->detector, error, error_bytes),
		.false_alarms = o->false_alarms,
		.warm_up_ns = o->warm_up_ns,
		.step_ns = o->step_ns,
		.hold_ns = o->hold_ns,
		.found = take_finding,
		.arg = a,
	};
	if (!j->detector)
		return -1;
	if (o->shadow)
		j->shadow = analyse_detector_named(o->shadow, error, error_bytes);
	return o->shadow && !j->shadow ? -1 : 0;
}

struct collect_analysis *collect_analysis_new(const struct collect_analysis_opts *opts, char *error,
					      size_t error_bytes)
{
	struct collect_analysis *a = calloc(1, sizeof(*a));
	struct collect_judge_opts j;
	struct collect_analysis_opts *o;

	snprintf(error, error_bytes, "out of memory");
	if (!a)
		return NULL;
	o = &a->o;
	a->moment = INT64_MIN / 2;
	pthread_mutex_init(&a->trace_lock, NULL);
	collect_rows_init(&a->traces);
	a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->wake < 0) {
		snprintf(error, error_bytes, "%s", strerror(errno));
		goto fail;
	}
	if (set_options(a, opts, &j, error, error_bytes))
		goto fail;
	/*
	 * Short enough to notice the end of a fault soon, and long enough for three rows to confirm
	 * it.
	 */
	a->verdicts = act_verdicts_new(
		&(struct act_verdicts_opts){.hold_ns = BASE_MAX(HOLD_NS, HOLD_ROWS * o->every_ns)});
	a->worker = calloc(o->workers, sizeof(*a->worker));
	a->models = j.models = collect_models_new();
	a->judge = collect_judge_new(&j);
	a->edges = collect_edges_new();
	if (!a->edges || !a->verdicts || !a->worker || !a->models || !a->judge)
		goto fail;
	for (unsigned int i = 0; i < o->workers; i++) {
		a->worker[i].a = a;
		a->worker[i].given = INT64_MIN;
		collect_rows_init(&a->worker[i].queue);
	}
	if (o->model &&
	    (look_at_folder(o->model, error, error_bytes) || read_models(a, error, error_bytes)))
		goto fail;
	if (start_record(a, error, error_bytes))
		goto fail;
	if (o->model && o->model_every_ns &&
	    collect_models_start(a->models, a->o.model, o->model_every_ns)) {
		snprintf(error, error_bytes, "cannot start the thread for --model-every");
		goto fail;
	}
	return a;
fail:
	collect_record_free(a->record);
	release_workers(a);
	return NULL;
}

int collect_analysis_attach(struct collect_analysis *a, struct collect_collector *c)
{
	int err = collect_collector_tap(
		c, &(struct collect_tap){
			   .row = on_row, .wants = wants_row, .gone = on_gone, .arg = a});

	return err ?: base_thread_start(&a->thread, judge_main, a);
}

/*
 * Called after the workers have exited: judges the remaining rows, so that the models learn from
 * them.
 */
static void judge_rest(struct collect_analysis *a)
{
	base_thread_stop(&a->thread);
	judge_rows(a, true); /* first judge the rows already handed over */
	for (unsigned int i = 0; i < a->o.workers; i++)
		collect_rows_give(&a->worker[i].queue, INT64_MAX, true);
	judge_rows(a, true);
}

int collect_analysis_free(struct collect_analysis *a)
{
	int err = 0;

	if (!a)
		return 0;
	if (a->thread.running)
		judge_rest(a);
	collect_models_stop(a->models);
	if (a->o.model && (err = collect_models_write(a->models, a->o.model)))
		base_logf(BASE_ERROR, "analysis",
			  "cannot save the models, so they are lost "
			  "file=%s error=\"%s\"",
			  a->o.model, strerror(-err));
	if (a->record) {
		uint64_t lost = collect_record_lost(a->record);
		int bad = collect_record_free(a->record);

		if (bad)
			base_logf(BASE_ERROR, "analysis",
				  "some rows were not recorded folder=%s "
				  "count>=%llu",
				  a->o.record, (unsigned long long)lost);
		err = err ? err : bad;
	}
	release_workers(a);
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
	for (size_t k = 0; k < sizeof(*out) / sizeof(uint64_t); k++)
		((uint64_t *)out)[k] = relaxed_load(((const uint64_t *)&a->s)[k]);
	for (unsigned int i = 0; i < a->o.workers; i++) {
		out->busy_ns += relaxed_load(a->worker[i].busy_ns);
		out->queue_lost += relaxed_load(a->worker[i].lost_rows);
		out->refused_pods += relaxed_load(a->worker[i].refused_pods);
	}
	out->lost_rows = a->record ? collect_record_lost(a->record) : 0;
	collect_models_stats(a->models, &out->models);
}
