/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/flow.h - a region of kind SL_REGION_FLOWS: the TCP connections of a host, as seen by
 * its kernel. The memory is a mapped eBPF array that only programs in the kernel write.
 * sidelight-region(5) is normative.
 *
 *   0      header            as in every region
 *   4096   hot line          enum sl_flows_hot_cell, a folded line
 *   ...    flows             SL_SECTION_FLOWS: slots of SL_FLOW_SIZE bytes, eight folded lines each
 *   ...    journal           SL_SECTION_JOURNAL: a ring of 2^n folded lines
 *   ...    cgroups           SL_SECTION_CGROUPS, optional: names of cgroup ids, slots of
 *                            SL_FLOW_CGROUP_SIZE bytes, eight folded lines each; written by the
 *                            programs' loader in user space for the first connection of a cgroup
 *   ...    drops             SL_SECTION_DROPS, optional: dropped segments, a line per slot
 *   ...    drop reasons      SL_SECTION_DROP_REASONS, optional: the same, a line per reason
 *
 * A reader reads slots [0, SL_FLOWS_USED). A slot is a consistent snapshot if its eight lines
 * verify and have the same tag. A slot belongs to one flow until the end of its quarantine: a flow
 * that ended stays readable, in state closed, for the time given in the hot line. Flows that use
 * the same slot one after another have different ids.
 *
 * C11 and C++17; also compiled into the eBPF programs.
 */
#ifndef SIDELIGHT_FLOW_H
#define SIDELIGHT_FLOW_H

#include <sidelight/region.h>

#define SL_FLOW_LINES 8u
#define SL_FLOW_SIZE  512u
#define SL_FLOWS_MAX  (1u << 20)

/*
 * The check word of a folded line: the sum of (cell[i] ^ cell[i] >> 32) * K[i] mod 2^64. In a
 * product, changes propagate to higher bits only; folding makes every byte of a cell affect at
 * least the upper five bytes of the check word.
 */
static inline uint64_t sl_folded_check(const uint64_t line[8])
{
	return (line[0] ^ line[0] >> 32) * SL_LINE_K0 + (line[1] ^ line[1] >> 32) * SL_LINE_K1 +
	       (line[2] ^ line[2] >> 32) * SL_LINE_K2 + (line[3] ^ line[3] >> 32) * SL_LINE_K3 +
	       (line[4] ^ line[4] >> 32) * SL_LINE_K4 + (line[5] ^ line[5] >> 32) * SL_LINE_K5 +
	       (line[6] ^ line[6] >> 32) * SL_LINE_K6;
}

enum sl_flows_hot_cell {
	SL_FLOWS_ROUND = 0,	 /* incremented by each publication */
	SL_FLOWS_USED = 1,	 /* slots ever used; read slots [0, used) */
	SL_FLOWS_OPEN = 2,	 /* low half: open flows; high half: closed flows in quarantine */
	SL_FLOWS_REFUSED = 3,	 /* connections that got no slot */
	SL_FLOWS_JOURNAL = 4,	 /* number of the next journal line */
	SL_FLOWS_CHANGED_NS = 5, /* CLOCK_MONOTONIC of the last publication */
	SL_FLOWS_QUARANTINE_NS = 6,
};

/*
 * A line of the journal, number n, is at index n modulo the length. Cell 0: n << 8 | sl_flow_event.
 */
enum sl_flow_journal_cell {
	SL_JOURNAL_TAG = 0,
	SL_JOURNAL_ID = 1,
	SL_JOURNAL_NS = 2,	 /* time of the event, CLOCK_MONOTONIC */
	SL_JOURNAL_SLOT = 3,	 /* slot number | generation of the slot << 32 */
	SL_JOURNAL_WORD = 4,	 /* same encoding as SL_FLOW_WORD */
	SL_JOURNAL_SENT = 5,	 /* when closed: bytes acknowledged by the peer */
	SL_JOURNAL_RECEIVED = 6, /* when closed: bytes received */
};

enum sl_flow_event { SL_FLOW_EVENT_OPEN = 1, SL_FLOW_EVENT_CLOSE = 2 };

/*
 * Cells of a slot, as line * 8 + cell. Cell 0 of each line is the tag: generation of the slot << 32
 * | number of the snapshot. Where two u32 share a cell ("a | b" below), the first is in the low
 * half.
 */
#define SL_FLOW_CELL(line, cell) ((line)*8u + (cell))
enum sl_flow_cell {
	SL_FLOW_TAG = SL_FLOW_CELL(0, 0),
	SL_FLOW_ID = SL_FLOW_CELL(0, 1),   /* a table never assigns an id twice */
	SL_FLOW_WORD = SL_FLOW_CELL(0, 2), /* SL_FLOW_WORD_OF() */
	/* network namespace | thread group (0 means unknown) */
	SL_FLOW_NETNS_PID = SL_FLOW_CELL(0, 3),
	SL_FLOW_CGROUP = SL_FLOW_CELL(0, 4),
	SL_FLOW_OPEN_NS = SL_FLOW_CELL(0, 5), /* time established, or first seen if SL_FLOW_OLDER */
	SL_FLOW_CHANGED_NS = SL_FLOW_CELL(0, 6), /* time of this snapshot */

	SL_FLOW_LOCAL = SL_FLOW_CELL(1, 1), /* address in two cells: 16 bytes in network order */
	SL_FLOW_REMOTE = SL_FLOW_CELL(1, 3),
	SL_FLOW_CLOSED_NS = SL_FLOW_CELL(1, 5), /* 0 while open */
	/* duration of the handshake in us (0 means unknown) | enum sl_flow_flag */
	SL_FLOW_HANDSHAKE_FLAGS = SL_FLOW_CELL(1, 6),

	SL_FLOW_BYTES_SENT = SL_FLOW_CELL(2, 1), /* including retransmissions */
	SL_FLOW_BYTES_ACKED = SL_FLOW_CELL(2, 2),
	SL_FLOW_BYTES_RECEIVED = SL_FLOW_CELL(2, 3),
	SL_FLOW_BYTES_RETRANS = SL_FLOW_CELL(2, 4),
	SL_FLOW_READ_BYTES = SL_FLOW_CELL(2, 5), /* bytes read by the application */
	SL_FLOW_WRITE_BYTES = SL_FLOW_CELL(2, 6),

	SL_FLOW_FLIGHT_LOST = SL_FLOW_CELL(3, 1), /* packets_out | lost segments, cumulative */
	/* receive window (rcv_wnd) | send window (snd_wnd), bytes */
	SL_FLOW_WINDOWS = SL_FLOW_CELL(3, 2),
	/* congestion window (snd_cwnd) | snd_ssthresh, segments */
	SL_FLOW_CWND = SL_FLOW_CELL(3, 3),
	SL_FLOW_MSS_QUEUE = SL_FLOW_CELL(3, 4), /* mss | bytes written but not yet sent */
	/* maximum of the bytes not yet sent | sk_wmem_queued */
	SL_FLOW_QUEUE_MAX = SL_FLOW_CELL(3, 5),
	SL_FLOW_SRTT = SL_FLOW_CELL(3, 6), /* smoothed RTT | mean deviation of the RTT, us */

	SL_FLOW_RTT_COUNT = SL_FLOW_CELL(4, 1),
	SL_FLOW_RTT_SUM = SL_FLOW_CELL(4, 2),	  /* us */
	SL_FLOW_RTT_MIN_RTO = SL_FLOW_CELL(4, 3), /* recent minimum of the RTT | RTO, us */
	/* segments retransmitted | spurious ones, as reported by the peer */
	SL_FLOW_RETRANS_DSACK = SL_FLOW_CELL(4, 4),
	SL_FLOW_FAST_TIMEOUTS = SL_FLOW_CELL(4, 5), /* fast recoveries | retransmission timeouts */
	/* segments received out of order | reorderings seen */
	SL_FLOW_REORDERED = SL_FLOW_CELL(4, 6),

	/* segments retransmitted by recovery | after a timeout */
	SL_FLOW_RE_FAST_RTO = SL_FLOW_CELL(5, 1),
	/* segments retransmitted: tail-loss probe | handshake */
	SL_FLOW_RE_TLP_SYN = SL_FLOW_CELL(5, 2),
	/* times the window closed: the peer's | this side's */
	SL_FLOW_ZERO_WINDOWS = SL_FLOW_CELL(5, 3),
	SL_FLOW_DELIVERED = SL_FLOW_CELL(5, 4), /* segments delivered | delivered with CE */
	SL_FLOW_CE_PACING = SL_FLOW_CELL(5, 5), /* segments received with CE | pacing rate, KiB/s */
	SL_FLOW_CALLS = SL_FLOW_CELL(5, 6),	/* read calls | write calls, if counted */

	SL_FLOW_SEGS_OUT = SL_FLOW_CELL(6, 1),	/* segments sent: all | with data */
	SL_FLOW_SEGS_IN = SL_FLOW_CELL(6, 2),	/* segments received: all | with data */
	SL_FLOW_BUSY_US = SL_FLOW_CELL(6, 3),	/* total time with data to send */
	SL_FLOW_RWND_US = SL_FLOW_CELL(6, 4),	/* part of busy time limited by the peer's window */
	SL_FLOW_SNDBUF_US = SL_FLOW_CELL(6, 5), /* part of busy time limited by the send buffer */
	/*
	 * listeners: accept queue length | its limit; connections: turns (times that data arrived
	 * after data was sent) | segments that arrived while less than a segment was unsent, which
	 * is how Nagle's algorithm holds data back
	 */
	SL_FLOW_BACKLOG = SL_FLOW_CELL(6, 6),

	SL_FLOW_COMM = SL_FLOW_CELL(7, 1), /* task name in two cells, 16 bytes */
	/* sk_drops (for a listener: connections refused) | SL_FLOW_TIMERS_OF() */
	SL_FLOW_DROPS = SL_FLOW_CELL(7, 3),
	/* receive buffer (sk_rcvbuf) | send buffer (sk_sndbuf), bytes */
	SL_FLOW_BUFFERS = SL_FLOW_CELL(7, 4),
	/* largest window that the peer offered, bytes | SL_FLOW_OUT_OF() */
	SL_FLOW_OFFERED_OUT = SL_FLOW_CELL(7, 5),
	/*
	 * ms from data sent to data received | ms from data received to data sent: the peer's and
	 * this end's part of the time of requests and answers
	 */
	SL_FLOW_TURNS = SL_FLOW_CELL(7, 6),
};

#define SL_FLOW_LOW(cell)  ((uint32_t)(cell))
#define SL_FLOW_HIGH(cell) ((uint32_t)((cell) >> 32))

/* state: enum sl_region_state (free, live, closed); tcp: as in tcp_states.h; family: 4 or 6. */
#define SL_FLOW_WORD_OF(state, tcp, family, local_port, remote_port)           \
	((uint64_t)(state) | (uint64_t)(tcp) << 8 | (uint64_t)(family) << 16 | \
	 (uint64_t)(local_port) << 32 | (uint64_t)(remote_port) << 48)
#define SL_FLOW_STATE(word)	  ((uint32_t)(word)&255)
#define SL_FLOW_TCP_STATE(word)	  ((uint32_t)(word) >> 8 & 255)
#define SL_FLOW_FAMILY(word)	  ((uint32_t)(word) >> 16 & 255)
#define SL_FLOW_LAST_STATE(word)  ((uint32_t)(word) >> 24 & 255) /* before CLOSE; 0 if unknown */
#define SL_FLOW_LOCAL_PORT(word)  ((uint32_t)((word) >> 32) & 65535)
#define SL_FLOW_REMOTE_PORT(word) ((uint32_t)((word) >> 48))

/*
 * Consecutive retransmission timeouts, as the exponent of the RTO; retransmissions of the first
 * unacknowledged segment; keepalive and window probes without an answer; the socket's error, an
 * errno.
 */
#define SL_FLOW_TIMERS_OF(backoff, retransmits, probes, error)                           \
	((uint32_t)(backoff) | (uint32_t)(retransmits) << 8 | (uint32_t)(probes) << 16 | \
	 (uint32_t)(error) << 24)
/* Segments considered lost, and retransmitted ones in flight; each at most 65535. */
#define SL_FLOW_OUT_OF(lost, retrans) ((uint32_t)(lost) | (uint32_t)(retrans) << 16)

enum sl_flow_flag {
	/*
	 * existed before the table: duration, RTT samples, causes, zero windows and maxima count
	 * from the first observation
	 */
	SL_FLOW_OLDER = 1 << 0,
	SL_FLOW_ACTIVE = 1 << 1, /* the connection was initiated by this host */
	SL_FLOW_MAPPED = 1 << 2, /* IPv4 connection on an IPv6 socket */
	SL_FLOW_LISTENER = 1 << 3,
	SL_FLOW_RESET_IN = 1 << 4,  /* the connection was reset by the peer */
	SL_FLOW_RESET_OUT = 1 << 5, /* a reset was sent */
	SL_FLOW_ECN = 1 << 6,	    /* ECN was negotiated */
	SL_FLOW_UNWANTED = 1 << 7,  /* closed in the table only, because the filter changed */
	/* its end was not observed but discovered later: the values are the last ones read */
	SL_FLOW_UNSEEN = 1 << 8,
	SL_FLOW_NODELAY = 1 << 9, /* TCP_NODELAY: Nagle's algorithm is off */
	SL_FLOW_CORK = 1 << 10,	  /* TCP_CORK is set */
	/* SO_MAX_PACING_RATE, not the congestion control, decides the pacing rate */
	SL_FLOW_PACED = 1 << 11,
	SL_FLOW_USER_TIMEOUT = 1 << 12, /* TCP_USER_TIMEOUT is set */
	SL_FLOW_DROPPED = 1 << 13,	/* the host dropped segments: see SL_SECTION_DROPS */
	SL_FLOW_BBR = 1 << 14,		/* the congestion control is a version of BBR */
	SL_FLOW_SUBFLOW = 1 << 15,	/* part of a Multipath TCP connection */
};

SL_STATIC_ASSERT(SL_FLOW_SIZE == SL_FLOW_LINES * SL_LINE_SIZE, "slot");

/*
 * SL_SECTION_DROPS has one folded line per flow slot, which counts the segments of the flow that
 * the host dropped, by reason. Cell 0 holds the slot's tag at the time when the line was written;
 * the line belongs to the flow with the same generation. Cells 1 to 6 hold reason | segments. If a
 * flow has more reasons than cells, cell 6 has reason 0 and counts all that have no cell. Unused
 * cells are 0.
 *
 * SL_SECTION_DROP_REASONS has one plain line per reason, in the order of the kernel's enum
 * skb_drop_reason: cell 0 counts all TCP segments that the host dropped, including those that
 * belong to no flow; cells 1 to 6 hold the reason's name, 48 bytes padded with NUL, empty if
 * unknown. Line 0 counts reasons beyond the last line.
 */
#define SL_DROPS_PER_FLOW 6u
#define SL_DROP_REASONS	  256u
#define SL_DROP_NAME	  48u

/*
 * A slot of SL_SECTION_CGROUPS. Cell 0 of each line is the tag, as in a flow: generation of the
 * slot << 32 | number of the snapshot. Lines 1 to 7 hold text in cells 1 to 6, 48 bytes each, 336
 * in total: five NUL-terminated strings, empty if unknown, in the order of enum sl_cgroup_text.
 * Slot 0 belongs to no cgroup; its first line describes the section.
 */
#define SL_FLOW_CGROUP_SIZE 512u
#define SL_FLOW_CGROUPS_MAX (1u << 16)
#define SL_FLOW_CGROUP_TEXT 336u
enum sl_flow_cgroup_cell {
	SL_FLOW_CGROUP_TAG = 0,
	SL_FLOW_CGROUP_ID = 1, /* same value as SL_FLOW_CGROUP of a flow; 0 in slot 0 only */
	/* bits 0-7 enum sl_region_state: live, or closed if removed; bit 8: text was truncated */
	SL_FLOW_CGROUP_STATE = 2,
	SL_FLOW_CGROUP_CHANGED_NS = 3, /* CLOCK_MONOTONIC */
	SL_FLOW_CGROUP_USED = 4,       /* slot 0: slots ever used, including slot 0 */
	SL_FLOW_CGROUP_REFUSED = 5,    /* slot 0: cgroups that got no slot */
};
enum sl_cgroup_text {
	SL_CGROUP_NAMESPACE = 0, /* Kubernetes namespace */
	SL_CGROUP_POD = 1,
	SL_CGROUP_CONTAINER = 2,
	SL_CGROUP_SERVICE = 3, /* compose or swarm service, workload of a pod, or systemd unit */
	SL_CGROUP_PATH = 4,    /* path below the root of the hierarchy; truncated at the front */
	SL_CGROUP_TEXTS = 5,
};
#define SL_FLOW_CGROUP_CUT (1u << 8)
SL_STATIC_ASSERT(SL_FLOW_CGROUP_TEXT == 7 * 6 * 8, "text");

#endif
