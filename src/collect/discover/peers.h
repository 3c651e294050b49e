/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - the other collectors: their names, and which of them answer. One thread, but for what
 * says otherwise.
 */
#ifndef SL_COLLECT_DISCOVER_PEERS_H
#define SL_COLLECT_DISCOVER_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "collect/discover/source.h"

#define COLLECT_PEERS_MAX 256u

/* Why a peer could not be asked. */
enum collect_peer_failure {
	COLLECT_PEER_CONNECT, /* no connection, or a broken one */
	COLLECT_PEER_TIMEOUT,
	COLLECT_PEER_TLS,    /* a certificate is wrong or expired, this one's or the peer's */
	COLLECT_PEER_STATUS, /* it answers other than 200: not authenticated, no role */
	COLLECT_PEER_ANSWER, /* what it answers is not a peer of this name */
	COLLECT_PEER_SECRET, /* a secret of the file of settings cannot be read */
	COLLECT_PEER_FAILURES,
};
extern const char *const collect_peer_failure_names[COLLECT_PEER_FAILURES];

struct collect_peers_stats {
	uint64_t known, alive, joined;		/* collectors, with this one */
	uint64_t overlaps;			/* times that another read the same hosts */
	uint64_t leaves;			/* times that this one left its hosts to others */
	uint64_t failed[COLLECT_PEER_FAILURES]; /* questions */
};

struct collect_peers;

/* self: this one's name among them. config: file of http/client.h, or NULL. NULL with one line. */
struct collect_peers *collect_peers_new(const char *self, const char *config, char *error,
					size_t error_bytes);
/* What a source names now. */
void collect_peers_named(struct collect_peers *p, size_t source, const struct collect_targets *t);
/* Asks those that are due, and hears answers, for up to `ms`. */
void collect_peers_poll(struct collect_peers *p, int ms);
/* No peer counts as heard. */
void collect_peers_restart(struct collect_peers *p);
/* This one is the owner of the host. */
bool collect_peers_own(const struct collect_peers *p, const char *host);
/* Both from any thread. */
void collect_peers_stats(struct collect_peers *p, struct collect_peers_stats *out);
void collect_peers_put(struct collect_peers *p, struct base_json *j);
void collect_peers_free(struct collect_peers *p);

#endif
