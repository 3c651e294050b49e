// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "sketch/space_saving.h"

#define NONE UINT32_MAX

struct space_saving_item {
	uint64_t count, error, hash;
	uint32_t at; /* index in heap */
};

/*
 * Items 0..used-1 are in use. heap is a min-heap of their indices, ordered by count. table holds
 * their indices by hash, with linear probing, and is at most half full.
 */
struct sketch_space_saving {
	uint32_t m, key_bytes, used, mask;
	uint64_t seed, total;
	struct space_saving_item *item;
	uint32_t *heap, *table;
	uint8_t *key;
};

struct sketch_space_saving *sketch_space_saving_new(uint32_t m, uint32_t key_bytes, uint64_t seed)
{
	struct sketch_space_saving *s;
	uint32_t slots = 4;

	if (!m || m > SKETCH_SPACE_SAVING_MAX || !key_bytes ||
	    key_bytes > SKETCH_SPACE_SAVING_KEY_MAX) {
		errno = EINVAL;
		return NULL;
	}
	while (slots < 2 * m)
		slots *= 2;
	s = malloc(sizeof(*s) + m * sizeof(*s->item) + (m + (size_t)slots) * sizeof(uint32_t) +
		   (size_t)m * key_bytes);
	if (!s)
		return NULL;
	*s = (struct sketch_space_saving){
		.m = m, .key_bytes = key_bytes, .mask = slots - 1, .seed = seed};
	s->item = (struct space_saving_item *)(s + 1);
	s->heap = (uint32_t *)(s->item + m);
	s->table = s->heap + m;
	s->key = (uint8_t *)(s->table + slots);
	memset(s->table, 0xff, (size_t)slots * sizeof(*s->table));
	return s;
}

void sketch_space_saving_free(struct sketch_space_saving *s)
{
	free(s);
}

static uint8_t *key_of(const struct sketch_space_saving *s, uint32_t i)
{
	return s->key + (size_t)i * s->key_bytes;
}

/* Returns the key's slot, or the free slot where it belongs. */
static uint32_t slot_of(const struct sketch_space_saving *s, const void *key, uint64_t hash)
{
	uint32_t slot = (uint32_t)hash & s->mask;

	while (s->table[slot] != NONE) {
		const uint32_t i = s->table[slot];

		if (s->item[i].hash == hash && !memcmp(key_of(s, i), key, s->key_bytes))
			break;
		slot = (slot + 1) & s->mask;
	}
	return slot;
}

/* Frees a slot and moves up the entries that were probed past it. */
static void slot_free(struct sketch_space_saving *s, uint32_t slot)
{
	for (uint32_t next = slot;;) {
		uint32_t home;

		next = (next + 1) & s->mask;
		if (s->table[next] == NONE)
			break;
		home = (uint32_t)s->item[s->table[next]].hash & s->mask;
		if (((next - home) & s->mask) < ((next - slot) & s->mask))
			continue;
		s->table[slot] = s->table[next];
		slot = next;
	}
	s->table[slot] = NONE;
}

static void heap_put(struct sketch_space_saving *s, uint32_t at, uint32_t i)
{
	s->heap[at] = i;
	s->item[i].at = at;
}

static void sift_down(struct sketch_space_saving *s, uint32_t i)
{
	const uint64_t count = s->item[i].count;
	uint32_t at = s->item[i].at;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= s->used)
			break;
		if (child + 1 < s->used &&
		    s->item[s->heap[child + 1]].count < s->item[s->heap[child]].count)
			child++;
		if (s->item[s->heap[child]].count >= count)
			break;
		heap_put(s, at, s->heap[child]);
		at = child;
	}
	heap_put(s, at, i);
}

static void sift_up(struct sketch_space_saving *s, uint32_t i)
{
	const uint64_t count = s->item[i].count;
	uint32_t at = s->item[i].at;

	while (at && s->item[s->heap[(at - 1) / 2]].count > count) {
		heap_put(s, at, s->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_put(s, at, i);
}

/* Stores a new key in a free counter. */
static void insert_key(struct sketch_space_saving *s, const void *key, uint64_t hash,
		       uint64_t count)
{
	const uint32_t i = s->used++;

	s->item[i] = (struct space_saving_item){.count = count, .hash = hash, .at = i};
	memcpy(key_of(s, i), key, s->key_bytes);
	s->table[slot_of(s, key, hash)] = i;
	sift_up(s, i);
}

int sketch_space_saving_add(struct sketch_space_saving *s, const void *key, uint64_t n)
{
	const uint64_t hash = base_hash(s->seed, key, s->key_bytes);
	uint32_t slot, i;

	if (__builtin_add_overflow(s->total, n, &s->total)) {
		s->total -= n;
		return -EOVERFLOW;
	}
	if (!n)
		return 0;
	slot = slot_of(s, key, hash);
	i = s->table[slot];
	if (i == NONE) {
		if (s->used < s->m) {
			insert_key(s, key, hash, n);
			return 0;
		}
		/* Reassign the smallest counter; its entire count may belong to the new key. */
		i = s->heap[0];
		slot_free(s, slot_of(s, key_of(s, i), s->item[i].hash));
		s->item[i].error = s->item[i].count;
		s->item[i].hash = hash;
		memcpy(key_of(s, i), key, s->key_bytes);
		s->table[slot_of(s, key, hash)] = i;
	}
	s->item[i].count += n;
	sift_down(s, i);
	return 0;
}

uint64_t sketch_space_saving_total(const struct sketch_space_saving *s)
{
	return s->total;
}

uint64_t sketch_space_saving_floor(const struct sketch_space_saving *s)
{
	return s->used < s->m ? 0 : s->item[s->heap[0]].count;
}

/* Orders by descending count, then by key. */
static bool sorts_before(const struct sketch_space_saving_item *a,
			 const struct sketch_space_saving_item *b, uint32_t key_bytes)
{
	if (a->count != b->count)
		return a->count > b->count;
	return memcmp(a->key, b->key, key_bytes) < 0;
}

uint32_t sketch_space_saving_top(const struct sketch_space_saving *s,
				 struct sketch_space_saving_item *out, uint32_t k)
{
	uint32_t have = 0;

	for (uint32_t i = 0; i < s->used; i++) {
		const struct sketch_space_saving_item item = {
			.key = key_of(s, i), .count = s->item[i].count, .error = s->item[i].error};
		uint32_t at = have;

		have += have < k;
		for (; at && sorts_before(&item, &out[at - 1], s->key_bytes); at--)
			if (at < k)
				out[at] = out[at - 1];
		if (at < k)
			out[at] = item;
	}
	return have;
}
