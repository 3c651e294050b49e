// SPDX-License-Identifier: Apache-2.0
/*
 * test_killed.c - a publisher killed between its two stores. A child that counts through
 * libsidelight is single-stepped until a line of its region does not verify, which is exactly
 * between the store to the cell and the store to the check word, and killed there. After the
 * agent's repair every line verifies, and the value is exact to one update.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "../child_fd.h"
#include "region/decode.h"

#define STEPS_MAX 400000
#define FAIL(...)                             \
	do {                                  \
		fprintf(stderr, __VA_ARGS__); \
		fputc('\n', stderr);          \
		exit(1);                      \
	} while (0)

enum what {
	COUNTER,
	COUNTER_SHARED,
	COUNTER_F64,
	GAUGE_ADD,
	GAUGE_SET,
	GAUGE_F64,
	HISTOGRAM,
	WHATS
};
static const char *const what_name[] = {"counter",     "counter in the shared stripe",
					"counter_f64", "gauge add",
					"gauge set",   "gauge_f64",
					"histogram"};

/* Shared with the child: updates that it has certainly made. */
struct account {
	atomic_uint done;
	atomic_int fd;
};

static struct sl_counter counter;
static atomic_bool taken;

/* Takes the only stripe, and keeps it. */
static void *take_stripe(void *arg)
{
	sl_counter_add(counter, 0);
	atomic_store(&taken, true);
	pause();
	return arg;
}

static void child(struct account *a, enum what what)
{
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = "m");
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					   .max_threads = what == COUNTER_SHARED ? 1 : 2));
	pthread_t thread;
	struct sl_counter_f64 counter_f64 = {0};
	struct sl_gauge gauge = {0};
	struct sl_gauge_f64 gauge_f64 = {0};
	struct sl_histogram histogram = {0};

	switch (what) {
	case COUNTER:
	case COUNTER_SHARED:
		counter = sl_counter_create(p, &o);
		break;
	case COUNTER_F64:
		counter_f64 = sl_counter_f64_create(p, &o);
		break;
	case GAUGE_ADD:
	case GAUGE_SET:
		gauge = sl_gauge_create(p, &o);
		break;
	case GAUGE_F64:
		gauge_f64 = sl_gauge_f64_create(p, &o);
		break;
	default:
		histogram = sl_histogram_create(p, &o);
	}
	if (what == COUNTER_SHARED) {
		pthread_create(&thread, NULL, take_stripe, NULL);
		while (!atomic_load(&taken))
			usleep(100);
	}
	atomic_store(&a->fd, sl_publisher_fd(p));
	raise(SIGSTOP); /* from here on it is single-stepped */
	for (unsigned int n = 1;; n++) {
		switch (what) {
		case COUNTER:
		case COUNTER_SHARED:
			sl_counter_inc(counter);
			break;
		case COUNTER_F64:
			sl_counter_f64_add(counter_f64, 1);
			break;
		case GAUGE_ADD:
			sl_gauge_add(gauge, 1);
			break;
		case GAUGE_SET:
			sl_gauge_set(gauge, n);
			break;
		case GAUGE_F64:
			sl_gauge_f64_set(gauge_f64, n);
			break;
		default:
			sl_histogram_observe(histogram, 1);
		}
		atomic_store_explicit(&a->done, n, memory_order_relaxed);
	}
}

static uint64_t unsettled(const uint8_t *map, const struct region_info *info,
			  const struct region_hot *hot)
{
	uint64_t bad = 0, line[8];

	for (uint32_t s = 0; s < info->max_stripes; s++)
		for (uint32_t l = 0; l < hot->lines_used; l++) {
			memcpy(line,
			       map + info->stripes + (uint64_t)s * info->stripe_stride + l * 64,
			       64);
			bad += sl_stripe_check(s, line) != line[7];
		}
	return bad;
}

/* Reads the only metric as a collector does; for a histogram: its count, and its sum. */
static void read_value(const uint8_t *map, const struct region_info *info, double *value,
		       double *sum)
{
	struct region_schema schema;
	struct region_values v;
	struct region_hot hot;
	const struct region_metric *m;
	uint64_t *out;

	region_schema_init(&schema);
	region_values_init(&v);
	if (region_hot_parse((const uint64_t *)(map + info->hot), info, &hot) ||
	    region_schema_append(&schema, info, map + info->schema, hot.schema_used) ||
	    region_values_resize(&v, hot.lines_used, hot.stripes_used))
		FAIL("the region does not decode");
	for (uint32_t s = 0; s < hot.stripes_used; s++)
		if (region_values_update(&v, s, 0,
					 (const uint64_t(*)[8])(map + info->stripes +
								(uint64_t)s * info->stripe_stride),
					 hot.lines_used, NULL))
			FAIL("a line does not verify after its repair");
	out = calloc(schema.cells, sizeof(*out));
	region_values_flatten(&v, schema.specials, schema.special_count, schema.cells, out);
	m = schema.metrics[0];
	*sum = 0;
	switch (m->kind) {
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE_F64:
		memcpy(value, out, 8);
		break;
	case SL_KIND_HISTOGRAM_EXP:
		*value = 0;
		for (uint32_t i = 0; i < m->bucket_count; i++)
			*value += (double)out[SL_HIST_BUCKETS + i];
		memcpy(sum, out, 8);
		break;
	default:
		*value = (double)out[0];
	}
	free(out);
	region_values_free(&v);
	region_schema_free(&schema);
}

/* Kills the child at the nth moment when a line does not verify. */
static void kill_at(enum what what, unsigned int nth)
{
	struct account *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
				 0);
	static struct region_info info;
	unsigned int steps = 0, moments = 0, done;
	bool was_bad = false;
	struct region_hot hot;
	struct stat st;
	double value, sum;
	uint8_t *map;
	int status, fd;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		FAIL("fork: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(77);
		child(a, what);
	}
	if (waitpid(pid, &status, 0) != pid)
		FAIL("waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		puts("SKIP: ptrace is not allowed here");
		exit(77);
	}
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
		FAIL("the child did not stop: %x", status);
	fd = child_fd(pid, atomic_load(&a->fd));
	if (fd < 0 || fstat(fd, &st))
		FAIL("the child's region: %s", strerror(errno));
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		FAIL("mmap: %s", strerror(errno));
	close(fd);
	if (region_info_parse((struct sl_region_header *)map, (uint64_t)st.st_size, &info) ||
	    region_hot_parse((uint64_t *)(map + info.hot), &info, &hot))
		FAIL("the region does not decode");
	for (;; steps++) {
		bool bad = unsettled(map, &info, &hot);

		moments += bad && !was_bad;
		was_bad = bad;
		if (moments == nth)
			break;
		if (steps == STEPS_MAX)
			FAIL("%s: no %u. moment in %d steps", what_name[what], nth, STEPS_MAX);
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) || waitpid(pid, &status, 0) != pid ||
		    !WIFSTOPPED(status))
			FAIL("single step: %s, status %x", strerror(errno), status);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	done = atomic_load(&a->done);
	if (unsettled(map, &info, &hot) != 1)
		FAIL("%s: more than one line is torn", what_name[what]);
	if (region_repair(map, &info) != 1)
		FAIL("%s: not one line was repaired", what_name[what]);
	if (unsettled(map, &info, &hot) || region_repair(map, &info) ||
	    region_hot_parse((uint64_t *)(map + info.hot), &info, &hot))
		FAIL("%s: the repair did not hold", what_name[what]);
	read_value(map, &info, &value, &sum);
	if ((what == COUNTER_SHARED) != (hot.threads_sharing == 1))
		FAIL("%s: %llu threads share", what_name[what],
		     (unsigned long long)hot.threads_sharing);
	if (value != done && value != done + 1)
		FAIL("%s: %u updates are done, and the value is %g", what_name[what], done, value);
	if (what == HISTOGRAM && (sum < value - 1 || sum > value + 1))
		FAIL("histogram: count %g, sum %g", value, sum);
	printf("%s: killed at step %u after %u updates, the value is %g\n", what_name[what], steps,
	       done, value);
	munmap(map, (size_t)st.st_size);
	munmap(a, 4096);
}

int main(void)
{
	for (enum what what = 0; what < WHATS; what++)
		for (unsigned int nth = 1; nth <= 12; nth++)
			kill_at(what, nth);
	return 0;
}
