// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/loader_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Appends a string. Returns false if it does not fit. */
static bool put_string(char *to, size_t *at, const char *s)
{
	size_t n = strlen(s) + 1;

	if (n > LOADER_FILTER - *at)
		return false;
	memcpy(to + *at, s, n);
	*at += n;
	return true;
}

static bool put_strings(char *to, size_t *at, const struct base_strings *s)
{
	bool room = s->n <= LOADER_STRINGS;

	for (size_t i = 0; i < s->n && room; i++)
		room = put_string(to, at, s->v[i]);
	return room;
}

ssize_t tcp_message_filter_pack(const struct tcp_filter *f, uint32_t serial, char to[LOADER_FILTER])
{
	struct tcp_message_set head = {
		.type = LOADER_SET,
		.serial = serial,
		.ports = (uint32_t)f->ports.n,
		.cidrs = (uint32_t)f->cidrs.n,
		.cgroups = (uint32_t)f->cgroups.n,
		.netns = f->netns != NULL,
		.pid = f->pid,
		.sample = f->sample,
	};
	size_t at = sizeof(head);

	if (!put_strings(to, &at, &f->ports) || !put_strings(to, &at, &f->cidrs) ||
	    !put_strings(to, &at, &f->cgroups) || (f->netns && !put_string(to, &at, f->netns)))
		return -E2BIG;
	head.bytes = (uint32_t)(at - sizeof(head));
	memcpy(to, &head, sizeof(head));
	return (ssize_t)at;
}

/* Reads the next n strings before end. Returns false if there are fewer. */
static bool read_strings(const char **at, const char *end, const char **to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *zero = memchr(*at, 0, (size_t)(end - *at));

		if (!zero)
			return false;
		to[i] = *at;
		*at = zero + 1;
	}
	return true;
}

int tcp_message_filter_unpack(const char *message, size_t bytes, struct tcp_message_filter *out,
			      uint32_t *serial)
{
	const char *at = message + sizeof(struct tcp_message_set), *end = message + bytes;
	struct tcp_filter *f = &out->filter;
	struct tcp_message_set head;

	memset(out, 0, sizeof(*out));
	if (bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, message, sizeof(head));
	*serial = head.serial;
	if (head.type != LOADER_SET || head.bytes != bytes - sizeof(head) || head.netns > 1 ||
	    head.ports > LOADER_STRINGS || head.cidrs > LOADER_STRINGS ||
	    head.cgroups > LOADER_STRINGS)
		return -EPROTO;
	f->pid = head.pid;
	f->sample = head.sample;
	f->ports = (struct base_strings){out->strings, head.ports};
	f->cidrs = (struct base_strings){f->ports.v + head.ports, head.cidrs};
	f->cgroups = (struct base_strings){f->cidrs.v + head.cidrs, head.cgroups};
	if (!read_strings(&at, end, f->ports.v, head.ports) ||
	    !read_strings(&at, end, f->cidrs.v, head.cidrs) ||
	    !read_strings(&at, end, f->cgroups.v, head.cgroups) ||
	    !read_strings(&at, end, &f->netns, head.netns) || at != end)
		return -EPROTO;
	return 0;
}

int tcp_message_send(int sock, const void *message, size_t bytes, const int *fds, size_t n)
{
	const struct iovec part = {(void *)message, bytes};
	int sent = base_send_fds(sock, &part, 1, fds, n, 0);

	return sent < 0 ? sent : (size_t)sent == bytes ? 0 : -EMSGSIZE;
}

ssize_t tcp_message_receive(int sock, void *to, size_t bytes, int flags, int fds[LOADER_FDS],
			    size_t *n)
{
	struct base_fds all;
	ssize_t got = base_receive_fds(sock, to, bytes, flags, &all);

	*n = 0;
	if (got >= 0 && !all.truncated && all.count <= LOADER_FDS) {
		*n = all.count;
		memcpy(fds, all.fd, *n * sizeof(*fds));
		return got;
	}
	while (all.count)
		close(all.fd[--all.count]);
	return got < 0 ? got : -EPROTO;
}
