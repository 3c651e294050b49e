/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial.h - the active side of RDMA-CM: names, addresses, routes and events, in steps that never
 * block. The owner creates the queue pair and the private data. Included only by src/fabric/ and
 * src/dta/, and only with HAVE_VERBS.
 */
#ifndef SL_FABRIC_DIAL_H
#define SL_FABRIC_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/rdma.h"

struct fabric_lookup;

enum fabric_dial_phase {
	FABRIC_DIAL_IDLE = 0,
	FABRIC_DIAL_NAME,
	FABRIC_DIAL_ADDRESS,
	FABRIC_DIAL_ROUTE,
	FABRIC_DIAL_CONNECT,
	FABRIC_DIAL_UP
};

struct fabric_dial {
	/* Fields set by the owner before the first start. */
	char host[256], service[8];
	const char *device; /* name of the ibv device; NULL means chosen by route */
	int gid_index;	    /* index of the GID; -1 means chosen by route */
	int ib_port;
	uint32_t timeout_ms; /* time limit for connecting */

	/* Fields read by the owner. */
	/* .verbs and .port_num are valid once FABRIC_DIAL_ROUTED has been returned */
	struct rdma_cm_id *id;
	char error[200];		     /* one line on the last failure */
	struct fabric_verbs_refusal refusal; /* the peer's refusal; a magic of 0 means none */

	struct rdma_event_channel *channel;
	enum fabric_dial_phase phase;
	struct sockaddr_storage to, from; /* a from.ss_family of AF_UNSPEC means chosen by route */
	struct fabric_lookup *lookup;
	uint64_t deadline_ns, check_ns;
	bool lost; /* the device was removed */
};

enum fabric_dial_event {
	FABRIC_DIAL_NOTHING = 0,
	FABRIC_DIAL_ROUTED,	 /* create a queue pair on id, then call fabric_dial_connect() */
	FABRIC_DIAL_ESTABLISHED, /* hello holds the peer's private data, padded with zeros */
	FABRIC_DIAL_FAILED,	 /* at any time: log `error`, then call fabric_dial_end() */
};

/* Starts to connect. Returns FAILED or NOTHING. */
enum fabric_dial_event fabric_dial_start(struct fabric_dial *d, uint64_t now_ns);
/* Takes the next step; once up, checks the connection periodically. */
enum fabric_dial_event fabric_dial_drive(struct fabric_dial *d, uint64_t now_ns, void *hello,
					 size_t hello_bytes);
/*
 * Call after ROUTED. request: 56 bytes of private data. reads: READs or atomics in flight, limited
 * to what the device supports.
 */
enum fabric_dial_event fabric_dial_connect(struct fabric_dial *d, const void *request,
					   uint8_t reads);
/* Destroys the queue pair, the connection, and the owner's objects, and sets these to NULL. */
void fabric_dial_end(struct fabric_dial *d, struct ibv_cq **cq, struct ibv_mr **mr,
		     struct ibv_pd **pd);
/* Call after fabric_dial_end(): abandons a running lookup. */
void fabric_dial_free(struct fabric_dial *d);

#endif
