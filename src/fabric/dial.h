/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial.h - the active side of RDMA-CM: names, addresses, routes and events, one step at a time and none that
 * waits. What a connection is for, its queue pair and its private data, is its owner's. Included by
 * src/fabric/ and src/dta/ alone, and only with HAVE_VERBS.
 */
#ifndef SL_FABRIC_DIAL_H
#define SL_FABRIC_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/rdma.h"

struct sl_lookup;

enum sl_dial_phase { SL_DIAL_IDLE = 0, SL_DIAL_NAME, SL_DIAL_ADDRESS, SL_DIAL_ROUTE, SL_DIAL_CONNECT, SL_DIAL_UP };

struct sl_dial {
	/* For the owner to set before the first start. */
	char host[256], service[8];
	const char *device; /* NULL: as the route says */
	int gid_index;	    /* -1: as the route says */
	int ib_port;
	uint32_t timeout_ms; /* of connecting */

	/* For the owner to read. */
	struct rdma_cm_id *id;	/* with .verbs and .port_num from SL_DIAL_ROUTED on */
	char error[200];	/* why it failed, one line */
	struct sl_verbs_refusal refusal; /* of the other side, as it came; magic 0: none */

	struct rdma_event_channel *channel;
	enum sl_dial_phase phase;
	struct sockaddr_storage to, from; /* from.ss_family AF_UNSPEC: as the route says */
	struct sl_lookup *lookup;
	uint64_t deadline_ns, check_ns;
	bool lost; /* its device */
};

enum sl_dial_event {
	SL_DIAL_NOTHING = 0,
	SL_DIAL_ROUTED,	     /* make a queue pair on id, and call sl_dial_connect() */
	SL_DIAL_ESTABLISHED, /* hello was filled in, with zeros behind what came */
	SL_DIAL_FAILED,	     /* while connecting or later: say why by error, and hang up */
};

/* Begins to connect. FAILED or NOTHING. */
enum sl_dial_event sl_dial_start(struct sl_dial *d, uint64_t now_ns);
/* Goes on with that; once up, looks now and then whether the connection is still there. */
enum sl_dial_event sl_dial_drive(struct sl_dial *d, uint64_t now_ns, void *hello, size_t hello_bytes);
/* After ROUTED. reads: READs or atomics on the way at once, at most what the device can. */
enum sl_dial_event sl_dial_connect(struct sl_dial *d, const struct sl_verbs_request *request, uint8_t reads);
/* Ends it: its queue pair, what the owner has made on its device (set to NULL; NULL is nothing), and the connection. */
void sl_dial_end(struct sl_dial *d, struct ibv_cq **cq, struct ibv_mr **mr, struct ibv_pd **pd);
/* After that: forgets a look-up that still runs. */
void sl_dial_free(struct sl_dial *d);

#endif
