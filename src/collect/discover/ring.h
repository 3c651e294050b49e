/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - which of several peers reads a host: rendezvous hashing (Thaler and Ravishankar, 1998).
 * The peer with the highest hash of (peer, host) has it, so every process that knows the same peers
 * says the same, and a peer that comes or goes moves its own share alone. Pure.
 */
#ifndef SL_COLLECT_DISCOVER_RING_H
#define SL_COLLECT_DISCOVER_RING_H

#include <stdbool.h>
#include <stddef.h>

/* The index of the owner among n peers of which alive[i] counts; n: none is alive. */
size_t collect_ring_owner(const char *host, const char *const *peer, const bool *alive, size_t n);

#endif
