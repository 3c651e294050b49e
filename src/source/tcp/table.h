/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - private to tcp.c: sizes of the maps, and the header of the region that one of them is.
 */
#ifndef SL_SOURCE_TCP_TABLE_H
#define SL_SOURCE_TCP_TABLE_H

#include <stddef.h>

#include "source/tcp/bpf/flow.h"
#include "source/tcp/tcp.h"

struct flow_bpf;

/* Sizes the maps of an object that is not loaded yet. 0 or -errno. */
int tcp_table_size(struct flow_bpf *flow, const struct tcp_opts *options);
/* Maps the table of a loaded object and writes its header; munmap() of *bytes ends it. 0 or -errno.
 */
int tcp_table_map(struct flow_bpf *flow, void **map, size_t *bytes);

#endif
