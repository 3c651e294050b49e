// SPDX-License-Identifier: Apache-2.0
/* region_state.c - the transitions of enum collect_step: bound, unbound, retried later, dropped */
#include <errno.h>

#include "base/base.h"
#include "collect/read/host.h"
#include "collect/read/link.h"
#include "collect/read/worker.h"

#define RETRY_MIN_NS   50000000u
#define RETRY_MAX_NS   5000000000u
#define DROPPED_MAX_NS 300000000000u /* the delay doubles up to this limit */

void collect_region_unmap(struct collect_link *l, struct collect_region *r)
{
	if (r->mapped)
		fabric_unmap(l->fabric, &r->remote);
	r->mapped = false;
}

void collect_region_set_step(struct collect_region *r, enum collect_step step)
{
	if (r->step == (uint32_t)step)
		return;
	relaxed_store(r->step, step);
	if (r->info)
		collect_region_queue(r, EVENT_CHANGED);
}

void collect_region_unbind(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	collect_region_unmap(l, r);
	r->entry_id = 0;
	r->since_ns = now_ns;
	collect_pass_abort(l, r);
	collect_region_set_step(r, STEP_UNBOUND);
}

void collect_region_retry_later(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	collect_region_unmap(l, r);
	collect_pass_abort(l, r);
	collect_region_set_step(r, STEP_MAP);
	r->backoff_ns = r->backoff_ns ? BASE_MIN(r->backoff_ns * 2, RETRY_MAX_NS) : RETRY_MIN_NS;
	r->retry_ns = now_ns + r->backoff_ns;
	collect_table_urgent(l, r);
}

void collect_region_read_failed(struct collect_link *l, struct collect_op *op, int status,
				uint64_t now_ns)
{
	if (op->epoch == l->epoch && op->region->step == STEP_BOUND &&
	    (status == -EACCES || status == -ERANGE))
		collect_region_retry_later(l, op->region, now_ns);
}

void collect_region_drop(struct collect_link *l, struct collect_region *r, enum region_fault fault,
			 uint64_t now_ns)
{
	bool first = !r->info;

	relaxed_bump(l->worker->faults[fault], 1);
	relaxed_store(r->fault, fault);
	collect_region_unmap(l, r);
	r->backoff_ns = r->backoff_ns < l->c->opts.dropped_ns ? l->c->opts.dropped_ns
							      : r->backoff_ns * 2;
	r->backoff_ns = BASE_MIN(r->backoff_ns, DROPPED_MAX_NS);
	r->retry_ns = now_ns + r->backoff_ns;
	base_log_each(BASE_WARN, "collect", l->host->target,
		      "region dropped host=%s instance=%016llx fault=%s: its publisher "
		      "violates format 1; check its version",
		      l->host->target, (unsigned long long)r->instance, region_fault_name(fault));
	if (first && collect_region_anonymous(r))
		first = false; /* out of memory: the region is not listed */
	r->anonymous = r->anonymous || first;
	relaxed_store(r->step, STEP_DROPPED);
	if (r->info)
		collect_region_queue(r, first ? EVENT_NEW | EVENT_CHANGED : EVENT_CHANGED);
	collect_pass_abort(l, r);
}

void collect_region_bind(struct collect_link *l, struct collect_region *r,
			 const struct region_entry *e, uint32_t index)
{
	relaxed_store(r->entry, index);
	r->entry_id = e->id;
	relaxed_store(r->admitted, e->id);
	r->remote = (struct fabric_remote){
		.id = e->id, .addr = e->addr, .length = e->length, .rkey = e->rkey};
	r->kind = e->kind;
	r->mapped = false;
	r->final_passes = 0;
	r->retry_ns = 0;
	collect_region_set_step(r, STEP_MAP);
	collect_table_urgent(l, r);
}

void collect_region_state(struct collect_link *l, struct collect_region *r,
			  const struct region_entry *e)
{
	if (r->state != e->state || r->changed_ns != e->changed_ns) {
		if (e->state == SL_STATE_LIVE)
			r->final_passes = 0; /* the next death yields new final values */
		relaxed_store(r->state, e->state);
		relaxed_store(r->changed_ns, e->changed_ns);
		if (r->info)
			collect_region_queue(r, EVENT_CHANGED);
	}
	if (e->state == SL_STATE_LIVE && r->step == STEP_FINAL)
		collect_region_set_step(r, STEP_BOUND);
	if (e->state != SL_STATE_LIVE && r->step == STEP_BOUND) {
		r->want_pass = true; /* read the final values now */
		collect_table_urgent(l, r);
	}
}
