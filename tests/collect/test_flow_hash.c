// SPDX-License-Identifier: Apache-2.0
/*
 * test_flow_hash.c - an attacker who chooses ports cannot put his connections into the same bucket.
 */
#include "support/test.h"

#include "../../src/source/tcp/net_match.c"

#define FLOWS	3000u
#define BUCKETS 4096u
#define MOST	64u /* with 3,000 in 4,096 buckets, 8 may occur by chance */

/* The bucket by unseeded FNV-1a. */
static uint32_t known_bucket(const struct region_nic_record *r)
{
	uint64_t h = sl_fnv1a(SL_FNV_BASIS, r->source, 16);

	h = sl_fnv1a(h, r->destination, 16);
	h = sl_fnv1a(h, &r->source_port, 2);
	h = sl_fnv1a(h, &r->destination_port, 2);
	return (uint32_t)(h ^ h >> 32) % BUCKETS;
}

static void chosen_ports_share_no_bucket(void **state)
{
	struct tcp_net_match *m = tcp_net_match_open(&(struct tcp_net_match_opts){0});
	struct region_nic_record r = {.flags = SL_NIC_OUT, .source = {10}, .destination = {11}};
	uint32_t flows = 0, most = 0;

	(void)state;
	assert_non_null(m);
	for (uint32_t ports = 1; flows < FLOWS && ports; ports++) {
		r.source_port = (uint16_t)(ports >> 16);
		r.destination_port = (uint16_t)ports;
		if (known_bucket(&r) || !dir_of(m, 0, &r))
			continue;
		flows++;
	}
	assert_int_equal(flows, FLOWS);
	assert_int_equal(m->by_flow.buckets, BUCKETS);
	for (uint32_t i = 0; i < BUCKETS; i++) {
		uint32_t n = 0;

		for (const struct base_node *d = m->by_flow.bucket[i]; d; d = d->next)
			n++;
		most = BASE_MAX(most, n);
	}
	print_message("%u of %u in one bucket\n", most, flows);
	assert_in_range(most, 1, MOST);
	tcp_net_match_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(chosen_ports_share_no_bucket)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
