/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.h - a region of kind SL_REGION_NIC as a reader sees it: private copies in, checked values
 * out. Knows no transport, and nothing of eBPF.
 */
#ifndef SL_REGION_NIC_H
#define SL_REGION_NIC_H

#include <sidelight/nic.h>

#include "region/decode.h"

struct region_nic_info {
	uint64_t size, instance, start_ns;
	uint64_t hot, ring; /* offsets */
	uint32_t records;   /* a power of two */
	uint8_t boot_id[16];
};
/* Parses a private copy of a header; actual_size as of region_info_parse(). Pure. */
enum region_fault region_nic_info_parse(const struct sl_region_header *copy, uint64_t actual_size,
					struct region_nic_info *info);

struct region_nic_hot {
	uint64_t head, headless, late, fragments;
};
/* UNSETTLED: read it again. Pure. */
enum region_fault region_nic_hot_parse(const uint64_t line[8], struct region_nic_hot *hot);

/* One segment at a device. Sequence numbers as on the wire. */
struct region_nic_record {
	uint64_t number, time_ns;
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port;
	uint32_t flags; /* enum sl_nic_flag */
	uint32_t seq, end, ack, tsval, tsecr, netns, ifindex;
	uint32_t bytes; /* of data */
	uint16_t window, ip_id, gso_size, gso_segs;
};
/*
 * Parses a private copy of a place of the ring, of which record number is expected. CHECK: another
 * one is there: overwritten if its number (record->number) is higher, not written yet if it is
 * lower. UNSETTLED: its lines do not verify: read it again. RECORD: it lies. Pure.
 */
enum region_fault region_nic_record_parse(const uint64_t place[SL_NIC_WORDS], uint64_t number,
					  struct region_nic_record *record);

/*
 * What did not parse as record number, as r, may come yet: its number was given out, and its writer
 * was stopped at it. Not any more once half of the ring is beyond it.
 */
bool region_nic_comes(enum region_fault fault, const struct region_nic_record *r, uint64_t number,
		      uint64_t head, const struct region_nic_info *info);

/*
 * Reads a ring in shared memory from *next on: at most room records; *next moves on, and *missed
 * grows by those that were overwritten before they could be read, or lied. map has info->size
 * bytes. The number of records, in order of their numbers; less than 0: -EAGAIN, the hot line never
 * settled. places: the same as they lie in the ring; may be NULL.
 */
int region_nic_read(const void *map, const struct region_nic_info *info, uint64_t *next,
		    uint64_t *missed, struct region_nic_record *out,
		    uint64_t (*places)[SL_NIC_WORDS], int room);
enum region_fault region_nic_hot_read(const void *map, const struct region_nic_info *info,
				      struct region_nic_hot *hot);

#endif
