/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_AGENT_TCP_H
#define SL_AGENT_TCP_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct agent;
struct tcp_filter;

struct agent_tcp_use {
	uint64_t open, closed, identities;
};

/* Starts the loader. Returns 0 or -errno. */
int agent_tcp_start(struct agent *a, char *error, size_t bytes);
/* Waits until the loader has loaded its programs, and admits its tables. Returns 0 or -errno. */
int agent_tcp_init(struct agent *a, char *error, size_t bytes);
void agent_tcp_fini(struct agent *a);
void agent_tcp_event(struct agent *a);
void agent_tcp_use(struct agent *a, struct agent_tcp_use *use); /* also updates a->n */
json_t *agent_tcp_json(struct agent *a);			/* reply of GET /tcp */
/* Returns 0, or -errno with one line in why. */
int agent_tcp_filter(struct agent *a, const struct tcp_filter *filter, char *why, size_t bytes);

#endif
