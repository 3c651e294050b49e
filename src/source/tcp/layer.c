// SPDX-License-Identifier: Apache-2.0
/* layer.c - loads the layer programs for the hooks that the kernel permits; reads their tables. */
#include "source/tcp/layer.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/tcp/feature.h"
#include "source/tcp/layer.skel.h"
#include "source/tcp/layer_internal.h"
#include "source/tcp/netns.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/util.h"
#include "source/tcp/filter.h"
#include "base/base.h"

#define USE(boundary, type, ...)                                        \
	{                                                               \
		TCP_BOUNDARY_##boundary, {__VA_ARGS__}, TCP_HOOK_##type \
	}

/* The programs of each chosen hook. Any other kernel feature they need is as old as BTF. */
static const struct {
	enum tcp_boundary boundary;
	const char *program[5];
	enum tcp_hook_type type;
} uses[] = {
	USE(NIC_IN, TP, "nic_gro", "nic_frags", "nic_receive", "nic_list", "nic_rx"),
	USE(MAC_IP, FENTRY, "ip_rcv_v4", "ip_rcv_v6", "ip_list_v4", "ip_list_v6"),
	USE(MAC_IP, KPROBE, "ip_rcv_v4_kp", "ip_rcv_v6_kp", "ip_list_v4_kp", "ip_list_v6_kp"),
	USE(MAC_IP, TP, "ip_tp"),
	USE(IP_TCP, FENTRY, "tcp_rcv_v4", "tcp_rcv_v6"),
	USE(IP_TCP, KPROBE, "tcp_rcv_v4_kp", "tcp_rcv_v6_kp"),
	USE(IP_TCP, CGROUP_SKB, "tcp_cgroup"),
	USE(SEGMENT, TP, "segment_in"),
	USE(TCP_APP, TP, "copied"),
	USE(APP_TCP, TP, "send_tp"),
	USE(APP_TCP, FENTRY, "send_locked", "send_pages"),
	USE(TCP_IP, FENTRY, "xmit_v4", "xmit_v6"),
	USE(TCP_IP, KPROBE, "xmit_v4_kp", "xmit_v6_kp"),
	USE(TCP_IP, NETFILTER, "xmit_nf"),
	USE(IP_LINK, TP, "queued"),
	USE(LINK_NIC, TP, "nic_out"),
	USE(STATE, TP, "state_changed"),
	USE(CLOSE, TP, "closed"),
};
#define USES (sizeof(uses) / sizeof(*uses))

/* Without these boundaries nothing is measured; any other missing boundary costs one layer. */
static const enum tcp_boundary needed[] = {TCP_BOUNDARY_SEGMENT, TCP_BOUNDARY_TCP_APP,
					   TCP_BOUNDARY_STATE, TCP_BOUNDARY_CLOSE};

static bool in_use(const struct tcp_layers *l, const char *program)
{
	for (size_t i = 0; i < USES; i++) {
		if (tcp_hook_chosen(&l->hooks, uses[i].boundary) != uses[i].type)
			continue;
		for (int p = 0; p < 5 && uses[i].program[p]; p++)
			if (!strcmp(uses[i].program[p], program))
				return true;
	}
	return false;
}

static int choose_programs(struct tcp_layers *l, char *why, size_t bytes)
{
	struct bpf_program *program;

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		const struct tcp_hook_boundary *b = &tcp_hook_table[needed[i]];

		if (tcp_hook_chosen(&l->hooks, needed[i]) != TCP_HOOK_TP)
			return base_fail(why, bytes, -ENOTSUP,
					 "this kernel has no hook for %s (%s)", b->name,
					 b->between);
	}
	bpf_object__for_each_program(program, l->skel->obj)
	{
		const char *name = bpf_program__name(program);
		bool on = in_use(l, name);

		/* Linux 6.5 removed sendpage; later kernels need no hook there. */
		if (!strcmp(name, "send_pages"))
			on = on &&
			     libbpf_find_vmlinux_btf_id("do_tcp_sendpages", BPF_TRACE_FENTRY) > 0;
		bpf_program__set_autoload(program, on);
	}
	bpf_program__set_autoload(l->skel->progs.count_begin, true);
	bpf_program__set_autoattach(l->skel->progs.count_begin, false);
	bpf_program__set_autoattach(l->skel->progs.tcp_cgroup, false);
	bpf_program__set_autoattach(l->skel->progs.xmit_nf, false);
	/* Some libbpf versions cannot derive the program type from the section name. */
	bpf_program__set_type(l->skel->progs.xmit_nf, (enum bpf_prog_type)TCP_PROG_NETFILTER);
	bpf_program__set_expected_attach_type(l->skel->progs.xmit_nf,
					      (enum bpf_attach_type)TCP_ATTACH_NETFILTER);
	return 0;
}

static int size_maps(struct tcp_layers *l, uint32_t flows, uint32_t groups)
{
	struct layer_bpf *skel = l->skel;

	if (flows > SL_LAYER_SLOTS_MAX || groups > SL_LAYER_SLOTS_MAX)
		return -EINVAL;
	skel->rodata->cpus = l->cpus;
	skel->rodata->flow_slots = flows;
	skel->rodata->group_slots = groups;
	return tcp_maps_size((const struct tcp_map_size[]){
		{skel->maps.layer_table, TCP_LAYERS_FIRST_ELEMENT + l->cpus + flows + groups},
		{skel->maps.layer_notes, l->cpus},
		{skel->maps.layer_ended, flows},
		{skel->maps.layer_free_flows, flows},
		{skel->maps.layer_free_groups, groups},
		{skel->maps.layer_group_uses, groups},
		{skel->maps.layer_group_of, groups},
		{0}});
}

static int make_region(struct tcp_layers *l)
{
	const uint64_t size = SL_LAYER_SLOT_SIZE, losses = TCP_LAYERS_FIRST_ELEMENT * size;
	const uint64_t flows = losses + l->cpus * size;
	const uint64_t flow_bytes = l->skel->rodata->flow_slots * size;
	const uint64_t group_bytes = l->skel->rodata->group_slots * size;
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, SL_LINE_SIZE, SL_HEADER_SIZE, SL_LINE_SIZE},
		{SL_SECTION_LOSSES, SL_LAYER_SLOT_SIZE, losses, l->cpus * size},
		{SL_SECTION_LAYER_FLOWS, SL_LAYER_SLOT_SIZE, flows, flow_bytes},
		{SL_SECTION_LAYER_GROUPS, SL_LAYER_SLOT_SIZE, flows + flow_bytes, group_bytes},
	};
	uint64_t *hot;
	int err = tcp_region_map(&l->region, bpf_map__fd(l->skel->maps.layer_table),
				 flows + flow_bytes + group_bytes, SL_REGION_LAYERS, sections,
				 sizeof(sections) / sizeof(*sections));

	if (err)
		return err;
	hot = (uint64_t *)((char *)l->region.map + SL_HEADER_SIZE);
	hot[SL_LAYERS_GROUPS_USED] = 1; /* group 0 counts flows that have no group of their own */
	hot[7] = sl_line_check(hot);
	return region_layers_info_parse(l->region.map, l->region.bytes, &l->info) ? -EINVAL : 0;
}

int tcp_layers_filter(struct tcp_layers *l, const struct tcp_filter *filter, char *why,
		      size_t bytes)
{
	return tcp_filter_set(l->filter, filter, bpf_map__fd(l->skel->maps.tcp_cidrs),
			      bpf_map__fd(l->skel->maps.tcp_cgroups), why, bytes);
}

/* ---- network namespaces ---- */

/*
 * The netfilter hook belongs to a network namespace, so it is attached in each namespace that has a
 * process. A link keeps its namespace alive; once a namespace has no processes, its links are
 * closed.
 */
static void unlink_namespace(struct tcp_layer_namespace *n)
{
	for (int i = 0; i < 2; i++)
		if (n->link[i] >= 0)
			close(n->link[i]);
}

static struct tcp_layer_namespace *namespace_of(struct tcp_layers *l, uint64_t inode)
{
	for (unsigned int i = 0; i < l->namespace_count; i++)
		if (l->namespaces[i].inode == inode)
			return &l->namespaces[i];
	return NULL;
}

/* A namespace beyond the limit is counted as no_out_ip. */
static bool note_namespace(void *context, uint64_t inode)
{
	struct tcp_layers *l = context;
	struct tcp_layer_namespace *n = namespace_of(l, inode);

	if (n)
		n->seen = true;
	return !n && l->namespace_count < LAYER_NAMESPACES;
}

static void attach_to_namespace(void *context, uint64_t inode)
{
	struct tcp_layers *l = context;
	struct tcp_layer_namespace *n = &l->namespaces[l->namespace_count++];

	n->inode = inode;
	n->seen = true;
	n->link[0] = tcp_netfilter_link(l->netfilter, 2 /* NFPROTO_IPV4 */);
	n->link[1] = tcp_netfilter_link(l->netfilter, 10 /* NFPROTO_IPV6 */);
}

bool tcp_layers_follow_namespaces(const struct tcp_layers *l)
{
	return l->netfilter >= 0;
}

int tcp_layers_namespaces(struct tcp_layers *l)
{
	int err;

	if (l->netfilter < 0)
		return 0;
	for (unsigned int i = 0; i < l->namespace_count; i++)
		l->namespaces[i].seen = false;
	err = tcp_netns_each(note_namespace, attach_to_namespace, l);
	for (unsigned int i = 0; !err && i < l->namespace_count; i++) {
		if (l->namespaces[i].seen)
			continue;
		unlink_namespace(&l->namespaces[i]);
		l->namespaces[i--] = l->namespaces[--l->namespace_count];
	}
	return err;
}

static int attach_programs(struct tcp_layers *l)
{
	int err = tcp_iterate_until(l->skel->progs.count_begin, &l->skel->bss->count_ready);
	int cgroup;

	if (err)
		return err;
	err = layer_bpf__attach(l->skel);
	if (err)
		return err;
	if (tcp_hook_chosen(&l->hooks, TCP_BOUNDARY_IP_TCP) == TCP_HOOK_CGROUP_SKB) {
		cgroup = tcp_cgroup2_open();
		if (cgroup < 0)
			return cgroup;
		l->cgroup_link = bpf_link_create(bpf_program__fd(l->skel->progs.tcp_cgroup), cgroup,
						 BPF_CGROUP_INET_INGRESS, NULL);
		err = l->cgroup_link < 0 ? -errno : 0;
		close(cgroup);
		if (err)
			return err;
	}
	if (tcp_hook_chosen(&l->hooks, TCP_BOUNDARY_TCP_IP) == TCP_HOOK_NETFILTER)
		l->netfilter = bpf_program__fd(l->skel->progs.xmit_nf);
	return tcp_layers_namespaces(l);
}

int tcp_layers_open(const struct tcp_layers_opts *options, struct tcp_layers **out, char *why,
		    size_t bytes)
{
	struct tcp_layers *l = calloc(1, sizeof(*l));
	uint32_t boundaries = 0;
	int err;

	*out = NULL;
	snprintf(why, bytes, "out of memory");
	if (!l)
		return -ENOMEM;
	l->cgroup_link = l->netfilter = -1;
	tcp_libbpf_log();
	err = libbpf_num_possible_cpus();
	if (err < 0)
		goto fail;
	l->cpus = (uint32_t)err;
	for (size_t i = 0; i < USES; i++)
		boundaries |= 1u << uses[i].boundary;
	err = tcp_features_need(TCP_PART_LAYERS, why, bytes)
		      ?: tcp_hooks_choose(&l->hooks, boundaries, options->avoid, why, bytes);
	if (err)
		goto fail;
	l->skel = layer_bpf__open();
	err = l->skel ? choose_programs(l, why, bytes) : -errno;
	if (err)
		goto fail;
	err = size_maps(l, options->flows ? options->flows : 4096,
			(options->groups ? options->groups : 1024) + 1)
		      ?: layer_bpf__load(l->skel);
	if (err) {
		err = tcp_load_refused(err, "layer", why, bytes);
		goto fail;
	}
	err = tcp_filter_map(bpf_map__fd(l->skel->maps.tcp_filter), &l->filter)
		      ?: tcp_layers_filter(l, &options->filter, why, bytes);
	if (err)
		goto fail;
	err = make_region(l) ?: tcp_layer_groups_begin(l, options->quarantine_ns) ?: attach_programs(l);
	if (err) {
		snprintf(why, bytes, "cannot attach the layer programs: %s", strerror(-err));
		goto fail;
	}
	*out = l;
	return 0;
fail:
	tcp_layers_close(l);
	return err;
}

void tcp_layers_close(struct tcp_layers *l)
{
	if (!l)
		return;
	ring_buffer__free(l->ring);
	for (unsigned int i = 0; i < l->namespace_count; i++)
		unlink_namespace(&l->namespaces[i]);
	tcp_layer_groups_end(l);
	if (l->cgroup_link >= 0)
		close(l->cgroup_link);
	tcp_region_unmap(&l->region);
	tcp_filter_unmap(l->filter);
	layer_bpf__destroy(l->skel);
	free(l);
}

/* ---- records ---- */

static int deliver_record(void *context, void *data, size_t bytes)
{
	struct tcp_layers *l = context;

	if (bytes >= sizeof(struct tcp_layer_record))
		l->record(l->record_context, data);
	return 0;
}

int tcp_layers_trace(struct tcp_layers *l, uint32_t kinds,
		     void (*record)(void *context, const struct tcp_layer_record *r), void *context)
{
	l->record = record;
	l->record_context = context;
	if (!l->ring && kinds) {
		l->ring = ring_buffer__new(bpf_map__fd(l->skel->maps.layer_records), deliver_record,
					   l, NULL);
		if (!l->ring)
			return -errno;
	}
	__atomic_store_n(&l->skel->bss->trace_kinds, kinds, __ATOMIC_RELAXED);
	return 0;
}

int tcp_layers_poll(struct tcp_layers *l, int timeout_ms)
{
	int n = l->ring ? ring_buffer__poll(l->ring, timeout_ms) : 0;

	return n == -EINTR ? 0 : n;
}

bool tcp_layers_settled(const struct tcp_layers *l)
{
	return !__atomic_load_n(&l->skel->bss->count_armed, __ATOMIC_ACQUIRE);
}

/* ---- reading, line by line ---- */

uint32_t tcp_layers_slots(const struct tcp_layers *l, enum tcp_layer_table table)
{
	const uint64_t *from = tcp_region_at(&l->region, l->info.hot);
	struct region_layers_hot hot;
	uint64_t line[8];

	if (!region_copy_lines(line, from, 1) || region_layers_hot_parse(line, &l->info, &hot))
		return table == TCP_LAYER_FLOWS ? l->info.flow_slots : l->info.group_slots;
	return table == TCP_LAYER_FLOWS ? hot.flows_used : hot.groups_used;
}

int tcp_layers_slot(const struct tcp_layers *l, enum tcp_layer_table table, uint32_t index,
		    struct region_layer_view *v)
{
	bool flows = table == TCP_LAYER_FLOWS, keyless = !flows && !index;
	const uint64_t *from = tcp_region_at(&l->region, flows ? l->info.flows : l->info.groups) +
			       (size_t)index * SL_SLOT_WORDS;
	uint64_t copy[SL_SLOT_WORDS];
	int n;

	if (index >= (flows ? l->info.flow_slots : l->info.group_slots))
		return -EINVAL;
	n = tcp_region_slot(copy, from, SL_SLOT_WORDS, 255, keyless);
	return n == 1 && region_layer_parse(copy, keyless, v) ? -EAGAIN : n;
}

int tcp_layers_causes(const struct tcp_layers *l, uint64_t out[SL_CAUSES])
{
	const struct region_section *s = &l->info.losses;
	uint64_t copy[(SL_CAUSES + 6) / 7 * 8];

	memset(out, 0, SL_CAUSES * sizeof(*out));
	for (uint32_t i = 0; i < s->count; i++) {
		const uint64_t *from = tcp_region_at(&l->region, s->offset + (size_t)i * s->stride);

		if (!region_copy_lines(copy, from, sizeof(copy) / SL_LINE_SIZE) ||
		    region_losses_add(copy, SL_CAUSES, out))
			return -EAGAIN;
	}
	return 0;
}

const struct tcp_region *tcp_layers_region(const struct tcp_layers *l)
{
	return &l->region;
}
