// SPDX-License-Identifier: Apache-2.0
#include "fabric/lookup.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/gate.h"

struct fabric_lookup {
	struct gaicb request;
	struct gaicb *list[1];
	struct addrinfo hints;
	char host[256];
};

static void take_address(const struct addrinfo *found, struct sockaddr_storage *to)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, found->ai_addr, found->ai_addrlen);
}

bool fabric_lookup_numeric(const char *host, const char *service, struct sockaddr_storage *to)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	};
	struct addrinfo *found;

	if (getaddrinfo(host, service, &hints, &found))
		return false;
	take_address(found, to);
	freeaddrinfo(found);
	return true;
}

int fabric_lookup(struct fabric_lookup **at, const char *host, const char *service,
		  struct sockaddr_storage *to)
{
	struct fabric_lookup *l = *at;
	int code = 0;

	if (!l) {
		if (fabric_lookup_numeric(host, service, to))
			return 0;
		l = calloc(1, sizeof(*l));
		if (!l)
			return EAI_MEMORY;
		strncpy(l->host, host, sizeof(l->host) - 1);
		l->hints.ai_socktype = SOCK_STREAM;
		l->request.ar_name = l->host;
		l->request.ar_request = &l->hints;
		l->list[0] = &l->request;
		code = getaddrinfo_a(GAI_NOWAIT, l->list, 1, NULL);
	}
	code = code ?: gai_error(&l->request);
	*at = code == EAI_INPROGRESS ? l : NULL;
	if (*at)
		return code;
	if (!code) {
		take_address(l->request.ar_result, to);
		freeaddrinfo(l->request.ar_result);
		fabric_gate_set_port(to, (uint16_t)strtoul(service, NULL, 10));
	}
	free(l);
	return code;
}

void fabric_lookup_end(struct fabric_lookup **at)
{
	struct fabric_lookup *l = *at;
	int code;

	*at = NULL;
	if (!l)
		return;
	/* A lookup that cannot be cancelled still writes to its memory, which is leaked. */
	code = gai_cancel(&l->request);
	if (code == EAI_ALLDONE && !gai_error(&l->request))
		freeaddrinfo(l->request.ar_result);
	if (code != EAI_NOTCANCELED)
		free(l);
}
