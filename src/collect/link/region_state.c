// SPDX-License-Identifier: Apache-2.0
/*
 * life.c - how a region goes from one step of its life to another (enum step in internal.h): bound
 * to an entry of the directory, taken from it, put off, dropped.
 */
#include "base/base.h"
#include "collect/link/link.h"

#define RETRY_MIN_NS   50000000u /* bring-up that failed for no fault of the region */
#define RETRY_MAX_NS   5000000000u
#define DROPPED_MAX_NS 300000000000u /* a hostile region is looked at ever more seldom */

void life_unmap(struct link *l, struct region *r)
{
	if (r->mapped)
		sl_fabric_unmap(l->fabric, &r->remote);
	r->mapped = false;
}

void life_condition(struct region *r, enum step step)
{
	if (r->step == (uint32_t)step)
		return;
	SET(r->step, step);
	if (r->info)
		region_mail(r, MAIL_CHANGED);
}

void life_unbind(struct link *l, struct region *r, uint64_t now_ns)
{
	life_unmap(l, r);
	r->entry_id = 0;
	r->since_ns = now_ns;
	pass_abort(l, r);
	life_condition(r, STEP_UNBOUND);
}

void life_again_later(struct link *l, struct region *r, uint64_t now_ns)
{
	life_unmap(l, r);
	pass_abort(l, r);
	life_condition(r, STEP_MAP);
	r->backoff_ns = r->backoff_ns ? r->backoff_ns * 2 : RETRY_MIN_NS;
	if (r->backoff_ns > RETRY_MAX_NS)
		r->backoff_ns = RETRY_MAX_NS;
	r->retry_ns = now_ns + r->backoff_ns;
	table_urgent(l, r);
}

void life_drop(struct link *l, struct region *r, enum sl_fault fault, uint64_t now_ns)
{
	bool first = !r->info;

	BUMP(l->worker->faults[fault], 1);
	SET(r->fault, fault);
	life_unmap(l, r);
	r->backoff_ns = r->backoff_ns < l->c->opts.dropped_ns ? l->c->opts.dropped_ns
							      : r->backoff_ns * 2;
	if (r->backoff_ns > DROPPED_MAX_NS)
		r->backoff_ns = DROPPED_MAX_NS;
	r->retry_ns = now_ns + r->backoff_ns;
	sl_log_limited(SL_WARN, "collect",
		       "region dropped host=%s instance=%016llx fault=%s: "
		       "its publisher writes what format 1 does not allow",
		       l->host->target, (unsigned long long)r->instance, sl_fault_name(fault));
	if (first && region_anonymous(r))
		first = false; /* no memory for a face: nobody will see it */
	r->anonymous = r->anonymous || first;
	SET(r->step, STEP_DROPPED);
	if (r->info)
		region_mail(r, first ? MAIL_NEW | MAIL_CHANGED : MAIL_CHANGED);
	ADD(l->c->dropped, 1);
	pass_abort(l, r);
}

void life_bind(struct link *l, struct region *r, const struct sl_entry *e, uint32_t index)
{
	SET(r->entry, index);
	r->entry_id = e->id;
	r->remote = (struct sl_remote){
		.id = e->id, .addr = e->addr, .length = e->length, .rkey = e->rkey};
	r->kind = e->kind;
	r->mapped = false;
	r->final_passes = 0;
	r->retry_ns = 0;
	life_condition(r, STEP_MAP);
	table_urgent(l, r);
}

void life_state(struct link *l, struct region *r, const struct sl_entry *e)
{
	if (r->state != e->state || r->changed_ns != e->changed_ns) {
		if (e->state == SL_STATE_LIVE)
			r->final_passes = 0; /* its next last words are others */
		SET(r->state, e->state);
		SET(r->changed_ns, e->changed_ns);
		if (r->info)
			region_mail(r, MAIL_CHANGED);
	}
	if (e->state == SL_STATE_LIVE && r->step == STEP_FINAL)
		life_condition(r, STEP_BOUND);
	if (e->state != SL_STATE_LIVE && r->step == STEP_BOUND) {
		r->want_pass = true; /* its last words, now */
		table_urgent(l, r);
	}
}
