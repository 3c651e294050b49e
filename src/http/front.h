/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front.h - internals of the front's process: front.c handles connections and their limits, relay.c
 * reads connections on unix sockets and with TLS (tls.c), peer.c decides which peers may connect,
 * and body.c fetches, compresses and sends the back's answers.
 */
#ifndef SL_HTTP_FRONT_H
#define SL_HTTP_FRONT_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>

#include "http/internal.h"
#include "http/tls.h"

/* A user of this host or a remote address, kept while it has connections or is known (peer.c). */
struct http_peer {
	struct http_peer *next;
	unsigned char key[HTTP_PEER_KEY];
	uid_t uid; /* user ID on this host; (uid_t)-1 means remote or unknown */
	bool local;
	uint32_t open;
	/* a correct token makes the peer known until this time; 0 means never */
	uint64_t known_until_ns;
};

/* A connection; in http_server.connections, newest first, while it is open. */
struct http_connection {
	struct http_connection *next, **link;
	int fd; /* descriptor of the client's socket */
	/*
	 * relay between the client and libmicrohttpd; NULL if libmicrohttpd serves the socket
	 * itself
	 */
	struct http_relay *relay;
	uint32_t slot, serial;
	bool told;			 /* the back was told about the connection */
	struct http_peer *peer;		 /* NULL if shut down and no longer counted */
	uint64_t deadline_ns, answer_ns; /* answer_ns: start of the current answer */
	bool shut, answering;
	size_t held; /* memory for the request's body */
	/*
	 * For an answer that the back does not have yet: the suspended connection, whether it is
	 * suspended, and whether its client has left in the meantime.
	 */
	struct MHD_Connection *connection;
	bool awaits, left;
};

/*
 * Maximum number of relays (relay.c) per connection allowed, because some connections are still
 * being closed.
 */
#define HTTP_RELAYS_PART 4u

struct http_server {
	struct http_front_config c;
	struct MHD_Daemon *daemon;
	int listen_fd, control;
	int awaited; /* epoll: the control socket, and the clients waiting for answers */
	int channels[HTTP_THREADS + 1]; /* the last one is shared by the threads of relay.c */
	pthread_mutex_t shakes;		/* protects the shared channel */
	struct http_tls *tls;		/* protected by lock; or NULL */
	uint32_t threads;		/* number of threads with a channel; relaxed */
	int diag_fd;			/* netlink socket, protected by lock */
	uint32_t diag_seq;
	pthread_mutex_t lock; /* protects connections, peers and slots */
	pthread_cond_t wake;
	struct http_connection *connections;
	struct http_peer *peers;
	uint32_t *slots, slot_count; /* free slots */
	uint32_t serial;	     /* serial number of the last ASK; relaxed */

	/* used by relay.c; counts and lists are protected by lock */
	struct http_relay *relays, *parked;
	pthread_cond_t relay_left;
	uint32_t relay_count, parked_count, parked_max, accepted;
	uid_t own_uid;

	uint32_t open;			 /* number of connections that belong to peers; relaxed */
	uint32_t sockets;		 /* open, plus sockets that are being closed; relaxed */
	uint32_t refused[HTTP_REFUSALS]; /* refusals not yet reported to the back; relaxed */
};

struct http_client_request {
	struct http_server *server;
	struct MHD_Connection *connection;
	struct http_connection *c; /* NULL if out of memory when the connection was opened */
	bool seen;		   /* set after the first call to answer_request() */
	bool bad_uri;		   /* the URI contains a NUL */
	bool too_large;		   /* the request's body exceeds the limit */
	bool no_room;		   /* there is no memory for the request's body */
	bool ambiguous;		   /* answered with 400 */
	bool later;		   /* the back does not have the answer yet */
	bool close;		   /* close the connection after the answer */
	unsigned char *body;
	size_t body_bytes, body_room, discarded;
	struct MHD_Response *response;
	unsigned int status;
};

/* ---- front.c ---- */

/* Runs the front's process; does not return. fds: see http_front_spawn(). */
__attribute__((noreturn)) void http_front_serve(const struct http_front_config *c, const int *fds,
						size_t n, bool unconfined);
/*
 * Returns this thread's channel. If the back is gone the front exits, so callers need not handle
 * failures to send or receive.
 */
int http_front_channel(struct http_server *s);
/*
 * Suspends a connection until the back has its answer or the next piece, or until the client
 * leaves. libmicrohttpd then calls answer_request() or body_read() again; .left states whether the
 * client left.
 */
void http_front_await(struct http_server *s, struct http_connection *c);
void http_front_tell(struct http_server *s, enum http_message_type type, uint32_t slot,
		     uint32_t arg);
__attribute__((noreturn)) void http_front_gone(void);
/*
 * For threads without a channel: http_front_sign(), with TLS, requests a signature from the back
 * and returns its length or -errno. http_front_refused() counts a refusal and, with relays, reports
 * it at once, because the front may end at any time; but it does not wait for a back that is slow:
 * then the next call reports it. Without relays, the caller has a channel and calls
 * tell_refusals().
 */
ssize_t http_front_sign(struct http_server *s, struct http_message ask, const void *data,
			unsigned char out[HTTP_SIGNATURE]);
void http_front_refused(struct http_server *s, enum http_refusal cause);
/* Logs that connections can't be accepted because a resource is exhausted. */
void http_front_short_of(const char *what);

/* ---- body.c ---- */

/*
 * Receives the HEAD on this thread's channel and creates the response. If the back has no answer
 * yet, suspends the connection and creates no response.
 */
void http_body_answer(struct http_client_request *req);

/* ---- relay.c: unix sockets ---- */

/* Accepts connections and relays their data to the daemon. Returns 0 or an errno. */
int http_relay_start(struct http_server *s);
/*
 * Finds the relay of the connection that libmicrohttpd identifies by fd; the caller holds the lock.
 * *client is the client's descriptor, which stays open until http_relay_leave(). Returns NULL if
 * the client has left.
 */
struct http_relay *http_relay_enter(struct http_server *s, int fd, int *client);
void http_relay_leave(struct http_server *s, struct http_relay *r);
/*
 * Returns what TLS reveals about the client; .peer is not set. *names is valid as long as the relay
 * exists.
 */
struct http_message_open http_relay_who(const struct http_relay *r, const char **names);

/* ---- peer.c: the caller holds the lock ---- */

/* Identifies the peer of a connection. */
void http_peer_identify(struct http_server *s, int fd, struct http_peer *p);
bool http_peer_same(const struct http_peer *a, const struct http_peer *b);
/* Prints the peer's address for the log. Does not need the lock. */
void http_peer_print(int fd, char *out, size_t bytes);
/*
 * Counts a new connection, which may cause another one to be shut down. Returns false if there is
 * no room for it.
 */
bool http_peer_enter(struct http_server *s, struct http_connection *c);
void http_peer_leave(struct http_server *s, struct http_connection *c);
/* Records that the peer presented a correct token and may use the reserve. */
void http_peer_known(struct http_connection *c);

/* These take the lock themselves. */

/* Returns the number of the same peer's connections that are being answered, including this one. */
uint32_t http_peer_answers(struct http_server *s, const struct http_connection *of);
/*
 * Sets the memory that the body of a connection's request takes. Returns false without a change if
 * it is more than the peer's share.
 */
bool http_peer_hold(struct http_server *s, struct http_connection *c, size_t bytes);

/*
 * gzip.c: compresses answers. In a build without zlib (gzip_none.c), nothing is compressed, which
 * every client accepts.
 */

struct http_gzip;

/* Returns a malloc'd gzip member, or NULL if out of memory or the result would not be smaller. */
unsigned char *http_gzip_whole(const void *body, size_t bytes, size_t *out_bytes);

/*
 * Starts a gzip member that is created in pieces. Returns NULL on failure, in which case the body
 * must be sent uncompressed.
 */
struct http_gzip *http_gzip_begin(void);
/*
 * Writes up to max compressed bytes to buf. next sets *piece to the next piece of the body, which
 * stays valid until the next call, and returns its length, 0 at the end, or < 0 on error. Returns
 * the number of bytes, 0 at the end, or < 0 on error.
 */
ssize_t http_gzip_read(struct http_gzip *g, char *buf, size_t max,
		       ssize_t (*next)(void *arg, const unsigned char **piece), void *arg);
void http_gzip_end(struct http_gzip *g);

#endif
