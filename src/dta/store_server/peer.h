/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - another collector's stores, for peer.c to read: mapped where it is on this host, else by
 * RDMA READ. Its CPU takes part in the connection alone.
 */
#ifndef SL_DTA_STORE_SERVER_PEER_H
#define SL_DTA_STORE_SERVER_PEER_H

#include "dta/query/internal.h"
#include "dta/store/stores.h"
#include "fabric/fabric.h"

#define DTA_PEER_NS 5000000000ull /* for all that a peer says, and for a READ */

struct dta_peer_store {
	uint64_t number;
	struct dta_store_object *object; /* mapped; NULL: far */
	struct dta_store_view view;	 /* far: of a copy of what lies before its banks */
	struct fabric_remote far;
	uint8_t *head; /* that copy */
};

struct dta_peer {
	struct dta_control_line *line;
	struct dta_peer_store *at;
	uint32_t stores;
	bool complete;	       /* it missed nothing itself */
	uint64_t torn;	       /* units that kept changing */
	struct fabric *fabric; /* of far stores; NULL: all are mapped */
	/* What was read of a far store, twice: a unit that is the same in both was not written
	 * meanwhile. */
	const struct dta_peer_store *window;
	uint64_t window_at, window_bytes;
	bool failed; /* to read */
	char why[200];
};

/* peer_link.c: connects, and learns of the stores. NULL, or what is wrong; then it is closed. */
const char *dta_peer_open(const struct dta_stores_config *config, struct dta_peer *p);
void dta_peer_close(struct dta_peer *p);
/* Whether a peer by that name is another host's: HOST:PORT, not a path. */
bool dta_peer_is_far(const char *where);

/* peer_read.c: begins to read far stores. NULL, or what is wrong. */
const char *dta_peer_connect(struct dta_peer *p, const struct dta_stores_config *config,
			     const char *host, uint16_t port);
void dta_peer_disconnect(struct dta_peer *p);
/* Reads a unit at an offset in the object; units in ascending order are cheap. */
enum dta_query_settled dta_peer_unit(struct dta_peer *p, struct dta_peer_store *s, uint64_t offset,
				     uint64_t bytes, uint64_t *unit);

#endif
