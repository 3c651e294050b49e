/* SPDX-License-Identifier: Apache-2.0 */
/* spawner.h - messages between child.c and the spawners of a helper. */
#ifndef SL_BASE_SPAWNER_H
#define SL_BASE_SPAWNER_H

#include "base/child.h"

enum base_spawner_what {
	BASE_SPAWNER_START, /* start the helper; its message and descriptors follow */
	BASE_SPAWNER_FORK,  /* fork another spawner */
	BASE_SPAWNER_KILL,  /* kill the process .pid */
};

struct base_spawner_ask {
	uint32_t what;
	pid_t pid;
};

/* Sent with the parent's end of the new process's socket, if there is a new process. */
struct base_spawner_answer {
	int error; /* 0 or -errno */
	pid_t pid;
};

/* Forks the first spawner. Returns 0 or -errno. */
int base_spawner_fork(const struct base_child_opts *o, pid_t *pid, int *sock);

#endif
