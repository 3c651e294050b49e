// SPDX-License-Identifier: Apache-2.0
/*
 * test_verdict.c - sl_publisher_verdict() and sl_publisher_alarmed(), with the test as the agent.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sidelight/attach.h>
#include <sidelight/sidelight.h>

#include "support/test.h"

#define MS 1000000ull

static char directory[64], path[96];

struct scene {
	int listener, sock;
	uint64_t instance;
	struct sl_publisher *p;
};

static void up(struct scene *s)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct {
		struct sl_msg msg;
		struct sl_msg_publish publish;
	} in;
	struct {
		struct sl_msg msg;
		struct sl_msg_admitted admitted;
	} out = {.admitted = {1, 2}};

	strcpy(at.sun_path, path);
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->listener, 4), 0);
	s->p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "s", .socket = path));
	assert_non_null(s->p);
	s->sock = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(recv(s->sock, &in, sizeof(in), 0), sizeof(in));
	s->instance = in.publish.instance;
	out.msg = (struct sl_msg){SL_MSG_MAGIC, SL_MSG_ADMITTED, 0, sizeof(out.admitted),
				  in.msg.serial};
	assert_int_equal(send(s->sock, &out, sizeof(out), 0), sizeof(out));
}

static void down(struct scene *s)
{
	sl_publisher_close(s->p);
	close(s->sock);
	close(s->listener);
	unlink(path);
}

static void tell(struct scene *s, struct sl_msg_verdict v)
{
	struct {
		struct sl_msg msg;
		struct sl_msg_verdict v;
	} out = {{SL_MSG_MAGIC, SL_MSG_VERDICT, 0, sizeof(v), 0}, v};

	assert_int_equal(send(s->sock, &out, sizeof(out), MSG_NOSIGNAL), sizeof(out));
}

/* A valid message, except for members that the arguments override. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define SAY(s, ...)                                                  \
	tell((s), (struct sl_msg_verdict){.instance = (s)->instance, \
					  .ttl_ns = 60000 * MS,      \
					  .score = 1.5,              \
					  .time_ns = 7,              \
					  __VA_ARGS__})

static struct sl_publisher_verdict look(const struct sl_publisher *p)
{
	struct sl_publisher_verdict v = SL_OPTS(sl_publisher_verdict);

	assert_int_equal(sl_publisher_verdict(p, &v), 0);
	return v;
}

/* Waits until the sequence reaches n; the time does not matter here. */
static struct sl_publisher_verdict await(const struct sl_publisher *p, uint64_t n)
{
	struct sl_publisher_verdict v;

	for (int i = 0; i < 10000; i++, usleep(1000)) {
		v = look(p);
		if (v.sequence >= n)
			break;
	}
	assert_int_equal(v.sequence, n);
	return v;
}

static void a_verdict_is_read_back(void **state)
{
	struct sl_publisher_verdict v;
	struct scene s;

	(void)state;
	up(&s);
	v = look(s.p);
	assert_false(v.known || v.anomalous || v.sequence || sl_publisher_alarmed(s.p));
	SAY(&s, .flags = 0);
	v = await(s.p, 1);
	assert_true(v.known && !v.anomalous && v.score == 1.5 && v.time_ns == 7);
	assert_false(sl_publisher_alarmed(s.p));
	SAY(&s, .flags = 1, .score = 4);
	v = await(s.p, 2);
	assert_true(v.known && v.anomalous && v.score == 4);
	assert_true(sl_publisher_alarmed(s.p));
	SAY(&s, .flags = 1, .score = 5); /* a new verdict, but no change */
	SAY(&s, .flags = 0);
	v = await(s.p, 3);
	assert_true(v.known && !v.anomalous);
	down(&s);
}

static void without_news_it_is_not_known_any_more(void **state)
{
	struct sl_publisher_verdict v;
	struct scene s;

	(void)state;
	up(&s);
	SAY(&s, .flags = 1, .ttl_ns = 300 * MS);
	v = await(s.p, 2); /* nothing but time makes the second change */
	assert_false(v.known || v.anomalous || v.score != 0 || v.time_ns);
	assert_false(sl_publisher_alarmed(s.p));
	down(&s);
}

static void it_outlives_the_agent_but_not_its_time(void **state)
{
	struct sl_publisher_verdict v;
	struct scene s;

	(void)state;
	up(&s);
	SAY(&s, .flags = 1, .ttl_ns = 1500 * MS);
	await(s.p, 1);
	close(s.sock);
	close(s.listener);
	unlink(path);
	for (int i = 0; i < 1000 && sl_publisher_attached(s.p); i++)
		usleep(1000);
	assert_false(sl_publisher_attached(s.p));
	v = await(s.p, 2);
	assert_false(v.known || sl_publisher_alarmed(s.p));
	sl_publisher_close(s.p);
}

static void what_does_not_hold_is_let_pass(void **state)
{
	struct scene s;

	(void)state;
	up(&s);
	SAY(&s, .flags = 1, .instance = s.instance + 1);
	SAY(&s, .flags = 3);
	SAY(&s, .flags = 1, .ttl_ns = 0);
	SAY(&s, .flags = 1, .ttl_ns = UINT64_MAX);
	SAY(&s, .flags = 1, .score = __builtin_nan(""));
	SAY(&s, .flags = 1, .score = -1);
	SAY(&s, .flags = 0);
	assert_false(await(s.p, 1).anomalous);
	assert_true(sl_publisher_attached(s.p));
	down(&s);
}

static void a_child_knows_nothing_of_itself(void **state)
{
	struct scene s;
	int status;
	pid_t pid;

	(void)state;
	up(&s);
	SAY(&s, .flags = 1);
	await(s.p, 1);
	pid = fork();
	if (!pid) {
		struct sl_publisher_verdict v = SL_OPTS(sl_publisher_verdict);

		_exit(sl_publisher_verdict(s.p, &v) || v.known || v.sequence ||
		      sl_publisher_alarmed(s.p));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(sl_publisher_alarmed(s.p));
	down(&s);
}

static void other_sizes_and_null(void **state)
{
	struct {
		struct sl_publisher_verdict v;
		uint64_t more;
	} later = {.v = {.sz = sizeof(later)}, .more = 77};
	struct sl_publisher_verdict v = {.sz = 8};

	(void)state;
	assert_int_equal(sl_publisher_verdict(NULL, &v), -EINVAL);
	assert_false(sl_publisher_alarmed(NULL));
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));
	assert_int_equal(sl_publisher_verdict(p, NULL), -EINVAL);
	assert_int_equal(sl_publisher_verdict(p, &v), -EINVAL);
	assert_int_equal(sl_publisher_verdict(p, &later.v), 0);
	assert_int_equal(later.more, 77);
	assert_int_equal(later.v.sz, sizeof(later));
	v = look(p);
	assert_false(v.known);
	sl_publisher_close(p);
}

/* Words of one verdict stay together: score and time state the same number in each verdict. */
static void *reader(void *arg)
{
	const struct scene *s = arg;
	uint64_t seen = 0;

	for (unsigned int i = 0; seen != UINT64_MAX; i++) {
		struct sl_publisher_verdict v = SL_OPTS(sl_publisher_verdict);

		/* valgrind runs one thread at a time, for long unless it yields. */
		if (i % 64 == 0)
			sched_yield();
		sl_publisher_verdict(s->p, &v);
		if (v.known && (v.score != (double)v.time_ns || v.anomalous != (v.time_ns & 1)))
			return (void *)1;
		if (v.sequence < seen)
			return (void *)2;
		seen = v.known && v.time_ns == 1000000 ? UINT64_MAX : v.sequence;
	}
	return NULL;
}

static void no_reader_sees_halves_of_two(void **state)
{
	pthread_t threads[3];
	struct scene s;
	void *wrong;

	(void)state;
	up(&s);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, &s), 0);
	for (int i = 1; i <= 20000; i++)
		SAY(&s, .flags = (uint64_t)(i & 1), .score = i, .time_ns = i);
	SAY(&s, .flags = 0, .score = 1000000, .time_ns = 1000000);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	down(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_verdict_is_read_back),
		cmocka_unit_test(without_news_it_is_not_known_any_more),
		cmocka_unit_test(it_outlives_the_agent_but_not_its_time),
		cmocka_unit_test(what_does_not_hold_is_let_pass),
		cmocka_unit_test(a_child_knows_nothing_of_itself),
		cmocka_unit_test(other_sizes_and_null),
		cmocka_unit_test(no_reader_sees_halves_of_two),
	};
	int failed;

	snprintf(directory, sizeof(directory), "/tmp/sl-back.XXXXXX");
	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/agent.sock", directory);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(directory);
	return failed;
}
