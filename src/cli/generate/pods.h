/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pods.h - pods that make an exact number of updates through the public API: shared by the parent
 * (metrics.c) and its children (pods.c). The parent forks before it has threads, and publishes
 * nothing. A child reports its step in shared memory and by a byte in the pipe status; end of file
 * of two other pipes means "go" and "leave" to all children at once, so that they leave with the
 * parent. Counts stand in shared memory, so that the report is right even if a child dies.
 */
#ifndef SL_CLI_GENERATE_PODS_H
#define SL_CLI_GENERATE_PODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PODS_A_PROCESS_MAX 15 /* publishers per process */

enum cli_generate_kind { CLI_COUNTER, CLI_GAUGE, CLI_HISTOGRAM, CLI_KINDS };
extern const char *const cli_generate_family[CLI_KINDS]; /* names of the metrics */

struct cli_generate_settings {
	uint32_t pods, metrics, threads, pods_per_process;
	uint64_t updates, rate, seed, hold, wait;
	const char *socket, *kinds, *service, *kube_namespace;
	bool json;
	uint32_t of_kind[CLI_KINDS]; /* metrics of each kind; they add up to metrics */
};

enum cli_generate_step { CLI_ATTACHED = 'a', CLI_DONE = 'd', CLI_FAILED = 'f' };

/* Relaxed atomics. */
struct cli_generate_thread_total {
	uint64_t done[CLI_KINDS]; /* updates made */
	uint64_t sum;		  /* sum of the observed values */
	uint64_t cpu_ns;
};

struct cli_generate_process {
	pid_t pid;
	bool gone;
	char step;	 /* last step reported */
	char error[400]; /* written before step FAILED */
};

struct cli_generate_shared {
	bool *stop;
	struct cli_generate_process *process;	 /* [processes] */
	struct cli_generate_thread_total *total; /* [pods * threads] */
	void *memory;
	size_t bytes;
};

struct cli_generate_child {
	const struct cli_generate_settings *s;
	struct cli_generate_shared *sh;
	struct cli_generate_process *self;
	int status, go, leave; /* write, read, read */
};

/* Shared memory for all of them: 0 or -errno. */
int cli_generate_share(const struct cli_generate_settings *s, struct cli_generate_shared *sh);
uint32_t cli_generate_processes(const struct cli_generate_settings *s);
/* Runs in the forked process. */
_Noreturn void cli_generate_child(struct cli_generate_child *c, uint32_t index);

#endif
