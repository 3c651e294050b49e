// SPDX-License-Identifier: Apache-2.0
/*
 * xsk.c - AF_XDP sockets. Memory is divided into chunks, each of which holds one frame. For
 * receiving, a chunk cycles through the fill ring (owned by the kernel), the receive ring, the
 * caller, and back; the fill ring has a place for every chunk. For sending, free chunks form a
 * stack, so that the most recently freed chunk, which is still cached, is used first.
 */
#include "dta/io/xsk.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xdp/xsk.h>

#include "base/network.h"

#define BYTES_DEFAULT (16u << 20)
#define FRAMES_MIN    64u
#define FRAMES_MAX    65536u
#define HEADROOM      256u /* XDP_PACKET_HEADROOM */
#define KICK	      32u  /* frames per call if the driver copies (TX_BATCH_SIZE) */

struct dta_xsk {
	struct xsk_socket *socket;
	struct xsk_umem *umem;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons rx, sent;
	uint8_t *area;
	size_t bytes;
	uint32_t chunk, frames;
	uint32_t held;	  /* received frames handed out until the next call */
	uint64_t *vacant; /* stack of free addresses for sending */
	uint32_t n_vacant;
};

uint32_t dta_xsk_queues(const char *interface)
{
	struct ethtool_channels c = {.cmd = ETHTOOL_GCHANNELS};
	struct ifreq r = {.ifr_data = (char *)&c};
	uint32_t n;

	if (strlen(interface) >= IFNAMSIZ || !if_nametoindex(interface))
		return 0;
	/* A driver without channels has one queue, or leaves its other queues to the kernel. */
	if (base_interface_ioctl(interface, SIOCETHTOOL, &r))
		return 1;
	n = c.combined_count + c.rx_count;
	return n ? n : 1;
}

static const char *describe_error(int err)
{
	switch (err) {
	case EPERM:
		return "AF_XDP needs CAP_NET_RAW";
	case EBUSY:
		return "another AF_XDP socket is using the queue";
	case EINVAL:
		return "the interface has no such queue, or is down";
	case ENOBUFS:
		return "its memory exceeds the limit on locked memory (ulimit -l)";
	case EAFNOSUPPORT:
		return "this kernel does not support AF_XDP";
	default:
		return strerror(err);
	}
}

static int make_area(struct dta_xsk *x, const struct dta_xsk_opts *opts)
{
	const uint64_t bytes = opts->bytes ? opts->bytes : BYTES_DEFAULT;

	x->chunk = opts->longest + HEADROOM > 2048 ? 4096 : 2048;
	for (x->frames = FRAMES_MIN;
	     x->frames < FRAMES_MAX && (uint64_t)x->frames * 2 * x->chunk <= bytes;)
		x->frames *= 2;
	x->bytes = (size_t)x->frames * x->chunk;
	x->area = mmap(NULL, x->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (x->area == MAP_FAILED) {
		x->area = NULL;
		return -ENOMEM;
	}
	madvise(x->area, x->bytes, MADV_HUGEPAGE);
	if (!opts->send)
		return 0;
	x->vacant = calloc(x->frames, sizeof(*x->vacant));
	if (!x->vacant)
		return -ENOMEM;
	for (x->n_vacant = 0; x->n_vacant < x->frames; x->n_vacant++)
		x->vacant[x->n_vacant] = (uint64_t)x->n_vacant * x->chunk;
	return 0;
}

static int make_socket(struct dta_xsk *x, const struct dta_xsk_opts *opts)
{
	const struct xsk_umem_config memory = {
		.fill_size = x->frames, .comp_size = x->frames, .frame_size = x->chunk};
	const struct xsk_socket_config config = {
		.rx_size = x->frames,
		.tx_size = x->frames,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_USE_NEED_WAKEUP | (opts->copy ? XDP_COPY : 0)};
	uint32_t at = 0;
	int err = xsk_umem__create(&x->umem, x->area, x->bytes, &x->fill, &x->sent, &memory);

	if (err)
		return err;
	err = xsk_socket__create(&x->socket, opts->interface, opts->queue, x->umem,
				 opts->send ? NULL : &x->rx, opts->send ? &x->tx : NULL, &config);
	if (err || opts->send)
		return err;
	xsk_ring_prod__reserve(&x->fill, x->frames, &at);
	for (uint32_t i = 0; i < x->frames; i++)
		*xsk_ring_prod__fill_addr(&x->fill, at + i) = (uint64_t)i * x->chunk;
	xsk_ring_prod__submit(&x->fill, x->frames);
	return 0;
}

struct dta_xsk *dta_xsk_open(const struct dta_xsk_opts *opts, char *error, size_t error_bytes)
{
	struct dta_xsk *x = calloc(1, sizeof(*x));
	int err = x ? make_area(x, opts) : -ENOMEM;

	if (!err)
		err = make_socket(x, opts);
	if (!err)
		return x;
	snprintf(error, error_bytes, "%s, queue %u: %s", opts->interface, opts->queue,
		 describe_error(-err));
	dta_xsk_close(x);
	errno = -err;
	return NULL;
}

void dta_xsk_close(struct dta_xsk *x)
{
	if (!x)
		return;
	xsk_socket__delete(x->socket);
	xsk_umem__delete(x->umem);
	if (x->area)
		munmap(x->area, x->bytes);
	free(x->vacant);
	free(x);
}

int dta_xsk_fd(const struct dta_xsk *x)
{
	return xsk_socket__fd(x->socket);
}

/* ---- receiving ---- */

/* Returns frames that were handed out earlier to the kernel. */
static void refill_ring(struct dta_xsk *x)
{
	uint32_t to = 0, from = x->rx.cached_cons - x->held;

	if (!x->held || xsk_ring_prod__reserve(&x->fill, x->held, &to) != x->held)
		return;
	for (uint32_t i = 0; i < x->held; i++)
		*xsk_ring_prod__fill_addr(&x->fill,
					  to + i) = xsk_ring_cons__rx_desc(&x->rx, from + i)->addr;
	xsk_ring_prod__submit(&x->fill, x->held);
	xsk_ring_cons__release(&x->rx, x->held);
	x->held = 0;
}

uint32_t dta_xsk_receive(struct dta_xsk *x, struct dta_xsk_frame *out, uint32_t max)
{
	uint32_t at = 0, n;

	refill_ring(x);
	/* The device requests a wakeup while it waits for buffers. */
	if (xsk_ring_prod__needs_wakeup(&x->fill))
		recvfrom(dta_xsk_fd(x), NULL, 0, MSG_DONTWAIT, NULL, NULL);
	n = xsk_ring_cons__peek(&x->rx, max, &at);
	for (uint32_t i = 0; i < n; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&x->rx, at + i);

		out[i] = (struct dta_xsk_frame){xsk_umem__get_data(x->area, d->addr), d->len};
	}
	x->held = n;
	return n;
}

/* ---- sending ---- */

static void reclaim_sent(struct dta_xsk *x)
{
	uint32_t at = 0, n = xsk_ring_cons__peek(&x->sent, x->frames, &at);

	for (uint32_t i = 0; i < n; i++)
		x->vacant[x->n_vacant++] = *xsk_ring_cons__comp_addr(&x->sent, at + i);
	if (n)
		xsk_ring_cons__release(&x->sent, n);
}

/*
 * Makes the kernel send the frames in the ring. The next call retries frames that it can't accept
 * now.
 */
static int kick_kernel(struct dta_xsk *x)
{
	int err = 0;

	for (uint32_t i = 0; i <= x->frames / KICK; i++) {
		if (*x->tx.producer == __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE) ||
		    !xsk_ring_prod__needs_wakeup(&x->tx))
			return 0;
		if (sendto(dta_xsk_fd(x), NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0)
			continue;
		err = errno;
		if (err != EAGAIN) /* EAGAIN means that the kernel sent some of the frames */
			break;
	}
	return err == EAGAIN || err == EBUSY || err == ENOBUFS ? 0 : -err;
}

int dta_xsk_send(struct dta_xsk *x, const struct dta_xsk_frame *frames, uint32_t count)
{
	uint32_t at = 0, n = count;
	int err;

	reclaim_sent(x);
	if (n > x->n_vacant)
		n = x->n_vacant;
	/* The ring has a place for every chunk. */
	if (n && xsk_ring_prod__reserve(&x->tx, n, &at) != n)
		n = 0;
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t to = x->vacant[--x->n_vacant];

		memcpy(x->area + to, frames[i].data, frames[i].bytes);
		*xsk_ring_prod__tx_desc(&x->tx, at + i) = (struct xdp_desc){.addr = to,
									    .len = frames[i].bytes};
	}
	if (n)
		xsk_ring_prod__submit(&x->tx, n);
	err = kick_kernel(x);
	return err && !n ? err : (int)n;
}

void dta_xsk_stats(const struct dta_xsk *x, struct dta_xsk_stats *out)
{
	struct xdp_statistics s = {0};
	struct xdp_options o = {0};
	socklen_t bytes = sizeof(s);

	getsockopt(dta_xsk_fd(x), SOL_XDP, XDP_STATISTICS, &s, &bytes);
	bytes = sizeof(o);
	getsockopt(dta_xsk_fd(x), SOL_XDP, XDP_OPTIONS, &o, &bytes);
	*out = (struct dta_xsk_stats){.dropped = s.rx_dropped,
				      .ring_full = s.rx_ring_full,
				      .no_buffer = s.rx_fill_ring_empty_descs,
				      .invalid = s.rx_invalid_descs + s.tx_invalid_descs,
				      .zero_copy = o.flags & XDP_OPTIONS_ZEROCOPY};
}
