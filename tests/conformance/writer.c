// SPDX-License-Identifier: Apache-2.0
/*
 * writer.c - the library as a writer that kit.py examines: executes commands line by line, see
 * README.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

static struct sl_publisher *p;
static struct sl_counter requests;
static struct sl_counter_f64 seconds;
static struct sl_gauge depth;
static struct sl_gauge_f64 temperature;
static struct sl_histogram latency;
static struct sl_stateset state;

static void make(void)
{
	static const struct sl_label method[] = {{"method", "get"}, {"code", "200"}};
	static const struct sl_label version[] = {{"version", "1.2 \"ä\""}};
	static const double bounds[] = {0.1, 1, 10};
	static const char *const states[] = {"up", "down"};

	requests = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "kit_requests_total",
						 .help = "Requests.", .labels = method,
						 .label_count = 2));
	seconds = sl_counter_f64_create(
		p, &SL_OPTS(sl_metric_opts, .name = "kit_seconds_total", .unit = "seconds"));
	depth = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "kit_depth"));
	temperature = sl_gauge_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "kit_temperature"));
	latency = sl_histogram_create_classic(p, &SL_OPTS(sl_metric_opts,
							  .name = "kit_latency_seconds",
							  .bounds = bounds, .bound_count = 3));
	state = sl_stateset_create(p, &SL_OPTS(sl_metric_opts, .name = "kit_state",
					       .states = states, .state_count = 2));
	sl_info_create(p, &SL_OPTS(sl_metric_opts, .name = "kit_build_info", .labels = version,
				   .label_count = 1));
	puts("ok counter counter_f64 gauge gauge_f64 histogram stateset info");
}

static void count(long rounds)
{
	static const double latencies[] = {0.05, 0.5, 5, 50};

	for (long i = 1; i <= rounds; i++) {
		sl_counter_inc(requests);
		sl_counter_f64_add(seconds, 0.5);
		sl_gauge_set(depth, -i);
		sl_gauge_f64_set(temperature, (double)i * 0.25);
		sl_histogram_observe(latency, latencies[(i - 1) % 4]);
		sl_stateset_set(state, 0, i % 2 == 0);
		sl_stateset_set(state, 1, i % 2 == 1);
		if (i % 100 == 0)
			usleep(1000);
	}
	puts("ok");
}

static void removable(char *of, bool count)
{
	struct sl_counter_family f = sl_counter_family_create(
		p, &SL_OPTS(sl_metric_opts, .name = "kit_removable_total"));
	struct sl_label l = {"of", of};

	of[strcspn(of, "\n")] = 0;
	if (count)
		sl_counter_inc(sl_counter_with(f, &l, 1));
	else
		sl_counter_remove(f, &l, 1);
	puts("ok");
}

/* The counter of this name with an exemplar, or another one, of this label. */
static void add(bool traced, const struct sl_label *l)
{
	struct sl_counter c = sl_counter_create(
		p, traced ? &SL_OPTS(sl_metric_opts, .name = "kit_traced_total")
			  : &SL_OPTS(sl_metric_opts, .name = "kit.größe", .utf8 = true, .labels = l,
				     .label_count = 1));

	sl_counter_add_exemplar(
		c, 1, traced ? &SL_OPTS(sl_exemplar, .labels = l, .label_count = 1) : NULL);
	puts("ok");
}

int main(void)
{
	char line[256], key[64], value[192];

	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "kit"));
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "make\n"))
			make();
		else if (!strncmp(line, "count ", 6))
			count(atol(line + 6));
		else if (sscanf(line, "traced %63s %191s", key, value) == 2)
			add(true, &(struct sl_label){key, value});
		else if (sscanf(line, "named %63s %191s", key, value) == 2)
			add(false, &(struct sl_label){key, value});
		else if (!strncmp(line, "labels ", 7))
			removable(line + 7, true);
		else if (!strncmp(line, "remove ", 7))
			removable(line + 7, false);
		else
			puts("unknown");
	}
	sl_publisher_close(p);
	return 0;
}
