// SPDX-License-Identifier: Apache-2.0
#include "collect/self/reports.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/relaxed.h"
#include "base/text.h"
#include "base/thread.h"
#include "collect/read/self.h"
#include "collect/self/flows.h"
#include "collect/self/self.h"
#include "dta/query/query.h"
#include "dta/store_server/server.h"
#include "export/kafka.h"

#define BLOCKS	    256u /* maximum blocks read from a lane at a time */
#define STORES_MS   1000 /* time between two searches for stores */
#define POLL_MS	    20	 /* pause when there was nothing to read */
#define AGAIN_MS    1000 /* minimum pause of a lane after a failed delivery */
#define SAVE_MS	    1000 /* minimum time between two writes of the offsets, which take a while */
#define OFFSETS_MAX (16u << 20)

struct lane {
	char *store;
	struct sl_query_append_reader reader;
	uint64_t next, saved; /* positions: to be read, and first that is not acknowledged */
	uint64_t again_ns;    /* when to try again after a failed delivery */
	bool begun;
};

struct collect_reports {
	struct dta_store_server *stores;
	struct export_kafka *kafka;
	bool json;
	int ipfix; /* a connected socket, or -1 */
	struct collect_flows_ipfix message;
	uint64_t ipfix_records, ipfix_lost;
	char *path;
	json_t *offsets; /* {"STORE/LIST/LANE": position} */
	struct lane *lane;
	size_t lanes, lane_room;
	uint8_t *items;
	size_t items_room, unit; /* unit: bytes of a block of items */
	uint64_t overrun;
	struct base_thread thread;
};

static void key_of(const struct lane *l, char *key, size_t bytes)
{
	snprintf(key, bytes, "%s/%u/%u", l->store, l->reader.list, l->reader.lane);
}

/* ---- saved positions ---- */

static bool write_offsets(const struct collect_reports *r, const char *path)
{
	FILE *f = base_create_file(path);
	/* Synced before it is renamed: a power failure must leave the old file or the new one. */
	bool good = f && !json_dumpf(r->offsets, f, JSON_INDENT(1) | JSON_SORT_KEYS) &&
		    !fflush(f) && !fsync(fileno(f));

	return f && !fclose(f) && good;
}

static void save_offsets(struct collect_reports *r)
{
	char key[512], *to = NULL;

	for (size_t i = 0; i < r->lanes; i++) {
		key_of(&r->lane[i], key, sizeof(key));
		if (r->lane[i].begun)
			json_object_set_new(r->offsets, key,
					    json_integer((json_int_t)r->lane[i].saved));
	}
	if (!r->path)
		return;
	if (asprintf(&to, "%s.new", r->path) < 0 || !write_offsets(r, to) || rename(to, r->path))
		base_log_limited(BASE_WARN, "kafka", "cannot save the offsets path=%s error=%s",
				 r->path, strerror(errno));
	free(to);
}

static int load_offsets(struct collect_reports *r, char *error, size_t error_bytes)
{
	json_error_t why;
	size_t bytes;
	char *text;

	r->offsets = json_object();
	if (!r->offsets)
		return -ENOMEM;
	text = r->path ? base_read_file(r->path, OFFSETS_MAX, &bytes) : NULL;
	if (!text && r->path && errno != ENOENT)
		return base_fail(error, error_bytes, -errno, "%s: %s", r->path, strerror(errno));
	if (!text)
		return 0;
	json_decref(r->offsets);
	r->offsets = json_loadb(text, bytes, 0, &why);
	free(text);
	if (json_is_object(r->offsets))
		return 0;
	return base_fail(error, error_bytes, -EINVAL, "%s: not an offsets file; move it away",
			 r->path);
}

/* ---- lanes ---- */

static bool is_known(const struct collect_reports *r, const char *store)
{
	for (size_t i = 0; i < r->lanes; i++)
		if (!strcmp(r->lane[i].store, store))
			return true;
	return false;
}

static void add_store(struct collect_reports *r, const char *name)
{
	struct dta_held held;
	uint32_t lists = 0, lanes = 0;
	const size_t before = r->lanes;

	if (is_known(r, name) || !dta_store_server_hold(r->stores, name, &held))
		return;
	if (held.count && held.view[0]->config->kind == SL_STORE_APPEND) {
		lists = held.view[0]->config->lists;
		lanes = held.view[0]->config->lanes;
	}
	dta_store_server_release(r->stores, &held);
	for (uint32_t i = 0; i < lists * lanes; i++) {
		char *store = BASE_GROW(r->lane, r->lanes, r->lane_room) ? strdup(name) : NULL;

		if (!store)
			goto undo;
		r->lane[r->lanes++] = (struct lane){
			.store = store, .reader = {.list = i / lanes, .lane = i % lanes}};
	}
	return;
undo: /* the next search finds the whole store */
	while (r->lanes > before)
		free(r->lane[--r->lanes].store);
}

static void find_stores(struct collect_reports *r)
{
	const char *name;

	for (size_t i = 0; (name = dta_store_server_name(r->stores, i)); i++)
		add_store(r, name);
}

/* ---- following ---- */

/* Sets the lane's start: the saved position, unless the store has been recreated since. */
static void begin_lane(struct collect_reports *r, struct lane *l, const struct dta_held *held)
{
	const struct dta_store_view *v;
	uint64_t oldest, at;
	char key[512];
	json_t *saved;

	key_of(l, key, sizeof(key));
	saved = json_object_get(r->offsets, key);
	at = json_is_integer(saved) ? (uint64_t)json_integer_value(saved) : ~0ull;
	v = held->view[dta_append_seek(held, at, &l->reader)];
	oldest = dta_append_oldest(v, l->reader.list, l->reader.lane, NULL);
	if (l->reader.block < oldest)
		relaxed_bump(r->overrun, oldest - l->reader.block);
	if (l->reader.block < oldest ||
	    l->reader.block > dta_append_next(v, l->reader.list, l->reader.lane, NULL))
		l->reader.block = oldest;
	l->next = l->saved = dta_append_position(v, l->reader.block);
	l->begun = true;
}

struct batch {
	/* fields of the flow in each value; none if the store does not hold flows */
	struct dta_layout flow;
	uint32_t value_bytes, blocks;
	uint64_t epoch; /* first epoch of the object */
	struct {
		uint64_t number;
		uint32_t items;
	} block[BLOCKS];
};

/* Reads new blocks of a lane individually, so that each item keeps its number for good. */
static void read_blocks(struct collect_reports *r, struct lane *l, const struct dta_store_view *v,
			struct batch *b)
{
	const struct sl_store_config *c = v->config;
	const size_t unit = (size_t)c->batch * c->value_bytes;

	b->value_bytes = c->value_bytes;
	b->epoch = c->first_epoch;
	if (!base_grow(&r->items, &r->items_room, BLOCKS * unit, 1))
		return;
	while (b->blocks < BLOCKS) {
		uint64_t number = l->reader.block;
		int n = dta_append_read(v, &l->reader, r->items + b->blocks * unit, c->batch);

		if (n <= 0)
			break;
		b->block[b->blocks].number = number;
		b->block[b->blocks++].items = (uint32_t)n;
	}
	r->unit = unit;
}

/* Reads new blocks. After a resize, first reads the previous object to its end. */
static void read_objects(struct collect_reports *r, struct lane *l, const struct dta_held *held,
			 struct batch *b)
{
	size_t i = dta_append_seek(held, l->next, &l->reader);
	const bool ended = dta_append_ended(held, i, l->reader.list, l->reader.lane);
	const uint64_t before = l->reader.block;

	read_blocks(r, l, held->view[i], b);
	if (ended && l->reader.block == before) {
		l->reader.block = 0;
		read_blocks(r, l, held->view[--i], b);
	}
	l->next = dta_append_position(held->view[i], l->reader.block);
}

static void read_lane(struct collect_reports *r, struct lane *l, struct batch *b)
{
	uint64_t before = l->reader.overrun;
	struct dta_held held;

	b->blocks = 0;
	b->flow.fields = 0;
	if (!dta_store_server_hold(r->stores, l->store, &held))
		return;
	if (held.count && !l->begun)
		begin_lane(r, l, &held);
	if (held.count)
		read_objects(r, l, &held, b);
	if (held.layout[1] &&
	    (!dta_layout_read(held.layout[1], &b->flow) || !collect_flows_has(&b->flow)))
		b->flow.fields = 0;
	dta_store_server_release(r->stores, &held);
	relaxed_bump(r->overrun, l->reader.overrun - before);
}

static bool produce_flow(struct collect_reports *r, const struct lane *l, const struct batch *b,
			 const uint8_t *value)
{
	uint8_t message[COLLECT_FLOWS_MESSAGE_MAX];
	char key[512], *text;
	struct dta_record f;
	json_t *j;
	int err;

	key_of(l, key, sizeof(key));
	if (!dta_layout_take(&b->flow, value, b->value_bytes, &f))
		return true; /* the layout was checked when the store was made */
	if (!r->json)
		return !export_kafka_send(r->kafka, EXPORT_KAFKA_FLOWS, key, message,
					  collect_flows_protobuf(&f, base_realtime_ns(), message));
	j = collect_flows_json(&f);
	text = json_dumps(j, JSON_COMPACT);
	err = text ? export_kafka_send(r->kafka, EXPORT_KAFKA_FLOWS, key, text, strlen(text))
		   : -ENOMEM;
	free(text);
	json_decref(j);
	return !err;
}

static void send_ipfix(struct collect_reports *r)
{
	const uint32_t records = r->message.records;
	const size_t bytes = collect_flows_ipfix_take(&r->message);
	ssize_t sent = send(r->ipfix, r->message.at, bytes, MSG_NOSIGNAL);

	/* the error reports that nothing listened when an earlier message arrived */
	if (sent < 0 && errno == ECONNREFUSED)
		sent = send(r->ipfix, r->message.at, bytes, MSG_NOSIGNAL);
	if (sent == (ssize_t)bytes)
		relaxed_bump(r->ipfix_records, records);
	else
		relaxed_bump(r->ipfix_lost, records);
}

static void add_ipfix(struct collect_reports *r, const struct batch *b, const uint8_t *value)
{
	const uint64_t now = base_realtime_ns();
	struct dta_record f;

	if (!dta_layout_take(&b->flow, value, b->value_bytes, &f))
		return;
	if (collect_flows_ipfix_add(&r->message, &f, now))
		return;
	send_ipfix(r);
	collect_flows_ipfix_add(&r->message, &f, now);
}

static bool produce_item(struct collect_reports *r, const struct lane *l, const struct batch *b,
			 uint32_t block, uint32_t index, const uint8_t *value)
{
	char key[512], hex[2 * SL_STORE_VALUE_MAX + 1];
	struct base_json j;
	int err;

	base_hex(hex, value, b->value_bytes);
	key_of(l, key, sizeof(key));
	base_json_init(&j, 8192);
	base_put_object(&j, NULL, KV("store", (const char *)l->store), KV("list", l->reader.list),
			KV("lane", l->reader.lane), KV("epoch", b->epoch),
			KV("block", b->block[block].number), KV("index", index),
			KV("value", (const char *)hex));
	err = j.overflow ? -ENOMEM
			 : export_kafka_send(r->kafka, EXPORT_KAFKA_REPORTS, key, j.buf, j.len);
	base_json_free(&j);
	return !err;
}

/*
 * Waits until each produced message has been delivered or has failed. Returns false if the thread
 * must stop.
 */
static bool wait_settled(struct collect_reports *r, enum export_kafka_kind kind,
			 struct export_kafka_stats *st)
{
	for (;;) {
		export_kafka_stats(r->kafka, kind, st);
		if (!st->waiting)
			return true;
		if (base_stop_wait(r->thread.stop, 5))
			return false;
	}
}

static const uint8_t *item_at(const struct collect_reports *r, const struct batch *b,
			      uint32_t block, uint32_t i)
{
	return r->items + block * r->unit + (size_t)i * b->value_bytes;
}

/*
 * Produces the new items of a lane. If an item was not delivered, production later resumes at the
 * last acknowledged position. Returns false if the thread must stop.
 */
static bool follow_lane(struct collect_reports *r, struct lane *l, bool *any)
{
	const uint64_t start = base_now_ns();
	struct export_kafka_stats before, after;
	enum export_kafka_kind kind;
	struct batch b;
	bool good = true;

	if (start < l->again_ns)
		return true;
	read_lane(r, l, &b);
	if (!b.blocks)
		return true;
	*any = true;
	kind = b.flow.fields ? EXPORT_KAFKA_FLOWS : EXPORT_KAFKA_REPORTS;
	export_kafka_stats(r->kafka, kind, &before);
	for (uint32_t k = 0; k < b.blocks && r->kafka; k++)
		for (uint32_t i = 0; i < b.block[k].items && good; i++) {
			const uint8_t *value = item_at(r, &b, k, i);

			good = b.flow.fields ? produce_flow(r, l, &b, value)
					     : produce_item(r, l, &b, k, i, value);
		}
	if (!wait_settled(r, kind, &after))
		return false;
	if (!good || after.dropped_failed != before.dropped_failed ||
	    after.dropped_full != before.dropped_full) {
		const uint64_t now = base_now_ns();

		/* A lane whose failures take long leaves the other lanes as much time. */
		l->next = l->saved;
		l->again_ns = now + BASE_MAX(AGAIN_MS * 1000000ull, now - start);
		return true;
	}
	l->saved = l->next;
	/*
	 * Send only after Kafka has accepted the items: otherwise, items that Kafka refuses would
	 * be sent twice.
	 */
	for (uint32_t k = 0; k < b.blocks && b.flow.fields && r->ipfix >= 0; k++)
		for (uint32_t i = 0; i < b.block[k].items; i++)
			add_ipfix(r, &b, item_at(r, &b, k, i));
	if (r->message.records)
		send_ipfix(r);
	return true;
}

static void *reports_main(void *arg)
{
	struct collect_reports *r = arg;
	uint64_t look = 0, save = 0;
	bool unsaved = false;
	int wait = 0;

	pthread_setname_np(pthread_self(), "reports");
	while (!base_stop_wait(r->thread.stop, wait)) {
		bool any = false, on = true;

		if (base_now_ns() >= look) {
			find_stores(r);
			look = base_now_ns() + STORES_MS * 1000000ull;
		}
		for (size_t i = 0; i < r->lanes && on; i++)
			on = follow_lane(r, &r->lane[i], &any);
		unsaved |= any;
		if (unsaved && base_now_ns() >= save) {
			save_offsets(r);
			unsaved = false;
			save = base_now_ns() + SAVE_MS * 1000000ull;
		}
		wait = any ? 0 : POLL_MS;
	}
	if (unsaved)
		save_offsets(r);
	return NULL;
}

/* ---- start and end ---- */

/* Returns a socket, -1 with one line in error. */
static int connect_ipfix(const char *address, char *error, size_t error_bytes)
{
	struct addrinfo *all;
	const char *why = base_resolve(address, "localhost", SOCK_DGRAM, &all);
	int fd = -1;

	for (struct addrinfo *a = why ? NULL : all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	if (!why)
		freeaddrinfo(all);
	if (fd < 0)
		snprintf(error, error_bytes, "--ipfix '%s': %s", address, why ?: strerror(errno));
	return fd;
}

struct collect_reports *collect_reports_new(const struct collect_reports_opts *opts, char *error,
					    size_t error_bytes)
{
	struct collect_reports *r = calloc(1, sizeof(*r));

	snprintf(error, error_bytes, "out of memory");
	if (!r)
		return NULL;
	r->stores = opts->stores;
	r->kafka = opts->kafka;
	r->json = opts->json;
	r->ipfix = -1;
	r->path = opts->offsets ? strdup(opts->offsets) : NULL;
	if ((opts->offsets && !r->path) || load_offsets(r, error, error_bytes) ||
	    (opts->ipfix && (r->ipfix = connect_ipfix(opts->ipfix, error, error_bytes)) < 0)) {
		collect_reports_free(r);
		return NULL;
	}
	return r;
}

int collect_reports_start(struct collect_reports *r)
{
	return base_thread_start(&r->thread, reports_main, r);
}

void collect_reports_free(struct collect_reports *r)
{
	if (!r)
		return;
	base_thread_stop(&r->thread);
	for (size_t i = 0; i < r->lanes; i++)
		free(r->lane[i].store);
	if (r->ipfix >= 0)
		close(r->ipfix);
	json_decref(r->offsets);
	free(r->lane);
	free(r->items);
	free(r->path);
	free(r);
}

/* ---- the collector's own series ---- */

#define OF_REPORTS(field) OF(NULL, ATTACHED, collect_reports, field)

static const struct collect_self_family lists_families[] = {
	{"sidelight_kafka_overrun_blocks", COUNTER, "",
	 "List blocks overwritten before they could be sent to Kafka.",
	 SINGLE(OF_REPORTS(overrun))},
	{"sidelight_ipfix_sent_records", COUNTER, "", "Flows sent as IPFIX.",
	 SINGLE(OF_REPORTS(ipfix_records))},
	{"sidelight_ipfix_lost_records", COUNTER, "", "Flows that the socket for IPFIX refused.",
	 SINGLE(OF_REPORTS(ipfix_lost))},
};

static const struct collect_part lists_part = {COLLECT_SELF_FAMILIES(lists)};

int collect_self_reports(struct collect_collector *c, struct collect_reports *reports)
{
	return collect_collector_attach(c, &lists_part, reports);
}
