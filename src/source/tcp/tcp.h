/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - eBPF programs that keep statistics of TCP connections in memory which readers map, or
 * READ by RDMA. Opening chooses the hooks and loads; attaching begins; closing, or the end of the
 * process however it comes, takes everything out of the kernel: nothing is pinned.
 *
 * The flow programs (bpf/flow.bpf.c) are the base: they decide which sockets are looked at, and
 * further objects (layers, CPU time) share their maps. Knows nothing of collectors.
 *
 * Not thread-safe: one thread uses one struct tcp, but readers of the mapping.
 */
#ifndef SL_SOURCE_TCP_TCP_H
#define SL_SOURCE_TCP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "source/tcp/hook.h"

struct tcp;

/* Which flows. Zero: all. All of what is set has to agree. */
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
	uint64_t interval_ns;	/* how old published statistics may be; 0: 10 ms */
	uint64_t quarantine_ns; /* how long the final values of a closed flow stay; 0: 5 s */
	bool calls;		/* count read and write calls, too: one event more for each */
	bool existing;		/* also connections made before the start */
	uint32_t cgroups; /* room to say who so many cgroups are, at most SL_FLOW_CGROUPS_MAX - 1;
			   * 0: nobody says so */
	struct tcp_filter filter;
	uint32_t avoid; /* bit i: don't use hooks of enum tcp_hook_type i; for tests of what comes
			   next */
};

/*
 * Chooses hooks, loads. 0, or -errno with one line of what to do about it in why[]: -EPERM (names
 * the capability that is missing), -ENOENT (no BTF), -EINVAL (a filter that is none), -ENOTSUP
 * (built without eBPF, or no hook for what is indispensable), -ENOMEM.
 */
int tcp_open(const struct tcp_opts *options, struct tcp **tcp, char *why, size_t bytes);

/* Begins to count; with options.existing also takes in what is there. 0 or -errno, why as above. */
int tcp_attach(struct tcp *tcp, char *why, size_t bytes);

/*
 * The kernel leaves out a program whose hook is passed while the same program runs on that CPU, in
 * a process that was interrupted (bpf_prog.active, __bpf_trace_run()): 30 calls in 9 s of 20,000
 * connections a second, tried on 6.18. A connection that was overlooked so is found by the next
 * change of its state, or here, by the iterator, if any call was left out since the last time; it
 * is marked as older. Call it once in a while. missed: calls left out since the start (events of
 * flows among them); NULL is fine. 0 or -errno.
 */
int tcp_catch_up(struct tcp *tcp, uint64_t *missed);

/* Changes the filter at run time. Flows that are no longer wanted are closed by and by. 0 or
 * -errno. */
int tcp_filter(struct tcp *tcp, const struct tcp_filter *filter, char *why, size_t bytes);

/*
 * The flow table: a region of kind SL_REGION_FLOWS, see sidelight-region(5). The mapping is
 * readable and ends with the struct; the descriptor is that of the eBPF map, to be mapped by
 * others.
 */
const void *tcp_region(const struct tcp *tcp, size_t *bytes);
int tcp_region_fd(const struct tcp *tcp);

/*
 * With options.cgroups: a descriptor that is readable when a cgroup turned up, or -1; and what to
 * do then, and at the time that was returned before (CLOCK_MONOTONIC; UINT64_MAX: never): the
 * section of the region is brought up to date. Nothing is done but for new cgroups: once each at
 * once, and twice later on, as runtimes write a container's name down after they have started it.
 */
int tcp_cgroups_fd(const struct tcp *tcp);
uint64_t tcp_cgroups_serve(struct tcp *tcp, uint64_t now_ns);
/* A cgroup that is to have its names there, too, though it has no connection. True: it was not
 * known; serve soon. */
bool tcp_cgroups_want(struct tcp *tcp, uint64_t cgroup, uint64_t now_ns);

/* Detaches, unloads, frees. NULL is fine. */
void tcp_close(struct tcp *tcp);

#endif
