/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.h - parses a region of kind SL_REGION_NIC for readers: takes private copies, returns checked
 * values. Does not depend on the transport or on eBPF.
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
/* Parses a private copy of a header; actual_size: see region_info_parse(). Pure. */
enum region_fault region_nic_info_parse(const struct sl_region_header *copy, uint64_t actual_size,
					struct region_nic_info *info);

struct region_nic_hot {
	uint64_t head, headless, late, fragments;
};
/* UNSETTLED means read the line again. Pure. */
enum region_fault region_nic_hot_parse(const uint64_t line[8], struct region_nic_hot *hot);

/* A segment at a device. Sequence numbers are as on the wire. */
struct region_nic_record {
	uint64_t number, time_ns;
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port;
	uint32_t flags; /* enum sl_nic_flag */
	uint32_t seq, end, ack, tsval, tsecr, netns, ifindex;
	uint32_t bytes; /* bytes of data */
	uint16_t window, ip_id, gso_size, gso_segs;
};
/*
 * Parses a private copy of the ring's slot for this record number. CHECK means another record is
 * there: a newer one if record->number is higher, one not yet overwritten if it is lower. UNSETTLED
 * means read it again; RECORD means impossible values. Pure.
 */
enum region_fault region_nic_record_parse(const uint64_t place[SL_NIC_WORDS], uint64_t number,
					  struct region_nic_record *record);

/*
 * True if a record that did not parse may still be written: its writer took the number and was
 * interrupted. False once half of the ring follows it.
 */
bool region_nic_comes(enum region_fault fault, const struct region_nic_record *r, uint64_t number,
		      uint64_t head, const struct region_nic_info *info);

/*
 * Reads at most `room` records of a ring in shared memory, starting at *next. Advances *next, and
 * adds overwritten or invalid records to *missed. map has info->size bytes. places (may be NULL)
 * receives the raw records. Returns the number of records, in order of their numbers, or -EAGAIN if
 * the hot line never settled.
 */
int region_nic_read(const void *map, const struct region_nic_info *info, uint64_t *next,
		    uint64_t *missed, struct region_nic_record *out,
		    uint64_t (*places)[SL_NIC_WORDS], int room);
enum region_fault region_nic_hot_read(const void *map, const struct region_nic_info *info,
				      struct region_nic_hot *hot);

#endif
