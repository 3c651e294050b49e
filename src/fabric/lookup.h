/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - resolves host names without blocking, in another thread: getaddrinfo_a(3). */
#ifndef SL_FABRIC_LOOKUP_H
#define SL_FABRIC_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct fabric_lookup;

/* Returns true and sets *to if host is a numeric address. */
bool fabric_lookup_numeric(const char *host, const char *service, struct sockaddr_storage *to);
/* Starts a lookup unless one is still running. Returns 0 or an EAI_ error. */
int fabric_lookup_start(struct fabric_lookup **l, const char *host);
/* Returns EAI_INPROGRESS, 0 with *to set, or the error; in the last two cases *l becomes NULL. */
int fabric_lookup_take(struct fabric_lookup **l, const char *service, struct sockaddr_storage *to);
/* Abandons a lookup that is still running. */
void fabric_lookup_end(struct fabric_lookup **l);

#endif
