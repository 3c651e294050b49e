/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_flows.h - writes tables of connections into plain memory, for tests. It follows
 * sidelight-region(5), and shares no code with the eBPF programs or the decoder except struct
 * region_flow.
 */
#ifndef TESTS_REGION_MAKE_FLOWS_H
#define TESTS_REGION_MAKE_FLOWS_H

#include "region/flows.h"

struct make_flows {
	uint8_t *mem;
	size_t size;
	struct sl_region_header *header;
	uint64_t *hot;
	uint64_t (*slot)[64];
	uint64_t (*journal)[8];
	uint64_t (*drop)[8], (*reason)[8];
	uint64_t (*cgroup)[64]; /* NULL: no such section */
	uint32_t slots, lines;
	uint64_t next; /* line of the journal */
};

void make_flows(struct make_flows *m, uint32_t slots, uint32_t lines, uint64_t instance);
/* Makes a table with a section of this many cgroups. */
void make_flows_named(struct make_flows *m, uint32_t slots, uint32_t lines, uint32_t cgroups,
		      uint64_t instance);
/* Sets the owner of a cgroup id; slots 1, 2, ... in any order. Slot 0 follows. */
void make_flows_name(struct make_flows *m, uint32_t slot, uint64_t id,
		     const char *const name[SL_CGROUP_TEXTS]);
void make_flows_free(struct make_flows *m);
void make_flows_check(struct make_flows *m); /* the header's check word, after a change */
/* Writes a snapshot, whose number grows; f->generation is set by the caller. */
void make_flow(struct make_flows *m, uint32_t slot, const struct region_flow *f);
/* Writes the lines of segments that were dropped for one reason; reason is below 8. */
void make_flow_drops(struct make_flows *m, uint32_t slot, uint32_t generation, uint32_t reason,
		     const char *name, uint32_t segments);
/* Frees a slot: its generation grows. */
void make_flow_free(struct make_flows *m, uint32_t slot);
void make_flow_event(struct make_flows *m, enum sl_flow_event event, uint32_t slot,
		     const struct region_flow *f);
/* Writes the hot line, after everything else. */
void make_flows_publish(struct make_flows *m, uint32_t used, uint64_t changed_ns);

#endif
