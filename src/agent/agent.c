// SPDX-License-Identifier: Apache-2.0
/* agent.c - set-up and tear-down, and the event loop. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/internal.h"
#include "agent/peer.h"
#include "agent/region.h"
#include "agent/rest.h"
#include "agent/tenant.h"
#include "base/child.h"
#include "base/passed.h"

#define MS	   1000000ull
#define EVENTS_MAX 512

static void arm_timer(struct agent *a)
{
	uint64_t due = agent_timer_next_due(a);
	struct itimerspec when = {0};

	if (due == a->timer_due)
		return;
	a->timer_due = due;
	if (due != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(due / 1000000000);
		when.it_value.tv_nsec = (long)(due % 1000000000);
		if (!due)
			when.it_value.tv_nsec = 1;
	}
	timerfd_settime(a->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void agent_wake(struct agent *a)
{
	const uint64_t one = 1;

	if (a->wake_fd >= 0)
		(void)!write(a->wake_fd, &one, sizeof(one));
}

bool agent_tenant_consumes(const struct agent *a, const struct agent_tenant *t)
{
	for (size_t i = 0; i < a->o.consumer_count; i++)
		if (a->o.consumers[i] == t->id.uid)
			return true;
	return t->trusted;
}

/* ---- set-up and tear-down ---- */

void agent_bury(struct agent *a)
{
	struct agent_conn *c;
	struct agent_peer *p;

	while ((c = TAILQ_FIRST(&a->graveyard))) {
		TAILQ_REMOVE(&a->graveyard, c, link);
		free(c);
	}
	while ((p = TAILQ_FIRST(&a->peer_graveyard))) {
		TAILQ_REMOVE(&a->peer_graveyard, p, grave);
		agent_tenant_put(p->tenant);
		free(p);
	}
}

static void set_defaults(struct agent_opts *o)
{
	if (!o->socket || !*o->socket)
		o->socket = getenv(SL_SOCKET_ENV);
	if (!o->socket || !*o->socket)
		o->socket = SL_SOCKET_DEFAULT;
	if (o->publish_socket && !*o->publish_socket)
		o->publish_socket = NULL;
	if (o->consume_socket && !*o->consume_socket)
		o->consume_socket = NULL;
	o->socket_mode = o->socket_mode ?: 0666;
	/* Consumers are checked by uid; the mode only keeps other users from connecting. */
	o->consume_mode = o->consume_mode ?: o->consumer_count ? 0666 : 0600;
	o->lease_ns = o->lease_ns ?: 1000 * MS;
	o->max_regions = o->max_regions ?: 4096;
	o->max_region_size = o->max_region_size ?: 16u << 20;
	o->max_region_size = BASE_MIN(o->max_region_size, SL_REGION_SIZE_MAX);
	o->max_memory = o->max_memory ?: 1u << 30;
	o->rest_idle_ns = o->rest_idle_ns ?: 300000 * MS;
	o->rdma_settle_ns = o->rdma_settle_ns ?: 2000 * MS;
}

/*
 * Sets up everything except sockets, so that tests and fuzzers can call the agent's functions
 * directly.
 */
int agent_init(struct agent *a, const struct agent_opts *opts, char *error, size_t bytes)
{
	int err = -ENOMEM;

	memset(a, 0, sizeof(*a));
	a->o = *opts;
	set_defaults(&a->o);
	a->epoll_fd = a->timer_fd = a->wake_fd = a->spare_fd = -1;
	for (int i = 0; i < LISTENERS; i++)
		a->listen[i].fd = -1;
	a->dir.fd = -1;
	a->timer_due = UINT64_MAX;
	a->uid = geteuid();
	a->started_ns = base_realtime_ns();
	TAILQ_INIT(&a->conns);
	TAILQ_INIT(&a->graveyard);
	TAILQ_INIT(&a->peer_graveyard);
	agent_timer_init(a);
	agent_tenant_init(a);
	a->conn_max = a->o.max_regions + 256;
	a->fd_max = UINT32_MAX;
	pthread_mutex_init(&a->lock, NULL);

	a->slot_count = a->o.max_regions + 1 + (a->o.tcp ? KERNEL_REGIONS : 0);
	if (a->o.rdma) {
		a->slot_free_hint = AGENT_DIRECTORY_SLOT + 1;
		a->slot_count++;
	}
	if (gethostname(a->hostname, sizeof(a->hostname) - 1))
		strcpy(a->hostname, "localhost");
	a->host = a->o.host && *a->o.host ? a->o.host : a->hostname;
	a->listen[LISTEN_SOCKET].path = a->o.socket;
	a->listen[LISTEN_PUBLISH].path = a->o.publish_socket;
	if (asprintf(&a->consume_path, "%s%s", a->o.consume_socket ?: a->o.socket,
		     a->o.consume_socket ? "" : SL_SOCKET_CONSUME) < 0)
		a->consume_path = NULL;
	a->listen[LISTEN_CONSUME].path = a->consume_path;
	a->slots = calloc(a->slot_count, sizeof(*a->slots));
	if (!a->consume_path || !a->slots || !base_table_init(&a->proxies) ||
	    !base_table_init(&a->by_id) || !base_table_init(&a->by_instance)) {
		snprintf(error, bytes, "out of memory");
		goto err;
	}
	err = agent_directory_init(a, error, bytes);
err:
	if (err)
		agent_fini(a);
	return err;
}

void agent_fini(struct agent *a)
{
	struct agent_conn *c;

	while ((c = TAILQ_FIRST(&a->conns)))
		agent_conn_close(a, c);
	agent_rdma_stop(a);
	agent_tcp_fini(a);
	agent_self_fini(a);
	for (uint32_t i = 0; a->slots && i < a->slot_count; i++)
		if (a->slots[i])
			agent_region_free(a, a->slots[i]);
	agent_bury(a);
	agent_closer_fini(a);
	agent_rdma_fini(a);
	agent_directory_fini(a);
	pthread_mutex_destroy(&a->lock);
	base_table_free(&a->proxies);
	base_table_free(&a->by_instance);
	base_table_free(&a->by_id);
	free(a->slots);
	free(a->names);
	free(a->consume_path);
}

int agent_watch(struct agent *a, int fd, struct agent_source *s, enum agent_source_kind kind)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};

	s->kind = kind;
	if (a->epoll_fd < 0)
		return 0; /* an agent without a loop was created by a test */
	if (fd < 0)
		return errno ? -errno : -EBADF; /* if fd < 0, errno is the reason */
	return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

void agent_unwatch(struct agent *a, int fd)
{
	if (a->epoll_fd >= 0 && fd >= 0)
		epoll_ctl(a->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* Opens descriptors and sockets; accepts nothing yet. Returns 0 or -errno. */
static int open_all(struct agent *a, char *error, size_t bytes)
{
	int err;

	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (a->epoll_fd < 0)
		return base_fail(error, bytes, -errno, "epoll: %s", strerror(errno));
	a->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	a->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = agent_watch(a, a->timer_fd, &a->timer_source, SOURCE_TIMER);
	err = err ?: agent_watch(a, a->wake_fd, &a->wake_source, SOURCE_WAKE);
	if (err)
		return base_fail(error, bytes, err, "epoll: %s", strerror(-err));
	a->spare_fd = dup(a->wake_fd);
	for (int i = 0; !err && i < LISTENERS; i++)
		if (a->listen[i].path)
			err = agent_listen(&a->listen[i],
					   i == LISTEN_CONSUME ? a->o.consume_mode
							       : a->o.socket_mode,
					   error, bytes);
	return err;
}

/*
 * Raises the limit of descriptors and returns how many connections and regions may use. Threads
 * that close descriptors of clients get a quarter (closer.c), one packet brings up to 253, and
 * REST, RDMA and kernel tables need some, too.
 */
static uint64_t raise_descriptor_limit(void)
{
	const uint64_t others = BASE_FDS_MAX + 259;
	struct rlimit files;
	uint64_t room;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return 512;
	if (files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	room = files.rlim_cur - files.rlim_cur / 4;
	return room > others + 128 ? room - others : 128;
}

struct agent *agent_new(const struct agent_opts *opts, char *error, size_t bytes)
{
	struct agent *a = malloc(sizeof(*a));
	int err;

	if (!a) {
		snprintf(error, bytes, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	err = agent_init(a, opts, error, bytes);
	if (err) {
		free(a);
		errno = -err;
		return NULL;
	}
	err = agent_tcp_start(a, error, bytes);
	a->fd_max = raise_descriptor_limit();
	err = err ?: open_all(a, error, bytes);
	err = err ?: agent_rdma_init(a, error, bytes);
	err = err ?: agent_tcp_init(a, error, bytes);
	err = err ?: agent_self_init(a, error, bytes);
	if (err)
		goto err;
	agent_store_restore(a);
	for (int i = 0; !err && i < LISTENERS; i++)
		if (a->listen[i].path)
			err = agent_watch(a, a->listen[i].fd, &a->listen[i].source, SOURCE_LISTEN);
	if (err)
		snprintf(error, bytes, "epoll: %s", strerror(-err));
	err = err ?: agent_rest_init(a, error, bytes);
	err = err ?: base_passed_rest(error, bytes);
	if (!err)
		return a;
err:
	agent_free(a);
	errno = -err;
	return NULL;
}

void agent_free(struct agent *a)
{
	if (!a)
		return;
	agent_tcp_cancel(a);
	/* Its handlers use the rest of the agent, which is therefore freed later. */
	agent_rest_fini(a);
	for (int i = 0; i < LISTENERS; i++)
		agent_unlisten(&a->listen[i]);
	agent_fini(a);
	if (a->spare_fd >= 0)
		close(a->spare_fd);
	if (a->wake_fd >= 0)
		close(a->wake_fd);
	if (a->timer_fd >= 0)
		close(a->timer_fd);
	if (a->epoll_fd >= 0)
		close(a->epoll_fd);
	free(a);
}

const char *agent_socket(const struct agent *a)
{
	return a->listen[LISTEN_SOCKET].path;
}

const char *agent_consume_socket(const struct agent *a)
{
	return a->listen[LISTEN_CONSUME].path;
}

/* ---- the loop ---- */

/* Returns freed memory to the system: the allocator keeps the fragments left by many regions. */
static void trim_heap(struct agent *a)
{
	uint64_t freed = a->n.freed - a->trimmed;

	if (freed < 64 || freed < a->region_count)
		return;
	malloc_trim(0);
	a->trimmed = a->n.freed;
}

/*
 * A helper or a spawner has exited. REST and --tcp notice from their sockets that their own helpers
 * have exited.
 */
static void check_children(struct agent *a)
{
	struct signalfd_siginfo drain;

	while (read(a->o.children_fd, &drain, sizeof(drain)) == sizeof(drain))
		;
	base_children_check();
	if (a->o.bridges && base_child_has_ended(a->o.bridges))
		base_child_again(a->o.bridges, NULL);
}

int agent_run(struct agent *a, int stop_fd)
{
	struct epoll_event events[EVENTS_MAX];
	bool stop = false;
	uint64_t drain, seen = 0;
	int n = agent_watch(a, stop_fd, &a->stop_source, SOURCE_STOP);

	if (!n && a->o.children_fd)
		n = agent_watch(a, a->o.children_fd, &a->children_source, SOURCE_CHILDREN);
	if (n)
		return n;
	if (a->timers[TIMER_ALIVE].delay)
		agent_timer_start(a, TIMER_ALIVE, &a->alive);
	while (!stop) {
		pthread_mutex_lock(&a->lock);
		arm_timer(a);
		pthread_mutex_unlock(&a->lock);
		n = epoll_wait(a->epoll_fd, events, EVENTS_MAX, -1);
		if (n < 0 && errno != EINTR)
			return -errno;
		n = n < 0 ? 0 : n;
		pthread_mutex_lock(&a->lock);
		for (int i = 0; i < n; i++) {
			struct agent_source *s = events[i].data.ptr;

			switch (s->kind) {
			case SOURCE_LISTEN:
				agent_conn_accept(a, (struct agent_listener *)s);
				break;
			case SOURCE_CONN:
				agent_conn_event(a, (struct agent_conn *)s, events[i].events);
				break;
			case SOURCE_PEER:
				agent_peer_event(a, (struct agent_peer *)s);
				break;
			case SOURCE_TIMER:
				(void)!read(a->timer_fd, &drain, sizeof(drain));
				a->timer_due = UINT64_MAX;
				break;
			case SOURCE_WAKE:
				(void)!read(a->wake_fd, &drain, sizeof(drain));
				agent_conn_resume(a);
				break;
			case SOURCE_STOP:
				stop = true;
				break;
			case SOURCE_HOST:
				agent_rdma_event(a);
				break;
			case SOURCE_TCP:
				agent_tcp_event(a);
				break;
			case SOURCE_CHILDREN:
				check_children(a);
				break;
			}
		}
		agent_timer_expire(a, agent_now(a));
		agent_bury(a);
		trim_heap(a);
		agent_self_sync(a);
		/*
		 * epoll reports ready descriptors in rotation, so a turn ends once as many were
		 * reported as there are.
		 */
		seen += (uint64_t)n;
		if (n < EVENTS_MAX || seen > a->conn_count) {
			a->turn++;
			seen = 0;
		}
		pthread_mutex_unlock(&a->lock);
	}
	agent_unwatch(a, stop_fd);
	return 0;
}
