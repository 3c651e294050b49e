// SPDX-License-Identifier: Apache-2.0
#include "collect/self/reports.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <jansson.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/relaxed.h"
#include "collect/read/self.h"
#include "collect/self/self.h"
#include "dta/query/query.h"
#include "dta/store_server/server.h"
#include "export/kafka.h"

#define BLOCKS	    256u /* maximum blocks read from a lane at a time */
#define STORES_MS   1000 /* time between two searches for stores */
#define POLL_MS	    20	 /* pause when there was nothing to read */
#define AGAIN_MS    1000 /* pause after a failed delivery */
#define OFFSETS_MAX (16u << 20)

struct lane {
	char *store;
	struct sl_query_append_reader reader;
	uint64_t saved; /* number of the first block that is not acknowledged */
	bool begun;
};

struct collect_reports {
	struct dta_store_server *stores;
	struct export_kafka *kafka;
	char *path;
	json_t *offsets; /* {"STORE/LIST/LANE": block} */
	struct lane *lane;
	size_t lanes, lane_room;
	uint8_t *items;
	size_t items_room, unit; /* unit: bytes of a block of items */
	uint64_t overrun;
	pthread_t thread;
	bool running;
	int stop;
};

static void key_of(const struct lane *l, char *key, size_t bytes)
{
	snprintf(key, bytes, "%s/%u/%u", l->store, l->reader.list, l->reader.lane);
}

/* ---- saved positions ---- */

static bool write_offsets(const struct collect_reports *r, const char *path)
{
	FILE *f = base_create_file(path);
	bool good = f && !json_dumpf(r->offsets, f, JSON_INDENT(1) | JSON_SORT_KEYS);

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
		base_log_limited(BASE_WARN, "kafka", "offsets not saved path=%s error=%s", r->path,
				 strerror(errno));
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
	if (!text && r->path && errno != ENOENT) {
		snprintf(error, error_bytes, "%s: %s", r->path, strerror(errno));
		return -errno;
	}
	if (!text)
		return 0;
	json_decref(r->offsets);
	r->offsets = json_loadb(text, bytes, 0, &why);
	free(text);
	if (json_is_object(r->offsets))
		return 0;
	snprintf(error, error_bytes, "%s: not a file of offsets; move it away", r->path);
	return -EINVAL;
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

	if (is_known(r, name) || !dta_store_server_hold(r->stores, name, &held))
		return;
	if (held.count && held.view[0]->config->kind == SL_STORE_APPEND) {
		lists = held.view[0]->config->lists;
		lanes = held.view[0]->config->lanes;
	}
	dta_store_server_release(r->stores);
	for (uint32_t i = 0; i < lists * lanes; i++) {
		struct lane *l;

		if (!BASE_GROW(r->lane, r->lanes, r->lane_room))
			return;
		l = &r->lane[r->lanes];
		*l = (struct lane){.store = strdup(name),
				   .reader = {.list = i / lanes, .lane = i % lanes}};
		r->lanes += l->store != NULL;
	}
}

static void find_stores(struct collect_reports *r)
{
	json_t *status = dta_store_server_json(r->stores), *store;
	size_t i;

	json_array_foreach(json_object_get(status, "stores"), i, store)
	{
		const char *name = json_string_value(json_object_get(store, "name"));

		if (name)
			add_store(r, name);
	}
	json_decref(status);
}

/* ---- following ---- */

/* Sets the lane's start: the saved position, unless the store has been recreated since. */
static void begin_lane(struct collect_reports *r, struct lane *l, const struct dta_store_view *v)
{
	char key[512];
	json_t *saved;

	key_of(l, key, sizeof(key));
	saved = json_object_get(r->offsets, key);
	l->reader.block = dta_append_oldest(v, l->reader.list, l->reader.lane);
	if (json_is_integer(saved)) {
		uint64_t at = (uint64_t)json_integer_value(saved);
		uint64_t next = dta_append_next(v, l->reader.list, l->reader.lane);

		if (at <= next && at >= l->reader.block) {
			l->reader.block = at;
		} else if (at < l->reader.block) {
			relaxed_bump(r->overrun, l->reader.block - at);
		}
	}
	l->saved = l->reader.block;
	l->begun = true;
}

struct batch {
	uint32_t value_bytes, blocks;
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

static void read_lane(struct collect_reports *r, struct lane *l, struct batch *b)
{
	uint64_t before = l->reader.overrun;
	struct dta_held held;

	b->blocks = 0;
	if (!dta_store_server_hold(r->stores, l->store, &held))
		return;
	if (held.count && !l->begun)
		begin_lane(r, l, held.view[0]);
	if (held.count)
		read_blocks(r, l, held.view[0], b);
	dta_store_server_release(r->stores);
	relaxed_bump(r->overrun, l->reader.overrun - before);
}

static bool produce_item(struct collect_reports *r, const struct lane *l, uint64_t block,
			 uint32_t index, const uint8_t *value, uint32_t bytes)
{
	static const char digits[] = "0123456789abcdef";
	char key[512], hex[2 * SL_STORE_VALUE_MAX + 1];
	struct base_json j;
	int err;

	for (uint32_t i = 0; i < bytes; i++) {
		hex[2 * i] = digits[value[i] >> 4];
		hex[2 * i + 1] = digits[value[i] & 15];
	}
	hex[2 * bytes] = 0;
	key_of(l, key, sizeof(key));
	base_json_init(&j, 8192);
	base_put_object(&j, NULL, KV("store", (const char *)l->store), KV("list", l->reader.list),
			KV("lane", l->reader.lane), KV("block", block), KV("index", index),
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
static bool wait_settled(struct collect_reports *r, struct export_kafka_stats *st)
{
	for (;;) {
		export_kafka_stats(r->kafka, EXPORT_KAFKA_REPORTS, st);
		if (!st->waiting)
			return true;
		if (base_stop_wait(r->stop, 5))
			return false;
	}
}

/*
 * Produces the new items of a lane. Returns false if an item was not delivered; production then
 * resumes at the last acknowledged position.
 */
static bool follow_lane(struct collect_reports *r, struct lane *l, bool *any)
{
	struct export_kafka_stats before, after;
	struct batch b;
	bool good = true;

	read_lane(r, l, &b);
	if (!b.blocks)
		return true;
	*any = true;
	export_kafka_stats(r->kafka, EXPORT_KAFKA_REPORTS, &before);
	for (uint32_t k = 0; k < b.blocks; k++)
		for (uint32_t i = 0; i < b.block[k].items && good; i++)
			good = produce_item(r, l, b.block[k].number, i,
					    r->items + k * r->unit + (size_t)i * b.value_bytes,
					    b.value_bytes);
	if (!wait_settled(r, &after))
		return false;
	if (!good || after.dropped_failed != before.dropped_failed ||
	    after.dropped_full != before.dropped_full) {
		l->reader.block = l->saved;
		return false;
	}
	l->saved = l->reader.block;
	return true;
}

static void *reports_main(void *arg)
{
	struct collect_reports *r = arg;
	uint64_t look = 0;
	int wait = 0;

	pthread_setname_np(pthread_self(), "reports");
	while (!base_stop_wait(r->stop, wait)) {
		bool any = false, good = true;

		if (base_now_ns() >= look) {
			find_stores(r);
			look = base_now_ns() + STORES_MS * 1000000ull;
		}
		for (size_t i = 0; i < r->lanes && good; i++)
			good = follow_lane(r, &r->lane[i], &any);
		if (any)
			save_offsets(r);
		wait = !good ? AGAIN_MS : any ? 0 : POLL_MS;
	}
	return NULL;
}

/* ---- start and end ---- */

struct collect_reports *collect_reports_new(struct dta_store_server *stores,
					    struct export_kafka *kafka, const char *offsets,
					    char *error, size_t error_bytes)
{
	struct collect_reports *r = calloc(1, sizeof(*r));

	snprintf(error, error_bytes, "out of memory");
	if (!r)
		return NULL;
	r->stores = stores;
	r->kafka = kafka;
	r->stop = eventfd(0, EFD_CLOEXEC);
	r->path = offsets ? strdup(offsets) : NULL;
	if (r->stop < 0 || (offsets && !r->path) || load_offsets(r, error, error_bytes)) {
		collect_reports_free(r);
		return NULL;
	}
	return r;
}

int collect_reports_start(struct collect_reports *r)
{
	int err = -pthread_create(&r->thread, NULL, reports_main, r);

	r->running = !err;
	return err;
}

uint64_t collect_reports_overrun(const struct collect_reports *r)
{
	return r ? relaxed_load(r->overrun) : 0;
}

void collect_reports_free(struct collect_reports *r)
{
	if (!r)
		return;
	if (r->running) {
		eventfd_write(r->stop, 1);
		pthread_join(r->thread, NULL);
	}
	for (size_t i = 0; i < r->lanes; i++)
		free(r->lane[i].store);
	if (r->stop >= 0)
		close(r->stop);
	json_decref(r->offsets);
	free(r->lane);
	free(r->items);
	free(r->path);
	free(r);
}

/* ---- the collector's own series ---- */

SINGLE(overrun, collect_reports_overrun(s->arg))

static const struct collect_self_family lists_families[] = {
	{"sidelight_kafka_overrun_blocks", COUNTER, "",
	 "Blocks of lists that were overwritten before they were read for Kafka.", overrun},
};

static COLLECT_SELF_GROUP(lists, NULL);

static const struct collect_part reports_part = {
	.groups = (const struct collect_self_group *const[]){&collect_self_lists, NULL},
};

int collect_self_reports(struct collect_collector *c, struct collect_reports *reports)
{
	return collect_collector_attach(c, &reports_part, reports);
}
