/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xdp.h - interfaces whose reports bypass the kernel: a program at each (xdp.bpf.c) redirects them
 * to AF_XDP sockets, one per queue. Programs and sockets end with the process, however it ends.
 */
#ifndef SL_DTA_IO_XDP_H
#define SL_DTA_IO_XDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dta/io/input.h"
#include "dta/io/xsk.h"

#define DTA_XDP_INTERFACES 8u
#define DTA_XDP_QUEUES	   256u /* in total */

struct dta_xdp;

struct dta_xdp_opts {
	const char **interfaces; /* "NAME" for all its queues, or "NAME:QUEUE" */
	uint32_t n_interfaces;
	/* Require the driver's mode or the generic one; neither: native with fallback. */
	bool native, generic;
	const struct sockaddr_in6 *where; /* target; any address: those of each interface */
	uint64_t bytes;			  /* of memory per queue; 0: 16 MiB */
};

/*
 * Attaches the programs; without inputs everything goes to the kernel. NULL with errno and one line
 * in error. Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.
 */
struct dta_xdp *dta_xdp_open(const struct dta_xdp_opts *opts, char *error, size_t error_bytes);
/* The number of queues. */
uint32_t dta_xdp_queues(const struct dta_xdp *x);
/*
 * The input of one of `workers` workers, each with every workers-th queue. udp listens at .where
 * for what the kernel receives, and sends answers; the input closes it, also on failure.
 */
struct dta_input *dta_input_xdp(struct dta_xdp *x, struct dta_input *udp, uint32_t worker,
				uint32_t workers, char *error, size_t error_bytes);
/* How interface i runs: "NAME:native" or "NAME:generic"; NULL beyond the last. */
const char *dta_xdp_how(const struct dta_xdp *x, uint32_t i);
/* Removes the programs. Inputs may be closed before or after. */
void dta_xdp_close(struct dta_xdp *x);

/*
 * Extracts the datagram of a redirected Ethernet frame. False unless it is valid as the kernel
 * would see it: lengths, checksums, no fragment, to this port. A checksum of the pseudo header
 * alone comes from a local sender that left it to its adapter.
 */
bool dta_xdp_datagram(const struct dta_xsk_frame *frame, uint16_t port, struct dta_datagram *out);

/* ---- for input_xdp.c ---- */

/*
 * Opens the socket of a queue (below dta_xdp_queues()) and redirects its packets there. NULL with
 * errno and error.
 */
struct dta_xsk *dta_xdp_socket(struct dta_xdp *x, uint32_t queue, char *error, size_t error_bytes);
uint16_t dta_xdp_port(const struct dta_xdp *x);
bool dta_xdp_generic(const struct dta_xdp *x); /* for any interface */

#endif
