/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook.h - where the programs attach. A boundary is a place on the way of a segment, or an event of
 * a connection; for each there are candidates, best first. Which of them this kernel allows is
 * found by trial: an empty program of the type is loaded and attached at the target, and taken away
 * again. What a kernel's version or configuration says is no proof: lockdown, a missing capability
 * or an inlined function show in the trial only. So the real objects load at once, with the
 * programs switched on that were chosen.
 */
#ifndef SL_SOURCE_TCP_HOOK_H
#define SL_SOURCE_TCP_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tcp_hook_type {
	TCP_HOOK_NONE = 0,
	TCP_HOOK_TP,	     /* tracepoint with types of BTF, "tp_btf" */
	TCP_HOOK_FENTRY,     /* of a kernel function: fentry; fexit comes with it */
	TCP_HOOK_KPROBE,     /* kprobe of a kernel function */
	TCP_HOOK_NETFILTER,  /* a netfilter hook, 6.4 and later */
	TCP_HOOK_SOCK_OPS,   /* sock_ops at the root of the unified cgroup hierarchy */
	TCP_HOOK_CGROUP_SKB, /* cgroup_skb at the same place */
	TCP_HOOK_ITER,	     /* iterator, for what was there before */
	TCP_HOOK_DERIVED,    /* no program: worked out of what the kernel keeps. Always works */
};
const char *tcp_hook_type_name(enum tcp_hook_type type); /* "tp_btf", "fentry", ... */

#define TCP_HOOK_TARGETS 3

struct tcp_hook_candidate {
	enum tcp_hook_type type;	      /* TCP_HOOK_NONE ends the list */
	const char *target[TCP_HOOK_TARGETS]; /* tracepoint, function, netfilter hook: all needed */
	const char *lost; /* what is lost with this one in place of the first; NULL: nothing */
};

/* The order of the table; see hook.c for what each is. */
enum tcp_boundary {
	TCP_BOUNDARY_NIC_IN,
	TCP_BOUNDARY_MAC_IP,
	TCP_BOUNDARY_IP_TCP,
	TCP_BOUNDARY_TCP_APP,
	TCP_BOUNDARY_APP_TCP,
	TCP_BOUNDARY_TCP_IP,
	TCP_BOUNDARY_IP_LINK,
	TCP_BOUNDARY_LINK_NIC,
	TCP_BOUNDARY_STATE,
	TCP_BOUNDARY_CLOSE,
	TCP_BOUNDARY_SEGMENT,
	TCP_BOUNDARY_CONGESTION,
	TCP_BOUNDARY_RETRANSMIT,
	TCP_BOUNDARY_RTT,
	TCP_BOUNDARY_CALLS,
	TCP_BOUNDARY_RESET_IN,
	TCP_BOUNDARY_RESET_OUT,
	TCP_BOUNDARY_EXISTING,
	TCP_BOUNDARY_SCHED,
	TCP_BOUNDARY_TASKS,
	TCP_BOUNDARY_TICK,
	TCP_BOUNDARY_RENAME,
	TCP_BOUNDARY_TASK_FREE,
	TCP_BOUNDARY_CGROUP_GONE,
	TCP_BOUNDARIES
};

#define TCP_HOOK_CANDIDATES 4

struct tcp_hook_boundary {
	const char *name;    /* "nic-in" */
	const char *between; /* "driver to the network stack" */
	const char *lost;    /* what is lost if none works */
	struct tcp_hook_candidate candidate[TCP_HOOK_CANDIDATES + 1];
};
extern const struct tcp_hook_boundary tcp_hook_table[TCP_BOUNDARIES];

/* What the trials said. */
struct tcp_hooks {
	int chosen[TCP_BOUNDARIES];			 /* index of the candidate; -1: none */
	int error[TCP_BOUNDARIES][TCP_HOOK_CANDIDATES];	 /* 0: works; -errno; 1: not tried */
	int failed[TCP_BOUNDARIES][TCP_HOOK_CANDIDATES]; /* index of the target that failed */
};

/* A set of boundaries: bit i stands for enum tcp_boundary i. */
#define TCP_HOOKS_OF(boundary) (1u << TCP_BOUNDARY_##boundary)
#define TCP_HOOKS_EVERY	       ((1u << TCP_BOUNDARIES) - 1)

/*
 * Tries the candidates of these boundaries in order, of the others none; all: also those behind the
 * one that works, for a full account. 0, or -errno if nothing can be tried at all: -EPERM (no
 * CAP_BPF and CAP_PERFMON), -ENOENT (no BTF). A trial of a function takes some 10 ms. Leaves
 * nothing attached. Not thread-safe beside itself.
 */
int tcp_hooks_probe(struct tcp_hooks *hooks, uint32_t boundaries, bool all);

/* The type of that name; 0 or -EINVAL. */
int tcp_hook_type_of(const char *name, enum tcp_hook_type *type);
/*
 * The next best in place of hooks of these types (bit i: enum tcp_hook_type i), of those that were
 * tried: probe with all. Shows on one kernel what is done on another.
 */
void tcp_hooks_avoid(struct tcp_hooks *hooks, uint32_t types);

/* The type that was chosen for a boundary; TCP_HOOK_NONE if none works. */
enum tcp_hook_type tcp_hook_chosen(const struct tcp_hooks *hooks, enum tcp_boundary boundary);

/* "operation not permitted: ..." for an error of a trial of this type, in words. Static storage. */
const char *tcp_hook_why(enum tcp_hook_type type, int error);

/*
 * One line of what to do about an error of tcp_hooks_probe(): for -EPERM it names the capabilities
 * that this process lacks.
 */
void tcp_hooks_refusal(int error, char *why, size_t bytes);

/* tcp_hooks_probe(), then tcp_hooks_avoid(); on an error, why[] is filled in. */
int tcp_hooks_choose(struct tcp_hooks *hooks, uint32_t boundaries, uint32_t avoid, char *why,
		     size_t bytes);

#endif
