// SPDX-License-Identifier: Apache-2.0
/* net_match.c - matches segments sent by one host with segments received by the other. */
#include "source/tcp/net_match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"

#define GAPS  64
#define PARTS 64   /* maximum number of tracked parts of a segment that is split on the way */
#define AGAIN 4096 /* maximum number of retransmitted segments remembered per direction */
/*
 * A record is compared with at most this many others, because a hostile host may send any records.
 * The longest segment that Linux merges, 512 KiB, consists of fewer.
 */
#define COMPARED 1024
/* size of the key of a flow: its members up to the sender, which have no gaps */
#define FLOW_KEY (offsetof(struct tcp_net_flow, sender) + 1)
_Static_assert(FLOW_KEY == 2 * 16 + 2 * sizeof(uint16_t) + 1, "without gaps");

/* A segment that was sent. Sequence numbers are unwrapped to 64 bits. */
struct net_match_out {
	uint64_t seq, end, time, parts; /* parts: bit i is set once part i has arrived */
	uint32_t tsval;
	uint32_t gap; /* number of gaps in the sender's records before this segment */
	uint16_t ip_id, gso_size;
	bool has_ts, v4;
};

/* A pure acknowledgement that was sent. An arriving one matches if all fields are equal. */
struct ack {
	uint64_t time, ack; /* ack is unwrapped to 64 bits */
	uint32_t seq, tsval, tsecr;
	uint16_t window, ip_id;
	uint32_t flags;
};

struct net_match_list { /* the elements in use are [first, n) */
	void *v;
	size_t first, n, room;
};

struct dir {
	struct base_node node;
	struct tcp_net_flow flow;
	uint32_t isn; /* sequence number of the SYN, which each side may have seen */
	bool has_isn[2];
	bool begun;
	uint64_t touched[2]; /* time of each side's last record, by that side's clock */
	uint64_t newest;     /* highest sequence number seen on either side, unwrapped */
	uint64_t sent_end;   /* highest sequence number sent */
	uint64_t latest; /* send time of the segment that was sent last among those that arrived */
	struct net_match_list
		fresh; /* list of struct net_match_out with new bytes, sorted by seq and time */
	struct net_match_list again; /* list of struct net_match_out with retransmitted bytes */
	struct net_match_list acks;  /* list of struct ack, sorted by .ack */
	bool acked;
	uint64_t newest_ack;
	struct net_match_list in; /* list of struct region_nic_record: arrivals not yet matched */
	size_t held;		  /* number of records in .in that are ready to match */
};

struct side {
	uint64_t from, to, last, gaps;
	struct {
		uint64_t from, to;
	} gap[GAPS]; /* ring of the latest gaps */
};

struct tcp_net_match {
	struct tcp_net_match_opts options;
	struct base_table by_flow;
	struct dir **dirs;
	uint32_t n;
	uint64_t held; /* total number of records held in all lists */
	struct side side[2];
	uint64_t causes[TCP_NET_CAUSES], sent[2];
};

static const struct {
	const char *name, *text;
} causes[TCP_NET_CAUSES] = {
	[TCP_NET_LOST] = {"lost", "sent, but never arrived"},
	[TCP_NET_UNKNOWN] = {"unknown", "sent during a gap in the other host's records"},
	[TCP_NET_NOT_SENT] = {"not_sent", "arrived, but sending was not recorded"},
	[TCP_NET_AMBIGUOUS] = {"ambiguous", "arrived, but was sent more than once"},
	[TCP_NET_DUPLICATE] = {"duplicate", "arrived again"},
	[TCP_NET_MERGED] = {"merged", "arrived merged into another segment"},
	[TCP_NET_ACK_UNMATCHED] = {"ack_unmatched", "ambiguous acknowledgements"},
	[TCP_NET_FULL] = {"full", "no memory to remember the segment"},
	[TCP_NET_TOO_MANY] = {"too_many", "too many records to compare with"},
	[TCP_NET_MISSED] = {"missed", "records overwritten before they were read"},
	[TCP_NET_NO_CLOCK] = {"no_clock", "matched, but the clock offset is unknown"},
};

const char *tcp_net_cause_name(int cause)
{
	return causes[cause].name;
}

const char *tcp_net_cause_text(int cause)
{
	return causes[cause].text;
}

/* ---- lists ---- */

static void *push_element(struct tcp_net_match *m, struct net_match_list *l, size_t size)
{
	if (m->held >= m->options.records)
		goto full;
	if (l->n == l->room && l->first > l->room / 2) {
		memmove(l->v, (char *)l->v + l->first * size, (l->n - l->first) * size);
		l->n -= l->first;
		l->first = 0;
	}
	if (!base_grow(&l->v, &l->room, l->n + 1, size))
		goto full;
	m->held++;
	return (char *)l->v + l->n++ * size;
full:
	m->causes[TCP_NET_FULL]++;
	return NULL;
}

static void drop_first(struct tcp_net_match *m, struct net_match_list *l, size_t n)
{
	l->first += n;
	m->held -= n;
}

/* ---- flows ---- */

static struct tcp_net_flow flow_of(const struct region_nic_record *r, int sender)
{
	struct tcp_net_flow f = {.source_port = r->source_port,
				 .destination_port = r->destination_port,
				 .sender = (uint8_t)sender};

	memcpy(f.source, r->source, sizeof(f.source));
	memcpy(f.destination, r->destination, sizeof(f.destination));
	return f;
}

static struct dir *dir_add(struct tcp_net_match *m, const struct tcp_net_flow *flow, uint64_t hash)
{
	struct dir *d = m->n < m->options.flows ? calloc(1, sizeof(*d)) : NULL;

	if (!d)
		return NULL;
	d->flow = *flow;
	base_table_add(&m->by_flow, d, hash);
	m->dirs[m->n++] = d;
	return d;
}

/*
 * Finds the direction of a record. Ports are reused, so a connection is identified by the sequence
 * number of its SYN, which both sides see. A side that saw no SYN uses the newest direction.
 */
static struct dir *dir_of(struct tcp_net_match *m, int side, const struct region_nic_record *r)
{
	const struct tcp_net_flow flow = flow_of(r, r->flags & SL_NIC_OUT ? side : !side);
	/* A keyed hash, because peers choose addresses and ports. */
	const uint64_t hash = base_hash(0, &flow, FLOW_KEY);
	struct dir *d = base_table_first(&m->by_flow, hash), *newest = NULL;
	bool syn = r->flags & SL_NIC_SYN;
	unsigned int n = 0;

	for (; d; d = base_table_next(d)) { /* the newest comes first */
		if (memcmp(&d->flow, &flow, FLOW_KEY) != 0)
			continue;
		n++;
		if (syn ? (d->has_isn[0] || d->has_isn[1]) && d->isn == r->seq : d->has_isn[side])
			break;
		newest = newest ?: d;
	}
	if (!d && !syn)
		d = newest;
	if (!d && n < COMPARED)
		d = dir_add(m, &flow, hash);
	if (d && syn) {
		d->has_isn[side] = true;
		d->isn = r->seq;
	}
	return d;
}

/* Unwraps a sequence number to the value nearest to the newest, and advances the newest. */
static uint64_t unwrap_number(bool *begun, uint64_t *newest, uint32_t seq)
{
	uint64_t wide;

	if (!*begun) {
		*begun = true;
		*newest = (1ull << 32) + seq;
	}
	wide = *newest + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)*newest);
	if (wide > *newest)
		*newest = wide;
	return wide;
}

static uint64_t unwrap_seq(struct dir *d, uint32_t seq)
{
	return unwrap_number(&d->begun, &d->newest, seq);
}

/* ---- what was sent ---- */

static bool pure_ack(const struct region_nic_record *r)
{
	return r->seq == r->end && !(r->flags & SL_NIC_RST);
}

static struct ack ack_of(struct dir *d, const struct region_nic_record *r)
{
	return (struct ack){
		.time = r->time_ns,
		.ack = unwrap_number(&d->acked, &d->newest_ack, r->ack),
		.seq = r->seq,
		.tsval = r->tsval,
		.tsecr = r->tsecr,
		.window = r->window,
		.ip_id = r->ip_id,
		.flags = r->flags & SL_NIC_HAS_TS,
	};
}

static void add_sent_ack(struct tcp_net_match *m, struct dir *d, const struct region_nic_record *r)
{
	const struct ack mine = ack_of(d, r), *v = d->acks.v;
	struct ack *a, *first;

	if (d->acks.n - d->acks.first > COMPARED && v[d->acks.n - COMPARED - 1].ack > mine.ack) {
		m->causes[TCP_NET_TOO_MANY]++;
		return;
	}
	a = push_element(m, &d->acks, sizeof(*a));
	if (!a)
		return;
	first = (struct ack *)d->acks.v + d->acks.first;
	/* Records of two CPUs may be out of order. */
	for (; a > first && a[-1].ack > mine.ack; a--)
		a[0] = a[-1];
	*a = mine;
}

static void add_sent(struct tcp_net_match *m, int side, struct dir *d,
		     const struct region_nic_record *r)
{
	uint64_t seq;
	struct net_match_out *o;

	if (pure_ack(r)) {
		add_sent_ack(m, d, r);
		return;
	}
	if (r->seq == r->end)
		return;
	m->sent[side]++;
	seq = unwrap_seq(d, r->seq);
	if (seq < d->sent_end && d->again.n - d->again.first >= AGAIN) {
		m->causes[TCP_NET_FULL]++;
		return;
	}
	o = push_element(m, seq < d->sent_end ? &d->again : &d->fresh, sizeof(*o));
	if (!o)
		return;
	*o = (struct net_match_out){
		.seq = seq,
		.end = seq + (r->end - r->seq),
		.time = r->time_ns,
		.tsval = r->tsval,
		.gap = (uint32_t)m->side[side].gaps,
		.ip_id = r->ip_id,
		.gso_size = r->gso_size,
		.has_ts = !!(r->flags & SL_NIC_HAS_TS),
		.v4 = !(r->flags & SL_NIC_V6),
	};
	unwrap_seq(d, r->end);
	if (o->end > d->sent_end)
		d->sent_end = o->end;
}

/* ---- what arrived ---- */

static uint64_t part_size(const struct net_match_out *o)
{
	return o->gso_size ? o->gso_size : o->end - o->seq;
}

static unsigned int part_of(const struct net_match_out *o, uint64_t seq)
{
	uint64_t part = (seq - o->seq) / part_size(o);

	return part < PARTS ? (unsigned int)part : PARTS - 1;
}

/* True if the IP id identifies the segment. The parts of a split segment have consecutive ids. */
static bool same_id(const struct net_match_out *o, uint64_t seq, const struct region_nic_record *r)
{
	return o->v4 && r->ip_id == (uint16_t)(o->ip_id + part_of(o, seq));
}

/* Returns the index of the first fresh segment that contains the byte or follows it. */
static size_t fresh_at(const struct net_match_list *l, uint64_t seq)
{
	const struct net_match_out *v = l->v;
	size_t i;

	BASE_LOWER_BOUND(i, l->first, l->n, v[i].end <= seq);
	return i;
}

struct choice {
	struct net_match_out *one;
	/*
	 * number of segments that contain the byte and match the timestamp, and of those that match
	 * the id, too
	 */
	unsigned int fitting, same_id;
};

static void consider_segment(struct choice *c, struct net_match_out *o, uint64_t seq,
			     const struct region_nic_record *r)
{
	if (seq < o->seq || seq >= o->end)
		return;
	if (o->has_ts && r->flags & SL_NIC_HAS_TS && o->tsval != r->tsval)
		return;
	c->fitting++;
	if (same_id(o, seq, r)) {
		if (!c->same_id++)
			c->one = o;
	} else if (!c->same_id) {
		c->one = o;
	}
}

/* Marks the bytes that the segment delivered. Segments that were merged into it are not timed. */
static void mark_arrived(struct tcp_net_match *m, struct dir *d, struct net_match_out *first,
			 uint64_t seq, uint64_t end)
{
	const uint64_t size = part_size(first), last = (BASE_MIN(end, first->end) - seq - 1) / size;
	struct net_match_out *v = d->fresh.v;
	size_t i, most;

	first->parts |= (2ull << part_of(first, seq + last * size)) - (1ull << part_of(first, seq));
	if (end <= first->end)
		return;
	i = fresh_at(&d->fresh, first->end);
	for (most = i + COMPARED; i < d->fresh.n && v[i].seq < end; i++) {
		if (i == most) {
			m->causes[TCP_NET_TOO_MANY]++;
			break;
		}
		if (!v[i].parts)
			m->causes[TCP_NET_MERGED]++;
		v[i].parts |= 1;
	}
}

static void match_segment(struct tcp_net_match *m, struct dir *d, const struct region_nic_record *r)
{
	uint64_t seq = unwrap_seq(d, r->seq), end = seq + (r->end - r->seq);
	struct net_match_out *fresh = d->fresh.v, *again = d->again.v, *o;
	size_t i = fresh_at(&d->fresh, seq);
	struct tcp_net_sample s;
	struct choice c = {0};

	if (i < d->fresh.n)
		consider_segment(&c, &fresh[i], seq, r);
	for (i = d->again.first; i < d->again.n; i++)
		consider_segment(&c, &again[i], seq, r);
	o = c.one;
	if (!c.fitting) {
		m->causes[TCP_NET_NOT_SENT]++;
		return;
	}
	if ((c.fitting > 1 && c.same_id != 1) ||
	    /* A gap in the records may hide a retransmission; only timestamps would show it. */
	    (!(o->has_ts && r->flags & SL_NIC_HAS_TS) &&
	     o->gap != (uint32_t)m->side[d->flow.sender].gaps)) {
		for (i = d->again.first; i < d->again.n; i++)
			if (seq >= again[i].seq && seq < again[i].end)
				/* one of them arrived, so none counts as lost */
				again[i].parts |= 1;
		i = fresh_at(&d->fresh, seq);
		if (i < d->fresh.n && seq >= fresh[i].seq)
			fresh[i].parts |= 1;
		m->causes[TCP_NET_AMBIGUOUS]++;
		return;
	}
	if (o->parts >> part_of(o, seq) & 1) {
		m->causes[TCP_NET_DUPLICATE]++;
		return;
	}
	mark_arrived(m, d, o, seq, end);
	s = (struct tcp_net_sample){
		.flow = &d->flow,
		.out_ns = o->time,
		.in_ns = r->time_ns,
		.seq = seq,
		.bytes = r->bytes,
		.reordered = o->time < d->latest,
	};
	if (o->time > d->latest)
		d->latest = o->time;
	m->options.sample(m->options.context, &s);
}

static bool same_ack(const struct ack *a, const struct ack *b)
{
	return a->seq == b->seq && a->ack == b->ack && a->tsval == b->tsval &&
	       a->tsecr == b->tsecr && a->window == b->window && a->ip_id == b->ip_id &&
	       a->flags == b->flags;
}

static void match_ack(struct tcp_net_match *m, struct dir *d, const struct region_nic_record *r)
{
	struct ack want = ack_of(d, r), *v = d->acks.v;
	size_t a, most, found = 0, n = 0;

	BASE_LOWER_BOUND(a, d->acks.first, d->acks.n, v[a].ack < want.ack);
	for (most = a + COMPARED; a < most && a < d->acks.n && v[a].ack == want.ack; a++)
		if (same_ack(&v[a], &want)) {
			found = a;
			n++;
		}
	if (n != 1 || a == most) {
		m->causes[TCP_NET_ACK_UNMATCHED]++;
		return;
	}
	m->options.sample(m->options.context, &(struct tcp_net_sample){
						      .flow = &d->flow,
						      .out_ns = v[found].time,
						      .in_ns = r->time_ns,
						      .ack = true,
					      });
	/* Earlier acknowledgements were overtaken or lost; those that never arrive expire. */
	v[found].flags |= SL_NIC_OUT; /* mark it, so that it does not match again */
	while (d->acks.first < d->acks.n && v[d->acks.first].flags & SL_NIC_OUT)
		drop_first(m, &d->acks, 1);
}

/* ---- interface ---- */

struct tcp_net_match *tcp_net_match_open(const struct tcp_net_match_opts *options)
{
	struct tcp_net_match *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->options = *options;
	m->options.flows = m->options.flows ?: 65536;
	m->options.records = m->options.records ?: 1 << 20;
	m->dirs = calloc(m->options.flows, sizeof(struct dir *));
	if (!m->dirs || !base_table_init(&m->by_flow)) {
		free(m->dirs);
		free(m);
		errno = ENOMEM;
		return NULL;
	}
	for (int s = 0; s < 2; s++)
		m->side[s].to = UINT64_MAX;
	return m;
}

static void dir_free(struct dir *d)
{
	free(d->fresh.v);
	free(d->again.v);
	free(d->acks.v);
	free(d->in.v);
	free(d);
}

void tcp_net_match_close(struct tcp_net_match *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < m->n; i++)
		dir_free(m->dirs[i]);
	base_table_free(&m->by_flow);
	free(m->dirs);
	free(m);
}

void tcp_net_match_add(struct tcp_net_match *m, int side, const struct region_nic_record *r)
{
	struct dir *d;
	struct region_nic_record *in;

	if (r->time_ns > m->side[side].last)
		m->side[side].last = r->time_ns;
	if (r->flags & SL_NIC_RST)
		return;
	d = dir_of(m, side, r);
	if (!d) {
		m->causes[TCP_NET_FULL]++;
		return;
	}
	d->touched[side] = r->time_ns;
	if (r->flags & SL_NIC_OUT) {
		add_sent(m, side, d, r);
		return;
	}
	in = push_element(m, &d->in, sizeof(*in));
	if (in)
		*in = *r;
}

void tcp_net_match_gap(struct tcp_net_match *m, int side, uint64_t n, uint64_t now_ns)
{
	struct side *s = &m->side[side];

	m->causes[TCP_NET_MISSED] += n;
	s->gap[s->gaps % GAPS].from = s->last;
	s->gap[s->gaps % GAPS].to = now_ns;
	s->gaps++;
}

void tcp_net_match_range(struct tcp_net_match *m, int side, uint64_t from, uint64_t to)
{
	m->side[side].from = from;
	m->side[side].to = to;
}

void tcp_net_match_hold(struct tcp_net_match *m, int side)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->dirs[i]->flow.sender != side)
			m->dirs[i]->held = m->dirs[i]->in.n - m->dirs[i]->in.first;
}

void tcp_net_match_run(struct tcp_net_match *m)
{
	for (uint32_t i = 0; i < m->n; i++) {
		struct dir *d = m->dirs[i];

		for (; d->held; d->held--) {
			const struct region_nic_record *r = (struct region_nic_record *)d->in.v +
							    d->in.first;

			if (pure_ack(r))
				match_ack(m, d, r);
			else
				match_segment(m, d, r);
			drop_first(m, &d->in, 1);
		}
	}
}

/* True if this side was recording at that time. */
static bool was_recording(const struct side *s, uint64_t at)
{
	if (at < s->from || at > s->to)
		return false;
	for (uint64_t i = 0; i < s->gaps && i < GAPS; i++)
		if (at >= s->gap[i].from && at <= s->gap[i].to)
			return false;
	return true;
}

static void expire_list(struct tcp_net_match *m, struct net_match_list *l, uint64_t before,
			const struct side *to, bool known, int64_t offset)
{
	const struct net_match_out *v = l->v;

	for (; l->first < l->n && v[l->first].time < before; drop_first(m, l, 1)) {
		const struct net_match_out *o = &v[l->first];

		if (o->parts)
			continue;
		if (known && was_recording(to, o->time + (uint64_t)offset))
			m->causes[TCP_NET_LOST]++;
		else
			m->causes[TCP_NET_UNKNOWN]++;
	}
}

static bool holds_nothing(const struct dir *d)
{
	return d->fresh.first == d->fresh.n && d->again.first == d->again.n &&
	       d->acks.first == d->acks.n && d->in.first == d->in.n;
}

/* Drops directions that have had no records for as long as segments are remembered. */
static void drop_idle(struct tcp_net_match *m, int side, uint64_t before_ns)
{
	for (uint32_t i = 0; i < m->n; i++) {
		struct dir *d = m->dirs[i];

		if (d->flow.sender != side || d->touched[side] >= before_ns || !holds_nothing(d))
			continue;
		base_table_remove(&m->by_flow, d);
		m->dirs[i--] = m->dirs[--m->n];
		dir_free(d);
	}
}

void tcp_net_match_expire(struct tcp_net_match *m, int side, uint64_t before_ns, bool offset_known,
			  int64_t offset)
{
	for (uint32_t i = 0; i < m->n; i++) {
		struct dir *d = m->dirs[i];
		const struct ack *a = d->acks.v;

		if (d->flow.sender != side)
			continue;
		expire_list(m, &d->fresh, before_ns, &m->side[!side], offset_known, offset);
		expire_list(m, &d->again, before_ns, &m->side[!side], offset_known, offset);
		while (d->acks.first < d->acks.n && a[d->acks.first].time < before_ns)
			drop_first(m, &d->acks, 1);
	}
	drop_idle(m, side, before_ns);
}

const uint64_t *tcp_net_match_causes(const struct tcp_net_match *m)
{
	return m->causes;
}

void tcp_net_match_sent(const struct tcp_net_match *m, uint64_t sent[2])
{
	sent[0] = m->sent[0];
	sent[1] = m->sent[1];
}
