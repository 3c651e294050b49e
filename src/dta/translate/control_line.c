// SPDX-License-Identifier: Apache-2.0
/*
 * control_line.c - messages of the control channel, one per line of a stream socket, with
 * descriptors
 */
#include "dta/translate/control.h"

#include "base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define QUEUE_MAX (8u << 20) /* bytes that a peer may leave unread */
#define FDS_MAX	  16	     /* descriptors whose message is incomplete */

/* A queued message; its first byte carries the descriptor, if there is one. */
struct waiting {
	struct waiting *next;
	size_t bytes, sent;
	int pass;
	char text[];
};

struct dta_control_line {
	int fd;
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
	l->last = &l->first;
	return l;
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

/* ---- reading ---- */

/*
 * The kernel may join earlier data to data with a descriptor, but no later data
 * (unix_stream_read_generic()): as each message is sent by itself, the descriptor belongs to the
 * message of the last byte.
 */
static void take_fds(struct dta_control_line *l, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (i || l->fds == FDS_MAX) { /* more than the protocol has */
				close(fd);
				continue;
			}
			l->passed[l->fds].at = l->offset + l->used - 1;
			l->passed[l->fds++].fd = fd;
		}
	}
}

/* Reads available data. False with errno: there is none. */
static bool fill(struct dta_control_line *l)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov;
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n;

	if (!base_grow(&l->in, &l->room, l->used + 4096, 1))
		return false;
	iov = (struct iovec){l->in + l->used, l->room - l->used};
	do
		n = recvmsg(l->fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return false;
	l->used += (size_t)n;
	take_fds(l, &m);
	l->ended = !n;
	errno = EPIPE;
	return n > 0;
}

/* Takes the line in[0, length) out of the buffer, as an object. */
static json_t *take(struct dta_control_line *l, size_t length, int *passed)
{
	json_t *j = json_loadb(l->in, length, JSON_REJECT_DUPLICATES, NULL);

	l->used -= length + 1;
	memmove(l->in, l->in + length + 1, l->used);
	l->offset += length + 1;
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
		char *end = l->used > l->looked
				    ? memchr(l->in + l->looked, '\n', l->used - l->looked)
				    : NULL;

		if (end)
			return take(l, (size_t)(end - l->in), passed);
		l->looked = l->used;
		if (l->used >= DTA_CONTROL_LINE_MAX) {
			errno = EPROTO;
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
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {w->text + w->sent, w->bytes - w->sent};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (w->pass >= 0) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &w->pass, sizeof(int));
	}
	do
		n = sendmsg(l->fd, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? -EAGAIN : -EPIPE;
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
