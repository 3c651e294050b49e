// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/hash.h"
#include "sketch/space_saving.h"
#include "sketch/wire.h"

#define NONE UINT32_MAX

struct space_saving_item {
	uint64_t count, error, hash;
	uint32_t at; /* index into heap */
};

/*
 * Items 0..used-1 are in use. heap holds their indices as a min-heap by count; table, at most half
 * full, holds them by hash with linear probing.
 */
struct sketch_space_saving {
	uint32_t m, key_bytes, used, mask;
	uint64_t seed, total;
	struct space_saving_item *item;
	uint32_t *heap, *table;
	uint8_t *key;
};

static bool fits(uint32_t m, uint32_t key_bytes)
{
	return m && m <= SKETCH_SPACE_SAVING_MAX && key_bytes &&
	       key_bytes <= SKETCH_SPACE_SAVING_KEY_MAX;
}

struct sketch_space_saving *sketch_space_saving_new(uint32_t m, uint32_t key_bytes, uint64_t seed)
{
	struct sketch_space_saving *s;
	uint32_t slots = 4;

	if (!fits(m, key_bytes)) {
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
	sketch_space_saving_clear(s);
	return s;
}

void sketch_space_saving_free(struct sketch_space_saving *s)
{
	free(s);
}

void sketch_space_saving_clear(struct sketch_space_saving *s)
{
	memset(s->table, 0xff, ((size_t)s->mask + 1) * sizeof(*s->table));
	s->used = 0;
	s->total = 0;
}

static uint8_t *key_of(const struct sketch_space_saving *s, uint32_t i)
{
	return s->key + (size_t)i * s->key_bytes;
}

/* The slot of the key, or the free slot where it belongs. */
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

/* Frees a slot and moves up what was probed past it. */
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

/* Puts a new key into a free counter. */
static void insert(struct sketch_space_saving *s, const void *key, uint64_t hash, uint64_t count,
		   uint64_t error)
{
	const uint32_t i = s->used++;

	s->item[i] =
		(struct space_saving_item){.count = count, .error = error, .hash = hash, .at = i};
	memcpy(key_of(s, i), key, s->key_bytes);
	s->table[slot_of(s, key, hash)] = i;
	sift_up(s, i);
}

int sketch_space_saving_add(struct sketch_space_saving *s, const void *key, uint64_t n)
{
	const uint64_t hash = sketch_hash_bytes(key, s->key_bytes, s->seed);
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
			insert(s, key, hash, n, 0);
			return 0;
		}
		/* The smallest counter is reassigned; its count may all have been the new key's. */
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

static struct sketch_space_saving_item shown(const struct sketch_space_saving *s, uint32_t i)
{
	return (struct sketch_space_saving_item){
		.key = key_of(s, i), .count = s->item[i].count, .error = s->item[i].error};
}

static bool before(const struct sketch_space_saving_item *a,
		   const struct sketch_space_saving_item *b, uint32_t key_bytes)
{
	if (a->count != b->count)
		return a->count > b->count;
	return memcmp(a->key, b->key, key_bytes) < 0;
}

/* Sifts down in a heap of k items that has the last in order at its root. */
static void last_down(struct sketch_space_saving_item *v, uint32_t k, uint32_t at,
		      uint32_t key_bytes)
{
	const struct sketch_space_saving_item x = v[at];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= k)
			break;
		if (child + 1 < k && before(&v[child], &v[child + 1], key_bytes))
			child++;
		if (!before(&x, &v[child], key_bytes))
			break;
		v[at] = v[child];
		at = child;
	}
	v[at] = x;
}

/* Keeps x if it is among the best k; *have are there. */
static void offer(struct sketch_space_saving_item *v, uint32_t k, uint32_t *have,
		  struct sketch_space_saving_item x, uint32_t key_bytes)
{
	if (*have < k) {
		v[(*have)++] = x;
		if (*have == k)
			for (uint32_t i = k / 2; i-- > 0;)
				last_down(v, k, i, key_bytes);
	} else if (k && before(&x, &v[0], key_bytes)) {
		v[0] = x;
		last_down(v, k, 0, key_bytes);
	}
}

static void in_order(struct sketch_space_saving_item *v, uint32_t have, uint32_t key_bytes)
{
	for (uint32_t i = have / 2; i-- > 0;)
		last_down(v, have, i, key_bytes);
	for (uint32_t n = have; n > 1; n--) {
		const struct sketch_space_saving_item last = v[0];

		v[0] = v[n - 1];
		v[n - 1] = last;
		last_down(v, n - 1, 0, key_bytes);
	}
}

uint32_t sketch_space_saving_top(const struct sketch_space_saving *s,
				 struct sketch_space_saving_item *out, uint32_t k)
{
	uint32_t have = 0;

	for (uint32_t i = 0; i < s->used; i++)
		offer(out, k, &have, shown(s, i), s->key_bytes);
	in_order(out, have, s->key_bytes);
	return have;
}

int sketch_space_saving_find(const struct sketch_space_saving *s, const void *key,
			     struct sketch_space_saving_item *out)
{
	const uint32_t i = s->table[slot_of(s, key, sketch_hash_bytes(key, s->key_bytes, s->seed))];

	if (i == NONE)
		return -ENOENT;
	*out = shown(s, i);
	return 0;
}

int sketch_space_saving_merge(struct sketch_space_saving *into,
			      const struct sketch_space_saving *from)
{
	const uint64_t floor_into = sketch_space_saving_floor(into);
	const uint64_t floor_from = sketch_space_saving_floor(from);
	struct sketch_space_saving_item *best, x, y;
	struct sketch_space_saving *to;
	uint32_t have = 0;
	uint64_t total;

	if (into == from || into->m != from->m || into->key_bytes != from->key_bytes)
		return -EINVAL;
	if (__builtin_add_overflow(into->total, from->total, &total))
		return -EOVERFLOW;
	to = sketch_space_saving_new(into->m, into->key_bytes, into->seed);
	best = malloc(into->m * sizeof(*best));
	if (!to || !best) {
		free(to);
		free(best);
		return -ENOMEM;
	}
	/* A key that one side lacks was counted there at most as often as its floor. */
	for (uint32_t i = 0; i < into->used; i++) {
		x = shown(into, i);
		if (sketch_space_saving_find(from, x.key, &y))
			y.count = y.error = floor_from;
		x.count += y.count;
		x.error += y.error;
		offer(best, into->m, &have, x, into->key_bytes);
	}
	for (uint32_t i = 0; i < from->used; i++) {
		x = shown(from, i);
		if (!sketch_space_saving_find(into, x.key, &y))
			continue;
		x.count += floor_into;
		x.error += floor_into;
		offer(best, into->m, &have, x, into->key_bytes);
	}
	in_order(best, have, into->key_bytes);
	for (uint32_t i = have; i-- > 0;) /* ascending, which is a heap */
		insert(to, best[i].key, sketch_hash_bytes(best[i].key, to->key_bytes, to->seed),
		       best[i].count, best[i].error);
	memcpy(into->item, to->item, to->used * sizeof(*to->item));
	memcpy(into->heap, to->heap, to->used * sizeof(*to->heap));
	memcpy(into->table, to->table, ((size_t)to->mask + 1) * sizeof(*to->table));
	memcpy(into->key, to->key, (size_t)to->used * to->key_bytes);
	into->used = to->used;
	into->total = total;
	free(best);
	sketch_space_saving_free(to);
	return 0;
}

size_t sketch_space_saving_save_bytes(const struct sketch_space_saving *s)
{
	return SKETCH_FRAME + 3 * 4 + 2 * 8 + (size_t)s->used * (16 + s->key_bytes);
}

int64_t sketch_space_saving_save(const struct sketch_space_saving *s, void *buf, size_t bytes)
{
	struct sketch_wire w;
	int rc = sketch_wire_begin(&w, buf, bytes, sketch_space_saving_save_bytes(s),
				   SKETCH_SPACE_SAVING);

	if (rc)
		return rc;
	sketch_put_u32(&w, s->m);
	sketch_put_u32(&w, s->key_bytes);
	sketch_put_u32(&w, s->used);
	sketch_put_u64(&w, s->seed);
	sketch_put_u64(&w, s->total);
	/* In heap order, so that a loaded sketch evolves exactly as this one. */
	for (uint32_t at = 0; at < s->used; at++) {
		const uint32_t i = s->heap[at];

		sketch_put_u64(&w, s->item[i].count);
		sketch_put_u64(&w, s->item[i].error);
		sketch_put_bytes(&w, key_of(s, i), s->key_bytes);
	}
	return sketch_wire_end(&w, buf);
}

int sketch_space_saving_load(struct sketch_space_saving **out, const void *buf, size_t bytes)
{
	uint8_t key[SKETCH_SPACE_SAVING_KEY_MAX];
	uint32_t m, key_bytes, used;
	struct sketch_space_saving *s;
	struct sketch_wire_in r;
	uint64_t sum = 0;
	int rc = sketch_wire_open(&r, buf, bytes, SKETCH_SPACE_SAVING);

	if (rc)
		return rc;
	m = sketch_take_u32(&r);
	key_bytes = sketch_take_u32(&r);
	used = sketch_take_u32(&r);
	if (!fits(m, key_bytes) || used > m ||
	    bytes != SKETCH_FRAME + 3 * 4 + 2 * 8 + (size_t)used * (16 + key_bytes))
		return -EINVAL;
	s = sketch_space_saving_new(m, key_bytes, sketch_take_u64(&r));
	if (!s)
		return -errno;
	s->total = sketch_take_u64(&r);
	for (uint32_t i = 0; i < used; i++) {
		const uint64_t count = sketch_take_u64(&r), error = sketch_take_u64(&r);
		uint64_t hash;

		sketch_take_bytes(&r, key, key_bytes);
		hash = sketch_hash_bytes(key, key_bytes, s->seed);
		/* Items form a heap, keys are distinct, and counts sum to at most the total. */
		if (!count || error >= count || __builtin_add_overflow(sum, count, &sum) ||
		    sum > s->total || s->table[slot_of(s, key, hash)] != NONE ||
		    (i && count < s->item[s->heap[(i - 1) / 2]].count))
			goto refuse;
		insert(s, key, hash, count, error);
	}
	/* Until all counters are in use, nothing is lost. */
	if (!sketch_wire_done(&r) || (used < m && sum != s->total))
		goto refuse;
	*out = s;
	return 0;

refuse:
	sketch_space_saving_free(s);
	return -EINVAL;
}
