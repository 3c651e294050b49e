/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - what commands say and ask alike. */
#ifndef SL_CLI_COMMON_H
#define SL_CLI_COMMON_H

#include "base/base.h"

/* Where on an RDMA device: rows of a table of options; -1 is what by says. */
#define CLI_OPTIONS_RDMA_PORT(gid_to, port_to, by)                                         \
	{.name = "gid",                                                                    \
	 .type = BASE_OPT_I32,                                                             \
	 .to = (gid_to),                                                                   \
	 .argument = "INDEX",                                                              \
	 .help = "GID index; -1: " by,                                                     \
	 .min = -1,                                                                        \
	 .max = 255},                                                                      \
	{                                                                                  \
		.name = "ib-port", .type = BASE_OPT_I32, .to = (port_to), .argument = "N", \
		.help = "port of the device", .min = 1, .max = 255                         \
	}

/* On stdout, padded to width. What comes from a region is a stranger's text: nothing of it may
 * steer a terminal. */
void cli_print_safe(const char *s, int width);

#endif
