// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * kernel.bpf.c - the translator in the kernel: a packet of one report becomes one RoCEv2 frame, in
 * its place. xdp.bpf.c calls it for packets to the translator; what it does not take goes on to the
 * AF_XDP socket, as without it. So any doubt is resolved by passing.
 *
 * Taken are Key-Write and Key-Increment of one copy, and Append to lists with blocks of one item,
 * that need no acknowledgement, over IPv4; and of a reporter no report that is older than one that
 * was taken.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/bpf.h>

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* There are no calls with structures here. */
#define __inline__ inline __attribute__((always_inline))
#define inline inline __attribute__((always_inline))
#include "dta/io/kernel_shared.h"
#include "dta/store/hash.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* CRC-32 of eight bytes at a time; the loader computes it. */
const volatile __u32 crc_table[8][256] = {};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); /* the loader puts that of xdp.bpf.c here */
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader sets it */
	__type(key, __u32);
	__type(value, struct dta_kernel_queue);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KERNEL_REPORTERS);
	__type(key, __u32);
	__type(value, struct dta_kernel_reporter);
} reporters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, KERNEL_STORES);
	__type(key, __u64);
	__type(value, struct dta_kernel_store);
} stores SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, KERNEL_LISTS);
	__type(key, __u64);
	__type(value, __u64); /* the next block */
} lists SEC(".maps");

/* struct dta_kernel_event: what user space cannot see in the other maps. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* ---- a packet from its UDP header on ---- */

#define BYTES_MAX 128u
#define HEADER	  8u /* docs/dta-wire.md */
#define BLOCK	  40u
#define ITEM	  52u

struct packet {
	__u64 words[BYTES_MAX / 8];
};

/* A program's own stack has no unaligned words. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet);
} scratch SEC(".maps");

static inline __u16 at16(const __u8 *p, unsigned at)
{
	return bpf_ntohs(*(const __u16 *)(p + at));
}

static inline __u32 at32(const __u8 *p, unsigned at)
{
	return bpf_ntohl(*(const __u32 *)(p + at));
}

static inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32 << 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* As dta_xdp_datagram(): sums as the kernel's own way would check them. */
static inline bool sums_are_right(const struct iphdr *ip, struct packet *p)
{
	const __u32 *word = (const __u32 *)ip;
	const __u8 *b = (const __u8 *)p->words;
	const __u16 have = *(const __u16 *)(b + 6);
	__u64 pseudo;

	if (fold((__u64)word[0] + word[1] + word[2] + word[3] + word[4]) != 0xffff)
		return false;
	if (!have)
		return true;
	pseudo = (__u64)ip->saddr + ip->daddr + bpf_htons(IPPROTO_UDP) + *(const __u16 *)(b + 4);
	if (have == fold(pseudo))
		return true;
	return fold((__u32)bpf_csum_diff(NULL, 0, (void *)p->words, BYTES_MAX, 0) + pseudo) ==
	       0xffff;
}

/* ---- frames ---- */

static inline __u32 crc_word(__u32 c, __u32 w)
{
	c ^= w;
	return crc_table[3][c & 255] ^ crc_table[2][c >> 8 & 255] ^ crc_table[1][c >> 16 & 255] ^
	       crc_table[0][c >> 24];
}

static inline __u32 crc_pair(__u32 c, __u64 w)
{
	const __u32 high = (__u32)(w >> 32);

	c ^= (__u32)w;
	return crc_table[7][c & 255] ^ crc_table[6][c >> 8 & 255] ^ crc_table[5][c >> 16 & 255] ^
	       crc_table[4][c >> 24] ^ crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^
	       crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
}

/*
 * Sends a frame: pairs of words behind the PSN, and then, with FETCH_ADD, one word of zeros.
 */
static inline int send(struct xdp_md *ctx, struct dta_kernel_queue *q, unsigned shape,
		       const __u64 *words, unsigned pairs, bool add)
{
	const struct dta_kernel_shape *s = &q->shape[shape];
	const unsigned bytes = KERNEL_HEAD + 4 + 8 * pairs + (add ? 4 : 0) + 4;
	const int more = (int)bytes - (int)(ctx->data_end - ctx->data);
	__u32 psn, crc, word;
	__u8 *f, *end;

	if (bpf_xdp_adjust_tail(ctx, more))
		goto failed;
	f = (__u8 *)(long)ctx->data;
	end = (__u8 *)(long)ctx->data_end;
	if (f + bytes > end)
		goto failed;
	for (unsigned i = 0; i < 48; i += 8)
		*(__u64 *)(f + i) = *(const __u64 *)(s->head + i);
	*(__u16 *)(f + 48) = *(const __u16 *)(s->head + 48);
	/* Before it has a PSN, so that user space knows of every frame whose PSN it takes back. */
	q->frames++;
	q->sent_adds += add;
	q->bytes += add ? 8 : 8 * (pairs - 2);
	psn = __sync_fetch_and_add(&q->psn, 1) & KERNEL_PSN;
	word = bpf_htonl(psn | ((psn % KERNEL_ACK_EVERY) == 0 ? 1u << 31 : 0));
	q->adds_at[psn & (KERNEL_FLIGHT - 1)] = q->adds;
	q->adds += add;
	*(__u32 *)(f + KERNEL_HEAD) = word;
	crc = crc_word(~s->crc, word);
	f += KERNEL_HEAD + 4;
	for (unsigned i = 0; i < pairs; i++) {
		*(__u64 *)(f + 8 * i) = words[i];
		crc = crc_pair(crc, words[i]);
	}
	f += 8 * pairs;
	if (add) {
		*(__u32 *)f = 0;
		crc = crc_word(crc, 0);
		f += 4;
	}
	*(__u32 *)f = ~crc;
	return q->interface == ctx->ingress_ifindex ? XDP_TX : (int)bpf_redirect(q->interface, 0);
failed:
	q->failed++;
	return XDP_DROP;
}

static inline int send_add(struct xdp_md *ctx, struct dta_kernel_queue *q, __u64 addr, __u32 rkey,
			   __u64 addend)
{
	const __u64 words[3] = {bpf_cpu_to_be64(addr), bpf_htonl(rkey) | addend << 32,
				addend >> 32};

	return send(ctx, q, 0, words, 3, true);
}

/* words: room for the RDMA header, then the unit. */
static inline int send_write(struct xdp_md *ctx, struct dta_kernel_queue *q, __u64 addr, __u32 rkey,
			     __u64 *words, unsigned unit)
{
	words[0] = bpf_cpu_to_be64(addr);
	words[1] = bpf_htonl(rkey) | (__u64)bpf_htonl(8 * unit) << 32;
	return send(ctx, q, unit, words, 2 + unit, false);
}

/* ---- reports ---- */

enum { OTHER = -1 };

struct item {
	struct dta_hash h;
	__u64 value[2]; /* with zeros behind it */
};

/* Lengths are constants to XXH3, which is a different function for each. */
static inline bool read_item(const __u8 *b, unsigned key_bytes, __u64 seed, struct item *i)
{
#define CASE(n)                                             \
	case n:                                             \
		i->h = dta_hash(b + ITEM, n, seed);         \
		i->value[0] = *(__u64 *)(b + ITEM + n);     \
		i->value[1] = *(__u64 *)(b + ITEM + n + 8); \
		return true;

	switch (key_bytes) {
		CASE(4)
		CASE(8)
		CASE(13)
		CASE(16)
		CASE(37)
	}
	return false;
}

static inline int increment(struct xdp_md *ctx, struct dta_kernel_queue *q,
			    const struct dta_kernel_store *s, const struct item *i)
{
	return send_add(ctx, q, s->addr + 8 * dta_slot(i->h, 0, s->slots), s->rkey, i->value[0]);
}

static inline int keywrite(struct xdp_md *ctx, struct dta_kernel_queue *q,
			   const struct dta_kernel_store *s, const struct item *i)
{
	const __u64 slot = dta_slot(i->h, 0, s->slots);
	__u64 words[5];

	q->keywrites++;
	words[3] = i->value[0];
	words[4] = i->value[1];
	if (s->value_bytes == 16) {
		words[2] = dta_check(i->h, i->value, 16);
		return send_write(ctx, q, s->addr + 24 * slot, s->rkey, words, 3);
	}
	words[2] = s->value_bytes == 8 ? dta_check(i->h, i->value, 8)
				       : dta_check(i->h, i->value, 4);
	return send_write(ctx, q, s->addr + 16 * slot, s->rkey, words, 2);
}

static inline int append(struct xdp_md *ctx, struct dta_kernel_queue *q,
			 const struct dta_kernel_store *s, const __u8 *b, __u64 *next)
{
	const __u32 list = at32(b, ITEM);
	const __u64 block = __sync_fetch_and_add(next, 1), at = block % s->slots;
	const __u64 addr = s->addr + list * s->list_bytes;
	__u64 words[5];

	words[2] = *(const __u64 *)(b + ITEM + 4);
	if (s->value_bytes == 16) {
		words[3] = *(const __u64 *)(b + ITEM + 12);
		words[4] = dta_tail_of(s->slots, s->seed, list, s->lane, block, words + 2, 16, 1);
		return send_write(ctx, q, addr + 24 * at, s->rkey, words, 3);
	}
	words[3] = dta_tail_of(s->slots, s->seed, list, s->lane, block, words + 2, 8, 1);
	return send_write(ctx, q, addr + 16 * at, s->rkey, words, 2);
}

/* ---- order ---- */

static inline bool is_of(const struct dta_kernel_reporter *r, const struct iphdr *ip, const __u8 *b)
{
	return r->address == ip->saddr && r->reporter == at32(b, HEADER + 8) &&
	       r->tenant == at16(b, HEADER + 4) && r->incarnation == at32(b, HEADER + 24);
}

/* Tells user space, and only then takes the report. */
static inline bool take_telling(struct dta_kernel_reporter *r, __u32 place, __u64 state,
				__u32 sequence, __u32 missing, const struct iphdr *ip,
				const __u8 *b)
{
	struct dta_kernel_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e)
		return false;
	if (__sync_val_compare_and_swap(&r->state, state, KERNEL_STATE(KERNEL_TAKING, state)) !=
	    state) {
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
		return false;
	}
	if (!missing) {
		r->address = ip->saddr;
		r->reporter = at32(b, HEADER + 8);
		r->tenant = at16(b, HEADER + 4);
		r->incarnation = at32(b, HEADER + 24);
		r->port = at16(b, 0);
	}
	e->place = place;
	e->first = sequence - missing;
	e->missing = missing;
	e->zero = 0;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	__sync_lock_test_and_set(&r->state, KERNEL_STATE(KERNEL_LEASED, sequence + 1));
	return true;
}

/* Whether the reporter's report is the kernel's to take, which it then is. */
static inline bool take(const struct iphdr *ip, const __u8 *b)
{
	const __u32 sequence = at32(b, HEADER + 12);
	const __u32 place = dta_kernel_place(ip->saddr, at16(b, HEADER + 4), at32(b, HEADER + 8));
	struct dta_kernel_reporter *r = bpf_map_lookup_elem(&reporters, &place);
	__u32 missing;
	__u64 state;

	if (!r)
		return false;
	state = *(volatile __u64 *)&r->state;
	/* A reporter begins at 0: then there is nothing that user space would know better. */
	if (!state)
		return !sequence && take_telling(r, place, 0, 0, 0, ip, b);
	missing = sequence - (__u32)state;
	if (state >> 32 != KERNEL_LEASED || missing > KERNEL_JUMP || !is_of(r, ip, b))
		return false;
	if (missing)
		return take_telling(r, place, state, sequence, missing, ip, b);
	return __sync_val_compare_and_swap(&r->state, state,
					   KERNEL_STATE(KERNEL_LEASED, sequence + 1)) == state;
}

/* Whether the queue pair has room for another frame. */
static inline bool room(const struct dta_kernel_queue *q, bool add)
{
	const __u32 acked = *(const volatile __u32 *)&q->acked & KERNEL_PSN;
	const __u32 flight = (*(const volatile __u32 *)&q->psn - acked) & KERNEL_PSN;

	if (!add || !flight)
		return flight < KERNEL_WRITES;
	return flight < KERNEL_FLIGHT &&
	       q->adds - q->adds_at[acked & (KERNEL_FLIGHT - 1)] < q->adds_max;
}

/* ---- packets ---- */

static inline bool known_key(unsigned bytes)
{
	return bytes == 4 || bytes == 8 || bytes == 13 || bytes == 16 || bytes == 37;
}

/* A packet of one report that asks for nothing: docs/dta-wire.md. bytes: of its UDP datagram. */
static inline bool plain(const __u8 *b, __u32 bytes)
{
	const __u32 key = b[BLOCK + 5], value = at16(b, BLOCK + 6);

	return at32(b, HEADER) == 0xd7020001 && at16(b, HEADER + 6) == bytes - 8 &&
	       at32(b, HEADER + 28) == 1 && !b[BLOCK + 1] && at16(b, BLOCK + 2) == 1 &&
	       !at16(b, BLOCK + 10) && ITEM + key + value == bytes;
}

static inline int translate_to(struct xdp_md *ctx, struct dta_kernel_queue *q, __u32 number,
			       struct packet *p, enum dta_kernel_pass *why)
{
	const void *end = (void *)(long)ctx->data_end;
	const struct ethhdr *eth = (void *)(long)ctx->data;
	const struct iphdr *ip = (void *)(eth + 1);
	const struct dta_kernel_store *s;
	const __u8 *b = (const __u8 *)p->words;
	__u64 key, *next = NULL;
	__u32 bytes, key_bytes;
	struct item item = {};

	*why = KERNEL_PASS_DOWN;
	if (!*(volatile __u32 *)&q->open)
		return OTHER;
	*why = KERNEL_PASS_PACKET;
	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return OTHER;
	bytes = bpf_ntohs(ip->tot_len) - sizeof(*ip);
	if (bytes < ITEM + 8 || bytes > BYTES_MAX ||
	    (__u32)(ctx->data_end - ctx->data) != sizeof(*eth) + sizeof(*ip) + bytes)
		return OTHER;
	for (unsigned i = 0; i < BYTES_MAX / 8; i++)
		p->words[i] = 0;
	if (bpf_xdp_load_bytes(ctx, sizeof(*eth) + sizeof(*ip), p->words, bytes))
		return OTHER;
	if (at16(b, 4) != bytes || !plain(b, bytes) || !sums_are_right(ip, p))
		return OTHER;
	*why = KERNEL_PASS_STORE;
	key = KERNEL_STORE_KEY(number, at16(b, HEADER + 4), at16(b, BLOCK + 8));
	s = bpf_map_lookup_elem(&stores, &key);
	key_bytes = b[BLOCK + 5];
	if (!s || s->kind != b[BLOCK] || s->value_bytes != at16(b, BLOCK + 6) ||
	    !known_key(key_bytes))
		return OTHER;
	if (s->kind == SL_STORE_APPEND) {
		key = KERNEL_LIST_KEY(key, at32(b, ITEM));
		if (b[BLOCK + 4] || key_bytes != 4 || at32(b, ITEM) >= s->lists)
			return OTHER;
		next = bpf_map_lookup_elem(&lists, &key);
		if (!next)
			return OTHER;
	} else if (b[BLOCK + 4] != 1) {
		return OTHER;
	}
	*why = KERNEL_PASS_FULL;
	if (!room(q, s->kind == SL_STORE_INCREMENT))
		return OTHER;
	*why = KERNEL_PASS_ORDER;
	if (!take(ip, b))
		return OTHER;
	if (next)
		return append(ctx, q, s, b, next);
	read_item(b, key_bytes, s->seed, &item);
	return s->kind == SL_STORE_KEYWRITE ? keywrite(ctx, q, s, &item)
					    : increment(ctx, q, s, &item);
}

SEC("xdp.frags")
int translate(struct xdp_md *ctx)
{
	const __u32 number = ctx->rx_queue_index;
	struct dta_kernel_queue *q = bpf_map_lookup_elem(&queues, &number);
	const __u32 zero = 0;
	struct packet *p = bpf_map_lookup_elem(&scratch, &zero);
	enum dta_kernel_pass why;
	int done;

	if (q && p) {
		done = translate_to(ctx, q, number, p, &why);
		if (done != OTHER)
			return done;
		if (why < KERNEL_PASSES)
			q->passed[why]++;
	}
	return bpf_redirect_map(&sockets, number, XDP_PASS);
}

/* ---- answers ---- */

#define BTH	   42u
#define ACK	   0x11
#define ATOMIC_ACK 0x12

/* The iCRC of an answer by IPv4: fields that routers change count as ones. */
static inline __u32 icrc_of(const __u8 *ip, bool atomic)
{
	const __u64 *w = (const __u64 *)ip;
	__u32 c = crc_pair(~0u, ~0ull);

	c = crc_pair(c, w[0] | 0xff00);
	c = crc_pair(c, w[1] | 0xffff00ff);
	c = crc_pair(c, w[2]);
	c = crc_pair(c, w[3] | 0xffff0000);
	c = crc_pair(c, w[4] | 0xff);
	if (atomic) {
		c = crc_pair(c, w[5]);
		return ~crc_word(c, *(const __u32 *)(ip + 48));
	}
	return ~crc_word(c, *(const __u32 *)(ip + 40));
}

/*
 * Takes acknowledgements, of which each FETCH_ADD has one. What is not as expected, and what asks
 * for a decision, goes to the packet socket.
 */
SEC("xdp.frags")
int answers(struct xdp_md *ctx)
{
	const __u8 *f = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct iphdr *ip = (const void *)(f + ETH_HLEN);
	struct dta_kernel_queue *q;
	__u32 number, qpn, acked, after;
	bool atomic;

	/* An ACK with its iCRC. */
	if (f + BTH + 20 > end || ((const struct ethhdr *)f)->h_proto != bpf_htons(ETH_P_IP) ||
	    f[ETH_HLEN] != 0x45 || ip->protocol != IPPROTO_UDP ||
	    ip->frag_off & bpf_htons(0x3fff) || at16(f, BTH - 6) != 4791 ||
	    (f[BTH] != ACK && f[BTH] != ATOMIC_ACK))
		return XDP_PASS;
	atomic = f[BTH] == ATOMIC_ACK;
	if (at16(f, 16) != (atomic ? 56 : 48) || at16(f, BTH - 4) != at16(f, 16) - 20 ||
	    ctx->data_end - ctx->data != ETH_HLEN + at16(f, 16) || f[BTH + 12] & 0x60)
		return XDP_PASS;
	qpn = at32(f, BTH + 4) & KERNEL_PSN;
	number = qpn & (KERNEL_QUEUES - 1);
	q = bpf_map_lookup_elem(&queues, &number);
	if (!q || !*(volatile __u32 *)&q->open || q->qpn != qpn || q->peer != ip->saddr)
		return XDP_PASS;
	if (atomic) {
		if (f + BTH + 28 > end ||
		    icrc_of(f + ETH_HLEN, true) != *(const __u32 *)(f + BTH + 24))
			return XDP_PASS;
	} else if (icrc_of(f + ETH_HLEN, false) != *(const __u32 *)(f + BTH + 16)) {
		return XDP_PASS;
	}
	acked = *(volatile __u32 *)&q->acked;
	after = (at32(f, BTH + 8) + 1) & KERNEL_PSN;
	/* The answer to a question, which says that nothing moved. */
	if (after == acked)
		return XDP_PASS;
	/* One for what is in flight; others are late. */
	if (((after - acked) & KERNEL_PSN) <= ((*(volatile __u32 *)&q->psn - acked) & KERNEL_PSN))
		__sync_val_compare_and_swap(&q->acked, acked, after);
	return XDP_DROP;
}
