/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* shared.h - what the programs of the in-kernel reporter and their loader agree on. */
#ifndef SL_SOURCE_REPORT_SHARED_H
#define SL_SOURCE_REPORT_SHARED_H

/*
 * A report says of one flow, one way, what went by since it is known:
 *   key    source address (4 or 16 bytes), destination address, source port, destination port,
 *          protocol
 *   value  packets, bytes: 8 bytes each
 * all big-endian, as a Key-Write of docs/dta-wire.md.
 */
#define RPT_KEY4  13
#define RPT_KEY6  37
#define RPT_VALUE 16
#define RPT_ITEM4 (RPT_KEY4 + RPT_VALUE)
#define RPT_ITEM6 (RPT_KEY6 + RPT_VALUE)

#define RPT_ITEMS                                                                      \
	24u /* of a packet, so that one of either shape is smaller than an MTU of 1500 \
	     */
#define RPT_SLOTS    1024u /* packets that wait for a carrier, and those that are being filled */
#define RPT_NONE     0xffffffffu
#define RPT_CPUS     1024u

#define RPT_HEADERS4 (14 + 20 + 8) /* Ethernet, IPv4, UDP */
#define RPT_HEADERS6 (14 + 40 + 8)
#define RPT_FIXED    (32 + 12) /* of a packet with one block, see docs/dta-wire.md */
#define RPT_LONGEST  (RPT_HEADERS6 + RPT_FIXED + RPT_ITEMS * RPT_ITEM6)

enum report_rpt_count {
	RPT_PACKETS, /* of the interface, that were looked at */
	RPT_OTHERS,  /* neither IPv4 nor IPv6, or cut short: in no flow */
	RPT_NEW,     /* flows */
	RPT_REPORTS, /* handed to a packet */
	RPT_SENT,    /* packets of reports */
	RPT_SENT_REPORTS,
	RPT_NO_ROOM,	 /* times that no slot was free for a report: a later one says it all */
	RPT_NO_FLOW,	 /* packets of flows for which there was no room in the table */
	RPT_NOT_WRITTEN, /* packets of reports that no frame could take: lost */
	RPT_IDLE,	 /* carriers that came for nothing */
	RPT_LEFT_OUT,	 /* packets of flows that are not in the sample */
	RPT_HELD_BACK,	 /* times that a report was due and might not go: a later one says it all */
	RPT_BYTES,	 /* of packets that are in a flow */
	RPT_SAID_BYTES,	 /* of those, that a report has said */
	RPT_COUNTS
};

struct report_rpt_config {
	__u32 carrier; /* index of the interface that copies are sent to */
	__u32 out;     /* of the interface that the reports leave by; 0: they are for this host */
	__u32 reporter, incarnation;
	__u16 tenant, store;
	__u16 source_port, port; /* network order, as the addresses */
	__u32 source, target;
	__u8 copies; /* N of the Key-Writes */
	__u8 mac[6]; /* of the carrier */
	__u8 sample; /* one in 2^sample flows is looked at */
	__u8 v6;     /* reports go by IPv6: from source6 to target6 */
	__u32 source6[4], target6[4];
	__u64 every_ns; /* a flow that goes on is reported so often at most ... */
	__u64 bytes;	/* ... and at least once in so many bytes */
	__u64 flush_ns; /* a packet waits so long for further reports, as long as there is traffic
			 */
	__u64 realtime; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
};

struct report_rpt_flow_key {
	__u8 source[16], target[16]; /* IPv4: the first four */
	__u16 source_port, target_port;
	__u8 protocol, v6;
	__u16 pad;
};

struct report_rpt_flow {
	__u64 packets, bytes;
	__u64 reported_ns, reported_bytes;
};

struct report_rpt_slot {
	__u32 count, v6, sequence, pad;
	__u8 items[RPT_ITEMS * RPT_ITEM6];
};

#endif
