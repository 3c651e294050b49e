/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discover.h - which hosts this collector reads: of all that the sources name, those of its shard
 * (shard.h). One thread asks the sources and the file of the shard at intervals, and then assigns.
 *
 * A source that fails, or names nothing, leaves its hosts as they were. A file of the shard that
 * cannot be read, or is malformed, leaves the shard as it was.
 */
#ifndef SL_COLLECT_DISCOVER_DISCOVER_H
#define SL_COLLECT_DISCOVER_DISCOVER_H

#include "base/base.h"
#include "collect/read/collect.h"
#include "collect/discover/shard.h"
#include "collect/discover/source.h"

struct collect_discover;

struct collect_discover_opts {
	struct base_strings sources;
	const char *shard;     /* of collect_shard_parse(); NULL: every host is read */
	unsigned int replicas; /* readers of a host, with shard; at most all members */
	uint64_t every_ns;     /* between two questions to a source; 0: 5 s */
	struct collect_source_opts source;
};

struct collect_discover_stats {
	uint64_t known, read;	/* hosts that sources name; of these, read by this collector */
	uint64_t refused;	/* hosts of this shard beyond the collector's max_hosts */
	uint32_t list;		/* hash of the known names: equal lists have equal ones */
	uint64_t taken, let_go; /* hosts, since the start */
	uint64_t errors;	/* of sources, and of the file of the shard */
	struct collect_shard shard;
	unsigned int replicas; /* readers that each known host should have */
};

/* NULL with one line in error: out of memory, or the shard cannot be read. */
struct collect_discover *collect_discover_new(struct collect_collector *c,
					      const struct collect_discover_opts *opts, char *error,
					      size_t error_bytes);
/* Asks the sources once, and starts the thread. 0 or -errno. */
int collect_discover_start(struct collect_discover *d);
/* Any thread. */
void collect_discover_stats(struct collect_discover *d, struct collect_discover_stats *out);
/* Before the collector is freed. NULL is fine. */
void collect_discover_free(struct collect_discover *d);

#endif
