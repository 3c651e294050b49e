// SPDX-License-Identifier: Apache-2.0
/* test_grow.c - a publisher that has filled its region continues in additional ones. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "support/test.h"
#include "reader.h"

enum { MANY = 3000, REGIONS = 64 };

static struct sl_publisher *open_small(void)
{
	struct sl_publisher *p = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .max_cells = 50, .schema_bytes = 4096, .max_threads = 4,
			 .service = "shop", .pod = "shop-0", .flags = SL_PUBLISHER_DETACHED));

	assert_non_null(p);
	return p;
}

static struct sl_publisher_stats stats_of(const struct sl_publisher *p)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);

	assert_int_equal(sl_publisher_stats(p, &stats), 0);
	return stats;
}

/* Contents of all regions for a family of counters: their number, and the sum of their values. */
struct found {
	uint64_t count, sum, wrong;
	size_t regions;
};

static struct found look(struct sl_publisher *p, const char *name)
{
	int fds[REGIONS];
	size_t n = sl_publisher_fds(p, fds, REGIONS);
	struct found found = {.regions = n};

	for (size_t i = 0; i < n; i++) {
		struct reader r;

		if (reader_open(&r, fds[i]) || reader_round(&r) || r.unsettled ||
		    r.info.label_count != 2 || strcmp(r.info.labels[0].value, "shop-0") ||
		    strcmp(r.info.labels[1].value, "shop")) {
			found.wrong++;
			continue;
		}
		for (size_t m = 0; m < r.schema.count; m++) {
			const struct region_metric *metric = r.schema.metrics[m];

			if (!metric || strcmp(metric->name, name))
				continue;
			found.count++;
			found.sum += region_values_u64(&r.values, metric->cell);
		}
		reader_close(&r);
	}
	return found;
}

static struct sl_counter with(struct sl_counter_family f, int i)
{
	char value[12];

	snprintf(value, sizeof(value), "%d", i);
	return sl_counter_with(f, SL_LABELS({"k", value}));
}

static void *count_each(void *arg)
{
	const struct sl_counter *c = arg;

	for (int i = 0; i < MANY; i++)
		sl_counter_inc(c[i]);
	return NULL;
}

static void a_full_region_is_followed_by_another(void **state)
{
	static struct sl_counter c[MANY];
	struct sl_publisher *p = open_small();
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct sl_histogram h;
	struct found found;
	pthread_t t;
	int fd;

	(void)state;
	assert_int_equal(stats_of(p).regions, 1);
	for (int i = 0; i < MANY; i++) {
		c[i] = with(f, i);
		assert_true(sl_counter_valid(c[i]));
		sl_counter_inc(c[i]);
	}
	/* Larger than any region so far, except the one that is opened for it. */
	h = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "h", .use_scale = true,
					    .scale = 6, .min = 1e-9, .max = 1e9));
	sl_histogram_observe(h, 1);
	assert_int_equal(sl_histogram_count(h), 1);
	assert_int_equal(pthread_create(&t, NULL, count_each, c), 0);
	count_each(c);
	pthread_join(t, NULL);
	assert_int_equal(with(f, 7).bits, c[7].bits);
	assert_int_equal(sl_counter_value(c[MANY - 1]), 3);
	assert_int_equal(stats_of(p).metrics, MANY + 1);
	assert_int_equal(stats_of(p).refused, 0);
	assert_true(stats_of(p).cells_used > MANY);
	assert_true(stats_of(p).cells_max >= stats_of(p).cells_used);
	assert_true(stats_of(p).regions > 1 && stats_of(p).regions < 16);
	found = look(p, "c_total");
	assert_int_equal(found.regions, stats_of(p).regions);
	assert_int_equal(found.wrong, 0);
	assert_int_equal(found.count, MANY);
	assert_int_equal(found.sum, 3 * MANY);
	assert_int_equal(sl_publisher_fds(p, &fd, 1), found.regions);
	assert_int_equal(fd, sl_publisher_fd(p));

	/* Removed metrics leave room in any region. */
	assert_int_equal(sl_counter_clear(f), 0);
	assert_int_equal(stats_of(p).metrics, 1);
	assert_int_equal(look(p, "c_total").regions, found.regions);
	assert_int_equal(with(f, 7).bits, c[7].bits);
	assert_int_equal(sl_counter_value(c[7]), 0);
	sl_publisher_close(p);
}

static void a_forked_child_keeps_all_regions(void **state)
{
	static struct sl_counter c[MANY];
	struct sl_publisher *p = open_small();
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct found found;
	int status = -1;
	pid_t pid;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		c[i] = with(f, i);
		sl_counter_add(c[i], 5);
	}
	pid = fork();
	if (!pid) {
		sl_counter_inc(c[MANY - 1]); /* in the last region, before the first one is used */
		for (int i = 0; i < MANY; i++)
			sl_counter_inc(c[i]);
		found = look(p, "c_total");
		for (int i = MANY; i < 2 * MANY; i++)
			if (!sl_counter_valid(with(f, i)))
				_exit(2);
		_exit(found.count != MANY || found.sum != MANY + 1 || found.wrong ||
		      look(p, "c_total").count != 2 * MANY);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	found = look(p, "c_total");
	assert_int_equal(found.count, MANY);
	assert_int_equal(found.sum, 5 * MANY);
	sl_publisher_close(p);
}

static void find_cause(enum sl_log_level level, const char *line, void *arg)
{
	(void)level;
	if (strstr(line, "63 regions"))
		*(bool *)arg = true;
}

static void what_no_region_is_left_for_is_refused(void **state)
{
	bool told = false;
	struct sl_publisher *p = open_small(), *others[SL_PUBLISHER_SLOTS];
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	int n = 0, fits = 0;

	(void)state;
	while ((others[n] = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED))))
		n++;
	assert_int_equal(n, SL_PUBLISHER_SLOTS - 2);
	sl_set_log(find_cause, &told);
	while (sl_counter_valid(with(f, fits)))
		fits++;
	assert_int_equal(errno, ENOSPC);
	assert_true(told);
	sl_set_log(NULL, NULL);
	assert_in_range(fits, 10, 50);
	assert_int_equal(stats_of(p).refused, 1);
	assert_int_equal(stats_of(p).regions, 1);
	while (n)
		sl_publisher_close(others[--n]);
	sleep(1); /* after a failure, the next attempt is a second later */
	assert_true(sl_counter_valid(with(f, fits)));
	assert_int_equal(stats_of(p).regions, 2);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_region_is_followed_by_another),
		cmocka_unit_test(a_forked_child_keeps_all_regions),
		cmocka_unit_test(what_no_region_is_left_for_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
