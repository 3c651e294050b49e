/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.h - programs that are loaded once, and attached to their hooks and detached within
 * milliseconds, so that windows with and without them lie side by side.
 */
#ifndef SL_BENCH_TCP_HOOKS_H
#define SL_BENCH_TCP_HOOKS_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#define HOOKS_MAX 512

struct hooks {
	bool empty; /* load programs that return at once instead */
	size_t n;
	struct hook {
		int fd, netns;
		int command;
		unsigned int size;
		union bpf_attr attr;
	} hook[HOOKS_MAX];
};

/*
 * What this process loads and attaches from now on belongs to h; NULL: to no one. Iterators, which
 * set up the timers, are left alone. Not thread-safe.
 */
void hooks_of(struct hooks *h);

/* Attach and detach the programs of h. 0, or a negative errno. */
int hooks_on(struct hooks *h);
int hooks_off(struct hooks *h);

#endif
