// SPDX-License-Identifier: Apache-2.0
/*
 * control_line.c - messages of the control channel, one per line of a stream socket, with
 * descriptors, or sealed
 */
#include "dta/translate/control.h"

#include "base/base.h"
#include "base/grow.h"
#include "base/json_read.h"
#include "dta/wire/endian.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nettle/chacha-poly1305.h>
#include <nettle/memops.h>

#define QUEUE_MAX (8u << 20) /* bytes that a peer may leave unread */
#define FDS_MAX	  16	     /* descriptors whose message is incomplete */
#define HEAD	  4u	     /* bytes before a sealed message */
#define TAG	  CHACHA_POLY1305_DIGEST_SIZE

/* A queued message; its first byte carries the descriptor, if there is one. */
struct waiting {
	struct waiting *next;
	size_t bytes, sent;
	int pass;
	char text[];
};

/* A direction's key, and the number of its next message. */
struct seal {
	struct chacha_poly1305_ctx cipher;
	uint64_t next;
};

struct dta_control_line {
	int fd;
	size_t limit;
	struct seal *seals; /* of what is sent, of what comes; NULL: lines */
	char *in;
	size_t used, room, looked; /* looked: no newline before it */
	uint64_t offset;	   /* of in[0] in the stream */
	struct {
		uint64_t at;
		int fd;
	} passed[FDS_MAX];
	size_t fds;
	bool ended;
	struct waiting *first, **last;
	size_t queued;
};

struct dta_control_line *dta_control_line_new(int fd)
{
	struct dta_control_line *l = calloc(1, sizeof(*l));
	int flags = fcntl(fd, F_GETFL);

	if (!l || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) {
		free(l);
		return NULL;
	}
	l->fd = fd;
	l->limit = DTA_CONTROL_LINE_MAX;
	l->last = &l->first;
	return l;
}

void dta_control_line_limit(struct dta_control_line *l, size_t bytes)
{
	l->limit = bytes;
}

static void waiting_free(struct waiting *w)
{
	if (w->pass >= 0)
		close(w->pass);
	free(w);
}

void dta_control_line_free(struct dta_control_line *l)
{
	if (!l)
		return;
	while (l->first) {
		struct waiting *w = l->first;

		l->first = w->next;
		waiting_free(w);
	}
	for (size_t i = 0; i < l->fds; i++)
		close(l->passed[i].fd);
	close(l->fd);
	if (l->seals)
		explicit_bzero(l->seals, 2 * sizeof(*l->seals));
	free(l->seals);
	free(l->in);
	free(l);
}

int dta_control_line_fd(const struct dta_control_line *l)
{
	return l->fd;
}

int dta_control_line_pending(const struct dta_control_line *l)
{
	return l->first != NULL;
}

/* ---- seals ---- */

int dta_control_line_seal(struct dta_control_line *l, const uint8_t *sent, const uint8_t *comes)
{
	if (!l->seals)
		l->seals = calloc(2, sizeof(*l->seals));
	if (!l->seals)
		return -ENOMEM;
	chacha_poly1305_set_key(&l->seals[0].cipher, sent);
	chacha_poly1305_set_key(&l->seals[1].cipher, comes);
	return 0;
}

/* Each message has a nonce of its own, and the next one: none can be left out or repeated. */
static void begin_message(struct seal *s, const uint8_t head[HEAD])
{
	uint8_t nonce[CHACHA_POLY1305_NONCE_SIZE] = {0};

	for (int i = 0; i < 8; i++)
		nonce[i] = (uint8_t)(s->next >> 8 * i);
	s->next++;
	chacha_poly1305_set_nonce(&s->cipher, nonce);
	chacha_poly1305_update(&s->cipher, HEAD, head);
}

/* Seals text, of room for HEAD more before it and TAG behind it. Returns the bytes in all. */
static size_t seal(struct seal *s, uint8_t *at, size_t bytes)
{
	dta_put32(at, (uint32_t)(bytes + TAG));
	begin_message(s, at);
	chacha_poly1305_encrypt(&s->cipher, bytes, at + HEAD, at + HEAD);
	chacha_poly1305_digest(&s->cipher, TAG, at + HEAD + bytes);
	return HEAD + bytes + TAG;
}

static bool unseal(struct seal *s, uint8_t *at, size_t bytes)
{
	uint8_t tag[TAG];

	begin_message(s, at);
	chacha_poly1305_decrypt(&s->cipher, bytes, at + HEAD, at + HEAD);
	chacha_poly1305_digest(&s->cipher, TAG, tag);
	return memeql_sec(tag, at + HEAD + bytes, TAG);
}

/* ---- reading ---- */

/*
 * The kernel may join earlier data to data with a descriptor, but no later data
 * (unix_stream_read_generic()): as each message is sent by itself, the descriptor belongs to the
 * message of the last byte.
 */
static void take_fds(struct dta_control_line *l, const struct base_fds *fds)
{
	for (unsigned int i = 0; i < fds->count; i++) {
		if (i || l->fds == FDS_MAX) { /* more than the protocol has */
			close(fds->fd[i]);
			continue;
		}
		l->passed[l->fds].at = l->offset + l->used - 1;
		l->passed[l->fds++].fd = fds->fd[i];
	}
}

/* Reads available data. False with errno: there is none. */
static bool fill(struct dta_control_line *l)
{
	struct base_fds fds;
	ssize_t n;

	if (!base_grow(&l->in, &l->room, l->used + 4096, 1))
		return false;
	n = base_receive_fds(l->fd, l->in + l->used, l->room - l->used, 0, &fds);
	if (n < 0) {
		errno = (int)-n;
		return false;
	}
	l->used += (size_t)n;
	take_fds(l, &fds);
	l->ended = !n;
	errno = EPIPE;
	return n > 0;
}

/* The bytes of the first message with all around it, 0: it is not complete; or -EMSGSIZE. */
static ssize_t first_message(struct dta_control_line *l)
{
	const char *end;
	size_t bytes;

	if (l->seals) {
		if (l->used < HEAD)
			return 0;
		bytes = dta_get32(l->in);
		if (bytes < TAG || bytes > l->limit)
			return -EMSGSIZE;
		return l->used < HEAD + bytes ? 0 : (ssize_t)(HEAD + bytes);
	}
	end = l->used > l->looked ? memchr(l->in + l->looked, '\n', l->used - l->looked) : NULL;
	l->looked = l->used;
	if (end)
		return end + 1 - l->in;
	return l->used >= l->limit ? -EMSGSIZE : 0;
}

static json_t *text_of(struct dta_control_line *l, size_t bytes)
{
	if (!l->seals)
		return base_json_read(l->in, bytes - 1, NULL);
	bytes -= HEAD + TAG;
	if (!unseal(&l->seals[1], (uint8_t *)l->in, bytes)) {
		errno = EBADMSG;
		return NULL;
	}
	return base_json_read(l->in + HEAD, bytes, NULL);
}

/* Takes the first message, of that many bytes, out of the buffer, as an object. */
static json_t *take(struct dta_control_line *l, size_t bytes, int *passed)
{
	json_t *j;
	int err;

	errno = EPROTO;
	j = text_of(l, bytes);
	err = errno == EBADMSG ? EBADMSG : EPROTO;
	l->used -= bytes;
	memmove(l->in, l->in + bytes, l->used);
	l->offset += bytes;
	l->looked = 0;
	while (l->fds && l->passed[0].at < l->offset) {
		if (*passed >= 0)
			close(*passed);
		*passed = l->passed[0].fd;
		memmove(l->passed, l->passed + 1, --l->fds * sizeof(*l->passed));
	}
	if (json_is_object(j))
		return j;
	json_decref(j);
	if (*passed >= 0)
		close(*passed);
	*passed = -1;
	errno = err;
	return NULL;
}

json_t *dta_control_line_read(struct dta_control_line *l, int *passed)
{
	*passed = -1;
	for (;;) {
		const ssize_t bytes = first_message(l);

		if (bytes > 0)
			return take(l, (size_t)bytes, passed);
		if (bytes < 0) {
			errno = (int)-bytes;
			return NULL;
		}
		if (l->ended || !fill(l)) {
			if (l->ended)
				errno = EPIPE;
			else if (errno == EWOULDBLOCK || errno == ENOMEM)
				errno = EAGAIN;
			else if (errno != EAGAIN)
				errno = EPIPE;
			return NULL;
		}
	}
}

/* ---- writing ---- */

static int send_some(struct dta_control_line *l, struct waiting *w)
{
	const struct iovec part = {w->text + w->sent, w->bytes - w->sent};
	int n = base_send_fds(l->fd, &part, 1, &w->pass, w->pass >= 0, 0);

	if (n < 0)
		return n == -EAGAIN || n == -EWOULDBLOCK ? -EAGAIN : -EPIPE;
	if (w->pass >= 0)
		close(w->pass);
	w->pass = -1;
	w->sent += (size_t)n;
	return 0;
}

int dta_control_line_flush(struct dta_control_line *l)
{
	while (l->first) {
		struct waiting *w = l->first;
		int err = send_some(l, w);

		if (err)
			return err == -EAGAIN ? 0 : err;
		if (w->sent < w->bytes)
			continue;
		l->queued -= w->bytes;
		l->first = w->next;
		if (!l->first)
			l->last = &l->first;
		waiting_free(w);
	}
	return 0;
}

int dta_control_line_write(struct dta_control_line *l, json_t *message, int pass)
{
	size_t bytes = json_dumpb(message, NULL, 0, JSON_COMPACT);
	struct waiting *w;

	if (!bytes || bytes >= DTA_CONTROL_LINE_MAX - TAG || l->queued + bytes > QUEUE_MAX ||
	    !(w = malloc(sizeof(*w) + HEAD + bytes + TAG))) {
		json_decref(message);
		return -ENOBUFS;
	}
	json_dumpb(message, w->text + (l->seals ? HEAD : 0), bytes, JSON_COMPACT);
	json_decref(message);
	w->text[bytes] = l->seals ? w->text[bytes] : '\n';
	w->bytes = l->seals ? seal(&l->seals[0], (uint8_t *)w->text, bytes) : bytes + 1;
	w->sent = 0;
	w->next = NULL;
	w->pass = -1;
	if (pass >= 0) {
		w->pass = fcntl(pass, F_DUPFD_CLOEXEC, 0);
		if (w->pass < 0) {
			free(w);
			return -ENOBUFS;
		}
	}
	*l->last = w;
	l->last = &w->next;
	l->queued += w->bytes;
	return dta_control_line_flush(l);
}
