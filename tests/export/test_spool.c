// SPDX-License-Identifier: Apache-2.0
/*
 * test_spool.c - the queue on disk keeps its order and its limit, and survives the death of its
 * process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "export/spool.h"

#define BODY 1000u

static char path[512];

static struct export_spool *reopen(struct export_spool *s)
{
	char error[256] = "";

	export_spool_close(s);
	s = export_spool_open(path, EXPORT_SPOOL_MIN, error, sizeof(error));
	if (!s)
		fail_msg("%s", error);
	return s;
}

static struct export_spool *fresh(void)
{
	snprintf(path, sizeof(path), "%s/queue", getenv("TMPDIR") ?: "/tmp");
	unlink(path);
	return reopen(NULL);
}

static struct export_spool_stats stats(struct export_spool *s)
{
	struct export_spool_stats st;

	export_spool_stats(s, &st);
	return st;
}

/*
 * Adds body i: its number, repeated, with i + 1 items. Returns the number of items dropped for it.
 */
static uint64_t add(struct export_spool *s, uint32_t i)
{
	uint32_t body[BODY / 4];
	uint64_t dropped = 0;

	for (size_t k = 0; k < BODY / 4; k++)
		body[k] = i;
	assert_int_equal(export_spool_add(s, body, sizeof(body), i + 1, &dropped), 0);
	return dropped;
}

/* Returns the number of the first body without removing it. UINT32_MAX: none. */
static uint32_t peek(struct export_spool *s)
{
	uint64_t items;
	uint32_t i, *b;
	size_t bytes;
	void *body;

	if (export_spool_take(s, &body, &bytes, &items))
		return UINT32_MAX;
	b = body;
	i = b[0];
	assert_int_equal(bytes, BODY);
	for (size_t k = 0; k < BODY / 4; k++)
		assert_int_equal(b[k], i);
	assert_int_equal(items, i + 1);
	free(body);
	return i;
}

static uint32_t take(struct export_spool *s)
{
	uint32_t i = peek(s);

	export_spool_done(s);
	return i;
}

static void order_is_kept_over_laps_and_restarts(void **state)
{
	struct export_spool *s = fresh();
	uint32_t next = 0, added = 0;
	struct stat st;

	(void)state;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, EXPORT_SPOOL_MIN);
	for (int lap = 0; lap < 50; lap++) {
		for (int k = 0; k < 7; k++)
			assert_int_equal(add(s, added++), 0);
		for (int k = 0; k < 5 + (lap & 3); k++)
			if (next < added)
				assert_int_equal(take(s), next++);
		if (lap % 3 == 0) {
			/* Taken but not completed: the process died before the body was sent. */
			if (next < added)
				assert_int_equal(peek(s), next);
			s = reopen(s);
			assert_int_equal(stats(s).bodies, added - next);
			assert_int_equal(stats(s).corrupt, 0);
		}
	}
	while (next < added)
		assert_int_equal(take(s), next++);
	assert_int_equal(take(s), UINT32_MAX);
	assert_int_equal(stats(s).items, 0);
	s = reopen(s);
	assert_int_equal(take(s), UINT32_MAX);
	export_spool_close(s);
	unlink(path);
}

static void the_oldest_leave_and_are_counted(void **state)
{
	struct export_spool *s = fresh();
	uint64_t dropped = 0, all = 0, left = 0;
	uint32_t first;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		dropped += add(s, i);
		all += i + 1;
	}
	left = stats(s).items;
	assert_int_equal(dropped + left, all);
	assert_true(stats(s).bodies > 50);
	s = reopen(s);
	assert_int_equal(stats(s).items, left);
	first = peek(s);
	assert_int_equal(first, 1000 - stats(s).bodies);
	/* The body that is being sent is not dropped: it is in memory. */
	dropped = 0;
	for (uint32_t i = 1000; i < 1010; i++)
		dropped += add(s, i);
	for (uint32_t i = first + 1; i < first + 10; i++)
		dropped -= i + 1;
	assert_int_equal(dropped, 0);
	export_spool_done(s);
	for (uint32_t i = first + 10; i < 1010; i++)
		assert_int_equal(take(s), i);
	assert_int_equal(take(s), UINT32_MAX);
	assert_int_equal(export_spool_add(s, path, 1u << 20, 1, &dropped), -ENOSPC);
	export_spool_close(s);
	unlink(path);
}

static void scribble(off_t at, size_t n)
{
	int fd = open(path, O_WRONLY);
	char junk[64];

	memset(junk, 0x5a, sizeof(junk));
	assert_int_equal(pwrite(fd, junk, n, at), n);
	close(fd);
}

#define RECORD (64u + 1000u)
#define AT(i)  ((off_t)(4096 + (i)*RECORD))

/* Damages `n` bytes at `at` of a queue of ten, and checks which bodies are left. */
static void damaged(off_t at, size_t n, uint32_t lost, uint32_t lost_count, uint64_t corrupt)
{
	struct export_spool *s = fresh();

	for (uint32_t i = 0; i < 10; i++)
		add(s, i);
	export_spool_close(s);
	scribble(at, n);
	s = reopen(NULL);
	for (uint32_t i = 0; i < 10; i++)
		if (i < lost || i >= lost + lost_count)
			assert_int_equal(take(s), i);
	assert_int_equal(take(s), UINT32_MAX);
	assert_int_equal(stats(s).corrupt, corrupt);
	assert_int_equal(add(s, 77), 0);
	assert_int_equal(take(s), 77);
	export_spool_close(s);
	unlink(path);
}

static void damage_is_skipped_and_counted(void **state)
{
	(void)state;
	damaged(AT(3) + 100, 8, 3, 1, 4); /* body: its head has the number of items */
	damaged(AT(0) + 100, 8, 0, 1, 1);
	damaged(AT(4) + 16, 8, 4, 1, 1); /* head: by the numbering, one body is lost */
	damaged(AT(0), 64, 0, 1, 1);
	damaged(AT(9) + 500, 8, 9, 1, 10); /* the tail's body */
	damaged(AT(9), 8, 9, 1, 0);	   /* the tail's head: it was never there */
	damaged(32 + 8, 8, 0, 0, 1);	   /* the file's own head */
}

static void what_is_no_queue_is_left_alone(void **state)
{
	struct export_spool *s = fresh();
	char error[256];
	int fd;

	(void)state;
	assert_null(export_spool_open(path, 0, error, sizeof(error)));
	assert_int_equal(errno, EBUSY);
	export_spool_close(s);
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, "something else, of another program, that is not ours", 52), 52);
	close(fd);
	assert_null(export_spool_open(path, 0, error, sizeof(error)));
	assert_int_equal(errno, EINVAL);
	unlink(path);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_null(export_spool_open(path, 0, error, sizeof(error)));
	assert_int_equal(errno, ELOOP);
	unlink(path);
}

static uint64_t ahead_ns;

uint64_t __real_base_realtime_ns(void);
uint64_t __wrap_base_realtime_ns(void);
uint64_t __wrap_base_realtime_ns(void)
{
	return __real_base_realtime_ns() + ahead_ns;
}

static void a_clock_that_was_far_ahead_is_forgotten(void **state)
{
	static const uint64_t day_ns = 86400000000000;
	const uint64_t begun = base_realtime_ns();
	struct export_spool *s = fresh();

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		ahead_ns = day_ns;
		assert_int_equal(add(s, i), 0);
		if (i) /* then only the head of the file has the time */
			assert_int_equal(take(s), i);
		s = reopen(s);
		assert_true(export_spool_newest_ns(s) >= begun + day_ns);
		ahead_ns = 0;
		s = reopen(s);
		assert_int_equal(export_spool_newest_ns(s), 0);
		assert_int_equal(take(s), i ? UINT32_MAX : i);
	}
	assert_int_equal(add(s, 2), 0);
	s = reopen(s);
	assert_in_range(export_spool_newest_ns(s), begun, base_realtime_ns());
	export_spool_close(s);
	unlink(path);
}

static unsigned int synced;
static bool sync_fails;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	synced++;
	errno = EIO;
	return sync_fails ? -1 : __real_fdatasync(fd);
}

static void what_changed_is_synchronised(void **state)
{
	struct export_spool *s = fresh();

	(void)state;
	synced = 0;
	export_spool_sync(s); /* of the head that was created */
	assert_int_equal(synced, 1);
	s = reopen(s);
	assert_int_equal(synced, 1); /* nothing was written since then */
	add(s, 0);
	export_spool_sync(s);
	assert_int_equal(synced, 2);
	add(s, 1);
	s = reopen(s);
	assert_int_equal(synced, 3);

	sync_fails = true;
	assert_int_equal(take(s), 0);
	export_spool_sync(s);
	assert_int_equal(synced, 4);
	assert_int_equal(stats(s).errors, 1);
	sync_fails = false;
	s = reopen(s); /* it is tried again */
	assert_int_equal(synced, 5);
	assert_int_equal(take(s), 1);
	export_spool_close(s);
	unlink(path);
}

static unsigned int failing_reads, good_reads; /* good_reads: before the failing ones */

ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	if (good_reads || !failing_reads) {
		good_reads -= good_reads > 0;
		return __real_pread64(fd, to, n, at);
	}
	failing_reads--;
	errno = EIO;
	return -1;
}

static void a_failed_read_loses_nothing(void **state)
{
	struct export_spool *s = fresh();
	char error[256];

	(void)state;
	for (uint32_t i = 0; i < 80; i++)
		add(s, i);
	for (uint32_t i = 80 - (uint32_t)stats(s).bodies; i < 80; i++) {
		good_reads = i % 2; /* the record's head */
		failing_reads = 1 + i % 3;
		while (failing_reads)
			assert_int_equal(peek(s), UINT32_MAX);
		assert_int_equal(peek(s), i);
		failing_reads = 1;
		export_spool_done(s);
		failing_reads = 0;
	}
	assert_int_equal(stats(s).corrupt, 0);
	assert_int_equal(stats(s).bodies, 0);
	add(s, 80);
	add(s, 81);
	export_spool_close(s);
	for (unsigned int i = 0; i < 4; i++) {
		good_reads = i;
		failing_reads = 1;
		assert_null(export_spool_open(path, EXPORT_SPOOL_MIN, error, sizeof(error)));
		assert_int_equal(errno, EIO);
	}
	s = reopen(NULL);
	assert_int_equal(take(s), 80);
	assert_int_equal(take(s), 81);
	assert_int_equal(stats(s).corrupt, 0);
	assert_int_equal(stats(s).bodies, 0);
	export_spool_close(s);
	unlink(path);
}

/* A full queue takes nothing more while it can't be read, and goes on after some time. */
static void an_unreadable_queue_is_counted_and_given_up(void **state)
{
	uint32_t body[BODY / 4] = {0}, added = 0;
	struct export_spool *s = fresh();
	uint64_t dropped = 0, items;

	(void)state;
	while (!add(s, added))
		added++;
	items = stats(s).items;
	failing_reads = UINT32_MAX;
	assert_int_equal(export_spool_add(s, body, sizeof(body), 1, &dropped), -EIO);
	assert_int_equal(stats(s).items, items);
	while (stats(s).items == items)
		assert_int_equal(peek(s), UINT32_MAX);
	assert_int_equal(stats(s).items, 0);
	assert_int_equal(stats(s).corrupt, items);
	assert_int_equal(dropped, 0);
	failing_reads = 0;
	add(s, 5);
	assert_int_equal(take(s), 5);
	export_spool_close(s);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_kept_over_laps_and_restarts),
		cmocka_unit_test(the_oldest_leave_and_are_counted),
		cmocka_unit_test(damage_is_skipped_and_counted),
		cmocka_unit_test(what_is_no_queue_is_left_alone),
		cmocka_unit_test(a_clock_that_was_far_ahead_is_forgotten),
		cmocka_unit_test(what_changed_is_synchronised),
		cmocka_unit_test(a_failed_read_loses_nothing),
		cmocka_unit_test(an_unreadable_queue_is_counted_and_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
