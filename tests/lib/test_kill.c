// SPDX-License-Identifier: Apache-2.0
/*
 * Writers that die anywhere: by SIGKILL at random moments, 10,000 times, and at every single
 * instruction of the registration of a metric, by ptrace. Whatever is in the region then must
 * decode; after the repair that the agent makes, every line must verify and the last value be
 * right to one update.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <sidelight/sidelight.h>

#include "../child_fd.h"
#include "reader.h"

/* What a writer tells about itself, in memory that it shares with the test. */
struct progress {
	int fd; /* in the writer */
	uint64_t metrics, updates, sums;
};

static struct progress *progress;

static void write_until_killed(void)
{
	struct sl_publisher *p = sl_publisher_open(
		PUBLISHER(.max_threads = 2, .max_cells = 400, .flags = SL_PUBLISHER_DETACHED));
	struct sl_counter c = sl_counter_create(p, METRIC(.name = "c"));
	struct sl_counter_f64 f = sl_counter_f64_create(p, METRIC(.name = "f"));
	struct sl_gauge g = sl_gauge_create(p, METRIC(.name = "g"));
	char name[32];

	alarm(10); /* whoever should kill us */
	progress->metrics = 3;
	__atomic_store_n(&progress->fd, sl_publisher_fd(p), __ATOMIC_RELEASE);
	for (uint64_t i = 0;; i++) {
		progress->updates = i + 1; /* begun */
		sl_counter_inc(c);
		sl_gauge_set(g, (int64_t)i + 1);
		progress->sums = i + 1;
		sl_counter_f64_add(f, 0.5);
		if (i % 64 == 0 && i < 64 * 300) {
			snprintf(name, sizeof(name), "m%u", (unsigned int)(i / 64));
			sl_counter_inc(sl_counter_create(
				p, METRIC(.name = name, .help = "A help text of some length.")));
			progress->metrics++;
		}
	}
}

/* The region of a dead writer: readable as it is, and exact after its repair. */
static void check_dead(int fd)
{
	const struct sl_metric *m;
	struct reader r;
	uint64_t v;
	double f;

	assert_int_equal(reader_open(&r, fd), SL_FAULT_NONE);
	switch (reader_round(&r)) {
	case SL_FAULT_NONE:
		assert_true(r.unsettled <= 2); /* one line a stripe, at the most */
		break;
	case SL_FAULT_UNSETTLED:
		break; /* died in the middle of the hot line */
	default:
		fail_msg("not readable before repair");
	}
	reader_close(&r);
	assert_int_equal(reader_open(&r, fd), SL_FAULT_NONE);
	assert_true(sl_region_repair(r.map, &r.info) <= 3);
	assert_int_equal(reader_round(&r), SL_FAULT_NONE);
	assert_int_equal(r.unsettled, 0);
	v = reader_u64(&r, "c");
	assert_true(v == progress->updates || v + 1 == progress->updates);
	m = reader_find(&r, "g", NULL);
	v = sl_values_shared(&r.values, m->cell);
	assert_true(v == progress->updates || v + 1 == progress->updates);
	f = reader_f64(&r, "f") * 2;
	assert_true(f == (double)progress->sums || f + 1 == (double)progress->sums);
	assert_true(r.schema.count == progress->metrics || r.schema.count == progress->metrics + 1);
	reader_close(&r);
}

static int wait_for_fd(pid_t pid)
{
	int fd, at;

	while ((at = __atomic_load_n(&progress->fd, __ATOMIC_ACQUIRE)) < 0)
		usleep(20);
	fd = child_fd(pid, at);
	assert_true(fd >= 0);
	return fd;
}

static void a_writer_killed_at_any_time_leaves_a_readable_region(void **state)
{
	int rounds = (int)(10000 * (TEST_SANITIZED ? 0.02 : 1) * test_scale());
	unsigned int seed = (unsigned int)time(NULL);

	(void)state;
	print_message("seed %u, %d writers\n", seed, rounds);
	for (int i = 0; i < rounds; i++) {
		struct timespec nap = {0, (long)(rand_r(&seed) % 400) * 1000};
		pid_t pid;
		int fd;

		*progress = (struct progress){.fd = -1};
		pid = fork();
		if (!pid)
			write_until_killed();
		fd = wait_for_fd(pid);
		nanosleep(&nap, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		check_dead(fd);
		close(fd);
	}
}

/* ---- every instruction ----------------------------------------------------------------------------- */

static void register_under_trace(int kind)
{
	struct sl_publisher *p = sl_publisher_open(
		PUBLISHER(.max_threads = 2, .max_cells = 2000, .flags = SL_PUBLISHER_DETACHED));
	struct sl_counter c = sl_counter_create(p, METRIC(.name = "c"));
	char name[16];

	/* 446 of 448 cells of the first page: a histogram needs another in every stripe. */
	for (int i = 0; i < 445; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		sl_counter_create(p, METRIC(.name = name));
	}
	sl_counter_add(c, 5);
	progress->fd = sl_publisher_fd(p);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no stopped child */
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	if (kind == 0)
		sl_counter_inc(sl_counter_create(p, METRIC(.name = "new_total", .help = "Help.",
							   .labels = &(struct sl_label){"k", "v"},
							   .label_count = 1)));
	else
		sl_histogram_observe(
			sl_histogram_create(p, METRIC(.name = "new_total", .min = 1, .max = 8)),
			2.5);
	raise(SIGSTOP);
	_exit(0);
}

static void step_through(int kind)
{
	uint64_t steps = 0, unsettled = 0, before = 0, after = 0, generation = 0;
	struct reader live;
	int status, fd;
	uint8_t *copy;
	pid_t pid;

	*progress = (struct progress){.fd = -1};
	pid = fork();
	if (!pid)
		register_under_trace(kind);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	fd = child_fd(pid, progress->fd);
	assert_true(fd >= 0);
	assert_int_equal(reader_open(&live, fd), SL_FAULT_NONE);
	assert_int_equal(reader_round(&live), SL_FAULT_NONE);
	assert_int_equal(live.schema.count, 446);
	/* What an agent would repair, had the writer died here: a copy of what is in use. */
	copy = mmap(NULL, live.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(copy, MAP_FAILED);

	for (;; steps++) {
		enum sl_fault fault;
		struct sl_hot hot, repaired_hot;
		uint64_t line[8];

		assert_true(steps < 2000000);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGSTOP)
			break;
		assert_int_equal(WSTOPSIG(status), SIGTRAP);

		/* A live reader: the old layout or the new one, or a line to be read again. */
		memcpy(line, live.map + live.info.hot, 64);
		fault = sl_hot_parse(line, &live.info, &hot);
		if (fault == SL_FAULT_UNSETTLED) {
			unsettled++;
		} else {
			assert_int_equal(fault, SL_FAULT_NONE);
			assert_true(hot.generation >= generation);
			generation = hot.generation;
		}
		assert_int_equal(
			reader_round(&live) == SL_FAULT_NONE || fault == SL_FAULT_UNSETTLED, true);
		assert_true(live.schema.count == 446 || live.schema.count == 447);
		assert_int_equal(reader_u64(&live, "c"), 5);
		if (live.schema.count == 446)
			before++;
		else
			after++;

		/* And if it had died here. */
		if (fault == SL_FAULT_UNSETTLED || live.unsettled || steps % 64 == 0) {
			struct reader dead = {.map = copy, .size = live.size, .info = live.info};

			memcpy(copy, live.map, live.info.stripes + 8192);
			memcpy(copy + live.info.stripes + live.info.stripe_stride,
			       live.map + live.info.stripes + live.info.stripe_stride, 8192);
			memcpy(copy + live.info.schema, live.map + live.info.schema,
			       live.hot.schema_used + 1024);
			sl_schema_init(&dead.schema);
			sl_values_init(&dead.values);
			sl_region_repair(copy, &dead.info);
			memcpy(line, copy + dead.info.hot, 64);
			assert_int_equal(sl_hot_parse(line, &dead.info, &repaired_hot),
					 SL_FAULT_NONE);
			assert_int_equal(reader_round(&dead), SL_FAULT_NONE);
			assert_int_equal(dead.unsettled, 0);
			assert_true(dead.schema.count == 446 || dead.schema.count == 447);
			assert_int_equal(reader_u64(&dead, "c"), 5);
			sl_schema_free(&dead.schema);
			sl_values_free(&dead.values);
		}
	}
	print_message("%llu instructions, %llu of them with the hot line in between\n",
		      (unsigned long long)steps, (unsigned long long)unsettled);
	assert_true(before > 100 && after > 10 && unsettled > 0);
	assert_int_equal(reader_round(&live), SL_FAULT_NONE);
	assert_int_equal(live.unsettled, 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	munmap(copy, live.size);
	reader_close(&live);
	close(fd);
}

static void a_metric_is_registered_safely_at_every_instruction(void **state)
{
	(void)state;
	if (TEST_SANITIZED) {
		print_message("SKIP: a sanitizer's instructions are not the library's\n");
		skip();
	}
	step_through(0);
	step_through(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_metric_is_registered_safely_at_every_instruction),
		cmocka_unit_test(a_writer_killed_at_any_time_leaves_a_readable_region),
	};

	progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (progress == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
