/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flows.h - parses a region of kind SL_REGION_FLOWS for readers: takes private copies, returns
 * checked values. Does not depend on the transport or on eBPF.
 *
 * A reader calls:
 * - region_flows_info_parse() once, on a copy of the header
 * - region_flows_hot_parse() each round, on a copy of the hot line
 * - region_flow_parse() on a copy of each slot in use; copy it again if it is UNSETTLED
 * - region_flow_event_parse() on copies of journal lines, to learn of opened and closed flows
 */
#ifndef SL_REGION_FLOWS_H
#define SL_REGION_FLOWS_H

#include <sidelight/flow.h>

#include "region/decode.h"

struct region_flows_info {
	uint64_t size, instance, start_ns;
	uint64_t hot, flows, journal; /* offsets */
	uint32_t slots, journal_lines;
	uint64_t cgroups;      /* offset of the cgroups; 0 if there is no such section */
	uint32_t cgroup_slots; /* including slot 0, which holds the section's counters */
	/* offsets of the lines of dropped segments; 0 if there are no such sections */
	uint64_t drops, reasons;
	uint32_t drop_reasons;
	uint8_t boot_id[16];
};
/* Parses a private copy of a header; actual_size: see region_info_parse(). Pure. */
enum region_fault region_flows_info_parse(const struct sl_region_header *copy, uint64_t actual_size,
					  struct region_flows_info *info);

struct region_flows_hot {
	uint64_t round, refused, journal, changed_ns, quarantine_ns;
	uint32_t used, open, quarantined;
};
/* Returns UNSETTLED if the line must be read again, or HOT if values are impossible. Pure. */
enum region_fault region_flows_hot_parse(const uint64_t line[8],
					 const struct region_flows_info *info,
					 struct region_flows_hot *hot);

/* Number of a flow's segments that its host dropped for one reason. */
struct region_flow_drop {
	uint32_t reason, segments;
	char name[SL_DROP_NAME]; /* the kernel's name of the reason, such as "SOCKET_RCVBUFF" */
};

/* A snapshot of a flow. Times are CLOCK_MONOTONIC in ns; see sidelight/flow.h. */
struct region_flow {
	uint64_t id, cgroup, open_ns, closed_ns, changed_ns;
	uint32_t generation, number; /* generation of the slot, number of the snapshot */
	uint32_t state;		     /* enum sl_region_state */
	uint32_t tcp_state, last_state, family, flags, netns, pid;
	uint8_t local[16], remote[16];
	uint16_t local_port, remote_port;
	char comm[17];
	/* pid and comm belong to the listener (listeners.h); not stored in the slot */
	bool by_listener;
	uint32_t handshake_us;
	uint64_t bytes_sent, bytes_acked, bytes_received, bytes_retrans, read_bytes, write_bytes;
	uint32_t flight, lost, rcv_wnd, snd_wnd, cwnd, ssthresh, mss, queue, queue_max, wmem;
	uint32_t srtt_us, mdev_us, rtt_min_us, rto_us;
	uint64_t rtt_count, rtt_sum_us;
	uint32_t retrans, dsack, fast, timeouts, ooo, reorder;
	uint32_t re_fast, re_rto, re_tlp, re_syn, zero_in, zero_out;
	uint32_t delivered, delivered_ce, ce_in, pacing_kib, reads, writes;
	uint32_t segs_out, data_segs_out, segs_in, data_segs_in;
	uint64_t busy_us, rwnd_us, sndbuf_us;
	uint32_t backlog, backlog_max, drops, rcvbuf, sndbuf;
	uint32_t backoff, retransmits, probes, error, lost_out, retrans_out;
	uint32_t snd_wnd_max, turns, held, waited_ms, thought_ms;
	/* not stored in the slot: see region_flow_drops_parse(); unused elements are 0 */
	struct region_flow_drop drop[SL_DROPS_PER_FLOW];
};
/*
 * Parses a private copy of a slot. Returns UNSETTLED if lines do not verify or belong to different
 * snapshots (copy the slot again), or HOT if values are impossible. An empty slot has state FREE.
 * Pure.
 */
enum region_fault region_flow_parse(const uint64_t slot[64], struct region_flow *flow);

/*
 * Number of TCP segments that a host dropped for one reason, including those that belong to no
 * flow.
 */
struct region_drop_reason {
	uint64_t segments;
	char name[SL_DROP_NAME]; /* letters, digits and '_' */
};
/* Parses a private copy of a line of SL_SECTION_DROP_REASONS. May return UNSETTLED. Pure. */
enum region_fault region_drop_reason_parse(const uint64_t line[8], uint32_t number,
					   struct region_drop_reason *reason);
/* Copies and parses a line in shared memory; number is below info->drop_reasons. */
enum region_fault region_drop_reason_read(const void *map, const struct region_flows_info *info,
					  uint32_t number, struct region_drop_reason *reason);
/*
 * Sets flow->drop from a private copy of the slot's line of SL_SECTION_DROPS, if the line belongs
 * to this flow. Names are placeholders such as "REASON_5"; the host's names are in
 * SL_SECTION_DROP_REASONS. May return UNSETTLED. Pure.
 */
enum region_fault region_flow_drops_parse(const uint64_t line[8], struct region_flow *flow);

/*
 * Copies and parses a slot in shared memory, with its dropped segments, several times while it is
 * unsettled. map has info->size bytes; slot is below info->slots.
 */
enum region_fault region_flow_read(const void *map, const struct region_flows_info *info,
				   uint32_t slot, struct region_flow *flow);
enum region_fault region_flows_hot_read(const void *map, const struct region_flows_info *info,
					struct region_flows_hot *hot);

/*
 * Returns how long the flow has existed, in ns: until closed_ns or, if it is open, until now_ns
 * (CLOCK_MONOTONIC of its host) or its snapshot, whichever is later. The snapshot of an idle flow
 * is old.
 */
uint64_t region_flow_duration(const struct region_flow *flow, uint64_t now_ns);
/* Returns the number of received bytes that the application has not read. A FIN does not count. */
uint64_t region_flow_unread(const struct region_flow *flow);
/*
 * Returns true if a listener's accept queue is at its bound. A listener's drops alone do not say
 * that connections were refused, because they include stray segments.
 */
bool region_flow_queue_full(const struct region_flow *flow);
/* How a connection ended, or why it was never established. */
enum region_flow_end {
	REGION_FLOW_OPEN = 0,
	REGION_FLOW_FIN,	  /* closed by both ends, first by this end */
	REGION_FLOW_FIN_PEER,	  /* closed by both ends, first by the peer */
	REGION_FLOW_RESET,	  /* reset by this end */
	REGION_FLOW_RESET_PEER,	  /* reset by the peer */
	REGION_FLOW_KEEPALIVE,	  /* the peer answered no keepalive probe */
	REGION_FLOW_RTO,	  /* the peer acknowledged no retransmission */
	REGION_FLOW_USER_TIMEOUT, /* the peer acknowledged nothing within TCP_USER_TIMEOUT */
	REGION_FLOW_REFUSED,	  /* not established: the peer refused it */
	REGION_FLOW_UNANSWERED,	  /* not established: no answer to any SYN */
	REGION_FLOW_NOT_MADE,	  /* not established for another reason; error may say which */
	/* only its record in the table ended, because the filter changed */
	REGION_FLOW_LEFT,
	REGION_FLOW_UNKNOWN,
	REGION_FLOW_ENDS
};
enum region_flow_end region_flow_end(const struct region_flow *flow);
const char *region_flow_end_name(enum region_flow_end end); /* such as "refused"; "" if open */
/*
 * Returns true if the kernel gave up because the peer did not answer. If a router or the own host
 * reported the peer as unreachable meanwhile, the error is that report and not ETIMEDOUT.
 */
bool region_flow_timed_out(const struct region_flow *flow);
/* Returns true for a connection that this host initiated and that was not established. */
bool region_flow_failed(const struct region_flow *flow);
/*
 * Returns a hash of the addresses and ports, for this process. The hash of the connection's other
 * end differs only in its lowest bit. start: hash of what both ends have in common, or 0.
 */
uint64_t region_flow_end_hash(uint64_t start, const struct region_flow *flow);
/* Loopback addresses are specific to a host and a network namespace. */
bool region_is_loopback(const uint8_t address[16]);
const char *region_tcp_state_name(uint32_t state); /* "ESTABLISHED", ... or "unknown" */
/* Formats as "192.0.2.1" (mapped) or "2001:db8::1". out has INET6_ADDRSTRLEN bytes. */
const char *region_flow_address(const uint8_t address[16], char *out);

/* Names of a cgroup. */
struct region_flow_cgroup {
	uint64_t id, changed_ns;
	uint32_t generation, number; /* generation of the slot, number of the snapshot */
	uint32_t state; /* enum sl_region_state: free, live, or closed if the cgroup was removed */
	bool cut;	/* true if a text was truncated */
	uint64_t used, refused; /* slot 0 only: slots ever used; cgroups that got no slot */
	char text[SL_FLOW_CGROUP_TEXT + 1];
	/* pointing into text; UTF-8 without control characters */
	const char *name[SL_CGROUP_TEXTS];
};
/*
 * Parses a private copy of a slot of SL_SECTION_CGROUPS. Returns the same faults as
 * region_flow_parse(). Pure.
 */
enum region_fault region_flow_cgroup_parse(const uint64_t slot[64],
					   struct region_flow_cgroup *cgroup);
/*
 * For the writer of the section: fills in a slot except for tags and check words. If the text does
 * not fit, names are cut at the end and the path at the front. NULL means an empty text.
 */
void region_flow_cgroup_pack(uint64_t slot[64], uint64_t id, bool gone, uint64_t now_ns,
			     const char *const name[SL_CGROUP_TEXTS]);
/* Sets the tag and check word of each line. */
void region_flow_cgroup_seal(uint64_t slot[64], uint32_t generation, uint32_t number);

struct region_flow_record {
	uint64_t number, id, ns, sent, received;
	enum sl_flow_event event;
	uint32_t slot, generation, tcp_state, family;
	uint16_t local_port, remote_port;
	bool failed; /* like region_flow_failed() */
};
/*
 * number: number of the expected line. Returns CHECK if another line is there, either newer or not
 * yet overwritten, or UNSETTLED if the line must be read again. Pure.
 */
enum region_fault region_flow_event_parse(const uint64_t line[8], uint64_t number,
					  struct region_flow_record *record);

#endif
