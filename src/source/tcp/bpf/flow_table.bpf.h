/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* flow_table.bpf.h - part of flow.bpf.c: the timer, which is the table's only writer. */
#ifndef SL_SOURCE_TCP_BPF_FLOW_TABLE_BPF_H
#define SL_SOURCE_TCP_BPF_FLOW_TABLE_BPF_H

#include "flow_collect.bpf.h"
#include "line.h"

static __always_inline void line_store(u64 *to, const u64 *from, u64 tag)
{
	u64 check = (tag ^ tag >> 32) * line_k[0];

	WRITE(to[0], tag);
#pragma unroll
	for (u32 i = 1; i < 7; i++) {
		WRITE(to[i], from[i]);
		check += (from[i] ^ from[i] >> 32) * line_k[i];
	}
	WRITE(to[7], check);
}

static __always_inline void publish_drops(u32 slot, const struct flow_state *st, u64 tag)
{
	u32 at = settings.drops_first + slot / SL_FLOW_LINES;
	u64 *to = bpf_map_lookup_elem(&tcp_flows, &at), line[8];

	if (!to)
		return;
	for (u32 i = 1; i < 7; i++)
		line[i] = READ(st->drops[i]);
	line_store(to + (slot & (SL_FLOW_LINES - 1)) * 8, line, tag);
}

__noinline int publish(u32 slot, struct flow_state *st, const struct cells *from)
{
	u32 at = TCP_FLOWS_FIRST_ELEMENT + slot;
	u64 *to = bpf_map_lookup_elem(&tcp_flows, &at);
	u64 tag;

	if (!to || !st || !from)
		return 0;
	tag = pair(++st->number, st->generation);
	/* Write the line first, so that a reader that sees SL_FLOW_DROPPED finds it. */
	if (READ(st->drops[1]))
		publish_drops(slot, st, tag);
#pragma unroll
	for (u32 line = 0; line < SL_FLOW_LINES; line++)
		line_store(to + line * 8, from->cell + line * 8, tag);
	if (slot >= used)
		used = slot + 1;
	return 0;
}

static __always_inline void journal(const struct flow_state *st, u32 slot, u32 event, u64 ns,
				    const u64 *cells)
{
	u64 line[8], number = journal_next++;
	u32 place = (u32)number & settings.journal_mask;
	u32 at = settings.journal_first + place / SL_FLOW_LINES;
	u64 *to = bpf_map_lookup_elem(&tcp_flows, &at);

	if (!to)
		return;
	line[SL_JOURNAL_ID] = st->id;
	line[SL_JOURNAL_NS] = ns;
	line[SL_JOURNAL_SLOT] = pair(slot, st->generation);
	line[SL_JOURNAL_WORD] = cells[SL_FLOW_WORD];
	line[SL_JOURNAL_SENT] = event == SL_FLOW_EVENT_CLOSE ? cells[SL_FLOW_BYTES_ACKED] : 0;
	line[SL_JOURNAL_RECEIVED] = event == SL_FLOW_EVENT_CLOSE ? cells[SL_FLOW_BYTES_RECEIVED]
								 : 0;
	line_store(to + (place & (SL_FLOW_LINES - 1)) * 8, line, number << 8 | event);
}

/* True if the socket's lock is held by a process, or its spinlock is taken. */
static __always_inline bool locked(const struct tcp_sock *tp)
{
	const struct sock *sk = cast_to(struct sock, tp);

	return FIELD(sk, sk_lock.owned) ||
	       (bpf_core_field_exists(sk->sk_lock.slock.rlock.raw_lock.val.counter) &&
		FIELD(sk, sk_lock.slock.rlock.raw_lock.val.counter));
}

/*
 * True if the socket ended without any program being called; its memory is free or reused. On Linux
 * 6.18 this occasionally happens under load, for all programs for a few milliseconds, and is not
 * counted in recursion_misses. Read .closed afterwards: it shows whether the end was seen after
 * all.
 */
static __always_inline bool gone(const struct flow_state *st)
{
	const struct sock *sk = cast_to(struct sock, READ(st->sk));

	return !FIELD(sk, __sk_common.skc_refcnt.refs.counter) ||
	       FIELD(sk, __sk_common.skc_hash) != st->hash;
}

struct round {
	u64 now, soonest; /* soonest: earliest time when a flow on the list is due */
	u64 until;	  /* time limit of the round */
	u32 slow;	  /* the round reached its time limit */
	u32 left;	  /* some work is left for the next round */
	u32 again;	  /* number of flows put back on the list */
};

static __always_inline void list_again(struct flow_state *st, u32 slot, struct round *r)
{
	if (st->due < r->soonest)
		r->soonest = st->due;
	r->again++;
	relisted++;
	list_put(slot);
}

static __always_inline void announce(struct flow_state *st, u32 slot, const u64 *cells)
{
	if (st->announced)
		return;
	st->announced = 1;
	opened++;
	journal(st, slot, SL_FLOW_EVENT_OPEN, st->open_ns, cells);
}

static __always_inline void settle_closed(struct flow_state *st, u32 slot, struct round *r)
{
	u32 at = (u32)quarantine_head & settings.ring_mask;
	struct quarantined *q = bpf_map_lookup_elem(&tcp_quarantine, &at);

	publish(slot, st, (void *)st->final);
	announce(st, slot, st->final);
	journal(st, slot, SL_FLOW_EVENT_CLOSE, st->closed_ns, st->final);
	WRITE(st->closed, PUBLISHED);
	__sync_lock_test_and_set(&st->queued, 0);
	opened--;
	if (q) {
		q->until = r->now + settings.quarantine_ns;
		q->slot = slot;
		quarantine_head++;
	}
}

/* Schedules the next look at an unsettled flow. changed: events occurred since the last look. */
static __always_inline void look_later(struct flow_state *st, u32 slot, bool changed,
				       struct round *r)
{
	if (st->flags & SL_FLOW_LISTENER)
		st->wait = LISTENER_WAIT;
	else if (changed)
		st->wait = 0;
	else if (!st->wait)
		st->wait = settings.interval_ns;
	else if (st->wait < WAIT_MOST * settings.interval_ns)
		st->wait *= 2;
	WRITE(st->due, st->wait ? r->now + st->wait : 0);
	list_again(st, slot, r);
}

/*
 * Handles a flow that TCP has finished while the application may still be reading. The flow is
 * shown as live, in state CLOSE.
 */
static __noinline int look_at_reading(u32 slot, struct flow_state *st, u64 *cells, u64 now)
{
	if (!st || !cells)
		return 0;
	__builtin_memcpy(cells, st->final, sizeof(st->final));
	read_on(READ(st->sk), cells);
	cells[SL_FLOW_WORD] = (cells[SL_FLOW_WORD] & ~255ull) | SL_STATE_LIVE;
	cells[SL_FLOW_CLOSED_NS] = 0;
	cells[SL_FLOW_CHANGED_NS] = now;
	if (READ(st->closed) == READING)
		publish(slot, st, (void *)cells);
	return 0;
}

/* Ends a flow whose socket is gone(). Its memory holds the final values until it is reused. */
static __noinline int end_unseen(u32 slot, struct flow_state *st, u64 now)
{
	u32 at = TCP_FLOWS_FIRST_ELEMENT + slot;
	const u64 *last = bpf_map_lookup_elem(&tcp_flows, &at);
	const struct sock *sk;

	if (!st || !last)
		return 0;
	if (READ(st->closed) == OPEN) {
		sk = &st->sk->inet_conn.icsk_inet.sk;
		st->closed_ns = now;
		collect(st, (void *)st->final, now, 0, false);
		if (BPF_CORE_READ(sk, __sk_common.skc_hash) != st->hash) {
			if (st->number)
				__builtin_memcpy(st->final, last, sizeof(st->final));
			/* the flow was never published, so only its key is known */
			else
				collect(st, (void *)st->final, now, 0, true);
		}
	}
	st->flags |= SL_FLOW_UNSEEN;
	st->final[SL_FLOW_WORD] = SL_FLOW_WORD_OF(SL_STATE_CLOSED, TCP_CLOSE, st->family,
						  st->local_port, st->remote_port);
	st->final[SL_FLOW_CLOSED_NS] = st->closed_ns;
	st->final[SL_FLOW_HANDSHAKE_FLAGS] |= (u64)SL_FLOW_UNSEEN << 32;
	WRITE(st->closed, ENDED);
	return 0;
}

/* Checks flows that had no events and are therefore not on the list. */
static long sweep(u32 i, struct round *r)
{
	struct flow_state *st;
	u32 slot = sweep_slot;

	sweep_left--;
	sweep_slot = slot + 1 < used ? slot + 1 : 0;
	st = state_at(slot);
	if (!st || READ(st->closed) != OPEN || READ(st->queued) || !gone(st) ||
	    READ(st->closed) != OPEN || __sync_lock_test_and_set(&st->queued, 1))
		return 0;
	WRITE(st->due, 0);
	relisted++;
	list_put(slot);
	r->left = 1;
	return 0;
}

/* Sweeps the whole table once after the last event, which also finds ends missed earlier. */
static __always_inline void sweep_on(struct round *r, u64 happened)
{
	if (happened != sweep_seen) {
		sweep_seen = happened;
		sweep_left = used;
	}
	if (sweep_left && r->now >= sweep_due) {
		bpf_loop(sweep_left < SWEEP_MOST ? sweep_left : SWEEP_MOST, sweep, r, 0);
		sweep_due = r->now + SWEEP_NS;
	}
	if (sweep_left && sweep_due < r->soonest)
		r->soonest = sweep_due;
}

static long look_at(u32 i, struct round *r)
{
	u32 at = (u32)list_tail & settings.ring_mask, zero = 0, slot, events, closed;
	u32 *place = bpf_map_lookup_elem(&tcp_dirty, &at);
	u64 *cells = bpf_map_lookup_elem(&tcp_scratch, &zero);
	const struct tcp_sock *tp;
	struct flow_state *st;
	bool busy, done;

	if (!place || !cells)
		return 1;
	if (bpf_ktime_get_ns() > r->until) {
		r->left = r->slow = 1;
		return 1;
	}
	slot = READ(*place);
	if (!slot) { /* the list's entry is still being written */
		r->left = 1;
		return 1;
	}
	WRITE(*place, 0);
	list_tail++;
	slot--;
	st = state_at(slot);
	if (!st)
		return 0;
	closed = READ(st->closed);
	if (closed == ENDED) {
		/* An abort closes first and then sends the reset, all under the socket's lock. */
		if ((s64)(r->now - READ(st->closed_ns)) < ABORT_WAIT && locked(READ(st->sk)))
			list_again(st, slot, r);
		else
			settle_closed(st, slot, r);
		return 0;
	}
	if (closed == PUBLISHED) {
		__sync_lock_test_and_set(&st->queued, 0);
		return 0;
	}
	if (READ(st->due) > r->now)
		goto again;
	if (gone(st)) {
		/* The end was seen after all; the next round publishes it. */
		if (READ(st->closed) != closed || (closed == OPEN && READ(st->closed_ns)))
			goto again;
		end_unseen(slot, st, r->now);
		settle_closed(st, slot, r);
		return 0;
	}
	events = READ(st->events);
	if (closed == READING) {
		look_at_reading(slot, st, cells, r->now);
		announce(st, slot, cells);
		look_later(st, slot, events != st->seen, r);
		st->seen = events;
		return 0;
	}
	tp = READ(st->sk);
	busy = locked(tp);
	done = collect(st, (void *)cells, r->now, 0, false);
	busy |= locked(tp);
	/*
	 * The socket's memory may be reused, but closing the socket stored the final values. While
	 * a close is in progress, closed_ns is set, and a copy could look final too early.
	 */
	if (READ(st->closed) || READ(st->closed_ns) || gone(st))
		goto again;
	publish(slot, st, (void *)cells);
	announce(st, slot, cells);
	if (done && !busy && events == READ(st->events)) {
		__sync_lock_test_and_set(&st->queued, 0);
		if (events == READ(st->events) && !READ(st->closed))
			return 0;
		if (__sync_lock_test_and_set(&st->queued, 1))
			return 0; /* the event has put it on the list again */
	}
	look_later(st, slot, busy || events != st->seen, r);
	st->seen = events;
	return 0;
again:
	list_again(st, slot, r);
	return 0;
}

static long free_one(u32 i, struct round *r)
{
	u32 at = (u32)quarantine_tail & settings.ring_mask, zero = 0;
	struct quarantined *q = bpf_map_lookup_elem(&tcp_quarantine, &at);
	u64 *cells = bpf_map_lookup_elem(&tcp_scratch, &zero);
	struct flow_state *st;
	u32 slot;

	if (!q || !cells || quarantine_tail == quarantine_head || q->until > r->now ||
	    bpf_ktime_get_ns() > r->until + ROUND_MOST_NS)
		return 1;
	slot = q->slot;
	st = state_at(slot);
	/* The queue's lock may be busy (since Linux 6.15, queue_stack_maps.c); retry next round. */
	if (!st || bpf_map_push_elem(&tcp_free, &slot, 0))
		return 1;
	/* A new owner of the slot does not touch the fields below, which belong to the timer. */
	quarantine_tail++;
	__builtin_memset(cells, 0, 512);
	st->generation++;
	st->number = 0;
	publish(slot, st, (void *)cells);
	return 0;
}

static __always_inline void hot_store(u64 now)
{
	u32 at = TCP_FLOWS_HOT_ELEMENT;
	u64 *to = bpf_map_lookup_elem(&tcp_flows, &at), line[8];

	if (!to)
		return;
	line[SL_FLOWS_USED] = used;
	line[SL_FLOWS_OPEN] = pair((u32)opened, (u32)(quarantine_head - quarantine_tail));
	line[SL_FLOWS_REFUSED] = READ(refused);
	line[SL_FLOWS_JOURNAL] = journal_next;
	line[SL_FLOWS_CHANGED_NS] = now;
	line[SL_FLOWS_QUARANTINE_NS] = settings.quarantine_ns;
	line_store(to, line, ++rounds);
}

static int tick(void *map, u32 *key, struct ticker *ticker)
{
	u64 waiting = READ(list_head) - list_tail, next;
	u32 kicked = READ(kicks), at;
	struct round r = {.now = bpf_ktime_get_ns(), .soonest = ~0ull};
	u64 interval = settings.interval_ns;
	struct quarantined *q;

	r.until = r.now + ROUND_MOST_NS;
	if (waiting > POPS_MAX) {
		waiting = POPS_MAX;
		r.left = 1;
	}
	bpf_loop((u32)waiting, look_at, &r, 0);
	bpf_loop(POPS_MAX, free_one, &r, 0);
	sweep_on(&r, READ(list_head) - relisted + kicked);
	hot_store(r.now);

	at = (u32)quarantine_tail & settings.ring_mask;
	q = bpf_map_lookup_elem(&tcp_quarantine, &at);
	if (q && quarantine_tail != quarantine_head && q->until < r.soonest)
		r.soonest = q->until;
	/* Leave half of this CPU to others: the timer is a softirq, which cannot be preempted. */
	if (r.slow && interval > ROUND_MOST_NS)
		interval = ROUND_MOST_NS;
	if (r.left || r.soonest <= r.now + interval) {
		bpf_timer_start(&ticker->timer, interval, 0);
		return 0;
	}
	next = r.soonest == ~0ull ? 0 : r.soonest - r.now;
	/* Pairs with touch(): an addition to the list that saw armed as 1 is seen here. */
	__sync_lock_test_and_set(&armed, next ? 2 : 0);
	if (kicked != READ(kicks) || READ(list_head) - list_tail > r.again)
		wake();
	else if (next)
		bpf_timer_start(&ticker->timer, next, 0);
	return 0;
}

#endif
