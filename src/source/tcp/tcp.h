/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - eBPF programs that keep statistics of TCP connections in memory that readers map, or READ
 * by RDMA. Opening chooses hooks and loads; attaching starts counting; closing, or the end of the
 * process, removes everything from the kernel: nothing is pinned. Knows no collectors.
 *
 * One thread per struct tcp; any number of readers of the mapping.
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

/* Which flows to record. All fields that are set must match; zero: all flows. */
struct tcp_filter {
	struct base_strings ports;   /* "80", "8000-8080": local or remote */
	struct base_strings cidrs;   /* "10.0.0.0/8", "2001:db8::/32": the remote address */
	struct base_strings cgroups; /* paths below the unified hierarchy, or ids */
	const char *netns;	     /* path of a namespace, or its inode number; NULL: all */
	uint32_t pid;		     /* thread group id; 0: all */
	uint32_t sample;	     /* one flow in 2^sample, the same at both ends; 0 to 20 */
};

struct tcp_opts {
	uint32_t flows;		/* connections at a time; 0: 16384 */
	uint64_t interval_ns;	/* greatest age of published statistics; 0: 10 ms */
	uint64_t quarantine_ns; /* how long a closed flow's final values stay; 0: 5 s */
	bool calls;		/* count read and write calls: one more event each */
	bool existing;		/* include connections made before the start */
	uint32_t cgroups; /* cgroups with names, at most SL_FLOW_CGROUPS_MAX - 1; 0: no names */
	struct tcp_filter filter;
	uint32_t avoid; /* bit i: avoid hooks of enum tcp_hook_type i; for tests */
};

/*
 * Chooses hooks, loads. 0, or -errno with one line of advice in why[]: -EPERM (names the missing
 * capability), -ENOENT (no BTF), -EINVAL (invalid filter), -ENOTSUP (built without eBPF, or an
 * indispensable hook is missing), -ENOMEM.
 */
int tcp_open(const struct tcp_opts *options, struct tcp **tcp, char *why, size_t bytes);

/* Starts counting; options.existing: also existing connections. 0 or -errno, why as above. */
int tcp_attach(struct tcp *tcp, char *why, size_t bytes);

/*
 * Finds connections that the programs missed. The kernel skips a program while the same program is
 * interrupted on that CPU (bpf_prog.active, __bpf_trace_run()): 30 calls in 9 s at 20,000
 * connections per second on 6.18. Such a connection is found at its next change of state, or here,
 * by the iterator, if calls were skipped since the last time; it is marked as older. Call it every
 * few seconds. missed (may be NULL): skipped calls since the start, including those for flow
 * events. 0 or -errno.
 */
int tcp_catch_up(struct tcp *tcp, uint64_t *missed);

/* Changes the filter at run time. Flows that no longer match are closed gradually. 0 or -errno. */
int tcp_filter(struct tcp *tcp, const struct tcp_filter *filter, char *why, size_t bytes);

/* The flow table, of kind SL_REGION_FLOWS; until the close. sidelight-region(5). */
const struct tcp_region *tcp_region(const struct tcp *tcp);
struct tcp_identity *tcp_identity(const struct tcp *tcp); /* NULL without options.cgroups */

/* Detaches, unloads, frees. NULL is fine. */
void tcp_close(struct tcp *tcp);

#endif
