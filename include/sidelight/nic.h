/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/nic.h - a region of kind SL_REGION_NIC: TCP segments at the network devices of a host,
 * each with its time. The memory is a mapped eBPF array that only programs in the kernel write.
 * sidelight-region(5) is normative.
 *
 *   0      header            as in every region
 *   4096   hot line          enum sl_nic_hot_cell, a plain line
 *   8192   ring              SL_SECTION_NIC_RING: records of SL_NIC_SIZE bytes, a power of two
 *
 * Record n is at index n modulo the length: two folded lines (sidelight/flow.h) with the same tag.
 * A reader that returns before the ring wraps misses no record; otherwise SL_NIC_HEAD tells it how
 * many it missed.
 *
 * Times are CLOCK_MONOTONIC in ns, which never steps and is also the clock of the layers' times.
 * The offset between the clocks of two hosts is estimated from the records.
 *
 * C11 and C++17; also compiled into the eBPF programs.
 */
#ifndef SIDELIGHT_NIC_H
#define SIDELIGHT_NIC_H

#include <sidelight/flow.h>

#define SL_NIC_SIZE	128u
#define SL_NIC_WORDS	16u
#define SL_NIC_RING_MIN 64u
#define SL_NIC_RING_MAX (1u << 24)

/* Cells change only by additions, so any CPU may add to them. All start at 0. */
enum sl_nic_hot_cell {
	SL_NIC_HEAD = 0,     /* number of the next record to be written */
	SL_NIC_HEADLESS = 1, /* packets with an unreadable header */
	SL_NIC_LATE = 2,     /* records of packets whose header could only be read after GRO */
	/* packets not parsed: IP fragments, and IPv6 with extension headers */
	SL_NIC_FRAGMENTS = 3,
	SL_NIC_INTERVAL = 4, /* reserved: 0 */
};

/* Cell 0: number << 8 | enum sl_nic_flag. Line 1 repeats cell 0. */
enum sl_nic_cell {
	SL_NIC_TAG = 0,
	SL_NIC_TIME_NS = 1, /* CLOCK_MONOTONIC when passed to or by the driver */
	SL_NIC_SEQ_END = 2, /* first sequence number | last + 1; SYN and FIN count as one each */
	SL_NIC_ACK = 3,	    /* acknowledgement number | window (16 bits, unscaled) | IP id (16) */
	SL_NIC_TIMESTAMPS = 4, /* RFC 7323 timestamps: TSval | TSecr, if SL_NIC_HAS_TS */
	SL_NIC_PORTS = 5,  /* source, destination (16 bits each) | gso_size (16) | gso_segs (16) */
	SL_NIC_DEVICE = 6, /* inode number of the network namespace | interface index */
	SL_NIC_TAG_AGAIN = 8,
	/* address in two cells: 16 bytes in network order; IPv4 as ::ffff:a.b.c.d */
	SL_NIC_SOURCE = 9,
	SL_NIC_DESTINATION = 11,
	SL_NIC_BYTES = 13,    /* bytes of data */
	SL_NIC_RESERVED = 14, /* 0 */
};

enum sl_nic_flag {
	SL_NIC_OUT = 1 << 0, /* outgoing; otherwise incoming */
	SL_NIC_SYN = 1 << 1,
	SL_NIC_FIN = 1 << 2,
	SL_NIC_RST = 1 << 3,
	SL_NIC_HAS_TS = 1 << 4,
	SL_NIC_V6 = 1 << 5,
	/* incoming: read after GRO; the time belongs to the first segment */
	SL_NIC_MERGED = 1 << 6,
};

SL_STATIC_ASSERT(SL_NIC_SIZE == 2 * SL_LINE_SIZE, "record");

#endif
