/* SPDX-License-Identifier: Apache-2.0 */
/* timer.h - one queue per delay, so that appending keeps each queue sorted. */
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
	TIMER_ORPHAN,	     /* connection lost: check whether the process is dead, too */
	TIMER_RESTORED,	     /* restored from systemd's store: wait for the publisher */
	TIMER_GRACE,	     /* final values stay readable */
	TIMER_QUARANTINE,    /* retired: readers stop within one lease, memory is freed after two */
	TIMER_SILENT,	     /* connected without sending anything */
	TIMER_BLOCKED,	     /* does not read its answers */
	TIMER_IDLE,	     /* REST publisher that stopped posting */
	TIMER_SETTLE,	     /* old enough to be registered together with its neighbours */
	TIMER_RELEASE,	     /* a memory registration that was replaced */
	TIMER_KEY_AGE,	     /* a memory registration whose key is to change */
	TIMER_KEY_LEFT,	     /* a collector left: the keys that it knows are to change */
	TIMER_KEY_DIRECTORY, /* the directory's registration that was replaced */
	TIMER_KEY_RENEW,     /* the next registration whose key changes */
	TIMER_REOPEN,	     /* the RDMA device is gone */
	TIMER_ALIVE,	     /* the service manager's watchdog: this loop runs */
	TIMER_COUNT,
};

/* The struct of this type whose member is the timer t. */
#define AGENT_TIMER_OWNER(t, type, member) ((type *)((char *)(t)-offsetof(type, member)))

void agent_timer_init(struct agent *a); /* every queue of a->timers */
void agent_timer_start(struct agent *a, int queue, struct agent_timer *t); /* again, if it runs */
void agent_timer_stop(struct agent_timer *t);
void agent_timer_expire(struct agent *a, uint64_t now);
uint64_t agent_timer_next_due(const struct agent *a); /* UINT64_MAX: none runs */

#endif
