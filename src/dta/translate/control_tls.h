/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_tls.h - TLS 1.3 (RFC 8446) with a pre-shared key for a control channel over TCP. In the
 * handshake, each side proves that it knows the secret. The connection's keys are derived from an
 * ephemeral key exchange, so that recorded connections can't be decrypted with a secret that leaks
 * later. Tickets and early data are not used, so nothing can be replayed.
 *
 * Non-blocking. The caller keeps the socket.
 */
#ifndef SL_DTA_TRANSLATE_CONTROL_TLS_H
#define SL_DTA_TRANSLATE_CONTROL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct dta_control_tls;

/* Returns NULL if out of memory. Stores only a key derived from the secret. */
struct dta_control_tls *dta_control_tls_new(int fd, const void *secret, size_t bytes, bool server);
/* Closes the TLS stream, so that the peer can tell that nothing is missing. */
void dta_control_tls_free(struct dta_control_tls *t);
/*
 * Continues the handshake; has no effect once it is complete. Returns 0, -EAGAIN, -EPIPE (closed),
 * -EMSGSIZE (longer than any handshake), -EPROTONOSUPPORT (the peer sends JSON), -EACCES (the peer
 * has a different secret) or -EPROTO (any other error).
 */
int dta_control_tls_handshake(struct dta_control_tls *t);
/* Whether the handshake is complete and the peer has proved that it knows the secret. */
bool dta_control_tls_done(const struct dta_control_tls *t);
/* Whether the handshake is waiting to write. */
bool dta_control_tls_writes(const struct dta_control_tls *t);
/*
 * Returns the number of bytes, 0 at the end, -EAGAIN, -EPIPE (truncated stream) or -EPROTO
 * (modified data, or not TLS).
 */
ssize_t dta_control_tls_read(struct dta_control_tls *t, void *to, size_t room);
/* Returns the number of bytes accepted, -EAGAIN (repeat the same call later) or -EPIPE. */
ssize_t dta_control_tls_write(struct dta_control_tls *t, const void *from, size_t bytes);

#endif
