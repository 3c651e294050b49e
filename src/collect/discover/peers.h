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

struct collect_peers;

/* self: this one's name among them. */
struct collect_peers *collect_peers_new(const char *self, size_t sources);
/* What a source names now. */
void collect_peers_named(struct collect_peers *p, size_t source, const struct collect_targets *t);
/* Asks those that are due, and hears answers, for up to `ms`. */
void collect_peers_poll(struct collect_peers *p, int ms);
/* No peer counts as heard. */
void collect_peers_restart(struct collect_peers *p);
/* Every peer that lives has heard of this one, and each had the time to answer. */
bool collect_peers_know_us(const struct collect_peers *p);
/* This one is the owner of the host. */
bool collect_peers_own(const struct collect_peers *p, const char *host);
/* Both from any thread. */
void collect_peers_stats(struct collect_peers *p, uint64_t *peers, uint64_t *alive,
			 uint64_t *overlaps);
void collect_peers_put(struct collect_peers *p, struct base_json *j);
void collect_peers_free(struct collect_peers *p);

#endif
