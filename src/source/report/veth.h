/* SPDX-License-Identifier: Apache-2.0 */
/* veth.h - a veth pair with one end in a network namespace of its own */
#ifndef SL_SOURCE_REPORT_VETH_H
#define SL_SOURCE_REPORT_VETH_H

#include <netinet/in.h>
#include <stdint.h>

struct report_veth;

/*
 * Makes the pair, up; near is the name of the end here. It ends with the process. NULL with errno
 * (EEXIST: the name is taken, EPERM). All calls by the same thread.
 */
struct report_veth *report_veth_open(const char *near);
void report_veth_close(struct report_veth *v);

unsigned int report_veth_near(const struct report_veth *v); /* its index */
/* Attaches an XDP program to the far end until the pair ends. 0 or -errno. */
int report_veth_far_xdp(struct report_veth *v, int prog_fd);
/*
 * Assigns addresses to both ends. Returns a UDP socket bound to port `bound` of the far end and
 * connected to port `peer` of the near one, or -errno. Close it before the pair.
 */
int report_veth_addresses(struct report_veth *v, struct in_addr near, struct in_addr far,
			  uint8_t prefix, uint16_t bound, uint16_t peer);

#endif
