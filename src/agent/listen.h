/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_AGENT_LISTEN_H
#define SL_AGENT_LISTEN_H

#include <stddef.h>

struct agent_listener;

/* Binds l->path and fills in the rest of l. Returns 0, or -errno with one line in error. */
int agent_listen(struct agent_listener *l, unsigned int mode, char *error, size_t error_bytes);
void agent_unlisten(struct agent_listener *l);

#endif
