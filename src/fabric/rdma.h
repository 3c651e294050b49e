/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma.h - what both sides of verbs share: devices, addresses of GIDs, and the private data of CM
 * packets. Included by src/fabric/ and src/dta/ alone, and only with HAVE_VERBS.
 *
 * RDMA-CM chooses a GID by the address that a socket is bound to: a RoCEv2 GID is an IPv6 address,
 * or a mapped IPv4 one (IBTA annex A17.4.2; RFC 4291, 2.5.5.2).
 */
#ifndef SL_FABRIC_RDMA_H
#define SL_FABRIC_RDMA_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Private data of a connection request; others are rejected. */
#define FABRIC_VERBS_REQUEST_MAGIC 0x31434c53u /* "SLC1" */
struct fabric_verbs_request {
	uint32_t magic;
	uint32_t version;
	uint32_t flags; /* 0: a reader. CM pads private data with zeros */
	uint32_t reserved;
	uint64_t instance; /* this and the name: with FABRIC_VERBS_STORE only */
	char name[32];
};
_Static_assert(sizeof(struct fabric_verbs_request) <= 56,
	       "of 92 bytes CM takes 36 (IBTA 12.6.5, A11)");
#define FABRIC_VERBS_NOTIFY 1u /* WRITEs into the verdict board, no READs */
#define FABRIC_VERBS_STORE  2u /* WRITEs and FETCH_ADDs into stores, no READs */
#define FABRIC_VERBS_PROOF  4u /* the request is a fabric_verbs_proof, see auth.h */

/* Private data of a rejection; with error 0 it is a challenge. */
#define FABRIC_VERBS_REFUSAL_MAGIC 0x31524c53u /* "SLR1" */
struct fabric_verbs_refusal {
	uint32_t magic;
	/* positive errno: ENOSPC no queue pair, EDQUOT none for this address, EPROTO malformed,
	   EOPNOTSUPP no board, ENOKEY a secret is needed, EKEYREJECTED it is another one */
	int32_t error;
	uint8_t cookie[16];
};

#define FABRIC_VERBS_HELLO_MAGIC 0x31484c53u /* "SLH1" */
#define FABRIC_VERBS_VERSION	 1u

/*
 * Timeout of an acknowledgement: 4.096 us * 2^13 = 34 ms, up to four times that by the
 * specification; 7 retries. RDMA-CM's default, half a second and more, would let one lost packet
 * outlast a collector's READ timeout.
 */
#define FABRIC_VERBS_ACK_TIMEOUT 13
#define FABRIC_VERBS_RETRIES	 7

/* 0 if the device (name NULL: any) exists, else -errno and one line in error. */
int fabric_rdma_find(const char *name, char *error, size_t error_bytes);

/*
 * The address of a device's GID. gid_index -1: the first RoCEv2 one, IPv4 before IPv6 before
 * link-local; family AF_UNSPEC: any. name NULL: the first device. 0, or -errno and one line in
 * error.
 */
int fabric_rdma_gid_address(const char *name, int ib_port, int gid_index, int family,
			    struct sockaddr_storage *address, char *error, size_t error_bytes);

/* The index of an address's GID, or -1. */
int fabric_rdma_gid_of(struct ibv_context *verbs, int ib_port, const struct sockaddr *address,
		       union ibv_gid *gid);

/*
 * After a device was removed and everything on it destroyed: makes librdmacm close it, which it
 * does only when it lists devices again. A driver that cannot revoke resources (rxe) waits for
 * that. librdmacm keeps the last device for good.
 */
void fabric_rdma_forget_lost(void);

/* Sets the port of an IPv4 or IPv6 address. */
void fabric_rdma_set_port(struct sockaddr_storage *address, uint16_t port);

/* 0 or -errno. */
int fabric_rdma_nonblocking(int fd);

/* "10.0.0.1:7475", "[fe80::1]:7475". Returns to. */
const char *fabric_rdma_address(const struct sockaddr *address, char *to, size_t bytes);

#endif
