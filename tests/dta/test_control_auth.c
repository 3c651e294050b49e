// SPDX-License-Identifier: Apache-2.0
/*
 * test_control_auth.c - the control channel over TCP: both sides prove the secret, no third party
 * reads or changes what follows, and a collector that proves nothing is told nothing.
 */
#include <netinet/in.h>

#include "support/test.h"
#include "owner_talk.h"
#include "base/text.h"
#include "dta/translate/client.h"
#include "dta/translate/control_auth.h"

#define SECRET "sixteen bytes at least"

/* ---- seals ---- */

static struct dta_control_line *end[2];
static const uint8_t keys[2][32] = {{1}, {2}};

static void connect_sealed(void)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	for (int i = 0; i < 2; i++) {
		end[i] = dta_control_line_new(fd[i]);
		assert_int_equal(dta_control_line_seal(end[i], keys[i], keys[!i]), 0);
	}
}

static void free_both(void)
{
	dta_control_line_free(end[0]);
	dta_control_line_free(end[1]);
}

/* Writes a message and returns its bytes on the wire. */
static size_t sealed(int n, uint8_t *to, size_t room)
{
	ssize_t bytes;

	assert_int_equal(dta_control_line_write(end[0], json_pack("{s:i}", "n", n), -1), 0);
	bytes = read(dta_control_line_fd(end[1]), to, room);
	assert_true(bytes > 20);
	return (size_t)bytes;
}

static void put_bytes(const uint8_t *p, size_t bytes)
{
	assert_int_equal(write(dta_control_line_fd(end[0]), p, bytes), bytes);
}

static int64_t take_n(void)
{
	int passed;
	json_t *j = dta_control_line_read(end[1], &passed);
	const int64_t n = j ? number(j, "n") : -errno;

	json_decref(j);
	return n;
}

static void sealed_messages_come_whole_and_in_order(void **state)
{
	uint8_t p[2][256];
	size_t bytes[2];

	(void)state;
	connect_sealed();
	for (int i = 0; i < 2; i++)
		bytes[i] = sealed(i, p[i], sizeof(p[i]));
	assert_null(memmem(p[0], bytes[0], "\"n\"", 3));
	assert_memory_not_equal(p[0], p[1], bytes[0]);
	for (int i = 0; i < 2; i++) {
		for (size_t at = 0; at < bytes[i]; at++) {
			assert_int_equal(take_n(), -EAGAIN);
			put_bytes(p[i] + at, 1);
		}
		assert_int_equal(take_n(), i);
	}
	assert_int_equal(take_n(), -EAGAIN);
	/* The other direction has a key of its own. */
	assert_int_equal(dta_control_line_write(end[1], json_pack("{s:i}", "n", 7), -1), 0);
	json_decref(next(end[0], &(int){0}));
	free_both();
}

static void changed_left_out_or_repeated_messages_end_it(void **state)
{
	uint8_t p[2][256];
	size_t bytes[2];

	(void)state;
	for (size_t bit = 0; bit < 8 * 27; bit++) {
		connect_sealed();
		bytes[0] = sealed(5, p[0], sizeof(p[0]));
		assert_int_equal(bytes[0], 27); /* 4, {"n":5}, 16 */
		p[0][bit / 8] ^= (uint8_t)(1 << bit % 8);
		put_bytes(p[0], bytes[0]);
		assert_int_not_equal(take_n(), 5);
		free_both();
	}
	for (int how = 0; how < 3; how++) {
		connect_sealed();
		for (int i = 0; i < 2; i++)
			bytes[i] = sealed(i, p[i], sizeof(p[i]));
		if (how) {
			put_bytes(p[0], bytes[0]);
			assert_int_equal(take_n(), 0);
		}
		if (how == 1) /* again */
			put_bytes(p[0], bytes[0]);
		else if (!how) /* the second without the first */
			put_bytes(p[1], bytes[1]);
		if (how == 2) { /* with the key of the other direction */
			assert_int_equal(dta_control_line_seal(end[0], keys[1], keys[0]), 0);
			assert_int_equal(
				dta_control_line_write(end[0], json_pack("{s:i}", "n", 1), -1), 0);
		}
		assert_int_equal(take_n(), -EBADMSG);
		free_both();
	}
}

/* ---- proofs ---- */

static const struct dta_control_said plain = {"t", "raw", "host:1", "aa", "bb"};

static void a_proof_serves_one_connection_side_and_name(void **state)
{
	const struct dta_control_said others[] = {
		{"u", "raw", "host:1", "aa", "bb"}, {"t", "shm", "host:1", "aa", "bb"},
		{"t", "raw", "host:2", "aa", "bb"}, {"t", "raw", "host:1", "ab", "bb"},
		{"t", "raw", "host:1", "aa", "bc"}, {"t", "raw", "host:1a", "a", "bb"},
		{"t", "raw", "host:1", "bb", "aa"},
	};
	uint8_t mac[32];
	char hex[65];

	(void)state;
	dta_control_derive(SECRET, 22, DTA_COLLECTOR_PROOF, &plain, mac);
	base_hex(hex, mac, sizeof(mac));
	assert_true(dta_control_proved(SECRET, 22, DTA_COLLECTOR_PROOF, &plain, hex));
	assert_false(dta_control_proved(SECRET, 21, DTA_COLLECTOR_PROOF, &plain, hex));
	for (int value = DTA_TRANSLATOR_PROOF; value <= DTA_TRANSLATOR_SEAL; value++)
		assert_false(
			dta_control_proved(SECRET, 22, (enum dta_control_value)value, &plain, hex));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(dta_control_proved(SECRET, 22, DTA_COLLECTOR_PROOF, &others[i], hex));
	hex[63] ^= 1;
	assert_false(dta_control_proved(SECRET, 22, DTA_COLLECTOR_PROOF, &plain, hex));
	assert_false(dta_control_proved(SECRET, 22, DTA_COLLECTOR_PROOF, &plain, ""));
}

/* ---- the store server, to a translator over TCP ---- */

static struct dta_control_line *connect_tcp(const char *address)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return dta_control_line_new(fd);
}

/* Says hello and returns the challenge. */
static json_t *challenge_of(struct dta_control_line *l, const struct dta_control_said *said)
{
	int fd;
	json_t *m;

	say(l, json_pack("{s:s,s:i,s:s,s:s,s:s,s:s}", "type", "hello", "version",
			 DTA_CONTROL_VERSION, "name", said->name, "output", said->output, "nonce",
			 said->nonce, "called", said->called));
	m = next(l, &fd);
	assert_non_null(m);
	assert_string_equal(type_of(m), "challenge");
	return m;
}

static void prove(struct dta_control_line *l, enum dta_control_value value,
		  const struct dta_control_said *said)
{
	uint8_t mac[32];
	char hex[65];

	dta_control_derive(SECRET, 22, value, said, mac);
	base_hex(hex, mac, sizeof(mac));
	say(l, json_pack("{s:s,s:s}", "type", "proof", "mac", hex));
}

static void the_store_server_proves_first_and_seals(void **state)
{
	char error[512], text[512];
	struct dta_store_server *o;

	(void)state;
	snprintf(text, sizeof(text), "listen: 127.0.0.1:0\nsecret: %s\nstores:\n%s\n",
		 write_file("secret", SECRET), FLOWS);
	o = own(text, error);
	if (!o)
		fail_msg("%s", error);
	for (int how = 0; how < 4; how++) {
		struct dta_control_line *l = connect_tcp(dta_store_server_address(o, 0));
		struct dta_control_said said = plain;
		json_t *challenge = challenge_of(l, &said), *m;
		uint8_t seals[2][32];
		int fd;

		said.challenge = json_string_value(json_object_get(challenge, "nonce"));
		assert_true(
			dta_control_proved(SECRET, 22, DTA_COLLECTOR_PROOF, &said,
					   json_string_value(json_object_get(challenge, "mac"))));
		if (how == 1) /* says its proof back */
			say(l, json_pack("{s:s,s:O}", "type", "proof", "mac",
					 json_object_get(challenge, "mac")));
		else if (how == 2)
			prove(l, DTA_COLLECTOR_PROOF, &said);
		else if (how == 3)
			say(l, json_pack("{s:s,s:s}", "type", "rotated", "mac", ""));
		else
			prove(l, DTA_TRANSLATOR_PROOF, &said);
		for (int i = 0; i < 2 && !how; i++)
			dta_control_derive(SECRET, 22, i ? DTA_COLLECTOR_SEAL : DTA_TRANSLATOR_SEAL,
					   &said, seals[i]);
		if (!how)
			assert_int_equal(dta_control_line_seal(l, seals[0], seals[1]), 0);
		m = next(l, &fd);
		assert_non_null(m);
		assert_string_equal(type_of(m), "error");
		/* Who is let in is told why it is of no use here. */
		assert_true(!how ==
			    !!strstr(json_string_value(json_object_get(m, "why")), "has no RDMA"));
		json_decref(m);
		json_decref(challenge);
		dta_control_line_free(l);
	}
	dta_store_server_free(o);
}

/* ---- the translator, to a collector over TCP ---- */

static struct {
	int listener, fd;
	struct dta_control_line *line;
	struct dta_client *client;
	int tenants, keys;
	char at[64], file[128];
} it;

static void on_tenant(void *arg, uint16_t tenant, bool required)
{
	(void)arg, (void)tenant;
	it.tenants += required ? 100 : 1;
}

static void on_key(void *arg, uint16_t tenant, int64_t reporter, const uint8_t *key, size_t bytes)
{
	(void)arg, (void)tenant, (void)reporter, (void)key, (void)bytes;
	it.keys++;
}

static json_t *heard(int turns)
{
	for (int i = 0; i < turns; i++) {
		json_t *m;
		int passed;

		dta_client_drive(it.client, base_now_ns());
		if (!it.line) {
			const int fd = accept(it.listener, NULL, NULL);

			it.line = fd >= 0 ? dta_control_line_new(fd) : NULL;
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
	it.client = dta_client_new(
		&(struct dta_client_opts){
			.collector = it.at,
			.name = "t",
			.output = DTA_CLIENT_RAW,
			.raw.file = it.file,
			.secret = secret,
			.secret_bytes = secret ? strlen(secret) : 0,
			.tenant = on_tenant,
			.key = on_key,
		},
		error, sizeof(error));
	if (!it.client)
		fail_msg("%s", error);
}

static void stop_client(void)
{
	dta_client_free(it.client);
	dta_control_line_free(it.line);
	close(it.listener);
}

static void withdraw_and_require(void)
{
	say(it.line, json_pack("{s:s,s:i,s:i,s:i,s:i}", "type", "welcome", "version",
			       DTA_CONTROL_VERSION, "instance", 7, "lane", 0, "port", 0));
	for (int required = 0; required < 2; required++)
		say(it.line, json_pack("{s:s,s:i,s:[{s:i,s:n}],s:b}", "type", "tenant", "tenant", 7,
				       "keys", "reporter", -1, "key", "required", required));
	say(it.line, json_pack("{s:s}", "type", "ready"));
}

static void keys_come_from_a_collector_that_proved_the_secret(void **state)
{
	(void)state;
	for (int how = 0; how < 4; how++) {
		struct dta_control_said said = {.name = "t", .output = "raw", .called = it.at};
		json_t *hello, *proof;
		uint8_t mac[32], seals[2][32];
		char hex[65], nonce[65];

		start_client(how == 3 ? NULL : SECRET);
		hello = heard(20000);
		assert_non_null(hello);
		assert_string_equal(type_of(hello), "hello");
		said.nonce = json_string_value(json_object_get(hello, "nonce"));
		assert_int_equal(strlen(said.nonce), 64);
		assert_true(dta_control_nonce(nonce));
		said.challenge = nonce;
		dta_control_derive(how == 1 ? "another secret that is long" : SECRET, 22,
				   DTA_COLLECTOR_PROOF, &said, mac);
		base_hex(hex, mac, sizeof(mac));
		if (how < 2)
			say(it.line, json_pack("{s:s,s:s,s:s}", "type", "challenge", "nonce", nonce,
					       "mac", hex));
		if (how) { /* one that has no secret, or says nothing of one */
			withdraw_and_require();
			proof = heard(200);
			assert_null(proof);
			/* Without --secret it may ask for MACs; nothing else. */
			assert_int_equal(it.tenants, how == 3 ? 100 : 0);
			assert_int_equal(it.keys, 0);
			assert_int_equal(dta_client_ready(it.client), how == 3);
		} else {
			proof = heard(20000);
			assert_non_null(proof);
			assert_true(dta_control_proved(
				SECRET, 22, DTA_TRANSLATOR_PROOF, &said,
				json_string_value(json_object_get(proof, "mac"))));
			for (int i = 0; i < 2; i++)
				dta_control_derive(SECRET, 22,
						   i ? DTA_TRANSLATOR_SEAL : DTA_COLLECTOR_SEAL,
						   &said, seals[i]);
			assert_int_equal(dta_control_line_seal(it.line, seals[0], seals[1]), 0);
			withdraw_and_require();
			for (int i = 0; i < 20000 && !dta_client_ready(it.client); i++)
				json_decref(heard(1));
			assert_true(dta_client_ready(it.client));
			assert_int_equal(it.tenants, 101);
			assert_int_equal(it.keys, 2);
		}
		json_decref(hello);
		json_decref(proof);
		stop_client();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sealed_messages_come_whole_and_in_order),
		cmocka_unit_test(changed_left_out_or_repeated_messages_end_it),
		cmocka_unit_test(a_proof_serves_one_connection_side_and_name),
		cmocka_unit_test(the_store_server_proves_first_and_seals),
		cmocka_unit_test(keys_come_from_a_collector_that_proved_the_secret),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests_name("control-auth", tests, folder_make, folder_remove);
}
