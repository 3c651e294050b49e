/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/format.h - the registry of region format 1: all kinds of regions and all types of
 * sections. sidelight-region(5) has the same table.
 *
 * A new kind or type takes the next free number; numbers are never reused. The switches below do
 * not compile if a number appears twice.
 *
 * C11 and C++17; also compiled into the eBPF programs.
 */
#ifndef SIDELIGHT_FORMAT_H
#define SIDELIGHT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* X(enumerator, number, name) */
#define SL_REGION_KINDS(X)                                                                \
	X(SL_REGION_METRICS, 1, "metrics")     /* region of a publisher: region.h */      \
	X(SL_REGION_DIRECTORY, 2, "directory") /* directory of an agent: region.h */      \
	X(SL_REGION_FLOWS, 3, "flows")	       /* TCP connections of a host: flow.h */    \
	X(SL_REGION_LAYERS, 4, "layers")       /* time per layer of the stack: layer.h */ \
	X(SL_REGION_TASKS, 5, "tasks")	       /* scheduler time per task: task.h */      \
	X(SL_REGION_NIC, 6, "nic")	       /* segments at network devices: nic.h */   \
	X(SL_REGION_STORE, 7, "store")	       /* reports: store.h */

#define SL_SECTION_TYPES(X)                                                                    \
	X(SL_SECTION_HOT, 1, "hot") /* one line of 64 bytes */                                 \
	X(SL_SECTION_STRIPES, 2,                                                               \
	  "stripes") /* one element per stripe; the stride is a multiple of 4096 */            \
	X(SL_SECTION_SCHEMA, 3, "schema")   /* records, aligned to 8 bytes; stride 8 */        \
	X(SL_SECTION_ENTRIES, 4, "entries") /* directory only; stride 64 */                    \
	X(SL_SECTION_SPANS, 5, "spans")	    /* optional: see enum sl_span_head_cell */         \
	X(SL_SECTION_FLOWS, 6, "flows")                                                        \
	X(SL_SECTION_JOURNAL, 7, "journal") /* ring of opened and closed flows */              \
	X(SL_SECTION_CGROUPS, 8, "cgroups") /* optional: names of the flows' cgroups */        \
	X(SL_SECTION_LAYER_FLOWS, 9, "layer_flows")                                            \
	X(SL_SECTION_LAYER_GROUPS, 10, "layer_groups")                                         \
	X(SL_SECTION_TASKS, 11, "tasks")                                                       \
	X(SL_SECTION_TASK_CGROUPS, 12, "task_cgroups")                                         \
	X(SL_SECTION_NIC_RING, 13, "nic_ring")                                                 \
	X(SL_SECTION_LOSSES, 14,                                                               \
	  "losses") /* in regions of layers and tasks; one element per writer */               \
	X(SL_SECTION_STORE, 15, "store") /* configuration of the store */                      \
	X(SL_SECTION_STORE_EPOCHS, 16, "store_epochs")                                         \
	X(SL_SECTION_STORE_BANKS, 17, "store_banks")                                           \
	X(SL_SECTION_TENANTS, 18,                                                              \
	  "tenants") /* directory only: identity of each publisher; stride 128 */              \
	X(SL_SECTION_CREATED, 19,                                                              \
	  "created") /* optional: one cell per record, in lines of 64 bytes */                 \
	X(SL_SECTION_EXEMPLARS, 20,                                                            \
	  "exemplars")			 /* optional; one element of 256 bytes per exemplar */ \
	X(SL_SECTION_NAMES, 21, "names") /* directory only: names of tenants; stride 512 */    \
	X(SL_SECTION_DROPS, 22, "drops") /* optional: dropped segments, by flow */             \
	X(SL_SECTION_DROP_REASONS, 23, "drop_reasons") /* optional: dropped segments, by reason */

#define SL__ENUMERATOR(enumerator, number, name) enumerator = number,
enum sl_region_kind { SL_REGION_KINDS(SL__ENUMERATOR) };
enum sl_section_type { SL_SECTION_TYPES(SL__ENUMERATOR) };
#undef SL__ENUMERATOR

/* Returns the name in the registry; NULL for an unknown number. */
#define SL__CASE(enumerator, number, name) \
	case number:                       \
		return name;
static inline const char *sl_region_kind_name(uint32_t kind)
{
	switch (kind) {
		SL_REGION_KINDS(SL__CASE)
	default:
		return NULL;
	}
}

static inline const char *sl_section_type_name(uint32_t type)
{
	switch (type) {
		SL_SECTION_TYPES(SL__CASE)
	default:
		return NULL;
	}
}
#undef SL__CASE

#endif
