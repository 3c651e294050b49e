// SPDX-License-Identifier: Apache-2.0
/*
 * minor1 SOCKET - publishes features of minor 1 of the region format with known values, until its
 * standard input ends: exemplars, creation times, UTF-8 names, and further kinds.
 */
#include <stdio.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#define EXEMPLAR(...) (&SL_OPTS(sl_exemplar, __VA_ARGS__))
#define METRIC(...)   (&SL_OPTS(sl_metric_opts, __VA_ARGS__))

#define AT	      1700000000500000000ull

int main(int argc, char **argv)
{
	static const double bounds[] = {0.1, 1}, ranks[] = {0.5, 0.99}, quantiles[] = {0.25, 2};
	static const uint64_t buckets[] = {1, 2, 3};
	static const struct sl_label user = {"user", "a \"b\"\n"}, utf8 = {"k\xc3\xa4se", "1"};
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "kinds",
							    .socket = argc > 1 ? argv[1] : NULL));
	struct sl_histogram classic, native;
	struct sl_summary summary;
	char c;

	if (!p)
		return 1;
	sl_counter_add_exemplar(
		sl_counter_create(p, METRIC(.name = "done_total", .help = "Done.",
					    .created_ns = 1600000000250000000ull)),
		2, EXEMPLAR(.trace_hi = 1, .trace_lo = 2, .span_id = 3, .time_ns = AT));
	classic = sl_histogram_create_classic(
		p, METRIC(.name = "wait_seconds", .bounds = bounds, .bound_count = 2));
	sl_histogram_observe_exemplar(classic, 0.5, EXEMPLAR(.trace_lo = 4, .time_ns = AT));
	sl_histogram_observe_exemplar(
		classic, 7, EXEMPLAR(.labels = &user, .label_count = 1, .time_ns = AT + 1));
	native = sl_histogram_create(p, METRIC(.name = "latency_seconds", .scale = 3,
					       .use_scale = true, .min = 1e-3, .max = 10));
	sl_histogram_observe_exemplar(native, 0.25, EXEMPLAR(.trace_lo = 5, .time_ns = AT));
	summary = sl_summary_create(
		p, METRIC(.name = "size_bytes", .quantiles = ranks, .quantile_count = 2));
	sl_summary_add(summary, 12, 3);
	sl_summary_set_quantiles(summary, quantiles, 2);
	sl_unknown_set(sl_unknown_create(p, METRIC(.name = "thing")), 1.5);
	sl_gauge_histogram_set(
		sl_gauge_histogram_create_classic(
			p, METRIC(.name = "queue_seconds", .bounds = bounds, .bound_count = 2)),
		buckets, 3, 9);
	sl_gauge_timed_set(sl_gauge_timed_create(p, METRIC(.name = "last")), 3);
	sl_counter_add(sl_counter_create(p, METRIC(.name = "http.requests", .utf8 = true,
						   .labels = &utf8, .label_count = 1)),
		       5);
	sl_gauge_set(sl_gauge_create(p, METRIC(.name = "disk.free", .utf8 = true)), 6);
	sl_gauge_set(sl_gauge_create(p, METRIC(.name = "disk_free")), 7);
	sl_gauge_set(sl_gauge_create(p, METRIC(.name = "disk free", .utf8 = true)), 8);
	for (int i = 0; i < 1000 && !sl_publisher_attached(p); i++)
		usleep(10000);
	printf("ready pid=%d attached=%d\n", (int)getpid(), sl_publisher_attached(p));
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	sl_publisher_close(p);
	return 0;
}
