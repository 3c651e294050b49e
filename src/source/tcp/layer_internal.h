/* SPDX-License-Identifier: Apache-2.0 */
/* layer_internal.h - definitions shared by layer.c and layer_groups.c. */
#ifndef SL_SOURCE_TCP_LAYER_INTERNAL_H
#define SL_SOURCE_TCP_LAYER_INTERNAL_H

#include "source/tcp/layer.h"

struct layer_bpf;
struct ring_buffer;

#define LAYER_NAMESPACES 256

struct tcp_layer_namespace {
	uint64_t inode;
	int link[2]; /* netfilter links for IPv4 and IPv6; negative if not attached */
	bool seen;   /* the current walk has found this namespace */
};

struct tcp_layers {
	struct layer_bpf *skel;
	struct tcp_hooks hooks;
	struct tcp_kernel_filter *filter; /* mapped */
	uint32_t cpus;
	struct tcp_region region;
	struct region_layers_info info;
	int cgroup_link;
	int netfilter; /* descriptor of the netfilter program; -1 if another hook is in use */
	struct ring_buffer *ring;
	void (*record)(void *context, const struct tcp_layer_record *r);
	void *record_context;
	uint64_t *group_uses; /* mapped array: number of sockets per group */
	uint64_t *group_closed_ns, quarantine_ns, groups_returned;
	struct tcp_cgroups *names; /* NULL if removed cgroups cannot be detected */
	struct tcp_layer_namespace namespaces[LAYER_NAMESPACES];
	unsigned int namespace_count;
};

/* Implemented in layer_groups.c. Returns 0 or -errno. */
int tcp_layer_groups_begin(struct tcp_layers *l, uint64_t quarantine_ns);
void tcp_layer_groups_end(struct tcp_layers *l);

#endif
