/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook.h - selects where the programs attach. A boundary is a point on the path of a segment, or an
 * event of a connection. It has candidate hooks, best first. A trial shows whether the kernel
 * permits a candidate: an empty program is loaded, attached to the target and removed. The kernel's
 * version and configuration are no substitute: only a trial reveals lockdown, a missing capability
 * or an inlined function. Afterwards, the real objects are loaded once, with the chosen programs
 * enabled.
 */
#ifndef SL_SOURCE_TCP_HOOK_H
#define SL_SOURCE_TCP_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tcp_hook_type {
	TCP_HOOK_NONE = 0,
	TCP_HOOK_TP,	     /* hook type "tp_btf": tracepoint with BTF types */
	TCP_HOOK_FENTRY,     /* hook type "fentry": fentry and fexit of a kernel function */
	TCP_HOOK_KPROBE,     /* hook type "kprobe": kprobe of a kernel function */
	TCP_HOOK_NETFILTER,  /* netfilter hook, Linux 6.4 and later */
	TCP_HOOK_CGROUP_SKB, /* cgroup_skb program at the root of the unified cgroup hierarchy */
	TCP_HOOK_ITER,	     /* iterator over existing kernel objects */
	TCP_HOOK_DERIVED,    /* no program: derived from other kernel data, so it always works */
};
/* returns a name such as "tp_btf" or "fentry" */
const char *tcp_hook_type_name(enum tcp_hook_type type);

#define TCP_HOOK_TARGETS 3

struct tcp_hook_candidate {
	enum tcp_hook_type type; /* TCP_HOOK_NONE ends the list */
	/* tracepoints, functions or netfilter hooks; all are needed */
	const char *target[TCP_HOOK_TARGETS];
	const char *lost; /* what is lost compared to the first candidate; NULL if nothing is */
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
	TCP_BOUNDARY_DROP,
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
	const char *name; /* short name of the boundary, such as "nic-in" */
	/* the two layers it separates, such as "driver to the network stack" */
	const char *between;
	const char *lost; /* data that is lost if no candidate works */
	struct tcp_hook_candidate candidate[TCP_HOOK_CANDIDATES + 1];
};
extern const struct tcp_hook_boundary tcp_hook_table[TCP_BOUNDARIES];

/* The result of the trials. */
struct tcp_hooks {
	int chosen[TCP_BOUNDARIES]; /* index of the chosen candidate; -1 if none works */
	/* 0: works; 1: not tried; otherwise -errno */
	int error[TCP_BOUNDARIES][TCP_HOOK_CANDIDATES];
	/* index of the target whose trial failed */
	int failed[TCP_BOUNDARIES][TCP_HOOK_CANDIDATES];
};

/* A set of boundaries: bit i stands for enum tcp_boundary i. */
#define TCP_HOOKS_OF(boundary) (1u << TCP_BOUNDARY_##boundary)
#define TCP_HOOKS_EVERY	       ((1u << TCP_BOUNDARIES) - 1)

/*
 * Tries the candidates of the given boundaries in order, and stops at the first that works unless
 * all is true. Returns 0, or -errno if trials are impossible: -EPERM (neither CAP_BPF nor
 * CAP_PERFMON), -ENOTSUP (no BTF). The trial of a function takes about 10 ms. Leaves nothing
 * attached. Not thread-safe.
 */
int tcp_hooks_probe(struct tcp_hooks *hooks, uint32_t boundaries, bool all);

/*
 * Prepares for trials of any kind: silences libbpf and loads the kernel's types, which hook.c owns.
 * Returns 0 or -errno, like tcp_hooks_probe().
 */
struct btf;
int tcp_hooks_begin(const struct btf **btf);

/* Parses the name of a hook type. Returns 0 or -EINVAL. */
int tcp_hook_type_of(const char *name, enum tcp_hook_type *type);
/*
 * Replaces chosen hooks of these types (bit i: enum tcp_hook_type i) by the next candidate that
 * works. Requires a probe with all set. Tests use this function to exercise the hooks of other
 * kernels.
 */
void tcp_hooks_avoid(struct tcp_hooks *hooks, uint32_t types);

/* Returns the chosen hook type of a boundary, or TCP_HOOK_NONE if no candidate works. */
enum tcp_hook_type tcp_hook_chosen(const struct tcp_hooks *hooks, enum tcp_boundary boundary);

/* Describes a negative error of a trial. Returns static storage. */
const char *tcp_hook_why(enum tcp_hook_type type, int error);

/* Writes one line of advice for an error of tcp_hooks_probe(), including missing capabilities. */
void tcp_hooks_refusal(int error, char *why, size_t bytes);

/* Calls tcp_hooks_probe() and then tcp_hooks_avoid(). Fills why[] on error. */
int tcp_hooks_choose(struct tcp_hooks *hooks, uint32_t boundaries, uint32_t avoid, char *why,
		     size_t bytes);

#endif
