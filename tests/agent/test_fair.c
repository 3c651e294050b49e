// SPDX-License-Identifier: Apache-2.0
/* test_fair.c - the loop's time per tenant, and which regions make room for a new one. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include "fixture.h"

#define MANY 4096

/* Sends at most this many packets that the agent reads and ignores. Returns how many fit. */
static int flood(int sock, int most)
{
	const struct {
		struct sl_msg head;
		struct sl_msg_id id;
	} packet = {{SL_MSG_MAGIC, SL_MSG_CLOSE, 0, sizeof(struct sl_msg_id), 1}, {4711}};
	int n = 0;

	while (n < most && send(sock, &packet, sizeof(packet), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

static struct agent_conn *conn_by(struct agent *a, uid_t uid, int *sock)
{
	struct agent_peer *p = agent_peer_as(a, 1234, &(struct agent_tenant_id){.uid = uid});
	struct agent_conn *c;
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	c = agent_conn_new(a, pair[1], p, false);
	c->role = ROLE_PUBLISHER;
	*sock = pair[0];
	return c;
}

static uint64_t served(struct agent *a, struct agent_conn *c)
{
	uint64_t before = a->n.packets;

	agent_conn_event(a, c, EPOLLIN);
	return a->n.packets - before;
}

static void one_tenant_takes_no_more_than_its_turn(void **state)
{
	struct agent_conn *one[2], *other;
	int sock[3];
	struct agent a;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	for (int i = 0; i < 2; i++)
		one[i] = conn_by(&a, stranger(1), &sock[i]);
	other = conn_by(&a, stranger(2), &sock[2]);
	for (int i = 0; i < 3; i++)
		assert_true(flood(sock[i], MANY) > 40);
	a.turn++;
	assert_true(served(&a, one[0]) > 0);
	one[0]->peer->tenant->spent_ns = UINT32_MAX;
	/* None of its connections is served again until all others have been. */
	assert_int_equal(served(&a, one[0]), 0);
	assert_int_equal(served(&a, one[1]), 0);
	assert_true(served(&a, other) > 0);
	/* But a collector of the same user does not wait for any of them. */
	one[1]->role = ROLE_CONSUMER;
	agent_conn_event(&a, one[1], EPOLLIN);
	assert_true(one[1]->gone); /* a consumer may not send CLOSE: the message was read */
	a.turn++;
	assert_true(served(&a, one[0]) > 0);
	assert_true(one[0]->peer->tenant->spent_ns < UINT32_MAX);
	agent_fini(&a);
	for (int i = 0; i < 3; i++)
		close(sock[i]);
}

/* Pretends that other connections have used all of the tenant's time in this turn. */
static void use_up_time(struct agent *a, struct agent_tenant *t)
{
	t->turn = a->turn;
	t->spent_ns = UINT32_MAX;
}

static void a_dead_process_takes_no_more_than_its_turn(void **state)
{
	struct agent_conn *c;
	struct agent_peer *p;
	int sock, sent;
	struct agent a;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	c = conn_by(&a, stranger(1), &sock);
	p = c->peer;
	sent = flood(sock, MANY);
	assert_true(sent > 40);
	use_up_time(&a, p->tenant);
	agent_peer_event(&a, p);
	assert_int_equal(a.n.packets, 0);
	assert_false(c->gone);
	/* The time that is left is enough for one packet. */
	p->tenant->spent_ns = 1000000 - 1;
	agent_peer_event(&a, p);
	assert_int_equal(a.n.packets, 1);
	assert_false(c->gone);
	/* All of its packets are read, as they may include a CLOSE. */
	for (int turn = 0; turn <= sent && !c->gone; turn++) {
		a.turn++;
		agent_peer_event(&a, p);
	}
	assert_true(c->gone);
	assert_int_equal(a.n.packets, sent);
	agent_fini(&a);
	close(sock);
}

/* The packets of a connection that has hung up are read before its regions are attached again. */
static void attaching_again_takes_no_more_than_a_turn(void **state)
{
	struct fake f = fake_make(40, 1, SEALED);
	struct agent_conn *old, *again;
	struct heard h;
	struct agent a;
	int sock;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	old = conn_by(&a, stranger(1), &sock);
	publish(&a, old, &f); /* the answer is in the socket */
	assert_ptr_equal(a.slots[0]->conn, old);
	assert_int_equal(flood(sock, 3), 3);
	close(sock);
	again = conn_as(&a, stranger(1));
	use_up_time(&a, again->peer->tenant);
	refused(&a, again, &f, EAGAIN, REFUSED_INSTANCE);
	assert_false(old->gone);
	do {
		a.turn++;
		h = publish(&a, again, &f);
	} while (h.type == SL_MSG_REFUSED && h.refused.error == EAGAIN);
	assert_int_equal(h.type, SL_MSG_ADMITTED);
	assert_true(old->gone);
	assert_int_equal(a.n.reattached, 1);
	agent_fini(&a);
	fake_free(&f);
}

/* Deaths and removals of one tenant's regions wait, and those of another do not. */
static void one_tenants_ends_delay_no_other(void **state)
{
	struct agent_conn *one, *other;
	struct fake f[3];
	struct agent a;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	one = conn_as(&a, stranger(1));
	other = conn_as(&a, stranger(2));
	for (int i = 0; i < 3; i++) {
		f[i] = fake_make(40 + (uint64_t)i, 1, SEALED);
		admitted(&a, i < 2 ? one : other, &f[i]);
	}
	pass(&a, MS);
	one->peer->tenant->end_turn = a.end_turn;
	one->peer->tenant->end_ns = UINT32_MAX; /* pretend that it has repaired much memory */
	agent_conn_close(&a, one);
	agent_conn_close(&a, other);
	assert_int_equal(a.state_count[SL_STATE_LIVE], 2);
	assert_int_equal(a.state_count[SL_STATE_DEAD], 1);
	assert_int_equal(a.n.ends_held, 2);
	pass(&a, 51 * MS);
	assert_int_equal(a.state_count[SL_STATE_DEAD], 3);
	agent_fini(&a);
	for (int i = 0; i < 3; i++)
		fake_free(&f[i]);
}

/* The process outlives its connection, and then ends when its tenant's time is used up. */
static void a_late_end_is_repaired_in_a_later_turn(void **state)
{
	struct fake f = fake_make(40, 2, SEALED);
	uint64_t *line = fake_line(&f, 8192 + 4096 + 64);
	struct agent_conn *c;
	struct agent_peer *p;
	struct agent a;

	(void)state;
	fake_hot(&f, 3, 2);
	line[2] = 41; /* but the line's check word was never stored */
	agent_up(&a, (struct agent_opts){0});
	c = conn_as(&a, stranger(1));
	p = c->peer;
	p->known = true; /* and not dead */
	admitted(&a, c, &f);
	agent_conn_close(&a, c);
	pass(&a, 51 * MS);
	assert_int_equal(a.slots[0]->state, SL_STATE_DEAD);
	p->dead = true;
	p->tenant->end_turn = a.end_turn;
	p->tenant->end_ns = UINT32_MAX;
	agent_peer_event(&a, p);
	assert_int_equal(a.n.ends_held, 1);
	assert_int_equal(a.n.lines_repaired, 0);
	pass(&a, 51 * MS);
	assert_int_equal(a.n.lines_repaired, 1);
	assert_int_equal(line[7], sl_line_check(line));
	/* From then on, the last values stay for the grace period. */
	pass(&a, 999 * MS);
	assert_int_equal(a.slots[0]->state, SL_STATE_DEAD);
	pass(&a, 2 * MS);
	assert_int_equal(a.slots[0]->state, SL_STATE_RETIRED);
	agent_fini(&a);
	fake_free(&f);
}

/* A due timer of a tenant that has used up its turn waits, but the timers behind it do not. */
static void one_tenants_timers_delay_no_other(void **state)
{
	struct agent_region *r[2];
	struct fake f[2];
	struct agent a;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	for (int i = 0; i < 2; i++) {
		struct agent_conn *c = conn_as(&a, stranger(1 + (unsigned int)i));

		f[i] = fake_make(40 + (uint64_t)i, 1, SEALED);
		r[i] = agent_region_by_id(&a, admitted(&a, c, &f[i]));
		agent_conn_close(&a, c);
	}
	a.clock = r[1]->timer.due;
	r[0]->peer->tenant->end_turn = a.end_turn + 1;
	r[0]->peer->tenant->end_ns = UINT32_MAX;
	agent_timer_expire(&a, agent_now(&a));
	assert_int_equal(r[0]->state, SL_STATE_DEAD);
	assert_int_equal(r[1]->state, SL_STATE_RETIRED);
	assert_true(agent_timer_next_due(&a) <= agent_now(&a)); /* its turn comes at once */
	agent_timer_expire(&a, agent_now(&a));
	assert_int_equal(r[0]->state, SL_STATE_RETIRED);
	agent_fini(&a);
	for (int i = 0; i < 2; i++)
		fake_free(&f[i]);
}

static void who_is_refused_costs_others_no_last_values(void **state)
{
	struct fake f[8];
	struct agent a;
	struct agent_conn *c;
	int i;

	(void)state;
	for (i = 0; i < 8; i++)
		f[i] = fake_make(120 + (uint64_t)i, 1, SEALED);
	agent_up(&a, (struct agent_opts){.max_regions = 4, .max_memory = f[0].size * 640});
	/* Others' regions fill it, and two of them are in grace. */
	for (i = 0; i < 2; i++)
		admitted(&a, conn_up(&a), &f[i]);
	admitted(&a, conn_as(&a, stranger(1)), &f[2]);
	c = conn_up(&a);
	admitted(&a, c, &f[3]);
	agent_conn_close(&a, c);
	/* A tenant that has regions gets only the room reserved for it. */
	refused(&a, conn_as(&a, stranger(1)), &f[4], ENOSPC, REFUSED_REGIONS);
	assert_int_equal(a.n.evicted, 0);
	/*
	 * For a tenant without regions, one region of the tenant that has most is evicted, and no
	 * other until its room is free.
	 */
	for (i = 0; i < 3; i++)
		refused(&a, conn_as(&a, stranger(2)), &f[5], ENOSPC, REFUSED_REGIONS);
	assert_int_equal(a.n.evicted, 1);
	pass(&a, 201 * MS);
	c = conn_as(&a, stranger(2));
	admitted(&a, c, &f[5]);
	agent_conn_close(&a, c);
	refused(&a, conn_as(&a, stranger(2)), &f[6], ENOSPC, REFUSED_REGIONS);
	assert_int_equal(a.n.evicted, 2); /* its own */
	agent_fini(&a);
	for (i = 0; i < 8; i++)
		fake_free(&f[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_tenant_takes_no_more_than_its_turn),
		cmocka_unit_test(a_dead_process_takes_no_more_than_its_turn),
		cmocka_unit_test(attaching_again_takes_no_more_than_a_turn),
		cmocka_unit_test(one_tenants_ends_delay_no_other),
		cmocka_unit_test(a_late_end_is_repaired_in_a_later_turn),
		cmocka_unit_test(one_tenants_timers_delay_no_other),
		cmocka_unit_test(who_is_refused_costs_others_no_last_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
