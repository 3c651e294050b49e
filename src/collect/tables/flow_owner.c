// SPDX-License-Identifier: Apache-2.0
/*
 * flow_owner.c - the owners of cgroups, from a section of the flow table. The section is read when
 * its slot 0 announces a new owner, and every AGAIN_NS, because names may arrive late.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/tables/flows.h"

#define OWNER_NS    3000000000u /* how long a new flow waits for the name of its owner */
#define AGAIN_NS    10000000000u
#define OWNERS_MAX  8192u /* maximum owners per host */
#define OWNER_WORDS (SL_FLOW_CGROUP_SIZE / 8)

void collect_flow_owners_free(struct collect_flow_table *t, struct collect_collector *c)
{
	relaxed_sub(c->memory, t->owners * (SL_FLOW_CGROUP_SIZE + sizeof(*t->owner_hash) * 2));
	free(t->owner);
	free(t->owner_hash);
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

/* Open addressing with twice as many buckets as slots, so at most half are full. */
static uint32_t *place_of(const struct collect_flow_table *t, uint64_t id)
{
	uint32_t n = 2 * t->owners, i = (uint32_t)((id * SL_LINE_K0 >> 32) % n);

	while (t->owner_hash[i] && t->owner[t->owner_hash[i]][SL_FLOW_CGROUP_ID] != id)
		i = (i + 1) % n;
	return &t->owner_hash[i];
}

static void rehash_owners(struct collect_flow_table *t)
{
	memset(t->owner_hash, 0, 2 * t->owners * sizeof(*t->owner_hash));
	for (uint32_t i = 1; i < t->owners; i++) {
		struct region_flow_cgroup o;

		if (t->owner[i][SL_FLOW_CGROUP_ID] && !region_flow_cgroup_parse(t->owner[i], &o) &&
		    o.state != SL_STATE_FREE)
			*place_of(t, o.id) = i;
	}
}

static bool reserve_owners(struct collect_flow_table *t, struct collect_collector *c, uint32_t n)
{
	uint64_t(*owner)[OWNER_WORDS];
	uint32_t *hash;

	if (n <= t->owners)
		return true;
	n = n < 64 ? 64 : n + n / 2;
	hash = calloc(2 * (size_t)n, sizeof(*hash));
	owner = hash ? realloc(t->owner, n * sizeof(*owner)) : NULL;
	if (!owner) {
		free(hash);
		return false;
	}
	memset(owner + t->owners, 0, (n - t->owners) * sizeof(*owner));
	relaxed_add(c->memory, (n - t->owners) * (sizeof(*owner) + sizeof(*hash) * 2));
	free(t->owner_hash);
	t->owner = owner;
	t->owner_hash = hash;
	t->owners = n;
	rehash_owners(t);
	return true;
}

static enum region_fault take_owner(struct collect_link *l, struct collect_region *r, uint64_t slot,
				    const uint64_t *words, uint64_t now_ns,
				    struct collect_unsettled *u)
{
	struct collect_flow_table *t = collect_flow_table_of(r);
	struct region_flow_cgroup o;
	enum region_fault fault = region_flow_cgroup_parse(words, &o);

	(void)now_ns, (void)u;
	if (fault)
		return fault;
	if (!slot) {
		uint64_t used = BASE_MIN(o.used, t->info.cgroup_slots);

		used = BASE_MIN(used, OWNERS_MAX);
		if (!reserve_owners(t, l->c, (uint32_t)used))
			return REGION_FAULT_NONE; /* the next pass tries again */
		t->owners_moved |= t->owners_used != used || t->owner[0][0] != words[0];
		t->owners_used = (uint32_t)used;
		if (used)
			memcpy(t->owner[0], words, SL_FLOW_CGROUP_SIZE);
	} else if (slot < t->owners && t->owner[slot][0] != words[0]) {
		bool other = t->owner[slot][SL_FLOW_CGROUP_ID] != o.id;

		memcpy(t->owner[slot], words, SL_FLOW_CGROUP_SIZE);
		if (other)
			rehash_owners(t);
	}
	return REGION_FAULT_NONE;
}

static void count_unsettled(struct collect_link *l, struct collect_region *r,
			    const struct collect_unsettled *u)
{
	relaxed_bump(collect_tables_of(l)->table_stats[TABLE_FLOWS].unsettled, u->count);
	collect_flow_table_of(r)->owners_moved |= u->count > 0;
}

const struct collect_elements collect_flow_owners = {take_owner, count_unsettled};

/* Waits at least three passes, so that a name that arrives a moment later is still read. */
uint64_t collect_flow_owner_wait(const struct collect_link *l)
{
	return BASE_MAX(3 * collect_tables_of(l)->all->o.period_ns, OWNER_NS);
}

bool collect_flow_owner_find(struct collect_flow_table *t, uint64_t cgroup,
			     struct collect_flow_owner *out)
{
	const char **unit = &out->name[SL_CGROUP_PATH];
	uint32_t i = t && t->owners && cgroup ? *place_of(t, cgroup) : 0;

	*out = (struct collect_flow_owner){.name[SL_CGROUP_PATH] = "(unknown)"};
	if (!i || region_flow_cgroup_parse(t->owner[i], &t->found))
		return false;
	memcpy(out->name, t->found.name, sizeof(out->name));
	if (*out->name[SL_CGROUP_POD] || *out->name[SL_CGROUP_CONTAINER] ||
	    *out->name[SL_CGROUP_SERVICE])
		*unit = NULL;
	else if (!**unit)
		*unit = "(unknown)";
	else if (!strcmp(*unit, "/"))
		*unit = "(host)"; /* not in a container */
	return true;
}
