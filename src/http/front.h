/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front.h - of the front's process: front.c runs connections and their limits, relay.c reads those
 * of a unix socket and those of TLS, which is tls.c's, peer.c says who may connect, body.c fetches,
 * compresses and sends what the back answers.
 */
#ifndef SL_HTTP_FRONT_H
#define SL_HTTP_FRONT_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>

#include "http/internal.h"
#include "http/tls.h"

/* A user of this host or a remote address, while it holds connections or is known (peer.c). */
struct http_peer {
	struct http_peer *next;
	unsigned char key[HTTP_PEER_KEY];
	uid_t uid; /* of this host's; (uid_t)-1: another's, or not known */
	bool local;
	uint32_t open;
	uint64_t known_until_ns; /* it had a right token; 0: never */
};

/* A connection, in http_server.connections while it is open: the newest first. */
struct http_connection {
	struct http_connection *next, **link;
	int fd;			  /* the client's */
	struct http_relay *relay; /* between it and libmicrohttpd's; NULL: none, it is the same */
	uint32_t slot, serial;
	bool told;			 /* the back knows it */
	struct http_peer *peer;		 /* NULL: shut, and not counted any more */
	uint64_t deadline_ns, answer_ns; /* answer_ns: since when it is answering */
	bool shut, answering;
};

struct http_server {
	struct http_front_config c;
	struct MHD_Daemon *daemon;
	int listen_fd, control;
	int channels[HTTP_THREADS + 1]; /* with TLS, that of handshakes is the last */
	pthread_mutex_t shakes;		/* that channel */
	struct http_tls *tls;		/* under lock; or NULL */
	uint32_t threads;		/* that have a channel; relaxed */
	int diag_fd;			/* netlink, under lock */
	uint32_t diag_seq;
	pthread_mutex_t lock; /* connections, peers, slots */
	pthread_cond_t wake;
	struct http_connection *connections;
	struct http_peer *peers;
	uint32_t *slots, slot_count; /* those that are free */
	uint32_t serial;	     /* of the last ASK; relaxed */

	/* relay.c; counts and lists under lock */
	struct http_relay *relays, *parked;
	pthread_cond_t relay_left;
	uint32_t relay_count, parked_count, parked_max, accepted;
	uid_t own_uid;

	uint32_t open;			 /* connections of peers; relaxed */
	uint32_t sockets;		 /* the same, and those being closed; relaxed */
	uint32_t refused[HTTP_REFUSALS]; /* not told yet; relaxed */
};

struct http_client_request {
	struct http_server *server;
	struct MHD_Connection *connection;
	struct http_connection *c; /* NULL: out of memory as it opened */
	bool seen;		   /* answer() was called once */
	bool bad_uri;		   /* holds a NUL */
	bool too_large;		   /* body over the limit */
	bool ambiguous;		   /* 400 */
	bool close;		   /* the connection, after the answer */
	unsigned char *body;
	size_t body_bytes, body_room, discarded;
	struct MHD_Response *response;
	unsigned int status;
};

/* ---- front.c ---- */

/* The front's process, which does not return. fds as for http_front_spawn(). */
__attribute__((noreturn)) void http_front_serve(const struct http_front_config *c, const int *fds,
						size_t n, bool unconfined);
/* This thread's channel. Without the back the front ends: sending and receiving do not fail. */
int http_front_channel(struct http_server *s);
void http_front_tell(struct http_server *s, enum http_message_type type, uint32_t slot,
		     uint32_t arg);
__attribute__((noreturn)) void http_front_gone(void);
/*
 * From threads that have no channel, with TLS: has the back sign; bytes, or -errno. Counts a
 * refusal, which the back learns at once.
 */
ssize_t http_front_sign(struct http_server *s, struct http_message ask, const void *data,
			unsigned char out[HTTP_SIGNATURE]);
void http_front_refused(struct http_server *s, enum http_refusal cause);
/* Says that connections cannot be accepted for want of these. */
void http_front_short_of(const char *what);

/* ---- body.c ---- */

/* Makes the response out of the HEAD that this thread's channel brings. */
void http_body_answer(struct http_client_request *req);

/* ---- relay.c: unix sockets ---- */

/* Accepts connections, and hands what they say to the daemon. 0 or an errno. */
int http_relay_start(struct http_server *s);
/*
 * With the lock held: of the connection that libmicrohttpd knows by fd, the client's descriptor,
 * which stays open until it leaves. NULL: the client has gone.
 */
struct http_relay *http_relay_enter(struct http_server *s, int fd, int *client);
void http_relay_leave(struct http_server *s, struct http_relay *r);
/* What TLS says of the client, but for .peer. *names stays as the relay does. */
struct http_message_open http_relay_who(const struct http_relay *r, const char **names);

/* ---- peer.c: with the lock held ---- */

/* Who is at the other end of a connection. */
void http_peer_identify(struct http_server *s, int fd, struct http_peer *p);
bool http_peer_same(const struct http_peer *a, const struct http_peer *b);
/* Without the lock: its address, for the log. */
void http_peer_print(int fd, char *out, size_t bytes);
/* Counts a new connection, which may end another one. False: there is no room for it. */
bool http_peer_enter(struct http_server *s, struct http_connection *c);
void http_peer_leave(struct http_server *s, struct http_connection *c);
/* The peer had a right token: it may use the reserve. */
/* Connections of the same peer that are being answered, with this one. */
uint32_t http_peer_answers(struct http_server *s, const struct http_connection *of);
void http_peer_known(struct http_connection *c);

#endif
