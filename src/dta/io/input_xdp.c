/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input_xdp.c - reads reports from the rings of AF_XDP sockets, and from the UDP socket that
 * receives the packets passed to the kernel. Frames in the rings bypass the kernel's checks and are
 * checked here.
 */
#include "dta/io/xdp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "dta/io/capture.h"
#include "dta/wire/wire.h"

#define BATCH 128u /* headers of a batch stay in the L1 cache until the engine reads them */
#define AHEAD 8u   /* prefetch distance for frames written by another core */
/* poll UDP at least every 32 calls, so that a flood in the rings can't starve the socket */
#define UDP_EVERY 32u
#define ETHERNET  14u
#define PIECES	  128u /* datagrams per frame of at most DTA_XSK_LONGEST bytes */

struct xdp {
	struct dta_input in, *udp;
	struct dta_xsk *xsk[DTA_XDP_QUEUES];
	uint32_t n, next; /* next: the queue to poll first; it rotates so that no queue starves */
	uint32_t turn;
	uint16_t port;
	bool generic;
	uint64_t packets;
	struct dta_xsk_frame frame[BATCH];
};

/* ---- checks ---- */

/* The Internet checksum (RFC 1071) in host byte order, as its section 2(B) allows. */

/* Returns an unfolded sum, so that several sums can be added. */
static uint64_t sum_of(const uint8_t *p, size_t bytes)
{
	uint64_t sum = 0;
	uint32_t w;

	for (; bytes >= 4; bytes -= 4, p += 4) {
		memcpy(&w, p, 4);
		sum += w;
	}
	w = 0;
	memcpy(&w, p, bytes);
	return sum + w;
}

/* The sum over correct data folds to 0xffff. */
static uint16_t fold_sum(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

static bool sums_are_right(const struct dta_captured *p, const struct dta_captured_flow *f)
{
	const uint32_t address = f->version == 4 ? 4 : 16;
	const uint8_t *udp = f->above;
	uint16_t have, pseudo;
	uint64_t sum;

	if (f->version == 4 && fold_sum(sum_of(p->ip, (size_t)(udp - p->ip))) != 0xffff)
		return false;
	memcpy(&have, udp + 6, 2);
	if (!have) /* no checksum, which is valid only with IPv4 (RFC 8200, 8.1) */
		return f->version == 4;
	sum = sum_of(f->from, address) + sum_of(f->to, address) +
	      (uint64_t)__builtin_bswap16(IPPROTO_UDP);
	memcpy(&pseudo, udp + 4, 2);
	sum += pseudo;
	pseudo = fold_sum(sum);
	return have == pseudo ||
	       fold_sum(sum + sum_of(udp, (size_t)(udp[4] << 8 | udp[5]))) == 0xffff;
}

bool dta_xdp_datagram(const struct dta_xsk_frame *frame, uint16_t port, struct dta_datagram *out)
{
	struct dta_captured p;
	struct dta_captured_flow f;

	if (frame->bytes < ETHERNET)
		return false;
	p = (struct dta_captured){.ip = frame->data + ETHERNET, .bytes = frame->bytes - ETHERNET};
	return dta_captured_flow(&p, &f) && f.version == (frame->data[12] == 0x08 ? 4 : 6) &&
	       dta_captured_datagram(&f, port, out) && sums_are_right(&p, &f);
}

/* ---- the input ---- */

static uint32_t take_frames(struct xdp *x, struct dta_xsk *from, struct dta_datagram *out,
			    uint32_t max)
{
	const uint32_t frames = dta_xsk_receive(from, x->frame, max);
	uint32_t n = 0;

	for (uint32_t i = 0; i < frames; i++) {
		struct dta_datagram *to = &out[n];

		if (i + AHEAD < frames) {
			__builtin_prefetch(x->frame[i + AHEAD].data);
			__builtin_prefetch(x->frame[i + AHEAD].data + 64);
		}
		if (!dta_xdp_datagram(&x->frame[i], x->port, to)) {
			x->in.others++;
		} else if (x->generic) {
			struct dta_datagram rest = *to;

			n += dta_datagrams_cut(&rest, to, PIECES);
			/* more pieces than fit; the rest becomes one datagram, which is refused */
			out[n - 1].bytes += rest.bytes;
		} else {
			n++;
		}
	}
	x->packets += frames;
	return n;
}

static int receive_xdp(struct dta_input *in, struct dta_datagram *out, uint32_t max)
{
	struct xdp *x = (struct xdp *)in;
	const uint32_t a_frame = x->generic ? PIECES : 1;
	uint32_t n = 0;

	if (max > BATCH)
		max = BATCH;
	if (++x->turn % UDP_EVERY)
		for (uint32_t i = 0; i < x->n && max - n >= a_frame; i++) {
			n += take_frames(x, x->xsk[x->next], out + n, (max - n) / a_frame);
			x->next = (x->next + 1) % x->n;
		}
	return n ? (int)n : x->udp->ops->receive(x->udp, out, max);
}

static void answer_xdp(struct dta_input *in, const struct in6_addr *address, uint16_t port,
		       const void *packet, size_t bytes)
{
	struct xdp *x = (struct xdp *)in;

	x->udp->ops->answer(x->udp, address, port, packet, bytes);
}

/*
 * Under a constant flood the rings would never become empty, because they keep receiving until they
 * are closed. Therefore stop reading them.
 */
static void stop_xdp(struct dta_input *in)
{
	struct xdp *x = (struct xdp *)in;

	x->udp->ops->stop(x->udp);
}

static void sum_stats(const struct xdp *x, struct dta_xsk_stats *out)
{
	*out = (struct dta_xsk_stats){0};
	for (uint32_t i = 0; i < x->n; i++) {
		struct dta_xsk_stats s;

		dta_xsk_stats(x->xsk[i], &s);
		out->dropped += s.dropped;
		out->ring_full += s.ring_full;
		out->no_buffer += s.no_buffer;
		out->invalid += s.invalid;
		out->zero_copy |= s.zero_copy;
	}
}

/* In zero-copy mode no other counter includes frames that were lost because no buffer was free. */
static uint64_t count_drops(struct dta_input *in)
{
	const struct xdp *x = (const struct xdp *)in;
	struct dta_xsk_stats s;

	sum_stats(x, &s);
	return s.dropped + s.ring_full + (s.zero_copy ? s.no_buffer : 0) +
	       x->udp->ops->drops(x->udp);
}

static void report_detail(const struct dta_input *in,
			  void (*say)(void *arg, const char *name, uint64_t value), void *arg)
{
	const struct xdp *x = (const struct xdp *)in;
	struct dta_xsk_stats s;

	sum_stats(x, &s);
	say(arg, "xdp_packets", x->packets);
	say(arg, "xdp_wrong", x->in.others);
	say(arg, "xdp_dropped", s.dropped);
	say(arg, "xdp_ring_full", s.ring_full);
	say(arg, "xdp_no_buffer", s.no_buffer);
	say(arg, "xdp_invalid", s.invalid);
}

static void close_xdp(struct dta_input *in)
{
	struct xdp *x = (struct xdp *)in;

	for (uint32_t i = 0; i < x->n; i++)
		dta_xsk_close(x->xsk[i]);
	x->udp->ops->close(x->udp);
	if (x->in.fd >= 0)
		close(x->in.fd);
	free(x);
}

static const struct dta_input_ops ops = {.name = "xdp",
					 .receive = receive_xdp,
					 .answer = answer_xdp,
					 .stop = stop_xdp,
					 .drops = count_drops,
					 .detail = report_detail,
					 .close = close_xdp};

static int watch_fd(const struct xdp *x, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	return epoll_ctl(x->in.fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

struct dta_input *dta_input_xdp(struct dta_xdp *p, struct dta_input *udp, uint32_t worker,
				uint32_t workers, char *error, size_t error_bytes)
{
	struct xdp *x = calloc(1, sizeof(*x));
	int err;

	snprintf(error, error_bytes, "no memory");
	if (!x) {
		udp->ops->close(udp);
		return NULL;
	}
	x->in.ops = &ops;
	x->udp = udp;
	x->generic = dta_xdp_generic(p);
	x->port = dta_xdp_port(p);
	x->in.fd = epoll_create1(EPOLL_CLOEXEC);
	err = x->in.fd < 0 ? -errno : watch_fd(x, udp->fd);
	for (uint32_t q = worker; !err && q < dta_xdp_queues(p); q += workers) {
		x->xsk[x->n] = dta_xdp_socket(p, q, error, error_bytes);
		if (!x->xsk[x->n])
			goto fail;
		err = watch_fd(x, dta_xsk_fd(x->xsk[x->n++]));
	}
	if (!err)
		return &x->in;
	snprintf(error, error_bytes, "AF_XDP: %s", strerror(-err));
fail:
	close_xdp(&x->in);
	return NULL;
}
