/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discover.h - selects the hosts that this collector reads: of all hosts named by the sources, the
 * hosts of its shard (shard.h). One thread asks the sources and rereads the shard's file at
 * intervals, and then updates the assignment.
 *
 * If a source fails, or names nothing, its hosts stay. If the shard's file cannot be read, or is
 * malformed, the shard stays as it is.
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
	const char *shard; /* argument to collect_shard_parse(); NULL means read every host */
	/*
	 * number of collectors that read each host, at most the number of members; used with shard
	 */
	unsigned int replicas;
	uint64_t every_ns; /* time between two queries of a source; 0 means 5 s */
	struct collect_source_opts source;
};

struct collect_discover_stats {
	/* number of hosts named by the sources, and number of these that this collector reads */
	uint64_t known, read;
	uint64_t refused; /* hosts of this shard beyond the collector's max_hosts */
	uint64_t list;	  /* 32-bit hash of the known names, which their order does not affect */
	/* number of hosts that this collector has started and stopped reading so far */
	uint64_t taken, let_go;
	uint64_t errors; /* failures of sources and of the shard's file */
	struct collect_shard shard;
	uint64_t replicas; /* number of collectors that should read each known host */
};

/* Returns NULL with a one-line message in error if out of memory or the shard cannot be read. */
struct collect_discover *collect_discover_new(struct collect_collector *c,
					      const struct collect_discover_opts *opts, char *error,
					      size_t error_bytes);
/* Asks the sources once, and starts the thread. Returns 0 or -errno. */
int collect_discover_start(struct collect_discover *d);
/* Thread-safe. */
void collect_discover_stats(struct collect_discover *d, struct collect_discover_stats *out);
/* Must be called before the collector is freed. d may be NULL. */
void collect_discover_free(struct collect_discover *d);

#endif
