/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h - TLS of the front: handshakes by what the back told it. The private key stays with the
 * back, which signs.
 */
#ifndef SL_HTTP_TLS_H
#define SL_HTTP_TLS_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/message.h"

struct http_server;
struct http_tls; /* counted references: handshakes outlast a change */

/* Out of the payload of a TLS message. NULL: it is malformed, or there is no memory. */
struct http_tls *http_tls_new(struct http_server *s, const void *payload, size_t bytes);
/* Under the server's lock. */
struct http_tls *http_tls_hold(struct http_tls *t);
void http_tls_drop(struct http_tls *t);

/* One connection. */
struct http_tls_session {
	struct http_tls *tls;
	gnutls_session_t session;
	struct http_message_open who; /* but for .peer */
	char *names;		      /* .who.names bytes, or NULL */
	bool certificate_refused;
	char why[160]; /* the handshake failed */
};

/* 0, or -errno with .why; the socket does not block. http_tls_end() in either case. */
int http_tls_shake(struct http_tls_session *c, int fd, uint64_t until_ns);
void http_tls_end(struct http_tls_session *c);
/* As recv(2) and send(2) without waiting: -1 with errno EAGAIN, or EIO for what breaks TLS. */
ssize_t http_tls_recv(struct http_tls_session *c, void *to, size_t bytes);
ssize_t http_tls_send(struct http_tls_session *c, const void *from, size_t bytes);
/* Bytes that were received already: the socket does not tell. */
bool http_tls_pending(const struct http_tls_session *c);

#endif
