/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.h - publishes exposed series, and sums of them, for the collector of the next level, by a
 * thread that walks the exposition once per period.
 */
#ifndef SL_COLLECT_PUBLISH_PUBLISH_H
#define SL_COLLECT_PUBLISH_PUBLISH_H

#include "collect/read/collect.h"

#define COLLECT_PUBLISH_RULES 32u /* maximum number of rules: bits of a mask */

/* Selects series. The functions are called by one thread at a time. */
struct collect_publish_rule {
	bool sum;	       /* publish sums; otherwise the series themselves */
	const char *const *by; /* labels of a sum */
	size_t by_count;
	bool (*name)(void *arg, const char *name);
	/* Returns 1 if selected, 0 if not, or -1 if a regular expression took too many steps. */
	int (*labels)(void *arg, const struct collect_series_view *s);
	void *arg;
};

struct collect_publish_opts {
	const struct collect_publish_rule *rules; /* must outlive the publisher */
	size_t rule_count;
	const char *socket; /* socket of the agent; NULL means libsidelight's default */
	uint64_t period_ns;
};

struct collect_publish;

/* Call before collect_collector_start(). Returns NULL with errno. */
struct collect_publish *collect_publish_new(struct collect_collector *c,
					    const struct collect_publish_opts *o);
int collect_publish_start(struct collect_publish *p); /* returns 0 or -errno */
/* Stops the thread and ends the publisher. NULL is ignored. */
void collect_publish_stop(struct collect_publish *p);
/* Call after collect_collector_free(). NULL is ignored. */
void collect_publish_free(struct collect_publish *p);

#endif
