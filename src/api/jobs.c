// SPDX-License-Identifier: Apache-2.0
/*
 * jobs.c - jobs of a cluster, with their nodes and ranks. A job is known by the label "job" of its
 * ranks (bindings/mpi), or by the label "user" of Slurm's cgroups (source/host). Both are found by
 * a walk over the series, which includes ranks that ended, as long as the history holds them.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "api/selected.h"
#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"

#define JOBS_MAX   1000u
#define TEXT_BYTES 128u /* longer labels are truncated */
#define NODES_SAID 16u	/* number of nodes by name in a list of jobs */
#define RECENT_NS  10000000000ll

/* Values of a rank, or of a job on a node; NaN if unknown. */
struct jobs_values {
	double steps, waiting, in_mpi, cpu, peak, sent, received; /* of a node only cpu and peak */
	/* number and sum of steps at one time, and RECENT_NS before it */
	double counted, counted_before, sum, sum_before;
	/* of a node only: its cgroup and connections */
	double cgroup_cpu, cgroup_memory, cgroup_start, tcp_sent, tcp_received, retransmits;
};

enum jobs_source { JOBS_RANK, JOBS_CGROUP, JOBS_TCP };

#define AT(member) offsetof(struct jobs_values, member)

static const struct jobs_metric {
	const char *name;
	enum jobs_source source;
	size_t to, before;     /* offsets of values; before may be 0, which means none */
	bool listed;	       /* also needed in a list of jobs */
	const char *direction; /* required value of this label, or NULL */
} metrics[] = {
	{"mpi_step_seconds_count", JOBS_RANK, .to = AT(steps), .listed = true},
	{"mpi_step_seconds_bucket", JOBS_RANK, .to = AT(counted), .before = AT(counted_before)},
	{"mpi_step_seconds_sum", JOBS_RANK, .to = AT(sum), .before = AT(sum_before)},
	{"mpi_collective_seconds_sum", JOBS_RANK, .to = AT(waiting)},
	{"mpi_seconds_total", JOBS_RANK, .to = AT(in_mpi)},
	{"mpi_cpu_seconds_total", JOBS_RANK, .to = AT(cpu)},
	{"mpi_memory_peak_bytes", JOBS_RANK, .to = AT(peak)},
	{"mpi_bytes_total", JOBS_RANK, .to = AT(sent), .direction = "sent"},
	{"mpi_bytes_total", JOBS_RANK, .to = AT(received), .direction = "received"},
	{"container_cpu_usage_seconds_total", JOBS_CGROUP, .to = AT(cgroup_cpu), .listed = true},
	{"container_memory_usage_bytes", JOBS_CGROUP, .to = AT(cgroup_memory)},
	{"container_start_time_seconds", JOBS_CGROUP, .to = AT(cgroup_start), .listed = true},
	{"sidelight_tcp_sent_bytes_total", JOBS_TCP, .to = AT(tcp_sent)},
	{"sidelight_tcp_received_bytes_total", JOBS_TCP, .to = AT(tcp_received)},
	{"sidelight_tcp_retransmits_total", JOBS_TCP, .to = AT(retransmits)},
};

struct jobs_job {
	struct base_node node; /* in the table by name */
	char id[TEXT_BYTES], name[TEXT_BYTES], user[TEXT_BYTES];
	bool known;
	int64_t begin_ns, end_ns;
	uint32_t ranks, running, cgroups, nodes;
	struct jobs_node *first, **end; /* its nodes */
	/* the newest incident whose cause is a rank, preferably an open one; or NULL */
	struct jobs_slow *slow;
};

/* An incident whose cause is a rank of a job. */
struct jobs_slow {
	const struct jobs_rank *rank;
	char id[ACT_EVENT_ID_BYTES], sentence[ACT_SENTENCE_BYTES];
	int64_t begin_ns, end_ns;
};

struct jobs_node {
	struct base_node node; /* in the table by job and host */
	struct jobs_job *job;
	struct jobs_node *next; /* of the job */
	char name[TEXT_BYTES], host[TEXT_BYTES];
	uint32_t ranks;
	struct jobs_values v; /* cpu, peak: sums over its ranks */
};

struct jobs_rank {
	struct base_node node; /* in the table by instance */
	uint64_t instance;
	struct jobs_job *job;
	struct jobs_node *on;
	char rank[16], step[32], pod[TEXT_BYTES], name[TEXT_BYTES]; /* name: of its node */
	uint32_t pid;
	const char *state;
	bool live;
	int64_t begin_ns, end_ns;
	char incident[ACT_EVENT_ID_BYTES];
	struct jobs_values v;
};

struct jobs {
	struct collect_collector *c;
	struct base_budget *budget;
	const char *only; /* the job that is asked for, with all values; NULL means all jobs */
	int64_t known_ns;
	struct base_table jobs, nodes, ranks;
	struct jobs_read { /* a value to be read after the walk, because the walk must be short */
		struct collect_series_ref of;
		double *to, *before; /* before: may be NULL */
	} * read;
	size_t reads, read_room;
	int err;
};

/* ---- tables ---- */

static void copy_text(char *to, size_t bytes, const char *from)
{
	snprintf(to, bytes, "%s", from);
}

static void forget_values(struct jobs_values *v)
{
	for (size_t i = 0; i < sizeof(*v) / sizeof(double); i++)
		((double *)v)[i] = NAN;
}

/* Returns NULL if out of memory, with s->err set. */
static struct jobs_job *get_job(struct jobs *s, const char *id)
{
	char name[TEXT_BYTES];
	struct jobs_job *job;
	uint64_t hash;

	copy_text(name, sizeof(name), id);
	hash = base_hash_text(0, name);
	job = base_table_first(&s->jobs, hash);
	while (job && strcmp(job->id, name) != 0)
		job = base_table_next(job);
	if (job)
		return job;
	job = calloc(1, sizeof(*job));
	if (!job) {
		s->err = -ENOMEM;
		return NULL;
	}
	copy_text(job->id, sizeof(job->id), name);
	job->end = &job->first;
	base_table_add(&s->jobs, job, hash);
	return job;
}

static struct jobs_node *get_node(struct jobs *s, struct jobs_job *job, const char *host)
{
	char name[TEXT_BYTES];
	struct jobs_node *node;
	uint64_t hash;

	copy_text(name, sizeof(name), host);
	hash = base_hash_text(job->node.hash, name);
	node = base_table_first(&s->nodes, hash);
	while (node && (node->job != job || strcmp(node->host, name) != 0))
		node = base_table_next(node);
	if (node)
		return node;
	node = calloc(1, sizeof(*node));
	if (!node) {
		s->err = -ENOMEM;
		return NULL;
	}
	node->job = job;
	copy_text(node->host, sizeof(node->host), name);
	copy_text(node->name, sizeof(node->name), name);
	forget_values(&node->v);
	base_table_add(&s->nodes, node, hash);
	*job->end = node;
	job->end = &node->next;
	job->nodes++;
	return node;
}

static struct jobs_rank *find_rank(const struct jobs *s, uint64_t instance)
{
	struct jobs_rank *r = base_table_first(&s->ranks, base_hash_u64(instance));

	while (r && r->instance != instance)
		r = base_table_next(r);
	return r;
}

static struct jobs_rank *get_rank(struct jobs *s, const struct collect_series_view *v)
{
	struct jobs_rank *r = find_rank(s, v->of.instance);
	const char *user = api_label_of(v, "user"), *node = api_label_of(v, "node");
	struct jobs_job *job = r ? r->job : get_job(s, api_label_of(v, "job"));
	struct jobs_node *on = r || !job ? NULL : get_node(s, job, api_label_of(v, "host"));

	if (r || !on)
		return r;
	r = calloc(1, sizeof(*r));
	if (!r) {
		s->err = -ENOMEM;
		return NULL;
	}
	*r = (struct jobs_rank){.instance = v->of.instance, .job = job, .on = on};
	copy_text(r->rank, sizeof(r->rank), api_label_of(v, "rank"));
	copy_text(r->step, sizeof(r->step), api_label_of(v, "step"));
	copy_text(r->pod, sizeof(r->pod), api_label_of(v, "pod"));
	copy_text(r->name, sizeof(r->name), *node ? node : on->host);
	copy_text(on->name, sizeof(on->name), r->name);
	forget_values(&r->v);
	/* If the rank is still listed, jobs_region() replaces this. */
	r->state = "ended";
	r->begin_ns = v->found_ns;
	r->end_ns = v->read_ns;
	base_table_add(&s->ranks, r, base_hash_u64(r->instance));
	on->ranks++;
	job->known = true;
	copy_text(job->name, sizeof(job->name), api_label_of(v, "service"));
	if (!*job->user)
		copy_text(job->user, sizeof(job->user), *user ? user : api_label_of(v, "uid"));
	return r;
}

/* ---- the walk over the series ---- */

static const struct jobs_metric *find_metric(const struct jobs *s, const char *name,
					     const struct collect_series_view *v)
{
	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		const struct jobs_metric *m = &metrics[i];

		if ((s->only || m->listed) && !strcmp(m->name, name) &&
		    (!v || !m->direction || !strcmp(api_label_of(v, "direction"), m->direction)))
			return m;
	}
	return NULL;
}

static bool wants_family(void *arg, const char *name, const struct region_metric *m)
{
	(void)m;
	return find_metric(arg, name, NULL);
}

static bool read_later(struct jobs *s, const struct collect_series_view *v,
		       const struct jobs_metric *m, struct jobs_values *to)
{
	char *at = (char *)to;

	if (!BASE_GROW(s->read, s->reads, s->read_room)) {
		s->err = -ENOMEM;
		return false;
	}
	s->read[s->reads++] = (struct jobs_read){v->of, (double *)(at + m->to),
						 m->before ? (double *)(at + m->before) : NULL};
	return true;
}

static bool add_to_rank(struct jobs *s, const struct collect_series_view *v,
			const struct jobs_metric *m)
{
	const char *job = api_label_of(v, "job");
	struct jobs_rank *r;

	if (!*job || (s->only && strcmp(job, s->only) != 0))
		return true;
	r = get_rank(s, v);
	return r && (!s->only || read_later(s, v, m, &r->v));
}

static bool add_to_node(struct jobs *s, const struct collect_series_view *v,
			const struct jobs_metric *m)
{
	const bool tcp = m->source == JOBS_TCP;
	const char *name = api_label_of(v, tcp ? "container" : "name"),
		   *user = api_label_of(v, "user");
	const size_t n = strcspn(name, "."); /* the name is JOB, JOB.STEP or JOB.STEP.TASK */
	struct jobs_job *job;
	struct jobs_node *node;
	char id[TEXT_BYTES];

	if (!n || n >= sizeof(id) || (!tcp && !strstr(api_label_of(v, "id"), "/job_")))
		return true;
	snprintf(id, sizeof(id), "%.*s", (int)n, name);
	if (s->only && strcmp(id, s->only) != 0)
		return true;
	job = get_job(s, id);
	node = job ? get_node(s, job, api_label_of(v, "host")) : NULL;
	if (!node)
		return false;
	if (!*job->user)
		copy_text(job->user, sizeof(job->user), user);
	job->known |= !tcp;
	job->cgroups += !tcp && !v->of.ended_ns;
	/* The cgroup of a job counts its steps and tasks, too. */
	return (!tcp && name[n]) || read_later(s, v, m, &node->v);
}

static bool add_series(void *arg, const struct collect_series_view *v)
{
	struct jobs *s = arg;
	const struct jobs_metric *m = find_metric(s, v->name, v);

	if (!base_budget_spend(s->budget, 0))
		return false;
	return !m || (m->source == JOBS_RANK ? add_to_rank : add_to_node)(s, v, m);
}

/* Adds what is only known of ranks that are still listed. */
static void jobs_region(const struct collect_region_view *v, void *arg)
{
	struct jobs_rank *r = find_rank(arg, v->info->instance);

	if (!r)
		return;
	r->pid = v->info->pid;
	r->state = api_state_name(v);
	r->live = v->state == SL_STATE_LIVE;
	r->begin_ns = v->info->start_ns ? (int64_t)v->info->start_ns : r->begin_ns;
	r->end_ns = r->live ? 0 : (int64_t)v->changed_ns;
}

static bool add_incident(const struct act_incident *i, void *arg)
{
	struct jobs_rank *r = find_rank(arg, i->cause.instance);
	struct jobs_job *job = r ? r->job : NULL;

	if (!job || i->joined || i->kind != ACT_INCIDENT_FAULT)
		return true;
	if (!*r->incident)
		copy_text(r->incident, sizeof(r->incident), i->id);
	if (job->slow && (!job->slow->end_ns || i->end_ns))
		return true;
	if (!job->slow)
		job->slow = malloc(sizeof(*job->slow));
	if (!job->slow) {
		((struct jobs *)arg)->err = -ENOMEM;
		return false;
	}
	job->slow->rank = r;
	job->slow->begin_ns = i->begin_ns;
	job->slow->end_ns = i->end_ns;
	copy_text(job->slow->id, sizeof(job->slow->id), i->id);
	copy_text(job->slow->sentence, sizeof(job->slow->sentence), i->sentence);
	return true;
}

/* ---- values ---- */

static bool read_point(const struct jobs *s, const struct collect_series_ref *of, int64_t to_ns,
		       struct collect_point *out)
{
	return collect_collector_points(s->c, of, s->known_ns, 0, to_ns, out, 1, s->budget) > 0;
}

static void add_value(double *to, double v)
{
	if (!isnan(v))
		*to = isnan(*to) ? v : *to + v;
}

static void read_values(struct jobs *s)
{
	for (size_t i = 0; i < s->reads; i++) {
		const struct jobs_read *r = &s->read[i];
		struct collect_point p;

		if (!read_point(s, &r->of, INT64_MAX, &p))
			continue;
		add_value(r->to, p.value);
		if (r->before && read_point(s, &r->of, p.ns - RECENT_NS, &p))
			add_value(r->before, p.value);
	}
}

/* Returns the mean of the last steps, or of all if the rank is younger. */
static double recent_step(const struct jobs_values *v)
{
	const bool young = isnan(v->counted_before) || isnan(v->sum_before);
	const double n = v->counted - (young ? 0 : v->counted_before);

	return n > 0 ? (v->sum - (young ? 0 : v->sum_before)) / n : NAN;
}

/* Adds a time that may be unknown (0). */
static void take_time(int64_t *to, int64_t ns, bool last)
{
	if (ns && (!*to || (last ? ns > *to : ns < *to)))
		*to = ns;
}

static void sum_up(struct jobs *s)
{
	BASE_TABLE_EACH(&s->ranks, at) {
		struct jobs_rank *r = (struct jobs_rank *)at;

		if (!r->live && !r->end_ns) /* it ended during the walk */
			r->end_ns = s->known_ns;
		r->job->ranks++;
		r->job->running += r->live;
		add_value(&r->on->v.cpu, r->v.cpu);
		add_value(&r->on->v.peak, r->v.peak);
		take_time(&r->job->begin_ns, r->begin_ns, false);
		take_time(&r->job->end_ns, r->end_ns, true);
	}
	BASE_TABLE_EACH(&s->nodes, at) {
		struct jobs_node *n = (struct jobs_node *)at;
		const double start = n->v.cgroup_start;

		/* Any publisher may have chosen this number. */
		if (start > 0 && start < API_SECONDS_MAX)
			take_time(&n->job->begin_ns, (int64_t)(start * 1e9), false);
	}
}

static bool is_running(const struct jobs_job *job)
{
	return job->running || job->cgroups;
}

/* Finds the jobs. Returns 0 or a negative errno; call free_jobs() in any case. */
static int find_jobs(struct jobs *s)
{
	const struct collect_series_walk walk = {
		.family = wants_family,
		.series = add_series,
		.arg = s,
		.since_ns = 1,
		.parts = s->only ? COLLECT_PARTS_FEW : COLLECT_PARTS_NONE,
	};
	int err;

	s->known_ns = (int64_t)base_realtime_ns();
	if (!base_table_init(&s->jobs) || !base_table_init(&s->nodes) ||
	    !base_table_init(&s->ranks))
		return -ENOMEM;
	err = collect_collector_series(s->c, &walk);
	if (err || s->err)
		return err ? err : s->err;
	collect_collector_regions(s->c, jobs_region, s);
	api_incidents(s->c, add_incident, s);
	read_values(s);
	sum_up(s);
	return s->err ?: s->budget ? s->budget->err : 0;
}

static void free_all(struct base_table *t)
{
	BASE_TABLE_EACH(t, at)
		free(at);
	base_table_free(t);
}

static void free_jobs(struct jobs *s)
{
	BASE_TABLE_EACH(&s->jobs, job)
		free(((struct jobs_job *)job)->slow);
	free_all(&s->jobs);
	free_all(&s->nodes);
	free_all(&s->ranks);
	free(s->read);
}

/* Returns the nodes of a table in an array that the caller frees, or NULL if out of memory. */
static struct base_node **sorted(const struct base_table *t,
				 int (*order)(const void *, const void *))
{
	struct base_node **v = calloc(t->count + 1, sizeof(struct base_node *));
	size_t n = 0;

	if (!v)
		return NULL;
	BASE_TABLE_EACH(t, at)
		v[n++] = at;
	qsort(v, n, sizeof(struct base_node *), order);
	return v;
}

static int by_begin(const void *a, const void *b)
{
	const struct jobs_job *x = *(struct jobs_job *const *)a, *y = *(struct jobs_job *const *)b;

	return (x->begin_ns < y->begin_ns) - (x->begin_ns > y->begin_ns) ?: strcmp(x->id, y->id);
}

static int by_rank(const void *a, const void *b)
{
	const struct jobs_rank *x = *(struct jobs_rank *const *)a;
	const struct jobs_rank *y = *(struct jobs_rank *const *)b;
	const long a_rank = atol(x->rank), b_rank = atol(y->rank);

	return strcmp(x->step, y->step) ?: (a_rank > b_rank) - (a_rank < b_rank);
}

/* ---- JSON ---- */

static void put_job(struct base_json *j, const struct jobs_job *job)
{
	const struct jobs_slow *slow = job->slow;
	uint32_t said = 0;

	base_put(j, KV("job", job->id), KV("name", job->name), KV("user", job->user),
		 KV("state", is_running(job) ? "running" : "ended"),
		 KV_TIME("begin", job->begin_ns),
		 KV_TIME("end", is_running(job) ? 0 : job->end_ns));
	base_json_kbegin(j, "nodes", '[');
	for (const struct jobs_node *n = job->first; n && said < NODES_SAID; n = n->next, said++)
		base_json_string(j, n->name);
	base_json_end(j, ']');
	base_put(j, KV("node_count", job->nodes), KV("ranks", job->ranks),
		 KV("ranks_running", job->running));
	if (!slow) {
		base_json_knull(j, "slow");
		return;
	}
	base_put_object(j, "slow", KV("rank", slow->rank->rank), KV("step", slow->rank->step),
			KV("node", slow->rank->name), KV_ID("instance", slow->rank->instance),
			KV("incident", slow->id), KV_TIME("begin", slow->begin_ns),
			KV_TIME("end", slow->end_ns), KV("sentence", slow->sentence));
}

static void put_node(struct api_list *l, const struct jobs_node *n)
{
	const struct jobs_values *v = &n->v;
	const double cpu = isnan(v->cgroup_cpu) ? v->cpu : v->cgroup_cpu;
	const double memory = isnan(v->cgroup_memory) ? v->peak : v->cgroup_memory;

	if (!api_item(l))
		return;
	base_put(l->j, KV("node", n->name), KV("host", n->host), KV("ranks", n->ranks),
		 KV_QUANTILE("cpu_seconds", cpu), KV_QUANTILE("memory_bytes", memory));
	if (isnan(v->tcp_sent))
		base_json_knull(l->j, "network");
	else
		base_put_object(l->j, "network", KV_QUANTILE("sent_bytes", v->tcp_sent),
				KV_QUANTILE("received_bytes", v->tcp_received),
				KV_QUANTILE("retransmits", v->retransmits));
	api_item_end(l);
}

static void put_rank(struct api_list *l, const struct jobs_rank *r)
{
	const struct jobs_values *v = &r->v;

	if (!api_item(l))
		return;
	base_put(l->j, KV("rank", r->rank), KV("step", r->step), KV("node", r->name),
		 KV_ID("instance", r->instance), KV("pod", r->pod), KV("pid", r->pid),
		 KV("state", r->state), KV_TIME("begin", r->begin_ns), KV_TIME("end", r->end_ns),
		 KV_QUANTILE("steps", v->steps), KV_QUANTILE("step_seconds", recent_step(v)),
		 KV_QUANTILE("step_seconds_mean", v->counted > 0 ? v->sum / v->counted : NAN),
		 KV_QUANTILE("cpu_seconds", v->cpu), KV_QUANTILE("memory_peak_bytes", v->peak),
		 KV_QUANTILE("mpi_seconds", v->in_mpi), KV_QUANTILE("waiting_seconds", v->waiting),
		 KV_QUANTILE("sent_bytes", v->sent), KV_QUANTILE("received_bytes", v->received));
	if (*r->incident)
		base_put(l->j, KV("incident", r->incident));
	else
		base_json_knull(l->j, "incident");
	api_item_end(l);
}

static void get_jobs(struct http_request *req, void *arg)
{
	static const char *const states[] = {"running", "ended"};
	struct jobs s = {.c = arg, .budget = http_budget(req)};
	struct base_node **jobs = NULL;
	struct api_list l = {.limit = 100};
	const char *user = api_param_text(req, "user");
	int err, state = -1;

	if (!api_params_once(req) || !api_param_page(req, JOBS_MAX, &l) ||
	    !api_param_choice(req, "state", states, 2, &state))
		return;
	err = find_jobs(&s);
	if (!err) {
		jobs = sorted(&s.jobs, by_begin);
		err = jobs ? 0 : -ENOMEM;
	}
	l.j = err ? NULL : api_answer_begin(req);
	if (l.j) {
		base_json_kbegin(l.j, "jobs", '[');
		for (struct base_node **at = jobs; *at; at++) {
			const struct jobs_job *job = (struct jobs_job *)*at;

			if ((state >= 0 && is_running(job) == state) ||
			    (user && strcmp(user, job->user) != 0) || !api_item(&l))
				continue;
			put_job(l.j, job);
			api_item_end(&l);
		}
		base_json_end(l.j, ']');
		base_put(l.j, KV("matching", l.matching), KV("offset", l.offset),
			 KV("truncated", l.truncated));
		api_answer_end(req, l.j);
	}
	if (err && !http_over_budget(req)) /* http_over_budget() answers the request itself */
		http_reply_error(req, 503, "out of memory");
	free(jobs);
	free_jobs(&s);
}

static void put_parts(struct http_request *req, const struct jobs_job *job,
		      struct base_node **ranks)
{
	struct api_list n = {.j = api_answer_begin(req), .limit = UINT64_MAX}, r = n;

	if (!n.j)
		return;
	base_json_kbegin(n.j, "job", '{');
	put_job(n.j, job);
	base_json_end(n.j, '}');
	base_json_kbegin(n.j, "nodes", '[');
	for (const struct jobs_node *at = job->first; at; at = at->next)
		put_node(&n, at);
	base_json_end(n.j, ']');
	base_json_kbegin(r.j, "ranks", '[');
	for (; *ranks; ranks++)
		put_rank(&r, (struct jobs_rank *)*ranks);
	base_json_end(r.j, ']');
	base_put(r.j, KV_BOOL("truncated", n.truncated || r.truncated));
	api_answer_end(req, r.j);
}

static void get_job_parts(struct http_request *req, void *arg)
{
	const char *id = http_variable(req);
	struct jobs s = {.c = arg, .budget = http_budget(req), .only = id};
	struct base_node **ranks = NULL;
	struct jobs_job *job = NULL;
	int err;

	if (!api_params_once(req))
		return;
	err = find_jobs(&s);
	if (!err) {
		job = get_job(&s, id);
		ranks = sorted(&s.ranks, by_rank);
		err = job && ranks ? 0 : -ENOMEM;
	}
	if (!err && !job->known)
		http_reply_error(req, 404, "no such job: %.100s", id);
	else if (!err)
		put_parts(req, job, ranks);
	if (err && !http_over_budget(req))
		http_reply_error(req, 503, "out of memory");
	free(ranks);
	free_jobs(&s);
}

int api_jobs_register(struct http *http, struct collect_collector *c)
{
	int err = http_route_costly(http, "GET", "/api/v1/jobs", HTTP_READER, get_jobs, c);

	return err
		       ?: http_route_costly(http, "GET", "/api/v1/jobs/{}", HTTP_READER,
					    get_job_parts, c);
}
