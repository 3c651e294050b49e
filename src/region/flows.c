// SPDX-License-Identifier: Apache-2.0
/* flows.c - parses the table of TCP connections: header, hot line, slots, journal. */
#include "region/flows.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/network.h"
#include "base/text.h"
#include "region/internal.h"

static bool has_section(const struct sl_region_header *h, uint32_t type)
{
	for (uint32_t i = 0; i < h->section_count; i++)
		if (h->section[i].type == type)
			return true;
	return false;
}

/* Finds the two sections that describe dropped segments. Either both are present, or neither. */
static enum region_fault find_drops(const struct sl_region_header *h,
				    struct region_flows_info *flows)
{
	uint32_t lines;

	if (!has_section(h, SL_SECTION_DROPS) && !has_section(h, SL_SECTION_DROP_REASONS))
		return REGION_FAULT_NONE;
	if (!region_section_exact(h, SL_SECTION_DROPS, SL_LINE_SIZE, SL_FLOWS_MAX, &flows->drops,
				  &lines) ||
	    !region_section_exact(h, SL_SECTION_DROP_REASONS, SL_LINE_SIZE, SL_DROP_REASONS,
				  &flows->reasons, &flows->drop_reasons) ||
	    lines < flows->slots)
		return REGION_FAULT_SECTION;
	return REGION_FAULT_NONE;
}

enum region_fault region_flows_info_parse(const struct sl_region_header *h, uint64_t actual_size,
					  struct region_flows_info *flows)
{
	struct region_info info;
	enum region_fault fault = region_kind_parse(h, actual_size, SL_REGION_FLOWS, &info);

	memset(flows, 0, sizeof(*flows));
	if (fault)
		return fault;
	if (has_section(h, SL_SECTION_CGROUPS) &&
	    !region_section_exact(h, SL_SECTION_CGROUPS, SL_FLOW_CGROUP_SIZE, SL_FLOW_CGROUPS_MAX,
				  &flows->cgroups, &flows->cgroup_slots))
		return REGION_FAULT_SECTION;
	REGION_TAKE_COMMON(flows, &info);
	flows->flows = info.flows;
	flows->slots = info.max_flows;
	flows->journal = info.journal;
	flows->journal_lines = info.journal_lines;
	return find_drops(h, flows);
}

enum region_fault region_flows_hot_parse(const uint64_t line[8],
					 const struct region_flows_info *info,
					 struct region_flows_hot *hot)
{
	if (line[7] != sl_folded_check(line))
		return REGION_FAULT_UNSETTLED;
	if (line[SL_FLOWS_USED] > info->slots)
		return REGION_FAULT_HOT;
	*hot = (struct region_flows_hot){
		.round = line[SL_FLOWS_ROUND],
		.used = (uint32_t)line[SL_FLOWS_USED],
		.open = SL_FLOW_LOW(line[SL_FLOWS_OPEN]),
		.quarantined = SL_FLOW_HIGH(line[SL_FLOWS_OPEN]),
		.refused = line[SL_FLOWS_REFUSED],
		.journal = line[SL_FLOWS_JOURNAL],
		.changed_ns = line[SL_FLOWS_CHANGED_NS],
		.quarantine_ns = line[SL_FLOWS_QUARANTINE_NS],
	};
	return REGION_FAULT_NONE;
}

/* Decodes a verified slot. */
static void decode_slot(const uint64_t *c, struct region_flow *f)
{
/* The two halves of a cell. */
#define TWO(low, high, cell) .low = SL_FLOW_LOW(c[cell]), .high = SL_FLOW_HIGH(c[cell])
	*f = (struct region_flow){
		.id = c[SL_FLOW_ID],
		.cgroup = c[SL_FLOW_CGROUP],
		.open_ns = c[SL_FLOW_OPEN_NS],
		.closed_ns = c[SL_FLOW_CLOSED_NS],
		.changed_ns = c[SL_FLOW_CHANGED_NS],
		TWO(number, generation, SL_FLOW_TAG),
		.state = SL_FLOW_STATE(c[SL_FLOW_WORD]),
		.tcp_state = SL_FLOW_TCP_STATE(c[SL_FLOW_WORD]),
		.last_state = SL_FLOW_LAST_STATE(c[SL_FLOW_WORD]),
		.family = SL_FLOW_FAMILY(c[SL_FLOW_WORD]),
		.local_port = (uint16_t)SL_FLOW_LOCAL_PORT(c[SL_FLOW_WORD]),
		.remote_port = (uint16_t)SL_FLOW_REMOTE_PORT(c[SL_FLOW_WORD]),
		TWO(netns, pid, SL_FLOW_NETNS_PID),
		TWO(handshake_us, flags, SL_FLOW_HANDSHAKE_FLAGS),
		.bytes_sent = c[SL_FLOW_BYTES_SENT],
		.bytes_acked = c[SL_FLOW_BYTES_ACKED],
		.bytes_received = c[SL_FLOW_BYTES_RECEIVED],
		.bytes_retrans = c[SL_FLOW_BYTES_RETRANS],
		.read_bytes = c[SL_FLOW_READ_BYTES],
		.write_bytes = c[SL_FLOW_WRITE_BYTES],
		TWO(flight, lost, SL_FLOW_FLIGHT_LOST),
		TWO(rcv_wnd, snd_wnd, SL_FLOW_WINDOWS),
		TWO(cwnd, ssthresh, SL_FLOW_CWND),
		TWO(mss, queue, SL_FLOW_MSS_QUEUE),
		TWO(queue_max, wmem, SL_FLOW_QUEUE_MAX),
		TWO(srtt_us, mdev_us, SL_FLOW_SRTT),
		.rtt_count = c[SL_FLOW_RTT_COUNT],
		.rtt_sum_us = c[SL_FLOW_RTT_SUM],
		TWO(rtt_min_us, rto_us, SL_FLOW_RTT_MIN_RTO),
		TWO(retrans, dsack, SL_FLOW_RETRANS_DSACK),
		TWO(fast, timeouts, SL_FLOW_FAST_TIMEOUTS),
		TWO(ooo, reorder, SL_FLOW_REORDERED),
		TWO(re_fast, re_rto, SL_FLOW_RE_FAST_RTO),
		TWO(re_tlp, re_syn, SL_FLOW_RE_TLP_SYN),
		TWO(zero_in, zero_out, SL_FLOW_ZERO_WINDOWS),
		TWO(delivered, delivered_ce, SL_FLOW_DELIVERED),
		TWO(ce_in, pacing_kib, SL_FLOW_CE_PACING),
		TWO(reads, writes, SL_FLOW_CALLS),
		TWO(segs_out, data_segs_out, SL_FLOW_SEGS_OUT),
		TWO(segs_in, data_segs_in, SL_FLOW_SEGS_IN),
		.busy_us = c[SL_FLOW_BUSY_US],
		.rwnd_us = c[SL_FLOW_RWND_US],
		.sndbuf_us = c[SL_FLOW_SNDBUF_US],
		TWO(backlog, backlog_max, SL_FLOW_BACKLOG),
		.drops = SL_FLOW_LOW(c[SL_FLOW_DROPS]),
		TWO(rcvbuf, sndbuf, SL_FLOW_BUFFERS),
		.backoff = SL_FLOW_HIGH(c[SL_FLOW_DROPS]) & 255,
		.retransmits = SL_FLOW_HIGH(c[SL_FLOW_DROPS]) >> 8 & 255,
		.probes = SL_FLOW_HIGH(c[SL_FLOW_DROPS]) >> 16 & 255,
		.error = SL_FLOW_HIGH(c[SL_FLOW_DROPS]) >> 24,
		.snd_wnd_max = SL_FLOW_LOW(c[SL_FLOW_OFFERED_OUT]),
		.lost_out = SL_FLOW_HIGH(c[SL_FLOW_OFFERED_OUT]) & 65535,
		.retrans_out = SL_FLOW_HIGH(c[SL_FLOW_OFFERED_OUT]) >> 16,
		TWO(waited_ms, thought_ms, SL_FLOW_TURNS),
	};
#undef TWO
	/* Until the first RTT is measured, the kernel's minimum is the largest number. */
	if (f->rtt_min_us == UINT32_MAX)
		f->rtt_min_us = 0;
	if (!(f->flags & SL_FLOW_LISTENER)) {
		f->turns = f->backlog;
		f->held = f->backlog_max;
		f->backlog = f->backlog_max = 0;
	}
	memcpy(f->local, &c[SL_FLOW_LOCAL], 16);
	memcpy(f->remote, &c[SL_FLOW_REMOTE], 16);
	memcpy(f->comm, &c[SL_FLOW_COMM], 16); /* comm is one byte longer, and zeroed */
}

/*
 * Sets *empty if the slot was never used. Returns UNSETTLED if its lines do not form one verified
 * snapshot.
 */
static enum region_fault slot_check(const uint64_t slot[64], bool *empty)
{
	*empty = true;
	for (uint32_t i = 0; i < 64 && *empty; i++)
		*empty = !slot[i];
	if (*empty)
		return REGION_FAULT_NONE;
	for (uint32_t line = 0; line < SL_FLOW_LINES; line++) {
		const uint64_t *l = slot + line * 8;

		if (l[7] != sl_folded_check(l) || l[0] != slot[0])
			return REGION_FAULT_UNSETTLED;
	}
	return REGION_FAULT_NONE;
}

enum region_fault region_flow_parse(const uint64_t slot[64], struct region_flow *flow)
{
	bool empty;
	enum region_fault fault = slot_check(slot, &empty);

	if (empty)
		memset(flow, 0, sizeof(*flow));
	if (fault || empty)
		return fault;
	decode_slot(slot, flow);
	if (flow->state == SL_STATE_FREE)
		return REGION_FAULT_NONE;
	if ((flow->state != SL_STATE_LIVE && flow->state != SL_STATE_CLOSED) || !flow->id ||
	    (flow->family != 4 && flow->family != 6) ||
	    (flow->state == SL_STATE_CLOSED) != (flow->closed_ns != 0))
		return REGION_FAULT_HOT;
	return REGION_FAULT_NONE;
}

/* ---- dropped segments ---- */

/* Copies a name from another host; replaces unexpected characters. */
static void take_name(char *name, const uint64_t *from, uint32_t number)
{
	memcpy(name, from, SL_DROP_NAME);
	name[SL_DROP_NAME - 1] = 0;
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_')
			*c = '?';
	if (!*name)
		snprintf(name, SL_DROP_NAME, "REASON_%u", number);
}

enum region_fault region_drop_reason_parse(const uint64_t line[8], uint32_t number,
					   struct region_drop_reason *reason)
{
	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	reason->segments = line[0];
	take_name(reason->name, &line[1], number);
	return REGION_FAULT_NONE;
}

enum region_fault region_drop_reason_read(const void *map, const struct region_flows_info *info,
					  uint32_t number, struct region_drop_reason *reason)
{
	const char *from = (const char *)map + info->reasons + (uint64_t)number * SL_LINE_SIZE;
	enum region_fault fault;
	uint64_t copy[8];

	REGION_READ_SETTLED(fault, copy, from, 8, region_drop_reason_parse(copy, number, reason));
	return fault;
}

enum region_fault region_flow_drops_parse(const uint64_t line[8], struct region_flow *flow)
{
	memset(flow->drop, 0, sizeof(flow->drop));
	if (line[7] != sl_folded_check(line))
		return REGION_FAULT_UNSETTLED;
	if (SL_FLOW_HIGH(line[0]) != flow->generation)
		return REGION_FAULT_NONE; /* the line belongs to an earlier flow */
	for (uint32_t i = 0; i < SL_DROPS_PER_FLOW; i++) {
		struct region_flow_drop *d = &flow->drop[i];

		d->reason = SL_FLOW_LOW(line[1 + i]);
		d->segments = SL_FLOW_HIGH(line[1 + i]);
		snprintf(d->name, sizeof(d->name), "REASON_%u", d->reason);
	}
	return REGION_FAULT_NONE;
}

/* Reads the dropped segments of a flow and the names of their reasons. Few flows have any. */
static void read_drops(const void *map, const struct region_flows_info *info, uint32_t slot,
		       struct region_flow *flow)
{
	const char *from = (const char *)map + info->drops + (uint64_t)slot * SL_LINE_SIZE;
	struct region_drop_reason reason;
	enum region_fault fault;
	uint64_t copy[8];

	REGION_READ_SETTLED(fault, copy, from, 8, region_flow_drops_parse(copy, flow));
	for (uint32_t i = 0; !fault && i < SL_DROPS_PER_FLOW; i++) {
		struct region_flow_drop *d = &flow->drop[i];

		if (d->segments && d->reason < info->drop_reasons &&
		    !region_drop_reason_read(map, info, d->reason, &reason))
			memcpy(d->name, reason.name, sizeof(d->name));
	}
}

enum region_fault region_flow_read(const void *map, const struct region_flows_info *info,
				   uint32_t slot, struct region_flow *flow)
{
	const char *from = (const char *)map + info->flows + (uint64_t)slot * SL_FLOW_SIZE;
	enum region_fault fault;
	uint64_t copy[64];

	REGION_READ_SETTLED(fault, copy, from, 64, region_flow_parse(copy, flow));
	if (!fault && flow->flags & SL_FLOW_DROPPED && info->drops)
		read_drops(map, info, slot, flow);
	return fault;
}

enum region_fault region_flows_hot_read(const void *map, const struct region_flows_info *info,
					struct region_flows_hot *hot)
{
	enum region_fault fault;
	uint64_t copy[8];

	REGION_READ_SETTLED(fault, copy, (const char *)map + info->hot, 8,
			    region_flows_hot_parse(copy, info, hot));
	return fault;
}

uint64_t region_flow_duration(const struct region_flow *f, uint64_t now_ns)
{
	uint64_t end = f->closed_ns ?: BASE_MAX(f->changed_ns, now_ns);

	return end > f->open_ns ? end - f->open_ns : 0;
}

uint64_t region_flow_unread(const struct region_flow *f)
{
	bool reset = f->flags & (SL_FLOW_RESET_IN | SL_FLOW_RESET_OUT);
	uint32_t s = f->tcp_state;
	/* bytes_received includes the peer's FIN, but read_bytes does not. */
	bool fin = s == TCP_TIME_WAIT || s == TCP_CLOSE_WAIT || s == TCP_LAST_ACK ||
		   s == TCP_CLOSING || (s == TCP_CLOSE && !reset);
	uint64_t read = f->read_bytes + fin;

	return f->bytes_received > read ? f->bytes_received - read : 0;
}

bool region_flow_queue_full(const struct region_flow *f)
{
	/*
	 * The kernel refuses connections only above the bound, but when the application has just
	 * accepted one, the queue is at the bound.
	 */
	return f->flags & SL_FLOW_LISTENER && f->backlog && f->backlog >= f->backlog_max;
}

bool region_flow_failed(const struct region_flow *f)
{
	return f->tcp_state == TCP_SYN_SENT || f->last_state == TCP_SYN_SENT;
}

static enum region_flow_end find_failure(const struct region_flow *f)
{
	if (f->error == ECONNREFUSED)
		return REGION_FLOW_REFUSED;
	/* An application that loses patience closes its socket before the kernel gives up. */
	return f->error == ETIMEDOUT || (!f->error && f->retransmits) ? REGION_FLOW_UNANSWERED
								      : REGION_FLOW_NOT_MADE;
}

bool region_flow_timed_out(const struct region_flow *f)
{
	return f->state == SL_STATE_CLOSED && (f->error == ETIMEDOUT || f->error == EHOSTUNREACH ||
					       f->error == ENETUNREACH || f->error == EHOSTDOWN);
}

enum region_flow_end region_flow_end(const struct region_flow *f)
{
	if (region_flow_failed(f))
		return find_failure(f);
	if (f->state != SL_STATE_CLOSED)
		return REGION_FLOW_OPEN;
	if (f->flags & SL_FLOW_UNWANTED)
		return REGION_FLOW_LEFT;
	/* A connection that times out also sends a reset. */
	if (region_flow_timed_out(f) && f->flags & SL_FLOW_USER_TIMEOUT)
		return REGION_FLOW_USER_TIMEOUT;
	/*
	 * With unsent data, the probes were of the peer's window, under the limit of
	 * retransmissions.
	 */
	if (region_flow_timed_out(f))
		return f->retransmits || f->queue ? REGION_FLOW_RTO : REGION_FLOW_KEEPALIVE;
	/*
	 * If data arrives after shutdown(), the kernel treats it as a reset and sends one: both
	 * flags are set, and the reset is from here.
	 */
	if (f->flags & SL_FLOW_RESET_OUT)
		return REGION_FLOW_RESET;
	if (f->flags & SL_FLOW_RESET_IN)
		return REGION_FLOW_RESET_PEER;
	if (f->flags & SL_FLOW_LISTENER)
		return REGION_FLOW_FIN;
	switch (f->last_state) {
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
	case TCP_CLOSING:
	case TCP_TIME_WAIT:
		return REGION_FLOW_FIN;
	case TCP_CLOSE_WAIT:
	case TCP_LAST_ACK:
		return REGION_FLOW_FIN_PEER;
	default:
		return REGION_FLOW_UNKNOWN;
	}
}

const char *region_flow_end_name(enum region_flow_end end)
{
	static const char *const names[REGION_FLOW_ENDS] = {
		[REGION_FLOW_OPEN] = "",
		[REGION_FLOW_FIN] = "closed-here",
		[REGION_FLOW_FIN_PEER] = "closed-by-peer",
		[REGION_FLOW_RESET] = "reset-here",
		[REGION_FLOW_RESET_PEER] = "reset-by-peer",
		[REGION_FLOW_KEEPALIVE] = "keepalive",
		[REGION_FLOW_RTO] = "retransmission-timeout",
		[REGION_FLOW_USER_TIMEOUT] = "user-timeout",
		[REGION_FLOW_REFUSED] = "refused",
		[REGION_FLOW_UNANSWERED] = "unanswered",
		[REGION_FLOW_NOT_MADE] = "not-established",
		[REGION_FLOW_LEFT] = "filter",
		[REGION_FLOW_UNKNOWN] = "unknown",
	};

	return end < REGION_FLOW_ENDS ? names[end] : "unknown";
}

uint64_t region_flow_end_hash(uint64_t start, const struct region_flow *f)
{
	int order = memcmp(f->local, f->remote, 16) ?: f->local_port - f->remote_port;
	const uint8_t *low = order < 0 ? f->local : f->remote,
		      *high = order < 0 ? f->remote : f->local;
	uint16_t ports[2] = {order < 0 ? f->local_port : f->remote_port,
			     order < 0 ? f->remote_port : f->local_port};
	uint64_t hash = base_hash(base_hash(start, low, 16), high, 16);

	return (base_hash(hash, ports, sizeof(ports)) & ~1ull) | (order < 0);
}

bool region_is_loopback(const uint8_t address[16])
{
	static const uint8_t mapped[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
	static const uint8_t one[16] = {[15] = 1};

	return !memcmp(address, mapped, sizeof(mapped)) || !memcmp(address, one, sizeof(one));
}

const char *region_tcp_state_name(uint32_t state)
{
	/* Names from include/net/tcp_states.h. */
	static const char *const names[] = {
		"unknown",   "ESTABLISHED", "SYN_SENT",	  "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2",
		"TIME_WAIT", "CLOSE",	    "CLOSE_WAIT", "LAST_ACK", "LISTEN",	   "CLOSING",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "unknown";
}

const char *region_flow_address(const uint8_t a[16], char *out)
{
	return base_address_text(a, out);
}

enum region_fault region_flow_event_parse(const uint64_t line[8], uint64_t number,
					  struct region_flow_record *r)
{
	uint64_t word = line[SL_JOURNAL_WORD], tag = line[SL_JOURNAL_TAG];

	if (line[7] != sl_folded_check(line))
		return REGION_FAULT_UNSETTLED;
	if (tag >> 8 != number)
		return REGION_FAULT_CHECK;
	*r = (struct region_flow_record){
		.number = number,
		.event = (enum sl_flow_event)(tag & 255),
		.id = line[SL_JOURNAL_ID],
		.ns = line[SL_JOURNAL_NS],
		.slot = SL_FLOW_LOW(line[SL_JOURNAL_SLOT]),
		.generation = SL_FLOW_HIGH(line[SL_JOURNAL_SLOT]),
		.tcp_state = SL_FLOW_TCP_STATE(word),
		.family = SL_FLOW_FAMILY(word),
		.local_port = (uint16_t)SL_FLOW_LOCAL_PORT(word),
		.remote_port = (uint16_t)SL_FLOW_REMOTE_PORT(word),
		.failed = SL_FLOW_LAST_STATE(word) == TCP_SYN_SENT,
		.sent = line[SL_JOURNAL_SENT],
		.received = line[SL_JOURNAL_RECEIVED],
	};
	return r->event == SL_FLOW_EVENT_OPEN || r->event == SL_FLOW_EVENT_CLOSE ? REGION_FAULT_NONE
										 : REGION_FAULT_HOT;
}

/* ---- names of cgroups ---- */

#define LINE_TEXT 48u /* bytes of text in each line */
#define NAME_MOST 71u /* bytes per name if they do not all fit: leaves 47 bytes for the path */

enum region_fault region_flow_cgroup_parse(const uint64_t slot[64], struct region_flow_cgroup *c)
{
	uint64_t word = slot[SL_FLOW_CGROUP_STATE];
	const char *at = c->text;
	enum region_fault fault;
	bool empty;

	memset(c, 0, sizeof(*c));
	for (int i = 0; i < SL_CGROUP_TEXTS; i++)
		c->name[i] = c->text + SL_FLOW_CGROUP_TEXT;
	fault = slot_check(slot, &empty);
	if (fault || empty)
		return fault;
	c->generation = SL_FLOW_HIGH(slot[0]);
	c->number = SL_FLOW_LOW(slot[0]);
	c->id = slot[SL_FLOW_CGROUP_ID];
	c->state = (uint32_t)word & 255;
	c->cut = word & SL_FLOW_CGROUP_CUT;
	c->changed_ns = slot[SL_FLOW_CGROUP_CHANGED_NS];
	c->used = slot[SL_FLOW_CGROUP_USED];
	c->refused = slot[SL_FLOW_CGROUP_REFUSED];
	if (c->state == SL_STATE_FREE)
		return REGION_FAULT_NONE;
	if ((c->state != SL_STATE_LIVE && c->state != SL_STATE_CLOSED) || !c->id)
		return REGION_FAULT_HOT;
	for (uint32_t line = 1; line < SL_FLOW_LINES; line++)
		memcpy(c->text + (line - 1) * LINE_TEXT, slot + line * 8 + 1, LINE_TEXT);
	for (int i = 0; i < SL_CGROUP_TEXTS; i++) {
		size_t left = (size_t)(c->text + SL_FLOW_CGROUP_TEXT - at);
		size_t length = strnlen(at, left);

		if (length == left) /* the terminator is missing */
			return REGION_FAULT_HOT;
		c->name[i] = at;
		base_harmless(c->text + (at - c->text));
		at += length + 1;
	}
	return REGION_FAULT_NONE;
}

/* Cuts a text at a character boundary to at most `most` bytes. front: cut at the front. */
static size_t cut_text(const char **text, size_t most, bool front)
{
	size_t length = strlen(*text);

	if (length <= most)
		return length;
	if (front) {
		*text += length - most;
		while (((unsigned char)**text & 0xc0) == 0x80)
			(*text)++;
		return strlen(*text);
	}
	return base_utf8_cut(*text, length, most);
}

void region_flow_cgroup_pack(uint64_t slot[64], uint64_t id, bool gone, uint64_t now_ns,
			     const char *const name[SL_CGROUP_TEXTS])
{
	char text[SL_FLOW_CGROUP_TEXT] = "", *at = text;
	uint64_t state = gone ? SL_STATE_CLOSED : SL_STATE_LIVE;
	size_t all = 0;

	for (int i = 0; i < SL_CGROUP_TEXTS; i++)
		all += strlen(name[i] ? name[i] : "") + 1;
	if (all > sizeof(text))
		state |= SL_FLOW_CGROUP_CUT;
	for (int i = 0; i < SL_CGROUP_TEXTS; i++) {
		const char *from = name[i] ? name[i] : "";
		size_t left = sizeof(text) - (size_t)(at - text) - 1;
		size_t most = i == SL_CGROUP_PATH || all <= sizeof(text) ? left : NAME_MOST;
		size_t length = cut_text(&from, most, i == SL_CGROUP_PATH);

		memcpy(at, from, length);
		at += length;
		*at++ = 0;
	}
	memset(slot, 0, SL_FLOW_CGROUP_SIZE);
	slot[SL_FLOW_CGROUP_ID] = id;
	slot[SL_FLOW_CGROUP_STATE] = state;
	slot[SL_FLOW_CGROUP_CHANGED_NS] = now_ns;
	for (uint32_t line = 1; line < SL_FLOW_LINES; line++)
		memcpy(slot + line * 8 + 1, text + (line - 1) * LINE_TEXT, LINE_TEXT);
}

void region_flow_cgroup_seal(uint64_t slot[64], uint32_t generation, uint32_t number)
{
	for (uint32_t line = 0; line < SL_FLOW_LINES; line++) {
		slot[line * 8] = (uint64_t)generation << 32 | number;
		slot[line * 8 + 7] = sl_folded_check(slot + line * 8);
	}
}
