/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h - TLS in the front: handshakes with the settings received from the back. The private key
 * stays in the back, which signs. In builds without GnuTLS, tls_none.c replaces tls.c, users.c,
 * web.c and guard.c.
 */
#ifndef SL_HTTP_TLS_H
#define SL_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "http/message.h"

struct gnutls_session_int; /* gnutls_session_t points to it */
struct http_server;
struct http_tls; /* reference-counted, because a handshake may outlast a change of settings */

/*
 * Builds the settings from the payload of a TLS message. Returns NULL if malformed or out of
 * memory.
 */
struct http_tls *http_tls_new(struct http_server *s, const void *payload, size_t bytes);
/* The caller of these functions holds the server's lock. */
struct http_tls *http_tls_hold(struct http_tls *t);
void http_tls_drop(struct http_tls *t);

/* One connection. */
struct http_tls_session {
	struct http_tls *tls;
	struct gnutls_session_int *session;
	struct http_message_open who; /* everything except .peer */
	char *names;		      /* who.names bytes of names, or NULL */
	bool certificate_refused;
	char why[160]; /* reason if the handshake failed */
};

/*
 * Performs the handshake on a non-blocking socket. Returns 0, or -errno with .why. Call
 * http_tls_end() in either case.
 */
int http_tls_shake(struct http_tls_session *c, int fd, uint64_t until_ns);
void http_tls_end(struct http_tls_session *c);
/*
 * Like recv(2) and send(2), but never wait. They return -1 with errno EAGAIN, or EIO if the peer
 * violates TLS.
 */
ssize_t http_tls_recv(struct http_tls_session *c, void *to, size_t bytes);
ssize_t http_tls_send(struct http_tls_session *c, const void *from, size_t bytes);
/* Whether received bytes are buffered. The socket does not become readable for these. */
bool http_tls_pending(const struct http_tls_session *c);
/* Tells the peer that no more data will follow. */
void http_tls_bye(struct http_tls_session *c);

#endif
