/* SPDX-License-Identifier: Apache-2.0 */
/* counters.h - the agent's counters, which self.c publishes. */
#ifndef SL_AGENT_COUNTERS_H
#define SL_AGENT_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/host.h"
#include "http/http.h"

struct agent;

enum agent_refusal {
	REFUSED_MALFORMED, /* a packet that cannot be parsed */
	REFUSED_PERMISSION,
	REFUSED_DESCRIPTOR, /* the descriptor is not a memfd, or cannot be mapped */
	REFUSED_SEALS,
	REFUSED_SIZE,	/* the region exceeds --max-region-size, or sizes differ */
	REFUSED_SPARSE, /* holes in memory that would be registered */
	REFUSED_HEADER,
	REFUSED_INSTANCE, /* the instance differs from the header, or another connection uses it */
	REFUSED_REGIONS,  /* the number of regions would exceed --max-regions */
	REFUSED_MEMORY,	  /* the memory of regions would exceed --max-memory */
	REFUSED_QUOTA,	  /* the limit of a uid or a connection would be exceeded */
	REFUSED_SYSTEM,	  /* mmap() or registration failed, or out of memory */
	REFUSED_IDENTITY, /* SL_REGION_ORIGIN from a tenant that may not set it */
	REFUSED_ABSENT,	  /* OPEN of an unknown id */
	REFUSED_COUNT,
};
extern const char *const agent_refusal_names[REFUSED_COUNT]; /* region.c */
void agent_refused_count(struct agent *a, enum agent_refusal cause);

enum agent_drop {
	DROP_MALFORMED, /* the client sent a malformed packet */
	DROP_SILENT,	/* the client sent nothing */
	DROP_SLOW,	/* the client did not read its answers */
	DROP_REFUSED,	/* the client was refused too often */
	DROP_CROWD,	/* too many connections */
	DROP_ERROR,	/* socket error */
	DROP_COUNT,
};
extern const char *const agent_drop_names[DROP_COUNT]; /* conn.c */

extern const char *const agent_rdma_refusal_names[FABRIC_REFUSED_COUNT]; /* rdma.c */

struct agent_counters {
	uint64_t connections, packets;
	uint64_t admitted, reattached, restored, store_refused, dead, closed, expired, evicted,
		freed;
	uint64_t refused[REFUSED_COUNT], dropped[DROP_COUNT];
	uint64_t lines_repaired, lost_connections, extra_fds, closing, closing_lost, paused;
	uint64_t ends_held;
	uint64_t subscribed, opened, status;
	uint64_t rest_requests, rest_errors, rest_updates, rest_expired;
	/* refused by src/http, as of the last agent_rest_count() */
	uint64_t rest_refused[HTTP_REFUSALS];
	uint64_t promotions, promoted_regions, breakups, registration_failures;
	uint64_t verdicts, verdicts_unknown, verdicts_refused, verdicts_lost;
	uint64_t rdma_refused[FABRIC_REFUSED_COUNT], rdma_challenged, rdma_half_open;
	uint64_t keys_renewed, fabric_sent_bytes, fabric_silent;
	uint64_t tcp_refused, tcp_missed, tcp_cgroups_refused, tcp_filters_refused;
};

struct agent_counter_info {
	const char *name;
	size_t offset; /* offset in struct agent_counters */
	const char *help;
};
#define AGENT_COUNTERS 42
extern const struct agent_counter_info agent_counter_table[AGENT_COUNTERS]; /* self.c */

#endif
