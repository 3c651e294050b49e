// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * flow.bpf.c - which sockets are looked at, and their statistics in memory.
 *
 * Most statistics are kept by the kernel in its struct tcp_sock. So the programs that run for each
 * segment do little: they account what the kernel keeps nowhere (samples of the RTT, causes,
 * zero windows) in a private array, and put the flow on a list. A timer takes the list, copies each
 * flow's statistics into the table, and lets go of a flow when nothing is in flight, unsent,
 * unread or to be acknowledged any more, its socket is unlocked, and no segment came meanwhile: then what the table
 * says is final. Nothing happens, nothing runs.
 *
 *   writes                          is written by
 *   tcp_states[slot], events        programs of the hooks, under the socket's lock
 *   tcp_flows: table, hot, journal  the timer alone. One timer's callback never runs beside
 *                                   itself, so that lines need no atomics
 *   tcp_dirty, the list             everybody: a place is taken by an atomic addition
 *
 * A flow that ends leaves its final statistics in its state, for the timer to publish; its slot is
 * closed for the time of quarantine and then free.
 */
#include "common.bpf.h"

#include <sidelight/flow.h>

#include "flow.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ABORT_WAIT    500000000 /* ns for a reset after closing; the socket may be another's by then */
#define POPS_MAX      1024 /* flows looked at in one round of the timer: about half a millisecond */
#define WAIT_MOST     64 /* intervals at which an unfinished flow that does nothing is looked at */
#define LISTENER_WAIT 1000000000ull
#define MONOTONIC     1 /* CLOCK_MONOTONIC */

const volatile struct sl_flow_settings settings = {.slots = 64};

/* How far a flow is. Once it is closed, final[] is valid, and the timer no longer looks at the socket. */
enum closed {
	OPEN = 0,
	ENDED = 1,     /* nothing more will change; the timer publishes that */
	PUBLISHED = 2, /* in quarantine */
	READING = 3,   /* TCP is done, but the application has not read all of it */
};

struct flow_state {
	u64 id;
	const struct tcp_sock *sk; /* read by the timer, behind .closed */
	u32 generation, number;	   /* of the slot, of the snapshot: the tag */
	u32 queued;		   /* it is on the list */
	u32 events;		   /* grows with each segment */
	u32 seen;		   /* by the timer */
	u32 closed;		   /* enum closed */
	u32 announced;		   /* its opening is in the journal */
	u32 flags;
	u64 open_ns, closed_ns, due, wait;
	u64 local[2], remote[2], cgroup;
	u32 netns, pid, handshake_us;
	u16 local_port, remote_port;
	u64 comm[2];
	u64 family;
	u64 rtt_count, rtt_sum;
	u32 srtt, mdev, delivered, retrans; /* as they were at the last segment */
	u32 caused;			    /* of total_retrans: those whose cause is known */
	u32 queue_max, fast, loss;
	u32 re_fast, re_rto, re_tlp, re_syn;
	u32 zero_in, zero_out, ce_in, zero;
	u32 reads, writes;
	u64 final[64];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64[64]);
} tcp_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct flow_state);
} tcp_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} tcp_dirty SEC(".maps");

struct quarantined {
	u64 until;
	u32 slot, pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct quarantined);
} tcp_quarantine SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__uint(value_size, 4);
} tcp_free SEC(".maps");

struct ticker {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ticker);
} tcp_ticker SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64[64]);
} tcp_scratch SEC(".maps");

/* Cgroups whose connections were seen, so that user space is told of each once (identity.c). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u32);
} tcp_known SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} tcp_arrivals SEC(".maps");

/* Written by many CPUs. */
__u64 list_head, next_id, fresh, refused;
__u64 nameless; /* cgroups that there was no room to know */
__u64 unopened; /* sockets that the kernel had no memory for at the moment; see sl_tcp_catch_up() */
__u32 armed;	/* 0: the timer sleeps; 1: it comes within an interval; 2: later */
__u32 kicks;	/* a flow on the list has to be looked at sooner than was planned */
/* The timer's own. */
__u64 list_tail, quarantine_head, quarantine_tail, journal_next, rounds, opened, used;
bool timer_ready;

#define READ(x)	    (*(const volatile typeof(x) *)&(x))
#define WRITE(x, v) (*(volatile typeof(x) *)&(x) = (v))

static __always_inline struct flow_state *state_at(u32 slot)
{
	return bpf_map_lookup_elem(&tcp_states, &slot);
}

static __always_inline u64 pair(u32 low, u32 high)
{
	return (u64)high << 32 | low;
}

/* ---- the list ------------------------------------------------------------------------------------ */

static __always_inline void timer_in(u64 ns)
{
	u32 zero = 0;
	struct ticker *t = bpf_map_lookup_elem(&tcp_ticker, &zero);

	if (t)
		bpf_timer_start(&t->timer, ns, 0);
}

static __always_inline void wake(void)
{
	if (READ(armed) != 1 && __sync_lock_test_and_set(&armed, 1) != 1)
		timer_in(settings.interval_ns);
}

static __always_inline void list_put(u32 slot)
{
	u32 at = (u32)__sync_fetch_and_add(&list_head, 1) & settings.ring_mask;
	u32 *place = bpf_map_lookup_elem(&tcp_dirty, &at);

	if (place)
		WRITE(*place, slot + 1); /* 0: taken and not yet written; the timer waits for it */
}

/*
 * Something may have changed. The addition is a full barrier, which pairs with the one of the timer
 * when it lets go of a flow: either we see queued as 0 or it sees the event.
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

/* ---- what the kernel keeps ------------------------------------------------------------------------ */

/*
 * Microseconds that a flow spent on a kind of its chronograph (tcp_output.c, tcp_chrono_set()); kinds
 * are 1 busy, 2 held back by the peer's window, 3 by the send buffer, each counted apart.
 */
static __always_inline u64 chrono(const struct tcp_sock *tp, u32 running, u32 kind)
{
	u32 ticks = kind == 1	? BPF_CORE_READ(tp, chrono_stat[0])
		    : kind == 2 ? BPF_CORE_READ(tp, chrono_stat[1])
				: BPF_CORE_READ(tp, chrono_stat[2]);

	if (running == kind)
		ticks += (u32)bpf_jiffies64() - BPF_CORE_READ(tp, chrono_start);
	return (u64)ticks * settings.tick_us;
}

/*
 * All cells of a flow but tags and checks. old: the state before a change that is under way, which tells
 * whether a FIN of ours has a sequence number. cells may be st->final.
 */
static __noinline int collect(const struct tcp_sock *tp, struct flow_state *st, u64 *cells, u64 now,
			      u32 old)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;
	const struct sock *sk = &icsk->icsk_inet.sk;
	u32 state, unsent, unread, snd_nxt, flags, running, fin, cwnd, rcv_nxt;
	u64 sent, again, received, busy, rwnd, sndbuf;

	if (!st || !cells)
		return 0;
	state = st->closed_ns ? TCP_CLOSE : BPF_CORE_READ(sk, __sk_common.skc_state);
	if (!old)
		old = state;
	flags = st->flags;
	if (BPF_CORE_READ(tp, ecn_flags) & ECN_OK)
		flags |= SL_FLOW_ECN;

	cells[SL_FLOW_ID] = st->id;
	cells[SL_FLOW_WORD] = SL_FLOW_WORD_OF(st->closed_ns ? SL_STATE_CLOSED : SL_STATE_LIVE,
					      state, st->family, st->local_port, st->remote_port);
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
	cells[SL_FLOW_DROPS] = (u32)BPF_CORE_READ(sk, sk_drops.counter);
	cells[SL_FLOW_BUFFERS] = pair(BPF_CORE_READ(sk, sk_rcvbuf), BPF_CORE_READ(sk, sk_sndbuf));
	cells[SL_FLOW_BACKLOG] = pair(BPF_CORE_READ(sk, sk_ack_backlog),
				      BPF_CORE_READ(sk, sk_max_ack_backlog));
	if (flags & SL_FLOW_LISTENER) {
		/* cells may hold the flow that was looked at before. */
		for (u32 i = SL_FLOW_BYTES_SENT; i < SL_FLOW_BACKLOG; i++)
			cells[i] = 0;
		return 0;
	}

	/* Payload only: no SYN or FIN is in bytes_sent. One of ours may wait behind the unsent. */
	sent = BPF_CORE_READ(tp, bytes_sent);
	again = BPF_CORE_READ(tp, bytes_retrans);
	snd_nxt = BPF_CORE_READ(tp, snd_nxt);
	unsent = BPF_CORE_READ(tp, write_seq) - snd_nxt;
	fin = old == TCP_FIN_WAIT1 || old == TCP_CLOSING || old == TCP_LAST_ACK;
	if ((s32)unsent < 0)
		unsent = 0;
	else if (unsent && fin)
		unsent--;
	cells[SL_FLOW_BYTES_SENT] = sent;
	cells[SL_FLOW_BYTES_ACKED] = BPF_CORE_READ(tp, bytes_acked);
	cells[SL_FLOW_BYTES_RETRANS] = again;
	cells[SL_FLOW_WRITE_BYTES] = sent - again + unsent;
	/* bytes_received counts the peer's FIN; so does copied_seq once the application saw it. */
	received = BPF_CORE_READ(tp, bytes_received);
	rcv_nxt = BPF_CORE_READ(tp, rcv_nxt);
	unread = rcv_nxt - BPF_CORE_READ(tp, copied_seq);
	if ((s32)unread < 0)
		unread = 0;
	cells[SL_FLOW_BYTES_RECEIVED] = received;
	fin = BPF_CORE_READ(sk, __sk_common.skc_flags) >> SOCK_DONE_BIT & 1;
	cells[SL_FLOW_READ_BYTES] = received - unread - (fin && !unread);

	if (unsent > READ(st->queue_max))
		WRITE(st->queue_max, unsent);
	cwnd = BPF_CORE_READ(tp, snd_cwnd);
	cells[SL_FLOW_FLIGHT_LOST] = pair(BPF_CORE_READ(tp, packets_out), BPF_CORE_READ(tp, lost));
	cells[SL_FLOW_WINDOWS] = pair(BPF_CORE_READ(tp, rcv_wnd), BPF_CORE_READ(tp, snd_wnd));
	cells[SL_FLOW_CWND] = pair(cwnd, BPF_CORE_READ(tp, snd_ssthresh));
	cells[SL_FLOW_MSS_QUEUE] = pair(BPF_CORE_READ(tp, mss_cache), unsent);
	cells[SL_FLOW_QUEUE_MAX] = pair(st->queue_max, BPF_CORE_READ(sk, sk_wmem_queued));
	cells[SL_FLOW_SRTT] = pair(BPF_CORE_READ(tp, srtt_us) >> 3,
				   BPF_CORE_READ(tp, mdev_us) >> 2);
	cells[SL_FLOW_RTT_COUNT] = st->rtt_count;
	cells[SL_FLOW_RTT_SUM] = st->rtt_sum;
	cells[SL_FLOW_RTT_MIN_RTO] = pair(BPF_CORE_READ(tp, rtt_min.s[0].v),
					  BPF_CORE_READ(icsk, icsk_rto) * settings.tick_us);
	cells[SL_FLOW_RETRANS_DSACK] = pair(BPF_CORE_READ(tp, total_retrans),
					    BPF_CORE_READ(tp, dsack_dups));
	cells[SL_FLOW_FAST_TIMEOUTS] = pair(st->fast, bpf_core_field_exists(tp->total_rto)
							      ? BPF_CORE_READ(tp, total_rto)
							      : st->loss);
	cells[SL_FLOW_REORDERED] = pair(BPF_CORE_READ(tp, rcv_ooopack),
					BPF_CORE_READ(tp, reord_seen));
	cells[SL_FLOW_RE_FAST_RTO] = pair(st->re_fast, st->re_rto);
	cells[SL_FLOW_RE_TLP_SYN] = pair(st->re_tlp, st->re_syn);
	cells[SL_FLOW_ZERO_WINDOWS] = pair(st->zero_in, st->zero_out);
	cells[SL_FLOW_DELIVERED] = pair(BPF_CORE_READ(tp, delivered),
					BPF_CORE_READ(tp, delivered_ce));
	cells[SL_FLOW_CE_PACING] = pair(st->ce_in, (u32)(BPF_CORE_READ(sk, sk_pacing_rate) >> 10));
	cells[SL_FLOW_CALLS] = pair(st->reads, st->writes);
	cells[SL_FLOW_SEGS_OUT] = pair(BPF_CORE_READ(tp, segs_out),
				       BPF_CORE_READ(tp, data_segs_out));
	cells[SL_FLOW_SEGS_IN] = pair(BPF_CORE_READ(tp, segs_in), BPF_CORE_READ(tp, data_segs_in));
	running = BPF_CORE_READ_BITFIELD_PROBED(tp, chrono_type);
	busy = chrono(tp, running, 1);
	rwnd = chrono(tp, running, 2);
	sndbuf = chrono(tp, running, 3);
	cells[SL_FLOW_BUSY_US] = busy + rwnd + sndbuf;
	cells[SL_FLOW_RWND_US] = rwnd;
	cells[SL_FLOW_SNDBUF_US] = sndbuf;
	/* Nothing to wait for: what comes next comes with an event. */
	return !unread && !unsent && state == TCP_ESTABLISHED && !(u32)cells[SL_FLOW_FLIGHT_LOST] &&
	       !(BPF_CORE_READ(icsk, icsk_ack.pending) & ACK_SCHEDULED);
}

/* ---- what the kernel keeps nowhere: at each segment, under the socket's lock ----------------------- */

/*
 * The kernel takes a sample m into its smoothed RTT by srtt += m - srtt / 8 (srtt is 8 times the RTT;
 * tcp_input.c, tcp_rtt_estimator()), and at most one for each segment that comes in: so the sample
 * is what the difference says, exactly. One that is equal to the mean leaves srtt as it is, but
 * makes mdev smaller, by a quarter; below 4 nothing shows it but that something was
 * delivered, and by no retransmission (Karn).
 */
static __always_inline void account_rtt(struct flow_state *st, u32 srtt, u32 mdev, u32 delivered,
					u32 retrans)
{
	u32 before = st->srtt, sample;

	if (srtt != before) {
		sample = before ? srtt - before + (before >> 3) : srtt >> 3;
		/* Several at once, as after a half close: no sample is negative. */
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
 * Segments that were sent again since the last look, by the state that the socket is in: a timeout has
 * set Loss before it sends, fast retransmission Recovery, and in any other a probe alone sends again
 * (tcp_output.c, tcp_schedule_loss_probe()). total_retrans is what counts: the tracepoint does not
 * show every one of them, and shows buffers, not segments.
 */
static __always_inline void account_cause(struct flow_state *st, const struct tcp_sock *tp)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;
	u32 total = BPF_CORE_READ(tp, total_retrans), more = total - st->caused, state;

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

static __always_inline void account(struct flow_state *st, const struct tcp_sock *tp)
{
	u32 unsent = tp->write_seq - tp->snd_nxt, zero;

	account_rtt(st, tp->srtt_us, tp->mdev_us, tp->delivered, tp->total_retrans);
	account_cause(st, tp);
	if ((s32)unsent > 0 && unsent > st->queue_max)
		st->queue_max = unsent;
	zero = !tp->snd_wnd | (!tp->rcv_wnd) << 1;
	if (zero != st->zero) {
		u32 begun = zero & ~st->zero;

		st->zero_in += begun & 1;
		st->zero_out += begun >> 1;
		st->zero = zero;
	}
}

/* Also connections that were there before. */
const volatile bool take_existing = true;

/* ---- opening and closing --------------------------------------------------------------------------- */

static __always_inline bool slot_take(u32 *slot)
{
	if (!bpf_map_pop_elem(&tcp_free, slot))
		return true;
	if (READ(fresh) < settings.slots) {
		*slot = (u32)__sync_fetch_and_add(&fresh, 1);
		if (*slot < settings.slots)
			return true;
	}
	__sync_fetch_and_add(&refused, 1);
	wake(); /* so that it is told */
	return false;
}

/*
 * The first connection of a cgroup wakes user space up, which then says in the table who that is. Should the
 * ring be full, the next connection tries again.
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

/* sk is locked, and s without an id. flags: how it came about. */
static __always_inline void flow_open(struct sock *sk, struct sl_sock *s,
				      const struct sl_flow_key *key, u32 flags)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	u64 now = bpf_ktime_get_ns();
	struct flow_state *st;
	u32 slot, srtt;

	if (!slot_take(&slot))
		return;
	st = state_at(slot);
	if (!st)
		return;
	if (key->mapped)
		flags |= SL_FLOW_MAPPED;
	if (s->syn_ns)
		flags |= SL_FLOW_ACTIVE;
	srtt = BPF_CORE_READ(tp, srtt_us);
	st->id = __sync_fetch_and_add(&next_id, 1) + 1;
	st->sk = tp;
	st->closed_ns = st->due = st->wait = 0;
	st->announced = 0;
	st->flags = flags;
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
	st->pid = s->pid;
	__builtin_memcpy(st->comm, s->comm, 16);
	st->handshake_us = 0;
	st->rtt_count = st->rtt_sum = 0;
	st->srtt = flags & SL_FLOW_OLDER ? srtt : 0;
	st->mdev = BPF_CORE_READ(tp, mdev_us);
	st->delivered = BPF_CORE_READ(tp, delivered);
	st->retrans = st->caused = BPF_CORE_READ(tp, total_retrans);
	st->queue_max = st->fast = st->loss = 0;
	st->re_fast = st->re_rto = st->re_tlp = 0;
	st->re_syn = s->syn_retrans;
	st->zero_in = st->zero_out = st->ce_in = st->zero = 0;
	st->reads = st->writes = 0;
	if (!(flags & (SL_FLOW_OLDER | SL_FLOW_LISTENER))) {
		/* The peer's end of the handshake is the first sample. */
		if (s->syn_ns)
			st->handshake_us = (u32)((now - s->syn_ns) / 1000);
		else
			st->handshake_us = srtt >> 3;
		account_rtt(st, srtt, st->mdev, st->delivered, st->retrans);
	}
	__sync_lock_test_and_set(&st->closed, OPEN);
	s->slot = slot;
	s->id = st->id;
	touch(st, slot);
	tell_cgroup(key->cgroup);
}

/*
 * What the application has read of a connection that TCP is done with. tcp_disconnect() resets all
 * numbers, which bytes_received tells: then what was read before stands. True if some is unread.
 */
static __always_inline bool read_on(const struct tcp_sock *tp, u64 *cells)
{
	const struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u64 received = cells[SL_FLOW_BYTES_RECEIVED];
	u32 unread = BPF_CORE_READ(tp, rcv_nxt) - BPF_CORE_READ(tp, copied_seq);
	u32 fin = BPF_CORE_READ(sk, __sk_common.skc_flags) >> SOCK_DONE_BIT & 1;

	if (BPF_CORE_READ(tp, bytes_received) != received || (s32)unread < 0)
		return false;
	cells[SL_FLOW_READ_BYTES] = received - unread - (fin && !unread);
	return unread > fin;
}

/*
 * sk is locked. old: the state that it comes from; last: the socket goes away. If TCP is done while the
 * application has still to read, the flow ends when it has: when it closes the socket, that is.
 */
static __always_inline void flow_close(struct sock *sk, struct sl_sock *s, struct flow_state *st,
				       u32 old, u32 flags, bool last)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	u64 now = bpf_ktime_get_ns();
	u32 closed = ENDED;

	if (st->closed == READING) {
		read_on(tp, st->final);
	} else {
		if (!(st->flags & SL_FLOW_LISTENER))
			account_rtt(st, BPF_CORE_READ(tp, srtt_us), BPF_CORE_READ(tp, mdev_us),
				    BPF_CORE_READ(tp, delivered), BPF_CORE_READ(tp, total_retrans));
		st->flags |= flags;
		st->closed_ns = now;
		collect(tp, st, st->final, now, old);
		if (!last && !(st->flags & SL_FLOW_LISTENER) && read_on(tp, st->final) &&
		    !(BPF_CORE_READ(sk, __sk_common.skc_flags) & 1 << SOCK_DEAD_BIT))
			closed = READING;
	}
	if (closed == ENDED) {
		s->ended = s->id;
		s->id = 0;
	}
	WRITE(st->due, 0);
	/* Pairs with the timer's look at it: who sees it sees final[]. */
	__sync_lock_test_and_set(&st->closed, closed);
	st->wait = 1; /* sooner than planned */
	touch(st, s->slot);
}

static __always_inline struct flow_state *state_of(struct sock *sk, struct sl_sock **of)
{
	struct sl_sock *s = flow_of(sk);

	if (!s)
		return NULL;
	*of = s;
	return state_at(s->slot);
}

static __always_inline void open_if_wanted(struct sock *sk, struct sl_sock *s, u32 flags)
{
	const struct sl_tcp_filter *f = filter_now();
	struct sl_flow_key key;

	if (f && flow_key(sk, &key) && flow_wanted(f, &key) && (!f->pid || f->pid == s->pid))
		flow_open(sk, s, &key, flags);
}

/*
 * A connection whose establishment was left out (see sl_tcp_catch_up()) is found by the next change of
 * its state. One that the filter does not want comes here at each.
 */
static __always_inline struct flow_state *open_late(struct sock *sk, int old, struct sl_sock **of)
{
	struct sl_sock *s;

	if (!take_existing || old == TCP_CLOSE || old == TCP_SYN_SENT || old == TCP_SYN_RECV ||
	    old == TCP_NEW_SYN_RECV || old == TCP_LISTEN)
		return NULL;
	s = bpf_sk_storage_get(&tcp_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s || s->id || s->ended)
		return NULL;
	open_if_wanted(sk, s, SL_FLOW_OLDER);
	*of = s;
	return s->id ? state_at(s->slot) : NULL;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(flow_state, struct sock *sk, int old, int new)
{
	struct flow_state *st;
	struct sl_sock *s;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (new != TCP_SYN_SENT &&new != TCP_ESTABLISHED &&new != TCP_LISTEN) {
		st = state_of(sk, &s);
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
		/* Connected or listening anew, while the flow before had something to be read. */
		st = new == TCP_ESTABLISHED ? NULL : state_at(s->slot);
		if (!st)
			return 0;
		flow_close(sk, s, st, old, 0, true);
	}
	if (new == TCP_ESTABLISHED) {
		open_if_wanted(sk, s, 0);
		return 0;
	}
	/* connect() and listen() run in the context of the process. */
	s->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	s->syn_retrans = 0;
	s->syn_ns = 0;
	if (new == TCP_SYN_SENT)
		s->syn_ns = bpf_ktime_get_ns();
	else
		open_if_wanted(sk, s, SL_FLOW_LISTENER);
	return 0;
}

/* A socket that ends without TCP_CLOSE. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(flow_destroy, struct sock *sk)
{
	struct sl_sock *s;
	struct flow_state *st = state_of(sk, &s);

	if (st)
		flow_close(sk, s, st, 0, 0, true);
	return 0;
}

/* ---- segments ---------------------------------------------------------------------------------------- */

SEC("tp_btf/tcp_probe")
int BPF_PROG(flow_segment, struct sock *sk, struct sk_buff *skb)
{
	const struct tcp_sock *tp;
	struct flow_state *st;
	struct sl_sock *s;

	st = state_of(sk, &s);
	if (!st)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	account(st, tp);
	if (tp->ecn_flags & ECN_OK) {
		const struct tcp_skb_cb *cb = (const struct tcp_skb_cb *)skb->cb;

		if ((BPF_CORE_READ(cb, ip_dsfield) & 3) == 3)
			st->ce_in++;
	}
	touch(st, s->slot);
	return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(flow_congestion, struct sock *sk, u8 state)
{
	struct sl_sock *s;
	struct flow_state *st = state_of(sk, &s);

	if (!st)
		return 0;
	account_cause(st, tcp_of(sk)); /* the socket's own state is still the old one */
	if (state == CA_RECOVERY)
		st->fast++; /* set by tcp_enter_recovery() alone */
	if (state == CA_LOSS)
		st->loss++; /* each timeout sets it again */
	touch(st, s->slot);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(flow_retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct sl_sock *s = bpf_sk_storage_get(&tcp_socks, sk, NULL, 0);
	const struct tcp_sock *tp;
	struct flow_state *st;

	if (!s)
		return 0;
	if (!s->id) {
		s->syn_retrans++;
		return 0;
	}
	tp = bpf_skc_to_tcp_sock(sk);
	st = state_at(s->slot);
	if (!st || !tp)
		return 0;
	account_cause(st, tp);
	touch(st, s->slot);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(flow_reset_in, struct sock *sk)
{
	struct sl_sock *s;
	struct flow_state *st = state_of(sk, &s);

	if (st)
		st->flags |= SL_FLOW_RESET_IN;
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(flow_reset_out, struct sock *sk)
{
	struct flow_state *st;
	struct sl_sock *s;

	if (!sk) /* a segment for nobody */
		return 0;
	s = bpf_sk_storage_get(&tcp_socks, sk, NULL, 0);
	st = s && (s->id || s->ended) ? state_at(s->slot) : NULL;
	/* On a listener it concerns a segment, not the flow. */
	if (!st || st->id != (s->id ? s->id : s->ended) || st->flags & SL_FLOW_LISTENER)
		return 0;
	st->flags |= SL_FLOW_RESET_OUT;
	/* Who aborts closes first and resets then; the timer waits for that. */
	if (!s->id)
		st->final[SL_FLOW_HANDSHAKE_FLAGS] |= (u64)SL_FLOW_RESET_OUT << 32;
	return 0;
}

/* ---- calls: not under the socket's lock -------------------------------------------------------------- */

static __always_inline int call_done(struct sock *sk, int ret, bool write)
{
	struct flow_state *st;
	struct sl_sock *s;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	st = state_of(sk, &s);
	if (!st || ret < 0)
		return 0;
	__sync_fetch_and_add(write ? &st->writes : &st->reads, 1);
	touch(st, s->slot);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(flow_send, struct sock *sk, int ret)
{
	return call_done(sk, ret, true);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(flow_receive, struct sock *sk, int ret)
{
	return call_done(sk, ret, false);
}

/*
 * Under the socket's lock, in the context of the process that reads: whose socket it is. A connection
 * that was accepted shows that nowhere else. Attached only where somebody wants to know.
 */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(flow_owner, struct sock *sk)
{
	const struct sl_tcp_filter *f = filter_now();
	struct sl_sock *s = bpf_sk_storage_get(&tcp_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	struct flow_state *st;

	if (!s || !f)
		return 0;
	if (!s->pid) {
		s->pid = bpf_get_current_pid_tgid() >> 32;
		bpf_get_current_comm(s->comm, sizeof(s->comm));
		st = s->id ? state_at(s->slot) : NULL;
		if (st) {
			st->pid = s->pid;
			__builtin_memcpy(st->comm, s->comm, 16);
		} else if (f->pid == s->pid) {
			open_if_wanted(sk, s, SL_FLOW_OLDER);
		}
	}
	return 0;
}

/* ---- the timer ---------------------------------------------------------------------------------------- */

static __always_inline void line_store(u64 *to, const u64 *from, u64 tag)
{
	u64 check = (tag ^ tag >> 32) * SL_LINE_K0;

	WRITE(to[0], tag);
#define CELL(i)                \
	WRITE(to[i], from[i]); \
	check += (from[i] ^ from[i] >> 32) * SL_LINE_K##i
	CELL(1);
	CELL(2);
	CELL(3);
	CELL(4);
	CELL(5);
	CELL(6);
#undef CELL
	WRITE(to[7], check);
}

static __noinline int publish(u32 slot, struct flow_state *st, const u64 *cells)
{
	u32 at = SL_FLOWS_FIRST_ELEMENT + slot;
	u64 *to = bpf_map_lookup_elem(&tcp_flows, &at);
	u64 tag;

	if (!to || !st || !cells)
		return 0;
	tag = pair(++st->number, st->generation);
#pragma unroll
	for (u32 line = 0; line < SL_FLOW_LINES; line++)
		line_store(to + line * 8, cells + line * 8, tag);
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

/* The socket's lock, seen from outside: held by a process, or its spinlock taken. */
static __always_inline bool locked(const struct tcp_sock *tp)
{
	const struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	return BPF_CORE_READ(sk, sk_lock.owned) ||
	       (bpf_core_field_exists(sk->sk_lock.slock.rlock.raw_lock.val.counter) &&
		BPF_CORE_READ(sk, sk_lock.slock.rlock.raw_lock.val.counter));
}

struct round {
	u64 now, soonest; /* when a flow on the list is due */
	u32 left;	  /* there is more than this round could do */
	u32 again;	  /* put on the list again */
};

static __always_inline void list_again(struct flow_state *st, u32 slot, struct round *r)
{
	if (st->due < r->soonest)
		r->soonest = st->due;
	r->again++;
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

	publish(slot, st, st->final);
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

/* When to look again at a flow that has not settled. changed: something came since the last look. */
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

/* TCP is done with it; the application may be reading. It is shown as live, in state CLOSE. */
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
		publish(slot, st, cells);
	return 0;
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
	slot = READ(*place);
	if (!slot) { /* somebody is about to write it */
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
		/* Who aborts closes first and resets then, all under the socket's lock. */
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
	if (READ(st->due) > r->now) {
		list_again(st, slot, r);
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
	done = collect(tp, st, cells, r->now, 0);
	busy |= locked(tp);
	/* Its memory may be another's by now; whoever closed it has left the final values. */
	if (READ(st->closed)) {
		list_again(st, slot, r);
		return 0;
	}
	publish(slot, st, cells);
	announce(st, slot, cells);
	if (done && !busy && events == READ(st->events)) {
		__sync_lock_test_and_set(&st->queued, 0);
		if (events == READ(st->events) && !READ(st->closed))
			return 0;
		if (__sync_lock_test_and_set(&st->queued, 1))
			return 0; /* the event has put it there */
	}
	look_later(st, slot, busy || events != st->seen, r);
	st->seen = events;
	return 0;
}

static long free_one(u32 i, struct round *r)
{
	u32 at = (u32)quarantine_tail & settings.ring_mask, zero = 0;
	struct quarantined *q = bpf_map_lookup_elem(&tcp_quarantine, &at);
	u64 *cells = bpf_map_lookup_elem(&tcp_scratch, &zero);
	struct flow_state *st;
	u32 slot;

	if (!q || !cells || quarantine_tail == quarantine_head || q->until > r->now)
		return 1;
	slot = q->slot;
	quarantine_tail++;
	st = state_at(slot);
	if (!st)
		return 0;
	__builtin_memset(cells, 0, 512);
	st->generation++;
	st->number = 0;
	publish(slot, st, cells);
	bpf_map_push_elem(&tcp_free, &slot, 0);
	return 0;
}

static __always_inline void hot_store(u64 now)
{
	u32 at = SL_FLOWS_HOT_ELEMENT;
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
	struct quarantined *q;

	if (waiting > POPS_MAX) {
		waiting = POPS_MAX;
		r.left = 1;
	}
	bpf_loop((u32)waiting, look_at, &r, 0);
	bpf_loop(POPS_MAX, free_one, &r, 0);
	hot_store(r.now);

	at = (u32)quarantine_tail & settings.ring_mask;
	q = bpf_map_lookup_elem(&tcp_quarantine, &at);
	if (q && quarantine_tail != quarantine_head && q->until < r.soonest)
		r.soonest = q->until;
	if (r.left || r.soonest <= r.now + settings.interval_ns) {
		bpf_timer_start(&ticker->timer, settings.interval_ns, 0);
		return 0;
	}
	next = r.soonest == ~0ull ? 0 : r.soonest - r.now;
	/* Pairs with touch(): who put something on the list and saw 1 is seen here. */
	__sync_lock_test_and_set(&armed, next ? 2 : 0);
	if (kicked != READ(kicks) || READ(list_head) - list_tail > r.again)
		wake();
	else if (next)
		bpf_timer_start(&ticker->timer, next, 0);
	return 0;
}

/* ---- what was there before ------------------------------------------------------------------------------ */

/*
 * Run at the start and after each change of the filter: opens what is wanted and not looked at, closes
 * what is looked at and no longer wanted. The iterator holds the socket's lock.
 */
SEC("iter/tcp")
int flow_existing(struct bpf_iter__tcp *ctx)
{
	const struct sl_tcp_filter *f = filter_now();
	struct sock_common *common = ctx->sk_common;
	struct sl_flow_key key;
	struct flow_state *st;
	struct tcp_sock *tp;
	struct sl_sock *s;
	struct sock *sk;
	bool wanted;
	u8 state;

	if (!timer_ready) {
		u32 zero = 0;
		struct ticker *t = bpf_map_lookup_elem(&tcp_ticker, &zero);

		if (!t)
			return 0;
		timer_ready = true;
		bpf_timer_init(&t->timer, &tcp_ticker, MONOTONIC);
		bpf_timer_set_callback(&t->timer, tick);
		WRITE(armed, 1);
		bpf_timer_start(&t->timer, settings.interval_ns, 0);
	}
	if (!common || !f)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0; /* a request, or in TIME_WAIT */
	sk = &tp->inet_conn.icsk_inet.sk;
	state = sk->__sk_common.skc_state;
	if (state == TCP_CLOSE || state == TCP_SYN_SENT || state == TCP_SYN_RECV ||
	    !flow_key(sk, &key))
		return 0;
	s = bpf_sk_storage_get(&tcp_socks, sk, NULL, 0);
	wanted = flow_wanted(f, &key) && (!f->pid || (s && s->pid == f->pid));
	if (s && s->id) {
		st = state_at(s->slot);
		if (!wanted && st)
			flow_close(sk, s, st, 0, SL_FLOW_UNWANTED, true);
		return 0;
	}
	if (!wanted || !take_existing)
		return 0;
	if (!s)
		s = bpf_sk_storage_get(&tcp_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (s)
		flow_open(sk, s, &key,
			  SL_FLOW_OLDER | (state == TCP_LISTEN ? SL_FLOW_LISTENER : 0));
	return 0;
}
