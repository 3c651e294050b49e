// SPDX-License-Identifier: Apache-2.0
/*
 * message.c - packs, checks, sends and receives messages. Both sides use this code, and neither
 * trusts the other.
 */
#include "http/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"

/* ---- strings ---- */

void http_message_put(struct http_message_text *t, char kind, const char *string)
{
	size_t n = strlen(string) + 1, head = kind != 0;

	if (t->failed || n > HTTP_MESSAGE_TEXT || t->bytes + head + n > HTTP_MESSAGE_TEXT ||
	    !base_grow(&t->s, &t->room, t->bytes + head + n, 1)) {
		t->failed = true;
		return;
	}
	if (kind)
		t->s[t->bytes++] = kind;
	memcpy(t->s + t->bytes, string, n);
	t->bytes += n;
}

/* Returns the string at *at, which must end before end, or NULL. */
static const char *take_string(const char **at, const char *end)
{
	const char *s = *at, *zero = *at < end ? memchr(s, 0, (size_t)(end - s)) : NULL;

	if (zero)
		*at = zero + 1;
	return zero ? s : NULL;
}

static bool take_field(const char **at, const char *end, bool kinds, struct http_message_field *f)
{
	if (kinds) {
		f->kind = *at < end ? *(*at)++ : 0;
		if (f->kind != HTTP_FIELD_HEADER && f->kind != HTTP_FIELD_QUERY &&
		    f->kind != HTTP_FIELD_BARE)
			return false;
	}
	f->name = take_string(at, end);
	f->value = f->name ? take_string(at, end) : NULL;
	return f->value;
}

/* *out is allocated with malloc(). */
static int take_fields(const char *at, const char *end, uint32_t count, bool kinds,
		       struct http_message_field **out)
{
	uint32_t n = 0;

	/* A field takes at least two bytes, so refuse a larger count before allocating memory. */
	if (count > HTTP_MESSAGE_FIELDS || count > (size_t)(end - at) / 2)
		return -EPROTO;
	*out = calloc(count + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	while (n < count && take_field(&at, end, kinds, &(*out)[n]))
		n++;
	if (n == count && at == end)
		return 0;
	free(*out);
	*out = NULL;
	return -EPROTO;
}

int http_message_ask_unpack(const void *payload, size_t bytes, size_t max_body,
			    struct http_message_request *out)
{
	struct http_message_ask head;
	const char *at = (const char *)payload + sizeof(head), *end;

	memset(out, 0, sizeof(*out));
	if (bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, payload, sizeof(head));
	bytes -= sizeof(head);
	if (head.text > HTTP_MESSAGE_TEXT || head.text > bytes || head.body > max_body ||
	    head.body != bytes - head.text)
		return -EPROTO;
	end = at + head.text;
	out->body = (const unsigned char *)end;
	out->body_bytes = head.body;
	out->field_count = head.fields;
	out->answers = head.answers;
	out->method = take_string(&at, end);
	out->path = out->method ? take_string(&at, end) : NULL;
	return out->path ? take_fields(at, end, head.fields, true, &out->fields) : -EPROTO;
}

int http_message_head_unpack(const void *payload, size_t bytes, struct http_message_answer *out)
{
	struct http_message_head *h = &out->head;
	const char *at = (const char *)payload + sizeof(*h);

	memset(out, 0, sizeof(*out));
	if (bytes < sizeof(*h))
		return -EPROTO;
	memcpy(h, payload, sizeof(*h));
	bytes -= sizeof(*h);
	if ((h->status && (h->status < 100 || h->status > 999)) || h->text > HTTP_MESSAGE_TEXT ||
	    h->text > bytes || bytes - h->text > HTTP_PIECE || bytes - h->text > h->total ||
	    (!(h->flags & HTTP_HEAD_MORE) && bytes - h->text != h->total))
		return -EPROTO;
	out->body = (const unsigned char *)at + h->text;
	out->body_bytes = bytes - h->text;
	return take_fields(at, at + h->text, h->fields, false, &out->fields);
}

/* ---- sockets ---- */

bool http_message_again(int error)
{
	if (error == ENOBUFS || error == ENOMEM)
		usleep(1000);
	return error == EINTR || error == ENOBUFS || error == ENOMEM;
}

static int send_parts(int fd, struct iovec *parts, size_t n)
{
	struct msghdr h = {.msg_iov = parts, .msg_iovlen = n};

	while (h.msg_iovlen) {
		ssize_t sent = sendmsg(fd, &h, MSG_NOSIGNAL);

		if (sent < 0 && http_message_again(errno))
			continue;
		if (sent < 0)
			return -errno;
		while (h.msg_iovlen && (size_t)sent >= h.msg_iov->iov_len) {
			sent -= (ssize_t)h.msg_iov->iov_len;
			h.msg_iov++;
			h.msg_iovlen--;
		}
		if (h.msg_iovlen) {
			h.msg_iov->iov_base = (char *)h.msg_iov->iov_base + sent;
			h.msg_iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

int http_message_send(int fd, struct http_message m, const void *head, size_t head_bytes,
		      const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	struct iovec parts[] = {{&m, sizeof(m)},
				{(void *)(uintptr_t)head, head_bytes},
				{(void *)(uintptr_t)a, a_bytes},
				{(void *)(uintptr_t)b, b_bytes}};

	return send_parts(fd, parts, sizeof(parts) / sizeof(*parts));
}

int http_message_give(int fd, const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	struct iovec parts[] = {{(void *)(uintptr_t)a, a_bytes}, {(void *)(uintptr_t)b, b_bytes}};

	return send_parts(fd, parts, 2);
}

int http_message_send_fds(int fd, const void *m, size_t bytes, const int *fds, size_t n)
{
	const struct iovec part = {(void *)(uintptr_t)m, bytes};
	int sent;

	do
		sent = base_send_fds(fd, &part, 1, fds, n, 0);
	while (sent < 0 && http_message_again(-sent));
	/* on a stream socket, the kernel sends this few bytes in one piece */
	return sent < 0 ? sent : (size_t)sent == bytes ? 0 : -EMSGSIZE;
}

int http_message_take(int fd, void *to, size_t bytes)
{
	char *at = to;

	while (bytes) {
		ssize_t n = recv(fd, at, bytes, MSG_WAITALL);

		if (n < 0 && http_message_again(errno))
			continue;
		if (n <= 0)
			return n ? -errno : -EPIPE;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int http_message_receive(int fd, struct http_message *m, int *passed)
{
	struct base_fds fds;
	ssize_t n;
	int err;

	if (!passed)
		return http_message_take(fd, m, sizeof(*m));
	*passed = -1;
	do
		n = base_receive_fds(fd, m, sizeof(*m), 0, &fds);
	while (n < 0 && http_message_again((int)-n));
	if (n < 0)
		return (int)n;
	err = n ? http_message_take(fd, (char *)m + n, sizeof(*m) - (size_t)n) : -EPIPE;
	if (!err && fds.count)
		*passed = fds.fd[--fds.count];
	while (fds.count)
		close(fds.fd[--fds.count]);
	return err;
}

void http_message_hang_up(int fd)
{
	for (int i = 0; i < 3 && shutdown(fd, SHUT_RDWR); i++)
		;
}
