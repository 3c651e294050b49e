// SPDX-License-Identifier: Apache-2.0
/*
 * closer.c - closes descriptors whose close() may block.
 *
 * A client may send any descriptor. close() may call into the file system behind it, which may
 * never return if it is hostile (FUSE needs no privilege) or hangs (NFS). On a TCP socket with
 * SO_LINGER, close() waits for the peer; on a unix socket, it closes the descriptors in the queue.
 * Even setsockopt() waits for a lock that the sender may hold. The event loop therefore only closes
 * small memory files, which depend on no other process.
 *
 * All other descriptors are closed by threads, which also seal memory (memory.h explains why
 * sealing may block). Each tenant has a lane that one thread serves at a time, so a call that hangs
 * only delays descriptors of the same tenant. While a lane holds more than the tenant's share,
 * nothing is read from the tenant's sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/internal.h"
#include "agent/tenant.h"
#include "base/grow.h"
#include "base/thread.h"

#define THREADS_MAX 64u
#define STACK_BYTES (128u * 1024)
/* maximum number of packets; the kernel limits a queue only by bytes */
#define DRAIN_MAX   4096
#define INLINE_MAX  (1u << 20)	/* freeing more memory takes too long for the event loop */
#define PATIENCE_NS 1000000000u /* time allowed at exit for threads that may hang */

struct closer_job {
	int fd;
	enum closer_kind { CLOSER_SENT, CLOSER_CONNECTION, CLOSER_SEAL } kind;
};

struct closer_lane {
	uint64_t tenant; /* key of the tenant */
	struct closer_job *jobs;
	size_t count, room;
	bool busy; /* a thread is serving this lane */
	TAILQ_ENTRY(closer_lane) link;
};

struct agent_closer {
	pthread_mutex_t lock;
	pthread_cond_t work, ended;
	/* lanes that have jobs or are busy; the lane that has waited longest comes first */
	TAILQ_HEAD(, closer_lane) lanes;
	unsigned int threads, idle, refs;
	uint64_t waiting, capacity;
	int wake_fd; /* wakes the event loop to resume reading; -1 once the agent has stopped */
	bool stop;
};

/* ---- a thread ---- */

static void close_sent(int fd)
{
	const struct linger none = {0};

	/* Fails for everything except sockets. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

/*
 * Empty the queue: otherwise close() would close its descriptors, and a reset would hide the
 * agent's last answer.
 */
static void drain_socket(int sock)
{
	struct base_fds fds;
	char data[64];

	for (int i = 0; i < DRAIN_MAX; i++) {
		ssize_t n = base_receive_fds(sock, data, sizeof(data), MSG_DONTWAIT, &fds);

		for (unsigned int k = 0; k < fds.count; k++)
			close_sent(fds.fd[k]);
		/* A connection error is reported before packets that were sent earlier. */
		if (n != -ECONNRESET && (n < 0 || (n == 0 && !fds.count)))
			break;
	}
}

static void release_closer(struct agent_closer *c)
{
	bool last = !--c->refs;

	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	pthread_cond_destroy(&c->work);
	pthread_cond_destroy(&c->ended);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct closer_lane *next_lane(struct agent_closer *c)
{
	struct closer_lane *l;

	TAILQ_FOREACH(l, &c->lanes, link)
	if (!l->busy && l->count)
		return l;
	return NULL;
}

static void lane_put(struct agent_closer *c, struct closer_lane *l)
{
	const uint64_t one = 1;

	if (l->busy || l->count)
		return;
	TAILQ_REMOVE(&c->lanes, l, link);
	free(l->jobs);
	free(l);
	if (c->wake_fd >= 0)
		/* the tenant's connections may be read again */
		(void)!write(c->wake_fd, &one, sizeof(one));
}

static void wake_thread(struct agent_closer *c);

static void *run_thread(void *arg)
{
	struct agent_closer *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		struct closer_lane *l = next_lane(c);
		struct closer_job job;

		if (!l) {
			c->idle++;
			pthread_cond_wait(&c->work, &c->lock);
			c->idle--;
			continue;
		}
		/* Serve all other lanes before the next job of this one. */
		TAILQ_REMOVE(&c->lanes, l, link);
		TAILQ_INSERT_TAIL(&c->lanes, l, link);
		job = l->jobs[--l->count];
		l->busy = true;
		/* One signal may have been for two jobs, and this one may take forever. */
		if (next_lane(c))
			wake_thread(c);
		pthread_mutex_unlock(&c->lock);
		if (job.kind == CLOSER_CONNECTION)
			drain_socket(job.fd);
		else if (job.kind == CLOSER_SEAL)
			agent_seal(job.fd); /* F_GET_SEALS shows whether this succeeded */
		close_sent(job.fd);
		pthread_mutex_lock(&c->lock);
		l->busy = false;
		c->waiting--;
		lane_put(c, l);
	}
	c->threads--;
	pthread_cond_signal(&c->ended);
	release_closer(c);
	return NULL;
}

/* ---- called by the event loop ---- */

static bool start_closer(struct agent *a)
{
	struct agent_closer *c = calloc(1, sizeof(*c));
	struct rlimit files;

	if (!c)
		return false;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	base_cond_init(&c->ended);
	TAILQ_INIT(&c->lanes);
	c->refs = 1;
	c->wake_fd = a->wake_fd;
	c->capacity = 1024;
	if (!getrlimit(RLIMIT_NOFILE, &files))
		c->capacity = BASE_MIN((uint64_t)files.rlim_cur / 4, (uint64_t)1 << 16);
	a->closer = c;
	return true;
}

/* Must be called with the lock held. */
static struct closer_lane *lane_of(const struct agent_closer *c, uint64_t tenant)
{
	struct closer_lane *l;

	TAILQ_FOREACH(l, &c->lanes, link)
	if (l->tenant == tenant)
		break;
	return l;
}

/*
 * Must be called with the lock held. Provides a thread for waiting jobs, or lets them wait if none
 * can be created.
 */
static void wake_thread(struct agent_closer *c)
{
	if (c->idle) {
		pthread_cond_signal(&c->work);
		return;
	}
	/* A new thread needs the lock, so it sees these counters only after they are updated. */
	if (c->threads < THREADS_MAX && !base_thread_detach(run_thread, c, STACK_BYTES)) {
		c->refs++;
		c->threads++;
	}
}

static void put_job(struct agent *a, const struct agent_tenant *t, struct closer_job job)
{
	struct agent_closer *c;
	struct closer_lane *l;

	/* An agent without a loop was created by a test. */
	if (a->epoll_fd < 0 || (!a->closer && !start_closer(a))) {
		close(job.fd);
		return;
	}
	c = a->closer;
	pthread_mutex_lock(&c->lock);
	l = lane_of(c, t->key);
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (l) {
			l->tenant = t->key;
			TAILQ_INSERT_TAIL(&c->lanes, l, link);
		}
	}
	/* If out of memory, leave the descriptor open: a leak is better than a loop that hangs. */
	if (l && base_grow(&l->jobs, &l->room, l->count + 1, sizeof(*l->jobs))) {
		l->jobs[l->count++] = job;
		c->waiting++;
		a->n.closing++;
		if (!l->busy)
			wake_thread(c);
	} else {
		a->n.closing_lost++;
	}
	pthread_mutex_unlock(&c->lock);
}

bool agent_closer_may_take(struct agent *a, const struct agent_tenant *t)
{
	struct agent_closer *c = a->closer;
	struct closer_lane *l;
	bool may = true;

	if (!c)
		return true;
	pthread_mutex_lock(&c->lock);
	l = lane_of(c, t->key);
	if (l) {
		const struct base_share all = {c->capacity, c->waiting,
					       c->capacity / BASE_SHARE_RESERVE};

		may = base_share_may(&all, l->count, 1, false);
	}
	pthread_mutex_unlock(&c->lock);
	return may;
}

void agent_closer_close(struct agent *a, const struct agent_tenant *t, int fd)
{
	struct stat st;

	/* Only memory files have seals, and the kernel answers without calling a file system. */
	if (fcntl(fd, F_GET_SEALS) >= 0 && !fstat(fd, &st) && st.st_blocks <= INLINE_MAX / 512)
		close(fd);
	else
		agent_closer_later(a, t, fd);
}

void agent_closer_later(struct agent *a, const struct agent_tenant *t, int fd)
{
	put_job(a, t, (struct closer_job){.fd = fd, .kind = CLOSER_SENT});
}

void agent_closer_seal(struct agent *a, const struct agent_tenant *t, int fd)
{
	put_job(a, t, (struct closer_job){.fd = fd, .kind = CLOSER_SEAL});
}

void agent_closer_hang_up(struct agent *a, const struct agent_tenant *t, int sock)
{
	agent_unwatch(a, sock);
	shutdown(sock, SHUT_RDWR);
	put_job(a, t, (struct closer_job){.fd = sock, .kind = CLOSER_CONNECTION});
}

uint64_t agent_closer_waiting(const struct agent *a)
{
	uint64_t n = 0;

	if (a->closer) {
		pthread_mutex_lock(&a->closer->lock);
		n = a->closer->waiting;
		pthread_mutex_unlock(&a->closer->lock);
	}
	return n;
}

/* Descriptors that are still waiting are closed when the process exits. */
void agent_closer_fini(struct agent *a)
{
	struct agent_closer *c = a->closer;
	struct closer_lane *l, *next;
	uint64_t until = base_now_ns() + PATIENCE_NS;

	if (!c)
		return;
	a->closer = NULL;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	c->wake_fd = -1;
	for (l = TAILQ_FIRST(&c->lanes); l; l = next) {
		next = TAILQ_NEXT(l, link);
		/*
		 * Close only memory files. Descriptors whose close() may hang stay open until the
		 * process exits.
		 */
		while (l->count) {
			int fd = l->jobs[--l->count].fd;

			if (fcntl(fd, F_GET_SEALS) >= 0)
				close(fd);
		}
		lane_put(c, l);
	}
	pthread_cond_broadcast(&c->work);
	while (c->threads > 0 && base_cond_wait(&c->ended, &c->lock, until))
		;
	release_closer(c); /* if a thread still hangs, it frees the rest */
}
