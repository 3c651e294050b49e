// SPDX-License-Identifier: Apache-2.0
/*
 * region_names.c - the tenant of a region in the directory, and the names of its pod and container,
 * which may become known only after the region was admitted.
 */
#include <string.h>

#include "agent/peer.h"
#include "agent/region.h"
#include "base/hash.h"

static uint32_t count_names(const struct agent_tenant *t)
{
	return !!*t->names.pod + !!*t->names.container;
}

/*
 * Maximum number of looks. kubelet writes the names of a pod within seconds, but some pods never
 * get any.
 */
#define LOOKS_MOST 60u

void agent_region_publish_tenant(struct agent *a, struct agent_region *r)
{
	struct agent_tenant *t = r->peer->tenant;
	struct region_tenant is = {
		.id = r->id,
		.key = t->key,
		.instance = r->info->instance,
		.uid = t->id.uid,
		.pid = (uint32_t)r->peer->pid,
		.trusted = t->trusted,
		.contained = t->id.contained,
		.origin = t->origin,
	};

	agent_tenant_look(a, "", t);
	memcpy(is.container, t->id.container, sizeof(is.container));
	memcpy(is.pod, t->id.pod, sizeof(is.pod));
	is.names = t->names;
	is.names.id = r->id;
	agent_directory_tenant(a, r->slot, &is);
	r->named = count_names(t);
	if (t->id.pod_text[0] && !*t->names.container && r->looks < LOOKS_MOST)
		agent_timer_start(a, TIMER_NAMES, &r->names);
}

/*
 * Looks for missing names again. If there are any, gives the region another id: readers treat an
 * entry with another id as new, and read its names.
 */
void agent_region_timer_names(struct agent *a, struct agent_timer *t)
{
	struct agent_region *r = AGENT_TIMER_OWNER(t, struct agent_region, names);

	if (r->state == SL_STATE_RETIRED)
		return;
	r->looks++;
	agent_tenant_look(a, "", r->peer->tenant);
	if (count_names(r->peer->tenant) == r->named) {
		if (r->looks < LOOKS_MOST)
			agent_timer_start(a, TIMER_NAMES, t);
		return;
	}
	base_table_remove(&a->by_id, &r->by_id);
	r->id = ++a->last_id;
	base_table_add(&a->by_id, &r->by_id, base_hash_u64(r->id));
	agent_region_publish_tenant(a, r);
	agent_region_publish(a, r);
}
