/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/layer.h - a region of kind SL_REGION_LAYERS: the time that each layer of the kernel's
 * network stack takes, in histograms per connection and per group of connections. The memory is a
 * mapped eBPF array that only programs in the kernel write. sidelight-region(5) is normative.
 *
 *   0      header            as of every region
 *   4096   hot line          enum sl_layers_hot_cell, a plain line
 *   ...    losses            SL_SECTION_LOSSES: a copy per CPU, to be summed up
 *   ...    flows             SL_SECTION_LAYER_FLOWS: slots of SL_LAYER_SLOT_SIZE bytes
 *   ...    groups            SL_SECTION_LAYER_GROUPS: slots of the same form; slot 0: all others
 *
 * All lines are plain. Each changes by itself: a copy of a slot is not a snapshot, and may mix two
 * owners. sidelight-region(5) says how a reader tells them apart.
 *
 * C11 and C++17; also compiled into the eBPF programs.
 */
#ifndef SIDELIGHT_LAYER_H
#define SIDELIGHT_LAYER_H

#include <sidelight/region.h>

/*
 * SL_SECTION_LOSSES counts what was lost, by cause. An element is the copy of one CPU: counter n is
 * cell n % 7 of plain line n / 7. The value of a counter is its sum over all copies.
 */

/* In the order in which a request passes them. Each is the time between two boundaries. */
enum sl_layer {
	SL_LAYER_MAC_IN = 0,  /* driver .. IP */
	SL_LAYER_IP_IN = 1,   /* .. TCP */
	SL_LAYER_TCP_IN = 2,  /* .. the read that takes the segment's last byte */
	SL_LAYER_APP = 3,     /* .. the send of the response's first byte */
	SL_LAYER_TCP_OUT = 4, /* .. IP */
	SL_LAYER_IP_OUT = 5,  /* .. queueing discipline */
	SL_LAYER_MAC_OUT = 6, /* .. driver */
	SL_LAYER_TOTAL = 7,   /* of a request with all seven */
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
 * Buckets, and their numbers, are those of SL_KIND_HISTOGRAM_EXP of scale 1 and of Prometheus'
 * native histograms of schema 1, in seconds: bounds at powers of two of ns are none in seconds.
 */
#define SL_LAYER_SCALE	      1
#define SL_LAYER_CELLS	      56
#define SL_LAYER_SUM	      0
#define SL_LAYER_ZERO	      1
#define SL_LAYER_BUCKETS      2
#define SL_LAYER_FIRST	      (-47) /* number of the first bucket; 2^-24 s is the bound below */
#define SL_LAYER_BUCKET_COUNT 53
#define SL_LAYER_OVER	      55

/*
 * A slot, of a flow or of a group (the flows of one remote address, local port and cgroup): two
 * lines of key, one of counters, and the histograms. Values only grow within a generation.
 */
enum sl_slot_word { /* of the 64-bit words of a slot; words 7, 15, ... are check words */
		    SL_SLOT_STATE = 0, /* enum sl_slot_state in bits 0-7, role in 8-15; bits 16-63
					  generation */
		    SL_SLOT_LOCAL = 1, /* local address, 16 bytes in network order, IPv4 mapped;
					  flows only */
		    SL_SLOT_REMOTE = 3,
		    SL_SLOT_PORTS =
			    5, /* local in bits 0-15, remote in 16-31 (flows only), family 32-39 */
		    SL_SLOT_CGROUP = 6,
		    SL_SLOT_START = 8, /* CLOCK_MONOTONIC ns of the first look at it */
		    SL_SLOT_END = 9,   /* of its close; 0: open */
		    SL_SLOT_NETNS = 10,
		    SL_SLOT_COUNTS = 16, /* see enum sl_slot_count */
		    SL_SLOT_HISTOGRAMS = 24,
};
#define SL_SLOT_WORDS	   (SL_SLOT_HISTOGRAMS + SL_LAYERS * 64)
#define SL_LAYER_SLOT_SIZE (SL_SLOT_WORDS * 8u)
#define SL_LAYER_SLOTS_MAX (1u << 18)

/* The array has elements of a slot's size: header and hot line share the first. */
SL_STATIC_ASSERT(SL_LAYER_SLOT_SIZE == 4288 && SL_LAYER_SLOT_SIZE % SL_LINE_SIZE == 0, "slot");
SL_STATIC_ASSERT(SL_HEADER_SIZE + SL_LINE_SIZE <= SL_LAYER_SLOT_SIZE, "header and hot line");
SL_STATIC_ASSERT(SL_LAYER_CELLS == 8 * SL_LINE_CELLS, "a histogram is eight lines");
SL_STATIC_ASSERT(SL_LAYER_BUCKETS + SL_LAYER_BUCKET_COUNT == SL_LAYER_OVER, "buckets");

enum sl_slot_state { SL_SLOT_FREE = 0, SL_SLOT_OPEN = 1, SL_SLOT_CLOSED = 2 };

/* Of this side. A client's time from response to request is not application latency. */
enum sl_role { SL_ROLE_UNKNOWN = 0, SL_ROLE_SERVER = 1, SL_ROLE_CLIENT = 2 };

enum sl_slot_count {
	SL_COUNT_REQUESTS = 0,	   /* started: a send after bytes were read */
	SL_COUNT_COMPLETE = 1,	   /* with all seven layers */
	SL_COUNT_PIPELINED = 2,	   /* of the requests: bytes of the next had arrived */
	SL_COUNT_IN = 3,	   /* data segments received, as the stack sees them (after GRO) */
	SL_COUNT_OUT = 4,	   /* data segments given to the driver's queue (before TSO) */
	SL_COUNT_UNATTRIBUTED = 5, /* latencies not measured, for all causes */
	SL_COUNT_INCOMPLETE = 6,   /* requests that ended without all seven */
};

/* Why a latency or a request was not measured: the counters of SL_SECTION_LOSSES. */
enum sl_layer_cause {
	SL_CAUSE_NO_NIC = 0,	 /* segment in: no time of the driver, or overwritten */
	SL_CAUSE_NO_IP,		 /* no time of IP */
	SL_CAUSE_NO_TCP,	 /* no time of TCP */
	SL_CAUSE_DUPLICATE,	 /* segment in: nothing new in it */
	SL_CAUSE_OUT_OF_ORDER,	 /* segment in: readable only after a hole is filled */
	SL_CAUSE_DISCARDED,	 /* segment in: TCP dropped it (checksum, window, memory) */
	SL_CAUSE_READ_RING,	 /* more segments wait to be read than are tracked */
	SL_CAUSE_NO_SEND,	 /* segment out: the send call was not seen */
	SL_CAUSE_SEND_RING,	 /* more send calls wait for transmission than are tracked */
	SL_CAUSE_NO_OUT_IP,	 /* segment out: no time of IP (another network namespace?) */
	SL_CAUSE_NO_DRIVER,	 /* segment out: evicted before the driver got it */
	SL_CAUSE_RETRANSMIT,	 /* segment out: retransmitted */
	SL_CAUSE_REFUSED,	 /* negative, or implausibly long */
	SL_CAUSE_REQ_IN,	 /* request: its last segment lacks a time */
	SL_CAUSE_REQ_OUT,	 /* request: its response's first segment lacks a time */
	SL_CAUSE_REQ_RETRANSMIT, /* request: the response's first segment was retransmitted */
	SL_CAUSE_REQ_PENDING,	 /* request: more responses wait for the driver than are tracked */
	SL_CAUSE_REQ_CLOSED,	 /* request: closed before its response was sent */
	SL_CAUSE_NO_STATE,	 /* no memory for the socket's state */
	SL_CAUSE_FLOWS_FULL,	 /* flows without a slot; their group counts them */
	SL_CAUSE_GROUPS_FULL,	 /* flows without a group */
	SL_CAUSE_TRACE_DROPPED,	 /* records of requests: the ring was full */
	SL_CAUSE_NOTES_FULL,	 /* counts: the buffer of the CPU was full */
	SL_CAUSES
};

enum sl_layers_hot_cell {			     /* each grows independently */
			  SL_LAYERS_FLOWS_USED = 0,  /* slots ever used: a reader reads [0, used) */
			  SL_LAYERS_GROUPS_USED = 1, /* at least 1 */
			  SL_LAYERS_OPENED = 2,	     /* flows that got a slot */
			  SL_LAYERS_CLOSED = 3,	     /* of them */
};

#endif
