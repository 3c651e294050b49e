/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h - measures with eBPF (bpf/layer.bpf.c) the time that TCP segments spend in each layer of
 * the network stack, and the time from the arrival of a request at the driver to the departure of
 * its response. The histograms are in kernel memory, per flow and per group (remote address,
 * service port, cgroup); coarser views are sums over groups. Nothing is pinned: all programs and
 * maps are removed when the process exits.
 *
 * A struct tcp_layers must be used by one thread at a time.
 */
#ifndef SL_SOURCE_TCP_LAYER_H
#define SL_SOURCE_TCP_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/layers.h"
#include "source/tcp/bpf/layer_shared.h"
#include "source/tcp/tcp.h"

struct tcp_layers;

struct tcp_layers_opts {
	/* maximum number of flows with histograms of their own, 4.2 KiB each; 0 means 4096 */
	uint32_t flows;
	uint32_t groups; /* maximum number of groups; 0 means 1024 */
	/* time before the slot of a removed cgroup's group is reused; 0 means 30 s */
	uint64_t quarantine_ns;
	struct tcp_filter filter;
	uint32_t avoid; /* bit i: avoid hooks of type enum tcp_hook_type i; for tests */
};

/*
 * Chooses hooks, then loads and attaches the programs. Returns 0, or -errno with one line in why[],
 * like tcp_open(). tcp_layers_causes() reports boundaries without a hook.
 */
int tcp_layers_open(const struct tcp_layers_opts *options, struct tcp_layers **layers, char *why,
		    size_t bytes);
void tcp_layers_close(struct tcp_layers *layers); /* NULL is fine */

/*
 * Changes the filter at run time. Flows already being measured are kept. Returns 0, or -errno with
 * one line in why[].
 */
int tcp_layers_filter(struct tcp_layers *layers, const struct tcp_filter *filter, char *why,
		      size_t bytes);

/*
 * Attaches to new network namespaces and detaches from those that are gone, if the hook between TCP
 * and IP is a netfilter hook, which is per namespace. Walks /proc. Call it about once per second.
 * Returns 0 or -errno.
 */
int tcp_layers_namespaces(struct tcp_layers *layers);

/* True if tcp_layers_namespaces() attaches hooks, which needs the same privileges as start-up. */
bool tcp_layers_follow_namespaces(const struct tcp_layers *layers);

/*
 * Recycles the slots of groups whose cgroup was removed: a slot is closed once its group has no
 * sockets, so that readers see final values, and freed after the quarantine. Takes one file system
 * lookup per group; call it every few seconds. now_ns may come from any monotonic clock. Returns
 * the number of slots freed so far.
 */
uint64_t tcp_layers_groups(struct tcp_layers *layers, uint64_t now_ns);

enum tcp_layer_table { TCP_LAYER_FLOWS, TCP_LAYER_GROUPS };
/* Number of slots used so far. */
uint32_t tcp_layers_slots(const struct tcp_layers *layers, enum tcp_layer_table table);
/*
 * Returns 1 if *view was filled in, 0 if the slot is empty, or -EAGAIN if it was reassigned to
 * another flow while being read or kept changing. Group 0 holds all flows without a group.
 */
int tcp_layers_slot(const struct tcp_layers *layers, enum tcp_layer_table table, uint32_t index,
		    struct region_layer_view *view);
/*
 * The programs only store notes. A kernel timer counts the notes within 10 ms and closes slots
 * within 30 ms. Returns true if no notes are pending.
 */
bool tcp_layers_settled(const struct tcp_layers *layers);

/* Copies how often each cause has occurred since tcp_layers_open(). Returns 0 or -errno. */
int tcp_layers_causes(const struct tcp_layers *layers, uint64_t out[SL_CAUSES]);

/* Returns the region, of kind SL_REGION_LAYERS. Valid until tcp_layers_close(). */
const struct tcp_region *tcp_layers_region(const struct tcp_layers *layers);

/*
 * Starts delivery of the kinds of records whose bit is set (1 << enum tcp_record_kind); 0 stops it.
 * tcp_layers_poll() delivers pending records and waits up to timeout_ms for the first; it returns
 * -errno on failure.
 */
int tcp_layers_trace(struct tcp_layers *layers, uint32_t kinds,
		     void (*record)(void *context, const struct tcp_layer_record *r),
		     void *context);
int tcp_layers_poll(struct tcp_layers *layers, int timeout_ms);

#endif
