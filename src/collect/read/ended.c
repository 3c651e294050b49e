// SPDX-License-Identifier: Apache-2.0
#include "collect/read/ended.h"

#include <stdlib.h>

#include "base/base.h"
#include "collect/read/collector_internal.h"
#include "collect/read/index.h"
#include "collect/read/ref.h"
#include "collect/read/worker.h"

void collect_ended_put(struct collect_ended *e)
{
	if (!collect_ref_put(&e->refs))
		return;
	relaxed_sub(e->c->memory, e->bytes);
	collect_tenant_put(e->tenant);
	collect_layout_put(e->layout);
	collect_label_set_put(e->labels);
	free(e);
}

static void drop_ended(struct collect_collector *c, struct collect_ended **at)
{
	struct collect_ended *e = *at;

	*at = e->next;
	if (!*at)
		c->ended_end = at;
	c->ended_count--;
	c->ended_bytes -= e->charged;
	e->tenant->ended_bytes -= e->charged;
	collect_ended_put(e);
}

void collect_ended_expire(struct collect_collector *c)
{
	for (struct collect_ended **at = &c->ended; *at;)
		if ((*at)->chunk - 1 < relaxed_load((*at)->ring->tail))
			drop_ended(c, at);
		else
			at = &(*at)->next;
}

void collect_ended_free(struct collect_collector *c)
{
	while (c->ended)
		drop_ended(c, &c->ended);
}

/* Drops the oldest region of the tenant with the most bytes. */
static void drop_from_largest_tenant(struct collect_collector *c)
{
	struct collect_ended **worst = &c->ended;

	for (struct collect_ended **at = &c->ended; *at; at = &(*at)->next)
		if ((*at)->tenant->ended_bytes > (*worst)->tenant->ended_bytes)
			worst = at;
	drop_ended(c, worst);
}

static struct collect_ended *new_ended(struct collect_collector *c, struct collect_region *r)
{
	const struct collect_snapshot *b = r->shown;
	struct collect_layout *l = b->layout;
	const size_t bytes = sizeof(struct collect_ended) + l->columns * sizeof(*b->since_ns);
	struct collect_ended *e = malloc(bytes);

	if (!e)
		return NULL;
	*e = (struct collect_ended){
		.refs = 1,
		.instance = r->instance,
		.c = c,
		.tenant = collect_tenant_ref(r->tenant),
		.ring = &r->worker->ring,
		.chunk = r->last_chunk,
		.layout = l,
		.labels = collect_label_set_ref(r->labels),
		.found_ns = r->found_ns,
		.read_ns = (int64_t)relaxed_load(r->last_read_ns),
		.ended_ns = (int64_t)base_realtime_ns(),
		.bytes = bytes,
	};
	collect_ref_get(&l->refs);
	relaxed_add(c->memory, e->bytes);
	e->charged = e->bytes + e->labels->bytes + l->bytes + sizeof(*e->tenant);
	pthread_mutex_lock(&c->defs.lock);
	for (uint32_t i = 0; i < l->columns; i++) {
		const struct collect_column *col = &l->column[i];

		e->since_ns[i] = col->removed || col->twin || !collect_index_shows(c, col->def)
					 ? INT64_MAX
				 : b->since_ns ? b->since_ns[i]
					       : 0;
		e->charged += (col->def->bytes + col->def->labels->bytes) / col->def->refs;
	}
	pthread_mutex_unlock(&c->defs.lock);
	return e;
}

void collect_ended_add(struct collect_collector *c, struct collect_region *r)
{
	const size_t limit = c->opts.history_bytes / COLLECT_ENDED_SHARE;
	struct collect_ended *e;

	if (!r->shown || !r->shown->row_ns || !r->last_chunk)
		return;
	e = new_ended(c, r);
	if (!e || e->charged > limit) {
		relaxed_add(c->refused_history, 1);
		if (e)
			collect_ended_put(e);
		return;
	}
	collect_ended_expire(c);
	e->tenant->ended_bytes += e->charged;
	c->ended_bytes += e->charged;
	c->ended_count++;
	*c->ended_end = e;
	c->ended_end = &e->next;
	while (c->ended_bytes > limit)
		drop_from_largest_tenant(c);
}
