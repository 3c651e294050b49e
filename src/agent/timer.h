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
	struct agent_timer_queue *in; /* NULL means not running */
	TAILQ_ENTRY(agent_timer) link;
};

struct agent_timer_queue {
	uint64_t delay;
	void (*fn)(struct agent *a, struct agent_timer *t);
	TAILQ_HEAD(, agent_timer) head;
};

enum {
	/* timers of regions, up to TIMER_QUARANTINE */
	TIMER_ORPHAN,	     /* connection lost: check whether the process is dead */
	TIMER_RESTORED,	     /* restored from systemd's store: waits for the publisher */
	TIMER_GRACE,	     /* dead or closed: the final values stay readable */
	TIMER_QUARANTINE,    /* retired: readers stop within one lease, memory is freed after two */
	TIMER_SILENT,	     /* a client has connected, but sent nothing */
	TIMER_BLOCKED,	     /* a client does not read its answers */
	TIMER_IDLE,	     /* a REST publisher has stopped posting */
	TIMER_SETTLE,	     /* a region can now be registered together with its neighbours */
	TIMER_REGISTER,	     /* time to register a region whose group could not be registered */
	TIMER_RELEASE,	     /* time to release a replaced memory registration */
	TIMER_KEY_AGE,	     /* a memory registration reached the age at which its key is renewed */
	TIMER_KEY_LEFT,	     /* a collector left: the keys it knows must be renewed */
	TIMER_KEY_DIRECTORY, /* time to release a replaced registration of the directory */
	TIMER_KEY_RENEW,     /* time to renew the next stale key */
	TIMER_REOPEN,	     /* time to try to reopen the lost RDMA device */
	TIMER_NAMES,	     /* time to look again for the names of a region's container */
	TIMER_ALIVE,	     /* time to notify the service manager's watchdog */
	TIMER_COUNT,
};

/* Returns the struct of the given type that contains timer t as member. */
#define AGENT_TIMER_OWNER(t, type, member) ((type *)((char *)(t)-offsetof(type, member)))

void agent_timer_init(struct agent *a); /* initialises all queues in a->timers */
/* starts a timer, or restarts a running one */
void agent_timer_start(struct agent *a, int queue, struct agent_timer *t);
void agent_timer_stop(struct agent_timer *t);
/*
 * Handles timers that are due. Timers of regions may have to wait for their tenant's time; until
 * then, they remain due.
 */
void agent_timer_expire(struct agent *a, uint64_t now);
/* returns UINT64_MAX if no timer is running */
uint64_t agent_timer_next_due(const struct agent *a);

#endif
