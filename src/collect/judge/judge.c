// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/judge.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "collect/judge/edges.h"
#include "collect/judge/measured.h"
#include "collect/judge/models.h"
#include "base/table.h"

#define HOUR_NS	     3600000000000.0
#define HOST	     "host"   /* service of host metrics */
#define KERNEL	     "(tcp) " /* precedes a service that the kernel names, see judge.h */
#define FEATURES_MIN 64u
#define FEATURES_MAX 512u /* limited because a detector's memory may grow quadratically */
#define MERGED_MAX   32u  /* maximum number of pods merged into their service's model */
#define WORKLOAD_MAX 64u  /* maximum number of workloads of one name that are paired with pods */
#define TCP_STEPS    3	  /* rows of connections are usable for this many steps */
/*
 * Anomalies within START_NS of a pod's start are attributed to the start, and so are later ones
 * until there is a pause of PAUSE_NS.
 */
#define START_NS 65000000000
#define PAUSE_NS 10000000000
/*
 * For NEW_NS, a new pod takes over load from the service's other pods, but leaves each of them at
 * least the fraction SHARED of an even share. Metrics whose share of the evidence is below
 * SHARE_LEAST do not matter.
 */
#define NEW_NS	    60000000000
#define SHARED	    0.5f
#define SHARE_LEAST 0.1f
/* a service's model younger than this is not saved again when a pod departs */
#define KEPT_NS 5000000000

/* A service of an owner. */
struct judge_service {
	struct base_node node; /* by `service` */
	uint32_t pods;
	size_t owner;	     /* length of the owner's name; 0 if there is none */
	const char *service; /* points into `owned` */
	char owned[];	     /* as judge_pod.owned_service */
};

struct judge_pod {
	struct base_node node;
	uint64_t instance;
	char *name, *service;
	char *owner;			  /* owner of the name and the service; "" if none */
	char *owned_name, *owned_service; /* preceded by the owner; "" if there is none */
	void *own;
	struct analyse_pipeline *pipeline;
	int64_t begin_ns;
	uint32_t columns, room;
	double *value;
	int64_t ns;
	bool has_row, has_value; /* has_value: value belongs to the current columns */
	bool warming, known;	 /* known: the pod has a threshold */
	bool heir;		 /* started with a model that other pods have learned */
	int64_t from_start_ns; /* time of the last finding of the anomaly that came with the pod */
	bool odd;	       /* differs from its siblings, so its model is not used for them */
	int64_t kept_ns;       /* when the model of its service was made */
	enum analyse_state state;
	double least;
	int64_t step;			  /* step for which state and least were computed */
	uint64_t late, missing;		  /* the pipeline's counters as last added to the totals */
	bool is_tcp;			  /* the pod stands for a workload's connections */
	struct collect_measured measured; /* request columns of the connections */
	struct judge_pod *tcp;		  /* connections of this pod; NULL if not known */
	struct judge_service *of;	  /* NULL for connections and for pods without a service */
};

struct collect_judge {
	struct collect_judge_opts o;
	struct analyse_fleet *fleet;
	struct base_table pods, services;
	/* Rows of the current moment. */
	struct judge_pod **row;
	struct analyse_pipeline **pipeline;
	struct analyse_verdict *verdict;
	uint32_t rows;
	size_t room;
	uint32_t tcp; /* number of pods that stand for connections */
	bool paired;  /* pods have been paired with their connections */
	struct collect_judge_stats s;
};

struct collect_judge *collect_judge_new(const struct collect_judge_opts *opts)
{
	struct collect_judge *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->o = *opts;
	j->fleet = analyse_fleet_create(
		fmin(opts->false_alarms * (double)opts->step_ns / HOUR_NS, 0.5), 1);
	if (j->fleet && base_table_init(&j->pods) && base_table_init(&j->services))
		return j;
	base_table_free(&j->pods);
	analyse_fleet_free(j->fleet);
	free(j);
	errno = ENOMEM;
	return NULL;
}

/* Returns false if out of memory. */
static bool join_service(struct collect_judge *j, struct judge_pod *p)
{
	const uint64_t hash = base_hash_text(0, p->service);
	struct judge_service *s = base_table_first(&j->services, hash);

	while (s && strcmp(s->owned, p->owned_service) != 0)
		s = base_table_next(s);
	if (!s) {
		s = calloc(1, sizeof(*s) + strlen(p->owned_service) + 1);
		if (!s)
			return false;
		strcpy(s->owned, p->owned_service);
		s->owner = strlen(p->owner);
		s->service = s->owned + strlen(s->owned) - strlen(p->service);
		base_table_add(&j->services, s, hash);
	}
	s->pods++;
	p->of = s;
	return true;
}

static void leave_service(struct collect_judge *j, struct judge_service *s)
{
	if (!s || --s->pods)
		return;
	base_table_remove(&j->services, s);
	free(s);
}

static void pod_free(struct collect_judge *j, struct judge_pod *p)
{
	leave_service(j, p->of);
	if (p->pipeline)
		analyse_fleet_leave(j->fleet, p->pipeline);
	analyse_pipeline_free(p->pipeline);
	free(p->value);
	free(p->name);
	free(p->service);
	free(p->owner);
	free(p->owned_name);
	free(p->owned_service);
	free(p);
}

void collect_judge_free(struct collect_judge *j)
{
	if (!j)
		return;
	BASE_TABLE_EACH(&j->pods, n)
		pod_free(j, (struct judge_pod *)n);
	base_table_free(&j->pods);
	base_table_free(&j->services);
	analyse_fleet_free(j->fleet);
	free(j->row);
	free(j->pipeline);
	free(j->verdict);
	free(j);
}

/* ---- pods ---- */

static struct judge_pod *find_pod(const struct collect_judge *j, uint64_t instance)
{
	return base_table_first(&j->pods, instance); /* the instance is the hash */
}

static bool room_for(struct collect_judge *j, size_t n)
{
	size_t rows = j->room, pipelines = j->room;

	return base_grow(&j->row, &rows, n, sizeof(*j->row)) &&
	       base_grow(&j->pipeline, &pipelines, n, sizeof(*j->pipeline)) &&
	       base_grow(&j->verdict, &j->room, n, sizeof(*j->verdict));
}

static int by_instance(const void *a, const void *b)
{
	const struct judge_pod *p = *(struct judge_pod *const *)a;
	const struct judge_pod *q = *(struct judge_pod *const *)b;

	return (p->instance > q->instance) - (p->instance < q->instance);
}

static const char *model_name(const struct judge_pod *p)
{
	return *p->service ? p->owned_service : p->owned_name;
}

/* True if the pod's model is good enough for its service. */
static bool is_model(const struct judge_pod *p)
{
	return !p->warming && !p->odd;
}

/* Lists the pods that have learned this model, by instance. Returns their number. */
static uint32_t list_siblings(const struct collect_judge *j, const char *model,
			      struct judge_pod **out, uint32_t most)
{
	uint32_t n = 0;

	BASE_TABLE_EACH(&j->pods, at) {
		struct judge_pod *p = (struct judge_pod *)at;

		if (!is_model(p) || strcmp(model_name(p), model))
			continue;
		if (n < most)
			out[n] = p;
		n++;
	}
	n = n < most ? n : most;
	if (n)
		qsort(out, n, sizeof(struct judge_pod *), by_instance);
	return n;
}

static int make_pipeline(struct collect_judge *j, struct judge_pod *p, uint32_t features)
{
	struct analyse_model_info info;
	struct judge_pod *sibling;
	struct analyse_pipeline_opts o = {
		.step_ns = j->o.step_ns,
		.rate_ns = j->o.step_ns,
		.hold_ns = j->o.hold_ns,
		.false_alarms = j->o.false_alarms,
		.seed = p->instance,
		.detector = j->o.detector,
		.shadow = j->o.shadow,
	};

	/* Leave room for metrics that appear later. */
	o.columns = BASE_MAX(features + features / 2, FEATURES_MIN);
	o.columns = BASE_MIN(o.columns, FEATURES_MAX);
	/* Use the width of the saved model if the features fit. */
	if ((!collect_models_info(j->o.models, p->owned_name, p->owned_service, &info) ||
	     !collect_models_info(j->o.models, "", p->service, &info)) &&
	    info.columns >= features && info.columns <= FEATURES_MAX)
		o.columns = info.columns;
	else if (list_siblings(j, model_name(p), &sibling, 1))
		o.columns = analyse_pipeline_width(sibling->pipeline);
	p->pipeline = analyse_pipeline_create(&o);
	return p->pipeline ? 0 : -errno;
}

static int save_all(struct judge_pod *const *pods, uint32_t n, void **bytes, int64_t *length)
{
	struct analyse_pipeline *p[MERGED_MAX];

	for (uint32_t i = 0; i < n; i++)
		p[i] = pods[i]->pipeline;
	*length = analyse_pipeline_save_all(p, n, bytes);
	return *length < 0 ? (int)*length : 0;
}

/* Loads the knowledge of the service's other pods. */
static int load_siblings(const struct collect_judge *j, struct judge_pod *p)
{
	struct judge_pod *all[MERGED_MAX];
	uint32_t n = list_siblings(j, model_name(p), all, MERGED_MAX);
	void *bytes = NULL;
	int64_t length;
	int err = n ? save_all(all, n, &bytes, &length) : -ENOENT;

	if (!err)
		err = analyse_pipeline_load(p->pipeline, bytes, (size_t)length);
	free(bytes);
	return err;
}

/*
 * Loads the saved model of the pod or of its service, so that the pod needs no warm-up. A model of
 * the service without an owner is from trusted pods, from a store, or from an earlier version.
 */
static int load_saved(const struct collect_judge *j, struct judge_pod *p)
{
	int err = collect_models_load(j->o.models, p->owned_name, p->owned_service, p->pipeline);

	return err == -ENOENT && *p->owner
		       ? collect_models_load(j->o.models, "", p->service, p->pipeline)
		       : err;
}

static bool load_model(struct collect_judge *j, struct judge_pod *p)
{
	bool first = !analyse_fleet_thresholds(j->fleet)->step.n;
	struct analyse_pipeline_stats s;
	const char *from = "file";
	int err;

	/* A fleet without a threshold adopts the model's. */
	if (first)
		analyse_fleet_join(j->fleet, p->pipeline, p->owned_service);
	err = load_siblings(j, p);
	if (!err)
		from = "siblings";
	else
		err = load_saved(j, p);
	if (!first)
		analyse_fleet_join(j->fleet, p->pipeline, p->owned_service);
	analyse_pipeline_stats(p->pipeline, &s);
	if (!err)
		base_log_each(BASE_INFO, "analysis", p->name,
			      "model loaded pod=%s service=%s from=%s steps=%" PRIu64, p->name,
			      p->service, from, s.learned);
	else if (err != -ENOENT)
		base_log_each(BASE_WARN, "analysis", p->name,
			      "cannot use the saved model, learning again pod=%s service=%s "
			      "error=\"%s\"",
			      p->name, p->service,
			      err == -EPROTONOSUPPORT
				      ? "the model has another version"
				      : "the model has another detector, step or set of metrics");
	return !err;
}

/* Returns NULL if out of memory. */
static char *add_owner(const char *owner, const char *name)
{
	char *text;

	return asprintf(&text, "%s%s%s", *name ? owner : "", *name && *owner ? "/" : "", name) < 0
		       ? NULL
		       : text;
}

static bool copy_names(struct judge_pod *p, const struct collect_judge_pod *pod)
{
	p->name = strdup(pod->name);
	p->service = strdup(pod->service);
	p->owner = strdup(pod->owner ?: "");
	p->is_tcp = act_service_length(pod->service) < strlen(pod->service);
	if (!p->name || !p->service || !p->owner)
		return false;
	p->owned_name = add_owner(p->owner, p->name);
	p->owned_service = add_owner(p->owner, p->service);
	return p->owned_name && p->owned_service;
}

static int make_pod(struct collect_judge *j, const struct collect_judge_pod *pod, uint32_t features,
		    struct judge_pod **out)
{
	struct judge_pod *p = calloc(1, sizeof(*p));
	int err = -ENOMEM;

	if (!p)
		return err;
	p->instance = pod->instance;
	p->own = pod->own;
	p->begin_ns = pod->ns;
	if (!copy_names(p, pod) || !room_for(j, j->pods.count + 1) ||
	    (!p->is_tcp && *p->service && !join_service(j, p)) ||
	    (err = make_pipeline(j, p, features))) {
		pod_free(j, p);
		return err;
	}
	p->heir = load_model(j, p);
	p->warming = !p->heir;
	/* The connections of hosts are not replicas: they do different work. */
	if (!p->is_tcp && *p->service)
		analyse_fleet_replica(j->fleet, p->pipeline, p->owned_service,
				      !strcmp(p->service, HOST));
	analyse_pipeline_learning(p->pipeline,
				  p->warming ? ANALYSE_LEARN_WARM : ANALYSE_LEARN_GATED);
	base_table_add(&j->pods, p, p->instance);
	j->tcp += p->is_tcp;
	j->paired = false;
	j->s.warming += p->warming;
	*out = p;
	return 0;
}

int collect_judge_layout(struct collect_judge *j, const struct collect_judge_pod *pod,
			 const struct analyse_column *columns, uint32_t n)
{
	struct judge_pod *p = find_pod(j, pod->instance);
	double *value;
	int err = p ? 0 : make_pod(j, pod, n, &p);

	if (err)
		return err;
	p->columns = p->measured.ports = 0;
	value = reallocarray(p->value, n + 1, sizeof(*value));
	if (!value) {
		/* The pod has no columns until the next layout. */
		analyse_pipeline_columns(p->pipeline, NULL, 0);
		return -ENOMEM;
	}
	p->value = value;
	p->columns = n;
	j->s.refused_features += analyse_pipeline_columns(p->pipeline, columns, n);
	if (p->is_tcp)
		collect_measured_find(&p->measured, columns, n);
	p->has_value = false;
	return 0;
}

static void drop_row(struct collect_judge *j, const struct judge_pod *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < j->rows; i++)
		if (j->row[i] != p)
			j->row[n++] = j->row[i];
	j->rows = n;
}

void *collect_judge_own(const struct collect_judge *j, uint64_t instance)
{
	const struct judge_pod *p = find_pod(j, instance);

	return p ? p->own : NULL;
}

/*
 * Keeps a model merged from these pods, which all belong to one service. Uses at most MERGED_MAX of
 * them, evenly chosen.
 */
static void keep_model(struct collect_judge *j, struct judge_pod *const *pods, uint32_t n)
{
	struct judge_pod *some[MERGED_MAX];
	uint32_t m = BASE_MIN(n, MERGED_MAX);
	void *bytes;
	int64_t length;

	for (uint32_t i = 0; i < m; i++)
		some[i] = pods[(uint64_t)i * n / m];
	if (save_all(some, m, &bytes, &length))
		return; /* try again next time */
	collect_models_make_room(j->o.models, model_name(pods[0]));
	collect_models_put(j->o.models, model_name(pods[0]), bytes, (size_t)length);
	free(bytes);
}

/*
 * Saves what a departing pod has learned, merged with its siblings' models. If several pods depart
 * together, this is done once.
 */
static void keep_last(struct collect_judge *j, const struct judge_pod *p)
{
	struct judge_pod *all[MERGED_MAX];
	uint32_t n;

	if (!is_model(p) || (p->kept_ns && llabs(p->ns - p->kept_ns) < KEPT_NS))
		return;
	n = list_siblings(j, model_name(p), all, MERGED_MAX);
	keep_model(j, all, n);
	BASE_TABLE_EACH(&j->pods, at) {
		struct judge_pod *q = (struct judge_pod *)at;

		if (!strcmp(model_name(q), model_name(p)))
			q->kept_ns = p->ns;
	}
}

void *collect_judge_gone(struct collect_judge *j, uint64_t instance)
{
	struct judge_pod *p = find_pod(j, instance);
	void *own;

	if (!p)
		return NULL;
	if (p->has_row)
		drop_row(j, p);
	keep_last(j, p);
	j->s.warming -= p->warming;
	j->tcp -= p->is_tcp;
	j->paired = false;
	base_table_remove(&j->pods, p);
	own = p->own;
	pod_free(j, p);
	return own;
}

int collect_judge_accept(struct collect_judge *j, uint64_t instance)
{
	struct judge_pod *p = find_pod(j, instance);

	if (!p)
		return -ENOENT;
	analyse_pipeline_accept(p->pipeline);
	return 0;
}

static int by_model(const void *a, const void *b)
{
	const struct judge_pod *p = *(struct judge_pod *const *)a;
	const struct judge_pod *q = *(struct judge_pod *const *)b;

	return strcmp(model_name(p), model_name(q))
		       ?: (p->instance > q->instance) - (p->instance < q->instance);
}

void collect_judge_keep(struct collect_judge *j)
{
	struct judge_pod **all = calloc(j->pods.count + 1, sizeof(struct judge_pod *));
	size_t n = 0;

	if (!all)
		return; /* try again next time */
	BASE_TABLE_EACH(&j->pods, at)
		if (is_model((struct judge_pod *)at))
			all[n++] = (struct judge_pod *)at;
	qsort(all, n, sizeof(*all), by_model);
	for (size_t i = 0, of; i < n; i += of) {
		for (of = 1; i + of < n && !strcmp(model_name(all[i + of]), model_name(all[i]));)
			of++;
		keep_model(j, all + i, (uint32_t)of);
	}
	free(all);
}

/* ---- pods and their connections ---- */

/* Sorts by pod and service. A pod on a bare host has no pod name, so its service's name is used. */
static int by_workload(const void *a, const void *b)
{
	const struct judge_pod *pod[2] = {*(struct judge_pod *const *)a,
					  *(struct judge_pod *const *)b};
	const char *name[2];
	int length[2], order;

	for (int i = 0; i < 2; i++) {
		bool bare = !strcmp(pod[i]->name, pod[i]->service);

		name[i] = bare ? "" : pod[i]->name;
		length[i] = (int)act_service_length(pod[i]->service);
	}
	order = strcmp(name[0], name[1]);
	order = order
			?: strncmp(pod[0]->service, pod[1]->service,
				   (size_t)BASE_MIN(length[0], length[1]));
	return order ?: length[0] - length[1];
}

/* known: both owners must be known to be the same. Otherwise, one of them may be unknown. */
static bool has_owner_of(const struct judge_pod *p, const struct judge_pod *q, bool known)
{
	return !strcmp(p->owner, q->owner) || (!known && (!*p->owner || !*q->owner));
}

/*
 * Returns the only pod of a workload whose connections p may stand for, or the only connections
 * that p may have. Returns NULL if there is none, or the match is ambiguous. A match of the same
 * owner is preferred, because another tenant may claim the name, and the owner of connections may
 * be unknown.
 */
static struct judge_pod *find_partner(struct judge_pod *const *of, size_t n,
				      const struct judge_pod *p, bool known)
{
	struct judge_pod *found = NULL;

	for (size_t i = 0; i < n; i++) {
		if (of[i]->is_tcp == p->is_tcp || !has_owner_of(of[i], p, known))
			continue;
		if (found)
			return NULL;
		found = of[i];
	}
	return found || !known ? found : find_partner(of, n, p, false);
}

/* Pairs the pods and the connections of one name and service. */
static void pair_workload(struct judge_pod *const *of, size_t n)
{
	uint32_t connections = 0;

	/* A tenant may claim any name, but only the kernel's host names workloads. */
	for (size_t i = 0; i < n; i++)
		connections += of[i]->is_tcp;
	for (size_t i = 0; i < n && connections <= WORKLOAD_MAX; i++) {
		struct judge_pod *p = of[i]->is_tcp ? find_partner(of, n, of[i], true) : NULL;

		if (p && find_partner(of, n, p, true) == of[i])
			p->tcp = of[i];
	}
}

/* Pairs each pod with its workload's connections. */
static void pair_pods(struct collect_judge *j)
{
	struct judge_pod **all = j->tcp ? calloc(j->pods.count + 1, sizeof(*all)) : NULL;
	size_t n = 0;

	BASE_TABLE_EACH(&j->pods, at) {
		((struct judge_pod *)at)->tcp = NULL;
		if (all)
			all[n++] = (struct judge_pod *)at;
	}
	/* If out of memory, try again. */
	j->paired = !j->tcp || all;
	if (n)
		qsort(all, n, sizeof(*all), by_workload);
	for (size_t i = 0, of; i < n; i += of) {
		for (of = 1; i + of < n && !by_workload(&all[i], &all[i + of]);)
			of++;
		pair_workload(all + i, of);
	}
	free(all);
}

/* Takes the latencies of requests to p that its kernel measured. */
static void take_measured(const struct collect_judge *j, const struct judge_pod *p)
{
	double seconds[ANALYSE_TAILS] = {(double)NAN, (double)NAN, (double)NAN};
	int64_t age;

	if (!p->tcp)
		return;
	age = p->ns - p->tcp->ns;
	/*
	 * The row may be older than this moment, because kernel tables are read at their own pace.
	 */
	if (p->tcp->has_value && llabs(age) <= TCP_STEPS * (int64_t)j->o.step_ns)
		collect_measured_take(&p->tcp->measured, p->tcp->value, seconds);
	analyse_pipeline_measured(p->pipeline, p->tcp->pipeline, seconds);
}

/* ---- a moment ---- */

int collect_judge_row(struct collect_judge *j, uint64_t instance, int64_t ns, const double *value)
{
	struct judge_pod *p = find_pod(j, instance);

	if (!p || p->has_row)
		return p ? -EALREADY : -ENOENT;
	if (p->columns)
		memcpy(p->value, value, p->columns * sizeof(*value));
	p->ns = ns;
	p->has_row = p->has_value = true;
	j->row[j->rows++] = p;
	return 0;
}

/* Returns false if the row is not later than the previous one, and was refused. */
static bool score_row(struct collect_judge *j, struct judge_pod *p, struct analyse_verdict *v)
{
	struct analyse_pipeline_stats s;
	bool good;

	if (p->ns < p->begin_ns)
		p->begin_ns = p->ns; /* the clock was set back */
	/*
	 * The warm-up continues without a threshold, and while the last step is anomalous, because
	 * such steps may turn out to be usual.
	 */
	if (p->warming && p->known && (uint64_t)(p->ns - p->begin_ns) > j->o.warm_up_ns &&
	    !analyse_pipeline_disturbed(p->pipeline)) {
		p->warming = false;
		analyse_pipeline_learning(p->pipeline, ANALYSE_LEARN_GATED);
		j->s.warming--;
	}
	good = !analyse_pipeline_score(p->pipeline, (uint64_t)p->ns, p->value, v);
	j->s.rows += good;
	analyse_pipeline_stats(p->pipeline, &s);
	j->s.late += s.backwards - p->late;
	j->s.missing += s.missing - p->missing;
	p->late = s.backwards;
	p->missing = s.missing;
	return good;
}

/*
 * True if the pod is unusual only because it has less load, and the service's new pods explain the
 * decrease.
 */
static bool is_shared_load(const struct collect_judge *j, const struct judge_pod *p,
			   const struct analyse_verdict *v)
{
	uint32_t pods = 0, old = 0;

	if (!v->anomalous || v->delay > 0)
		return false;
	for (uint32_t i = 0; i < v->blamed; i++)
		if (v->blame[i].share >= SHARE_LEAST &&
		    !(v->blame[i].load && v->blame[i].now < v->blame[i].before))
			return false;
	BASE_TABLE_EACH(&j->pods, at) {
		const struct judge_pod *q = (struct judge_pod *)at;

		if (strcmp(model_name(q), model_name(p)) != 0)
			continue;
		pods++;
		old += p->ns - q->begin_ns > NEW_NS;
	}
	for (uint32_t i = 0; i < v->blamed; i++)
		if (v->blame[i].now * (float)pods < SHARED * v->blame[i].before * (float)old)
			return false;
	return old < pods && v->blamed;
}

/* Returns the names of the callers, such as "front, cart", or NULL. */
static const char *callers_of(const struct collect_judge *j, const struct judge_pod *p, char *text,
			      size_t room)
{
	const char *name[ANALYSE_CALLERS];
	int n = analyse_fleet_callers(j->fleet, p->pipeline, name);
	struct act_text t = {text, room};
	const size_t owner = strlen(p->owner);

	*text = '\0';
	for (int i = 0; i < n; i++) {
		/* The pod's own owner goes without saying. */
		bool own = owner && !strncmp(name[i], p->owner, owner) && name[i][owner] == '/';

		act_append(&t, "%s%s", i ? ", " : "", name[i] + (own ? owner + 1 : 0));
	}
	return n < 0 ? NULL : text;
}

/* True if the pod's anomaly is attributed to its start. */
static bool is_from_start(struct judge_pod *p)
{
	bool lasts = p->from_start_ns && p->ns - p->from_start_ns < PAUSE_NS;

	if (!p->heir || (p->ns - p->begin_ns >= START_NS && !lasts))
		return false;
	p->from_start_ns = p->ns;
	return true;
}

/* Called once per step. Returns true if the state changed. */
static bool find_state(const struct collect_judge *j, struct judge_pod *p)
{
	int64_t step = p->ns / (int64_t)j->o.step_ns;
	enum analyse_state before = p->state;

	if (step == p->step)
		return false;
	p->step = step;
	p->state = analyse_pipeline_state(p->pipeline, &p->least);
	if (p->warming)
		p->state = ANALYSE_LEARNING;
	return p->state != before;
}

void collect_judge_moment(struct collect_judge *j)
{
	uint32_t n = 0;

	if (!j->paired)
		pair_pods(j);
	if (j->rows)
		qsort(j->row, j->rows, sizeof(*j->row), by_instance);
	for (uint32_t i = 0; i < j->rows; i++) {
		struct judge_pod *p = j->row[i];

		p->has_row = false;
		if (!score_row(j, p, &j->verdict[n]))
			continue;
		j->row[n] = p;
		j->pipeline[n++] = p->pipeline;
	}
	j->rows = 0;
	for (uint32_t i = 0; i < n; i++)
		take_measured(j, j->row[i]);
	if (n)
		analyse_fleet_judge(j->fleet, j->pipeline, j->verdict, n);
	for (uint32_t i = 0; i < n; i++) {
		struct judge_pod *p = j->row[i];
		struct analyse_verdict *v = &j->verdict[i];
		bool changed = find_state(j, p);
		bool shared = is_shared_load(j, p, v);
		struct collect_judge_finding f = {
			.own = p->own,
			.ns = p->ns,
			.value = p->value,
			.verdict = v,
			.warming = p->warming,
			/* During the warm-up, only errors and siblings count as evidence. */
			.anomalous = p->warming ? v->errors > 1 || v->odd.score > 1
						: v->anomalous && !shared,
			.changed = changed,
			.state = p->state,
			.least = p->least,
			.slowdown = analyse_pipeline_slowdown(p->pipeline),
		};
		char callers[256];

		if (shared)
			analyse_pipeline_accept(p->pipeline);
		p->known = v->known;
		p->odd = v->odd.score > 1;
		f.born_ns = f.anomalous && is_from_start(p) ? p->begin_ns : 0;
		if (v->anomalous)
			f.callers = callers_of(j, p, callers, sizeof(callers));
		j->o.found(j->o.arg, &f);
	}
}

void collect_judge_line(char *out, size_t bytes, const char *pod,
			const struct collect_judge_finding *f, const struct analyse_column *columns)
{
	const struct analyse_verdict *v = f->verdict;
	struct act_text t = {out, bytes - 1}; /* leaves room for the newline */

	act_append(&t, "%" PRId64 ".%09" PRId64 ",", f->ns / 1000000000, f->ns % 1000000000);
	for (; *pod; pod++)
		act_append(&t, "%c", *pod == ',' ? ';' : (unsigned char)*pod < 32 ? '_' : *pod);
	act_append(&t, ",%.6g,%d", (double)v->score, f->anomalous);
	for (uint32_t i = 0; i < 3; i++)
		act_append(&t, ",%s", i < v->blamed ? columns[v->blame[i].column].name : "");
	act_append(&t, ",");
	for (uint32_t i = 0; i < v->blamed; i++)
		act_append(&t, "%s%.3g %s", i ? "|" : "", (double)v->blame[i].share,
			   columns[v->blame[i].column].name);
	strcpy(t.at, "\n");
}

size_t collect_judge_span(char *to, const struct collect_edges_span *span)
{
	const char *part[] = {span->kernel ? KERNEL : "", span->owner,
			      span->kernel || *span->owner ? "/" : "", span->service};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++) {
		if (to)
			strcpy(to + n, part[i]);
		n += strlen(part[i]);
	}
	return n + 1;
}

/* Returns the name in the call graph of a span's service. */
static const char *name_in_graph(const struct collect_judge *j, const char *span)
{
	const char *space = span + strlen(KERNEL), *service;
	const struct judge_service *only = NULL;
	uint32_t owners = 0;
	size_t n;

	if (strncmp(span, KERNEL, strlen(KERNEL)) != 0 || !(service = strchr(space, '/')))
		return span;
	n = (size_t)(service++ - space);
	for (const struct judge_service *s =
		     base_table_first(&j->services, base_hash_text(0, service));
	     s; s = base_table_next(s)) {
		if (strcmp(s->service, service) != 0)
			continue;
		if (s->owner && s->owner == n && !strncmp(s->owned, space, n))
			return s->owned;
		owners++;
		only = s;
	}
	return n || owners != 1 ? service : only->owned;
}

uint8_t *collect_judge_resolve(const struct collect_judge *j, const uint8_t *spans, uint32_t n,
			       size_t *bytes)
{
	const uint8_t *from = spans;
	uint8_t *to, *at;

	*bytes = 0;
	for (uint32_t i = 0; i < n; i++) {
		from += sizeof(uint32_t);
		*bytes += sizeof(uint32_t) + strlen(name_in_graph(j, (const char *)from)) + 1;
		from += strlen((const char *)from) + 1;
	}
	to = at = malloc(*bytes + 1);
	for (uint32_t i = 0; to && i < n; i++) {
		memcpy(at, spans, sizeof(uint32_t));
		at += sizeof(uint32_t);
		spans += sizeof(uint32_t);
		at = (uint8_t *)stpcpy((char *)at, name_in_graph(j, (const char *)spans)) + 1;
		spans += strlen((const char *)spans) + 1;
	}
	return to;
}

int collect_judge_trace(struct collect_judge *j, const uint8_t *spans, uint32_t n)
{
	struct analyse_graph *g = analyse_fleet_graph(j->fleet);
	struct analyse_span *s = calloc(n, sizeof(*s));
	int64_t number = 0;
	int err = -ENOMEM;

	for (uint32_t i = 0; s && i < n && number >= 0; i++) {
		memcpy(&s[i].parent, spans, sizeof(s[i].parent));
		spans += sizeof(s[i].parent);
		number = analyse_graph_service(g, (const char *)spans);
		s[i].service = (uint32_t)number;
		spans += strlen((const char *)spans) + 1;
	}
	if (s)
		err = number < 0 ? (int)number : analyse_graph_add(g, s, n);
	free(s);
	return err;
}

const struct collect_judge_stats *collect_judge_stats(const struct collect_judge *j)
{
	return &j->s;
}
