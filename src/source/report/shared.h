/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* shared.h - definitions shared by the in-kernel reporter's programs and their loader. */
#ifndef SL_SOURCE_REPORT_SHARED_H
#define SL_SOURCE_REPORT_SHARED_H

#include <linux/types.h>

/*
 * The kinds of reports, sent as Key-Writes (docs/dta-wire.md). Keys begin with one direction of a
 * flow: source address (4 or 16 bytes), destination address, source port, destination port,
 * protocol. Values have 16 bytes. All numbers are big-endian.
 */
enum report_subject {
	RPT_FLOWS,	     /* value: u64 packets, u64 bytes since the flow was first seen */
	RPT_DROPS,	     /* key: flow and u32 reason; value: u64 packets, u64 IP bytes */
	RPT_RETRANSMISSIONS, /* value: u64 segments, u64 bytes of data */
	RPT_LATENCY,	     /* value: u32 smoothed, u32 minimum, u32 handshake RTT, u32 0; in us */
	RPT_QUEUE,	     /* key: u32 reporter, u32 interface; value: u64 packets, u64 bytes */
	RPT_SUBJECTS
};
/* A kind is a subject with the IP version of its keys: 2 * subject + v6. */
#define RPT_KINDS    (2u * RPT_SUBJECTS)

#define RPT_KEY4     13u
#define RPT_KEY6     37u
#define RPT_REASON   4u
#define RPT_VALUE    16u
#define RPT_ITEM_MAX (RPT_KEY6 + RPT_REASON + RPT_VALUE)

#define RPT_ITEMS    24u /* maximum number of items per packet */
/* bytes available for items, so that either IP version fits an MTU of 1500 */
#define RPT_ROOM     1272u
#define RPT_SLOTS    1024u /* packets that wait for a carrier or are being filled */
#define RPT_NONE     0xffffffffu
#define RPT_CPUS     1024u

#define RPT_HEADERS4 (14 + 20 + 8) /* sizes of the Ethernet, IPv4 and UDP headers */
#define RPT_HEADERS6 (14 + 40 + 8)
#define RPT_HEADER   32u /* header of a packet; a heartbeat has nothing else (docs/dta-wire.md) */
#define RPT_FIXED    (32 + 12) /* size of the headers of a packet and of its block */
#define RPT_PROOF    24u       /* size of the translator's identity and the MAC */
#define RPT_MESSAGE  (RPT_FIXED + RPT_ROOM + RPT_PROOF)
#define RPT_LONGEST  (RPT_HEADERS6 + RPT_MESSAGE)

enum report_count {
	RPT_PACKETS, /* packets of the interface */
	RPT_OTHERS,  /* packets that are neither IPv4 nor IPv6, or truncated */
	RPT_NEW,     /* new flows */
	RPT_REPORTS, /* reports put into packets */
	RPT_SENT,    /* packets of reports sent */
	RPT_SENT_REPORTS,
	RPT_NO_ROOM, /* reports for which no slot was free; a later report includes the counts */
	RPT_NO_FLOW, /* packets of flows for which the table had no room */
	RPT_NOT_WRITTEN, /* packets lost because no frame could carry them */
	RPT_IDLE,	 /* empty carrier frames: no packet was waiting */
	RPT_LEFT_OUT,	 /* packets outside the sample */
	RPT_HELD_BACK,	 /* due reports held back; a later report includes the counts */
	RPT_BYTES,	 /* bytes of counted packets */
	RPT_SAID_BYTES,	 /* bytes included in reports */
	RPT_BEATS,	 /* heartbeats */
	RPT_NO_ROUTE,	 /* packets lost because the interface for reports did not exist */
	RPT_COUNTS
};

struct report_config {
	__u32 carrier; /* interface index of the carrier */
	/* index of the interface that reports leave by, at the start; 0: for this host */
	__u32 out;
	__u32 reporter, incarnation;
	__u16 tenant;
	__u16 store[RPT_SUBJECTS];
	__u8 wanted[RPT_SUBJECTS];
	__u16 source_port, port; /* ports and addresses are in network byte order */
	__u32 source, target;
	__u8 copies; /* copies per Key-Write */
	__u8 mac[6]; /* hardware address of the carrier */
	__u8 sample; /* count one in 2^sample flows */
	__u8 v6;     /* 1 means send by IPv6, from source6 to target6 */
	__u8 sign;
	__u8 inner; /* report the flows inside tunnels instead of the tunnels */
	__u32 source6[4], target6[4];
	__u64 every_ns; /* minimum interval between a flow's reports */
	__u64 bytes;	/* report a flow earlier after this number of bytes */
	__u64 flush_ns; /* age at which a packet is sent even if not full */
};

/* See sign.bpf.h. Words are in host byte order; translator is not. */
struct report_sign {
	__u32 table[4][256];
	__u32 round[44];	   /* round keys */
	__u32 whole[4], padded[4]; /* subkeys for the last block */
	__u8 translator[8];
};

struct report_flow_key {
	__u8 source[16], target[16]; /* IPv4 addresses use the first four bytes */
	__u16 source_port, target_port;
	__u8 protocol, v6;
	__u16 pad;
};

struct report_flow {
	__u64 packets, bytes;
	__u64 reported_ns, reported_bytes;
	__u64 syn_ns; /* time of the first SYN; 1 means the SYN was retransmitted */
	__u32 handshake_us, pad;
};

/* Drops of a flow by reason; reason 0 stands for retransmissions. */
struct report_event_key {
	struct report_flow_key flow;
	__u32 reason;
};

struct report_event {
	__u64 packets, bytes;
	__u64 reported; /* number of packets already reported for this event */
};

#define RPT_REASONS 256u

struct report_event_config {
	__u32 interface, netns;	 /* interface: at first, see report_events_interface() */
	__u16 source_port, port; /* ports of the reporter's own packets, in network byte order */
};

struct report_slot {
	__u32 count, kind, sequence, pad;
	__u8 message[RPT_MESSAGE]; /* the payload of the packet */
};

#endif
