/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.h - the sink that publishes. Each target is a publisher of libsidelight of its own, so
 * that what one says, however wrong, stays within its series. One thread per struct.
 *
 * What does not fit within the limits is left out, and counted.
 */
#ifndef SL_BRIDGE_PUBLISH_H
#define SL_BRIDGE_PUBLISH_H

#include <sidelight/sidelight.h>

#include "bridge/bridge.h"
#include "bridge/run.h"

struct bridge_publish_opts {
	const char *service, *pod; /* labels of the target; copied */
	const char *socket;	   /* the agent's, or NULL */
	uint64_t bytes_max;	   /* of all series in regions; 0: 64 MiB */
	size_t series_max;	   /* 0: BRIDGE_POINTS_MAX */
	int scale;		   /* of exponential histograms, up to 8; 0: BRIDGE_SCALE */
	bool detached;
};

struct bridge_publish_counts {
	uint64_t refused; /* points that cannot be published: malformed, too long, of two types */
	uint64_t full;	  /* points for which there was no room */
	uint64_t removed; /* series that did not come again */
};

struct bridge_publisher;

struct bridge_publisher *bridge_publish_open(const struct bridge_publish_opts *opts); /* errno */
void bridge_publish_close(struct bridge_publisher *p); /* NULL is fine */
struct bridge_sink *bridge_publish_sink(struct bridge_publisher *p);
struct sl_publisher *bridge_publish_of(struct bridge_publisher *p);

/* A body begins: what comes until the end is all that there is. */
void bridge_publish_begin(struct bridge_publisher *p);
/* Removes what did not come since the beginning; after values() nothing. */
void bridge_publish_end(struct bridge_publisher *p);
/* Removes all: the target does not answer. */
void bridge_publish_clear(struct bridge_publisher *p);
/* Removes what was not set for this long, by CLOCK_MONOTONIC: for targets without bodies. */
void bridge_publish_expire(struct bridge_publisher *p, uint64_t now_ns, uint64_t age_ns);

size_t bridge_publish_series(const struct bridge_publisher *p);
struct bridge_publish_counts bridge_publish_counts(const struct bridge_publisher *p);

#endif
