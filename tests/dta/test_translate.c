// SPDX-License-Identifier: Apache-2.0
/*
 * test_translate.c - parts of the translator that need no process: capture files, AF_XDP frames,
 * the ring of collectors, and counters.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"
#include "support/folder.h"
#include "base/base.h"
#include "dta/translate/control.h"
#include "dta/translate/hash_ring.h"
#include "dta/translate/internal.h"
#include "dta/io/input.h"
#include "dta/io/xdp.h"
#include "fabric/lookup.h"

/* ---- captured files ---- */

struct file {
	uint8_t data[8192];
	size_t bytes;
};

static void put(struct file *f, const void *data, size_t bytes)
{
	assert_true(f->bytes + bytes <= sizeof(f->data));
	if (bytes)
		memcpy(f->data + f->bytes, data, bytes);
	f->bytes += bytes;
}

static void head(struct file *f, bool swapped, uint32_t link)
{
	const uint32_t h[6] = {0xa1b2c3d4, 0x00040002, 0, 0, 65535, link};

	f->bytes = 0;
	for (int i = 0; i < 6; i++) {
		const uint32_t v = !swapped ? h[i] : i == 1 ? 0x04000200 : __builtin_bswap32(h[i]);

		put(f, &v, 4);
	}
}

static void packet(struct file *f, bool swapped, const uint8_t *data, uint32_t bytes, uint32_t cut)
{
	const uint32_t h[4] = {1, 2, bytes - cut, bytes};

	for (int i = 0; i < 4; i++) {
		const uint32_t v = swapped ? __builtin_bswap32(h[i]) : h[i];

		put(f, &v, 4);
	}
	put(f, data, bytes - cut);
}

/* An Ethernet frame with a datagram of 8 bytes, all of them `mark`. */
static uint32_t frame(uint8_t *out, int version, int tags, uint16_t port, uint8_t mark)
{
	uint8_t *at = out;

	memset(at, 2, 12);
	at += 12;
	for (int t = 0; t < tags; t++) {
		memcpy(at, t ? "\x81\x00\x00\x05" : "\x88\xa8\x00\x09", 4);
		at += 4;
	}
	memcpy(at, version == 4 ? "\x08\x00" : "\x86\xdd", 2);
	at += 2;
	if (version == 4) {
		memset(at, 0, 20);
		at[0] = 0x45;
		at[3] = 20 + 8 + 8;
		at[9] = IPPROTO_UDP;
		memcpy(at + 12, "\x0a\x00\x00\x07", 4);
		at += 20;
	} else {
		memset(at, 0, 40);
		at[0] = 0x60;
		at[5] = 16;
		at[6] = IPPROTO_UDP;
		at[8] = 0xfd;
		at[23] = 7;
		at += 40;
	}
	memset(at, 0, 8);
	at[0] = 0x30;
	at[1] = 0x39;
	at[2] = (uint8_t)(port >> 8);
	at[3] = (uint8_t)port;
	at[5] = 16;
	memset(at + 8, mark, 8);
	return (uint32_t)(at + 16 - out);
}

static struct dta_input *open_file(const struct file *f, char *error, size_t bytes)
{
	const char *dir = getenv("TMPDIR");
	char name[512];
	struct dta_input *in;
	int fd;

	snprintf(name, sizeof(name), "%s/sl-pcap-XXXXXX", dir ? dir : "/tmp");
	fd = mkstemp(name);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, f->data, f->bytes), f->bytes);
	close(fd);
	in = dta_input_pcap(name, 40040, error, bytes);
	unlink(name);
	return in;
}

static void reports_are_taken_out_of_captures_of_any_kind(void **state)
{
	uint8_t data[256];
	struct dta_datagram d[16];
	char error[256];

	(void)state;
	for (int swapped = 0; swapped < 2; swapped++) {
		struct file f;
		struct dta_input *in;
		uint32_t n;

		head(&f, swapped, 1);
		for (int tags = 0; tags < 3; tags++) {
			n = frame(data, 4, tags, 40040, (uint8_t)(1 + tags));
			packet(&f, swapped, data, n, 0);
			n = frame(data, 6, tags, 40040, (uint8_t)(11 + tags));
			packet(&f, swapped, data, n, 0);
		}
		n = frame(data, 4, 0, 40041, 99); /* of another port */
		packet(&f, swapped, data, n, 0);
		n = frame(data, 4, 0, 40040, 99); /* a fragment */
		data[14 + 6] = 0x20;
		packet(&f, swapped, data, n, 0);
		n = frame(data, 4, 0, 40040, 99); /* cut when it was captured */
		packet(&f, swapped, data, n, 3);
		in = open_file(&f, error, sizeof(error));
		assert_non_null(in);
		assert_int_equal(in->ops->receive(in, d, 16), 6);
		for (int i = 0; i < 6; i++) {
			assert_int_equal(d[i].bytes, 8);
			assert_int_equal(d[i].data[0], (i & 1 ? 11 : 1) + i / 2);
			assert_int_equal(d[i].port, 12345);
			assert_int_equal(IN6_IS_ADDR_V4MAPPED(&d[i].address) != 0, !(i & 1));
			assert_int_equal(d[i].address.s6_addr[15], 7);
		}
		assert_int_equal(in->ops->receive(in, d, 16), -ENODATA);
		assert_int_equal(in->others, 3);
		in->ops->close(in);
	}
}

/*
 * Raw IP, and both forms of Linux "cooked": the header before IP, and where it states the version.
 */
static void reports_are_taken_out_of_captures_of_any_link(void **state)
{
	static const struct {
		uint32_t link;
		uint8_t head, type;
	} links[] = {{101, 0, 0}, {113, 16, 14}, {276, 20, 0}};

	(void)state;
	for (size_t l = 0; l < sizeof(links) / sizeof(*links); l++) {
		uint8_t data[256], with[256] = {0};
		struct dta_datagram d[16];
		struct file f;
		struct dta_input *in;
		char error[256];

		head(&f, false, links[l].link);
		for (int version = 4; version <= 6; version += 2) {
			const uint32_t n = frame(data, version, 0, 40040, 7) - 14;
			const uint32_t head = links[l].head;

			memcpy(with + head, data + 14, n);
			if (head)
				memcpy(with + links[l].type, data + 12, 2);
			packet(&f, false, with, head + n, 0);
		}
		in = open_file(&f, error, sizeof(error));
		if (!in)
			fail_msg("%s", error);
		assert_int_equal(in->ops->receive(in, d, 16), 2);
		assert_int_equal(in->others, 0);
		assert_int_equal(d[0].data[0], 7);
		assert_int_equal(d[1].data[0], 7);
		in->ops->close(in);
	}
}

static void block(struct file *f, uint32_t type, const void *head, uint32_t head_bytes,
		  const void *data, uint32_t bytes)
{
	const uint32_t all = 12 + head_bytes + ((bytes + 3) & ~3u), none = 0;

	put(f, &type, 4);
	put(f, &all, 4);
	put(f, head, head_bytes);
	put(f, data, bytes);
	put(f, &none, ((bytes + 3) & ~3u) - bytes);
	put(f, &all, 4);
}

/* draft-ietf-opsawg-pcapng: section header, interface, enhanced packets, and an unknown block. */
static void reports_are_taken_out_of_pcapng(void **state)
{
	static const uint32_t section[] = {0x1a2b3c4d, 1, ~0u, ~0u}, ethernet[] = {1, 65535};
	struct file f = {.bytes = 0};
	struct dta_datagram d[16];
	struct dta_input *in;
	uint8_t data[256];
	char error[256];

	(void)state;
	block(&f, 0x0a0d0d0a, section, sizeof(section), NULL, 0);
	block(&f, 1, ethernet, sizeof(ethernet), NULL, 0);
	for (int i = 0; i < 6; i++) {
		const uint32_t n = frame(data, i & 1 ? 6 : 4, i / 2, 40040, (uint8_t)(1 + i));
		const uint32_t enhanced[] = {0, 0, (uint32_t)i, n, n};

		block(&f, 0x4001, NULL, 0, "comment", 7);
		block(&f, 6, enhanced, sizeof(enhanced), data, n);
	}
	in = open_file(&f, error, sizeof(error));
	if (!in)
		fail_msg("%s", error);
	assert_int_equal(in->ops->receive(in, d, 16), 6);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(d[i].bytes, 8);
		assert_int_equal(d[i].data[0], 1 + i);
	}
	assert_int_equal(in->ops->receive(in, d, 16), -ENODATA);
	in->ops->close(in);
	/* truncated: complete packets are read, and the rest is reported as missing */
	f.bytes -= 20;
	in = open_file(&f, error, sizeof(error));
	assert_non_null(in);
	assert_int_equal(in->ops->receive(in, d, 16), 5);
	assert_int_equal(in->ops->receive(in, d, 16), -ENODATA);
	assert_int_equal(in->others, 1);
	in->ops->close(in);
}

static void files_that_are_no_captures_are_refused_by_cause(void **state)
{
	struct file f = {.bytes = 10};
	char error[256];

	(void)state;
	assert_null(open_file(&f, error, sizeof(error)));
	assert_non_null(strstr(error, "not a capture"));
	head(&f, false, 1);
	f.bytes = 10;
	assert_null(open_file(&f, error, sizeof(error)));
	assert_non_null(strstr(error, "truncated"));
	head(&f, false, 1);
	memcpy(f.data, "\x0a\x0d\x0d\x0a", 4);
	assert_null(open_file(&f, error, sizeof(error)));
	assert_non_null(strstr(error, "not a capture"));
	head(&f, false, 105);
	assert_null(open_file(&f, error, sizeof(error)));
	assert_non_null(strstr(error, "105"));
}

/* Any byte of a capture may be wrong: returned packets are still within the file. */
static void damaged_captures_never_lead_out_of_the_packet(void **state)
{
	uint32_t random = 1;
	char error[256];

	(void)state;
	for (int round = 0; round < 500; round++) {
		struct dta_datagram d[16];
		struct dta_input *in;
		uint8_t data[256];
		struct file f;
		int n;

		head(&f, false, 1);
		for (int i = 0; i < 6; i++)
			packet(&f, false, data, frame(data, i & 1 ? 6 : 4, i / 2, 40040, 7), 0);
		for (int k = 0; k < 4; k++) {
			random = random * 1664525 + 1013904223;
			f.data[24 + (random >> 8) % (f.bytes - 24)] = (uint8_t)(random >> 3);
		}
		in = open_file(&f, error, sizeof(error));
		assert_non_null(in);
		while ((n = in->ops->receive(in, d, 16)) > 0)
			for (int i = 0; i < n; i++) {
				uint8_t sum = 0;

				assert_true(d[i].bytes <= 256);
				for (uint32_t b = 0; b < d[i].bytes; b++)
					sum = (uint8_t)(sum + d[i].data[b]);
				(void)sum;
			}
		assert_int_equal(n, -ENODATA);
		in->ops->close(in);
	}
}

/* ---- the ring ---- */

#define KEYS 20000u

static uint32_t place(const struct dta_hash_ring *r, uint32_t key, uint64_t up)
{
	return dta_hash_ring_find(r, dta_hash_ring_hash(0, 1, &key, sizeof(key)), up);
}

/* ---- what the kernel drops ---- */

static int64_t kernel_says = -1; /* -1: as it is; -2: nothing */

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	const int err = __real_getsockopt(fd, level, name, value, bytes);

	if (err || level != SOL_SOCKET || name != SO_MEMINFO || kernel_says == -1)
		return err;
	((uint32_t *)value)[SK_MEMINFO_DROPS] = (uint32_t)kernel_says;
	return kernel_says < 0 ? -1 : 0;
}

/* 32 bits last an hour for a socket that overflows. */
static void drops_are_counted_across_wraps_of_the_kernel(void **state)
{
	const struct sockaddr_in6 as = {
		.sin6_family = AF_INET6,
		.sin6_addr = {.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
	};
	static const uint32_t counter[] = {7, 1u << 31, UINT32_MAX - 7};
	const struct dta_input_udp_opts opts = {.as = &as};
	struct dta_input *in;
	char error[256];

	(void)state;
	in = dta_input_udp(&opts, error, sizeof(error));
	assert_non_null(in);
	assert_int_equal(in->ops->drops(in), 0);
	kernel_says = UINT32_MAX - 5;
	assert_int_equal(in->ops->drops(in), UINT32_MAX - 5);
	kernel_says = -2;
	assert_int_equal(in->ops->drops(in), UINT32_MAX - 5);
	for (uint64_t turn = 1; turn < 4; turn++)
		for (size_t i = 0; i < sizeof(counter) / sizeof(*counter); i++) {
			kernel_says = counter[i];
			assert_int_equal(in->ops->drops(in), (turn << 32) + counter[i]);
		}
	kernel_says = -1;
	in->ops->close(in);
}

static void a_lost_collector_takes_only_its_own_keys(void **state)
{
	static const char *const names[] = {"unix:/a", "unix:/b", "h1:7", "h2:7"};
	static const char *const other_order[] = {"h2:7", "unix:/b", "unix:/a", "h1:7"};
	static struct dta_hash_ring r, other;
	uint32_t share[4] = {0}, heirs[4] = {0};

	(void)state;
	assert_int_equal(dta_hash_ring_init(&r, names, 4), 0);
	assert_int_equal(dta_hash_ring_init(&other, other_order, 4), 0);
	for (uint32_t key = 0; key < KEYS; key++) {
		const uint32_t all = place(&r, key, 15), without = place(&r, key, 15 & ~2);

		share[all]++;
		if (all == 1)
			heirs[without]++;
		else
			assert_int_equal(without, all);
		assert_string_equal(names[all], other_order[place(&other, key, 15)]);
	}
	for (int i = 0; i < 4; i++) {
		assert_in_range(share[i], KEYS / 4 * 70 / 100, KEYS / 4 * 130 / 100);
		assert_true((heirs[i] > 0) == (i != 1)); /* all others inherit some of its keys */
	}
	assert_int_equal(place(&r, 5, 0), DTA_HASH_RING_MEMBERS_MAX);
	assert_int_equal(dta_hash_ring_init(&r, names, 0), -EINVAL);
	assert_int_equal(dta_hash_ring_init(&r, (const char *[]){"a", "a"}, 2), -EINVAL);
}

/* ---- a worker ---- */

/* A worker whose collectors are all absent. */
static struct dta_worker *worker_of(uint32_t collectors, uint32_t replicas, struct dta_rates *rates)
{
	static const char *const names[] = {"unix:/nowhere/a", "unix:/nowhere/b"};
	const struct dta_translate_opts opts = {.collectors = names,
						.n_collectors = collectors,
						.replicas = replicas,
						.rates = rates,
						.name = "t"};
	char error[256];
	struct dta_worker *w = dta_worker_new(&opts, "t", NULL, 0, error, sizeof(error));

	if (!w)
		fail_msg("%s", error);
	return w;
}

/* A device's block may be larger than any packet. */
static void the_largest_block_is_divided_among_collectors(void **state)
{
	static uint8_t items[DTA_MAP_BLOCK_MAX];
	const struct dta_header h = {.tenant = 0};
	const struct dta_block b = {.opcode = DTA_KEYWRITE,
				    .count = DTA_MAP_ITEMS,
				    .copies = 1,
				    .key_bytes = SL_STORE_KEY_MAX,
				    .value_bytes = SL_STORE_VALUE_MAX,
				    .store = 1,
				    .items = items};
	struct dta_worker *w = worker_of(2, 1, NULL);
	struct dta_translate_account a = {0};
	uint64_t others = 0;

	(void)state;
	dta_worker_dispatch(w, &h, &b, 1);
	dta_worker_account(w, &a, &others);
	assert_int_equal(a.engine.dropped[DTA_DROP_OUTPUT_DOWN], DTA_MAP_ITEMS);
	dta_worker_free(w);
}

/* Otherwise the tenant would get half its rate, and each replica would have other reports. */
static void replicas_of_a_report_take_one_token(void **state)
{
	static const uint8_t items[10 * 16];
	const struct dta_header h = {.tenant = 0};
	const struct dta_block b = {.opcode = DTA_KEYWRITE,
				    .count = 10,
				    .key_bytes = 8,
				    .value_bytes = 8,
				    .items = items};
	struct dta_rates *rates = dta_rates_new();
	struct dta_worker *w = worker_of(2, 2, rates);
	struct dta_translate_account a = {0};
	uint64_t others = 0;

	(void)state;
	dta_rates_set(rates, 0, 1, 6);
	w->up = 3;
	dta_worker_dispatch(w, &h, &b, 1);
	dta_worker_account(w, &a, &others);
	assert_int_equal(a.engine.dropped[DTA_DROP_RATE], 4);
	assert_int_equal(a.engine.dropped[DTA_DROP_OUTPUT_DOWN], 2 * 6);
	assert_int_equal(a.engine.in, 4 + 2 * 6);
	assert_int_equal(a.fresh, 10);
	dta_worker_free(w);
	dta_rates_free(rates);
}

/* ---- collectors that this test plays ---- */

struct collector {
	char at[128];
	int listener;
	struct dta_control_line *line;
};

static void listen_as(struct collector *c, const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", test_folder, name);
	snprintf(c->at, sizeof(c->at), "unix:%s", a.sun_path);
	c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(c->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(c->listener, 8), 0);
}

/* Drives a client until this collector has read a message of a type, which is returned. */
static json_t *heard(struct dta_client *client, struct collector *c, const char *type)
{
	json_t *m;
	int fd;

	for (int i = 0; i < 10000; i++) {
		dta_client_drive(client, base_now_ns());
		if (!c->line && (fd = accept(c->listener, NULL, NULL)) >= 0)
			c->line = dta_control_line_new(fd);
		while (c->line && (m = dta_control_line_read(c->line, &fd))) {
			if (!strcmp(json_string_value(json_object_get(m, "type")), type))
				return m;
			json_decref(m);
		}
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	fail_msg("no %s at %s", type, c->at);
	return NULL;
}

/* Admits a client that connects. */
static void admit(struct dta_client *client, struct collector *c)
{
	json_decref(heard(client, c, "hello"));
	dta_control_line_write(c->line,
			       json_pack("{s:s,s:i,s:i,s:i,s:i}", "type", "welcome", "version",
					 DTA_CONTROL_VERSION, "instance", 1, "lane", 0, "port", 0),
			       -1);
	dta_control_line_write(c->line, json_pack("{s:s}", "type", "ready"), -1);
	for (int i = 0; i < 10000 && !dta_client_ready(client); i++) {
		dta_client_drive(client, base_now_ns());
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_true(dta_client_ready(client));
}

static void cut(struct collector *c)
{
	dta_control_line_free(c->line);
	c->line = NULL;
}

/* Sends the accounts; what this collector was told. */
static struct dta_translate_account told(struct dta_worker *w, uint32_t i, struct collector *c)
{
	struct dta_translate_account a;
	json_t *m = heard(w->client[i], c, "account");

	dta_account_of_json(m, &a);
	json_decref(m);
	return a;
}

/* What the resolver says. */
static struct {
	int code;
	struct sockaddr_storage to;
} resolver;

int __wrap_fabric_lookup(struct fabric_lookup **l, const char *host, const char *service,
			 struct sockaddr_storage *to);

int __wrap_fabric_lookup(struct fabric_lookup **l, const char *host, const char *service,
			 struct sockaddr_storage *to)
{
	(void)l;
	assert_string_equal(host, "localhost");
	assert_int_equal(atoi(service), ntohs(((struct sockaddr_in *)&resolver.to)->sin_port));
	*to = resolver.to;
	return resolver.code;
}

/* Listens at 127.0.0.HOST, which is what the resolver says from now on. */
static void listen_at(struct collector *c, uint8_t host, uint16_t port)
{
	struct sockaddr_in *at = (struct sockaddr_in *)&resolver.to;
	socklen_t bytes = sizeof(*at);

	*at = (struct sockaddr_in){.sin_family = AF_INET,
				   .sin_port = htons(port),
				   .sin_addr.s_addr = htonl(0x7f000000u + host)};
	c->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(c->listener, (struct sockaddr *)at, bytes), 0);
	assert_int_equal(listen(c->listener, 8), 0);
	assert_int_equal(getsockname(c->listener, (struct sockaddr *)at, &bytes), 0);
	snprintf(c->at, sizeof(c->at), "localhost:%u", ntohs(at->sin_port));
}

/* It got another address, as a pod or a virtual machine does. */
static void a_collector_that_moved_is_found_again(void **state)
{
	struct collector before = {0}, after = {0};
	const struct dta_client_opts opts = {
		.collector = before.at, .name = "t", .output = DTA_CLIENT_RAW};
	struct dta_client *client;
	char error[256];

	(void)state;
	listen_at(&before, 1, 0);
	client = dta_client_new(&opts, error, sizeof(error));
	if (!client)
		fail_msg("%s", error);
	json_decref(heard(client, &before, "hello"));
	cut(&before);
	close(before.listener);
	listen_at(&after, 2, ntohs(((struct sockaddr_in *)&resolver.to)->sin_port));
	json_decref(heard(client, &after, "hello"));
	/* It restarts where it was, while the resolver fails, or does not answer. */
	for (int i = 0; i < 2; i++) {
		resolver.code = i ? EAI_INPROGRESS : EAI_AGAIN;
		cut(&after);
		json_decref(heard(client, &after, "hello"));
	}
	dta_client_free(client);
	cut(&after);
	close(after.listener);
}

/* While one is cut off, another gets the new counts, but not those that the first one keeps. */
static void counts_are_at_one_collector_after_a_cut(void **state)
{
	struct collector c[2] = {0};
	const char *names[] = {c[0].at, c[1].at};
	const struct dta_translate_opts opts = {
		.collectors = names, .n_collectors = 2, .name = "t"};
	struct dta_translate_account a, b;
	struct dta_worker *w;
	char error[256];

	(void)state;
	listen_as(&c[0], "a");
	listen_as(&c[1], "b");
	w = dta_worker_new(&opts, "t", NULL, 0, error, sizeof(error));
	if (!w)
		fail_msg("%s", error);
	admit(w->client[0], &c[0]);
	admit(w->client[1], &c[1]);
	w->up = 3;
	w->account.packets = 10;
	w->account.refused_tenant = 5; /* stands for one that may decrease, as reports lost do */
	dta_worker_notify(w);
	assert_int_equal(told(w, 0, &c[0]).packets, 10);
	assert_int_equal(told(w, 1, &c[1]).packets, 0);
	cut(&c[0]);
	for (int i = 0; i < 10000 && dta_client_welcomed(w->client[0]); i++)
		dta_client_drive(w->client[0], base_now_ns());
	w->up = 2;
	w->account.packets = 15;
	w->account.refused_tenant = 3;
	dta_worker_notify(w);
	b = told(w, 1, &c[1]);
	assert_int_equal(b.packets, 5);
	assert_int_equal(b.refused_tenant, 0);
	/* None is up: the first that returns is told. */
	w->up = 0;
	w->account.packets = 16;
	dta_worker_notify(w);
	admit(w->client[0], &c[0]);
	w->up = 3;
	w->account.packets = 18;
	dta_worker_notify(w);
	a = told(w, 0, &c[0]);
	b = told(w, 1, &c[1]);
	b = told(w, 1, &c[1]); /* the account from when none was up is the first */
	assert_int_equal(a.packets, 13);
	assert_int_equal(a.refused_tenant, 3);
	assert_int_equal(b.packets, 5);
	dta_worker_free(w);
	for (int i = 0; i < 2; i++) {
		cut(&c[i]);
		close(c[i].listener);
	}
}

/* ---- tenants ---- */

/* Whether reporter 5 of tenant 7 may sign with key number n, or without a key if n is 0. */
static bool may_sign(struct dta_tenants *t, uint8_t n, uint64_t now)
{
	static const struct in6_addr any;
	const struct dta_auth_here here = {.name = 1, .address = &any};
	const struct dta_header h = {
		.flags = n ? DTA_AUTHENTICATED : 0, .tenant = 7, .reporter = 5, .time_ns = now};
	struct dta_key *k = dta_key_new((const uint8_t[DTA_KEY_BYTES]){n});
	uint8_t packet[64] = {0};
	const size_t bytes = dta_proof_put(k, 1, packet, 32);
	uint32_t used;
	const bool may = dta_tenants_check(t, &h, packet, bytes, &here, now, &used) == DTA_FINE;

	assert_true(!may || !n || dta_mac_fits(dta_tenants_key(t, 7, 5, used), packet, bytes));
	dta_key_free(k);
	return may;
}

static void say_keys(struct dta_tenants *t, uint32_t collector, uint32_t session,
		     const struct dta_key_spec *keys, size_t n)
{
	const struct dta_tenant_says says = {
		.required = n > 0, .trusted = true, .keys = keys, .n = n};

	dta_tenants_set(t, collector, session, 7, &says);
}

static void a_key_counts_if_all_collectors_have_it(void **state)
{
	static const char *const names[] = {"a", "b"};
	const struct dta_key_spec keys[] = {
		{.key = {1}},
		{.key = {2}, .until_ns = 100},
		{.own = true, .first = 5, .last = 5, .key = {3}},
		{.key = {2}},
	};
	struct dta_tenants *t = dta_tenants_new(names, 2, NULL);

	(void)state;
	assert_non_null(t);
	assert_true(may_sign(t, 0, 50) && !may_sign(t, 1, 50));
	say_keys(t, 0, 1, keys, 2);
	assert_true(!may_sign(t, 0, 50) && may_sign(t, 1, 50) && may_sign(t, 2, 50));
	say_keys(t, 1, 1, &keys[3], 1); /* key 2, which does not expire there */
	assert_true(!may_sign(t, 0, 50) && !may_sign(t, 1, 50) && may_sign(t, 2, 50));
	assert_false(may_sign(t, 2, 150));
	/* The reporter's own key there takes the place of the tenant's. */
	say_keys(t, 1, 1, &keys[2], 1);
	for (uint8_t n = 0; n < 4; n++)
		assert_false(may_sign(t, n, 50));
	/* A collector without keys decides on none. */
	say_keys(t, 1, 1, keys, 0);
	assert_true(!may_sign(t, 0, 50) && may_sign(t, 1, 50));
	/* One that no longer lists the tenant stops to count, unless it was the only one. */
	say_keys(t, 1, 1, &keys[2], 1);
	dta_tenants_ready(t, 1, 1);
	assert_false(may_sign(t, 1, 50));
	dta_tenants_ready(t, 1, 2);
	assert_true(!may_sign(t, 0, 50) && may_sign(t, 1, 50));
	dta_tenants_ready(t, 0, 2);
	assert_true(!may_sign(t, 0, 50) && may_sign(t, 1, 50));
	/* A collector that is not trusted may only add a requirement. */
	say_keys(t, 0, 2, keys, 0);
	assert_true(may_sign(t, 0, 50));
	dta_tenants_set(t, 1, 3, 7, &(struct dta_tenant_says){.required = true});
	dta_tenants_set(t, 1, 3, 7, &(struct dta_tenant_says){0});
	assert_false(may_sign(t, 0, 50));
	dta_tenants_free(t);
}

static void wait_signs(struct dta_client *client, struct dta_tenants *t, uint8_t n, bool may)
{
	for (int i = 0; i < 1000 && may_sign(t, n, 50) != may; i++) {
		dta_client_drive(client, base_now_ns());
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_int_equal(may_sign(t, n, 50), may);
}

static size_t no_memory; /* for arrays of elements of this size */

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_calloc(size_t n, size_t bytes)
{
	return no_memory && bytes == no_memory ? NULL : __real_calloc(n, bytes);
}

/* The old key may have been withdrawn. */
static void keys_that_find_no_memory_leave_no_old_one(void **state)
{
	static const char first[] = "01000000000000000000000000000000",
			  second[] = "02000000000000000000000000000000";
	static const char *const names[] = {"a", "b"};
	const struct dta_key_spec other = {.key = {1}};
	struct dta_tenants *t = dta_tenants_new(names, 2, NULL);
	struct collector c = {0};
	const struct dta_client_opts opts = {.collector = c.at, .name = "t", .tenants = t};
	struct dta_client *client;
	char error[256];

	(void)state;
	assert_non_null(t);
	listen_as(&c, "keys");
	client = dta_client_new(&opts, error, sizeof(error));
	assert_non_null(client);
	admit(client, &c);
	say_keys(t, 1, 1, &other, 1); /* this collector does not know yet */
	for (int i = 0; i < 3; i++) {
		no_memory = i == 1 ? sizeof(struct dta_key_spec) : 0;
		dta_control_line_write(c.line,
				       json_pack("{s:s,s:i,s:[{s:s}]}", "type", "tenant", "tenant",
						 7, "keys", "key", first),
				       -1);
		wait_signs(client, t, 1, i != 1);
	}
	/* It is not withdrawn by a message that is wrong. */
	for (int i = 0; i < 2; i++) {
		dta_control_line_write(c.line,
				       json_pack("{s:s,s:i,s:i,s:[{s:s}]}", "type", "tenant",
						 "tenant", 7, "rate", i, "keys", "key",
						 i ? second : "wrong"),
				       -1);
		if (!i)
			for (int k = 0; k < 100; k++)
				dta_client_drive(client, base_now_ns());
		wait_signs(client, t, 1, !i);
	}
	dta_client_free(client);
	dta_tenants_free(t);
	cut(&c);
	close(c.listener);
}

/* ---- the list of exporters ---- */

/* A datagram of 10.A.B.C, at a time in milliseconds. */
static void export_from(struct dta_exporter_list *l, uint32_t from, uint64_t ms)
{
	struct dta_datagram d = {.address.s6_addr = {[10] = 0xff, 0xff, 10}};
	const struct dta_device_stats none = {0}, one = {.datagrams = 1};
	const struct dta_map_stats map = {0};

	for (int i = 0; i < 3; i++)
		d.address.s6_addr[15 - i] = (uint8_t)(from >> 8 * i);
	dta_exporter_list_before(l, &none, &map);
	dta_exporter_list_after(l, &d, &one, &map, (ms + 1000000) * 1000000);
}

/* Returns the value of an address in the list, -1 if it is not there. *all: datagrams of all. */
static json_int_t value_of(struct dta_exporter_list *l, const char *address, const char *key,
			   json_int_t *all)
{
	json_t *list = json_array(), *j;
	json_int_t value = -1;
	size_t i;

	dta_exporter_list_json(list, l, 1);
	*all = 0;
	json_array_foreach(list, i, j)
	{
		*all += json_integer_value(json_object_get(j, "datagrams"));
		if (!strcmp(json_string_value(json_object_get(j, "address")), address))
			value = json_integer_value(json_object_get(j, key));
	}
	json_decref(list);
	return value;
}

static void forged_exporters_keep_no_entry(void **state)
{
	struct dta_exporter_list *l = dta_exporter_list_new(DTA_DEVICE_IPFIX);
	json_int_t all;

	(void)state;
	assert_non_null(l);
	/* One that lives, and a flood of addresses with one datagram each. */
	export_from(l, 1, 0);
	export_from(l, 1, 10000);
	for (uint32_t i = 0; i < 5000; i++)
		export_from(l, 100000 + i, 10000 + i);
	export_from(l, 1, 15000);
	assert_int_equal(value_of(l, "10.0.0.1", "datagrams", &all), 3);
	assert_int_equal(value_of(l, "other", "evicted", &all), 5001 - DTA_EXPORTERS_LISTED);
	assert_int_equal(all, 5003);
	/* A new device has a name, and the whole list if it is silent. */
	export_from(l, 2, 16000);
	assert_int_equal(value_of(l, "10.0.0.2", "datagrams", &all), 1);
	for (uint64_t ms = 20000; ms <= 40000; ms += 20000)
		for (uint32_t i = 1; i <= DTA_EXPORTERS_LISTED; i++)
			export_from(l, i, ms);
	export_from(l, 999, 41000); /* all are proven and live */
	assert_int_equal(value_of(l, "10.0.3.231", "datagrams", &all), -1);
	export_from(l, 3, 700000);
	export_from(l, 999, 700001); /* 1 is idle, as is 2 */
	assert_int_equal(value_of(l, "10.0.3.231", "datagrams", &all), 1);
	assert_int_equal(value_of(l, "10.0.0.1", "datagrams", &all), -1);
	assert_int_equal(value_of(l, "10.0.0.2", "datagrams", &all), 3);
	assert_int_equal(all, 5004 + 2 * DTA_EXPORTERS_LISTED + 3);
	dta_exporter_list_free(l);
}

/* ---- the account ---- */

static void an_account_is_the_same_behind_the_control_channel(void **state)
{
	struct dta_translate_account a, b;
	uint64_t *w = (uint64_t *)&a;
	json_t *j;

	(void)state;
	memset(&a, 0, sizeof(a));
	for (size_t i = 0; i < offsetof(struct dta_translate_account, output.last_error) / 8; i++)
		w[i] = i * 1000003 + 7;
	a.refused[DTA_FINE] = 0; /* no cause */
	for (int d = 0; d < DTA_DEVICES; d++)
		a.device[d].decoder.refused[DTA_DEVICE_FINE] = 0;
	strcpy(a.output.last_error, "remote access error");
	j = dta_account_json(&a);
	assert_non_null(j);
	dta_account_of_json(j, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	json_decref(j);
	j = json_pack("{s:i, s:s, s:[]}", "packets", -5, "reports", "many", "engine");
	dta_account_of_json(j, &b);
	assert_int_equal(b.packets, 0);
	assert_int_equal(b.reports, 0);
	json_decref(j);
}

#if HAVE_XDP
/* ---- frames past the kernel ---- */

/* The checksum of RFC 1071, in the simple form of its text. */
static uint16_t slow_sum(uint32_t sum, const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void put_sum(uint8_t *at, uint16_t sum)
{
	at[0] = (uint8_t)(sum >> 8);
	at[1] = (uint8_t)sum;
}

enum udp_sum { WHOLE, LEFT_TO_THE_ADAPTER, NONE };

/* frame() with checksums. Returns its length. */
static uint32_t summed(uint8_t *f, int version, enum udp_sum how)
{
	const uint32_t bytes = frame(f, version, 0, 40040, 0x5a);
	uint8_t *udp = f + bytes - 16;
	uint16_t pseudo = version == 4 ? slow_sum(17 + 16, f + 26, 8)
				       : slow_sum(17 + 16, f + 22, 32);

	if (version == 4)
		put_sum(f + 24, (uint16_t)~slow_sum(0, f + 14, 20));
	if (how == WHOLE)
		put_sum(udp + 6, (uint16_t)~slow_sum(pseudo, udp, 16));
	else if (how == LEFT_TO_THE_ADAPTER)
		put_sum(udp + 6, pseudo);
	return bytes;
}

/* From memory of exactly this size, so that a sanitizer detects reads beyond it. */
static bool taken(const uint8_t *f, uint32_t bytes)
{
	uint8_t *copy = malloc(bytes ? bytes : 1);
	const struct dta_xsk_frame at = {copy, bytes};
	struct dta_datagram d;
	bool is;

	assert_non_null(copy);
	memcpy(copy, f, bytes);
	is = dta_xdp_datagram(&at, 40040, &d);
	if (is) {
		assert_true(d.data >= copy + 42 && d.data + d.bytes <= copy + bytes);
		assert_int_equal(d.bytes, 8);
		assert_int_equal(d.data[0], 0x5a);
	}
	free(copy);
	return is;
}

static void xdp_frames_are_accepted_whole_or_not_at_all(void **state)
{
	uint8_t f[256];

	(void)state;
	for (int version = 4; version <= 6; version += 2) {
		const uint32_t bytes = summed(f, version, NONE);

		/* RFC 8200: UDP over IPv6 must have a checksum */
		assert_int_equal(taken(f, bytes), version == 4);
		summed(f, version, LEFT_TO_THE_ADAPTER);
		assert_true(taken(f, bytes));
		summed(f, version, WHOLE);
		for (uint32_t cut = 0; cut < bytes; cut++)
			assert_false(taken(f, cut));
		for (uint32_t more = bytes; more < bytes + 9; more++) /* Ethernet pads */
			assert_true(taken(f, more));
		for (uint32_t bit = 14 * 8; bit < bytes * 8; bit++) {
			/*
			 * These IPv6 fields are in no checksum: traffic class, flow label, hop
			 * limit.
			 */
			const uint32_t byte = bit / 8;
			const bool free_of_sums = version == 6 &&
						  ((byte == 14 && bit % 8 < 4) ||
						   (byte > 14 && byte < 18) || byte == 21);

			f[bit / 8] ^= 1u << bit % 8;
			assert_int_equal(taken(f, bytes), free_of_sums);
			f[bit / 8] ^= 1u << bit % 8;
		}
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_are_taken_out_of_captures_of_any_kind),
		cmocka_unit_test(reports_are_taken_out_of_captures_of_any_link),
		cmocka_unit_test(reports_are_taken_out_of_pcapng),
		cmocka_unit_test(files_that_are_no_captures_are_refused_by_cause),
		cmocka_unit_test(damaged_captures_never_lead_out_of_the_packet),
		cmocka_unit_test(drops_are_counted_across_wraps_of_the_kernel),
		cmocka_unit_test(a_lost_collector_takes_only_its_own_keys),
		cmocka_unit_test(the_largest_block_is_divided_among_collectors),
		cmocka_unit_test(replicas_of_a_report_take_one_token),
		cmocka_unit_test(a_collector_that_moved_is_found_again),
		cmocka_unit_test(counts_are_at_one_collector_after_a_cut),
		cmocka_unit_test(a_key_counts_if_all_collectors_have_it),
		cmocka_unit_test(keys_that_find_no_memory_leave_no_old_one),
		cmocka_unit_test(forged_exporters_keep_no_entry),
		cmocka_unit_test(an_account_is_the_same_behind_the_control_channel),
#if HAVE_XDP
		cmocka_unit_test(xdp_frames_are_accepted_whole_or_not_at_all),
#endif
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
