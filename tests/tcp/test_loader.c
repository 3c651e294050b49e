// SPDX-License-Identifier: Apache-2.0
/*
 * test_loader.c - messages between the agent and the eBPF loader: each side refuses
 * invalid ones. Uses --wrap=malloc.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "source/tcp/loader.h"
#include "source/tcp/loader_message.h"

static bool no_memory;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return no_memory ? NULL : __real_malloc(bytes);
}

static const char *ports[] = {"80", "8000-8080"}, *cidrs[] = {"10.0.0.0/8"},
		  *cgroups[] = {"/a", ""};
static const struct tcp_filter all = {
	.ports = {ports, 2},
	.cidrs = {cidrs, 1},
	.cgroups = {cgroups, 2},
	.netns = "/proc/1/ns/net",
	.pid = 7,
	.sample = 3,
};

static void assert_strings(const struct base_strings *a, const struct base_strings *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++)
		assert_string_equal(a->v[i], b->v[i]);
}

static void a_filter_arrives_as_it_was(void **state)
{
	static char message[LOADER_FILTER];
	static struct tcp_message_filter got;
	const struct tcp_filter none = {0};
	uint32_t serial = 0;
	ssize_t n = tcp_message_filter_pack(&all, 9, message);

	(void)state;
	assert_true(n > 0);
	assert_int_equal(tcp_message_filter_unpack(message, (size_t)n, &got, &serial), 0);
	assert_int_equal(serial, 9);
	assert_strings(&got.filter.ports, &all.ports);
	assert_strings(&got.filter.cidrs, &all.cidrs);
	assert_strings(&got.filter.cgroups, &all.cgroups);
	assert_string_equal(got.filter.netns, all.netns);
	assert_int_equal(got.filter.pid, 7);
	assert_int_equal(got.filter.sample, 3);
	n = tcp_message_filter_pack(&none, 1, message);
	assert_int_equal(tcp_message_filter_unpack(message, (size_t)n, &got, &serial), 0);
	assert_null(got.filter.netns);
}

static void what_is_too_long_is_not_sent(void **state)
{
	static char message[LOADER_FILTER], longest[LOADER_FILTER];
	const char *many[LOADER_STRINGS + 1];
	struct tcp_filter f = {.ports = {many, LOADER_STRINGS + 1}};

	(void)state;
	for (size_t i = 0; i <= LOADER_STRINGS; i++)
		many[i] = "1";
	assert_int_equal(tcp_message_filter_pack(&f, 1, message), -E2BIG);
	f.ports.n--;
	assert_true(tcp_message_filter_pack(&f, 1, message) > 0);
	memset(longest, 'x', sizeof(longest) - 1);
	f.netns = longest;
	assert_int_equal(tcp_message_filter_pack(&f, 1, message), -E2BIG);
}

/* Unpacks from memory of exactly this size, so that a sanitizer detects reads beyond it. */
static int unpacked(const char *message, size_t n)
{
	static struct tcp_message_filter got;
	char *copy = malloc(n ? n : 1);
	uint32_t serial;
	int err;

	memcpy(copy, message, n);
	err = tcp_message_filter_unpack(copy, n, &got, &serial);
	for (size_t i = 0; !err && i < got.filter.ports.n; i++)
		assert_true(strlen(got.filter.ports.v[i]) < n);
	free(copy);
	return err;
}

static void what_is_no_filter_is_refused(void **state)
{
	static char message[LOADER_FILTER], other[LOADER_FILTER];
	size_t n = (size_t)tcp_message_filter_pack(&all, 9, message);

	(void)state;
	for (size_t i = 0; i < n; i++)
		assert_int_equal(unpacked(message, i), -EPROTO);
	assert_int_equal(unpacked(message, n + 1), -EPROTO);
	srand(1);
	for (int i = 0; i < 100000; i++) {
		memcpy(other, message, n);
		for (int k = 0; k < 3; k++)
			other[(size_t)rand() % n] = (char)rand();
		unpacked(other, n);
	}
}

static void more_descriptors_than_a_message_has_are_closed(void **state)
{
	int pair[2], fds[2 * LOADER_FDS], got[LOADER_FDS];
	size_t n;
	char byte = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	for (int i = 0; i < LOADER_FDS; i++)
		fds[i] = pair[0];
	assert_int_equal(tcp_message_send(pair[0], &byte, 1, fds, LOADER_FDS), 0);
	assert_int_equal(tcp_message_receive(pair[1], &byte, 1, 0, got, &n), 1);
	assert_int_equal(n, LOADER_FDS);
	while (n)
		close(got[--n]);
	/* A packet longer than the buffer is refused. */
	assert_int_equal(tcp_message_send(pair[0], "ab", 2, fds, 1), 0);
	assert_int_equal(tcp_message_receive(pair[1], &byte, 1, 0, got, &n), -EPROTO);
	assert_int_equal(n, 0);
	close(pair[0]);
	assert_int_equal(tcp_message_receive(pair[1], &byte, 1, 0, got, &n), 0);
	close(pair[1]);
}

static void a_lack_of_memory_is_reported(void **state)
{
	const struct tcp_loader_opts o = {0};
	struct tcp_loader *l;
	char why[64] = "";
	int err;

	(void)state;
	assert_int_equal(tcp_loader_fork(&o, &l), 0);
	no_memory = true;
	err = tcp_loader_filter(l, &all, why, sizeof(why));
	no_memory = false;
	assert_int_equal(err, -ENOMEM);
	assert_string_equal(why, "out of memory");
	tcp_loader_stop(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_filter_arrives_as_it_was),
		cmocka_unit_test(what_is_too_long_is_not_sent),
		cmocka_unit_test(what_is_no_filter_is_refused),
		cmocka_unit_test(more_descriptors_than_a_message_has_are_closed),
		cmocka_unit_test(a_lack_of_memory_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
