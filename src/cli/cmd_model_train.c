// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_model_train.c - sidelight model train: trains models of services from a long-term store with
 * Prometheus' query API, so that a new collector can judge the services from the first row on.
 *
 * Stores typically have a value every half minute, but a collector judges a row per second, and
 * counts and quantiles vary more over a second than over a minute. Therefore each interval of the
 * store becomes one row that represents a single step of the collector: the number of events in it
 * is drawn from a Poisson distribution with the interval's mean, also for each bucket of a
 * histogram. Other counters, such as CPU seconds and bytes, are left out, because their variation
 * within an interval is not known.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/role.h"
#include "cli/common/common.h"
#include "collect/judge/models.h"

#define SERIES_MAX  20000u  /* maximum number of series per service */
#define PODS_MAX    32u	    /* maximum number of pods that are merged into a model */
#define SAMPLES_MAX 200000u /* samples per response, which takes about 50 MiB of memory */
#define COLUMNS_MIN 64u	    /* same as in the collector, which adds 50 % for new metrics */
#define COLUMNS_MAX 512u
#define WARM_ROWS   60u /* the collector's warm-up, in steps of a second */
/* mean from which a normal distribution approximates the Poisson distribution */
#define NORMAL_FROM 50.0
#define TIMEOUT_MS  60000l
#define PATH_MOST   1000u /* maximum size of a URL, limited by cli_http() */
#define HOUR_S	    3600
#define WEEK_S	    (7 * 24 * HOUR_S)

enum train_kind { GAUGE, COUNTER, SUM, BUCKET };

/* Series are sorted by pod, metric, kind and bound, so that the series of a metric are adjacent. */
struct train_series {
	const json_t *labels; /* all of them */
	char *metric; /* name without a histogram's suffix, followed by the metric's own labels */
	size_t name;  /* length of the name in .metric */
	enum train_kind kind;
	uint32_t pod;
	uint32_t group;	 /* in a metric's first series: number of the metric's series */
	uint32_t column; /* in a metric's first series: first column, or ANALYSE_NONE if left out */
	double bound;	 /* upper bound of a bucket */
	double before;	 /* previous value; NaN if not known */
	double *value;	 /* values of the response being learned, one per time */
};

struct train_pod {
	char name[512];
	json_t *common; /* labels that all of its series share: these are the pod's own */
	struct analyse_pipeline *pipeline;
	struct analyse_column *column;
	double *total, *row;	      /* per column: number of events so far; value in the row */
	uint32_t columns, first, end; /* series [first, end) */
	uint64_t rows;
	bool gap;  /* rows have been left out since the last learned row */
	bool warm; /* the pod is still in the warm-up */
};

struct train {
	const char *service;
	json_t *listed, *index; /* the store's list of series; their indices by labels */
	struct train_series *series;
	uint32_t count, pods;
	/* number of counters without a column; number of series of pods beyond PODS_MAX */
	uint32_t left_out, others;
	struct train_pod pod[PODS_MAX];
	unsigned short random[3]; /* for erand48() */
};

static struct {
	const char *from, *out, *token_file, *config, *detector;
	struct base_strings services;
	double days;
	uint64_t every_ns, step_ns;
	bool this_hour;
	char *token;
	/* time in seconds since 1970; interval of the store's values in seconds */
	int64_t now, every;
} set = {.days = 7, .every_ns = 60000000000, .step_ns = 1000000000};

#define FAIL(...) base_failure(&cli_cmd_model_train, __VA_ARGS__)

/* ---- requests ---- */

static void put_encoded(FILE *f, const char *text)
{
	for (; *text; text++)
		fprintf(f, strchr("\"\\", *text) ? "%%5C%%%02X" : "%%%02X", (uint8_t)*text);
}

/* Returns the member `data` of an answer, or NULL after printing an error. */
static json_t *ask_store(const char *path, const char *match, const char *service, int64_t from,
			 int64_t to)
{
	char *text = NULL, why[256] = "out of memory";
	struct cli_request r = {
		.at = set.from, .token = set.token, .config = set.config, .timeout_ms = TIMEOUT_MS};
	json_t *j = NULL, *data;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	long status = 0;

	if (f) {
		/* Leave out Sidelight's own metrics about the service. */
		fprintf(f, "/api/v1/%s=%%7B__name__%%21~%%22sidelight_.%%2A%%22,service%%3D%%22",
			path);
		put_encoded(f, service);
		fprintf(f, "%%22%%7D&start=%lld&end=%lld&%s", (long long)from, (long long)to,
			match);
		fclose(f);
		r.path = text;
		if (text && strlen(text) + strlen(set.from) > PATH_MOST)
			snprintf(why, sizeof(why), "the service's name is too long");
		else if (text)
			j = cli_http(&r, &status, why, sizeof(why));
	}
	data = json_incref(json_object_get(j, "data"));
	if (status && (status != 200 || !data)) {
		snprintf(why, sizeof(why), "HTTP status %ld: %.200s", status,
			 status == 401 || status == 403 ? "give --token-file or --http-config"
			 : *cli_json_text(j, "error")	? cli_json_text(j, "error")
							: "not a response of Prometheus' API");
		json_decref(data);
		data = NULL;
	}
	if (!data)
		FAIL("%s: %s", set.from, why);
	json_decref(j);
	free(text);
	return data;
}

/* ---- series and metrics ---- */

/* Returns the index of the series' pod, or PODS_MAX if there are too many pods. */
static uint32_t find_pod(struct train *t, const json_t *labels)
{
	struct train_pod *p = t->pod;
	char name[sizeof(p->name)];
	const char *key;
	json_t *value;
	void *next;

	snprintf(name, sizeof(name), "%s/%s/%s", cli_json_text(labels, "host"),
		 cli_json_text(labels, "pod"), cli_json_text(labels, "process"));
	while (p < t->pod + t->pods && strcmp(p->name, name))
		p++;
	if (p == t->pod + PODS_MAX)
		return PODS_MAX;
	if (p == t->pod + t->pods) {
		t->pods++;
		memcpy(p->name, name, sizeof(name));
		p->common = json_copy((json_t *)(uintptr_t)labels);
		p->gap = p->warm = true;
	}
	json_object_foreach_safe(p->common, next, key, value)
	{
		if (!json_equal(value, json_object_get(labels, key)))
			json_object_del(p->common, key);
	}
	return (uint32_t)(p - t->pod);
}

static bool ends_with(const char *text, size_t n, const char *end)
{
	return n > strlen(end) && !memcmp(text + n - strlen(end), end, strlen(end));
}

/* Names the metric like the collector: by its name and its own labels. */
static bool name_metric(const struct train *t, struct train_series *s)
{
	const char *key, *name = cli_json_text(s->labels, "__name__"), *before = "{";
	size_t n = strlen(name), bytes;
	FILE *f = open_memstream(&s->metric, &bytes);
	json_t *value;

	if (!f)
		return false;
	s->before = (double)NAN;
	s->bound = strtod(cli_json_text(s->labels, "le"), NULL);
	s->kind = ends_with(name, n, "_bucket")	 ? BUCKET
		  : ends_with(name, n, "_sum")	 ? SUM
		  : ends_with(name, n, "_total") ? COUNTER
						 : GAUGE;
	s->name = n - (s->kind == BUCKET ? strlen("_bucket") : s->kind == SUM ? strlen("_sum") : 0);
	fprintf(f, "%.*s", (int)s->name, name);
	json_object_foreach((json_t *)(uintptr_t)s->labels, key, value)
	{
		if (!strcmp(key, "__name__") || !strcmp(key, "le") ||
		    json_object_get(t->pod[s->pod].common, key))
			continue;
		fprintf(f, "%s%s=\"%s\"", before, key, json_string_value(value) ?: "");
		before = ",";
	}
	fputs(*before == ',' ? "}" : "", f);
	return !fclose(f) && s->metric;
}

static int by_metric(const void *a, const void *b)
{
	const struct train_series *s = a, *u = b;

	return ((s->pod > u->pod) - (s->pod < u->pod)
			?: strcmp(s->metric, u->metric)
			?: (s->kind > u->kind) - (s->kind < u->kind))
		       ?: (s->bound > u->bound) - (s->bound < u->bound);
}

/*
 * True for counters that do not count events, and for sums and counts of histograms without
 * buckets.
 */
static bool is_left_out(const struct train_series *s)
{
	return s->kind == SUM || (s->kind == GAUGE && ends_with(s->metric, s->name, "_count")) ||
	       (s->kind == COUNTER &&
		(strstr(s->metric, "_bytes") || strstr(s->metric, "_seconds") ||
		 analyse_role_of(s->metric, true).kind == ANALYSE_ROLE_RESOURCE));
}

static bool add_column(struct train_pod *p, const struct train_series *s, const char *part,
		       bool counter)
{
	char *name;

	if (asprintf(&name, "%.*s%s%s", (int)s->name, s->metric, part, s->metric + s->name) < 0)
		return false;
	p->column[p->columns++] = (struct analyse_column){name, counter};
	return true;
}

/* Creates the columns of a pod: one per metric, three per histogram. */
static bool make_columns(struct train *t, struct train_pod *p)
{
	struct train_series *s = &t->series[p->first], *end = &t->series[p->end], *next;
	size_t most = 3 * (size_t)(end - s);
	bool good;

	p->column = calloc(most, sizeof(*p->column));
	p->total = calloc(2 * most, sizeof(*p->total));
	p->row = p->total + most;
	good = p->column && p->total;
	for (; s < end && good; s = next) {
		for (next = s + 1; next < end && !strcmp(next->metric, s->metric);)
			next++;
		s->group = (uint32_t)(next - s);
		s->column = p->columns;
		if (next[-1].kind == BUCKET) {
			good = add_column(p, s, "_count", true) &&
			       add_column(p, s, "_mean", false) && add_column(p, s, "_p90", false);
		} else if (is_left_out(s)) {
			s->column = ANALYSE_NONE;
			t->left_out += s->kind == COUNTER;
		} else {
			good = add_column(p, s, "", s->kind == COUNTER);
		}
	}
	return good;
}

/* Sorts the series, determines each pod's range, and builds the index. */
static bool arrange_series(struct train *t)
{
	bool good = true;

	for (uint32_t i = 0; i < t->count && good; i++)
		good = name_metric(t, &t->series[i]);
	if (good)
		qsort(t->series, t->count, sizeof(*t->series), by_metric);
	for (uint32_t i = 0; i < t->count && good; i++) {
		char *key = json_dumps(t->series[i].labels, JSON_SORT_KEYS | JSON_COMPACT);
		struct train_pod *p = &t->pod[t->series[i].pod];

		p->first = p->end ? p->first : i;
		p->end = i + 1;
		good = key && !json_object_set_new(t->index, key, json_integer((json_int_t)i));
		free(key);
	}
	return good;
}

static bool make_pipelines(struct train *t, const struct analyse_detector_ops *detector)
{
	/* rate_ns is not set, because gauges must not be smoothed over rows that are far apart. */
	struct analyse_pipeline_opts o = {
		.columns = COLUMNS_MIN, .step_ns = set.step_ns, .detector = detector};
	struct train_pod *end = t->pod + t->pods;

	for (struct train_pod *p = t->pod; p < end; p++) {
		if (!make_columns(t, p))
			return false;
		o.columns = BASE_MAX(o.columns, p->columns + p->columns / 2);
	}
	o.columns = BASE_MIN(o.columns, COLUMNS_MAX);
	for (struct train_pod *p = t->pod; p < end; p++) {
		p->pipeline = analyse_pipeline_create(&o);
		if (!p->pipeline)
			return false;
		analyse_pipeline_columns(p->pipeline, p->column, p->columns);
		analyse_pipeline_learning(p->pipeline, ANALYSE_LEARN_WARM);
	}
	return true;
}

/* Lists the service's series, and creates pipelines for its pods. */
static int list_series(struct train *t, const struct analyse_detector_ops *detector)
{
	const json_t *labels;
	size_t i, n;

	t->listed = ask_store("series?match%5B%5D", "limit=20001", t->service,
			      set.now - (int64_t)(set.days * 24 * HOUR_S), set.now);
	if (!t->listed)
		return BASE_EXIT_FAILURE;
	n = json_array_size(t->listed);
	if (!n || n > SERIES_MAX)
		return FAIL("%s: service %s has %s", set.from, t->service,
			    n ? "more than 20000 series" : "no series in these days");
	t->series = calloc(n, sizeof(*t->series));
	t->index = json_object();
	json_array_foreach(t->listed, i, labels)
	{
		uint32_t pod = t->series ? find_pod(t, labels) : PODS_MAX;

		t->others += pod == PODS_MAX;
		if (pod < PODS_MAX)
			t->series[t->count++] = (struct train_series){.labels = labels, .pod = pod};
	}
	if (!t->series || !t->index || !arrange_series(t) || !make_pipelines(t, detector))
		return FAIL("out of memory");
	return 0;
}

/* ---- rows ---- */

/* Draws the number of events in a step, given their number in an interval of the store. */
static double draw_events(struct train *t, double events)
{
	double mean = events * 1e-9 * (double)set.step_ns / (double)set.every, n = 0;
	double u = 1 - erand48(t->random);

	if (mean >= NORMAL_FROM) /* Box, Muller 1958 */
		return fmax(0, rint(mean +
				    sqrt(-2 * mean * log(u)) * cos(2 * M_PI * erand48(t->random))));
	for (double limit = exp(-mean); u > limit; n++) /* Knuth, TAOCP 2, 3.4.1 */
		u *= erand48(t->random);
	return n;
}

/* Returns the increase of a counter since its previous value; NaN if not known. */
static double take_increase(struct train_series *s, size_t i)
{
	double by = s->value[i] - s->before;

	s->before = s->value[i];
	return by >= 0 ? by : (double)NAN;
}

struct bucket {
	double low, high, drawn;
};

/* Interpolates linearly within the bucket. */
static double find_p90(const struct bucket *b, const struct bucket *last, double drawn)
{
	double left = 0.9 * drawn;

	for (; b < last && b->drawn < left; b++)
		left -= b->drawn;
	return isinf(b->high) ? b->low : b->low + (b->high - b->low) * left / b->drawn;
}

/*
 * The row's mean is the interval's mean, scaled by how much the draw changes the mean of the
 * buckets' middles.
 */
static void take_histogram(struct train *t, struct train_pod *p, struct train_series *s, size_t i)
{
	double *row = p->row + s->column, *total = p->total + s->column;
	struct train_series *end = s + s->group;
	struct bucket *b = calloc(s->group, sizeof(*b)), *at = b;
	double sum = s->kind == SUM ? take_increase(s++, i) : (double)NAN, by = (double)NAN;
	double low = fmin(0, s->bound), below = 0, drawn = 0, all = 0, mine = 0;

	for (; b && s < end; low = s->bound, s++, at++) {
		double middle = isinf(s->bound) ? low : 0.5 * (low + s->bound), events;

		by = take_increase(s, i);
		events = fmax(by - below, 0); /* 0 while the store lacks this bucket */
		below += events;
		*at = (struct bucket){low, s->bound, draw_events(t, events)};
		all += events * middle;
		mine += at->drawn * middle;
		drawn += at->drawn;
	}
	row[0] = row[1] = row[2] = (double)NAN;
	if (!isnan(by)) /* the last bucket counts all events */
		row[0] = *total += drawn;
	if (!isnan(by) && drawn > 0 && all > 0) {
		row[1] = sum / drawn * mine / all;
		row[2] = find_p90(b, at - 1, drawn);
	}
	free(b);
}

/* Fills in the pod's row for the i-th time. Returns false if the pod has no values at that time. */
static bool make_row(struct train *t, struct train_pod *p, size_t i)
{
	bool any = false;
	struct train_series *s = &t->series[p->first];

	for (; s < &t->series[p->end]; s += s->group) {
		any |= !isnan(s->value[i]);
		if (s->column == ANALYSE_NONE)
			continue;
		if (s[s->group - 1].kind == BUCKET) {
			take_histogram(t, p, s, i);
		} else if (s->kind == COUNTER) {
			double by = take_increase(s, i);

			p->row[s->column] = isnan(by) ? by
						      : (p->total[s->column] += draw_events(t, by));
		} else {
			p->row[s->column] = s->value[i];
		}
	}
	return any;
}

static void learn_row(struct train_pod *p)
{
	struct analyse_verdict v;

	/* Changes over the gap are not changes from one row to the next. */
	if (p->gap && p->rows)
		analyse_pipeline_rewind(p->pipeline);
	p->gap = false;
	p->rows++;
	analyse_pipeline_push(p->pipeline, p->rows * set.step_ns, p->row, &v);
	if (p->warm && p->rows > WARM_ROWS && v.known && !analyse_pipeline_disturbed(p->pipeline)) {
		p->warm = false;
		analyse_pipeline_learning(p->pipeline, ANALYSE_LEARN_GATED);
	}
}

/*
 * Returns whether to learn from this time. With --this-hour, it must be within an hour of the
 * current time of the week.
 */
static bool is_wanted(int64_t time)
{
	int64_t off = (set.now - time) % WEEK_S;

	return !set.this_hour || off <= HOUR_S || WEEK_S - off <= HOUR_S;
}

static void take_values(struct train *t, const json_t *one, int64_t start, int64_t times)
{
	char *key = json_dumps(json_object_get(one, "metric"), JSON_SORT_KEYS | JSON_COMPACT);
	const json_t *place = key ? json_object_get(t->index, key) : NULL, *v;
	size_t i;

	free(key);
	json_array_foreach(place ? json_object_get(one, "values") : NULL, i, v)
	{
		double at = json_number_value(json_array_get(v, 0)) - (double)start;
		const char *text = json_string_value(json_array_get(v, 1));

		at = rint(at / (double)set.every);
		if (text && at >= 0 && at < (double)times)
			t->series[json_integer_value(place)].value[(size_t)at] = strtod(text, NULL);
	}
}

/* Learns the rows of a response. */
static void learn_rows(struct train *t, const json_t *data, double *value, int64_t start,
		       int64_t times)
{
	const json_t *one;
	size_t i;

	for (i = 0; i < t->count * (size_t)times; i++)
		value[i] = (double)NAN;
	for (i = 0; i < t->count; i++)
		t->series[i].value = value + i * (size_t)times;
	json_array_foreach(json_object_get(data, "result"), i, one)
		take_values(t, one, start, times);
	for (i = 0; i < (size_t)times; i++)
		for (struct train_pod *p = t->pod; p < t->pod + t->pods; p++) {
			if (make_row(t, p, i) && is_wanted(start + (int64_t)i * set.every))
				learn_row(p);
			else
				p->gap = true;
		}
}

static int learn_all(struct train *t)
{
	/* at least ten rows, at most an hour */
	int64_t rows = BASE_MIN(SAMPLES_MAX / t->count, HOUR_S / set.every + 1);
	int64_t at = set.now - (int64_t)(set.days * 24 * HOUR_S), last;
	double *value = calloc(t->count, (size_t)rows * sizeof(*value));
	char step[32];
	int code = value ? 0 : FAIL("out of memory");

	snprintf(step, sizeof(step), "step=%lld", (long long)set.every);
	for (; at <= set.now && !code; at = last + set.every) {
		json_t *data;

		last = BASE_MIN(at + (rows - 1) * set.every, set.now);
		if (!is_wanted(at) && !is_wanted(last))
			/* both ends suffice, because a response covers less than two hours */
			continue;
		data = ask_store("query_range?query", step, t->service, at, last);
		if (data)
			learn_rows(t, data, value, at, (last - at) / set.every + 1);
		else
			code = BASE_EXIT_FAILURE;
		json_decref(data);
	}
	free(value);
	return code;
}

/* ---- the command ---- */

static int keep_model(const struct train *t, struct collect_models *models)
{
	struct analyse_pipeline *known[PODS_MAX];
	uint32_t n = 0, columns = 0;
	uint64_t rows = 0;
	void *bytes = NULL;
	int64_t length;
	int err;

	for (const struct train_pod *p = t->pod; p < t->pod + t->pods; p++) {
		columns = BASE_MAX(columns, p->columns);
		rows += p->warm ? 0 : p->rows;
		if (!p->warm)
			known[n++] = p->pipeline;
	}
	if (!n)
		return FAIL("%s: service %s has too few rows for a model: raise --days", set.from,
			    t->service);
	length = analyse_pipeline_save_all(known, n, &bytes);
	err = length < 0 ? (int)length
			 : collect_models_put(models, t->service, bytes, (size_t)length);
	free(bytes);
	if (err)
		return FAIL("%s", strerror(-err));
	fprintf(stderr,
		"sidelight model train: %s: %u of %u pods, %llu rows, %u columns; left out: "
		"%u counters, %u series of additional pods\n",
		t->service, n, t->pods, (unsigned long long)rows, columns, t->left_out, t->others);
	return BASE_EXIT_OK;
}

static void free_service(struct train *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		free(t->series[i].metric);
	for (struct train_pod *p = t->pod; p < t->pod + t->pods; p++) {
		for (uint32_t i = 0; i < p->columns; i++)
			free((void *)(uintptr_t)p->column[i].name);
		json_decref(p->common);
		analyse_pipeline_free(p->pipeline);
		free(p->column);
		free(p->total);
	}
	free(t->series);
	json_decref(t->index);
	json_decref(t->listed);
	free(t);
}

static int train_service(const char *service, const struct analyse_detector_ops *detector,
			 struct collect_models *models)
{
	struct train *t = calloc(1, sizeof(*t));
	int code;

	if (!t)
		return FAIL("out of memory");
	t->service = service;
	code = list_series(t, detector) ?: learn_all(t) ?: keep_model(t, models);
	free_service(t);
	return code;
}

static const struct base_option table[] = {
	BASE_STRING("from", 0, &set.from, "URL",
		    "Prometheus, VictoriaMetrics or another with its API"),
	BASE_LIST("service", 0, &set.services, "NAME",
		  "learn from pods with this value of the label service"),
	BASE_STRING("out", 'o', &set.out, "FILE",
		    "add the models to this file, for collect --model"),
	BASE_F64("days", 0, &set.days, 0.01, 400, "N", "learn the last N days (default 7)"),
	BASE_FLAG("this-hour", 0, &set.this_hour,
		  "learn only from data within an hour of the current time of the week"),
	BASE_TIME("every", 0, &set.every_ns, 1e9, 1.8e12, "TIME",
		  "interval of the values (default 1m)"),
	BASE_TIME("analyse-step", 0, &set.step_ns, 1e6, 6e10, "TIME",
		  "the collector's --analyse-step (default 1s)"),
	BASE_STRING("detector", 0, &set.detector, "NAME", "the collector's --detector"),
	BASE_STRING("token-file", 0, &set.token_file, "PATH", "file with the store's bearer token"),
	CLI_OPTION_CLIENT("http-config", &set.config, "the store"),
	{0},
};

static int train_main(const struct base_command *self, int argc, char **argv)
{
	const struct analyse_detector_ops *detector;
	struct collect_models *models;
	const char *from;
	char error[4400];
	int code, err;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (!set.from || !set.out || !set.services.n)
		return base_usage(self, "--from, --service and --out are required");
	from = set.from;
	set.from = cli_address(from);
	if (!set.from)
		return base_usage(self, "--from '%.100s' is not a URL", from);
	detector = analyse_detector_named(set.detector ?: "combined", error, sizeof(error));
	if (!detector)
		return base_usage(self, "%s", error);
	if (set.token_file && !(set.token = cli_token_read(self, set.token_file)))
		return BASE_EXIT_FAILURE;
	set.every = (int64_t)(set.every_ns / 1000000000);
	set.now = base_realtime_ns() / 1000000000 / set.every * set.every;
	models = collect_models_new();
	err = models ? collect_models_read(models, set.out, error, sizeof(error)) : -ENOMEM;
	code = err && err != -ENOENT ? base_failure(self, "%s", models ? error : strerror(ENOMEM))
				     : 0;
	for (size_t i = 0; i < set.services.n && !code; i++)
		code = train_service(set.services.v[i], detector, models);
	err = code ? 0 : collect_models_write(models, set.out);
	if (err)
		code = base_failure(self, "%s: %s", set.out, strerror(-err));
	collect_models_free(models);
	free(set.token);
	return code;
}

const struct base_command cli_cmd_model_train = {
	.name = "model train",
	.synopsis = "--from URL --service NAME... --out FILE [OPTION]...",
	.summary = "Learn services from a long-term store",
	.run = train_main,
};
