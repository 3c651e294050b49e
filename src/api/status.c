// SPDX-License-Identifier: Apache-2.0
/* status.c - the state of the collector, its workers and its hosts, and the latency of READs. */
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "api/api.h"
#include "api/internal.h"

/* State of the process: its start time, and sums for rates */

enum { ROUNDS, MISSED, READS, BYTES, SAMPLES, BUSY_NS, RATES };

struct sums {
	uint64_t at_ns; /* time of the sums by CLOCK_MONOTONIC; 0 if not set yet */
	uint64_t n[RATES];
};

struct worker_sums {
	struct sums last; /* newest stored sums */
	struct sums base; /* start of the interval for rates; at least 1 s older than `last` */
};

#define PARTS_MAX   16
#define WORKERS_MAX 256 /* rates of further workers are averages since startup */

static struct {
	pthread_mutex_t lock;
	uint64_t start_ns, start_realtime_ns;
	bool dta;
	const char *part[PARTS_MAX];
	size_t parts;
	struct worker_sums worker[WORKERS_MAX];
} api = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Call this and api_status_dta() before the server starts. */
void api_status_begin(void)
{
	api.start_ns = base_now_ns();
	api.start_realtime_ns = base_realtime_ns();
	api.dta = false;
	api.parts = 0;
	memset(api.worker, 0, sizeof(api.worker));
}

int64_t api_status_begun_ns(void)
{
	return (int64_t)api.start_realtime_ns;
}

void api_part_add(const char *name)
{
	assert(api.parts < PARTS_MAX);
	api.part[api.parts++] = name;
}

void api_status_dta(void)
{
	api.dta = true;
}

/* Status */

/* Stores the sums of a worker. Sets *base to the sums at the start of the interval for rates. */
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
		/* On the first request, compute the rates since the worker's start. */
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
	double rate[RATES];
	uint64_t now_ns;
};

static void counters_json(struct base_json *j, const struct collect_worker_view *w)
{
	base_put(j, KV("rounds", w->rounds), KV("missed_deadlines", w->missed_deadlines),
		 KV("reads", w->reads), KV("read_errors", w->read_errors), KV("bytes", w->bytes),
		 KV("lines", w->lines), KV("unsettled", w->unsettled), KV("samples", w->samples));
	base_json_kbegin(j, "faults", '{');
	for (int i = REGION_FAULT_NONE + 1; i < REGION_FAULT_COUNT; i++)
		if (w->errors[i])
			base_put(j, KV(region_fault_name((enum region_fault)i), w->errors[i]));
	base_json_end(j, '}');
}

static void rates_json(struct base_json *j, const double rate[RATES])
{
	base_put(j, KV("rounds_per_second", rate[ROUNDS]), KV("missed_per_second", rate[MISSED]),
		 KV("reads_per_second", rate[READS]), KV("bytes_per_second", rate[BYTES]),
		 KV("samples_per_second", rate[SAMPLES]));
}

/* Adds the counters of a worker, which are the members from .rounds to .latency_sum_ns. */
static void add_worker(struct collect_worker_view *all, const struct collect_worker_view *w)
{
	for (size_t i = offsetof(struct collect_worker_view, rounds) / sizeof(uint64_t);
	     i <= offsetof(struct collect_worker_view, latency_sum_ns) / sizeof(uint64_t); i++)
		((uint64_t *)all)[i] += ((const uint64_t *)w)[i];
}

static void status_worker(const struct collect_worker_view *w, void *arg)
{
	struct status_walk *walk = arg;
	struct base_json *j = walk->j;
	const struct sums now = {
		walk->now_ns,
		{w->rounds, w->missed_deadlines, w->reads, w->bytes, w->samples, w->busy_ns}};
	struct sums base;
	double rate[RATES], seconds;

	rate_base(w->worker, &now, w->elapsed_ns, &base);
	seconds = (double)(now.at_ns - base.at_ns) * 1e-9;
	for (int i = 0; i < RATES; i++) {
		rate[i] = seconds > 0 && now.n[i] > base.n[i]
				  ? (double)(now.n[i] - base.n[i]) / seconds
				  : 0;
		walk->rate[i] += rate[i];
	}

	base_json_begin(j, '{');
	base_put(j, KV("worker", w->worker), KV_FINITE("cpu", w->cpu < 0 ? NAN : w->cpu),
		 KV("regions", w->regions));
	counters_json(j, w);
	rates_json(j, rate);
	base_put(j, KV("busy_ratio", rate[BUSY_NS] * 1e-9), KV("rate_window_seconds", seconds),
		 KV("elapsed_seconds", (double)w->elapsed_ns * 1e-9));
	base_json_end(j, '}');

	add_worker(&walk->all, w);
}

/* Returns the resident memory of this process (proc(5), statm); 0 if unknown. */
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
	/* as in the roles file (sidelight-web(5)) */
	static const char *const roles[] = {[HTTP_PUBLIC] = "none",
					    [HTTP_READER] = "read",
					    [HTTP_ACTOR] = "act",
					    [HTTP_ADMIN] = "admin"};
	struct collect_collector *c = arg;
	struct collect_collector_totals t = {0};
	struct base_json *j = api_answer(req);
	struct status_walk walk = {.j = j, .now_ns = base_now_ns()};

	if (!j)
		return;
	collect_collector_totals(c, &t);

	/* Take both at the same moment: the page compares them to detect a jump of the clock. */
	base_put(j, KV("role", roles[http_role(req)]), KV("version", SL_VERSION_STRING),
		 KV_TIME("time", base_realtime_ns()), KV_TIME("start", api.start_realtime_ns),
		 KV("uptime_seconds", (double)((base_now_ns() - api.start_ns) / 1000000) / 1e3),
		 KV("ready", collect_collector_ready(c)), KV("dta", api.dta));
	base_json_kbegin(j, "parts", '[');
	for (size_t i = 0; i < api.parts; i++)
		base_json_string(j, api.part[i]);
	base_json_end(j, ']');
	API_EACH(j, "workers", collect_collector_workers, c, status_worker, &walk);

	base_json_kbegin(j, "totals", '{');
	base_put(j, KV("hosts", t.hosts), KV("hosts_up", t.hosts_up),
		 KV("hosts_stale", t.hosts_stale), KV("pods", t.regions), KV("pods_live", t.live),
		 KV("pods_dead", t.dead), KV("pods_closed", t.closed),
		 KV("pods_dropped", t.dropped), KV("pods_expired", t.expired),
		 KV("series", t.series), KV("series_conflicts", t.conflicts),
		 KV("refused", t.refused));
	counters_json(j, &walk.all);
	rates_json(j, walk.rate);
	base_json_end(j, '}');

	api_flow_tables(j, c);
	base_put_object(j, "memory", KV("collector_bytes", t.memory_bytes),
			KV("history_bytes", t.history_bytes),
			KV("history_points", t.history_points),
			KV("resident_bytes", resident_bytes()));
	api_answer_end(req, j);
}

/* Hosts */

struct hosts_walk {
	struct api_list list;
	uint64_t now_ns; /* CLOCK_REALTIME */
};

static void host_json(const struct collect_host_view *h, void *arg)
{
	struct hosts_walk *walk = arg;
	struct base_json *j = walk->list.j;

	if (!api_item(&walk->list))
		return;
	base_put(j, KV("target", h->target ? h->target : ""),
		 KV("fabric", h->fabric ? h->fabric : ""),
		 KV("hostname", h->hostname ? h->hostname : ""),
		 KV("condition", collect_host_condition_name(h->condition)),
		 KV_TIME("last_read", h->last_read_ns),
		 KV_QUANTILE("age_seconds", api_age(h->last_read_ns, walk->now_ns)),
		 KV("pods", h->regions), KV("reads", h->stats.reads), KV("bytes", h->stats.bytes),
		 KV("work_requests", h->stats.work_requests), KV("doorbells", h->stats.doorbells));
	base_put_object(j, "errors", KV("timeout", h->stats.errors_timeout),
			KV("access", h->stats.errors_access), KV("other", h->stats.errors_other),
			KV("wrong_id", h->stats.wrong_id));
	base_put(j, KV("connects", h->stats.connects), KV("disconnects", h->stats.disconnects),
		 KV("last_error", h->stats.last_error),
		 KV_QUANTILE("last_error_age_seconds",
			     api_age(h->stats.last_error_ns, base_now_ns())));
	api_item_end(&walk->list);
}

void api_get_hosts(struct http_request *req, void *arg)
{
	struct base_json *j = api_answer_begin(req);
	struct hosts_walk walk = {.list = {.j = j, .limit = UINT64_MAX},
				  .now_ns = base_realtime_ns()};

	if (!j)
		return;
	API_EACH(j, "hosts", collect_collector_hosts, arg, host_json, &walk);
	base_put(j, KV("truncated", walk.list.truncated));
	api_answer_end(req, j);
}

/* READ latency */

struct latency_walk {
	struct base_json *j;
	struct collect_worker_view all;
};

static void latency_json(struct base_json *j, const struct collect_worker_view *w)
{
	const uint64_t *latency = w->latency, sum_ns = w->latency_sum_ns;
	double count = collect_bucket_sum(latency, COLLECT_LATENCY_BUCKETS);

	base_put(j, KV("count", count), KV("sum_seconds", (double)sum_ns * 1e-9),
		 KV_QUANTILE("mean_seconds", count > 0 ? (double)sum_ns * 1e-9 / count : NAN),
		 KV_QUANTILE("p50_seconds", collect_quantile_latency(latency, 0.5)),
		 KV_QUANTILE("p90_seconds", collect_quantile_latency(latency, 0.9)),
		 KV_QUANTILE("p99_seconds", collect_quantile_latency(latency, 0.99)),
		 KV_QUANTILE("p999_seconds", collect_quantile_latency(latency, 0.999)));
	base_json_kbegin(j, "counts", '[');
	for (int i = 0; i < COLLECT_LATENCY_BUCKETS; i++)
		base_json_u64(j, latency[i]);
	base_json_end(j, ']');
}

static void latency_worker(const struct collect_worker_view *w, void *arg)
{
	struct latency_walk *walk = arg;

	add_worker(&walk->all, w);
	base_json_begin(walk->j, '{');
	base_put(walk->j, KV("worker", w->worker));
	latency_json(walk->j, w);
	base_json_end(walk->j, '}');
}

void api_get_latency(struct http_request *req, void *arg)
{
	struct base_json *j = api_answer_begin(req);
	struct latency_walk walk = {.j = j};

	if (!j)
		return;
	base_json_kbegin(j, "bounds_seconds", '[');
	for (unsigned int i = 0; i < COLLECT_LATENCY_BUCKETS; i++)
		base_json_f64(j, collect_bucket_bound(i));
	base_json_end(j, ']');
	API_EACH(j, "workers", collect_collector_workers, arg, latency_worker, &walk);
	base_json_kbegin(j, "total", '{');
	latency_json(j, &walk.all);
	base_json_end(j, '}');
	api_answer_end(req, j);
}
