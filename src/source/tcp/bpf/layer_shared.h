/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * layer_shared.h - what layer.bpf.c and its user space agree upon: the layers, the slot in which the
 * histograms of a flow or of a group lie, why something was not measured, the record of a request.
 */
#ifndef SL_TCP_BPF_LAYER_SHARED_H
#define SL_TCP_BPF_LAYER_SHARED_H

#include "shared.h"

/* In the order in which a request passes them. Each is the time between two boundaries (hook.h). */
enum sl_layer {
	SL_LAYER_MAC_IN = 0,  /* driver .. IP */
	SL_LAYER_IP_IN = 1,   /* .. TCP */
	SL_LAYER_TCP_IN = 2,  /* .. the copy to the application that took the segment's last byte */
	SL_LAYER_APP = 3,     /* .. the send call that wrote the response's first byte */
	SL_LAYER_TCP_OUT = 4, /* .. IP */
	SL_LAYER_IP_OUT = 5,  /* .. queueing discipline */
	SL_LAYER_MAC_OUT = 6, /* .. driver */
	SL_LAYER_TOTAL = 7,   /* of a request with all seven */
	SL_LAYERS = 8,
};

/*
 * A histogram is eight plain self-verifying lines (sidelight-region(5)): 56 cells.
 *
 *   0  sum, ns
 *   1  observations <= 64 ns
 *   2..54  observations of bucket 13 .. 65: base^(i-1) < x <= base^i ns with base = 2^(1/2)
 *   55 observations above the last bucket, 6.07 s
 *
 * Buckets, and their numbers, are those of SL_KIND_HISTOGRAM_EXP of scale 1 and of Prometheus' native
 * histograms of schema 1, in nanoseconds.
 */
#define SL_LAYER_SCALE 1
#define SL_LAYER_CELLS 56
#define SL_LAYER_SUM 0
#define SL_LAYER_ZERO 1
#define SL_LAYER_BUCKETS 2
#define SL_LAYER_FIRST 13 /* number of the first bucket; 64 ns = 2^6 is the bound below */
#define SL_LAYER_BUCKET_COUNT 53
#define SL_LAYER_OVER 55

/*
 * A slot, of a flow or of a group (the flows of one remote address, local port and cgroup): two
 * lines of key, one of counters, and the histograms. Values only grow while the generation stays.
 */
enum sl_slot_word { /* of the 64-bit words of a slot; words 7, 15, ... are check words */
	SL_SLOT_STATE = 0, /* enum sl_slot_state in bits 0-7, role in 8-15; bits 16-63 generation */
	SL_SLOT_LOCAL = 1, /* local address, 16 bytes as in struct sl_flow_key; flows only */
	SL_SLOT_REMOTE = 3,
	SL_SLOT_PORTS = 5, /* local in bits 0-15, remote in 16-31 (flows only), family 32-39 */
	SL_SLOT_CGROUP = 6,
	SL_SLOT_START = 8, /* CLOCK_MONOTONIC ns of the first look at it */
	SL_SLOT_END = 9,   /* of its close; 0: open */
	SL_SLOT_NETNS = 10,
	SL_SLOT_COUNTS = 16, /* see enum sl_slot_count */
	SL_SLOT_HISTOGRAMS = 24,
};
#define SL_SLOT_WORDS (SL_SLOT_HISTOGRAMS + SL_LAYERS * 64)

enum sl_slot_state { SL_SLOT_FREE = 0, SL_SLOT_OPEN = 1, SL_SLOT_CLOSED = 2 };

/* Who began the connection. A client's time between response and request is no application latency. */
enum sl_role { SL_ROLE_UNKNOWN = 0, SL_ROLE_SERVER = 1, SL_ROLE_CLIENT = 2 };

enum sl_slot_count {
	SL_COUNT_REQUESTS = 0,	 /* begun: a send after bytes were read */
	SL_COUNT_COMPLETE = 1,	 /* with all seven layers */
	SL_COUNT_PIPELINED = 2,	 /* of the requests: bytes of the next were there already */
	SL_COUNT_IN = 3,	 /* data segments that came in, as the stack sees them (after GRO) */
	SL_COUNT_OUT = 4,	 /* data segments that went to the driver's queue (before TSO) */
	SL_COUNT_UNATTRIBUTED = 5, /* latencies not measured, all causes */
	SL_COUNT_INCOMPLETE = 6, /* requests that ended without all seven */
};

/* Why a latency or a request was not measured. */
enum sl_layer_cause {
	SL_CAUSE_NO_NIC = 0,	/* segment in: no time of the driver, or it was overwritten */
	SL_CAUSE_NO_IP,		/* no time of IP */
	SL_CAUSE_NO_TCP,	/* no time of TCP */
	SL_CAUSE_DUPLICATE,	/* segment in: nothing new in it */
	SL_CAUSE_OUT_OF_ORDER,	/* segment in: readable only when a hole is filled */
	SL_CAUSE_DISCARDED,	/* segment in: TCP did not take it (checksum, window, memory) */
	SL_CAUSE_READ_RING,	/* more segments wait to be read than are remembered */
	SL_CAUSE_NO_SEND,	/* segment out: the send call was not seen */
	SL_CAUSE_SEND_RING,	/* more send calls wait to be transmitted than are remembered */
	SL_CAUSE_NO_OUT_IP,	/* segment out: no time of IP (another network namespace?) */
	SL_CAUSE_NO_DRIVER,	/* segment out: its place was needed before the driver got it */
	SL_CAUSE_RETRANSMIT,	/* segment out: sent again */
	SL_CAUSE_REFUSED,	/* negative, or longer than is believed */
	SL_CAUSE_REQ_IN,	/* request: its last segment lacks a time */
	SL_CAUSE_REQ_OUT,	/* request: its response's first segment lacks a time */
	SL_CAUSE_REQ_RETRANSMIT,/* request: the response's first segment got out by retransmission */
	SL_CAUSE_REQ_PENDING,	/* request: more responses wait for the driver than are remembered */
	SL_CAUSE_REQ_CLOSED,	/* request: closed before its response went out */
	SL_CAUSE_NO_STATE,	/* no memory for the socket's state */
	SL_CAUSE_FLOWS_FULL,	/* flows without a slot of their own; their group counts */
	SL_CAUSE_GROUPS_FULL,	/* flows without a group */
	SL_CAUSE_TRACE_DROPPED, /* records of requests that found the ring full */
	SL_CAUSES
};

#define SL_LATENCY_NONE 0xffffffffu /* of a record: not measured */

/*
 * One request, as it goes to user space when asked for (tcp trace). Times in ns; those of the
 * boundaries are CLOCK_MONOTONIC, 0 if not seen.
 */
enum sl_record_kind { SL_RECORD_REQUEST = 0, SL_RECORD_IN = 1, SL_RECORD_OUT = 2 };

struct sl_layer_record {
	struct sl_flow_key key;
	__u8 kind; /* enum sl_record_kind */
	__u8 role;
	__u8 pipelined;
	__u8 pad;
	__u32 seq, length;  /* of the request: A and L; of a segment: its own */
	__u32 response_seq; /* B; of a segment: the acknowledgement number */
	__u64 nic_in, ip_in, tcp_in, copied, sent, ip_out, queued, nic_out;
};


#endif
