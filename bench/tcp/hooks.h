/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.h - programs that are loaded once, and attached and detached within milliseconds, so that
 * windows with and without them can alternate.
 */
#ifndef SL_BENCH_TCP_HOOKS_H
#define SL_BENCH_TCP_HOOKS_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#define HOOKS_MAX 512

struct hooks {
	bool empty; /* load programs that return immediately instead */
	size_t n;
	struct hook {
		int fd, netns;
		int command;
		unsigned int size;
		union bpf_attr attr;
	} hook[HOOKS_MAX];
};

/*
 * Programs that this process loads and attaches from now on belong to h; NULL: to none. Iterators,
 * which set up the timers, stay attached. Not thread-safe.
 */
void hooks_of(struct hooks *h);

/* Attach and detach the programs of h. Return 0 or a negative errno. */
int hooks_on(struct hooks *h);
int hooks_off(struct hooks *h);

#endif
