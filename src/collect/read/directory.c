// SPDX-License-Identifier: Apache-2.0
/*
 * directory.c - reads a host's directory of regions: the header once, the hot line in every round,
 * and the entries when the hot line says that they changed
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/read/link.h"
#include "collect/read/host.h"
#include "collect/read/worker.h"

#define RETRY_NS	1000000u    /* delay after a hot line that did not settle or was invalid */
#define HEADER_RETRY_NS 100000000u  /* delay after a header that could not be read */
#define INVALID_NS	1000000000u /* delay after a header that was invalid */
/* delay before entries that exceeded a limit are tried again */
#define AGAIN_NS	 1000000000u
#define ORPHAN_NS	 10000000000u /* regions unlisted this long after an agent's restart expire */
#define ENTRIES_PER_READ 256u

bool collect_directory_lease_holds(const struct collect_link *l, uint64_t now_ns)
{
	return l->dir_ok_ns && now_ns - l->dir_ok_ns < l->dir_lease_ns;
}

/* Returns false if the entry must be applied again later. */
static bool apply_entry(struct collect_link *l, uint32_t index, const struct region_entry *e,
			uint64_t now_ns)
{
	struct collect_slot *slot = &l->slot[index];
	struct collect_region *r = slot->region;
	/* Regions of an attached reader are read only by the host's first link. */
	bool beside = collect_reads_beside(l->c, e->kind) && !l->queue && e->state == SL_STATE_LIVE;
	bool readable = (e->kind == SL_REGION_METRICS || beside) && e->instance && e->id &&
			(e->state == SL_STATE_LIVE || e->state == SL_STATE_DEAD ||
			 e->state == SL_STATE_CLOSED);
	int claim;

	if (r && (r->gone || r->entry_id != slot->id))
		r = slot->region = NULL; /* the region belongs to another entry now */
	if (r && (!readable || e->id != slot->id)) {
		slot->region = NULL;
		if (readable && e->instance == r->instance) {
			collect_region_unbind(l, r, now_ns);
		} else {
			relaxed_add(l->c->expired, 1);
			collect_table_remove(l, r);
		}
		r = NULL;
	}
	/* The directory's own entry: the agent may have registered the directory again as well. */
	if (e->kind == SL_REGION_DIRECTORY && e->state == SL_STATE_LIVE &&
	    e->instance == l->dir->instance)
		fabric_directory_moved(l->fabric, e->addr, e->rkey);
	if (!readable)
		return true;
	if (r) {
		/*
		 * The agent may have registered the region again together with its neighbours; the
		 * old key stays valid for two leases.
		 */
		r->remote.addr = e->addr;
		r->remote.rkey = e->rkey;
		collect_region_state(l, r, e);
		return true;
	}
	claim = beside ? 1 : collect_host_claim(l->host, l, e->instance);
	slot->foreign = !claim;
	if (claim <= 0)
		return !claim;
	r = collect_table_find(l, e->instance);
	if (r && r->step == STEP_UNBOUND && r->ops) {
		/* READs of the region's old memory are in flight */
		l->again_ns = now_ns + RETRY_NS;
		return false;
	}
	if (r && r->step != STEP_UNBOUND) {
		/*
		 * A live publisher takes its instance back from its own dead entry. If two live
		 * entries claim the same instance, the first keeps it.
		 */
		if (r->state == SL_STATE_LIVE || e->state != SL_STATE_LIVE) {
			if (!slot->refused)
				relaxed_bump(l->duplicates, 1);
			slot->refused = true;
			return false;
		}
		collect_region_unbind(l, r, now_ns);
		if (r->ops) {
			l->again_ns = now_ns + RETRY_NS;
			return false;
		}
	}
	if (!r) {
		r = collect_table_add(l, e->instance);
		if (!r) {
			if (!slot->refused)
				relaxed_add(l->c->refused_regions, 1);
			slot->refused = true;
			return false;
		}
	}
	if (r->entry < l->slots && l->slot[r->entry].region == r)
		l->slot[r->entry].region = NULL; /* its former entry, which may change later */
	slot->region = r;
	slot->id = e->id;
	slot->refused = false;
	collect_region_bind(l, r, e, index);
	collect_region_state(l, r, e);
	return true;
}

static bool reserve_slots(struct collect_link *l, uint32_t n)
{
	struct collect_slot *to;

	if (n <= l->slots)
		return true;
	to = realloc(l->slot, n * sizeof(*to));
	if (!to)
		return false;
	memset(to + l->slots, 0, (n - l->slots) * sizeof(*to));
	l->slot = to;
	l->slots = n;
	return true;
}

void collect_directory_forget(struct collect_link *l)
{
	l->dir_known = l->dir_busy = l->dir_moved = l->entries_active = false;
	l->dir_generation = l->dir_wanted = 0;
	l->again_ns = 0;
	l->dir_ok_ns = 0;
	l->dir_used = 0;
	if (l->slot)
		memset(l->slot, 0, l->slots * sizeof(*l->slot));
}

void collect_directory_expire_orphans(struct collect_link *l, uint64_t now_ns)
{
	if (now_ns < l->orphans_ns)
		return;
	l->orphans_ns = now_ns + ORPHAN_NS / 10;
	for (uint32_t i = 0; i < l->regions; i++) {
		struct collect_region *r = l->region[i];

		if (r->gone || r->step != STEP_UNBOUND || now_ns - r->since_ns < ORPHAN_NS ||
		    now_ns - l->up_ns < ORPHAN_NS)
			continue;
		relaxed_add(l->c->expired, 1);
		collect_table_remove(l, r);
	}
}

/* The lease starts at posted_ns, when the READ was posted. */
static void directory_hot(struct collect_link *l, const struct region_directory_hot *hot,
			  uint64_t posted_ns, uint64_t now_ns)
{
	l->dir_ok_ns = posted_ns;
	l->dir_lease_ns = hot->lease_ns;
	relaxed_store(l->host->fresh_ns, now_ns);
	relaxed_store(l->host->last_read_ns, base_realtime_ns());
	l->dir_used = BASE_MIN(hot->entries_used, l->dir->max_entries);
	l->dir_wanted = hot->generation;
	if (hot->generation != l->dir_generation || (l->again_ns && now_ns >= l->again_ns) ||
	    relaxed_load(l->host->releases) != l->releases)
		l->dir_moved = true;
}

/* Called when all entries have been applied; unsettled ones are read again in the next round. */
static void entries_done(struct collect_link *l, uint64_t now_ns)
{
	l->entries_active = false;
	if (!l->entries_unsettled)
		l->dir_generation = l->entries_generation;
	l->dir_moved = l->dir_generation != l->dir_wanted;
	/* Limits a directory that changes in every round to a fifth of the time. */
	l->entries_at_ns = now_ns + 4 * (now_ns - l->entries_start_ns);
}

static bool take_header(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			uint64_t now_ns)
{
	enum region_fault fault = region_info_parse(read->to, read->remote->length, l->dir);

	(void)op;
	if (!fault && l->dir->kind != SL_REGION_DIRECTORY)
		fault = REGION_FAULT_SECTION;
	if (fault) {
		relaxed_bump(l->worker->faults[fault], 1);
		base_log_each(
			BASE_WARN, "collect", l->host->target,
			"the host's directory is invalid host=%s fault=%s: check the version of "
			"its agent",
			l->host->target, region_fault_name(fault));
		l->dir_retry_ns = now_ns + INVALID_NS;
		relaxed_store(l->tried, true);
		return true;
	}
	collect_host_set_name(l->host, region_label(l->dir, "host"));
	l->dir_known = true;
	return true;
}

static void header_failed(struct collect_link *l, struct collect_op *op, int status,
			  uint64_t now_ns)
{
	(void)op, (void)status;
	l->dir_retry_ns = now_ns + HEADER_RETRY_NS;
}

static void read_over(struct collect_link *l, struct collect_op *op, uint64_t now_ns)
{
	(void)now_ns;
	if (op->epoch != l->epoch)
		/* READ of an earlier connection; collect_directory_forget() has reset the state */
		return;
	l->dir_busy = false;
	l->gated = false;
}

static const struct collect_op_kind header_read = {
	.take = take_header, .failed = header_failed, .over = read_over};

static bool take_hot(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns)
{
	struct region_directory_hot hot;
	enum region_fault fault = region_directory_hot_parse(read->to, l->dir, &hot);

	if (!fault) {
		directory_hot(l, &hot, op->posted_ns, now_ns);
	} else if (op->tries == LINK_TRIES - 1) {
		relaxed_bump(l->worker->faults[fault], 1);
		l->dir_retry_ns = now_ns + RETRY_NS;
	}
	return !fault;
}

static const struct collect_op_kind hot_read = {.take = take_hot, .over = read_over};

static bool take_entries(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			 uint64_t now_ns)
{
	const uint64_t(*line)[8] = read->to;
	uint32_t n = read->length / SL_LINE_SIZE, unsettled = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct collect_slot *slot = &l->slot[op->index + i];
		struct region_entry e;

		if (!memcmp(slot->line, line[i], SL_LINE_SIZE))
			continue;
		if (region_entry_parse(line[i], &e)) {
			unsettled++;
			continue;
		}
		if (apply_entry(l, op->index + i, &e, now_ns))
			memcpy(slot->line, line[i], SL_LINE_SIZE);
		else if (!l->again_ns)
			l->again_ns = now_ns + AGAIN_NS;
	}
	if (unsettled && op->tries < LINK_TRIES - 1)
		return false;
	l->entries_unsettled += unsettled;
	return true;
}

static void entries_failed(struct collect_link *l, struct collect_op *op, int status,
			   uint64_t now_ns)
{
	(void)op, (void)status, (void)now_ns;
	l->entries_unsettled++;
}

static void entries_over(struct collect_link *l, struct collect_op *op, uint64_t now_ns)
{
	(void)op;
	l->entries_out--;
	if (l->entries_active && !l->entries_out && l->entries_next >= l->entries_end)
		entries_done(l, now_ns);
}

static const struct collect_op_kind entries_read = {
	.take = take_entries, .failed = entries_failed, .over = entries_over};

void collect_directory_read(struct collect_link *l, uint64_t now_ns)
{
	const struct fabric_remote *dir = fabric_directory(l->fabric);

	if (!dir || l->dir_busy || now_ns < l->dir_retry_ns)
		return;
	l->dir_busy =
		l->dir_known ? collect_reads_new(l, &hot_read, NULL, dir, l->dir->hot, SL_LINE_SIZE)
			     : collect_reads_new(l, &header_read, NULL, dir, 0, SL_HEADER_SIZE);
}

/* Checks foreign entries again: another link may have released their instances. */
static void recheck_foreign(struct collect_link *l)
{
	uint64_t releases = relaxed_load(l->host->releases);

	for (uint32_t i = 0; releases != l->releases && i < l->slots; i++)
		if (l->slot[i].foreign)
			memset(&l->slot[i], 0, sizeof(l->slot[i]));
	l->releases = releases;
}

void collect_directory_read_entries(struct collect_link *l, uint64_t now_ns)
{
	const struct fabric_remote *dir = fabric_directory(l->fabric);

	if (!dir)
		return;
	if (!l->entries_active) {
		if (!l->dir_moved || l->entries_out || now_ns < l->entries_at_ns ||
		    !reserve_slots(l, l->dir_used))
			return;
		l->entries_active = true;
		l->entries_next = 0;
		l->entries_end = l->dir_used; /* dir_used may grow while the entries are read */
		l->entries_unsettled = 0;
		l->entries_generation = l->dir_wanted;
		l->again_ns = 0;
		l->entries_start_ns = now_ns;
		recheck_foreign(l);
		if (!l->entries_end)
			entries_done(l, now_ns);
	}
	while (l->entries_active && l->entries_next < l->entries_end) {
		uint32_t n = BASE_MIN(l->entries_end - l->entries_next, ENTRIES_PER_READ);
		struct collect_op *op;

		op = collect_reads_new(l, &entries_read, NULL, dir,
				       l->dir->entries + (uint64_t)l->entries_next * SL_LINE_SIZE,
				       n * SL_LINE_SIZE);
		if (!op)
			return;
		op->index = l->entries_next;
		l->entries_next += n;
		l->entries_out++;
	}
}
