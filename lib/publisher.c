// SPDX-License-Identifier: Apache-2.0
/* publisher.c - publishers: open, close, fork; the lock, and the library's descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"
#include "span.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_error;

/* ---- the lock, and fork ---- */

void sl__lock(struct sl__guard *guard)
{
	sigset_t all;

	guard->error = errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &guard->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard->cancel);
	pthread_mutex_lock(&mutex);
}

void sl__unlock(const struct sl__guard *guard)
{
	pthread_mutex_unlock(&mutex);
	pthread_setcancelstate(guard->cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &guard->signals, NULL);
	errno = guard->error;
}

/*
 * fork() runs under the lock, so the child finds consistent state. Signals stay blocked: no handler
 * of the child counts into the parent's stripe before fork_child() detaches the child from it.
 */
static struct sl__guard fork_guard;

static void fork_prepare(void)
{
	struct sl__guard guard;

	sl__lock(&guard);
	fork_guard = guard;
}

static void fork_parent(void)
{
	struct sl__guard guard = fork_guard;

	sl__unlock(&guard);
}

/*
 * Cheap, as most children call exec: only closes descriptors (an open socket in the child would
 * hide the parent's death from the agent), and leaves the rest to the first use, see sl__revive().
 */
static void fork_child(void)
{
	struct sl__guard guard = fork_guard;

	sl__threads_forked();
	for (unsigned int slot = 1; slot < SL_PUBLISHER_SLOTS; slot++) {
		struct sl__region *r = sl__slots[slot].region;

		if (!r)
			continue;
		sl__slots[slot].shared = 0;
		sl__slots[slot].free = 0;
		sl__slots[slot].epoch++;
		sl__slots[slot].rings = NULL;
		if (!r->publisher->forked)
			sl__attach_forked(r->publisher);
		r->publisher->forked = true;
		sl__fd_close(&r->memfd);
		r->orphan = true;
		r->revive_after_ns = 0;
	}
	sl__unlock(&guard); /* this thread is the child's copy of the one that took the lock */
}

static void init_library(void)
{
	once_error = sl__thread_key();
	if (!once_error)
		once_error = -pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/*
 * Registers the fork handlers when the library is loaded, before static objects are constructed:
 * fork() calls prepare handlers in reverse order of registration. A program may hold a lock of its
 * own while it calls this library, so its handler must take that lock before ours takes the
 * library's. Otherwise the two locks would be taken in both orders, and fork() could deadlock.
 */
__attribute__((constructor(101))) static void init_early(void)
{
	pthread_once(&once, init_library);
}

/* ---- descriptors ---- */

/*
 * Takes ownership of a new descriptor and moves it away from 0, 1 and 2, which a daemon may have
 * closed and will reuse. Returns 0 or -errno. fd < 0: the call that should have opened it failed.
 */
int sl__fd_take(struct sl__fd *to, int fd)
{
	int error = errno, up = fd;
	struct stat st;

	*to = SL__FD_NONE;
	if (fd < 0)
		return -error;
	to->fd = fd; /* set first: a forked child must find it in any case */
	if (fd <= 2) {
		up = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		error = errno;
		close(fd);
		*to = SL__FD_NONE;
		if (up < 0)
			return -error;
	}
	if (fstat(up, &st)) {
		error = errno;
		close(up);
		*to = SL__FD_NONE;
		return -error;
	}
	*to = (struct sl__fd){up, st.st_dev, st.st_ino};
	return 0;
}

bool sl__fd_ours(const struct sl__fd *fd)
{
	struct stat st;

	return fd->fd >= 0 && !fstat(fd->fd, &st) && st.st_dev == fd->dev && st.st_ino == fd->ino;
}

void sl__fd_close(struct sl__fd *fd)
{
	if (sl__fd_ours(fd))
		close(fd->fd);
	*fd = SL__FD_NONE;
}

/* ---- open and close ---- */

static const char *get_env(const char *name)
{
	const char *v = secure_getenv(name);

	return v && *v ? v : NULL;
}

static const char *first_given(const char *value, const char *otherwise)
{
	return value && *value ? value : otherwise;
}

#define PID_DIGITS  10u
#define POD_SERVICE 200u /* maximum length of a service's name that can be part of a pod's name */

void sl__labels_renew(struct sl_publisher *p)
{
	char *value = (char *)p->labels + p->pod_at, pid[PID_DIGITS + 2];
	size_t was, now, after;

	if (!p->pod_at)
		return;
	was = strlen(value + p->pod_service);
	now = (size_t)snprintf(pid, sizeof(pid), "-%u", (unsigned int)getpid());
	after = p->pod_at + p->pod_service + was;
	memmove(value + p->pod_service + now, p->labels + after, p->label_bytes - after);
	memcpy(value + p->pod_service, pid, now);
	p->label_bytes = (uint32_t)(p->label_bytes - was + now);
}

/*
 * Builds the default pod name if neither the caller nor the environment gives one: "SERVICE-PID"
 * with space for any PID.
 */
static const char *own_pod(const char *service, char pod[POD_SERVICE + PID_DIGITS + 2])
{
	snprintf(pod, POD_SERVICE + PID_DIGITS + 2, "%s-%0*u", service, (int)PID_DIGITS, 0u);
	return pod;
}

/* Returns the offset of the value of the label "pod". */
static uint32_t find_pod(const struct sl_publisher *p)
{
	const char *s = (const char *)p->labels;

	while (strcmp(s, "pod")) {
		s += strlen(s) + 1;
		s += strlen(s) + 1;
	}
	return (uint32_t)(s + 4 - (const char *)p->labels);
}

static int take_labels(struct sl_publisher *p, const struct sl_publisher_opts *o)
{
	struct sl_label labels[SL_LABELS_MAX];
	char host[256] = "", own[POD_SERVICE + PID_DIGITS + 2], id[SL__CONTAINER_ID + 1];
	const char *service = first_given(o->service, program_invocation_short_name);
	const char *pod = first_given(o->pod, get_env("POD_NAME"));
	size_t count = 0;
	bool renew = false;
	int error;

	if (o->label_count > SL_LABELS_MAX - 3 || (o->label_count && !o->labels))
		return -EINVAL;
	for (size_t i = 0; i < o->label_count; i++) {
		const char *key = o->labels[i].key;

		if (!key || !strcmp(key, "service") || !strcmp(key, "pod") ||
		    !strcmp(key, "namespace"))
			return -EINVAL;
		labels[count++] = o->labels[i];
	}
	if (!pod && sl__container_id(id)) {
		pod = id;
	} else if (!pod && (strlen(service) > POD_SERVICE || getpid() == 1 ||
			    get_env("KUBERNETES_SERVICE_HOST"))) {
		/*
		 * The container's ID is hidden, so use the host name: under Kubernetes it is the
		 * pod's name, whereas PIDs repeat in each replica.
		 */
		gethostname(host, sizeof(host) - 1);
		pod = host;
	} else if (!pod) {
		pod = own_pod(service, own);
		renew = true;
	}
	labels[count++] = (struct sl_label){"service", service};
	labels[count++] = (struct sl_label){"pod", pod};
	labels[count] = (struct sl_label){"namespace",
					  first_given(o->kube_namespace, get_env("POD_NAMESPACE"))};
	count += labels[count].value != NULL;
	error = sl__labels_encode(labels, count, NULL, false, &p->labels, &p->label_bytes);
	if (!error && p->label_bytes > SL_HEADER_LABELS_MAX)
		error = -EINVAL;
	if (!error && renew) {
		p->pod_at = find_pod(p);
		p->pod_service = (uint32_t)strlen(service);
	}
	return error;
}

static void publisher_free(struct sl_publisher *p)
{
	for (struct sl__region *r = p->regions, *next; r; r = next) {
		next = r->next;
		sl__region_free(r);
	}
	sl__tables_free(p);
	free(p->socket);
	free(p->labels);
	free(p);
}

struct sl_publisher *sl_publisher_open(const struct sl_publisher_opts *opts)
{
	struct sl_publisher_opts o = {0};
	struct sl__guard guard;
	struct sl_publisher *p;
	const char *path;
	int error, unattended = 0;

	if ((opts && (!SL__HAS(opts, sz) || !sl__opts_take(&o, sizeof(o), opts))) ||
	    o.flags & ~(SL_PUBLISHER_DETACHED | SL_PUBLISHER_EDGE | SL_PUBLISHER_FIXED |
			SL_PUBLISHER_ORIGIN)) {
		errno = EINVAL;
		return NULL;
	}
	pthread_once(&once, init_library);
	if (once_error) {
		errno = -once_error;
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->sock = p->wake[0] = p->wake[1] = SL__FD_NONE;
	p->flags = o.flags;
	error = take_labels(p, &o);
	if (error)
		goto err_free;
	if (o.span_bytes)
		sl__clock_start();
	path = first_given(o.socket, get_env(SL_SOCKET_ENV) ?: SL_SOCKET_DEFAULT);
	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		error = -EINVAL;
		goto err_free;
	}
	p->socket = strdup(path);
	if (!p->socket) {
		error = -ENOMEM;
		goto err_free;
	}

	sl__lock(&guard);
	if (sl__region_new(p, &o, &error))
		unattended = sl__attach_start(p);
	sl__unlock(&guard);
	if (error)
		goto err_free;
	if (unattended)
		sl__log(SL_LOG_WARN,
			"sidelight: cannot start the attach thread: an agent that starts later "
			"will not see this region socket=%s error=\"%s\"",
			path, strerror(-unattended));
	return p;

err_free:
	publisher_free(p);
	errno = -error;
	return NULL;
}

void sl_publisher_close(struct sl_publisher *p)
{
	struct sl__guard guard;
	bool ended = true;

	if (!p)
		return;
	for (struct sl__region *r = p->regions; r; r = r->next)
		if (!r->orphan)
			sl__plain_add((uintptr_t)r->base + SL_HEADER_SIZE + SL_HOT_STATE * 8,
				      (uint64_t)SL_STATE_CLOSED - SL_STATE_LIVE);
	if (!p->forked)
		ended = sl__attach_stop(p);
	sl__lock(&guard);
	for (struct sl__region *r = p->regions; r; r = r->next)
		sl__region_close(r);
	sl__unlock(&guard);
	if (ended)
		publisher_free(p);
}

/* ---- state ---- */

const char *sl_version(void)
{
	return SL_VERSION_STRING;
}

bool sl_publisher_attached(const struct sl_publisher *p)
{
	/* Relaxed: no other memory depends on this flag. */
	return p && atomic_load_explicit(&p->attached, memory_order_relaxed);
}

int sl_publisher_fd(const struct sl_publisher *p)
{
	if (!p)
		return -1;
	sl__shared(p->regions->slot); /* may be the first use in a forked child */
	return p->regions->memfd.fd;
}

size_t sl_publisher_fds(const struct sl_publisher *p, int *fds, size_t n)
{
	struct sl__guard guard;
	size_t count = 0;

	if (sl_publisher_fd(p) < 0)
		return 0;
	sl__lock(&guard);
	for (const struct sl__region *r = p->regions; r; r = r->next) {
		if (r->orphan)
			continue;
		if (count < n)
			fds[count] = r->memfd.fd;
		count++;
	}
	sl__unlock(&guard);
	return count;
}

void sl_publisher_set_time(struct sl_publisher *p, uint64_t time_ns)
{
	struct sl__guard guard;

	if (!p || !(p->flags & SL_PUBLISHER_ORIGIN))
		return;
	sl__lock(&guard);
	/* A reader that sees the new time and then copies the values must not find older ones. */
	atomic_thread_fence(memory_order_release);
	for (struct sl__region *r = p->regions; r; r = r->next)
		sl__hot_add(r, SL_HOT_CHANGED_NS, time_ns - p->time_ns);
	p->time_ns = time_ns;
	sl__unlock(&guard);
}

int sl_publisher_stats(const struct sl_publisher *p, struct sl_publisher_stats *stats)
{
	struct sl_publisher_stats now = {0};
	struct sl__guard guard;

	if (!p || !SL__HAS(stats, metrics))
		return -EINVAL;
	sl__lock(&guard);
	now.metrics = p->metric_count - p->string_count - p->removed_count;
	now.refused = atomic_load(&p->refused);
	for (const struct sl__region *r = p->regions; r; r = r->next) {
		uint32_t stripes = r->orphan ? 1 : atomic_load(&r->stripes_used);

		now.cells_used += r->cells_used;
		now.cells_max += r->max_cells;
		if (now.stripes_used < stripes)
			now.stripes_used = stripes;
		if (now.threads_sharing < atomic_load(&r->sharing))
			now.threads_sharing = atomic_load(&r->sharing);
	}
	now.stripes_max = p->regions->stripe_count;
	now.attaches = atomic_load(&p->attaches);
	now.regions = p->region_count;
	sl__unlock(&guard);
	sl__answer_give(stats, &now, sizeof(now));
	return 0;
}
