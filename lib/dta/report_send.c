// SPDX-License-Identifier: Apache-2.0
/*
 * report_send.c - sends packets and processes answers. A packet with essential reports is kept in a
 * ring until it is acknowledged. It is sent when the translator's window has room for it, and gets
 * its sequence numbers then. It is resent when an answer reports it missing or when no answer
 * arrives, without a limit on the number of attempts. The ring begins with the packets that were
 * sent; the last `unsent` ones were not.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "report.h"

/* Returns the header of the next packet. */
static struct dta_header next_header(const struct sl_reporter *r)
{
	return (struct dta_header){
		.flags = r->key ? DTA_AUTHENTICATED : 0,
		.tenant = r->tenant,
		.reporter = r->reporter,
		.sequence = r->sequence,
		.incarnation = r->incarnation,
	};
}

void sl__report_begin(struct sl_reporter *r)
{
	const struct dta_header h = next_header(r);

	dta_begin(&r->b, r->packet, r->packet_bytes, &h);
	r->essential = false;
	r->open = false;
}

/*
 * Appends the proof (translator and MAC) if packets are authenticated. Returns the packet's length.
 */
static size_t sign_packet(const struct sl_reporter *r, uint8_t *packet, size_t bytes)
{
	return r->key ? dta_proof_put(r->key, r->meant[r->at], packet, bytes) : bytes;
}

/* Returns 0, -EAGAIN, or another socket error. */
static int send_now(struct sl_reporter *r, const void *packet, size_t bytes)
{
	for (int try = 0;; try++) {
		if (send(r->target[r->at], packet, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
			r->s.packets++;
			r->s.bytes += bytes;
			return 0;
		}
		if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
			return -EAGAIN;
		/* An error caused by an earlier packet: no process is listening there. */
		r->refused |= errno == ECONNREFUSED;
		if ((errno != EINTR && errno != ECONNREFUSED) || try == 3)
			return -errno;
	}
}

/* Waits for events. Returns false when end_ns has passed, or when the caller wants to stop. */
static bool wait_for(struct sl_reporter *r, short events, uint64_t end_ns)
{
	struct pollfd p[2] = {{.fd = r->target[r->at], .events = events},
			      {.fd = r->stop_fd, .events = POLLIN}};
	uint64_t now = sl__report_now();

	if (now >= end_ns)
		return false;
	/* Wait at most 5 ms, because answers and timers may be due. */
	poll(p, 2, (int)((end_ns - now) / 1000000 < 5 ? (end_ns - now) / 1000000 + 1 : 5));
	return !p[1].revents;
}

int sl__report_send_raw(struct sl_reporter *r, const void *packet, size_t bytes)
{
	uint64_t end = sl__report_now() + r->wait_ns;
	int err = send_now(r, packet, bytes);

	if (err != -EAGAIN || !(r->flags & SL_REPORTER_WAIT))
		return err;
	r->s.waits++;
	while (err == -EAGAIN && wait_for(r, POLLOUT, end))
		err = send_now(r, packet, bytes);
	return err;
}

/* ---- the ring ---- */

struct sl__backup *sl__report_backup(const struct sl_reporter *r, uint32_t i)
{
	return &r->backup[(r->head + i) % r->backups];
}

/*
 * Returns packet i of the n packets that were kept when the caller's loop started. Releases during
 * the loop only move the head; the packets still end at head + kept.
 */
static struct sl__backup *kept_at_start(const struct sl_reporter *r, uint32_t n, uint32_t i)
{
	return &r->backup[(r->head + r->kept + r->backups - n + i) % r->backups];
}

uint8_t *sl__report_packet(const struct sl_reporter *r, const struct sl__backup *b)
{
	return r->backup_packet + (size_t)(b - r->backup) * r->stride;
}

/* Makes the ring begin with a packet that was sent and is kept, or else with the unsent ones. */
static void trim_ring(struct sl_reporter *r)
{
	while (r->kept > r->unsent && !r->backup[r->head].bytes) {
		r->head = (r->head + 1) % r->backups;
		r->kept--;
	}
}

static void release_backup(struct sl_reporter *r, struct sl__backup *b)
{
	b->bytes = 0;
	sl__report_file_freed(r, b);
	trim_ring(r);
}

static void keep_packet(struct sl_reporter *r, size_t bytes)
{
	struct sl__backup *b = sl__report_backup(r, r->kept++);

	*b = (struct sl__backup){.reports = r->b.header.reports, .bytes = (uint32_t)bytes};
	memcpy(sl__report_packet(r, b), r->packet, bytes);
	sl__report_file_kept(r, b);
	r->unsent++;
}

static void answer_requested(struct sl_reporter *r, uint64_t now_ns)
{
	if (!r->asks++)
		r->asked_ns = now_ns;
}

static void resend_packet(struct sl_reporter *r, struct sl__backup *b, uint64_t now_ns)
{
	uint8_t *p = sl__report_packet(r, b);
	size_t bytes = b->bytes;

	dta_again(p, sl__realtime_ns());
	bytes = sign_packet(r, p, bytes);
	if (send_now(r, p, bytes))
		return; /* the next retry will send it */
	answer_requested(r, now_ns);
	r->s.again++;
	b->sent_ns = now_ns;
	b->retry_ns = now_ns + (SL__REPORT_RETRY_NS << b->tries);
	b->tries += b->tries < SL__REPORT_DOUBLES;
}

void sl__report_renumber(struct sl_reporter *r, uint64_t now_ns)
{
	r->outside = false;
	for (uint32_t i = 0; i < r->kept - r->unsent; i++) {
		struct sl__backup *b = sl__report_backup(r, i);

		if (!b->bytes)
			continue;
		dta_renumber(sl__report_packet(r, b), r->sequence, r->incarnation,
			     sl__realtime_ns());
		b->first = r->sequence;
		b->sent_ns = b->retry_ns = now_ns;
		r->sequence += b->reports;
	}
	r->b.header.sequence = r->sequence; /* the open packet is sent next */
	r->b.header.incarnation = r->incarnation;
}

/* Whether a translator without state for this packet would reject it as too old. */
static bool outside_window(const struct sl_reporter *r, const struct sl__backup *b, uint32_t newest)
{
	return newest - b->first > r->window;
}

/* Whether the translator's credit covers more reports in addition to those in flight. */
static bool has_credit(struct sl_reporter *r, uint32_t reports, uint64_t now_ns)
{
	uint32_t with = r->sequence + reports - r->next;

	if (r->credits == ~0u || with <= r->credits || (r->credits && r->sequence == r->next))
		return true;
	if (now_ns - r->probed_ns < SL__REPORT_PROBE_NS ||
	    now_ns - r->answered_ns < SL__REPORT_PROBE_NS)
		return false;
	r->probed_ns = now_ns; /* probe: the answer that granted credit may have been lost */
	return true;
}

/* Returns the oldest packet that was sent and not acknowledged, or NULL. */
static const struct sl__backup *oldest_sent(const struct sl_reporter *r)
{
	return r->kept > r->unsent ? sl__report_backup(r, 0) : NULL;
}

/*
 * Whether all unacknowledged packets stay within the translator's window if more reports follow.
 * This bounds what is sent again, and may be stored twice, when a translator is replaced.
 */
static bool window_has_room(const struct sl_reporter *r, uint32_t reports)
{
	const struct sl__backup *oldest = oldest_sent(r);

	return !oldest || r->sequence + reports - oldest->first <= r->window;
}

static void note_sent(struct sl_reporter *r, bool asks, uint64_t now_ns)
{
	if (asks)
		answer_requested(r, now_ns);
	r->sent_ns = now_ns;
	r->beats = 0;
}

/* Sends the first unsent packet of the ring. Returns 0, or -EAGAIN if it stays unsent. */
static int send_first(struct sl_reporter *r, uint64_t now_ns)
{
	struct sl__backup *b = sl__report_backup(r, r->kept - r->unsent);
	uint8_t *p = sl__report_packet(r, b);
	const bool restored = p[2] & DTA_AGAIN; /* a previous run may have sent it */
	const uint32_t reports = b->reports;
	int err;

	if (b->bytes) { /* not a gap that a previous run left in the file */
		if (restored || ++r->unasked >= SL__REPORT_ACK_EVERY ||
		    !window_has_room(r, 2 * reports))
			p[2] |= DTA_ACK_WANTED;
		dta_renumber(p, r->sequence, r->incarnation, sl__realtime_ns());
		err = send_now(r, p, sign_packet(r, p, b->bytes));
		if (err == -EAGAIN)
			return err;
		r->s.again += restored;
		r->s.packed -= restored ? 0 : reports;
		if (err == -EMSGSIZE) { /* the next packet uses the sequence numbers */
			r->s.dropped_error += reports;
			r->unsent--;
			release_backup(r, b);
			return 0;
		}
		r->s.sent += restored ? 0 : reports;
		r->unasked = p[2] & DTA_ACK_WANTED ? 0 : r->unasked;
		note_sent(r, p[2] & DTA_ACK_WANTED, now_ns);
		b->first = r->sequence;
		b->tries = 1;
		b->sent_ns = now_ns;
		b->retry_ns = now_ns + SL__REPORT_RETRY_NS;
		r->sequence += reports;
		r->b.header.sequence = r->sequence; /* the open packet is sent next */
	}
	r->unsent--;
	trim_ring(r);
	return 0;
}

void sl__report_retry(struct sl_reporter *r, uint64_t now_ns)
{
	const struct sl__backup *oldest = oldest_sent(r);

	/*
	 * Renumber only after a long silence, because a packet that is merely slow would be stored
	 * twice.
	 */
	if (r->outside || (oldest && now_ns - oldest->sent_ns >= SL__REPORT_SILENT_NS &&
			   outside_window(r, oldest, r->sequence))) {
		r->next = r->sequence;
		sl__report_renumber(r, now_ns);
	}
	for (uint32_t i = 0; i < r->kept - r->unsent; i++) {
		struct sl__backup *b = sl__report_backup(r, i);

		if (b->bytes && b->retry_ns <= now_ns)
			resend_packet(r, b, now_ns);
	}
	while (r->unsent) {
		const uint32_t next = sl__report_backup(r, r->kept - r->unsent)->reports;

		if (!window_has_room(r, next) || !has_credit(r, next, now_ns) ||
		    send_first(r, now_ns))
			return;
	}
}

/* ---- sending ---- */

/* Processes pending answers first, because they may grant credit. */
static bool wait_for_credit(struct sl_reporter *r)
{
	const uint32_t reports = r->b.header.reports;
	uint64_t now = sl__report_now(), end = now + r->wait_ns;

	if (has_credit(r, reports, now))
		return true;
	sl__report_answers(r);
	if (has_credit(r, reports, now))
		return true;
	if (!(r->flags & SL_REPORTER_WAIT))
		return false;
	r->s.waits++;
	while (wait_for(r, POLLIN, end)) {
		sl__report_answers(r);
		now = sl__report_now();
		sl__report_retry(r, now);
		if (has_credit(r, reports, now))
			return true;
	}
	return false;
}

/* Waits for answers if the ring is full of unacknowledged packets and the reporter may wait. */
static void wait_for_ring(struct sl_reporter *r)
{
	uint64_t end = sl__report_now() + r->wait_ns;

	sl__report_answers(r);
	if (r->kept < r->backups || !(r->flags & SL_REPORTER_WAIT))
		return;
	r->s.waits++;
	while (r->kept == r->backups && wait_for(r, POLLIN, end)) {
		sl__report_answers(r);
		sl__report_retry(r, sl__report_now());
	}
}

int sl__report_send(struct sl_reporter *r, bool ask)
{
	uint32_t reports = r->b.header.reports;
	size_t bytes;
	uint64_t now;
	int err;

	if (!reports)
		return 0;
	if (!wait_for_credit(r)) {
		err = -EDQUOT;
		goto stays;
	}
	if (r->essential && r->kept == r->backups) {
		wait_for_ring(r);
		if (r->kept == r->backups) {
			err = -ENOBUFS;
			goto stays;
		}
	}
	if (r->essential && (ask || r->kept + 2 >= r->backups))
		r->b.header.flags |= DTA_ACK_WANTED;
	if (r->credits != ~0u && r->sequence + reports - r->next > r->credits / 2)
		r->b.header.flags |= DTA_ACK_WANTED;
	/* If there is another target, find out whether this one is still alive. */
	if (r->targets > 1 && sl__report_now() - r->probed_ns >= SL__REPORT_PROBE_NS) {
		r->b.header.flags |= DTA_ACK_WANTED;
		r->probed_ns = sl__report_now();
	}
	r->b.header.time_ns = sl__realtime_ns();
	bytes = dta_end(&r->b);
	now = sl__report_now();
	if (r->essential) {
		keep_packet(r, bytes);
	} else {
		err = sl__report_send_raw(r, r->packet, sign_packet(r, r->packet, bytes));
		if (err == -EAGAIN)
			goto stays;
		r->s.packed -= reports;
		if (err) { /* the next packet reuses its sequence numbers */
			r->s.dropped_error += reports;
			sl__report_begin(r);
			return 0;
		}
		note_sent(r, r->b.header.flags & DTA_ACK_WANTED, now);
		r->s.sent += reports;
		r->sequence += reports;
	}
	if (r->credits == ~0u && !r->kept) /* credits granted later count from here */
		r->next = r->sequence;
	sl__report_begin(r);
	if (r->kept || r->asks || r->credits != ~0u || !(r->s.packets & 15)) {
		sl__report_answers(r);
		sl__report_retry(r, now);
	}
	return 0;
stays:
	r->b.header.flags &= (uint8_t)~DTA_ACK_WANTED;
	return err;
}

/* Sends the translator the latest sequence number, in case the last packets were lost. */
void sl__report_heartbeat(struct sl_reporter *r)
{
	struct dta_header h = next_header(r);
	uint8_t p[64];

	if (r->legacy || !r->sequence)
		return;
	h.time_ns = sl__realtime_ns();
	r->beats++;
	/* A failure counts as a lost packet. */
	if (send(r->target[r->at], p, sign_packet(r, p, dta_heartbeat(p, sizeof(p), &h)),
		 MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		r->s.heartbeats++;
	else
		r->refused |= errno == ECONNREFUSED;
}

/* ---- answers ---- */

static bool has_arrived(const struct sl__backup *b, const struct dta_answer *a)
{
	if (!sl__report_after(b->first + b->reports, a->next))
		return true;
	if (a->type != DTA_ACK)
		return false;
	for (uint32_t i = 0; i < a->ranges; i++)
		if (!sl__report_after(a->range[i].first, b->first) &&
		    b->first + b->reports - a->range[i].first <= a->range[i].count)
			return true;
	return false;
}

static bool is_missing(const struct sl__backup *b, const struct dta_answer *a)
{
	if (a->type != DTA_NACK)
		return false;
	for (uint32_t i = 0; i < a->ranges; i++)
		if (a->range[i].first - b->first < b->reports ||
		    b->first - a->range[i].first < a->range[i].count)
			return true;
	return false;
}

static void process_answer(struct sl_reporter *r, const struct dta_answer *a, uint64_t now_ns)
{
	const uint32_t n = r->kept, sent = n - r->unsent;
	uint32_t newest = a->next;

	for (uint32_t i = 0; a->type == DTA_ACK && i < a->ranges; i++)
		if (sl__report_after(a->range[i].first + a->range[i].count, newest))
			newest = a->range[i].first + a->range[i].count;
	/* it acknowledges reports that were never sent */
	if (sl__report_after(newest, r->sequence)) {
		r->s.answers_refused++;
		return;
	}
	if (a->type == DTA_ACK)
		r->s.acks++;
	else
		r->s.nacks++;
	if (sl__report_after(newest, r->next))
		r->next = newest;
	r->credits = a->credits;
	r->window = a->window ? a->window : SL__REPORT_WINDOW;
	r->answered_ns = now_ns;
	r->asks = 0;
	for (uint32_t i = 0; i < sent && r->kept; i++) {
		struct sl__backup *b = kept_at_start(r, n, i);

		if (!b->bytes)
			continue;
		if (has_arrived(b, a) && outside_window(r, b, newest)) {
			/* the answer's `next` is beyond this packet, so it proves nothing */
			r->outside = true;
		} else if (has_arrived(b, a)) {
			sl__report_update(r, b);
			release_backup(r, b);
			r->s.settled++;
		} else if (is_missing(b, a)) {
			resend_packet(r, b, now_ns);
		}
	}
}

static void receive_answers(struct sl_reporter *r)
{
	uint8_t p[DTA_ANSWER_BYTES + 8 * DTA_RANGES_MAX + DTA_MAC_BYTES + 1];
	struct dta_answer a;
	size_t whole;
	ssize_t n;

	for (int i = 0; i < 64; i++) {
		n = recv(r->target[r->at], p, sizeof(p), MSG_DONTWAIT);
		if (n < 0) {
			r->refused |= errno == ECONNREFUSED;
			if (errno == EINTR || errno == ECONNREFUSED)
				continue;
			return;
		}
		if (dta_answer_parse(p, (size_t)n, &a) || a.reporter != r->reporter ||
		    a.incarnation != r->incarnation) {
			r->s.answers_refused++;
			continue;
		}
		whole = DTA_ANSWER_BYTES + 8u * a.ranges;
		if (r->key &&
		    ((size_t)n != whole + DTA_MAC_BYTES || !dta_mac_fits(r->key, p, (size_t)n))) {
			r->s.answers_refused++;
			continue;
		}
		process_answer(r, &a, sl__report_now());
	}
}

void sl__report_answers(struct sl_reporter *r)
{
	if (!r->legacy) /* legacy answers go to another port */
		receive_answers(r);
	sl__report_failover(r, sl__report_now());
}

int sl_reporter_stop_fd(struct sl_reporter *r, int fd)
{
	if (!r)
		return -EINVAL;
	r->stop_fd = fd;
	return 0;
}

int sl_reporter_drain(struct sl_reporter *r, uint64_t timeout_ns)
{
	uint64_t now = sl__report_now(), end;
	int err;

	if (!r)
		return -EINVAL;
	end = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
	while ((err = sl__report_send(r, true))) {
		sl__report_retry(r, sl__report_now());
		if (!wait_for(r, err == -EAGAIN ? POLLOUT : POLLIN, end))
			return -ETIMEDOUT;
	}
	for (;;) {
		sl__report_answers(r);
		sl__report_retry(r, sl__report_now());
		if (!r->kept)
			return 0;
		if (!wait_for(r, POLLIN, end))
			return -ETIMEDOUT;
	}
}
