/* SPDX-License-Identifier: Apache-2.0 */
/* veth.h - creates a veth pair with one end in a separate network namespace. */
#ifndef SL_SOURCE_REPORT_VETH_H
#define SL_SOURCE_REPORT_VETH_H

#include <netinet/in.h>
#include <stdint.h>

struct report_veth;

/*
 * Creates the pair and brings it up. near: name of the end in this namespace. The pair is removed
 * when the process exits. Returns NULL with errno on failure (EEXIST: the name is taken, EPERM).
 * The same thread must make all calls.
 */
struct report_veth *report_veth_open(const char *near);
void report_veth_close(struct report_veth *v);

unsigned int report_veth_near(const struct report_veth *v); /* interface index of the near end */
/* Attaches an XDP program to the far end until the pair is closed. Returns 0 or -errno. */
int report_veth_far_xdp(struct report_veth *v, int prog_fd);
/*
 * Assigns addresses to both ends. Returns a UDP socket bound to port `bound` of the far end and
 * connected to port `peer` of the near end, or -errno. Close the socket before the pair.
 */
int report_veth_addresses(struct report_veth *v, struct in_addr near, struct in_addr far,
			  uint8_t prefix, uint16_t bound, uint16_t peer);

#endif
