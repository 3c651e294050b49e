/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listeners.h - the process of an accepted connection. The kernel creates the connection in the
 * context of an unrelated process, so its own is known only once it reads; until then the
 * listener's is shown.
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

/* Zero-initialised. One thread at a time. */
struct region_listeners {
	struct region_listener *v;
	size_t n, room;
	bool sorted;
};

/* Remembers a flow if it is a listener with a known process. 0 or -ENOMEM. */
int region_listeners_add(struct region_listeners *l, const struct region_flow *flow);
/*
 * Gives an accepted flow without a process its listener's, and sets by_listener. For a server that
 * forks this is the process that began to listen.
 */
void region_listeners_name(struct region_listeners *l, struct region_flow *flow);
/* Forgets all listeners; keeps the memory. */
void region_listeners_clear(struct region_listeners *l);
void region_listeners_free(struct region_listeners *l);

#endif
