// SPDX-License-Identifier: Apache-2.0
/* psk.c - TLS 1.3 with a pre-shared key, using GnuTLS */
#include "base/psk.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define KEY 32u
/*
 * Pre-shared key with ephemeral key exchange, and only ciphers with SHA-256, the hash used for the
 * key.
 */
#define PRIORITY                                                                                 \
	"NONE:+VERS-TLS1.3:+AES-128-GCM:+CHACHA20-POLY1305:+AEAD:+MAC-ALL:+SIGN-ALL:+COMP-NULL:" \
	"+ECDHE-PSK:+GROUP-X25519:+GROUP-SECP256R1"
/*
 * Larger than any handshake with the allowed ciphers and groups. GnuTLS checks its own limit only
 * after a message is complete, and an unauthenticated peer may announce a hello of 16 MiB.
 */
#define HANDSHAKE_MAX 4096u

struct base_psk {
	const struct base_psk_use *use;
	gnutls_session_t session;
	gnutls_psk_server_credentials_t server;
	gnutls_psk_client_credentials_t client;
	int fd;
	uint8_t key[KEY];
	size_t pulled; /* bytes read during the handshake */
	bool done, more;
	/* error that ended the stream, or 0; GnuTLS forgets an end of file within a record */
	int over;
};

static ssize_t pull_bytes(gnutls_transport_ptr_t arg, void *to, size_t room)
{
	struct base_psk *t = arg;
	const ssize_t n = recv(t->fd, to, room, 0);

	if (!n)
		t->over = -EPIPE;
	if (n <= 0 || t->done)
		return n;
	if (!t->pulled && *(const char *)to == t->use->plain) {
		t->over = -EPROTONOSUPPORT;
		errno = EIO;
		return -1;
	}
	t->pulled += (size_t)n;
	if (t->pulled <= HANDSHAKE_MAX)
		return n;
	t->over = -EMSGSIZE;
	errno = EIO;
	return -1;
}

static ssize_t push_bytes(gnutls_transport_ptr_t arg, const void *from, size_t bytes)
{
	const struct base_psk *t = arg;

	return send(t->fd, from, bytes, MSG_NOSIGNAL | (t->more ? MSG_MORE : 0));
}

static int key_of(gnutls_session_t session, const char *name, gnutls_datum_t *key)
{
	const struct base_psk *t = gnutls_session_get_ptr(session);

	if (strcmp(name, t->use->identity))
		return -1;
	key->data = gnutls_malloc(KEY);
	if (!key->data)
		return -1;
	key->size = KEY;
	memcpy(key->data, t->key, KEY);
	return 0;
}

static int give_key(struct base_psk *t, bool server)
{
	const gnutls_datum_t key = {t->key, KEY};

	if (server) {
		if (gnutls_psk_allocate_server_credentials(&t->server))
			return -1;
		gnutls_psk_set_server_credentials_function(t->server, key_of);
		return gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->server);
	}
	return gnutls_psk_allocate_client_credentials(&t->client) ||
	       gnutls_psk_set_client_credentials(t->client, t->use->identity, &key,
						 GNUTLS_PSK_KEY_RAW) ||
	       gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->client);
}

struct base_psk *base_psk_new(int fd, const struct base_psk_use *use, const void *secret,
			      size_t bytes, bool server)
{
	struct base_psk *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->use = use;
	if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, secret, bytes, use->purpose, strlen(use->purpose),
			     t->key) ||
	    gnutls_init(&t->session, (server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK |
					     GNUTLS_NO_TICKETS))
		goto fail;
	t->fd = fd;
	gnutls_session_set_ptr(t->session, t);
	if (give_key(t, server) || gnutls_priority_set_direct(t->session, PRIORITY, NULL))
		goto fail;
	/* the caller has its own timeout */
	gnutls_handshake_set_timeout(t->session, GNUTLS_INDEFINITE_TIMEOUT);
	gnutls_transport_set_ptr(t->session, t);
	gnutls_transport_set_pull_function(t->session, pull_bytes);
	gnutls_transport_set_push_function(t->session, push_bytes);
	return t;
fail:
	base_psk_free(t);
	return NULL;
}

void base_psk_free(struct base_psk *t)
{
	if (!t)
		return;
	if (t->done)
		gnutls_bye(t->session, GNUTLS_SHUT_WR);
	if (t->session)
		gnutls_deinit(t->session);
	if (t->server)
		gnutls_psk_free_server_credentials(t->server);
	if (t->client)
		gnutls_psk_free_client_credentials(t->client);
	explicit_bzero(t, sizeof(*t));
	free(t);
}

/*
 * Maps errors that have nothing to do with authentication, such as socket errors and non-fatal
 * alerts. Returns -EPROTO for all others.
 */
static int general_error(const struct base_psk *t, ssize_t err)
{
	if (t->over)
		return t->over;
	switch (err) {
	case GNUTLS_E_AGAIN:
	case GNUTLS_E_INTERRUPTED:
	case GNUTLS_E_WARNING_ALERT_RECEIVED:
		return -EAGAIN;
	case GNUTLS_E_PUSH_ERROR:
	case GNUTLS_E_PULL_ERROR:
	case GNUTLS_E_PREMATURE_TERMINATION:
		return -EPIPE;
	default:
		return -EPROTO;
	}
}

int base_psk_handshake(struct base_psk *t)
{
	int err;

	if (t->done)
		return 0;
	err = gnutls_handshake(t->session);
	t->done = !err;
	if (!err)
		return 0;
	if (general_error(t, err) != -EPROTO)
		return general_error(t, err);
	gnutls_alert_send_appropriate(t->session, err);
	/*
	 * With a different secret, the server rejects the binder, and the client receives an alert
	 * or a hello that does not select its key.
	 */
	return t->client || err == GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER ? -EACCES : -EPROTO;
}

bool base_psk_done(const struct base_psk *t)
{
	return t->done;
}

bool base_psk_writes(const struct base_psk *t)
{
	return !t->done && gnutls_record_get_direction(t->session);
}

ssize_t base_psk_read(struct base_psk *t, void *to, size_t room)
{
	const ssize_t n = gnutls_record_recv(t->session, to, room);

	return n < 0 ? general_error(t, n) : n;
}

ssize_t base_psk_write(struct base_psk *t, const void *from, size_t bytes)
{
	const ssize_t n = gnutls_record_send(t->session, from, bytes);

	return n >= 0 ? n : general_error(t, n) == -EAGAIN ? -EAGAIN : -EPIPE;
}

void base_psk_set_more(struct base_psk *t, bool more)
{
	t->more = more;
}
