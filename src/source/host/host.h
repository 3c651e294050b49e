/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - publishes metrics of the machine and its containers from /proc, /sys, pressure files and
 * cgroups, with the names, types and labels of node_exporter and cAdvisor. docs/host.md lists them.
 * Needs no privileges. A struct host must be used by one thread at a time.
 */
#ifndef SL_SOURCE_HOST_HOST_H
#define SL_SOURCE_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct host_opts {
	const char *root;   /* prefix of /proc, /sys and /etc; NULL means none */
	const char *socket; /* path of the agent's socket, or NULL */
	uint64_t interval_ns;
	uint32_t cgroups_max; /* maximum number of cgroups; 0 means 1024 */
	bool detached;
};

struct host_counts {
	uint64_t errors;  /* files that exist but could not be read completely */
	uint64_t refused; /* series that could not be published */
	/* cgroups beyond cgroups_max, counted each time the cgroups are listed */
	uint64_t left_out;
	/* mounts beyond the limit or not visible here, counted each time the mounts change */
	uint64_t mounts_left_out;
};

struct host;
struct sl_publisher;

struct host *host_open(const struct host_opts *opts); /* returns NULL with errno set on failure */
void host_close(struct host *h);		      /* NULL is fine */

/*
 * Reads everything that is due at now_ns, a time of base_now_ns(); or everything, if all is true.
 */
void host_round(struct host *h, uint64_t now_ns, bool all);

struct host_counts host_counts(const struct host *h);

#endif
