// SPDX-License-Identifier: Apache-2.0
/*
 * closer.c - closes descriptors whose close() may block.
 *
 * A client may send any descriptor, and close() may call into the file system behind it: a hostile
 * one (FUSE needs no privilege) or a hanging one (NFS) need not return. Memory files have no such
 * call; every other descriptor is closed by a thread that may hang without delaying the loop. While
 * its queue is full the agent takes no descriptors from sockets, and the kernel drops them itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/closer.h"
#include "agent/internal.h"

#define QUEUE 64u

struct agent_closer {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int queue[QUEUE];
	unsigned int count;
	bool busy, stop, abandoned;
};

static void *work(void *arg)
{
	struct agent_closer *c = arg;
	bool abandoned;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		int fd;

		if (!c->count) {
			pthread_cond_wait(&c->wake, &c->lock);
			continue;
		}
		fd = c->queue[--c->count];
		c->busy = true;
		pthread_mutex_unlock(&c->lock);
		close(fd);
		pthread_mutex_lock(&c->lock);
		c->busy = false;
	}
	abandoned = c->abandoned;
	pthread_mutex_unlock(&c->lock);
	if (abandoned)
		free(c);
	return NULL;
}

static bool start(struct agent *a)
{
	struct agent_closer *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	if (pthread_create(&a->closer_thread, NULL, work, c)) {
		free(c);
		return false;
	}
	a->closer = c;
	return true;
}

bool agent_closer_ready(struct agent *a)
{
	bool ready;

	if (!a->closer)
		return true;
	pthread_mutex_lock(&a->closer->lock);
	ready = a->closer->count < QUEUE;
	pthread_mutex_unlock(&a->closer->lock);
	return ready;
}

void agent_closer_close(struct agent *a, int fd)
{
	struct agent_closer *c;

	/* Only memory files have seals, and the kernel answers without the file system. */
	if (fcntl(fd, F_GET_SEALS) >= 0 || a->epoll_fd < 0 || (!a->closer && !start(a))) {
		close(fd);
		return;
	}
	c = a->closer;
	pthread_mutex_lock(&c->lock);
	if (c->count < QUEUE) {
		c->queue[c->count++] = fd;
		fd = -1;
	}
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	if (fd >= 0) /* unreachable: agent_closer_ready() was called first */
		close(fd);
}

void agent_closer_fini(struct agent *a)
{
	struct agent_closer *c = a->closer;
	bool hangs;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	hangs = c->abandoned = c->busy;
	c->stop = true;
	c->count = 0; /* the end of the process closes the rest */
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	if (hangs) {
		pthread_detach(a->closer_thread); /* it frees its own state when close() returns */
	} else {
		pthread_join(a->closer_thread, NULL);
		pthread_cond_destroy(&c->wake);
		pthread_mutex_destroy(&c->lock);
		free(c);
	}
	a->closer = NULL;
}
