// SPDX-License-Identifier: Apache-2.0
/* Writers killed at random moments: what they left is read, but for the span that was begun. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../child_fd.h"
#include "rings.h"

struct progress {
	int fd;
	uint64_t begun; /* spans */
};

static struct progress *progress;

static void write_until_killed(void)
{
	struct sl_publisher *p = sl_publisher_open(PUBLISHER(.flags = SL_PUBLISHER_DETACHED,
							     .max_threads = 2,
							     .span_bytes = 32u << 10));
	struct made m = made_names(p);

	alarm(10); /* whoever should kill us */
	make_span(&m, 0);
	progress->begun = 1;
	__atomic_store_n(&progress->fd, sl_publisher_fd(p), __ATOMIC_RELEASE);
	for (uint64_t x = 1;; x++) {
		progress->begun = x + 1;
		make_span(&m, x);
	}
}

static void check(const struct sl_span_data *d, uint64_t number, uint32_t lines, void *arg)
{
	uint64_t *last = arg, x = (uint64_t)d->attrs[0].i64;

	(void)number, (void)lines;
	assert_true(span_is_made(d));
	assert_true(!*last || x == *last + 1);
	*last = x;
}

static void check_dead(int fd)
{
	struct ring_tally t;
	struct sl_span_head head;
	struct reader r;
	uint64_t last = 0, entries[SL_SPAN_ENTRIES];
	uint32_t count, bad = 0;

	assert_int_equal(reader_open(&r, fd), SL_FAULT_NONE);
	assert_true(sl_region_repair(r.map, &r.info) <= 1);
	t = ring_read(&r, 1, copy_in_order, check, &last);
	assert_true(t.head_settled && !t.lies && !t.early);
	/* The head is of the time before the last span; its lines may have gone over the oldest. */
	assert_true(t.unsettled + t.late <= SL_SPAN_LINES_MAX);
	assert_true(t.head.spans == progress->begun || t.head.spans + 1 == progress->begun);
	/* Its cells are stored one after the other: the lines, then the count of spans. */
	assert_true(last + 1 == t.head.spans || last == t.head.spans);
	head = t.head;
	for (uint64_t i = head.index > 64 ? head.index - 64 : 0; i < head.index; i++)
		bad += sl_span_index_parse((uint64_t *)(r.map + sl_span_index_at(&r.info, 1, i)), i,
					   entries, &count) != SL_SPAN_LINE_GOOD;
	assert_true(bad <= 1);
	reader_close(&r);
}

static void a_writer_killed_at_any_time_leaves_its_spans(void **state)
{
	int rounds = (int)(1000 * (TEST_SANITIZED ? 0.1 : 1) * test_scale());
	unsigned int seed = (unsigned int)time(NULL);

	(void)state;
	print_message("seed %u, %d writers\n", seed, rounds);
	for (int i = 0; i < rounds; i++) {
		struct timespec nap = {0, (long)(rand_r(&seed) % 400) * 1000};
		pid_t pid;
		int fd, at;

		*progress = (struct progress){.fd = -1};
		pid = fork();
		if (!pid)
			write_until_killed();
		while ((at = __atomic_load_n(&progress->fd, __ATOMIC_ACQUIRE)) < 0)
			usleep(20);
		fd = child_fd(pid, at);
		assert_true(fd >= 0);
		nanosleep(&nap, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		check_dead(fd);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_writer_killed_at_any_time_leaves_its_spans),
	};

	progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (progress == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
