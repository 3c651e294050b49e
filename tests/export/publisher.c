// SPDX-License-Identifier: Apache-2.0
/*
 * publisher SOCKET - publishes one metric of every kind with known values through libsidelight
 * until its input ends.
 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#define LABELS(...)                                       \
	.labels = (const struct sl_label[]){__VA_ARGS__}, \
	.label_count = sizeof((const struct sl_label[]){__VA_ARGS__}) / sizeof(struct sl_label)

int main(int argc, char **argv)
{
	static const double bounds[] = {0.01, 0.1, 1};
	static const char *const states[] = {"starting", "up", "draining"};
	struct sl_publisher_opts opts = SL_OPTS(sl_publisher_opts, .service = "shop",
						.pod = "shop-\"0\"\\", .kube_namespace = "default",
						.socket = argc > 1 ? argv[1] : NULL);
	struct sl_publisher *p = sl_publisher_open(&opts);
	struct sl_histogram native, classic;
	struct sl_stateset state;
	char c;

	if (!p)
		return 1;
	sl_counter_add(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_requests_total",
						     .help = "Requests", LABELS({"code", "200"}))),
		       1234567890123);
	sl_counter_add(
		sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_requests_total",
					      .help = "Requests", LABELS({"code", "50\n0"}))),
		1ull << 63);
	sl_counter_f64_add(
		sl_counter_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_cpu_seconds_total",
						  .help = "CPU", .unit = "seconds")),
		0.1);
	sl_gauge_set(sl_gauge_create(
			     p, &SL_OPTS(sl_metric_opts, .name = "shop_queue", .help = "Waiting")),
		     -42);
	sl_gauge_f64_set(
		sl_gauge_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_temperature_celsius",
						.help = "Warmth", .unit = "celsius")),
		21.5);
	native = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_latency_seconds",
						 .help = "Latency", .unit = "seconds", .scale = 3,
						 .use_scale = true, .min = 1e-6, .max = 100));
	classic = sl_histogram_create_classic(
		p, &SL_OPTS(sl_metric_opts, .name = "shop_wait_seconds", .help = "Waiting",
			    .unit = "seconds", .bounds = bounds, .bound_count = 3));
	for (int i = 1; i <= 1000; i++) { /* 1 ms to 1 s, evenly */
		sl_histogram_observe(native, i / 1000.0);
		sl_histogram_observe(classic, i / 1000.0);
	}
	sl_histogram_observe(native, 0);   /* zero bucket */
	sl_histogram_observe(native, 1e6); /* above all */
	sl_histogram_observe(classic, 5);
	sl_info_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_build", .help = "Build",
				   LABELS({"compiler", "gcc"}, {"version", "1.2.3"})));
	state = sl_stateset_create(p,
				   &SL_OPTS(sl_metric_opts, .name = "shop_state", .help = "State",
					    .states = states, .state_count = 3));
	sl_stateset_set(state, 1, true);
	for (int i = 0; i < 1000 && !sl_publisher_attached(p); i++)
		usleep(10000);
	printf("ready pid=%d attached=%d\n", (int)getpid(), sl_publisher_attached(p));
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	sl_publisher_close(p);
	return 0;
}
