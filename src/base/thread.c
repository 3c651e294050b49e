// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int base_thread_start(struct base_thread *t, void *(*fn)(void *arg), void *arg)
{
	int err;

	t->stop = eventfd(0, EFD_CLOEXEC);
	if (t->stop < 0)
		return -errno;
	err = -pthread_create(&t->id, NULL, fn, arg);
	t->running = !err;
	if (err)
		close(t->stop);
	return err;
}

void base_thread_stop(struct base_thread *t)
{
	if (!t->running)
		return;
	eventfd_write(t->stop, 1);
	pthread_join(t->id, NULL);
	close(t->stop);
	t->running = false;
}

int base_thread_detach(void *(*fn)(void *arg), void *arg, size_t stack_bytes)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err = -pthread_attr_init(&attr);

	if (err)
		return err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, stack_bytes);
	err = -pthread_create(&thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return err;
}
