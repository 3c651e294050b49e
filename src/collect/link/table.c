// SPDX-License-Identifier: Apache-2.0
/*
 * table.c - the regions that a link knows: by instance, in the order of appearance, and those that
 * are urgent, to be looked after beside the rounds.
 */
#include <errno.h>
#include <stdlib.h>

#include "collect/kernel/flows.h"
#include "collect/kernel/segment_ring.h"
#include "collect/kernel/slots.h"

#define BUCKETS 256u

int table_init(struct link *l)
{
	l->buckets = BUCKETS;
	l->bucket = calloc(l->buckets, sizeof(*l->bucket));
	return l->bucket ? 0 : -ENOMEM;
}

void table_free(struct link *l)
{
	if (l->flows)
		flows_gone(l, l->flows);
	for (uint32_t i = 0; i < l->regions; i++) {
		tap_gone(l->region[i]);
		life_unmap(l, l->region[i]);
		region_put(l->region[i]);
	}
	free(l->region);
	free(l->bucket);
	free(l->urgent);
}

static struct region **place_of(struct link *l, uint64_t instance)
{
	uint64_t h = (instance ^ l->c->seed) * SL_LINE_K1;

	return &l->bucket[(h ^ h >> 32) % l->buckets];
}

struct region *table_find(struct link *l, uint64_t instance)
{
	for (struct region *r = *place_of(l, instance); r; r = r->hash_next)
		if (r->instance == instance)
			return r;
	return NULL;
}

static void unhash(struct link *l, struct region *r)
{
	struct region **at = place_of(l, r->instance);

	while (*at != r)
		at = &(*at)->hash_next;
	*at = r->hash_next;
}

static void grow_buckets(struct link *l)
{
	uint32_t n = l->buckets * 4;
	struct region **to = calloc(n, sizeof(*to));

	if (!to)
		return;
	free(l->bucket);
	l->bucket = to;
	l->buckets = n;
	for (uint32_t i = 0; i < l->regions; i++) {
		struct region *r = l->region[i], **at;

		if (r->gone)
			continue;
		at = place_of(l, r->instance);
		r->hash_next = *at;
		*at = r;
	}
}

static bool reserve(struct region ***v, uint32_t used, uint32_t *capacity)
{
	uint32_t n = *capacity ? *capacity * 2 : 64;
	struct region **to;

	if (used < *capacity)
		return true;
	to = realloc(*v, n * sizeof(*to));
	if (!to)
		return false;
	*v = to;
	*capacity = n;
	return true;
}

void table_urgent(struct link *l, struct region *r)
{
	if (r->urgent || !reserve(&l->urgent, l->urgents, &l->urgent_capacity))
		return;
	r->urgent = true;
	l->urgent[l->urgents++] = r;
}

struct region *table_add(struct link *l, uint64_t instance)
{
	struct sl_collector *c = l->c;
	struct region *r;

	if (ADD(c->region_count, 1) >= c->opts.max_regions) {
		SUB(c->region_count, 1);
		return NULL;
	}
	r = reserve(&l->region, l->regions, &l->region_capacity)
		    ? region_new(l, instance, ADD(c->age, 1))
		    : NULL;
	if (!r) {
		SUB(c->region_count, 1);
		return NULL;
	}
	if (l->regions >= l->buckets)
		grow_buckets(l);
	l->region[l->regions++] = r;
	r->hash_next = *place_of(l, instance);
	*place_of(l, instance) = r;
	SET(l->region_count, l->region_count + 1);
	return r;
}

void table_remove(struct link *l, struct region *r)
{
	if (r->gone)
		return;
	r->gone = true;
	flows_gone(l, r);
	slots_gone(l, r);
	net_gone(l, r);
	pass_abort(l, r);
	SET(r->step, STEP_GONE);
	unhash(l, r);
	host_release(l->host, l, r->instance);
	SET(l->region_count, l->region_count - 1);
	SUB(l->c->region_count, 1);
	tap_gone(r);
	region_mail(r, MAIL_GONE);
}

void table_sweep(struct link *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->regions; i++) {
		struct region *r = l->region[i];

		if (!r->gone || r->ops || r->urgent) {
			l->region[n++] = r;
			continue;
		}
		life_unmap(l, r);
		region_put(r);
	}
	l->regions = n;
}
