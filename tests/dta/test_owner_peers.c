// SPDX-License-Identifier: Apache-2.0
/* test_owner_peers.c - the store server with its peer, and with real translators. */

#include <sys/eventfd.h>

#include "support/test.h"
#include "owner_talk.h"
#include "base/text.h"
#include "dta/store_server/internal.h"
#include "dta/store_server/peer.h"
#include "dta/translate/client_internal.h"
#include "dta/translate/internal.h"

/* ---- a peer ---- */

/* A store server whose file names this peer, and a translator that tells it of a gap. */
static struct dta_store_server *own_behind(struct translator *t, const char *stores)
{
	char peer[160], error[512];
	struct dta_store_server *o;

	snprintf(peer, sizeof(peer), "peer: %s/peer.sock", test_folder);
	o = own(yaml(peer, stores), error);
	if (!o)
		fail_msg("%s", error);
	come(t, socket_path(), "t");
	say(t->line,
	    json_pack("{s:s,s:i,s:i,s:i}", "type", "gap", "from", 1, "to", 2, "reports", 5));
	return o;
}

static struct dta_store_server *own_peer(const char *stores)
{
	char text[1024], path[160], error[512];
	struct dta_store_server *o;

	snprintf(text, sizeof(text), "listen: %s/peer.sock\nstores:\n%s\n", test_folder, stores);
	snprintf(path, sizeof(path), "%s", write_file("peer.yaml", text));
	o = dta_store_server_new(path, error, sizeof(error));
	if (!o)
		fail_msg("%s", error);
	assert_int_equal(dta_store_server_start(o, error, sizeof(error)), 0);
	return o;
}

static bool is_reading(struct dta_store_server *o)
{
	bool is;

	pthread_mutex_lock(&o->lock);
	is = !o->gaps || o->catch_ns;
	pthread_mutex_unlock(&o->lock);
	return is;
}

/*
 * Confirms epochs until the store server has read from its peer. Returns whether it says that the
 * gap is filled.
 */
static bool is_filled(struct dta_store_server *o, struct translator *t)
{
	bool filled;
	json_t *j;

	for (int i = 0; i < 20000 && is_reading(o); i++) {
		int fd;
		json_t *m = dta_control_line_read(t->line, &fd);

		if (m && !strcmp(type_of(m), "rotate"))
			say(t->line, json_pack("{s:s,s:i,s:I,s:I}", "type", "rotated", "tenant", 0,
					       "store", (json_int_t)number(m, "store"), "epoch",
					       (json_int_t)number(m, "epoch")));
		if (m && fd >= 0)
			close(fd);
		json_decref(m);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_false(is_reading(o));
	j = dta_store_server_json(o);
	filled = json_is_true(
		json_object_get(json_array_get(json_object_get(j, "gaps"), 0), "filled"));
	json_decref(j);
	return filled;
}

/* Otherwise queries would trust answers that lack the missed reports. */
static void a_gap_is_filled_only_if_all_was_copied(void **state)
{
	static const struct {
		const char *ours, *theirs;
		bool filled, complete;
	} peers[] = {
		{FLOWS, FLOWS, true, true},
		{FLOWS,
		 "- {name: flows, number: 1, kind: key-write, slots: 1000, value: 8, seed: 2}",
		 false, false},
		{FLOWS,
		 "- {name: flows, number: 1, kind: key-write, slots: 999, value: 8, seed: 1}",
		 false, false},
		{FLOWS "\n- {name: b, number: 2, kind: increment, columns: 9, seed: 1}", FLOWS,
		 false, false},
		/* This store cannot catch up, but a peer can read the other one. */
		{FLOWS "\n- {name: b, number: 2, kind: increment, columns: 9, epochs: 1}", FLOWS,
		 false, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++) {
		struct dta_store_server *peer = own_peer(peers[i].theirs), *o;
		struct translator t;

		o = own_behind(&t, peers[i].ours);
		assert_int_equal(is_filled(o, &t), peers[i].filled);
		assert_int_equal(dta_store_server_peer_reads(o), peers[i].complete);
		leave(&t);
		dta_store_server_free(o);
		dta_store_server_free(peer);
	}
}

/* The peer accepts the connection and then says nothing. */
static void a_peer_that_hangs_holds_up_no_status(void **state)
{
	struct dta_store_server *o;
	struct translator t;
	char path[100], error[512];
	int listener, peer, err;
	uint64_t began;

	(void)state;
	o = own_behind(&t, FLOWS);
	snprintf(path, sizeof(path), "%s/peer.sock", test_folder);
	listener = base_listen_unix(path, SOCK_STREAM, 0660, error, sizeof(error));
	assert_true(listener >= 0);
	json_decref(until(&t, "rotate"));
	rotated(&t);
	assert_int_equal(poll(&(struct pollfd){listener, POLLIN, 0}, 1, 20000), 1);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(peer >= 0);
	began = base_now_ns();
	json_decref(dta_store_server_json(o));
	assert_true(base_now_ns() - began < DTA_PEER_NS / 2);
	/* The file is as before, but the store is about to be filled. */
	assert_int_equal(dta_store_server_reload(o, error, sizeof(error)), 0);
	assert_int_equal(dta_store_server_resize(o, "flows", 1001, error, sizeof(error)), -EBUSY);
	assert_true(base_now_ns() - began < DTA_PEER_NS / 2);
	close(peer);
	close(listener);
	unlink(path);
	do
		err = dta_store_server_resize(o, "flows", 1001, error, sizeof(error));
	while (err == -EBUSY && base_now_ns() - began < 20000000000ull && !usleep(1000));
	assert_int_equal(err, 0);
	leave(&t);
	dta_store_server_free(o);
}

/* The peer returns after the resize, so what it has must not go into the memory before it. */
static void a_resized_store_still_catches_up(void **state)
{
	struct dta_store_server *peer, *o;
	struct translator t, at_peer;
	char error[512];

	(void)state;
	o = own_behind(&t, FLOWS);
	json_decref(until(&t, "rotate"));
	rotated(&t);
	assert_int_equal(dta_store_server_resize(o, "flows", 2000, error, sizeof(error)), 0);
	peer = own_peer(
		"- {name: flows, number: 1, kind: key-write, slots: 2000, value: 8, seed: 1}");
	snprintf(error, sizeof(error), "%s/peer.sock", test_folder);
	come(&at_peer, error, "t");
	put(&at_peer, 0, 0, 77);
	assert_true(is_filled(o, &t));
	assert_true(found(o, 77));
	leave(&at_peer);
	leave(&t);
	dta_store_server_free(o);
	dta_store_server_free(peer);
}

/* ---- a real translator ---- */

#define INPUTS 3u

static int receive_nothing(struct dta_input *in, struct dta_datagram *out, uint32_t max)
{
	(void)in, (void)out, (void)max;
	return 0;
}

static void close_nothing(struct dta_input *in)
{
	(void)in;
}

static const struct dta_input_ops silent_ops = {
	.name = "silent", .receive = receive_nothing, .close = close_nothing};

/* A worker without threads, with inputs of IPFIX. */
static struct dta_worker *worker_new(const char *const *collectors, uint32_t n)
{
	static struct dta_input in[INPUTS];
	struct dta_input *inputs[INPUTS];
	struct dta_translate_opts opts = {.collectors = collectors, .n_collectors = n, .name = "t"};
	char error[256];
	struct dta_map *map = dta_map_text("default", dta_map_default, strlen(dta_map_default),
					   error, sizeof(error));
	struct dta_worker *w;

	assert_non_null(map);
	opts.map = map;
	for (uint32_t i = 0; i < INPUTS; i++) {
		in[i] = (struct dta_input){.ops = &silent_ops, .fd = -1};
		inputs[i] = &in[i];
		opts.device[i] = DTA_DEVICE_IPFIX;
	}
	w = dta_worker_new(&opts, "t", inputs, INPUTS, error, sizeof(error));
	if (!w)
		fail_msg("%s", error);
	return w;
}

static void worker_free(struct dta_worker *w)
{
	struct dta_map *map = (struct dta_map *)(uintptr_t)w->opts.map;

	dta_worker_free(w);
	dta_map_free(map);
}

/* Exchanges messages until this holds of the server, for at most 20 s. */
static void drive_until(struct dta_worker *w, struct dta_store_server *o,
			bool (*holds)(struct dta_worker *w, struct dta_store_server *o))
{
	for (int i = 0; i < 20000 && !holds(w, o); i++) {
		for (uint32_t c = 0; c < w->opts.n_collectors; c++)
			dta_client_drive(w->client[c], base_now_ns());
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_true(holds(w, o));
}

static bool is_ready(struct dta_worker *w, struct dta_store_server *o)
{
	(void)o;
	return dta_client_ready(w->client[w->opts.n_collectors - 1]);
}

static bool is_second(struct dta_worker *w, struct dta_store_server *o)
{
	(void)w;
	return is_epoch(o, 2);
}

/* The store's next epoch waits for the confirmation, or for the end of the session. */
static void a_lost_confirmation_holds_up_no_epoch(void **state)
{
	const char *const collectors[] = {socket_path()};
	struct dta_store_server *o;
	struct dta_worker *w;
	char error[512];
	bool welcomed;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	w = worker_new(collectors, 1);
	drive_until(w, o, is_ready);
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	wait_epoch(o, 1);
	pthread_mutex_lock(&o->lock); /* it reads nothing meanwhile, but has announced the epoch */
	fill_line(w->client[0]->line);
	dta_client_drive(w->client[0], base_now_ns());
	welcomed = dta_client_welcomed(w->client[0]);
	pthread_mutex_unlock(&o->lock);
	assert_false(welcomed);
	drive_until(w, o, is_ready);
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	drive_until(w, o, is_second);
	worker_free(w);
	dta_store_server_free(o);
}

static void a_gap_that_cannot_be_told_is_kept(void **state)
{
	const char *const collectors[] = {socket_path()};
	struct dta_store_server *o;
	struct dta_worker *w;
	char error[512];
	uint64_t kept;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	w = worker_new(collectors, 1);
	drive_until(w, o, is_ready);
	w->opts.replicas = 2;
	w->up = 1;
	w->gap[0].from_ns = 1;
	w->gap[0].reports = 5;
	pthread_mutex_lock(&o->lock); /* it reads nothing meanwhile */
	fill_line(w->client[0]->line);
	dta_worker_gaps(w, 1);
	kept = w->gap[0].reports;
	pthread_mutex_unlock(&o->lock);
	assert_int_equal(kept, 5);
	worker_free(w);
	dta_store_server_free(o);
}

static bool has_all_exporters(struct dta_worker *w, struct dta_store_server *o)
{
	json_t *j = dta_store_server_exporters(o);
	const size_t n = json_array_size(json_object_get(j, "exporters"));

	(void)w;
	json_decref(j);
	return n == INPUTS * (DTA_EXPORTERS_LISTED + 1);
}

/* All lists together are longer than a message may be. */
static void a_flood_of_exporters_is_listed_whole(void **state)
{
	const char *const collectors[] = {socket_path()};
	struct dta_store_server *o;
	struct dta_worker *w;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	w = worker_new(collectors, 1);
	drive_until(w, o, is_ready);
	w->up = 1;
	for (uint32_t i = 0; i < INPUTS; i++)
		for (uint32_t k = 0; k < 2 * DTA_EXPORTERS_LISTED; k++) {
			const struct dta_datagram d = {.address.s6_addr = {0xfd, [12] = 0xff, 0xff,
									   (uint8_t)(k >> 8),
									   (uint8_t)k}};
			const struct dta_device_stats s = {.datagrams = INT64_MAX};

			dta_exporter_list_before(w->source[i].exporters,
						 &(struct dta_device_stats){0},
						 &(struct dta_map_stats){0});
			dta_exporter_list_after(w->source[i].exporters, &d, &s,
						&(struct dta_map_stats){0}, base_realtime_ns());
		}
	dta_worker_notify(w);
	drive_until(w, o, has_all_exporters);
	assert_true(dta_client_ready(w->client[0]));
	worker_free(w);
	dta_store_server_free(o);
}

/* Reports that the translator has accounted for, over all of its runs. */
static int64_t reports_in(struct dta_store_server *o)
{
	json_t *j = dta_store_server_json(o);
	const json_t *all = json_object_get(json_object_get(j, "account"), "translators");
	const int64_t n = number(json_object_get(all, "engine"), "in");

	json_decref(j);
	return n;
}

static bool has_packets(struct dta_worker *w, struct dta_store_server *o)
{
	return packets_of_first(o) == (int64_t)w->account.packets;
}

/* Returns whether all reports so far are accounted for: 3 superseded ones and a client's. */
static bool has_reports(struct dta_worker *w, struct dta_store_server *o)
{
	struct dta_translate_account a = {0};

	dta_client_account(w->client[1], &a);
	return reports_in(o) == (int64_t)(3 + a.engine.in);
}

/*
 * The worker's own counts, of packets and superseded reports, stay in the account of the collector
 * that was told, when another one is to be told of new ones.
 */
static void own_counts_stay_where_they_were_told(void **state)
{
	const char *const collectors[] = {"unix:/nowhere", socket_path()};
	const struct dta_block b = {.opcode = DTA_KEYWRITE, .count = 5};
	struct dta_store_server *o;
	struct dta_worker *w;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	w = worker_new(collectors, 2);
	dta_client_block(w->client[1], 0, 0, &b, 0);
	w->account.packets = 7;
	w->account.fresh = w->account.engine.in = 3;
	w->account.engine.dropped[DTA_DROP_SUPERSEDED] = 3;
	drive_until(w, o, is_ready);
	for (int times = 0; times < 2; times++) {
		w->up = times ? 3 : 2;
		dta_client_block(w->client[1], 0, 0, &b, 0);
		dta_worker_notify(w);
		drive_until(w, o, has_reports);
		assert_true(has_packets(w, o));
	}
	worker_free(w);
	dta_store_server_free(o);
}

/* ---- collectors that differ about a tenant ---- */

#define PACKETS 4u

/* An input of packets that ends. */
struct few {
	struct dta_input in;
	uint8_t data[PACKETS][256];
	uint32_t bytes[PACKETS], n;
	bool given;
};

static int receive_few(struct dta_input *in, struct dta_datagram *out, uint32_t max)
{
	struct few *f = (struct few *)in;

	if (f->given || f->n > max)
		return -ENODATA;
	for (uint32_t i = 0; i < f->n; i++)
		out[i] = (struct dta_datagram){.data = f->data[i],
					       .bytes = f->bytes[i],
					       .to = in6addr_loopback.s6_addr,
					       .address = in6addr_loopback};
	f->given = true;
	return (int)f->n;
}

/* Two reports of reporter 5 of tenant 7, signed if a key is given. */
static void add_packet(struct few *f, const char *key)
{
	static const uint8_t text[8];
	const struct dta_block shape = {
		.opcode = DTA_KEYWRITE, .copies = 1, .key_bytes = 8, .value_bytes = 8, .store = 1};
	const struct dta_header h = {.flags = key ? DTA_AUTHENTICATED : 0,
				     .tenant = 7,
				     .reporter = 5,
				     .time_ns = base_realtime_ns()};
	uint8_t *p = f->data[f->n], binary[DTA_KEY_BYTES];
	struct dta_builder b;
	struct dta_key *k;
	size_t n;

	dta_begin(&b, p, sizeof(f->data[0]), &h);
	assert_int_equal(dta_put(&b, &shape, text, text), 0);
	assert_int_equal(dta_put(&b, &shape, text, text), 0);
	n = dta_end(&b);
	if (key) {
		assert_int_equal(base_unhex(binary, key, sizeof(binary)), 0);
		k = dta_key_new(binary);
		n = dta_proof_put(k, dta_translator_of_name("t", 1), p, n);
		dta_key_free(k);
	}
	f->bytes[f->n++] = (uint32_t)n;
}

#define KEY	"000102030405060708090a0b0c0d0e0f"
#define REVOKED "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"

/* A store server that listens on NAME.sock. */
static struct dta_store_server *own_at(const char *name, const char *rest, const char *stores)
{
	char text[1024], file[16], error[512];
	struct dta_store_server *o;

	snprintf(text, sizeof(text), "listen: %s/%s.sock\n%sstores:\n%s\n", test_folder, name, rest,
		 stores);
	snprintf(file, sizeof(file), "%s.yaml", name);
	o = dta_store_server_new(write_file(file, text), error, sizeof(error));
	if (!o || dta_store_server_start(o, error, sizeof(error)))
		fail_msg("%s", error);
	return o;
}

static struct dta_store_server *own_of_tenant(const char *name, const char *tenant)
{
	char rest[512];

	snprintf(rest, sizeof(rest), "tenants:\n- {number: 7, %s}\n", tenant);
	return own_at(name, rest,
		      "- {name: f, tenant: 7, number: 1, kind: key-write, slots: 99, value: 8}");
}

static bool is_first_ready(struct dta_worker *w, struct dta_store_server *o)
{
	(void)o;
	return dta_client_ready(w->client[0]);
}

/* The first collector requires KEY and has a rate; the second one has a file of an earlier time. */
static void the_strictest_collector_decides_on_a_tenant(void **state)
{
	static const struct dta_input_ops ops = {
		.name = "few", .receive = receive_few, .close = close_nothing};
	char paths[2][96], key[160], both[256];
	const char *const collectors[] = {paths[0], paths[1]};
	const char *const old[] = {"required: false", both};

	(void)state;
	write_file("revoked", REVOKED);
	snprintf(key, sizeof(key), "rate: 1, burst: 1, key: %s", write_file("key", KEY));
	snprintf(both, sizeof(both),
		 "required: false, rate: 9, burst: 9, key: %s/key, keys: [{key: %s/revoked}]",
		 test_folder, test_folder);
	for (int i = 0; i < 2; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/%c.sock", test_folder, "ab"[i]);
	for (size_t i = 0; i < 2; i++) {
		struct few f = {.in = {.ops = &ops, .fd = -1}};
		struct dta_input *in = &f.in;
		struct dta_rates *rates = dta_rates_new();
		const struct dta_translate_opts opts = {
			.collectors = collectors, .n_collectors = 2, .rates = rates, .name = "t"};
		struct dta_store_server *o[2] = {own_of_tenant("a", key)};
		struct dta_translate_account a = {0};
		const int stop = eventfd(0, EFD_CLOEXEC);
		uint64_t others = 0;
		char error[256];
		struct dta_worker *w = dta_worker_new(&opts, "t", &in, 1, error, sizeof(error));

		assert_true(w && stop >= 0);
		drive_until(w, o[0], is_first_ready);
		o[1] = own_of_tenant("b", old[i]);
		add_packet(&f, NULL);
		add_packet(&f, NULL);
		add_packet(&f, REVOKED);
		add_packet(&f, KEY);
		dta_worker_run(w, stop);
		dta_worker_account(w, &a, &others);
		assert_int_equal(a.packets, PACKETS);
		assert_int_equal(a.refused[DTA_BAD_MAC], PACKETS - 1);
		assert_int_equal(a.packets_taken, 1);
		assert_int_equal(a.engine.dropped[DTA_DROP_RATE], 1);
		assert_int_equal(a.engine.stored, 1);
		dta_worker_free(w);
		for (int k = 0; k < 2; k++)
			dta_store_server_free(o[k]);
		dta_rates_free(rates);
		close(stop);
	}
}

/* ---- a dead collector of several ---- */

#define LISTS 64u

/*
 * An input of one packet of essential reports, which wait in both engines. Then the first collector
 * ends, and the packet is sent again until it is acknowledged, or for 5 s.
 */
struct resent {
	struct dta_input in;
	struct dta_store_server *doomed;
	uint8_t packet[2048];
	uint32_t bytes;
	bool acknowledged; /* of the intake only: at the end, all waiting reports are given up */
	uint64_t begun_ns, sent_ns;
};

static int receive_resent(struct dta_input *in, struct dta_datagram *out, uint32_t max)
{
	struct resent *r = (struct resent *)in;
	const uint64_t now = base_now_ns();

	(void)max;
	if (!r->begun_ns)
		r->begun_ns = now;
	else if (r->doomed) {
		dta_store_server_free(r->doomed);
		r->doomed = NULL;
	}
	if (r->acknowledged || now - r->begun_ns > 5000000000ull)
		return -ENODATA;
	if (now - r->sent_ns < 100000000)
		return 0;
	if (r->sent_ns)
		dta_again(r->packet, base_realtime_ns());
	r->sent_ns = now;
	*out = (struct dta_datagram){.data = r->packet,
				     .bytes = r->bytes,
				     .port = 9,
				     .to = in6addr_loopback.s6_addr,
				     .address = in6addr_loopback};
	return 1;
}

static void note_answer(struct dta_input *in, const struct in6_addr *address, uint16_t port,
			const void *packet, size_t bytes)
{
	struct resent *r = (struct resent *)in;
	struct dta_answer a;

	(void)address, (void)port;
	assert_int_equal(dta_answer_parse(packet, bytes, &a), DTA_FINE);
	for (uint32_t i = 0; a.type == DTA_ACK && i < a.ranges; i++)
		r->acknowledged |= !a.range[i].first && a.range[i].count == LISTS &&
				   base_now_ns() - r->begun_ns < 5000000000ull;
}

static void a_dead_collector_delays_no_acknowledgement(void **state)
{
	static const struct dta_input_ops ops = {.name = "resent",
						 .receive = receive_resent,
						 .answer = note_answer,
						 .close = close_nothing};
	static const char store[] =
		"- {name: l, number: 1, kind: append, lists: 64, items: 999, value: 8, batch: 16}";
	const struct dta_block shape = {.opcode = DTA_APPEND,
					.flags = DTA_ESSENTIAL,
					.key_bytes = 4,
					.value_bytes = 8,
					.store = 1};
	const struct dta_header h = {.flags = DTA_ACK_WANTED, .reporter = 5, .incarnation = 1};
	const int stop = eventfd(0, EFD_CLOEXEC);
	/* like a socket: a file would not be read while a collector is down */
	struct resent r = {.in = {.ops = &ops, .fd = stop}};
	struct dta_input *in = &r.in;
	char paths[2][96], error[256];
	const char *const collectors[] = {paths[0], paths[1]};
	/* so long that all reports wait when the collector ends */
	const struct dta_translate_opts opts = {.collectors = collectors,
						.n_collectors = 2,
						.client.engine.flush_ns = 300000000,
						.name = "t"};
	struct dta_store_server *o[2];
	struct dta_translate_account a = {0};
	struct dta_builder b;
	struct dta_worker *w;
	uint64_t others = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		const char name[] = {"ab"[i], 0};

		snprintf(paths[i], sizeof(paths[i]), "%s/%s.sock", test_folder, name);
		o[i] = own_at(name, "", store);
	}
	dta_begin(&b, r.packet, sizeof(r.packet), &h);
	for (uint8_t i = 0; i < LISTS; i++)
		assert_int_equal(
			dta_put(&b, &shape, (const uint8_t[4]){[3] = i}, (const uint8_t[8]){i}), 0);
	r.bytes = (uint32_t)dta_end(&b);
	r.doomed = o[0];
	w = dta_worker_new(&opts, "t", &in, 1, error, sizeof(error));
	assert_true(w && stop >= 0);
	dta_worker_run(w, stop);
	assert_true(r.acknowledged);
	dta_worker_account(w, &a, &others);
	assert_in_range(a.engine.dropped[DTA_DROP_OUTPUT_DOWN], 1, LISTS - 1);
	assert_int_equal(a.engine.in, a.engine.stored + a.engine.dropped[DTA_DROP_OUTPUT_DOWN]);
	dta_worker_free(w);
	dta_store_server_free(o[1]);
	close(stop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gap_is_filled_only_if_all_was_copied),
		cmocka_unit_test(a_peer_that_hangs_holds_up_no_status),
		cmocka_unit_test(a_resized_store_still_catches_up),
		cmocka_unit_test(a_lost_confirmation_holds_up_no_epoch),
		cmocka_unit_test(a_gap_that_cannot_be_told_is_kept),
		cmocka_unit_test(a_flood_of_exporters_is_listed_whole),
		cmocka_unit_test(own_counts_stay_where_they_were_told),
		cmocka_unit_test(the_strictest_collector_decides_on_a_tenant),
		cmocka_unit_test(a_dead_collector_delays_no_acknowledgement),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests_name("owner-peers", tests, folder_make, folder_remove);
}
