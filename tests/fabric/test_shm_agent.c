// SPDX-License-Identifier: Apache-2.0
/* test_shm_agent.c - connections to an agent that is late, gone, hung, or lies. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "shm_scene.h"

static void assert_error(struct fabric *f, const char *words)
{
	struct fabric_stats s;

	fabric_stats(f, &s);
	if (!strstr(s.last_error, words))
		fail_msg("'%s' does not say '%s'", s.last_error, words);
}

static int count_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* ---- tests: the connection ---- */

static void back_off_doubles_to_a_second_and_starts_over(void **state)
{
	static const unsigned int waits[] = {50, 100, 200, 400, 800, 1000, 1000};
	struct agent *a = *state;
	struct fabric *f = fabric_open(a->target, NULL);
	uint64_t epoch = 7;

	assert_non_null(f);
	for (int again = 0; again < 2; again++) {
		if (!again) {
			assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
			assert_error(f, "No such file");
		}
		for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
			/* Not tried early, although the agent came back and disappeared again. */
			agent_listen(a);
			now += waits[i] * MS - 1;
			assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
			agent_gone(a);
			now += 1;
			assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
		}
		assert_int_equal(epoch, again);
		agent_listen(a);
		now += 1000 * MS;
		assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_CONNECTING);
		agent_welcome(a, memory(SIZE, F_SEAL_SHRINK), SIZE);
		assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_UP);
		assert_int_equal(epoch, again + 1);
		agent_gone(a);
		now += 3 * MS;
		assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
		assert_error(f, "closed the connection");
	}
	fabric_close(f);
}

static void a_new_connection_voids_what_came_over_the_old(void **state)
{
	struct agent *a = *state;
	struct fabric_remote region = {.id = 5, .length = SIZE}, directory;
	struct answer answer;
	struct fabric_read r;
	struct fabric *f;
	uint64_t epoch;
	void *buffer;

	agent_listen(a);
	f = connect_to(a);
	buffer = fabric_buffer(f, NULL);
	directory = *fabric_directory(f);
	answer = good_answer(a, 5, SIZE);
	assert_int_equal(map_with(f, &region, &answer), 0);
	agent_gone(a);
	now += 3 * MS;
	assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
	assert_int_equal(epoch, 1);
	assert_null(fabric_directory(f));
	r = (struct fabric_read){.remote = &region, .length = 64, .to = buffer};
	assert_int_equal(fabric_post(f, &r, 1), -ENOTCONN);
	assert_int_equal(fabric_map(f, &region), -ENOTCONN);

	agent_listen(a);
	now += 60 * MS;
	assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_CONNECTING);
	agent_welcome(a, memory(SIZE, F_SEAL_SHRINK), SIZE);
	assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_UP);
	assert_int_equal(epoch, 2);
	assert_int_equal(read_one(f, &r)->status, -EACCES);
	fabric_unmap(f, &region);
	answer = good_answer(a, 5, SIZE);
	assert_int_equal(map_with(f, &region, &answer), 0);
	assert_int_equal(read_one(f, &r)->status, 0);
	/* A copy of the old directory's description is harmless. */
	agent_gone(a);
	now += 3 * MS;
	fabric_drive(f, now, &epoch);
	r.remote = &directory;
	assert_int_equal(fabric_post(f, &r, 1), -ENOTCONN);
	fabric_unmap(f, &directory);
	fabric_unmap(f, &region);
	fabric_close(f);
}

static void an_agent_that_does_not_answer_is_given_up(void **state)
{
	struct agent *a = *state;
	struct fabric_opts opts = {.connect_timeout_ms = 500, .gid_index = -1};
	struct fabric *f;

	agent_listen(a);
	f = fabric_open(a->target, &opts);
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_CONNECTING);
	now += 499 * MS;
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_CONNECTING);
	now += 1 * MS;
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_DOWN);
	assert_error(f, "did not answer");
	assert_int_equal(agent_hear(a, NULL), SL_MSG_SUBSCRIBE);
	assert_int_equal(agent_hear(a, NULL), 0);
	fabric_close(f);
}

/* ---- tests: an agent that lies ---- */

enum lie {
	LIE_NO_FD,
	LIE_TWO_FDS,
	LIE_UNSEALED,
	LIE_NO_MEMFD,
	LIE_TOO_SMALL,
	LIE_TOO_LARGE,
	LIE_TINY,
	LIE_MAGIC,
	LIE_LENGTH,
	LIE_SHORT,
	LIE_SERIAL,
	LIE_TYPE,
	LIE_REFUSED,
	LIE_REFUSED_SHORT,
	LIE_OVERSIZED,
	LIE_EMPTY,
	LIE_HANG_UP,
	LIES
};

/* A packet to the collector's side, its bytes and its descriptors. */
struct told {
	struct sl_msg msg;
	union {
		struct sl_msg_welcome welcome;
		struct sl_msg_refused refused;
		uint8_t bytes[SL_MSG_MAX];
	} u;
	size_t bytes;
	int fds[2], count;
};

/* Turns an honest welcome into the given lie. */
static void twist(struct told *p, struct agent *a, enum lie lie)
{
	switch (lie) {
	case LIE_NO_FD:
		p->count = 0;
		break;
	case LIE_TWO_FDS:
		p->fds[1] = memory(SIZE, F_SEAL_SHRINK);
		p->count = 2;
		break;
	case LIE_NO_MEMFD:
		close(p->fds[0]);
		p->fds[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		break;
	case LIE_TOO_SMALL:
		p->u.welcome.size = SIZE + 1;
		break;
	case LIE_TOO_LARGE:
		p->u.welcome.size = UINT64_MAX;
		break;
	case LIE_TINY:
		p->u.welcome.size = 0;
		break;
	case LIE_MAGIC:
		p->msg.magic++;
		break;
	case LIE_LENGTH:
		p->msg.length = UINT32_MAX;
		break;
	case LIE_SHORT:
		p->bytes = 7;
		break;
	case LIE_SERIAL:
		p->msg.serial++;
		break;
	case LIE_TYPE:
		p->msg.type = SL_MSG_REGION;
		break;
	case LIE_REFUSED:
		p->msg.type = SL_MSG_REFUSED;
		p->msg.length = sizeof(p->u.refused);
		p->u.refused.error = EPERM;
		memset(p->u.refused.reason, 'x', sizeof(p->u.refused.reason));
		memcpy(p->u.refused.reason, "no\nway\033", 7);
		p->bytes = sizeof(p->msg) + sizeof(p->u.refused);
		break;
	case LIE_REFUSED_SHORT:
		p->msg.type = SL_MSG_REFUSED;
		p->msg.length = 2;
		p->bytes = sizeof(p->msg) + 2;
		break;
	case LIE_OVERSIZED:
		p->msg.length = SL_MSG_MAX;
		p->bytes = sizeof(p->msg) + sizeof(p->u);
		break;
	case LIE_EMPTY:
		p->bytes = 0;
		p->count = 1;
		break;
	case LIE_HANG_UP:
		close(a->peer);
		a->peer = -1;
		break;
	default:
		break;
	}
}

static void tell(struct agent *a, enum lie lie)
{
	struct told p = {.msg = {.magic = SL_MSG_MAGIC,
				 .type = SL_MSG_WELCOME,
				 .length = sizeof(p.u.welcome)},
			 .bytes = sizeof(p.msg) + sizeof(p.u.welcome),
			 .fds = {-1, -1},
			 .count = 1};

	assert_int_equal(agent_hear(a, NULL), SL_MSG_SUBSCRIBE);
	p.msg.serial = a->serial;
	p.u.welcome.size = SIZE;
	p.fds[0] = memory(SIZE, lie == LIE_UNSEALED ? 0 : F_SEAL_SHRINK);
	twist(&p, a, lie);
	if (a->peer >= 0)
		agent_send(a, &p, p.bytes, p.fds, p.count);
	for (int i = 0; i < 2; i++)
		if (p.fds[i] >= 0)
			close(p.fds[i]);
}

static void an_agent_that_lies_is_not_believed(void **state)
{
	struct agent *a = *state;
	int before;

	agent_listen(a);
	before = count_fds();
	for (int lie = 0; lie < LIES; lie++) {
		struct fabric *f = fabric_open(a->target, NULL);
		struct fabric_stats s;
		enum fabric_state got;

		assert_int_equal(fabric_drive(f, now, NULL), FABRIC_CONNECTING);
		tell(a, lie);
		got = fabric_drive(f, now, NULL);
		fabric_stats(f, &s);
		if (got != (lie == LIE_TWO_FDS ? FABRIC_UP : FABRIC_DOWN))
			fail_msg("lie %d: state %d, %s", lie, got, s.last_error);
		if (lie != LIE_TWO_FDS) {
			assert_true(s.last_error[0]);
			assert_int_equal(s.connects, 0);
		}
		if (lie == LIE_REFUSED)
			assert_non_null(strstr(s.last_error, "no?way?"));
		fabric_close(f);
		if (a->peer >= 0)
			close(a->peer);
		a->peer = -1;
		if (count_fds() != before)
			fail_msg("lie %d: a descriptor was kept", lie);
	}
}

static void a_region_is_checked_like_the_directory(void **state)
{
	struct agent *a = *state;
	int before;

	agent_listen(a);
	before = count_fds();
	for (int i = 0; i < 8; i++) {
		struct fabric *f = connect_to(a);
		struct fabric_remote region = {.id = 5, .length = SIZE};
		struct answer s = good_answer(a, 5, SIZE);
		int want = -ENOTCONN, err;
		bool up = false;

		switch (i) {
		case 0: /* memory that can shrink */
			close(s.fd);
			s.fd = memory(SIZE, 0);
			want = -EINVAL;
			up = true;
			break;
		case 1: /* the size differs from the one in the directory */
			s.region.size = SIZE + 4096;
			want = -EINVAL;
			up = true;
			break;
		case 2: /* less memory than announced */
			close(s.fd);
			s.fd = memory(SIZE - 4096, F_SEAL_SHRINK);
			want = -EINVAL;
			up = true;
			break;
		case 3: /* another region */
			s.region.id = 6;
			break;
		case 4: /* no descriptor */
			close(s.fd);
			s.fd = -1;
			break;
		case 5:
			close(s.fd);
			s.hang_up = true;
			break;
		case 6:
			close(s.fd);
			s.garbage = true;
			break;
		case 7: /* the answer to an earlier question */
			s.late_serial = true;
			break;
		}
		err = map_with(f, &region, &s);
		if (err != want)
			fail_msg("case %d: %d instead of %d", i, err, want);
		assert_null(region.local);
		assert_int_equal(fabric_directory(f) != NULL, up);
		fabric_close(f);
		if (a->peer >= 0)
			close(a->peer);
		a->peer = -1;
		if (count_fds() != before)
			fail_msg("case %d: a descriptor was kept", i);
	}
}

static void a_region_that_is_gone_is_enoent_and_the_rest_goes_on(void **state)
{
	struct agent *a = *state;
	struct fabric_remote region = {.id = 5, .length = SIZE};
	struct sl_msg_refused refused = {.error = ENOENT, .reason = "no such id"};
	struct answer s = {.agent = a, .type = SL_MSG_REFUSED, .fd = -1};
	struct fabric *f;

	agent_listen(a);
	f = connect_to(a);
	memcpy(&s.region, &refused, sizeof(s.region)); /* shorter than a whole refusal, but sound */
	assert_int_equal(map_with(f, &region, &s), -ENOENT);
	assert_non_null(fabric_directory(f));
	s = good_answer(a, 5, SIZE);
	assert_int_equal(map_with(f, &region, &s), 0);
	assert_int_equal(fabric_map(f, &region), -EINVAL); /* it is mapped */
	fabric_unmap(f, &region);
	region.id = 0;
	assert_int_equal(fabric_map(f, &region), -EINVAL);
	fabric_close(f);
}

static void a_hung_agent_stalls_once_and_briefly(void **state)
{
	struct agent *a = *state;
	struct fabric_remote region = {.id = 5, .length = SIZE};
	struct answer s = {.agent = a, .silent = true, .fd = -1};
	struct fabric *f;
	uint64_t start, took;

	agent_listen(a);
	f = connect_for(a, NULL);
	start = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(map_with(f, &region, &s), -ENOTCONN);
	took = clock_ns(CLOCK_MONOTONIC) - start;
	assert_true(took >= 150 * MS && took < 100000 * MS);
	assert_error(f, "did not answer");
	assert_null(fabric_directory(f));
	/* The next ones do not wait at all, although the machine may be busy in between. */
	for (int i = 0;; i++) {
		start = clock_ns(CLOCK_MONOTONIC);
		assert_int_equal(fabric_map(f, &region), -ENOTCONN);
		if (clock_ns(CLOCK_MONOTONIC) - start < 100 * MS)
			break;
		assert_true(i < 20);
	}
	fabric_close(f);
}

/* Maps until there is an answer; it was sent already. */
static int map_again(struct fabric *f, struct fabric_remote *remote)
{
	int err = -EAGAIN;

	for (int i = 0; i < 1000 && err == -EAGAIN; i++)
		err = fabric_map(f, remote);
	return err;
}

static void an_agent_that_is_late_blocks_no_reader(void **state)
{
	const struct fabric_opts opts = {
		.gid_index = -1, .answer_timeout_ms = 100000, .map_later = true};
	struct agent *a = *state;
	struct fabric_remote gone = {.id = 4, .length = SIZE}, region = {.id = 5, .length = SIZE};
	struct answer s;
	struct sl_msg_id id;
	struct fabric *f;
	uint64_t start;

	agent_listen(a);
	f = connect_for(a, &opts);
	start = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fabric_map(f, &gone), -EAGAIN);
	/* Another one is not asked for before the first is answered. */
	assert_int_equal(fabric_map(f, &region), -EAGAIN);
	assert_true(clock_ns(CLOCK_MONOTONIC) - start < 50000 * MS);
	assert_int_equal(agent_hear(a, &id), SL_MSG_OPEN);
	assert_int_equal(id.id, 4);
	s = good_answer(a, 4, SIZE);
	agent_say(a, s.type, &s.region, sizeof(s.region), s.fd);
	assert_int_equal(fabric_map(f, &region), -EAGAIN);
	assert_int_equal(agent_hear(a, &id), SL_MSG_OPEN);
	assert_int_equal(id.id, 5);
	s = good_answer(a, 5, SIZE);
	agent_say(a, s.type, &s.region, sizeof(s.region), s.fd);
	assert_int_equal(map_again(f, &region), 0);
	assert_null(gone.local);
	assert_int_equal(fabric_drive(f, clock_ns(CLOCK_MONOTONIC), NULL), FABRIC_UP);
	fabric_unmap(f, &region);
	fabric_close(f);
}

static void an_unrequested_message_ends_the_connection(void **state)
{
	struct agent *a = *state;
	struct fabric *f;
	int before;

	agent_listen(a);
	before = count_fds();
	f = connect_to(a);
	agent_say(a, SL_MSG_REGION, NULL, 0, memory(SIZE, F_SEAL_SHRINK));
	/* The memory is checked at most every 2 ms, so that a round needs no system call. */
	assert_int_equal(fabric_drive(f, now + 1, NULL), FABRIC_UP);
	now += 3 * MS;
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_DOWN);
	assert_error(f, "unsolicited");
	fabric_close(f);
	close(a->peer);
	a->peer = -1;
	assert_int_equal(count_fds(), before);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(back_off_doubles_to_a_second_and_starts_over),
		T(a_new_connection_voids_what_came_over_the_old),
		T(an_agent_that_does_not_answer_is_given_up),
		T(an_agent_that_lies_is_not_believed),
		T(a_region_is_checked_like_the_directory),
		T(a_region_that_is_gone_is_enoent_and_the_rest_goes_on),
		T(a_hung_agent_stalls_once_and_briefly),
		T(an_agent_that_is_late_blocks_no_reader),
		T(an_unrequested_message_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
