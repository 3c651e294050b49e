// SPDX-License-Identifier: Apache-2.0
#include "region/why.h"
#include "base/base.h"

#include <stdio.h>
#include <string.h>

#define IDLE_SHARE  0.01 /* below this share of busy time, and without a byte: idle */
#define INFLATED    2.0	 /* mean RTT / minimum RTT: above this, a queue has built up */
#define INFLATED_US 1000 /* minimum excess of the mean RTT; less is the host's own jitter */
/* fraction of the window used per RTT: above this, the window limits */
#define WINDOW_USED	  0.5
#define INFINITE_SSTHRESH 0x7fffffffu /* TCP_INFINITE_SSTHRESH of net/tcp.h */

/* Sets of numbers that explain a limit. */
enum {
	SHARES = 1,
	ZERO_WINDOWS = 2,
	SEND_BUFFER = 4,
	WINDOW = 8,
	MARKS = 16,
	PATH = 32,
	LOSSES = 64,
	RECEIVING = 128,
	ACCEPTS = 256,
	ALWAYS = 512,
};

static const struct {
	const char *name;
	unsigned int evidence;
} limits[REGION_WHY_LIMITS] = {
	[REGION_WHY_IDLE] = {"idle", 0},
	/* Losses do not limit this flow, but may hurt it. */
	[REGION_WHY_APPLICATION] = {"application", SHARES | PATH | LOSSES},
	[REGION_WHY_PEER] = {"peer", SHARES | RECEIVING},
	[REGION_WHY_PEER_WINDOW] = {"peer-window", SHARES | WINDOW | PATH},
	[REGION_WHY_PEER_NOT_READING] = {"peer-not-reading", SHARES | ZERO_WINDOWS | WINDOW | PATH},
	[REGION_WHY_NOT_READING] = {"not-reading", RECEIVING},
	[REGION_WHY_RECEIVE_WINDOW] = {"receive-window", SHARES | RECEIVING},
	[REGION_WHY_SEND_BUFFER] = {"send-buffer", SHARES | SEND_BUFFER | WINDOW | PATH},
	[REGION_WHY_LOSS_TIMEOUT] = {"loss-timeout", SHARES | PATH | LOSSES},
	[REGION_WHY_LOSS_FAST] = {"loss-fast", SHARES | PATH | LOSSES},
	[REGION_WHY_ECN] = {"ecn", SHARES | MARKS | PATH | LOSSES},
	[REGION_WHY_BUFFERBLOAT] = {"bufferbloat", SHARES | PATH | LOSSES},
	[REGION_WHY_SLOW_START] = {"slow-start", SHARES | PATH | LOSSES},
	[REGION_WHY_PATH] = {"path", SHARES | PATH | LOSSES},
	[REGION_WHY_ACCEPT_QUEUE] = {"accept-queue", ACCEPTS},
	[REGION_WHY_ACCEPTING] = {"accepting", ACCEPTS},
	[REGION_WHY_RESET] = {"reset", 0},
};

const char *region_why_name(enum region_why_limit limit)
{
	return limit < REGION_WHY_LIMITS ? limits[limit].name : "unknown";
}

bool region_why_fine(enum region_why_limit limit)
{
	return limit == REGION_WHY_IDLE || limit == REGION_WHY_APPLICATION ||
	       limit == REGION_WHY_PEER || limit == REGION_WHY_SLOW_START ||
	       limit == REGION_WHY_PATH || limit == REGION_WHY_ACCEPTING;
}

static uint64_t increase_of(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

/* The change between two snapshots. */
struct change {
	const struct region_flow *now;
	double us; /* length of the interval; at least 1 */
	/*
	 * Shares of the interval, with sum 1. waiting: for acknowledgements, with no more to send.
	 */
	double idle, waiting, rwnd, sndbuf, cwnd;
	bool stalled, stuck;
	uint64_t acked, received, unread;
	uint64_t retrans, lost, timeouts, fast, zero_in, zero_out, marked, drops;
	double rtt_us; /* mean of the samples in the interval, or the smoothed RTT */
};

static void compute_change(const struct region_flow *before, const struct region_flow *now,
			   struct change *c)
{
	static const struct region_flow nothing;
	const struct region_flow *b = before ? before : &nothing;
	uint64_t from = before ? before->changed_ns : now->open_ns, samples, sum, probes, spurious;
	double busy, rwnd, sndbuf;

	memset(c, 0, sizeof(*c));
	c->now = now;
	c->us = (double)increase_of(from, now->changed_ns) / 1000;
	c->us = BASE_MAX(c->us, 1);
	busy = (double)increase_of(b->busy_us, now->busy_us);
	/* The chronograph counts in ticks, so its sum may exceed the interval by one. */
	busy = BASE_MIN(busy, c->us);
	rwnd = BASE_MIN((double)increase_of(b->rwnd_us, now->rwnd_us), busy);
	sndbuf = BASE_MIN((double)increase_of(b->sndbuf_us, now->sndbuf_us), busy - rwnd);
	c->idle = 1 - busy / c->us;
	c->rwnd = rwnd / c->us;
	c->sndbuf = sndbuf / c->us;
	c->cwnd = (busy - rwnd - sndbuf) / c->us; /* corrected by attribute_waiting() */
	c->acked = increase_of(b->bytes_acked, now->bytes_acked);
	c->received = increase_of(b->bytes_received, now->bytes_received);
	c->unread = increase_of(now->read_bytes, now->bytes_received);
	c->retrans = increase_of(b->retrans, now->retrans);
	/* Tail loss probes and spurious retransmissions indicate no loss. */
	probes = increase_of(b->re_tlp, now->re_tlp);
	spurious = increase_of(b->dsack, now->dsack);
	spurious = BASE_MAX(spurious, probes);
	c->lost = c->retrans > spurious ? c->retrans - spurious : 0;
	c->timeouts = increase_of(b->timeouts, now->timeouts);
	c->fast = increase_of(b->fast, now->fast);
	c->zero_in = increase_of(b->zero_in, now->zero_in);
	c->zero_out = increase_of(b->zero_out, now->zero_out);
	c->marked = increase_of(b->delivered_ce, now->delivered_ce);
	c->drops = increase_of(b->drops, now->drops);
	samples = increase_of(b->rtt_count, now->rtt_count);
	sum = increase_of(b->rtt_sum_us, now->rtt_sum_us);
	c->rtt_us = samples ? (double)sum / (double)samples : now->srtt_us;
}

/* ---- classification ---- */

/*
 * A limiting window fills and empties repeatedly. If a flow loses a full window, the chronograph
 * keeps blaming the window. So if less than one window was acknowledged, with timeouts or without
 * any progress, losses are the cause.
 */
static bool is_stalled(const struct change *c)
{
	const struct region_flow *f = c->now;

	return f->flight && f->snd_wnd && c->acked < f->snd_wnd && c->idle <= 0.5 &&
	       (c->timeouts || (!c->acked && c->us > 2.0 * f->srtt_us && c->us > f->rto_us));
}

static bool is_silent(const struct change *c)
{
	return 1 - c->idle < IDLE_SHARE && !c->acked && !c->received;
}

/*
 * Data waits for a closed window. There are no events and thus no new snapshots, so the statistics
 * may be older than the interval.
 */
static bool is_stuck(const struct change *c)
{
	return is_silent(c) && c->now->queue && c->now->snd_wnd < c->now->mss;
}

/*
 * Splits the busy time that the chronograph attributes neither to the peer's window nor to the send
 * buffer. It is the congestion window's if there was more to send. But the chronograph also runs
 * while all written data waits for its acknowledgement (a request, or Nagle's algorithm), and
 * reports a full send buffer only if it holds nothing left to send. If more data waits in the
 * buffer than is in flight, a larger buffer would not help: TCP small queues limit the data passed
 * to the device (tcp_small_queue_check()).
 */
static void attribute_waiting(struct change *c)
{
	const struct region_flow *f = c->now;
	bool open = f->flight < f->cwnd, full = f->sndbuf && f->wmem + f->wmem / 2 >= f->sndbuf &&
						f->queue <= (uint64_t)f->flight * f->mss;

	c->stalled = is_stalled(c);
	c->stuck = !c->stalled && is_stuck(c);
	if (c->stalled) {
		c->waiting = 1 - c->idle;
		c->rwnd = c->sndbuf = c->cwnd = 0;
	} else if (c->stuck) {
		c->rwnd = 1;
		c->idle = c->sndbuf = c->cwnd = 0;
	} else if (!open || c->timeouts || c->fast || c->lost) {
		return;
	} else if (full) {
		c->sndbuf += c->cwnd;
		c->cwnd = 0;
	} else if (f->queue < f->mss) {
		c->waiting = c->cwnd;
		c->cwnd = 0;
	}
}

/* Finds the reason for a small congestion window. */
static enum region_why_limit find_congestion_cause(const struct change *c)
{
	const struct region_flow *f = c->now;

	if (c->timeouts)
		return REGION_WHY_LOSS_TIMEOUT;
	if (c->fast || c->lost)
		return REGION_WHY_LOSS_FAST;
	if (c->marked)
		return REGION_WHY_ECN;
	if (f->rtt_min_us && c->rtt_us >= INFLATED * f->rtt_min_us &&
	    c->rtt_us >= f->rtt_min_us + INFLATED_US)
		return REGION_WHY_BUFFERBLOAT;
	if (f->ssthresh >= INFINITE_SSTHRESH || f->cwnd < f->ssthresh)
		return REGION_WHY_SLOW_START;
	return REGION_WHY_PATH;
}

/*
 * A small window that closes occasionally, while at least half of it passes per RTT, is read as
 * fast as it can be filled.
 */
static enum region_why_limit find_peer_cause(const struct change *c)
{
	double per_rtt = (double)c->acked / c->us * c->rtt_us;

	if (!c->now->snd_wnd || c->stuck || (c->zero_in && per_rtt < c->now->snd_wnd / 2.0))
		return REGION_WHY_PEER_NOT_READING;
	return REGION_WHY_PEER_WINDOW;
}

/* Data arrives or is about to: the offered window shows whether this end keeps up. */
static bool closed_to_peer(const struct change *c)
{
	const struct region_flow *f = c->now;

	return c->unread && (c->zero_out || f->rcv_wnd < (f->mss ? f->mss : 1));
}

/*
 * A window can be used up at most once per round trip. The minimum RTT is that of the path; if
 * measured with this end's requests, it includes the peer's time to answer.
 */
static bool fills_window(const struct change *c)
{
	const struct region_flow *f = c->now;

	return f->rcv_wnd && f->rtt_min_us &&
	       (double)c->received / c->us * f->rtt_min_us >= WINDOW_USED * f->rcv_wnd;
}

/* This end has nothing more to send, or waits: decides which side is the cause. */
static enum region_why_limit find_application_cause(const struct change *c)
{
	if (is_silent(c))
		return REGION_WHY_IDLE;
	if (c->received <= c->acked)
		return REGION_WHY_APPLICATION;
	return fills_window(c) ? REGION_WHY_RECEIVE_WINDOW : REGION_WHY_PEER;
}

static enum region_why_limit find_limit(const struct change *c, double *share)
{
	const struct region_flow *f = c->now;
	double windows = BASE_MAX(c->rwnd, c->cwnd), most = BASE_MAX(windows, c->sndbuf);
	enum region_why_limit limit;

	*share = 1;
	if (f->flags & SL_FLOW_LISTENER) {
		bool full = c->drops || (f->backlog_max && f->backlog > f->backlog_max);

		return full ? REGION_WHY_ACCEPT_QUEUE : REGION_WHY_ACCEPTING;
	}
	if (f->flags & (SL_FLOW_RESET_IN | SL_FLOW_RESET_OUT))
		return REGION_WHY_RESET;
	/* The side that sends little is mostly explained by the other end. */
	if (closed_to_peer(c) && c->received >= c->acked)
		return REGION_WHY_NOT_READING;
	if (c->stalled) {
		*share = c->waiting;
		return REGION_WHY_LOSS_TIMEOUT;
	}
	if (c->idle + c->waiting > most) {
		limit = find_application_cause(c);
		if (limit == REGION_WHY_APPLICATION || limit == REGION_WHY_PEER)
			*share = c->idle + c->waiting;
		return limit;
	}
	*share = most;
	return c->rwnd >= most	   ? find_peer_cause(c)
	       : c->sndbuf >= most ? REGION_WHY_SEND_BUFFER
				   : find_congestion_cause(c);
}

/* ---- wording ---- */

static void add_evidence(struct region_why *w, const struct change *c)
{
	const struct region_flow *f = c->now;
	const struct {
		unsigned int of;
		struct region_why_number n;
	} all[] = {
		{SHARES, {"nothing-to-send", "percent", 100 * c->idle}},
		{SHARES, {"waiting-for-acknowledgement", "percent", 100 * c->waiting}},
		{SHARES, {"peer-window-limited", "percent", 100 * c->rwnd}},
		{SHARES, {"send-buffer-limited", "percent", 100 * c->sndbuf}},
		{SHARES, {"congestion-window-limited", "percent", 100 * c->cwnd}},
		{ZERO_WINDOWS, {"windows-closed-by-peer", "", (double)c->zero_in}},
		{SEND_BUFFER, {"send-buffer", "bytes", f->sndbuf}},
		{WINDOW, {"peer-window", "bytes", f->snd_wnd}},
		{MARKS, {"segments-marked", "", (double)c->marked}},
		{PATH, {"congestion-window", "bytes", (double)f->cwnd * f->mss}},
		{PATH, {"in-flight", "bytes", (double)f->flight * f->mss}},
		{PATH, {"unsent", "bytes", f->queue}},
		{PATH, {"rtt-mean", "us", c->rtt_us}},
		{PATH, {"rtt-min", "us", f->rtt_min_us}},
		{LOSSES, {"segments-sent-again", "", (double)c->retrans}},
		{LOSSES, {"recoveries", "", (double)c->fast}},
		{LOSSES, {"timeouts", "", (double)c->timeouts}},
		{RECEIVING, {"unread", "bytes", (double)c->unread}},
		{RECEIVING, {"receive-window", "bytes", f->rcv_wnd}},
		{RECEIVING, {"windows-closed-here", "", (double)c->zero_out}},
		{RECEIVING, {"receive-buffer", "bytes", f->rcvbuf}},
		{ACCEPTS, {"refused", "connections", (double)c->drops}},
		{ACCEPTS, {"accept-queue", "connections", f->backlog}},
		{ACCEPTS, {"accept-queue-bound", "connections", f->backlog_max}},
		{ALWAYS, {"throughput", "bytes/s", w->bytes_per_s}},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && w->n < REGION_WHY_NUMBERS; i++)
		if (all[i].of & (limits[w->limit].evidence | ALWAYS))
			w->number[w->n++] = all[i].n;
}

#define SAY(...) snprintf(w->sentence, sizeof(w->sentence), __VA_ARGS__)
#define LLU(n)	 ((unsigned long long)(n))

static void write_sentence(struct region_why *w, const struct change *c)
{
	const struct region_flow *f = c->now;
	double percent = 100 * w->share;

	switch (w->limit) {
	case REGION_WHY_PEER_NOT_READING:
		SAY("The peer's application does not read: its receive window %s, and held the "
		    "sender back for %.0f%% of the time.",
		    f->snd_wnd ? "closed again and again" : "is closed", percent);
		break;
	case REGION_WHY_PEER_WINDOW:
		SAY("The peer's receive window of %u bytes holds the sender back for %.0f%% of the "
		    "time: a larger receive buffer there would help.",
		    f->snd_wnd, percent);
		break;
	case REGION_WHY_SEND_BUFFER:
		SAY("The send buffer of %u bytes is full for %.0f%% of the time while the network "
		    "could take more: a larger SO_SNDBUF would help.",
		    f->sndbuf, percent);
		break;
	case REGION_WHY_LOSS_TIMEOUT:
		if (c->acked)
			SAY("Losses that only timeouts repaired, %llu of them, held the sender back for %.0f%% of the time.",
			    LLU(c->timeouts), percent);
		else
			SAY("Nothing is acknowledged: segments are lost on the way, or the peer is gone; %llu timeout%s.",
			    LLU(c->timeouts), c->timeouts == 1 ? "" : "s");
		break;
	case REGION_WHY_LOSS_FAST:
		SAY("Losses keep the congestion window small: %llu segment%s retransmitted; it held the sender back for %.0f%% of the time.",
		    LLU(c->retrans), c->retrans == 1 ? "" : "s", percent);
		break;
	case REGION_WHY_ECN:
		SAY("The network marks congestion (ECN): %llu segment%s marked; the congestion window "
		    "held the sender back for %.0f%% of the time.",
		    LLU(c->marked), c->marked == 1 ? "" : "s", percent);
		break;
	case REGION_WHY_BUFFERBLOAT:
		SAY("A queue has built up on the path: the RTT is %.3g ms instead of %.3g ms, and the path "
		    "is full for %.0f%% of the time.",
		    c->rtt_us / 1000, f->rtt_min_us / 1000.0, percent);
		break;
	case REGION_WHY_SLOW_START:
		SAY("The congestion window is still growing (slow start), and held the sender back "
		    "for %.0f%% of the time.",
		    percent);
		break;
	case REGION_WHY_PATH:
		SAY("The path is full for %.0f%% of the time, without loss and without a growing queue.",
		    percent);
		break;
	case REGION_WHY_NOT_READING:
		SAY("The application here does not read: %llu bytes are unread, and its receive window is %u bytes.",
		    LLU(c->unread), f->rcv_wnd);
		break;
	case REGION_WHY_RECEIVE_WINDOW:
		SAY("The receive window here, %u bytes, limits the peer: a larger SO_RCVBUF, or larger "
		    "net.ipv4.tcp_rmem, would help.",
		    f->rcv_wnd);
		break;
	case REGION_WHY_PEER:
		SAY("The peer sends, and this end keeps up: the cause is at the other end.");
		break;
	case REGION_WHY_ACCEPT_QUEUE:
		SAY("The application accepts too slowly: %u connections wait in a queue of %u, and %llu were refused.",
		    f->backlog, f->backlog_max, LLU(c->drops));
		break;
	case REGION_WHY_ACCEPTING:
		SAY("The application accepts connections as fast as they arrive: %u wait in a queue of %u.",
		    f->backlog, f->backlog_max);
		break;
	case REGION_WHY_RESET:
		SAY("The connection was reset %s.",
		    f->flags & SL_FLOW_RESET_IN ? "by the peer" : "from here");
		break;
	case REGION_WHY_IDLE:
		SAY("Nothing was sent or received: both applications are silent.");
		break;
	default:
		SAY("The application here has nothing more to send for %.0f%% of the time; the network could take more.",
		    percent);
	}
}

void region_why(const struct region_flow *before, const struct region_flow *now,
		struct region_why *w)
{
	struct change c;

	memset(w, 0, sizeof(*w));
	compute_change(before, now, &c);
	attribute_waiting(&c);
	/* Invalid snapshots may contain any time. */
	w->interval_ns = c.us < 1e15 ? (uint64_t)(c.us * 1000) : UINT64_MAX;
	w->bytes_per_s = (double)(c.acked + c.received) / c.us * 1e6;
	w->limit = find_limit(&c, &w->share);
	write_sentence(w, &c);
	add_evidence(w, &c);
}
