/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.h - programs that are loaded once, and put to their hooks and taken away in milliseconds,
 * as often as it is wanted: so that windows with and without them lie side by side.
 */
#ifndef SL_BENCH_TCP_HOOKS_H
#define SL_BENCH_TCP_HOOKS_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#define HOOKS_MAX 512

struct hooks {
	bool empty; /* programs that return at once come in place of those that are loaded */
	size_t n;
	struct hook {
		int fd, netns;
		int command;
		unsigned int size;
		union bpf_attr attr;
	} hook[HOOKS_MAX];
};

/*
 * What this process loads and attaches from now on belongs to it; NULL: to nobody. Iterators are
 * left alone: they make the timers. Not thread-safe.
 */
void hooks_of(struct hooks *h);

/* The same programs at the same hooks again; from them. 0, or a negative errno. */
int hooks_on(struct hooks *h);
int hooks_off(struct hooks *h);

#endif
