/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listeners.h - whose an accepted connection is. The kernel makes it while whoever happens to run
 * is interrupted, so its process is known only when it reads; until then it is that of who listens
 * there.
 */
#ifndef SL_REGION_LISTENERS_H
#define SL_REGION_LISTENERS_H

#include "region/flows.h"

struct region_listener {
	uint32_t netns, pid;
	uint16_t port;
	uint8_t address[16];
	char comm[17];
};

/* Starts as zeroes. One thread at a time. */
struct region_listeners {
	struct region_listener *v;
	size_t n, room;
	bool sorted;
};

/* Remembers a flow, if it is a listener whose process is known. -ENOMEM, or 0. */
int region_listeners_add(struct region_listeners *l, const struct region_flow *flow);
/*
 * Gives a flow without a process, which did not connect from here, that of its listener, and sets
 * by_listener. A server that forks has passed it on: then it is the process that began to listen.
 */
void region_listeners_name(struct region_listeners *l, struct region_flow *flow);
/* Those of before are forgotten; the memory is kept. */
void region_listeners_clear(struct region_listeners *l);
void region_listeners_free(struct region_listeners *l);

#endif
