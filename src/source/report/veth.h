/* SPDX-License-Identifier: Apache-2.0 */
/* veth.h - a pair of Ethernet interfaces, one end of which lies in a network namespace of its own.
 */
#ifndef SL_SOURCE_REPORT_VETH_H
#define SL_SOURCE_REPORT_VETH_H

#include <netinet/in.h>
#include <stdint.h>

struct report_veth;

/*
 * Makes the pair; near is the name of the end here. Both are up. When the process ends, however it
 * does, both are gone. NULL with errno (EEXIST: the name is taken, EPERM).
 */
struct report_veth *report_veth_open(const char *near);
void report_veth_close(struct report_veth *v);

unsigned int report_veth_near(const struct report_veth *v); /* its index */
/* Attaches an XDP program to the far end, for as long as the pair is there. 0 or -errno. */
int report_veth_far_xdp(struct report_veth *v, int prog_fd);
/*
 * Gives both ends an address. Returns a socket of UDP that is bound to port `bound` of the far end
 * and connected to port `peer` of the near one, or -errno. To be closed before the pair is.
 */
int report_veth_addresses(struct report_veth *v, struct in_addr near, struct in_addr far,
			  uint8_t prefix, uint16_t bound, uint16_t peer);

#endif
