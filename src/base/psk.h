/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psk.h - TLS 1.3 (RFC 8446) with a pre-shared key over TCP, for the control channel of src/dta and
 * for READs over TCP. In the handshake, each side proves that it knows the secret. The connection's
 * keys are derived from an ephemeral key exchange, so that recorded connections can't be decrypted
 * if the secret leaks later. Tickets and early data are not used, so nothing can be replayed.
 *
 * Non-blocking. The caller owns the socket.
 */
#ifndef SL_BASE_PSK_H
#define SL_BASE_PSK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct base_psk;

/* Each purpose has its own key derived from the secret: a proof for one is useless for another. */
struct base_psk_use {
	const char *identity, *purpose;
	char plain; /* first byte sent by a peer that does not use TLS */
};

/*
 * Returns NULL if out of memory. Stores only a key derived from the secret. use must outlive the
 * result.
 */
struct base_psk *base_psk_new(int fd, const struct base_psk_use *use, const void *secret,
			      size_t bytes, bool server);
/* Sends close_notify, so that the peer can tell a complete stream from a truncated one. */
void base_psk_free(struct base_psk *t);
/*
 * Continues the handshake; has no effect once it is complete. Returns 0, -EAGAIN, -EPIPE (closed),
 * -EMSGSIZE (longer than any handshake), -EPROTONOSUPPORT (the peer does not use TLS), -EACCES (the
 * peer has a different secret) or -EPROTO (any other error).
 */
int base_psk_handshake(struct base_psk *t);
/* Whether the handshake is complete and the peer has proved that it knows the secret. */
bool base_psk_done(const struct base_psk *t);
/* Whether the handshake is waiting to write. */
bool base_psk_writes(const struct base_psk *t);
/*
 * Returns the number of bytes, 0 at the end, -EAGAIN, -EPIPE (truncated stream) or -EPROTO
 * (modified data, or not TLS).
 */
ssize_t base_psk_read(struct base_psk *t, void *to, size_t room);
/* Returns the number of bytes accepted, -EAGAIN (repeat the same call later) or -EPIPE. */
ssize_t base_psk_write(struct base_psk *t, const void *from, size_t bytes);
/* While set, writes wait in the socket until they fill a segment (MSG_MORE). */
void base_psk_set_more(struct base_psk *t, bool more);

#endif
