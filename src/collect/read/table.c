// SPDX-License-Identifier: Apache-2.0
/*
 * table.c - the regions of a link: by instance, by age, and the list of urgent regions, which are
 * handled outside the rounds
 */
#include <stdlib.h>

#include "base/grow.h"
#include "base/hash.h"
#include "collect/read/link.h"
#include "collect/read/host.h"

void collect_table_free(struct collect_link *l)
{
	for (uint32_t i = 0; i < l->regions; i++) {
		collect_tap_gone(l->region[i]);
		collect_region_unmap(l, l->region[i]);
		collect_region_put(l->region[i]);
	}
	free(l->region);
	base_table_free(&l->by_instance);
	free(l->urgent);
}

struct collect_region *collect_table_find(struct collect_link *l, uint64_t instance)
{
	struct collect_region *r = base_table_first(&l->by_instance, base_hash_u64(instance));

	while (r && r->instance != instance)
		r = base_table_next(r);
	return r;
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
	l->region[l->regions++] = r;
	base_table_add(&l->by_instance, r, base_hash_u64(instance));
	relaxed_store(l->region_count, l->region_count + 1);
	return r;
}

void collect_table_remove(struct collect_link *l, struct collect_region *r)
{
	if (r->gone)
		return;
	r->gone = true;
	if (r->beside)
		l->c->reader->gone(l, r);
	collect_pass_abort(l, r);
	relaxed_store(r->step, STEP_GONE);
	base_table_remove(&l->by_instance, r);
	collect_host_release(l->host, l, r->instance);
	relaxed_store(l->region_count, l->region_count - 1);
	relaxed_sub(l->c->region_count, 1);
	collect_tap_gone(r);
	if (r->snapshot)
		r->last_chunk = collect_snapshot_flush(r->snapshot, l->worker, r->instance);
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
