/* SPDX-License-Identifier: Apache-2.0 */
/* layer_internal.h - private to layer*.c. */
#ifndef SL_SOURCE_TCP_LAYER_INTERNAL_H
#define SL_SOURCE_TCP_LAYER_INTERNAL_H

#include "source/tcp/layer.h"

struct layer_bpf;
struct ring_buffer;

#define LAYER_NAMESPACES 256

struct layer_namespace {
	uint64_t inode;
	int link[2]; /* IPv4, IPv6; -1: none */
	bool seen;   /* by the walk that goes on */
};

struct sl_layers {
	struct layer_bpf *skel;
	struct sl_hooks hooks;
	struct sl_tcp_filter *filter; /* mapped */
	uint32_t cpus;
	void *table; /* mapped */
	size_t bytes;
	struct sl_layers_info info;
	int cgroup_link;
	struct ring_buffer *ring;
	void (*record)(void *context, const struct sl_layer_record *r);
	void *record_context;
	uint64_t *group_uses; /* mapped: sockets by group */
	uint64_t *group_closed_ns, quarantine_ns, groups_returned;
	struct sl_cgroups *names; /* NULL: nobody can tell that a cgroup is gone */
	struct layer_namespace namespaces[LAYER_NAMESPACES];
	unsigned int namespace_count;
};

/* Descriptor of the netfilter program; -1: that hook is not used. */
int layer_netfilter_fd(const struct sl_layers *l);
int layer_table_fd(const struct sl_layers *l);
void layer_namespaces_end(struct sl_layers *l);
/* layer_groups.c. 0 or -errno. */
int layer_groups_begin(struct sl_layers *l, uint64_t quarantine_ns);
void layer_groups_end(struct sl_layers *l);

#endif
