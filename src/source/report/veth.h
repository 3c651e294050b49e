/* SPDX-License-Identifier: Apache-2.0 */
/* veth.h - a pair of Ethernet interfaces, one end of which lies in a network namespace of its own. */
#ifndef SL_SOURCE_REPORT_VETH_H
#define SL_SOURCE_REPORT_VETH_H

#include <netinet/in.h>
#include <stdint.h>

struct sl_veth;

/*
 * Makes the pair; near is the name of the end here. Both are up. When the process ends, however it does, both
 * are gone. NULL with errno (EEXIST: the name is taken, EPERM).
 */
struct sl_veth *sl_veth_open(const char *near);
void sl_veth_close(struct sl_veth *v);

unsigned int sl_veth_near(const struct sl_veth *v); /* its index */
/* Attaches an XDP program to the far end, for as long as the pair is there. 0 or -errno. */
int sl_veth_far_xdp(struct sl_veth *v, int prog_fd);
/*
 * Gives both ends an address. Returns a socket of UDP that is bound to port `bound` of the far end and connected to port
 * `peer` of the near one, or -errno. To be closed before the pair is.
 */
int sl_veth_addresses(struct sl_veth *v, struct in_addr near, struct in_addr far, uint8_t prefix, uint16_t bound,
		      uint16_t peer);

#endif
