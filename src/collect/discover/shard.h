/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.h - which of N collectors read a host: the R members with the highest hash of (member
 * number, host name), which is rendezvous hashing (Thaler and Ravishankar, 1998). Collectors agree
 * without talking to each other, and when N changes by one, a host changes at most one of its
 * readers.
 */
#ifndef SL_COLLECT_DISCOVER_SHARD_H
#define SL_COLLECT_DISCOVER_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COLLECT_SHARDS_MAX   1024u
#define COLLECT_REPLICAS_MAX 8u

struct collect_shard {
	unsigned int member;  /* below members */
	unsigned int members; /* 0: hosts are not shared, every host is read */
};

/* Rendezvous hash. The same in every process and version, as collectors must agree. Pure. */
uint64_t collect_shard_hash(unsigned int member, const char *host);
/* Whether this member is one of the `replicas` readers of a host. Pure. */
bool collect_shard_reads(const struct collect_shard *s, unsigned int replicas, const char *host);

/*
 * Reads "I/N", "auto/N" or "file:PATH", a file with one of the other two on its first line. auto is
 * the number behind the last '-' of $POD_NAME or else of the host name, as in names of the pods of
 * a StatefulSet. 0, or -EINVAL with one line in error.
 */
int collect_shard_parse(const char *text, struct collect_shard *out, char *error,
			size_t error_bytes);

#endif
