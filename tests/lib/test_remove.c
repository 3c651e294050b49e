// SPDX-License-Identifier: Apache-2.0
/*
 * test_remove.c - metrics are removed, created again, and replaced by others. The test controls the
 * clock: clock_gettime() is wrapped, so the eleven seconds before a replacement pass immediately.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "support/test.h"
#include "raw.h"
#include "reader.h"

static _Atomic uint64_t ahead_s; /* of the real clock */

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = __real_clock_gettime(clock, t);

	t->tv_sec += (time_t)atomic_load(&ahead_s);
	return r;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	__wrap_clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_for_replacement(void)
{
	atomic_fetch_add(&ahead_s, SL_REPLACE_NS / 1000000000u);
}

static struct sl_publisher *open_plain(void)
{
	struct sl_publisher *p = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED, .max_threads = 8));

	assert_non_null(p);
	return p;
}

static struct sl_publisher_stats stats_of(const struct sl_publisher *p)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);

	assert_int_equal(sl_publisher_stats(p, &stats), 0);
	return stats;
}

static void a_removed_metric_is_gone_and_comes_back_from_0(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct sl_counter a = sl_counter_with(f, SL_LABELS({"k", "a"})),
			  b = sl_counter_with(f, SL_LABELS({"k", "b"}));
	const struct sl_schema_record *m;
	uint64_t created, generation;
	struct raw r;

	(void)state;
	sl_counter_add(a, 5);
	sl_counter_add(b, 7);
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	m = raw_find(&r, "c_total", "a");
	assert_non_null(m);
	assert_int_equal(m->kind, SL_KIND_COUNTER | SL_KIND_REPLACEABLE);
	assert_int_equal(m->length % 64, 0);
	created = raw_created(&r, m->id);
	generation = raw_hot(&r, SL_HOT_GENERATION);
	assert_int_equal(sl_counter_remove(f, SL_LABELS({"k", "a"})), 0);
	assert_int_equal(stats_of(p).metrics, 1);
	assert_int_equal(raw_created(&r, m->id), 0);
	assert_true(raw_hot(&r, SL_HOT_GENERATION) > generation);
	assert_null(raw_find(&r, "c_total", "a"));
	assert_int_equal(raw_u64(&r, raw_find(&r, "c_total", "b")->cell), 7);

	/* Counts of a thread that does not know of the removal are lost. */
	sl_counter_add(a, 1000);
	a = sl_counter_with(f, SL_LABELS({"k", "a"}));
	assert_ptr_equal(raw_find(&r, "c_total", "a"), m);
	assert_true(raw_created(&r, m->id) > created);
	assert_int_equal(sl_counter_value(a), 0);
	sl_counter_inc(a);
	assert_int_equal(raw_u64(&r, m->cell), 1);
	assert_true(raw_verifies(&r));

	assert_int_equal(sl_counter_remove(f, SL_LABELS({"k", "c"})), -ENOENT);
	assert_int_equal(sl_counter_remove(f, SL_LABELS({"__k", "c"})), -EINVAL);
	assert_int_equal(sl_counter_remove(f, NULL, 1), -EINVAL);
	assert_int_equal(sl_counter_remove((struct sl_counter_family){0}, NULL, 0), -EINVAL);
	assert_int_equal(sl_counter_clear((struct sl_counter_family){0}), -EINVAL);
	assert_int_equal(sl_counter_clear(f), 0);
	assert_int_equal(sl_counter_clear(f), 0);
	assert_int_equal(sl_counter_remove(f, SL_LABELS({"k", "a"})), -ENOENT);
	assert_int_equal(stats_of(p).metrics, 0);
	assert_int_equal(stats_of(p).refused, 0);
	raw_close(&r);
	sl_publisher_close(p);
}

static void a_record_is_replaced_after_eleven_seconds(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct sl_counter a = sl_counter_with(f, SL_LABELS({"k", "a"})), b, c;
	const struct sl_schema_record *m;
	struct raw r;
	uint32_t id;

	(void)state;
	sl_counter_add(a, 5);
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	m = raw_find(&r, "c_total", "a");
	id = m->id;
	assert_int_equal(sl_counter_remove(f, SL_LABELS({"k", "a"})), 0);
	b = sl_counter_with(f, SL_LABELS({"k", "b"}));
	assert_true(b.bits != a.bits);
	wait_for_replacement();
	c = sl_counter_with(f, SL_LABELS({"k", "c"}));
	assert_int_equal(c.bits, a.bits);
	assert_ptr_equal(raw_find(&r, "c_total", "c"), m);
	assert_int_equal(m->id, id);
	assert_true(raw_check(m));
	assert_int_equal(raw_u64(&r, m->cell), 0);
	sl_counter_inc(c);
	assert_int_equal(sl_counter_value(c), 1);
	/* The old labels get another place. */
	a = sl_counter_with(f, SL_LABELS({"k", "a"}));
	assert_true(a.bits != c.bits && a.bits != b.bits);
	assert_int_equal(sl_counter_value(a), 0);
	assert_int_equal(stats_of(p).metrics, 3);
	assert_true(raw_verifies(&r));
	raw_close(&r);
	sl_publisher_close(p);
}

struct handles {
	struct sl_counter counter;
	struct sl_counter_f64 counter_f64;
	struct sl_histogram histogram;
	struct sl_summary summary;
	pthread_barrier_t go, done;
	bool end;
};

static void count(const struct handles *h)
{
	sl_counter_add(h->counter, 3);
	sl_counter_f64_add(h->counter_f64, 0.1);
	sl_histogram_observe(h->histogram, 2.5);
	sl_summary_add(h->summary, 1.5, 2);
}

static void *count_once(void *arg)
{
	count(arg);
	return NULL;
}

static void *count_each_round(void *arg)
{
	struct handles *h = arg;

	for (;;) {
		pthread_barrier_wait(&h->go);
		if (h->end)
			return NULL;
		count(h);
		pthread_barrier_wait(&h->done);
	}
}

/* By a thread that ended, one that still runs, and this one. */
static void each_kind_begins_anew_whoever_counted(void **state)
{
	static const double bounds[] = {1, 2, 4};
	static const char *const states[] = {"off", "on"};
	struct sl_publisher *p = open_plain();
	uint64_t buckets[400] = {[3] = 8};
	struct handles h = {.end = false};
	pthread_t ends, stays;
	uint32_t used = 0;
	struct raw r;
#define FAMILY(type, ...)                                              \
	struct sl_##type##_family type##s = sl_##type##_family_create( \
		p, &SL_OPTS(sl_metric_opts, .name = "f_" #type, ##__VA_ARGS__))
	FAMILY(counter);
	FAMILY(counter_f64);
	FAMILY(gauge);
	FAMILY(gauge_f64);
	FAMILY(gauge_timed);
	FAMILY(unknown);
	FAMILY(summary, .quantiles = (double[]){0.5}, .quantile_count = 1);
	FAMILY(histogram);
	FAMILY(gauge_histogram);
	FAMILY(stateset, .states = states, .state_count = 2);
	struct sl_histogram_family classic = sl_histogram_family_create_classic(
		p, &SL_OPTS(sl_metric_opts, .name = "classic", .bounds = bounds, .bound_count = 3));

	(void)state;
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	pthread_barrier_init(&h.go, NULL, 2);
	pthread_barrier_init(&h.done, NULL, 2);
	assert_int_equal(pthread_create(&stays, NULL, count_each_round, &h), 0);
	for (int round = 0; round < 4; round++) {
		struct sl_gauge_histogram g;
		struct sl_histogram native;
		char value[8];

		/* Different labels each time: the places are those of the previous round. */
		snprintf(value, sizeof(value), "%d", round);
#define WITH(type) sl_##type##_with(type##s, SL_LABELS({"k", value}))
		h.counter = WITH(counter);
		h.counter_f64 = WITH(counter_f64);
		h.histogram = sl_histogram_with(classic, SL_LABELS({"k", value}));
		h.summary = WITH(summary);
		native = WITH(histogram);
		g = WITH(gauge_histogram);
		assert_true(sl_counter_value(h.counter) == 0);
		assert_true(sl_counter_f64_value(h.counter_f64) == 0);
		assert_true(sl_histogram_count(h.histogram) == 0 &&
			    sl_histogram_sum(h.histogram) == 0);
		assert_true(sl_summary_count(h.summary) == 0 && sl_summary_sum(h.summary) == 0);
		assert_true(raw_f64(&r, raw_find(&r, "f_summary", value)->cell + 2) == 0);
		assert_int_equal(sl_histogram_count(native), 0);
		assert_int_equal(raw_u64(&r, raw_find(&r, "f_gauge_histogram", value)->cell + 5),
				 0);
		assert_int_equal(sl_gauge_value(WITH(gauge)), 0);
		assert_true(sl_gauge_f64_value(WITH(gauge_f64)) == 0);
		assert_true(sl_gauge_timed_value(WITH(gauge_timed)) == 0);
		assert_true(sl_unknown_value(WITH(unknown)) == 0);
		assert_true(sl_stateset_valid(WITH(stateset)));
		assert_int_equal(raw_u64(&r, raw_find(&r, "f_stateset", value)->cell), 0);
		assert_int_equal(stats_of(p).metrics, 11);
		assert_true(!used || stats_of(p).cells_used == used);
		used = stats_of(p).cells_used;

		pthread_barrier_wait(&h.go);
		pthread_barrier_wait(&h.done);
		assert_int_equal(pthread_create(&ends, NULL, count_once, &h), 0);
		pthread_join(ends, NULL);
		count(&h);
		sl_histogram_observe(native, 1);
		sl_gauge_set(WITH(gauge), -1);
		sl_gauge_f64_set(WITH(gauge_f64), 1.5);
		sl_gauge_timed_set(WITH(gauge_timed), 2);
		sl_unknown_set(WITH(unknown), 3);
		sl_stateset_set(WITH(stateset), 1, true);
		sl_summary_set_quantiles(h.summary, (double[]){0.25}, 1);
		assert_int_equal(sl_gauge_histogram_set(g, buckets, sl_gauge_histogram_size(g), 1),
				 0);
		assert_int_equal(sl_counter_value(h.counter), 9);
		assert_int_equal(sl_summary_count(h.summary), 6);
		assert_int_equal(sl_histogram_count(h.histogram), 3);

#define CLEAR(type) assert_int_equal(sl_##type##_clear(type##s), 0)
		CLEAR(counter);
		CLEAR(counter_f64);
		CLEAR(gauge);
		CLEAR(gauge_f64);
		CLEAR(gauge_timed);
		CLEAR(unknown);
		CLEAR(summary);
		CLEAR(histogram);
		CLEAR(gauge_histogram);
		CLEAR(stateset);
		assert_int_equal(sl_histogram_clear(classic), 0);
		assert_int_equal(stats_of(p).metrics, 0);
		wait_for_replacement();
	}
	h.end = true;
	pthread_barrier_wait(&h.go);
	pthread_join(stays, NULL);
	assert_true(raw_verifies(&r));
	pthread_barrier_destroy(&h.go);
	pthread_barrier_destroy(&h.done);
	raw_close(&r);
	sl_publisher_close(p);
}

static void a_changed_info_replaces_the_former(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_label label = {"version", "1"};
	const struct sl_schema_record *m;
	struct raw r;
	uint32_t id;

	(void)state;
#define INFO(call) \
	sl_info_##call(p, &SL_OPTS(sl_metric_opts, .name = "i", .labels = &label, .label_count = 1))
	assert_int_equal(INFO(create), 0);
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	m = raw_find(&r, "i", "1");
	assert_non_null(m);
	id = m->id;
	assert_int_equal(INFO(remove), 0);
	assert_int_equal(INFO(remove), -ENOENT);
	wait_for_replacement();
	label.value = "2";
	assert_int_equal(INFO(create), 0);
	m = raw_find(&r, "i", "2");
	assert_non_null(m);
	assert_int_equal(m->id, id);
	assert_null(raw_find(&r, "i", "1"));
	raw_close(&r);
	sl_publisher_close(p);
}

static void a_forked_child_knows_what_was_removed(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct sl_counter a = sl_counter_with(f, SL_LABELS({"k", "a"})),
			  b = sl_counter_with(f, SL_LABELS({"k", "b"}));
	int status = -1;
	pid_t pid;

	(void)state;
	sl_counter_add(a, 5);
	sl_counter_add(b, 5);
	assert_int_equal(sl_counter_remove(f, SL_LABELS({"k", "a"})), 0);
	pid = fork();
	if (!pid) {
		struct raw r;
		bool ok;

		sl_counter_inc(b);
		ok = raw_open(&r, sl_publisher_fd(p)) && !raw_find(&r, "c_total", "a") &&
		     raw_u64(&r, raw_find(&r, "c_total", "b")->cell) == 1 &&
		     sl_counter_remove(f, SL_LABELS({"k", "a"})) == -ENOENT &&
		     sl_counter_remove(f, SL_LABELS({"k", "b"})) == 0 &&
		     !raw_find(&r, "c_total", "b") &&
		     sl_counter_with(f, SL_LABELS({"k", "a"})).bits == a.bits &&
		     raw_find(&r, "c_total", "a");
		_exit(!ok);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(sl_counter_value(b), 5);
	sl_publisher_close(p);
}

/* ---- a million come and go ---- */

enum { PRESENT = 500, ADDS = 3 };

/* A reader's copy of a record, made when it saw this creation time. */
struct held {
	uint64_t created, number;
	uint32_t cell;
};

struct reading {
	int fd;
	_Atomic bool end;
	uint64_t passes, values, wrong, kept, unsettled;
};

/* Returns the number in the label of a record; 0: the record is incomplete. */
static uint64_t number_of(const struct sl_schema_record *s, uint32_t *cell)
{
	union {
		struct sl_schema_record record;
		uint8_t bytes[512];
	} copy;
	uint64_t check;

	if (s->length > sizeof(copy))
		return 0;
	memcpy(&copy, s, s->length);
	check = copy.record.check;
	copy.record.check = 0;
	if (sl_fnv1a(SL_FNV_BASIS, &copy, copy.record.length) != check)
		return 0;
	*cell = copy.record.cell;
	return strtoull(raw_labels(&copy.record) + 2, NULL, 10);
}

/*
 * A reader that follows sidelight-region(5) and remembers the records: the value of label n is 0 to
 * ADDS times n, because only n is added there.
 */
static void *read_on(void *arg)
{
	struct reading *read = arg;
	struct held *held = calloc(8192, sizeof(*held));
	struct raw r;

	if (!held || !raw_open(&r, read->fd))
		abort();
	while (!atomic_load(&read->end)) {
		uint64_t started = now_ns(), created;
		const struct sl_schema_record *s = NULL;
		struct {
			uint64_t number, value;
		} seen[8192];
		uint32_t count = 0;

		(void)raw_hot(&r, SL_HOT_GENERATION);
		while ((s = raw_next(&r, s))) {
			struct held *h = &held[s->id];

			created = raw_created(&r, s->id);
			if (created == ~0ull) {
				read->unsettled++;
				h->created = 0;
			} else if (created != h->created) {
				h->number = created ? number_of(s, &h->cell) : 0;
				h->created = h->number ? created : 0;
			}
			if (!h->created)
				continue;
			seen[count].number = h->number;
			seen[count++].value = raw_u64(&r, h->cell);
		}
		read->passes++;
		if (now_ns() - started > SL_LAYOUT_LEASE_NS)
			continue; /* too old to be used */
		read->kept++;
		for (uint32_t i = 0; i < count; i++) {
			read->values++;
			if (seen[i].value % seen[i].number || seen[i].value / seen[i].number > ADDS)
				read->wrong++;
		}
	}
	raw_close(&r);
	free(held);
	return NULL;
}

struct counting {
	struct sl_counter *c;
	uint64_t first;
	pthread_barrier_t go, done;
	bool end;
};

static void *count_all(void *arg)
{
	struct counting *t = arg;

	for (;;) {
		pthread_barrier_wait(&t->go);
		if (t->end)
			return NULL;
		for (uint64_t i = 0; i < PRESENT; i++)
			sl_counter_add(t->c[i], t->first + i);
		pthread_barrier_wait(&t->done);
	}
}

static void a_million_come_and_go_each_with_its_own_value(void **state)
{
	const uint64_t rounds = (uint64_t)(1000000 / PRESENT * test_scale() *
					   (TEST_SANITIZED || test_valgrind() ? 0.02 : 1));
	struct sl_publisher *p = open_plain();
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct reading read = {.fd = sl_publisher_fd(p)};
	struct sl_counter c[PRESENT];
	struct counting t = {.c = c};
	pthread_t reader, counter[ADDS - 1];
	char value[24];

	(void)state;
	pthread_barrier_init(&t.go, NULL, ADDS);
	pthread_barrier_init(&t.done, NULL, ADDS);
	assert_int_equal(pthread_create(&reader, NULL, read_on, &read), 0);
	for (int i = 0; i < ADDS - 1; i++)
		assert_int_equal(pthread_create(&counter[i], NULL, count_all, &t), 0);
	for (uint64_t round = 0; round < rounds; round++) {
		t.first = 1 + round * PRESENT;
		for (uint64_t i = 0; i < PRESENT; i++) {
			snprintf(value, sizeof(value), "%lu", t.first + i);
			c[i] = sl_counter_with(f, SL_LABELS({"k", value}));
			assert_true(sl_counter_valid(c[i]));
			sl_counter_add(c[i], t.first + i);
		}
		pthread_barrier_wait(&t.go);
		pthread_barrier_wait(&t.done);
		if (!(round % 64))
			for (uint64_t i = 0; i < PRESENT; i++)
				assert_int_equal(sl_counter_value(c[i]), ADDS * (t.first + i));
		if (round % 2) {
			assert_int_equal(sl_counter_clear(f), 0);
		} else {
			for (uint64_t i = 0; i < PRESENT; i++) {
				snprintf(value, sizeof(value), "%lu", t.first + i);
				assert_int_equal(sl_counter_remove(f, SL_LABELS({"k", value})), 0);
			}
		}
		/* Two rounds fit: the places are reused in the second round after this. */
		atomic_fetch_add(&ahead_s, SL_REPLACE_NS / 1000000000u / 2 + 1);
	}
	t.end = true;
	pthread_barrier_wait(&t.go);
	for (int i = 0; i < ADDS - 1; i++)
		pthread_join(counter[i], NULL);
	atomic_store(&read.end, true);
	pthread_join(reader, NULL);
	print_message("%lu passes, %lu of them in time, %lu values, %lu unsettled\n", read.passes,
		      read.kept, read.values, read.unsettled);
	assert_int_equal(read.wrong, 0);
	assert_true(read.values > 0);
	assert_int_equal(stats_of(p).refused, 0);
	assert_int_equal(stats_of(p).metrics, 0);
	pthread_barrier_destroy(&t.go);
	pthread_barrier_destroy(&t.done);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_removed_metric_is_gone_and_comes_back_from_0),
		cmocka_unit_test(a_record_is_replaced_after_eleven_seconds),
		cmocka_unit_test(each_kind_begins_anew_whoever_counted),
		cmocka_unit_test(a_changed_info_replaces_the_former),
		cmocka_unit_test(a_forked_child_knows_what_was_removed),
		cmocka_unit_test(a_million_come_and_go_each_with_its_own_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
