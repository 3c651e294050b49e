// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/loader_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char kinds[] = LOADER_KINDS;

/* Appends strings. Returns false if they do not fit. */
static bool put_strings(char *to, size_t *at, char kind, const struct base_strings *s)
{
	if (s->n > LOADER_STRINGS)
		return false;
	for (size_t i = 0; i < s->n; i++) {
		size_t n = strlen(s->v[i]) + 1;

		if (n >= LOADER_FILTER - *at)
			return false;
		to[(*at)++] = kind;
		memcpy(to + *at, s->v[i], n);
		*at += n;
	}
	return true;
}

ssize_t tcp_message_filter_pack(const struct tcp_filter *f, uint32_t serial, char to[LOADER_FILTER])
{
	struct tcp_message_set head = {
		.type = LOADER_SET, .serial = serial, .pid = f->pid, .sample = f->sample};
	const char *netns[] = {f->netns};
	const struct base_strings all[] = {f->ports, f->cidrs, f->cgroups, {netns, !!f->netns}};
	size_t at = sizeof(head);

	for (int i = 0; kinds[i]; i++)
		if (!put_strings(to, &at, kinds[i], &all[i]))
			return -E2BIG;
	head.bytes = (uint32_t)(at - sizeof(head));
	memcpy(to, &head, sizeof(head));
	return (ssize_t)at;
}

int tcp_message_filter_unpack(const char *message, size_t bytes, struct tcp_message_filter *out,
			      uint32_t *serial)
{
	const char *at = message + sizeof(struct tcp_message_set), *end = message + bytes;
	struct base_strings all[] = {{out->strings[0], 0},
				     {out->strings[1], 0},
				     {out->strings[2], 0},
				     {out->strings[3], 0}};
	struct tcp_message_set head;

	memset(out, 0, sizeof(*out));
	if (bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, message, sizeof(head));
	*serial = head.serial;
	if (head.type != LOADER_SET || head.bytes != bytes - sizeof(head))
		return -EPROTO;
	while (at < end) {
		const char *zero = memchr(at, 0, (size_t)(end - at));
		const char *kind = zero && *at ? strchr(kinds, *at) : NULL;
		struct base_strings *s = kind ? &all[kind - kinds] : NULL;

		if (!s || s->n == LOADER_STRINGS)
			return -EPROTO;
		s->v[s->n++] = at + 1;
		at = zero + 1;
	}
	out->filter = (struct tcp_filter){.ports = all[0],
					  .cidrs = all[1],
					  .cgroups = all[2],
					  .netns = all[3].n ? all[3].v[0] : NULL,
					  .pid = head.pid,
					  .sample = head.sample};
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
