/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - shared by the server's files: http.c runs server and connections, listen.c binds,
 * peer.c says who may connect, access.c who may do what, route.c finds handlers, reply.c makes
 * answers.
 */
#ifndef SL_HTTP_INTERNAL_H
#define SL_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>

#include "http/http.h"

#define HTTP_ROUTES    64
#define HTTP_HEADERS   16
#define HTTP_TOKEN_MAX 512u

struct http_route {
	const char *method;
	char *before; /* up to the variable, or the whole path */
	char *after;  /* after it; NULL: no variable */
	bool rest;    /* the variable is the rest of the path */
	enum http_role needs;
	http_handler fn;
	void *arg;
};

/* A user of this host or a remote address, while it holds connections or is known (peer.c). */
struct http_peer {
	struct http_peer *next;
	unsigned char key[24];
	bool local;
	uint32_t open;
	uint64_t known_until_ns; /* it had a right token; 0: never */
};

/* A connection, in http.connections while it is open: the newest first. All under http.lock. */
struct http_connection {
	struct http_connection *next, **link;
	int fd;
	struct http_peer *peer; /* NULL: shut, and not counted any more */
	struct http_caller caller;
	uint64_t deadline_ns, answer_ns; /* answer_ns: since when it is answering */
	bool shut, answering;
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
	int listen_fd, diag_fd; /* diag_fd: netlink, under lock */
	uint32_t diag_seq;
	bool local, is_unix; /* who can connect */
	dev_t dev;	     /* of the unix socket's file */
	ino_t ino;
	char address[128];
	struct http_opts opts;
	char reader_token[HTTP_TOKEN_MAX + 1], admin_token[HTTP_TOKEN_MAX + 1]; /* "": none */
	struct http_route routes[HTTP_ROUTES];
	size_t route_count;

	pthread_mutex_t lock; /* connections, peers, packed, stopping */
	pthread_cond_t wake;
	pthread_t reaper;
	bool reaper_runs, stopping;
	struct http_connection *connections;
	struct http_peer *peers;
	struct http_packed *packed;

	uint32_t open;	  /* connections of peers; relaxed */
	uint32_t sockets; /* the same, and those being closed; relaxed */
	uint64_t *refused, own_refused[HTTP_REFUSALS]; /* relaxed */
};

struct http_header {
	char *name, *value;
};

struct http_request {
	struct http *http;
	struct MHD_Connection *connection;
	struct http_connection *c; /* NULL: out of memory as it opened */
	const char *method, *path;
	char *variable;
	bool seen;	/* answer() was called once */
	bool bad_uri;	/* holds a NUL */
	bool too_large; /* body over the limit */
	bool ambiguous; /* answered 400 */
	unsigned char *body;
	size_t body_bytes, body_room, discarded;
	struct http_header headers[HTTP_HEADERS];
	size_t header_count;
	struct MHD_Response *response;
	unsigned int status;
};

/* ---- listen.c ---- */

/* Sets listen_fd, address, local, is_unix. 0, or -errno with one line in error. */
int http_listen(struct http *h, const char *at, char *error, size_t error_bytes);
/* Removes a unix socket's file. */
void http_unlisten(struct http *h);

/* ---- peer.c: with the lock held ---- */

/* Counts a new connection, which may end another one. False: there is no room for it. */
bool http_peer_enter(struct http *h, struct http_connection *c);
void http_peer_leave(struct http *h, struct http_connection *c);
/* The peer had a right token: it may use the reserve. */
void http_peer_known(struct http_connection *c);
void http_peers_free(struct http *h);

/* ---- access.c ---- */

/* Reads tokens. 0, or -errno with one line in error. */
int http_access_init(struct http *h, char *error, size_t error_bytes);
/* Each is true, or false after answering. */
bool http_access_framing(struct http_request *req); /* before the body */
bool http_access_allowed(struct http_request *req, enum http_role needs);

/* ---- route.c, reply.c ---- */

/* The request's route; or NULL after answering 404, 405 or 503. */
const struct http_route *http_route_find(struct http_request *req);
void http_routes_free(struct http *h);
/* Frees the compressed copies of embedded files. */
void http_packed_free(struct http *h);

#endif
