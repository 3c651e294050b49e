/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* flow_life.bpf.h - part of flow.bpf.c: opens and closes flows. */
#ifndef SL_SOURCE_TCP_BPF_FLOW_LIFE_BPF_H
#define SL_SOURCE_TCP_BPF_FLOW_LIFE_BPF_H

#include "flow_collect.bpf.h"

static __always_inline bool slot_take(struct tcp_bpf_sock *s, u32 *slot)
{
	u64 returned = READ(quarantine_tail);

	if (!bpf_map_pop_elem(&tcp_free, slot))
		return true;
	if (READ(fresh) < settings.slots) {
		*slot = (u32)__sync_fetch_and_add(&fresh, 1);
		if (*slot < settings.slots)
			return true;
	}
	if (!s->without_room) {
		__sync_fetch_and_add(&refused, 1);
		wake(); /* so that user space notices the refusal */
	}
	s->without_room = returned + 1;
	return false;
}

/*
 * Tells user space about the first connection of a cgroup, so that it adds the cgroup's name to the
 * table. If the ring is full, the next connection tries again.
 */
static __always_inline void tell_cgroup(u64 cgroup)
{
	u32 one = 1;

	if (!settings.cgroups || !cgroup || bpf_map_lookup_elem(&tcp_known, &cgroup))
		return;
	if (bpf_map_update_elem(&tcp_known, &cgroup, &one, BPF_NOEXIST))
		__sync_fetch_and_add(&nameless, 1);
	else if (bpf_ringbuf_output(&tcp_arrivals, &cgroup, sizeof(cgroup), 0))
		bpf_map_delete_elem(&tcp_known, &cgroup);
}

/*
 * Sets the owner of a socket to the holder that the walk over descriptors has found, if the owner
 * is unknown. sk must be locked.
 */
static __always_inline void find_owner(struct sock *sk, struct tcp_bpf_sock *s)
{
	const struct socket_alloc *socket;
	const struct holder *holder;
	u64 inode;

	if (s->pid)
		return;
	socket = (const void *)BPF_CORE_READ(sk, sk_socket);
	if (!socket)
		return; /* not accepted yet, or closed */
	inode = BPF_CORE_READ(socket, vfs_inode.i_ino);
	holder = bpf_map_lookup_elem(&tcp_holders, &inode);
	if (!holder)
		return;
	__builtin_memcpy(s->comm, holder->comm, 16);
	s->pid = holder->pid;
}

/* Copies the owner of a socket to its flow. */
static __always_inline void own(struct flow_state *st, const struct tcp_bpf_sock *s)
{
	__builtin_memcpy(st->comm, s->comm, 16);
	st->pid = s->pid;
}

/* sk must be locked, and s must have no id. flags: the origin of the connection. */
static __always_inline void flow_open(struct sock *sk, struct tcp_bpf_sock *s,
				      const struct tcp_flow_key *key, u32 flags)
{
	const struct tcp_sock *tp = cast_to(struct tcp_sock, sk);
	const struct tcp_kernel_filter *f = filter_now();
	u64 now = bpf_ktime_get_ns();
	struct flow_state *st;
	u32 slot, srtt, *near = near_place(sk);

	if (!slot_take(s, &slot))
		return;
	s->without_room = 0;
	st = state_at(slot);
	if (!st)
		return;
	if (key->mapped)
		flags |= SL_FLOW_MAPPED;
	if (s->syn_ns)
		flags |= SL_FLOW_ACTIVE;
	srtt = FIELD(tp, srtt_us);
	st->id = __sync_fetch_and_add(&next_id, 1) + 1;
	st->sk = tp;
	st->hash = BPF_CORE_READ(sk, __sk_common.skc_hash);
	st->closed_ns = st->due = st->wait = 0;
	st->announced = 0;
	st->flags = flags;
	st->judged = f ? f->generation : 0;
	st->open_ns = now;
	st->local[0] = ((const u64 *)key->local)[0];
	st->local[1] = ((const u64 *)key->local)[1];
	st->remote[0] = ((const u64 *)key->remote)[0];
	st->remote[1] = ((const u64 *)key->remote)[1];
	st->cgroup = key->cgroup;
	st->netns = key->netns;
	st->local_port = key->local_port;
	st->remote_port = key->remote_port;
	st->family = key->family == AF_INET ? 4 : 6;
	own(st, s);
	st->handshake_us = 0;
	st->rtt_count = st->rtt_sum = 0;
	st->srtt = flags & SL_FLOW_OLDER ? srtt : 0;
	st->mdev = FIELD(tp, mdev_us);
	st->delivered = FIELD(tp, delivered);
	st->retrans = st->caused = FIELD(tp, total_retrans);
	st->queue_max = st->fast = st->loss = st->re_syn = 0;
	st->re_fast = st->re_rto = st->re_tlp = 0;
	st->zero_in = st->zero_out = st->ce_in = st->zero = 0;
	st->reads = st->writes = st->waited = 0;
	st->thought = st->turns = st->held = 0;
	st->turn = FIELD(tp, data_segs_out);
	for (u32 i = 0; i < 8; i++)
		st->drops[i] = 0;
	if (!(flags & (SL_FLOW_OLDER | SL_FLOW_LISTENER))) {
		/* On the side that received SYN-ACKs, only SYNs can have been retransmitted. */
		st->re_syn = st->retrans;
		st->loss = s->syn_timeouts;
		/* The handshake provides the first RTT sample. */
		if (s->syn_ns)
			st->handshake_us = (u32)((now - s->syn_ns) / 1000);
		else
			st->handshake_us = srtt >> 3;
		account_rtt(st, srtt, st->mdev, st->delivered, st->retrans);
	}
	__sync_lock_test_and_set(&st->closed, OPEN);
	s->slot = slot;
	s->id = st->id;
	if (near)
		WRITE(*near, slot);
	touch(st, slot);
	tell_cgroup(key->cgroup);
}

/*
 * Updates how much the application has read from a connection that TCP has finished.
 * tcp_disconnect() resets all counters, which shows in bytes_received; the earlier value is kept in
 * that case. Returns true if some data is unread.
 */
static __always_inline bool read_on(const struct tcp_sock *of, u64 *cells)
{
	const struct tcp_sock *tp = cast_to(struct tcp_sock, of);
	const struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u64 received = cells[SL_FLOW_BYTES_RECEIVED];
	u32 unread = FIELD(tp, rcv_nxt) - FIELD(tp, copied_seq);
	u32 fin = BPF_CORE_READ(sk, __sk_common.skc_flags) >> SOCK_DONE_BIT & 1;

	if (FIELD(tp, bytes_received) != received || (s32)unread < 0)
		return false;
	cells[SL_FLOW_READ_BYTES] = received - unread - (fin && !unread);
	return unread > fin;
}

/*
 * sk must be locked. old: the previous state; last: the socket is being freed. If TCP has finished
 * while data is unread, the flow ends when the application has read it, or at the latest when the
 * application closes the socket.
 */
static __always_inline void flow_close(struct sock *sk, struct tcp_bpf_sock *s,
				       struct flow_state *st, u32 old, u32 flags, bool last)
{
	const struct tcp_sock *tp = cast_to(struct tcp_sock, sk);
	u64 now = bpf_ktime_get_ns();
	u32 closed = ENDED;

	if (st->closed == READING) {
		read_on(tp, st->final);
	} else {
		if (!(st->flags & SL_FLOW_LISTENER))
			account_rtt(st, FIELD(tp, srtt_us), FIELD(tp, mdev_us),
				    FIELD(tp, delivered), FIELD(tp, total_retrans));
		st->flags |= flags;
		st->closed_ns = now;
		collect(st, (void *)st->final, now, old, false);
		if (!last && !(st->flags & SL_FLOW_LISTENER) && read_on(tp, st->final) &&
		    !(BPF_CORE_READ(sk, __sk_common.skc_flags) & 1 << SOCK_DEAD_BIT))
			closed = READING;
	}
	if (closed == ENDED) {
		/* A flow excluded by the filter may be recorded again later. */
		s->ended = flags & SL_FLOW_UNWANTED ? 0 : s->id;
		s->id = 0;
	}
	WRITE(st->due, 0);
	/* Pairs with the timer's read: .closed implies that final[] is valid. */
	__sync_lock_test_and_set(&st->closed, closed);
	st->wait = 1; /* process the flow sooner than planned */
	touch(st, s->slot);
}

static __always_inline struct flow_state *state_of(struct sock *sk, struct tcp_bpf_sock **of)
{
	struct tcp_bpf_sock *s = flow_of(sk);

	if (!s)
		return NULL;
	*of = s;
	return state_at(s->slot);
}

static __always_inline void open_if_wanted(struct sock *sk, struct tcp_bpf_sock *s, u32 flags)
{
	const struct tcp_kernel_filter *f = filter_now();
	struct tcp_flow_key key;

	s->judged = f ? f->generation + 1 : 0;
	find_owner(sk, s);
	if (f && flow_key(sk, &key) && flow_wanted(f, &key) && (!f->pid || f->pid == s->pid))
		flow_open(sk, s, &key, flags);
}

/*
 * Records a connection that was not established as a flow that has ended; its last state is
 * SYN_SENT. Failures take at most half of the slots.
 */
static __always_inline void flow_fail(struct sock *sk, struct tcp_bpf_sock *s)
{
	struct flow_state *st;

	if (READ(quarantine_head) - READ(quarantine_tail) >= settings.slots / 2) {
		__sync_fetch_and_add(&refused, 1);
		wake();
		return;
	}
	open_if_wanted(sk, s, 0);
	st = s->id ? state_at(s->slot) : NULL;
	if (!st)
		return;
	if (s->syn_ns)
		st->open_ns = s->syn_ns;
	st->handshake_us = 0;
	flow_close(sk, s, st, TCP_SYN_SENT, 0, true);
}

/*
 * Opens a flow whose establishment was missed (see tcp_catch_up()). *of: the socket's storage, or
 * NULL. For a connection excluded by the filter, this function is called at each event.
 */
static __always_inline struct flow_state *open_missed(struct sock *sk, struct tcp_bpf_sock **of)
{
	struct tcp_bpf_sock *s =
		*of ?: bpf_sk_storage_get(&tcp_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!s || s->id || s->ended)
		return NULL;
	open_if_wanted(sk, s, SL_FLOW_OLDER);
	*of = s;
	return s->id ? state_at(s->slot) : NULL;
}

/* Opens a missed flow at a change of state. */
static __always_inline struct flow_state *open_late(struct sock *sk, int old,
						    struct tcp_bpf_sock **of)
{
	*of = NULL;
	if (!take_existing || old == TCP_CLOSE || old == TCP_SYN_SENT || old == TCP_SYN_RECV ||
	    old == TCP_NEW_SYN_RECV || old == TCP_LISTEN)
		return NULL;
	return open_missed(sk, of);
}

/*
 * Opens a missed flow at a segment, if the connection remains established, if the filter has
 * changed, or if a table that was full has room again.
 */
static __always_inline struct flow_state *open_untold(struct sock *sk, struct tcp_bpf_sock **of)
{
	const struct tcp_kernel_filter *f = filter_now();

	if (!take_existing || !f)
		return NULL;
	if (*of && (*of)->judged == f->generation + 1 &&
	    (!(*of)->without_room || (*of)->without_room == READ(quarantine_tail) + 1))
		return NULL;
	return open_missed(sk, of);
}

/*
 * Checks a flow when one of its segments arrives, after the filter has changed or the holders are
 * known. The walk over sockets does this as well, but only in network namespaces that the process
 * may enter. Returns false if the flow was closed.
 */
static __noinline bool still_wanted(struct sock *sk, struct flow_state *st)
{
	const struct tcp_kernel_filter *f = filter_now();
	struct tcp_bpf_sock *s = flow_of(sk);
	struct tcp_flow_key key;

	if (!f || !s || !st)
		return false;
	st->judged = f->generation;
	find_owner(sk, s);
	if (s->pid && !st->pid)
		own(st, s);
	if (flow_key(sk, &key) && flow_wanted(f, &key) && (!f->pid || f->pid == s->pid))
		return true;
	flow_close(sk, s, st, 0, SL_FLOW_UNWANTED, true);
	return false;
}

#endif
