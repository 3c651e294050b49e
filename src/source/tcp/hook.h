/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook.h - where the programs attach. A boundary is a place on the way of a segment, or an event of a
 * connection; for each there are candidates, best first. Which of them this kernel allows is found
 * by trial: an empty program of the type is loaded and attached at the target, and taken away
 * again. What a kernel's version or configuration says is no proof: lockdown, a missing capability or
 * an inlined function show in the trial only. So the real objects load at once, with the programs
 * switched on that were chosen.
 */
#ifndef SL_SOURCE_TCP_HOOK_H
#define SL_SOURCE_TCP_HOOK_H

#include <stdbool.h>
#include <stdint.h>

enum sl_hook_type {
	SL_HOOK_NONE = 0,
	SL_HOOK_TP,	   /* tracepoint with types of BTF, "tp_btf" */
	SL_HOOK_FENTRY,	   /* of a kernel function: fentry; fexit comes with it */
	SL_HOOK_KPROBE,	   /* kprobe of a kernel function */
	SL_HOOK_NETFILTER, /* a netfilter hook, 6.4 and later */
	SL_HOOK_SOCK_OPS,  /* sock_ops at the root of the unified cgroup hierarchy */
	SL_HOOK_CGROUP_SKB, /* cgroup_skb at the same place */
	SL_HOOK_ITER,	   /* iterator, for what was there before */
	SL_HOOK_DERIVED,   /* no program: worked out of what the kernel keeps. Always works */
};
const char *sl_hook_type_name(enum sl_hook_type type); /* "tp_btf", "fentry", ... */

#define SL_HOOK_TARGETS 3

struct sl_hook_candidate {
	enum sl_hook_type type; /* SL_HOOK_NONE ends the list */
	const char *target[SL_HOOK_TARGETS]; /* tracepoint, function, netfilter hook: all needed */
	const char *lost;       /* what is lost with this one in place of the first; NULL: nothing */
};

/* The order of the table; see hook.c for what each is. */
enum sl_boundary {
	SL_BOUNDARY_NIC_IN,
	SL_BOUNDARY_MAC_IP,
	SL_BOUNDARY_IP_TCP,
	SL_BOUNDARY_TCP_APP,
	SL_BOUNDARY_APP_TCP,
	SL_BOUNDARY_TCP_IP,
	SL_BOUNDARY_IP_LINK,
	SL_BOUNDARY_LINK_NIC,
	SL_BOUNDARY_STATE,
	SL_BOUNDARY_CLOSE,
	SL_BOUNDARY_SEGMENT,
	SL_BOUNDARY_CONGESTION,
	SL_BOUNDARY_RETRANSMIT,
	SL_BOUNDARY_RTT,
	SL_BOUNDARY_CALLS,
	SL_BOUNDARY_RESET_IN,
	SL_BOUNDARY_RESET_OUT,
	SL_BOUNDARY_EXISTING,
	SL_BOUNDARY_SCHED,
	SL_BOUNDARY_TASKS,
	SL_BOUNDARY_TICK,
	SL_BOUNDARY_RENAME,
	SL_BOUNDARY_TASK_FREE,
	SL_BOUNDARY_CGROUP_GONE,
	SL_BOUNDARIES
};

#define SL_HOOK_CANDIDATES 4

struct sl_hook_boundary {
	const char *name;    /* "nic-in" */
	const char *between; /* "driver to the network stack" */
	const char *lost;    /* what is lost if none works */
	struct sl_hook_candidate candidate[SL_HOOK_CANDIDATES + 1];
};
extern const struct sl_hook_boundary sl_hook_table[SL_BOUNDARIES];

/* What the trials said. */
struct sl_hooks {
	int chosen[SL_BOUNDARIES];			 /* index of the candidate; -1: none */
	int error[SL_BOUNDARIES][SL_HOOK_CANDIDATES];	 /* 0: works; -errno; 1: not tried */
	int failed[SL_BOUNDARIES][SL_HOOK_CANDIDATES];	 /* index of the target that failed */
};

/* A set of boundaries: bit i stands for enum sl_boundary i. */
#define SL_HOOKS_OF(boundary) (1u << SL_BOUNDARY_##boundary)
#define SL_HOOKS_EVERY	      ((1u << SL_BOUNDARIES) - 1)

/*
 * Tries the candidates of these boundaries in order, of the others none; all: also those behind the one that works, for
 * a full account. 0, or -errno if nothing can be tried at all: -EPERM (no CAP_BPF and CAP_PERFMON),
 * -ENOENT (no BTF). A trial of a function takes some 10 ms. Leaves nothing attached. Not thread-safe beside itself.
 */
int sl_hooks_probe(struct sl_hooks *hooks, uint32_t boundaries, bool all);

/* The type of that name; 0 or -EINVAL. */
int sl_hook_type_of(const char *name, enum sl_hook_type *type);
/*
 * The next best in place of hooks of these types (bit i: enum sl_hook_type i), of those that were tried:
 * probe with all. Shows on one kernel what is done on another.
 */
void sl_hooks_avoid(struct sl_hooks *hooks, uint32_t types);

/* The type that was chosen for a boundary; SL_HOOK_NONE if none works. */
enum sl_hook_type sl_hook_chosen(const struct sl_hooks *hooks, enum sl_boundary boundary);

/* "operation not permitted: ..." for an error of a trial of this type, in words. Static storage. */
const char *sl_hook_why(enum sl_hook_type type, int error);

/*
 * One line of what to do about an error of sl_hooks_probe(): for -EPERM it names the capabilities that
 * this process lacks.
 */
void sl_hooks_refusal(int error, char *why, unsigned long bytes);

#endif
