/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pods.h - pods that make an exact number of updates through the public API. The interface between
 * the parent (metrics.c) and its children (pods.c). The parent forks before it starts threads, and
 * publishes nothing. A child reports its step in shared memory and wakes the parent by a byte in
 * the status pipe. End of file on another pipe tells all children to go. The parent kills them at
 * the end, and the kernel kills them if the parent dies. Counts are in shared memory, so that the
 * report is correct even if a child dies.
 */
#ifndef SL_CLI_GENERATE_PODS_H
#define SL_CLI_GENERATE_PODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PODS_A_PROCESS_MAX 15 /* maximum number of publishers per process */

enum cli_generate_kind { CLI_COUNTER, CLI_GAUGE, CLI_HISTOGRAM, CLI_KINDS };
extern const char *const cli_generate_family[CLI_KINDS]; /* names of the metric families */

struct cli_generate_settings {
	uint32_t pods, metrics, threads, pods_per_process;
	uint64_t updates, rate, seed, hold, wait;
	const char *socket, *kinds, *service, *kube_namespace;
	bool json;
	uint32_t of_kind[CLI_KINDS]; /* number of metrics of each kind; their sum is metrics */
};

enum cli_generate_step { CLI_ATTACHED = 'a', CLI_DONE = 'd', CLI_FAILED = 'f' };

/* Counts of one thread; relaxed atomics. */
struct cli_generate_thread_total {
	uint64_t done[CLI_KINDS]; /* number of updates */
	uint64_t sum;		  /* sum of the observed values */
	uint64_t cpu_ns;
};

struct cli_generate_process {
	pid_t pid;
	bool gone;
	char step;	 /* last reported step */
	char error[400]; /* error message; written before step becomes CLI_FAILED */
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
	int status, go; /* ends of pipes: status is written, go is read */
};

/* Allocates the shared memory of all processes. Returns 0 or a negative errno. */
int cli_generate_share(const struct cli_generate_settings *s, struct cli_generate_shared *sh);
uint32_t cli_generate_processes(const struct cli_generate_settings *s);
/* The main function of a forked child. */
_Noreturn void cli_generate_child(struct cli_generate_child *c, uint32_t index);

#endif
