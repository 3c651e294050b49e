// SPDX-License-Identifier: Apache-2.0
/* test_publish.c - the content of a publisher's region, as decoded by src/region. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "support/test.h"
#include "reader.h"

static char logged[4096];
static int log_lines;

static void log_line(enum sl_log_level level, const char *line, void *arg)
{
	(void)level, (void)arg;
	log_lines++;
	snprintf(logged, sizeof(logged), "%s", line);
}

static struct sl_publisher *open_plain(void)
{
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "shop",
							    .pod = "shop-0",
							    .flags = SL_PUBLISHER_DETACHED));

	assert_non_null(p);
	return p;
}

static void look(struct reader *r, struct sl_publisher *p)
{
	assert_int_equal(reader_open(r, sl_publisher_fd(p)), REGION_FAULT_NONE);
	assert_int_equal(reader_round(r), REGION_FAULT_NONE);
	assert_int_equal(r->unsettled, 0);
}

static void region_is_sealed_private_and_closed_on_exec(void **state)
{
	struct sl_publisher *p = open_plain();
	int fd = sl_publisher_fd(p), seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	(void)state;
	/* The agent adds F_SEAL_FUTURE_WRITE after it has mapped the memory. */
	assert_int_equal(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			 F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal(seals & F_SEAL_WRITE, 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444); /* it can't be reopened for writing */
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(ftruncate(fd, st.st_size + 4096), -1);
	assert_int_equal(ftruncate(fd, 4096), -1);
	assert_true(fd > 2);
	sl_publisher_close(p);
}

static void header_says_who_publishes(void **state)
{
	struct sl_label more[] = {{"zone", "a"}, {"app", "1"}};
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(
		sl_publisher_opts, .service = "shop", .pod = "shop-0", .kube_namespace = "prod",
		.labels = more, .label_count = 2, .flags = SL_PUBLISHER_DETACHED));
	char boot[64] = "", hex[33];
	struct reader r;
	FILE *f;

	(void)state;
	look(&r, p);
	assert_int_equal(r.info.kind, SL_REGION_METRICS);
	assert_int_equal(r.info.pid, getpid());
	assert_true(r.info.instance != 0);
	assert_true(r.info.start_ticks != 0);
	assert_true(r.info.start_ns > 1600000000ull * 1000000000);
	assert_int_equal(r.info.stripe_stride % 4096, 0);
	assert_int_equal(r.info.stripes % 4096, 0);
	assert_int_equal(r.info.label_count, 5);
	assert_string_equal(r.info.labels[0].key, "app");
	assert_string_equal(r.info.labels[1].key, "namespace");
	assert_string_equal(r.info.labels[1].value, "prod");
	assert_string_equal(r.info.labels[2].value, "shop-0");
	assert_string_equal(r.info.labels[3].key, "service");
	assert_string_equal(r.info.labels[4].value, "a");
	f = fopen("/proc/sys/kernel/random/boot_id", "r");
	assert_non_null(f);
	assert_non_null(fgets(boot, sizeof(boot), f));
	fclose(f);
	for (int i = 0; i < 16; i++)
		sprintf(hex + i * 2, "%02x", r.info.boot_id[i]);
	for (char *from = boot, *to = boot;; from++)
		if (*from != '-' && !(*to++ = *from == '\n' ? '\0' : *from))
			break;
	assert_string_equal(hex, boot);
	assert_int_equal(r.hot.state, SL_STATE_LIVE);
	assert_int_equal(r.hot.stripes_used, 1);
	reader_close(&r);
	sl_publisher_close(p);
}

/* The value of a label in the header. */
static bool pod_is(struct sl_publisher *p, const char *pod)
{
	struct reader r;
	bool same = false;

	reader_open(&r, sl_publisher_fd(p));
	for (uint32_t i = 0; i < r.info.label_count; i++)
		same |= !strcmp(r.info.labels[i].key, "pod") &&
			!strcmp(r.info.labels[i].value, pod);
	reader_close(&r);
	return same;
}

static void a_pod_is_told_from_its_neighbours(void **state)
{
	struct sl_label more = {"zone", "a"};
	struct sl_publisher *p;
	struct sl_counter c;
	int status = -1;
	char pod[64];
	pid_t pid;

	(void)state;
	unsetenv("POD_NAME");
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "shop", .labels = &more,
				       .label_count = 1, .flags = SL_PUBLISHER_DETACHED));
	assert_non_null(p);
	snprintf(pod, sizeof(pod), "shop-%d", (int)getpid());
	if (!pod_is(p, pod)) {
		printf("SKIP: this process runs in a container, whose id it is\n");
		sl_publisher_close(p);
		skip();
	}
	c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "a_total"));
	pid = fork();
	if (!pid) {
		sl_counter_inc(c);
		snprintf(pod, sizeof(pod), "shop-%d", (int)getpid());
		_exit(!pod_is(p, pod));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(pod_is(p, pod));
	sl_publisher_close(p);
	setenv("POD_NAME", "cart-0", 1);
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));
	assert_true(pod_is(p, "cart-0"));
	sl_publisher_close(p);
	unsetenv("POD_NAME");
}

static void counters_read_as_they_were_written(void **state)
{
	struct sl_label labels[] = {{"path", "/\"\\\n\xc3\xa9"}, {"code", "200"}};
	struct sl_publisher *p = open_plain();
	struct sl_counter c = sl_counter_create(
		p, &SL_OPTS(sl_metric_opts, .name = "c_total", .help = "Help.\nMore.",
			    .unit = "seconds", .labels = labels, .label_count = 2));
	struct sl_counter_f64 f =
		sl_counter_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "f_total"));
	const struct region_metric *m;
	struct reader r;

	(void)state;
	assert_true(sl_counter_valid(c) && sl_counter_f64_valid(f));
	sl_counter_inc(c);
	sl_counter_add(c, UINT64_MAX - 1);
	sl_counter_add(c, 8);
	sl_counter_f64_add(f, 0.25);
	sl_counter_f64_add(f, 1e10);
	look(&r, p);
	m = reader_find(&r, "c_total", NULL);
	assert_non_null(m);
	assert_int_equal(m->kind, SL_KIND_COUNTER);
	assert_string_equal(m->help, "Help.\nMore.");
	assert_string_equal(m->unit, "seconds");
	assert_int_equal(m->label_count, 2);
	assert_string_equal(m->labels[0].key, "code");
	assert_string_equal(m->labels[1].value, labels[0].value);
	assert_int_equal(region_values_u64(&r.values, m->cell), 7);
	assert_int_equal(sl_counter_value(c), 7);
	assert_true(reader_f64(&r, "f_total") == 10000000000.25);
	assert_true(sl_counter_f64_value(f) == 10000000000.25);
	reader_close(&r);
	sl_publisher_close(p);
}

static void gauges_states_and_infos_read_as_they_were_written(void **state)
{
	static const char *const states[] = {"red", "amber", "green"};
	struct sl_label label = {"code", "200"};
	struct sl_publisher *p = open_plain();
	struct sl_gauge g = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "g"));
	struct sl_gauge_f64 gf = sl_gauge_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "gf"));
	struct sl_stateset s = sl_stateset_create(
		p, &SL_OPTS(sl_metric_opts, .name = "s", .states = states, .state_count = 3));
	const struct region_metric *m;
	struct reader r;

	(void)state;
	assert_int_equal(sl_info_create(p, &SL_OPTS(sl_metric_opts, .name = "i", .labels = &label,
						    .label_count = 1)),
			 0);
	assert_true(sl_gauge_valid(g) && sl_gauge_f64_valid(gf) && sl_stateset_valid(s));
	sl_gauge_set(g, INT64_MIN);
	sl_gauge_add(g, 5);
	sl_gauge_f64_set(gf, -1.5);
	sl_gauge_f64_add(gf, -1e-3);
	sl_stateset_set(s, 0, true);
	sl_stateset_set(s, 2, true);
	sl_stateset_set(s, 0, false);
	sl_stateset_set(s, 0, false);
	sl_stateset_set(s, 64, true);
	look(&r, p);
	m = reader_find(&r, "g", NULL);
	assert_true((int64_t)region_values_shared(&r.values, m->cell) == INT64_MIN + 5);
	assert_true(sl_gauge_value(g) == INT64_MIN + 5);
	m = reader_find(&r, "gf", NULL);
	assert_true(sl_f64_of_cell(region_values_shared(&r.values, m->cell)) == -1.5 + -1e-3);
	assert_true(sl_gauge_f64_value(gf) == -1.5 + -1e-3);
	m = reader_find(&r, "s", NULL);
	assert_int_equal(region_values_shared(&r.values, m->cell), 4);
	assert_int_equal(m->state_count, 3);
	assert_string_equal(m->states[1], "amber");
	m = reader_find(&r, "i", NULL);
	assert_int_equal(m->kind, SL_KIND_INFO);
	assert_int_equal(m->cells, 0);
	reader_close(&r);
	sl_publisher_close(p);
}

static void histograms_read_as_they_were_written(void **state)
{
	static const double bounds[] = {-1, 0, 2.5};
	static const double seen[] = {-0.6, -0.5, 0, 5e-324, 0.5,   0.50001, 1,
				      1.5,  2,	  8, 8.1,    1e300, NAN,     3};
	static const double classic[] = {-5, -1, -0.5, 0, 2.5, 3, INFINITY, NAN};
	static const uint64_t expected[] = {2, 4, 2, 2, 1, 1, 2};
	static const uint64_t classic_expected[] = {1, 2, 2, 1, 2};
	struct sl_publisher *p = open_plain();
	struct sl_histogram h = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "h",
								.scale = 0, .use_scale = true,
								.min = 0.5, .max = 8));
	struct sl_histogram k = sl_histogram_create_classic(
		p, &SL_OPTS(sl_metric_opts, .name = "k", .bounds = bounds, .bound_count = 3));
	const struct region_metric *m;
	struct reader r;

	(void)state;
	assert_true(sl_histogram_valid(h) && sl_histogram_valid(k));
	for (size_t i = 0; i < sizeof(seen) / sizeof(*seen); i++)
		sl_histogram_observe(h, seen[i]);
	for (size_t i = 0; i < sizeof(classic) / sizeof(*classic); i++)
		sl_histogram_observe(k, classic[i]);
	look(&r, p);
	/* 0.5 < x <= 1 is bucket 0, 4 < x <= 8 bucket 3. */
	m = reader_find(&r, "h", NULL);
	assert_int_equal(m->kind, SL_KIND_HISTOGRAM_EXP);
	assert_int_equal(m->first_bucket, 0);
	assert_int_equal(m->cells, 2 + 1 + 4 + 1);
	assert_true(m->zero_threshold == 0.5);
	assert_true(region_values_f64(&r.values, m->cell) ==
		    -0.5 + 0 + 5e-324 + 0.5 + 0.50001 + 1 + 1.5 + 2 + 8 + 8.1 + 1e300 + 3);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(region_values_u64(&r.values, m->cell + 1 + i), expected[i]);
	assert_int_equal(sl_histogram_count(h), 12);
	m = reader_find(&r, "k", NULL);
	assert_int_equal(m->bound_count, 3);
	assert_true(m->bounds[2] == 2.5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(region_values_u64(&r.values, m->cell + 1 + i),
				 classic_expected[i]);
	assert_true(isinf(sl_histogram_sum(k)));
	assert_int_equal(sl_histogram_count(k), 7);
	reader_close(&r);
	sl_publisher_close(p);
}

static void histograms_take_many_observations_at_once(void **state)
{
	static const double bounds[] = {1, 2};
	static const uint64_t many[] = {3, 0, 1ull << 40}, wanted[] = {3, 1, 1ull << 40};
	struct sl_publisher *p = open_plain();
	struct sl_histogram h = sl_histogram_create_classic(p, &SL_OPTS(sl_metric_opts, .name = "h",
									.bounds = bounds,
									.bound_count = 2)),
			    e = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "e"));
	uint64_t buckets[3] = {0}, *exponential = calloc(322, sizeof(*exponential));
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);

	(void)state;
	sl_histogram_observe(h, 1.5);
	assert_int_equal(sl_histogram_add(h, many, 3, 8.5), 0);
	assert_int_equal(sl_histogram_add(h, many, 2, 8.5), -EINVAL);
	assert_int_equal(sl_histogram_add(h, NULL, 3, 8.5), -EINVAL);
	assert_int_equal(sl_histogram_add(h, many, 3, INFINITY), 0); /* refused as a whole */
	assert_int_equal(sl_histogram_add((struct sl_histogram){0}, many, 3, 1), 0);
	assert_int_equal(sl_histogram_buckets(h, buckets, 3), 0);
	assert_memory_equal(buckets, wanted, sizeof(wanted));
	assert_int_equal(sl_histogram_buckets(h, buckets, 4), -EINVAL);
	assert_true(sl_histogram_sum(h) == 10);
	sl_publisher_stats(p, &stats);
	assert_int_equal(stats.refused, 1);
	sl_histogram_observe(e, 0);
	sl_histogram_observe(e, INFINITY);
	assert_int_equal(sl_histogram_buckets(e, exponential, 322), 0);
	assert_true(exponential[0] == 1 && exponential[321] == 1);
	free(exponential);
	sl_publisher_close(p);
}

static void the_same_metric_is_the_same_cell(void **state)
{
	struct sl_label ab[] = {{"a", "1"}, {"b", "2"}}, ba[] = {{"b", "2"}, {"a", "1"}};
	struct sl_publisher *p = open_plain();
	struct sl_counter c = sl_counter_create(
		p, &SL_OPTS(sl_metric_opts, .name = "c", .labels = ab, .label_count = 2));
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
	struct sl_counter d;
	char name[32];

	(void)state;
	d = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c", .help = "other",
					  .labels = ba, .label_count = 2));
	assert_memory_equal(&c, &d, sizeof(c));
	d = sl_counter_create(
		p, &SL_OPTS(sl_metric_opts, .name = "c", .labels = ab, .label_count = 1));
	assert_memory_not_equal(&c, &d, sizeof(c));
	/* Many metrics, so that the tables grow. */
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 1000; i++) {
			snprintf(name, sizeof(name), "m%d", i);
			sl_counter_inc(
				sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name)));
		}
	assert_int_equal(sl_publisher_stats(p, &stats), 0);
	assert_int_equal(stats.metrics, 1002);
	assert_int_equal(stats.refused, 0);
	assert_int_equal(read_u64(sl_publisher_fd(p), "m999"), 2);
	sl_publisher_close(p);
}

/* Number of refused metrics so far, and of log lines about them. */
static uint32_t refused;

static struct sl_publisher *open_small(void)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .max_cells = 40, .schema_bytes = 4096,
					   .flags = SL_PUBLISHER_DETACHED | SL_PUBLISHER_FIXED));

	refused = log_lines = 0;
	sl_set_log(log_line, NULL);
	assert_true(sl_counter_valid(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"))));
	return p;
}

/* Every refusal is counted in the region. */
static void close_small(struct sl_publisher *p)
{
	struct reader r;

	look(&r, p);
	assert_int_equal(r.hot.refused, refused);
	assert_true(log_lines <= 8);
	assert_null(strchr(logged, '\n'));
	reader_close(&r);
	sl_set_log(NULL, NULL);
	sl_publisher_close(p);
}

#define REFUSED(create, valid, ...)                                                    \
	do {                                                                           \
		assert_false(valid(create(p, &SL_OPTS(sl_metric_opts, __VA_ARGS__)))); \
		refused++;                                                             \
	} while (0)
#define REFUSED_COUNTER(...)   REFUSED(sl_counter_create, sl_counter_valid, __VA_ARGS__)
#define REFUSED_HISTOGRAM(...) REFUSED(sl_histogram_create, sl_histogram_valid, __VA_ARGS__)

static void a_refused_name_is_counted_and_logged_once(void **state)
{
	char long_name[SL_NAME_MAX + 2], long_help[SL_HELP_MAX + 2];
	struct sl_publisher *p = open_small();

	(void)state;
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	memset(long_help, 'x', sizeof(long_help) - 1);
	long_help[sizeof(long_help) - 1] = '\0';
	REFUSED_COUNTER(.name = NULL);
	assert_int_equal(log_lines, 1);
	REFUSED_COUNTER(.name = "");
	REFUSED_COUNTER(.name = "9a");
	REFUSED_COUNTER(.name = "a-b");
	REFUSED_COUNTER(.name = "a\n");
	REFUSED_COUNTER(.name = long_name);
	assert_int_equal(log_lines, 1); /* the reason was logged once for all refusals so far */
	REFUSED_COUNTER(.name = "h", .help = long_help);
	REFUSED_COUNTER(.name = "h", .help = "\xc0\x80");
	REFUSED_COUNTER(.name = "h", .help = "\xed\xa0\x80");
	REFUSED_COUNTER(.name = "h", .help = "\xf4\x90\x80\x80");
	REFUSED_COUNTER(.name = "h", .help = "\xe2\x82");
	REFUSED_COUNTER(.name = "h", .unit = "m/s");
	assert_int_equal(log_lines, 2);
	assert_false(sl_counter_valid(sl_counter_create(p, NULL)));
	refused++;
	close_small(p);
}

static void refused_labels_are_counted(void **state)
{
	struct sl_label many[SL_LABELS_MAX + 1], le = {"le", "1"}, dup[] = {{"a", "1"}, {"a", "2"}};
	struct sl_publisher *p = open_small();

	(void)state;
	for (size_t i = 0; i < SL_LABELS_MAX + 1; i++)
		many[i] = (struct sl_label){"k", "v"};
	REFUSED_COUNTER(.name = "l", .labels = dup, .label_count = 2);
	REFUSED_COUNTER(.name = "l", .labels = many, .label_count = SL_LABELS_MAX + 1);
	REFUSED_COUNTER(.name = "l", .labels = NULL, .label_count = 1);
	REFUSED_COUNTER(.name = "l", .labels = &(struct sl_label){"__a", "1"}, .label_count = 1);
	REFUSED_COUNTER(.name = "l", .labels = &(struct sl_label){"a:", "1"}, .label_count = 1);
	REFUSED_COUNTER(.name = "l", .labels = &(struct sl_label){"a", NULL}, .label_count = 1);
	REFUSED_COUNTER(.name = "l", .labels = &(struct sl_label){"a", "\xff"}, .label_count = 1);
	REFUSED_HISTOGRAM(.name = "l", .labels = &le, .label_count = 1);
	close_small(p);
}

static void refused_shapes_and_kinds_are_counted(void **state)
{
	static const char *const twice[] = {"x", "x"};
	static const double down[] = {2, 1};
	struct sl_publisher *p = open_small();
	struct sl_label s_label = {"s", "1"};

	(void)state;
	REFUSED_HISTOGRAM(.name = "x", .use_scale = true, .scale = 9);
	REFUSED_HISTOGRAM(.name = "x", .use_scale = true, .scale = -5);
	REFUSED_HISTOGRAM(.name = "x", .use_scale = true, .scale = 8);
	REFUSED_HISTOGRAM(.name = "x", .min = 2, .max = 1);
	REFUSED_HISTOGRAM(.name = "x", .min = -1);
	REFUSED_HISTOGRAM(.name = "x", .min = NAN);
	REFUSED_HISTOGRAM(.name = "x", .max = INFINITY);
	REFUSED_HISTOGRAM(.name = "x", .min = 5e-324);
	REFUSED_HISTOGRAM(.name = "x"); /* 323 cells of 39 */
	REFUSED(sl_histogram_create_classic, sl_histogram_valid, .name = "x");
	REFUSED(sl_histogram_create_classic, sl_histogram_valid, .name = "x", .bounds = down,
		.bound_count = 2);
	REFUSED(sl_stateset_create, sl_stateset_valid, .name = "s");
	REFUSED(sl_stateset_create, sl_stateset_valid, .name = "s", .states = twice,
		.state_count = 2);
	REFUSED(sl_stateset_create, sl_stateset_valid, .name = "s", .states = twice,
		.state_count = 1, .labels = &s_label, .label_count = 1);
	REFUSED(sl_gauge_create, sl_gauge_valid, .name = "c"); /* is a counter */
	REFUSED(sl_gauge_create, sl_gauge_valid, .name = "c", .labels = &s_label, .label_count = 1);
	assert_int_equal(sl_info_create(p, &SL_OPTS(sl_metric_opts, .name = "c")), -EEXIST);
	refused++;
	close_small(p);
}

static void metrics_beyond_a_full_region_are_counted(void **state)
{
	struct sl_publisher *p = open_small();
	struct reader r;

	(void)state;
	for (int i = 0; i < 100; i++) { /* its schema is full before its cells, or after */
		char name[16];

		snprintf(name, sizeof(name), "fill%d", i);
		if (!sl_counter_valid(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name))))
			refused++;
	}
	look(&r, p);
	assert_true(refused > 50 && r.schema.count >= 37);
	reader_close(&r);
	close_small(p);
}

static void a_refused_handle_does_nothing(void **state)
{
	struct sl_counter none = {0};

	(void)state;
	sl_counter_inc(none);
	sl_counter_inc(sl_counter_create(NULL, &SL_OPTS(sl_metric_opts, .name = "n")));
	sl_gauge_set((struct sl_gauge){0}, 1);
	sl_gauge_f64_add((struct sl_gauge_f64){0}, 1);
	sl_counter_f64_add((struct sl_counter_f64){0}, 1);
	sl_histogram_observe((struct sl_histogram){0}, 1);
	sl_stateset_set((struct sl_stateset){0}, 1, true);
	assert_int_equal(sl_counter_value(none), 0);
	assert_int_equal(sl_histogram_count((struct sl_histogram){0}), 0);
	assert_true(sl_histogram_sum((struct sl_histogram){0}) == 0);
	assert_int_equal(sl_publisher_fd(NULL), -1);
	sl_publisher_close(NULL);
}

static void a_refused_observation_is_counted(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter_f64 f =
		sl_counter_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "f_total"));
	struct reader r;

	(void)state;
	sl_counter_f64_add(f, -1);
	sl_counter_f64_add(f, NAN);
	sl_counter_f64_add(f, INFINITY);
	sl_counter_f64_add(f, 0);
	sl_counter_f64_add(f, 3);
	look(&r, p);
	assert_true(reader_f64(&r, "f_total") == 3);
	assert_int_equal(r.hot.refused, 3);
	reader_close(&r);
	sl_publisher_close(p);
}

static void every_cell_that_was_asked_for_can_be_used(void **state)
{
	static const uint32_t sizes[] = {1, 6, 7, 8, 13, 14, 15, 448, 449, 1792, 5000};

	(void)state;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		struct sl_publisher *p = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .max_cells = sizes[k], .max_threads = 2,
				 .flags = SL_PUBLISHER_DETACHED | SL_PUBLISHER_FIXED));
		struct sl_counter last = {0};
		struct reader r;
		char name[32];

		for (uint32_t i = 0; i < sizes[k]; i++) {
			snprintf(name, sizeof(name), "m%u", i);
			last = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name));
			assert_true(sl_counter_valid(last));
			sl_counter_add(last, i);
		}
		assert_false(sl_counter_valid(
			sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "more"))));
		look(&r, p);
		for (uint32_t i = 0; i < sizes[k]; i++) {
			snprintf(name, sizeof(name), "m%u", i);
			assert_int_equal(region_values_u64(&r.values, r.schema.metrics[i]->cell),
					 i);
			assert_string_equal(r.schema.metrics[i]->name, name);
		}
		reader_close(&r);
		sl_publisher_close(p);
	}
}

/* Counters and histograms in any order: the last cell is used too, and no histogram is split. */
static void no_cell_is_lost_between_metrics_of_different_sizes(void **state)
{
	static double bounds[SL_BUCKETS_MAX];
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (size_t i = 0; i < SL_BUCKETS_MAX; i++)
		bounds[i] = (double)i;
	for (int round = 0; round < 300; round++) {
		uint32_t cells = 1 + (uint32_t)round * 7 % 900, left = cells, n = 0;
		struct sl_publisher *p = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .max_cells = cells, .max_threads = 1,
				 .flags = SL_PUBLISHER_DETACHED | SL_PUBLISHER_FIXED));
		struct sl_histogram h;
		struct reader r;

		while (left) {
			char name[16];
			uint32_t size = 1;

			x ^= x << 13, x ^= x >> 7, x ^= x << 17; /* xorshift, Marsaglia 2003 */
			snprintf(name, sizeof(name), "m%u", n++);
			if (left >= 4 && x % 8 == 0)
				size = x % 64 == 0 ? left
						   : 4 + (uint32_t)(x / 64 % (left - 3)) % 40;
			if (size > 1) {
				h = sl_histogram_create_classic(
					p, &SL_OPTS(sl_metric_opts, .name = name, .bounds = bounds,
						    .bound_count = size - 3));
				assert_true(sl_histogram_valid(h));
				for (uint32_t b = 0; b < size - 2; b++)
					sl_histogram_observe(h, b);
			} else {
				struct sl_counter c = sl_counter_create(
					p, &SL_OPTS(sl_metric_opts, .name = name));

				assert_true(sl_counter_valid(c));
				sl_counter_add(c, n);
			}
			left -= size;
		}
		assert_false(sl_gauge_valid(
			sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "more"))));
		look(&r, p); /* and no two overlap: that is a fault */
		assert_int_equal(r.schema.count, n);
		for (uint32_t i = 0; i < n; i++) {
			const struct region_metric *m = r.schema.metrics[i];

			if (m->cells == 1)
				assert_int_equal(region_values_u64(&r.values, m->cell), i + 1);
			for (uint32_t b = 2; b < m->cells; b++)
				assert_int_equal(region_values_u64(&r.values, m->cell + b), 1);
		}
		reader_close(&r);
		sl_publisher_close(p);
	}
}

/* This makes alternate updates fast, and costs the reader at most four lines. */
static void consecutive_metrics_lie_in_different_lines(void **state)
{
	struct sl_publisher *p = open_plain();
	uint64_t line[4] = {0};
	struct reader r;

	(void)state;
	assert_int_equal(reader_open(&r, sl_publisher_fd(p)), REGION_FAULT_NONE);
	for (uint32_t i = 0; i < 300; i++) {
		struct sl_counter c;
		char name[16];
		uint32_t dense;

		if (i % 90 == 45) { /* metrics between them do not matter */
			snprintf(name, sizeof(name), "h%u", i);
			sl_histogram_create_classic(p, &SL_OPTS(sl_metric_opts, .name = name,
								.bounds = (double[]){1},
								.bound_count = 1));
		}
		snprintf(name, sizeof(name), "m%u", i);
		c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name));
		assert_true(sl_counter_valid(c));
		line[i % 4] = (uint32_t)c.bits / SL_LINE_SIZE;
		/*
		 * Within a block of 28 metrics, three consecutive ones are in different lines. Two
		 * blocks may share a line.
		 */
		for (uint32_t k = 1; k < 3 && k <= i % 28; k++)
			assert_true(line[i % 4] != line[(i - k) % 4]);
		assert_int_equal(reader_round(&r), REGION_FAULT_NONE);
		dense = (i + 1 + 4 * ((i + 45) / 90) + 6) / 7;
		assert_in_range(r.hot.lines_used, dense, dense + 4);
	}
	reader_close(&r);
	sl_publisher_close(p);
}

static void batches_are_the_sum_of_their_parts(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter c[3] = {sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "a")),
				  {0},
				  sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "b"))};
	struct sl_gauge g[2] = {sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "g")),
				sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "h"))};
	struct sl_gauge_f64 f[1] = {sl_gauge_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "f"))};

	(void)state;
	for (int i = 0; i < 10; i++)
		sl_counter_add_batch(c, (uint64_t[]){1, 100, 3}, 3);
	sl_gauge_set_batch(g, (int64_t[]){-4, 5}, 2);
	sl_gauge_f64_set_batch(f, (double[]){0.5}, 1);
	assert_int_equal(sl_counter_value(c[0]), 10);
	assert_int_equal(sl_counter_value(c[2]), 30);
	assert_int_equal(sl_gauge_value(g[0]), -4);
	assert_int_equal(sl_gauge_value(g[1]), 5);
	assert_true(sl_gauge_f64_value(f[0]) == 0.5);
	sl_publisher_close(p);
}

static void options_of_another_version_are_told_apart(void **state)
{
	struct {
		struct sl_publisher_opts opts;
		uint64_t more;
	} newer = {.opts.sz = sizeof(newer), .opts.flags = SL_PUBLISHER_DETACHED};
	struct {
		struct sl_metric_opts opts;
		uint64_t more;
	} newer_metric = {.opts.sz = sizeof(newer_metric), .opts.name = "m"};
	struct sl_publisher_stats small = {.sz = offsetof(struct sl_publisher_stats, cells_used)};
	struct sl_publisher *p;

	(void)state;
	p = sl_publisher_open(&newer.opts);
	assert_non_null(p); /* unknown members are 0, so no unknown feature is requested */
	assert_true(sl_counter_valid(sl_counter_create(p, &newer_metric.opts)));
	newer_metric.more = 1;
	assert_false(sl_counter_valid(sl_counter_create(p, &newer_metric.opts)));
	small.cells_max = 77;
	assert_int_equal(sl_publisher_stats(p, &small), 0);
	assert_int_equal(small.metrics, 1);
	assert_int_equal(small.cells_max, 77);
	small.sz = 4;
	assert_int_equal(sl_publisher_stats(p, &small), -EINVAL);
	assert_int_equal(sl_publisher_stats(NULL, &small), -EINVAL);
	sl_publisher_close(p);
	newer.more = 1;
	assert_null(sl_publisher_open(&newer.opts));
	assert_int_equal(errno, EINVAL);
	/* An older application: fields that its structure lacks have their defaults. */
	newer.opts.sz = offsetof(struct sl_publisher_opts, pod);
	newer.opts.service = "old";
	p = sl_publisher_open(&newer.opts);
	assert_non_null(p);
	sl_publisher_close(p);
}

static void what_cannot_be_opened_says_why(void **state)
{
	struct sl_label bad = {"service", "x"};
	struct sl_publisher *p[SL_PUBLISHER_SLOTS];
	char text[200], big[4000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
#define FAILS(error, ...)                                                                 \
	do {                                                                              \
		errno = 0;                                                                \
		assert_null(sl_publisher_open(&SL_OPTS(sl_publisher_opts, __VA_ARGS__))); \
		assert_int_equal(errno, error);                                           \
	} while (0)
	FAILS(EINVAL, .labels = &bad, .label_count = 1);
	FAILS(EINVAL, .labels = NULL, .label_count = 1);
	FAILS(EINVAL, .service = big);
	FAILS(EINVAL, .service = "\xff");
	FAILS(EINVAL, .socket = text);
	FAILS(EINVAL, .flags = 1u << 31);
	FAILS(EINVAL, .max_cells = UINT32_MAX);
	FAILS(EINVAL, .schema_bytes = UINT32_MAX);
	FAILS(EINVAL, .max_cells = 1u << 24, .max_threads = 1024);
	for (int i = 0; i < (int)SL_PUBLISHER_SLOTS - 1; i++) {
		p[i] = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));
		assert_non_null(p[i]);
	}
	FAILS(ENOSPC, .flags = SL_PUBLISHER_DETACHED);
	for (int i = 0; i < (int)SL_PUBLISHER_SLOTS - 1; i++)
		sl_publisher_close(p[i]);
	p[0] = sl_publisher_open(NULL);
	assert_non_null(p[0]);
	sl_publisher_close(p[0]);
}

/* A thread keeps no stripe of a closed publisher, and late updates have no effect. */
static void updates_after_close_go_nowhere(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));
	struct sl_counter_f64 f = sl_counter_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "f"));
	struct sl_gauge g = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "g"));
	struct sl_histogram h = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "h"));
	int fd = dup(sl_publisher_fd(p));

	(void)state;
	sl_counter_inc(c);
	sl_publisher_close(p);
	for (int i = 0; i < 1000; i++) {
		sl_counter_inc(c);
		sl_counter_f64_add(f, 1);
		sl_counter_f64_add(f, -1);
		sl_gauge_set(g, 7);
		sl_histogram_observe(h, 1);
	}
	assert_int_equal(sl_counter_value(c), 0);
	assert_int_equal(read_u64(fd, "c"), 1);
	assert_int_equal(read_u64(fd, "g"), 0);
	close(fd);
	p = open_plain();
	c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "d"));
	sl_counter_inc(c);
	assert_int_equal(read_u64(sl_publisher_fd(p), "d"), 1);
	sl_publisher_close(p);
}

static long status_of(const char *key)
{
	char line[256];
	long v = -1;
	FILE *f = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			v = atol(line + strlen(key));
	fclose(f);
	return v;
}

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void opening_and_closing_leaves_nothing_behind(void **state)
{
	long size = 0;
	int files = open_files();

	(void)state;
	for (int i = 0; i < (test_valgrind() ? 300 : 3000); i++) {
		struct sl_publisher *p = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .socket = "/nonexistent/agent.sock",
				 .max_cells = 1792 << i % 3));
		struct sl_histogram h = sl_histogram_create(p,
							    &SL_OPTS(sl_metric_opts, .name = "h"));

		sl_histogram_observe(h, i);
		assert_int_equal(sl_histogram_count(h), 1);
		sl_publisher_close(p);
		if (i == 100)
			size = status_of("VmSize:");
	}
	assert_int_equal(open_files(), files);
	if (!TEST_SANITIZED)
		assert_int_equal(status_of("Threads:"), 1);
	if (!TEST_SANITIZED && !test_valgrind()) /* these keep freed memory for a while */
		assert_true(status_of("VmSize:") <= size + 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(region_is_sealed_private_and_closed_on_exec),
		cmocka_unit_test(header_says_who_publishes),
		cmocka_unit_test(a_pod_is_told_from_its_neighbours),
		cmocka_unit_test(counters_read_as_they_were_written),
		cmocka_unit_test(gauges_states_and_infos_read_as_they_were_written),
		cmocka_unit_test(histograms_read_as_they_were_written),
		cmocka_unit_test(histograms_take_many_observations_at_once),
		cmocka_unit_test(the_same_metric_is_the_same_cell),
		cmocka_unit_test(a_refused_name_is_counted_and_logged_once),
		cmocka_unit_test(refused_labels_are_counted),
		cmocka_unit_test(refused_shapes_and_kinds_are_counted),
		cmocka_unit_test(metrics_beyond_a_full_region_are_counted),
		cmocka_unit_test(a_refused_handle_does_nothing),
		cmocka_unit_test(a_refused_observation_is_counted),
		cmocka_unit_test(every_cell_that_was_asked_for_can_be_used),
		cmocka_unit_test(no_cell_is_lost_between_metrics_of_different_sizes),
		cmocka_unit_test(consecutive_metrics_lie_in_different_lines),
		cmocka_unit_test(batches_are_the_sum_of_their_parts),
		cmocka_unit_test(options_of_another_version_are_told_apart),
		cmocka_unit_test(what_cannot_be_opened_says_why),
		cmocka_unit_test(updates_after_close_go_nowhere),
		cmocka_unit_test(opening_and_closing_leaves_nothing_behind),
	};

	setenv("SIDELIGHT_SOCKET", "/nonexistent/agent.sock", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
