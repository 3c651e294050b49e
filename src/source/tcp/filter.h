/* SPDX-License-Identifier: Apache-2.0 */
/* filter.h - converts a filter from its textual form to the form that the eBPF programs read. */
#ifndef SL_SOURCE_TCP_FILTER_H
#define SL_SOURCE_TCP_FILTER_H

#include "source/tcp/bpf/shared.h"
#include "source/tcp/tcp.h"

/* Validates a filter. Returns 0, or -EINVAL with one line in why[]. */
int tcp_filter_check(const struct tcp_filter *filter, char *why, size_t bytes);

/* Maps the filter that the programs of an object read. Returns 0 or -errno. */
int tcp_filter_map(int map_fd, struct tcp_kernel_filter **mapped);
void tcp_filter_unmap(struct tcp_kernel_filter *mapped); /* NULL is fine */
/*
 * Sets the mapped filter and replaces the entries of the two maps. Returns 0, -EINVAL with one line
 * in why[], or -errno of a map operation.
 */
int tcp_filter_set(struct tcp_kernel_filter *mapped, const struct tcp_filter *filter, int cidrs_fd,
		   int cgroups_fd, char *why, size_t bytes);

#endif
