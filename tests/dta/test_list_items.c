// SPDX-License-Identifier: Apache-2.0
/* test_list_items.c - a list that Kafka refuses, or that finds no memory, stops no other. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "collect/self/reports.h"
#include "dta/store_server/server.h"
#include "export/kafka.h"
#include "store_write.h"

#define LANES 3u

static struct made refused_store, good_store;
static _Atomic bool refuses;
static _Atomic uint64_t flows, failed, items, syncs, unsynced;
static _Atomic int copies_left; /* number of copies of names until one fails */
static const char *const names[] = {"flows", "events", NULL};

/* ---- in place of Kafka, the store server, and libc ---- */

int __wrap_export_kafka_send(struct export_kafka *k, enum export_kafka_kind kind, const char *key,
			     const void *body, size_t bytes);
int __wrap_export_kafka_send(struct export_kafka *k, enum export_kafka_kind kind, const char *key,
			     const void *body, size_t bytes)
{
	(void)k, (void)key, (void)body, (void)bytes;
	if (kind == EXPORT_KAFKA_REPORTS)
		items++;
	else if (refuses)
		failed++;
	else
		flows++;
	return 0;
}

void __wrap_export_kafka_stats(struct export_kafka *k, enum export_kafka_kind kind,
			       struct export_kafka_stats *out);
void __wrap_export_kafka_stats(struct export_kafka *k, enum export_kafka_kind kind,
			       struct export_kafka_stats *out)
{
	(void)k;
	*out = (struct export_kafka_stats){.dropped_failed = kind == EXPORT_KAFKA_FLOWS ? failed
											: 0};
}

const char *__wrap_dta_store_server_name(const struct dta_store_server *o, size_t i);
const char *__wrap_dta_store_server_name(const struct dta_store_server *o, size_t i)
{
	(void)o;
	return names[i];
}

bool __wrap_dta_store_server_hold(struct dta_store_server *o, const char *name,
				  struct dta_held *held);
bool __wrap_dta_store_server_hold(struct dta_store_server *o, const char *name,
				  struct dta_held *held)
{
	const bool flow = !strcmp(name, "flows");

	(void)o;
	*held = (struct dta_held){.count = 1,
				  .view = {flow ? &refused_store.v : &good_store.v},
				  .layout = {NULL, flow ? "source,destination,bytes" : NULL}};
	return true;
}

void __wrap_dta_store_server_release(struct dta_store_server *o, struct dta_held *held);
void __wrap_dta_store_server_release(struct dta_store_server *o, struct dta_held *held)
{
	(void)o;
	(void)held;
}

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s)
{
	if (!strcmp(s, "events") && !--copies_left)
		return NULL;
	return __real_strdup(s);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	(void)fd;
	syncs++;
	return 0;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
	unsynced += !syncs;
	syncs = 0;
	return __real_rename(from, to);
}

/* ---- the tests ---- */

static int make_stores(void **state)
{
	const uint8_t flow[16] = {10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9};
	const uint64_t item = 7;
	struct sl_store_config c = {.kind = SL_STORE_APPEND,
				    .slots = 16,
				    .value_bytes = sizeof(flow),
				    .batch = 1,
				    .lists = 1,
				    .lanes = LANES};

	(void)state;
	if (!make_store(&refused_store, c))
		return -1;
	c.value_bytes = sizeof(item);
	if (!make_store(&good_store, c))
		return -1;
	for (uint32_t lane = 0; lane < LANES; lane++) {
		put_block(&refused_store, 0, lane, 0, flow, 1);
		put_block(&good_store, 0, lane, 0, &item, 1);
	}
	flows = failed = items = syncs = unsynced = 0;
	copies_left = 0;
	refuses = false;
	return 0;
}

static int free_stores(void **state)
{
	(void)state;
	free(refused_store.map);
	free(good_store.map);
	return 0;
}

static struct collect_reports *start(const char *offsets)
{
	static char kafka, stores;
	char error[256];
	struct collect_reports *r = collect_reports_new(
		&(struct collect_reports_opts){.stores = (struct dta_store_server *)&stores,
					       .kafka = (struct export_kafka *)&kafka,
					       .offsets = offsets},
		error, sizeof(error));

	assert_non_null(r);
	assert_int_equal(collect_reports_start(r), 0);
	return r;
}

static void wait_for(const _Atomic uint64_t *count, uint64_t n)
{
	for (int i = 0; *count < n && i < 1000; i++)
		usleep(10000);
	assert_true(*count >= n);
}

static void a_refused_topic_stops_no_other_store(void **state)
{
	struct collect_reports *r;

	(void)state;
	refuses = true;
	r = start(NULL);
	wait_for(&items, LANES);
	wait_for(&failed, LANES); /* each lane has its turn */
	assert_true(failed < 10 * LANES);
	refuses = false;
	wait_for(&flows, LANES);
	collect_reports_free(r);
	assert_int_equal(flows, LANES);
	assert_int_equal(items, LANES);
}

static void a_store_is_followed_with_all_its_lanes(void **state)
{
	struct collect_reports *r;

	(void)state;
	copies_left = 2;
	r = start(NULL);
	wait_for(&items, LANES);
	collect_reports_free(r);
	assert_int_equal(items, LANES);
}

static void offsets_are_on_the_disk_before_they_count(void **state)
{
	char folder[] = "/tmp/sidelight-XXXXXX", path[64];
	struct collect_reports *r;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/offsets", folder);
	r = start(path);
	wait_for(&items, LANES);
	collect_reports_free(r);
	assert_int_equal(unsynced, 0);
	assert_int_equal(access(path, R_OK), 0);
	r = start(path); /* nothing is sent again */
	usleep(200000);
	collect_reports_free(r);
	assert_int_equal(items, LANES);
	unlink(path);
	rmdir(folder);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, make_stores, free_stores)
	const struct CMUnitTest tests[] = {
		CASE(a_refused_topic_stops_no_other_store),
		CASE(a_store_is_followed_with_all_its_lanes),
		CASE(offsets_are_on_the_disk_before_they_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
