/* SPDX-License-Identifier: Apache-2.0 */
/* wanted.h - from words to the settings that the programs look at. */
#ifndef SL_SOURCE_TCP_FILTER_H
#define SL_SOURCE_TCP_FILTER_H

#include "source/tcp/bpf/shared.h"
#include "source/tcp/tcp.h"

/* Fills filter, all but .generation; needs no map. 0, or -EINVAL with a line in why[]. */
int tcp_filter_parse(const struct tcp_filter *wanted, struct tcp_kernel_filter *filter, char *why,
		     size_t bytes);
/*
 * Fills filter (all but .generation) and the two maps, whose former entries go. 0, -EINVAL with a
 * line in why[], or -errno of a map.
 */
int tcp_filter_apply(const struct tcp_filter *wanted, struct tcp_kernel_filter *filter,
		     int cidrs_fd, int cgroups_fd, char *why, size_t bytes);

#endif
