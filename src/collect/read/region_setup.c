// SPDX-License-Identifier: Apache-2.0
/*
 * region_setup.c - the work on regions outside the rounds: mapping, header, schema, first and final
 * values. It proceeds in small steps, so that a long period does not delay it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/read/link.h"
#include "collect/read/host.h"
#include "collect/read/turn.h"
#include "collect/read/worker.h"

#define MAPS_PER_POLL 4u
#define HEADER_READ   (SL_HEADER_SIZE + SL_LINE_SIZE)

static bool take_header(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			uint64_t now_ns)
{
	struct collect_region *r = op->region;
	bool first = !r->info;
	enum region_fault fault;

	if (r->gone || r->step != STEP_HEADER)
		return true;
	fault = collect_region_identify(r, read->to, collect_host_name(l->host));
	if (fault == REGION_FAULT_COUNT || fault == REGION_FAULT_MEMORY) {
		/*
		 * REGION_FAULT_COUNT means that another region has taken the place; the directory
		 * will soon list that one.
		 */
		if (fault == REGION_FAULT_COUNT)
			relaxed_bump(l->worker->wrong_instance, 1);
		collect_region_retry_later(l, r, now_ns);
		return true;
	}
	if (fault) {
		collect_region_drop(l, r, fault, now_ns);
		return true;
	}
	if (collect_reads_beside(l->c, r->kind) && !r->tenant->exempt) {
		/* only exempt tenants, such as the kernel's programs, may have such regions */
		collect_region_drop(l, r, REGION_FAULT_SECTION, now_ns);
		return true;
	}
	relaxed_store(r->fault, REGION_FAULT_NONE);
	relaxed_store(r->step, STEP_BOUND);
	if (collect_reads_beside(l->c, r->kind)) {
		l->c->reader->found(l, r, read->to, now_ns);
		return true; /* such regions are not listed */
	}
	r->hot_ok_ns = now_ns;
	if (first)
		memset(&r->hot, 0, sizeof(r->hot));
	collect_region_queue(r, first ? EVENT_NEW | EVENT_CHANGED : EVENT_CHANGED);
	r->want_pass = true;
	collect_table_urgent(l, r);
	return true;
}

static void header_failed(struct collect_link *l, struct collect_op *op, int status,
			  uint64_t now_ns)
{
	(void)status;
	if (op->epoch == l->epoch && op->region->step == STEP_HEADER)
		collect_region_retry_later(l, op->region, now_ns);
}

static const struct collect_op_kind header_read = {.take = take_header, .failed = header_failed};

/* ---- the tenant ---- */

static void renew_region(struct collect_link *l, struct collect_region *old);

static bool take_tenant(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_tenant *tenant;
	struct region_tenant who;

	(void)now_ns;
	if (r->gone || r->step != STEP_HEADER)
		return true;
	if (region_tenant_parse(read->to, &who))
		return false;
	if (who.id != r->entry_id)
		return true; /* the entry has changed; the directory will report it soon */
	if (r->names)
		who.names = *r->names;
	tenant = collect_tenant_get(l->host, &who);
	if (!tenant)
		return true;
	r->attested = who.id;
	r->header_instance = who.instance;
	if (!r->info) {
		collect_tenant_put(r->tenant);
		r->tenant = tenant;
		return true;
	}
	/* Other threads already read this region's tenant, so it must not change. */
	collect_tenant_put(tenant);
	if (tenant != r->tenant)
		renew_region(l, r); /* the labels name another tenant */
	return true;
}

/* Ignores a record that belongs to another entry; this entry then has no names. */
static bool take_names(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		       uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct region_names names;
	enum region_fault fault;

	(void)l, (void)now_ns;
	if (r->gone || r->step != STEP_HEADER)
		return true;
	fault = region_names_parse(read->to, &names);
	if (fault && op->tries < LINK_TRIES - 1)
		return false;
	free(r->names);
	r->names = NULL;
	if (!fault && names.id == r->entry_id && (*names.pod || *names.container)) {
		r->names = malloc(sizeof(names));
		if (!r->names)
			return true;
		*r->names = names;
	}
	r->named = r->entry_id;
	return true;
}

static void identity_over(struct collect_link *l, struct collect_op *op, uint64_t now_ns)
{
	struct collect_region *r = op->region;
	uint64_t known = op->kind->take == take_names ? r->named : r->attested;

	if (r->gone || r->step != STEP_HEADER || op->epoch != l->epoch)
		return;
	if (known != r->entry_id) {
		collect_region_retry_later(l, r, now_ns);
		return;
	}
	relaxed_store(r->step, STEP_MAP);
	collect_table_urgent(l, r);
}

static const struct collect_op_kind tenant_read = {.take = take_tenant, .over = identity_over};
static const struct collect_op_kind names_read = {.take = take_names, .over = identity_over};

/* READs the names and the tenant's record, if the directory has them, and then the header. */
static bool read_identity(struct collect_link *l, struct collect_region *r)
{
	if (l->dir->names && r->named != r->entry_id)
		return collect_reads_new(l, &names_read, r, fabric_directory(l->fabric),
					 l->dir->names + (uint64_t)r->entry * SL_NAMES_SIZE,
					 SL_NAMES_SIZE);
	if (l->dir->tenants && r->attested != r->entry_id)
		return collect_reads_new(l, &tenant_read, r, fabric_directory(l->fabric),
					 l->dir->tenants + (uint64_t)r->entry * SL_TENANT_SIZE,
					 SL_TENANT_SIZE);
	return collect_reads_new(l, &header_read, r, &r->remote, 0, SL_HEADER_SIZE);
}

/* Starts over with a region whose header was never accepted. */
static void renew_region(struct collect_link *l, struct collect_region *old)
{
	struct collect_slot *slot = &l->slot[old->entry];
	struct collect_region *r;
	int claim;

	if (slot->region != old)
		return;
	collect_table_remove(l, old);
	slot->region = NULL;
	memset(slot->line, 0, sizeof(slot->line));
	claim = collect_host_claim(l->host, l, old->instance);
	if (!claim)
		return; /* the region was assigned to another link, which will find it */
	r = claim > 0 ? collect_table_add(l, old->instance) : NULL;
	if (!r) {
		l->again_ns = 1;
		return;
	}
	slot->region = r;
	relaxed_store(r->entry, old->entry);
	r->entry_id = old->entry_id;
	relaxed_store(r->admitted, r->entry_id);
	r->kind = old->kind;
	r->remote = old->remote;
	r->remote.local = NULL; /* the old region unmaps it */
	r->backoff_ns = old->backoff_ns;
	r->state = old->state;
	r->changed_ns = old->changed_ns;
	relaxed_store(r->step, STEP_MAP);
	collect_table_urgent(l, r);
}

/* Advances one region by a step. Returns true while the region waits for something. */
static bool urgent_step(struct collect_link *l, struct collect_region *r, uint64_t now_ns,
			unsigned int *maps)
{
	int err;

	if (r->gone)
		return false;
	switch ((enum collect_step)r->step) {
	case STEP_DROPPED:
		if (now_ns < r->retry_ns)
			return false;
		if (r->ops)
			return true;
		if (r->anonymous) {
			renew_region(l, r);
			return false;
		}
		if (r->schema_step == SCHEMA_BUILDING) {
			struct collect_built *built = __atomic_exchange_n(&r->built, NULL,
									  __ATOMIC_ACQUIRE);

			if (!built)
				return true;
			collect_snapshot_put(built->snapshot, r->c);
			r->schema_step = SCHEMA_IDLE;
		}
		r->hot = (struct region_hot){0};
		r->schema_seen = 0;
		relaxed_store(r->step, STEP_MAP);
		return true;
	case STEP_MAP:
		if (now_ns < r->retry_ns || r->ops || !*maps)
			return true;
		if (!r->mapped) {
			(*maps)--;
			err = fabric_map(l->fabric, &r->remote);
			if (err == -EAGAIN) {
				*maps = 0; /* the next region must wait for its turn */
				return true;
			}
			if (err) {
				relaxed_bump(l->worker->map_errors, 1);
				collect_region_retry_later(l, r, now_ns);
				return true;
			}
			r->mapped = true;
		}
		if (r->remote.length < HEADER_READ)
			collect_region_drop(l, r, REGION_FAULT_SIZE, now_ns);
		else if (read_identity(l, r))
			relaxed_store(r->step, STEP_HEADER);
		return true;
	case STEP_HEADER:
		return true;
	case STEP_FINAL:
	case STEP_BOUND:
		if (collect_reads_beside(l->c, r->kind))
			return false;
		break;
	case STEP_SYNTHETIC:
	case STEP_UNBOUND:
	case STEP_GONE:
		return r->schema_step == SCHEMA_BUILDING &&
		       !__atomic_load_n(&r->built, __ATOMIC_RELAXED);
	}
	if (r->schema_step == SCHEMA_BUILDING) {
		if (!__atomic_load_n(&r->built, __ATOMIC_RELAXED))
			return true;
		if (!r->pass)
			collect_schema_install(l, r, now_ns);
		if (r->step != STEP_BOUND)
			return false;
	}
	if (r->schema_step == SCHEMA_WANTED || r->schema_step == SCHEMA_READING)
		collect_schema_read(l, r, now_ns);
	if (r->pass ? r->slow : collect_turn_slow(r))
		return r->schema_step != SCHEMA_IDLE; /* a slow region's values wait for its turn */
	/* First values, values of a new layout and final values do not wait for the next round. */
	if (r->pass)
		collect_pass_issue(l, r);
	else if (r->want_pass && collect_pass_start(l, r, false))
		collect_pass_issue(l, r);
	return r->want_pass || r->pass || r->schema_step != SCHEMA_IDLE;
}

void collect_region_setup(struct collect_link *l, uint64_t now_ns)
{
	unsigned int maps = MAPS_PER_POLL;
	uint32_t n = 0, count = l->urgents;
	uint64_t due;

	if (!count)
		return;
	l->urgent_ns = now_ns;
	if (!collect_directory_lease_holds(l, now_ns)) {
		/* A round must not wait for a pass that is itself waiting for the directory. */
		for (uint32_t i = 0; i < count; i++) {
			l->urgent[i]->want_pass |= l->urgent[i]->pass;
			collect_pass_cut_short(l, l->urgent[i]);
		}
		collect_directory_read(l, now_ns);
		return;
	}
	l->urgent_ns = UINT64_MAX;
	collect_turns_set_up(l);
	for (uint32_t i = 0; i < count; i++) {
		struct collect_region *r = l->urgent[i];

		/* r->urgent stays set during the step, so that r is not listed twice. */
		if (!urgent_step(l, r, now_ns, &maps)) {
			r->urgent = false;
			continue;
		}
		l->urgent[n++] = r;
		due = r->step == STEP_MAP && !r->ops ? BASE_MAX(r->retry_ns, now_ns) : now_ns;
		l->urgent_ns = BASE_MIN(due, l->urgent_ns);
	}
	if (l->urgents > count)
		l->urgent_ns = now_ns;
	/* Keep the entries after count: regions that became urgent in the meantime. */
	memmove(l->urgent + n, l->urgent + count, (l->urgents - count) * sizeof(*l->urgent));
	l->urgents -= count - n;
}
