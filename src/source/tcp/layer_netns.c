// SPDX-License-Identifier: Apache-2.0
/*
 * layer_netns.c - attaches the netfilter hook, which is per network namespace, in each namespace
 * with a process, where the boundary between TCP and IP has no other hook. A link holds its
 * namespace, so the link of one without processes is closed.
 */
#include <unistd.h>

#include "source/tcp/layer_internal.h"
#include "source/tcp/netns.h"
#include "source/tcp/util.h"

#define NF_LOCAL_OUT 3

static void unlink_namespace(struct tcp_layer_namespace *n)
{
	for (int i = 0; i < 2; i++)
		if (n->link[i] >= 0)
			close(n->link[i]);
}

static struct tcp_layer_namespace *find(struct tcp_layers *l, uint64_t inode)
{
	for (unsigned int i = 0; i < l->namespace_count; i++)
		if (l->namespaces[i].inode == inode)
			return &l->namespaces[i];
	return NULL;
}

/* Namespaces without room count as no_out_ip. */
static bool enter(void *context, uint64_t inode)
{
	struct tcp_layers *l = context;
	struct tcp_layer_namespace *n = find(l, inode);

	if (n)
		n->seen = true;
	return !n && l->namespace_count < LAYER_NAMESPACES;
}

static void here(void *context, uint64_t inode)
{
	struct tcp_layers *l = context;
	struct tcp_layer_namespace *n = &l->namespaces[l->namespace_count++];

	n->inode = inode;
	n->seen = true;
	n->link[0] = tcp_netfilter_link(l->netfilter, 2 /* NFPROTO_IPV4 */, NF_LOCAL_OUT);
	n->link[1] = tcp_netfilter_link(l->netfilter, 10 /* NFPROTO_IPV6 */, NF_LOCAL_OUT);
}

int tcp_layers_namespaces(struct tcp_layers *l)
{
	int err;

	if (l->netfilter < 0)
		return 0;
	for (unsigned int i = 0; i < l->namespace_count; i++)
		l->namespaces[i].seen = false;
	err = tcp_netns_each(enter, here, l);
	for (unsigned int i = 0; !err && i < l->namespace_count; i++) {
		if (l->namespaces[i].seen)
			continue;
		unlink_namespace(&l->namespaces[i]);
		l->namespaces[i--] = l->namespaces[--l->namespace_count];
	}
	return err;
}

void tcp_layer_namespaces_end(struct tcp_layers *l)
{
	for (unsigned int i = 0; i < l->namespace_count; i++)
		unlink_namespace(&l->namespaces[i]);
	l->namespace_count = 0;
}
