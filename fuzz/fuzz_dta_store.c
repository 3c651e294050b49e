// SPDX-License-Identifier: Apache-2.0
/*
 * What an owner of stores reads of others: the first byte says whether the rest is a file that
 * declares stores, an object (as it is, and with its checksums made right, and then every query of
 * it), or the text of a question.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/query.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dta/query/json.h"
#include "dta/store/stores.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask_all(const struct dta_store_view *v, const uint8_t *data, size_t size)
{
	struct dta_held held = {.count = 1, .view = {v}};
	struct dta_success success;
	struct dta_ask ask;
	char error[160];

	dta_ask_init(&ask);
	ask.key_bytes = 4 + size % 61;
	for (size_t i = 0; size && i < ask.key_bytes; i++)
		ask.key[i] = data[i % size];
	ask.policy = (enum sl_query_policy)(size % 3);
	json_decref(dta_query_json(&held, &ask, error, sizeof(error)));
	ask.epoch = size % 5;
	json_decref(dta_query_json(&held, &ask, error, sizeof(error)));
	dta_query_success(&held, &held, &success);
	json_decref(dta_query_load_json(&held, &success));
	json_decref(dta_query_keys_json(&held, &held, 10, true));
}

#define ROOM (1u << 18)

/* The same bytes as an application asks them. */
static void ask_library(const uint8_t *map, const uint8_t *data, size_t size)
{
	struct sl_query_opts opts = SL_OPTS(sl_query_opts, .copies = size % 9, .policy = size % 3);
	struct sl_keywrite_answer value = SL_OPTS(sl_keywrite_answer);
	struct sl_increment_answer count = SL_OPTS(sl_increment_answer);
	struct sl_postcard_answer path = SL_OPTS(sl_postcard_answer);
	struct sl_sketch_answer sketch = SL_OPTS(sl_sketch_answer);
	static uint8_t items[SL_STORE_BATCH_MAX * SL_STORE_VALUE_MAX];
	static int fd = -1;
	const struct sl_store_config *c;
	const size_t bytes = size < SL_STORE_KEY_MAX ? size : SL_STORE_KEY_MAX;
	struct sl_query_append_reader r;
	uint8_t results[4];
	double probability;
	struct sl_store *s;
	size_t found;
	uint32_t n;

	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_ALLOW_SEALING);
		if (ftruncate(fd, ROOM) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
			abort();
	}
	if (pwrite(fd, map, ROOM, 0) != ROOM)
		abort();
	s = sl_store_open_fd(fd, NULL, 0);
	if (!s)
		return;
	c = sl_store_config_get(s);
	opts.flags = size & 1 ? SL_QUERY_OF_EPOCH : 0;
	opts.epoch = data[0];
	sl_query_keywrite(s, data, bytes, &opts, &value);
	sl_query_keywrite_many(s, data, bytes / 4, 4, &opts, items, results, &found);
	sl_query_increment(s, data, bytes, &opts, &count);
	if (!sl_query_postcard(s, data, bytes, &opts, &path) && path.result == SL_QUERY_FOUND &&
	    (!path.hops || path.hops > c->hops))
		abort();
	sl_query_sketch(s, data, bytes, &opts, NULL, 0, &sketch);
	sl_query_found_probability(s, size % 9, size, &probability);
	if (!sl_query_append_begin(s, &r, c->lists - 1, c->lanes - 1, SL_QUERY_APPEND_OLDEST))
		for (int i = 0; i < 4; i++) {
			sl_query_append(s, &r, items, SL_STORE_BATCH_MAX, 0, &n);
			if (n > SL_STORE_BATCH_MAX)
				abort();
		}
	sl_store_close(s);
}

static void object(const uint8_t *data, size_t size)
{
	struct sl_store_config *c;
	struct sl_region_header *h;
	struct dta_store_view v;
	char error[160];
	uint8_t *map;
	uint64_t bytes;

	if (size < sizeof(*c) || size > 1u << 16)
		return;
	map = aligned_alloc(4096, ROOM);
	if (!map)
		abort();
	/* As it is, behind a header that is not repaired. */
	memset(map, 0, ROOM);
	memcpy(map, data, size);
	if (!dta_store_view(map, ROOM, &v, error, sizeof(error)))
		ask_all(&v, data, size);
	ask_library(map, data, size);
	/*
	 * A right header over any configuration that is in its bounds, and any bytes in its banks.
	 */
	memset(map, 0, ROOM);
	c = (void *)(map + SL_STORE_CONFIG_OFFSET);
	memcpy(c, data, sizeof(*c));
	c->kind = 1 + c->kind % 5;
	memset(c->reserved, 0, sizeof(c->reserved));
	if (!dta_store_config_check(c, error, sizeof(error))) {
		struct sl_store_config copy = *c;

		bytes = dta_store_object_bytes(&copy);
		if (bytes <= ROOM) {
			dta_store_format(map, &copy, "fuzz");
			h = (void *)map;
			if (h->size != bytes ||
			    dta_store_view(map, bytes, &v, error, sizeof(error)))
				abort();
			for (uint64_t i = SL_STORE_BANKS_OFFSET; i < bytes; i++)
				map[i] = data[i % size];
			ask_all(&v, data, size);
			ask_library(map, data, size);
		}
	}
	free(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dta_ask ask;
	char error[512], *text;
	size_t n;

	if (!size)
		return 0;
	switch (data[0] % 3) {
	case 0:
		dta_stores_config_free(dta_stores_text("f", (const char *)data + 1, size - 1, error,
						       sizeof(error)));
		break;
	case 1:
		object(data + 1, size - 1);
		break;
	default:
		text = malloc(size);
		if (!text)
			abort();
		memcpy(text, data + 1, size - 1);
		text[size - 1] = 0;
		n = strcspn(text, "=");
		dta_ask_init(&ask);
		if (text[n]) {
			text[n] = 0;
			dta_ask_set(&ask, text, text + n + 1);
		}
		free(text);
	}
	return 0;
}
