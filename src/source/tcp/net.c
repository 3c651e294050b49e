// SPDX-License-Identifier: Apache-2.0
/* net.c - loads the programs that record TCP segments at network devices. */
#include "source/tcp/net.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/tcp/bpf/shared.h"
#include "source/tcp/feature.h"
#include "source/tcp/net.skel.h"
#include "source/tcp/util.h"
#include "source/tcp/filter.h"
#include "base/base.h"

#define RECORDS_DEFAULT 65536u

struct tcp_net {
	struct net_bpf *skel;
	struct tcp_hooks hooks;
	struct tcp_kernel_filter *filter; /* mapped */
	struct tcp_region region;
	struct region_nic_info info;
};

static int set_options(struct tcp_net *n, const struct tcp_net_opts *o, char *why, size_t bytes)
{
	struct tcp_net_settings *s = (struct tcp_net_settings *)&n->skel->rodata->settings;
	uint32_t records = SL_NIC_RING_MIN, want = o->records ? o->records : RECORDS_DEFAULT;
	struct bpf_program *p;

	if (o->devices.n > TCP_NET_DEVICES)
		return base_fail(why, bytes, -EINVAL, "at most %d devices are allowed",
				 TCP_NET_DEVICES);
	if (want > SL_NIC_RING_MAX)
		return base_fail(why, bytes, -EINVAL, "a ring cannot hold %u records", want);
	if (tcp_hook_chosen(&n->hooks, TCP_BOUNDARY_NIC_IN) != TCP_HOOK_TP ||
	    tcp_hook_chosen(&n->hooks, TCP_BOUNDARY_LINK_NIC) != TCP_HOOK_TP)
		return base_fail(why, bytes, -ENOTSUP,
				 "this kernel lacks the tracepoints at the network device; see "
				 "'sidelight tcp probe'");
	for (size_t i = 0; i < o->devices.n; i++) {
		const char *name = o->devices.v[i];

		if (!*name || strlen(name) >= sizeof(s->device[i]))
			return base_fail(why, bytes, -EINVAL, "'%s' is not a device name", name);
		strcpy(s->device[i], name);
	}
	s->devices = (uint32_t)o->devices.n;
	while (records < want)
		records *= 2;
	s->ring_mask = records - 1;
	bpf_object__for_each_program(p, n->skel->obj) bpf_program__set_autoload(p, true);
	return bpf_map__set_max_entries(n->skel->maps.net_ring, TCP_NET_FIRST_ELEMENT + records);
}

static int map_region(struct tcp_net *n)
{
	const struct tcp_net_settings *s =
		(const struct tcp_net_settings *)&n->skel->rodata->settings;
	uint64_t ring = ((uint64_t)s->ring_mask + 1) * SL_NIC_SIZE;
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, SL_LINE_SIZE, TCP_NET_HOT_ELEMENT * SL_NIC_SIZE, SL_LINE_SIZE},
		{SL_SECTION_NIC_RING, SL_NIC_SIZE, TCP_NET_FIRST_ELEMENT * SL_NIC_SIZE, ring},
	};
	uint64_t size = TCP_NET_FIRST_ELEMENT * SL_NIC_SIZE + ring;
	int err = tcp_region_map(&n->region, bpf_map__fd(n->skel->maps.net_ring), size,
				 SL_REGION_NIC, sections, sizeof(sections) / sizeof(*sections));

	if (err)
		return err;
	return region_nic_info_parse(n->region.map, n->region.bytes, &n->info) ? -EPROTO : 0;
}

int tcp_net_filter(struct tcp_net *n, const struct tcp_filter *filter, char *why, size_t bytes)
{
	if (filter->cgroups.n || filter->pid)
		return base_fail(
			why, bytes, -EINVAL,
			"at the network device, processes and cgroups are unknown: filter by "
			"port, address or network namespace");
	return tcp_filter_set(n->filter, filter, bpf_map__fd(n->skel->maps.tcp_cidrs),
			      bpf_map__fd(n->skel->maps.tcp_cgroups), why, bytes);
}

int tcp_net_open(const struct tcp_net_opts *options, struct tcp_net **out, char *why, size_t bytes)
{
	struct tcp_net *n = calloc(1, sizeof(*n));
	int err;

	*out = NULL;
	snprintf(why, bytes, "out of memory");
	if (!n)
		return -ENOMEM;
	err = tcp_features_need(TCP_PART_NET, why, bytes)
		      ?: tcp_hooks_choose(&n->hooks, TCP_HOOKS_OF(NIC_IN) | TCP_HOOKS_OF(LINK_NIC),
					  0, why, bytes);
	if (err)
		goto fail;
	n->skel = net_bpf__open();
	err = n->skel ? set_options(n, options, why, bytes) : -errno;
	if (err)
		goto fail;
	err = tcp_load(n->skel->skeleton, "network", why, bytes)
		      ?: tcp_filter_map(bpf_map__fd(n->skel->maps.tcp_filter), &n->filter)
		      ?: tcp_net_filter(n, &options->filter, why, bytes);
	if (err)
		goto fail;
	err = map_region(n) ?: net_bpf__attach(n->skel);
	if (err) {
		snprintf(why, bytes, "cannot attach the eBPF programs: %s", strerror(-err));
		goto fail;
	}
	*out = n;
	return 0;
fail:
	tcp_net_close(n);
	return err;
}

void tcp_net_close(struct tcp_net *n)
{
	if (!n)
		return;
	tcp_region_unmap(&n->region);
	tcp_filter_unmap(n->filter);
	net_bpf__destroy(n->skel);
	free(n);
}

uint64_t tcp_net_left_out(const struct tcp_net *n)
{
	uint64_t sum;

	tcp_skipped_calls(n->skel->obj, &sum);
	return sum;
}

const struct tcp_region *tcp_net_region(const struct tcp_net *n)
{
	return &n->region;
}

const struct region_nic_info *tcp_net_info(const struct tcp_net *n)
{
	return &n->info;
}
