/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * layer_state.bpf.h - part of layer.bpf.c: the state of sockets and of segments in transit, and the
 * slots of histograms.
 */
#ifndef SL_SOURCE_TCP_BPF_LAYER_STATE_BPF_H
#define SL_SOURCE_TCP_BPF_LAYER_STATE_BPF_H

#include "bucket.h"
#include "common.bpf.h"
#include "layer_shared.h"
#include "line.h"

#define IN_BITS		 14 /* log2 of the size of the incoming-skb table */
#define OUT_BITS	 14 /* log2 of the size of the outgoing-segment table */
#define OUT_STRETCH_BITS 6  /* log2 of the number of places in layer_out per socket */
#define OUT_WAYS	 4  /* number of places in layer_out per segment */
#define OUT_NOTHING	 0xffffffffu
#define IP_BITS		 12 /* log2 of the size of the sending-socket table */
#define NEAR_BITS	 12 /* log2 of the size of the table of sockets by address */
/* maximum number of unread segments, and of unsent send calls, per socket */
#define RING	 16
#define REQUESTS 4 /* maximum number of responses per socket that wait for the driver */
#define NO_SLOT	 0xffffffffu
#define KEPT	 256 /* closed flows kept while other slots are free */
/* 10 s: passing through layers without a queue never takes longer. */
#define SHORT_MAX 10000000000ull

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inet_bind_bucket___sl {
	signed char fastreuse;
};
struct inet_connection_sock___sl {
	struct inet_bind_bucket___sl *icsk_bind_hash;
};
struct iov_iter {
	u64 count;
};
struct msghdr {
	struct iov_iter msg_iter;
};
struct list_head {
	struct list_head *next;
};
struct bpf_nf_ctx {
	struct sk_buff *skb;
};
#pragma clang attribute pop

/* An incoming segment. Times are ktime in ns; 0 means unknown. */
struct segment {
	u64 nic, ip, tcp;
	u32 end, length, ack;
	u32 number; /* number of a segment in a ring, starting at 1 */
};

struct send {
	u64 time;
	u32 seq, end; /* range of the bytes that the call wrote or tried to write */
};

struct request {
	u32 seq, length, response, pipelined;
	struct segment in; /* the segment with the last byte; unknown if .end and .length are 0 */
	u64 copied, sent, ip, queued;
};

/*
 * The driver often receives a segment on another CPU than the application's. Each of the two writes
 * its own cache lines, and only the segment's line moves between them, once.
 */
struct layer_sock {
	u32 flow, group; /* slots of the flow and its group */
	u32 generation;	 /* generation of the filter applied to the socket */
	u8 wanted, role, closed, pad;
	u64 sk;	  /* owner of an element of layer_near; 0: free; 1: being claimed */
	u32 hash; /* skc_hash of the socket */
	u32 pad2[9];
	/* Written by the receiving side. */
	u32 read_head; /* number of segments so far; the ring holds the last of them */
	u32 tail_seen; /* value of read_tail when it was last read */
	u32 pad3[14];
	struct {
		struct segment segment;
		u64 pad[3];
	} read[RING];
	/* Written by the application's side. */
	u32 active[REQUESTS]; /* 1 if this response waits for the driver */
	u32 read_tail, send_head, send_tail, request_head;
	u32 base;   /* end of the bytes that belong to answered requests */
	u32 copied; /* end of the bytes that the application has read */
	u64 copied_time;
	struct segment last; /* the segment with the byte before .copied */
	struct send send[RING];
	struct request request[REQUESTS];
	struct tcp_flow_key key;
	u64 pad4[2];
};
_Static_assert(!(sizeof(struct layer_sock) % 64), "lines of its own");

struct in_stamp {
	u64 skb, nic, ip, tcp;
};

/* The last segment that a socket handed to IP, and its place in layer_out once queued. */
struct ip_stamp {
	u64 sk, skb, ns;
	u32 out; /* place in layer_out; OUT_NOTHING if not queued, or without data */
	u32 pad;
};

struct out_stamp {
	u64 sk;
	u32 seq;
	u32 request; /* index of the request + 1; 0 means none */
	u64 sent, ip, queued;
	u32 length, ack;
	u32 done;
	u32 flow, group; /* slots of the socket when the segment was queued */
	u32 pad;
};

struct slot {
	u64 word[SL_SLOT_WORDS];
};
MAP(layer_socks, SK_STORAGE, BPF_F_NO_PREALLOC, 0, int, struct layer_sock);

/*
 * Sockets' state by address. A lookup takes a fifth of the time of the socket storage lookup, which
 * is used for sockets whose place is taken. A mappable array starts at a page, and thus at a cache
 * line.
 */
MAP(layer_near, ARRAY, BPF_F_MMAPABLE, 1 << NEAR_BITS, u32, struct layer_sock);

MAP(layer_in, ARRAY, BPF_F_MMAPABLE, 1 << IN_BITS, u32, struct in_stamp);
MAP(layer_out, ARRAY, BPF_F_MMAPABLE, 1 << OUT_BITS, u32, struct out_stamp);
MAP(layer_ip, ARRAY, BPF_F_MMAPABLE, 1 << IP_BITS, u32, struct ip_stamp);

/* A region of kind SL_REGION_LAYERS, in elements of the size of a slot: see layer_shared.h. */
MAP(layer_table, ARRAY, BPF_F_MMAPABLE, 1, u32, struct slot);

/*
 * Free slots, reused in the order of release, so that a closed flow stays readable for a long time.
 */
QUEUE(layer_free_flows, 1, u32);
QUEUE(layer_free_groups, 1, u32);
MAP(layer_group_of, HASH, 0, 1, struct tcp_layer_group_key, u32);

/* Number of sockets per group. User space frees slots of groups without any (layer_groups.c). */
MAP(layer_group_uses, ARRAY, BPF_F_MMAPABLE, 1, u32, u64);
RING_BUFFER(layer_records, 1 << 20);

_Static_assert(SL_CAUSES <= 4 * SL_LINE_CELLS, "cause_only() counts in four lines");

/* Set before loading: number of CPUs, and of elements in the table. */
const volatile __u32 cpus = 1, flow_slots, group_slots;
__s64 waiting; /* number of freed flow slots that are not yet reused */

/* Bit i: deliver records of type enum tcp_record_kind i. Changed at run time. */
__u32 trace_kinds;

/* ---- slots ---- */

/* Two contexts may add to the same line: both additions are atomic, and they commute. */
static __always_inline void word_add(struct slot *s, u32 i, u64 n)
{
	u32 check = i | 7;
	u64 k = line_k[i & 7];

	if (check >= SL_SLOT_WORDS || i >= SL_SLOT_WORDS)
		return;
	__sync_fetch_and_add(&s->word[i], n);
	__sync_fetch_and_add(&s->word[check], n * k);
}

static __always_inline struct slot *element_at(u32 at)
{
	return bpf_map_lookup_elem(&layer_table, &at);
}

static __always_inline struct slot *flow_at(u32 slot)
{
	return slot < flow_slots ? element_at(TCP_LAYERS_FIRST_ELEMENT + cpus + slot) : NULL;
}

static __always_inline struct slot *group_at(u32 slot)
{
	return slot < group_slots ? element_at(TCP_LAYERS_FIRST_ELEMENT + cpus + flow_slots + slot)
				  : NULL;
}

static __always_inline void hot_add(enum sl_layers_hot_cell cell)
{
	struct slot *s = element_at(0);

	if (s)
		line_add_atomic(s->word + TCP_LAYERS_HOT_WORD, cell, 1);
}

/* Returns a slot that was never used; a result of at least `least` means that none is left. */
static __always_inline u32 slot_new(enum sl_layers_hot_cell used, u32 least)
{
	struct slot *s = element_at(0);
	u64 *hot = s ? s->word + TCP_LAYERS_HOT_WORD : NULL;

	return hot && hot[used] < least ? (u32)line_add_atomic(hot, used, 1) : least;
}

static __always_inline void cause_only(u32 cause)
{
	struct slot *own = element_at(TCP_LAYERS_FIRST_ELEMENT + bpf_get_smp_processor_id());
	u32 word = cause / SL_LINE_CELLS * 8 + cause % SL_LINE_CELLS;

	/* The compiler knows that the value is small, but the verifier does not. */
	asm volatile("" : "+r"(word));
	/* The line belongs to this CPU, but a program that interrupts this one may write it. */
	if (own)
		word_add(own, word & 31, 1);
}

/* Returns the cell that counts x ns; see SL_LAYER_CELLS. */
static __always_inline u32 bucket_cell(u64 x)
{
	int i;

	if (!x)
		return SL_LAYER_ZERO;
	i = x >> 36 ? SL_LAYER_FIRST + SL_LAYER_BUCKET_COUNT : bucket_of_seconds(x);
	if (i < SL_LAYER_FIRST)
		return SL_LAYER_ZERO;
	if (i >= SL_LAYER_FIRST + SL_LAYER_BUCKET_COUNT)
		return SL_LAYER_OVER;
	return SL_LAYER_BUCKETS + (u32)(i - SL_LAYER_FIRST);
}

static __always_inline u32 cell_word(u32 layer, u32 cell)
{
	return SL_SLOT_HISTOGRAMS + layer * 64 + cell / 7 * 8 + cell % 7;
}

/*
 * Returns a freed slot if enough slots are waiting, so that the oldest was readable for a long
 * time. Otherwise returns a new slot while there are any: readers only read slots that have been
 * used.
 */
static __always_inline bool flow_slot_take(u32 *index)
{
	if (waiting < KEPT) {
		*index = slot_new(SL_LAYERS_FLOWS_USED, flow_slots);
		if (*index < flow_slots)
			return true;
	}
	if (bpf_map_pop_elem(&layer_free_flows, index))
		return false;
	__sync_fetch_and_add(&waiting, -1);
	return true;
}

/* Writes the two lines that describe the owner. owner: cells of the first line. */
static __always_inline void slot_begin(struct slot *s, const u64 owner[7], u32 netns)
{
	u64 check = 0;

	s->word[8] = bpf_ktime_get_ns();
	s->word[10] = netns;
	s->word[15] = s->word[8] * line_k[0] + s->word[10] * line_k[2];
	for (u32 i = 0; i < 7; i++) {
		s->word[i] = owner[i];
		check += owner[i] * line_k[i];
	}
	s->word[7] = check;
}

/*
 * Zeroes all but word 0 and the check word of its line, which the caller writes. A line whose check
 * word is 0 is zero already, like most lines of a short connection. memset() is not available here.
 */
static __always_inline void slot_clear(struct slot *s)
{
	for (u32 i = 1; i < 7; i++)
		WRITE(s->word[i], 0);
	for (u32 line = 1; line < SL_SLOT_WORDS / 8; line++) {
		volatile u64 *w = &s->word[line * 8];

		if (!w[7])
			continue;
		for (u32 i = 0; i < 8; i++)
			w[i] = 0;
	}
}

/* Assigns a free slot to this flow: zeroes it and increments its generation. */
static __noinline u32 flow_slot(const struct layer_sock *st)
{
	const u64 *local = (const u64 *)st->key.local, *remote = (const u64 *)st->key.remote;
	u64 generation, owner[7];
	struct slot *s;
	u32 index;

	if (!flow_slot_take(&index)) {
		cause_only(SL_CAUSE_FLOWS_FULL);
		return NO_SLOT;
	}
	s = flow_at(index);
	if (!s)
		return NO_SLOT;
	generation = (s->word[SL_SLOT_STATE] >> 16) + 1;
	/* marked free first, to tell readers that the owner is gone */
	s->word[SL_SLOT_STATE] = generation << 16;
	s->word[7] = (generation << 16) * line_k[0];
	slot_clear(s);
	owner[0] = generation << 16 | (u64)st->role << 8 | SL_SLOT_OPEN;
	owner[1] = local[0];
	owner[2] = local[1];
	owner[3] = remote[0];
	owner[4] = remote[1];
	owner[5] = st->key.local_port | (u64)st->key.remote_port << 16 | (u64)st->key.family << 32 |
		   (u64)st->key.mapped << 40;
	owner[6] = st->key.cgroup;
	slot_begin(s, owner, st->key.netns);
	hot_add(SL_LAYERS_OPENED);
	return index;
}

/* Returns the slot of the flow's group, or 0 if there is no room. */
static __noinline u32 group_slot(const struct layer_sock *st)
{
	const u64 *remote = (const u64 *)st->key.remote;
	struct tcp_layer_group_key key = {
		.cgroup = st->key.cgroup,
		.port = st->role == SL_ROLE_CLIENT ? st->key.remote_port : st->key.local_port,
		.role = st->role,
		.family = st->key.family,
		.netns = st->key.netns,
	};
	u64 generation, owner[7];
	u32 *found, index;
	struct slot *s;

	__builtin_memcpy(key.remote, st->key.remote, 16);
	found = bpf_map_lookup_elem(&layer_group_of, &key);
	if (found)
		return *found;
	if (bpf_map_pop_elem(&layer_free_groups, &index)) {
		index = slot_new(SL_LAYERS_GROUPS_USED, group_slots);
		if (index >= group_slots) {
			cause_only(SL_CAUSE_GROUPS_FULL);
			return 0;
		}
	}
	if (bpf_map_update_elem(&layer_group_of, &key, &index, BPF_NOEXIST)) {
		bpf_map_push_elem(&layer_free_groups, &index, 0);
		found = bpf_map_lookup_elem(&layer_group_of, &key);
		return found ? *found : 0; /* another CPU was faster */
	}
	s = group_at(index);
	if (!s)
		return 0;
	/* A reused slot already has its next generation. */
	generation = s->word[SL_SLOT_STATE] >> 16;
	owner[0] = (generation ?: 1) << 16 | (u64)st->role << 8 | SL_SLOT_OPEN;
	owner[1] = owner[2] = 0;
	owner[3] = remote[0];
	owner[4] = remote[1];
	owner[5] = key.port | (u64)key.family << 32;
	owner[6] = key.cgroup;
	slot_begin(s, owner, key.netns);
	return index;
}

/* ---- sockets ---- */

/*
 * Derives the role of an existing socket: connect() without bind() creates a port bucket of its
 * own, with fastreuse -1 (inet_hash_connect()); an accepted socket uses the listener's bucket.
 */
static __always_inline u8 role_of(const struct sock *sk)
{
	const struct inet_connection_sock___sl *icsk = (const void *)sk;
	struct inet_bind_bucket___sl *bucket = BPF_CORE_READ(icsk, icsk_bind_hash);

	if (!bucket)
		return SL_ROLE_UNKNOWN;
	return BPF_CORE_READ(bucket, fastreuse) == -1 ? SL_ROLE_CLIENT : SL_ROLE_SERVER;
}

static __always_inline void group_use(u32 group, s64 n)
{
	u64 *uses = group ? bpf_map_lookup_elem(&layer_group_uses, &group) : NULL;

	if (uses)
		__sync_fetch_and_add(uses, n);
}

static __noinline int decide(struct layer_sock *st, const struct tcp_kernel_filter *f)
{
	if (!st || !f)
		return 0;
	st->generation = f->generation;
	st->wanted = flow_wanted(f, &st->key);
	if (!st->wanted || st->flow != NO_SLOT || st->closed)
		return 0;
	st->flow = flow_slot(st);
	if (!st->group) {
		st->group = group_slot(st);
		group_use(st->group, 1);
	}
	return 0;
}

#endif
