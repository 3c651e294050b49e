// SPDX-License-Identifier: Apache-2.0
/*
 * pod.c - pod SOCKET NAME [MS]: a service whose metrics have steady noise; it creates the metrics
 * MS milliseconds after attaching. The line "fault" on stdin makes it slow and erroneous, the line
 * "slow" only slow, and "fine" ends both; at the end of stdin the process ends. It answers every
 * line with "alarmed 1" or "alarmed 0", the verdict that it has received. All its traces look the
 * same, so only a verdict can distinguish them.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/span.h>

static uint64_t state = 88172645463325252ull;

/* 0 .. 1, the same in each run */
static double chance(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) * 0x1p-53;
}

int main(int argc, char **argv)
{
	struct sl_publisher_opts opts =
		SL_OPTS(sl_publisher_opts, .service = "shop", .pod = argc > 2 ? argv[2] : "shop-0",
			.kube_namespace = "default", .socket = argc > 1 ? argv[1] : NULL,
			.span_bytes = SL_SPAN_BYTES);
	struct sl_publisher *p = sl_publisher_open(&opts);
	struct sl_counter requests, errors, cpu;
	static const double bounds[] = {5.5, 7.5, 9.5};
	struct sl_histogram latency, batch;
	struct sl_span_name request;
	struct sl_gauge queue;
	bool fault = false, erroneous = false;
	char line[64];

	if (!p)
		return 1;
	for (const char *c = opts.pod; *c; c++)
		state = state * 31 + (uint64_t)*c;
	if (argc > 3)
		usleep(1000 * (useconds_t)atoi(argv[3]));
	requests = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_requests_total"));
	errors = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_errors_total"));
	cpu = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_cpu_microseconds_total"));
	queue = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_queue"));
	latency = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_latency_seconds",
						  .unit = "seconds", .scale = 3, .use_scale = true,
						  .min = 1e-6, .max = 100));
	batch = sl_histogram_create_classic(p, &SL_OPTS(sl_metric_opts, .name = "shop_batch",
							.bounds = bounds, .bound_count = 3));
	request = sl_span_name_create(p, "GET /");
	for (;;) {
		struct pollfd in = {.fd = 0, .events = POLLIN};
		int n = 5 + (int)(6 * chance());
		struct timespec now;
		struct sl_span span;
		uint64_t ns;

		if (poll(&in, 1, 10) > 0) {
			if (!fgets(line, sizeof(line), stdin))
				break;
			if (!strcmp(line, "fault\n") || !strcmp(line, "slow\n")) {
				fault = true;
				erroneous = *line == 'f';
			} else if (!strcmp(line, "fine\n")) {
				fault = erroneous = false;
			}
			printf("alarmed %d\n", sl_publisher_alarmed(p));
			fflush(stdout);
		}
		sl_span_start(&span, request, SL_SPAN_SERVER, NULL);
		clock_gettime(CLOCK_REALTIME, &now);
		ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
		sl_span_set_start(&span, ns);
		sl_span_set_end(&span, ns + 5000000);
		sl_span_end(&span);
		sl_counter_add(requests, (uint64_t)n);
		sl_histogram_observe(batch, n);
		sl_counter_add(cpu, (uint64_t)(n * (fault ? 400 : 100) * (0.8 + 0.4 * chance())));
		sl_gauge_set(queue, (int64_t)((fault ? 60 : 6) * (0.5 + chance())));
		for (int i = 0; i < n; i++) {
			double seconds = 0.01 * (0.5 + chance()) * (fault ? 20 : 1);

			sl_histogram_observe(latency, seconds);
			sl_counter_add(errors, chance() < (erroneous ? 0.5 : 0.02));
		}
	}
	sl_publisher_close(p);
	return 0;
}
