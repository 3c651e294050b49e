// SPDX-License-Identifier: Apache-2.0
/* test_api.c - the JSON endpoints and the page over real HTTP, on a simulated collector. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api.h"
#include "base/base.h"
#include "http/http.h"

void status_sums_up_the_workers(void **state)
{
	json_t *s = ask_json("/api/v1/status", 200), *t = json_object_get(s, "totals"), *w;

	(void)state;
	assert_string_equal(string(s, "version"), SL_VERSION_STRING);
	assert_true(json_is_true(json_object_get(s, "ready")));
	assert_true(number(t, "rounds") == 1500 && number(t, "missed_deadlines") == 5);
	assert_true(number(t, "pods") == 5 && number(t, "pods_dead") == 1);
	assert_true(number(json_object_get(t, "faults"), "record") == 2);
	assert_true(number(json_object_get(s, "memory"), "collector_bytes") == 4096);
	assert_true(number(json_object_get(s, "memory"), "resident_bytes") > 100000);
	w = json_array_get(json_object_get(s, "workers"), 0);
	assert_true(json_is_null(json_object_get(w, "cpu")));
	/* The first answer gives the rate since the start: 1000 rounds in 10 s. */
	assert_true(fabs(number(w, "rounds_per_second") - 100) < 5);
	w = json_array_get(json_object_get(s, "workers"), 1);
	assert_true(number(w, "cpu") == 1);
	json_decref(s);
}

void rates_are_those_of_the_last_seconds(void **state)
{
	double rate, window;
	json_t *s;

	(void)state;
	json_decref(ask_json("/api/v1/status", 200));
	usleep(1050000);
	workers[0].rounds += 5000;
	s = ask_json("/api/v1/status", 200);
	window = number(json_array_get(json_object_get(s, "workers"), 0), "rate_window_seconds");
	rate = number(json_array_get(json_object_get(s, "workers"), 0), "rounds_per_second");
	assert_true(window >= 1 && window < 15);
	assert_true(fabs(rate * window - 5000) < 1);
	json_decref(s);
}

void hosts_say_why_they_are_not_reached(void **state)
{
	json_t *whole, *list = ask_list("/api/v1/hosts", "hosts", &whole), *h;

	(void)state;
	assert_int_equal(json_array_size(list), 2);
	h = json_array_get(list, 0);
	assert_string_equal(string(h, "condition"), "up");
	assert_true(number(h, "age_seconds") > 0.0009 && number(h, "age_seconds") < 60);
	assert_true(number(json_object_get(h, "errors"), "timeout") == 3);
	assert_true(json_is_null(json_object_get(h, "last_error_age_seconds")));
	h = json_array_get(list, 1);
	assert_string_equal(string(h, "condition"), "connecting");
	assert_string_equal(string(h, "last_error"), "no route");
	assert_true(number(h, "last_error_age_seconds") > 0);
	assert_true(json_is_null(json_object_get(h, "last_read")));
	json_decref(whole);
}

void pods_carry_one_word_for_their_state(void **state)
{
	static const char *const want[] = {"live", "dead", "stale", "dropped", "closed"};
	json_t *whole, *list = ask_list("/api/v1/pods", "pods", &whole), *p;

	(void)state;
	assert_int_equal(json_array_size(list), 5);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(string(json_array_get(list, i), "state"), want[i]);
	p = json_array_get(list, 0);
	assert_string_equal(string(p, "instance"), CART_ID);
	assert_string_equal(string(json_object_get(p, "labels"), "service"), "cart");
	assert_true(number(p, "pid") == 4100);
	assert_true(fabs(number(p, "changed") - 1763694391.123456) < 1e-5);
	assert_string_equal(string(json_array_get(list, 3), "fault"), "section");
	json_decref(whole);

	list = ask_list("/api/v1/pods?state=dead", "pods", &whole);
	assert_int_equal(json_array_size(list), 1);
	json_decref(whole);
	list = ask_list("/api/v1/pods?q=service=mail&limit=1&offset=1", "pods", &whole);
	assert_int_equal(json_array_size(list), 1);
	assert_string_equal(string(json_array_get(list, 0), "pod"), "mail-1");
	assert_true(number(whole, "matching") == 3);
	json_decref(whole);
}

void pods_are_ordered_by_the_attention_they_need(void **state)
{
	static const char *const want[] = {"dead", "dropped", "stale", "live", "closed"};
	const char *found[5] = {0};

	(void)state;
	for (int page = 0; page < 3; page++) {
		char path[64];
		json_t *whole, *list;

		snprintf(path, sizeof(path), "/api/v1/pods?sort=attention&limit=2&offset=%d",
			 2 * page);
		list = ask_list(path, "pods", &whole);
		assert_int_equal(json_array_size(list), page < 2 ? 2 : 1);
		assert_true(number(whole, "matching") == 5 && number(whole, "offset") == 2 * page);
		for (size_t i = 0; i < json_array_size(list); i++) {
			json_t *p = json_array_get(list, i);
			int position = (int)number(p, "position");

			assert_in_range(position, 2 * page, 2 * page + 1);
			for (size_t k = 0; k < 5; k++)
				if (!strcmp(string(p, "state"), want[k]))
					found[position] = want[k];
		}
		json_decref(whole);
	}
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(found[i], want[i]);
}

void latency_is_given_by_worker_and_in_all(void **state)
{
	json_t *l = ask_json("/api/v1/latency", 200), *t = json_object_get(l, "total");

	(void)state;
	assert_int_equal(json_array_size(json_object_get(l, "bounds_seconds")),
			 COLLECT_LATENCY_BUCKETS);
	assert_int_equal(json_array_size(json_object_get(l, "workers")), 2);
	assert_true(number(t, "count") == 100);
	assert_true(fabs(number(t, "p90_seconds") - 2e-6) < 1e-15);
	assert_true(fabs(number(t, "mean_seconds") - 4e-7) < 1e-15);
	assert_true(json_number_value(json_array_get(json_object_get(t, "counts"), 8)) == 10);
	json_decref(l);
}

void bad_questions_are_answered_400_with_what_is_wrong(void **state)
{
	static const struct {
		const char *path;
		int status;
		const char *says;
	} cases[] = {
		{"metrics?limit=x", 400, "limit"},
		{"metrics?limit=10001", 400, "10000"},
		{"metrics?limit=-1", 400, "limit"},
		{"metrics?offset=1e3", 400, "offset"},
		{"metrics?kind=summary", 400, "summary"},
		{"metrics?series=1", 400, "INSTANCE/METRIC"},
		{"metrics?q=1+2+3+4+5+6+7+8+9", 400, "terms"},
		{"metrics?q=1%202%203%204%205%206%207%208%209", 400, "terms"},
		{"pods?state=alive", 400, "alive"},
		{"pods?limit=999999999999999999999", 400, "limit"},
		{"history", 400, "series"},
		{"history?series=", 400, "series"},
		{"history?series=a/b", 400, "a/b"},
		{"history?series=1/1&last=yesterday", 400, "yesterday"},
		{"history?series=1/1&last=0", 400, "last"},
		{"history?series=1/1&last=-5s", 400, "last"},
		{"history?series=1/1&last=25h", 400, "24h"},
		{"history?series=1/1&points=0", 400, "points"},
		{"history?series=1/1&points=10001", 400, "points"},
		{"history?series=1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,"
		 "1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1",
		 400, "32"},
		{"history?series=1/1&series=a/b", 400, "a/b"},
		{"history?series=1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1&"
		 "series=1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1",
		 400, "32"},
		{"history?series=1/1&last=1s&last=2s", 400, "last: given more than once"},
		{"metrics?q=a&limit=3&q=a", 400, "q: given more than once"},
		{"status?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q", 400, "16 parameters"},
		{"history?series=77/1", 404, "no such series"},
		{"buckets?series=77/1", 404, "no such series"},
		{"buckets", 400, "series"},
		{"nonsense", 404, "nonsense"},
		/* Without limits, the nanoseconds of these times wrap. */
		{"query_range?query=sum_over_time(nosuch%5B1s:1s%5D)&start=-9200000000&"
		 "end=9200000000&step=1",
		 400, "11000 steps"},
		{"query_range?query=sum_over_time(nosuch%5B1s:1s%5D)&start=-9200000000&"
		 "end=9200000000&step=1y",
		 422, "too many points"},
		{"query?query=sum_over_time(nosuch%5B1y:1y%5D%20offset%20-1y)&time=9200000000", 422,
		 "too many points"},
		{"query?query=sum_over_time(nosuch%5B1y:1y%5D)&time=-9200000000", 422,
		 "too many points"},
		{"query?query=nosuch%20@%208999999999", 400, "expected a time"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char path[400];
		json_t *e;

		snprintf(path, sizeof(path), "/api/v1/%s", cases[i].path);
		e = ask_json(path, cases[i].status);
		if (!strstr(string(e, "error"), cases[i].says))
			fail_msg("%s: %s", path, string(e, "error"));
		json_decref(e);
	}
}

/* More than fits: the list ends well-formed, says that it is truncated, and can be continued. */
void answers_are_bounded_and_can_be_gone_on_with(void **state)
{
	enum { N = 10000 };
	static char value[SL_LABEL_VALUE_MAX + 1];
	static struct region_text_label label = {"padding", value};
	struct fake_metric *many = calloc(N, sizeof(*many)), *was = regions[0].metrics;
	size_t had = regions[0].metric_count, total = 0;
	int answers = 0;

	(void)state;
	assert_non_null(many);
	memset(value, 'x', SL_LABEL_VALUE_MAX);
	for (int i = 0; i < N; i++)
		many[i] = (struct fake_metric){.metric = {.id = (uint32_t)i,
							  .kind = SL_KIND_COUNTER,
							  .name = "n",
							  .unit = "",
							  .help = "",
							  .label_count = 1,
							  .labels = &label},
					       .value = value_500};
	regions[0].metrics = many;
	regions[0].metric_count = regions[0].view.metrics = N;
	while (total < N) {
		char path[200];
		json_t *whole, *list;

		snprintf(path, sizeof(path), "/api/v1/metrics?pod=cart-0&limit=10000&offset=%zu",
			 total);
		list = ask_list(path, "metrics", &whole);
		total += json_array_size(list);
		assert_true(json_array_size(list) > 0 && answers++ < 10);
		assert_true(json_is_true(json_object_get(whole, "truncated")) == (total < N));
		assert_true(number(whole, "matching") == N);
		json_decref(whole);
	}
	assert_true(answers > 1);
	regions[0].metrics = was;
	regions[0].metric_count = regions[0].view.metrics = had;
	free(many);
}

void slow_readers_get_503_and_no_more_memory(void **state)
{
	enum { N = 9000, CLIENTS = 40 };
	static char value[SL_LABEL_VALUE_MAX + 1];
	static struct region_text_label label = {"padding", value};
	struct fake_metric *many = calloc(N, sizeof(*many)), *was = regions[0].metrics;
	size_t had = regions[0].metric_count;
	static const char request[] = "GET /api/v1/metrics?limit=10000 HTTP/1.0\r\n\r\n";
	int fd[CLIENTS], refused = 0;
	struct reply r;

	(void)state;
	assert_non_null(many);
	memset(value, 'x', SL_LABEL_VALUE_MAX);
	for (int i = 0; i < N; i++)
		many[i] = (struct fake_metric){.metric = {.id = (uint32_t)i,
							  .kind = SL_KIND_COUNTER,
							  .name = "n",
							  .unit = "",
							  .help = "",
							  .label_count = 1,
							  .labels = &label},
					       .value = value_500};
	regions[0].metrics = many;
	regions[0].metric_count = regions[0].view.metrics = N;
	for (int i = 0; i < CLIENTS; i++) {
		fd[i] = dial();
		assert_int_equal(write(fd[i], request, sizeof(request) - 1), sizeof(request) - 1);
	}
	for (int i = 0; i < CLIENTS; i++) {
		char head[13] = "";

		assert_int_equal(TEMP_FAILURE_RETRY(recv(fd[i], head, 12, MSG_WAITALL)), 12);
		refused += !strcmp(head + 9, "503");
	}
	/* Half is reserved for other peers. */
	assert_in_range(refused, CLIENTS - 6, CLIENTS - 4);
	for (int i = 0; i < CLIENTS; i++)
		close(fd[i]);
	/* All of it is released. */
	for (int i = 0; i < 200; i++) {
		r = ask("/api/v1/metrics?limit=10000", NULL);
		if (r.status == 200)
			break;
		free(r.text);
		usleep(20000);
	}
	assert_int_equal(r.status, 200);
	free(r.text);
	regions[0].metrics = was;
	regions[0].metric_count = regions[0].view.metrics = had;
	free(many);
}

void the_page_is_embedded_and_knows_no_outside(void **state)
{
	static const char *const files[] = {"/",
					    "/anomalies.js",
					    "/app.js",
					    "/dom.js",
					    "/app.css",
					    "/format.js",
					    "/list.js",
					    "/plot.js",
					    "/server.js",
					    "/favicon.svg",
					    "/vendor/uPlot.iife.min.js",
					    "/vendor/uPlot.min.css"};
	char etag[64], header[128];

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		struct reply r = ask(files[i], NULL);
		const char *tag;

		assert_int_equal(r.status, 200);
		assert_non_null(strstr(r.text, "Content-Security-Policy: default-src 'none'"));
		assert_non_null(strstr(r.text, "X-Content-Type-Options: nosniff"));
		if (!strstr(files[i], "vendor") && !strstr(files[i], "svg"))
			assert_null(strstr(r.body, "://"));
		tag = strstr(r.text, "ETag: \"");
		assert_non_null(tag);
		assert_int_equal(sscanf(tag, "ETag: %63s", etag), 1);
		free(r.text);

		snprintf(header, sizeof(header), "If-None-Match: %s\r\n", etag);
		r = ask(files[i], header);
		assert_int_equal(r.status, 304);
		assert_int_equal(r.body_bytes, 0);
		free(r.text);
	}
	struct reply plain = ask("/app.js", NULL);
	struct reply packed = ask("/app.js", "Accept-Encoding: gzip\r\n");

	assert_non_null(strstr(packed.text, "Content-Encoding: gzip"));
	assert_true(packed.body_bytes < plain.body_bytes / 2);
	free(plain.text);
	free(packed.text);
}

static void *ask_everything(void *arg)
{
	static const char *const paths[] = {
		"/api/v1/status",
		"/api/v1/hosts",
		"/api/v1/pods",
		"/api/v1/metrics",
		"/api/v1/history?series=" CART_ID "/0",
		"/api/v1/latency",
		"/api/v1/buckets?series=" CART_ID "/6",
		"/",
	};

	(void)arg;
	for (int i = 0; i < 40; i++) {
		struct reply r = ask(paths[i % 8], NULL);

		assert_int_equal(r.status, 200);
		free(r.text);
	}
	return NULL;
}

void many_clients_at_once_are_answered(void **state)
{
	pthread_t thread[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ask_everything, NULL), 0);
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status_sums_up_the_workers),
		cmocka_unit_test(rates_are_those_of_the_last_seconds),
		cmocka_unit_test(hosts_say_why_they_are_not_reached),
		cmocka_unit_test(pods_carry_one_word_for_their_state),
		cmocka_unit_test(pods_are_ordered_by_the_attention_they_need),
		cmocka_unit_test(metrics_show_exact_values_of_every_kind),
		cmocka_unit_test(metrics_are_found_by_name_label_and_pod),
		cmocka_unit_test(pages_of_metrics_join_without_a_seam),
		cmocka_unit_test(history_is_in_order_and_says_what_was_left_out),
		cmocka_unit_test(history_of_what_is_gone_says_so),
		cmocka_unit_test(buckets_have_their_bounds),
		cmocka_unit_test(a_pod_that_returns_continues_its_series),
		cmocka_unit_test(functions_treat_odd_values_as_prometheus),
		cmocka_unit_test(label_replace_expands_groups_by_the_rules_of_go),
		cmocka_unit_test(layers_are_sorted_by_answers_with_quantiles),
		cmocka_unit_test(flows_are_sorted_by_relevance_with_their_causes),
		cmocka_unit_test(an_rtt_that_was_never_measured_is_0),
		cmocka_unit_test(pair_latency_has_its_bound_and_the_whole_path),
		cmocka_unit_test(top_talkers_have_exact_sums_below_the_bound),
		cmocka_unit_test(latency_is_given_by_worker_and_in_all),
		cmocka_unit_test(bad_questions_are_answered_400_with_what_is_wrong),
		cmocka_unit_test(answers_are_bounded_and_can_be_gone_on_with),
		cmocka_unit_test(findings_are_told_with_what_is_to_blame),
		cmocka_unit_test(the_end_of_an_incident_says_how_it_ended),
		cmocka_unit_test(namespaces_have_deployments_of_their_own),
		cmocka_unit_test(too_many_marks_leave_out_no_incident),
		cmocka_unit_test(jobs_name_the_rank_that_is_slow_now),
		cmocka_unit_test(a_start_that_is_no_time_hides_no_other),
		cmocka_unit_test(metrics_that_change_are_told_from_others),
		cmocka_unit_test(services_are_told_by_what_needs_attention),
		cmocka_unit_test(the_map_has_each_edge_once),
		cmocka_unit_test(calls_of_traces_are_edges),
		cmocka_unit_test(scaling_is_told_as_kubernetes_wants_it),
		cmocka_unit_test(slow_readers_get_503_and_no_more_memory),
		cmocka_unit_test(the_page_is_embedded_and_knows_no_outside),
		cmocka_unit_test(many_clients_at_once_are_answered),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
