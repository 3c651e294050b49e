/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listeners.h - finds the process of an accepted connection. The kernel creates the connection in
 * the context of an unrelated process, so the owner is unknown until it reads; before that, the
 * listener's process is shown.
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

/* Initialise with zeros. Must be used by one thread at a time. */
struct region_listeners {
	struct region_listener *v;
	size_t n, room;
	bool sorted;
};

/* Stores a flow if it is a listener with a known process. Returns 0 or -ENOMEM. */
int region_listeners_add(struct region_listeners *l, const struct region_flow *flow);
/*
 * If the process of an accepted flow is unknown, sets it to the listener's process, and sets
 * by_listener. For a forking server this is the process that called listen().
 */
void region_listeners_name(struct region_listeners *l, struct region_flow *flow);
/* Removes all listeners but keeps the memory. */
void region_listeners_clear(struct region_listeners *l);
void region_listeners_free(struct region_listeners *l);

#endif
