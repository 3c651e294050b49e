/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * flow_state.bpf.h - part of flow.bpf.c: the maps, the state of a flow, and the list of flows to be
 * processed by the timer.
 */
#ifndef SL_SOURCE_TCP_BPF_FLOW_STATE_BPF_H
#define SL_SOURCE_TCP_BPF_FLOW_STATE_BPF_H

#include "common.bpf.h"

#include <sidelight/flow.h>

/* wait for a reset after closing, in ns; later, the socket may be reused */
#define ABORT_WAIT    500000000
#define POPS_MAX      1024    /* maximum number of flows per round of the timer */
#define ROUND_MOST_NS 2000000 /* time limit of a round, even on a slow machine */
/* longest time between checks of an idle but unfinished flow, in multiples of the interval */
#define WAIT_MOST     64
#define LISTENER_WAIT 1000000000ull
#define SWEEP_NS      100000000 /* interval of sweeps for flows whose end was missed */
#define SWEEP_MOST    1024	/* maximum number of slots per sweep */
#define MONOTONIC     1		/* CLOCK_MONOTONIC */

const volatile struct tcp_flow_settings settings = {.slots = 64};

/* Progress of a flow. When it is not OPEN, final[] is valid and the timer ignores the socket. */
enum closed {
	OPEN = 0,
	ENDED = 1,     /* no more changes; waits for publication by the timer */
	PUBLISHED = 2, /* the final values are published, and the slot is in quarantine */
	READING = 3,   /* TCP has finished, but the application has unread data */
};

struct flow_state {
	u64 id;
	const struct tcp_sock *sk; /* the socket; the timer reads this pointer after .closed */
	u32 hash;		   /* skc_hash of the socket */
	/* parts of a line's tag: generation of the slot, number of the snapshot */
	u32 generation, number;
	u32 queued;    /* the flow is on the list */
	u32 events;    /* incremented for each segment */
	u32 seen;      /* value of .events when the timer last looked */
	u32 closed;    /* enum closed */
	u32 announced; /* the journal contains the opening of the flow */
	u32 flags;
	u32 judged; /* generation of the filter that selected the flow */
	u64 open_ns, closed_ns, due, wait;
	u64 local[2], remote[2], cgroup;
	u32 netns, pid, handshake_us;
	u16 local_port, remote_port;
	u64 comm[2];
	u64 family;
	u64 rtt_count, rtt_sum;
	u32 srtt, mdev, delivered, retrans; /* values of the socket at the last segment */
	u32 caused;			    /* the part of total_retrans with a known cause */
	u32 queue_max, fast, loss;
	u32 re_fast, re_rto, re_tlp, re_syn;
	u32 zero_in, zero_out, ce_in, zero;
	u32 reads, writes;
	u32 turn;	     /* data_segs_out when data last arrived */
	u32 waited, thought; /* SL_FLOW_TURNS in ticks */
	u32 turns, held;     /* as in SL_FLOW_BACKLOG */
	u64 drops[8];	     /* counts for the flow's line in SL_SECTION_DROPS */
	u64 final[64];
};

MAP(tcp_flows, ARRAY, BPF_F_MMAPABLE, 1, u32, u64[64]);
MAP(tcp_states, ARRAY, 0, 1, u32, struct flow_state);
MAP(tcp_dirty, ARRAY, 0, 1, u32, u32);

/* Maps a hash of a socket's address to the slot that may hold its flow. See near_state(). */
MAP(tcp_near, ARRAY, 0, 1, u32, u32);

struct quarantined {
	u64 until;
	u32 slot, pad;
};
MAP(tcp_quarantine, ARRAY, 0, 1, u32, struct quarantined);
QUEUE(tcp_free, 1, u32);

struct ticker {
	struct bpf_timer timer;
};
MAP(tcp_ticker, ARRAY, 0, 1, u32, struct ticker);
MAP(tcp_scratch, ARRAY, 0, 1, u32, u64[64]);
/* The slot of the last segment on this CPU; see settings.remember. */
MAP(tcp_last, PERCPU_ARRAY, 0, 1, u32, u32);

/* Cgroups already reported to user space (identity.c). */
MAP(tcp_known, HASH, 0, 1, u64, u32);
RING_BUFFER(tcp_arrivals, 4096);

/*
 * Processes that hold a descriptor of a socket, by the number of the socket's inode. The walk over
 * descriptors cannot write to the storage of a socket, because some kernels do not trust a pointer
 * that was read from a file. User space empties the map before each walk.
 */
struct holder {
	u32 pid;
	char comm[16];
};
MAP(tcp_holders, HASH, BPF_F_NO_PREALLOC, 1, u64, struct holder);

/* Written by many CPUs. */
__u64 list_head, next_id, fresh, refused;
__u64 nameless; /* number of cgroups that found the map full */
__u64 unopened; /* sockets whose storage could not be allocated; see tcp_catch_up() */
__u64 unheld;	/* holders that could not be noted; another walk may succeed */
__u64 crowded;	/* holders for which tcp_holders had no room */
__u32 armed;	/* state of the timer; 0: sleeps; 1: runs within an interval; 2: runs later */
__u32 kicks;	/* number of times a listed flow became due sooner than planned */
/* Used only by the timer. */
__u64 list_tail, quarantine_head, quarantine_tail, journal_next, rounds, opened, used;
__u64 relisted;		      /* the part of list_head that the timer itself added */
__u64 sweep_seen, sweep_due;  /* number of events seen, and the time of the next sweep */
__u32 sweep_slot, sweep_left; /* next slot, and number of slots left to sweep */
bool timer_ready;

static __always_inline struct flow_state *state_at(u32 slot)
{
	return bpf_map_lookup_elem(&tcp_states, &slot);
}

static __always_inline u32 *near_place(const void *sk)
{
	u32 at = address_hash(sk) >> settings.near_shift;

	return bpf_map_lookup_elem(&tcp_near, &at);
}

/*
 * Returns the flow of a socket if the flow is open and was the last to use its hash place. Takes a
 * fifth of the time of the socket storage lookup. A socket may be freed unnoticed and its memory
 * reused; comparing the hash detects this.
 */
static __always_inline struct flow_state *near_state(struct sock *sk, u32 *slot)
{
	u32 *place = near_place(sk);
	struct flow_state *st;

	if (!place)
		return NULL;
	*slot = *place;
	st = state_at(*slot);
	return st && st->sk == tcp_of(sk) && st->hash == sk->__sk_common.skc_hash &&
			       READ(st->closed) == OPEN
		       ? st
		       : NULL;
}

static __always_inline u64 pair(u32 low, u32 high)
{
	return (u64)high << 32 | low;
}

/* Whether to record existing connections. */
const volatile bool take_existing = true;

/* ---- the list ---- */

static __always_inline void wake(void)
{
	struct ticker *t;
	u32 zero = 0;

	if (READ(armed) == 1 || __sync_lock_test_and_set(&armed, 1) == 1)
		return;
	t = bpf_map_lookup_elem(&tcp_ticker, &zero);
	if (t)
		bpf_timer_start(&t->timer, settings.interval_ns, 0);
}

static __always_inline void list_put(u32 slot)
{
	u32 at = (u32)__sync_fetch_and_add(&list_head, 1) & settings.ring_mask;
	u32 *place = bpf_map_lookup_elem(&tcp_dirty, &at);

	if (place)
		/* 0 means reserved but not yet written; the timer waits for the value */
		WRITE(*place, slot + 1);
}

/*
 * Notes that a flow may have changed. The addition is a full barrier, which pairs with the timer's
 * barrier when it removes a flow from the list: either .queued is seen as 0 here, or the timer sees
 * the event.
 */
static __always_inline void touch(struct flow_state *st, u32 slot)
{
	__sync_fetch_and_add(&st->events, 1);
	if (!READ(st->queued)) {
		if (!__sync_lock_test_and_set(&st->queued, 1))
			list_put(slot);
	} else if (st->wait) {
		WRITE(st->due, 0);
		__sync_fetch_and_add(&kicks, 1);
	}
	wake();
}

#endif
