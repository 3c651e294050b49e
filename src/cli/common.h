/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - what commands say and ask alike. */
#ifndef SL_CLI_COMMON_H
#define SL_CLI_COMMON_H

#include "base/base.h"

/* Where on an RDMA device: rows of a table of options; -1 is what by says. */
#define CLI_OPTIONS_RDMA_PORT(gid_to, port_to, by)                          \
	BASE_INT("gid", 0, gid_to, -1, 255, "INDEX", "GID index; -1: " by), \
		BASE_INT("ib-port", 0, port_to, 1, 255, "N", "port of the RDMA device")

/* On stdout, padded to width. What comes from a region is a stranger's text: nothing of it may
 * steer a terminal. */
void cli_print_safe(const char *s, int width);

#endif
