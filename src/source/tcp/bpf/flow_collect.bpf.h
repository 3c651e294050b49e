/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * flow_collect.bpf.h - part of flow.bpf.c: collects a flow's statistics. Those that the kernel
 * keeps are copied; the others are accounted for at each segment, under the socket's lock.
 */
#ifndef SL_SOURCE_TCP_BPF_FLOW_COLLECT_BPF_H
#define SL_SOURCE_TCP_BPF_FLOW_COLLECT_BPF_H

#include "flow_state.bpf.h"

/*
 * Returns the time in microseconds that TCP's chronograph (tcp_output.c, tcp_chrono_set()) shows
 * for a kind: 1 busy, 2 limited by the peer's window, 3 limited by the send buffer.
 */
static __always_inline u64 chrono(const struct tcp_sock *tp, u32 running, u32 kind)
{
	u32 ticks = kind == 1	? FIELD(tp, chrono_stat[0])
		    : kind == 2 ? FIELD(tp, chrono_stat[1])
				: FIELD(tp, chrono_stat[2]);

	if (running == kind)
		ticks += (u32)bpf_jiffies64() - FIELD(tp, chrono_start);
	return (u64)ticks * settings.tick_us;
}

static __always_inline u32 at_most(u32 n)
{
	return n < 65535 ? n : 65535;
}

/* True for a congestion control whose name begins with "bbr". */
static __always_inline bool uses_bbr(const struct inet_connection_sock *icsk)
{
	char name[4] = {};

	if (bpf_rdonly_cast)
		*(u32 *)name = *(const u32 *)icsk->icsk_ca_ops->name;
	else
		BPF_CORE_READ_INTO(&name, icsk, icsk_ca_ops, name);
	return name[0] == 'b' && name[1] == 'b' && name[2] == 'r';
}

/*
 * Wraps the cells so that they can be passed to a non-static function, which the verifier checks
 * only once instead of per caller.
 */
struct cells {
	u64 cell[SL_FLOW_LINES * 8];
};

/*
 * Collects all cells of a flow except tags and check words. old: the state before a change in
 * progress, which determines whether our FIN has a sequence number. to may be st->final. sockless:
 * the socket now belongs to another flow.
 */
__noinline int collect(struct flow_state *st, struct cells *to, u64 now, u32 old, bool sockless)
{
	const struct inet_connection_sock *icsk;
	const struct tcp_sock *tp;
	const struct sock *sk;
	u64 *cells;
	u32 state, unsent, unread, snd_nxt, flags, running, fin, cwnd, rcv_nxt, nonagle;
	unsigned long most;
	u64 sent, again, received, busy, rwnd, sndbuf;

	if (!st || !to)
		return 0;
	cells = to->cell;
	tp = cast_to(struct tcp_sock, sockless ? NULL : READ(st->sk));
	icsk = &tp->inet_conn;
	sk = &icsk->icsk_inet.sk;
	state = st->closed_ns ? TCP_CLOSE : FIELD(sk, __sk_common.skc_state);
	if (!old)
		old = state;
	flags = st->flags;
	if (READ(st->drops[1]))
		flags |= SL_FLOW_DROPPED;
	if (FIELD(tp, ecn_flags) & ECN_OK)
		flags |= SL_FLOW_ECN;
	nonagle = FIELD_BITS(tp, nonagle);
	if (nonagle & NAGLE_OFF)
		flags |= SL_FLOW_NODELAY;
	if (nonagle & NAGLE_CORK)
		flags |= SL_FLOW_CORK;
	if (FIELD(icsk, icsk_user_timeout))
		flags |= SL_FLOW_USER_TIMEOUT;
	if (bpf_core_field_exists(tp->is_mptcp) && FIELD(tp, is_mptcp))
		flags |= SL_FLOW_SUBFLOW;
	if (uses_bbr(icsk))
		flags |= SL_FLOW_BBR;
	most = FIELD(sk, sk_max_pacing_rate);
	if (~most && FIELD(sk, sk_pacing_rate) >= most)
		flags |= SL_FLOW_PACED;

	cells[SL_FLOW_ID] = st->id;
	cells[SL_FLOW_WORD] = SL_FLOW_WORD_OF(st->closed_ns ? SL_STATE_CLOSED : SL_STATE_LIVE,
					      state, st->family, st->local_port, st->remote_port);
	if (state == TCP_CLOSE && old != state)
		cells[SL_FLOW_WORD] |= (u64)old << 24;
	cells[SL_FLOW_NETNS_PID] = pair(st->netns, st->pid);
	cells[SL_FLOW_CGROUP] = st->cgroup;
	cells[SL_FLOW_OPEN_NS] = st->open_ns;
	cells[SL_FLOW_CHANGED_NS] = now;
	cells[SL_FLOW_LOCAL] = st->local[0];
	cells[SL_FLOW_LOCAL + 1] = st->local[1];
	cells[SL_FLOW_REMOTE] = st->remote[0];
	cells[SL_FLOW_REMOTE + 1] = st->remote[1];
	cells[SL_FLOW_CLOSED_NS] = st->closed_ns;
	cells[SL_FLOW_HANDSHAKE_FLAGS] = pair(st->handshake_us, flags);
	cells[SL_FLOW_COMM] = st->comm[0];
	cells[SL_FLOW_COMM + 1] = st->comm[1];
	cells[SL_FLOW_DROPS] =
		pair(FIELD(sk, sk_drops.counter),
		     SL_FLOW_TIMERS_OF(FIELD(icsk, icsk_backoff), FIELD(icsk, icsk_retransmits),
				       FIELD(icsk, icsk_probes_out), FIELD(sk, sk_err)));
	cells[SL_FLOW_BUFFERS] = pair(FIELD(sk, sk_rcvbuf), FIELD(sk, sk_sndbuf));
	cells[SL_FLOW_BACKLOG] = pair(FIELD(sk, sk_ack_backlog), FIELD(sk, sk_max_ack_backlog));
	if (flags & SL_FLOW_LISTENER) {
		/* cells may contain values of the previous flow. */
		for (u32 i = SL_FLOW_BYTES_SENT; i < SL_FLOW_BACKLOG; i++)
			cells[i] = 0;
		cells[SL_FLOW_OFFERED_OUT] = cells[SL_FLOW_TURNS] = 0;
		return 0;
	}

	/* bytes_sent excludes SYN and FIN. Our FIN may be queued after unsent data. */
	sent = FIELD(tp, bytes_sent);
	again = FIELD(tp, bytes_retrans);
	snd_nxt = FIELD(tp, snd_nxt);
	unsent = FIELD(tp, write_seq) - snd_nxt;
	fin = old == TCP_FIN_WAIT1 || old == TCP_CLOSING || old == TCP_LAST_ACK;
	if ((s32)unsent < 0)
		unsent = 0;
	else if (unsent && fin)
		unsent--;
	cells[SL_FLOW_BYTES_SENT] = sent;
	cells[SL_FLOW_BYTES_ACKED] = FIELD(tp, bytes_acked);
	cells[SL_FLOW_BYTES_RETRANS] = again;
	cells[SL_FLOW_WRITE_BYTES] = sent - again + unsent;
	/* bytes_received includes the peer's FIN; copied_seq includes it once it has been read. */
	received = FIELD(tp, bytes_received);
	rcv_nxt = FIELD(tp, rcv_nxt);
	unread = rcv_nxt - FIELD(tp, copied_seq);
	if ((s32)unread < 0)
		unread = 0;
	cells[SL_FLOW_BYTES_RECEIVED] = received;
	fin = FIELD(sk, __sk_common.skc_flags) >> SOCK_DONE_BIT & 1;
	cells[SL_FLOW_READ_BYTES] = received - unread - (fin && !unread);

	if (unsent > READ(st->queue_max))
		WRITE(st->queue_max, unsent);
	cwnd = FIELD(tp, snd_cwnd);
	cells[SL_FLOW_FLIGHT_LOST] = pair(FIELD(tp, packets_out), FIELD(tp, lost));
	cells[SL_FLOW_WINDOWS] = pair(FIELD(tp, rcv_wnd), FIELD(tp, snd_wnd));
	cells[SL_FLOW_CWND] = pair(cwnd, FIELD(tp, snd_ssthresh));
	cells[SL_FLOW_MSS_QUEUE] = pair(FIELD(tp, mss_cache), unsent);
	cells[SL_FLOW_QUEUE_MAX] = pair(st->queue_max, FIELD(sk, sk_wmem_queued));
	cells[SL_FLOW_SRTT] = pair(FIELD(tp, srtt_us) >> 3, FIELD(tp, mdev_us) >> 2);
	cells[SL_FLOW_RTT_COUNT] = st->rtt_count;
	cells[SL_FLOW_RTT_SUM] = st->rtt_sum;
	cells[SL_FLOW_RTT_MIN_RTO] = pair(FIELD(tp, rtt_min.s[0].v),
					  FIELD(icsk, icsk_rto) * settings.tick_us);
	cells[SL_FLOW_RETRANS_DSACK] = pair(FIELD(tp, total_retrans), FIELD(tp, dsack_dups));
	cells[SL_FLOW_FAST_TIMEOUTS] = pair(
		st->fast, bpf_core_field_exists(tp->total_rto) ? FIELD(tp, total_rto) : st->loss);
	cells[SL_FLOW_REORDERED] = pair(FIELD(tp, rcv_ooopack), FIELD(tp, reord_seen));
	cells[SL_FLOW_RE_FAST_RTO] = pair(st->re_fast, st->re_rto);
	cells[SL_FLOW_RE_TLP_SYN] = pair(st->re_tlp, st->re_syn);
	cells[SL_FLOW_ZERO_WINDOWS] = pair(st->zero_in, st->zero_out);
	cells[SL_FLOW_DELIVERED] = pair(FIELD(tp, delivered), FIELD(tp, delivered_ce));
	cells[SL_FLOW_CE_PACING] = pair(st->ce_in, (u32)(FIELD(sk, sk_pacing_rate) >> 10));
	cells[SL_FLOW_CALLS] = pair(st->reads, st->writes);
	cells[SL_FLOW_SEGS_OUT] = pair(FIELD(tp, segs_out), FIELD(tp, data_segs_out));
	cells[SL_FLOW_SEGS_IN] = pair(FIELD(tp, segs_in), FIELD(tp, data_segs_in));
	running = FIELD_BITS(tp, chrono_type);
	busy = chrono(tp, running, 1);
	rwnd = chrono(tp, running, 2);
	sndbuf = chrono(tp, running, 3);
	cells[SL_FLOW_BUSY_US] = busy + rwnd + sndbuf;
	cells[SL_FLOW_RWND_US] = rwnd;
	cells[SL_FLOW_SNDBUF_US] = sndbuf;
	cells[SL_FLOW_OFFERED_OUT] =
		pair(FIELD(tp, max_window),
		     SL_FLOW_OUT_OF(at_most(FIELD(tp, lost_out)), at_most(FIELD(tp, retrans_out))));
	cells[SL_FLOW_BACKLOG] = pair(READ(st->turns), READ(st->held));
	cells[SL_FLOW_TURNS] = pair((u64)READ(st->waited) * settings.tick_us / 1000,
				    (u64)READ(st->thought) * settings.tick_us / 1000);
	/* Settled: an event precedes any further change. */
	return !unread && !unsent && state == TCP_ESTABLISHED && !(u32)cells[SL_FLOW_FLIGHT_LOST] &&
	       !(FIELD(icsk, icsk_ack.pending) & ACK_SCHEDULED);
}

/* ---- statistics that the kernel does not keep ---- */

/*
 * The kernel updates its smoothed RTT with a sample m by srtt += m - srtt / 8 (srtt is 8 times the
 * RTT; tcp_input.c, tcp_rtt_estimator()), at most once per incoming segment, so the difference
 * yields the exact sample. A sample equal to the mean leaves srtt unchanged but reduces mdev by a
 * quarter. If mdev is below 4, such a sample is only visible as a delivery without retransmission
 * (Karn).
 */
static __always_inline void account_rtt(struct flow_state *st, u32 srtt, u32 mdev, u32 delivered,
					u32 retrans)
{
	u32 before = st->srtt, sample;

	if (srtt != before) {
		sample = before ? srtt - before + (before >> 3) : srtt >> 3;
		/* Several samples arrived at once, as after a half-close; none is negative. */
		if ((s32)sample < 0)
			sample = srtt >> 3;
		st->rtt_count++;
		st->rtt_sum += sample;
		st->srtt = srtt;
	} else if (srtt && (mdev != st->mdev ||
			    (mdev < 4 && delivered != st->delivered && retrans == st->retrans))) {
		st->rtt_count++;
		st->rtt_sum += srtt >> 3;
	}
	st->mdev = mdev;
	st->delivered = delivered;
	st->retrans = retrans;
}

/*
 * Attributes the segments retransmitted since the last call by the socket's state: a timeout sets
 * Loss before it sends, fast retransmission sets Recovery, and in other states only a probe
 * retransmits (tcp_output.c, tcp_schedule_loss_probe()). The number comes from total_retrans,
 * because the tracepoint misses some retransmissions and counts buffers instead of segments.
 */
static __always_inline void account_cause(struct flow_state *st, const struct tcp_sock *tp,
					  u32 total)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;
	u32 more = total - st->caused, state;

	if (!more)
		return;
	st->caused = total;
	state = BPF_CORE_READ_BITFIELD_PROBED(icsk, icsk_ca_state);
	if (state == CA_LOSS)
		st->re_rto += more;
	else if (state == CA_RECOVERY)
		st->re_fast += more;
	else
		st->re_tlp += more;
}

/*
 * When data arrives, divides the time of a request and its answer between the two ends. The time
 * since this end last sent data was spent by the peer and the path. The time before that, since the
 * peer's data arrived, was spent by the application at this end. Times are in ticks; as in the
 * chronograph, their differences are right on average.
 */
static __always_inline void account_turn(struct flow_state *st, const struct tcp_sock *tp,
					 const struct sk_buff *skb)
{
	u32 out = tp->data_segs_out, sent = tp->lsndtime;

	if (out == st->turn || TCP_CB(skb, u32, seq) == TCP_CB(skb, u32, end_seq))
		return;
	st->turn = out;
	st->turns++;
	st->waited += (u32)bpf_jiffies64() - sent;
	if ((s32)(sent - tp->inet_conn.icsk_ack.lrcvtime) > 0)
		st->thought += sent - tp->inet_conn.icsk_ack.lrcvtime;
}

static __always_inline void account(struct flow_state *st, const struct tcp_sock *tp)
{
	u32 unsent = tp->write_seq - tp->snd_nxt, zero;

	account_rtt(st, tp->srtt_us, tp->mdev_us, tp->delivered, tp->total_retrans);
	account_cause(st, tp, tp->total_retrans);
	if ((s32)unsent > 0 && unsent > st->queue_max)
		st->queue_max = unsent;
	if (unsent && unsent < tp->mss_cache && tp->packets_out)
		st->held++;
	zero = !tp->snd_wnd | (!tp->rcv_wnd) << 1;
	if (zero != st->zero) {
		u32 begun = zero & ~st->zero;

		st->zero_in += begun & 1;
		st->zero_out += begun >> 1;
		st->zero = zero;
	}
}

#endif
