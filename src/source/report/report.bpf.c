// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * report.bpf.c - reports the flows of an interface directly from the kernel.
 *
 * A program cannot create a packet, so a copy of a passing frame is replaced by the report:
 *
 * - `see` (tc, both directions) counts each flow at the interface. If a report is due, it is put
 *   into this CPU's packet. Once the packet is full, a copy of a passing frame is sent into the
 *   carrier, one end of a veth pair. The frame itself passes unchanged.
 * - `write_report` (XDP, at the far end of the pair) replaces the copy with the packet and sends it
 *   back.
 * - `send_report` (tc, at the near end) sends the packet to the network or to this host.
 *
 * The copy is not rewritten where it is made: its checksum may be one that an adapter has to
 * complete, which no program can undo. An XDP frame has no such state.
 *
 * Any copy can carry any packet, so waiting packets are kept in a queue. As a frame cannot grow
 * beyond its memory, only sufficiently long packets are copied. Without traffic, the loader sends
 * empty frames to the carrier.
 */
#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>

#include <linux/errno.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>

#include "../tcp/bpf/map.h"
#include "shared.h"
#include "packet.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct report_config config = {};

__u32 sequence = 0; /* sequence number of the next report */
__s64 debt = 0;	    /* approximate number of packets that wait for a carrier */
__u32 handed = 0;   /* number of reports put into packets, including packets being filled */
/* Set by the loader: if limited, reports starting at number `allowed` are held back. */
__u32 limited = 0, allowed = 0;
/* Set by the loader: interface for reports to another host; 0 means that there is no route. */
__u32 out = 0;
__u32 ask = 0;	    /* set by the loader to request an answer with the next packet */
__u64 realtime = 0; /* CLOCK_REALTIME - CLOCK_MONOTONIC, updated by the loader */
/* Result of the last sweep: number of flows, and their bytes not yet included in a report. */
__u64 known = 0, unsaid = 0, known_events = 0;

MAP(counts, PERCPU_ARRAY, 0, RPT_COUNTS, __u32, __u64);
MAP(flows, LRU_HASH, 0, 1, struct report_flow_key, struct report_flow);
MAP(slots, ARRAY, 0, RPT_SLOTS, __u32, struct report_slot);
QUEUE(vacant, RPT_SLOTS, __u32);
QUEUE(ready, RPT_SLOTS, __u32);

/* Filled by event.bpf.c. */
MAP(events, LRU_HASH, 0, 1, struct report_event_key, struct report_event);

/* The packet that a CPU is filling, one per kind. The lock excludes the loader's flush. */
struct pending {
	struct bpf_spin_lock lock;
	__u32 slot; /* slot of the packet being filled, or RPT_NONE */
	__u32 count;
	__u64 since_ns;
};
MAP(pendings, ARRAY, 0, RPT_KINDS *RPT_CPUS, __u32, struct pending);

#include "sign.bpf.h"

static __always_inline void add_count(enum report_count what, __u64 n)
{
	__u32 key = what;
	__u64 *at = bpf_map_lookup_elem(&counts, &key);

	if (at)
		*at += n;
}

/* ---- packets of reports ---- */

/* Queues a completed packet. */
static __always_inline void queue_packet(__u32 slot, __u32 n, __u32 kind)
{
	struct report_slot *s = bpf_map_lookup_elem(&slots, &slot);

	if (!s)
		return;
	s->count = n; /* 0 for a heartbeat */
	s->kind = kind;
	s->sequence = __sync_fetch_and_add(&sequence, n);
	if (bpf_map_push_elem(&ready, &slot, 0)) /* impossible: the queue has room for every slot */
		add_count(RPT_NOT_WRITTEN, 1);
	else
		__sync_fetch_and_add(&debt, 1);
}

static __always_inline __u32 key_bytes(__u32 kind)
{
	const __u32 flow = kind & 1 ? RPT_KEY6 : RPT_KEY4;

	switch (kind / 2) {
	case RPT_DROPS:
		return flow + RPT_REASON;
	case RPT_QUEUE:
		return 8;
	default:
		return flow;
	}
}

static __always_inline __u32 item_bytes(__u32 kind)
{
	return key_bytes(kind) + RPT_VALUE;
}

static __always_inline __u32 items_per_packet(__u32 kind)
{
	return kind == 2 * RPT_DROPS + 1 ? RPT_ROOM / RPT_ITEM_MAX : RPT_ITEMS;
}

struct item {
	__u8 bytes[RPT_ITEM_MAX];
};

/*
 * Linux 6.1's verifier loses the bounds of a 32-bit number that is spilled to the stack, but not
 * the bounds of a pointer, so the pointer is computed as soon as the bounds are known. Bytes copied
 * beyond the item are overwritten by the next one.
 */
static __always_inline void put_item(struct report_slot *s, __u64 at, const struct item *item)
{
	__u8 *to;

	asm volatile("" : "+r"(at));
	if (at > sizeof(s->message) - RPT_FIXED - RPT_ITEM_MAX)
		return; /* impossible */
	to = s->message + RPT_FIXED + at;
	asm volatile("" : "+r"(to));
	__builtin_memcpy(to, item, sizeof(*item));
}

/* Adds an item to this CPU's packet. Returns false if there is no room. */
static __noinline bool put_into_packet(const struct item *item, __u32 kind, __u64 now)
{
	__u32 at = bpf_get_smp_processor_id() * RPT_KINDS + kind, fresh = RPT_NONE, slot,
	      done = RPT_NONE, n = 0, c;
	const __u32 most = items_per_packet(kind), size = item_bytes(kind);
	struct pending *p = bpf_map_lookup_elem(&pendings, &at);
	struct report_slot *s;
	bool taken = false;

	if (!p)
		return false;
	slot = p->slot;
	if (slot == RPT_NONE) {
		if (bpf_map_pop_elem(&vacant, &fresh)) {
			add_count(RPT_NO_ROOM, 1);
			return false;
		}
		slot = fresh;
	}
	s = bpf_map_lookup_elem(&slots, &slot);
	if (!s) {
		add_count(RPT_NO_ROOM, 1);
		return false;
	}
	bpf_spin_lock(&p->lock);
	if (p->slot == RPT_NONE && fresh != RPT_NONE) {
		p->slot = fresh;
		p->count = 0;
		p->since_ns = now;
		fresh = RPT_NONE;
	}
	c = p->count;
	if (p->slot == slot && c < most) {
		put_item(s, (__u64)c * size, item);
		taken = true;
		p->count = c + 1;
		if (c + 1 == most || now - p->since_ns >= config.flush_ns) {
			done = slot;
			n = c + 1;
			p->slot = RPT_NONE;
		}
	}
	bpf_spin_unlock(&p->lock);
	if (fresh != RPT_NONE)
		bpf_map_push_elem(&vacant, &fresh, 0);
	add_count(taken ? RPT_REPORTS : RPT_NO_ROOM, 1);
	if (taken)
		__sync_fetch_and_add(&handed, 1);
	if (done != RPT_NONE)
		queue_packet(done, n, kind);
	return taken;
}

/* ---- flows ---- */

static __always_inline void put64(__u8 *to, __u64 v)
{
	v = bpf_cpu_to_be64(v);
	__builtin_memcpy(to, &v, 8);
}

/* If a flow's report is held back, its counts are included in the next report or the sweep. */
static __always_inline bool may_report(void)
{
	if (!limited || (__s32)(allowed - handed) > 0)
		return true;
	add_count(RPT_HELD_BACK, 1);
	return false;
}

/* Samples by key (Murmur3's mixing), so that a flow is counted completely or not at all. */
static __always_inline bool in_sample(const struct report_flow_key *k)
{
	const __u32 *word = (const void *)k;
	__u32 h = 0;

	for (__u32 i = 0; i < sizeof(*k) / 4; i++) {
		h = (h ^ word[i]) * 0xcc9e2d51;
		h ^= h >> 15;
	}
	h *= 0x85ebca6b;
	h ^= h >> 13;
	return !(h & ((1u << config.sample) - 1));
}

static __always_inline void put32(__u8 *to, __u32 v)
{
	v = bpf_htonl(v);
	__builtin_memcpy(to, &v, 4);
}

/* Writes the flow's addresses, ports and protocol. Returns their length. */
static __always_inline __u32 put_key(struct item *item, const struct report_flow_key *k, bool v6)
{
	const __u32 address = v6 ? 16 : 4;
	__u8 *to = item->bytes;

	__builtin_memcpy(to, k->source, address);
	__builtin_memcpy(to + address, k->target, address);
	__builtin_memcpy(to + 2 * address, &k->source_port, 2);
	__builtin_memcpy(to + 2 * address + 2, &k->target_port, 2);
	to[2 * address + 4] = k->protocol;
	return 2 * address + 5;
}

/* Puts a flow's report, with a value of two numbers, for one IP version. reason: drop reason. */
static __always_inline bool put_version(enum report_subject what, const struct report_flow_key *k,
					bool v6, __u32 reason, const __u64 value[2], __u64 now)
{
	struct item item = {};
	__u32 n = put_key(&item, k, v6);

	if (what == RPT_DROPS) {
		put32(item.bytes + n, reason);
		n += RPT_REASON;
	}
	put64(item.bytes + n, value[0]);
	put64(item.bytes + n + 8, value[1]);
	return put_into_packet(&item, 2 * what + v6, now);
}

static __always_inline bool put_report(enum report_subject what, const struct report_flow_key *k,
				       __u32 reason, __u64 a, __u64 b, __u64 now)
{
	const __u64 value[2] = {a, b};

	return k->v6 ? put_version(what, k, true, reason, value, now)
		     : put_version(what, k, false, reason, value, now);
}

/* Evictions are derived from the sums, so reported bytes must be counted only here. */
static __always_inline void put_flow_report(const struct report_flow_key *k, struct report_flow *f,
					    __u64 packets, __u64 bytes, __u64 now)
{
	if (put_report(RPT_FLOWS, k, 0, packets, bytes, now))
		add_count(RPT_SAID_BYTES,
			  bytes - __sync_lock_test_and_set(&f->reported_bytes, bytes));
}

static __always_inline bool is_target(const struct report_flow_key *k)
{
	__u32 to[4];

	__builtin_memcpy(to, k->target, sizeof(to));
	if (!config.v6)
		return to[0] == config.target;
	return to[0] == config.target6[0] && to[1] == config.target6[1] &&
	       to[2] == config.target6[2] && to[3] == config.target6[3];
}

/* ---- latency ---- */

#define TCP_SYN 0x02
#define TCP_ACK 0x10

/*
 * Measures the time from a SYN to its answer, as both pass this interface, unless the SYN was
 * retransmitted (Karn).
 */
static __always_inline void time_handshake(const struct report_flow_key *k, struct report_flow *f,
					   __u8 flags, __u64 now)
{
	struct report_flow_key back = {.source_port = k->target_port,
				       .target_port = k->source_port,
				       .protocol = k->protocol,
				       .v6 = k->v6};
	__u64 took;

	if (!(flags & TCP_SYN))
		return;
	if (!(flags & TCP_ACK)) {
		f->syn_ns = f->syn_ns && !f->handshake_us ? 1 : now;
		/* the measurement belongs to an earlier connection with the same ports */
		f->handshake_us = 0;
		return;
	}
	__builtin_memcpy(back.source, k->target, 16);
	__builtin_memcpy(back.target, k->source, 16);
	f = bpf_map_lookup_elem(&flows, &back);
	if (f && f->syn_ns > 1 && !f->handshake_us) {
		took = (now - f->syn_ns) / 1000;
		f->handshake_us = took ? (took < 0xffffffff ? took : 0xffffffff) : 1;
	}
}

/* For an outgoing packet of a local connection, uses the RTT kept by the socket. */
static __always_inline void report_latency(struct __sk_buff *skb, const struct report_flow_key *k,
					   const struct report_flow *f, __u64 now)
{
	__u32 smoothed = 0, least = 0;
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tcp;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	tcp = sk ? bpf_tcp_sock(sk) : NULL;
	if (tcp) {
		smoothed = tcp->srtt_us >> 3; /* the kernel keeps eighths of a microsecond */
		least = smoothed && tcp->rtt_min != 0xffffffff ? tcp->rtt_min : 0;
	}
	if ((smoothed || f->handshake_us) && may_report())
		put_report(RPT_LATENCY, k, 0, (__u64)smoothed << 32 | least,
			   (__u64)f->handshake_us << 32, now);
}

/* ---- passing frames ---- */

/* Replaces a tunnel's flow with the flow inside it. */
static __always_inline void enter_tunnel(struct __sk_buff *skb, struct report_flow_key *k,
					 struct packet *p)
{
	struct report_flow_key inner = {};
	struct packet in = {};
	__be16 type = 0;
	__u32 at = packet_inner(skb, k, p, &type);

	if (!at || !packet_flow_at(skb, type, at, &inner, &in))
		return;
	*k = inner;
	p->flags = in.flags;
	p->last = in.last;
}

SEC("tc")
int see(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns(), packets, bytes, before;
	struct report_flow fresh = {}, *f;
	struct report_flow_key k = {};
	struct packet p = {};

	add_count(RPT_PACKETS, 1);
	if (!packet_flow(skb, &k, &p)) {
		add_count(RPT_OTHERS, 1);
		goto carry;
	}
	/* Do not count the reporter's own packets. */
	if (k.protocol == IPPROTO_UDP && k.v6 == config.v6 && k.target_port == config.port &&
	    k.source_port == config.source_port && is_target(&k))
		return TC_ACT_UNSPEC;
	packet_size(skb, &k, &p);
	if (config.inner)
		enter_tunnel(skb, &k, &p);
	if (config.sample && !in_sample(&k)) {
		add_count(RPT_LEFT_OUT, 1);
		goto carry;
	}
	f = bpf_map_lookup_elem(&flows, &k);
	if (!f) {
		/* If another CPU is first, its entry is used. */
		if (!bpf_map_update_elem(&flows, &k, &fresh, BPF_NOEXIST))
			add_count(RPT_NEW, 1);
		f = bpf_map_lookup_elem(&flows, &k);
		if (!f) {
			add_count(RPT_NO_FLOW, 1);
			goto carry;
		}
	}
	packets = __sync_fetch_and_add(&f->packets, p.packets) + p.packets;
	bytes = __sync_fetch_and_add(&f->bytes, p.bytes) + p.bytes;
	add_count(RPT_BYTES, p.bytes);
	if (config.wanted[RPT_LATENCY])
		time_handshake(&k, f, p.flags, now);
	before = f->reported_ns;
	if (p.last || !before || now - before >= config.every_ns ||
	    bytes - f->reported_bytes >= config.bytes) {
		/* Of the CPUs that get here at the same time, only one reports. */
		if (p.last || __sync_val_compare_and_swap(&f->reported_ns, before, now) == before) {
			f->reported_ns = now;
			if (may_report())
				put_flow_report(&k, f, packets, bytes, now);
			if (config.wanted[RPT_LATENCY] && k.protocol == IPPROTO_TCP)
				report_latency(skb, &k, f, now);
		}
	}
carry:
	/* The redirect invalidates pointers into the packet. */
	if (debt > 0 && skb->len >= RPT_LONGEST && skb->len <= 1518 && !skb->gso_size &&
	    !bpf_clone_redirect(skb, config.carrier, 0))
		__sync_fetch_and_add(&debt, -1);
	return TC_ACT_UNSPEC;
}

struct sweep {
	__u64 now, every_ns, flows, unsaid;
	bool held; /* the reports of flows are being held back */
};

static long sweep_one(void *map, const struct report_flow_key *k, struct report_flow *f,
		      struct sweep *s)
{
	__u64 bytes = f->bytes;

	if (bytes != f->reported_bytes && s->now - f->reported_ns >= s->every_ns && !s->held) {
		s->held = !may_report();
		if (!s->held) {
			f->reported_ns = s->now;
			put_flow_report(k, f, f->packets, bytes, s->now);
		}
	}
	s->flows++;
	s->unsaid += bytes - f->reported_bytes;
	return 0;
}

/*
 * Run by the loader: reports flows that became idle with unreported packets, and counts the table.
 * A nonzero mark means the final sweep, which ignores age.
 */
SEC("tc")
int sweep(struct __sk_buff *skb)
{
	struct sweep s = {.now = bpf_ktime_get_ns(), .every_ns = skb->mark ? 0 : config.every_ns};

	bpf_for_each_map_elem(&flows, sweep_one, &s, 0);
	known = s.flows;
	unsaid = s.unsaid;
	return 0;
}

static long report_event(void *map, const struct report_event_key *k, struct report_event *e,
			 struct sweep *s)
{
	const __u64 packets = e->packets;

	s->flows++;
	if (packets == e->reported || s->held)
		return 0;
	s->held = !may_report();
	if (s->held)
		return 0;
	if (k->reason ? put_report(RPT_DROPS, &k->flow, k->reason, packets, e->bytes, s->now)
		      : put_report(RPT_RETRANSMISSIONS, &k->flow, 0, packets, e->bytes, s->now))
		e->reported = packets;
	return 0;
}

/* Run by the loader: reports drops and retransmissions, and counts the table. */
SEC("tc")
int report_events(struct __sk_buff *skb)
{
	struct sweep s = {.now = bpf_ktime_get_ns()};

	(void)skb;
	bpf_for_each_map_elem(&events, report_event, &s, 0);
	known_events = s.flows;
	return 0;
}

__u32 queue_interface = 0; /* set by the loader, like the next two */
__u64 queue_packets = 0, queue_bytes = 0;

/* Run by the loader: reports the interface's queue. */
SEC("tc")
int report_queue(struct __sk_buff *skb)
{
	struct item item = {};

	(void)skb;
	put32(item.bytes, config.reporter);
	put32(item.bytes + 4, queue_interface);
	put64(item.bytes + 8, queue_packets);
	put64(item.bytes + 16, queue_bytes);
	if (may_report())
		put_into_packet(&item, 2 * RPT_QUEUE, bpf_ktime_get_ns());
	return 0;
}

/* Run by the loader: queues the packet that CPU `mark` is filling. */
SEC("tc")
int flush(struct __sk_buff *skb)
{
	for (__u32 kind = 0; kind < RPT_KINDS; kind++) {
		__u32 at = skb->mark * RPT_KINDS + kind, slot = RPT_NONE, n = 0;
		struct pending *p = bpf_map_lookup_elem(&pendings, &at);

		if (!p || p->slot == RPT_NONE)
			continue;
		bpf_spin_lock(&p->lock);
		if (p->slot != RPT_NONE) {
			slot = p->slot;
			n = p->count;
			p->slot = RPT_NONE;
		}
		bpf_spin_unlock(&p->lock);
		if (slot != RPT_NONE)
			queue_packet(slot, n, kind);
	}
	return 0;
}

/* Run by the loader: queues a heartbeat, after the packets with all reports it covers. */
SEC("tc")
int beat(struct __sk_buff *skb)
{
	__u32 slot;

	(void)skb;
	if (bpf_map_pop_elem(&vacant, &slot))
		add_count(RPT_NO_ROOM, 1);
	else
		queue_packet(slot, 0, 0);
	return 0;
}

/* ---- the carrier ---- */

struct dta { /* header of a packet as specified in docs/dta-wire.md */
	__u8 magic, version, flags, blocks;
	__be16 tenant, length;
	__be32 reporter, sequence;
	__be64 time_ns;
	__be32 incarnation, reports;
	__u8 opcode, block_flags;
	__be16 items;
	__u8 copies, key_bytes;
	__be16 value_bytes, store, zero;
} __attribute__((packed));

_Static_assert(sizeof(struct dta) == RPT_FIXED, "as on the wire");

struct headers4 {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

struct headers6 {
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct udphdr udp;
} __attribute__((packed));
_Static_assert(sizeof(struct headers4) == RPT_HEADERS4, "as on the wire");
_Static_assert(sizeof(struct headers6) == RPT_HEADERS6, "as on the wire");

static __always_inline void fill_eth(struct ethhdr *eth, __u16 type)
{
	/*
	 * Copy element by element: otherwise, the compiler assumes the zeros of config's
	 * initialiser.
	 */
	for (int i = 0; i < 6; i++)
		eth->h_dest[i] = eth->h_source[i] = config.mac[i];
	eth->h_source[0] |= 2; /* make the source differ from the carrier's address */
	eth->h_source[5] ^= 1;
	eth->h_proto = bpf_htons(type);
}

static __always_inline struct udphdr udp_of(__u32 payload)
{
	return (struct udphdr){
		.source = config.source_port, .dest = config.port, .len = bpf_htons(8 + payload)};
}

/* Completes the message of a slot, except for its items. */
static __always_inline void fill_message(struct report_slot *s, __u32 n, __u32 bytes)
{
	struct dta d = {.magic = 0xd7, .version = 2, .flags = config.sign ? 1 : 0};
	__u64 what = s->kind / 2;

	if (ask) { /* two CPUs may both see the flag and request an answer, which is harmless */
		ask = 0;
		d.flags |= 4;
	}
	d.tenant = bpf_htons(config.tenant);
	d.length = bpf_htons(bytes);
	d.reporter = bpf_htonl(config.reporter);
	d.sequence = bpf_htonl(s->sequence);
	d.time_ns = bpf_cpu_to_be64(bpf_ktime_get_ns() + realtime);
	d.incarnation = bpf_htonl(config.incarnation);
	d.reports = bpf_htonl(n);
	if (n) {
		d.blocks = 1;
		d.opcode = 1; /* opcode of Key-Write */
		d.items = bpf_htons(n);
		d.copies = config.copies;
		d.key_bytes = key_bytes(s->kind);
		d.value_bytes = bpf_htons(RPT_VALUE);
		asm volatile("" : "+r"(what)); /* show the verifier the following bound */
		if (what < RPT_SUBJECTS)
			d.store = bpf_htons(config.store[what]);
	}
	__builtin_memcpy(s->message, &d, sizeof(d));
}

static __always_inline __u16 fold_checksum(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Replaces the frame with headers and message. */
static __always_inline bool put_frame(struct xdp_md *ctx, void *headers, __u32 size,
				      struct report_slot *s, __u64 bytes)
{
	return !bpf_xdp_adjust_tail(ctx, (int)(size + bytes) - (int)bpf_xdp_get_buff_len(ctx)) &&
	       !bpf_xdp_store_bytes(ctx, 0, headers, size) &&
	       !bpf_xdp_store_bytes(ctx, size, s->message, bytes);
}

static __always_inline bool write4(struct xdp_md *ctx, struct report_slot *s, __u64 bytes)
{
	struct headers4 h = {};

	fill_eth(&h.eth, ETH_P_IP);
	h.ip.version = 4;
	h.ip.ihl = 5;
	h.ip.tot_len = bpf_htons(20 + 8 + (__u32)bytes);
	h.ip.frag_off = bpf_htons(0x4000);
	h.ip.ttl = 64;
	h.ip.protocol = IPPROTO_UDP;
	h.ip.saddr = config.source;
	h.ip.daddr = config.target;
	/* Sum word by word, because the addresses are not aligned here. */
	h.ip.check = fold_checksum(bpf_htons(0x4500) + h.ip.tot_len + h.ip.frag_off +
				   bpf_htons(64 << 8 | IPPROTO_UDP) + (config.source & 0xffff) +
				   (config.source >> 16) + (config.target & 0xffff) +
				   (config.target >> 16));
	h.udp = udp_of(bytes);
	return put_frame(ctx, &h, sizeof(h), s, bytes);
}

/* Data covered by the UDP checksum besides the message. IPv6 requires it (RFC 8200, 8.1). */
struct covered {
	__u32 source[4], target[4];
	__be32 length, next;
	struct udphdr udp;
};

#define PART 480u /* bpf_csum_diff() accepts 512 bytes per call */

static __always_inline __u16 checksum6(struct udphdr udp, struct report_slot *s, __u64 bytes)
{
	struct covered c = {.length = bpf_htonl(8 + (__u32)bytes), .next = bpf_htonl(IPPROTO_UDP)};
	__u64 words = (bytes + 3) & ~3ull;
	__u32 sum;

	for (int i = 0; i < 4; i++) {
		c.source[i] = config.source6[i];
		c.target[i] = config.target6[i];
	}
	c.udp = udp;
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&c, sizeof(c), 0);
	for (__u64 i = 0; i < 3; i++) /* clear stale bytes after the message */
		if (bytes + i < words && bytes + i < sizeof(s->message))
			s->message[bytes + i] = 0;
#pragma unroll
	for (__u32 at = 0; at < sizeof(s->message); at += PART) {
		const __u32 most = sizeof(s->message) - at < PART ? sizeof(s->message) - at : PART;
		__u64 part = words > at ? words - at : 0;

		if (part > most)
			part = most;
		asm volatile("" : "+r"(part)); /* show the verifier the following bound */
		if (part && part <= most)
			sum = bpf_csum_diff(NULL, 0, (__be32 *)(s->message + at), part, sum);
	}
	sum = fold_checksum(sum);
	return sum ?: 0xffff;
}

static __always_inline bool write6(struct xdp_md *ctx, struct report_slot *s, __u64 bytes)
{
	struct headers6 h = {};

	fill_eth(&h.eth, ETH_P_IPV6);
	h.ip.version = 6;
	h.ip.payload_len = bpf_htons(8 + (__u32)bytes);
	h.ip.nexthdr = IPPROTO_UDP;
	h.ip.hop_limit = 64;
	for (int i = 0; i < 4; i++) {
		h.ip.saddr.in6_u.u6_addr32[i] = config.source6[i];
		h.ip.daddr.in6_u.u6_addr32[i] = config.target6[i];
	}
	h.udp = udp_of(bytes);
	h.udp.check = checksum6(h.udp, s, bytes);
	return put_frame(ctx, &h, sizeof(h), s, bytes);
}

SEC("xdp")
int write_report(struct xdp_md *ctx)
{
	struct report_slot *s;
	__u16 proto = 0;
	__u32 slot, n;
	__u64 bytes;
	bool written;

	/* The near end has an address: pass packets between the local translator and carrier. */
	if (!config.out && bpf_xdp_get_buff_len(ctx) < RPT_LONGEST &&
	    !bpf_xdp_load_bytes(ctx, offsetof(struct ethhdr, h_proto), &proto, sizeof(proto)) &&
	    (proto == bpf_htons(ETH_P_ARP) || proto == bpf_htons(ETH_P_IP)))
		return XDP_PASS;
	/*
	 * Ignore short frames: the host may send its own on any interface, for example for
	 * neighbour discovery.
	 */
	if (bpf_xdp_get_buff_len(ctx) < RPT_LONGEST || bpf_map_pop_elem(&ready, &slot)) {
		add_count(RPT_IDLE, 1);
		return XDP_DROP;
	}
	s = bpf_map_lookup_elem(&slots, &slot);
	if (!s)
		return XDP_DROP;
	n = s->count;
	bytes = n ? RPT_FIXED + (__u64)n * item_bytes(s->kind) : RPT_HEADER;
	/* Linux 6.1's verifier only tracks 64-bit bounds. */
	asm volatile("" : "+r"(bytes));
	if (bytes < RPT_HEADER || bytes > sizeof(s->message) - RPT_PROOF) { /* impossible */
		bpf_map_push_elem(&vacant, &slot, 0);
		return XDP_DROP;
	}
	fill_message(s, n, bytes);
	if (config.sign)
		bytes = sign_message(s, slot, bytes);
	written = config.v6 ? write6(ctx, s, bytes) : write4(ctx, s, bytes);
	bpf_map_push_elem(&vacant, &slot, 0);
	if (!written) {
		add_count(RPT_NOT_WRITTEN, 1);
		return XDP_DROP;
	}
	add_count(n ? RPT_SENT : RPT_BEATS, 1);
	add_count(RPT_SENT_REPORTS, n);
	return XDP_TX;
}

/*
 * Runs at the near end of the carrier. Reports for this host are passed up the stack. The
 * redirection itself does not tell whether the interface exists.
 */
SEC("tc")
int send_report(struct __sk_buff *skb)
{
	const __u32 to = *(volatile __u32 *)&out;
	__u32 mtu = 0;

	if (!config.out)
		return TC_ACT_UNSPEC;
	if (!to || bpf_check_mtu(skb, to, &mtu, 0, 0) == -ENODEV) {
		add_count(RPT_NO_ROUTE, 1);
		return TC_ACT_SHOT;
	}
	return bpf_redirect_neigh(to, NULL, 0, 0);
}

/* The near end accepts XDP frames only if it has an XDP program itself. */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
