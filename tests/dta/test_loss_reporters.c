// SPDX-License-Identifier: Apache-2.0
/* test_loss_reporters.c - no address, tenant or incarnation takes the places of other reporters. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "loss_drive.h"

static void another_incarnation_begins_anew(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	struct dta_loss_key k = key_of(1);
	struct dta_header h = {.reports = 10, .incarnation = 100};

	(void)state;
	for (uint32_t i = 0; i < 10; i++, h.sequence += 20)
		assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 10);
	assert_int_equal(total(l).missing, 90);
	h.incarnation = 50; /* not authenticated: any other incarnation */
	h.sequence = 5;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 10);
	assert_int_equal(total(l).restarts, 1);
	assert_int_equal(total(l).lost, 90);
	assert_int_equal(total(l).missing, 5);
	h.incarnation = 100; /* a straggler */
	h.sequence = 190;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 0);
	assert_int_equal(total(l).late, 10);
	assert_int_equal(total(l).restarts, 1);
	dta_loss_free(l);
}

/*
 * Packets recorded by an attacker and sent again from elsewhere are never accepted, and no answers
 * go there.
 */
static uint32_t collided;

static void note_collision(void *arg, const struct dta_loss_key *key)
{
	(void)arg;
	(void)key;
	collided++;
}

/*
 * A packet of another incarnation: forged, duplicated, or from another host with the same address.
 */
static void another_incarnation_mutes_nobody_for_long(void **state)
{
	(void)state;
	for (uint32_t flags = 0; flags <= DTA_AUTHENTICATED; flags++) {
		struct dta_loss *l =
			dta_loss_new(&(struct dta_loss_opts){.collides = note_collision});
		struct dta_loss_key k = key_of(1);
		struct dta_header h = {.reports = 10, .incarnation = 100, .flags = (uint8_t)flags};
		struct dta_header other = {.reports = 10, .incarnation = 200, .flags = h.flags};
		uint64_t now = 0, late;

		collided = 0;
		for (; h.sequence < 100; h.sequence += 10)
			assert_int_equal(dta_loss_packet(l, &k, &h, 32, now, fresh), 10);
		assert_int_equal(dta_loss_packet(l, &k, &other, 32, now, fresh), 10);
		for (now = MS; now < 10000 * MS; now += 10 * MS, h.sequence += 10)
			assert_int_equal(dta_loss_packet(l, &k, &h, 32, now, fresh),
					 now < 1000 * MS ? 0 : 10);
		late = total(l).late;
		assert_true(late <= 1000);
		assert_int_equal(total(l).collisions, 1);
		assert_int_equal(collided, 1);
		/*
		 * Each of the two has its window: neither is accepted twice, and nothing else is
		 * missing.
		 */
		assert_int_equal(total(l).missing + total(l).lost, late);
		assert_int_equal(dta_loss_packet(l, &k, &other, 32, now, fresh), 0);
		h.sequence -= 10;
		assert_int_equal(dta_loss_packet(l, &k, &h, 32, now, fresh), 0);
		h.sequence += 10;
		/*
		 * The reporter has proven to be alive: a third incarnation does not mute it for
		 * another second.
		 */
		other.incarnation = 300;
		assert_int_equal(dta_loss_packet(l, &k, &other, 32, now, fresh), 10);
		assert_int_equal(dta_loss_packet(l, &k, &h, 32, now, fresh), 10);
		/* Many incarnations replace each other's windows, but not those of others. */
		for (other.incarnation = 1000; other.incarnation < 1100; other.incarnation++)
			assert_int_equal(dta_loss_packet(l, &k, &other, 32, now, fresh), 10);
		assert_int_equal(total(l).reporters, 1);
		assert_int_equal(total(l).forgotten, 3 + 100 - 4);
		dta_loss_free(l);
	}
}

/*
 * Five incarnations per second, forged at once or one by one, mute a reporter for a second, once.
 */
static void many_incarnations_mute_nobody_for_good(void **state)
{
	(void)state;
	for (uint64_t burst = 1; burst <= 5; burst += 4) {
		struct dta_loss *l = dta_loss_new(NULL);
		struct dta_loss_key k = key_of(1);
		struct dta_header h = {.reports = 10, .incarnation = 1};
		struct dta_header forged = {.reports = 1, .incarnation = 1000};
		uint64_t muted = 0;

		for (uint64_t now = 0; now < 10000 * MS; now += 100 * MS, h.sequence += 10) {
			muted += !dta_loss_packet(l, &k, &h, 32, now, fresh);
			if (now / MS % (200 * burst))
				continue;
			for (uint64_t i = 0; i < burst; i++, forged.incarnation++)
				assert_int_equal(
					dta_loss_packet(l, &k, &forged, 32, now + MS, fresh), 1);
		}
		assert_in_range(muted, 5, 10);
		assert_int_equal(total(l).collisions, 1);
		dta_loss_free(l);
	}
}

static void what_is_authenticated_is_taken_once(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	struct dta_loss_key k = key_of(1), elsewhere = key_of(1), to;
	struct dta_header h = {
		.reports = 10, .incarnation = 0xfffffff0, .flags = DTA_AUTHENTICATED};
	struct dta_answer a;

	(void)state;
	elsewhere.address.s6_addr[15] = 2;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 10);
	assert_int_equal(dta_loss_packet(l, &elsewhere, &h, 32, 0, fresh), 0);
	assert_int_equal(total(l).duplicates, 10);
	assert_int_equal(total(l).reporters, 1);
	h.incarnation = 5; /* later, and the numbers wrap */
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 10);
	h.incarnation = 0xfffffff0;
	h.sequence = 10;
	h.flags |= DTA_ACK_WANTED;
	assert_int_equal(dta_loss_packet(l, &elsewhere, &h, 32, 0, fresh), 0);
	assert_int_equal(total(l).late, 10);
	assert_false(dta_loss_answer(l, 0, &to, &a));
	h.incarnation = 5;
	h.sequence = 0;
	assert_int_equal(dta_loss_packet(l, &elsewhere, &h, 32, 0, fresh), 0);
	assert_true(dta_loss_answer(l, 0, &to, &a));
	assert_int_equal(to.address.s6_addr[15], 1);
	/* A reporter with the same number but without a MAC is another reporter. */
	h.flags = 0;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 10);
	assert_int_equal(total(l).reporters, 2);
	dta_loss_free(l);
}

/* Each stranger has an address of its own. */
static struct dta_loss_key stranger(uint32_t i)
{
	struct dta_loss_key k = key_of(i);

	memset(k.address.s6_addr + 10, 0xff, 2);
	memcpy(k.address.s6_addr + 12, &i, sizeof(i));
	return k;
}

static void unknown_reporters_are_bounded_and_counted(void **state)
{
	struct dta_loss_opts o = {.reporters = 100, .forget_ns = 1000};
	struct dta_loss *l = dta_loss_new(&o);
	struct dta_header h = {.reports = 3, .sequence = 2};
	uint32_t refused = 0;
	struct dta_loss_key k;

	(void)state;
	for (uint32_t i = 0; i < 10000; i++) {
		k = stranger(i);
		if (dta_loss_packet(l, &k, &h, 32, 10, fresh) == -ENOSPC)
			refused++;
	}
	assert_int_equal(refused, 9900);
	assert_int_equal(total(l).refused, 9900);
	assert_int_equal(total(l).reporters, 100);
	/*
	 * Reporter 0 is active again and is kept; reporter 1 has been silent for longest, and is
	 * evicted.
	 */
	k = stranger(0);
	h.sequence = 5;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 900, fresh), 3);
	k = stranger(20000);
	h.sequence = 0;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 1010, fresh), 3);
	assert_int_equal(total(l).forgotten, 1);
	assert_int_equal(total(l).reporters, 100);
	k = stranger(0);
	h.sequence = 5;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 1010, fresh), 0); /* known: a duplicate */
	/*
	 * A reporter that was forgotten with a gap: the gap is lost, and the totals do not change.
	 */
	assert_int_equal(total(l).lost, 2);
	assert_int_equal(total(l).expected, 100 * 5 + 3 + 3);
	dta_loss_free(l);
}

/* It is no longer the most silent one, and does not keep others' windows occupied. */
static void one_that_only_beats_pins_no_silent_ones(void **state)
{
	struct dta_loss *l =
		dta_loss_new(&(struct dta_loss_opts){.reporters = 100, .forget_ns = 1000});
	struct dta_header h = {.reports = 3};
	struct dta_loss_key k;

	(void)state;
	assert_non_null(l);
	for (uint32_t i = 0; i < 100; i++) {
		k = stranger(i);
		assert_int_equal(dta_loss_packet(l, &k, &h, 32, 10, fresh), 3);
	}
	k = stranger(0);
	h.sequence = 3;
	dta_loss_heartbeat(l, &k, &h, 900);
	k = stranger(100);
	h.sequence = 0;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 1010, fresh), 3);
	k = stranger(0);
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 1010, fresh), 0); /* known: a duplicate */
	dta_loss_free(l);
}

static uint32_t forgotten_of[2];

static bool knows(const struct dta_loss *l, uint16_t tenant, uint32_t reporter)
{
	const struct dta_loss_key k = {.tenant = tenant, .reporter = reporter};

	return dta_loss_knows(l, &k, true);
}

static void forgotten(void *arg, const struct dta_loss_key *key, bool authenticated)
{
	assert_ptr_equal(arg, forgotten_of);
	assert_in_range(key->tenant, 1, 2);
	assert_true(authenticated);
	forgotten_of[0]++;
	forgotten_of[1] = key->reporter;
}

/*
 * One address or tenant can use at most as many windows as it leaves free; none can use those of
 * the other table.
 */
static void no_address_and_no_tenant_takes_all_windows(void **state)
{
	struct dta_loss_opts o = {
		.reporters = 1000, .forget_ns = 1000, .forgotten = forgotten, .arg = forgotten_of};
	struct dta_loss *l = dta_loss_new(&o);
	uint32_t taken[2][3] = {0};

	(void)state;
	assert_non_null(l);
	for (int authenticated = 0; authenticated < 2; authenticated++)
		for (uint16_t i = 0; i < 3; i++)
			for (uint32_t n = 0; n < 2000; n++) {
				struct dta_header h = {
					.reports = 1,
					.flags = authenticated ? DTA_AUTHENTICATED : 0,
				};
				struct dta_loss_key k = key_of(n);

				k.tenant = (uint16_t)(authenticated ? 1 + i : 1);
				k.address.s6_addr[3] = (uint8_t)(authenticated ? n : i);
				taken[authenticated][i] += dta_loss_packet(l, &k, &h, 32, 10,
									   fresh) == 1;
			}
	for (int i = 0; i < 2; i++) {
		assert_in_range(taken[i][0], 400, 500);
		assert_in_range(taken[i][1], 200, taken[i][0]);
		assert_in_range(taken[i][2], 100, taken[i][1]);
	}
	assert_true(knows(l, 1, 5));
	assert_false(knows(l, 1, 1999));
	assert_int_equal(forgotten_of[0], 0);
	/* The most silent ones are evicted until its tenant has a share again. */
	assert_int_equal(
		dta_loss_packet(l, &(struct dta_loss_key){.tenant = 1, .reporter = 1999},
				&(struct dta_header){.reports = 1, .flags = DTA_AUTHENTICATED}, 32,
				1010, fresh),
		1);
	assert_in_range(forgotten_of[0], 1, 400);
	assert_false(knows(l, 1, forgotten_of[1]));
	assert_true(knows(l, 1, 1999));
	dta_loss_free(l);
}

/*
 * Fills the table with reporters of tenants 1 and 2, up to their shares; the first one of tenant 1
 * is the oldest.
 */
static struct dta_loss *full_table(const struct dta_loss_opts *o)
{
	struct dta_loss *l = dta_loss_new(o);

	assert_non_null(l);
	for (uint16_t tenant = 1; tenant <= 2; tenant++)
		for (uint32_t n = 0; n < 2 * o->reporters; n++)
			dta_loss_packet(
				l, &(struct dta_loss_key){.tenant = tenant, .reporter = n},
				&(struct dta_header){.reports = 1, .flags = DTA_AUTHENTICATED}, 32,
				tenant == 1 && !n ? 0 : 10, fresh);
	return l;
}

static int begin_again(struct dta_loss *l, uint16_t tenant, uint32_t bits, uint32_t incarnation,
		       uint64_t now)
{
	const struct dta_loss_key k = {.tenant = tenant};
	const struct dta_header h = {
		.reports = 1, .flags = DTA_AUTHENTICATED, .incarnation = incarnation};

	return dta_loss_packet(l, &k, &h, bits, now, fresh);
}

/* Its own window is evicted as the most silent of all, which is not sufficient. */
static void a_restart_without_a_share_is_refused(void **state)
{
	struct dta_loss *l =
		full_table(&(struct dta_loss_opts){.reporters = 1000, .forget_ns = 1000});

	(void)state;
	assert_int_equal(begin_again(l, 1, 32, 1, 1005), -ENOSPC);
	assert_false(knows(l, 1, 0));
	assert_int_equal(total(l).forgotten, 1);
	assert_int_equal(begin_again(l, 1, 32, 1, 1010), 1);
	dta_loss_free(l);
}

/* In each case, the number stays with its worker when its new window replaces the old one. */
static void a_number_that_restarts_is_not_forgotten(void **state)
{
	struct dta_loss_opts o = {.reporters = 1000, .forget_ns = 1000};
	struct dta_loss *l;

	(void)state;
	memset(forgotten_of, 0, sizeof(forgotten_of));
	o.forgotten = forgotten;
	o.arg = forgotten_of;
	l = full_table(&o);
	assert_int_equal(begin_again(l, 2, 32, 1, 500), 1); /* by its own share */
	assert_int_equal(begin_again(l, 2, 8, 1, 500), 1);  /* the numbers have another width */
	assert_int_equal(total(l).forgotten, 2);
	assert_int_equal(forgotten_of[0], 0);
	dta_loss_free(l);
	/* If each tenant's share is one reporter, the most silent one of all is forgotten. */
	o.reporters = 1;
	l = full_table(&o);
	assert_int_equal(begin_again(l, 1, 32, 1, 1000), 1);
	assert_int_equal(total(l).forgotten, 1);
	assert_int_equal(forgotten_of[0], 0);
	dta_loss_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_incarnation_begins_anew),
		cmocka_unit_test(another_incarnation_mutes_nobody_for_long),
		cmocka_unit_test(many_incarnations_mute_nobody_for_good),
		cmocka_unit_test(what_is_authenticated_is_taken_once),
		cmocka_unit_test(unknown_reporters_are_bounded_and_counted),
		cmocka_unit_test(one_that_only_beats_pins_no_silent_ones),
		cmocka_unit_test(no_address_and_no_tenant_takes_all_windows),
		cmocka_unit_test(a_restart_without_a_share_is_refused),
		cmocka_unit_test(a_number_that_restarts_is_not_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
