/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the machine and its containers as a publisher: /proc, /sys, pressure and cgroups, with
 * the names, types and labels of node_exporter and cAdvisor. docs/host.md lists them. Needs no
 * privileges. One thread per struct host.
 */
#ifndef SL_SOURCE_HOST_HOST_H
#define SL_SOURCE_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct host_opts {
	const char *root;   /* what stands before /proc, /sys and /etc; NULL: nothing */
	const char *socket; /* the agent's, or NULL */
	uint64_t interval_ns;
	uint32_t cgroups_max; /* 0: 1024 */
	bool detached;
};

struct host_counts {
	uint64_t errors;	  /* files that exist and could not be read, or not as a whole */
	uint64_t refused;	  /* series that cannot be published */
	uint64_t left_out;	  /* cgroups beyond cgroups_max, once per look */
	uint64_t mounts_left_out; /* too many, each time that mounts changed */
};

struct host;
struct sl_publisher;

struct host *host_open(const struct host_opts *opts); /* NULL: errno */
void host_close(struct host *h);		      /* NULL is fine */

/* Reads what is due at a time of base_now_ns(). */
void host_round(struct host *h, uint64_t now_ns);
/* The same, but everything is due. */
void host_round_all(struct host *h, uint64_t now_ns);

struct host_counts host_counts(const struct host *h);

#endif
