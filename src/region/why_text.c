// SPDX-License-Identifier: Apache-2.0
/* why_text.c - the sentence, the advice and the numbers for each limit. */
#include "region/why_internal.h"
#include "base/base.h"

#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- sentences ---- */

__attribute__((format(printf, 2, 3))) static void add_sentence(struct region_why *w,
							       const char *format, ...)
{
	size_t length = strlen(w->sentence);
	va_list list;

	if (length + 2 > sizeof(w->sentence))
		return;
	w->sentence[length++] = ' ';
	va_start(list, format);
	vsnprintf(w->sentence + length, sizeof(w->sentence) - length, format, list);
	va_end(list);
}

#define SAY(...)  snprintf(w->sentence, sizeof(w->sentence), __VA_ARGS__)
#define ADD(...)  add_sentence(w, __VA_ARGS__)
#define LLU(n)	  ((unsigned long long)(n))
#define PLURAL(n) ((n) == 1 ? "" : "s")
#define ARE(n)	  ((n) == 1 ? " is" : "s are")

#define TEXT	  24
/* Formats ms without an exponent. Returns out. */
static const char *time_text(char out[TEXT], double ms)
{
	if (ms < 999.5)
		snprintf(out, TEXT, "%.3g ms", ms);
	else
		snprintf(out, TEXT, "%.*f s", ms < 99950 ? 1 : 0, ms / 1000);
	return out;
}

/* Formats bytes per us. Returns out. */
static const char *rate_text(char out[TEXT], double rate)
{
	if (rate < 0.9995)
		snprintf(out, TEXT, "%.3g kB", 1e3 * rate);
	else
		snprintf(out, TEXT, "%.*f MB", rate < 99.95 ? 1 : 0, rate);
	return out;
}

/* Returns what this end waits for. The end that opened the connection sends requests. */
static const char *awaited(const struct region_flow *f)
{
	return f->flags & SL_FLOW_ACTIVE  ? "answer"
	       : f->flags & SL_FLOW_OLDER ? "next message"
					  : "next request";
}

/* Converts a share of the interval to ms per turn. */
static double turn_ms(const struct region_why_change *c, double share)
{
	return c->turns ? share * c->us / 1000 / (double)c->turns : 0;
}

static void say_timed_out(struct region_why *w, const struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	const char *after = f->flags & SL_FLOW_USER_TIMEOUT ? " within TCP_USER_TIMEOUT" : "";

	if (f->retransmits)
		SAY("The connection timed out%s: the peer acknowledged none of %u retransmissions.",
		    after, f->retransmits);
	else if (f->queue && !f->probes)
		SAY("The connection was given up%s: the peer answered, but its window stayed closed, "
		    "because its application did not read.",
		    after);
	else
		SAY("The peer is gone: it answered none of %u %s probes%s.", f->probes,
		    f->queue ? "window" : "keepalive", after);
}

static void say_not_made(struct region_why *w, const struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	double seconds = (double)region_flow_duration(f, 0) * 1e-9;
	uint32_t again = f->re_syn;

	if (w->limit == REGION_WHY_REFUSED)
		SAY("The peer refused the connection: nothing listens on its port %u, or a firewall "
		    "rejects it.",
		    f->remote_port);
	else if (region_flow_end(f) == REGION_FLOW_UNANSWERED)
		SAY("The connection was not established: no answer to %u SYN%s in %.3g s.",
		    1 + again, PLURAL(1 + again), seconds);
	else if (f->error)
		SAY("The connection was not established: %s.", strerrordesc_np((int)f->error));
	else
		SAY("The application here gave up the connection after %.3g s, before it was "
		    "established.",
		    seconds);
}

static void say_losses(struct region_why *w, const struct region_why_change *c)
{
	const double percent = 100 * w->share;
	char spurious[96] = "";

	switch (w->limit) {
	case REGION_WHY_UNANSWERED:
		SAY("%s: segments are lost on the way, or the peer is gone; %u timeout%s in a row.",
		    c->acked ? "The peer stopped acknowledging" : "Nothing is acknowledged",
		    c->now->backoff, PLURAL(c->now->backoff));
		break;
	case REGION_WHY_NOTHING_ARRIVES:
		SAY("The peer keeps retransmitting, but nothing arrives here.");
		break;
	case REGION_WHY_LOSS_TIMEOUT:
		SAY("Losses held the sender back for %.0f%% of the time, because only timeouts "
		    "repaired them: %llu timeout%s.",
		    percent, LLU(c->timeouts), PLURAL(c->timeouts));
		break;
	case REGION_WHY_REORDERING:
		if (c->retrans)
			snprintf(spurious, sizeof(spurious),
				 "; %llu of %llu retransmissions were spurious",
				 LLU(BASE_MIN(c->dsack, c->retrans)), LLU(c->retrans));
		SAY("The path reorders segments, seen %llu times%s. The congestion window held the "
		    "sender back for %.0f%% of the time.",
		    LLU(c->reorder), spurious, percent);
		break;
	default:
		SAY("Losses keep the congestion window small: %llu segment%s retransmitted; it held "
		    "the sender back for %.0f%% of the time.",
		    LLU(c->retrans), PLURAL(c->retrans), percent);
	}
}

static void say_path(struct region_why *w, const struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	const double percent = 100 * w->share;
	char rtt[TEXT], least[TEXT];

	switch (w->limit) {
	case REGION_WHY_PACING:
		SAY("SO_MAX_PACING_RATE limits the sender for %.0f%% of the time: pacing allows "
		    "%llu bytes per second.",
		    percent, LLU(f->pacing_kib) * 1024);
		break;
	case REGION_WHY_ECN:
		SAY("The network marks congestion (ECN): %llu segment%s marked; the congestion "
		    "window held the sender back for %.0f%% of the time.",
		    LLU(c->marked), PLURAL(c->marked), percent);
		break;
	case REGION_WHY_BUFFERBLOAT:
		SAY("A queue has built up on the path: the RTT is %s instead of %s, and the path is "
		    "full for %.0f%% of the time.",
		    time_text(rtt, c->rtt_us / 1000), time_text(least, f->rtt_min_us / 1000.0),
		    percent);
		break;
	case REGION_WHY_SLOW_START:
		SAY("The congestion window is still growing (slow start), and held the sender back "
		    "for %.0f%% of the time.",
		    percent);
		break;
	default:
		SAY("The path is full for %.0f%% of the time, %swithout a growing queue.", percent,
		    c->retrans ? "" : "without loss and ");
	}
	/* Losses that do not keep the congestion window small: a full queue, or BBR. */
	if (c->lost && (w->limit == REGION_WHY_BUFFERBLOAT || w->limit == REGION_WHY_PATH))
		ADD("%llu segment%s retransmitted.", LLU(c->retrans), PLURAL(c->retrans));
}

static void say_reading(struct region_why *w, const struct region_why_change *c)
{
	const struct region_why_change *other = c->other;
	const struct region_flow *f = c->now;
	const double percent = 100 * w->share;
	char rate[TEXT];

	switch (w->limit) {
	case REGION_WHY_PEER_NOT_READING:
		if (other && f->snd_wnd >= f->mss)
			SAY("The peer's application does not read: %llu byte%s unread there.",
			    LLU(other->unread), ARE(other->unread));
		else
			SAY("The peer's application does not read: its receive window is closed, "
			    "and held the sender back for %.0f%% of the time.",
			    percent);
		break;
	case REGION_WHY_PEER_READS_SLOWLY:
		SAY("The peer's application reads slowly: it takes %s per second, and its full "
		    "receive buffer held the sender back for %.0f%% of the time.",
		    rate_text(rate,
			      other ? (double)other->read / other->us : (double)c->acked / c->us),
		    percent);
		break;
	case REGION_WHY_PEER_WINDOW:
		SAY("The peer's receive window of %u bytes holds the sender back for %.0f%% of the "
		    "time.",
		    f->snd_wnd, percent);
		break;
	case REGION_WHY_NOT_READING:
		SAY("The application here does not read: %llu byte%s unread, and its receive "
		    "window is %u bytes.",
		    LLU(c->unread), ARE(c->unread), f->rcv_wnd);
		break;
	case REGION_WHY_READS_SLOWLY:
		SAY("The application here reads slowly: it takes %s per second, and %llu byte%s "
		    "unread.",
		    rate_text(rate, (double)c->read / c->us), LLU(c->unread), ARE(c->unread));
		break;
	default:
		/* Without window scaling, the peer sees less than rcv_wnd. */
		SAY("The receive window here, %u bytes, limits the peer.",
		    other ? other->now->snd_wnd : f->rcv_wnd);
	}
}

static void say_application(struct region_why *w, const struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	const double percent = 100 * w->share;
	char time[TEXT];

	switch (w->limit) {
	case REGION_WHY_CORK:
		SAY("%s holds unsent data back although nothing is in flight, for %.0f%% of the "
		    "time.",
		    f->flags & SL_FLOW_CORK ? "TCP_CORK" : "TCP_CORK or MSG_MORE", percent);
		break;
	case REGION_WHY_NAGLE:
		SAY("Nagle's algorithm holds small writes back until the peer's delayed "
		    "acknowledgement, for %.0f%% of the time.",
		    percent);
		break;
	case REGION_WHY_PIECES:
		SAY("This end waits for the rest of messages that arrive in pieces, for %.0f%% of "
		    "the time; Nagle's algorithm there may wait for delayed acknowledgements from "
		    "here.",
		    percent);
		break;
	case REGION_WHY_ROUND_TRIP:
		SAY("This end waits for the peer's %s, and the network's round trips of %s take "
		    "%.0f%% of the time.",
		    awaited(f), time_text(time, f->rtt_min_us / 1000.0), percent);
		break;
	case REGION_WHY_PEER_THINKS:
		SAY("This end waits for the peer's %s, which takes %s beyond the round trip, "
		    "%.0f%% of the time.",
		    awaited(f), time_text(time, turn_ms(c, percent / 100)), percent);
		break;
	case REGION_WHY_THINKS:
		SAY("The application here takes %s from the peer's message to its own, %.0f%% of "
		    "the time.",
		    time_text(time, turn_ms(c, percent / 100)), percent);
		break;
	case REGION_WHY_PEER:
		if (c->unread && !c->read)
			SAY("The peer has sent data, of which the application here has read "
			    "nothing yet: %llu byte%s unread.",
			    LLU(c->unread), ARE(c->unread));
		else
			SAY("The peer sends, and this end keeps up: the cause is at the other "
			    "end.");
		break;
	case REGION_WHY_SEND_BUFFER:
		SAY("The send buffer of %u bytes is full for %.0f%% of the time while the network "
		    "could take more.",
		    f->sndbuf, percent);
		break;
	default:
		SAY("The application here has nothing more to send for %.0f%% of the time; the "
		    "network could take more.",
		    percent);
	}
}

static void say_listening(struct region_why *w, const struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	uint32_t waited = c->before ? c->before->backlog : f->backlog;

	if (w->limit == REGION_WHY_ACCEPT_QUEUE)
		SAY("The application accepts too slowly: %u connections wait in a queue of %u, and "
		    "%llu segments for its port were dropped.",
		    BASE_MAX(f->backlog, waited), f->backlog_max, LLU(c->drops));
	else if (c->drops)
		SAY("%u connections wait in a queue of %u, which is not full. %llu segments for its "
		    "port were dropped: stray ones, or new connections while it was briefly full.",
		    f->backlog, f->backlog_max, LLU(c->drops));
	else if (f->backlog && waited)
		SAY("%u connection%s to be accepted, and %u waited before; there is room for %u.",
		    f->backlog, f->backlog == 1 ? " waits" : "s wait", waited, f->backlog_max);
	else
		SAY("The application accepts connections as fast as they arrive: %u wait in a queue "
		    "of %u.",
		    f->backlog, f->backlog_max);
}

static void say_silent(struct region_why *w, const struct region_why_change *c)
{
	const struct region_why_change *other = c->other;
	const struct region_flow *f = c->now;
	enum region_flow_end end = region_flow_end(f);

	if (w->limit == REGION_WHY_IDLE)
		SAY("Nothing was sent or received: both applications are silent.");
	else if (w->limit == REGION_WHY_HALF_CLOSED && f->tcp_state == TCP_CLOSE_WAIT)
		SAY("The peer has closed the connection, but the application here has not.");
	else if (w->limit == REGION_WHY_HALF_CLOSED)
		SAY("The application here has closed the connection for sending, but the peer has "
		    "not closed it.");
	else if (f->flags & SL_FLOW_LISTENER)
		SAY("The application has stopped listening.");
	else if (w->limit == REGION_WHY_CLOSED)
		SAY("The connection was closed%s.", end == REGION_FLOW_FIN ? ", first by this end"
						    : end == REGION_FLOW_FIN_PEER
							    ? ", first by the peer"
							    : "");
	else
		SAY("The connection was reset %s.",
		    f->flags & SL_FLOW_RESET_OUT ? "from here" : "by the peer");
	if (w->limit != REGION_WHY_RESET)
		return;
	/* A socket that is closed with unread data sends a reset (RFC 2525, section 2.17). */
	if (end == REGION_FLOW_RESET && c->unread)
		ADD("The application closed it with %llu unread byte%s.", LLU(c->unread),
		    PLURAL(c->unread));
	else if (end == REGION_FLOW_RESET_PEER && other && other->unread)
		ADD("The application there closed it with %llu unread byte%s.", LLU(other->unread),
		    PLURAL(other->unread));
}

/* ---- limits ---- */

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
	TURNS = 512,
	PACING = 1024,
	ALWAYS = 2048,
};

static const struct {
	void (*say)(struct region_why *w, const struct region_why_change *c);
	const char *name, *label;
	bool fine; /* there is nothing to fix at this end */
	unsigned int evidence;
	const char *advice; /* what to do first; NULL if there is nothing to do */
} limits[REGION_WHY_LIMITS] = {
	[REGION_WHY_IDLE] = {say_silent, "idle", "idle", true, 0, NULL},
	[REGION_WHY_HALF_CLOSED] = {say_silent, "half-closed", "half-closed", false, 0, NULL},
	/* Losses do not limit this flow, but may hurt it. */
	[REGION_WHY_APPLICATION] = {say_application, "application", "nothing to send", true,
				    SHARES | PATH | LOSSES, NULL},
	[REGION_WHY_PEER] = {say_application, "peer", "keeps up", true, SHARES | RECEIVING, NULL},
	[REGION_WHY_ROUND_TRIP] =
		{say_application, "round-trip", "round trips", true, SHARES | TURNS | PATH,
		 "Send several messages before waiting, or move the ends closer."},
	[REGION_WHY_PEER_THINKS] = {say_application, "peer-thinks", "peer answers slowly", true,
				    SHARES | TURNS | PATH, "Look at the application there."},
	[REGION_WHY_THINKS] = {say_application, "thinks", "answers slowly", true,
			       SHARES | TURNS | PATH, NULL},
	[REGION_WHY_NAGLE] = {say_application, "nagle", "Nagle's algorithm", false,
			      SHARES | TURNS | PATH,
			      "Write a message with one call, or set TCP_NODELAY."},
	[REGION_WHY_PIECES] =
		{say_application, "pieces", "messages in pieces", true, SHARES | TURNS | RECEIVING,
		 "The peer should write a message with one call, or set TCP_NODELAY."},
	[REGION_WHY_CORK] = {say_application, "cork", "corked", false, SHARES | PATH,
			     "Clear TCP_CORK at the end of each message, or send its last part "
			     "without MSG_MORE."},
	[REGION_WHY_PEER_WINDOW] = {say_reading, "peer-window", "peer's window", false,
				    SHARES | WINDOW | PATH,
				    "A larger SO_RCVBUF, or larger net.ipv4.tcp_rmem, would help "
				    "there."},
	[REGION_WHY_PEER_NOT_READING] = {say_reading, "peer-not-reading", "peer does not read",
					 false, SHARES | ZERO_WINDOWS | WINDOW | PATH,
					 "Look at the application there."},
	[REGION_WHY_PEER_READS_SLOWLY] = {say_reading, "peer-reads-slowly", "peer reads slowly",
					  false, SHARES | ZERO_WINDOWS | WINDOW | PATH,
					  "Look at what it does between its reads."},
	[REGION_WHY_NOT_READING] = {say_reading, "not-reading", "does not read", false, RECEIVING,
				    "Look at what the application waits for."},
	[REGION_WHY_READS_SLOWLY] = {say_reading, "reads-slowly", "reads slowly", false,
				     SHARES | RECEIVING, "Look at what it does between its reads."},
	[REGION_WHY_RECEIVE_WINDOW] = {say_reading, "receive-window", "receive window", false,
				       SHARES | RECEIVING,
				       "A larger SO_RCVBUF, or larger net.ipv4.tcp_rmem, would "
				       "help."},
	[REGION_WHY_SEND_BUFFER] = {say_application, "send-buffer", "send buffer", false,
				    SHARES | SEND_BUFFER | WINDOW | PATH,
				    "A larger SO_SNDBUF would help."},
	[REGION_WHY_PACING] = {say_path, "pacing", "pacing", true, SHARES | PACING | PATH,
			       "Raise SO_MAX_PACING_RATE if you need more."},
	[REGION_WHY_UNANSWERED] = {say_losses, "unanswered", "unanswered", false,
				   SHARES | PATH | LOSSES,
				   "Check whether the peer is up, the route to it, and the path's "
				   "MTU."},
	[REGION_WHY_NOTHING_ARRIVES] = {say_losses, "nothing-arrives", "nothing arrives", false,
					RECEIVING,
					"Check the route from the peer, and the path's MTU."},
	[REGION_WHY_LOSS_TIMEOUT] = {say_losses, "loss-timeout", "losses and timeouts", false,
				     SHARES | PATH | LOSSES, "Find where the path drops segments."},
	[REGION_WHY_LOSS_FAST] = {say_losses, "loss-fast", "losses", false, SHARES | PATH | LOSSES,
				  "Find where the path drops segments."},
	[REGION_WHY_REORDERING] = {say_losses, "reordering", "reordering", false,
				   SHARES | PATH | LOSSES,
				   "Keep the segments of a connection on one route if the path "
				   "has several."},
	[REGION_WHY_ECN] = {say_path, "ecn", "congestion marks", false,
			    SHARES | MARKS | PATH | LOSSES, NULL},
	[REGION_WHY_BUFFERBLOAT] = {say_path, "bufferbloat", "queue on the path", false,
				    SHARES | PATH | LOSSES,
				    "Limit the queue in front of the slowest link."},
	[REGION_WHY_SLOW_START] = {say_path, "slow-start", "slow start", true,
				   SHARES | PATH | LOSSES, NULL},
	[REGION_WHY_PATH] = {say_path, "path", "path is full", true, SHARES | PATH | LOSSES, NULL},
	[REGION_WHY_ACCEPT_QUEUE] = {say_listening, "accept-queue", "accepts too slowly", false,
				     ACCEPTS, "Accept more often, or listen with a longer queue."},
	[REGION_WHY_ACCEPTING] = {say_listening, "accepting", "accepts", true, ACCEPTS, NULL},
	[REGION_WHY_REFUSED] = {say_not_made, "refused", "refused", false, 0,
				"Check that the service runs there, and its port."},
	[REGION_WHY_NOT_MADE] = {say_not_made, "not-established", "not established", false, 0,
				 "Check the address, the route to it, and firewalls on the way."},
	[REGION_WHY_CLOSED] = {say_silent, "closed", "closed", true, 0, NULL},
	[REGION_WHY_RESET] = {say_silent, "reset", "reset", false, 0, NULL},
	[REGION_WHY_TIMED_OUT] = {say_timed_out, "timed-out", "timed out", false, LOSSES,
				  "Check whether the peer is up, and the route to it."},
};

const char *region_why_name(enum region_why_limit limit)
{
	return limit < REGION_WHY_LIMITS ? limits[limit].name : "unknown";
}

const char *region_why_label(enum region_why_limit limit)
{
	return limit < REGION_WHY_LIMITS ? limits[limit].label : "unknown";
}

bool region_why_fine(enum region_why_limit limit)
{
	return limit < REGION_WHY_LIMITS && limits[limit].fine;
}

/* ---- numbers ---- */

static void add_evidence(struct region_why *w, const struct region_why_change *c)
{
	const struct region_flow *f = c->now;
	const struct {
		unsigned int of;
		struct region_why_number n;
	} all[] = {
		{SHARES, {"nothing-to-send", "percent", 100 * c->part[REGION_WHY_PART_NOTHING]}},
		{SHARES,
		 {"waiting-for-acknowledgement", "percent",
		  100 * c->part[REGION_WHY_PART_WAITING]}},
		{SHARES,
		 {"waiting-for-timeout", "percent", 100 * c->part[REGION_WHY_PART_STALLED]}},
		{SHARES, {"peer-window-limited", "percent", 100 * c->part[REGION_WHY_PART_RWND]}},
		{SHARES, {"send-buffer-limited", "percent", 100 * c->part[REGION_WHY_PART_SNDBUF]}},
		{SHARES, {"pacing-limited", "percent", 100 * c->part[REGION_WHY_PART_PACING]}},
		{SHARES,
		 {"congestion-window-limited", "percent", 100 * c->part[REGION_WHY_PART_CWND]}},
		{TURNS, {"waiting-for-peer", "percent", 100 * c->waited}},
		{TURNS, {"round-trips", "percent", 100 * c->round_trips}},
		{TURNS, {"application-here", "percent", 100 * c->thought}},
		{TURNS, {"turns", "", (double)c->turns}},
		{TURNS, {"held-by-nagle", "times", (double)c->held}},
		{ZERO_WINDOWS, {"windows-closed-by-peer", "", (double)c->zero_in}},
		{SEND_BUFFER, {"send-buffer", "bytes", f->sndbuf}},
		{WINDOW, {"peer-window", "bytes", f->snd_wnd}},
		{WINDOW, {"peer-window-largest", "bytes", f->snd_wnd_max}},
		{MARKS, {"segments-marked", "", (double)c->marked}},
		{PACING, {"pacing-rate", "bytes/s", f->pacing_kib * 1024.0}},
		{PATH, {"congestion-window", "bytes", (double)f->cwnd * f->mss}},
		{PATH, {"in-flight", "bytes", (double)f->flight * f->mss}},
		{PATH, {"unsent", "bytes", f->queue}},
		{PATH, {"rtt-mean", "us", c->rtt_us}},
		{PATH, {"rtt-min", "us", f->rtt_min_us}},
		{LOSSES, {"segments-sent-again", "", (double)c->retrans}},
		{LOSSES, {"spurious", "", (double)c->dsack}},
		{LOSSES, {"recoveries", "", (double)c->fast}},
		{LOSSES, {"timeouts", "", (double)c->timeouts}},
		{LOSSES, {"backoff", "", f->backoff}},
		{RECEIVING, {"unread", "bytes", (double)c->unread}},
		{RECEIVING, {"receive-window", "bytes", f->rcv_wnd}},
		{RECEIVING, {"windows-closed-here", "", (double)c->zero_out}},
		{RECEIVING, {"receive-buffer", "bytes", f->rcvbuf}},
		{ACCEPTS, {"dropped-by-listener", "segments", (double)c->drops}},
		{ACCEPTS, {"accept-queue", "connections", f->backlog}},
		{ACCEPTS, {"accept-queue-bound", "connections", f->backlog_max}},
		{ALWAYS, {"throughput", "bytes/s", w->bytes_per_s}},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && w->n < REGION_WHY_NUMBERS; i++)
		if (all[i].of & (limits[w->limit].evidence | ALWAYS))
			w->number[w->n++] = all[i].n;
}

/* ---- dropped segments ---- */

#define DROPS_SAID 2 /* maximum number of drop reasons that are named for each end */

/*
 * Who drops segments, by the beginning of the reason's name. NULL means that nothing is lost,
 * because the data had been received before: retransmitted copies, window probes and keepalives.
 */
static const struct {
	const char *reason, *who;
} droppers[] = {
	{"TCP_OLD_", NULL},
	{"SOCKET_RCVBUFF", "The receive buffer"},
	{"SOCKET_BACKLOG", "The receive buffer"},
	{"PROTO_MEM", "The receive buffer"},
	{"NETFILTER_DROP", "A firewall"},
	{"QDISC_", "A network device's queue"},
	{"", "The kernel"},
};

static const char *find_dropper(const struct region_flow_drop *d)
{
	size_t i = 0;

	while (strncmp(d->name, droppers[i].reason, strlen(droppers[i].reason)) != 0)
		i++;
	return droppers[i].who;
}

/* Returns how many segments were dropped for this reason since the earlier snapshot. */
static uint32_t drops_since(const struct region_flow *before, const struct region_flow_drop *d)
{
	for (uint32_t i = 0; before && i < SL_DROPS_PER_FLOW; i++)
		if (before->drop[i].segments && before->drop[i].reason == d->reason)
			return d->segments - BASE_MIN(d->segments, before->drop[i].segments);
	return d->segments;
}

/* Appends sentences about dropped segments. Returns the number of segments that were lost. */
static uint32_t say_drops(struct region_why *w, const char *where,
			  const struct region_why_change *c)
{
	uint32_t said = 0, sum = 0;

	for (uint32_t i = 0; i < SL_DROPS_PER_FLOW; i++) {
		const struct region_flow_drop *d = &c->now->drop[i];
		const char *who = find_dropper(d);
		uint32_t n = who ? drops_since(c->before, d) : 0;

		sum += n;
		if (n && said++ < DROPS_SAID)
			ADD("%s %s dropped %u segment%s: %s.", who, where, n, PLURAL(n), d->name);
	}
	return sum;
}

/* Scaled windows are multiples of a power of two, which this largest unscaled window is not. */
#define UNSCALED_WINDOW 65535

static const char *find_advice(const struct region_why *w, const struct region_why_change *c)
{
	const struct region_why_change *sender = w->limit == REGION_WHY_RECEIVE_WINDOW ? c->other
										       : c;

	if ((w->limit == REGION_WHY_PEER_WINDOW || w->limit == REGION_WHY_RECEIVE_WINDOW) &&
	    sender && sender->now->snd_wnd == UNSCALED_WINDOW &&
	    sender->now->snd_wnd_max == UNSCALED_WINDOW)
		return "Without window scaling, no window is larger: check "
		       "net.ipv4.tcp_window_scaling at both ends.";
	return limits[w->limit].advice;
}

void region_why_explain(struct region_why *w, const struct region_why_change *c)
{
	const char *advice = find_advice(w, c);
	uint32_t dropped;

	limits[w->limit].say(w, c);
	/* The state at the end may differ from most of the interval. */
	if (region_why_stopped(c) && w->limit != REGION_WHY_UNANSWERED)
		ADD("Now nothing is acknowledged: %u timeouts in a row.", c->now->backoff);
	dropped = say_drops(w, "here", c);
	if (c->other)
		say_drops(w, "at the peer", c->other);
	/* Of a subflow, only what the path does is known. */
	if (c->now->flags & SL_FLOW_SUBFLOW && limits[w->limit].evidence & SHARES &&
	    (!(limits[w->limit].evidence & LOSSES) || w->limit == REGION_WHY_APPLICATION))
		ADD("It is part of a Multipath TCP connection, whose buffers and windows, which are "
		    "not observed, may be the cause.");
	else if (advice)
		ADD("%s", advice);
	add_evidence(w, c);
	if (dropped && w->n < REGION_WHY_NUMBERS)
		w->number[w->n++] = (struct region_why_number){"dropped-here", "segments", dropped};
}
