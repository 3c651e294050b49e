/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - addresses of host names, without waiting: another thread asks, getaddrinfo_a(3). */
#ifndef SL_FABRIC_LOOKUP_H
#define SL_FABRIC_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct fabric_lookup;

/* Whether host is a numeric address, then in *to. */
bool fabric_lookup_numeric(const char *host, const char *service, struct sockaddr_storage *to);
/* Unless one still runs. 0, or EAI_... */
int fabric_lookup_start(struct fabric_lookup **l, const char *host);
/* EAI_INPROGRESS, or 0 with *to, or why not; then *l is NULL. */
int fabric_lookup_take(struct fabric_lookup **l, const char *service, struct sockaddr_storage *to);
/* Abandons one that still runs. */
void fabric_lookup_end(struct fabric_lookup **l);

#endif
