// SPDX-License-Identifier: Apache-2.0
/* nic.c - parses the segments at network devices: header, hot line, ring. */
#include "region/nic.h"

#include <errno.h>
#include <string.h>

#include "region/internal.h"

enum region_fault region_nic_info_parse(const struct sl_region_header *h, uint64_t actual_size,
					struct region_nic_info *nic)
{
	struct region_info info;
	enum region_fault fault = region_kind_parse(h, actual_size, SL_REGION_NIC, &info);

	memset(nic, 0, sizeof(*nic));
	if (fault)
		return fault;
	if (!region_section_exact(h, SL_SECTION_NIC_RING, SL_NIC_SIZE, SL_NIC_RING_MAX, &nic->ring,
				  &nic->records) ||
	    nic->records < SL_NIC_RING_MIN || (nic->records & (nic->records - 1)))
		return REGION_FAULT_SECTION;
	REGION_TAKE_COMMON(nic, &info);
	return REGION_FAULT_NONE;
}

enum region_fault region_nic_hot_parse(const uint64_t line[8], struct region_nic_hot *hot)
{
	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	if (line[SL_NIC_HEAD] >> 56) /* the tag of a record has 56 bits */
		return REGION_FAULT_HOT;
	*hot = (struct region_nic_hot){
		.head = line[SL_NIC_HEAD],
		.headless = line[SL_NIC_HEADLESS],
		.late = line[SL_NIC_LATE],
		.fragments = line[SL_NIC_FRAGMENTS],
	};
	return REGION_FAULT_NONE;
}

enum region_fault region_nic_record_parse(const uint64_t w[SL_NIC_WORDS], uint64_t number,
					  struct region_nic_record *r)
{
	uint32_t extra;

	if (w[7] != sl_folded_check(w) || w[15] != sl_folded_check(w + 8) ||
	    w[SL_NIC_TAG] != w[SL_NIC_TAG_AGAIN])
		return REGION_FAULT_UNSETTLED;
	*r = (struct region_nic_record){
		.number = w[SL_NIC_TAG] >> 8,
		.flags = w[SL_NIC_TAG] & 255,
		.time_ns = w[SL_NIC_TIME_NS],
		.seq = SL_FLOW_LOW(w[SL_NIC_SEQ_END]),
		.end = SL_FLOW_HIGH(w[SL_NIC_SEQ_END]),
		.ack = SL_FLOW_LOW(w[SL_NIC_ACK]),
		.window = (uint16_t)(w[SL_NIC_ACK] >> 32),
		.ip_id = (uint16_t)(w[SL_NIC_ACK] >> 48),
		.tsval = SL_FLOW_LOW(w[SL_NIC_TIMESTAMPS]),
		.tsecr = SL_FLOW_HIGH(w[SL_NIC_TIMESTAMPS]),
		.source_port = (uint16_t)w[SL_NIC_PORTS],
		.destination_port = (uint16_t)(w[SL_NIC_PORTS] >> 16),
		.gso_size = (uint16_t)(w[SL_NIC_PORTS] >> 32),
		.gso_segs = (uint16_t)(w[SL_NIC_PORTS] >> 48),
		.netns = SL_FLOW_LOW(w[SL_NIC_DEVICE]),
		.ifindex = SL_FLOW_HIGH(w[SL_NIC_DEVICE]),
		.bytes = (uint32_t)w[SL_NIC_BYTES],
	};
	memcpy(r->source, &w[SL_NIC_SOURCE], 16);
	memcpy(r->destination, &w[SL_NIC_DESTINATION], 16);
	/* A time of 0 means the record was never written, whatever its number. */
	if (!r->time_ns)
		r->number = 0;
	if (r->number != number || !r->time_ns)
		return REGION_FAULT_CHECK;
	extra = !!(r->flags & SL_NIC_SYN) + !!(r->flags & SL_NIC_FIN);
	/* No packet exceeds 4 MiB; the limit on times prevents overflow of sums. */
	if (w[SL_NIC_BYTES] >> 22 || r->end - r->seq != r->bytes + extra || r->time_ns >> 62)
		return REGION_FAULT_RECORD;
	return REGION_FAULT_NONE;
}

bool region_nic_comes(enum region_fault fault, const struct region_nic_record *r, uint64_t number,
		      uint64_t head, const struct region_nic_info *info)
{
	return (fault == REGION_FAULT_UNSETTLED ||
		(fault == REGION_FAULT_CHECK && r->number <= number)) &&
	       head - number < info->records / 2;
}

enum region_fault region_nic_hot_read(const void *map, const struct region_nic_info *info,
				      struct region_nic_hot *hot)
{
	enum region_fault fault;
	uint64_t copy[8];

	REGION_READ_SETTLED(fault, copy, (const char *)map + info->hot, 8,
			    region_nic_hot_parse(copy, hot));
	return fault;
}

int region_nic_read(const void *map, const struct region_nic_info *info, uint64_t *next,
		    uint64_t *missed, struct region_nic_record *out,
		    uint64_t (*places)[SL_NIC_WORDS], int room)
{
	const volatile uint64_t *ring = (const volatile uint64_t *)((const char *)map + info->ring);
	struct region_nic_hot hot;
	int n = 0;

	if (region_nic_hot_read(map, info, &hot))
		return -EAGAIN;
	if (hot.head < *next) /* not a position in this ring */
		*next = hot.head;
	if (hot.head - *next > info->records) {
		*missed += hot.head - *next - info->records;
		*next = hot.head - info->records;
	}
	for (; *next < hot.head && n < room; ++*next) {
		uint64_t copy[SL_NIC_WORDS], place = *next & (info->records - 1);
		enum region_fault fault;

		REGION_READ_SETTLED(fault, copy, ring + place * SL_NIC_WORDS, SL_NIC_WORDS,
				    region_nic_record_parse(copy, *next, &out[n]));
		if (region_nic_comes(fault, &out[n], *next, hot.head, info))
			break;
		if (fault) {
			++*missed;
			continue;
		}
		if (places)
			memcpy(places[n], copy, sizeof(copy));
		n++;
	}
	return n;
}
