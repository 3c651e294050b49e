// SPDX-License-Identifier: Apache-2.0
/*
 * identity.c - writes the cgroup names next to the connections in their region, for readers that
 * cannot resolve cgroup ids.
 *
 * A program reports the first connection of a cgroup (see flow_life.bpf.h); the agent reports
 * cgroups that have tasks but no connections (tcp_identity_want()). A cgroup is looked up when it
 * is reported, and twice later. A slot is reused if a slot is needed and its cgroup was removed.
 * Only this file writes the section, in one thread.
 */
#include "source/tcp/identity.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "region/flows.h"
#include "source/tcp/bpf/shared.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/flow.skel.h"

#define SECOND 1000000000ull

/* Delays of the later lookups: runtimes write names with some delay. */
static const uint64_t delay_ns[] = {2 * SECOND, 10 * SECOND};
#define LOOKS (sizeof(delay_ns) / sizeof(*delay_ns))

struct identity_slot {
	uint64_t id; /* 0 means free */
	uint64_t due;
	uint32_t generation, number, looks;
	uint64_t cells[64]; /* cells of the slot as last written to the region */
};

struct tcp_identity {
	struct flow_bpf *flow;
	struct tcp_cgroups *names;
	struct ring_buffer *arrivals;
	uint64_t (*section)[64]; /* the section in the region */
	uint32_t slots, used;
	uint64_t now, refused, swept_ns;
	struct identity_slot slot[];
};

/* Writes cells first and check words last: a concurrent reader finds lines that do not verify. */
static void store_slot(struct tcp_identity *i, uint32_t at)
{
	struct identity_slot *s = &i->slot[at];
	uint64_t *to = i->section[at];

	region_flow_cgroup_seal(s->cells, s->generation, ++s->number);
	for (int c = 0; c < 64; c++)
		if (c % 8 != 7)
			__atomic_store_n(&to[c], s->cells[c], __ATOMIC_RELAXED);
	for (int c = 7; c < 64; c += 8)
		__atomic_store_n(&to[c], s->cells[c], __ATOMIC_RELEASE);
}

/* Slot 0 holds the counters of the section itself. */
static void store_counters(struct tcp_identity *i)
{
	uint64_t *cells = i->slot[0].cells, refused = i->refused + i->flow->bss->nameless;

	if (cells[SL_FLOW_CGROUP_USED] == i->used && cells[SL_FLOW_CGROUP_REFUSED] == refused)
		return;
	cells[SL_FLOW_CGROUP_USED] = i->used;
	cells[SL_FLOW_CGROUP_REFUSED] = refused;
	cells[SL_FLOW_CGROUP_CHANGED_NS] = i->now;
	store_slot(i, 0);
}

/* Looks up the cgroup and writes what changed. Returns false if the cgroup was removed. */
static bool look_up(struct tcp_identity *i, uint32_t at)
{
	struct identity_slot *s = &i->slot[at];
	const struct tcp_cgroup_identity *who = tcp_cgroups_find(i->names, s->id, i->now);
	const char *const name[SL_CGROUP_TEXTS] = {
		[SL_CGROUP_NAMESPACE] = who->kube_namespace,
		[SL_CGROUP_POD] = who->pod,
		[SL_CGROUP_CONTAINER] = *who->container ? who->container : who->container_id,
		[SL_CGROUP_SERVICE] = who->service,
		[SL_CGROUP_PATH] = who->path,
	};
	uint64_t cells[64];

	/* Keep known names after the cgroup is gone. */
	if (!*who->path && s->cells[SL_FLOW_CGROUP_ID] == s->id) {
		memcpy(cells, s->cells, sizeof(cells));
		cells[SL_FLOW_CGROUP_STATE] = (cells[SL_FLOW_CGROUP_STATE] & ~255ull) |
					      SL_STATE_CLOSED;
	} else {
		region_flow_cgroup_pack(cells, s->id, who->dead, i->now, name);
	}
	cells[SL_FLOW_CGROUP_CHANGED_NS] = s->cells[SL_FLOW_CGROUP_CHANGED_NS];
	region_flow_cgroup_seal(cells, s->generation, s->number);
	if (memcmp(cells, s->cells, sizeof(cells))) {
		cells[SL_FLOW_CGROUP_CHANGED_NS] = i->now;
		memcpy(s->cells, cells, sizeof(cells));
		store_slot(i, at);
	}
	return (cells[SL_FLOW_CGROUP_STATE] & 255) == SL_STATE_LIVE;
}

/*
 * Frees slots of removed cgroups, at most once per second. Returns one of them, or 0 if there are
 * none.
 */
static uint32_t sweep_slots(struct tcp_identity *i)
{
	uint32_t found = 0;

	if (i->swept_ns && i->now - i->swept_ns < SECOND)
		return 0;
	i->swept_ns = i->now;
	for (uint32_t at = 1; at < i->used; at++) {
		struct identity_slot *s = &i->slot[at];

		if (!s->id || look_up(i, at))
			continue;
		bpf_map_delete_elem(bpf_map__fd(i->flow->maps.tcp_known), &s->id);
		s->id = 0;
		found = found ? found : at;
	}
	return found;
}

static uint32_t take_slot(struct tcp_identity *i)
{
	if (i->used < i->slots)
		return i->used++;
	for (uint32_t at = 1; at < i->used; at++)
		if (!i->slot[at].id)
			return at;
	return sweep_slots(i);
}

/* Returns false if no slot is free. */
static bool add_cgroup(struct tcp_identity *i, uint64_t id)
{
	uint32_t at = take_slot(i);
	struct identity_slot *s = &i->slot[at];

	if (!at) {
		/* Delete the id from the map, so that it is reported again later. */
		bpf_map_delete_elem(bpf_map__fd(i->flow->maps.tcp_known), &id);
		return false;
	}
	s->id = id;
	s->generation++;
	s->looks = 0;
	s->due = i->now + delay_ns[0];
	memset(s->cells, 0, sizeof(s->cells));
	look_up(i, at);
	return true;
}

static int receive_arrival(void *context, void *data, size_t bytes)
{
	struct tcp_identity *i = context;
	uint64_t id;

	if (bytes < sizeof(id))
		return 0;
	memcpy(&id, data, sizeof(id));
	i->refused += !add_cgroup(i, id);
	return 0;
}

bool tcp_identity_want(struct tcp_identity *i, uint64_t id, uint64_t now_ns)
{
	uint32_t one = 1;

	/* The programs report this cgroup themselves. */
	if (!id ||
	    bpf_map_update_elem(bpf_map__fd(i->flow->maps.tcp_known), &id, &one, BPF_NOEXIST))
		return false;
	i->now = now_ns;
	return add_cgroup(i, id); /* the agent asks again, so a refusal is not counted */
}

uint64_t tcp_identity_serve(struct tcp_identity *i, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	i->now = now_ns;
	ring_buffer__consume(i->arrivals);
	for (uint32_t at = 1; at < i->used; at++) {
		struct identity_slot *s = &i->slot[at];

		if (!s->id || s->looks >= LOOKS)
			continue;
		if (s->due <= now_ns) {
			look_up(i, at);
			if (++s->looks == LOOKS)
				continue;
			s->due = now_ns + delay_ns[s->looks];
		}
		if (s->due < next)
			next = s->due;
	}
	store_counters(i);
	return next;
}

int tcp_identity_fd(const struct tcp_identity *i)
{
	return ring_buffer__epoll_fd(i->arrivals);
}

int tcp_identity_open(struct flow_bpf *flow, const struct tcp_region *region,
		      struct tcp_identity **out)
{
	struct tcp_cgroup_hierarchy unified;
	struct tcp_cgroups_opts opts = {.hierarchy = &unified, .fresh_ns = SECOND};
	struct region_flows_info info;
	struct tcp_identity *i;
	int err;

	if (region_flows_info_parse(region->map, region->bytes, &info) || !info.cgroups)
		return -EINVAL;
	i = calloc(1, sizeof(*i) + info.cgroup_slots * sizeof(*i->slot));
	if (!i)
		return -ENOMEM;
	i->flow = flow;
	i->section = (uint64_t(*)[64])((char *)region->map + info.cgroups);
	i->slots = info.cgroup_slots;
	i->used = 1;
	/* A socket's cgroup belongs to the unified hierarchy; without one, ids have no names. */
	err = tcp_cgroup_hierarchy(&unified, "unified", NULL, NULL);
	if (err)
		memset(&unified, 0, sizeof(unified));
	opts.max = i->slots > 4096 ? i->slots : 4096;
	i->names = tcp_cgroups_open(&opts);
	i->arrivals = ring_buffer__new(bpf_map__fd(flow->maps.tcp_arrivals), receive_arrival, i,
				       NULL);
	if (!i->names || !i->arrivals) {
		err = errno ? -errno : -ENOMEM;
		tcp_identity_close(i);
		return err;
	}
	store_counters(i);
	*out = i;
	return 0;
}

void tcp_identity_close(struct tcp_identity *i)
{
	if (!i)
		return;
	ring_buffer__free(i->arrivals);
	tcp_cgroups_close(i->names);
	free(i);
}
