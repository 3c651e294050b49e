/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma.h - code common to both sides of verbs: devices and addresses of GIDs. Included only by
 * src/fabric/ and src/dta/, and only with HAVE_VERBS.
 *
 * RDMA-CM chooses a GID by the address that a socket is bound to: a RoCEv2 GID is an IPv6 address,
 * or a mapped IPv4 address (IBTA annex A17.4.2; RFC 4291, 2.5.5.2).
 */
#ifndef SL_FABRIC_RDMA_H
#define SL_FABRIC_RDMA_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/gate.h"

/*
 * Timeout of an acknowledgement: 4.096 us * 2^13 = 34 ms, up to four times that by the
 * specification; 7 retries. With RDMA-CM's default, half a second or more, a single lost packet
 * could take longer than a collector's READ timeout.
 */
#define FABRIC_VERBS_ACK_TIMEOUT 13
#define FABRIC_VERBS_RETRIES	 7

/*
 * Returns 0 if the device (any device if name is NULL) exists, otherwise -errno and one line in
 * error.
 */
int fabric_rdma_find(const char *name, char *error, size_t error_bytes);

/*
 * Returns the address of a device's GID. A gid_index of -1 means the first RoCEv2 GID, IPv4 before
 * IPv6 before link-local; a family of AF_UNSPEC means any; a NULL name means the first device.
 * Returns 0, or -errno and one line in error.
 */
int fabric_rdma_gid_address(const char *name, int ib_port, int gid_index, int family,
			    struct sockaddr_storage *address, char *error, size_t error_bytes);

/* Returns the index of an address's GID, or -1. */
int fabric_rdma_gid_of(struct ibv_context *verbs, int ib_port, const struct sockaddr *address,
		       union ibv_gid *gid);

/*
 * Call after a device was removed and all of its objects destroyed: makes librdmacm close the
 * device, which it only does when it lists devices again. A driver that cannot revoke resources
 * (rxe) waits for that. librdmacm never closes the last device.
 */
void fabric_rdma_forget_lost(void);

/* Returns 0 or -errno. */
int fabric_rdma_nonblocking(int fd);

#endif
