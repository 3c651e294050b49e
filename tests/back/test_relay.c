// SPDX-License-Identifier: Apache-2.0
/*
 * test_relay.c - the agent between collector and publisher: which verdicts it forwards, and which
 * it never does.
 */
#include "../agent/fixture.h"
#include "agent/internal.h"

#include <sys/socket.h>

#define OWN 70 /* the instance in the publisher's header */

/*
 * A valid message, except for members that the arguments override. Collectors know a stranger's
 * derived instance.
 */
#pragma GCC diagnostic ignored "-Woverride-init"
#define VERDICT(...)                                                                      \
	(struct sl_msg_verdict)                                                           \
	{                                                                                 \
		.instance = s.instance, .ttl_ns = 1000 * MS, .score = 2.5, .time_ns = 99, \
		__VA_ARGS__                                                               \
	}

struct scene {
	struct agent a;
	struct fake region;
	struct agent_conn *publisher, *collector;
	int told;	   /* the publisher's end of its connection */
	uint64_t instance; /* the region's, in the directory */
};

static void up(struct scene *s)
{
	int ends[2];

	agent_up(&s->a, (struct agent_opts){0});
	assert_int_equal(agent_verdict_board_init(&s->a), 0);
	s->region = fake_make(OWN, 1, SEALED);
	s->publisher = conn_as(&s->a, stranger(0));
	admitted(&s->a, s->publisher, &s->region);
	s->instance = agent_tenant_instance(s->publisher->peer->tenant, OWN);
	assert_true(s->instance != OWN);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
	s->publisher->fd = ends[0];
	s->told = ends[1];
	s->collector = conn_up(&s->a);
	say(&s->a, s->collector, SL_MSG_SUBSCRIBE, "", 0, -1);
	close(hear(s->collector).fd);
}

static void down(struct scene *s)
{
	agent_verdict_board_fini(&s->a);
	agent_fini(&s->a);
	fake_free(&s->region);
	close(s->told);
}

static void later(struct scene *s)
{
	s->a.clock += 20 * MS;
	agent_timer_expire(&s->a, agent_now(&s->a));
}

/* Returns whether the publisher received a message, and the message. */
static bool told(struct scene *s, struct sl_msg_verdict *v)
{
	struct {
		struct sl_msg msg;
		struct sl_msg_verdict v;
	} p;
	ssize_t n = recv(s->told, &p, sizeof(p), MSG_TRUNC);

	if (n < 0)
		return false;
	assert_int_equal(n, sizeof(p));
	assert_int_equal(p.msg.magic, SL_MSG_MAGIC);
	assert_int_equal(p.msg.type, SL_MSG_VERDICT);
	assert_int_equal(p.msg.length, sizeof(p.v));
	*v = p.v;
	return true;
}

static void send_verdict(struct scene *s, struct sl_msg_verdict v)
{
	later(s);
	say(&s->a, s->collector, SL_MSG_VERDICT, &v, sizeof(v), -1);
}

static void a_verdict_reaches_its_publisher_unanswered(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {0};

	(void)state;
	up(&s);
	send_verdict(&s, VERDICT(.flags = SL_VERDICT_ANOMALOUS));
	assert_true(told(&s, &v));
	assert_int_equal(v.instance, OWN);
	assert_int_equal(v.flags, SL_VERDICT_ANOMALOUS);
	assert_int_equal(v.ttl_ns, 1000 * MS);
	assert_int_equal(v.time_ns, 99);
	assert_true(v.score == 2.5);
	assert_false(told(&s, &v));
	assert_int_equal(hear(s.collector).type, 0);
	assert_int_equal(s.a.n.verdicts, 1);
	down(&s);
}

static void only_an_admitted_consumer_may_say_it(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {0};
	struct agent_conn *c;

	(void)state;
	up(&s);
	v = VERDICT(.flags = 0);
	c = conn_up(&s.a); /* that has not subscribed */
	say(&s.a, c, SL_MSG_VERDICT, &v, sizeof(v), -1);
	assert_int_equal(hear(c).refused.error, EPROTO);
	assert_true(c->hang_up);

	c = conn_as(&s.a, stranger(1)); /* a publisher, about another */
	s.region.instance = OWN;
	struct fake other = fake_make(71, 1, SEALED);
	admitted(&s.a, c, &other);
	say(&s.a, c, SL_MSG_VERDICT, &v, sizeof(v), -1);
	assert_int_equal(hear(c).refused.error, EPROTO);
	fake_free(&other);

	c = conn_as(&s.a, stranger(2)); /* a peer that may not subscribe */
	say(&s.a, c, SL_MSG_SUBSCRIBE, "", 0, -1);
	assert_int_equal(hear(c).refused.error, EPERM);
	say(&s.a, c, SL_MSG_VERDICT, &v, sizeof(v), -1);
	assert_false(told(&s, &v));
	assert_int_equal(s.a.n.verdicts, 0);
	down(&s);
}

static void what_cannot_be_ends_the_connection(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {.instance = OWN};
	const struct sl_msg_verdict lies[] = {
		VERDICT(.flags = 2),
		VERDICT(.ttl_ns = 0),
		VERDICT(.score = -1),
		VERDICT(.ttl_ns = SL_VERDICT_TTL_MAX + 1),
		VERDICT(.score = __builtin_nan("")),
		VERDICT(.score = __builtin_inf()),
		VERDICT(.instance = 0),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		s = (struct scene){0};
		up(&s);
		send_verdict(&s, lies[i]);
		assert_int_equal(hear(s.collector).refused.error, EBADMSG);
		assert_true(s.collector->hang_up);
		assert_false(told(&s, &v));
		down(&s);
	}
}

static void what_cannot_be_handed_on_is_counted(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {0};
	uint64_t sent = 0;

	(void)state;
	up(&s);
	send_verdict(&s, VERDICT(.instance = OWN)); /* of no entry */
	assert_int_equal(s.a.n.verdicts_unknown, 1);

	send_verdict(&s, VERDICT(.flags = 0));
	say(&s.a, s.collector, SL_MSG_VERDICT, &VERDICT(.flags = 1), sizeof(v), -1); /* at once */
	assert_int_equal(s.a.n.verdicts_lost, 1);
	assert_true(told(&s, &v));
	assert_int_equal(v.flags, 0);
	assert_false(told(&s, &v));

	/* A publisher that reads nothing is not dropped, and nothing is queued for it. */
	while (s.a.n.verdicts_lost == 1 && sent++ < 100000)
		send_verdict(&s, VERDICT(.flags = 1));
	assert_int_equal(s.a.n.verdicts_lost, 2);
	assert_false(s.publisher->gone);
	assert_null(s.publisher->out);
	while (told(&s, &v))
		;
	send_verdict(&s, VERDICT(.flags = 0));
	assert_true(told(&s, &v));

	agent_conn_close(&s.a, s.publisher);
	later(&s);
	send_verdict(&s, VERDICT(.flags = 1));
	assert_int_equal(s.a.n.verdicts_unknown + s.a.n.verdicts_lost, 4);
	down(&s);
}

static void the_status_shows_it_until_it_expires(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {0};
	struct agent_region *r;

	(void)state;
	up(&s);
	r = agent_region_by_instance(&s.a, s.instance);
	assert_false(agent_verdict_combined(&s.a, r, &v));
	send_verdict(&s, VERDICT(.flags = 1));
	assert_true(agent_verdict_combined(&s.a, r, &v));
	assert_int_equal(v.flags, 1);
	s.a.clock += 999 * MS;
	assert_true(agent_verdict_combined(&s.a, r, &v));
	s.a.clock += 1 * MS;
	assert_false(agent_verdict_combined(&s.a, r, &v));
	down(&s);
}

/* Returns the message that the publisher receives after one more verdict. */
static struct sl_msg_verdict answer_to(struct scene *s, struct sl_msg_verdict said)
{
	struct sl_msg_verdict v = {.flags = 99};

	send_verdict(s, said);
	assert_true(told(s, &v));
	assert_int_equal(v.instance, OWN);
	assert_int_equal(v.reader, 0);
	assert_false(told(s, &v));
	return v;
}

static void a_pod_is_anomalous_while_any_reader_says_so(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {0};

	(void)state;
	up(&s);
	assert_int_equal(answer_to(&s, VERDICT(.reader = 7)).flags, 0);
	assert_int_equal(answer_to(&s, VERDICT(.reader = 8, .flags = 1, .score = 4)).flags, 1);
	/* The other one disagrees: the verdict of the first holds for as long as it is valid. */
	v = answer_to(&s, VERDICT(.reader = 7, .score = 0.5, .time_ns = 120));
	assert_int_equal(v.flags, 1);
	assert_true(v.score == 4);
	assert_int_equal(v.time_ns, 99);
	assert_int_equal(v.ttl_ns, 980 * MS);
	/* Both say so, then one, then none. */
	v = answer_to(&s, VERDICT(.reader = 7, .flags = 1, .score = 3, .ttl_ns = 300 * MS));
	assert_true(v.flags == 1 && v.score == 4 && v.ttl_ns == 960 * MS);
	v = answer_to(&s, VERDICT(.reader = 8));
	assert_true(v.flags == 1 && v.score == 3 && v.ttl_ns == 280 * MS);
	/* An expired verdict no longer counts. */
	s.a.clock += 280 * MS;
	v = answer_to(&s, VERDICT(.reader = 8, .score = 0.25));
	assert_true(v.flags == 0 && v.score == 0.25 && v.ttl_ns == 1000 * MS);
	down(&s);
}

static void verdicts_of_two_readers_at_once_both_count(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {0};

	(void)state;
	up(&s);
	send_verdict(&s, VERDICT(.reader = 7));
	v = VERDICT(.reader = 8, .flags = 1);
	say(&s.a, s.collector, SL_MSG_VERDICT, &v, sizeof(v), -1);
	assert_true(told(&s, &v) && told(&s, &v));
	assert_int_equal(v.flags, 1);
	assert_int_equal(s.a.n.verdicts_lost, 0);
	down(&s);
}

/* Readers choose their names, so a reader with many names gets no more messages through. */
static void many_names_take_no_more_than_their_places(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {0};

	(void)state;
	up(&s);
	later(&s);
	for (uint64_t i = 1; i <= 1000; i++) {
		v = VERDICT(.reader = i, .flags = 1);
		say(&s.a, s.collector, SL_MSG_VERDICT, &v, sizeof(v), -1);
	}
	assert_int_equal(s.a.n.verdicts, AGENT_VERDICT_READERS);
	assert_int_equal(s.a.n.verdicts_lost, 1000 - AGENT_VERDICT_READERS);
	while (told(&s, &v))
		;
	/* A new reader replaces the verdict that would expire first. */
	send_verdict(&s, VERDICT(.reader = 1, .flags = 1, .ttl_ns = 100 * MS));
	send_verdict(&s, VERDICT(.reader = 2000));
	send_verdict(&s, VERDICT(.reader = 1));
	for (uint64_t i = 2; i <= AGENT_VERDICT_READERS; i++)
		send_verdict(&s, VERDICT(.reader = i));
	while (told(&s, &v))
		;
	assert_int_equal(v.flags, 0);
	down(&s);
}

static void write_board(struct scene *s, uint32_t entry, struct sl_msg_verdict v)
{
	uint64_t *line = s->a.verdict_board + 8 * (size_t)entry;

	later(s);
	memcpy(line, &v, sizeof(v));
	line[7] = sl_line_check(line);
}

static void a_line_of_the_board_is_believed_only_if_it_holds(void **state)
{
	struct sl_msg_verdict v;
	struct scene s = {0};

	(void)state;
	up(&s);
	write_board(&s, 0, VERDICT(.flags = 1));
	agent_verdict_board_notice(&s.a, 0);
	assert_true(told(&s, &v));
	assert_int_equal(v.flags, 1);

	for (int i = 0; i < 64; i++) { /* any byte of it torn */
		write_board(&s, 0, VERDICT(.flags = 1));
		((uint8_t *)(s.a.verdict_board))[i] ^= 0x40;
		agent_verdict_board_notice(&s.a, 0);
	}
	assert_int_equal(s.a.n.verdicts_refused, 64);
	write_board(&s, 0, VERDICT(.score = __builtin_nan("")));
	agent_verdict_board_notice(&s.a, 0);
	agent_verdict_board_notice(&s.a, s.a.slot_count); /* outside of it */
	agent_verdict_board_notice(&s.a, UINT32_MAX);
	agent_verdict_board_notice(&s.a, 4); /* never written */
	assert_int_equal(s.a.n.verdicts_refused, 68);
	assert_false(told(&s, &v));
	/* A valid line, but about another pod's entry. */
	write_board(&s, 3, VERDICT(.flags = 1));
	agent_verdict_board_notice(&s.a, 3);
	assert_false(told(&s, &v));
	assert_int_equal(s.a.n.verdicts_unknown, 1);
	assert_int_equal(s.a.n.verdicts_refused, 68);
	down(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_verdict_reaches_its_publisher_unanswered),
		cmocka_unit_test(only_an_admitted_consumer_may_say_it),
		cmocka_unit_test(what_cannot_be_ends_the_connection),
		cmocka_unit_test(what_cannot_be_handed_on_is_counted),
		cmocka_unit_test(the_status_shows_it_until_it_expires),
		cmocka_unit_test(a_pod_is_anomalous_while_any_reader_says_so),
		cmocka_unit_test(verdicts_of_two_readers_at_once_both_count),
		cmocka_unit_test(many_names_take_no_more_than_their_places),
		cmocka_unit_test(a_line_of_the_board_is_believed_only_if_it_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
