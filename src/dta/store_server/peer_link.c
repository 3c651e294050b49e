// SPDX-License-Identifier: Apache-2.0
/*
 * peer_link.c - the control channel to a peer whose stores this collector reads: through the peer's
 * unix socket with file descriptors, or over TCP and TLS with the addresses of registered memory.
 */
#include "dta/store_server/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "dta/store/guard.h"
#include "dta/translate/control.h"

bool dta_peer_is_far(const char *where)
{
	return where && !strchr(where, '/');
}

void dta_peer_close(struct dta_peer *p)
{
	dta_peer_disconnect(p);
	for (uint32_t i = 0; i < p->stores; i++) {
		struct dta_peer_store *s = &p->at[i];

		if (s->object)
			dta_guard_remove(s->object->view.map);
		dta_store_object_free(s->object, false);
		free(s->head);
	}
	free(p->at);
	dta_control_line_free(p->line);
}

static void add_mapped(struct dta_peer *p, uint64_t number, int fd)
{
	char error[160];
	struct dta_store_object *at = dta_store_object_open_fd(fd, error, sizeof(error));

	if (!at) {
		base_logf(BASE_WARN, "dta", "ignoring one of the peer's stores: %s", error);
		return;
	}
	dta_guard_add(at->view.map, at->map_bytes, at->fd, -1);
	p->at[p->stores++] =
		(struct dta_peer_store){.number = number, .object = at, .view = at->view};
}

static void add_object(struct dta_peer *p, const json_t *m, int fd, bool far)
{
	const uint64_t number = dta_control_number(m, "number");
	const struct fabric_remote at = {
		.id = number,
		.addr = dta_control_number(m, "addr"),
		.length = dta_control_number(m, "bytes"),
		.rkey = (uint32_t)dta_control_number(m, "rkey"),
	};

	if (p->stores == DTA_STORES_MAX)
		return;
	if (far)
		p->at[p->stores++] = (struct dta_peer_store){.number = number, .far = at};
	else if (fd >= 0)
		add_mapped(p, number, fd);
}

static const char *why_unreadable(int err)
{
	switch (err) {
	case EACCES:
		return "it has a different secret";
	case EPROTONOSUPPORT:
		return "it does not use TLS: set a secret in its stores file";
	case EPIPE:
		return "it closed the connection";
	default:
		return strerror(err);
	}
}

/* Reads messages until the peer is ready. Returns NULL on success, or an error message. */
static const char *listen_to(struct dta_peer *p, bool far, uint16_t *port)
{
	const uint64_t end = base_now_ns() + DTA_PEER_NS;

	while (base_now_ns() < end) {
		struct pollfd wait = {dta_control_line_fd(p->line), POLLIN, 0};
		int fd = -1;
		json_t *m = dta_control_line_read(p->line, &fd);
		const int err = m ? 0 : errno;
		const char *type = json_string_value(json_object_get(m, "type")) ?: "";
		const bool ready = !strcmp(type, "ready"), refuses = !strcmp(type, "error");

		if (err == EAGAIN) {
			if (dta_control_line_pending(p->line)) {
				wait.events |= POLLOUT;
				dta_control_line_flush(p->line);
			}
			poll(&wait, 1, 100);
		}
		if (!strcmp(type, "object"))
			add_object(p, m, fd, far);
		if (fd >= 0)
			close(fd);
		if (ready) {
			p->complete = json_is_true(json_object_get(m, "complete"));
			*port = (uint16_t)json_integer_value(json_object_get(m, "port"));
		}
		if (refuses)
			dta_control_why(m, p->why, sizeof(p->why));
		json_decref(m);
		if (err && err != EAGAIN)
			return why_unreadable(err);
		if (refuses)
			return p->why;
		if (ready)
			return NULL;
	}
	return "it does not respond";
}

/* Returns a connected socket, or -1 with errno. */
static int connect_within(const struct sockaddr *to, socklen_t bytes)
{
	const int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd wait = {fd, POLLOUT, 0};
	socklen_t length = sizeof(int);
	int err = 0;

	if (fd < 0)
		return -1;
	if (connect(fd, to, bytes))
		err = errno;
	if (err == EINPROGRESS) {
		err = ETIMEDOUT;
		if (poll(&wait, 1, DTA_PEER_NS / 1000000) == 1)
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length);
	}
	if (!err)
		return fd;
	close(fd);
	errno = err;
	return -1;
}

static const char *open_line(const struct dta_stores_config *c, struct dta_peer *p,
			     struct dta_control_address *a)
{
	const bool far = dta_peer_is_far(c->peer);
	int fd;

	if (dta_control_resolve(c->peer, a, p->why, sizeof(p->why)))
		return p->why;
	fd = connect_within((struct sockaddr *)&a->to, a->bytes);
	if (fd < 0)
		return strerror(errno);
	p->line = dta_control_line_new(fd);
	if (!p->line)
		close(fd);
	p->at = calloc(DTA_STORES_MAX, sizeof(*p->at));
	if (!p->line || !p->at ||
	    (far && dta_control_line_tls(p->line, c->secret, c->secret_bytes, false)))
		return "out of memory";
	dta_control_line_write(p->line,
			       json_pack("{s:s,s:i,s:s,s:s,s:b}", "type", "hello", "version",
					 DTA_CONTROL_VERSION, "name", "peer", "output",
					 far ? "verbs" : "shm", "reads", 1),
			       -1);
	return NULL;
}

const char *dta_peer_open(const struct dta_stores_config *config, struct dta_peer *p)
{
	const bool far = dta_peer_is_far(config->peer);
	static __thread char said[sizeof(p->why)];
	struct dta_control_address address;
	uint16_t port = 0;
	const char *why;

	*p = (struct dta_peer){0};
	why = open_line(config, p, &address);
	why = why ?: listen_to(p, far, &port);
	if (!why && far)
		why = dta_peer_connect(p, config, address.host, port);
	if (!why)
		return NULL;
	snprintf(said, sizeof(said), "%s", why);
	dta_peer_close(p);
	return said;
}
