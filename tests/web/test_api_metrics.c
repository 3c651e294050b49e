// SPDX-License-Identifier: Apache-2.0
/* test_api_metrics.c - metrics, their history and their buckets. */
#include <math.h>

#include "api.h"
#include "base/base.h"

void metrics_show_exact_values_of_every_kind(void **state)
{
	struct reply raw = ask("/api/v1/metrics?pod=cart-0&limit=1", NULL);
	json_t *whole, *list = ask_list("/api/v1/metrics?pod=" CART_ID, "metrics", &whole), *h;

	(void)state;
	assert_non_null(strstr(raw.body, "\"value\":18446744073709551615"));
	free(raw.text);
	assert_int_equal(json_array_size(list), 9);
	assert_string_equal(string(json_array_get(list, 0), "id"), CART_ID "/0");
	assert_string_equal(string(json_array_get(list, 0), "kind"), "counter");
	assert_string_equal(string(json_array_get(list, 0), "help"), "Requests served.");
	assert_true(number(json_array_get(list, 2), "value") == -42);
	assert_string_equal(string(json_object_get(json_array_get(list, 2), "labels"), "text"),
			    odd[0].value);
	assert_true(number(json_array_get(list, 3), "value") == 0.1);
	assert_string_equal(string(json_array_get(list, 4), "value"), "NaN");

	h = json_object_get(json_array_get(list, 5), "histogram");
	assert_true(number(h, "count") == 40 && number(h, "sum") == 12.5);
	assert_true(number(h, "refused") == 3);
	assert_true(fabs(number(h, "p50") - 0.3) < 1e-12);
	h = json_object_get(json_array_get(list, 6), "histogram");
	assert_true(number(h, "count") == 5);
	assert_true(fabs(number(h, "p50") - exp2(2.5 / 4)) < 1e-12);
	assert_true(number(h, "p99") == 256);

	h = json_object_get(json_array_get(list, 7), "states");
	assert_true(json_is_false(json_object_get(h, "closed")));
	assert_true(json_is_true(json_object_get(h, "open")));
	assert_true(number(json_array_get(list, 8), "value") == 1);
	h = json_object_get(json_object_get(whole, "pods"), CART_ID);
	assert_string_equal(string(h, "pod"), "cart-0");
	json_decref(whole);
}

void metrics_are_found_by_name_label_and_pod(void **state)
{
	static const struct {
		const char *query;
		double matching;
	} cases[] = {
		{"", 12},
		{"?q=http", 2},
		{"?q=HTTP%20code=5", 1},
		{"?q=code", 2},
		{"?q=cart", 9},
		{"?q=mail-1", 1},
		{"?q=node-1%20mails", 3},
		{"?q=" CART_ID "%20load", 1},
		{"?q=nothing", 0},
		{"?kind=histogram", 2},
		{"?kind=counter&q=pod=mail", 3},
		{"?pod=mail-0", 1},
		{"?pod=absent", 0},
		{"?pod=b1d05a7c1f9e42", 9},
		{"?series=" CART_ID "/3," CART_ID "/0,7/7", 2},
		{"?series=" CART_ID "/3&limit=5&series=7/7&series=&series=" CART_ID "/0", 2},
		{"?limit=0", 12},
		{"?q=&kind=&pod=&limit=&offset=", 12},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char path[200];
		json_t *whole;

		snprintf(path, sizeof(path), "/api/v1/metrics%s", cases[i].query);
		ask_list(path, "metrics", &whole);
		if (number(whole, "matching") != cases[i].matching)
			fail_msg("%s: %g", path, number(whole, "matching"));
		json_decref(whole);
	}
}

void pages_of_metrics_join_without_a_seam(void **state)
{
	(void)state;
	for (int filter = 0; filter < 2; filter++)
		for (int step = 1; step < 14; step++) {
			char seen[1000] = "";
			int total = 0;

			for (int offset = 0; offset < 14; offset += step) {
				char path[200];
				json_t *whole, *list;

				snprintf(path, sizeof(path), "/api/v1/metrics?limit=%d&offset=%d%s",
					 step, offset, filter ? "&q=e" : "");
				list = ask_list(path, "metrics", &whole);
				for (size_t i = 0; i < json_array_size(list); i++, total++) {
					const char *id = string(json_array_get(list, i), "id");

					assert_null(strstr(seen, id));
					strcat(seen, id);
				}
				assert_true(
					json_array_size(list)
						? json_object_size(json_object_get(whole, "pods"))
						: true);
				json_decref(whole);
			}
			assert_int_equal(total, 12);
		}
}

void history_is_in_order_and_says_what_was_left_out(void **state)
{
	json_t *whole, *s, *t, *v;
	bool peak = false;

	(void)state;
	s = json_array_get(ask_list("/api/v1/history?series=" CART_ID "/0&last=1m&points=10000",
				    "series", &whole),
			   0);
	assert_true(number(s, "recorded") == POINTS && number(s, "points") == POINTS);
	assert_true(json_is_false(json_object_get(s, "decimated")));
	t = json_object_get(s, "t");
	v = json_object_get(s, "v");
	assert_int_equal(json_array_size(t), POINTS);
	for (size_t i = 0; i < POINTS; i++) {
		assert_true(json_number_value(json_array_get(v, i)) == points[i].value);
		assert_true(fabs(json_number_value(json_array_get(t, i)) -
				 (double)points[i].ns * 1e-9) < 2e-6);
	}
	json_decref(whole);

	s = json_array_get(ask_list("/api/v1/history?series=" CART_ID "/0&last=1m&points=100",
				    "series", &whole),
			   0);
	assert_true(number(s, "recorded") == POINTS && number(s, "points") <= 100);
	assert_true(json_is_true(json_object_get(s, "decimated")));
	v = json_object_get(s, "v");
	assert_int_equal(json_array_size(v), json_array_size(json_object_get(s, "t")));
	for (size_t i = 0; i < json_array_size(v); i++)
		peak |= json_number_value(json_array_get(v, i)) == 1e9;
	assert_true(peak);
	json_decref(whole);
}

void history_of_what_is_gone_says_so(void **state)
{
	json_t *whole, *list;

	(void)state;
	list = ask_list("/api/v1/history?series=" CART_ID "/0,9/9," CART_ID "/99", "series",
			&whole);
	assert_int_equal(json_array_size(list), 3);
	assert_null(json_object_get(json_array_get(list, 0), "error"));
	assert_string_equal(string(json_array_get(list, 1), "error"), "no such series");
	assert_string_equal(string(json_array_get(list, 2), "error"), "no such series");
	json_decref(whole);
	/* Known, but without points. */
	list = ask_list("/api/v1/history?series=" CART_ID "/1", "series", &whole);
	assert_true(number(json_array_get(list, 0), "points") == 0);
	json_decref(whole);
}

void buckets_have_their_bounds(void **state)
{
	json_t *whole, *b;

	(void)state;
	b = json_object_get(json_array_get(ask_list("/api/v1/buckets?series=" CART_ID "/5," CART_ID
						    "/6," CART_ID "/0",
						    "series", &whole),
					   0),
			    "buckets");
	assert_int_equal(json_array_size(b), 3);
	b = json_array_get(b, 1);
	assert_true(json_number_value(json_array_get(b, 0)) == 0.1);
	assert_true(json_number_value(json_array_get(b, 1)) == 0.5);
	assert_true(json_number_value(json_array_get(b, 2)) == 20);
	b = json_object_get(json_array_get(json_object_get(whole, "series"), 1), "buckets");
	assert_int_equal(json_array_size(b), 2);
	assert_true(json_number_value(json_array_get(json_array_get(b, 0), 0)) == 1);
	assert_true(json_number_value(json_array_get(json_array_get(b, 0), 1)) == 2);
	assert_true(json_number_value(json_array_get(json_array_get(b, 1), 0)) == 256);
	assert_string_equal(json_string_value(json_array_get(json_array_get(b, 1), 1)), "+Inf");
	b = json_array_get(json_object_get(whole, "series"), 2);
	assert_string_equal(string(b, "error"), "not a histogram");
	json_decref(whole);
}

/* Asks for the value of the series of the ended pod at this time; NAN: none. */
static double value_at(int64_t ns)
{
	char path[160];
	json_t *a, *list;
	double v = NAN;

	snprintf(path, sizeof(path), "/api/v1/query?query=again_total&time=%.3f",
		 (double)ns * 1e-9);
	a = ask_json(path, 200);
	list = json_object_get(json_object_get(a, "data"), "result");
	assert_true(json_array_size(list) <= 1);
	if (json_array_size(list))
		v = atof(json_string_value(
			json_array_get(json_object_get(json_array_get(list, 0), "value"), 1)));
	json_decref(a);
	return v;
}

/* A container that restarts has the labels of the one before, also while that one's grace lasts. */
void a_pod_that_returns_continues_its_series(void **state)
{
	const int64_t s = 1000000000, t = (int64_t)base_realtime_ns() - 60 * s;
	const struct collect_point before[] = {{t, 5}, {t + s, 7}};
	struct collect_point after[] = {{t + 2 * s, 1}, {t + 6 * s, 2}};
	struct fake_metric m[] = {
		{.metric = {.kind = SL_KIND_COUNTER, .name = "again_total", .help = "", .unit = ""},
		 .points = before,
		 .point_count = 2},
		{.metric = {.kind = SL_KIND_COUNTER, .name = "again_total", .help = "", .unit = ""},
		 .points = after,
		 .point_count = 2}};
	const struct fake_region kept[] = {regions[0], regions[1]};

	(void)state;
	regions[1] = regions[0];
	regions[1].info.instance = 77;
	regions[0].metrics = &m[0];
	regions[1].metrics = &m[1];
	regions[0].metric_count = regions[1].metric_count = 1;
	regions[0].ended_ns = t + 3 * s;
	regions[0].read_ns = t + s;
	regions[1].found_ns = t + 2 * s;
	assert_true(value_at(t + s / 2) == 5 && value_at(t + s) == 7);
	assert_true(value_at(t + 2 * s) == 1 && value_at(t + 4 * s) == 1 &&
		    value_at(t + 7 * s) == 2);
	/* The pod returns later: there is no value while it is away. */
	regions[1].found_ns = after[0].ns = t + 5 * s;
	assert_true(value_at(t + 2 * s) == 7 && isnan(value_at(t + 4 * s)));
	assert_true(value_at(t + 5 * s) == 1 && value_at(t + 7 * s) == 2);
	/* It never does. */
	regions[1].metric_count = 0;
	assert_true(value_at(t + 2 * s) == 7 && isnan(value_at(t + 4 * s)));
	regions[0] = kept[0];
	regions[1] = kept[1];
}

/* Sends a query for the vector with one series; *metric is the labels. Free the returned answer. */
static json_t *ask_query(const char *query, const char **value, json_t **metric)
{
	char path[1500] = "/api/v1/query?time=1000&query=", *at = path + strlen(path);
	json_t *a, *series;

	for (const char *c = query; *c; c++)
		at += sprintf(at, "%%%02x", (unsigned char)*c);
	a = ask_json(path, 200);
	series = json_array_get(json_object_get(json_object_get(a, "data"), "result"), 0);
	*metric = json_object_get(series, "metric");
	*value = json_string_value(json_array_get(json_object_get(series, "value"), 1));
	return a;
}

/* The values are those of Prometheus 2.42. */
void functions_treat_odd_values_as_prometheus(void **state)
{
#define BUCKET(le, v)	 "label_join(vector(" v "), \"le\", \"" le "\", \"a\", \"b\")"
#define BUCKETS(x, y, z) BUCKET("1", x) " or " BUCKET("2", y) " or " BUCKET("+Inf", z)
	static const struct {
		const char *query, *value;
	} cases[] = {
		{"clamp(vector(5), 0, NaN)", "NaN"},
		{"clamp(vector(5), NaN, 9)", "NaN"},
		{"clamp(vector(NaN), 0, 9)", "NaN"},
		{"clamp(vector(5), 0, 3)", "3"},
		{"clamp(vector(5), 7, 9)", "7"},
		{"clamp_min(vector(5), scalar(absent(vector(1))))", "NaN"},
		{"clamp_min(vector(NaN), +Inf)", "+Inf"},
		{"clamp_min(vector(NaN), -Inf)", "NaN"},
		{"clamp_max(vector(5), NaN)", "NaN"},
		{"clamp_max(vector(NaN), -Inf)", "-Inf"},
		{"clamp_max(vector(NaN), +Inf)", "NaN"},
		/* Extrapolation starts at the time of the query, whatever the window. */
		{"predict_linear(vector(time())[10s:1s], 60)", "1060"},
		{"predict_linear(vector(time())[10s:1s] offset 100s, 60)", "1060"},
		{"predict_linear(vector(time())[10s:1s] offset -100s, 60)", "1060"},
		{"predict_linear(vector(time())[10s:1s] @ 500, 60)", "1060"},
		{"predict_linear(vector(time())[10s:1s] @ 500 offset 100s, 60)", "1060"},
		{"max_over_time(predict_linear(vector(time())[10s:1s] offset 9s, 60)[20s:1s])",
		 "1060"},
		{"deriv((vector(1e308) + 0)[10s:1s])", "0"},
		{"histogram_quantile(0.5, " BUCKETS("1", "3", "4") ")", "1.5"},
		{"histogram_quantile(0.5, " BUCKETS("3", "1", "4") ")", "0.6666666666666666"},
		{"histogram_quantile(0.5, " BUCKETS("0", "0", "0") ")", "NaN"},
		{"histogram_quantile(0.5, " BUCKETS("NaN", "NaN", "NaN") ")", "2"},
		{"histogram_quantile(0.5, " BUCKETS("1", "3", "NaN") ")", "2"},
		{"histogram_quantile(2, " BUCKET("1", "1") ")", "+Inf"},
	};
#undef BUCKETS
#undef BUCKET

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *value;
		json_t *metric, *a = ask_query(cases[i].query, &value, &metric);

		if (!value || strcmp(value, cases[i].value))
			fail_msg("%s: %s", cases[i].query, value ? value : "no value");
		json_decref(a);
	}
}

/* The labels are those of Prometheus 2.42; "" means none. */
void label_replace_expands_groups_by_the_rules_of_go(void **state)
{
	static const struct {
		const char *to, *label;
	} cases[] = {
		{"$1", "foo"},
		{"x${1}y", "xfooy"},
		{"$1-$2", "foo-bar"},
		{"$0", "foo-bar"},
		{"$1_total", ""}, /* the group called 1_total */
		{"${1}_total", "foo_total"},
		{"$1x$2", "bar"},
		{"$name", "foo"},
		{"${name}_", "foo_"},
		{"$name_", ""},
		{"$name.$nosuch", "foo."},
		{"$3", ""},
		{"$01", ""},
		{"$999999999999", ""},
		{"$$1", "$1"},
		{"$$$1", "$foo"},
		{"$", "$"},
		{"a$-", "a$-"},
		{"${1", "${1"},
		{"${}", "${}"},
		{"${$1}", "${foo}"},
		{"$a_name_of_more_than_thirty_two_bytes", ""},
	};

	(void)state;
	if (!HAVE_REGEX) {
		puts("SKIP: no regular expressions (option regex)");
		skip();
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char query[300];
		const char *value, *label;
		json_t *metric, *a;

		snprintf(query, sizeof(query),
			 "label_replace(label_replace(vector(1), \"b\", \"foo-bar\", \"\", \"\"), "
			 "\"a\", \"%s\", \"b\", \"(?P<name>.*)-(.*?)(never)?\")",
			 cases[i].to);
		a = ask_query(query, &value, &metric);
		label = json_string_value(json_object_get(metric, "a"));
		if (strcmp(label ? label : "", cases[i].label))
			fail_msg("%s: %s", cases[i].to, label ? label : "no label");
		assert_string_equal(string(metric, "b"), "foo-bar");
		json_decref(a);
	}
}
