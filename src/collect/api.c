// SPDX-License-Identifier: Apache-2.0
/*
 * api.c - the collector as JSON. Every answer is written into one buffer of at most ANSWER_MAX
 * bytes, and all answers under way together hold at most OUTSTANDING_MAX: a client that reads
 * slowly costs others a 503, never the collector its memory.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "collect/api.h"
#include "collect/api_calc.h"
#include "collect/collect.h"
#include "collect/json_out.h"
#include "http/http.h"
#include "collect/page.h"

#define ANSWER_MAX	((size_t)8 << 20)
#define OUTSTANDING_MAX ((size_t)64 << 20)
#define ANSWER_SPARE	((size_t)4096) /* kept for what closes an answer that was cut short */

#define AGENT_SERVICE	"sidelight-agent" /* label "service" of an agent's own region */
#define LIMIT_DEFAULT	500
#define LIMIT_MAX	10000
#define SERIES_MAX	32
#define POINTS_DEFAULT	1000
#define POINTS_MAX	10000
#define RAW_POINTS_MAX	262144 /* of one series, before decimation: 4 MiB */
#define LAST_DEFAULT_NS 10000000000ull
#define LAST_MAX_NS	86400000000000ull

/* ---- state of the process: when it began to answer, and the rates ---------------------------- */

struct sums {
	uint64_t at_ns; /* CLOCK_MONOTONIC; 0: none yet */
	uint64_t rounds, missed, reads, bytes, samples, busy_ns;
};

struct worker_sums {
	struct sums last; /* the newest that is kept */
	struct sums base; /* what rates are formed against: kept 1 s before that, or longer */
};

#define WORKERS_MAX 256

static struct {
	pthread_mutex_t lock;
	uint64_t start_ns, start_realtime_ns;
	struct worker_sums worker[WORKERS_MAX];
	atomic_size_t outstanding;
} api = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- answers ----------------------------------------------------------------------------------- */

struct answer {
	struct sl_json json;
	size_t sent;
};

static struct answer *answer_new(struct sl_http_request *req)
{
	struct answer *a;

	if (atomic_fetch_add(&api.outstanding, ANSWER_MAX) > OUTSTANDING_MAX - ANSWER_MAX) {
		atomic_fetch_sub(&api.outstanding, ANSWER_MAX);
		sl_http_add_header(req, "Retry-After", "1");
		sl_http_reply_error(req, 503, "too many answers are under way: try again");
		return NULL;
	}
	a = calloc(1, sizeof(*a));
	if (!a) {
		atomic_fetch_sub(&api.outstanding, ANSWER_MAX);
		sl_http_reply_error(req, 503, "out of memory");
		return NULL;
	}
	sl_json_init(&a->json, ANSWER_MAX);
	return a;
}

static void answer_free(void *arg)
{
	struct answer *a = arg;

	atomic_fetch_sub(&api.outstanding, a->json.cap);
	sl_json_free(&a->json);
	free(a);
}

/* While it is written an answer counts as ANSWER_MAX, afterwards as what it is. */
static void answer_settle(struct answer *a)
{
	atomic_fetch_add(&api.outstanding, a->json.cap);
	atomic_fetch_sub(&api.outstanding, ANSWER_MAX);
}

static ssize_t answer_read(void *arg, char *buf, size_t max)
{
	struct answer *a = arg;
	size_t n = a->json.len - a->sent;

	if (n > max)
		n = max;
	memcpy(buf, a->json.buf + a->sent, n);
	a->sent += n;
	return (ssize_t)n;
}

static void answer_send(struct sl_http_request *req, struct answer *a)
{
	bool overflow = a->json.overflow;

	answer_settle(a);
	sl_http_add_header(req, "Cache-Control", "no-store");
	if (overflow) {
		sl_http_reply_error(req, 503, "the answer does not fit %zu bytes", ANSWER_MAX);
	} else if (a->json.len > 32768) {
		sl_http_reply_stream(req, 200, "application/json", answer_read, answer_free, a);
		return;
	} else {
		sl_http_reply(req, 200, "application/json", a->json.buf, a->json.len);
	}
	answer_free(a);
}

/* An answer about series of which there is none is no answer. */
static void answer_not_found(struct sl_http_request *req, struct answer *a)
{
	answer_settle(a);
	answer_free(a);
	sl_http_reply_error(req, 404, "no such series: %.200s", sl_http_query(req, "series"));
}

/* True while there is room for another item; takes the one after mark back if there is not. */
static bool item_fits(struct sl_json *j, struct sl_json_mark mark)
{
	if (!j->overflow && j->max - j->len >= ANSWER_SPARE)
		return true;
	sl_json_back(j, mark);
	return false;
}

/* ---- parameters: false after a 400 was given ------------------------------------------------------ */

static bool param_u64(struct sl_http_request *req, const char *key, uint64_t min, uint64_t max,
		      uint64_t *out)
{
	const char *s = sl_http_query(req, key);

	if (!s || !*s)
		return true;
	if (!sl_parse_u64(s, min, max, out))
		return true;
	sl_http_reply_error(req, 400, "%s=%.40s: not a number from %llu to %llu", key, s,
			    (unsigned long long)min, (unsigned long long)max);
	return false;
}

static bool param_terms(struct sl_http_request *req, struct sl_terms *terms)
{
	const char *q = sl_http_query(req, "q");

	terms->count = 0;
	if (!q || !sl_terms_parse(q, terms))
		return true;
	sl_http_reply_error(req, 400, "q: at most %d terms and %zu characters", SL_TERMS_MAX,
			    sizeof(terms->text) - 1);
	return false;
}

/* -1 after a 400; the number of ids, 0 when there are none and none is fine. */
static int param_series(struct sl_http_request *req, struct sl_series_id ids[SERIES_MAX],
			bool needed)
{
	const char *s = sl_http_query(req, "series");
	char bad[40] = "";
	int n;

	if (!s || !*s) {
		if (!needed)
			return 0;
		sl_http_reply_error(req, 400,
				    "series is missing: series=INSTANCE/METRIC[,INSTANCE/METRIC]..."
				    " as /api/v1/metrics gives them");
		return -1;
	}
	n = sl_series_ids_parse(s, ids, SERIES_MAX, bad);
	if (n == -E2BIG)
		sl_http_reply_error(req, 400, "series: at most %d at a time", SERIES_MAX);
	else if (n < 0)
		sl_http_reply_error(req, 400, "series=%s: not INSTANCE/METRIC", bad);
	return n < 0 ? -1 : n;
}

/* ---- status ---------------------------------------------------------------------------------------- */

static double per_second(uint64_t now, uint64_t base, uint64_t ns)
{
	return ns && now > base ? (double)(now - base) * 1e9 / (double)ns : 0;
}

/* Notes the sums of a worker; base gets what to form rates against. */
static void rate_base(unsigned int worker, const struct sums *now, uint64_t elapsed_ns,
		      struct sums *base)
{
	struct worker_sums *w = &api.worker[worker % WORKERS_MAX];

	pthread_mutex_lock(&api.lock);
	if (!w->last.at_ns || now->rounds < w->last.rounds) {
		/* The first look: against the worker's start. */
		w->base = (struct sums){.at_ns = now->at_ns > elapsed_ns ? now->at_ns - elapsed_ns
									 : 1};
		w->last = *now;
	} else if (now->at_ns - w->last.at_ns >= 1000000000ull) {
		w->base = w->last;
		w->last = *now;
	}
	*base = w->base;
	pthread_mutex_unlock(&api.lock);
}

struct status_walk {
	struct sl_json *j;
	struct sl_worker_view all;
	double rounds, reads, bytes, samples, missed;
	uint64_t now_ns;
};

static void errors_json(struct sl_json *j, const uint64_t errors[SL_FAULT_COUNT])
{
	sl_json_kbegin(j, "faults", '{');
	for (int i = SL_FAULT_NONE + 1; i < SL_FAULT_COUNT; i++)
		if (errors[i])
			sl_json_ku64(j, sl_fault_name((enum sl_fault)i), errors[i]);
	sl_json_end(j, '}');
}

static void status_worker(const struct sl_worker_view *w, void *arg)
{
	struct status_walk *walk = arg;
	struct sl_json *j = walk->j;
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

	sl_json_begin(j, '{');
	sl_json_ku64(j, "worker", w->worker);
	sl_json_key(j, "cpu");
	if (w->cpu < 0)
		sl_json_null(j);
	else
		sl_json_i64(j, w->cpu);
	sl_json_ku64(j, "regions", w->regions);
	sl_json_ku64(j, "rounds", w->rounds);
	sl_json_ku64(j, "missed_deadlines", w->missed_deadlines);
	sl_json_ku64(j, "reads", w->reads);
	sl_json_ku64(j, "read_errors", w->read_errors);
	sl_json_ku64(j, "bytes", w->bytes);
	sl_json_ku64(j, "lines", w->lines);
	sl_json_ku64(j, "unsettled", w->unsettled);
	sl_json_ku64(j, "samples", w->samples);
	errors_json(j, w->errors);
	sl_json_kf64(j, "rounds_per_second", per_second(now.rounds, base.rounds, ns));
	sl_json_kf64(j, "missed_per_second", per_second(now.missed, base.missed, ns));
	sl_json_kf64(j, "reads_per_second", per_second(now.reads, base.reads, ns));
	sl_json_kf64(j, "bytes_per_second", per_second(now.bytes, base.bytes, ns));
	sl_json_kf64(j, "samples_per_second", per_second(now.samples, base.samples, ns));
	sl_json_kf64(j, "busy_ratio", per_second(now.busy_ns, base.busy_ns, ns) * 1e-9);
	sl_json_kf64(j, "rate_window_seconds", (double)ns * 1e-9);
	sl_json_kf64(j, "elapsed_seconds", (double)w->elapsed_ns * 1e-9);
	sl_json_end(j, '}');

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
	for (int i = 0; i < SL_FAULT_COUNT; i++)
		walk->all.errors[i] += w->errors[i];
}

/* Resident memory of this process (proc(5), statm), 0 if it can't be had. */
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

static void get_status(struct sl_http_request *req, void *arg)
{
	struct sl_collector *c = arg;
	struct sl_collector_totals t = {0};
	struct answer *a = answer_new(req);
	struct status_walk walk = {.now_ns = sl_now_ns()};
	struct sl_json *j;

	if (!a)
		return;
	j = walk.j = &a->json;
	sl_collector_totals(c, &t);

	sl_json_begin(j, '{');
	sl_json_kstring(j, "version", SL_VERSION_STRING);
	sl_json_ktime(j, "time", (int64_t)sl_realtime_ns());
	sl_json_ktime(j, "start", (int64_t)api.start_realtime_ns);
	sl_json_kf64(j, "uptime_seconds", (double)((walk.now_ns - api.start_ns) / 1000000) / 1e3);
	sl_json_kbool(j, "ready", sl_collector_ready(c));
	sl_json_kbegin(j, "workers", '[');
	sl_collector_workers(c, status_worker, &walk);
	sl_json_end(j, ']');

	sl_json_kbegin(j, "totals", '{');
	sl_json_ku64(j, "hosts", t.hosts);
	sl_json_ku64(j, "hosts_up", t.hosts_up);
	sl_json_ku64(j, "hosts_stale", t.hosts_stale);
	sl_json_ku64(j, "pods", t.regions);
	sl_json_ku64(j, "pods_live", t.live);
	sl_json_ku64(j, "pods_dead", t.dead);
	sl_json_ku64(j, "pods_closed", t.closed);
	sl_json_ku64(j, "pods_dropped", t.dropped);
	sl_json_ku64(j, "pods_expired", t.expired);
	sl_json_ku64(j, "series", t.series);
	sl_json_ku64(j, "series_conflicts", t.conflicts);
	sl_json_ku64(j, "refused", t.refused);
	sl_json_ku64(j, "rounds", walk.all.rounds);
	sl_json_ku64(j, "missed_deadlines", walk.all.missed_deadlines);
	sl_json_ku64(j, "reads", walk.all.reads);
	sl_json_ku64(j, "read_errors", walk.all.read_errors);
	sl_json_ku64(j, "bytes", walk.all.bytes);
	sl_json_ku64(j, "lines", walk.all.lines);
	sl_json_ku64(j, "unsettled", walk.all.unsettled);
	sl_json_ku64(j, "samples", walk.all.samples);
	errors_json(j, walk.all.errors);
	sl_json_kf64(j, "rounds_per_second", walk.rounds);
	sl_json_kf64(j, "missed_per_second", walk.missed);
	sl_json_kf64(j, "reads_per_second", walk.reads);
	sl_json_kf64(j, "bytes_per_second", walk.bytes);
	sl_json_kf64(j, "samples_per_second", walk.samples);
	sl_json_end(j, '}');

	sl_json_kbegin(j, "memory", '{');
	sl_json_ku64(j, "collector_bytes", t.memory_bytes);
	sl_json_ku64(j, "history_bytes", t.history_bytes);
	sl_json_ku64(j, "history_points", t.history_points);
	sl_json_ku64(j, "resident_bytes", resident_bytes());
	sl_json_end(j, '}');
	sl_json_end(j, '}');
	answer_send(req, a);
}

/* ---- hosts ----------------------------------------------------------------------------------------- */

struct list_walk {
	struct sl_json *j;
	uint64_t now_ns; /* CLOCK_REALTIME */
	uint64_t offset, limit;
	uint64_t matching, given;
	bool truncated;
	const struct sl_terms *terms;
	const char *state, *pod;
};

static void age_json(struct sl_json *j, const char *key, uint64_t then_ns, uint64_t now_ns)
{
	sl_json_key(j, key);
	if (!then_ns)
		sl_json_null(j);
	else
		sl_json_f64(j, now_ns > then_ns ? (double)((now_ns - then_ns) / 1000) / 1e6 : 0);
}

static void time_json(struct sl_json *j, const char *key, uint64_t ns)
{
	sl_json_key(j, key);
	if (!ns || ns > INT64_MAX)
		sl_json_null(j);
	else
		sl_json_time(j, (int64_t)ns);
}

static const char *condition_name(enum sl_host_condition condition)
{
	switch (condition) {
	case SL_HOST_CONNECTING:
		return "connecting";
	case SL_HOST_UP:
		return "up";
	case SL_HOST_STALE:
		return "stale";
	}
	return "unknown";
}

static void host_json(const struct sl_host_view *h, void *arg)
{
	struct list_walk *walk = arg;
	struct sl_json *j = walk->j;
	struct sl_json_mark mark = sl_json_mark(j);

	walk->matching++;
	if (walk->truncated)
		return;
	sl_json_begin(j, '{');
	sl_json_kstring(j, "target", h->target ? h->target : "");
	sl_json_kstring(j, "fabric", h->fabric ? h->fabric : "");
	sl_json_kstring(j, "hostname", h->hostname ? h->hostname : "");
	sl_json_kstring(j, "condition", condition_name(h->condition));
	time_json(j, "last_read", h->last_read_ns);
	age_json(j, "age_seconds", h->last_read_ns, walk->now_ns);
	sl_json_ku64(j, "pods", h->regions);
	sl_json_ku64(j, "reads", h->stats.reads);
	sl_json_ku64(j, "bytes", h->stats.bytes);
	sl_json_ku64(j, "work_requests", h->stats.work_requests);
	sl_json_ku64(j, "doorbells", h->stats.doorbells);
	sl_json_kbegin(j, "errors", '{');
	sl_json_ku64(j, "timeout", h->stats.errors_timeout);
	sl_json_ku64(j, "access", h->stats.errors_access);
	sl_json_ku64(j, "other", h->stats.errors_other);
	sl_json_ku64(j, "wrong_id", h->stats.wrong_id);
	sl_json_end(j, '}');
	sl_json_ku64(j, "connects", h->stats.connects);
	sl_json_ku64(j, "disconnects", h->stats.disconnects);
	sl_json_kstring(j, "last_error", h->stats.last_error);
	sl_json_end(j, '}');
	walk->truncated = !item_fits(j, mark);
}

static void get_hosts(struct sl_http_request *req, void *arg)
{
	struct answer *a = answer_new(req);
	struct list_walk walk = {.now_ns = sl_realtime_ns()};

	if (!a)
		return;
	walk.j = &a->json;
	sl_json_begin(walk.j, '{');
	sl_json_ktime(walk.j, "time", (int64_t)walk.now_ns);
	sl_json_kbegin(walk.j, "hosts", '[');
	sl_collector_hosts(arg, host_json, &walk);
	sl_json_end(walk.j, ']');
	sl_json_kbool(walk.j, "truncated", walk.truncated);
	sl_json_end(walk.j, '}');
	answer_send(req, a);
}

/* ---- pods ------------------------------------------------------------------------------------------ */

static const char *const state_names[] = {"live", "dead", "closed", "stale", "dropped", "retired"};

/* One word for a pod. Its end outweighs that its host can't be reached. */
static const char *state_name(const struct sl_region_view *r)
{
	if (r->fault && *r->fault)
		return "dropped";
	switch (r->state) {
	case SL_STATE_DEAD:
		return "dead";
	case SL_STATE_CLOSED:
		return "closed";
	case SL_STATE_LIVE:
		return r->stale ? "stale" : "live";
	}
	return "retired";
}

static const char *label_of(const struct sl_region_info *info, const char *key)
{
	for (uint32_t i = 0; i < info->label_count; i++)
		if (!strcmp(info->labels[i].key, key))
			return info->labels[i].value;
	return "";
}

static uint32_t region_terms(const struct sl_terms *t, const struct sl_region_view *r)
{
	char instance[SL_SERIES_ID_BYTES];

	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)r->info->instance);
	return sl_terms_in_text(t, instance) | sl_terms_in_text(t, r->hostname ? r->hostname : "") |
	       sl_terms_in_labels(t, r->info->labels, r->info->label_count);
}

static void labels_json(struct sl_json *j, const struct sl_text_label *labels, uint32_t count)
{
	sl_json_kbegin(j, "labels", '{');
	for (uint32_t i = 0; i < count; i++)
		sl_json_kstring(j, labels[i].key, labels[i].value);
	sl_json_end(j, '}');
}

static void instance_json(struct sl_json *j, uint64_t instance)
{
	char text[SL_SERIES_ID_BYTES];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)instance);
	sl_json_kstring(j, "instance", text);
}

static void pod_json(const struct sl_region_view *r, void *arg)
{
	struct list_walk *walk = arg;
	struct sl_json *j = walk->j;
	struct sl_json_mark mark;
	const char *state = state_name(r);

	if (walk->state && strcmp(walk->state, state))
		return;
	if (region_terms(walk->terms, r) != (1u << walk->terms->count) - 1)
		return;
	if (walk->matching++ < walk->offset || walk->given >= walk->limit || walk->truncated)
		return;
	mark = sl_json_mark(j);
	sl_json_begin(j, '{');
	instance_json(j, r->info->instance);
	sl_json_kstring(j, "service", label_of(r->info, "service"));
	sl_json_kstring(j, "pod", label_of(r->info, "pod"));
	sl_json_kstring(j, "host", r->hostname ? r->hostname : "");
	sl_json_kstring(j, "target", r->target ? r->target : "");
	labels_json(j, r->info->labels, r->info->label_count);
	sl_json_ku64(j, "pid", r->info->pid);
	sl_json_kstring(j, "state", state);
	sl_json_kbool(j, "stale", r->stale);
	time_json(j, "changed", r->changed_ns);
	age_json(j, "changed_seconds", r->changed_ns, walk->now_ns);
	time_json(j, "start", r->info->start_ns);
	time_json(j, "last_read", r->last_read_ns);
	age_json(j, "age_seconds", r->last_read_ns, walk->now_ns);
	sl_json_ku64(j, "metrics", r->metrics);
	sl_json_ku64(j, "series", r->series);
	sl_json_ku64(j, "unsettled", r->unsettled);
	sl_json_ku64(j, "refused", r->refused);
	sl_json_ku64(j, "rounds", r->rounds);
	sl_json_ku64(j, "bytes", r->info->size);
	sl_json_kstring(j, "fault", r->fault ? r->fault : "");
	sl_json_end(j, '}');
	walk->truncated = !item_fits(j, mark);
	if (!walk->truncated)
		walk->given++;
}

static void get_pods(struct sl_http_request *req, void *arg)
{
	struct sl_terms terms;
	struct list_walk walk = {
		.now_ns = sl_realtime_ns(),
		.limit = LIMIT_DEFAULT,
		.terms = &terms,
		.state = sl_http_query(req, "state"),
	};
	struct answer *a;
	bool known = false;

	if (!param_u64(req, "limit", 0, LIMIT_MAX, &walk.limit) ||
	    !param_u64(req, "offset", 0, UINT32_MAX, &walk.offset) || !param_terms(req, &terms))
		return;
	if (walk.state && !*walk.state)
		walk.state = NULL;
	for (size_t i = 0; i < sizeof(state_names) / sizeof(*state_names); i++)
		known |= walk.state && !strcmp(walk.state, state_names[i]);
	if (walk.state && !known) {
		sl_http_reply_error(req, 400,
				    "state=%.40s: not one of live, dead, closed, stale, dropped,"
				    " retired",
				    walk.state);
		return;
	}
	a = answer_new(req);
	if (!a)
		return;
	walk.j = &a->json;
	sl_json_begin(walk.j, '{');
	sl_json_ktime(walk.j, "time", (int64_t)walk.now_ns);
	sl_json_kbegin(walk.j, "pods", '[');
	sl_collector_regions(arg, pod_json, &walk);
	sl_json_end(walk.j, ']');
	sl_json_ku64(walk.j, "matching", walk.matching);
	sl_json_ku64(walk.j, "offset", walk.offset);
	sl_json_kbool(walk.j, "truncated", walk.truncated);
	sl_json_end(walk.j, '}');
	answer_send(req, a);
}

/* ---- metrics --------------------------------------------------------------------------------------- */

static const char *kind_name(enum sl_metric_kind kind)
{
	switch (kind) {
	case SL_KIND_COUNTER:
	case SL_KIND_COUNTER_F64:
		return "counter";
	case SL_KIND_GAUGE:
	case SL_KIND_GAUGE_F64:
		return "gauge";
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_HISTOGRAM:
		return "histogram";
	case SL_KIND_INFO:
		return "info";
	case SL_KIND_STATESET:
		return "stateset";
	}
	return "unknown";
}

static const char *const kind_names[] = {"counter", "gauge", "histogram", "info", "stateset"};

static double as_f64(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static double histogram_quantile(const struct sl_metric *m, const uint64_t *buckets, double q)
{
	if (m->kind == SL_KIND_HISTOGRAM)
		return sl_quantile_classic(buckets, m->bounds, m->bound_count, q);
	return sl_quantile_exponential(buckets, m->bucket_count, m->scale, m->first_bucket,
				       m->zero_threshold, q);
}

static uint64_t bucket_count(const struct sl_metric *m, const uint64_t *buckets)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < m->bucket_count; i++)
		count += buckets[i];
	return count;
}

static void quantile_json(struct sl_json *j, const char *key, double v)
{
	sl_json_key(j, key);
	if (isnan(v))
		sl_json_null(j);
	else
		sl_json_f64(j, v);
}

static void value_json(struct sl_json *j, const struct sl_metric *m, const uint64_t *value)
{
	const uint64_t *buckets;

	switch (m->kind) {
	case SL_KIND_COUNTER:
		sl_json_ku64(j, "value", value[0]);
		break;
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE_F64:
		sl_json_kf64(j, "value", as_f64(value[0]));
		break;
	case SL_KIND_GAUGE:
		sl_json_key(j, "value");
		sl_json_i64(j, (int64_t)value[0]);
		break;
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_HISTOGRAM:
		buckets = value + SL_HIST_BUCKETS;
		sl_json_ku64(j, "value", bucket_count(m, buckets));
		sl_json_kbegin(j, "histogram", '{');
		sl_json_kbool(j, "exponential", m->kind == SL_KIND_HISTOGRAM_EXP);
		sl_json_ku64(j, "count", bucket_count(m, buckets));
		sl_json_kf64(j, "sum", as_f64(value[SL_HIST_SUM]));
		sl_json_ku64(j, "refused", value[SL_HIST_REFUSED]);
		quantile_json(j, "p50", histogram_quantile(m, buckets, 0.5));
		quantile_json(j, "p90", histogram_quantile(m, buckets, 0.9));
		quantile_json(j, "p99", histogram_quantile(m, buckets, 0.99));
		sl_json_end(j, '}');
		break;
	case SL_KIND_INFO:
		sl_json_ku64(j, "value", 1);
		break;
	case SL_KIND_STATESET:
		sl_json_ku64(j, "value", value[0]);
		sl_json_kbegin(j, "states", '{');
		for (uint32_t i = 0; i < m->state_count; i++)
			sl_json_kbool(j, m->states[i], value[0] >> i & 1);
		sl_json_end(j, '}');
		break;
	}
}

/* Regions are noted first and asked for their metrics after the walk, which may hold a lock. */
struct metrics_walk {
	struct sl_json *j;
	const struct sl_terms *terms;
	const char *kind, *pod;
	uint64_t pod_instance;
	bool pod_is_instance;
	const struct sl_series_id *ids; /* these only */
	int id_count;
	uint64_t offset, limit, matching, given;
	bool truncated, no_memory;

	struct noted {
		uint64_t instance, metrics;
		uint32_t found; /* terms that the region's own labels match */
		bool agent;	/* what an agent says of itself: comes last */
		bool used;	/* one of its metrics is in the answer */
	} * region;
	size_t regions, capacity, at;
};

static bool wanted_instance(const struct metrics_walk *walk, uint64_t instance)
{
	if (!walk->id_count)
		return true;
	for (int i = 0; i < walk->id_count; i++)
		if (walk->ids[i].instance == instance)
			return true;
	return false;
}

static void note_region(const struct sl_region_view *r, void *arg)
{
	struct metrics_walk *walk = arg;

	if (!wanted_instance(walk, r->info->instance))
		return;
	if (walk->pod && !(walk->pod_is_instance && walk->pod_instance == r->info->instance) &&
	    strcmp(walk->pod, label_of(r->info, "pod")))
		return;
	if (walk->regions == walk->capacity) {
		size_t capacity = walk->capacity ? 2 * walk->capacity : 64;
		struct noted *grown = realloc(walk->region, capacity * sizeof(*grown));

		if (!grown) {
			walk->no_memory = true;
			return;
		}
		walk->region = grown;
		walk->capacity = capacity;
	}
	walk->region[walk->regions++] = (struct noted){
		.instance = r->info->instance,
		.metrics = r->metrics,
		.found = region_terms(walk->terms, r),
		.agent = !strcmp(label_of(r->info, "service"), AGENT_SERVICE),
	};
}

static bool wanted_metric(const struct metrics_walk *walk, const struct sl_metric *m)
{
	const struct noted *region = &walk->region[walk->at];
	uint32_t all = (1u << walk->terms->count) - 1;
	bool found = !walk->id_count;

	for (int i = 0; i < walk->id_count && !found; i++)
		found = walk->ids[i].instance == region->instance && walk->ids[i].metric == m->id;
	if (!found || (walk->kind && strcmp(walk->kind, kind_name(m->kind))))
		return false;
	return region->found == all ||
	       (region->found | sl_terms_in_text(walk->terms, m->name) |
		sl_terms_in_labels(walk->terms, m->labels, m->label_count)) == all;
}

static void metric_json(const struct sl_metric *m, const uint64_t *value, void *arg)
{
	struct metrics_walk *walk = arg;
	struct noted *region = &walk->region[walk->at];
	struct sl_json *j = walk->j;
	struct sl_json_mark mark;
	char id[SL_SERIES_ID_BYTES];

	if (!wanted_metric(walk, m))
		return;
	if (walk->matching++ < walk->offset || walk->given >= walk->limit || walk->truncated)
		return;
	mark = sl_json_mark(j);
	sl_series_id_format((struct sl_series_id){region->instance, m->id}, id);
	sl_json_begin(j, '{');
	sl_json_kstring(j, "id", id);
	sl_json_kstring(j, "name", m->name);
	sl_json_kstring(j, "kind", kind_name(m->kind));
	sl_json_kstring(j, "unit", m->unit);
	sl_json_kstring(j, "help", m->help);
	labels_json(j, m->labels, m->label_count);
	value_json(j, m, value);
	sl_json_end(j, '}');
	walk->truncated = !item_fits(j, mark);
	if (!walk->truncated) {
		walk->given++;
		region->used = true;
	}
}

static int by_instance(const void *a, const void *b)
{
	const struct noted *x = a, *y = b;

	return x->instance < y->instance ? -1 : x->instance > y->instance;
}

/* What the pods of the metrics given are called, by instance. Regions are sorted by now. */
static void metric_pod_json(const struct sl_region_view *r, void *arg)
{
	struct metrics_walk *walk = arg;
	struct noted key = {.instance = r->info->instance}, *region;
	struct sl_json *j = walk->j;
	struct sl_json_mark mark = sl_json_mark(j);
	char instance[SL_SERIES_ID_BYTES];

	region = bsearch(&key, walk->region, walk->regions, sizeof(key), by_instance);
	if (!region || !region->used)
		return;
	region->used = false;
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)r->info->instance);
	sl_json_kbegin(j, instance, '{');
	sl_json_kstring(j, "service", label_of(r->info, "service"));
	sl_json_kstring(j, "pod", label_of(r->info, "pod"));
	sl_json_kstring(j, "host", r->hostname ? r->hostname : "");
	sl_json_ku64(j, "pid", r->info->pid);
	sl_json_kstring(j, "state", state_name(r));
	time_json(j, "last_read", r->last_read_ns);
	sl_json_end(j, '}');
	if (j->overflow || j->max - j->len < 256) {
		sl_json_back(j, mark);
		walk->truncated = true;
	}
}

static void metrics_answer(struct sl_http_request *req, struct sl_collector *c,
			   struct metrics_walk *walk)
{
	struct answer *a = answer_new(req);
	struct sl_json *j;
	bool all = !walk->terms->count && !walk->kind && !walk->id_count;

	if (!a)
		return;
	j = walk->j = &a->json;
	sl_json_begin(j, '{');
	sl_json_ktime(j, "time", (int64_t)sl_realtime_ns());
	sl_json_kbegin(j, "metrics", '[');
	sl_collector_regions(c, note_region, walk);
	for (size_t i = 0; i < 2 * walk->regions; i++) {
		const struct noted *region = &walk->region[walk->at = i % walk->regions];

		if (region->agent != (i >= walk->regions))
			continue;
		/* Without a filter the number is known: only what is shown has to be looked at. */
		if (all && (walk->given >= walk->limit || walk->truncated ||
			    walk->matching + region->metrics <= walk->offset))
			walk->matching += region->metrics;
		else
			sl_collector_metrics(c, region->instance, metric_json, walk);
	}
	sl_json_end(j, ']');
	sl_json_kbegin(j, "pods", '{');
	if (walk->given) {
		qsort(walk->region, walk->regions, sizeof(*walk->region), by_instance);
		sl_collector_regions(c, metric_pod_json, walk);
	}
	sl_json_end(j, '}');
	sl_json_ku64(j, "matching", walk->matching);
	sl_json_ku64(j, "offset", walk->offset);
	sl_json_kbool(j, "truncated", walk->truncated);
	sl_json_end(j, '}');
	if (walk->no_memory) {
		j->overflow = true;
		sl_log_limited(SL_ERROR, "api", "out of memory endpoint=metrics regions=%zu",
			       walk->regions);
	}
	answer_send(req, a);
}

static void get_metrics(struct sl_http_request *req, void *arg)
{
	struct sl_series_id ids[SERIES_MAX];
	struct sl_terms terms;
	struct metrics_walk walk = {
		.terms = &terms,
		.kind = sl_http_query(req, "kind"),
		.pod = sl_http_query(req, "pod"),
		.ids = ids,
		.limit = LIMIT_DEFAULT,
	};
	bool known = false;

	if (!param_u64(req, "limit", 0, LIMIT_MAX, &walk.limit) ||
	    !param_u64(req, "offset", 0, UINT32_MAX, &walk.offset) || !param_terms(req, &terms))
		return;
	walk.id_count = param_series(req, ids, false);
	if (walk.id_count < 0)
		return;
	if (walk.kind && !*walk.kind)
		walk.kind = NULL;
	if (walk.pod && !*walk.pod)
		walk.pod = NULL;
	for (size_t i = 0; i < sizeof(kind_names) / sizeof(*kind_names); i++)
		known |= walk.kind && !strcmp(walk.kind, kind_names[i]);
	if (walk.kind && !known) {
		sl_http_reply_error(
			req, 400,
			"kind=%.40s: not one of counter, gauge, histogram, info, stateset",
			walk.kind);
		return;
	}
	walk.pod_is_instance = walk.pod &&
			       !sl_instance_parse(walk.pod, strlen(walk.pod), &walk.pod_instance);
	metrics_answer(req, arg, &walk);
	free(walk.region);
}

/* ---- one metric, by id ------------------------------------------------------------------------------- */

struct find_walk {
	uint32_t metric;
	bool found;
	void (*fn)(const struct sl_metric *m, const uint64_t *value, void *arg);
	void *arg;
};

static void find_metric(const struct sl_metric *m, const uint64_t *value, void *arg)
{
	struct find_walk *find = arg;

	if (m->id != find->metric || find->found)
		return;
	find->found = true;
	find->fn(m, value, find->arg);
}

/* Calls fn with the metric; false if there is none of this id. */
static bool with_metric(struct sl_collector *c, struct sl_series_id id,
			void (*fn)(const struct sl_metric *, const uint64_t *, void *), void *arg)
{
	struct find_walk find = {.metric = id.metric, .fn = fn, .arg = arg};

	return !sl_collector_metrics(c, id.instance, find_metric, &find) && find.found;
}

static void describe_json(const struct sl_metric *m, const uint64_t *value, void *arg)
{
	struct sl_json *j = arg;

	(void)value;
	sl_json_kstring(j, "name", m->name);
	sl_json_kstring(j, "kind", kind_name(m->kind));
	sl_json_kstring(j, "unit", m->unit);
	labels_json(j, m->labels, m->label_count);
}

/* ---- history ---------------------------------------------------------------------------------------- */

/* One series; false if it does not fit. */
static bool history_json(struct sl_json *j, struct sl_collector *c, struct sl_series_id id,
			 int64_t from_ns, int64_t to_ns, size_t max, struct sl_point *points,
			 int *found)
{
	struct sl_json_mark mark = sl_json_mark(j);
	char text[SL_SERIES_ID_BYTES];
	ssize_t raw = -ENOENT;
	size_t n;

	sl_series_id_format(id, text);
	sl_json_begin(j, '{');
	sl_json_kstring(j, "id", text);
	if (with_metric(c, id, describe_json, j))
		raw = sl_collector_history(c, id.instance, id.metric, from_ns, points,
					   RAW_POINTS_MAX);
	if (raw < 0) {
		sl_json_kstring(j, "error", "no such series");
		sl_json_end(j, '}');
		return item_fits(j, mark);
	}
	(*found)++;
	/* What was read after the question belongs to the next one. */
	for (n = (size_t)raw; n && points[n - 1].ns > to_ns;)
		n--;
	sl_json_ku64(j, "recorded", n);
	sl_json_kbool(j, "clipped", raw == RAW_POINTS_MAX);
	sl_json_kbool(j, "decimated", n > max);
	n = sl_decimate(points, n, from_ns, to_ns, max);
	sl_json_ku64(j, "points", n);
	sl_json_kbegin(j, "t", '[');
	for (size_t i = 0; i < n && !j->overflow; i++)
		sl_json_time(j, points[i].ns);
	sl_json_end(j, ']');
	sl_json_kbegin(j, "v", '[');
	for (size_t i = 0; i < n && !j->overflow; i++)
		sl_json_f64(j, points[i].value);
	sl_json_end(j, ']');
	sl_json_end(j, '}');
	return item_fits(j, mark);
}

static void get_history(struct sl_http_request *req, void *arg)
{
	struct sl_series_id ids[SERIES_MAX];
	int count = param_series(req, ids, true), found = 0;
	uint64_t points = POINTS_DEFAULT, last_ns = LAST_DEFAULT_NS;
	const char *last = sl_http_query(req, "last");
	int64_t to_ns = (int64_t)sl_realtime_ns(), from_ns;
	struct sl_point *buffer;
	struct answer *a;
	bool fits = true;

	if (count < 0 || !param_u64(req, "points", SL_DECIMATE_MIN, POINTS_MAX, &points))
		return;
	if (last && *last &&
	    (sl_parse_duration(last, &last_ns) || !last_ns || last_ns > LAST_MAX_NS)) {
		sl_http_reply_error(req, 400,
				    "last=%.40s: not a duration up to 24h, as in 500ms, 10s, 5m",
				    last);
		return;
	}
	a = answer_new(req);
	if (!a)
		return;
	buffer = malloc(RAW_POINTS_MAX * sizeof(*buffer));
	if (!buffer) {
		/* An answer that overflowed is sent as 503. */
		a->json.overflow = true;
		answer_send(req, a);
		return;
	}
	from_ns = to_ns - (int64_t)last_ns;
	sl_json_begin(&a->json, '{');
	sl_json_ktime(&a->json, "from", from_ns);
	sl_json_ktime(&a->json, "to", to_ns);
	sl_json_kbegin(&a->json, "series", '[');
	for (int i = 0; i < count && fits; i++)
		fits = history_json(&a->json, arg, ids[i], from_ns, to_ns, points, buffer, &found);
	free(buffer);
	sl_json_end(&a->json, ']');
	sl_json_kbool(&a->json, "truncated", !fits);
	sl_json_end(&a->json, '}');
	if (!found && fits) {
		answer_not_found(req, a);
		return;
	}
	answer_send(req, a);
}

/* ---- buckets of histograms -------------------------------------------------------------------------- */

static void bucket_json(struct sl_json *j, double low, double high, uint64_t count)
{
	if (!count)
		return;
	sl_json_begin(j, '[');
	sl_json_f64(j, low);
	sl_json_f64(j, high);
	sl_json_u64(j, count);
	sl_json_end(j, ']');
}

static void buckets_json(const struct sl_metric *m, const uint64_t *value, void *arg)
{
	struct sl_json *j = arg;
	const uint64_t *bucket = value + SL_HIST_BUCKETS;

	describe_json(m, value, j);
	if (m->kind != SL_KIND_HISTOGRAM && m->kind != SL_KIND_HISTOGRAM_EXP) {
		sl_json_kstring(j, "error", "not a histogram");
		return;
	}
	value_json(j, m, value);
	sl_json_kbegin(j, "buckets", '[');
	for (uint32_t i = 0; i < m->bucket_count && !j->overflow; i++) {
		double low, high;

		if (m->kind == SL_KIND_HISTOGRAM) {
			low = i ? m->bounds[i - 1] : -INFINITY;
			if (!i && m->bound_count && m->bounds[0] > 0)
				low = 0;
			high = i < m->bound_count ? m->bounds[i] : INFINITY;
		} else {
			double index = (double)m->first_bucket + (double)i - 1;

			low = i ? sl_exponential_bound(m->scale, index - 1) : 0;
			high = i ? sl_exponential_bound(m->scale, index) : m->zero_threshold;
			if (i == m->bucket_count - 1)
				high = INFINITY;
		}
		bucket_json(j, low, high, bucket[i]);
	}
	sl_json_end(j, ']');
}

static void get_buckets(struct sl_http_request *req, void *arg)
{
	struct sl_series_id ids[SERIES_MAX];
	int count = param_series(req, ids, true), found = 0;
	char text[SL_SERIES_ID_BYTES];
	struct answer *a;
	bool fits = true;

	if (count < 0)
		return;
	a = answer_new(req);
	if (!a)
		return;
	sl_json_begin(&a->json, '{');
	sl_json_ktime(&a->json, "time", (int64_t)sl_realtime_ns());
	sl_json_kbegin(&a->json, "series", '[');
	for (int i = 0; i < count && fits; i++) {
		struct sl_json_mark mark = sl_json_mark(&a->json);

		sl_series_id_format(ids[i], text);
		sl_json_begin(&a->json, '{');
		sl_json_kstring(&a->json, "id", text);
		if (with_metric(arg, ids[i], buckets_json, &a->json))
			found++;
		else
			sl_json_kstring(&a->json, "error", "no such series");
		sl_json_end(&a->json, '}');
		fits = item_fits(&a->json, mark);
	}
	sl_json_end(&a->json, ']');
	sl_json_kbool(&a->json, "truncated", !fits);
	sl_json_end(&a->json, '}');
	if (!found && fits) {
		answer_not_found(req, a);
		return;
	}
	answer_send(req, a);
}

/* ---- latency ---------------------------------------------------------------------------------------- */

struct latency_walk {
	struct sl_json *j;
	uint64_t latency[SL_LATENCY_BUCKETS], sum_ns;
};

static void latency_json(struct sl_json *j, const uint64_t latency[SL_LATENCY_BUCKETS],
			 uint64_t sum_ns)
{
	double count = sl_bucket_sum(latency, SL_LATENCY_BUCKETS);

	sl_json_kf64(j, "count", count);
	sl_json_kf64(j, "sum_seconds", (double)sum_ns * 1e-9);
	quantile_json(j, "mean_seconds", count > 0 ? (double)sum_ns * 1e-9 / count : NAN);
	quantile_json(j, "p50_seconds", sl_quantile_latency(latency, 0.5));
	quantile_json(j, "p90_seconds", sl_quantile_latency(latency, 0.9));
	quantile_json(j, "p99_seconds", sl_quantile_latency(latency, 0.99));
	quantile_json(j, "p999_seconds", sl_quantile_latency(latency, 0.999));
	sl_json_kbegin(j, "counts", '[');
	for (int i = 0; i < SL_LATENCY_BUCKETS; i++)
		sl_json_u64(j, latency[i]);
	sl_json_end(j, ']');
}

static void latency_worker(const struct sl_worker_view *w, void *arg)
{
	struct latency_walk *walk = arg;

	for (int i = 0; i < SL_LATENCY_BUCKETS; i++)
		walk->latency[i] += w->latency[i];
	walk->sum_ns += w->latency_sum_ns;
	sl_json_begin(walk->j, '{');
	sl_json_ku64(walk->j, "worker", w->worker);
	latency_json(walk->j, w->latency, w->latency_sum_ns);
	sl_json_end(walk->j, '}');
}

static void get_latency(struct sl_http_request *req, void *arg)
{
	struct answer *a = answer_new(req);
	struct latency_walk walk = {0};
	struct sl_json *j;

	if (!a)
		return;
	j = walk.j = &a->json;
	sl_json_begin(j, '{');
	sl_json_ktime(j, "time", (int64_t)sl_realtime_ns());
	sl_json_kbegin(j, "bounds_seconds", '[');
	for (unsigned int i = 0; i < SL_LATENCY_BUCKETS; i++)
		sl_json_f64(j, sl_latency_bound(i));
	sl_json_end(j, ']');
	sl_json_kbegin(j, "workers", '[');
	sl_collector_workers(arg, latency_worker, &walk);
	sl_json_end(j, ']');
	sl_json_kbegin(j, "total", '{');
	latency_json(j, walk.latency, walk.sum_ns);
	sl_json_end(j, '}');
	sl_json_end(j, '}');
	answer_send(req, a);
}

/* ------------------------------------------------------------------------------------------------------ */

int sl_api_register(struct sl_http *http, struct sl_collector *c)
{
	static const struct {
		const char *path;
		sl_http_handler handler;
	} routes[] = {
		{"/api/v1/status", get_status},	  {"/api/v1/hosts", get_hosts},
		{"/api/v1/pods", get_pods},	  {"/api/v1/metrics", get_metrics},
		{"/api/v1/history", get_history}, {"/api/v1/buckets", get_buckets},
		{"/api/v1/latency", get_latency},
	};
	int err;

	pthread_mutex_lock(&api.lock);
	api.start_ns = sl_now_ns();
	api.start_realtime_ns = sl_realtime_ns();
	memset(api.worker, 0, sizeof(api.worker));
	pthread_mutex_unlock(&api.lock);
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
		err = sl_http_route(http, "GET", routes[i].path, routes[i].handler, c);
		if (err)
			return err;
	}
	return sl_page_register(http);
}
