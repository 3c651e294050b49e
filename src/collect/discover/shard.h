/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.h - selects the collectors, of N, that read a host: the R members with the highest hash of
 * (member number, host name), which is rendezvous hashing (Thaler and Ravishankar, 1998).
 * Collectors agree without talking to each other, and when N changes by one, a host changes at most
 * one of its readers.
 */
#ifndef SL_COLLECT_DISCOVER_SHARD_H
#define SL_COLLECT_DISCOVER_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COLLECT_SHARDS_MAX   1024u
#define COLLECT_REPLICAS_MAX 8u

struct collect_shard {
	unsigned int member; /* number of this member, below members */
	/* number of members; 0 means no division: every host is read */
	unsigned int members;
};

/*
 * Rendezvous hash. Must be the same in every process and version, because all collectors must
 * agree. Pure function.
 */
uint64_t collect_shard_hash(unsigned int member, const char *host);
/* Returns true if this member is one of the `replicas` readers of a host. Pure function. */
bool collect_shard_reads(const struct collect_shard *s, unsigned int replicas, const char *host);

/*
 * Parses "I/N", "auto/N" or "file:PATH", where the first line of the file is in one of the other
 * two forms. auto uses the number after the last '-' of $POD_NAME or else of the host name, like
 * the names of a StatefulSet's pods. Returns 0, or -EINVAL with a one-line message in error.
 */
int collect_shard_parse(const char *text, struct collect_shard *out, char *error,
			size_t error_bytes);

#endif
