/* SPDX-License-Identifier: Apache-2.0 */
/* layers.h - shared by 'tcp layers' and 'tcp trace'. */
#ifndef SL_CLI_TCP_LAYERS_H
#define SL_CLI_TCP_LAYERS_H

#include "source/tcp/layer.h"

const char *cli_tcp_role_name(enum sl_role role);
/* "10.0.0.1:80", "[2001:db8::1]:80"; port below 0: the address alone. */
void cli_tcp_address(char *out, size_t bytes, const uint8_t address[16], uint8_t family, int port);
/*
 * Opens the layers with the filter of cli_tcp_common. An exit code, after one line on stderr unless
 * BASE_EXIT_OK.
 */
int cli_tcp_layers_open(const struct base_command *self, uint32_t groups,
			struct tcp_layers **layers);

#endif
