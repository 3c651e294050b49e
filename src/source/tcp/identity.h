/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - for tcp.c: writes names of cgroups into the region of connections. */
#ifndef SL_SOURCE_TCP_IDENTITY_H
#define SL_SOURCE_TCP_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flow_bpf;
struct tcp_identity;

/* region: the mapping of the table. 0 or -errno. */
int tcp_identity_open(struct flow_bpf *flow, void *region, size_t bytes, struct tcp_identity **out);
int tcp_identity_fd(const struct tcp_identity *i);
uint64_t tcp_identity_serve(struct tcp_identity *i, uint64_t now_ns); /* see tcp_cgroups_serve() */
bool tcp_identity_want(struct tcp_identity *i, uint64_t id,
		       uint64_t now_ns);	 /* see tcp_cgroups_want() */
void tcp_identity_close(struct tcp_identity *i); /* NULL is fine */

#endif
