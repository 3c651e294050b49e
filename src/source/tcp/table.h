/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - for tcp.c: sizes of the maps, and the header of the flow table's region. */
#ifndef SL_SOURCE_TCP_TABLE_H
#define SL_SOURCE_TCP_TABLE_H

#include <stddef.h>

#include "source/tcp/bpf/flow.h"
#include "source/tcp/tcp.h"

struct flow_bpf;

/* Sizes the maps before the object is loaded. 0 or -errno. */
int tcp_table_size(struct flow_bpf *flow, const struct tcp_opts *options);
/*
 * Maps the table of a loaded object, writes its header; munmap() of *bytes unmaps it. 0 or -errno.
 */
int tcp_table_map(struct flow_bpf *flow, void **map, size_t *bytes);

#endif
