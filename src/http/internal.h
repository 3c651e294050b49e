/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - shared by the server's files: http.c runs server and connections, route.c finds
 * handlers, reply.c makes answers.
 */
#ifndef SL_HTTP_INTERNAL_H
#define SL_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>

#include "http/http.h"

#define HTTP_ROUTES  64
#define HTTP_HEADERS 16

struct http_route {
	const char *method;
	char *before; /* up to the variable, or the whole path */
	char *after;  /* after it; NULL: no variable */
	bool rest;    /* the variable is the rest of the path */
	http_handler fn;
	void *arg;
};

/* A TCP connection, in http.connections while it is open. */
struct http_connection {
	struct http_connection *next, **link;
	int fd;
	uint64_t deadline_ns; /* under http.lock */
	bool shut;
};

/* An embedded file, compressed once. */
struct http_packed {
	struct http_packed *next;
	const void *body;
	size_t bytes;
	unsigned char *gz; /* NULL: not smaller */
	size_t gz_bytes;
};

struct http {
	struct MHD_Daemon *daemon;
	int listen_fd;
	char address[INET6_ADDRSTRLEN + 16];
	struct http_opts opts;
	struct http_route routes[HTTP_ROUTES];
	size_t route_count;

	pthread_mutex_t lock; /* connections, packed, stopping */
	pthread_cond_t wake;
	pthread_t reaper;
	bool reaper_runs, stopping;
	struct http_connection *connections;
	struct http_packed *packed;

	uint32_t open; /* connections; relaxed */
};

struct http_header {
	char *name, *value;
};

struct http_request {
	struct http *http;
	struct MHD_Connection *connection;
	const char *method, *path;
	char *variable;
	bool seen;	/* answer() was called once */
	bool bad_uri;	/* holds a NUL */
	bool too_large; /* body over the limit */
	unsigned char *body;
	size_t body_bytes, body_room, discarded;
	struct http_header headers[HTTP_HEADERS];
	size_t header_count;
	struct MHD_Response *response;
	unsigned int status;
};

/* The request's route; or NULL after answering 404, 405 or 503. */
const struct http_route *http_route_find(struct http_request *req);
void http_routes_free(struct http *h);
/* Frees the compressed copies of embedded files. */
void http_packed_free(struct http *h);

#endif
