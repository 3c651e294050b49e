// SPDX-License-Identifier: Apache-2.0
/*
 * table.c - the regions of a link: by instance, by age, and the urgent ones, which are looked after
 * beside the rounds.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "collect/kernel/table_reader.h"

#define BUCKETS 256u

int collect_table_init(struct collect_link *l)
{
	l->buckets = BUCKETS;
	l->bucket = calloc(l->buckets, sizeof(*l->bucket));
	return l->bucket ? 0 : -ENOMEM;
}

void collect_table_free(struct collect_link *l)
{
	if (l->table[TABLE_FLOWS].region)
		collect_tables_gone(l, l->table[TABLE_FLOWS].region);
	for (uint32_t i = 0; i < l->regions; i++) {
		collect_tap_gone(l->region[i]);
		collect_region_unmap(l, l->region[i]);
		collect_region_put(l->region[i]);
	}
	free(l->region);
	free(l->bucket);
	free(l->urgent);
}

static struct collect_region **place_of(struct collect_link *l, uint64_t instance)
{
	uint64_t h = (instance ^ l->c->seed) * SL_LINE_K1;

	return &l->bucket[(h ^ h >> 32) % l->buckets];
}

struct collect_region *collect_table_find(struct collect_link *l, uint64_t instance)
{
	for (struct collect_region *r = *place_of(l, instance); r; r = r->hash_next)
		if (r->instance == instance)
			return r;
	return NULL;
}

static void unhash(struct collect_link *l, struct collect_region *r)
{
	struct collect_region **at = place_of(l, r->instance);

	while (*at != r)
		at = &(*at)->hash_next;
	*at = r->hash_next;
}

static void grow_buckets(struct collect_link *l)
{
	uint32_t n = l->buckets * 4;
	struct collect_region **to = calloc(n, sizeof(*to));

	if (!to)
		return;
	free(l->bucket);
	l->bucket = to;
	l->buckets = n;
	for (uint32_t i = 0; i < l->regions; i++) {
		struct collect_region *r = l->region[i], **at;

		if (r->gone)
			continue;
		at = place_of(l, r->instance);
		r->hash_next = *at;
		*at = r;
	}
}

void collect_table_urgent(struct collect_link *l, struct collect_region *r)
{
	if (r->urgent || !BASE_GROW(l->urgent, l->urgents, l->urgent_capacity))
		return;
	r->urgent = true;
	l->urgent[l->urgents++] = r;
}

struct collect_region *collect_table_add(struct collect_link *l, uint64_t instance)
{
	struct collect_collector *c = l->c;
	struct collect_region *r;

	if (relaxed_add(c->region_count, 1) >= c->opts.max_regions) {
		relaxed_sub(c->region_count, 1);
		return NULL;
	}
	r = BASE_GROW(l->region, l->regions, l->region_capacity)
		    ? collect_region_new(l, instance, relaxed_add(c->age, 1))
		    : NULL;
	if (!r) {
		relaxed_sub(c->region_count, 1);
		return NULL;
	}
	if (l->regions >= l->buckets)
		grow_buckets(l);
	l->region[l->regions++] = r;
	r->hash_next = *place_of(l, instance);
	*place_of(l, instance) = r;
	relaxed_store(l->region_count, l->region_count + 1);
	return r;
}

void collect_table_remove(struct collect_link *l, struct collect_region *r)
{
	if (r->gone)
		return;
	r->gone = true;
	collect_tables_gone(l, r);
	collect_pass_abort(l, r);
	relaxed_store(r->step, STEP_GONE);
	unhash(l, r);
	collect_host_release(l->host, l, r->instance);
	relaxed_store(l->region_count, l->region_count - 1);
	relaxed_sub(l->c->region_count, 1);
	collect_tap_gone(r);
	collect_region_queue(r, EVENT_GONE);
}

void collect_table_sweep(struct collect_link *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->regions; i++) {
		struct collect_region *r = l->region[i];

		if (!r->gone || r->ops || r->urgent) {
			l->region[n++] = r;
			continue;
		}
		collect_region_unmap(l, r);
		collect_region_put(r);
	}
	l->regions = n;
}
