// SPDX-License-Identifier: Apache-2.0
/*
 * layer_groups.c - recycles the slots of groups whose cgroup was removed: containers come and go,
 * and each has its own groups.
 *
 * The programs count the sockets of each group. A group without sockets whose cgroup was removed is
 * deleted from the programs' index, so that no program finds it, and is closed: its final values
 * remain readable. After the quarantine, the slot is freed with a new generation, unless the group
 * has a socket again (a program may have been about to use it). By then, all of its notes have been
 * counted, as notes are at most 10 ms old. If the kernel skipped the close of a socket, the socket
 * count stays too high and the slot remains in use.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "source/tcp/bpf/layer_shared.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/layer.skel.h"
#include "source/tcp/layer_internal.h"

#define QUARANTINE_NS 30000000000ull

static uint64_t *group_at(const struct tcp_layers *l, uint32_t i)
{
	return (uint64_t *)((char *)l->region.map + l->info.groups) + (size_t)i * SL_SLOT_WORDS;
}

static uint64_t count_sockets(const struct tcp_layers *l, uint32_t i)
{
	return __atomic_load_n(&l->group_uses[i], __ATOMIC_ACQUIRE);
}

static void close_group(struct tcp_layers *l, uint32_t i, const uint64_t copy[16], uint64_t now_ns)
{
	struct tcp_layer_group_key key = {
		.cgroup = copy[SL_SLOT_CGROUP],
		.port = (uint16_t)copy[SL_SLOT_PORTS],
		.role = (uint8_t)(copy[SL_SLOT_STATE] >> 8),
		.family = (uint8_t)(copy[SL_SLOT_PORTS] >> 32),
		.netns = (uint32_t)copy[SL_SLOT_NETNS],
	};
	uint64_t line[16];

	memcpy(key.remote, &copy[SL_SLOT_REMOTE], 16);
	bpf_map_delete_elem(bpf_map__fd(l->skel->maps.layer_group_of), &key);
	memcpy(line, copy, sizeof(line));
	line[SL_SLOT_END] = now_ns;
	line[SL_SLOT_STATE] += SL_SLOT_CLOSED - SL_SLOT_OPEN;
	region_store_line(group_at(l, i) + 8, line + 8);
	region_store_line(group_at(l, i), line);
	l->group_closed_ns[i] = now_ns;
}

static void free_group(struct tcp_layers *l, uint32_t i, const uint64_t copy[16])
{
	const uint64_t none[8] = {0}, next[8] = {((copy[SL_SLOT_STATE] >> 16) + 1) << 16};
	uint64_t *to = group_at(l, i);

	region_store_line(to, next); /* written first, to tell readers that the owner is gone */
	for (uint32_t w = 8; w < SL_SLOT_WORDS; w += 8)
		region_store_line(to + w, none);
	if (!bpf_map_update_elem(bpf_map__fd(l->skel->maps.layer_free_groups), NULL, &i, BPF_ANY))
		l->groups_returned++;
}

static bool is_gone(struct tcp_layers *l, uint64_t cgroup, uint64_t now_ns)
{
	const struct tcp_cgroup_identity *who = tcp_cgroups_find(l->names, cgroup, now_ns);

	return who->dead || !*who->path;
}

uint64_t tcp_layers_groups(struct tcp_layers *l, uint64_t now_ns)
{
	uint32_t n = l->names ? tcp_layers_slots(l, TCP_LAYER_GROUPS) : 0;
	uint64_t copy[16];

	for (uint32_t i = 1; i < n; i++) {
		if (count_sockets(l, i) || !region_copy_lines(copy, group_at(l, i), 2))
			continue;
		switch (copy[SL_SLOT_STATE] & 255) {
		case SL_SLOT_OPEN:
			if (is_gone(l, copy[SL_SLOT_CGROUP], now_ns))
				close_group(l, i, copy, now_ns);
			break;
		case SL_SLOT_CLOSED:
			if (now_ns - l->group_closed_ns[i] >= l->quarantine_ns)
				free_group(l, i, copy);
			break;
		}
	}
	return l->groups_returned;
}

int tcp_layer_groups_begin(struct tcp_layers *l, uint64_t quarantine_ns)
{
	struct tcp_cgroup_hierarchy unified;
	struct tcp_cgroups_opts opts = {.hierarchy = &unified};
	uint64_t own;

	l->quarantine_ns = quarantine_ns ? quarantine_ns : QUARANTINE_NS;
	l->group_closed_ns = calloc(l->info.group_slots, sizeof(*l->group_closed_ns));
	if (!l->group_closed_ns)
		return -ENOMEM;
	l->group_uses = mmap(NULL, l->info.group_slots * sizeof(*l->group_uses), PROT_READ,
			     MAP_SHARED, bpf_map__fd(l->skel->maps.layer_group_uses), 0);
	if (l->group_uses == MAP_FAILED) {
		l->group_uses = NULL;
		return -errno;
	}
	/* Without the unified hierarchy, removed cgroups cannot be detected. */
	if (tcp_cgroup_hierarchy(&unified, "unified", NULL, NULL))
		return 0;
	l->names = tcp_cgroups_open(&opts);
	own = tcp_cgroup_of_process(&unified, (uint32_t)getpid());
	if (l->names && (!own || is_gone(l, own, 1))) {
		tcp_cgroups_close(l->names);
		l->names = NULL;
	}
	return 0;
}

void tcp_layer_groups_end(struct tcp_layers *l)
{
	if (l->group_uses)
		munmap(l->group_uses, l->info.group_slots * sizeof(*l->group_uses));
	tcp_cgroups_close(l->names);
	free(l->group_closed_ns);
}
