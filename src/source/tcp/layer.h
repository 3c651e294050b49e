/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h - the time that each layer of the stack takes for TCP segments, and for servers' requests
 * from driver to driver, by eBPF (bpf/layer.bpf.c). Histograms lie in kernel memory, per flow and
 * per group (remote address, service port, cgroup); sums over groups give any coarser view. Nothing
 * is pinned: everything ends with the process.
 *
 * One thread per struct tcp_layers.
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
	uint32_t flows;		/* flows with their own histograms, 4.2 KiB each; 0: 4096 */
	uint32_t groups;	/* 0: 1024 */
	uint64_t quarantine_ns; /* of a group whose cgroup was removed; 0: 30 s */
	struct tcp_filter filter;
	uint32_t avoid; /* bit i: avoid hooks of enum tcp_hook_type i; for tests */
};

/*
 * Chooses hooks, loads and attaches. 0, or -errno with one line in why[], as for tcp_open(). A
 * boundary without a hook shows in tcp_layers_causes().
 */
int tcp_layers_open(const struct tcp_layers_opts *options, struct tcp_layers **layers, char *why,
		    size_t bytes);
void tcp_layers_close(struct tcp_layers *layers); /* NULL is fine */

/* Changes the filter at run time; flows already chosen stay. 0 or -errno, why as above. */
int tcp_layers_filter(struct tcp_layers *layers, const struct tcp_filter *filter, char *why,
		      size_t bytes);

/*
 * Follows network namespaces that came or went, where the hook between TCP and IP is netfilter's,
 * which is per namespace. Call it about once per second; walks /proc. 0 or -errno.
 */
int tcp_layers_namespaces(struct tcp_layers *layers);

/* Whether tcp_layers_namespaces() attaches anything: it then needs the privileges of the start. */
bool tcp_layers_follow_namespaces(const struct tcp_layers *layers);

/*
 * Returns slots of groups whose cgroup was removed: closed once they have no socket, so that
 * readers see final values, and free after the quarantine. Call it every few seconds; takes one
 * file system lookup per group. now_ns: any monotonic clock. Returns the number of slots returned
 * so far.
 */
uint64_t tcp_layers_groups(struct tcp_layers *layers, uint64_t now_ns);

enum tcp_layer_table { TCP_LAYER_FLOWS, TCP_LAYER_GROUPS };
/* Slots ever used. */
uint32_t tcp_layers_slots(const struct tcp_layers *layers, enum tcp_layer_table table);
/*
 * 1: filled in; 0: the slot is empty; -EAGAIN: it passed to another flow meanwhile, or did not
 * settle. Group 0 holds all flows without a group.
 */
int tcp_layers_slot(const struct tcp_layers *layers, enum tcp_layer_table table, uint32_t index,
		    struct region_layer_view *view);
/*
 * The programs take notes; a kernel timer counts them within 10 ms and closes slots within 30.
 * True: no notes are pending.
 */
bool tcp_layers_settled(const struct tcp_layers *layers);

/* Occurrences of each cause since the start. 0 or -errno. */
int tcp_layers_causes(const struct tcp_layers *layers, uint64_t out[SL_CAUSES]);

/* Of kind SL_REGION_LAYERS; until the close. */
const struct tcp_region *tcp_layers_region(const struct tcp_layers *layers);

/*
 * Delivers records of the kinds whose bit is set (1 << enum tcp_record_kind); 0: none.
 * tcp_layers_poll() delivers pending ones, waiting up to timeout_ms; below 0: -errno.
 */
int tcp_layers_trace(struct tcp_layers *layers, uint32_t kinds,
		     void (*record)(void *context, const struct tcp_layer_record *r),
		     void *context);
int tcp_layers_poll(struct tcp_layers *layers, int timeout_ms);

#endif
