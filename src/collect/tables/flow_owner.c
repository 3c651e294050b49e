// SPDX-License-Identifier: Apache-2.0
/*
 * flow_owner.c - the owners of cgroups, from a section of the flow table. The section is read when
 * its slot 0 announces a new owner, and every AGAIN_NS, because names may arrive late.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "collect/tables/flows.h"

#define OWNER_NS    3000000000u /* how long a new flow waits for the name of its owner */
#define AGAIN_NS    10000000000u
#define OWNER_WORDS (SL_FLOW_CGROUP_SIZE / 8)

/* A slot of the section of owners. listed: it is in .owner_by_id. */
struct collect_flow_owner_slot {
	struct base_node node;
	bool listed;
	uint64_t word[OWNER_WORDS];
};

void collect_flow_owners_free(struct collect_flow_table *t, struct collect_collector *c)
{
	for (uint32_t i = 0; i < FLOW_OWNERS_MAX; i++) {
		relaxed_sub(c->memory, t->owner[i] ? sizeof(**t->owner) : 0);
		free(t->owner[i]);
	}
	base_table_free(&t->owner_by_id);
}

uint32_t collect_flow_owners_wanted(struct collect_flow_table *t, uint64_t now_ns)
{
	if (!t->info.cgroups)
		return 0;
	if (t->owners_used <= 1 || (!t->owners_moved && now_ns < t->owners_ns))
		return 1;
	t->owners_ns = now_ns + AGAIN_NS;
	t->owners_moved = false;
	return t->owners_used;
}

static enum region_fault take_owner(struct collect_link *l, struct collect_region *r, uint64_t slot,
				    const uint64_t *words, uint64_t now_ns,
				    struct collect_unsettled *u)
{
	struct collect_flow_table *t = collect_flow_table_of(r);
	struct collect_flow_owner_slot *s;
	struct region_flow_cgroup o;
	enum region_fault fault = region_flow_cgroup_parse(words, &o);

	(void)now_ns, (void)u;
	if (fault)
		return fault;
	if (!slot) {
		uint64_t used = BASE_MIN(o.used, t->info.cgroup_slots);

		used = BASE_MIN(used, FLOW_OWNERS_MAX);
		t->owners_moved |= t->owners_used != used || t->owners_tag != words[0];
		t->owners_used = (uint32_t)used;
		t->owners_tag = words[0];
		return REGION_FAULT_NONE;
	}
	if (!t->owner[slot] && (t->owner[slot] = calloc(1, sizeof(*s))))
		relaxed_add(l->c->memory, sizeof(*s));
	s = t->owner[slot];
	t->owners_moved |= !s; /* out of memory: the next pass tries again */
	if (!s || s->word[0] == words[0])
		return REGION_FAULT_NONE;
	if (s->listed)
		base_table_remove(&t->owner_by_id, s);
	memcpy(s->word, words, sizeof(s->word));
	s->listed = o.id && o.state != SL_STATE_FREE;
	if (s->listed)
		base_table_add(&t->owner_by_id, s, base_hash_u64(o.id));
	return REGION_FAULT_NONE;
}

static void count_unsettled(struct collect_link *l, struct collect_region *r,
			    const struct collect_unsettled *u)
{
	relaxed_bump(collect_tables_of(l)->table_stats[TABLE_FLOWS].unsettled, u->count);
	collect_flow_table_of(r)->owners_moved |= u->count > 0;
}

const struct collect_elements collect_flow_owners = {.take = take_owner, .taken = count_unsettled};

/* Waits at least three passes, so that a name that arrives a moment later is still read. */
uint64_t collect_flow_owner_wait(const struct collect_link *l)
{
	return BASE_MAX(3 * collect_tables_of(l)->all->o.period_ns, OWNER_NS);
}

bool collect_flow_owner_find(struct collect_flow_table *t, uint64_t cgroup,
			     struct collect_flow_owner *out)
{
	const char **unit = &out->name[SL_CGROUP_PATH];
	struct collect_flow_owner_slot *s = NULL;

	if (t && cgroup)
		s = base_table_first(&t->owner_by_id, base_hash_u64(cgroup));
	while (s && s->word[SL_FLOW_CGROUP_ID] != cgroup)
		s = base_table_next(s);
	*out = (struct collect_flow_owner)COLLECT_FLOW_OWNER("(unknown)");
	if (!s || region_flow_cgroup_parse(s->word, &t->found))
		return false;
	memcpy(out->name, t->found.name, sizeof(out->name));
	if (*out->name[SL_CGROUP_POD] || *out->name[SL_CGROUP_CONTAINER] ||
	    *out->name[SL_CGROUP_SERVICE])
		*unit = "";
	else if (!**unit)
		*unit = "(unknown)";
	else if (!strcmp(*unit, "/"))
		*unit = "(host)"; /* not in a container */
	return true;
}
