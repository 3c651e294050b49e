/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - keeps statistics of TCP connections, by eBPF programs, in memory that readers map or READ
 * by RDMA. tcp_open() chooses hooks and loads the programs, and tcp_attach() starts counting.
 * tcp_close() or the exit of the process removes everything from the kernel: nothing is pinned.
 * Independent of collectors.
 *
 * A struct tcp must be used by one thread at a time. Any number of readers may map the memory.
 */
#ifndef SL_SOURCE_TCP_TCP_H
#define SL_SOURCE_TCP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "source/tcp/hook.h"
#include "source/tcp/region.h"

struct tcp;

/*
 * Selects the flows to record. All fields that are set must match; if none is set, all flows match.
 */
struct tcp_filter {
	struct base_strings ports;   /* local or remote ports: "80", "8000-8080" */
	struct base_strings cidrs;   /* remote addresses: "10.0.0.0/8", "2001:db8::/32" */
	struct base_strings cgroups; /* paths below the unified hierarchy, or ids */
	const char *netns; /* path or inode number of a network namespace; NULL means all */
	uint32_t pid;	   /* thread group id of the process; 0 means all processes */
	uint32_t sample;   /* 0 to 20: record one flow in 2^sample, the same flows at both ends */
};

struct tcp_opts {
	uint32_t flows;	      /* maximum number of concurrent connections; 0 means 16384 */
	uint64_t interval_ns; /* maximum age of published statistics; 0 means 10 ms */
	/* how long the final values of a closed flow are kept; 0 means 5 s */
	uint64_t quarantine_ns;
	bool calls;    /* count read and write calls, at the cost of one more event per call */
	bool existing; /* include connections established before counting started */
	/* number of cgroups with names, at most SL_FLOW_CGROUPS_MAX - 1; 0 means no names */
	uint32_t cgroups;
	struct tcp_filter filter;
	uint32_t avoid; /* bit i: avoid hooks of type enum tcp_hook_type i; for tests */
};

/*
 * Chooses hooks and loads the programs. Returns 0, or -errno with one line of advice in why[]:
 * -EPERM (names the missing capability), -ENOENT (no BTF), -EINVAL (invalid filter), -ENOTSUP
 * (built without eBPF, or an indispensable hook is missing), or -ENOMEM.
 */
int tcp_open(const struct tcp_opts *options, struct tcp **tcp, char *why, size_t bytes);

/*
 * Starts counting. With options.existing, adds existing connections. Returns 0, or -errno with one
 * line in why[].
 */
int tcp_attach(struct tcp *tcp, char *why, size_t bytes);

/*
 * Finds connections that the programs missed. The kernel skips a program if the same program is
 * interrupted on that CPU (bpf_prog.active, __bpf_trace_run()): 30 calls in 9 s at 20,000
 * connections per second on Linux 6.18. A missed connection is found at its next change of state,
 * or by this function, which runs the iterator if calls were skipped since the last time; the
 * connection is then marked as older. Call it every few seconds. missed (may be NULL) receives the
 * number of calls skipped since the programs were attached, including those for flow events.
 * Returns 0 or -errno.
 */
int tcp_catch_up(struct tcp *tcp, uint64_t *missed);

/*
 * Changes the filter at run time. Flows that no longer match are closed gradually. Returns 0, or
 * -errno with one line in why[].
 */
int tcp_filter(struct tcp *tcp, const struct tcp_filter *filter, char *why, size_t bytes);

/* Returns the flow table, of kind SL_REGION_FLOWS; see sidelight-region(5). Valid until close. */
const struct tcp_region *tcp_region(const struct tcp *tcp);
struct tcp_identity *tcp_identity(const struct tcp *tcp); /* returns NULL without options.cgroups */

/* Detaches and unloads the programs, and frees tcp. NULL is fine. */
void tcp_close(struct tcp *tcp);

#endif
