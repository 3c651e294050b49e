// SPDX-License-Identifier: Apache-2.0
/* flow_view.c - the views of flows and flow tables in tables.h. Never blocks a worker. */
#include <stdlib.h>

#include "base/base.h"
#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/tables/flows.h"
#include "region/listeners.h"

static bool is_stale(const struct collect_tables *t, const struct collect_region *r,
		     uint64_t now_ns)
{
	uint64_t slow = 3 * t->o.period_ns, stale = r->c->opts.stale_ns;

	return relaxed_load(r->step) != STEP_BOUND ||
	       now_ns >= relaxed_load(r->fresh_ns) + BASE_MAX(slow, stale);
}

/* A host's table while its connections are being viewed. */
struct view_host {
	struct collect_region *region; /* NULL if there is no table */
	struct region_listeners listeners;
};

/* Collects the data that several connections share: listeners, and the ends of each connection. */
static void list_table(struct view_host *h, struct collect_flow_ends *ends, size_t host)
{
	const struct collect_flow_table *t = collect_flow_table_of(h->region);
	uint32_t slots = relaxed_load(t->slots_read);
	struct region_flow now, before;
	uint64_t workload;
	int64_t read_ns;

	for (uint32_t slot = 0; slot < slots; slot++)
		if (collect_flow_snapshot(t, slot, &now, &before, &read_ns, &workload)) {
			/* if out of memory, the listener stays unnamed */
			region_listeners_add(&h->listeners, &now);
			if (ends->table[host])
				collect_flow_ends_add(ends, host, slot, &now);
		}
}

static void view_table(struct view_host *h, struct collect_flow_view *v, struct collect_index *x,
		       void (*fn)(const struct collect_flow_view *, void *), void *arg)
{
	const struct collect_flow_table *t = collect_flow_table_of(h->region);
	uint32_t slots = relaxed_load(t->slots_read);
	struct region_flow now, before;
	uint64_t workload;
	ssize_t i;

	v->target = h->region->host->target;
	v->hostname = collect_host_name(h->region->host);
	v->stale = !v->ends->table[v->host];
	v->now = &now;
	for (v->slot = 0; v->slot < slots; v->slot++) {
		if (!collect_flow_snapshot(t, v->slot, &now, &before, &v->read_ns, &workload))
			continue;
		i = workload ? collect_index_find(x, workload) : -1;
		v->workload = i < 0 ? NULL : x->region[i]->info;
		v->before = before.id ? &before : NULL;
		region_listeners_name(&h->listeners, &now);
		fn(v, arg);
	}
}

void collect_collector_flows(struct collect_collector *c,
			     void (*fn)(const struct collect_flow_view *, void *), void *arg)
{
	struct collect_tables *t = collect_collector_part(c, &collect_tables_part);
	struct collect_index *x = t ? collect_index_get(c) : NULL;
	size_t hosts = x ? c->hosts : 0;
	struct view_host *h = calloc(hosts + 1, sizeof(*h));
	struct collect_flow_ends ends = {.table = calloc(hosts + 1, sizeof(*ends.table))};
	struct collect_flow_view v = {.ends = &ends};

	if (!h || !ends.table)
		hosts = 0;
	for (size_t i = 0; i < hosts; i++) {
		h[i].region = collect_flows_of(&t->host[i]);
		if (!h[i].region)
			continue;
		if (!is_stale(t, h[i].region, base_now_ns()))
			ends.table[i] = collect_flow_table_of(h[i].region);
		list_table(&h[i], &ends, i);
	}
	for (v.host = 0; v.host < hosts; v.host++)
		if (h[v.host].region)
			view_table(&h[v.host], &v, x, fn, arg);
	for (size_t i = 0; i < hosts; i++) {
		collect_region_put(h[i].region);
		region_listeners_free(&h[i].listeners);
	}
	free(h);
	free(ends.table);
	free(ends.v);
	collect_index_put(x);
}

void collect_collector_flow_tables(struct collect_collector *c,
				   void (*fn)(const struct collect_flow_table_view *, void *),
				   void *arg)
{
	struct collect_tables *all = collect_collector_part(c, &collect_tables_part);

	for (size_t i = 0; all && i < c->hosts; i++) {
		const struct collect_host *h = &c->host[i];
		const struct collect_flow_stats *s = &all->host[i].flow_stats;
		const struct collect_table_stats *t = &all->host[i].table_stats[TABLE_FLOWS];
		struct collect_flow_table_view v = {
			.target = h->target,
			.hostname = collect_host_name(h),
			.fault = "",
			.passes = relaxed_load(t->passes),
			.missed = relaxed_load(t->missed),
			.opened = relaxed_load(s->opened),
			.closed = relaxed_load(s->closed),
			.unsettled = relaxed_load(t->unsettled),
			.lost = relaxed_load(s->lost),
			.unseen = relaxed_load(s->unseen),
			.journal_gaps = relaxed_load(s->gaps),
		};
		struct collect_region *r = collect_flows_of(&all->host[i]);
		enum region_fault fault;

		if (r) {
			fault = (enum region_fault)relaxed_load(r->fault);
			v.present = true;
			v.stale = is_stale(all, r, base_now_ns());
			v.fault = fault == REGION_FAULT_NONE ? "" : region_fault_name(fault);
			v.last_read_ns = relaxed_load(r->last_read_ns);
			v.slots = collect_flow_table_of(r)->info.slots;
			v.slots_read = relaxed_load(collect_flow_table_of(r)->slots_read);
			v.open = relaxed_load(collect_flow_table_of(r)->open);
		}
		if (r || v.passes)
			fn(&v, arg);
		collect_region_put(r);
	}
}
