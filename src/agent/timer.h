/* SPDX-License-Identifier: Apache-2.0 */
/* timer.h - timers with one queue per delay, so that appending keeps each queue sorted. */
#ifndef SL_AGENT_TIMER_H
#define SL_AGENT_TIMER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct agent;

struct agent_timer {
	uint64_t due;
	struct agent_timer_queue *in; /* NULL: not running */
	TAILQ_ENTRY(agent_timer) link;
};

struct agent_timer_queue {
	uint64_t delay;
	void (*fn)(struct agent *a, struct agent_timer *t);
	TAILQ_HEAD(, agent_timer) head;
};

enum {
	TIMER_ORPHAN,	     /* connection lost: check whether the process is dead */
	TIMER_RESTORED,	     /* restored from systemd's store: waits for the publisher */
	TIMER_GRACE,	     /* final values stay readable */
	TIMER_QUARANTINE,    /* retired: readers stop within one lease, memory is freed after two */
	TIMER_SILENT,	     /* connected, but has sent nothing */
	TIMER_BLOCKED,	     /* does not read its answers */
	TIMER_IDLE,	     /* REST publisher that has stopped posting */
	TIMER_SETTLE,	     /* can now be registered together with its neighbours */
	TIMER_RELEASE,	     /* replaced memory registration, to be released */
	TIMER_KEY_AGE,	     /* memory registration whose key must be renewed */
	TIMER_KEY_LEFT,	     /* a collector left: the keys it knows must be renewed */
	TIMER_KEY_DIRECTORY, /* replaced registration of the directory, to be released */
	TIMER_KEY_RENEW,     /* renews the next stale key */
	TIMER_REOPEN,	     /* tries to open the lost RDMA device */
	TIMER_ALIVE,	     /* notifies the service manager's watchdog */
	TIMER_COUNT,
};

/* Returns the struct of the given type that contains timer t as member. */
#define AGENT_TIMER_OWNER(t, type, member) ((type *)((char *)(t)-offsetof(type, member)))

void agent_timer_init(struct agent *a); /* initialises all queues in a->timers */
/* restarts a running timer */
void agent_timer_start(struct agent *a, int queue, struct agent_timer *t);
void agent_timer_stop(struct agent_timer *t);
void agent_timer_expire(struct agent *a, uint64_t now);
uint64_t agent_timer_next_due(const struct agent *a); /* UINT64_MAX: none is running */

#endif
