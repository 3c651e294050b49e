// SPDX-License-Identifier: Apache-2.0
/* test_exemplar.c - exemplars set by an application, as read by src/region. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "region/exemplars.h"
#include "support/test.h"
#include "raw.h"
#include "reader.h"

static struct sl_publisher *open_plain(uint32_t exemplars)
{
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(
		sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED, .exemplars = exemplars));

	assert_non_null(p);
	return p;
}

static uint64_t head(const struct raw *r, enum sl_exemplar_head_cell cell)
{
	return raw_word(r, raw_section(r, SL_SECTION_EXEMPLARS)->offset + cell * 8u);
}

/* Reads element i; returns false if it is not consistent after some tries. */
static bool element(const struct raw *r, uint32_t i, struct region_exemplar *e)
{
	uint64_t at = raw_section(r, SL_SECTION_EXEMPLARS)->offset + i * SL_EXEMPLAR_SIZE;
	uint64_t words[SL_EXEMPLAR_SIZE / 8];

	for (int tries = 0; tries < 100; tries++) {
		for (uint32_t w = 0; w < SL_EXEMPLAR_SIZE / 8; w++)
			words[w] = raw_word(r, at + w * 8u);
		if (!region_exemplar_parse(words, e))
			return true;
	}
	return false;
}

static const char *label(const struct region_exemplar *e, const char *key)
{
	for (uint32_t i = 0; i < e->label_count; i++)
		if (!strcmp(e->labels[i].key, key))
			return e->labels[i].value;
	return "";
}

#define EXEMPLAR(...) (&SL_OPTS(sl_exemplar, __VA_ARGS__))

static void the_latest_of_a_counter_or_bucket_is_kept(void **state)
{
	static const double bounds[] = {1, 2};
	struct sl_label user = {"user", "\xc3\xa9"};
	struct sl_publisher *p = open_plain(0);
	struct sl_counter c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct sl_counter_f64 f =
		sl_counter_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "f_total"));
	struct sl_histogram h = sl_histogram_create_classic(
		p, &SL_OPTS(sl_metric_opts, .name = "h", .bounds = bounds, .bound_count = 2));
	const struct sl_schema_record *m;
	struct region_exemplar e;
	struct timespec now;
	struct raw r;

	(void)state;
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_USED), 0);
	sl_counter_add_exemplar(c, 2, EXEMPLAR(.trace_lo = 1));
	sl_counter_add_exemplar(c, 3,
				EXEMPLAR(.trace_hi = 0xabc, .trace_lo = 0x123, .span_id = 0x77,
					 .labels = &user, .label_count = 1, .time_ns = 4711));
	sl_counter_add_exemplar(c, 4, NULL);
	sl_counter_f64_add_exemplar(f, 0.5, EXEMPLAR(.span_id = 5));
	sl_counter_f64_add_exemplar(f, -1, EXEMPLAR(.span_id = 6)); /* refused, as the value */
	sl_histogram_observe_exemplar(h, 1.5, EXEMPLAR(.span_id = 7));
	sl_histogram_observe_exemplar(h, 9, EXEMPLAR(.span_id = 8));
	sl_histogram_observe_exemplar(h, NAN, EXEMPLAR(.span_id = 9));
	sl_counter_add_exemplar((struct sl_counter){0}, 1, EXEMPLAR(.span_id = 9));
	assert_int_equal(sl_counter_value(c), 9);
	assert_true(sl_counter_f64_value(f) == 0.5);
	assert_int_equal(sl_histogram_count(h), 2);

	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_USED), 5);
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_SET), 5);
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_DROPPED), 0);
	m = raw_find(&r, "c_total", NULL);
	assert_true(element(&r, 1, &e));
	assert_int_equal(e.id, m->id);
	assert_int_equal(e.cell, 0);
	assert_int_equal(e.created_ns, raw_created(&r, m->id));
	assert_true(e.value == 3);
	assert_int_equal(e.ns, 4711);
	assert_int_equal(e.label_count, 3);
	assert_string_equal(label(&e, "trace_id"), "0000000000000abc0000000000000123");
	assert_string_equal(label(&e, "span_id"), "0000000000000077");
	assert_string_equal(label(&e, "user"), "\xc3\xa9");
	m = raw_find(&r, "f_total", NULL);
	assert_true(element(&r, 2, &e));
	assert_int_equal(e.id, m->id);
	assert_true(e.value == 0.5);
	clock_gettime(CLOCK_REALTIME, &now);
	assert_in_range(e.ns / 1000000000u, (uint64_t)now.tv_sec - 100, (uint64_t)now.tv_sec);
	m = raw_find(&r, "h", NULL);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(element(&r, 3 + i, &e));
		assert_int_equal(e.id, m->id);
		assert_int_equal(e.cell, SL_HIST_BUCKETS + 1 + i);
		assert_string_equal(label(&e, "span_id"),
				    i ? "0000000000000008" : "0000000000000007");
	}
	raw_close(&r);
	sl_publisher_close(p);
}

static void what_cannot_be_kept_is_counted(void **state)
{
	struct sl_publisher *p = open_plain(2);
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct sl_counter c[3];
	struct sl_label twice[] = {{"a", "1"}, {"a", "2"}}, reserved = {"__a", "1"},
			bad = {"a", "\xff"}, id = {"span_id", "1"}, longest = {"a", NULL},
			none = {"a", NULL};
	char value[SL_EXEMPLAR_LABELS];
	uint64_t dropped = 0;
	struct region_exemplar e;
	struct raw r;

	(void)state;
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	for (int i = 0; i < 3; i++) {
		snprintf(value, sizeof(value), "%d", i);
		c[i] = sl_counter_with(f, SL_LABELS({"k", value}));
	}
	memset(value, 'x', sizeof(value));
	value[SL_EXEMPLAR_LABELS - 3] = '\0'; /* with "a" and two NULs, this takes all bytes */
	longest.value = value;
	sl_counter_add_exemplar(c[0], 1, EXEMPLAR(.labels = &longest, .label_count = 1));
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_SET), 1);
	assert_true(element(&r, 1, &e));
	assert_string_equal(label(&e, "a"), value);
#define DROPPED(...)                                                             \
	do {                                                                     \
		sl_counter_add_exemplar(c[0], 1, EXEMPLAR(__VA_ARGS__));         \
		assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_DROPPED), ++dropped); \
	} while (0)
	DROPPED(.labels = &longest, .label_count = 1, .span_id = 1);
	DROPPED(.labels = twice, .label_count = 2);
	DROPPED(.labels = &reserved, .label_count = 1);
	DROPPED(.labels = &bad, .label_count = 1);
	DROPPED(.labels = &none, .label_count = 1);
	DROPPED(.labels = &id, .label_count = 1, .span_id = 1);
	DROPPED(.label_count = 1);
	sl_counter_add_exemplar(c[1], 1, EXEMPLAR(.span_id = 1));
	sl_counter_add_exemplar(c[2], 1, EXEMPLAR(.span_id = 1)); /* no element left */
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_DROPPED), ++dropped);
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_SET), 2);

	/*
	 * An exemplar of a removed metric has another creation time than the metric that replaces
	 * it.
	 */
	assert_int_equal(sl_counter_remove(f, SL_LABELS({"k", "1"})), 0);
	sl_counter_add_exemplar(c[1], 1, EXEMPLAR(.span_id = 2));
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_DROPPED), ++dropped);
	c[1] = sl_counter_with(f, SL_LABELS({"k", "1"}));
	assert_true(element(&r, 2, &e));
	assert_true(e.created_ns != raw_created(&r, e.id));
	sl_counter_add_exemplar(c[1], 1, EXEMPLAR(.span_id = 3));
	assert_true(element(&r, 2, &e));
	assert_int_equal(e.created_ns, raw_created(&r, e.id));
	assert_int_equal(sl_counter_value(c[0]), 8);
	raw_close(&r);
	sl_publisher_close(p);

	errno = 0;
	assert_null(sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					       .exemplars = SL_EXEMPLARS_MAX)));
	assert_int_equal(errno, EINVAL);
}

struct setting {
	struct sl_counter c[2];
	uint64_t count;
	int fd;
	_Atomic bool end;
	uint64_t wrong, whole;
};

static void *set_many(void *arg)
{
	struct setting *s = arg;

	for (uint64_t i = 1; i <= s->count; i++)
		sl_counter_add_exemplar(
			s->c[i & 1], i,
			EXEMPLAR(.trace_hi = i, .trace_lo = i, .span_id = i, .time_ns = i));
	return NULL;
}

static void *read_all(void *arg)
{
	struct setting *s = arg;
	struct region_exemplar e;
	char text[33];
	struct raw r;

	if (!raw_open(&r, s->fd))
		abort();
	while (!atomic_load(&s->end)) {
		for (uint32_t i = 1; i < head(&r, SL_EXEMPLAR_HEAD_USED); i++) {
			if (!element(&r, i, &e))
				continue;
			s->whole++;
			snprintf(text, sizeof(text), "%016lx%016lx", e.ns, e.ns);
			if (e.value != (double)e.ns || strcmp(label(&e, "trace_id"), text) ||
			    strcmp(label(&e, "span_id"), text + 16))
				s->wrong++;
		}
	}
	raw_close(&r);
	return NULL;
}

static void threads_lose_no_exemplar_uncounted(void **state)
{
	enum { THREADS = 4 };
	struct sl_publisher *p = open_plain(0);
	struct setting s = {
		.count = (uint64_t)((TEST_SANITIZED || test_valgrind() ? 20000 : 1000000) *
				    test_scale())};
	pthread_t set[THREADS], read;
	struct raw r;

	(void)state;
	s.c[0] = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "a_total"));
	s.c[1] = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "b_total"));
	s.fd = sl_publisher_fd(p);
	assert_int_equal(pthread_create(&read, NULL, read_all, &s), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&set[i], NULL, set_many, &s), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(set[i], NULL);
	atomic_store(&s.end, true);
	pthread_join(read, NULL);
	assert_true(raw_open(&r, s.fd));
	assert_int_equal(s.wrong, 0);
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_SET) + head(&r, SL_EXEMPLAR_HEAD_DROPPED),
			 THREADS * s.count);
	assert_true(head(&r, SL_EXEMPLAR_HEAD_SET) > 0);
	raw_close(&r);
	sl_publisher_close(p);
}

static struct sl_counter interrupted;
static _Atomic uint64_t handled;

static void set_by_handler(int number)
{
	(void)number;
	sl_counter_add_exemplar(interrupted, 9, EXEMPLAR(.span_id = 9, .time_ns = 9));
	atomic_fetch_add(&handled, 1);
}

static void a_signal_handler_breaks_no_exemplar(void **state)
{
	struct itimerval often = {{0, 50}, {0, 50}}, never = {0};
	struct sl_publisher *p = open_plain(0);
	uint64_t sets = 0, broken = 0;
	struct region_exemplar e;
	struct raw r;

	(void)state;
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	interrupted = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	sl_counter_add_exemplar(interrupted, 1, EXEMPLAR(.span_id = 1, .time_ns = 1));
	signal(SIGALRM, set_by_handler);
	setitimer(ITIMER_REAL, &often, NULL);
	while (atomic_load(&handled) < 2000) {
		sl_counter_add_exemplar(interrupted, 1, EXEMPLAR(.span_id = 1, .time_ns = 1));
		sets++;
		broken += !element(&r, 1, &e) || e.value != (double)e.ns ||
			  strcmp(label(&e, "span_id"),
				 e.ns == 9 ? "0000000000000009" : "0000000000000001") != 0;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_DFL);
	assert_int_equal(broken, 0);
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_SET) + head(&r, SL_EXEMPLAR_HEAD_DROPPED),
			 1 + sets + atomic_load(&handled));
	raw_close(&r);
	sl_publisher_close(p);
}

static void a_forked_child_sets_its_own(void **state)
{
	struct sl_publisher *p = open_plain(0);
	struct sl_counter a = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "a_total")),
			  b = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "b_total"));
	struct region_exemplar e;
	int status = -1;
	struct raw r;
	pid_t pid;

	(void)state;
	sl_counter_add_exemplar(a, 1, EXEMPLAR(.span_id = 1));
	pid = fork();
	if (!pid) {
		sl_counter_add_exemplar(b, 1, EXEMPLAR(.span_id = 2));
		_exit(!(raw_open(&r, sl_publisher_fd(p)) && head(&r, SL_EXEMPLAR_HEAD_USED) == 2 &&
			element(&r, 1, &e) && e.id == 1 &&
			!strcmp(label(&e, "span_id"), "0000000000000002")));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	assert_int_equal(head(&r, SL_EXEMPLAR_HEAD_USED), 2);
	assert_true(element(&r, 1, &e));
	assert_int_equal(e.id, 0);
	raw_close(&r);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_latest_of_a_counter_or_bucket_is_kept),
		cmocka_unit_test(what_cannot_be_kept_is_counted),
		cmocka_unit_test(threads_lose_no_exemplar_uncounted),
		cmocka_unit_test(a_signal_handler_breaks_no_exemplar),
		cmocka_unit_test(a_forked_child_sets_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
