/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discover.h - which hosts this collector reads: of all that the sources name, those that the ring
 * gives it among the peers that live.
 *
 * Peers ask each other twice per second, over HTTP. One that has not answered for DEAD_NS is dead.
 * Each says which others it hears, and whether it has joined: hosts are shared among those that
 * have. A collector joins when sources name it and every peer that has joined hears it. It leaves,
 * with all its hosts, when sources no longer name it, or when a peer does not hear it that at least
 * as many collectors hear. So a link that is cut in one direction, or a list that no longer names a
 * collector, leaves one reader.
 *
 * A collector lets a host go as soon as another one is its owner, and takes one only after it has
 * been its owner for HOLD_NS without a break. It reads under a lease that ends LEASE_NS after its
 * thread last ran, and takes nothing over at once after that: one that stood still reads nothing
 * when it goes on. As LEASE_NS < DEAD_NS + HOLD_NS, two read a host at the same time only if both
 * live and at least one does not hear the other, which is counted.
 *
 * A source that fails, or names nothing, leaves its hosts as they were.
 */
#ifndef SL_COLLECT_DISCOVER_DISCOVER_H
#define SL_COLLECT_DISCOVER_DISCOVER_H

#include "base/base.h"
#include "base/json.h"
#include "collect/read/collect.h"
#include "collect/discover/peers.h"
#include "collect/discover/source.h"

struct collect_discover;

struct collect_discover_opts {
	struct base_strings sources, peers; /* of hosts; of peers, HOST:PORT of their HTTP */
	const char *self;	  /* this one's name among the peers; NULL without peers */
	const char *peers_config; /* file of http/client.h, by which they are asked; or NULL */
	uint64_t every_ns;	  /* between two questions to a source; 0: 5 s */
	struct collect_source_opts source;
};

struct collect_discover_stats {
	uint64_t hosts, owned;	/* known; read by this one */
	uint64_t errors;	/* of sources */
	uint64_t refused;	/* hosts beyond the collector's max_hosts, now */
	uint64_t taken, let_go; /* hosts */
	uint64_t lapses;	/* times that the lease ended */
	struct collect_peers_stats peers;
};

/* Asks the sources once. NULL with one line in error. */
struct collect_discover *collect_discover_new(struct collect_collector *c,
					      const struct collect_discover_opts *opts, char *error,
					      size_t error_bytes);
int collect_discover_start(struct collect_discover *d); /* 0 or -errno */
/* Any thread. */
void collect_discover_stats(struct collect_discover *d, struct collect_discover_stats *out);
/* What a peer is told: {"id", "started", "joined", "known_by", "alive"}. Any thread. */
void collect_discover_put(struct collect_discover *d, struct base_json *j);
/* Before the collector is freed. NULL is fine. */
void collect_discover_free(struct collect_discover *d);

#endif
