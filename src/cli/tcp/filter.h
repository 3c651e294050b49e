/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_wanted.h - rows of a table of options: which connections are looked at. */
#ifndef SL_CLI_TCP_FILTER_H
#define SL_CLI_TCP_FILTER_H

#include "base/base.h"
#include "source/tcp/tcp.h"

/* w: a struct tcp_filter to be filled. */
#define CLI_OPTIONS_TCP_FILTER(w)                                                            \
	{.name = "port",                                                                     \
	 .letter = 'p',                                                                      \
	 .type = BASE_OPT_LIST,                                                              \
	 .to = &(w)->ports,                                                                  \
	 .argument = "N[-M]",                                                                \
	 .help = "flows with this local or remote port; may be repeated"},                   \
		{.name = "cidr",                                                             \
		 .type = BASE_OPT_LIST,                                                      \
		 .to = &(w)->cidrs,                                                          \
		 .argument = "PREFIX",                                                       \
		 .help = "flows to this address or prefix; may be repeated"},                \
		{.name = "cgroup",                                                           \
		 .type = BASE_OPT_LIST,                                                      \
		 .to = &(w)->cgroups,                                                        \
		 .argument = "PATH|ID",                                                      \
		 .help = "flows of sockets made in this cgroup; may be repeated"},           \
		{.name = "netns",                                                            \
		 .type = BASE_OPT_STRING,                                                    \
		 .to = &(w)->netns,                                                          \
		 .argument = "PATH|INODE",                                                   \
		 .help = "flows of this network namespace"},                                 \
		{.name = "pid",                                                              \
		 .type = BASE_OPT_U32,                                                       \
		 .to = &(w)->pid,                                                            \
		 .argument = "PID",                                                          \
		 .help = "flows of this process"},                                           \
	{                                                                                    \
		.name = "sample", .type = BASE_OPT_U32, .to = &(w)->sample, .argument = "N", \
		.help = "one flow in 2^N, the same at both ends", .max = 20                  \
	}

#endif
