/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xsk.h - an AF_XDP socket: the frames of one interface queue, in memory shared with the kernel
 * (Documentation/networking/af_xdp.rst). Uses libxdp's rings but not its programs. Single-threaded.
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

/* Counters of the socket (struct xdp_statistics). */
struct dta_xsk_stats {
	uint64_t dropped;   /* dropped before reaching the ring: no buffer, too long, refused */
	uint64_t ring_full; /* dropped because the reader was too slow */
	uint64_t no_buffer; /* no buffer was free; in copy mode also included in dropped */
	uint64_t invalid;   /* invalid descriptors; always 0 */
	bool zero_copy;	    /* the device writes directly to our memory */
};

struct dta_xsk_opts {
	const char *interface;
	uint32_t queue;
	bool send;	  /* true to send, false to receive */
	bool copy;	  /* never use zero copy */
	uint32_t longest; /* size of the largest frame, at most DTA_XSK_LONGEST */
	uint64_t bytes;	  /* size of the memory, rounded to a power of two; 0 means 16 MiB */
};

#define DTA_XSK_LONGEST 3840u /* a page minus XDP_PACKET_HEADROOM */

/* Milliseconds that the kernel may need to free a queue after its socket is closed. */
#define DTA_XSK_BUSY_MS 300

/*
 * Returns NULL with errno (such as EPERM) and one line in error. EBUSY means that the queue has, or
 * just had, another socket.
 */
struct dta_xsk *dta_xsk_open(const struct dta_xsk_opts *opts, char *error, size_t error_bytes);
void dta_xsk_close(struct dta_xsk *x);
int dta_xsk_fd(const struct dta_xsk *x);
/* Returns up to max frames, valid until the next call. */
uint32_t dta_xsk_receive(struct dta_xsk *x, struct dta_xsk_frame *out, uint32_t max);
/* Copies and sends frames. Returns the number accepted, possibly 0, or -errno. */
int dta_xsk_send(struct dta_xsk *x, const struct dta_xsk_frame *frames, uint32_t count);
void dta_xsk_stats(const struct dta_xsk *x, struct dta_xsk_stats *out);

/*
 * Returns the number of configured receive queues of an interface, or 0 if there is no such
 * interface.
 */
uint32_t dta_xsk_queues(const char *interface);

#endif
