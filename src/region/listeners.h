/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listeners.h - whose an accepted connection is. The kernel makes it while whoever happens to run is interrupted, so its
 * process is known only when it reads; until then it is that of who listens there.
 */
#ifndef SL_REGION_LISTENERS_H
#define SL_REGION_LISTENERS_H

#include "region/flows.h"

struct sl_listener {
	uint32_t netns, pid;
	uint16_t port;
	uint8_t address[16];
	char comm[17];
};

/* Starts as zeroes. One thread at a time. */
struct sl_listeners {
	struct sl_listener *v;
	size_t n, room;
	bool sorted;
};

/* Remembers a flow, if it is a listener whose process is known. -ENOMEM, or 0. */
int sl_listeners_add(struct sl_listeners *l, const struct sl_flow *flow);
/*
 * Gives a flow without a process, which did not connect from here, that of its listener, and sets by_listener.
 * A server that forks has passed it on: then it is the process that began to listen.
 */
void sl_listeners_name(struct sl_listeners *l, struct sl_flow *flow);
/* Those of before are forgotten; the memory is kept. */
void sl_listeners_clear(struct sl_listeners *l);
void sl_listeners_free(struct sl_listeners *l);

#endif
