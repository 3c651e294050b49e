/* SPDX-License-Identifier: Apache-2.0 */
/* filter.h - command-line options that select connections. */
#ifndef SL_CLI_TCP_FILTER_H
#define SL_CLI_TCP_FILTER_H

#include "base/base.h"
#include "source/tcp/tcp.h"

/* The option rows of a struct tcp_filter; w points to the filter to fill. */
#define CLI_OPTIONS_TCP_FILTER(w)                                                        \
	BASE_LIST("port", 'p', &(w)->ports, "N[-M]",                                     \
		  "select flows with this local or remote port; repeatable"),            \
		BASE_LIST("cidr", 0, &(w)->cidrs, "PREFIX",                              \
			  "select flows to this address or prefix; repeatable"),         \
		BASE_LIST("cgroup", 0, &(w)->cgroups, "PATH|ID",                         \
			  "select flows of sockets created in this cgroup; repeatable"), \
		BASE_STRING("netns", 0, &(w)->netns, "PATH|INODE",                       \
			    "select flows of this network namespace"),                   \
		BASE_UINT("pid", 0, &(w)->pid, 0, UINT32_MAX, "PID",                     \
			  "select flows of this process"),                               \
		BASE_UINT("sample", 0, &(w)->sample, 0, 20, "N",                         \
			  "select one flow in 2^N, the same ones at both ends")

/* Returns true if any of these options was given. */
static inline bool cli_tcp_filter_selects(const struct tcp_filter *w)
{
	return w->ports.n || w->cidrs.n || w->cgroups.n || w->netns || w->pid || w->sample;
}

#endif
