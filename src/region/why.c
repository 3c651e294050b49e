// SPDX-License-Identifier: Apache-2.0
/* why.c - decides what limits a connection, using the table of conditions in docs/tcp.md. */
#include "region/why_internal.h"
#include "base/base.h"

#include <netinet/tcp.h>
#include <string.h>

#define IDLE_SHARE  0.01 /* a flow with less busy time than this, and without a byte, is idle */
#define INFLATED    2.0	 /* mean RTT / minimum RTT: above this, a queue has built up */
#define INFLATED_US 1000 /* minimum excess of the mean RTT; less is the host's own jitter */
/* fraction of the window used per RTT: above this, the window limits */
#define WINDOW_USED 0.5
/* unread fraction of the receive buffer: above this, the reader limits */
#define BUFFER_UNREAD 0.25
#define REORDERED     0.005 /* reordering events per segment sent: above this, they count */
#define PACED_USED    0.7   /* throughput / pacing rate: above this, pacing limits */
#define SPURIOUS      0.8   /* spurious share of the retransmissions: above this, no loss */
#define IN_FLIGHT     16ull /* bytes in flight / unsent bytes: above this, nearly all is in flight */
#define UNSENT_SHARE  0.25  /* share of time with unsent data and nothing in flight: corked */
/* acknowledgements that release data, per segment sent: at or above this, Nagle holds data */
#define HELD 0.25
/* share of time that requests and answers must take to be the explanation */
#define TURNS_SHARE	  0.5
#define INFINITE_SSTHRESH 0x7fffffffu /* TCP_INFINITE_SSTHRESH of net/tcp.h */
/* segments: a smaller congestion window than the initial one hardly builds up a queue (RFC 6928) */
#define SMALL_CWND 10u
/* timeouts in a row, which take seven times the first RTO: above this, the path is dead */
#define DEAD_TIMEOUTS 3
/* minimum excess of the mean RTT for a queue that overflows; less may be the CPUs of both hosts */
#define OVERFLOW_US 10000
/* share of time for which a window must limit a sender, so that the peer's reader is the cause */
#define WINDOW_SHARE 0.1

static uint64_t increase_of(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

static void count_changes(const struct region_flow *b, const struct region_flow *now,
			  struct region_why_change *c)
{
	uint64_t probes = increase_of(b->re_tlp, now->re_tlp);
	uint64_t segs_out = increase_of(b->segs_out, now->segs_out), samples, sum, spurious;

	c->acked = increase_of(b->bytes_acked, now->bytes_acked);
	c->received = increase_of(b->bytes_received, now->bytes_received);
	c->read = increase_of(b->read_bytes, now->read_bytes);
	c->unread = region_flow_unread(now);
	c->turns = increase_of(b->turns, now->turns);
	c->held = increase_of(b->held, now->held);
	c->retrans = increase_of(b->retrans, now->retrans);
	/* Tail loss probes and spurious retransmissions do not indicate loss. */
	c->dsack = increase_of(b->dsack, now->dsack);
	spurious = BASE_MAX(c->dsack, probes);
	c->lost = c->retrans > spurious ? c->retrans - spurious : 0;
	c->reorder = increase_of(b->reorder, now->reorder);
	c->timeouts = increase_of(b->timeouts, now->timeouts);
	c->fast = increase_of(b->fast, now->fast);
	c->zero_in = increase_of(b->zero_in, now->zero_in);
	c->zero_out = increase_of(b->zero_out, now->zero_out);
	c->marked = increase_of(b->delivered_ce, now->delivered_ce);
	c->drops = increase_of(b->drops, now->drops);
	c->data_out = increase_of(b->data_segs_out, now->data_segs_out);
	c->data_in = increase_of(b->data_segs_in, now->data_segs_in);
	c->acks_out = increase_of(c->data_out, segs_out);
	samples = increase_of(b->rtt_count, now->rtt_count);
	sum = increase_of(b->rtt_sum_us, now->rtt_sum_us);
	c->rtt_us = samples ? (double)sum / (double)samples : now->srtt_us;
}

/* True if less than a segment is unsent although nothing is in flight. */
static bool holds_little(const struct region_flow *f)
{
	return f && f->queue && f->queue < f->mss && !f->flight;
}

/*
 * Like holds_little(), but for the interval between the snapshots. True if there was never a full
 * segment to send, but sometimes less, and segments in flight were seldom the reason (MSG_MORE).
 */
static bool held_little(const struct region_why_change *c)
{
	const struct region_flow *f = c->now;

	return f->queue_max && f->queue_max < f->mss &&
	       (double)c->held < HELD * (double)c->data_out;
}

bool region_why_stopped(const struct region_why_change *c)
{
	const struct region_flow *f = c->now;

	return f->state == SL_STATE_LIVE && f->flight && f->backoff > 1 &&
	       c->timeouts <= f->backoff;
}

/* ---- the parts of the interval ---- */

/* SYN and FIN count as bytes, but are no data. */
static bool moves_no_data(const struct region_why_change *c)
{
	return (!c->acked || !c->data_out) && (!c->received || !c->data_in);
}

static bool is_silent(const struct region_why_change *c)
{
	return c->part[REGION_WHY_PART_NOTHING] > 1 - IDLE_SHARE && moves_no_data(c);
}

/*
 * True if nothing comes back. Unanswered window probes count as well; but a peer that answers them
 * and keeps its window closed is not dead.
 */
static bool is_unanswered(const struct region_why_change *c, double busy_us)
{
	const struct region_flow *f = c->now;

	if (c->acked || f->state != SL_STATE_LIVE)
		return false;
	if (!f->flight)
		return f->queue && f->probes > 1;
	return f->backoff || c->timeouts || (busy_us > 2.0 * f->srtt_us && busy_us > f->rto_us);
}

/*
 * Estimates the time spent waiting for retransmission timeouts, in us. The chronograph attributes
 * it to the window or the buffer that was full when the segments were lost. Consecutive timeouts
 * double the RTO each time. Timeouts count as consecutive if less than a window was acknowledged
 * meanwhile.
 */
static double timeout_us(const struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	double rto = (double)(f->rto_us >> BASE_MIN(f->backoff, 31u)), us;
	bool in_a_row = f->flight && f->snd_wnd && c->acked < f->snd_wnd;

	us = (double)c->timeouts * rto;
	if (in_a_row && c->timeouts)
		us = c->us;
	return f->flight && f->backoff ? BASE_MAX(us, f->rto_us - rto) : us;
}

/* True if a queue on the path sets the pace, rather than a window or a buffer here. */
static bool is_inflated(const struct region_why_change *c)
{
	const struct region_flow *f = c->now;

	return f->rtt_min_us && c->rtt_us >= INFLATED * f->rtt_min_us &&
	       c->rtt_us >= f->rtt_min_us + INFLATED_US;
}

static bool is_pending(const struct region_flow *f)
{
	return f->flight || f->queue;
}

static double part_of(double us, double of)
{
	return BASE_MIN(us, of) / of;
}

/*
 * Uses the snapshot to attribute the rest of the busy time, which the chronograph attributes
 * neither to the peer's window nor to the send buffer. If there was more to send, the congestion
 * window was the limit. But the chronograph also runs while all written data waits for its
 * acknowledgement (a request, or Nagle's algorithm), and reports a full send buffer only if nothing
 * in it is left to send. If more data waits in the buffer than is in flight, a larger buffer would
 * not help: TCP small queues limit the data passed to the device (tcp_small_queue_check()). If
 * nearly all of a full buffer is in flight, a larger congestion window would hardly send more, even
 * if this one is full: the kernel lets it grow only while it is used.
 */
static enum region_why_part find_rest(const struct region_why_change *c,
				      const struct region_flow *f)
{
	double paced = f->pacing_kib * 1024.0 * c->us / 1e6;
	uint64_t flight = (uint64_t)f->flight * f->mss;
	/* Where a queue on the path sets the pace, most of the congestion window is in flight. */
	bool paces = is_inflated(c) && f->flight >= f->cwnd / 2;
	bool full = !paces && f->sndbuf && f->wmem + f->wmem / 2 >= f->sndbuf;

	if (f->flags & SL_FLOW_PACED && (double)c->acked >= PACED_USED * paced)
		return REGION_WHY_PART_PACING;
	if (full && f->queue * IN_FLIGHT <= flight)
		return REGION_WHY_PART_SNDBUF;
	if (f->flight >= f->cwnd)
		return REGION_WHY_PART_CWND;
	if (full && f->queue <= flight)
		return REGION_WHY_PART_SNDBUF;
	return f->queue < f->mss ? REGION_WHY_PART_WAITING : REGION_WHY_PART_CWND;
}

static void split_interval(const struct region_flow *b, struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	double busy, rwnd, sndbuf, stalled, left, *part = c->part;

	/* The chronograph counts in ticks, so its sum may exceed the interval by one. */
	busy = BASE_MIN((double)increase_of(b->busy_us, f->busy_us), c->us);
	rwnd = BASE_MIN((double)increase_of(b->rwnd_us, f->rwnd_us), busy);
	sndbuf = BASE_MIN((double)increase_of(b->sndbuf_us, f->sndbuf_us), busy - rwnd);
	part[REGION_WHY_PART_NOTHING] = 1 - busy / c->us;
	if (is_unanswered(c, busy)) {
		part[REGION_WHY_PART_STALLED] = 1;
		part[REGION_WHY_PART_NOTHING] = 0;
		return;
	}
	/*
	 * Data waits for a closed window. There are no events and thus no new snapshots, so the
	 * statistics may be older than the interval.
	 */
	if (is_silent(c) && f->queue && f->snd_wnd < f->mss) {
		part[REGION_WHY_PART_RWND] = 1;
		part[REGION_WHY_PART_NOTHING] = 0;
		return;
	}
	stalled = BASE_MIN(timeout_us(c), busy);
	left = busy > 0 ? (busy - stalled) / busy / c->us : 0;
	part[REGION_WHY_PART_STALLED] = stalled / c->us;
	part[REGION_WHY_PART_RWND] = rwnd * left;
	part[REGION_WHY_PART_SNDBUF] = sndbuf * left;
	left *= (busy - rwnd - sndbuf) / 2;
	/* While a connection is idle, nothing shows what limits it when it is busy. */
	if (!c->before || !is_pending(b))
		b = f;
	part[find_rest(c, b)] += left;
	part[find_rest(c, is_pending(f) ? f : b)] += left;
}

static void compute_change(const struct region_flow *before, const struct region_flow *now,
			   struct region_why_change *c)
{
	static const struct region_flow nothing;
	const struct region_flow *b = before ?: &nothing;
	uint64_t from = before ? before->changed_ns : now->open_ns;

	memset(c, 0, sizeof(*c));
	c->before = before;
	c->now = now;
	c->unread_before = region_flow_unread(before ?: now);
	c->us = (double)increase_of(from, now->changed_ns) / 1000;
	c->us = BASE_MAX(c->us, 1);
	count_changes(b, now, c);
	split_interval(b, c);
	c->waited = part_of(1e3 * (double)increase_of(b->waited_ms, now->waited_ms), c->us);
	c->thought =
		BASE_MIN(part_of(1e3 * (double)increase_of(b->thought_ms, now->thought_ms), c->us),
			 1 - c->waited);
	c->round_trips = BASE_MIN((double)c->turns * now->rtt_min_us / c->us, c->waited);
}

/* ---- the conditions ---- */

static double application_share(const struct region_why_change *c)
{
	return c->part[REGION_WHY_PART_NOTHING] + c->part[REGION_WHY_PART_WAITING];
}

/* True if no part is larger than this one. If two are equal, the earlier condition wins. */
static bool dominates(const struct region_why_change *c, double share)
{
	for (int i = REGION_WHY_PART_STALLED; i < REGION_WHY_PARTS; i++)
		if (c->part[i] > share)
			return false;
	return share > 0 && application_share(c) <= share;
}

static bool lists(const struct region_why_change *c)
{
	return c->now->flags & SL_FLOW_LISTENER && c->now->state == SL_STATE_LIVE;
}

static bool refuses(const struct region_why_change *c)
{
	const struct region_flow *f = c->now, *b = c->before ?: f;

	return lists(c) &&
	       ((c->drops && (region_flow_queue_full(f) || region_flow_queue_full(b))) ||
		(f->backlog_max && f->backlog > f->backlog_max));
}

static bool was_refused(const struct region_why_change *c)
{
	return region_flow_end(c->now) == REGION_FLOW_REFUSED;
}

static bool has_failed(const struct region_why_change *c)
{
	return region_flow_failed(c->now);
}

static bool timed_out(const struct region_why_change *c)
{
	return region_flow_timed_out(c->now);
}

static bool was_reset(const struct region_why_change *c)
{
	return c->now->flags & (SL_FLOW_RESET_IN | SL_FLOW_RESET_OUT);
}

/*
 * True if data waits longer for the application than the path takes (Little's law: the amount
 * waiting is the rate times the waiting time), and fills enough of the buffer to limit the peer.
 * Applies only to an end that receives at least as much as it sends; otherwise, the other end knows
 * more.
 */
static bool reads_slowly(const struct region_why_change *c)
{
	const struct region_flow *f = c->now, *b = c->before ?: f;
	double waiting = (double)c->unread + (double)c->unread_before;

	return c->received >= c->acked && c->unread && c->unread_before &&
	       waiting >= BUFFER_UNREAD * (waiting + f->rcv_wnd + b->rcv_wnd) &&
	       waiting / 2 > (double)c->read / c->us * f->rtt_min_us;
}

/* Without other traffic, even a little unread data shows that the application does not read. */
static bool reads_nothing(const struct region_why_change *c)
{
	return !c->read && (reads_slowly(c) || (is_silent(c) && c->now->state == SL_STATE_LIVE &&
						c->before && c->unread && c->unread_before));
}

/*
 * If the end came soon after the first snapshot, the FIN was in flight for most of the interval. A
 * connection that only the filter excludes is still open.
 */
static bool was_closed(const struct region_why_change *c)
{
	return moves_no_data(c) && c->now->state == SL_STATE_CLOSED &&
	       region_flow_end(c->now) != REGION_FLOW_LEFT;
}

static bool is_half_closed(const struct region_why_change *c)
{
	uint32_t state = c->now->tcp_state;

	return is_silent(c) && (state == TCP_CLOSE_WAIT || state == TCP_FIN_WAIT2);
}

static bool acks_nothing(const struct region_why_change *c)
{
	return !c->acked || region_why_stopped(c);
}

/* If the path is dead now, what limited the sender earlier in the interval no longer matters. */
static bool is_dead(const struct region_why_change *c)
{
	return region_why_stopped(c) && c->now->backoff >= DEAD_TIMEOUTS;
}

static bool peer_reads_nothing(const struct region_why_change *c)
{
	return !c->acked && c->now->snd_wnd < c->now->mss;
}

/*
 * A window is a limit only if it is used up once per round trip. If less than half of the largest
 * window is used, the peer's buffer contains data that its application has not read.
 */
static bool peer_reads_slowly(const struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	double per_rtt = (double)c->acked / c->us * c->rtt_us;

	return !f->snd_wnd || per_rtt < WINDOW_USED * BASE_MAX(f->snd_wnd, f->snd_wnd_max);
}

static bool is_reordered(const struct region_why_change *c)
{
	bool often = (double)c->reorder > REORDERED * (double)c->data_out;

	/* Only DSACKs count as spurious: a tail loss probe may have repaired a real loss. */
	return !c->timeouts && (often || (c->fast && c->dsack)) &&
	       (double)c->dsack >= SPURIOUS * (double)c->retrans;
}

/* BBR does not shrink its window after losses. */
static bool is_lossy(const struct region_why_change *c)
{
	if (c->now->flags & SL_FLOW_BBR)
		return false;
	/* The losses of a peer that stopped acknowledging say nothing about the time before. */
	return region_why_stopped(c) ? c->fast > 1 : c->timeouts || c->fast || c->lost;
}

static bool has_long_queue(const struct region_why_change *c)
{
	return is_inflated(c) && c->rtt_us >= c->now->rtt_min_us + OVERFLOW_US;
}

/* If the congestion window builds up a queue, losses do not keep it too small. */
static bool overflows(const struct region_why_change *c)
{
	return is_lossy(c) && !c->timeouts && !c->marked && c->now->cwnd >= SMALL_CWND &&
	       has_long_queue(c);
}

/* If the peer's window builds up a queue, a larger one would only make the queue longer. */
static bool fills_path(const struct region_why_change *c)
{
	return c->now->snd_wnd >= SMALL_CWND * c->now->mss && has_long_queue(c);
}

static bool is_marked(const struct region_why_change *c)
{
	return c->marked;
}

static bool is_growing(const struct region_why_change *c)
{
	const struct region_flow *f = c->now;

	return f->ssthresh >= INFINITE_SSTHRESH || f->cwnd < f->ssthresh;
}

/*
 * These conditions apply when there is nothing more to send. Data that waits with nothing in flight
 * is corked: busy time then exceeds the time taken by round trips.
 */
static bool is_corked(const struct region_why_change *c)
{
	double unsent = c->part[REGION_WHY_PART_WAITING] - (double)c->data_out * c->rtt_us / c->us;

	return unsent >= UNSENT_SHARE && (c->now->flags & SL_FLOW_CORK || holds_little(c->now) ||
					  holds_little(c->before) || held_little(c));
}

/*
 * True if no share of requests and answers, nor the share of data on its way, is larger than this
 * share.
 */
static bool takes_most(const struct region_why_change *c, double share)
{
	double peer = c->waited - c->round_trips, rest = 1 - c->waited - c->thought;

	return share > 0 && share >= c->round_trips && share >= peer && share >= c->thought &&
	       share >= rest;
}

static bool holds_by_nagle(const struct region_why_change *c)
{
	return c->part[REGION_WHY_PART_WAITING] - c->waited > TURNS_SHARE &&
	       !(c->now->flags & SL_FLOW_NODELAY) && c->held &&
	       (double)c->held >= HELD * (double)c->data_out;
}

/*
 * True if the peer sends each request in several small segments, and this end acknowledges them
 * without answering yet.
 */
static bool receives_pieces(const struct region_why_change *c)
{
	return c->turns && c->waited + c->thought < TURNS_SHARE && 2 * c->data_in >= 3 * c->turns &&
	       2 * c->acks_out >= c->turns && 2 * c->received < c->data_in * c->now->mss;
}

static bool waits_for_path(const struct region_why_change *c)
{
	return takes_most(c, c->round_trips);
}

static bool waits_for_peer(const struct region_why_change *c)
{
	return takes_most(c, c->waited - c->round_trips);
}

static bool thinks(const struct region_why_change *c)
{
	return takes_most(c, c->thought);
}

static bool sends_most(const struct region_why_change *c)
{
	return c->received <= c->acked;
}

/*
 * A window can be used up at most once per round trip. The minimum RTT is the path's RTT; if it was
 * measured with this end's requests, it includes the peer's time to answer.
 */
static bool fills_window(const struct region_why_change *c)
{
	const struct region_flow *f = c->now;

	return f->rcv_wnd && f->rtt_min_us &&
	       (double)c->received / c->us * f->rtt_min_us >= WINDOW_USED * f->rcv_wnd;
}

/* The first row that holds is the answer. */
static const struct {
	bool (*holds)(const struct region_why_change *c); /* NULL: the part suffices */
	enum region_why_limit limit;
	/*
	 * the answer holds only if no other part is larger than this one, whose share it reports;
	 * NOTHING: no such condition
	 */
	enum region_why_part part;
} table[] = {
	{refuses, REGION_WHY_ACCEPT_QUEUE, 0},
	{lists, REGION_WHY_ACCEPTING, 0},
	{was_refused, REGION_WHY_REFUSED, 0},
	{has_failed, REGION_WHY_NOT_MADE, 0},
	{timed_out, REGION_WHY_TIMED_OUT, 0},
	{was_reset, REGION_WHY_RESET, 0},
	{reads_nothing, REGION_WHY_NOT_READING, 0},
	{reads_slowly, REGION_WHY_READS_SLOWLY, 0},
	{was_closed, REGION_WHY_CLOSED, 0},
	{is_dead, REGION_WHY_UNANSWERED, 0},
	{acks_nothing, REGION_WHY_UNANSWERED, REGION_WHY_PART_STALLED},
	{NULL, REGION_WHY_LOSS_TIMEOUT, REGION_WHY_PART_STALLED},
	{is_half_closed, REGION_WHY_HALF_CLOSED, 0},
	{is_silent, REGION_WHY_IDLE, 0},
	{peer_reads_nothing, REGION_WHY_PEER_NOT_READING, REGION_WHY_PART_RWND},
	{peer_reads_slowly, REGION_WHY_PEER_READS_SLOWLY, REGION_WHY_PART_RWND},
	{fills_path, REGION_WHY_BUFFERBLOAT, REGION_WHY_PART_RWND},
	{NULL, REGION_WHY_PEER_WINDOW, REGION_WHY_PART_RWND},
	{NULL, REGION_WHY_SEND_BUFFER, REGION_WHY_PART_SNDBUF},
	{NULL, REGION_WHY_PACING, REGION_WHY_PART_PACING},
	/* A loss costs the time of its timeout, and then leaves a smaller congestion window. */
	{is_reordered, REGION_WHY_REORDERING, REGION_WHY_PART_CWND},
	{overflows, REGION_WHY_BUFFERBLOAT, REGION_WHY_PART_CWND},
	{is_lossy, REGION_WHY_LOSS_FAST, REGION_WHY_PART_CWND},
	{is_marked, REGION_WHY_ECN, REGION_WHY_PART_CWND},
	{is_inflated, REGION_WHY_BUFFERBLOAT, REGION_WHY_PART_CWND},
	{is_growing, REGION_WHY_SLOW_START, REGION_WHY_PART_CWND},
	{NULL, REGION_WHY_PATH, REGION_WHY_PART_CWND},
	{is_corked, REGION_WHY_CORK, 0},
	{holds_by_nagle, REGION_WHY_NAGLE, 0},
	{receives_pieces, REGION_WHY_PIECES, 0},
	{waits_for_path, REGION_WHY_ROUND_TRIP, 0},
	{waits_for_peer, REGION_WHY_PEER_THINKS, 0},
	{thinks, REGION_WHY_THINKS, 0},
	{sends_most, REGION_WHY_APPLICATION, 0},
	{fills_window, REGION_WHY_RECEIVE_WINDOW, 0},
	{NULL, REGION_WHY_PEER, 0},
};

/* Returns the share of a limit that has no part in the table. */
static double find_share(enum region_why_limit limit, const struct region_why_change *c)
{
	switch (limit) {
	case REGION_WHY_APPLICATION:
	case REGION_WHY_PEER:
		return application_share(c);
	case REGION_WHY_CORK:
	case REGION_WHY_NAGLE:
		return c->part[REGION_WHY_PART_WAITING];
	case REGION_WHY_UNANSWERED:
		return c->part[REGION_WHY_PART_STALLED];
	case REGION_WHY_PIECES:
		return 1 - c->waited - c->thought;
	case REGION_WHY_ROUND_TRIP:
		return c->round_trips;
	case REGION_WHY_PEER_THINKS:
		return c->waited - c->round_trips;
	case REGION_WHY_THINKS:
		return c->thought;
	default:
		return 1;
	}
}

static void find_limit(const struct region_why_change *c, struct region_why *w)
{
	size_t i = 0;

	while ((table[i].part && !dominates(c, c->part[table[i].part])) ||
	       (table[i].holds && !table[i].holds(c)))
		i++;
	w->limit = table[i].limit;
	w->share = table[i].part ? c->part[table[i].part] : find_share(w->limit, c);
}

/* ---- both ends ---- */

/*
 * What to report if the other end has found the cause. The answer with the larger weight wins:
 * evidence that nothing is acknowledged weighs most, then unread data, because a reader that always
 * has data waiting is never limited by its peer, and then what limits the sending.
 */
#define SENDING 7
static const struct {
	uint8_t weight;
	enum region_why_limit other;
} mirrors[REGION_WHY_LIMITS] = {
	[REGION_WHY_UNANSWERED] = {9, REGION_WHY_NOTHING_ARRIVES},
	[REGION_WHY_NOT_READING] = {8, REGION_WHY_PEER_NOT_READING},
	[REGION_WHY_READS_SLOWLY] = {8, REGION_WHY_PEER_READS_SLOWLY},
	[REGION_WHY_PEER_NOT_READING] = {SENDING, REGION_WHY_NOT_READING},
	[REGION_WHY_PEER_READS_SLOWLY] = {SENDING, REGION_WHY_READS_SLOWLY},
	[REGION_WHY_PEER_WINDOW] = {SENDING, REGION_WHY_RECEIVE_WINDOW},
	[REGION_WHY_SEND_BUFFER] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_PACING] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_REORDERING] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_LOSS_TIMEOUT] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_LOSS_FAST] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_ECN] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_BUFFERBLOAT] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_SLOW_START] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_PATH] = {SENDING, REGION_WHY_PEER},
	[REGION_WHY_CORK] = {6, REGION_WHY_PEER},
	[REGION_WHY_NAGLE] = {5, REGION_WHY_PIECES},
	[REGION_WHY_THINKS] = {4, REGION_WHY_PEER_THINKS},
	[REGION_WHY_ROUND_TRIP] = {3, REGION_WHY_ROUND_TRIP},
	[REGION_WHY_APPLICATION] = {2, REGION_WHY_PEER},
	[REGION_WHY_PEER_THINKS] = {2, REGION_WHY_THINKS},
};

/*
 * An answer that does not contradict a peer that leaves data unread is kept: a sender with nothing
 * to send is right, and so is one that the peer's window hardly limits.
 */
static bool is_held_by_reader(const struct region_why *w, const struct region_why_change *c,
			      const struct region_why *other)
{
	if (w->limit == REGION_WHY_IDLE)
		return other->limit == REGION_WHY_NOT_READING;
	return mirrors[w->limit].weight == SENDING && c->part[REGION_WHY_PART_RWND] >= WINDOW_SHARE;
}

static void follow(struct region_why *w, const struct region_why_change *c,
		   const struct region_why *other)
{
	enum region_why_limit to = mirrors[other->limit].other;

	if (c->now->state == SL_STATE_CLOSED ||
	    mirrors[other->limit].weight <= mirrors[w->limit].weight)
		return;
	/* The peer's segments arrive, but the acknowledgements do not reach it. */
	if (to == REGION_WHY_NOTHING_ARRIVES && c->data_in)
		return;
	if ((to == REGION_WHY_PEER_NOT_READING || to == REGION_WHY_PEER_READS_SLOWLY) &&
	    !is_held_by_reader(w, c, other))
		return;
	w->share = mirrors[w->limit].weight == SENDING && to != REGION_WHY_NOTHING_ARRIVES
			   ? c->part[REGION_WHY_PART_RWND]
			   : other->share;
	w->limit = to;
	/* Without answers, small writes are not pieces of a message. */
	if (w->limit == REGION_WHY_PIECES && !c->turns)
		w->limit = REGION_WHY_PEER;
}

/* A peer that has left nothing unread does not read slowly: its window is small. */
static void check_reader(struct region_why *w, const struct region_why_change *peer)
{
	if ((w->limit == REGION_WHY_PEER_NOT_READING || w->limit == REGION_WHY_PEER_READS_SLOWLY) &&
	    !peer->unread && !peer->unread_before)
		w->limit = REGION_WHY_PEER_WINDOW;
}

static void judge(const struct region_why_change *c, struct region_why *w)
{
	memset(w, 0, sizeof(*w));
	/* Invalid snapshots may contain any time. */
	w->interval_ns = c->us < 1e15 ? (uint64_t)(c->us * 1000) : UINT64_MAX;
	w->bytes_per_s = (double)(c->acked + c->received) / c->us * 1e6;
	find_limit(c, w);
}

void region_why(const struct region_flow *before, const struct region_flow *now,
		struct region_why *w)
{
	struct region_why_change c;

	compute_change(before, now, &c);
	judge(&c, w);
	region_why_explain(w, &c);
}

void region_why_both(const struct region_flow *const before[2],
		     const struct region_flow *const now[2], struct region_why w[2])
{
	struct region_why_change c[2];
	struct region_why alone[2];

	for (int i = 0; i < 2; i++) {
		compute_change(before[i], now[i], &c[i]);
		c[i].other = &c[!i];
		judge(&c[i], &alone[i]);
	}
	for (int i = 0; i < 2; i++) {
		check_reader(&alone[i], &c[!i]);
		w[i] = alone[i];
	}
	for (int i = 0; i < 2; i++) {
		follow(&w[i], &c[i], &alone[!i]);
		region_why_explain(&w[i], &c[i]);
	}
}
