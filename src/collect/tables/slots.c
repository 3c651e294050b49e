// SPDX-License-Identifier: Apache-2.0
/*
 * slots.c - a host's layer tables and task tables: reads the slots in use and the host's loss
 * counters
 *
 * The lines of a slot grow and are taken individually; the next pass makes up for a line that did
 * not settle. A slot's content is attributed to its owner only if the slot's first line already
 * named that owner in the previous pass (region/layers.h): the host does not reuse a slot for a
 * second, which is longer than any READ.
 *
 * Counts from before the table was first read are ignored, as for connections.
 */
#include "collect/tables/slots.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/tables/flows.h"
#include "collect/read/link.h"
#include "collect/read/worker.h"

#define SLOT_MAX  (1u << 18)  /* maximum size of a slot in bytes, enough for a cgroup on 409 CPUs */
#define TABLE_MAX (32u << 20) /* maximum size of the slots read per table, in bytes */

/* Returns NULL if the link has no such table. */
static struct collect_slot_table *table_of(const struct collect_region *r)
{
	return r ? (struct collect_slot_table *)collect_table_reader_of(r) : NULL;
}

static struct collect_slot_stats *stats_of(struct collect_link *l,
					   const struct collect_slot_table *t)
{
	return &collect_tables_of(l)->slot_stats[t->kind - collect_slot_kinds];
}

/* ---- memory ---- */

static void forget_slot(struct collect_slot_table *t, struct collect_slot_seen *s,
			struct collect_collector *c)
{
	if (s->word)
		relaxed_sub(c->memory, t->stride);
	free(s->word);
	*s = (struct collect_slot_seen){0};
}

static void clear_table(struct collect_table_reader *reader, struct collect_tables *all)
{
	struct collect_slot_table *t = (struct collect_slot_table *)reader;

	for (uint32_t i = 0; i < t->slots; i++)
		forget_slot(t, &t->seen[i], all->c);
	relaxed_sub(all->c->memory, t->slots * sizeof(*t->seen));
	free(t->seen);
}

static const struct collect_elements slots_read, losses_read;

static enum region_fault fill_table(struct collect_table_reader *reader, struct collect_tables *all,
				    const struct sl_region_header *copy, uint64_t length)
{
	struct collect_slot_table *t = (struct collect_slot_table *)reader;
	enum region_fault fault;

	t->kind = &collect_slot_kinds[reader->type == &collect_tasks_type];
	fault = t->kind->find(t, copy, length);
	if (fault)
		return fault;
	t->reader.section[0] = (struct collect_section){
		.of = &slots_read, .at = t->slots_at, .stride = t->stride, .bytes = t->stride};
	t->reader.section[1] = (struct collect_section){
		.of = &losses_read,
		.at = t->losses.offset,
		.stride = t->losses.stride,
		.bytes = (t->kind->losses + SL_LINE_CELLS - 1) / SL_LINE_CELLS * SL_LINE_SIZE,
	};
	t->slots = t->stride > SLOT_MAX ? 0 : BASE_MIN(t->slots, TABLE_MAX / t->stride);
	t->seen = calloc(t->slots + 1, sizeof(*t->seen));
	if (!t->seen)
		return REGION_FAULT_MEMORY;
	relaxed_add(all->c->memory, t->slots * sizeof(*t->seen));
	return REGION_FAULT_NONE;
}

/* ---- the link's table ---- */

void collect_slots_forget(struct collect_link *l, const struct collect_workload *w)
{
	for (int k = 0; k < SLOT_TABLES; k++) {
		struct collect_slot_table *t =
			table_of(collect_tables_of(l)->table[collect_slot_kinds[k].table].region);

		for (uint32_t i = 0; t && i < t->slots; i++)
			if (t->seen[i].workload == w)
				t->seen[i].workload = NULL;
	}
}

/* ---- one slot ---- */

/*
 * Finds the owner, whose name may arrive later. Returns false if it is not known yet, or out of
 * memory.
 */
static bool find_owner(struct collect_link *l, struct collect_slot_table *t,
		       struct collect_slot_seen *s, uint32_t slot,
		       const struct collect_slot_key *key, uint64_t now_ns)
{
	struct collect_region *flows = collect_tables_of(l)->table[TABLE_FLOWS].region;
	struct collect_flow_owner who;
	struct collect_workload *w;
	uint32_t group, stack = 0;
	bool found;

	if (s->workload && !s->unknown)
		return true;
	if (!slot) { /* the table's overflow slot */
		w = collect_workload_other(l, t->kind->part, key->role, &group);
	} else {
		found = collect_flow_owner_find(flows ? collect_flow_table_of(flows) : NULL,
						key->cgroup, &who);
		if (!found && (s->workload || now_ns - s->since_ns < collect_flow_owner_wait(l)))
			return s->workload;
		s->unknown = !found;
		w = collect_workload_of(l, &who, t->kind->part, key->role, key->port,
					!flows || collect_flow_table_of(flows)->pass > 1, &group);
	}
	if (!w || (t->kind->part == WORKLOAD_LAYERS &&
		   !collect_workload_all_ports(l, w, WORKLOAD_STACK, key->role, &stack)))
		return s->workload;
	s->workload = w;
	s->group = group;
	s->stack = stack;
	return true;
}

static bool is_settled(const uint64_t *line)
{
	return line[7] == sl_line_check(line);
}

/* Adds the growth of the lines. Returns the number of unsettled lines. */
static uint32_t count_growth(struct collect_slot_table *t, struct collect_slot_seen *s,
			     const uint64_t *words, uint64_t now_ns)
{
	uint64_t *cell = collect_workload_cells(s->workload, s->group), grown[SL_LINE_CELLS];
	uint64_t *stack = collect_workload_cells(s->workload, s->stack);
	uint32_t torn = 0;

	for (uint32_t i = 0; i < t->stride / SL_LINE_SIZE; i++) {
		const uint64_t *now = words + (size_t)i * 8;
		uint64_t *before = s->word + (size_t)i * 8;

		/* Compare check words first: a changed line nearly always has a different one. */
		if (now[7] == before[7] && !memcmp(now, before, SL_LINE_SIZE))
			continue;
		if (!is_settled(now)) {
			torn++;
			continue;
		}
		for (uint32_t k = 0; k < SL_LINE_CELLS; k++)
			grown[k] = collect_grown(before[k], now[k]);
		t->kind->add(cell, i, grown);
		if (t->kind->part == WORKLOAD_LAYERS)
			t->kind->add(stack, i, grown);
		memcpy(before, now, SL_LINE_SIZE);
		s->workload->active_ns = now_ns;
	}
	return torn;
}

/* Takes the lines as the base to count from if all of them settled; otherwise returns 1. */
static uint32_t set_base(struct collect_slot_table *t, struct collect_slot_seen *s,
			 const uint64_t *words)
{
	for (uint32_t i = 0; i < t->stride / SL_LINE_SIZE; i++)
		if (!is_settled(words + (size_t)i * 8))
			return 1;
	memcpy(s->word, words, t->stride);
	s->counts = true;
	return 0;
}

static enum region_fault take_slot(struct collect_link *l, struct collect_region *r,
				   uint64_t number, const uint64_t *words, uint64_t now_ns,
				   struct collect_unsettled *u)
{
	struct collect_slot_table *t = table_of(r);
	const uint32_t slot = (uint32_t)number;
	struct collect_slot_seen *s = &t->seen[slot];
	struct collect_slot_key key;
	enum region_fault fault;
	uint32_t torn;

	if (!is_settled(words))
		return REGION_FAULT_UNSETTLED;
	fault = t->kind->key(words, &key);
	if (fault)
		return fault;
	if (s->known && !s->final && slot && (key.free || s->generation != key.generation))
		/* the final values of the previous owner were not seen */
		relaxed_bump(stats_of(l, t)->reused, 1);
	if (key.free && slot) {
		forget_slot(t, s, l->c);
		return REGION_FAULT_NONE;
	}
	if (!s->known || (slot && s->generation != key.generation)) {
		forget_slot(t, s, l->c);
		s->known = true;
		s->generation = key.generation;
		s->since_ns = now_ns;
		s->pass = t->passes;
		s->counts = t->passes || t->reader.follows;
		/* all lines are known to belong to this owner only in the next pass */
		return REGION_FAULT_NONE;
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
		u->count += set_base(t, s, words);
		return REGION_FAULT_NONE;
	}
	if (!memcmp(s->word, words, t->stride) || !find_owner(l, t, s, slot, &key, now_ns))
		return REGION_FAULT_NONE;
	torn = count_growth(t, s, words, now_ns);
	u->count += torn;
	s->final = key.ended && slot && !torn;
	return REGION_FAULT_NONE;
}

/* ---- a pass ---- */

/* A host may have several kernel tables: the first bound table publishes the sums of all. */
static bool shows_sums(const struct collect_link *l, const struct collect_slot_table *t)
{
	for (int i = 0; i < (int)t->kind->table; i++)
		if (collect_table_bound(l, (enum collect_table)i))
			return false;
	return true;
}

/*
 * Saves earlier counts, so that quantiles of the last LAYER_WINDOW_NS can be computed from the
 * difference. They are of no use once the clock was set back: the windows begin anew.
 */
static void slide_windows(const struct collect_link *l)
{
	for (struct collect_workload *w = collect_tables_of(l)->workloads; w; w = w->next)
		for (uint32_t i = 0; i < w->groups; i++) {
			uint64_t *cell = collect_workload_cells(w, i);
			int64_t since_ns;

			if (w->group[i].part != WORKLOAD_LAYERS)
				continue;
			since_ns = l->real_ns - (int64_t)cell[LAYER_MIDDLE_NS];
			if (since_ns >= 0 && since_ns < LAYER_WINDOW_NS)
				continue;
			if (since_ns < 0) {
				memcpy(cell + LAYER_MIDDLE, cell, LAYER_SHOWN * sizeof(*cell));
				cell[LAYER_MIDDLE_NS] = (uint64_t)l->real_ns;
			}
			memcpy(cell + LAYER_OLD, cell + LAYER_MIDDLE, LAYER_SHOWN * sizeof(*cell));
			memcpy(cell + LAYER_MIDDLE, cell, LAYER_SHOWN * sizeof(*cell));
			/* A new group has no earlier counts. */
			cell[LAYER_OLD_NS] = cell[LAYER_MIDDLE_NS] ? cell[LAYER_MIDDLE_NS]
								   : (uint64_t)l->real_ns;
			cell[LAYER_MIDDLE_NS] = (uint64_t)l->real_ns;
		}
}

static bool end_pass(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_slot_table *t = table_of(r);

	for (uint32_t i = 0; i < t->kind->losses && !t->losses_torn; i++)
		relaxed_store(stats_of(l, t)->lost[i], t->lost[i]);
	t->passes += t->passes < UINT32_MAX;
	if (t->kind->part == WORKLOAD_LAYERS)
		slide_windows(l);
	if (shows_sums(l, t))
		collect_workloads_show(l, now_ns);
	return true;
}

static enum region_fault take_hot(struct collect_link *l, struct collect_region *r,
				  const uint64_t *line, uint64_t now_ns)
{
	struct collect_slot_table *t = table_of(r);
	enum region_fault fault;
	uint32_t used;

	(void)now_ns;
	fault = t->kind->hot(t, line, &used);
	if (!fault && used < t->used)
		fault = REGION_FAULT_HOT;
	if (fault)
		return fault;
	relaxed_store(collect_tables_of(l)->table_stats[t->kind->table].refused,
		      used > t->slots ? used - t->slots : 0);
	t->used = BASE_MIN(used, t->slots);
	collect_section_plan(&t->reader.section[0], 0, t->used);
	collect_section_plan(&t->reader.section[1], 0, t->losses.count);
	t->losses_torn = false;
	memset(t->lost, 0, sizeof(t->lost));
	return REGION_FAULT_NONE;
}

static enum region_fault take_loss(struct collect_link *l, struct collect_region *r,
				   uint64_t number, const uint64_t *words, uint64_t now_ns,
				   struct collect_unsettled *u)
{
	struct collect_slot_table *t = table_of(r);

	(void)l, (void)number, (void)now_ns, (void)u;
	return region_losses_add(words, t->kind->losses, t->lost);
}

/* An incomplete sum is discarded, so that the sum of the previous pass stays. */
static void note_torn(struct collect_link *l, struct collect_region *r,
		      const struct collect_unsettled *u)
{
	(void)l;
	table_of(r)->losses_torn |= u->count > 0;
}

static const struct collect_elements slots_read = {.take = take_slot,
						   .taken = collect_table_count_unsettled};
static const struct collect_elements losses_read = {
	.take = take_loss, .taken = note_torn, .alone = true};

#define SLOTS_TYPE(type_name)                                                                \
	{                                                                                    \
		.name = (type_name), .size = sizeof(struct collect_slot_table),              \
		.fill = fill_table, .clear = clear_table, .hot = take_hot, .done = end_pass, \
		.reads_max = 8                                                               \
	}
const struct collect_table_type collect_layers_type = SLOTS_TYPE("layers");
const struct collect_table_type collect_tasks_type = SLOTS_TYPE("tasks");
