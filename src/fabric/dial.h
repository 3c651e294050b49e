/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial.h - the active side of RDMA-CM: names, addresses, routes and events, one step at a time and
 * none that waits. What a connection is for, its queue pair and its private data, is its owner's.
 * Included by src/fabric/ and src/dta/ alone, and only with HAVE_VERBS.
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
	/* For the owner to set before the first start. */
	char host[256], service[8];
	const char *device; /* NULL: as the route says */
	int gid_index;	    /* -1: as the route says */
	int ib_port;
	uint32_t timeout_ms; /* of connecting */

	/* For the owner to read. */
	struct rdma_cm_id *id; /* with .verbs and .port_num from FABRIC_DIAL_ROUTED on */
	char error[200];       /* why it failed, one line */
	struct fabric_verbs_refusal refusal; /* of the other side, as it came; magic 0: none */

	struct rdma_event_channel *channel;
	enum fabric_dial_phase phase;
	struct sockaddr_storage to, from; /* from.ss_family AF_UNSPEC: as the route says */
	struct fabric_lookup *lookup;
	uint64_t deadline_ns, check_ns;
	bool lost; /* its device */
};

enum fabric_dial_event {
	FABRIC_DIAL_NOTHING = 0,
	FABRIC_DIAL_ROUTED,	 /* make a queue pair on id, and call fabric_dial_connect() */
	FABRIC_DIAL_ESTABLISHED, /* hello was filled in, with zeros behind what came */
	FABRIC_DIAL_FAILED,	 /* while connecting or later: say why by error, and hang up */
};

/* Begins to connect. FAILED or NOTHING. */
enum fabric_dial_event fabric_dial_start(struct fabric_dial *d, uint64_t now_ns);
/* Goes on with that; once up, looks now and then whether the connection is still there. */
enum fabric_dial_event fabric_dial_drive(struct fabric_dial *d, uint64_t now_ns, void *hello,
					 size_t hello_bytes);
/* After ROUTED. reads: READs or atomics on the way at once, at most what the device can. */
enum fabric_dial_event fabric_dial_connect(struct fabric_dial *d,
					   const struct fabric_verbs_request *request,
					   uint8_t reads);
/* Ends it: its queue pair, what the owner has made on its device (set to NULL; NULL is nothing),
 * and the connection. */
void fabric_dial_end(struct fabric_dial *d, struct ibv_cq **cq, struct ibv_mr **mr,
		     struct ibv_pd **pd);
/* After that: forgets a look-up that still runs. */
void fabric_dial_free(struct fabric_dial *d);

#endif
