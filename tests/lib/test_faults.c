// SPDX-License-Identifier: Apache-2.0
/*
 * test_faults.c - every allocation and system call of the library fails, one at a time: nothing
 * crashes, no descriptor leaks, and a valid handle counts exactly. The linker wraps the calls
 * (--wrap, meson.build) in the library as in the test.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "support/test.h"
#include "reader.h"

static _Atomic int countdown; /* 1: the next call fails; 0: none does */
static _Atomic bool failed;
static int failure_errno;
static const char *failed_call;

static bool fails(const char *call)
{
	int left = countdown;

	while (left > 0 && !__atomic_compare_exchange_n((int *)&countdown, &left, left - 1, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (left != 1)
		return false;
	failed_call = call;
	failed = true;
	errno = failure_errno;
	return true;
}

#define WRAP(type, bad, name, parameters, ...)                          \
	type __real_##name parameters;                                  \
	type __wrap_##name parameters;                                  \
	type __wrap_##name parameters                                   \
	{                                                               \
		return fails(#name) ? bad : __real_##name(__VA_ARGS__); \
	}

WRAP(void *, NULL, malloc, (size_t n), n)
WRAP(void *, NULL, calloc, (size_t n, size_t m), n, m)
WRAP(void *, NULL, reallocarray, (void *a, size_t n, size_t m), a, n, m)
WRAP(char *, NULL, strdup, (const char *s), s)
WRAP(int, -1, memfd_create, (const char *s, unsigned int f), s, f)
WRAP(int, -1, ftruncate, (int fd, off_t n), fd, n)
WRAP(int, -1, fallocate, (int fd, int m, off_t at, off_t n), fd, m, at, n)
WRAP(int, -1, fchmod, (int fd, mode_t m), fd, m)
WRAP(int, -1, fstat, (int fd, struct stat *st), fd, st)
WRAP(void *, MAP_FAILED, mmap, (void *a, size_t n, int p, int f, int fd, off_t o), a, n, p, f, fd,
     o)
WRAP(int, -1, socket, (int d, int t, int p), d, t, p)
WRAP(int, -1, connect, (int fd, const struct sockaddr *a, socklen_t n), fd, a, n)
WRAP(int, -1, pipe2, (int fds[2], int f), fds, f)
WRAP(ssize_t, -1, getrandom, (void *b, size_t n, unsigned int f), b, n, f)
WRAP(int, EAGAIN, pthread_create,
     (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *p), t, a, f, p)
WRAP(int, ENOMEM, pthread_attr_init, (pthread_attr_t * a), a)
WRAP(int, ENOMEM, pthread_setspecific, (pthread_key_t k, const void *p), k, p)

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	long value;

	va_start(args, command);
	value = va_arg(args, long);
	va_end(args);
	return fails("fcntl") ? -1 : __real_fcntl(fd, command, value);
}

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 64; fd++)
		n += __real_fcntl(fd, F_GETFD, 0) >= 0;
	return n;
}

static struct sl_counter counters[600];

static void *count_all(void *arg)
{
	(void)arg;
	for (int i = 0; i < 600; i++)
		sl_counter_inc(counters[i]);
	return NULL;
}

/*
 * Opens, creates metrics on more than one page of cells and of schema, and counts in two threads.
 */
static void scenario(int n, bool in_child)
{
	struct sl_publisher *p;
	struct sl_counter_family f;
	struct sl_counter labelled;
	struct sl_histogram h;
	pthread_t thread;
	char name[16];
	int status = 0;

	countdown = n;
	failed = false;
	p = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .socket = "/nonexistent/agent.sock", .max_threads = 1));
	if (in_child)
		countdown = 0; /* armed again in the child */
	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		counters[i] = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name));
	}
	h = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "h"));
	f = sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "family_total"));
	labelled = sl_counter_with(f, SL_LABELS({"k", "v"}));
	sl_counter_add(labelled, 2);
	if (in_child) {
		pid_t pid = fork();

		if (!pid) {
			countdown = n;
			alarm(TEST_HANGS_S);
			count_all(NULL);
			sl_histogram_observe(h, 1);
			sl_counter_value(counters[0]);
			sl_publisher_fd(p);
			for (int i = 0; i < 600; i++)
				if (sl_counter_value(counters[i]) > 1)
					_exit(1);
			sl_publisher_close(p);
			_exit(failed ? 42 : 43);
		}
		waitpid(pid, &status, 0);
		assert_true(WIFEXITED(status));
		assert_in_range(WEXITSTATUS(status), 42, 43);
		failed = WEXITSTATUS(status) == 42;
	}
	count_all(NULL);
	sl_histogram_observe(h, 1);
	if (!__real_pthread_create(&thread, NULL, count_all, NULL))
		pthread_join(thread, NULL);
	countdown = 0;
	for (int i = 0; i < 600; i++)
		if (sl_counter_valid(counters[i]))
			assert_int_equal(sl_counter_value(counters[i]), 2);
	if (sl_counter_valid(labelled))
		assert_int_equal(sl_counter_value(labelled), 2);
	if (sl_histogram_valid(h))
		assert_int_equal(sl_histogram_count(h), 1);
	if (p) {
		struct reader r;

		assert_int_equal(reader_open(&r, sl_publisher_fd(p)), REGION_FAULT_NONE);
		assert_int_equal(reader_round(&r), REGION_FAULT_NONE);
		assert_int_equal(r.unsettled, 0);
		for (size_t i = 0; i < r.schema.count; i++)
			if (r.schema.metrics[i]->kind == SL_KIND_COUNTER)
				assert_int_equal(
					region_values_u64(&r.values, r.schema.metrics[i]->cell), 2);
		reader_close(&r);
	} else {
		assert_true(failed);
	}
	sl_publisher_close(p);
}

static void all_of_them(bool in_child, int step)
{
	static const int errors[] = {ENOMEM, EMFILE, EINTR};
	int files = open_files(), n, most = 0;

	/* EINTR is retried where appropriate, so the number of calls differs. */
	for (size_t e = 0; e < (in_child ? 1 : 2); e++) {
		failure_errno = errors[e];
		for (n = 1;; n += n < 60 ? 1 : step) {
			scenario(n, in_child);
			assert_int_equal(open_files(), files);
			if (!failed)
				break;
			most = n;
		}
	}
	print_message("%d calls failed, the last was %s\n", most, failed_call);
	assert_true(most > (in_child ? 8 : 20));
}

static void any_call_may_fail(void **state)
{
	(void)state;
	scenario(0, false);
	all_of_them(false, 7);
}

static void any_call_may_fail_in_a_forked_child(void **state)
{
	(void)state;
	all_of_them(true, 1);
}

static void *count_without_a_key(void *arg)
{
	struct sl_counter *c = arg;

	countdown = 1; /* the first wrapped call of an update: pthread_setspecific() */
	sl_counter_inc(*c);
	assert_string_equal(failed_call, "pthread_setspecific");
	return NULL;
}

/*
 * It has no destructor, so nothing may refer to it after it ended: the next thread gets its memory.
 */
static void a_thread_without_a_key_leaves_nothing_behind(void **state)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));
	struct sl_counter c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));
	pthread_t thread;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(__real_pthread_create(&thread, NULL, count_without_a_key, &c), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(sl_counter_value(c), 3);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_without_a_key_leaves_nothing_behind),
		cmocka_unit_test(any_call_may_fail),
		cmocka_unit_test(any_call_may_fail_in_a_forked_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
