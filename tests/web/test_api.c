// SPDX-License-Identifier: Apache-2.0
/* test_api.c - the JSON endpoints and the page over real HTTP, on a collector that is made up. */
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/scale.h"
#include "base/base.h"
#include "collect/api.h"
#include "fake_flows.h"
#include "http/http.h"

/* ---- a collector with two hosts and four pods ---------------------------------------------------- */

#define POINTS 5000

static const double bounds[] = {0.1, 0.5, 1};
static const struct sl_text_label code200[] = {{"code", "200"}, {"method", "GET"}};
static const struct sl_text_label code500[] = {{"code", "500"}, {"method", "GET"}};
static const struct sl_text_label odd[] = {{"text", "a\"b\\c\n\xe2\x82\xac </script>"}};
static const char *const states[] = {"closed", "open"};

static const uint64_t value_big[] = {UINT64_MAX}, value_500[] = {7};
static uint64_t value_i64[1], value_f64[1], value_nan[1], value_state[] = {2};
static uint64_t value_classic[2 + 4], value_exp[2 + 10];
static struct sl_point points[POINTS];

static struct fake_metric cart_metrics[] = {
	{.metric = {.id = 0,
		    .kind = SL_KIND_COUNTER,
		    .name = "http_requests_total",
		    .unit = "",
		    .help = "Requests served.",
		    .label_count = 2,
		    .labels = code200},
	 .value = value_big,
	 .points = points,
	 .point_count = POINTS},
	{.metric = {.id = 1,
		    .kind = SL_KIND_COUNTER,
		    .name = "http_requests_total",
		    .unit = "",
		    .help = "",
		    .label_count = 2,
		    .labels = code500},
	 .value = value_500},
	{.metric = {.id = 2,
		    .kind = SL_KIND_GAUGE,
		    .name = "queue_depth",
		    .unit = "",
		    .help = "",
		    .label_count = 1,
		    .labels = odd},
	 .value = value_i64},
	{.metric = {.id = 3, .kind = SL_KIND_GAUGE_F64, .name = "load", .unit = "", .help = ""},
	 .value = value_f64},
	{.metric = {.id = 4, .kind = SL_KIND_GAUGE_F64, .name = "broken", .unit = "", .help = ""},
	 .value = value_nan},
	{.metric = {.id = 5,
		    .kind = SL_KIND_HISTOGRAM,
		    .name = "classic_seconds",
		    .unit = "seconds",
		    .help = "",
		    .bound_count = 3,
		    .bounds = bounds,
		    .bucket_count = 4},
	 .value = value_classic},
	{.metric = {.id = 6,
		    .kind = SL_KIND_HISTOGRAM_EXP,
		    .name = "exp_seconds",
		    .unit = "seconds",
		    .help = "",
		    .scale = 0,
		    .first_bucket = 1,
		    .bucket_count = 10,
		    .zero_threshold = 0.25},
	 .value = value_exp},
	{.metric = {.id = 7,
		    .kind = SL_KIND_STATESET,
		    .name = "breaker",
		    .unit = "",
		    .help = "",
		    .state_count = 2,
		    .states = states},
	 .value = value_state},
	{.metric = {.id = 8, .kind = SL_KIND_INFO, .name = "build", .unit = "", .help = ""}},
};
static struct fake_metric mail_metrics[] = {
	{.metric =
		 {.id = 0, .kind = SL_KIND_COUNTER, .name = "mails_total", .unit = "", .help = ""},
	 .value = value_500},
};

#define CART	0x00b1d05a7c1f9e42
#define CART_ID "00b1d05a7c1f9e42"

#define REGION(i, svc, pod_, ...)                                                     \
	{                                                                             \
		.view = {.target = "/run/a.sock", .hostname = "node-1", __VA_ARGS__}, \
		.info = {.instance = i,                                               \
			 .pid = 4100,                                                 \
			 .label_count = 2,                                            \
			 .size = 65536,                                               \
			 .labels = {{"service", svc}, {"pod", pod_}}},                \
	}

static struct fake_region regions[] = {
	REGION(CART, "cart", "cart-0", .fault = "", .state = SL_STATE_LIVE, .metrics = 9,
	       .series = 9, .changed_ns = 1763694391123456789),
	REGION(2, "mail", "mail-0", .fault = "", .state = SL_STATE_DEAD, .stale = true,
	       .metrics = 1),
	REGION(3, "mail", "mail-1", .fault = "", .state = SL_STATE_LIVE, .stale = true,
	       .metrics = 1),
	REGION(4, "evil", "evil-0", .state = SL_STATE_LIVE, .fault = "section"),
	REGION(5, "mail", "mail-2", .fault = "", .state = SL_STATE_CLOSED, .metrics = 1),
};

static struct sl_host_view hosts[] = {
	{.target = "/run/a.sock",
	 .fabric = "shm",
	 .hostname = "node-1",
	 .condition = SL_HOST_UP,
	 .regions = 5,
	 .stats = {.reads = 10, .errors_timeout = 3}},
	{.target = "node-2",
	 .fabric = "verbs",
	 .hostname = NULL,
	 .condition = SL_HOST_CONNECTING,
	 .stats = {.last_error = "no route"}},
};

static struct sl_worker_view workers[] = {
	{.worker = 0, .cpu = -1, .rounds = 1000, .reads = 9000, .elapsed_ns = 10000000000ull},
	{.worker = 1, .cpu = 1, .rounds = 500, .missed_deadlines = 5, .elapsed_ns = 10000000000ull},
};

static struct sl_collector collector = {
	.ready = true,
	.hosts = hosts,
	.host_count = 2,
	.regions = regions,
	.region_count = 5,
	.workers = workers,
	.worker_count = 2,
	.totals = {.regions = 5, .live = 2, .dead = 1, .series = 12, .memory_bytes = 4096},
};

static uint64_t bits(double v)
{
	uint64_t out;

	memcpy(&out, &v, sizeof(out));
	return out;
}

static void fill_collector(void)
{
	int64_t now = (int64_t)sl_realtime_ns();

	value_i64[0] = (uint64_t)-42ll;
	value_f64[0] = bits(0.1);
	value_nan[0] = bits(NAN);
	value_classic[SL_HIST_SUM] = bits(12.5);
	value_classic[SL_HIST_REFUSED] = 3;
	value_classic[2] = 10;
	value_classic[3] = 20;
	value_classic[4] = 10;
	value_exp[SL_HIST_SUM] = bits(6);
	value_exp[3] = 4;  /* bucket 1: 1 < x <= 2 */
	value_exp[11] = 1; /* above all */
	for (int i = 0; i < POINTS; i++)
		points[i] = (struct sl_point){now - (POINTS - 1 - i) * 1000000ll, i};
	points[2345].value = 1e9;
	regions[0].metrics = cart_metrics;
	regions[0].metric_count = sizeof(cart_metrics) / sizeof(*cart_metrics);
	for (int i = 0; i < 5; i++)
		regions[i].view.info = &regions[i].info;
	for (int i = 1; i < 5; i++) {
		regions[i].metrics = mail_metrics;
		regions[i].metric_count = i != 3;
	}
	hosts[0].last_read_ns = (uint64_t)now - 1000000;
	regions[0].view.last_read_ns = (uint64_t)now;
	workers[0].latency[4] = 90;
	workers[1].latency[8] = 10;
	workers[1].latency_sum_ns = 40000;
	workers[1].errors[SL_FAULT_RECORD] = 2;
}

/* ---- a client --------------------------------------------------------------------------------------- */

static struct sl_http *http;
static uint16_t port;

static int setup(void **state)
{
	char error[200] = "";
	const char *colon;

	(void)state;
	fill_collector();
	http = sl_http_new(&(struct sl_http_opts){.listen = "127.0.0.1:0"}, error, sizeof(error));
	fake_flows(&collector, 300);
	if (!http || sl_api_register(http, &collector) ||
	    sl_http_start(http, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return -1;
	}
	colon = strrchr(sl_http_address(http), ':');
	port = (uint16_t)atoi(colon + 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sl_http_free(http);
	return 0;
}

struct reply {
	int status;
	char *text; /* head and body */
	char *body;
	size_t body_bytes;
};

static int dial(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval patience = {.tv_sec = 20};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* HTTP/1.0: the end of the body is the end of the connection. */
static struct reply ask(const char *path, const char *headers)
{
	struct reply r = {0};
	size_t n = 0, room = 0;
	char request[4096];
	int fd = dial(), length;
	ssize_t got;

	length = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n%s\r\n", path,
			  headers ? headers : "");
	assert_int_equal(write(fd, request, (size_t)length), length);
	do {
		if (room - n < 65536) {
			room = room ? 2 * room : 131072;
			r.text = realloc(r.text, room);
			assert_non_null(r.text);
		}
		got = read(fd, r.text + n, room - n - 1);
		assert_true(got >= 0);
		n += (size_t)got;
	} while (got);
	close(fd);
	r.text[n] = '\0';
	assert_int_equal(sscanf(r.text, "HTTP/1.%*d %d", &r.status), 1);
	r.body = strstr(r.text, "\r\n\r\n");
	assert_non_null(r.body);
	r.body += 4;
	r.body_bytes = n - (size_t)(r.body - r.text);
	return r;
}

static json_t *ask_json(const char *path, int status)
{
	struct reply r = ask(path, NULL);
	json_error_t error;
	json_t *json = json_loadb(r.body, r.body_bytes, JSON_DECODE_INT_AS_REAL, &error);

	if (r.status != status)
		fail_msg("%s: %d, not %d: %.300s", path, r.status, status, r.body);
	if (!json)
		fail_msg("%s: %s at %d: %.300s", path, error.text, error.position, r.body);
	assert_non_null(strstr(r.text, "application/json"));
	free(r.text);
	return json;
}

static double number(const json_t *json, const char *key)
{
	const json_t *v = json_object_get(json, key);

	if (!json_is_number(v))
		fail_msg("%s is no number", key);
	return json_number_value(v);
}

static const char *string(const json_t *json, const char *key)
{
	const char *s = json_string_value(json_object_get(json, key));

	if (!s)
		fail_msg("%s is no string", key);
	return s;
}

/* Asks, and gives the list called key; *whole is to be freed. */
static json_t *ask_list(const char *path, const char *key, json_t **whole)
{
	json_t *list;

	*whole = ask_json(path, 200);
	list = json_object_get(*whole, key);
	assert_true(json_is_array(list));
	return list;
}

/* ---- tests ----------------------------------------------------------------------------------------- */

static void status_sums_up_the_workers(void **state)
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

static void rates_are_those_of_the_last_seconds(void **state)
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

static void hosts_say_why_they_are_not_reached(void **state)
{
	json_t *whole, *list = ask_list("/api/v1/hosts", "hosts", &whole), *h;

	(void)state;
	assert_int_equal(json_array_size(list), 2);
	h = json_array_get(list, 0);
	assert_string_equal(string(h, "condition"), "up");
	assert_true(number(h, "age_seconds") > 0.0009 && number(h, "age_seconds") < 60);
	assert_true(number(json_object_get(h, "errors"), "timeout") == 3);
	h = json_array_get(list, 1);
	assert_string_equal(string(h, "condition"), "connecting");
	assert_string_equal(string(h, "last_error"), "no route");
	assert_true(json_is_null(json_object_get(h, "last_read")));
	json_decref(whole);
}

static void pods_carry_one_word_for_their_state(void **state)
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

static void metrics_show_exact_values_of_every_kind(void **state)
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

static void metrics_are_found_by_name_label_and_pod(void **state)
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
		{"?pod=nobody", 0},
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

static void pages_of_metrics_join_without_a_seam(void **state)
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

static void history_is_in_order_and_says_what_was_left_out(void **state)
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

static void history_of_what_is_gone_says_so(void **state)
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
	/* Known, but without a point. */
	list = ask_list("/api/v1/history?series=" CART_ID "/1", "series", &whole);
	assert_true(number(json_array_get(list, 0), "points") == 0);
	json_decref(whole);
}

static void buckets_have_their_bounds(void **state)
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

static void latency_is_given_by_worker_and_in_all(void **state)
{
	json_t *l = ask_json("/api/v1/latency", 200), *t = json_object_get(l, "total");

	(void)state;
	assert_int_equal(json_array_size(json_object_get(l, "bounds_seconds")), SL_LATENCY_BUCKETS);
	assert_int_equal(json_array_size(json_object_get(l, "workers")), 2);
	assert_true(number(t, "count") == 100);
	assert_true(fabs(number(t, "p90_seconds") - 2e-6) < 1e-15);
	assert_true(fabs(number(t, "mean_seconds") - 4e-7) < 1e-15);
	assert_true(json_number_value(json_array_get(json_object_get(t, "counts"), 8)) == 10);
	json_decref(l);
}

static void bad_questions_are_answered_400_with_what_is_wrong(void **state)
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

/* More than fits: the list ends well-formed, says so, and can be gone on with. */
static void answers_are_bounded_and_can_be_gone_on_with(void **state)
{
	enum { N = 10000 };
	static char value[SL_LABEL_VALUE_MAX + 1];
	static struct sl_text_label label = {"padding", value};
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

static void nothing_kept(const struct sl_anomaly *a, void *arg)
{
	(void)a;
	(void)arg;
}

static void findings_are_told_with_what_is_to_blame(void **state)
{
	static const struct sl_pod_name name = {"cart-0", "cart", "shop", "node-1"};
	struct sl_verdicts *v = sl_verdicts_new(&(struct sl_verdicts_opts){.hold_ns = 1000000000});
	struct sl_verdict_pod *p = sl_verdicts_add(v, CART, &name);
	int64_t t = 1763694391000000000;
	struct sl_finding f = {.ns = t, .score = 0.5, .threshold = INFINITY, .shadow_score = NAN};
	json_t *whole, *list, *verdict, *blame;
	char path[64];

	(void)state;
	whole = ask_json("/api/v1/anomalies", 200);
	assert_true(json_is_null(json_object_get(whole, "analysis")));
	json_decref(whole);
	snprintf(path, sizeof(path), "/api/v1/scores?instance=%llx", (unsigned long long)CART);
	json_decref(ask_json(path, 404));
	collector.verdicts = v;
	sl_verdict_push(p, &f);
	whole = ask_json(path, 200);
	verdict = json_object_get(whole, "verdict");
	assert_true(json_is_true(json_object_get(verdict, "learning")));
	assert_true(json_is_null(json_array_get(json_object_get(whole, "threshold"), 0)));
	json_decref(whole);
	f = (struct sl_finding){.ns = t + 1000000000,
				.score = 3.5,
				.threshold = 1,
				.anomalous = true,
				.shadow_score = 2,
				.blames = 1,
				.blame = {{"latency_seconds_p90{path=\"/\"}", 0.75, NAN}}};
	sl_verdict_push(p, &f);
	sl_verdicts_keep(v, f.ns, nothing_kept, NULL);

	list = ask_list("/api/v1/anomalies", "anomalies", &whole);
	assert_int_equal(json_array_size(list), 1);
	assert_string_equal(string(json_array_get(list, 0), "service"), "cart");
	assert_true(json_is_null(json_object_get(json_array_get(list, 0), "end")));
	assert_true(number(json_array_get(list, 0), "peak") == 3.5);
	blame = json_array_get(json_object_get(json_array_get(list, 0), "blame"), 0);
	assert_string_equal(string(blame, "metric"), "latency_seconds_p90{path=\"/\"}");
	assert_true(number(blame, "share") == 0.75);
	assert_true(json_is_null(json_object_get(blame, "value")));
	assert_true(number(json_object_get(whole, "analysis"), "anomalous") == 1);
	json_decref(whole);
	list = ask_list("/api/v1/anomalies?after=1", "anomalies", &whole);
	assert_int_equal(json_array_size(list), 0);
	json_decref(whole);

	list = ask_list("/api/v1/pods?q=cart-0", "pods", &whole);
	verdict = json_object_get(json_array_get(list, 0), "verdict");
	assert_true(json_is_true(json_object_get(verdict, "anomalous")));
	assert_true(number(verdict, "shadow_score") == 2);
	json_decref(whole);
	list = ask_list("/api/v1/pods?q=mail-0", "pods", &whole);
	assert_null(json_object_get(json_array_get(list, 0), "verdict"));
	json_decref(whole);
	list = ask_list(path, "score", &whole);
	assert_int_equal(json_array_size(list), 2);
	assert_true(json_number_value(json_array_get(list, 1)) == 3.5);
	json_decref(whole);
	json_decref(ask_json("/api/v1/scores", 400));
	json_decref(ask_json("/api/v1/scores?instance=xyz", 400));
	json_decref(ask_json("/api/v1/scores?instance=2", 404));
	json_decref(ask_json("/api/v1/anomalies?limit=1001", 400));
	collector.verdicts = NULL;
	sl_verdicts_free(v);
}

static void scaling_is_told_as_kubernetes_wants_it(void **state)
{
	static const char base[] = "/apis/external.metrics.k8s.io/v1beta1";
	static const struct {
		const char *path;
		int status;
		size_t items;
	} asked[] = {
		{"/namespaces/shop/sidelight_scaling_pressure", 200, 2},
		{"/namespaces/shop/sidelight_scaling_pressure?labelSelector=service%3Dcart", 200,
		 1},
		{"/namespaces/shop/sidelight_scaling_pressure?labelSelector=service+notin+(cart)",
		 200, 1},
		{"/namespaces/default/sidelight_scaling_anomalous_ratio", 200, 1},
		{"/namespaces/nowhere/sidelight_scaling_pressure", 200, 0},
		{"/namespaces/shop/sidelight_scaling_pressure?labelSelector=a%3D%3D%3Db", 400, 0},
		{"/namespaces/shop/sidelight_scaling_pressure?labelSelector=in+(", 400, 0},
		{"/namespaces/shop/unknown", 404, 0},
		{"/namespaces/shop", 404, 0},
		{"/namespaces/shop/sidelight_scaling_pressure/more", 404, 0},
	};
	struct sl_verdicts *v = sl_verdicts_new(&(struct sl_verdicts_opts){.max_pods = 1});
	struct sl_scale *s = sl_scale_new(0, 0);
	int64_t t = 1763694391000000000;
	struct sl_pod_verdict p = {.ns = t, .recent = 1.2341};
	json_t *j, *item;
	char path[200];

	(void)state;
	sl_scale_begin(s, t);
	strcpy(p.name.service, "cart");
	strcpy(p.name.kube_namespace, "shop");
	sl_scale_pod(s, &p);
	strcpy(p.name.service, "mail");
	p.recent = 3;
	sl_scale_pod(s, &p);
	strcpy(p.name.kube_namespace, "");
	p.anomalous = true;
	sl_scale_pod(s, &p);
	sl_scale_end(s);
	snprintf(path, sizeof(path), "%s%s", base, asked[0].path);
	j = ask_json(path, 404);
	assert_string_equal(string(j, "kind"), "Status");
	json_decref(j);
	collector.verdicts = v;
	collector.scale = s;
	j = ask_json("/apis", 200);
	assert_string_equal(string(j, "kind"), "APIGroupList");
	json_decref(j);
	json_decref(ask_json("/apis/external.metrics.k8s.io", 200));
	j = ask_json(base, 200);
	assert_string_equal(string(j, "kind"), "APIResourceList");
	assert_string_equal(string(j, "groupVersion"), "external.metrics.k8s.io/v1beta1");
	assert_int_equal(json_array_size(json_object_get(j, "resources")), 2);
	json_decref(j);
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		snprintf(path, sizeof(path), "%s%s", base, asked[i].path);
		j = ask_json(path, asked[i].status);
		if (asked[i].status == 200) {
			assert_string_equal(string(j, "kind"), "ExternalMetricValueList");
			assert_int_equal(json_array_size(json_object_get(j, "items")),
					 asked[i].items);
		} else {
			assert_string_equal(string(j, "kind"), "Status");
			assert_string_equal(string(j, "status"), "Failure");
			assert_true(number(j, "code") == asked[i].status);
		}
		item = json_array_get(json_object_get(j, "items"), 0);
		if (i == 1) {
			assert_string_equal(string(item, "value"), "1235m"); /* rounded up */
			assert_string_equal(string(item, "timestamp"), "2025-11-21T03:06:31Z");
			assert_string_equal(string(item, "metricName"),
					    "sidelight_scaling_pressure");
		}
		if (i == 3)
			assert_string_equal(string(item, "value"), "1");
		json_decref(j);
	}
	collector.verdicts = NULL;
	collector.scale = NULL;
	sl_scale_free(s);
	sl_verdicts_free(v);
}

static void slow_readers_get_503_and_no_more_memory(void **state)
{
	enum { N = 9000, CLIENTS = 40 };
	static char value[SL_LABEL_VALUE_MAX + 1];
	static struct sl_text_label label = {"padding", value};
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

		assert_int_equal(recv(fd[i], head, 12, MSG_WAITALL), 12);
		refused += !strcmp(head + 9, "503");
	}
	assert_in_range(refused, CLIENTS - 9, CLIENTS - 7);
	for (int i = 0; i < CLIENTS; i++)
		close(fd[i]);
	/* All of it is given back. */
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

static void the_page_is_embedded_and_knows_no_outside(void **state)
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

static void many_clients_at_once_are_answered(void **state)
{
	pthread_t thread[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ask_everything, NULL), 0);
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
}

static double layer(const json_t *span, const char *name, const char *what)
{
	return number(json_object_get(json_object_get(span, "layers"), name), what);
}

static void layers_come_by_who_answers_most_with_their_quantiles(void **state)
{
	json_t *all = ask_json("/api/v1/layers", 200), *list = json_object_get(all, "workloads");
	json_t *w = json_array_get(list, 0), *late = json_object_get(w, "late"), *host;

	(void)state;
	assert_int_equal(json_array_size(list), 2);
	assert_true(number(all, "matching") == 2);
	assert_string_equal(string(w, "pod"), "cart-0");
	assert_string_equal(string(w, "role"), "server");
	assert_string_equal(string(w, "port"), "8080");
	assert_true(number(w, "late_seconds") == 12);
	assert_true(number(late, "requests") == 100 && number(late, "unattributed") == 3);
	assert_true(layer(late, "app", "count") == 100);
	assert_true(layer(json_object_get(w, "all"), "app", "count") == 1000);
	/* In the bucket that ends at 2^24 ns, in the middle of it on the logarithmic scale. */
	assert_true(fabs(layer(late, "app", "p50") / (exp2(23.75) * 1e-9) - 1) < 1e-9);
	assert_true(layer(late, "app", "p99") > layer(late, "app", "p90"));
	/* Nothing of late: quantiles of nothing are none. */
	w = json_object_get(json_array_get(list, 1), "late");
	w = json_object_get(json_object_get(w, "layers"), "app");
	assert_true(json_is_null(json_object_get(w, "p50")));
	assert_true(json_is_null(json_object_get(w, "mean")));
	host = json_array_get(json_object_get(all, "hosts"), 0);
	assert_true(number(json_object_get(host, "causes"), "retransmit") == 3);
	assert_int_equal(json_object_size(json_object_get(host, "causes")), 1);
	json_decref(all);
	all = ask_json("/api/v1/layers?role=client&q=cart%205432&host=node-1", 200);
	w = json_array_get(json_object_get(all, "workloads"), 0);
	assert_true(number(all, "matching") == 1);
	assert_string_equal(string(w, "port"), "5432");
	json_decref(all);
	all = ask_json("/api/v1/layers?limit=1", 200);
	assert_int_equal(json_array_size(json_object_get(all, "workloads")), 1);
	json_decref(all);
	json_decref(ask_json("/api/v1/layers?role=x", 400));
	json_decref(ask_json("/api/v1/layers?limit=1001", 400));
}

static void flows_come_by_what_matters_with_what_holds_them_back(void **state)
{
	static const char *const wrong[] = {"sort=x", "state=x",    "limit=1001",
					    "port=0", "port=65536", "id=0"};
	json_t *all = ask_json("/api/v1/flows", 200), *list = json_object_get(all, "flows"), *f, *s;
	char path[64];

	(void)state;
	assert_int_equal(json_array_size(list), 100);
	assert_true(number(all, "matching") == 304);
	f = json_array_get(list, 0);
	assert_true(number(f, "id") == 1 && number(f, "bytes_per_second") == 5000000);
	assert_string_equal(string(f, "limit"), "loss-fast");
	assert_non_null(strstr(string(f, "why"), "9 segments sent again"));
	assert_string_equal(string(f, "pod"), "cart-0");
	assert_string_equal(string(f, "remote"), "10.0.0.2");
	assert_string_equal(string(f, "role"), "server");
	assert_null(json_object_get(f, "numbers"));
	json_decref(all);
	/* What is asked for, in its order, and no more of it. */
	all = ask_json("/api/v1/flows?sort=bytes&limit=3", 200);
	list = json_object_get(all, "flows");
	assert_int_equal(json_array_size(list), 3);
	assert_true(number(json_array_get(list, 0), "id") == 1);
	assert_true(number(json_array_get(list, 1), "id") == 4);
	assert_true(number(json_array_get(list, 2), "id") == 2);
	json_decref(all);
	all = ask_json("/api/v1/flows?sort=rtt&limit=1&pod=cart-0&port=5432", 200);
	f = json_array_get(json_object_get(all, "flows"), 0);
	assert_true(number(all, "matching") == 1 && number(f, "id") == 2);
	assert_string_equal(string(f, "role"), "client");
	assert_string_equal(string(f, "limit"), "application");
	json_decref(all);
	all = ask_json("/api/v1/flows?id=1&host=node-1&remote=10.0.0.2&state=open", 200);
	f = json_array_get(json_object_get(all, "flows"), 0);
	assert_true(json_array_size(json_object_get(f, "numbers")) > 3);
	json_decref(all);
	all = ask_json("/api/v1/flows?q=cart&state=listen&limit=0", 200);
	assert_true(number(all, "matching") == 1);
	assert_int_equal(json_array_size(json_object_get(all, "flows")), 0);
	json_decref(all);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		snprintf(path, sizeof(path), "/api/v1/flows?%s", wrong[i]);
		json_decref(ask_json(path, 400));
	}
	s = ask_json("/api/v1/status", 200);
	f = json_array_get(json_object_get(s, "layers"), 0);
	assert_true(json_is_true(json_object_get(f, "present")) && number(f, "passes") == 7);
	f = json_array_get(json_object_get(s, "tcp"), 0);
	assert_string_equal(string(f, "host"), "node-1");
	assert_true(number(f, "open") == 303 && number(f, "passes") == 7);
	json_decref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status_sums_up_the_workers),
		cmocka_unit_test(rates_are_those_of_the_last_seconds),
		cmocka_unit_test(hosts_say_why_they_are_not_reached),
		cmocka_unit_test(pods_carry_one_word_for_their_state),
		cmocka_unit_test(metrics_show_exact_values_of_every_kind),
		cmocka_unit_test(metrics_are_found_by_name_label_and_pod),
		cmocka_unit_test(pages_of_metrics_join_without_a_seam),
		cmocka_unit_test(history_is_in_order_and_says_what_was_left_out),
		cmocka_unit_test(history_of_what_is_gone_says_so),
		cmocka_unit_test(buckets_have_their_bounds),
		cmocka_unit_test(layers_come_by_who_answers_most_with_their_quantiles),
		cmocka_unit_test(flows_come_by_what_matters_with_what_holds_them_back),
		cmocka_unit_test(latency_is_given_by_worker_and_in_all),
		cmocka_unit_test(bad_questions_are_answered_400_with_what_is_wrong),
		cmocka_unit_test(answers_are_bounded_and_can_be_gone_on_with),
		cmocka_unit_test(findings_are_told_with_what_is_to_blame),
		cmocka_unit_test(scaling_is_told_as_kubernetes_wants_it),
		cmocka_unit_test(slow_readers_get_503_and_no_more_memory),
		cmocka_unit_test(the_page_is_embedded_and_knows_no_outside),
		cmocka_unit_test(many_clients_at_once_are_answered),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
