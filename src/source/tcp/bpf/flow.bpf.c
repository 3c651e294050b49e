// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * flow.bpf.c - selects the sockets to record and maintains their statistics in memory.
 *
 * The kernel keeps most statistics in struct tcp_sock. The programs that run per segment therefore
 * do little: they account for what the kernel does not keep (RTT samples, causes, zero windows) in
 * a private array, and put the flow on a list. A timer processes the list and copies each flow's
 * statistics into the table. It removes a flow from the list when nothing is in flight, unsent,
 * unread or unacknowledged, the socket is unlocked, and no segment arrived in the meantime: the
 * table is then up to date. Without events, nothing runs.
 *
 * The writers of each memory area are:
 * - tcp_states[slot], events: programs of the hooks, under the socket's lock
 * - tcp_flows (table, hot line, journal): only the timer. A timer callback never runs concurrently
 *   with itself, so lines need no atomics
 * - tcp_dirty, the list: all programs; an atomic addition reserves a place
 *
 * When a flow ends, its final statistics are kept in its state until the timer publishes them. Its
 * slot is closed for the quarantine and then freed.
 */
#include "flow_drop.bpf.h"
#include "flow_life.bpf.h"
#include "flow_table.bpf.h"

#include <linux/errno.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* ---- a connection changes its state ---- */

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(flow_state, struct sock *sk, int old, int new)
{
	struct flow_state *st;
	struct tcp_bpf_sock *s;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (new != TCP_SYN_SENT &&new != TCP_ESTABLISHED &&new != TCP_LISTEN) {
		st = state_of(sk, &s);
		if (!st && old == TCP_SYN_SENT && new == TCP_CLOSE) {
			s = bpf_sk_storage_get(&tcp_socks, sk, NULL, 0);
			if (s)
				flow_fail(sk, s);
			return 0;
		}
		if (!st)
			st = open_late(sk, old, &s);
		if (st && new == TCP_CLOSE)
			flow_close(sk, s, st, old, 0, st->closed == READING);
		else if (st)
			touch(st, s->slot);
		return 0;
	}
	s = bpf_sk_storage_get(&tcp_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s) {
		__sync_fetch_and_add(&unopened, 1);
		return 0;
	}
	if (s->id) {
		/* The socket connects or listens again while its previous flow has unread data. */
		st = new == TCP_ESTABLISHED ? NULL : state_at(s->slot);
		if (!st)
			return 0;
		flow_close(sk, s, st, old, 0, true);
	}
	if (new == TCP_ESTABLISHED) {
		open_if_wanted(sk, s, 0);
		return 0;
	}
	/* connect() and listen() run in process context, so the current process is the owner. */
	s->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	s->syn_timeouts = 0;
	s->syn_ns = s->without_room = 0;
	if (new == TCP_SYN_SENT)
		s->syn_ns = bpf_ktime_get_ns();
	else
		open_if_wanted(sk, s, SL_FLOW_LISTENER);
	return 0;
}

/* Handles sockets that end without a transition to TCP_CLOSE. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(flow_destroy, struct sock *sk)
{
	struct tcp_bpf_sock *s;
	struct flow_state *st = state_of(sk, &s);

	if (st)
		flow_close(sk, s, st, 0, 0, true);
	return 0;
}

/* ---- segments ---- */

SEC("tp_btf/tcp_probe")
int BPF_PROG(flow_segment, struct sock *sk, struct sk_buff *skb)
{
	const struct tcp_kernel_filter *f;
	const struct tcp_sock *tp;
	struct flow_state *st;
	struct tcp_bpf_sock *s;
	u32 slot;

	st = near_state(sk, &slot);
	if (!st) {
		s = bpf_sk_storage_get(&tcp_socks, sk, NULL, 0);
		st = s && s->id ? state_at(s->slot) : open_untold(sk, &s);
		if (!st)
			return 0;
		slot = s->slot;
	}
	f = filter_now();
	if (f && f->generation != st->judged && !still_wanted(sk, st))
		return 0;
	tp = tcp_fields(sk);
	if (!tp)
		return 0;
	if (settings.remember)
		drop_remember(slot);
	account(st, tp);
	account_turn(st, tp, skb);
	if (tp->ecn_flags & ECN_OK) {
		const struct tcp_skb_cb *cb = (const struct tcp_skb_cb *)skb->cb;

		if ((BPF_CORE_READ(cb, ip_dsfield) & 3) == 3)
			st->ce_in++;
	}
	touch(st, slot);
	return 0;
}

/*
 * Counts only the transitions to state Loss that the kernel counts as timeouts
 * (tcp_retransmit_timer()). This excludes a retransmission after the peer ran out of memory and
 * withdrew its window, and segments too large for the path (tcp_non_congestion_loss_retransmit()),
 * which involve no timer. When an ICMP message reports that the path is restored, the timer's work
 * is done early (tcp_ld_RTO_revert()), already in state Loss.
 */
static __always_inline bool timed_out(const struct tcp_sock *tp)
{
	const struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);

	if (BPF_CORE_READ(&tp->inet_conn, icsk_pending) &&
	    BPF_CORE_READ_BITFIELD_PROBED(&tp->inet_conn, icsk_ca_state) != CA_LOSS)
		return false;
	return BPF_CORE_READ(tp, snd_wnd) || state == TCP_SYN_SENT || state == TCP_SYN_RECV ||
	       BPF_CORE_READ(sk, __sk_common.skc_flags) >> SOCK_DEAD_BIT & 1;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(flow_congestion, struct sock *sk, u8 state)
{
	struct tcp_bpf_sock *s = bpf_sk_storage_get(&tcp_socks, sk, NULL, 0);
	struct flow_state *st;

	if (!s)
		return 0;
	if (!s->id) { /* timeouts of the SYN, which total_rto includes */
		s->syn_timeouts += state == CA_LOSS;
		return 0;
	}
	st = state_at(s->slot);
	if (!st)
		return 0;
	/* At this hook, the socket still has its previous state. */
	account_cause(st, tcp_of(sk), BPF_CORE_READ(tcp_of(sk), total_retrans));
	if (state == CA_RECOVERY)
		st->fast++; /* the kernel sets this state only in tcp_enter_recovery() */
	if (state == CA_LOSS && !bpf_core_field_exists(struct tcp_sock, total_rto))
		/* the kernel sets this state again at each timeout */
		st->loss += timed_out(tcp_of(sk));
	touch(st, s->slot);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(flow_retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_bpf_sock *s;
	struct flow_state *st = state_of(sk, &s);

	if (!st)
		return 0;
	account_cause(st, tcp_of(sk), BPF_CORE_READ(tcp_of(sk), total_retrans));
	touch(st, s->slot);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(flow_reset_in, struct sock *sk)
{
	struct tcp_bpf_sock *s;
	struct flow_state *st = state_of(sk, &s);

	if (st)
		st->flags |= SL_FLOW_RESET_IN;
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(flow_reset_out, struct sock *sk)
{
	struct flow_state *st;
	struct tcp_bpf_sock *s;

	if (!sk) /* the reset answers a segment without a socket */
		return 0;
	s = bpf_sk_storage_get(&tcp_socks, sk, NULL, 0);
	st = s && (s->id || s->ended) ? state_at(s->slot) : NULL;
	/* A reset sent by a listener concerns a segment, not the flow. */
	if (!st || st->id != (s->id ? s->id : s->ended) || st->flags & SL_FLOW_LISTENER)
		return 0;
	st->flags |= SL_FLOW_RESET_OUT;
	/* An abort closes the socket before it sends the reset; the timer waits for the reset. */
	if (st->closed)
		st->final[SL_FLOW_HANDSHAKE_FLAGS] |= (u64)SL_FLOW_RESET_OUT << 32;
	return 0;
}

/* ---- dropped segments (not under the socket's lock) ---- */

/*
 * Without a receiving socket, skb->sk is the sender's socket, or NULL. The verifier of some kernels
 * assumes that rx_sk is never NULL and removes a test for it, so test a copy of the argument.
 */
SEC("?tp_btf/kfree_skb")
int BPF_PROG(flow_drop, struct sk_buff *skb, void *location, u32 reason, struct sock *rx_sk)
{
	u64 receiver = 0;

	if (!drop_counts(reason))
		return 0;
	bpf_probe_read_kernel(&receiver, sizeof(receiver), (const u64 *)ctx + 3);
	if (receiver && rx_sk)
		return drop_of(skb, reason, rx_sk);
	return drop_of(skb, reason, skb->sk);
}

/* Before Linux 6.11, the tracepoint lacks the receiving socket. */
SEC("?tp_btf/kfree_skb")
int BPF_PROG(flow_drop_any, struct sk_buff *skb, void *location, u32 reason)
{
	return drop_counts(reason) ? drop_of(skb, reason, skb->sk) : 0;
}

/* ---- calls (not under the socket's lock) ---- */

static __always_inline int call_done(struct sock *sk, int ret, bool write)
{
	struct flow_state *st;
	struct tcp_bpf_sock *s;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	st = state_of(sk, &s);
	if (!st || ret < 0)
		return 0;
	__sync_fetch_and_add(write ? &st->writes : &st->reads, 1);
	touch(st, s->slot);
	return 0;
}

HOOK("tp_btf/sock_send_length", flow_send, call_done(sk, ret, true), struct sock *sk, int ret)
HOOK("tp_btf/sock_recv_length", flow_receive, call_done(sk, ret, false), struct sock *sk, int ret)

/* Linux before 6.3 lacks these tracepoints. At function exit, the result follows the arguments. */
static __always_inline int call_returned(void *ctx, struct sock *sk, bool write)
{
	u64 ret;

	return bpf_get_func_ret(ctx, &ret) ? 0 : call_done(sk, (int)ret, write);
}

HOOK("?fexit/tcp_sendmsg", flow_sent, call_returned(ctx, sk, true), struct sock *sk)
HOOK("?fexit/tcp_recvmsg", flow_received, call_returned(ctx, sk, false), struct sock *sk)

/*
 * Runs under the socket's lock in the context of the reading process, the only place that reveals
 * the owner of an accepted connection. Attached only if the owner is needed.
 */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(flow_owner, struct sock *sk)
{
	const struct tcp_kernel_filter *f = filter_now();
	struct tcp_bpf_sock *s = bpf_sk_storage_get(&tcp_socks, sk, NULL,
						    BPF_SK_STORAGE_GET_F_CREATE);
	struct flow_state *st;

	if (!s || !f)
		return 0;
	if (!s->pid) {
		s->pid = bpf_get_current_pid_tgid() >> 32;
		bpf_get_current_comm(s->comm, sizeof(s->comm));
		st = s->id ? state_at(s->slot) : NULL;
		if (st) {
			own(st, s);
		} else if (f->pid == s->pid) {
			open_if_wanted(sk, s, SL_FLOW_OLDER);
		}
	}
	return 0;
}

/* ---- existing connections ---- */

/*
 * Notes the process that holds a descriptor of each TCP socket: the first one if there are several.
 * The filter is not asked, because it may be about to change.
 */
SEC("iter/task_file")
int flow_holders(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct holder holder = {0};
	struct socket *socket;
	struct sock *sk;
	u64 inode;
	long err;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	sk = socket ? socket->sk : NULL;
	if (!sk || sk->sk_protocol != IPPROTO_TCP || sk->__sk_common.skc_state == TCP_CLOSE)
		return 0;
	inode = file->f_inode->i_ino;
	holder.pid = (u32)task->tgid;
	BPF_CORE_READ_INTO(&holder.comm, task, group_leader, comm);
	err = bpf_map_update_elem(&tcp_holders, &inode, &holder, BPF_NOEXIST);
	if (err && err != -EEXIST)
		__sync_fetch_and_add(err == -E2BIG ? &crowded : &unheld, 1);
	return 0;
}

/*
 * Runs at the start and after each change of the filter: opens flows that now match and closes
 * flows that no longer match. The iterator holds the socket's lock.
 */
SEC("iter/tcp")
int flow_existing(struct bpf_iter__tcp *ctx)
{
	const struct tcp_kernel_filter *f = filter_now();
	struct sock_common *common = ctx->sk_common;
	struct tcp_flow_key key;
	struct flow_state *st;
	struct tcp_sock *tp;
	struct tcp_bpf_sock *s;
	struct sock *sk;
	bool wanted;
	u8 state;

	if (!timer_ready) {
		u32 zero = 0;
		struct ticker *t = bpf_map_lookup_elem(&tcp_ticker, &zero);

		if (!t)
			return 0;
		/* The allocation may fail (kmalloc_nolock()); the next socket tries again. */
		timer_ready = !bpf_timer_init(&t->timer, &tcp_ticker, MONOTONIC) &&
			      !bpf_timer_set_callback(&t->timer, tick);
		WRITE(armed, 1);
		if (timer_ready)
			bpf_timer_start(&t->timer, settings.interval_ns, 0);
	}
	if (!common || !f)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0; /* this is a request socket, or one in TIME_WAIT */
	sk = &tp->inet_conn.icsk_inet.sk;
	state = sk->__sk_common.skc_state;
	if (state == TCP_CLOSE || state == TCP_SYN_SENT || state == TCP_SYN_RECV ||
	    !flow_key(sk, &key))
		return 0;
	wanted = flow_wanted(f, &key);
	s = bpf_sk_storage_get(&tcp_socks, sk, NULL,
			       wanted && take_existing ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!s) {
		/* A connection is opened by its next segment, but a listener has none. */
		if (wanted && take_existing && state == TCP_LISTEN)
			__sync_fetch_and_add(&unopened, 1);
		return 0;
	}
	find_owner(sk, s);
	wanted = wanted && (!f->pid || s->pid == f->pid);
	if (!s->id) {
		if (wanted && take_existing)
			flow_open(sk, s, &key,
				  SL_FLOW_OLDER | (state == TCP_LISTEN ? SL_FLOW_LISTENER : 0));
		return 0;
	}
	st = state_at(s->slot);
	if (!st)
		return 0;
	if (!wanted) {
		flow_close(sk, s, st, 0, SL_FLOW_UNWANTED, true);
	} else if (s->pid && !st->pid) {
		own(st, s);
		touch(st, s->slot);
	}
	return 0;
}
