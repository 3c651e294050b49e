/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generate_pods.h - pods that make an exact number of updates, through the public API only: what
 * the parent (generate_metrics.c) and its children (generate_pods.c) share.
 *
 * The parent forks the processes before any thread exists and never publishes itself. A child
 * tells its steps in shared memory and by a byte in one pipe (status); the ends of file of two
 * others, which all children see at once, say "go" and "leave". So children leave when the parent
 * does, however it ends. What they counted stands in shared memory too, so that the report is
 * right whatever becomes of a child.
 */
#ifndef SL_CLI_GENERATE_PODS_H
#define SL_CLI_GENERATE_PODS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PODS_A_PROCESS_MAX 15 /* publishers a process may have */

enum kind { COUNTER, GAUGE, HISTOGRAM, KINDS };
extern const char *const generate_family[KINDS]; /* names of the metrics */

struct settings {
	uint32_t pods, metrics, threads, pods_per_process;
	uint64_t updates, rate, seed, hold, wait;
	const char *socket, *kinds, *service, *kube_namespace;
	bool json;
	uint32_t of_kind[KINDS]; /* metrics of each kind; they add up to metrics */
};

enum step { ATTACHED = 'a', DONE = 'd', FAILED = 'f' };

struct thread_total {
	_Atomic uint64_t done[KINDS]; /* updates made */
	_Atomic uint64_t sum;	      /* of what the histograms observed */
	_Atomic uint64_t cpu_ns;
};

struct process {
	pid_t pid;
	bool gone;
	_Atomic char step; /* the last one told */
	char error[400];   /* written before FAILED */
};

struct shared {
	atomic_bool *stop;
	struct process *process;    /* [processes] */
	struct thread_total *total; /* [pods * threads] */
	void *memory;
	size_t bytes;
};

struct child {
	const struct settings *s;
	struct shared *sh;
	struct process *self;
	int status, go, leave; /* write, read, read */
};

/* Shared memory for all of them: 0 or -errno. */
int generate_share(const struct settings *s, struct shared *sh);
uint32_t generate_processes(const struct settings *s);
/* What a forked process does. */
_Noreturn void generate_child(struct child *c, uint32_t index);

#endif
