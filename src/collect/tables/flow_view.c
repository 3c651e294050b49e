// SPDX-License-Identifier: Apache-2.0
/* flow_view.c - the views of flows and flow tables in tables.h. Never blocks a worker. */
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

static void view_table(const struct collect_tables *all, struct collect_index *x,
		       struct collect_region *r,
		       void (*fn)(const struct collect_flow_view *, void *), void *arg)
{
	const struct collect_flow_table *t = collect_flow_table_of(r);
	struct region_flow now, before;
	struct collect_flow_view v = {
		.target = r->host->target,
		.hostname = collect_host_name(r->host),
		.stale = is_stale(all, r, base_now_ns()),
		.now = &now,
	};
	uint32_t slots = relaxed_load(t->slots_read);
	struct region_listeners listeners = {0};
	uint64_t workload;
	ssize_t i;

	for (v.slot = 0; v.slot < slots; v.slot++)
		if (collect_flow_snapshot(t, v.slot, &now, &before, &v.read_ns, &workload))
			/* if out of memory, the listener stays unnamed */
			region_listeners_add(&listeners, &now);
	for (v.slot = 0; v.slot < slots; v.slot++) {
		if (!collect_flow_snapshot(t, v.slot, &now, &before, &v.read_ns, &workload))
			continue;
		i = workload ? collect_index_find(x, workload) : -1;
		v.workload = i < 0 ? NULL : x->region[i]->info;
		v.before = before.id ? &before : NULL;
		region_listeners_name(&listeners, &now);
		fn(&v, arg);
	}
	region_listeners_free(&listeners);
}

void collect_collector_flows(struct collect_collector *c,
			     void (*fn)(const struct collect_flow_view *, void *), void *arg)
{
	struct collect_tables *t = collect_collector_part(c, &collect_tables_part);
	struct collect_index *x = t ? collect_index_get(c) : NULL;

	for (size_t i = 0; x && i < c->hosts; i++) {
		struct collect_region *r = collect_flows_of(&t->host[i]);

		if (r)
			view_table(t, x, r, fn, arg);
		collect_region_put(r);
	}
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
