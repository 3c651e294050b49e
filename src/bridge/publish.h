/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.h - a sink that publishes. Each target has its own libsidelight publisher, so invalid
 * data from a target affects only that target's series. A bridge_publisher must be used by only one
 * thread at a time.
 *
 * Data that exceeds the limits is left out and counted.
 */
#ifndef SL_BRIDGE_PUBLISH_H
#define SL_BRIDGE_PUBLISH_H

#include <sidelight/sidelight.h>

#include "bridge/bridge.h"
#include "bridge/run.h"

struct bridge_publish_counts {
	/* points that can't be published: malformed, too long, or with conflicting types */
	uint64_t refused;
	uint64_t full; /* points refused because there was no room */
	/* included in .refused: points that occur twice in a body, and deltas sent again */
	uint64_t duplicate;
	/* included in .refused: points published without their negative observations */
	uint64_t negative;
	uint64_t removed; /* series that were no longer present */
};

struct bridge_publish_opts {
	const char *service, *pod; /* labels of the target */
	const char *socket;	   /* path of the agent's socket, or NULL */
	/* memory limit for all series, and all names since the beginning; 0 means 64 MiB */
	uint64_t bytes_max;
	size_t series_max; /* maximum number of series; 0 means BRIDGE_POINTS_MAX */
	int scale;	   /* scale of exponential histograms, at most 8; 0 means BRIDGE_SCALE */
	bool detached;
	/* counts to add to, which other publishers may share; or NULL */
	struct bridge_publish_counts *counts;
};

struct bridge_publisher;

/* Returns NULL with errno. ENOSPC: see bridge_publish_why(). */
struct bridge_publisher *bridge_publish_open(const struct bridge_publish_opts *opts);
void bridge_publish_close(struct bridge_publisher *p); /* NULL is ignored */
/* Says why a publisher could not be opened. All bridges share the 63 regions of their process. */
const char *bridge_publish_why(int error);
struct bridge_sink *bridge_publish_sink(struct bridge_publisher *p);
struct sl_publisher *bridge_publish_of(struct bridge_publisher *p);

/* Starts a body, which must contain all series until bridge_publish_end(). */
void bridge_publish_begin(struct bridge_publisher *p);
/* Ends a body and removes series that it did not contain. After values(), removes nothing. */
void bridge_publish_end(struct bridge_publisher *p);
/* Removes all series, because the target does not respond. */
void bridge_publish_clear(struct bridge_publisher *p);
/*
 * Removes series that have not been updated for age_ns (CLOCK_MONOTONIC). For targets that do not
 * send complete bodies.
 */
void bridge_publish_expire(struct bridge_publisher *p, uint64_t now_ns, uint64_t age_ns);

size_t bridge_publish_series(const struct bridge_publisher *p);
struct bridge_publish_counts bridge_publish_counts(const struct bridge_publisher *p);

#endif
