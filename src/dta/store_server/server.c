// SPDX-License-Identifier: Apache-2.0
/* server.c - the store server's lifetime, listeners and loop */
#include "dta/store_server/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/network.h"
#include "dta/query/layout.h"
#include "fabric/host.h"

void dta_store_server_wake(struct dta_store_server *o)
{
	const uint64_t one = 1;

	if (write(o->wake, &one, sizeof(one)) < 0)
		return; /* the loop is already awake */
}

struct dta_server_store *dta_store_server_store(struct dta_store_server *o, const char *name)
{
	for (size_t i = 0; i < o->store_count; i++)
		if (!strcmp(o->stores[i].spec->name, name))
			return &o->stores[i];
	return NULL;
}

struct dta_server_store *dta_store_server_store_number(struct dta_store_server *o, uint64_t tenant,
						       uint64_t number)
{
	for (size_t i = 0; i < o->store_count; i++)
		if (o->stores[i].spec->config.tenant == tenant &&
		    o->stores[i].spec->config.id == number)
			return &o->stores[i];
	return NULL;
}

const struct dta_server_conn *dta_store_server_of_lane(const struct dta_store_server *o,
						       uint32_t lane)
{
	const struct dta_server_conn *found = NULL;

	for (const struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->state == CONN_WELCOMED && c->lane == lane && (!found || c->line))
			found = c;
	return found;
}

/* ---- listening ---- */

/* *open: set to true if other hosts can reach the address */
static int listen_tcp(const char *where, char *name, size_t name_bytes, bool *open, char *error,
		      size_t bytes)
{
	struct addrinfo *info;
	const char *why = base_resolve(where, "127.0.0.1", SOCK_STREAM, &info);
	int fd, on = 1, receive = 65536;
	struct sockaddr_storage a;
	socklen_t length = sizeof(a);

	if (why)
		return base_fail(error, bytes, -1, "listen '%s': %s", where, why);
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		/* Connections inherit this setting; it limits what an unknown peer can queue. */
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive));
	}
	if (fd < 0 || bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&a, &length)) {
		snprintf(error, bytes, "listen '%s': %s", where, strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(info);
	if (fd < 0)
		return -1;
	base_print_address((struct sockaddr *)&a, name, name_bytes);
	*open = !base_is_loopback((struct sockaddr *)&a);
	return fd;
}

static int listen_all(struct dta_store_server *o, char *error, size_t bytes)
{
	const struct base_strings *l = &o->config->listen;

	if (l->n > LISTENERS_MAX)
		return base_fail(error, bytes, -EINVAL, "%s: more than %u addresses to listen on",
				 o->path, LISTENERS_MAX);
	for (size_t i = 0; i < l->n; i++) {
		struct dta_server_listener *to = &o->listener[i];
		const char *where = l->v[i];

		if (!strncmp(where, "unix:", 5))
			where += 5;
		to->local = strchr(where, '/') != NULL;
		if (to->local) {
			to->fd = base_listen_unix(where, SOCK_STREAM, 0660, error, bytes);
			snprintf(to->address, sizeof(to->address), "unix:%s", where);
			snprintf(to->unlink, sizeof(to->unlink), "%s", where);
		} else {
			to->fd = listen_tcp(where, to->address, sizeof(to->address), &to->open,
					    error, bytes);
		}
		if (to->fd < 0)
			return -EINVAL;
		o->listeners++;
		if (!to->local && !o->config->secret)
			base_logf(BASE_WARN, "dta",
				  "%s accepts any translator: set a secret in the stores file",
				  to->address);
	}
	return dta_store_server_check_open(o, o->config, error, bytes);
}

int dta_store_server_check_open(const struct dta_store_server *o,
				const struct dta_stores_config *config, char *error, size_t bytes)
{
	if (config->secret || config->insecure_listen)
		return 0;
	for (size_t i = 0; i < o->listeners; i++)
		if (o->listener[i].open)
			return base_fail(
				error, bytes, -EACCES,
				"%s: %s is reachable from other hosts, and translators are "
				"not authenticated: set secret, or insecure_listen: true",
				o->path, o->listener[i].address);
	return 0;
}

const char *dta_store_server_address(const struct dta_store_server *o, size_t i)
{
	return i < o->listeners ? o->listener[i].address : NULL;
}

/*
 * Accepts a connection, or returns -1. If no descriptor is free, the connection is rejected,
 * because a pending connection would wake the loop again and again.
 */
static int accept_one(struct dta_store_server *o, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
		return fd;
	if (o->spare >= 0)
		close(o->spare);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		close(fd);
		o->refused[DTA_CONN_CROWDED]++;
		base_log_limited(
			BASE_WARN, "dta",
			"connection rejected, out of file descriptors: raise LimitNOFILE of the collector");
	}
	o->spare = fcntl(o->wake, F_DUPFD_CLOEXEC, 0);
	return -1;
}

static bool is_stranger(const struct dta_server_conn *c)
{
	return c->line && c->state != CONN_WELCOMED;
}

static uint32_t strangers_of(const struct dta_store_server *o, const struct in6_addr *from)
{
	uint32_t n = 0;

	for (const struct dta_server_conn *c = o->conns; c; c = c->next)
		n += is_stranger(c) && (!from || !memcmp(&c->from, from, sizeof(*from)));
	return n;
}

/*
 * Makes room for one more stranger by dropping the oldest stranger of the address that has the
 * most. An address with few connections keeps them, and of an address with many, fast connections
 * are still admitted.
 */
static void crowd_out(struct dta_store_server *o)
{
	struct dta_server_conn *gone = NULL;
	uint32_t most = 0;

	if (strangers_of(o, NULL) < STRANGERS_MAX)
		return;
	/* The list is ordered newest first. */
	for (struct dta_server_conn *c = o->conns; c; c = c->next) {
		const uint32_t n = is_stranger(c) ? strangers_of(o, &c->from) : 0;

		if (n && n >= most) {
			most = n;
			gone = c;
		}
	}
	gone->why = DTA_CONN_CROWDED;
	dta_store_server_disconnect(o, gone, "too many connections have not sent a hello");
	dta_store_server_reap(o);
}

/* Records the peer's address, or its process and user ID. */
static void identify_peer(struct dta_server_conn *c, int fd)
{
	struct sockaddr_in6 at = {0};
	struct ucred peer = {0};
	socklen_t length = sizeof(peer), bytes = sizeof(at);
	uint16_t port;

	if (c->local && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length)) {
		c->pid = peer.pid;
		c->pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
		c->from = (struct in6_addr){.s6_addr32 = {peer.uid}};
	} else if (!c->local && !getpeername(fd, (struct sockaddr *)&at, &bytes)) {
		c->from = base_mapped_of(&at, &port);
	}
}

static void add_connection(struct dta_store_server *o, size_t i)
{
	int fd = accept_one(o, o->listener[i].fd);
	struct dta_server_conn *c;

	if (fd < 0)
		return;
	crowd_out(o);
	c = o->conn_count < CONNS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (c)
		c->line = dta_control_line_new(fd);
	if (!c || !c->line) {
		close(fd);
		goto fail;
	}
	dta_control_line_limit(c->line, DTA_CONTROL_FIRST_MAX);
	c->pidfd = -1;
	c->local = o->listener[i].local;
	if (!c->local)
		base_tcp_end_dead(fd); /* else it would keep its lane */
	c->secured = !c->local && o->config->secret;
	if (c->secured &&
	    dta_control_line_tls(c->line, o->config->secret, o->config->secret_bytes, true)) {
		dta_control_line_free(c->line);
		goto fail;
	}
	c->came_ns = base_now_ns();
	identify_peer(c, fd);
	c->next = o->conns;
	o->conns = c;
	o->conn_count++;
	return;
fail:
	o->refused[DTA_CONN_CROWDED]++;
	free(c);
}

/* ---- the loop ---- */

#define FDS_MAX (LISTENERS_MAX + 3 + 2 * CONNS_MAX)

static void serve_all(struct dta_store_server *o, uint64_t now)
{
	for (struct dta_server_conn *c = o->conns; c; c = c->next) {
		if (!c->line)
			continue;
		if (dta_control_line_flush(c->line) || !dta_store_server_serve(o, c))
			dta_store_server_disconnect(o, c, NULL);
		else if (c->state != CONN_WELCOMED && now > c->came_ns + HELLO_NS) {
			c->why = DTA_CONN_SILENT;
			dta_store_server_disconnect(o, c, "the client sent no hello within 5 s");
		}
	}
	dta_store_server_reap(o);
}

/* Reads all pending signals and reloads once. Errors are logged. */
static void read_reload(struct dta_store_server *o)
{
	struct signalfd_siginfo asked;
	char error[512];

	while (read(o->reload_fd, &asked, sizeof(asked)) == (ssize_t)sizeof(asked))
		;
	dta_store_server_reload(o, error, sizeof(error));
}

static void *run_loop(void *arg)
{
	static __thread struct pollfd fds[FDS_MAX];
	struct dta_store_server *o = arg;
	uint64_t count;

	pthread_mutex_lock(&o->lock);
	while (!o->stopping) {
		uint64_t now = base_now_ns(), reopen = dta_store_server_rdma_watch(o, now),
			 next = dta_store_server_epochs(o, now),
			 peer = dta_store_server_peer(o, now);
		nfds_t n = 0;
		int wait;

		fds[n++] = (struct pollfd){o->wake, POLLIN, 0};
		for (size_t i = 0; i < o->listeners; i++)
			fds[n++] = (struct pollfd){o->listener[i].fd, POLLIN, 0};
		for (struct dta_server_conn *c = o->conns; c; c = c->next) {
			if (c->line)
				fds[n++] = (struct pollfd){
					dta_control_line_fd(c->line),
					(short)(POLLIN |
						(dta_control_line_pending(c->line) ? POLLOUT : 0)),
					0};
			else if (c->pidfd >= 0)
				fds[n++] = (struct pollfd){c->pidfd, POLLIN, 0};
			if (c->line && c->state != CONN_WELCOMED && c->came_ns + HELLO_NS < next)
				next = c->came_ns + HELLO_NS + 1000000;
		}
		if (o->host)
			fds[n++] = (struct pollfd){fabric_host_fd(o->host), POLLIN, 0};
		fds[n++] = (struct pollfd){o->reload_fd, POLLIN, 0}; /* must be the last entry */
		next = BASE_MIN(next, reopen);
		next = BASE_MIN(next, peer);
		now = base_now_ns();
		wait = next == UINT64_MAX	     ? -1
		       : next <= now		     ? 0
		       : next - now > 60000000000ull ? 60000
						     : (int)((next - now + 999999) / 1000000);
		pthread_mutex_unlock(&o->lock);
		if (poll(fds, n, wait) > 0 && fds[n - 1].revents)
			read_reload(o);
		pthread_mutex_lock(&o->lock);
		if (fds[0].revents && read(o->wake, &count, sizeof(count)) < 0)
			count = 0;
		for (size_t i = 0; i < o->listeners; i++)
			if (fds[1 + i].revents)
				add_connection(o, i);
		dta_store_server_mend(o, fds[0].revents);
		if (o->host)
			fabric_host_dispatch(o->host);
		serve_all(o, base_now_ns());
	}
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

/* ---- lifetime ---- */

void dta_store_server_instance(struct dta_store_server *o)
{
	do
		if (getrandom(&o->instance, sizeof(o->instance), 0) == sizeof(o->instance))
			o->instance >>= 1; /* 63 bits, to fit into a JSON integer */
	while (!o->instance);
}

struct dta_store_server *dta_store_server_new(const char *path, char *error, size_t error_bytes)
{
	struct dta_store_server *o = calloc(1, sizeof(*o));

	if (!o || !(o->path = strdup(path))) {
		snprintf(error, error_bytes, "out of memory");
		free(o);
		return NULL;
	}
	pthread_mutex_init(&o->lock, NULL);
	pthread_mutex_init(&o->maps, NULL);
	pthread_mutex_init(&o->measuring, NULL);
	o->reload_fd = -1;
	o->began_ns = base_realtime_ns();
	o->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	o->spare = fcntl(o->wake, F_DUPFD_CLOEXEC, 0);
	dta_store_server_instance(o);
	o->config = dta_stores_read(path, error, error_bytes);
	if (!o->config)
		goto fail;
	o->stores = calloc(o->config->store_count + 1, sizeof(*o->stores));
	if (!o->stores || o->wake < 0) {
		snprintf(error, error_bytes, "out of memory");
		goto fail;
	}
	o->lanes = SL_STORE_LANES_MAX;
	for (size_t i = 0; i < o->config->store_count; i++) {
		const struct sl_store_config *c = &o->config->stores[i].config;

		o->stores[i].spec = &o->config->stores[i];
		if (!dta_layout_fits(o->stores[i].spec->layout, c, error, error_bytes))
			goto fail;
		o->store_count++;
		if ((c->kind == SL_STORE_APPEND || c->kind == SL_STORE_SKETCH) &&
		    c->lanes < o->lanes)
			o->lanes = c->lanes;
		if (dta_store_server_store_open(o, &o->stores[i], error, error_bytes))
			goto fail;
	}
	if (listen_all(o, error, error_bytes))
		goto fail;
	return o;
fail:
	dta_store_server_free(o);
	return NULL;
}

void dta_store_server_reload_on(struct dta_store_server *o, int fd)
{
	o->reload_fd = fd;
}

int dta_store_server_start(struct dta_store_server *o, char *error, size_t error_bytes)
{
	int err;

	if (dta_store_server_rdma_open(o, error, error_bytes))
		return -EIO;
	dta_store_server_peer_lists(o);
	err = pthread_create(&o->thread, NULL, run_loop, o);
	o->started = !err;
	if (err)
		snprintf(error, error_bytes, "thread: %s", strerror(err));
	return -err;
}

void dta_store_server_free(struct dta_store_server *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->stopping = true;
	dta_store_server_wake(o);
	pthread_mutex_unlock(&o->lock);
	if (o->started)
		pthread_join(o->thread, NULL);
	while (o->conns) {
		struct dta_server_conn *c = o->conns;

		o->conns = c->next;
		if (c->line)
			dta_store_server_disconnect(o, c, "the collector is shutting down");
		if (c->pidfd >= 0)
			close(c->pidfd);
		free(c);
	}
	for (size_t i = 0; i < o->listeners; i++) {
		close(o->listener[i].fd);
		if (*o->listener[i].unlink)
			unlink(o->listener[i].unlink);
	}
	if (o->host)
		dta_store_server_end_queues(o, NULL);
	for (size_t i = 0; i < o->store_count; i++)
		while (o->stores[i].objects) {
			struct dta_store_object *old = o->stores[i].objects;

			o->stores[i].objects = old->older;
			if (old->head) {
				old->epochs.state = SL_STATE_CLOSED;
				dta_store_object_mend(old, &(bool){0});
			}
			dta_store_server_object_free(o, old, false);
		}
	dta_store_server_rdma_close(o);
	for (size_t i = 0; i < SL_STORE_LANES_MAX; i++)
		dta_store_server_forget(&o->known[i]);
	free(o->stores);
	dta_stores_config_free(o->config);
	if (o->spare >= 0)
		close(o->spare);
	if (o->wake >= 0)
		close(o->wake);
	pthread_mutex_destroy(&o->measuring);
	pthread_mutex_destroy(&o->maps);
	pthread_mutex_destroy(&o->lock);
	free(o->path);
	free(o);
}

const char *dta_store_server_name(const struct dta_store_server *o, size_t i)
{
	return i < o->store_count ? o->stores[i].spec->name : NULL;
}
