/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - writes the cgroup names into the region of connections. */
#ifndef SL_SOURCE_TCP_IDENTITY_H
#define SL_SOURCE_TCP_IDENTITY_H

#include "source/tcp/region.h"

#include <stdbool.h>

struct flow_bpf;
struct tcp_identity;

/* Used by tcp.c. Returns 0 or -errno. */
int tcp_identity_open(struct flow_bpf *flow, const struct tcp_region *region,
		      struct tcp_identity **out);
void tcp_identity_close(struct tcp_identity *i); /* NULL is fine */

/*
 * The descriptor becomes readable when a new cgroup appears. tcp_identity_serve() updates the names
 * in the region; call it then, and again at the time it returns (CLOCK_MONOTONIC; UINT64_MAX means
 * never). A cgroup is looked up at once and twice later, because runtimes write names after a
 * container has started.
 */
int tcp_identity_fd(const struct tcp_identity *i);
uint64_t tcp_identity_serve(struct tcp_identity *i, uint64_t now_ns);
/*
 * Adds a cgroup without connections. Returns true if it was unknown; tcp_identity_serve() should
 * then be called soon.
 */
bool tcp_identity_want(struct tcp_identity *i, uint64_t id, uint64_t now_ns);

#endif
