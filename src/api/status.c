// SPDX-License-Identifier: Apache-2.0
/* status.c - the state of the collector, its workers and its hosts; READ latency. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "collect/calc.h"
#include "api/internal.h"
#include "collect/collect.h"

/* ---- the process: when it started to answer, and the rates ---- */

struct sums {
	uint64_t at_ns; /* CLOCK_MONOTONIC; 0: none yet */
	uint64_t rounds, missed, reads, bytes, samples, busy_ns;
};

struct worker_sums {
	struct sums last; /* the newest kept */
	struct sums base; /* what rates are relative to: kept 1 s or more before that */
};

#define WORKERS_MAX 256 /* beyond, rates are since the start */

static struct {
	pthread_mutex_t lock;
	uint64_t start_ns, start_realtime_ns;
	bool dta;
	struct worker_sums worker[WORKERS_MAX];
} api = {.lock = PTHREAD_MUTEX_INITIALIZER};

void api_status_begin(void)
{
	pthread_mutex_lock(&api.lock);
	api.start_ns = base_now_ns();
	api.start_realtime_ns = base_realtime_ns();
	api.dta = false;
	memset(api.worker, 0, sizeof(api.worker));
	pthread_mutex_unlock(&api.lock);
}

void api_status_dta(void)
{
	pthread_mutex_lock(&api.lock);
	api.dta = true;
	pthread_mutex_unlock(&api.lock);
}

/* ---- status ---- */

static double per_second(uint64_t now, uint64_t base, uint64_t ns)
{
	return ns && now > base ? (double)(now - base) * 1e9 / (double)ns : 0;
}

/* Keeps the sums of a worker. *base: the sums that rates are relative to. */
static void rate_base(unsigned int worker, const struct sums *now, uint64_t elapsed_ns,
		      struct sums *base)
{
	const struct sums start = {
		.at_ns = now->at_ns > elapsed_ns ? now->at_ns - elapsed_ns : 0,
	};
	struct worker_sums *w = &api.worker[worker];

	*base = start;
	if (worker >= WORKERS_MAX)
		return;
	pthread_mutex_lock(&api.lock);
	if (!w->last.at_ns) {
		/* The first look: since the worker's start. */
		w->base = start;
		w->last = *now;
	} else if (now->at_ns >= w->last.at_ns + 1000000000ull) {
		w->base = w->last;
		w->last = *now;
	}
	*base = w->base;
	pthread_mutex_unlock(&api.lock);
}

struct status_walk {
	struct base_json *j;
	struct collect_worker_view all;
	double rounds, reads, bytes, samples, missed;
	uint64_t now_ns;
};

static void errors_json(struct base_json *j, const uint64_t errors[REGION_FAULT_COUNT])
{
	base_json_kbegin(j, "faults", '{');
	for (int i = REGION_FAULT_NONE + 1; i < REGION_FAULT_COUNT; i++)
		if (errors[i])
			base_json_ku64(j, region_fault_name((enum region_fault)i), errors[i]);
	base_json_end(j, '}');
}

static void status_worker(const struct collect_worker_view *w, void *arg)
{
	struct status_walk *walk = arg;
	struct base_json *j = walk->j;
	struct sums base, now = {
				  .at_ns = walk->now_ns,
				  .rounds = w->rounds,
				  .missed = w->missed_deadlines,
				  .reads = w->reads,
				  .bytes = w->bytes,
				  .samples = w->samples,
				  .busy_ns = w->busy_ns,
			  };
	uint64_t ns;

	rate_base(w->worker, &now, w->elapsed_ns, &base);
	ns = now.at_ns - base.at_ns;

	base_json_begin(j, '{');
	base_json_ku64(j, "worker", w->worker);
	base_json_key(j, "cpu");
	if (w->cpu < 0)
		base_json_null(j);
	else
		base_json_i64(j, w->cpu);
	base_json_ku64(j, "regions", w->regions);
	base_json_ku64(j, "rounds", w->rounds);
	base_json_ku64(j, "missed_deadlines", w->missed_deadlines);
	base_json_ku64(j, "reads", w->reads);
	base_json_ku64(j, "read_errors", w->read_errors);
	base_json_ku64(j, "bytes", w->bytes);
	base_json_ku64(j, "lines", w->lines);
	base_json_ku64(j, "unsettled", w->unsettled);
	base_json_ku64(j, "samples", w->samples);
	errors_json(j, w->errors);
	base_json_kf64(j, "rounds_per_second", per_second(now.rounds, base.rounds, ns));
	base_json_kf64(j, "missed_per_second", per_second(now.missed, base.missed, ns));
	base_json_kf64(j, "reads_per_second", per_second(now.reads, base.reads, ns));
	base_json_kf64(j, "bytes_per_second", per_second(now.bytes, base.bytes, ns));
	base_json_kf64(j, "samples_per_second", per_second(now.samples, base.samples, ns));
	base_json_kf64(j, "busy_ratio", per_second(now.busy_ns, base.busy_ns, ns) * 1e-9);
	base_json_kf64(j, "rate_window_seconds", (double)ns * 1e-9);
	base_json_kf64(j, "elapsed_seconds", (double)w->elapsed_ns * 1e-9);
	base_json_end(j, '}');

	walk->rounds += per_second(now.rounds, base.rounds, ns);
	walk->reads += per_second(now.reads, base.reads, ns);
	walk->bytes += per_second(now.bytes, base.bytes, ns);
	walk->samples += per_second(now.samples, base.samples, ns);
	walk->missed += per_second(now.missed, base.missed, ns);
	walk->all.rounds += w->rounds;
	walk->all.missed_deadlines += w->missed_deadlines;
	walk->all.reads += w->reads;
	walk->all.read_errors += w->read_errors;
	walk->all.bytes += w->bytes;
	walk->all.lines += w->lines;
	walk->all.unsettled += w->unsettled;
	walk->all.samples += w->samples;
	for (int i = 0; i < REGION_FAULT_COUNT; i++)
		walk->all.errors[i] += w->errors[i];
}

/* Resident memory of this process (proc(5), statm); 0: not known. */
static uint64_t resident_bytes(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%*s %llu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void api_get_status(struct http_request *req, void *arg)
{
	struct collect_collector *c = arg;
	struct collect_collector_totals t = {0};
	struct api_answer *a = api_answer(req);
	struct status_walk walk = {.now_ns = base_now_ns()};
	struct base_json *j;

	if (!a)
		return;
	j = walk.j = &a->json;
	collect_collector_totals(c, &t);

	base_json_begin(j, '{');
	base_json_kstring(j, "version", SL_VERSION_STRING);
	base_json_ktime(j, "time", (int64_t)base_realtime_ns());
	base_json_ktime(j, "start", (int64_t)api.start_realtime_ns);
	base_json_kf64(j, "uptime_seconds", (double)((walk.now_ns - api.start_ns) / 1000000) / 1e3);
	base_json_kbool(j, "ready", collect_collector_ready(c));
	base_json_kbool(j, "dta", api.dta);
	base_json_kbegin(j, "workers", '[');
	collect_collector_workers(c, status_worker, &walk);
	base_json_end(j, ']');

	base_json_kbegin(j, "totals", '{');
	base_json_ku64(j, "hosts", t.hosts);
	base_json_ku64(j, "hosts_up", t.hosts_up);
	base_json_ku64(j, "hosts_stale", t.hosts_stale);
	base_json_ku64(j, "pods", t.regions);
	base_json_ku64(j, "pods_live", t.live);
	base_json_ku64(j, "pods_dead", t.dead);
	base_json_ku64(j, "pods_closed", t.closed);
	base_json_ku64(j, "pods_dropped", t.dropped);
	base_json_ku64(j, "pods_expired", t.expired);
	base_json_ku64(j, "series", t.series);
	base_json_ku64(j, "series_conflicts", t.conflicts);
	base_json_ku64(j, "refused", t.refused);
	base_json_ku64(j, "rounds", walk.all.rounds);
	base_json_ku64(j, "missed_deadlines", walk.all.missed_deadlines);
	base_json_ku64(j, "reads", walk.all.reads);
	base_json_ku64(j, "read_errors", walk.all.read_errors);
	base_json_ku64(j, "bytes", walk.all.bytes);
	base_json_ku64(j, "lines", walk.all.lines);
	base_json_ku64(j, "unsettled", walk.all.unsettled);
	base_json_ku64(j, "samples", walk.all.samples);
	errors_json(j, walk.all.errors);
	base_json_kf64(j, "rounds_per_second", walk.rounds);
	base_json_kf64(j, "missed_per_second", walk.missed);
	base_json_kf64(j, "reads_per_second", walk.reads);
	base_json_kf64(j, "bytes_per_second", walk.bytes);
	base_json_kf64(j, "samples_per_second", walk.samples);
	base_json_end(j, '}');

	api_flow_tables(j, c);
	base_json_kbegin(j, "memory", '{');
	base_json_ku64(j, "collector_bytes", t.memory_bytes);
	base_json_ku64(j, "history_bytes", t.history_bytes);
	base_json_ku64(j, "history_points", t.history_points);
	base_json_ku64(j, "resident_bytes", resident_bytes());
	base_json_end(j, '}');
	api_answer_end(req, a);
}

/* ---- hosts ---- */

struct hosts_walk {
	struct base_json *j;
	uint64_t now_ns; /* CLOCK_REALTIME */
	bool truncated;
};

static void host_json(const struct collect_host_view *h, void *arg)
{
	struct hosts_walk *walk = arg;
	struct base_json *j = walk->j;
	struct base_json_mark mark = base_json_mark(j);

	if (walk->truncated)
		return;
	base_json_begin(j, '{');
	base_json_kstring(j, "target", h->target ? h->target : "");
	base_json_kstring(j, "fabric", h->fabric ? h->fabric : "");
	base_json_kstring(j, "hostname", h->hostname ? h->hostname : "");
	base_json_kstring(j, "condition", collect_host_condition_name(h->condition));
	api_time(j, "last_read", h->last_read_ns);
	api_age(j, "age_seconds", h->last_read_ns, walk->now_ns);
	base_json_ku64(j, "pods", h->regions);
	base_json_ku64(j, "reads", h->stats.reads);
	base_json_ku64(j, "bytes", h->stats.bytes);
	base_json_ku64(j, "work_requests", h->stats.work_requests);
	base_json_ku64(j, "doorbells", h->stats.doorbells);
	base_json_kbegin(j, "errors", '{');
	base_json_ku64(j, "timeout", h->stats.errors_timeout);
	base_json_ku64(j, "access", h->stats.errors_access);
	base_json_ku64(j, "other", h->stats.errors_other);
	base_json_ku64(j, "wrong_id", h->stats.wrong_id);
	base_json_end(j, '}');
	base_json_ku64(j, "connects", h->stats.connects);
	base_json_ku64(j, "disconnects", h->stats.disconnects);
	base_json_kstring(j, "last_error", h->stats.last_error);
	base_json_end(j, '}');
	walk->truncated = !api_fits(j, mark);
}

void api_get_hosts(struct http_request *req, void *arg)
{
	struct api_answer *a = api_answer_begin(req);
	struct hosts_walk walk = {.now_ns = base_realtime_ns()};

	if (!a)
		return;
	walk.j = &a->json;
	base_json_kbegin(walk.j, "hosts", '[');
	collect_collector_hosts(arg, host_json, &walk);
	base_json_end(walk.j, ']');
	base_json_kbool(walk.j, "truncated", walk.truncated);
	api_answer_end(req, a);
}

/* ---- latency ---- */

struct latency_walk {
	struct base_json *j;
	uint64_t latency[COLLECT_LATENCY_BUCKETS], sum_ns;
};

static void latency_json(struct base_json *j, const uint64_t latency[COLLECT_LATENCY_BUCKETS],
			 uint64_t sum_ns)
{
	double count = collect_bucket_sum(latency, COLLECT_LATENCY_BUCKETS);

	base_json_kf64(j, "count", count);
	base_json_kf64(j, "sum_seconds", (double)sum_ns * 1e-9);
	api_quantile(j, "mean_seconds", count > 0 ? (double)sum_ns * 1e-9 / count : NAN);
	api_quantile(j, "p50_seconds", collect_quantile_latency(latency, 0.5));
	api_quantile(j, "p90_seconds", collect_quantile_latency(latency, 0.9));
	api_quantile(j, "p99_seconds", collect_quantile_latency(latency, 0.99));
	api_quantile(j, "p999_seconds", collect_quantile_latency(latency, 0.999));
	base_json_kbegin(j, "counts", '[');
	for (int i = 0; i < COLLECT_LATENCY_BUCKETS; i++)
		base_json_u64(j, latency[i]);
	base_json_end(j, ']');
}

static void latency_worker(const struct collect_worker_view *w, void *arg)
{
	struct latency_walk *walk = arg;

	for (int i = 0; i < COLLECT_LATENCY_BUCKETS; i++)
		walk->latency[i] += w->latency[i];
	walk->sum_ns += w->latency_sum_ns;
	base_json_begin(walk->j, '{');
	base_json_ku64(walk->j, "worker", w->worker);
	latency_json(walk->j, w->latency, w->latency_sum_ns);
	base_json_end(walk->j, '}');
}

void api_get_latency(struct http_request *req, void *arg)
{
	struct api_answer *a = api_answer_begin(req);
	struct latency_walk walk = {0};
	struct base_json *j;

	if (!a)
		return;
	j = walk.j = &a->json;
	base_json_kbegin(j, "bounds_seconds", '[');
	for (unsigned int i = 0; i < COLLECT_LATENCY_BUCKETS; i++)
		base_json_f64(j, collect_bucket_bound(i));
	base_json_end(j, ']');
	base_json_kbegin(j, "workers", '[');
	collect_collector_workers(arg, latency_worker, &walk);
	base_json_end(j, ']');
	base_json_kbegin(j, "total", '{');
	latency_json(j, walk.latency, walk.sum_ns);
	base_json_end(j, '}');
	api_answer_end(req, a);
}
