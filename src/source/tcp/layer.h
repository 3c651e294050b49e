/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h - the time that each layer of the stack takes for TCP segments, and for requests of
 * servers from driver to driver, by eBPF (bpf/layer.bpf.c). Histograms lie in the kernel's memory,
 * per flow and per group (remote address, port of the service, cgroup): who wants them per remote,
 * per port or per container adds groups up. Nothing is pinned: all of it ends with the process.
 *
 * Not thread-safe: one thread uses one struct tcp_layers.
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
	uint32_t flows; /* flows with histograms of their own at a time; 0: 4096, of 4.2 KiB each */
	uint32_t groups;	/* 0: 1024 */
	uint64_t quarantine_ns; /* of a group whose cgroup is gone, before its slot is another's; 0:
				   30 s */
	struct tcp_filter filter;
	uint32_t avoid; /* bit i: don't use hooks of enum tcp_hook_type i; for tests of what comes
			   next */
};

/*
 * Chooses hooks, loads and attaches. 0, or -errno with one line in why[], as tcp_open().
 * What a boundary that has no hook costs shows as a cause: see tcp_layers_causes().
 */
int tcp_layers_open(const struct tcp_layers_opts *options, struct tcp_layers **layers, char *why,
		    size_t bytes);
void tcp_layers_close(struct tcp_layers *layers); /* NULL is fine */

/* Changes the filter at run time: flows that are looked at already stay so. 0 or -errno, why as
 * above. */
int tcp_layers_filter(struct tcp_layers *layers, const struct tcp_filter *filter, char *why,
		      size_t bytes);

/*
 * Looks for network namespaces that came or went, where the hook between TCP and IP is one of a
 * namespace (netfilter). Call it now and then, once a second; costs a walk through /proc. 0 or
 * -errno.
 */
int tcp_layers_namespaces(struct tcp_layers *layers);

/*
 * Gives back the slots of groups whose cgroup is gone: closed as soon as they have no socket, so
 * that readers see the last values, and free after the quarantine. Call it now and then, every few
 * seconds; asks the file system once for each group. now_ns: of any clock that only goes forward.
 * Those that were given back so far.
 */
uint64_t tcp_layers_groups(struct tcp_layers *layers, uint64_t now_ns);

enum tcp_layer_table { TCP_LAYER_FLOWS, TCP_LAYER_GROUPS };
/* Slots ever used, of flows or groups. */
uint32_t tcp_layers_slots(const struct tcp_layers *layers, enum tcp_layer_table table);
/*
 * 1: filled in; 0: the slot holds nothing; -EAGAIN: it was given to another flow meanwhile, or did
 * not settle. Group 0 holds all flows that found no room for a group of theirs.
 */
int tcp_layers_slot(const struct tcp_layers *layers, enum tcp_layer_table table, uint32_t index,
		    struct region_layer_view *view);
/*
 * The programs note what is to be counted; a timer in the kernel counts it, 10 ms later at most,
 * and closes slots within 30. True: nothing waits for that at the moment.
 */
bool tcp_layers_settled(const struct tcp_layers *layers);

/* How often each cause was met since the start. 0 or -errno. */
int tcp_layers_causes(const struct tcp_layers *layers, uint64_t out[SL_CAUSES]);

/* The region of kind SL_REGION_LAYERS, mapped for writing, and the descriptor of its map; until the
 * close. */
void *tcp_layers_region(const struct tcp_layers *layers, size_t *bytes, int *fd);

/*
 * Records, from now on, of the kinds whose bit is set (1 << enum tcp_record_kind); 0: none more.
 * tcp_layers_poll() hands over what is there, at most timeout_ms later; less than 0: -errno.
 */
int tcp_layers_trace(struct tcp_layers *layers, uint32_t kinds,
		     void (*record)(void *context, const struct tcp_layer_record *r),
		     void *context);
int tcp_layers_poll(struct tcp_layers *layers, int timeout_ms);

#endif
