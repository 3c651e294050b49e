// SPDX-License-Identifier: Apache-2.0
/*
 * test_control_tls.c - the control channel over TCP: with TLS, both sides prove knowledge of the
 * secret, no third party can read or change a message, and a collector that proves nothing learns
 * nothing.
 */
#include <netinet/in.h>

#include "support/test.h"
#include "base/text.h"
#include "owner_talk.h"
#include "dta/translate/client.h"

#define SECRET "sixteen bytes at least"

/* ---- two ends, and a third party between them ---- */

static struct dta_control_line *end[2]; /* client, server */
static int between[2];			/* data of each side that the third party holds */
static size_t relayed[2];		/* bytes relayed from each side */
static uint8_t seen[2][65536];

static void connect_ends(const char *client, const char *server)
{
	const char *const secret[2] = {client, server};

	memset(relayed, 0, sizeof(relayed));
	for (int i = 0; i < 2; i++) {
		int fd[2];

		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
		end[i] = dta_control_line_new(fd[0]);
		between[i] = fd[1];
		if (secret[i])
			assert_int_equal(
				dta_control_line_tls(end[i], secret[i], strlen(secret[i]), i), 0);
	}
}

static void free_ends(void)
{
	for (int i = 0; i < 2; i++) {
		dta_control_line_free(end[i]);
		close(between[i]);
	}
}

/* Relays up to this many bytes from one end, and changes the last one by `change`. */
static size_t relay(int from, size_t most, uint8_t change)
{
	uint8_t *at = seen[from] + relayed[from];
	ssize_t n;

	assert_true(relayed[from] + most <= sizeof(seen[from]));
	n = read(between[from], at, most);
	if (n <= 0)
		return 0;
	relayed[from] += (size_t)n;
	at[n - 1] ^= change;
	assert_int_equal(write(between[!from], at, (size_t)n), n);
	at[n - 1] ^= change;
	return (size_t)n;
}

/* Returns the number of the next message of an end, or -errno. */
static int64_t take_n(int at)
{
	int passed;
	json_t *j = dta_control_line_read(end[at], &passed);
	const int64_t n = j ? number(j, "n") : -errno;

	json_decref(j);
	return n;
}

/* Like take_n(), but tries again while there is no complete message: a part of a record is none. */
static int64_t take_some(int at)
{
	int64_t said = -EAGAIN;

	for (int i = 0; i < 100 && said == -EAGAIN; i++)
		said = take_n(at);
	return said;
}

/*
 * Relays until neither end has more data, or one fails. Returns the result of each end's last read.
 */
static void settle(size_t piece, int64_t said[2])
{
	for (int idle = 0; idle < 3; idle++) {
		for (int i = 0; i < 2; i++)
			said[i] = take_n(i);
		for (int i = 0; i < 2; i++)
			while (relay(i, piece, 0)) {
				idle = -1;
				if (said[!i] == -EAGAIN)
					said[!i] = take_n(!i);
			}
		if (said[0] != -EAGAIN || said[1] != -EAGAIN)
			return;
	}
}

static void shake(void)
{
	int64_t said[2];

	connect_ends(SECRET, SECRET);
	settle(4096, said);
	assert_true(dta_control_line_proved(end[0]) && dta_control_line_proved(end[1]));
}

static void say_n(int from, int n)
{
	assert_int_equal(dta_control_line_write(end[from], json_pack("{s:i}", "n", n), -1), 0);
}

#define KEY "00112233445566778899aabbccddeeff"

static void messages_come_whole_and_unreadable_to_others(void **state)
{
	static const char *const words[] = {"\"n\"", KEY, "tenant", SECRET};
	int64_t said[2];

	(void)state;
	for (size_t piece = 1; piece < 4096; piece = piece * 7 + 1) {
		connect_ends(SECRET, SECRET);
		say_n(0, 5); /* before the handshake: the message waits */
		settle(piece, said);
		assert_true(dta_control_line_proved(end[0]) && dta_control_line_proved(end[1]));
		assert_int_equal(dta_control_line_flush(end[0]), 0);
		settle(piece, said);
		assert_int_equal(said[1], 5);
		say_n(1, 7);
		settle(piece, said);
		assert_int_equal(said[0], 7);
		assert_int_equal(dta_control_line_write(end[1],
							json_pack("{s:i,s:s,s:s}", "n", 9, "type",
								  "tenant", "key", KEY),
							-1),
				 0);
		settle(piece, said);
		assert_int_equal(said[0], 9);
		for (int i = 0; i < 2; i++)
			for (size_t w = 0; w < sizeof(words) / sizeof(*words); w++)
				assert_null(
					memmem(seen[i], relayed[i], words[w], strlen(words[w])));
		free_ends();
	}
}

static void a_peer_with_another_secret_is_told_apart(void **state)
{
	int64_t said[2];

	(void)state;
	connect_ends("another secret, as long", SECRET);
	settle(4096, said);
	assert_int_equal(said[1], -EACCES);
	while (relay(1, 4096, 0))
		;
	assert_int_equal(take_n(0), -EACCES);
	assert_false(dta_control_line_proved(end[0]) || dta_control_line_proved(end[1]));
	free_ends();
}

static void tls_to_a_peer_without_is_said_in_plain(void **state)
{
	int64_t said[2];

	(void)state;
	for (int with = 0; with < 2; with++) {
		connect_ends(with ? NULL : SECRET, with ? SECRET : NULL);
		if (with)
			say_n(0, 1);
		settle(4096, said);
		assert_int_equal(said[1], -EPROTONOSUPPORT);
		say_n(1, 3);
		settle(4096, said);
		assert_int_equal(said[0], with ? 3 : -EPROTONOSUPPORT);
		free_ends();
	}
}

static void changed_or_repeated_bytes_end_it(void **state)
{
	size_t bytes;

	(void)state;
	shake();
	say_n(0, 1);
	bytes = relay(0, 4096, 0);
	assert_int_equal(take_n(1), 1);
	free_ends();
	for (size_t at = 1; at <= bytes; at++) {
		shake();
		say_n(0, 1);
		relay(0, at, 0x10);
		while (relay(0, 4096, 0))
			;
		assert_int_not_equal(take_n(1), 1);
		free_ends();
	}
	shake();
	say_n(0, 1);
	relay(0, 4096, 0);
	assert_int_equal(take_n(1), 1);
	assert_int_equal(write(between[1], seen[0] + relayed[0] - bytes, bytes), bytes);
	assert_int_equal(take_n(1), -EPROTO);
	free_ends();
}

static void an_end_is_told_from_a_cut(void **state)
{
	(void)state;
	for (int cut = 0; cut < 2; cut++) {
		shake();
		say_n(0, 1);
		if (cut)
			relay(0, 7, 0);
		else
			relay(0, 4096, 0);
		shutdown(between[1], SHUT_WR);
		assert_int_equal(take_some(1), cut ? -EPIPE : 1);
		assert_int_equal(take_n(1), -EPIPE);
		free_ends();
	}
}

/*
 * Garbage, a hello that claims 16 MiB, and records of all types: each ends the connection; none
 * makes it hang or grow.
 */
static void a_hostile_hello_is_refused(void **state)
{
	static const uint8_t huge[] = {22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff, 3, 3};
	static const LargestIntegralType ends[] = {EPROTO, EMSGSIZE};
	static uint8_t filler[32768];
	int64_t said = -EAGAIN;

	(void)state;
	for (int type = 0; type < 256; type++) {
		uint8_t record[] = {(uint8_t)type, 3, 3, 0, 2, 1, 0};

		if (type == '{')
			continue;
		connect_ends(NULL, SECRET);
		assert_int_equal(write(between[1], record, sizeof(record)), sizeof(record));
		assert_int_equal(write(between[1], filler, sizeof(filler)), sizeof(filler));
		assert_in_set(-take_some(1), ends, 2);
		free_ends();
	}
	connect_ends(NULL, SECRET);
	assert_int_equal(write(between[1], huge, sizeof(huge)), sizeof(huge));
	for (int i = 0; i < 2 && said == -EAGAIN; i++) {
		static const uint8_t more[] = {22, 3, 3, 0x40, 0};

		if (i)
			assert_int_equal(write(between[1], more, sizeof(more)), sizeof(more));
		assert_true(write(between[1], filler, 0x4000 - (i ? 0 : 6)) > 0);
		said = take_some(1);
	}
	assert_int_equal(said, -EMSGSIZE);
	free_ends();
}

/* ---- the store server, to a translator over TCP ---- */

static void the_store_server_admits_who_has_the_secret(void **state)
{
	char error[512], text[512];
	struct dta_store_server *o;

	(void)state;
	snprintf(text, sizeof(text), "listen: 127.0.0.1:0\nsecret: %s\nstores:\n%s\n",
		 write_file("secret", SECRET), FLOWS);
	o = own(text, error);
	if (!o)
		fail_msg("%s", error);
	for (int how = 0; how < 3; how++) {
		struct dta_control_line *l = connect_tcp(dta_store_server_address(o, 0));
		json_t *m;
		int fd;

		if (how < 2)
			assert_int_equal(dta_control_line_tls(l,
							      how ? "another secret, long" : SECRET,
							      how ? 20 : 22, false),
					 0);
		say(l, json_pack("{s:s,s:i,s:s,s:s,s:s}", "type", "hello", "version",
				 DTA_CONTROL_VERSION, "name", "t", "output", "raw", "called", "x"));
		for (int i = 0; i < 20000 && !how && !dta_control_line_proved(l); i++) {
			assert_null(dta_control_line_read(l, &fd));
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		}
		assert_int_equal(dta_control_line_flush(l), 0);
		m = next(l, &fd);
		if (how == 1) {
			assert_null(m);
			assert_int_equal(errno, EACCES);
		} else {
			assert_non_null(m);
			assert_string_equal(type_of(m), "error");
			/* An admitted client is told why it cannot be used here. */
			assert_non_null(strstr(json_string_value(json_object_get(m, "why")),
					       how ? "uses TLS" : "has no RDMA"));
		}
		json_decref(m);
		dta_control_line_free(l);
	}
	dta_store_server_free(o);
}

/* ---- the translator, to a collector over TCP ---- */

static struct {
	int listener, fd;
	struct dta_control_line *line;
	struct dta_client *client;
	struct dta_tenants *tenants;
	char at[64], file[128];
} it;

/* Returns true if packets of the tenant must carry a MAC. */
static bool needs_mac(uint16_t tenant)
{
	const struct dta_header h = {.tenant = tenant};
	uint32_t used;

	return dta_tenants_check(it.tenants, &h, NULL, 0, NULL, 0, &used) != DTA_FINE;
}

/* Returns true if packets of the tenant that are signed with KEY are accepted. */
static bool has_key(uint16_t tenant)
{
	const struct dta_header h = {.flags = DTA_AUTHENTICATED, .tenant = tenant, .reporter = 1};
	const struct dta_auth_here here = {0};
	uint8_t key[DTA_KEY_BYTES], packet[64] = {0};
	struct dta_key *k;
	uint32_t used;
	size_t bytes;
	bool accepted;

	assert_int_equal(base_unhex(key, KEY, sizeof(key)), 0);
	k = dta_key_new(key);
	bytes = dta_proof_put(k, 0, packet, DTA_HEADER_BYTES);
	accepted = dta_tenants_check(it.tenants, &h, packet, bytes, &here, 1, &used) == DTA_FINE;
	dta_key_free(k);
	return accepted;
}

static const char *theirs; /* the collector's secret */

static json_t *heard(int turns)
{
	for (int i = 0; i < turns; i++) {
		json_t *m;
		int passed;

		dta_client_drive(it.client, base_now_ns());
		if (!it.line) {
			const int fd = accept(it.listener, NULL, NULL);

			it.line = fd >= 0 ? dta_control_line_new(fd) : NULL;
			if (it.line && theirs)
				assert_int_equal(
					dta_control_line_tls(it.line, theirs, strlen(theirs), true),
					0);
		}
		m = it.line ? dta_control_line_read(it.line, &passed) : NULL;
		if (m)
			return m;
		if (it.line && errno != EAGAIN)
			return NULL;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return NULL;
}

static void start_client(const char *secret)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(a);
	char error[200];

	memset(&it, 0, sizeof(it));
	it.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(it.listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(it.listener, 4), 0);
	assert_int_equal(getsockname(it.listener, (struct sockaddr *)&a, &bytes), 0);
	snprintf(it.at, sizeof(it.at), "127.0.0.1:%u", ntohs(a.sin_port));
	snprintf(it.file, sizeof(it.file), "%s/frames", test_folder);
	it.tenants = dta_tenants_new(&(const char *){it.at}, 1, NULL);
	assert_non_null(it.tenants);
	it.client = dta_client_new(
		&(struct dta_client_opts){
			.collector = it.at,
			.name = "t",
			.output = DTA_CLIENT_RAW,
			.raw.file = it.file,
			.secret = secret,
			.secret_bytes = secret ? strlen(secret) : 0,
			.tenants = it.tenants,
		},
		error, sizeof(error));
	if (!it.client)
		fail_msg("%s", error);
}

static void stop_client(void)
{
	dta_client_free(it.client);
	dta_tenants_free(it.tenants);
	dta_control_line_free(it.line);
	close(it.listener);
}

/* Tenant 7 must use MACs, tenant 8 need not any more; both have a key. */
static void require_and_withdraw(void)
{
	say(it.line, json_pack("{s:s,s:i,s:i,s:i,s:i}", "type", "welcome", "version",
			       DTA_CONTROL_VERSION, "instance", 7, "lane", 0, "port", 0));
	for (int i = 0; i < 3; i++)
		say(it.line, json_pack("{s:s,s:i,s:[{s:s,s:i,s:i}],s:b}", "type", "tenant",
				       "tenant", i ? 8 : 7, "keys", "key", KEY, "reporter", 1,
				       "last", 1, "required", i < 2));
	say(it.line, json_pack("{s:s}", "type", "ready"));
}

static void keys_come_from_a_collector_that_proved_the_secret(void **state)
{
	/* The secrets of the collector; the last case is a translator without a secret. */
	static const char *const has[] = {SECRET, "another secret, as long", NULL, NULL};

	(void)state;
	for (int how = 0; how < 4; how++) {
		json_t *hello;

		theirs = has[how];
		start_client(how == 3 ? NULL : SECRET);
		hello = heard(20000);
		if (how == 1 || how == 2) {
			assert_null(hello);
			assert_int_equal(errno, how == 1 ? EACCES : EPROTONOSUPPORT);
			if (how == 2) /* it sends messages nevertheless */
				require_and_withdraw();
			for (int i = 0; i < 200; i++)
				dta_client_drive(it.client, base_now_ns());
		} else {
			assert_non_null(hello);
			assert_string_equal(type_of(hello), "hello");
			require_and_withdraw();
			for (int i = 0; i < 20000 && !dta_client_ready(it.client); i++)
				json_decref(heard(1));
		}
		/* Without --secret, a client may only ask for MACs. */
		assert_int_equal(dta_client_ready(it.client), how == 0 || how == 3);
		assert_int_equal(needs_mac(7), how == 0 || how == 3);
		assert_int_equal(needs_mac(8), how == 3);
		assert_int_equal(has_key(7), !how);
		json_decref(hello);
		stop_client();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_come_whole_and_unreadable_to_others),
		cmocka_unit_test(a_peer_with_another_secret_is_told_apart),
		cmocka_unit_test(tls_to_a_peer_without_is_said_in_plain),
		cmocka_unit_test(changed_or_repeated_bytes_end_it),
		cmocka_unit_test(an_end_is_told_from_a_cut),
		cmocka_unit_test(a_hostile_hello_is_refused),
		cmocka_unit_test(the_store_server_admits_who_has_the_secret),
		cmocka_unit_test(keys_come_from_a_collector_that_proved_the_secret),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests_name("control-tls", tests, folder_make, folder_remove);
}
