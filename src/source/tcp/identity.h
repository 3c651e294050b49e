/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - private to tcp.c: writes who a cgroup is into the region of connections. */
#ifndef SL_SOURCE_TCP_IDENTITY_H
#define SL_SOURCE_TCP_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flow_bpf;
struct identity;

/* region: the mapping of the loaded object's table. 0 or -errno. */
int identity_open(struct flow_bpf *flow, void *region, size_t bytes, struct identity **out);
int identity_fd(const struct identity *i);
uint64_t identity_serve(struct identity *i, uint64_t now_ns); /* see sl_tcp_cgroups_serve() */
bool identity_want(struct identity *i, uint64_t id, uint64_t now_ns); /* see sl_tcp_cgroups_want() */
void identity_close(struct identity *i);		      /* NULL is fine */

#endif
