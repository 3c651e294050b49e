/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook.h - where the programs attach. A boundary is a point on a segment's way, or an event of a
 * connection; it has candidates, best first. A trial shows which of them this kernel permits: an
 * empty program is loaded and attached at the target, then removed. The kernel's version and
 * configuration prove nothing: only a trial shows lockdown, a missing capability or an inlined
 * function. The real objects then load at once, with the chosen programs enabled.
 */
#ifndef SL_SOURCE_TCP_HOOK_H
#define SL_SOURCE_TCP_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tcp_hook_type {
	TCP_HOOK_NONE = 0,
	TCP_HOOK_TP,	     /* tracepoint with BTF types, "tp_btf" */
	TCP_HOOK_FENTRY,     /* fentry and fexit of a kernel function */
	TCP_HOOK_KPROBE,     /* kprobe of a kernel function */
	TCP_HOOK_NETFILTER,  /* a netfilter hook, 6.4 and later */
	TCP_HOOK_CGROUP_SKB, /* cgroup_skb at the root of the unified cgroup hierarchy */
	TCP_HOOK_ITER,	     /* iterator over existing objects */
	TCP_HOOK_DERIVED,    /* no program: derived from kernel data. Always works */
};
const char *tcp_hook_type_name(enum tcp_hook_type type); /* "tp_btf", "fentry", ... */

#define TCP_HOOK_TARGETS 3

struct tcp_hook_candidate {
	enum tcp_hook_type type;	      /* TCP_HOOK_NONE ends the list */
	const char *target[TCP_HOOK_TARGETS]; /* tracepoint, function, netfilter hook; all needed */
	const char *lost; /* what is lost compared to the first candidate; NULL: nothing */
};

/* In the order of tcp_hook_table. */
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
	const char *lost;    /* what is lost without any of them */
	struct tcp_hook_candidate candidate[TCP_HOOK_CANDIDATES + 1];
};
extern const struct tcp_hook_boundary tcp_hook_table[TCP_BOUNDARIES];

/* The result of the trials. */
struct tcp_hooks {
	int chosen[TCP_BOUNDARIES];			 /* index of the candidate; -1: none */
	int error[TCP_BOUNDARIES][TCP_HOOK_CANDIDATES];	 /* 0: works; -errno; 1: not tried */
	int failed[TCP_BOUNDARIES][TCP_HOOK_CANDIDATES]; /* index of the target that failed */
};

/* A set of boundaries: bit i stands for enum tcp_boundary i. */
#define TCP_HOOKS_OF(boundary) (1u << TCP_BOUNDARY_##boundary)
#define TCP_HOOKS_EVERY	       ((1u << TCP_BOUNDARIES) - 1)

/*
 * Tries the candidates of these boundaries in order; all: also those after the first that works. 0,
 * or -errno if no trial is possible: -EPERM (no CAP_BPF and CAP_PERFMON), -ENOTSUP (no BTF). A
 * trial of a function takes some 10 ms. Leaves nothing attached. Not thread-safe.
 */
int tcp_hooks_probe(struct tcp_hooks *hooks, uint32_t boundaries, bool all);

/*
 * What precedes trials of any kind: libbpf's log, and the kernel's types, which belong to this
 * file. 0 or -errno, as above.
 */
struct btf;
int tcp_hooks_begin(const struct btf **btf);

/* 0 or -EINVAL. */
int tcp_hook_type_of(const char *name, enum tcp_hook_type *type);
/*
 * Replaces hooks of these types (bit i: enum tcp_hook_type i) by the next that worked; probe with
 * all. Tests use it to cover other kernels' hooks.
 */
void tcp_hooks_avoid(struct tcp_hooks *hooks, uint32_t types);

/* The chosen type of a boundary; TCP_HOOK_NONE: none works. */
enum tcp_hook_type tcp_hook_chosen(const struct tcp_hooks *hooks, enum tcp_boundary boundary);

/* A trial's error, below 0, in words. Static storage. */
const char *tcp_hook_why(enum tcp_hook_type type, int error);

/* Writes one line of advice on an error of tcp_hooks_probe(), with missing capabilities. */
void tcp_hooks_refusal(int error, char *why, size_t bytes);

/* tcp_hooks_probe(), then tcp_hooks_avoid(); fills why[] on an error. */
int tcp_hooks_choose(struct tcp_hooks *hooks, uint32_t boundaries, uint32_t avoid, char *why,
		     size_t bytes);

#endif
