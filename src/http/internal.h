/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - of the back: back.c runs it, listen.c binds, access.c says who may do what, route.c
 * finds handlers, reply.c makes answers; spawn.c starts fronts. web.c reads web.yml, users.c tries
 * passwords, guard.c keeps both up to date.
 */
#ifndef SL_HTTP_INTERNAL_H
#define SL_HTTP_INTERNAL_H

#include <pthread.h>

#include "http/http.h"
#include "http/message.h"
#include "http/users.h"
#include "http/web.h"

#define HTTP_ROUTES    128
#define HTTP_HEADERS   16
#define HTTP_TOKEN_MAX 512u
#define HTTP_THREADS   64u

struct http_route {
	const char *method;
	char *before; /* up to the variable, or the whole path */
	char *after;  /* after it; NULL: no variable */
	bool rest;    /* the variable is the rest of the path */
	enum http_role needs;
	http_handler fn;
	void *arg;
};

/* A connection of the front. */
struct http_slot {
	bool open;
	struct http_caller caller;
	struct http_request *req; /* NULL, or the one whose body is not fetched yet */
	struct http_message_open from;
	char *names; /* of the client's certificate, from.names bytes; or NULL */
};

/*
 * To one thread of the front: a thread of the back serves it. The last one is for handshakes, if
 * there is TLS.
 */
struct http_channel {
	struct http *http;
	int fd;
	pthread_t thread;
	bool runs;
	struct http_slot *slots; /* http_slots() */
	char *piece;		 /* of a body, HTTP_PIECE */
};

struct http {
	int listen_fd;
	bool local, is_unix; /* who can connect */
	dev_t dev;	     /* of the unix socket's file */
	ino_t ino;
	char address[128];
	struct http_opts opts;
	/* "": none */
	char reader_token[HTTP_TOKEN_MAX + 1], actor_token[HTTP_TOKEN_MAX + 1];
	char admin_token[HTTP_TOKEN_MAX + 1];
	struct http_route routes[HTTP_ROUTES];
	size_t route_count;

	struct http_front *front;
	bool own_front, started;
	/* guard.c; of the keeper, but for these under web_lock: */
	pthread_rwlock_t web_lock;
	struct http_web *web, *former; /* NULL: there is no web.yml; it did not change */
	uint64_t failed_stamp, doubted_stamp;
	struct http_users users;

	struct http_channel *channels; /* http_channels() */
	pthread_mutex_t lock;	       /* control, stopping */
	pthread_cond_t wake;
	pthread_t keeper;
	int control; /* -1: no front */
	bool stopping;

	uint32_t open;				       /* connections; relaxed */
	uint64_t *refused, own_refused[HTTP_REFUSALS]; /* relaxed */
};

/* The most connections, with those that are being closed: each thread may admit one too many. */
static inline uint32_t http_slots(uint32_t max_connections, uint32_t threads)
{
	return 2 * max_connections + threads;
}

/* With TLS there is one more than threads: for handshakes. */
static inline unsigned int http_channels(const struct http *h)
{
	return h->opts.threads + (h->web && h->web->tls);
}

struct http_header {
	char *name, *value;
};

struct http_request {
	struct http *http;
	const struct http_caller *caller;
	const struct http_slot *slot;
	enum http_role role; /* what it may do */
	uint32_t serial;
	void *payload; /* what .in points into, until the handler has returned */
	struct http_message_request in;
	char *variable;
	struct http_header headers[HTTP_HEADERS];
	size_t header_count;
	bool known; /* had a right token */

	bool answered;
	unsigned int status;
	char *content_type; /* or NULL */
	bool gzip;
	const char *whole; /* the body; or, if read is set, a stream */
	char *owned;	   /* the same, to be freed; or NULL */
	size_t bytes, given;
	ssize_t (*read)(void *arg, char *buf, size_t max);
	void (*done)(void *arg);
	void *arg;
};

/* ---- back.c: for tests and fuzzers, too ---- */

/* Serves a channel until it ends, or the other side breaks a rule. 0: it ended, or -EPROTO. */
int http_back_serve(struct http_channel *ch);

/* ---- listen.c ---- */

/* Sets listen_fd, address, local, is_unix. 0, or -errno with one line in error. */
int http_listen(struct http *h, const char *at, char *error, size_t error_bytes);
/* Ends listening; removes a unix socket's file. */
void http_unlisten(struct http *h);
/* Whether a descriptor is a connection that the listening unix socket accepted. */
bool http_listen_accepted(const struct http *h, int fd);

/* ---- access.c ---- */

/* Reads tokens; whether the address may be served. 0, or -errno with one line in error. */
int http_access_init(struct http *h, char *error, size_t error_bytes);
/* Adds the headers of web.yml. */
void http_access_headers(struct http_request *req);
/* True, or false after answering. */
bool http_access_allowed(struct http_request *req, enum http_role needs);

/* ---- guard.c ---- */

/* Reads web.yml. 0, or -errno with one line in error; http_guard_end() in either case. */
int http_guard_init(struct http *h, char *error, size_t error_bytes);
void http_guard_end(struct http *h);
/* Tells the front what TLS needs. 0 or -errno. */
int http_guard_tell(struct http *h);
/* Looks whether a file has changed. */
void http_guard_poll(struct http *h);
/* Signs for the front by the key of that stamp. Bytes, or -errno. */
ssize_t http_guard_sign(struct http *h, uint32_t stamp, uint32_t algorithm, const void *data,
			size_t bytes, unsigned char out[HTTP_SIGNATURE]);

/* ---- route.c, reply.c ---- */

/* The request's route; or NULL after answering 404, 405 or 503. */
const struct http_route *http_route_find(struct http_request *req);
void http_routes_free(struct http *h);
/* The next piece of the answer's body: bytes, 0: the end, or -errno. */
ssize_t http_reply_next(struct http_request *req, char *buf, size_t max);

/* ---- spawn.c ---- */

/* What a front is told at its start. */
struct http_front_config {
	uint32_t threads, max_connections, timeout_s, is_unix;
	uint32_t tls, tells; /* tells: who connects */
	uint64_t max_body;
	char address[128];
};

/* fds: the listening socket, the control socket, the channels, with TLS one more. 0 or -errno. */
int http_front_spawn(struct http_front *f, const struct http_front_config *c, const int *fds,
		     size_t n);
/* Ends the running front, and waits for that. */
void http_front_stop(struct http_front *f);

#endif
