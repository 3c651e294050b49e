// SPDX-License-Identifier: Apache-2.0
/*
 * dta_send.c - builds packets of reports, injects faults and retransmits. Reporters alternate burst
 * by burst: packets are built, some are withheld, duplicated or reordered, and the rest is sent.
 * Consecutive packets of one size form one message (UDP_SEGMENT), and one system call sends all
 * messages.
 */
#include "cli/generate/dta.h"
#include "dta/wire/endian.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BURST	64u
#define RING	1024u /* numbers of packets built and acknowledged */
#define FAR	8u    /* greatest displacement of a reordered packet */
#define SOCKETS 64u
/* maximum number of reports in flight; a translator's default window is 4096 */
#define UNSETTLED      2048u
#define ASK_AGAIN_NS   20000000u
#define SEGMENTS_BYTES 60000u

struct dta_send_kept {
	uint32_t bytes, first, reports;
};

struct dta_send_reporter {
	struct dta_send_kept *slot;
	uint8_t *data;
	uint64_t made, settled; /* numbers of packets built and acknowledged */
	uint32_t sequence, settled_sequence, credits;
	bool through;
};

struct dta_send_sender {
	const struct base_command *cmd;
	const struct cli_dta_settings *s;
	struct cli_dta_load *load;
	struct cli_dta_sent *sent;
	struct dta_send_reporter *reporter;
	uint32_t ring, room, burst, sockets;
	int fd[SOCKETS];
	uint64_t random, total, began;
	uint64_t translator; /* identifier of the translator that the packets are addressed to */
	bool segments;
	/* The current burst. */
	struct iovec queue[2 * BURST];
	uint32_t queued;
};

static bool draw_chance(struct dta_send_sender *x, double p)
{
	uint64_t r;

	if (p <= 0)
		return false;
	x->random ^= x->random << 13;
	x->random ^= x->random >> 7;
	x->random ^= x->random << 17;
	r = x->random * 0x2545f4914f6cdd1dull;
	return (double)(r >> 11) * 0x1p-53 < p;
}

static int report_error(const struct base_command *cmd, const char *what, int err)
{
	base_failure(cmd, "%s: %s", what, strerror(err));
	return -err;
}

/* Output */

/* Sends all messages of m. Ignores ECONNREFUSED, which means that no translator is listening. */
static void push_messages(struct dta_send_sender *x, int fd, struct mmsghdr *m, uint32_t n)
{
	uint32_t refused = 0;

	while (n) {
		int r = sendmmsg(fd, m, n, 0);

		if (r > 0) {
			m += r;
			n -= (uint32_t)r;
			refused = 0;
		} else if (errno == EINTR || (errno == ECONNREFUSED && refused++ < 4)) {
			continue;
		} else if (errno == EAGAIN || errno == ENOBUFS) {
			struct pollfd p = {.fd = fd, .events = POLLOUT};

			poll(&p, 1, 10);
		} else {
			x->sent->unsent += m->msg_hdr.msg_iovlen;
			if (m->msg_hdr.msg_controllen)
				/*
				 * no segmentation offload: use one packet per message from now on
				 */
				x->segments = false;
			m++;
			n--;
		}
	}
}

static void send_queue(struct dta_send_sender *x, int fd)
{
	struct mmsghdr m[2 * BURST];
	union {
		char bytes[CMSG_SPACE(sizeof(uint16_t))];
		struct cmsghdr align;
	} control[2 * BURST];
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->queued;) {
		uint32_t run = 1;
		const size_t bytes = x->queue[i].iov_len;

		while (x->segments && i + run < x->queued && run < 64 &&
		       x->queue[i + run].iov_len == bytes && (run + 1) * bytes <= SEGMENTS_BYTES)
			run++;
		m[n].msg_hdr = (struct msghdr){.msg_iov = &x->queue[i], .msg_iovlen = run};
		if (run > 1) {
			struct cmsghdr *c = &control[n].align;

			c->cmsg_level = SOL_UDP;
			c->cmsg_type = UDP_SEGMENT;
			c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
			memcpy(CMSG_DATA(c), &(uint16_t){(uint16_t)bytes}, sizeof(uint16_t));
			m[n].msg_hdr.msg_control = &control[n];
			m[n].msg_hdr.msg_controllen = sizeof(control[n].bytes);
		}
		n++;
		i += run;
	}
	push_messages(x, fd, m, n);
	x->queued = 0;
}

static int fd_of(const struct dta_send_sender *x, uint32_t r)
{
	return x->fd[r % x->sockets];
}

/* Packets */

static uint8_t *data_of(const struct dta_send_sender *x, const struct dta_send_reporter *rep,
			uint64_t packet)
{
	return rep->data + packet % x->ring * x->room;
}

/* Builds the next packet of a reporter. Returns false if no reports are left. */
static bool make_packet(struct dta_send_sender *x, uint32_t index, bool withheld)
{
	struct dta_send_reporter *rep = &x->reporter[index];
	uint8_t *data = data_of(x, rep, rep->made);
	struct dta_send_kept *k = &rep->slot[rep->made % x->ring];
	const bool delivered = !withheld || x->s->essential;
	const struct dta_header h = {
		.tenant = (uint16_t)x->s->tenant,
		.reporter = x->s->reporter + index,
		.sequence = rep->sequence,
		.time_ns = base_realtime_ns(),
		.incarnation = x->s->incarnation,
		.flags = (uint8_t)((x->s->essential && rep->made % 16 == 15 ? DTA_ACK_WANTED : 0) |
				   (x->s->mac ? DTA_AUTHENTICATED : 0)),
	};
	struct dta_builder b;
	struct cli_dta_report r;

	k->first = rep->sequence;
	k->reports = 0;
	if (x->s->legacy) {
		if (!cli_dta_load_next(x->load, index, delivered, &r))
			return false;
		k->bytes = (uint32_t)dta_build_legacy(x->s->legacy, (uint8_t)rep->sequence,
						      &r.shape, r.key, r.value, data, x->room);
		k->reports = 1;
	} else {
		dta_begin(&b, data, x->room, &h);
		while (k->reports < x->s->pack &&
		       cli_dta_load_next(x->load, index, delivered, &r)) {
			/* Cannot fail: the buffer has room for the worst case. */
			if (dta_put(&b, &r.shape, r.key, r.value))
				break;
			k->reports++;
		}
		if (!k->reports)
			return false;
		k->bytes = (uint32_t)dta_end(&b);
		if (x->s->mac)
			k->bytes = (uint32_t)dta_proof_put(x->s->mac, x->translator, data,
							   k->bytes);
	}
	rep->sequence += k->reports;
	rep->made++;
	x->sent->reports += k->reports;
	x->sent->packets++;
	x->sent->bytes += k->bytes;
	if (withheld) {
		x->sent->withheld += k->reports;
		x->sent->withheld_packets++;
	} else {
		x->queue[x->queued++] = (struct iovec){data, k->bytes};
	}
	return true;
}

static void send_again(struct dta_send_sender *x, uint32_t index, uint64_t packet, uint8_t flags)
{
	struct dta_send_reporter *rep = &x->reporter[index];
	const struct dta_send_kept *k = &rep->slot[packet % x->ring];
	uint8_t *data = data_of(x, rep, packet);

	data[2] = (uint8_t)(data[2] | flags);
	if (x->s->mac) {
		/* The timestamp must be recent too. */
		dta_put64(data + 16, base_realtime_ns());
		dta_proof_put(x->s->mac, x->translator, data, k->bytes - DTA_PROOF_BYTES);
	}
	if (x->queued == 2 * BURST)
		send_queue(x, fd_of(x, index));
	x->queue[x->queued++] = (struct iovec){data, k->bytes};
	x->sent->again += k->reports;
	x->sent->again_packets++;
}

static bool is_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/*
 * Returns true if all reports of the packet precede the answer's next, or are in a range of an ACK.
 */
static bool has_arrived(const struct dta_send_kept *k, const struct dta_answer *a)
{
	const uint32_t end = k->first + k->reports;

	if (!is_before(a->next, end))
		return true;
	for (uint32_t i = 0; a->type == DTA_ACK && i < a->ranges; i++)
		if (!is_before(k->first, a->range[i].first) &&
		    !is_before(a->range[i].first + a->range[i].count, end))
			return true;
	return false;
}

static void apply_answer(struct dta_send_sender *x, const struct dta_answer *a)
{
	const uint32_t index = a->reporter - x->s->reporter;
	struct dta_send_reporter *rep;

	if (index >= x->s->reporters || a->incarnation != x->s->incarnation) {
		x->sent->bad_answers++;
		return;
	}
	rep = &x->reporter[index];
	x->sent->answers++;
	rep->credits = a->credits;
	if (!x->s->essential)
		return;
	/* Ignore an answer beyond the last sent report: it is forged or faulty. */
	while (!is_before(rep->sequence, a->next) && rep->settled < rep->made &&
	       has_arrived(&rep->slot[rep->settled % x->ring], a)) {
		const struct dta_send_kept *k = &rep->slot[rep->settled++ % x->ring];

		rep->settled_sequence = k->first + k->reports;
	}
	if (a->type != DTA_NACK)
		return;
	x->sent->nacks++;
	for (uint64_t p = rep->settled; p < rep->made; p++) {
		const struct dta_send_kept *k = &rep->slot[p % x->ring];

		for (uint32_t i = 0; i < a->ranges; i++) {
			const uint32_t end = a->range[i].first + a->range[i].count;

			if (is_before(k->first, end) &&
			    is_before(a->range[i].first, k->first + k->reports)) {
				send_again(x, index, p, DTA_AGAIN);
				break;
			}
		}
	}
	send_queue(x, fd_of(x, index));
}

/* Processes answers; waits up to timeout_ms for the first. Returns true if any answer arrived. */
static bool listen_to_answers(struct dta_send_sender *x, int timeout_ms)
{
	struct pollfd p[SOCKETS];
	bool any = false;

	for (uint32_t i = 0; i < x->sockets; i++)
		p[i] = (struct pollfd){.fd = x->fd[i], .events = POLLIN};
	if (poll(p, x->sockets, timeout_ms) <= 0)
		return false;
	for (uint32_t i = 0; i < x->sockets; i++) {
		uint8_t packet[2048];
		ssize_t n;

		while (p[i].revents &&
		       (n = recv(x->fd[i], packet, sizeof(packet), MSG_DONTWAIT)) >= 0) {
			struct dta_answer a;

			any = true;
			/* Count forged and malformed answers. */
			if ((x->s->mac && !dta_mac_fits(x->s->mac, packet, (size_t)n)) ||
			    dta_answer_parse(packet, (size_t)n, &a) != DTA_FINE)
				x->sent->bad_answers++;
			else
				apply_answer(x, &a);
		}
	}
	return any;
}

static uint32_t reports_in_flight(const struct dta_send_reporter *rep)
{
	return rep->sequence - rep->settled_sequence;
}

/*
 * Waits until at most this many reports and packets of a reporter are in flight, and resends the
 * oldest packet if it gets no answer. Returns false on a signal, or if there is no progress for
 * --wait.
 */
static bool settle_reporter(struct dta_send_sender *x, uint32_t index, uint32_t reports,
			    uint64_t packets, int stop)
{
	struct dta_send_reporter *rep = &x->reporter[index];
	uint64_t moved = base_now_ns(), asked = moved;

	while (reports_in_flight(rep) > reports || rep->made - rep->settled > packets) {
		const uint32_t was = rep->settled_sequence;
		uint64_t now;

		if (!listen_to_answers(x, 2) && base_stop_wait(stop, 0))
			return false;
		now = base_now_ns();
		if (rep->settled_sequence != was)
			moved = now;
		if (now - moved > x->s->wait)
			return false;
		if (now - moved > ASK_AGAIN_NS && now - asked > ASK_AGAIN_NS) {
			asked = now;
			send_again(x, index, rep->settled, DTA_AGAIN | DTA_ACK_WANTED);
			if (rep->made - rep->settled > 1)
				send_again(x, index, rep->made - 1, DTA_AGAIN | DTA_ACK_WANTED);
			send_queue(x, fd_of(x, index));
		}
	}
	return true;
}

/* Bursts */

/* Duplicates and reorders packets of a burst. */
static void inject_faults(struct dta_send_sender *x)
{
	const uint32_t n = x->queued;

	for (uint32_t i = 0; i < n; i++)
		if (draw_chance(x, x->s->duplicate)) {
			x->queue[x->queued++] = x->queue[i];
			x->sent->duplicated++;
		}
	for (uint32_t i = 0; i + 1 < x->queued; i++)
		if (draw_chance(x, x->s->reorder)) {
			uint32_t to = i + 1 + (uint32_t)(x->random % FAR);
			struct iovec swapped = x->queue[i];

			to = BASE_MIN(to, x->queued - 1);
			x->queue[i] = x->queue[to];
			x->queue[to] = swapped;
			x->sent->reordered++;
		}
}

/* Returns false on a fatal error. */
static bool send_burst(struct dta_send_sender *x, uint32_t index, int stop)
{
	struct dta_send_reporter *rep = &x->reporter[index];
	uint32_t packets = x->burst;

	if (x->s->essential && !x->s->legacy) {
		const uint32_t most = BASE_MIN(rep->credits, UNSETTLED);
		const uint32_t per_burst = packets * x->s->pack;

		if (!settle_reporter(x, index, most > per_burst ? most - per_burst : 0,
				     x->ring - BURST, stop))
			return false;
	}
	while (packets--) {
		/* Never withhold the last packet of a reporter: nothing would reveal its loss. */
		const bool near_end = x->total - x->load->n <=
				      (uint64_t)x->burst * x->s->pack * x->s->reporters;

		if (!make_packet(x, index, !near_end && draw_chance(x, x->s->loss))) {
			rep->through = true;
			break;
		}
	}
	inject_faults(x);
	send_queue(x, fd_of(x, index));
	return true;
}

static void pace_sending(struct dta_send_sender *x)
{
	const uint64_t due = x->began +
			     (uint64_t)((double)x->sent->reports * 1e9 / (double)x->s->rate);
	const uint64_t now = base_now_ns();
	struct timespec t = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)};

	if (due > now + 50000) {
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
	}
}

static int send_all(struct dta_send_sender *x, int stop)
{
	uint32_t through;

	do {
		through = 0;
		for (uint32_t r = 0; r < x->s->reporters; r++) {
			if (!x->reporter[r].through && !send_burst(x, r, stop))
				return -ETIMEDOUT;
			through += x->reporter[r].through;
			if (x->s->rate)
				pace_sending(x);
		}
		x->sent->complete = through == x->s->reporters;
	} while (!x->sent->complete && !base_stop_wait(stop, 0));
	return 0;
}

static int settle_all(struct dta_send_sender *x, int stop)
{
	int err = 0;

	if (!x->s->essential || x->s->legacy)
		return 0;
	for (uint32_t r = 0; r < x->s->reporters; r++)
		if (err || !settle_reporter(x, r, 0, 0, stop)) {
			err = -ETIMEDOUT;
			x->sent->unsettled += reports_in_flight(&x->reporter[r]);
		}
	return err;
}

/* Start and end */

static int connect_to(struct dta_send_sender *x)
{
	char host[256], service[8];
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found;
	uint16_t port;
	int err;

	if (base_parse_address(x->s->to, host, sizeof(host), &port)) {
		base_failure(x->cmd, "--to: '%s' is not HOST:PORT", x->s->to);
		return -EINVAL;
	}
	snprintf(service, sizeof(service), "%u", port ? port : DTA_PORT);
	err = getaddrinfo(*host ? host : "localhost", service, &hints, &found);
	if (err) {
		base_failure(x->cmd, "--to: %s: %s", host, gai_strerror(err));
		return -EINVAL;
	}
	for (uint32_t i = 0; i < x->sockets; i++) {
		x->fd[i] = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (x->fd[i] < 0 || connect(x->fd[i], found->ai_addr, found->ai_addrlen)) {
			err = report_error(x->cmd, x->s->to, errno);
			break;
		}
		setsockopt(x->fd[i], SOL_SOCKET, SO_SNDBUF, &(int){1 << 22}, sizeof(int));
	}
	freeaddrinfo(found);
	if (!err)
		x->translator = x->s->translator ? dta_translator_of_name(x->s->translator,
									  strlen(x->s->translator))
						 : dta_translator_of_peer(x->fd[0]);
	return err;
}

/*
 * Returns the size of the largest packet of --pack reports: alternating kinds need separate blocks.
 */
static uint64_t worst_packet(const struct cli_dta_settings *s)
{
	uint64_t item = 0;

	for (uint32_t k = 0; k < s->n_kinds; k++) {
		uint64_t bytes = s->key_bytes + (s->value_bytes > 8 ? s->value_bytes : 8);

		if (s->kind[k] == DTA_SKETCH)
			bytes = 12 + (uint64_t)s->cells * (s->hll ? 1 : 8);
		item = BASE_MAX(bytes, item);
	}
	return DTA_HEADER_BYTES + DTA_PROOF_BYTES + s->pack * item +
	       DTA_BLOCK_BYTES *
		       (uint64_t)(s->n_kinds > 1 || s->kind[0] == DTA_SKETCH ? s->pack : 1);
}

int cli_dta_send(const struct base_command *cmd, const struct cli_dta_settings *s,
		 struct cli_dta_load *l, struct cli_dta_sent *sent, int stop)
{
	const bool keep = s->essential && !s->legacy;
	struct dta_send_sender x = {.cmd = cmd,
				    .s = s,
				    .load = l,
				    .sent = sent,
				    .ring = keep ? RING : BURST,
				    .burst = BURST,
				    .sockets = BASE_MIN(s->reporters, SOCKETS),
				    .random = s->seed * 2 + 1,
				    .segments = true};
	const uint64_t worst = worst_packet(s);
	struct timespec cpu;
	uint8_t *data;
	struct dta_send_kept *slot;
	int err;

	*sent = (struct cli_dta_sent){0};
	if (worst > s->mtu) {
		base_failure(cmd,
			     "--pack: packets of up to %" PRIu64 " bytes would exceed --mtu "
			     "%u",
			     worst, s->mtu);
		return -EINVAL;
	}
	x.room = (uint32_t)((worst + 63) & ~63ull);
	for (uint32_t k = 0; k < s->n_kinds; k++)
		x.total += s->kind[k] == DTA_SKETCH ? (l->sketch_items + 1) * s->reporters
						    : s->count;
	while (x.burst > 1 && ((uint64_t)x.burst * s->pack * s->reporters * 8 > x.total ||
			       (s->rate && (uint64_t)x.burst * s->pack * 500 > s->rate) ||
			       (keep && x.burst * s->pack * 2 > UNSETTLED)))
		x.burst /= 2;
	for (uint32_t i = 0; i < SOCKETS; i++)
		x.fd[i] = -1;
	x.reporter = calloc(s->reporters, sizeof(*x.reporter));
	/* Without retransmission, all reporters share the buffers of one burst. */
	slot = calloc((size_t)x.ring * (keep ? s->reporters : 1), sizeof(*slot));
	data = malloc((size_t)x.room * x.ring * (keep ? s->reporters : 1));
	if (!x.reporter || !slot || !data) {
		err = report_error(cmd, "memory", ENOMEM);
		goto out;
	}
	for (uint32_t r = 0; r < s->reporters; r++)
		x.reporter[r] = (struct dta_send_reporter){
			.slot = slot + (keep ? (size_t)r * x.ring : 0),
			.data = data + (keep ? (size_t)r * x.ring * x.room : 0),
			.sequence = s->sequence,
			.settled_sequence = s->sequence,
			.credits = UINT32_MAX};
	err = connect_to(&x);
	if (err)
		goto out;
	x.began = base_now_ns();
	err = send_all(&x, stop);
	sent->elapsed_ns = base_now_ns() - x.began;
	if (settle_all(&x, stop) && !err)
		err = -ETIMEDOUT;
	if (err == -ETIMEDOUT)
		base_failure(cmd, "%" PRIu64 " essential reports were not acknowledged",
			     sent->unsettled);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	sent->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
out:
	for (uint32_t i = 0; i < SOCKETS; i++)
		if (x.fd[i] >= 0)
			close(x.fd[i]);
	free(data);
	free(slot);
	free(x.reporter);
	return err;
}
