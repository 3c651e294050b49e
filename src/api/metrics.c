// SPDX-License-Identifier: Apache-2.0
/* metrics.c - metrics with their values, their history and their buckets. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/calc.h"
#include "api/internal.h"
#include "collect/collect.h"

#define POINTS_DEFAULT	1000
#define POINTS_MAX	10000
#define RAW_POINTS_MAX	262144 /* per series, before decimation: 4 MiB */
#define LAST_DEFAULT_NS 10000000000ull
#define LAST_MAX_NS	86400000000000ull

/* ---- metrics ---- */

static const char *const kind_names[] = {"counter", "gauge", "histogram", "info", "stateset"};

static double as_f64(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static double histogram_quantile(const struct region_metric *m, const uint64_t *buckets, double q)
{
	if (m->kind == SL_KIND_HISTOGRAM)
		return collect_quantile_classic(buckets, m->bounds, m->bound_count, q);
	return collect_quantile_exponential(buckets, m->bucket_count, m->scale, m->first_bucket,
					    m->zero_threshold, q);
}

static uint64_t bucket_count(const struct region_metric *m, const uint64_t *buckets)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < m->bucket_count; i++)
		count += buckets[i];
	return count;
}

static void value_json(struct base_json *j, const struct region_metric *m, const uint64_t *value)
{
	const uint64_t *buckets;

	switch (m->kind) {
	case SL_KIND_COUNTER:
		base_json_ku64(j, "value", value[0]);
		break;
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE_F64:
		base_json_kf64(j, "value", as_f64(value[0]));
		break;
	case SL_KIND_GAUGE:
		base_json_key(j, "value");
		base_json_i64(j, (int64_t)value[0]);
		break;
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_HISTOGRAM:
		buckets = value + SL_HIST_BUCKETS;
		base_json_ku64(j, "value", bucket_count(m, buckets));
		base_json_kbegin(j, "histogram", '{');
		base_json_kbool(j, "exponential", m->kind == SL_KIND_HISTOGRAM_EXP);
		base_json_ku64(j, "count", bucket_count(m, buckets));
		base_json_kf64(j, "sum", as_f64(value[SL_HIST_SUM]));
		base_json_ku64(j, "refused", value[SL_HIST_REFUSED]);
		api_quantile(j, "p50", histogram_quantile(m, buckets, 0.5));
		api_quantile(j, "p90", histogram_quantile(m, buckets, 0.9));
		api_quantile(j, "p99", histogram_quantile(m, buckets, 0.99));
		base_json_end(j, '}');
		break;
	case SL_KIND_INFO:
		base_json_ku64(j, "value", 1);
		break;
	case SL_KIND_STATESET:
		base_json_ku64(j, "value", value[0]);
		base_json_kbegin(j, "states", '{');
		for (uint32_t i = 0; i < m->state_count; i++)
			base_json_kbool(j, m->states[i], value[0] >> i & 1);
		base_json_end(j, '}');
		break;
	}
}

/* Collects regions first and reads their metrics after the walk, which may hold a lock. */
struct metrics_walk {
	struct base_json *j;
	const struct collect_terms *terms;
	const char *kind, *pod;
	uint64_t pod_instance;
	bool pod_is_instance;
	const struct collect_series_id *ids; /* only these */
	int id_count;
	uint64_t offset, limit, matching, given;
	bool truncated, no_memory;

	struct noted {
		uint64_t instance, metrics;
		uint32_t found; /* terms that the region's labels match */
		bool agent;	/* an agent's own region: listed last */
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

static void note_region(const struct collect_region_view *r, void *arg)
{
	struct metrics_walk *walk = arg;

	if (!wanted_instance(walk, r->info->instance))
		return;
	if (walk->pod && !(walk->pod_is_instance && walk->pod_instance == r->info->instance) &&
	    strcmp(walk->pod, api_label_of(r->info, "pod")))
		return;
	if (!BASE_GROW(walk->region, walk->regions, walk->capacity)) {
		walk->no_memory = true;
		return;
	}
	walk->region[walk->regions++] = (struct noted){
		.instance = r->info->instance,
		.metrics = r->metrics,
		.found = api_region_terms(walk->terms, r),
		.agent = !strcmp(api_label_of(r->info, "service"), API_AGENT_SERVICE),
	};
}

static bool wanted_metric(const struct metrics_walk *walk, const struct region_metric *m)
{
	const struct noted *region = &walk->region[walk->at];
	uint32_t all = (1u << walk->terms->count) - 1;
	bool found = !walk->id_count;

	for (int i = 0; i < walk->id_count && !found; i++)
		found = walk->ids[i].instance == region->instance && walk->ids[i].metric == m->id;
	if (!found || (walk->kind && strcmp(walk->kind, region_kind_name(m->kind))))
		return false;
	return region->found == all ||
	       (region->found | collect_terms_in_text(walk->terms, m->name) |
		collect_terms_in_labels(walk->terms, m->labels, m->label_count)) == all;
}

static void metric_json(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct metrics_walk *walk = arg;
	struct noted *region = &walk->region[walk->at];
	struct base_json *j = walk->j;
	struct base_json_mark mark;
	char id[COLLECT_SERIES_ID_BYTES];

	if (!wanted_metric(walk, m))
		return;
	if (walk->matching++ < walk->offset || walk->given >= walk->limit || walk->truncated)
		return;
	mark = base_json_mark(j);
	collect_series_id_format((struct collect_series_id){region->instance, m->id}, id);
	base_json_begin(j, '{');
	base_json_kstring(j, "id", id);
	base_json_kstring(j, "name", m->name);
	base_json_kstring(j, "kind", region_kind_name(m->kind));
	base_json_kstring(j, "unit", m->unit);
	base_json_kstring(j, "help", m->help);
	api_labels(j, m->labels, m->label_count);
	value_json(j, m, value);
	base_json_end(j, '}');
	walk->truncated = !api_fits(j, mark);
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

/* The pods of the listed metrics, by instance. Regions are sorted. */
static void metric_pod_json(const struct collect_region_view *r, void *arg)
{
	struct metrics_walk *walk = arg;
	struct noted key = {.instance = r->info->instance}, *region;
	struct base_json *j = walk->j;
	struct base_json_mark mark = base_json_mark(j);
	char instance[COLLECT_SERIES_ID_BYTES];

	region = bsearch(&key, walk->region, walk->regions, sizeof(key), by_instance);
	if (!region || !region->used)
		return;
	region->used = false;
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)r->info->instance);
	base_json_kbegin(j, instance, '{');
	base_json_kstring(j, "service", api_label_of(r->info, "service"));
	base_json_kstring(j, "pod", api_label_of(r->info, "pod"));
	base_json_kstring(j, "unit", api_label_of(r->info, "unit"));
	base_json_kstring(j, "host", r->hostname ? r->hostname : "");
	base_json_ku64(j, "pid", r->info->pid);
	base_json_kstring(j, "state", api_state_name(r));
	api_time(j, "last_read", r->last_read_ns);
	base_json_end(j, '}');
	if (j->overflow || j->max - j->len < 256) {
		base_json_back(j, mark);
		walk->truncated = true;
	}
}

static void metrics_answer(struct http_request *req, struct collect_collector *c,
			   struct metrics_walk *walk)
{
	struct api_answer *a = api_answer(req);
	struct base_json *j;
	bool all = !walk->terms->count && !walk->kind && !walk->id_count;

	if (!a)
		return;
	j = walk->j = &a->json;
	base_json_begin(j, '{');
	base_json_ktime(j, "time", (int64_t)base_realtime_ns());
	base_json_kbegin(j, "metrics", '[');
	collect_collector_regions(c, note_region, walk);
	for (size_t i = 0; i < 2 * walk->regions; i++) {
		const struct noted *region = &walk->region[walk->at = i % walk->regions];

		if (region->agent != (i >= walk->regions))
			continue;
		/* Without a filter the number is known: skip what is not shown. */
		if (all && (walk->given >= walk->limit || walk->truncated ||
			    walk->matching + region->metrics <= walk->offset))
			walk->matching += region->metrics;
		else
			collect_collector_metrics(c, region->instance, metric_json, walk);
	}
	base_json_end(j, ']');
	base_json_kbegin(j, "pods", '{');
	if (walk->given) {
		qsort(walk->region, walk->regions, sizeof(*walk->region), by_instance);
		collect_collector_regions(c, metric_pod_json, walk);
	}
	base_json_end(j, '}');
	base_json_ku64(j, "matching", walk->matching);
	base_json_ku64(j, "offset", walk->offset);
	base_json_kbool(j, "truncated", walk->truncated);
	base_json_end(j, '}');
	if (walk->no_memory) {
		j->overflow = true;
		base_log_limited(BASE_ERROR, "api", "out of memory endpoint=metrics regions=%zu",
				 walk->regions);
	}
	api_send(req, a);
}

void api_get_metrics(struct http_request *req, void *arg)
{
	struct collect_series_id ids[API_SERIES_MAX];
	struct collect_terms terms;
	struct metrics_walk walk = {
		.terms = &terms,
		.kind = http_query(req, "kind"),
		.pod = http_query(req, "pod"),
		.ids = ids,
		.limit = API_LIMIT_DEFAULT,
	};
	bool known = false;

	if (!api_param_u64(req, "limit", 0, API_LIMIT_MAX, &walk.limit) ||
	    !api_param_u64(req, "offset", 0, UINT32_MAX, &walk.offset) ||
	    !api_param_terms(req, &terms))
		return;
	walk.id_count = api_param_series(req, ids, false);
	if (walk.id_count < 0)
		return;
	if (walk.kind && !*walk.kind)
		walk.kind = NULL;
	if (walk.pod && !*walk.pod)
		walk.pod = NULL;
	for (size_t i = 0; i < sizeof(kind_names) / sizeof(*kind_names); i++)
		known |= walk.kind && !strcmp(walk.kind, kind_names[i]);
	if (walk.kind && !known) {
		http_reply_error(req, 400,
				 "kind=%.40s: not one of counter, gauge, histogram, info, stateset",
				 walk.kind);
		return;
	}
	walk.pod_is_instance = walk.pod && !collect_instance_parse(walk.pod, strlen(walk.pod),
								   &walk.pod_instance);
	metrics_answer(req, arg, &walk);
	free(walk.region);
}

/* ---- one metric, by id ---- */

struct find_walk {
	uint32_t metric;
	bool found;
	void (*fn)(const struct region_metric *m, const uint64_t *value, void *arg);
	void *arg;
};

static void find_metric(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct find_walk *find = arg;

	if (m->id != find->metric || find->found)
		return;
	find->found = true;
	find->fn(m, value, find->arg);
}

/* Calls fn with the metric; false if there is none with this ID. */
static bool with_metric(struct collect_collector *c, struct collect_series_id id,
			void (*fn)(const struct region_metric *, const uint64_t *, void *),
			void *arg)
{
	struct find_walk find = {.metric = id.metric, .fn = fn, .arg = arg};

	return !collect_collector_metrics(c, id.instance, find_metric, &find) && find.found;
}

static void describe_json(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct base_json *j = arg;

	(void)value;
	base_json_kstring(j, "name", m->name);
	base_json_kstring(j, "kind", region_kind_name(m->kind));
	base_json_kstring(j, "unit", m->unit);
	api_labels(j, m->labels, m->label_count);
}

/* ---- history ---- */

/* Writes one series; false if it does not fit. */
static bool history_json(struct base_json *j, struct collect_collector *c,
			 struct collect_series_id id, int64_t from_ns, int64_t to_ns, size_t max,
			 struct collect_point *points, int *found)
{
	struct base_json_mark mark = base_json_mark(j);
	char text[COLLECT_SERIES_ID_BYTES];
	ssize_t raw = -ENOENT;
	size_t n;

	collect_series_id_format(id, text);
	base_json_begin(j, '{');
	base_json_kstring(j, "id", text);
	if (with_metric(c, id, describe_json, j))
		raw = collect_collector_history(c, id.instance, id.metric, from_ns, INT64_MAX,
						points, RAW_POINTS_MAX);
	if (raw < 0) {
		base_json_kstring(j, "error", "no such series");
		base_json_end(j, '}');
		return api_fits(j, mark);
	}
	(*found)++;
	/* Points read after to_ns belong to the next query. */
	for (n = (size_t)raw; n && points[n - 1].ns > to_ns;)
		n--;
	base_json_ku64(j, "recorded", n);
	base_json_kbool(j, "clipped", raw == RAW_POINTS_MAX);
	base_json_kbool(j, "decimated", n > max);
	n = collect_decimate(points, n, from_ns, to_ns, max);
	base_json_ku64(j, "points", n);
	base_json_kbegin(j, "t", '[');
	for (size_t i = 0; i < n && !j->overflow; i++)
		base_json_time(j, points[i].ns);
	base_json_end(j, ']');
	base_json_kbegin(j, "v", '[');
	for (size_t i = 0; i < n && !j->overflow; i++)
		base_json_f64(j, points[i].value);
	base_json_end(j, ']');
	base_json_end(j, '}');
	return api_fits(j, mark);
}

void api_get_history(struct http_request *req, void *arg)
{
	struct collect_series_id ids[API_SERIES_MAX];
	int count = api_param_series(req, ids, true), found = 0;
	uint64_t points = POINTS_DEFAULT, last_ns = LAST_DEFAULT_NS;
	const char *last = http_query(req, "last");
	int64_t to_ns = (int64_t)base_realtime_ns(), from_ns;
	struct collect_point *buffer;
	struct api_answer *a;
	bool fits = true;

	if (count < 0 || !api_param_u64(req, "points", COLLECT_DECIMATE_MIN, POINTS_MAX, &points))
		return;
	if (last && *last &&
	    (base_parse_duration(last, &last_ns) || !last_ns || last_ns > LAST_MAX_NS)) {
		http_reply_error(req, 400,
				 "last=%.40s: not a duration up to 24h, as in 500ms, 10s, 5m",
				 last);
		return;
	}
	a = api_answer(req);
	if (!a)
		return;
	buffer = malloc(RAW_POINTS_MAX * sizeof(*buffer));
	if (!buffer) {
		/* api_send() turns an overflow into a 503. */
		a->json.overflow = true;
		api_send(req, a);
		return;
	}
	from_ns = to_ns - (int64_t)last_ns;
	base_json_begin(&a->json, '{');
	base_json_ktime(&a->json, "from", from_ns);
	base_json_ktime(&a->json, "to", to_ns);
	base_json_kbegin(&a->json, "series", '[');
	for (int i = 0; i < count && fits; i++)
		fits = history_json(&a->json, arg, ids[i], from_ns, to_ns, points, buffer, &found);
	free(buffer);
	base_json_end(&a->json, ']');
	base_json_kbool(&a->json, "truncated", !fits);
	base_json_end(&a->json, '}');
	if (!found && fits) {
		api_not_found(req, a);
		return;
	}
	api_send(req, a);
}

/* ---- buckets of histograms ---- */

static void bucket_json(struct base_json *j, double low, double high, uint64_t count)
{
	if (!count)
		return;
	base_json_begin(j, '[');
	base_json_f64(j, low);
	base_json_f64(j, high);
	base_json_u64(j, count);
	base_json_end(j, ']');
}

static void buckets_json(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct base_json *j = arg;
	const uint64_t *bucket = value + SL_HIST_BUCKETS;

	describe_json(m, value, j);
	if (m->kind != SL_KIND_HISTOGRAM && m->kind != SL_KIND_HISTOGRAM_EXP) {
		base_json_kstring(j, "error", "not a histogram");
		return;
	}
	value_json(j, m, value);
	base_json_kbegin(j, "buckets", '[');
	for (uint32_t i = 0; i < m->bucket_count && !j->overflow; i++) {
		double low, high;

		if (m->kind == SL_KIND_HISTOGRAM) {
			low = i ? m->bounds[i - 1] : -INFINITY;
			if (!i && m->bound_count && m->bounds[0] > 0)
				low = 0;
			high = i < m->bound_count ? m->bounds[i] : INFINITY;
		} else {
			double index = (double)m->first_bucket + (double)i - 1;

			low = i ? collect_exponential_bound(m->scale, index - 1) : 0;
			high = i ? collect_exponential_bound(m->scale, index) : m->zero_threshold;
			if (i == m->bucket_count - 1)
				high = INFINITY;
		}
		bucket_json(j, low, high, bucket[i]);
	}
	base_json_end(j, ']');
}

void api_get_buckets(struct http_request *req, void *arg)
{
	struct collect_series_id ids[API_SERIES_MAX];
	int count = api_param_series(req, ids, true), found = 0;
	char text[COLLECT_SERIES_ID_BYTES];
	struct api_answer *a;
	bool fits = true;

	if (count < 0)
		return;
	a = api_answer(req);
	if (!a)
		return;
	base_json_begin(&a->json, '{');
	base_json_ktime(&a->json, "time", (int64_t)base_realtime_ns());
	base_json_kbegin(&a->json, "series", '[');
	for (int i = 0; i < count && fits; i++) {
		struct base_json_mark mark = base_json_mark(&a->json);

		collect_series_id_format(ids[i], text);
		base_json_begin(&a->json, '{');
		base_json_kstring(&a->json, "id", text);
		if (with_metric(arg, ids[i], buckets_json, &a->json))
			found++;
		else
			base_json_kstring(&a->json, "error", "no such series");
		base_json_end(&a->json, '}');
		fits = api_fits(&a->json, mark);
	}
	base_json_end(&a->json, ']');
	base_json_kbool(&a->json, "truncated", !fits);
	base_json_end(&a->json, '}');
	if (!found && fits) {
		api_not_found(req, a);
		return;
	}
	api_send(req, a);
}
