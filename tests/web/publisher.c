// SPDX-License-Identifier: Apache-2.0
/*
 * publisher.c - a pod controlled by stdin: one word and a number per line (add N, set V, load V,
 * observe X, many N, close), each answered with "ok". It ends at the end of stdin. usage: publisher
 * SOCKET SERVICE POD [VERSION]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/sidelight.h>

static const double bounds[] = {0.1, 0.2, 0.5, 1, 2};
static const char *const states[] = {"closed", "open", "half_open"};

static struct sl_metric_opts metric(const char *name, const char *help, const char *unit,
				    const struct sl_label *label)
{
	return SL_OPTS(sl_metric_opts, .name = name, .help = help, .unit = unit, .labels = label,
		       .label_count = label ? 1 : 0);
}

int main(int argc, char **argv)
{
	const struct sl_label code = {"code", "200"}, odd = {"path", "/a\"b\\<script>\xc3\xa9"};
	const struct sl_label extra[] = {{"zone", "eu-1"}, {"version", argc > 4 ? argv[4] : ""}};
	struct sl_publisher *p;
	struct sl_metric_opts o;
	struct sl_counter requests;
	struct sl_gauge depth;
	struct sl_gauge_f64 load;
	struct sl_histogram classic, exponential;
	struct sl_stateset breaker;
	char line[128];

	if (argc != 4 && argc != 5)
		return 2;
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = argv[2], .pod = argv[3],
				       .labels = extra, .label_count = argc > 4 ? 2 : 1,
				       .socket = argv[1], .max_cells = 16384));
	if (!p) {
		perror("sl_publisher_open");
		return 1;
	}
	o = metric("test_requests_total", "Requests that the test made.", "", &code);
	requests = sl_counter_create(p, &o);
	o = metric("test_queue_depth", "", "", &odd);
	depth = sl_gauge_create(p, &o);
	o = metric("test_load_ratio", "", "ratio", NULL);
	load = sl_gauge_f64_create(p, &o);
	o = metric("test_latency_seconds", "Time to answer.", "seconds", NULL);
	o.scale = 3;
	o.use_scale = true;
	o.min = 1e-6;
	o.max = 100;
	exponential = sl_histogram_create(p, &o);
	o = metric("test_size_seconds", "", "seconds", NULL);
	o.bounds = bounds;
	o.bound_count = sizeof(bounds) / sizeof(*bounds);
	classic = sl_histogram_create_classic(p, &o);
	o = metric("test_breaker", "", "", NULL);
	o.states = states;
	o.state_count = 3;
	breaker = sl_stateset_create(p, &o);
	o = metric("test_build", "", "", &code);
	sl_info_create(p, &o);
	sl_stateset_set(breaker, 1, true);

	while (fgets(line, sizeof(line), stdin)) {
		char *number = strchr(line, ' ');

		if (!strncmp(line, "add ", 4)) {
			sl_counter_add(requests, strtoull(number, NULL, 10));
		} else if (!strncmp(line, "set ", 4)) {
			sl_gauge_set(depth, strtoll(number, NULL, 10));
		} else if (!strncmp(line, "load ", 5)) {
			sl_gauge_f64_set(load, strtod(number, NULL));
		} else if (!strncmp(line, "observe ", 8)) {
			sl_histogram_observe(exponential, strtod(number, NULL));
			sl_histogram_observe(classic, strtod(number, NULL));
		} else if (!strncmp(line, "many ", 5)) {
			for (int i = 0, n = atoi(number); i < n; i++) {
				char shard[16];
				struct sl_label l = {"shard", shard};

				snprintf(shard, sizeof(shard), "%05d", i);
				o = metric("test_many_total", "", "", &l);
				sl_counter_add(sl_counter_create(p, &o), (uint64_t)i);
			}
		} else if (!strncmp(line, "close", 5)) {
			sl_publisher_close(p);
			p = NULL;
		} else {
			puts("what?");
		}
		puts("ok");
		fflush(stdout);
	}
	sl_publisher_close(p);
	return 0;
}
