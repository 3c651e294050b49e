/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_tls.h - TLS 1.3 (RFC 8446) of a control channel over TCP, by a key that both sides share.
 * The handshake proves to each side that the other one has the secret, and an ephemeral exchange
 * makes the keys of the connection, so that a secret which leaks later opens no recorded one.
 * Neither tickets nor early data: nothing can be sent again.
 *
 * Non-blocking. The socket stays the caller's.
 */
#ifndef SL_DTA_TRANSLATE_CONTROL_TLS_H
#define SL_DTA_TRANSLATE_CONTROL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct dta_control_tls;

/* NULL: out of memory. Of the secret, only the key that is derived from it is kept. */
struct dta_control_tls *dta_control_tls_new(int fd, const void *secret, size_t bytes, bool server);
/* Ends the stream, so that the peer knows that nothing was cut off. */
void dta_control_tls_free(struct dta_control_tls *t);
/*
 * Goes on with the handshake; no effect once it is done. 0, or negative: EAGAIN, EPIPE (closed),
 * EMSGSIZE (longer than any handshake), EACCES (the peer has another secret), EPROTO (else).
 */
int dta_control_tls_handshake(struct dta_control_tls *t);
/* The handshake is done, and the peer has the secret. */
bool dta_control_tls_done(const struct dta_control_tls *t);
/* The handshake waits for room to write. */
bool dta_control_tls_writes(const struct dta_control_tls *t);
/* Bytes, 0 at the end; or negative: EAGAIN, EPIPE (cut off), EPROTO (changed, or not TLS). */
ssize_t dta_control_tls_read(struct dta_control_tls *t, void *to, size_t room);
/* Bytes taken; or negative: EAGAIN (repeat the same call later), EPIPE. */
ssize_t dta_control_tls_write(struct dta_control_tls *t, const void *from, size_t bytes);

#endif
