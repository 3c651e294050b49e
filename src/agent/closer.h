/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_AGENT_CLOSER_H
#define SL_AGENT_CLOSER_H

#include <stdbool.h>

struct agent;

bool agent_closer_ready(struct agent *a); /* another descriptor may be taken from a socket */
void agent_closer_close(struct agent *a, int fd);
void agent_closer_fini(struct agent *a);

#endif
