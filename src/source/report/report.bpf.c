// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * report.bpf.c - flows of an interface, reported by the kernel itself.
 *
 * A program cannot create a packet, so a passing one lends its body:
 *
 *   interface ── see (tc, both ways): counts the flow; a flow that is due puts a report
 *      |         into this CPU's packet; once that is full, a copy of a passing frame goes to
 *      v         the carrier
 *   goes on, untouched       carrier, one end of a veth pair ──> other end: write_report (XDP)
 *                                ^                               replaces the copy by the packet
 *   network or this host <── send_report (tc) <───────────────── and sends it back
 *
 * The copy is not rewritten where it is made: its checksum may be one that an adapter is to
 * complete, which no program can undo. An XDP frame has no such state.
 *
 * Any copy carries any packet: waiting packets are in a queue. A frame cannot grow beyond its
 * memory, so only a copy of a long enough packet serves, and a small one costs little. Without
 * traffic, the loader sends empty frames to the carrier.
 */
#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>

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

__u32 sequence = 0; /* of the next report */
__s64 debt = 0;	    /* packets that wait for a carrier, approximately */
__u32 handed = 0;   /* reports put into packets, including packets being filled */
/* Set by the loader: if limited, reports are held back from number `allowed` on. */
__u32 limited = 0, allowed = 0;
__u32 ask = 0;	    /* set by the loader: the next packet requests an answer */
__u64 realtime = 0; /* CLOCK_REALTIME - CLOCK_MONOTONIC, kept by the loader */
/* Result of the last sweep: flows, and their bytes that no report included. */
__u64 known = 0, unsaid = 0;

MAP(counts, PERCPU_ARRAY, 0, RPT_COUNTS, __u32, __u64);
MAP(flows, LRU_HASH, 0, 1, struct report_flow_key, struct report_flow);
MAP(slots, ARRAY, 0, RPT_SLOTS, __u32, struct report_slot);
QUEUE(vacant, RPT_SLOTS, __u32);
QUEUE(ready, RPT_SLOTS, __u32);

/* The packet that a CPU fills, one for each IP version. The lock excludes the loader's flush. */
struct pending {
	struct bpf_spin_lock lock;
	__u32 slot; /* or RPT_NONE */
	__u32 count;
	__u64 since_ns;
};
MAP(pendings, ARRAY, 0, 2 * RPT_CPUS, __u32, struct pending);

#include "sign.bpf.h"

static __always_inline void count(enum report_count what, __u64 n)
{
	__u32 key = what;
	__u64 *at = bpf_map_lookup_elem(&counts, &key);

	if (at)
		*at += n;
}

/* ---- packets of reports ---- */

/* Queues a completed packet. */
static __always_inline void finish(__u32 slot, __u32 n, __u32 v6)
{
	struct report_slot *s = bpf_map_lookup_elem(&slots, &slot);

	if (!s)
		return;
	s->count = n; /* 0: a heartbeat */
	s->v6 = v6;
	s->sequence = __sync_fetch_and_add(&sequence, n);
	if (bpf_map_push_elem(&ready, &slot, 0)) /* impossible: the queue has room for every slot */
		count(RPT_NOT_WRITTEN, 1);
	else
		__sync_fetch_and_add(&debt, 1);
}

/*
 * Linux 6.1's verifier loses the bounds of a 32-bit number spilled to the stack, but not of a
 * pointer: make it as soon as the bounds are known.
 */
static __always_inline void put_item(struct report_slot *s, __u32 n, const __u8 *item, __u32 v6)
{
	__u64 at = (__u64)n * (v6 ? RPT_ITEM6 : RPT_ITEM4);
	__u8 *to;

	asm volatile("" : "+r"(at));
	if (at > RPT_ITEMS * RPT_ITEM6 - RPT_ITEM6)
		return; /* impossible */
	to = s->message + RPT_FIXED + at;
	asm volatile("" : "+r"(to));
	if (v6)
		__builtin_memcpy(to, item, RPT_ITEM6);
	else
		__builtin_memcpy(to, item, RPT_ITEM4);
}

/* Adds an item to this CPU's packet. False: no room. */
static __always_inline bool put(const __u8 *item, __u32 v6, __u64 now)
{
	__u32 at = bpf_get_smp_processor_id() * 2 + v6, fresh = RPT_NONE, slot, done = RPT_NONE,
	      n = 0, c;
	struct pending *p = bpf_map_lookup_elem(&pendings, &at);
	struct report_slot *s;
	bool taken = false;

	if (!p)
		return false;
	slot = p->slot;
	if (slot == RPT_NONE) {
		if (bpf_map_pop_elem(&vacant, &fresh)) {
			count(RPT_NO_ROOM, 1);
			return false;
		}
		slot = fresh;
	}
	s = bpf_map_lookup_elem(&slots, &slot);
	if (!s) {
		count(RPT_NO_ROOM, 1);
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
	if (p->slot == slot && c < RPT_ITEMS) {
		put_item(s, c, item, v6);
		taken = true;
		p->count = c + 1;
		if (c + 1 == RPT_ITEMS || now - p->since_ns >= config.flush_ns) {
			done = slot;
			n = c + 1;
			p->slot = RPT_NONE;
		}
	}
	bpf_spin_unlock(&p->lock);
	if (fresh != RPT_NONE)
		bpf_map_push_elem(&vacant, &fresh, 0);
	count(taken ? RPT_REPORTS : RPT_NO_ROOM, 1);
	if (taken)
		__sync_fetch_and_add(&handed, 1);
	if (done != RPT_NONE)
		finish(done, n, v6);
	return taken;
}

/* ---- flows ---- */

static __always_inline void put64(__u8 *to, __u64 v)
{
	v = bpf_cpu_to_be64(v);
	__builtin_memcpy(to, &v, 8);
}

/*
 * A flow whose report is held back keeps its counts, which the next report or the sweep includes.
 */
static __always_inline bool may_report(void)
{
	if (!limited || (__s32)(allowed - handed) > 0)
		return true;
	count(RPT_HELD_BACK, 1);
	return false;
}

/* Samples by key, so that a flow is counted completely or not at all: Murmur3's mixing. */
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

static __always_inline bool put_flow(const struct report_flow_key *k, bool v6, __u64 packets,
				     __u64 bytes, __u64 now)
{
	const __u32 address = v6 ? 16 : 4, key = v6 ? RPT_KEY6 : RPT_KEY4;
	__u8 item[RPT_ITEM6 + 3] = {0};

	__builtin_memcpy(item, k->source, address);
	__builtin_memcpy(item + address, k->target, address);
	__builtin_memcpy(item + 2 * address, &k->source_port, 2);
	__builtin_memcpy(item + 2 * address + 2, &k->target_port, 2);
	item[key - 1] = k->protocol;
	put64(item + key, packets);
	put64(item + key + 8, bytes);
	return put(item, v6, now);
}

/* Evictions show only in the sums: count reported bytes here and nowhere else. */
static __always_inline void report(const struct report_flow_key *k, struct report_flow *f,
				   __u64 packets, __u64 bytes, __u64 now)
{
	if (k->v6 ? put_flow(k, true, packets, bytes, now)
		  : put_flow(k, false, packets, bytes, now))
		count(RPT_SAID_BYTES, bytes - __sync_lock_test_and_set(&f->reported_bytes, bytes));
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

/* Replaces a tunnel's flow by the one within it. */
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

	count(RPT_PACKETS, 1);
	if (!packet_flow(skb, &k, &p)) {
		count(RPT_OTHERS, 1);
		goto carry;
	}
	/* Our own packets do not count. */
	if (k.protocol == IPPROTO_UDP && k.v6 == config.v6 && k.target_port == config.port &&
	    k.source_port == config.source_port && is_target(&k))
		return TC_ACT_UNSPEC;
	packet_size(skb, &k, &p);
	if (config.inner)
		enter_tunnel(skb, &k, &p);
	if (config.sample && !in_sample(&k)) {
		count(RPT_LEFT_OUT, 1);
		goto carry;
	}
	f = bpf_map_lookup_elem(&flows, &k);
	if (!f) {
		/* Another CPU may be first, and its entry counts. */
		if (!bpf_map_update_elem(&flows, &k, &fresh, BPF_NOEXIST))
			count(RPT_NEW, 1);
		f = bpf_map_lookup_elem(&flows, &k);
		if (!f) {
			count(RPT_NO_FLOW, 1);
			goto carry;
		}
	}
	packets = __sync_fetch_and_add(&f->packets, p.packets) + p.packets;
	bytes = __sync_fetch_and_add(&f->bytes, p.bytes) + p.bytes;
	count(RPT_BYTES, p.bytes);
	before = f->reported_ns;
	if (p.last || !before || now - before >= config.every_ns ||
	    bytes - f->reported_bytes >= config.bytes) {
		/* One of the CPUs that see it at the same time. */
		if (p.last || __sync_val_compare_and_swap(&f->reported_ns, before, now) == before) {
			f->reported_ns = now;
			if (may_report())
				report(&k, f, packets, bytes, now);
		}
	}
carry:
	/* This invalidates pointers into the packet. */
	if (debt > 0 && skb->len >= RPT_LONGEST && skb->len <= 1518 && !skb->gso_size &&
	    !bpf_clone_redirect(skb, config.carrier, 0))
		__sync_fetch_and_add(&debt, -1);
	return TC_ACT_UNSPEC;
}

struct sweep {
	__u64 now, every_ns, flows, unsaid;
	bool held; /* reports are held back */
};

static long sweep_one(void *map, const struct report_flow_key *k, struct report_flow *f,
		      struct sweep *s)
{
	__u64 bytes = f->bytes;

	if (bytes != f->reported_bytes && s->now - f->reported_ns >= s->every_ns && !s->held) {
		s->held = !may_report();
		if (!s->held) {
			f->reported_ns = s->now;
			report(k, f, f->packets, bytes, s->now);
		}
	}
	s->flows++;
	s->unsaid += bytes - f->reported_bytes;
	return 0;
}

/*
 * For the loader: reports flows that fell silent with unreported packets, and counts the table.
 * mark: the final sweep, regardless of age.
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

/* For the loader: queues the packet that CPU `mark` is filling. */
SEC("tc")
int flush(struct __sk_buff *skb)
{
	for (__u32 v6 = 0; v6 < 2; v6++) {
		__u32 at = skb->mark * 2 + v6, slot = RPT_NONE, n = 0;
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
			finish(slot, n, v6);
	}
	return 0;
}

/* For the loader: queues a heartbeat, behind the packets of all reports that it says were sent. */
SEC("tc")
int beat(struct __sk_buff *skb)
{
	__u32 slot;

	(void)skb;
	if (bpf_map_pop_elem(&vacant, &slot))
		count(RPT_NO_ROOM, 1);
	else
		finish(slot, 0, 0);
	return 0;
}

/* ---- the carrier ---- */

struct dta { /* docs/dta-wire.md */
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
	/* Assigned by element: the compiler would assume the initialiser's zeros for config. */
	for (int i = 0; i < 6; i++)
		eth->h_dest[i] = eth->h_source[i] = config.mac[i];
	eth->h_source[0] |= 2; /* a source other than the carrier */
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

	if (ask) { /* two CPUs may both see it, which is harmless */
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
		d.opcode = 1; /* Key-Write */
		d.items = bpf_htons(n);
		d.copies = config.copies;
		d.key_bytes = s->v6 ? RPT_KEY6 : RPT_KEY4;
		d.value_bytes = bpf_htons(RPT_VALUE);
		d.store = bpf_htons(config.store);
	}
	__builtin_memcpy(s->message, &d, sizeof(d));
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Replaces the frame by headers and message. */
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
	/* Summed by word: the addresses are not aligned here. */
	h.ip.check = fold(bpf_htons(0x4500) + h.ip.tot_len + h.ip.frag_off +
			  bpf_htons(64 << 8 | IPPROTO_UDP) + (config.source & 0xffff) +
			  (config.source >> 16) + (config.target & 0xffff) + (config.target >> 16));
	h.udp = udp_of(bytes);
	return put_frame(ctx, &h, sizeof(h), s, bytes);
}

/* IPv6 requires the checksum (RFC 8200, 8.1). What it covers besides the message. */
struct covered {
	__u32 source[4], target[4];
	__be32 length, next;
	struct udphdr udp;
};

#define PART 480u /* bpf_csum_diff() takes 512 bytes per call */

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
	for (__u64 i = 0; i < 3; i++) /* clear stale bytes behind the message */
		if (bytes + i < words && bytes + i < sizeof(s->message))
			s->message[bytes + i] = 0;
#pragma unroll
	for (__u32 at = 0; at < sizeof(s->message); at += PART) {
		const __u32 most = sizeof(s->message) - at < PART ? sizeof(s->message) - at : PART;
		__u64 part = words > at ? words - at : 0;

		if (part > most)
			part = most;
		asm volatile("" : "+r"(part)); /* show the verifier the bound that follows */
		if (part && part <= most)
			sum = bpf_csum_diff(NULL, 0, (__be32 *)(s->message + at), part, sum);
	}
	sum = fold(sum);
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

	/* This end has an address: pass packets between the local translator and the carrier. */
	if (!config.out && bpf_xdp_get_buff_len(ctx) < RPT_LONGEST &&
	    !bpf_xdp_load_bytes(ctx, offsetof(struct ethhdr, h_proto), &proto, sizeof(proto)) &&
	    (proto == bpf_htons(ETH_P_ARP) || proto == bpf_htons(ETH_P_IP)))
		return XDP_PASS;
	/*
	 * The host sends on any interface, as for neighbour discovery. Those frames are too short.
	 */
	if (bpf_xdp_get_buff_len(ctx) < RPT_LONGEST || bpf_map_pop_elem(&ready, &slot)) {
		count(RPT_IDLE, 1);
		return XDP_DROP;
	}
	s = bpf_map_lookup_elem(&slots, &slot);
	if (!s)
		return XDP_DROP;
	n = s->count;
	bytes = n ? RPT_FIXED + (__u64)n * (s->v6 ? RPT_ITEM6 : RPT_ITEM4) : RPT_HEADER;
	/* Linux 6.1's verifier tracks 64-bit bounds only. */
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
		count(RPT_NOT_WRITTEN, 1);
		return XDP_DROP;
	}
	count(n ? RPT_SENT : RPT_BEATS, 1);
	count(RPT_SENT_REPORTS, n);
	return XDP_TX;
}

/* At the carrier's near end. Reports for this host are passed up. */
SEC("tc")
int send_report(struct __sk_buff *skb)
{
	return config.out ? bpf_redirect_neigh(config.out, NULL, 0, 0) : TC_ACT_UNSPEC;
}

/* The near end accepts XDP frames only with a program of its own. */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
