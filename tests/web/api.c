// SPDX-License-Identifier: Apache-2.0
#include "api.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/base.h"
#include "api/api.h"
#include "http/http.h"

/* ---- a collector with two hosts and four pods ---- */

static const double bounds[] = {0.1, 0.5, 1};
static const struct region_text_label code200[] = {{"code", "200"}, {"method", "GET"}};
static const struct region_text_label code500[] = {{"code", "500"}, {"method", "GET"}};
const struct region_text_label odd[1] = {{"text", "a\"b\\c\n\xe2\x82\xac </script>"}};
static const char *const states[] = {"closed", "open"};

static const uint64_t value_big[] = {UINT64_MAX};
const uint64_t value_500[1] = {7};
static uint64_t value_i64[1], value_f64[1], value_nan[1], value_state[] = {2};
static uint64_t value_classic[2 + 4], value_exp[2 + 10];
struct collect_point points[POINTS];

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

#define REGION(i, svc, pod_, ...)                                      \
	{                                                              \
		.view = {.target = "/run/a.sock",                      \
			 .hostname = "node-1",                         \
			 .tenant = {.container = ""},                  \
			 __VA_ARGS__},                                 \
		.info = {.instance = i,                                \
			 .pid = 4100,                                  \
			 .label_count = 2,                             \
			 .size = 65536,                                \
			 .labels = {{"service", svc}, {"pod", pod_}}}, \
	}

struct fake_region regions[] = {
	REGION(CART, "cart", "cart-0", .fault = "", .state = SL_STATE_LIVE, .metrics = 9,
	       .series = 9, .changed_ns = 1763694391123456789),
	REGION(2, "mail", "mail-0", .fault = "", .state = SL_STATE_DEAD, .stale = true,
	       .metrics = 1),
	REGION(3, "mail", "mail-1", .fault = "", .state = SL_STATE_LIVE, .stale = true,
	       .metrics = 1),
	REGION(4, "evil", "evil-0", .state = SL_STATE_LIVE, .fault = "section"),
	REGION(5, "mail", "mail-2", .fault = "", .state = SL_STATE_CLOSED, .metrics = 1),
};

static struct collect_host_view hosts[] = {
	{.target = "/run/a.sock",
	 .fabric = "shm",
	 .hostname = "node-1",
	 .condition = COLLECT_HOST_UP,
	 .regions = 5,
	 .stats = {.reads = 10, .errors_timeout = 3}},
	{.target = "node-2",
	 .fabric = "verbs",
	 .hostname = NULL,
	 .condition = COLLECT_HOST_CONNECTING,
	 .stats = {.last_error = "no route", .last_error_ns = 1}},
};

struct collect_worker_view workers[] = {
	{.worker = 0, .cpu = -1, .rounds = 1000, .reads = 9000, .elapsed_ns = 10000000000ull},
	{.worker = 1, .cpu = 1, .rounds = 500, .missed_deadlines = 5, .elapsed_ns = 10000000000ull},
};

struct collect_collector collector = {
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
	int64_t now = (int64_t)base_realtime_ns();

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
		points[i] = (struct collect_point){now - (POINTS - 1 - i) * 1000000ll, i};
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
	workers[1].errors[REGION_FAULT_RECORD] = 2;
}

/* ---- a client ---- */

struct http *http;
struct collect_services *services;
struct collect_tracer tracer;
static uint16_t port;

int setup(void **state)
{
	char error[200] = "";
	const char *colon;

	(void)state;
	fill_collector();
	http = http_new(&(struct http_opts){.listen = "127.0.0.1:0"}, error, sizeof(error));
	fake_flows(&collector, 300);
	/* No host becomes silent meanwhile, however long the tests take under a tool. */
	for (size_t i = 0; i < collector.flow_count; i++)
		collector.flows[i].read_ns += 600000000000;
	services = collect_services_new(&collector);
	assert_non_null(services);
	if (!http || api_register(http, &collector) || api_analysis(http, &collector) ||
	    api_services(http, services, &tracer) || http_start(http, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return -1;
	}
	colon = strrchr(http_address(http), ':');
	port = (uint16_t)atoi(colon + 1);
	return 0;
}

static struct {
	void (*fn)(void *);
	void *what;
} at_the_end[16];

void free_at_the_end(void (*fn)(void *), void *what)
{
	for (size_t i = 0; i < sizeof(at_the_end) / sizeof(*at_the_end); i++)
		if (!at_the_end[i].fn) {
			at_the_end[i].fn = fn;
			at_the_end[i].what = what;
			return;
		}
	fail_msg("more to free than at_the_end[] has room for");
}

int teardown(void **state)
{
	(void)state;
	http_free(http);
	collect_services_free(services);
	for (size_t i = 0; i < sizeof(at_the_end) / sizeof(*at_the_end) && at_the_end[i].fn; i++)
		at_the_end[i].fn(at_the_end[i].what);
	return 0;
}

int dial(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval patience = {.tv_sec = 100};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fake_sync();
	return fd;
}

struct reply ask(const char *path, const char *headers)
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
		got = TEMP_FAILURE_RETRY(read(fd, r.text + n, room - n - 1));
		assert_true(got >= 0);
		n += (size_t)got;
	} while (got);
	close(fd);
	fake_sync();
	r.text[n] = '\0';
	assert_int_equal(sscanf(r.text, "HTTP/1.%*d %d", &r.status), 1);
	r.body = strstr(r.text, "\r\n\r\n");
	assert_non_null(r.body);
	r.body += 4;
	r.body_bytes = n - (size_t)(r.body - r.text);
	return r;
}

json_t *ask_json(const char *path, int status)
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

double number(const json_t *json, const char *key)
{
	const json_t *v = json_object_get(json, key);

	if (!json_is_number(v))
		fail_msg("%s is no number", key);
	return json_number_value(v);
}

const char *string(const json_t *json, const char *key)
{
	const char *s = json_string_value(json_object_get(json, key));

	if (!s)
		fail_msg("%s is no string", key);
	return s;
}

json_t *ask_list(const char *path, const char *key, json_t **whole)
{
	json_t *list;

	*whole = ask_json(path, 200);
	list = json_object_get(*whole, key);
	assert_true(json_is_array(list));
	return list;
}
