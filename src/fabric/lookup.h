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
/*
 * Resolves a host name or numeric address without waiting. Returns 0 with *to set, or an EAI_
 * error. After EAI_INPROGRESS, *l is the running lookup: call again with the same host, or abandon
 * it with fabric_lookup_end(). *l is NULL otherwise.
 */
int fabric_lookup(struct fabric_lookup **l, const char *host, const char *service,
		  struct sockaddr_storage *to);
/* Abandons a lookup that is still running. */
void fabric_lookup_end(struct fabric_lookup **l);

#endif
