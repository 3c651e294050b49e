/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xsk.h - an AF_XDP socket: frames of one queue of an interface, in memory that the kernel and we
 * share (Documentation/networking/af_xdp.rst). By libxdp's rings; its own programs are not used.
 * One thread.
 */
#ifndef SL_DTA_IO_XSK_H
#define SL_DTA_IO_XSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dta_xsk;

struct dta_xsk_frame {
	const uint8_t *data;
	uint32_t bytes;
};

/* All count up; of the socket, as the kernel counts (struct xdp_statistics). */
struct dta_xsk_stats {
	uint64_t dropped;   /* no buffer, too long, refused: before they were in the ring */
	uint64_t ring_full; /* we were too slow */
	uint64_t no_buffer; /* times that no buffer was free: where the driver copies, dropped, too
			     */
	uint64_t invalid;   /* of what we gave it; 0 */
	bool zero_copy;	    /* the device itself writes into our memory */
};

struct dta_xsk_opts {
	const char *interface;
	uint32_t queue;
	bool send;	  /* or it receives; not both */
	bool copy;	  /* do without the device's own writing */
	uint32_t longest; /* bytes of a frame, at most DTA_XSK_LONGEST */
	uint64_t bytes;	  /* of memory, in powers of two; 0: 16 MiB */
};

#define DTA_XSK_LONGEST 3840u /* a page without the kernel's head room (XDP_PACKET_HEADROOM) */

/* Milliseconds in which a queue is free again whose socket was closed: the kernel does it behind
 * our back. */
#define DTA_XSK_BUSY_MS 300

/* NULL with errno (EPERM, EBUSY: the queue has a socket already, or had one just now) and one line
 * in error. */
struct dta_xsk *dta_xsk_open(const struct dta_xsk_opts *opts, char *error, size_t error_bytes);
void dta_xsk_close(struct dta_xsk *x);
int dta_xsk_fd(const struct dta_xsk *x);
/* Up to max frames that are there; they stay until the next call. */
uint32_t dta_xsk_receive(struct dta_xsk *x, struct dta_xsk_frame *out, uint32_t max);
/* Copies frames and sends them. Returns how many were taken, also fewer than count or 0, or -errno.
 */
int dta_xsk_send(struct dta_xsk *x, const struct dta_xsk_frame *frames, uint32_t count);
void dta_xsk_stats(const struct dta_xsk *x, struct dta_xsk_stats *out);

/* Receive queues of an interface as they are set up; 0 with errno: no such interface. */
uint32_t dta_xsk_queues(const char *interface);

#endif
