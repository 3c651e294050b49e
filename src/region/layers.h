/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layers.h - parses a region of kind SL_REGION_LAYERS for readers: takes private copies, returns
 * checked values. Does not depend on the transport or on eBPF.
 *
 * The lines of a slot change one by one, and a slot may get a new owner. A copy of a slot belongs
 * to one owner if its key line has the same generation in a copy completed before this one began,
 * and in a copy begun after this one was complete. A reader that reads in rounds compares the keys
 * of the previous and the next round.
 */
#ifndef SL_REGION_LAYERS_H
#define SL_REGION_LAYERS_H

#include <sidelight/layer.h>

#include "region/decode.h"

struct region_layers_info {
	uint64_t size, instance, start_ns;
	uint8_t boot_id[16];
	uint64_t hot, flows, groups; /* offsets */
	uint32_t flow_slots, group_slots;
	struct region_section losses;
};
/* Parses a private copy of a header; actual_size: see region_info_parse(). Pure. */
enum region_fault region_layers_info_parse(const struct sl_region_header *copy,
					   uint64_t actual_size, struct region_layers_info *info);

struct region_layers_hot {
	uint32_t flows_used, groups_used;
	uint64_t opened, closed;
};
/* UNSETTLED means read the line again; HOT means impossible values. Pure. */
enum region_fault region_layers_hot_parse(const uint64_t line[8],
					  const struct region_layers_info *info,
					  struct region_layers_hot *hot);

/* A checked copy of a slot. */
struct region_layer_view {
	uint64_t generation;
	enum sl_slot_state state;
	enum sl_role role;
	/* addresses in network order, IPv4 mapped; a group has only remote */
	uint8_t local[16], remote[16];
	/* ports; a group has only local_port, the port of the service */
	uint16_t local_port, remote_port;
	uint8_t family;
	uint32_t netns;
	uint64_t cgroup;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; an end_ns of 0 means still open */
	uint64_t count[7];	   /* enum sl_slot_count */
	uint64_t cell[SL_LAYERS][SL_LAYER_CELLS];
};

/*
 * Parses a private copy of a slot. keyless: for group 0, which has no key and is always in use. Of
 * a free slot, only the first line is read. UNSETTLED means a line does not verify; HOT means
 * impossible values. Pure.
 */
enum region_fault region_layer_parse(const uint64_t slot[SL_SLOT_WORDS], bool keyless,
				     struct region_layer_view *view);
/* Returns the generation of the owner in a slot's first line; UNSETTLED as above. Pure. */
enum region_fault region_layer_generation(const uint64_t line[8], uint64_t *generation);

/* Adds the counts of `from` to `to`, which keeps its key. */
void region_layer_add(struct region_layer_view *to, const struct region_layer_view *from);

/*
 * Return the number of observations in a histogram, and its quantile q (0 to 1) in ns, which is NAN
 * if empty and INFINITY above the last bound.
 */
uint64_t region_layer_count(const uint64_t cell[SL_LAYER_CELLS]);
double region_layer_quantile(const uint64_t cell[SL_LAYER_CELLS], double q);

const char *region_layer_name(int layer);	/* returns a name such as "mac_in" */
const char *region_layer_cause_name(int cause); /* returns a name such as "no_nic" */
/* returns a text such as "in: driver timestamp missing" */
const char *region_layer_cause_text(int cause);

#endif
