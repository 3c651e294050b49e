/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * layer_note.bpf.h - part of layer.bpf.c: deferred counting. A program that runs per segment only
 * writes a note of 32 bytes, within one cache line, into its CPU's buffer. Every 10 ms, a timer
 * processes the notes of all CPUs. It is the histograms' only writer, so their lines need no
 * atomics and do not bounce between CPUs, which used to be most of the programs' cost.
 */
#ifndef SL_SOURCE_TCP_BPF_LAYER_NOTE_BPF_H
#define SL_SOURCE_TCP_BPF_LAYER_NOTE_BPF_H

#include "layer_state.bpf.h"

#define NOTES 4096 /* number of notes per CPU; a power of two */
/* programs that may be interrupted between the check and the reservation */
#define NOTES_SLACK 16
/* notes of all CPUs per round of the timer: about half a millisecond */
#define ROUND_NOTES	8192
#define ROUND_NS	10000000 /* maximum delay of a histogram */
#define ROUND_MOST_NS	2000000	 /* time limit of a round, even on a slow machine */
#define SOON_NS		100000 /* delay of the next round if a CPU's notes fill up; must not be 0 */
#define CLOCK_MONOTONIC 1

struct note {
	/* 8 bits per count (enum sl_slot_count); bits 56-59, 60-63: layer + 1 of ns[0], ns[1] */
	u64 what;
	u64 ns[2];
	u32 flow, group;
};

struct notes {
	/* head: index of the next note; incremented atomically by programs on this CPU */
	u64 head, pad[7];
	u64 tail, pad2[7]; /* tail: index of the next note to count, written by the timer */
	struct note note[NOTES];
};

/* One element per CPU. The map is mappable so that elements begin at a cache line. */
MAP(layer_notes, ARRAY, BPF_F_MMAPABLE, 1, u32, struct notes);

struct count_timer {
	struct bpf_timer timer;
};
MAP(layer_timer, ARRAY, 0, 1, u32, struct count_timer);

/* A flow that ended; queued at most once. Its slot is freed once all notes on it are counted. */
struct ended {
	u64 ns;
	u32 flow, pad;
};
QUEUE(layer_ended, 1, struct ended);

/* Written by many CPUs. */
__u32 count_armed; /* state of the timer; 1: runs within ROUND_NS; 2: within SOON_NS */
__u64 ended_head;  /* number of flows put into layer_ended */
/* Used only by the timer. */
__u64 ended_tail, ended_settled;
__u32 first_cpu; /* the CPU whose notes a round counts first */
bool count_ready;

/* ---- the timer ---- */

/* Adds to a slot without atomics: the timer is the only writer of its counts and histograms. */
static __always_inline void word_alone(struct slot *s, u32 i, u64 n)
{
	u32 check;
	u64 k;

	/* The verifier forgets the bounds of values read twice, and misses that check >= i. */
	asm volatile("" : "+r"(i));
	check = i | 7;
	asm volatile("" : "+r"(check));
	if (check >= SL_SLOT_WORDS || i >= SL_SLOT_WORDS)
		return;
	asm volatile("" : "+r"(i));
	k = line_k[i & 7];
	WRITE(s->word[i], s->word[i] + n);
	WRITE(s->word[check], s->word[check] + n * k);
}

/* Not static, so that the verifier checks it once instead of per caller. */
__noinline int count_in(struct slot *s, u64 what, u32 a, u32 b, const struct note *n)
{
	if (!s || !n)
		return 0;
	for (u32 i = 0; i < 7; i++)
		if (what >> 8 * i & 255)
			word_alone(s, SL_SLOT_COUNTS + i, what >> 8 * i & 255);
	if (a) {
		word_alone(s, a, 1);
		word_alone(s, cell_word((what >> 56 & 15) - 1, SL_LAYER_SUM), n->ns[0]);
	}
	if (b) {
		word_alone(s, b, 1);
		word_alone(s, cell_word((what >> 60) - 1, SL_LAYER_SUM), n->ns[1]);
	}
	return 0;
}

struct round {
	struct notes *of; /* notes of the current CPU */
	u64 until;
	u32 left;    /* number of notes that this round may still count; 0 means it was cut short */
	u32 more;    /* this round did some work, or more is left */
	u32 partial; /* notes older than the round are left */
};

static long count_one(u32 index, struct round *r)
{
	struct notes *of = r->of;
	u32 a = 0, b = 0;
	struct note *n;
	u64 what;

	if (!of)
		return 1;
	if (!(index & 15) && bpf_ktime_get_ns() > r->until) {
		r->left = 0;
		r->partial = 1;
		return 1;
	}
	n = &of->note[of->tail & (NOTES - 1)];
	what = READ(n->what); /* pairs with the store in publish() */
	if (!what) {
		r->partial = 1; /* the note is still being written */
		return 1;
	}
	if (what >> 56 & 15)
		a = cell_word((what >> 56 & 15) - 1, bucket_cell(n->ns[0]));
	if (what >> 60)
		b = cell_word((what >> 60) - 1, bucket_cell(n->ns[1]));
	count_in(flow_at(n->flow), what, a, b, n);
	count_in(group_at(n->group), what, a, b, n);
	WRITE(n->what, 0);
	WRITE(of->tail, of->tail + 1);
	return 0;
}

static long count_cpu(u32 index, struct round *r)
{
	u32 cpu = (index + first_cpu) % cpus;
	struct notes *of = bpf_map_lookup_elem(&layer_notes, &cpu);
	u64 waiting;

	if (!of)
		return 1;
	waiting = READ(of->head) - of->tail;
	if (!waiting)
		return 0;
	r->more = 1;
	if (waiting > r->left) {
		waiting = r->left;
		r->partial = 1;
	}
	r->of = of;
	r->left -= (u32)waiting;
	bpf_loop((u32)waiting, count_one, r, 0);
	return !r->left;
}

static long anything_cpu(u32 cpu, struct round *r)
{
	struct notes *of = bpf_map_lookup_elem(&layer_notes, &cpu);

	if (of && READ(of->head) != of->tail)
		r->more = 1;
	return 0;
}

static long free_flow(u32 index, void *unused)
{
	struct ended e;
	struct slot *s;

	if (bpf_map_pop_elem(&layer_ended, &e))
		return 1;
	ended_tail++;
	s = flow_at(e.flow);
	if (s) {
		word_alone(s, SL_SLOT_END, e.ns);
		word_alone(s, SL_SLOT_STATE, SL_SLOT_CLOSED - SL_SLOT_OPEN);
		hot_add(SL_LAYERS_CLOSED);
		bpf_map_push_elem(&layer_free_flows, &e.flow, 0);
		__sync_fetch_and_add(&waiting, 1);
	}
	return 0;
}

/*
 * Returns the delay of the next round: at least the duration of this one, so that counting takes at
 * most half of a CPU. A timer that restarted at once would starve its CPU, because a softirq cannot
 * be preempted.
 */
static __always_inline u64 pause_after(const struct round *r)
{
	u64 spent = bpf_ktime_get_ns() - (r->until - ROUND_MOST_NS);

	if (r->left && READ(count_armed) != 2)
		return ROUND_NS;
	return spent > SOON_NS ? spent : SOON_NS;
}

static int count_round(void *map, u32 *key, struct count_timer *t)
{
	struct round r = {.left = ROUND_NOTES, .until = bpf_ktime_get_ns() + ROUND_MOST_NS};
	u64 ended = READ(ended_head);

	WRITE(count_armed, 1);
	bpf_loop(cpus, count_cpu, &r, 0);
	/*
	 * Flows that ended before the previous round: programs on other CPUs have written all their
	 * notes by now, and this round has counted these notes, unless it was partial.
	 */
	if (r.partial) {
		first_cpu++;
	} else {
		bpf_loop((u32)(ended_settled - ended_tail), free_flow, NULL, 0);
		ended_settled = ended;
	}
	if (r.more || ended_tail != ended) {
		bpf_timer_start(&t->timer, pause_after(&r), 0);
		return 0;
	}
	/*
	 * Pairs with the additions in note_put() and flow_end(). If one of them saw 1 and therefore
	 * did not start the timer, its addition is visible below.
	 */
	__sync_lock_test_and_set(&count_armed, 0);
	bpf_loop(cpus, anything_cpu, &r, 0);
	if ((r.more || READ(ended_head) != ended) && !__sync_lock_test_and_set(&count_armed, 1))
		bpf_timer_start(&t->timer, ROUND_NS, 0);
	return 0;
}

/*
 * Called when a CPU's notes are nearly full. Restarts the timer at most once per round; otherwise,
 * the round could be deferred forever.
 */
static __noinline int count_soon(void)
{
	u32 zero = 0;
	struct count_timer *t = bpf_map_lookup_elem(&layer_timer, &zero);

	if (t && __sync_val_compare_and_swap(&count_armed, 1, 2) == 1)
		bpf_timer_start(&t->timer, SOON_NS, 0);
	return 0;
}

static __noinline int count_wake(void)
{
	u32 zero = 0;
	struct count_timer *t = bpf_map_lookup_elem(&layer_timer, &zero);

	if (!t || __sync_lock_test_and_set(&count_armed, 1))
		return 0;
	if (bpf_timer_start(&t->timer, ROUND_NS, 0))
		__sync_lock_test_and_set(&count_armed, 0); /* the next call tries again */
	return 0;
}

/*
 * User space runs this program before there is anything to count, repeatedly until it works: since
 * Linux 6.18, the kernel neither waits nor reclaims memory for the timer's allocation
 * (kmalloc_nolock()).
 */
SEC("iter/tcp")
int count_begin(struct bpf_iter__tcp *ctx)
{
	u32 zero = 0;
	struct count_timer *t = bpf_map_lookup_elem(&layer_timer, &zero);

	if (t && !count_ready)
		count_ready = !bpf_timer_init(&t->timer, &layer_timer, CLOCK_MONOTONIC) &&
			      !bpf_timer_set_callback(&t->timer, count_round);
	return 0;
}

/* ---- the programs ---- */

static __always_inline void note_begin_of(struct note *n, u32 flow, u32 group)
{
	n->what = 0;
	n->ns[0] = n->ns[1] = 0;
	n->flow = flow;
	n->group = group;
}

static __always_inline void note_begin(struct note *n, const struct layer_sock *st)
{
	note_begin_of(n, st->flow, st->group);
}

static __always_inline void note_count(struct note *n, enum sl_slot_count count)
{
	n->what += 1ull << 8 * count;
}

static __always_inline void note_cause(struct note *n, enum sl_layer_cause why)
{
	cause_only(why);
	note_count(n, SL_COUNT_UNATTRIBUTED);
}

/*
 * place: 0 or 1. The time between two boundaries of a host is never negative, as both use the same
 * clock, and layers without a queue take little time: any other value belongs to another packet.
 */
static __always_inline bool note_span(struct note *n, u32 place, u32 layer, u64 from, u64 to)
{
	if (to < from ||
	    (layer != SL_LAYER_TCP_IN && layer != SL_LAYER_APP && layer != SL_LAYER_TCP_OUT &&
	     layer != SL_LAYER_TOTAL && to - from > SHORT_MAX)) {
		note_cause(n, SL_CAUSE_REFUSED);
		return false;
	}
	n->what |= (u64)(layer + 1) << (56 + 4 * place);
	n->ns[place] = to - from;
	return true;
}

/*
 * Publishes the preceding writes. The timer was the last to touch the line, often on another CPU,
 * and an atomic operation would wait for the line; on x86, stores are ordered without one.
 */
static __always_inline void publish(u64 *to, u64 what)
{
#ifdef __TARGET_ARCH_x86
	barrier();
	WRITE(*to, what);
#else
	__sync_lock_test_and_set(to, what);
#endif
}

static __always_inline void note_put(const struct note *n)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct notes *of = bpf_map_lookup_elem(&layer_notes, &cpu);
	u64 used, at;
	struct note *to;

	if (!of || !n->what)
		return;
	used = READ(of->head) - READ(of->tail);
	if (used >= NOTES - NOTES_SLACK) {
		cause_only(SL_CAUSE_NOTES_FULL);
		return;
	}
	at = __sync_fetch_and_add(&of->head, 1);
	to = &of->note[at & (NOTES - 1)];
	to->ns[0] = n->ns[0];
	to->ns[1] = n->ns[1];
	to->flow = n->flow;
	to->group = n->group;
	publish(&to->what, n->what);
	/* The addition to head, a full barrier, pairs with count_round(), which reads head last. */
	if (!READ(count_armed))
		count_wake();
	else if (used >= NOTES / 2 && READ(count_armed) == 1)
		count_soon();
}

/* The flow has ended: its slot is closed, and freed once its notes are counted. */
static __always_inline void flow_end(u32 flow, u64 now)
{
	struct ended e = {.ns = now, .flow = flow};

	if (flow == NO_SLOT || bpf_map_push_elem(&layer_ended, &e, 0))
		return;
	__sync_fetch_and_add(&ended_head, 1);
	if (!READ(count_armed))
		count_wake();
}

/* ---- sockets ---- */

static __always_inline struct layer_sock *near_place(const void *sk)
{
	u32 i = address_hash(sk) >> (32 - NEAR_BITS);

	return bpf_map_lookup_elem(&layer_near, &i);
}

/* A socket may be freed unnoticed and its memory reused; comparing the hash detects this. */
static __always_inline struct layer_sock *near_state(struct sock *sk)
{
	struct layer_sock *st = near_place(sk);

	return st && st->sk == (u64)sk && st->hash == sk->__sk_common.skc_hash ? st : NULL;
}

/*
 * Claims the state for a socket and resets it, unless another socket owns it. The rings keep their
 * positions, and the new tails lie after anything that an earlier socket left in them.
 */
static __noinline int near_take(struct layer_sock *st, u64 sk)
{
	u64 owner;

	if (!st)
		return 0;
	owner = READ(st->sk);
	if ((owner && owner != sk) || __sync_val_compare_and_swap(&st->sk, owner, 1) != owner)
		return 0;
	if (owner) {
		group_use(st->group, -1);
		flow_end(st->flow, bpf_ktime_get_ns());
	}
	st->flow = st->group = st->generation = 0;
	st->wanted = st->role = st->closed = 0;
	st->read[(st->read_head - 1) % RING].segment.number = 0;
	st->read_tail = st->tail_seen = st->read_head;
	st->send_tail = st->send_head;
	st->base = st->copied = 0;
	st->copied_time = 0;
	st->last.length = st->last.end = 0;
	for (u32 i = 0; i < REQUESTS; i++)
		WRITE(st->active[i], 0);
	return 1;
}

/* Discards state from before a period without recording. */
static __always_inline void start_anew(struct layer_sock *st, const struct tcp_sock *tp)
{
	st->base = st->copied = tp->copied_seq;
	st->last.length = 0;
	st->read[(st->read_head - 1) % RING].segment.number = 0;
	st->read_tail = st->tail_seen = st->read_head;
	st->send_tail = st->send_head;
	for (u32 i = 0; i < REQUESTS; i++)
		WRITE(st->active[i], 0);
}

/*
 * Must be called under the socket's lock. Returns NULL if the socket is not recorded. role:
 * SL_ROLE_UNKNOWN to determine the role here.
 */
static __always_inline struct layer_sock *state_make(struct sock *sk, u8 role)
{
	struct layer_sock *st = near_state(sk) ?: bpf_sk_storage_get(&layer_socks, sk, NULL, 0);
	const struct tcp_kernel_filter *f = filter_now();
	const struct tcp_sock *tp;
	bool near;

	if (!f)
		return NULL;
	if (!st) {
		tp = tcp_fields(sk);
		if (!tp)
			return NULL;
		st = near_place(sk);
		near = near_take(st, (u64)sk);
		if (!near)
			st = bpf_sk_storage_get(&layer_socks, sk, NULL,
						BPF_SK_STORAGE_GET_F_CREATE);
		if (!st) {
			cause_only(SL_CAUSE_NO_STATE);
			return NULL;
		}
		st->flow = NO_SLOT;
		if (flow_key(sk, &st->key)) {
			st->role = role ? role : role_of(sk);
			st->base = st->copied = tp->copied_seq;
			decide(st, f);
		} else {
			st->closed = 1;
		}
		st->hash = sk->__sk_common.skc_hash;
		/* Written last, to make everything else visible. */
		if (near)
			__sync_lock_test_and_set(&st->sk, (u64)sk);
	} else if (st->generation != f->generation) {
		bool was = st->wanted;

		decide(st, f);
		tp = tcp_fields(sk);
		if (!was && tp)
			start_anew(st, tp);
	}
	return st->wanted ? st : NULL;
}

/* Returns the state of a socket whose first hook has created it, or NULL if there is none. */
static __always_inline struct layer_sock *state_of(struct sock *sk)
{
	struct layer_sock *st = near_state(sk) ?: bpf_sk_storage_get(&layer_socks, sk, NULL, 0);

	return st && st->wanted ? st : NULL;
}

#endif
