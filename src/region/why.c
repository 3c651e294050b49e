// SPDX-License-Identifier: Apache-2.0
#include "region/why.h"
#include "base/base.h"

#include <stdio.h>
#include <string.h>

#define IDLE_SHARE	  0.01	      /* below that, and without a byte: idle */
#define INFLATED	  2.0	      /* mean RTT over the minimum: a queue has built up */
#define INFLATED_US	  1000	      /* minimum excess: below it is the host's own jitter */
#define INFINITE_SSTHRESH 0x7fffffffu /* net/tcp.h, TCP_INFINITE_SSTHRESH */

static const char *const names[REGION_WHY_LIMITS] = {
	[REGION_WHY_IDLE] = "idle",
	[REGION_WHY_APPLICATION] = "application",
	[REGION_WHY_PEER] = "peer",
	[REGION_WHY_PEER_WINDOW] = "peer-window",
	[REGION_WHY_PEER_NOT_READING] = "peer-not-reading",
	[REGION_WHY_NOT_READING] = "not-reading",
	[REGION_WHY_SEND_BUFFER] = "send-buffer",
	[REGION_WHY_LOSS_TIMEOUT] = "loss-timeout",
	[REGION_WHY_LOSS_FAST] = "loss-fast",
	[REGION_WHY_ECN] = "ecn",
	[REGION_WHY_BUFFERBLOAT] = "bufferbloat",
	[REGION_WHY_SLOW_START] = "slow-start",
	[REGION_WHY_PATH] = "path",
	[REGION_WHY_ACCEPT_QUEUE] = "accept-queue",
	[REGION_WHY_ACCEPTING] = "accepting",
	[REGION_WHY_RESET] = "reset",
};

const char *region_why_name(enum region_why_limit limit)
{
	return limit < REGION_WHY_LIMITS ? names[limit] : "unknown";
}

static uint64_t grown(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

/* The change between two snapshots. */
struct change {
	const struct region_flow *now;
	double us;			       /* of the interval; at least 1 */
	double busy, rwnd, sndbuf, cwnd, idle; /* shares of it */
	uint64_t acked, received, unread;
	uint64_t retrans, lost, timeouts, fast, zero_in, zero_out, marked, drops;
	double rtt_us; /* mean of the interval's samples, or the smoothed RTT */
};

static double share_of(double part, double whole)
{
	return part <= 0 ? 0 : part >= whole ? 1 : part / whole;
}

static void compare(const struct region_flow *before, const struct region_flow *now,
		    struct change *c)
{
	static const struct region_flow nothing;
	const struct region_flow *b = before ? before : &nothing;
	uint64_t from = before ? before->changed_ns : now->open_ns, samples, sum, probes, spurious;
	double busy, rwnd, sndbuf;

	memset(c, 0, sizeof(*c));
	c->now = now;
	c->us = (double)grown(from, now->changed_ns) / 1000;
	c->us = BASE_MAX(c->us, 1);
	busy = (double)grown(b->busy_us, now->busy_us);
	rwnd = (double)grown(b->rwnd_us, now->rwnd_us);
	sndbuf = (double)grown(b->sndbuf_us, now->sndbuf_us);
	/* The chronograph counts in ticks: its sum may exceed the interval by one. */
	if (busy > c->us)
		c->us = busy;
	c->busy = share_of(busy, c->us);
	c->rwnd = share_of(rwnd, c->us);
	c->sndbuf = share_of(sndbuf, c->us);
	c->cwnd = share_of(busy - rwnd - sndbuf, c->us);
	c->idle = 1 - c->busy;
	c->acked = grown(b->bytes_acked, now->bytes_acked);
	c->received = grown(b->bytes_received, now->bytes_received);
	c->unread = grown(now->read_bytes, now->bytes_received);
	c->retrans = grown(b->retrans, now->retrans);
	/* Tail loss probes and spurious retransmissions mean no loss. */
	probes = grown(b->re_tlp, now->re_tlp);
	spurious = grown(b->dsack, now->dsack);
	spurious = BASE_MAX(spurious, probes);
	c->lost = c->retrans > spurious ? c->retrans - spurious : 0;
	c->timeouts = grown(b->timeouts, now->timeouts);
	c->fast = grown(b->fast, now->fast);
	c->zero_in = grown(b->zero_in, now->zero_in);
	c->zero_out = grown(b->zero_out, now->zero_out);
	c->marked = grown(b->delivered_ce, now->delivered_ce);
	c->drops = grown(b->drops, now->drops);
	samples = grown(b->rtt_count, now->rtt_count);
	sum = grown(b->rtt_sum_us, now->rtt_sum_us);
	c->rtt_us = samples ? (double)sum / (double)samples : now->srtt_us;
}

/* ---- classification ---- */

/*
 * Busy, and limited neither by the peer's window nor by the send buffer according to the
 * chronograph: the congestion window, if there was more to send. But the chronograph also runs
 * while everything written waits for its acknowledgement (a request, or Nagle's algorithm), and
 * reports a full send buffer only if nothing in it is left to send. If more waits in the buffer
 * than is in flight, a larger buffer would only hold more: TCP small queues limit what the device
 * takes (tcp_small_queue_check()).
 */
static enum region_why_limit of_the_rest(const struct change *c, double *share)
{
	const struct region_flow *f = c->now;
	bool open = f->flight < f->cwnd, full = f->sndbuf && f->wmem + f->wmem / 2 >= f->sndbuf &&
						f->queue <= (uint64_t)f->flight * f->mss;

	*share = c->cwnd;
	if (c->timeouts)
		return REGION_WHY_LOSS_TIMEOUT;
	if (c->fast || c->lost)
		return REGION_WHY_LOSS_FAST;
	if (open && full) {
		*share = c->cwnd + c->sndbuf;
		return REGION_WHY_SEND_BUFFER;
	}
	if (open && f->queue < f->mss) {
		*share = c->cwnd + c->idle;
		return REGION_WHY_APPLICATION;
	}
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
 * A small window that closes occasionally while at least half of it passes per RTT is read as fast
 * as it can be filled.
 */
static enum region_why_limit of_peer(const struct change *c)
{
	double per_rtt = (double)c->acked / c->us * c->rtt_us;

	if (!c->now->snd_wnd || (c->zero_in && per_rtt < c->now->snd_wnd / 2.0))
		return REGION_WHY_PEER_NOT_READING;
	return REGION_WHY_PEER_WINDOW;
}

/* Data arrives, or is about to: the offered window says whether this end keeps up. */
static bool closed_to_peer(const struct change *c)
{
	const struct region_flow *f = c->now;

	return c->unread && (c->zero_out || f->rcv_wnd < (f->mss ? f->mss : 1));
}

/*
 * A limiting window fills and empties again and again. The chronograph of a flow that loses a full
 * window keeps blaming the window: so if less than one window was acknowledged, with timeouts or
 * nothing at all, losses are the cause.
 */
static bool stalled(const struct change *c)
{
	const struct region_flow *f = c->now;

	return f->flight && f->snd_wnd && c->acked < f->snd_wnd && c->busy >= c->idle &&
	       (c->timeouts || (!c->acked && c->us > 2.0 * f->srtt_us && c->us > f->rto_us));
}

static enum region_why_limit decide(const struct change *c, double *share)
{
	const struct region_flow *f = c->now;

	*share = 1;
	if (f->flags & SL_FLOW_LISTENER) {
		bool full = c->drops || (f->backlog_max && f->backlog > f->backlog_max);

		return full ? REGION_WHY_ACCEPT_QUEUE : REGION_WHY_ACCEPTING;
	}
	if (f->flags & (SL_FLOW_RESET_IN | SL_FLOW_RESET_OUT))
		return REGION_WHY_RESET;
	/* The side that sends little is mostly explained at the other end. */
	if (closed_to_peer(c) && c->received >= c->acked)
		return REGION_WHY_NOT_READING;
	if (stalled(c)) {
		*share = c->busy;
		return REGION_WHY_LOSS_TIMEOUT;
	}
	if (c->rwnd >= c->idle && c->rwnd >= c->sndbuf && c->rwnd >= c->cwnd && c->rwnd > 0) {
		*share = c->rwnd;
		return of_peer(c);
	}
	if (c->sndbuf >= c->idle && c->sndbuf >= c->cwnd && c->sndbuf > 0) {
		*share = c->sndbuf;
		return REGION_WHY_SEND_BUFFER;
	}
	if (c->cwnd >= c->idle && c->cwnd > 0)
		return of_the_rest(c, share);
	*share = c->idle;
	if (c->busy < IDLE_SHARE && !c->acked && !c->received) {
		/* Statistics of an idle flow may be older than the interval. */
		*share = 1;
		return f->queue && f->snd_wnd < f->mss ? REGION_WHY_PEER_NOT_READING
						       : REGION_WHY_IDLE;
	}
	return c->received > c->acked ? REGION_WHY_PEER : REGION_WHY_APPLICATION;
}

/* ---- wording ---- */

static void number(struct region_why *w, const char *name, double value, const char *unit)
{
	if (w->n < REGION_WHY_NUMBERS)
		w->number[w->n++] = (struct region_why_number){name, unit, value};
}

static void shares(struct region_why *w, const struct change *c)
{
	number(w, "nothing-to-send", 100 * c->idle, "percent");
	number(w, "peer-window-limited", 100 * c->rwnd, "percent");
	number(w, "send-buffer-limited", 100 * c->sndbuf, "percent");
	number(w, "congestion-window-limited", 100 * c->cwnd, "percent");
}

static void path(struct region_why *w, const struct change *c)
{
	const struct region_flow *f = c->now;

	number(w, "congestion-window", (double)f->cwnd * f->mss, "bytes");
	number(w, "in-flight", (double)f->flight * f->mss, "bytes");
	number(w, "unsent", f->queue, "bytes");
	number(w, "rtt-mean", c->rtt_us, "us");
	number(w, "rtt-min", f->rtt_min_us, "us");
}

static void loss(struct region_why *w, const struct change *c)
{
	number(w, "segments-sent-again", (double)c->retrans, "");
	number(w, "recoveries", (double)c->fast, "");
	number(w, "timeouts", (double)c->timeouts, "");
}

static void receiving(struct region_why *w, const struct change *c)
{
	number(w, "unread", (double)c->unread, "bytes");
	number(w, "receive-window", c->now->rcv_wnd, "bytes");
	number(w, "windows-closed-here", (double)c->zero_out, "");
	number(w, "receive-buffer", c->now->rcvbuf, "bytes");
}

#define SAY(...) snprintf(w->sentence, sizeof(w->sentence), __VA_ARGS__)

static void say_window(struct region_why *w, const struct change *c, double percent)
{
	const struct region_flow *f = c->now;

	shares(w, c);
	switch (w->limit) {
	case REGION_WHY_PEER_NOT_READING:
		SAY("The peer's application does not read: its receive window %s, and held the "
		    "sender back for %.0f%% of the time.",
		    f->snd_wnd ? "closed again and again" : "is closed", percent);
		number(w, "windows-closed-by-peer", (double)c->zero_in, "");
		break;
	case REGION_WHY_PEER_WINDOW:
		SAY("The peer's receive window of %u bytes holds the sender back for %.0f%% of the "
		    "time: a larger receive buffer there would help.",
		    f->snd_wnd, percent);
		break;
	default:
		SAY("The send buffer of %u bytes is full for %.0f%% of the time while the network "
		    "could take more: a larger SO_SNDBUF would help.",
		    f->sndbuf, percent);
		number(w, "send-buffer", f->sndbuf, "bytes");
	}
	number(w, "peer-window", f->snd_wnd, "bytes");
	path(w, c);
}

static void say_congestion(struct region_why *w, const struct change *c, double percent)
{
	shares(w, c);
	switch (w->limit) {
	case REGION_WHY_LOSS_TIMEOUT:
		if (c->acked)
			SAY("Losses repaired only by timeouts, %llu of them, held the sender back for %.0f%% of the time.",
			    (unsigned long long)c->timeouts, percent);
		else
			SAY("Nothing is acknowledged: segments are lost on the way, or the peer is gone; %llu timeout%s.",
			    (unsigned long long)c->timeouts, c->timeouts == 1 ? "" : "s");
		break;
	case REGION_WHY_LOSS_FAST:
		SAY("Losses keep the congestion window small: %llu segment%s retransmitted; it held the sender back for %.0f%% of the time.",
		    (unsigned long long)c->retrans, c->retrans == 1 ? "" : "s", percent);
		break;
	case REGION_WHY_ECN:
		SAY("The network marks congestion (ECN): %llu segment%s marked; the congestion window "
		    "held the sender back for %.0f%% of the time.",
		    (unsigned long long)c->marked, c->marked == 1 ? "" : "s", percent);
		number(w, "segments-marked", (double)c->marked, "");
		break;
	case REGION_WHY_BUFFERBLOAT:
		SAY("A queue on the path: the RTT is %.3g ms where %.3g ms are possible, and the path "
		    "is full for %.0f%% of the time.",
		    c->rtt_us / 1000, c->now->rtt_min_us / 1000.0, percent);
		break;
	case REGION_WHY_SLOW_START:
		SAY("The congestion window is still growing (slow start), and held the sender back "
		    "for %.0f%% of the time.",
		    percent);
		break;
	default:
		SAY("The path is full for %.0f%% of the time, without loss and without a growing queue.",
		    percent);
	}
	path(w, c);
	loss(w, c);
}

static void say_application(struct region_why *w, const struct change *c, double percent)
{
	const struct region_flow *f = c->now;

	switch (w->limit) {
	case REGION_WHY_NOT_READING:
		SAY("The application here does not read: %llu bytes are unread, and its receive window is %u bytes.",
		    (unsigned long long)c->unread, f->rcv_wnd);
		receiving(w, c);
		break;
	case REGION_WHY_PEER:
		SAY("The peer sends, and this end keeps up: the cause is at the other end.");
		receiving(w, c);
		break;
	case REGION_WHY_ACCEPT_QUEUE:
		SAY("The application accepts too slowly: %u connections wait in a queue of %u, and %llu were refused.",
		    f->backlog, f->backlog_max, (unsigned long long)c->drops);
		break;
	case REGION_WHY_ACCEPTING:
		SAY("It accepts connections as fast as they arrive: %u wait in a queue of %u.",
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
		SAY("The application here has nothing to send for %.0f%% of the time; the network could take more.",
		    percent);
		shares(w, c);
		path(w, c);
		loss(w, c); /* losses do not limit it, but may hurt */
	}
	if (f->flags & SL_FLOW_LISTENER) {
		number(w, "refused", (double)c->drops, "connections");
		number(w, "accept-queue", f->backlog, "connections");
		number(w, "accept-queue-bound", f->backlog_max, "connections");
	}
}

void region_why(const struct region_flow *before, const struct region_flow *now,
		struct region_why *w)
{
	struct change c;

	memset(w, 0, sizeof(*w));
	compare(before, now, &c);
	/* Invalid snapshots may hold any time. */
	w->interval_ns = c.us < 1e15 ? (uint64_t)(c.us * 1000) : UINT64_MAX;
	w->bytes_per_s = (double)(c.acked + c.received) / c.us * 1e6;
	w->limit = decide(&c, &w->share);
	switch (w->limit) {
	case REGION_WHY_PEER_NOT_READING:
	case REGION_WHY_PEER_WINDOW:
	case REGION_WHY_SEND_BUFFER:
		say_window(w, &c, 100 * w->share);
		break;
	case REGION_WHY_LOSS_TIMEOUT:
	case REGION_WHY_LOSS_FAST:
	case REGION_WHY_ECN:
	case REGION_WHY_BUFFERBLOAT:
	case REGION_WHY_SLOW_START:
	case REGION_WHY_PATH:
		say_congestion(w, &c, 100 * w->share);
		break;
	default:
		say_application(w, &c, 100 * w->share);
	}
	number(w, "throughput", w->bytes_per_s, "bytes/s");
}
