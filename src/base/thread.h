/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - a thread that runs until it is told to stop. */
#ifndef SL_BASE_THREAD_H
#define SL_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct base_thread {
	pthread_t id;
	int stop; /* for base_stop_wait(), which fn must call in its loop */
	bool running;
};

/* Returns 0 or -errno. */
int base_thread_start(struct base_thread *t, void *(*fn)(void *arg), void *arg);
/* Tells the thread to stop, and waits until it has ended. No effect if it is not running. */
void base_thread_stop(struct base_thread *t);

/* Starts a detached thread with a stack of this size. Returns 0 or -errno. */
int base_thread_detach(void *(*fn)(void *arg), void *arg, size_t stack_bytes);

#endif
