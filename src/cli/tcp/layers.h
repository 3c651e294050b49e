/* SPDX-License-Identifier: Apache-2.0 */
/* layers.h - shared by 'tcp layers' and 'tcp trace'. */
#ifndef SL_CLI_TCP_LAYERS_H
#define SL_CLI_TCP_LAYERS_H

#include "source/tcp/layer.h"

const char *cli_tcp_role_name(enum sl_role role);
/*
 * Opens the layers with the filter of cli_tcp_common. An exit code, after one line on stderr unless
 * BASE_EXIT_OK.
 */
int cli_tcp_layers_open(const struct base_command *self, uint32_t groups,
			struct tcp_layers **layers);
/* The same, delivering records as tcp_layers_trace() does. */
int cli_tcp_layers_trace(const struct base_command *self, uint32_t kinds,
			 void (*record)(void *context, const struct tcp_layer_record *r),
			 void *context, struct tcp_layers **layers);

#endif
