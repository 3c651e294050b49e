/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - stores of another collector, for peer.c to read: mapped if that collector runs on this
 * host, otherwise by RDMA READ. The other collector's CPU is used only for the connection.
 */
#ifndef SL_DTA_STORE_SERVER_PEER_H
#define SL_DTA_STORE_SERVER_PEER_H

#include "dta/query/internal.h"
#include "dta/store/stores.h"
#include "fabric/fabric.h"

#define DTA_PEER_NS 5000000000ull /* time limit for the peer's announcements, and for a READ */

struct dta_peer_store {
	uint64_t number;
	struct dta_store_object *object; /* the mapped object; NULL if the store is remote */
	struct dta_store_view view;	 /* remote store: view of the copy in head */
	struct fabric_remote far;
	uint8_t *head; /* copy of a remote object up to its banks */
};

struct dta_peer {
	struct dta_control_line *line;
	struct dta_peer_store *at;
	uint32_t stores;
	bool complete;	       /* the peer itself missed no reports */
	uint64_t torn;	       /* number of units that kept changing */
	struct fabric *fabric; /* for remote stores; NULL if all stores are mapped */
	/*
	 * A range of a remote store that was read twice. A unit that is equal in both copies was
	 * not being written.
	 */
	const struct dta_peer_store *window;
	uint64_t window_at, window_bytes;
	bool failed; /* a READ failed */
	char why[200];
};

/*
 * peer_link.c: connects and receives the list of stores. Returns NULL on success, or an error
 * message, with everything closed.
 */
const char *dta_peer_open(const struct dta_stores_config *config, struct dta_peer *p);
void dta_peer_close(struct dta_peer *p);
/* Whether the peer's name is HOST:PORT, an address on another host, rather than a path. */
bool dta_peer_is_far(const char *where);

/* peer_read.c: prepares to read remote stores. Returns NULL on success, or an error message. */
const char *dta_peer_connect(struct dta_peer *p, const struct dta_stores_config *config,
			     const char *host, uint16_t port);
void dta_peer_disconnect(struct dta_peer *p);
/* Reads a unit at an offset in the object. Reading units in ascending order is efficient. */
enum dta_query_settled dta_peer_unit(struct dta_peer *p, struct dta_peer_store *s, uint64_t offset,
				     uint64_t bytes, uint64_t *unit);

#endif
