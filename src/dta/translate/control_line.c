// SPDX-License-Identifier: Apache-2.0
/*
 * control_line.c - control channel messages, one per line of a stream socket, with file descriptors
 * or over TLS.
 */
#include "dta/translate/control.h"

#include "base/base.h"
#include "base/grow.h"
#include "base/json_read.h"
#include "base/network.h"
#include "base/psk.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define QUEUE_MAX  (8u << 20) /* maximum number of queued bytes that a peer has not read */
#define FDS_MAX	   16	      /* maximum number of descriptors of incomplete messages */
#define TLS_RECORD 0x16	      /* first byte of a TLS record; a JSON object never starts with it */

/* A queued message; its descriptor, if any, is sent with its first byte. */
struct waiting {
	struct waiting *next;
	size_t bytes, sent;
	int pass;
	char text[];
};

struct dta_control_line {
	int fd;
	size_t limit;
	struct base_psk *tls; /* NULL means no TLS */
	bool begun;	      /* the first byte has arrived, and it is not TLS */
	char *in;
	size_t used, room, looked; /* looked: the bytes before this position contain no newline */
	uint64_t offset;	   /* position of in[0] in the stream */
	struct {
		uint64_t at;
		int fd;
	} passed[FDS_MAX];
	size_t fds;
	bool ended;
	struct waiting *first, **last;
	size_t queued;
};

int dta_control_resolve(const char *where, struct dta_control_address *a, char *error,
			size_t error_bytes)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&a->to;
	struct addrinfo *found;
	const char *why;
	uint16_t port;

	*a = (struct dta_control_address){.bytes = sizeof(*un)};
	if (!strncmp(where, "unix:", 5) || strchr(where, '/')) {
		where += strncmp(where, "unix:", 5) ? 0 : 5;
		if (!*where || strlen(where) >= sizeof(un->sun_path))
			return base_fail(error, error_bytes, -EINVAL,
					 "'%s': a socket path must be 1 to %zu bytes long", where,
					 sizeof(un->sun_path) - 1);
		un->sun_family = AF_UNIX;
		strcpy(un->sun_path, where);
		return 0;
	}
	if (base_parse_address(where, a->host, sizeof(a->host), &port) || !port)
		return base_fail(error, error_bytes, -EINVAL, "'%s' must be unix:PATH or HOST:PORT",
				 where);
	if (!*a->host)
		strcpy(a->host, "localhost");
	snprintf(a->port, sizeof(a->port), "%u", port);
	why = base_resolve(where, "localhost", SOCK_STREAM, &found);
	if (why)
		return base_fail(error, error_bytes, -EINVAL, "%s: %s", a->host, why);
	memcpy(&a->to, found->ai_addr, found->ai_addrlen);
	a->bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

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
	base_psk_free(l->tls);
	close(l->fd);
	free(l->in);
	free(l);
}

int dta_control_line_fd(const struct dta_control_line *l)
{
	return l->fd;
}

int dta_control_line_pending(const struct dta_control_line *l)
{
	return l->tls && !base_psk_done(l->tls) ? base_psk_writes(l->tls) : l->first != NULL;
}

int dta_control_line_tls(struct dta_control_line *l, const void *secret, size_t bytes, bool server)
{
	static const struct base_psk_use use = {
		.identity = "sidelight-dta",
		.purpose = "sidelight dta control 3",
		.plain = '{',
	};

	l->tls = base_psk_new(l->fd, &use, secret, bytes, server);
	return l->tls ? 0 : -ENOMEM;
}

bool dta_control_line_proved(const struct dta_control_line *l)
{
	return l->tls && base_psk_done(l->tls);
}

uint64_t dta_control_number(const json_t *message, const char *key)
{
	const json_int_t v = json_integer_value(json_object_get(message, key));

	return v > 0 ? (uint64_t)v : 0;
}

void dta_control_why(const json_t *message, char *to, size_t bytes)
{
	const char *why = json_string_value(json_object_get(message, "why"));

	snprintf(to, bytes, "%s", why ?: json_string_value(json_object_get(message, "type")) ?: "");
	for (char *s = to; *s; s++)
		if (*s < ' ' || *s > '~')
			*s = '?';
}

/* ---- reading ---- */

/*
 * The kernel may join data with a descriptor to earlier data, but not to later data
 * (unix_stream_read_generic()). Each message is sent separately, so the descriptor belongs to the
 * message that contains the last byte.
 */
static void take_fds(struct dta_control_line *l, const struct base_fds *fds)
{
	for (unsigned int i = 0; i < fds->count; i++) {
		if (i || l->fds == FDS_MAX) { /* more than the protocol uses */
			close(fds->fd[i]);
			continue;
		}
		l->passed[l->fds].at = l->offset + l->used - 1;
		l->passed[l->fds++].fd = fds->fd[i];
	}
}

/* Whether the peer uses TLS although this side does not. */
static bool is_tls(struct dta_control_line *l)
{
	unsigned char first;

	if (l->begun || recv(l->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
		return false;
	l->begun = true;
	return first == TLS_RECORD;
}

static ssize_t receive_tls(struct dta_control_line *l)
{
	const int err = base_psk_handshake(l->tls);

	if (err != -EPROTONOSUPPORT)
		return err ? err : base_psk_read(l->tls, l->in + l->used, l->room - l->used);
	base_psk_free(l->tls); /* continue without TLS to send an error to the peer */
	l->tls = NULL;
	return err;
}

/* Reads available data. Returns false with errno if there is none. */
static bool fill_buffer(struct dta_control_line *l)
{
	struct base_fds fds = {0};
	ssize_t n;

	if (!base_grow(&l->in, &l->room, l->used + 4096, 1))
		return false;
	if (l->tls)
		n = receive_tls(l);
	else if (is_tls(l))
		n = -EPROTONOSUPPORT;
	else
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

/*
 * Returns the length of the first message including its newline, 0 if it is incomplete, or
 * -EMSGSIZE.
 */
static ssize_t first_message(struct dta_control_line *l)
{
	const char *end = l->used > l->looked ? memchr(l->in + l->looked, '\n', l->used - l->looked)
					      : NULL;

	l->looked = l->used;
	if (end)
		return end + 1 - l->in;
	return l->used >= l->limit ? -EMSGSIZE : 0;
}

/* Removes the first message, which has this length, from the buffer and parses it. */
static json_t *take_message(struct dta_control_line *l, size_t bytes, int *passed)
{
	json_t *j = base_json_read(l->in, bytes - 1, NULL);

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
	errno = EPROTO;
	return NULL;
}

json_t *dta_control_line_read(struct dta_control_line *l, int *passed)
{
	*passed = -1;
	for (;;) {
		const ssize_t bytes = first_message(l);

		if (bytes > 0)
			return take_message(l, (size_t)bytes, passed);
		if (bytes < 0) {
			errno = (int)-bytes;
			return NULL;
		}
		if (l->ended || !fill_buffer(l)) {
			if (l->ended)
				errno = EPIPE;
			else if (errno == EWOULDBLOCK || errno == ENOMEM)
				errno = EAGAIN;
			else if (errno != EAGAIN && errno != EMSGSIZE && errno != EPROTO &&
				 errno != EACCES && errno != EPROTONOSUPPORT)
				errno = EPIPE;
			return NULL;
		}
	}
}

/* ---- writing ---- */

static int send_some(struct dta_control_line *l, struct waiting *w)
{
	const struct iovec part = {w->text + w->sent, w->bytes - w->sent};
	const ssize_t n = l->tls ? base_psk_write(l->tls, part.iov_base, part.iov_len)
				 : base_send_fds(l->fd, &part, 1, &w->pass, w->pass >= 0, 0);

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
	/* dta_control_line_read() continues the handshake. */
	if (l->tls && !base_psk_done(l->tls))
		return 0;
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

	if (!bytes || bytes >= DTA_CONTROL_LINE_MAX || l->queued + bytes > QUEUE_MAX ||
	    !(w = malloc(sizeof(*w) + bytes + 1))) {
		json_decref(message);
		return -ENOBUFS;
	}
	json_dumpb(message, w->text, bytes, JSON_COMPACT);
	json_decref(message);
	w->text[bytes] = '\n';
	w->bytes = bytes + 1;
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
