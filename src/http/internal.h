/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - internals of the back: back.c runs it, listen.c binds the socket, access.c checks
 * permissions, route.c finds handlers, queue.c runs costly handlers, reply.c creates answers,
 * spawn.c starts fronts, web.c reads web.yml, users.c checks passwords, guard.c reloads web.yml and
 * signs for TLS.
 */
#ifndef SL_HTTP_INTERNAL_H
#define SL_HTTP_INTERNAL_H

#include <pthread.h>

#include "base/budget.h"
#include "http/http.h"
#include "http/message.h"
#include "http/web.h"

#define HTTP_ROUTES    128
#define HTTP_HEADERS   16
#define HTTP_TOKEN_MAX 512u
#define HTTP_THREADS   64u

struct http_route {
	const char *method;
	char *before; /* path before the variable, or the whole path */
	char *after;  /* path after the variable; NULL if there is no variable */
	bool rest;    /* the variable is the remainder of the path */
	bool costly;
	bool form; /* the body is a form, whose fields are added to the parameters */
	enum http_role needs;
	http_handler fn;
	void *arg;
};

/* State of one of the front's connections. */
struct http_slot {
	bool open;
	struct http_caller caller;
	/* the request whose body has not been fetched completely, or NULL */
	struct http_request *req;
	struct http_message_open from;
	char *names; /* names in the client's certificate, from.names bytes; or NULL */
};

/*
 * A connection to one thread of the front, served by one thread of the back. With TLS and on unix
 * sockets, the last channel is for the threads of relay.c: handshakes and refusals.
 */
struct http_channel {
	struct http *http;
	int fd;
	pthread_t thread;
	bool runs;
	struct http_slot *slots; /* array of http_slots() entries */
	char *piece;		 /* buffer of HTTP_PIECE bytes for a piece of a body */
};

/* Costly requests (queue.c). The lock also protects .state and .awaited of each request. */
struct http_queue {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct http_request *first, **end;
	/* number of requests that no thread has started; pieces of bodies do not count */
	unsigned int waiting;
	pthread_t thread[HTTP_THREADS];
	unsigned int threads;
	bool stopping;
};

struct http {
	int listen_fd;
	bool local, is_unix; /* whether only this host, or only unix sockets, can connect */
	dev_t dev;	     /* device and inode of the unix socket's file */
	ino_t ino;
	char address[128];
	struct http_opts opts;
	/* tokens; "" means none */
	char reader_token[HTTP_TOKEN_MAX + 1], actor_token[HTTP_TOKEN_MAX + 1];
	char admin_token[HTTP_TOKEN_MAX + 1];
	struct http_route routes[HTTP_ROUTES];
	size_t route_count;
	struct http_queue queue;

	struct http_front *front;
	bool own_front, started;
	/*
	 * guard.c. Only the keeper thread uses the following fields, except for those protected by
	 * web_lock.
	 */
	pthread_rwlock_t web_lock;
	/* web is NULL without a web.yml; former is NULL if web never changed */
	struct http_web *web, *former;
	uint64_t failed_stamp, doubted_stamp;
	struct http_users users;

	struct http_channel *channels; /* array of http_channels() entries */
	pthread_mutex_t say;	       /* held while sending on control; taken before lock */
	pthread_mutex_t lock;	       /* protects control and stopping */
	pthread_cond_t wake;
	pthread_t keeper;
	int control; /* socket to the front; -1 if no front is running */
	bool stopping;

	uint32_t open;				       /* number of open connections; relaxed */
	uint64_t connections;			       /* number of all connections; relaxed */
	uint64_t *refused, own_refused[HTTP_REFUSALS]; /* counters of refusals; relaxed */
};

/*
 * Maximum number of connections, including those being closed. Each thread may accept one too many.
 */
static inline uint32_t http_slots(uint32_t max_connections, uint32_t threads)
{
	return 2 * max_connections + threads;
}

/* One channel per thread and, with TLS and on unix sockets, one more for the threads of relay.c. */
static inline unsigned int http_channels(const struct http *h)
{
	return h->opts.threads + (h->is_unix || (h->web && h->web->tls));
}

struct http_header {
	char *name, *value;
};

struct http_request {
	struct http *http;
	const struct http_caller *caller;
	const struct http_slot *slot;
	enum http_role role;	 /* role of the request */
	uint32_t number, serial; /* number of the slot */
	void *payload; /* memory that .in points into; freed when the handler has returned */
	struct http_message_request in;
	char *variable;
	struct http_header headers[HTTP_HEADERS];
	size_t header_count;
	bool known; /* the client presented a correct token */

	bool answered;
	unsigned int status;
	char *content_type; /* may be NULL */
	bool gzip;
	const char *whole; /* the body; unused if read is set for a stream */
	char *owned;	   /* same as whole if the body must be freed, or NULL */
	size_t bytes, given;
	ssize_t (*read)(void *arg, char *buf, size_t max);
	void (*done)(void *arg);
	void *arg;
	bool costly_read; /* read() may take long */

	/*
	 * For costly requests (queue.c). While a thread works on the request, only that thread uses
	 * the other members.
	 */
	const struct http_route *route;
	enum { HTTP_IDLE, HTTP_QUEUED, HTTP_WORKING, HTTP_WORKED, HTTP_LEFT } state;
	struct http_request *next;
	bool awaited;		  /* the front is waiting for a WAKE */
	struct http_caller owner; /* copy of the slot's caller */
	struct base_budget budget;
	uint64_t unused_ns; /* time left for the remaining pieces */
	char *piece;	    /* buffer for a piece of the body; NULL if there is no answer yet */
	size_t most;
	ssize_t bytes_read;
};

/* ---- back.c; also for tests and fuzzers ---- */

/*
 * Serves a channel until it is closed or the other side violates the protocol. Returns 0 or
 * -EPROTO.
 */
int http_back_serve(struct http_channel *ch);

/* Tells the front, by a WAKE on the control socket, that a request has an answer. */
void http_back_wake(struct http *h, uint32_t slot, uint32_t serial);
/* Frees a request that no thread is working on. */
void http_request_free(struct http_request *req);

/* ---- queue.c ---- */

int http_queue_start(struct http *h); /* returns 0 or -errno */
void http_queue_stop(struct http *h); /* waits for the running handlers */
/* Queues an admitted request and returns true, or answers it and returns false. */
bool http_queue_add(struct http_request *req);
/* Queues the reading of the next piece of a body. Returns false if out of memory. */
bool http_queue_read(struct http_request *req, size_t most);
/*
 * Returns true if the answer or piece is ready, in which case the request belongs to the caller
 * again.
 */
bool http_queue_take(struct http_request *req);
/* Sends a WAKE as soon as the answer or piece is ready. */
void http_queue_await(struct http_request *req);
/*
 * Call it when the client has left or has the whole answer. Frees the request, or lets the thread
 * that works on it do so.
 */
void http_queue_drop(struct http_request *req);

/* ---- form.c ---- */

/*
 * Inserts the fields of the form in the body before the request's parameters. Returns false after
 * an error response.
 */
bool http_form_read(struct http_request *req);

/* ---- listen.c ---- */

/* Sets listen_fd, address, local and is_unix. Returns 0, or -errno with one line in error. */
int http_listen(struct http *h, const char *at, char *error, size_t error_bytes);
/* Stops listening and removes a unix socket's file. */
void http_unlisten(struct http *h);
/* Whether a descriptor is a connection accepted by the listening unix socket. */
bool http_listen_accepted(const struct http *h, int fd);

/* ---- access.c ---- */

/*
 * Reads the tokens, and checks that the configured access control allows listening on the address.
 * Returns 0, or -errno with one line in error.
 */
int http_access_init(struct http *h, char *error, size_t error_bytes);
/* Adds the headers configured in web.yml. */
void http_access_headers(struct http_request *req);
/* Returns true, or answers the request and returns false. */
bool http_access_allowed(struct http_request *req, const struct http_route *route);

/* ---- guard.c ---- */

/*
 * Reads web.yml. Returns 0, or -errno with one line in error. Call http_guard_end() in either case.
 */
int http_guard_init(struct http *h, char *error, size_t error_bytes);
void http_guard_end(struct http *h);
/* Sends the front its TLS settings. Returns 0 or -errno. */
int http_guard_tell(struct http *h);
/* Reloads the files if one has changed. */
void http_guard_poll(struct http *h);
/*
 * Signs for the front with the key that has this stamp. Returns the signature's length or -errno.
 */
ssize_t http_guard_sign(struct http *h, uint32_t stamp, uint32_t algorithm, const void *data,
			size_t bytes, unsigned char out[HTTP_SIGNATURE]);

/* ---- route.c, reply.c ---- */

/* Finds the request's route. Returns NULL after answering with 404, 405 or 503. */
const struct http_route *http_route_find(struct http_request *req);
void http_routes_free(struct http *h);
/* Copies the next piece of the answer's body. Returns its length, 0 at the end, or -errno. */
ssize_t http_reply_next(struct http_request *req, char *buf, size_t max);

/* ---- spawn.c ---- */

/* Parameters of a front. */
struct http_front_config {
	uint32_t threads, max_connections, timeout_s, is_unix;
	uint32_t tls, tells; /* whether it uses TLS; whether it reports its clients */
	uint64_t max_body;
	char address[128];
};

/*
 * Starts a front. fds: the listening socket, the control socket and the channels, with one more
 * channel for TLS. Returns 0 or -errno.
 */
int http_front_spawn(struct http_front *f, const struct http_front_config *c, const int *fds,
		     size_t n);
/* Reaps, counts and logs a front whose control socket has closed; see base_child_ended(). */
bool http_front_ended(struct http_front *f);
/* Stops the running front and waits until it has exited. */
void http_front_stop(struct http_front *f);

#endif
