// SPDX-License-Identifier: Apache-2.0
#include "make_flows.h"

#include <stdlib.h>
#include <string.h>

#define REASONS	 8u
#define HOT_AT	 SL_HEADER_SIZE
#define FLOWS_AT (SL_HEADER_SIZE + SL_FLOW_SIZE)

void make_flows_check(struct make_flows *m)
{
	struct sl_region_header *h = m->header;

	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
}

void make_flows(struct make_flows *m, uint32_t slots, uint32_t lines, uint64_t instance)
{
	make_flows_named(m, slots, lines, 0, instance);
}

void make_flows_name(struct make_flows *m, uint32_t slot, uint64_t id,
		     const char *const name[SL_CGROUP_TEXTS])
{
	uint32_t used = (uint32_t)m->cgroup[0][SL_FLOW_CGROUP_USED];

	region_flow_cgroup_pack(m->cgroup[slot], id, false, 1, name);
	region_flow_cgroup_seal(m->cgroup[slot], 1, 1);
	m->cgroup[0][SL_FLOW_CGROUP_USED] = slot >= used ? slot + 1 : used;
	region_flow_cgroup_seal(m->cgroup[0], 1, SL_FLOW_LOW(m->cgroup[0][0]) + 1);
}

void make_flows_named(struct make_flows *m, uint32_t slots, uint32_t lines, uint32_t cgroups,
		      uint64_t instance)
{
	uint64_t journal = FLOWS_AT + (uint64_t)slots * SL_FLOW_SIZE;
	uint64_t drops = journal + (uint64_t)lines * SL_LINE_SIZE;
	uint64_t reasons = drops + (uint64_t)slots * SL_LINE_SIZE;
	uint64_t names = (reasons + REASONS * SL_LINE_SIZE + 511) & ~511ull;
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, SL_LINE_SIZE, HOT_AT, SL_LINE_SIZE},
		{SL_SECTION_FLOWS, SL_FLOW_SIZE, FLOWS_AT, (uint64_t)slots * SL_FLOW_SIZE},
		{SL_SECTION_JOURNAL, SL_LINE_SIZE, journal, (uint64_t)lines * SL_LINE_SIZE},
		{SL_SECTION_DROPS, SL_LINE_SIZE, drops, (uint64_t)slots * SL_LINE_SIZE},
		{SL_SECTION_DROP_REASONS, SL_LINE_SIZE, reasons, REASONS * SL_LINE_SIZE},
		{SL_SECTION_CGROUPS, SL_FLOW_CGROUP_SIZE, names,
		 (uint64_t)cgroups * SL_FLOW_CGROUP_SIZE},
	};
	struct sl_region_header *h;

	*m = (struct make_flows){.slots = slots, .lines = lines};
	m->size = (names + (uint64_t)cgroups * SL_FLOW_CGROUP_SIZE + 4095) & ~4095ull;
	m->mem = aligned_alloc(4096, m->size);
	memset(m->mem, 0, m->size);
	m->header = h = (struct sl_region_header *)m->mem;
	m->hot = (uint64_t *)(m->mem + HOT_AT);
	m->slot = (uint64_t(*)[64])(m->mem + FLOWS_AT);
	m->journal = (uint64_t(*)[8])(m->mem + journal);
	m->drop = (uint64_t(*)[8])(m->mem + drops);
	m->reason = (uint64_t(*)[8])(m->mem + reasons);
	memcpy(h->magic, SL_REGION_MAGIC, 8);
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = m->size;
	h->kind = SL_REGION_FLOWS;
	h->pid = 1;
	h->start_ns = 1;
	h->instance = instance;
	h->section_count = cgroups ? 6 : 5;
	m->cgroup = cgroups ? (uint64_t(*)[64])(m->mem + names) : NULL;
	memcpy(h->section, sections, h->section_count * sizeof(sections[0]));
	make_flows_check(m);
	make_flows_publish(m, 0, 0);
}

void make_flows_free(struct make_flows *m)
{
	free(m->mem);
	*m = (struct make_flows){0};
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

static void seal(uint64_t slot[64], uint64_t tag)
{
	for (int i = 0; i < 8; i++) {
		slot[i * 8] = tag;
		slot[i * 8 + 7] = sl_folded_check(slot + i * 8);
	}
}

void make_flow_drops(struct make_flows *m, uint32_t slot, uint32_t generation, uint32_t reason,
		     const char *name, uint32_t segments)
{
	uint64_t *line = m->drop[slot], *total = m->reason[reason];

	line[0] = pair(1, generation);
	line[1] = pair(reason, segments);
	line[7] = sl_folded_check(line);
	total[0] += segments;
	strncpy((char *)&total[1], name, SL_DROP_NAME);
	total[7] = sl_line_check(total);
}

static uint64_t word_of(const struct region_flow *f)
{
	return SL_FLOW_WORD_OF(f->state, f->tcp_state, f->family, f->local_port, f->remote_port) |
	       (uint64_t)f->last_state << 24;
}

void make_flow(struct make_flows *m, uint32_t slot, const struct region_flow *f)
{
	uint64_t *c = m->slot[slot], number = SL_FLOW_LOW(c[0]) + 1;

	memset(c, 0, SL_FLOW_SIZE);
	c[SL_FLOW_ID] = f->id;
	c[SL_FLOW_WORD] = word_of(f);
	c[SL_FLOW_NETNS_PID] = pair(f->netns, f->pid);
	c[SL_FLOW_CGROUP] = f->cgroup;
	c[SL_FLOW_OPEN_NS] = f->open_ns;
	c[SL_FLOW_CHANGED_NS] = f->changed_ns;
	memcpy(&c[SL_FLOW_LOCAL], f->local, 16);
	memcpy(&c[SL_FLOW_REMOTE], f->remote, 16);
	c[SL_FLOW_CLOSED_NS] = f->closed_ns;
	c[SL_FLOW_HANDSHAKE_FLAGS] = pair(f->handshake_us, f->flags);
	c[SL_FLOW_BYTES_SENT] = f->bytes_sent;
	c[SL_FLOW_BYTES_ACKED] = f->bytes_acked;
	c[SL_FLOW_BYTES_RECEIVED] = f->bytes_received;
	c[SL_FLOW_BYTES_RETRANS] = f->bytes_retrans;
	c[SL_FLOW_READ_BYTES] = f->read_bytes;
	c[SL_FLOW_WRITE_BYTES] = f->write_bytes;
	c[SL_FLOW_FLIGHT_LOST] = pair(f->flight, f->lost);
	c[SL_FLOW_WINDOWS] = pair(f->rcv_wnd, f->snd_wnd);
	c[SL_FLOW_CWND] = pair(f->cwnd, f->ssthresh);
	c[SL_FLOW_MSS_QUEUE] = pair(f->mss, f->queue);
	c[SL_FLOW_SRTT] = pair(f->srtt_us, f->mdev_us);
	c[SL_FLOW_RTT_COUNT] = f->rtt_count;
	c[SL_FLOW_RTT_SUM] = f->rtt_sum_us;
	c[SL_FLOW_RTT_MIN_RTO] = pair(f->rtt_min_us, f->rto_us);
	c[SL_FLOW_RETRANS_DSACK] = pair(f->retrans, f->dsack);
	c[SL_FLOW_FAST_TIMEOUTS] = pair(f->fast, f->timeouts);
	c[SL_FLOW_REORDERED] = pair(f->ooo, f->reorder);
	c[SL_FLOW_RE_FAST_RTO] = pair(f->re_fast, f->re_rto);
	c[SL_FLOW_RE_TLP_SYN] = pair(f->re_tlp, f->re_syn);
	c[SL_FLOW_ZERO_WINDOWS] = pair(f->zero_in, f->zero_out);
	c[SL_FLOW_DELIVERED] = pair(f->delivered, f->delivered_ce);
	c[SL_FLOW_SEGS_OUT] = pair(f->segs_out, f->data_segs_out);
	c[SL_FLOW_SEGS_IN] = pair(f->segs_in, f->data_segs_in);
	c[SL_FLOW_BUSY_US] = f->busy_us;
	c[SL_FLOW_RWND_US] = f->rwnd_us;
	c[SL_FLOW_SNDBUF_US] = f->sndbuf_us;
	c[SL_FLOW_BACKLOG] = f->flags & SL_FLOW_LISTENER ? pair(f->backlog, f->backlog_max)
							 : pair(f->turns, f->held);
	memcpy(&c[SL_FLOW_COMM], f->comm, 16);
	c[SL_FLOW_DROPS] = pair(f->drops,
				SL_FLOW_TIMERS_OF(f->backoff, f->retransmits, f->probes, f->error));
	c[SL_FLOW_OFFERED_OUT] = pair(f->snd_wnd_max, SL_FLOW_OUT_OF(f->lost_out, f->retrans_out));
	c[SL_FLOW_TURNS] = pair(f->waited_ms, f->thought_ms);
	c[SL_FLOW_BUFFERS] = pair(f->rcvbuf, f->sndbuf);
	seal(c, pair((uint32_t)number, f->generation));
}

void make_flow_free(struct make_flows *m, uint32_t slot)
{
	uint64_t *c = m->slot[slot];
	uint32_t generation = SL_FLOW_HIGH(c[0]) + 1;

	memset(c, 0, SL_FLOW_SIZE);
	seal(c, pair(1, generation));
}

void make_flow_event(struct make_flows *m, enum sl_flow_event event, uint32_t slot,
		     const struct region_flow *f)
{
	uint64_t *line = m->journal[m->next % m->lines];

	line[SL_JOURNAL_TAG] = m->next++ << 8 | event;
	line[SL_JOURNAL_ID] = f->id;
	line[SL_JOURNAL_NS] = event == SL_FLOW_EVENT_OPEN ? f->open_ns : f->closed_ns;
	line[SL_JOURNAL_SLOT] = pair(slot, f->generation);
	line[SL_JOURNAL_WORD] = word_of(f);
	line[SL_JOURNAL_SENT] = event == SL_FLOW_EVENT_CLOSE ? f->bytes_acked : 0;
	line[SL_JOURNAL_RECEIVED] = event == SL_FLOW_EVENT_CLOSE ? f->bytes_received : 0;
	line[7] = sl_folded_check(line);
}

void make_flows_publish(struct make_flows *m, uint32_t used, uint64_t changed_ns)
{
	uint64_t *line = m->hot;

	line[SL_FLOWS_ROUND]++;
	line[SL_FLOWS_USED] = used;
	line[SL_FLOWS_JOURNAL] = m->next;
	line[SL_FLOWS_CHANGED_NS] = changed_ns;
	line[SL_FLOWS_QUARANTINE_NS] = 5000000000;
	line[7] = sl_folded_check(line);
}
