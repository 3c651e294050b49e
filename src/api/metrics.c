// SPDX-License-Identifier: Apache-2.0
/* metrics.c - metrics with their values, history and buckets. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"
#include "api/internal.h"
#include "api/merge.h"

#define POINTS_DEFAULT	1000
#define POINTS_MAX	10000
#define RAW_POINTS_MAX	262144 /* points read at once, before decimation: 4 MiB */
#define LAST_DEFAULT_NS 10000000000ull
/* label "service" of the metrics that 'sidelight agent --host' publishes */
#define HOST_SERVICE "host"

/* Metrics */

static uint64_t bucket_count(const struct region_metric *m, const uint64_t *buckets)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < m->bucket_count; i++)
		count += buckets[i];
	return count;
}

static void summary_json(struct base_json *j, const struct region_metric *m, const uint64_t *value)
{
	base_json_kbegin(j, "summary", '{');
	base_put(j, KV("count", value[SL_SUMMARY_COUNT]),
		 KV("sum", region_f64(value[SL_SUMMARY_SUM])));
	base_json_kbegin(j, "quantiles", '[');
	for (uint32_t i = 0; i < m->bound_count && !j->overflow; i++) {
		base_json_begin(j, '[');
		base_json_f64(j, m->bounds[i]);
		base_json_f64(j, region_f64(value[SL_SUMMARY_QUANTILES + i]));
		base_json_end(j, ']');
	}
	base_json_end(j, ']');
	base_json_end(j, '}');
}

static void value_json(struct base_json *j, const struct region_metric *m, const uint64_t *value)
{
	const uint64_t *buckets;

	switch (m->kind) {
	case SL_KIND_COUNTER:
		base_put(j, KV("value", value[0]));
		break;
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE_F64:
	case SL_KIND_UNKNOWN:
	case SL_KIND_GAUGE_TIMED:
		base_put(j, KV("value", region_f64(value[0])));
		break;
	case SL_KIND_GAUGE:
		base_put(j, KV("value", (int64_t)value[0]));
		break;
	case SL_KIND_SUMMARY:
		base_put(j, KV("value", value[SL_SUMMARY_COUNT]));
		summary_json(j, m, value);
		break;
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM_EXP:
		buckets = value + SL_HIST_BUCKETS;
		base_put(j, KV("value", bucket_count(m, buckets)));
		base_put_object(j, "histogram", KV_BOOL("exponential", region_is_exponential(m)),
				KV("count", bucket_count(m, buckets)),
				KV("sum", region_f64(value[SL_HIST_SUM])),
				KV("refused", value[SL_HIST_REFUSED]),
				KV_QUANTILE("p50", collect_quantile(m, buckets, 0.5)),
				KV_QUANTILE("p90", collect_quantile(m, buckets, 0.9)),
				KV_QUANTILE("p99", collect_quantile(m, buckets, 0.99)));
		break;
	case SL_KIND_INFO:
		base_put(j, KV("value", 1u));
		break;
	case SL_KIND_STATESET:
		base_put(j, KV("value", value[0]));
		base_json_kbegin(j, "states", '{');
		for (uint32_t i = 0; i < m->state_count; i++)
			base_put(j, KV_BOOL(m->states[i], value[0] >> i & 1));
		base_json_end(j, '}');
		break;
	}
}

/* Collects the regions first, and reads their metrics after the walk, which may hold a lock. */
struct metrics_walk {
	struct api_list list;
	struct collect_terms terms;
	const char *kind, *pod;
	uint64_t pod_instance;
	bool pod_is_instance;
	/* IDs of the requested series; list no others */
	struct collect_series_id ids[API_SERIES_MAX];
	int id_count;
	bool no_memory;
	bool changing;	   /* list only metrics that changed in the last minute */
	bool applications; /* leave out the metrics of Sidelight, of hosts and of runtimes */
	uint64_t own;	   /* number of metrics left out because `applications` is set */
	/* per metric of the current region: true if unchanged; NULL means all count as changed */
	bool *still;
	size_t stills;
	uint64_t unchanged; /* number of metrics left out because they are unchanged */

	struct noted {
		uint64_t instance, metrics;
		uint32_t found; /* bit mask of the terms that match the region's labels */
		bool last;	/* an agent's own region, or that of a host */
		bool used;	/* true if one of its metrics is in the response */
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
	    strcmp(walk->pod, region_label(r->info, "pod")))
		return;
	if (!BASE_GROW(walk->region, walk->regions, walk->capacity)) {
		walk->no_memory = true;
		return;
	}
	walk->region[walk->regions++] = (struct noted){
		.instance = r->info->instance,
		.metrics = r->metrics,
		.found = api_region_terms(&walk->terms, r),
		.last = !strcmp(region_label(r->info, "service"), API_AGENT_SERVICE) ||
			!strcmp(region_label(r->info, "service"), HOST_SERVICE),
	};
}

static bool wanted_metric(const struct metrics_walk *walk, const struct region_metric *m)
{
	const struct noted *region = &walk->region[walk->at];
	uint32_t all = (1u << walk->terms.count) - 1;
	bool found = !walk->id_count;

	for (int i = 0; i < walk->id_count && !found; i++)
		found = walk->ids[i].instance == region->instance && walk->ids[i].metric == m->id;
	if (!found || (walk->kind && strcmp(walk->kind, region_kind_name(m->kind))))
		return false;
	return region->found == all ||
	       (region->found | collect_terms_in_text(&walk->terms, m->name) |
		collect_terms_in_labels(&walk->terms, m->labels, m->label_count)) == all;
}

/*
 * Returns true if a metric is unchanged. Kernel tables have no service; of their metrics, only
 * those that are still zero are known to be unchanged.
 */
static bool is_still(const struct metrics_walk *walk, const struct region_metric *m,
		     const uint64_t *value)
{
	if (walk->still && m->id < walk->stills && walk->still[m->id])
		return true;
	return m->kind != SL_KIND_INFO &&
	       !(region_is_histogram(m) ? bucket_count(m, value + SL_HIST_BUCKETS) : value[0]);
}

/* Returns true for a metric that says nothing about what an application does. */
static bool is_own(const char *name)
{
	static const char *const prefixes[] = {"sidelight_", "node_", "go_", "process_"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static void metric_json(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct metrics_walk *walk = arg;
	struct noted *region = &walk->region[walk->at];
	struct base_json *j = walk->list.j;
	char id[COLLECT_SERIES_ID_BYTES];

	if (!wanted_metric(walk, m))
		return;
	if (walk->applications && is_own(m->name)) {
		walk->own++;
		return;
	}
	if (walk->changing && is_still(walk, m, value)) {
		walk->unchanged++;
		return;
	}
	if (!api_item(&walk->list))
		return;
	collect_series_id_format((struct collect_series_id){region->instance, m->id}, id);
	base_put(j, KV("id", id), KV("name", m->name), KV("kind", region_kind_name(m->kind)),
		 KV("unit", m->unit), KV("help", m->help));
	api_labels(j, m->labels, m->label_count);
	value_json(j, m, value);
	api_item_end(&walk->list);
	region->used |= !walk->list.truncated;
}

/* Writes the pods of the listed metrics, by instance. Regions are sorted. */
static void metric_pod_json(const struct collect_region_view *r, void *arg)
{
	struct metrics_walk *walk = arg;
	struct noted key = {.instance = r->info->instance}, *region;
	struct base_json *j = walk->list.j;
	struct base_json_mark mark = base_json_mark(j);
	char instance[COLLECT_SERIES_ID_BYTES];

	region = bsearch(&key, walk->region, walk->regions, sizeof(key), base_by_u64);
	if (!region || !region->used)
		return;
	region->used = false;
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)key.instance);
	base_put_object(j, instance, KV("service", region_label(r->info, "service")),
			KV("namespace", region_label(r->info, "namespace")),
			KV("pod", region_label(r->info, "pod")),
			KV("unit", region_label(r->info, "unit")),
			KV("host", r->hostname ? r->hostname : ""), KV("pid", r->info->pid),
			KV("state", api_state_name(r)), KV_TIME("last_read", r->last_read_ns));
	if (j->overflow || j->max - j->len < 256) {
		base_json_back(j, mark);
		walk->list.truncated = true;
	}
}

static void region_metrics(struct collect_collector *c, const struct noted *region,
			   struct metrics_walk *walk)
{
	walk->stills = region->metrics;
	walk->still = walk->changing ? api_still(region->instance, walk->stills) : NULL;
	collect_collector_metrics(c, region->instance, metric_json, walk, NULL);
	free(walk->still);
	walk->still = NULL;
}

static void metrics_answer(struct http_request *req, struct collect_collector *c,
			   struct metrics_walk *walk)
{
	struct api_list *l = &walk->list;
	bool all = !walk->terms.count && !walk->kind && !walk->id_count && !walk->changing &&
		   !walk->applications;

	l->j = api_answer_begin(req);
	if (!l->j)
		return;
	base_json_kbegin(l->j, "metrics", '[');
	collect_collector_regions(c, note_region, walk);
	for (size_t i = 0; i < 2 * walk->regions; i++) {
		const struct noted *region = &walk->region[walk->at = i % walk->regions];

		if (!base_budget_spend(http_budget(req), 0))
			break;
		if (region->last != (i >= walk->regions))
			continue;
		/*
		 * If there is no filter, the number of metrics is known, so skip regions outside
		 * the page.
		 */
		if (all && (l->given >= l->limit || l->truncated ||
			    l->matching + region->metrics <= l->offset))
			l->matching += region->metrics;
		else
			region_metrics(c, region, walk);
	}
	base_json_end(l->j, ']');
	base_json_kbegin(l->j, "pods", '{');
	if (l->given) {
		qsort(walk->region, walk->regions, sizeof(*walk->region), base_by_u64);
		collect_collector_regions(c, metric_pod_json, walk);
	}
	base_json_end(l->j, '}');
	base_put(l->j, KV("matching", l->matching), KV("offset", l->offset),
		 KV("truncated", l->truncated));
	if (walk->changing)
		base_put(l->j, KV("unchanged", walk->unchanged));
	if (walk->applications)
		base_put(l->j, KV("own", walk->own));
	if (walk->no_memory) {
		l->j->overflow = true;
		base_log_limited(BASE_ERROR, "api", "out of memory endpoint=metrics regions=%zu",
				 walk->regions);
	}
	api_answer_end(req, l->j);
}

void api_get_metrics(struct http_request *req, void *arg)
{
	static const char *const kinds[] = {"counter", "gauge", "histogram", "info", "stateset"};
	uint64_t changing = 0, applications = 0;
	int kind = -1;
	struct metrics_walk walk = {
		.list.limit = API_LIMIT_DEFAULT,
		.pod = api_param_text(req, "pod"),
	};

	if (!api_param_page(req, API_LIMIT_MAX, &walk.list) || !api_param_terms(req, &walk.terms))
		return;
	if (!api_param_u64(req, "changing", 0, 1, &changing) ||
	    !api_param_u64(req, "applications", 0, 1, &applications))
		return;
	walk.changing = changing;
	walk.applications = applications;
	walk.id_count = api_param_series(req, walk.ids, false);
	if (walk.id_count < 0 || !api_param_choice(req, "kind", kinds, 5, &kind))
		return;
	walk.kind = kind < 0 ? NULL : kinds[kind];
	walk.pod_is_instance = walk.pod && !collect_instance_parse(walk.pod, strlen(walk.pod),
								   &walk.pod_instance);
	metrics_answer(req, arg, &walk);
	free(walk.region);
}

/* Single metrics, by ID */

static void buckets_json(struct base_json *j, const struct region_metric *m, const uint64_t *value)
{
	const uint64_t *bucket = value + SL_HIST_BUCKETS;
	struct api_shape shape;

	if (!region_is_histogram(m)) {
		base_put(j, KV("error", "not a histogram"));
		return;
	}
	value_json(j, m, value);
	j->overflow |= api_shape_of(&shape, m) != 0;
	base_json_kbegin(j, "buckets", '[');
	for (uint32_t i = 0; i < m->bucket_count && !j->overflow; i++) {
		if (!bucket[i])
			continue;
		base_json_begin(j, '[');
		base_json_f64(j, api_shape_low(&shape, i));
		base_json_f64(j, api_shape_high(&shape, i));
		base_json_u64(j, bucket[i]);
		base_json_end(j, ']');
	}
	base_json_end(j, ']');
	api_shape_free(&shape);
}

struct one_metric {
	struct base_json *j;
	bool with_buckets;
};

static void one_metric_json(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct one_metric *one = arg;
	struct base_json *j = one->j;

	base_put(j, KV("name", m->name), KV("kind", region_kind_name(m->kind)),
		 KV("unit", m->unit));
	api_labels(j, m->labels, m->label_count);
	if (one->with_buckets && value)
		buckets_json(j, m, value);
	else if (one->with_buckets)
		base_put(j, KV("error", "the publisher has ended"));
}

/* Describes a metric. Returns false if the ID is unknown. */
static bool describe_metric(struct base_json *j, struct collect_collector *c,
			    struct collect_series_id id, bool with_buckets)
{
	struct one_metric one = {.j = j, .with_buckets = with_buckets};

	return !collect_collector_metric(c, id.instance, id.metric, one_metric_json, &one);
}

/*
 * Writes "series" with one object per ID, and ends the response; the status is 404 if all IDs are
 * unknown. series() writes the members after the ID, and returns false for an unknown ID.
 */
static void series_answer(struct http_request *req, struct collect_collector *c,
			  struct base_json *j, const struct collect_series_id *ids, int count,
			  bool (*series)(struct base_json *j, struct collect_collector *c,
					 struct collect_series_id id, void *arg),
			  void *arg)
{
	struct api_list l = {.j = j, .limit = UINT64_MAX};
	char text[COLLECT_SERIES_ID_BYTES];
	int found = 0;

	base_json_kbegin(l.j, "series", '[');
	for (int i = 0; i < count && api_item(&l); i++) {
		collect_series_id_format(ids[i], text);
		base_put(l.j, KV("id", text));
		if (series(l.j, c, ids[i], arg))
			found++;
		else
			base_put(l.j, KV("error", "no such series"));
		api_item_end(&l);
	}
	base_json_end(l.j, ']');
	base_put(l.j, KV("truncated", l.truncated));
	if (found || l.truncated) {
		api_answer_end(req, j);
		return;
	}
	api_drop(j);
	http_reply_error(req, 404, "no such series: %.200s", http_query(req, "series"));
}

/* History */

struct history_query {
	struct api_range range;
	uint64_t max; /* maximum number of points per series */
	uint64_t begun_ns;
	struct base_budget *budget;
	struct collect_point *points; /* [RAW_POINTS_MAX + POINTS_MAX] */
	struct collect_point *kept;   /* [POINTS_MAX] */

	/* Results for the current series. */
	uint64_t recorded;
	bool clipped; /* true if the oldest points are missing because the time was used up */
};

/*
 * Reads a range in pieces, newest first. Each piece is decimated together with the remaining points
 * of the newer pieces; the extremes of a step do not depend on the order. Returns the number of
 * points, or -ENOENT.
 */
static ssize_t read_range(struct collect_collector *c, struct collect_series_id id,
			  struct history_query *q)
{
	const struct collect_series_ref of = {.instance = id.instance, .metric = id.metric};
	struct collect_point *points = q->points, *kept = q->kept;
	int64_t to_ns = q->range.to_ns;
	size_t held = 0;
	ssize_t raw;

	q->recorded = 0;
	q->clipped = false;
	for (;;) {
		size_t n;

		raw = collect_collector_points(c, &of, INT64_MAX, q->range.from_ns, to_ns, points,
					       RAW_POINTS_MAX, q->budget);
		if (raw < 0)
			return raw;
		for (n = (size_t)raw; n && points[n - 1].ns > to_ns;)
			n--;
		q->recorded += n;
		memcpy(points + n, kept, held * sizeof(*kept));
		to_ns = n ? points[0].ns - 1 : to_ns;
		n += held;
		if (q->recorded > q->max)
			n = collect_decimate(points, n, q->range.from_ns, q->range.to_ns, q->max);
		q->clipped = raw == RAW_POINTS_MAX && api_is_late(q->begun_ns);
		if (raw < RAW_POINTS_MAX || q->clipped)
			return (ssize_t)n;
		held = n;
		memcpy(kept, points, held * sizeof(*kept));
	}
}

/* Writes one series. Returns false if there is no such series. */
static bool history_json(struct base_json *j, struct collect_collector *c,
			 struct collect_series_id id, void *arg)
{
	struct history_query *q = arg;
	const struct collect_point *points = q->points;
	ssize_t read = -ENOENT;
	size_t n;

	if (describe_metric(j, c, id, false))
		read = read_range(c, id, q);
	if (read < 0)
		return false;
	n = (size_t)read;
	base_put(j, KV("recorded", q->recorded), KV_BOOL("clipped", q->clipped),
		 KV_BOOL("decimated", q->recorded > q->max));
	base_put(j, KV("points", n));
	base_json_kbegin(j, "t", '[');
	for (size_t i = 0; i < n && !j->overflow; i++)
		base_json_time(j, points[i].ns);
	base_json_end(j, ']');
	base_json_kbegin(j, "v", '[');
	for (size_t i = 0; i < n && !j->overflow; i++)
		base_json_f64(j, points[i].value);
	base_json_end(j, ']');
	return true;
}

void api_get_history(struct http_request *req, void *arg)
{
	struct collect_series_id ids[API_SERIES_MAX];
	int count = api_param_series(req, ids, true);
	struct history_query q = {
		.begun_ns = base_now_ns(), .budget = http_budget(req), .max = POINTS_DEFAULT};
	struct base_json *j;

	if (count < 0 || !api_param_u64(req, "points", COLLECT_DECIMATE_MIN, POINTS_MAX, &q.max) ||
	    !api_param_range(req, LAST_DEFAULT_NS, &q.range))
		return;
	q.points = api_alloc(req, (RAW_POINTS_MAX + 2 * POINTS_MAX) * sizeof(*q.points));
	q.kept = q.points ? q.points + RAW_POINTS_MAX + POINTS_MAX : NULL;
	j = q.points ? api_answer(req) : NULL;
	if (j) {
		base_put(j, KV_TIME("from", q.range.from_ns), KV_TIME("to", q.range.to_ns));
		series_answer(req, arg, j, ids, count, history_json, &q);
	}
	free(q.points);
}

/* Buckets of histograms */

static bool series_buckets(struct base_json *j, struct collect_collector *c,
			   struct collect_series_id id, void *arg)
{
	(void)arg;
	return describe_metric(j, c, id, true);
}

void api_get_buckets(struct http_request *req, void *arg)
{
	struct collect_series_id ids[API_SERIES_MAX];
	int count = api_param_series(req, ids, true);
	struct base_json *j = count < 0 ? NULL : api_answer_begin(req);

	if (j)
		series_answer(req, arg, j, ids, count, series_buckets, NULL);
}
