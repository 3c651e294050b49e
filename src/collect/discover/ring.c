// SPDX-License-Identifier: Apache-2.0
#include "collect/discover/ring.h"

#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The same in every process and version: peers must agree. */
static uint64_t weight(const char *host, const char *peer)
{
	return XXH3_64bits_withSeed(host, strlen(host), XXH3_64bits(peer, strlen(peer)));
}

size_t collect_ring_owner(const char *host, const char *const *peer, const bool *alive, size_t n)
{
	uint64_t best = 0;
	size_t owner = n;

	for (size_t i = 0; i < n; i++) {
		uint64_t w;

		if (!alive[i])
			continue;
		w = weight(host, peer[i]);
		/* Of equal ones the first name. */
		if (owner == n || w > best || (w == best && strcmp(peer[i], peer[owner]) < 0)) {
			best = w;
			owner = i;
		}
	}
	return owner;
}
