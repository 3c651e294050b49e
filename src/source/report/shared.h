/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* shared.h - shared by the in-kernel reporter's programs and their loader */
#ifndef SL_SOURCE_REPORT_SHARED_H
#define SL_SOURCE_REPORT_SHARED_H

#include <linux/types.h>

/*
 * What is reported, as Key-Writes of docs/dta-wire.md. Keys begin with a flow, one way: source
 * address (4 or 16 bytes), destination address, source port, destination port, protocol. Values
 * have 16 bytes. All is big-endian.
 */
enum report_subject {
	RPT_FLOWS,	     /* u64 packets, u64 bytes since it is known */
	RPT_DROPS,	     /* key: and u32 reason; u64 packets, u64 bytes of IP */
	RPT_RETRANSMISSIONS, /* u64 segments, u64 bytes of data */
	RPT_LATENCY, /* u32 smoothed RTT, u32 least RTT, u32 RTT of the handshake, u32 0; us */
	RPT_QUEUE,   /* key: u32 reporter, u32 interface; u64 packets, u64 bytes */
	RPT_SUBJECTS
};
/* A subject, and the IP version of its keys: 2 * subject + v6. */
#define RPT_KINDS    (2u * RPT_SUBJECTS)

#define RPT_KEY4     13u
#define RPT_KEY6     37u
#define RPT_REASON   4u
#define RPT_VALUE    16u
#define RPT_ITEM_MAX (RPT_KEY6 + RPT_REASON + RPT_VALUE)

#define RPT_ITEMS    24u   /* per packet, at most */
#define RPT_ROOM     1272u /* of items: either IP version fits an MTU of 1500 */
#define RPT_SLOTS    1024u /* packets that wait for a carrier or are being filled */
#define RPT_NONE     0xffffffffu
#define RPT_CPUS     1024u

#define RPT_HEADERS4 (14 + 20 + 8) /* Ethernet, IPv4, UDP */
#define RPT_HEADERS6 (14 + 40 + 8)
#define RPT_HEADER   32u       /* of a packet, alone in a heartbeat (docs/dta-wire.md) */
#define RPT_FIXED    (32 + 12) /* with the header of its block */
#define RPT_PROOF    24u       /* translator meant, and MAC */
#define RPT_MESSAGE  (RPT_FIXED + RPT_ROOM + RPT_PROOF)
#define RPT_LONGEST  (RPT_HEADERS6 + RPT_MESSAGE)

enum report_count {
	RPT_PACKETS, /* of the interface */
	RPT_OTHERS,  /* neither IPv4 nor IPv6, or truncated */
	RPT_NEW,     /* new flows */
	RPT_REPORTS, /* reports put into packets */
	RPT_SENT,    /* packets of reports */
	RPT_SENT_REPORTS,
	RPT_NO_ROOM,	 /* no slot was free: a later report includes it */
	RPT_NO_FLOW,	 /* packets of flows that the table had no room for */
	RPT_NOT_WRITTEN, /* packets that no frame could carry: lost */
	RPT_IDLE,	 /* carriers without a packet to write */
	RPT_LEFT_OUT,	 /* packets outside the sample */
	RPT_HELD_BACK,	 /* due reports held back: a later one includes them */
	RPT_BYTES,	 /* bytes of counted packets */
	RPT_SAID_BYTES,	 /* of those, included in reports */
	RPT_BEATS,	 /* heartbeats */
	RPT_COUNTS
};

struct report_config {
	__u32 carrier; /* interface index of the carrier */
	__u32 out;     /* interface index that reports leave by; 0: this host */
	__u32 reporter, incarnation;
	__u16 tenant;
	__u16 store[RPT_SUBJECTS];
	__u8 wanted[RPT_SUBJECTS];
	__u16 source_port, port; /* network order, as the addresses */
	__u32 source, target;
	__u8 copies; /* N of the Key-Writes */
	__u8 mac[6]; /* of the carrier */
	__u8 sample; /* one in 2^sample flows is counted */
	__u8 v6;     /* IPv6: from source6 to target6 */
	__u8 sign;
	__u8 inner; /* flows within tunnels instead of theirs */
	__u32 source6[4], target6[4];
	__u64 every_ns; /* minimum interval of a flow's reports */
	__u64 bytes;	/* bytes after which it is reported earlier */
	__u64 flush_ns; /* age at which a packet is sent */
};

/* See sign.bpf.h. In host order, but for the translator. */
struct report_sign {
	__u32 table[4][256];
	__u32 round[44];	   /* keys */
	__u32 whole[4], padded[4]; /* subkeys of the last block */
	__u8 translator[8];
};

struct report_flow_key {
	__u8 source[16], target[16]; /* IPv4: the first four */
	__u16 source_port, target_port;
	__u8 protocol, v6;
	__u16 pad;
};

struct report_flow {
	__u64 packets, bytes;
	__u64 reported_ns, reported_bytes;
	__u64 syn_ns; /* of its first packet; 1: sent again */
	__u32 handshake_us, pad;
};

/* Drops of a flow by reason; reason 0: retransmissions. */
struct report_event_key {
	struct report_flow_key flow;
	__u32 reason;
};

struct report_event {
	__u64 packets, bytes;
	__u64 reported; /* packets */
};

#define RPT_REASONS 256u

struct report_event_config {
	__u32 interface, netns;
	__u16 source_port, port; /* of the reporter's own packets, in network order */
};

struct report_slot {
	__u32 count, kind, sequence, pad;
	__u8 message[RPT_MESSAGE]; /* the payload of the packet */
};

#endif
