/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xdp.h - interfaces whose reports bypass the kernel. An XDP program on each interface (xdp.bpf.c)
 * redirects reports to AF_XDP sockets, one per queue. Programs and sockets disappear when the
 * process exits, for whatever reason.
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
#define DTA_XDP_QUEUES	   256u /* total number of queues of all interfaces */

struct dta_xdp;

struct dta_xdp_opts {
	const char **interfaces; /* "NAME" for all queues of an interface, or "NAME:QUEUE" */
	uint32_t n_interfaces;
	/*
	 * Require native (driver) or generic mode. If neither is set: native, with a fallback to
	 * generic.
	 */
	bool native, generic;
	/* destination address of reports; the any address means all addresses of each interface */
	const struct sockaddr_in6 *where;
	uint64_t bytes; /* memory per queue; 0 means 16 MiB */
};

/*
 * Attaches the programs. Until inputs are opened, every packet goes to the kernel. Returns NULL
 * with one line in error. Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.
 */
struct dta_xdp *dta_xdp_open(const struct dta_xdp_opts *opts, char *error, size_t error_bytes);
/* Returns the number of queues. */
uint32_t dta_xdp_queues(const struct dta_xdp *x);
/*
 * Opens the input of one of `workers` workers, with every workers-th queue. udp listens at .where
 * for packets that go through the kernel, and sends answers. The input closes udp, even on failure.
 */
struct dta_input *dta_input_xdp(struct dta_xdp *x, struct dta_input *udp, uint32_t worker,
				uint32_t workers, char *error, size_t error_bytes);
/*
 * Returns the mode of interface i as "NAME:native" or "NAME:generic", or NULL after the last
 * interface.
 */
const char *dta_xdp_how(const struct dta_xdp *x, uint32_t i);
/* Removes the programs. Inputs may be closed before or after. */
void dta_xdp_close(struct dta_xdp *x);

/*
 * Extracts the datagram from a redirected Ethernet frame. Returns false unless the kernel would
 * accept it: valid lengths and checksums, no fragment, this port. A checksum over only the pseudo
 * header is accepted, because a local sender leaves the rest to its adapter.
 */
bool dta_xdp_datagram(const struct dta_xsk_frame *frame, uint16_t port, struct dta_datagram *out);

/* ---- for input_xdp.c ---- */

/*
 * Opens the socket of a queue (below dta_xdp_queues()) and redirects the queue's packets to it.
 * Returns NULL with one line in error.
 */
struct dta_xsk *dta_xdp_socket(struct dta_xdp *x, uint32_t queue, char *error, size_t error_bytes);
uint16_t dta_xdp_port(const struct dta_xdp *x);
bool dta_xdp_generic(const struct dta_xdp *x); /* for any interface */

#endif
