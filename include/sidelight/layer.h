/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/layer.h - a region of kind SL_REGION_LAYERS: the time that each layer of the kernel's
 * network stack takes, as histograms per connection and per group of connections. The memory is a
 * mapped eBPF array that only programs in the kernel write. sidelight-region(5) is normative.
 *
 *   0      header            as in every region
 *   4096   hot line          enum sl_layers_hot_cell, a plain line
 *   ...    losses            SL_SECTION_LOSSES: one copy per CPU; readers sum them
 *   ...    flows             SL_SECTION_LAYER_FLOWS: slots of SL_LAYER_SLOT_SIZE bytes
 *   ...    groups            SL_SECTION_LAYER_GROUPS: slots of the same form; slot 0 counts all
 *                            others
 *
 * All lines are plain and change independently: a copy of a slot is not a snapshot, and may contain
 * lines of two owners. sidelight-region(5) says how a reader detects this.
 *
 * C11 and C++17; also compiled into the eBPF programs.
 */
#ifndef SIDELIGHT_LAYER_H
#define SIDELIGHT_LAYER_H

#include <sidelight/region.h>

/*
 * SL_SECTION_LOSSES counts losses by cause. Each element belongs to one CPU: counter n is cell n %
 * 7 of plain line n / 7. The value of a counter is its sum over all elements.
 */

/* Layers in the order in which a request passes them. Each is the time between two boundaries. */
enum sl_layer {
	SL_LAYER_MAC_IN = 0,  /* time from the driver to IP */
	SL_LAYER_IP_IN = 1,   /* time from IP to TCP */
	SL_LAYER_TCP_IN = 2,  /* time from TCP to the read of the segment's last byte */
	SL_LAYER_APP = 3,     /* time from that read to the send of the response's first byte */
	SL_LAYER_TCP_OUT = 4, /* time from the send to IP */
	SL_LAYER_IP_OUT = 5,  /* time from IP to the queueing discipline */
	SL_LAYER_MAC_OUT = 6, /* time from the queueing discipline to the driver */
	SL_LAYER_TOTAL = 7,   /* whole duration of a request with all seven layers measured */
	SL_LAYERS = 8,
};

/*
 * A histogram is eight plain lines: 56 cells.
 *
 *   0  sum, ns
 *   1  observations <= 2^-24 s, 59.6 ns
 *   2..54  observations of bucket -47 .. 5: base^(i-1) < x <= base^i s with base = 2^(1/2)
 *   55 observations above the last bucket, 5.66 s
 *
 * Buckets are numbered as in SL_KIND_HISTOGRAM_EXP of scale 1 and in Prometheus native histograms
 * of schema 1, in seconds: bounds at powers of two of ns would not match bounds in seconds.
 */
#define SL_LAYER_SCALE	      1
#define SL_LAYER_CELLS	      56
#define SL_LAYER_SUM	      0
#define SL_LAYER_ZERO	      1
#define SL_LAYER_BUCKETS      2
#define SL_LAYER_FIRST	      (-47) /* number of the first bucket, whose lower bound is 2^-24 s */
#define SL_LAYER_BUCKET_COUNT 53
#define SL_LAYER_OVER	      55

/*
 * A slot for a flow or a group (the flows with the same remote address, local port and cgroup): two
 * lines of key, one of counters, and the histograms. Values only grow within a generation.
 */
/* 64-bit words of a slot; words 7, 15, ... are check words */
enum sl_slot_word {
	/* enum sl_slot_state in bits 0-7, role in 8-15, generation in 16-63 */
	SL_SLOT_STATE = 0,
	/* flows only: local address, 16 bytes in network order, IPv4 mapped */
	SL_SLOT_LOCAL = 1,
	SL_SLOT_REMOTE = 3,
	/* local port: bits 0-15, remote: 16-31 (flows only), family: 32-39 */
	SL_SLOT_PORTS = 5,
	SL_SLOT_CGROUP = 6,
	SL_SLOT_START = 8, /* time of the first observation, CLOCK_MONOTONIC ns */
	SL_SLOT_END = 9,   /* CLOCK_MONOTONIC ns of the close; 0 while the flow is open */
	SL_SLOT_NETNS = 10,
	SL_SLOT_COUNTS = 16, /* counters, see enum sl_slot_count */
	SL_SLOT_HISTOGRAMS = 24,
};
#define SL_SLOT_WORDS	   (SL_SLOT_HISTOGRAMS + SL_LAYERS * 64)
#define SL_LAYER_SLOT_SIZE (SL_SLOT_WORDS * 8u)
#define SL_LAYER_SLOTS_MAX (1u << 18)

/* The array consists of elements of a slot's size: header and hot line share the first element. */
SL_STATIC_ASSERT(SL_LAYER_SLOT_SIZE == 4288 && SL_LAYER_SLOT_SIZE % SL_LINE_SIZE == 0, "slot");
SL_STATIC_ASSERT(SL_HEADER_SIZE + SL_LINE_SIZE <= SL_LAYER_SLOT_SIZE, "header and hot line");
SL_STATIC_ASSERT(SL_LAYER_CELLS == 8 * SL_LINE_CELLS, "a histogram is eight lines");
SL_STATIC_ASSERT(SL_LAYER_BUCKETS + SL_LAYER_BUCKET_COUNT == SL_LAYER_OVER, "buckets");

enum sl_slot_state { SL_SLOT_FREE = 0, SL_SLOT_OPEN = 1, SL_SLOT_CLOSED = 2 };

/* Role of this side. On a client, the time from response to request is not application latency. */
enum sl_role { SL_ROLE_UNKNOWN = 0, SL_ROLE_SERVER = 1, SL_ROLE_CLIENT = 2 };

enum sl_slot_count {
	SL_COUNT_REQUESTS = 0, /* requests started: a send after bytes were read */
	SL_COUNT_COMPLETE = 1, /* requests with all seven layers measured */
	/* requests during which bytes of the next request had already arrived */
	SL_COUNT_PIPELINED = 2,
	SL_COUNT_IN = 3,	   /* data segments received, as seen by the stack (after GRO) */
	SL_COUNT_OUT = 4,	   /* data segments passed to the driver's queue (before TSO) */
	SL_COUNT_UNATTRIBUTED = 5, /* latencies not measured, for any cause */
	SL_COUNT_INCOMPLETE = 6,   /* requests that ended without all seven layers */
};

/* Causes for not measuring a latency or a request: the counters of SL_SECTION_LOSSES. */
enum sl_layer_cause {
	SL_CAUSE_NO_NIC = 0,   /* segment in: driver timestamp missing or overwritten */
	SL_CAUSE_NO_IP,	       /* segment in: IP timestamp missing */
	SL_CAUSE_NO_TCP,       /* segment in: TCP timestamp missing */
	SL_CAUSE_DUPLICATE,    /* segment in: contains no new data */
	SL_CAUSE_OUT_OF_ORDER, /* segment in: out of order, readable only once a gap is filled */
	SL_CAUSE_DISCARDED,    /* segment in: TCP dropped it (checksum, window, memory) */
	SL_CAUSE_READ_RING,    /* segment in: more segments wait to be read than can be tracked */
	SL_CAUSE_NO_SEND,      /* segment out: the send call was not seen */
	/* segment out: more send calls wait for transmission than can be tracked */
	SL_CAUSE_SEND_RING,
	SL_CAUSE_NO_OUT_IP,  /* segment out: IP timestamp missing (another network namespace?) */
	SL_CAUSE_NO_DRIVER,  /* segment out: evicted before it reached the driver */
	SL_CAUSE_RETRANSMIT, /* segment out: retransmitted */
	SL_CAUSE_REFUSED,    /* latency negative or implausibly long */
	SL_CAUSE_REQ_IN,     /* request: timestamp missing for its last segment */
	SL_CAUSE_REQ_OUT,    /* request: timestamp missing for the response's first segment */
	SL_CAUSE_REQ_RETRANSMIT, /* request: the response's first segment was retransmitted */
	SL_CAUSE_REQ_PENDING, /* request: more responses wait for the driver than can be tracked */
	SL_CAUSE_REQ_CLOSED,  /* request: closed before its response was sent */
	SL_CAUSE_NO_STATE,    /* the socket's state could not be allocated */
	SL_CAUSE_FLOWS_FULL,  /* flows without a slot, which are counted in their group */
	SL_CAUSE_GROUPS_FULL, /* flows that got no group */
	SL_CAUSE_TRACE_DROPPED, /* records of requests dropped because the ring was full */
	SL_CAUSE_NOTES_FULL,	/* counts dropped because the CPU's buffer was full */
	SL_CAUSES
};

enum sl_layers_hot_cell {			     /* each cell grows independently */
			  SL_LAYERS_FLOWS_USED = 0,  /* slots ever used; read slots [0, used) */
			  SL_LAYERS_GROUPS_USED = 1, /* at least 1 */
			  SL_LAYERS_OPENED = 2,	     /* flows that got a slot */
			  SL_LAYERS_CLOSED = 3,	     /* flows that got a slot and have closed */
};

#endif
