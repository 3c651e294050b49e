// SPDX-License-Identifier: Apache-2.0
/* Which provider takes a target, what --fabric means, and which peers count as one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/gate.h"
#include "fabric/lookup.h"

static void a_target_names_its_provider(void **state)
{
	static const struct {
		const char *target, *provider; /* NULL: none */
	} all[] = {
		{"/run/sidelight/agent.sock", "shm"},
		{"unix:/run/a", "shm"},
		{"unix:///run/a", "shm"},
		{"tcp://10.0.0.1", "tcp"},
		{"tcp://10.0.0.1:7475", "tcp"},
		{"tcp://[::1]:7475", "tcp"},
		{"tcp://name:1", "tcp"},
		{"efa://name", NULL},
		{"tcp://", NULL},
		{"tcp://:7475", NULL},
		{"tcp://a:0", NULL},
		{"tcp://a:65536", NULL},
		{"TCP://a", NULL},
		{"://a", NULL},
		{"averyveryverylongname://a", NULL},
		{"tcp:/a", NULL},
		{"a/b", NULL},
		{"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct fabric *f = fabric_open(all[i].target, NULL);
		bool right = all[i].provider ? f && !strcmp(fabric_name(f), all[i].provider)
					     : !f && errno == EINVAL && *fabric_error();

		if (!right)
			fail_msg("'%s': %s", all[i].target, f ? fabric_name(f) : fabric_error());
		fabric_close(f);
	}
	assert_true(fabric_is_far("tcp://a") && fabric_is_far("10.0.0.1"));
	assert_false(fabric_is_far("/a") || fabric_is_far("unix:///a") || fabric_is_far(""));
	assert_true(fabric_is_verbs("10.0.0.1:7475"));
	assert_false(fabric_is_verbs("tcp://10.0.0.1:7475"));
}

static void an_agent_listens_where_it_is_told(void **state)
{
	static const struct {
		const char *text, *address;
		uint16_t port;
	} good[] = {
		{"tcp:10.0.0.1:7475", "10.0.0.1", 7475},
		{"tcp::7475", "127.0.0.1", 7475},
		{"tcp:[::1]:0", "::1", 0},
	};
	static const char *const wrong[] = {
		"",	      "tcp",	":1",	   "tcp:1.2.3.4",     "tcp:1.2.3.4:65536",
		"tcp:[::1:1", "TCP::1", "tcp:::x", "tcp://1.2.3.4:1", "verbs:0.0.0.0:1",
	};
	char address[256];
	uint16_t port;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(fabric_host_parse(good[i].text, address, &port), 0);
		assert_string_equal(address, good[i].address);
		assert_int_equal(port, good[i].port);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (fabric_host_parse(wrong[i], address, &port) != -EINVAL)
			fail_msg("'%s' was taken: %s %u", wrong[i], address, port);
}

static void a_peer_is_counted_by_its_address(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} all[] = {
		{"10.0.0.1", "10.0.0.2", false},
		{"::ffff:10.0.0.1", "::ffff:10.0.0.2", false}, /* IPv4 peers of an IPv6 listener */
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"2001:db8::1", "2001:db8::2", true}, /* one /64 */
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1", "fe80::2", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct sockaddr_storage a, b;
		uint8_t x[16], y[16];

		assert_true(fabric_lookup_numeric(all[i].a, "1", &a) &&
			    fabric_lookup_numeric(all[i].b, "2", &b));
		fabric_gate_share_of((struct sockaddr *)&a, x);
		fabric_gate_share_of((struct sockaddr *)&b, y);
		if (!memcmp(x, y, sizeof(x)) != all[i].same)
			fail_msg("%s and %s", all[i].a, all[i].b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_target_names_its_provider),
		cmocka_unit_test(an_agent_listens_where_it_is_told),
		cmocka_unit_test(a_peer_is_counted_by_its_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
