/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the server share: http.c has the life of server and connections,
 * route.c finds who answers, reply.c makes answers.
 */
#ifndef SL_HTTP_INTERNAL_H
#define SL_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "http/http.h"

#define SL_HTTP_ROUTES 64
#define SL_HTTP_HEADERS 16

struct route {
	const char *method;
	char *before; /* up to the variable, or all */
	char *after;  /* behind it; NULL: no variable */
	bool rest;    /* the variable is all that follows */
	sl_http_handler fn;
	void *arg;
};

/* One TCP connection; in sl_http.connections while it lives. */
struct connection {
	struct connection *next, **link;
	int fd;
	uint64_t deadline_ns; /* under sl_http.lock */
	bool shut;
};

/* An embedded file, compressed once. */
struct packed {
	struct packed *next;
	const void *body;
	size_t bytes;
	unsigned char *gz; /* NULL: does not get smaller */
	size_t gz_bytes;
};

struct sl_http {
	struct MHD_Daemon *daemon;
	int listen_fd;
	char address[INET6_ADDRSTRLEN + 16];
	struct sl_http_opts opts;
	struct route routes[SL_HTTP_ROUTES];
	size_t route_count;

	pthread_mutex_t lock; /* connections, packed, stopping */
	pthread_cond_t wake;
	pthread_t reaper;
	bool reaper_runs, stopping;
	struct connection *connections;
	struct packed *packed;

	_Atomic uint64_t requests, bytes, errors_4xx, errors_5xx, refused_connections;
	_Atomic uint32_t open;
};

struct header {
	char *name, *value;
};

struct sl_http_request {
	struct sl_http *http;
	struct MHD_Connection *connection;
	const char *method, *path;
	char *variable;
	bool seen;	/* the first call of answer() was made */
	bool bad_uri;	/* holds a NUL */
	bool too_large; /* body over the limit */
	unsigned char *body;
	size_t body_bytes, body_room, discarded;
	struct header headers[SL_HTTP_HEADERS];
	size_t header_count;
	struct MHD_Response *response;
	unsigned int status;
};

/* Who answers; or NULL, and 404, 405 or 503 is the answer. */
const struct route *sl_http_route_find(struct sl_http_request *req);
void sl_http_routes_free(struct sl_http *h);
/* Embedded files that were compressed. */
void sl_http_packed_free(struct sl_http *h);

#endif
