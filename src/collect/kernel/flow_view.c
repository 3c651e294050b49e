// SPDX-License-Identifier: Apache-2.0
/* flow_view.c - connections and their tables, seen from outside. Holds up no worker. */
#include "base/base.h"
#include "collect/kernel/flows.h"
#include "region/listeners.h"

static bool is_stale(const struct region *r, uint64_t now_ns)
{
	uint64_t slow = 3 * r->c->opts.tcp_period_ns, stale = r->c->opts.stale_ns;

	return GET(r->step) != STEP_BOUND ||
	       now_ns >= GET(r->fresh_ns) + (slow > stale ? slow : stale);
}

static void view_table(struct index *x, struct host *h, struct region *r,
		       void (*fn)(const struct sl_flow_view *, void *), void *arg)
{
	const struct flow_table *t = r->flows;
	struct sl_flow now, before;
	struct sl_flow_view v = {
		.target = h->target,
		.hostname = host_name(h),
		.stale = is_stale(r, sl_now_ns()),
		.now = &now,
	};
	uint32_t slots = GET(t->slots_read);
	struct sl_listeners listeners = {0};
	uint64_t workload;
	ssize_t i;

	for (v.slot = 0; v.slot < slots; v.slot++)
		if (flow_snapshot(t, v.slot, &now, &before, &v.read_ns, &workload))
			sl_listeners_add(&listeners, &now); /* without memory: nameless */
	for (v.slot = 0; v.slot < slots; v.slot++) {
		if (!flow_snapshot(t, v.slot, &now, &before, &v.read_ns, &workload))
			continue;
		i = workload ? index_find(x, workload) : -1;
		v.workload = i < 0 ? NULL : x->region[i]->info;
		v.before = before.id ? &before : NULL;
		sl_listeners_name(&listeners, &now);
		fn(&v, arg);
	}
	sl_listeners_free(&listeners);
}

void sl_collector_flows(struct sl_collector *c, void (*fn)(const struct sl_flow_view *, void *),
			void *arg)
{
	struct index *x = index_get(c);

	for (size_t i = 0; x && i < c->hosts; i++) {
		struct region *r = flows_of(&c->host[i]);

		if (r)
			view_table(x, &c->host[i], r, fn, arg);
		region_put(r);
	}
	index_put(x);
}

void sl_collector_flow_tables(struct sl_collector *c,
			      void (*fn)(const struct sl_flow_table_view *, void *), void *arg)
{
	for (size_t i = 0; i < c->hosts; i++) {
		struct host *h = &c->host[i];
		const struct flow_stats *s = &h->link[0]->flow_stats;
		struct sl_flow_table_view v = {
			.target = h->target,
			.hostname = host_name(h),
			.fault = "",
			.passes = GET(s->passes),
			.missed = GET(s->missed),
			.opened = GET(s->opened),
			.closed = GET(s->closed),
			.unsettled = GET(s->unsettled),
			.lost = GET(s->lost),
			.unseen = GET(s->unseen),
			.journal_gaps = GET(s->gaps),
		};
		struct region *r = flows_of(h);
		enum sl_fault fault;

		if (r) {
			fault = (enum sl_fault)GET(r->fault);
			v.present = true;
			v.stale = is_stale(r, sl_now_ns());
			v.fault = fault == SL_FAULT_NONE ? "" : sl_fault_name(fault);
			v.last_read_ns = GET(r->last_read_ns);
			v.slots = r->flows->info.slots;
			v.slots_read = GET(r->flows->slots_read);
			v.open = GET(r->flows->open);
		}
		if (r || v.passes)
			fn(&v, arg);
		region_put(r);
	}
}
