/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xdp.h - interfaces whose reports take the short way: a program at each (xdp.bpf.c) hands them to
 * AF_XDP sockets, one a queue, and leaves all else to the kernel. The programs and sockets are gone
 * with the process, however it ends.
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
#define DTA_XDP_QUEUES	   256u /* of all of them */

struct dta_xdp;

struct dta_xdp_opts {
	const char **interfaces; /* "NAME", all its queues, or "NAME:QUEUE" */
	uint32_t n_interfaces;
	/* The program runs in the driver, or behind it; neither: in the driver if that can. */
	bool native, generic;
	const struct sockaddr_in6
		*where; /* reports to this; any address: those of each interface */
	uint64_t bytes; /* of memory, a queue; 0: 16 MiB */
};

/*
 * Attaches the programs; until there are inputs, all goes to the kernel. NULL with errno and one
 * line in error. Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.
 */
struct dta_xdp *dta_xdp_open(const struct dta_xdp_opts *opts, char *error, size_t error_bytes);
/* Queues in all. */
uint32_t dta_xdp_queues(const struct dta_xdp *x);
/*
 * Worker number `worker` of `workers`: each has every workers-th queue. What the programs leave to
 * the kernel comes by udp, which listens at .where and answers reporters, too; the input closes it,
 * also when this fails.
 */
struct dta_input *dta_input_xdp(struct dta_xdp *x, struct dta_input *udp, uint32_t worker,
				uint32_t workers, char *error, size_t error_bytes);
/* How interface i runs: "NAME:native" or "NAME:generic"; NULL: there are not so many. */
const char *dta_xdp_how(const struct dta_xdp *x, uint32_t i);
/* Takes the programs away. Inputs may be closed before or after. */
void dta_xdp_close(struct dta_xdp *x);

/*
 * The datagram in a frame of Ethernet that came by a program of ours: false unless all of it is
 * right, as the kernel would see it: lengths, checksums, no fragment, to this port. A checksum that
 * is the sum of the pseudo header alone is one that a sender on this machine left to its adapter.
 */
bool dta_xdp_datagram(const struct dta_xsk_frame *frame, uint16_t port, struct dta_datagram *out);

#endif
