// SPDX-License-Identifier: Apache-2.0
/*
 * slots.c - reads a host's tables of layers and of tasks, each at a pace of its own beside the
 * rounds: the hot line, then the slots that it says are in use, and what was lost.
 *
 * A slot's lines grow one by one, and are taken one by one: a line that does not settle is made up
 * for by the next pass. What a slot holds is its owner's if its first line said so in the last pass
 * already (region/layers.h); whoever gives slots to others keeps them back for a second before,
 * which no READ lasts.
 *
 * What an owner counted before the table was first looked at is nobody's, as with connections.
 */
#include "collect/kernel/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/kernel/flows.h"

#define READ_MAX   65536u
#define SLOT_MAX   (1u << 18)  /* bytes; a cgroup of 409 CPUs */
#define TABLE_MAX  (32u << 20) /* bytes of slots that are read of a table */
#define READS_OUT  8u	       /* at once: most of the landing memory is the rounds' */
#define HOT_MAX_NS 5000000000u /* a hot line that does not settle for so long never will */

/* ---- memory ---- */

static void forget(struct collect_slot_table *t, struct collect_slot_seen *s,
		   struct collect_collector *c)
{
	if (s->word)
		relaxed_sub(c->memory, t->stride);
	free(s->word);
	*s = (struct collect_slot_seen){0};
}

void collect_slot_table_free(struct collect_slot_table *t, struct collect_collector *c)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->slots; i++)
		forget(t, &t->seen[i], c);
	relaxed_sub(c->memory, sizeof(*t) + t->slots * sizeof(*t->seen));
	free(t->seen);
	free(t);
}

/* MEMORY: not now. */
static enum region_fault table_new(struct collect_collector *c, int kind,
				   const struct sl_region_header *copy, uint64_t length,
				   struct collect_slot_table **out)
{
	struct collect_slot_table *t = calloc(1, sizeof(*t));
	enum region_fault fault = REGION_FAULT_MEMORY;

	if (!t)
		return fault;
	t->kind = &collect_slot_kinds[kind];
	fault = t->kind->find(t, copy, length);
	if (fault)
		goto fail;
	if (t->stride > SLOT_MAX)
		t->slots = 0;
	if (t->slots > TABLE_MAX / t->stride)
		t->slots = TABLE_MAX / t->stride;
	t->seen = calloc(t->slots + 1, sizeof(*t->seen));
	fault = t->seen ? REGION_FAULT_NONE : REGION_FAULT_MEMORY;
	if (fault)
		goto fail;
	relaxed_add(c->memory, sizeof(*t) + t->slots * sizeof(*t->seen));
	*out = t;
	return REGION_FAULT_NONE;
fail:
	free(t);
	return fault;
}

/* ---- coming and going ---- */

void collect_slots_gone(struct collect_link *l, struct collect_region *r)
{
	for (int k = 0; k < SLOT_TABLES; k++)
		if (l->slots_of[k] == r) {
			l->slots_of[k] = NULL;
			relaxed_store(l->slot_stats[k].present, 0);
		}
}

void collect_slots_forget(struct collect_link *l, const struct collect_workload *w)
{
	for (int k = 0; k < SLOT_TABLES; k++) {
		struct collect_slot_table *t = l->slots_of[k] ? l->slots_of[k]->slots : NULL;

		for (uint32_t i = 0; t && i < t->slots; i++)
			if (t->seen[i].workload == w)
				t->seen[i].workload = NULL;
	}
}

void collect_slots_found(struct collect_link *l, struct collect_region *r,
			 const struct sl_region_header *copy, uint64_t now_ns)
{
	int kind = collect_slots_index(r->kind);
	struct collect_region **of = &l->slots_of[kind];
	enum region_fault fault = REGION_FAULT_NONE;

	if (*of == r) {
		r->slots->hot_ok_ns = now_ns;
		return; /* after a reconnect */
	}
	if (*of && (*of)->step == STEP_BOUND) {
		relaxed_bump(l->slot_stats[kind].tables, 1);
		base_log_limited(BASE_WARN, "collect",
				 "a second table of kind %u is not read host=%s: stop one of them",
				 r->kind, l->host->target);
		return;
	}
	/* That of an agent that is gone: it would only be waited for. */
	if (*of)
		collect_table_remove(l, *of);
	if (!r->slots)
		fault = table_new(l->c, kind, copy, r->remote.length, &r->slots);
	if (fault == REGION_FAULT_MEMORY)
		collect_region_retry_later(l, r, now_ns);
	else if (fault)
		collect_region_drop(l, r, fault, now_ns);
	if (fault)
		return;
	r->slots->follows = l->had_slots[kind];
	r->slots->hot_ok_ns = r->slots->due_ns = now_ns;
	l->had_slots[kind] = true;
	*of = r;
	relaxed_store(l->slot_stats[kind].present, 1);
}

/* ---- one slot ---- */

/* Finds its owner, whose name may come later. False: not yet, or no memory. */
static bool find_owner(struct collect_link *l, struct collect_slot_table *t,
		       struct collect_slot_seen *s, uint32_t slot,
		       const struct collect_slot_key *key, uint64_t now_ns)
{
	static const struct collect_flow_owner nobody = {.unit = "(unknown)"};
	struct collect_flow_table *names = l->flows ? l->flows->flows : NULL;
	struct collect_flow_owner who;
	struct collect_workload *w;
	uint32_t group;
	bool found;

	if (s->workload && !s->unknown)
		return true;
	if (!slot) { /* takes what found no other */
		w = collect_workload_other(l, t->kind->part, key->role, &group);
	} else {
		found = names && collect_flow_owner_find(names, key->cgroup, &who);
		if (!found && (s->workload || now_ns - s->since_ns < collect_flow_owner_wait(l)))
			return s->workload;
		if (!found)
			who = nobody;
		s->unknown = !found;
		w = collect_workload_of(l, &who, t->kind->part, key->role, key->port, &group);
	}
	if (!w)
		return s->workload;
	s->workload = w;
	s->group = group;
	return true;
}

static bool settled(const uint64_t *line)
{
	return line[7] == sl_line_check(line);
}

/* Adds what its lines have grown by. The number of those that did not settle. */
static uint32_t count(struct collect_slot_table *t, struct collect_slot_seen *s,
		      const uint64_t *words, uint64_t now_ns)
{
	uint64_t *cell = collect_workload_cells(s->workload, s->group), grown[SL_LINE_CELLS];
	uint32_t torn = 0;

	for (uint32_t i = 0; i < t->stride / SL_LINE_SIZE; i++) {
		const uint64_t *now = words + (size_t)i * 8;
		uint64_t *before = s->word + (size_t)i * 8;

		/* The check is the first to differ, nearly always. */
		if (now[7] == before[7] && !memcmp(now, before, SL_LINE_SIZE))
			continue;
		if (!settled(now)) {
			torn++;
			continue;
		}
		for (uint32_t k = 0; k < SL_LINE_CELLS; k++)
			grown[k] = now[k] > before[k] ? now[k] - before[k] : 0;
		t->kind->add(cell, i, grown);
		memcpy(before, now, SL_LINE_SIZE);
		s->workload->active_ns = now_ns;
	}
	return torn;
}

/* What there was before, once all of it is known. */
static uint32_t begin_here(struct collect_slot_table *t, struct collect_slot_seen *s,
			   const uint64_t *words)
{
	for (uint32_t i = 0; i < t->stride / SL_LINE_SIZE; i++)
		if (!settled(words + (size_t)i * 8))
			return 1;
	memcpy(s->word, words, t->stride);
	s->counts = true;
	return 0;
}

/* *torn: lines that did not settle. */
static enum region_fault take_slot(struct collect_link *l, struct collect_slot_table *t,
				   struct collect_slot_stats *stats, uint32_t slot,
				   const uint64_t *words, uint64_t now_ns, uint32_t *torn)
{
	struct collect_slot_seen *s = &t->seen[slot];
	struct collect_slot_key key;
	enum region_fault fault;

	*torn = 1;
	if (!settled(words))
		return REGION_FAULT_NONE;
	fault = t->kind->key(words, &key);
	if (fault)
		return fault;
	*torn = 0;
	if (s->known && !s->final && slot && (key.free || s->generation != key.generation))
		relaxed_bump(stats->reused, 1); /* nobody saw its last values */
	if (key.free && slot) {
		forget(t, s, l->c);
		return REGION_FAULT_NONE;
	}
	if (!s->known || (slot && s->generation != key.generation)) {
		forget(t, s, l->c);
		s->known = true;
		s->generation = key.generation;
		s->since_ns = now_ns;
		s->pass = t->passes;
		s->counts = t->passes || t->follows;
		return REGION_FAULT_NONE; /* with the next pass it is sure that the rest is its own
					   */
	}
	if (s->final || s->pass == t->passes)
		return REGION_FAULT_NONE;
	if (!s->word) {
		s->word = calloc(1, t->stride);
		if (!s->word)
			return REGION_FAULT_NONE;
		relaxed_add(l->c->memory, t->stride);
	}
	if (!s->counts) {
		*torn = begin_here(t, s, words);
		return REGION_FAULT_NONE;
	}
	if (!memcmp(s->word, words, t->stride) || !find_owner(l, t, s, slot, &key, now_ns))
		return REGION_FAULT_NONE;
	*torn = count(t, s, words, now_ns);
	s->final = key.ended && slot && !*torn;
	return REGION_FAULT_NONE;
}

/* ---- a pass ---- */

static bool stands(const struct collect_link *l, int kind)
{
	return l->slots_of[kind] && l->slots_of[kind]->step == STEP_BOUND;
}

/* Of the tables that a host has, one shows what all of them add up to. */
static bool shows(const struct collect_link *l, int kind)
{
	if (l->flows && l->flows->step == STEP_BOUND)
		return false;
	for (int k = 0; k < kind; k++)
		if (stands(l, k))
			return false;
	return true;
}

/* Keeps what there was a while ago: quantiles of late are those of what came since. */
static void slide(const struct collect_link *l)
{
	for (struct collect_workload *w = l->workloads; w; w = w->next)
		for (uint32_t i = 0; i < w->groups; i++) {
			uint64_t *cell = collect_workload_cells(w, i);

			if (w->group[i].part != WORKLOAD_LAYERS ||
			    l->real_ns - (int64_t)cell[LAYER_MIDDLE_NS] < LAYER_WINDOW_NS)
				continue;
			memcpy(cell + LAYER_OLD, cell + LAYER_MIDDLE, LAYER_SHOWN * sizeof(*cell));
			memcpy(cell + LAYER_MIDDLE, cell, LAYER_SHOWN * sizeof(*cell));
			/* Of a group that is new, nothing is what it had before. */
			cell[LAYER_OLD_NS] = cell[LAYER_MIDDLE_NS] ? cell[LAYER_MIDDLE_NS]
								   : (uint64_t)l->real_ns;
			cell[LAYER_MIDDLE_NS] = (uint64_t)l->real_ns;
		}
}

static void pass_over(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_slot_table *t = r->slots;
	int kind = (int)(t->kind - collect_slot_kinds);
	struct collect_slot_stats *stats = &l->slot_stats[kind];

	t->phase = SLOTS_IDLE;
	if (t->failed || r->gone || r->step != STEP_BOUND || l->slots_of[kind] != r)
		return;
	for (uint32_t i = 0; i < t->kind->losses && !t->losses_torn; i++)
		relaxed_store(stats->lost[i], t->lost[i]);
	t->passes += t->passes < UINT32_MAX;
	relaxed_bump(stats->passes, 1);
	relaxed_bump(r->rounds, 1);
	relaxed_store(r->fresh_ns, now_ns);
	relaxed_store(r->last_read_ns, (uint64_t)l->real_ns);
	if (t->kind->part == WORKLOAD_LAYERS)
		slide(l);
	if (shows(l, kind))
		collect_workloads_show(l, now_ns);
}

static bool usable(const struct collect_region *r)
{
	return !r->gone && r->step == STEP_BOUND;
}

static bool take_hot(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_slot_table *t = r->slots;
	struct collect_slot_stats *stats = &l->slot_stats[t->kind - collect_slot_kinds];
	enum region_fault fault;
	uint32_t used;

	if (!usable(r))
		return true;
	fault = t->kind->hot(t, read->to, &used);
	if (fault == REGION_FAULT_UNSETTLED && op->tries < LINK_TRIES - 1)
		return false;
	if (fault == REGION_FAULT_UNSETTLED && now_ns - t->hot_ok_ns <= HOT_MAX_NS) {
		relaxed_bump(stats->unsettled, 1);
		t->failed = true;
		return true;
	}
	if (!fault && used < t->used)
		fault = REGION_FAULT_HOT;
	if (fault) {
		collect_region_drop(l, r, fault, now_ns);
		return true;
	}
	relaxed_bump(l->worker->lines, 1);
	t->hot_ok_ns = now_ns;
	relaxed_store(stats->refused, used > t->slots ? used - t->slots : 0);
	t->used = used < t->slots ? used : t->slots;
	t->slot = t->loss = 0;
	t->losses_torn = false;
	memset(t->lost, 0, sizeof(t->lost));
	t->phase = SLOTS_BODY;
	return true;
}

static bool take_slots(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		       uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_slot_table *t = r->slots;
	struct collect_slot_stats *stats = &l->slot_stats[t->kind - collect_slot_kinds];
	uint32_t first = (uint32_t)((read->offset - t->slots_at) / t->stride);
	uint32_t n = read->length / t->stride, low = n, high = 0, all = 0, torn;

	if (!usable(r) || t->failed)
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t *words = (const uint64_t *)read->to + (size_t)i * t->stride / 8;
		enum region_fault fault = take_slot(l, t, stats, first + i, words, now_ns, &torn);

		if (fault) {
			collect_region_drop(l, r, fault, now_ns);
			return true;
		}
		if (!torn)
			continue;
		low = low < i ? low : i;
		high = i + 1;
		all += torn;
	}
	if (!high)
		return true;
	if (op->tries < LINK_TRIES - 1) {
		/* Those again, and nothing beside them. */
		read->offset += (uint64_t)low * t->stride;
		read->to = (uint8_t *)read->to + (size_t)low * t->stride;
		read->length = (high - low) * t->stride;
		return false;
	}
	relaxed_bump(stats->unsettled, all);
	relaxed_bump(r->unsettled, all);
	relaxed_bump(l->worker->unsettled, all);
	return true;
}

static bool take_losses(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			uint64_t now_ns)
{
	struct collect_slot_table *t = op->region->slots;

	(void)now_ns;
	if (!usable(op->region) || t->failed)
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	if (!region_losses_add(read->to, t->kind->losses, t->lost))
		return true;
	if (op->tries < LINK_TRIES - 1)
		return false;
	t->losses_torn = true; /* the sum of the last pass stays */
	return true;
}

/* ---- READs ---- */

static void failed(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns)
{
	struct collect_region *r = op->region;

	r->slots->failed = true;
	/* The memory is not there any more, or it moved: ask for it anew. */
	if (op->epoch == l->epoch && r->step == STEP_BOUND &&
	    (status == -EACCES || status == -ERANGE))
		collect_region_retry_later(l, r, now_ns);
}

static bool all_asked(const struct collect_slot_table *t)
{
	return t->failed ||
	       (t->phase == SLOTS_BODY && t->slot == t->used && t->loss == t->losses.count);
}

static void over(struct collect_link *l, struct collect_op *op, const struct fabric_read *read,
		 uint64_t now_ns)
{
	struct collect_slot_table *t = op->region->slots;

	(void)read;
	t->ops--;
	if (t->phase != SLOTS_IDLE && !t->ops && all_asked(t))
		pass_over(l, op->region, now_ns);
}

static const struct collect_op_kind hot_read = {.take = take_hot, .failed = failed, .over = over};
static const struct collect_op_kind slots_read = {
	.take = take_slots, .failed = failed, .over = over};
static const struct collect_op_kind losses_read = {
	.take = take_losses, .failed = failed, .over = over};

static bool ask(struct collect_link *l, struct collect_region *r,
		const struct collect_op_kind *kind, uint64_t offset, uint32_t length)
{
	struct collect_slot_table *t = r->slots;

	if (t->ops >= READS_OUT || !collect_reads_new(l, kind, r, &r->remote, offset, length))
		return false;
	t->ops++;
	return true;
}

static void ask_for_body(struct collect_link *l, struct collect_region *r)
{
	struct collect_slot_table *t = r->slots;
	uint32_t most = t->stride < READ_MAX ? READ_MAX / t->stride : 1;
	uint32_t lines = (t->kind->losses + SL_LINE_CELLS - 1) / SL_LINE_CELLS;

	while (!t->failed && t->slot < t->used) {
		uint32_t n = t->used - t->slot;

		n = n < most ? n : most;
		if (!ask(l, r, &slots_read, t->slots_at + (uint64_t)t->slot * t->stride,
			 n * t->stride))
			return;
		t->slot += n;
	}
	while (!t->failed && t->loss < t->losses.count) {
		if (!ask(l, r, &losses_read,
			 t->losses.offset + (uint64_t)t->loss * t->losses.stride,
			 lines * SL_LINE_SIZE))
			return;
		t->loss++;
	}
}

/* True while there is something to be asked for. */
static bool begin(struct collect_link *l, struct collect_slot_table *t, uint64_t now_ns)
{
	uint64_t period = l->c->opts.tcp_period_ns, late;

	if (now_ns < t->due_ns)
		return t->phase != SLOTS_IDLE;
	late = (now_ns - t->due_ns) / period;
	t->due_ns += (late + 1) * period;
	if (t->phase != SLOTS_IDLE)
		late++;
	if (late && t->passes)
		relaxed_bump(l->slot_stats[t->kind - collect_slot_kinds].missed, late);
	if (t->phase == SLOTS_IDLE) {
		t->phase = SLOTS_HOT;
		t->failed = t->hot_asked = false;
	}
	return true;
}

static void turn(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_slot_table *t = r->slots;

	if (r->step != STEP_BOUND || l->state != FABRIC_UP) {
		if (!t->ops)
			t->phase = SLOTS_IDLE;
		t->failed = true;
		return;
	}
	if (!begin(l, t, now_ns))
		return;
	if (!t->ops && t->failed) {
		t->phase = SLOTS_IDLE;
		return;
	}
	if (!collect_directory_lease_holds(l, now_ns)) {
		collect_directory_read(l, now_ns);
		return;
	}
	if (t->phase == SLOTS_HOT && !t->hot_asked)
		t->hot_asked = ask(l, r, &hot_read, t->hot_at, SL_LINE_SIZE);
	if (t->phase == SLOTS_BODY)
		ask_for_body(l, r);
	if (t->phase == SLOTS_BODY && !t->ops && all_asked(t))
		pass_over(l, r, now_ns);
}

void collect_slots_poll(struct collect_link *l, uint64_t now_ns)
{
	for (int k = 0; k < SLOT_TABLES; k++)
		if (l->slots_of[k])
			turn(l, l->slots_of[k], now_ns);
}

uint64_t collect_slots_due(const struct collect_link *l)
{
	uint64_t due = UINT64_MAX;

	for (int k = 0; k < SLOT_TABLES; k++) {
		const struct collect_slot_table *t = stands(l, k) ? l->slots_of[k]->slots : NULL;
		uint64_t own = t && t->phase == SLOTS_IDLE ? t->due_ns : 0;

		if (t && own < due)
			due = own;
	}
	return due;
}
