// SPDX-License-Identifier: Apache-2.0
/* test_refusal.c - the reason for a verifier's refusal is found in the messages of libbpf. */

#include "support/test.h"
#include "source/tcp/util.h"

#define HEAD "libbpf: prog 'on_packet': -- BEGIN PROG LOAD LOG --\n"
#define TAIL "-- END PROG LOAD LOG --\n"

static const struct {
	const char *said, *reason;
} messages[] = {
	{HEAD "0: (79) r6 = *(u64 *)(r1 +0)\nR1 invalid mem access 'scalar'\n"
	      "processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0\n" TAIL,
	 "on_packet: R1 invalid mem access 'scalar'"},
	/* Truncated, or without a summary. */
	{HEAD "unknown func bpf_loop#181", "on_packet: unknown func bpf_loop#181"},
	{HEAD "R2 is bad\n\n" TAIL "prog: more", "on_packet: R2 is bad"},
	{HEAD TAIL, ""},
	{HEAD "processed 1 insns\n" TAIL, ""},
	{HEAD, ""},
	{"libbpf: prog 'on_packet': BPF program load failed: Permission denied\n", ""},
	{"libbpf: map 'flows': failed to create\n", ""},
	{"libbpf: prog '-- BEGIN PROG LOAD LOG --\nx", "-- BEGIN PROG LOAD LOG --\nx: x"},
	{"prog '-- BEGIN PROG LOAD LOG --\nx'", ""},
	{"", ""},
};

static void the_last_line_is_the_reason(void **state)
{
	char out[64], small[12];

	(void)state;
	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		tcp_verifier_refusal(messages[i].said, out, sizeof(out));
		assert_string_equal(out, messages[i].reason);
	}
	tcp_verifier_refusal(messages[0].said, small, sizeof(small));
	assert_string_equal(small, "on_packet: ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_line_is_the_reason)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
