/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - state shared by the links to one host */
#ifndef SL_COLLECT_READ_HOST_H
#define SL_COLLECT_READ_HOST_H

#include <pthread.h>

#include "collect/read/collect.h"
#include "base/table.h"

struct collect_link;
struct collect_region;

#define COLLECT_HOST_NAMES 64u

/* A region stays with its link until the link releases the region. */
struct collect_host {
	struct collect_collector *c;
	const char *target, *fabric;
	char own_target[256]; /* buffer for the target of a spare host */
	bool wanted;	      /* the host is read */
	void *beside;	      /* set by the attached collect_reader before startup */
	struct collect_link **link;
	unsigned int links;
	char *hostname; /* current host name, the last of name[]; replaced by an atomic store */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint64_t fresh_ns;     /* CLOCK_MONOTONIC */
	pthread_mutex_t lock;  /* protects the fields below */
	struct base_table homes;
	size_t homes_max; /* when `homes` reaches this size, unused entries are freed */
	/*
	 * number of entries of `homes` released so far; a link then checks whether it may read the
	 * instance
	 */
	uint64_t releases;
	struct base_table tenants; /* tenant.h */
	uint32_t *load;
	/*
	 * Any thread may use the names, so they are freed only with the collector and their number
	 * is bounded.
	 */
	char *name[COLLECT_HOST_NAMES];
	unsigned int names;
};

int collect_host_init(struct collect_host *h, struct collect_collector *c, const char *target,
		      unsigned int links);
void collect_host_free(struct collect_host *h);
/*
 * Assigns the region to the least loaded link unless it has a link already. Returns 1 if l reads
 * it, 0 if another link does, or -ENOMEM.
 */
int collect_host_claim(struct collect_host *h, struct collect_link *l, uint64_t instance);
void collect_host_release(struct collect_host *h, struct collect_link *l, uint64_t instance);
void collect_host_set_name(struct collect_host *h, const char *name);
const char *collect_host_name(const struct collect_host *h);
/* Thread-safe while hosts are being added. Returns "" if the place is spare. */
const char *collect_host_target(const struct collect_host *h);
enum collect_host_condition collect_host_condition(const struct collect_host *h, uint64_t now_ns);

#endif
