// SPDX-License-Identifier: Apache-2.0
/* timer.c - the queues of timers and their handlers. */
#include "agent/timer.h"

#include <string.h>

#include "agent/conn.h"
#include "agent/proxy.h"
#include "agent/region.h"

#define MS 1000000ull

void agent_timer_start(struct agent *a, int queue, struct agent_timer *t)
{
	struct agent_timer_queue *q = &a->timers[queue];

	agent_timer_stop(t);
	t->due = agent_now(a) + q->delay;
	t->in = q;
	TAILQ_INSERT_TAIL(&q->head, t, link);
}

void agent_timer_stop(struct agent_timer *t)
{
	if (!t->in)
		return;
	TAILQ_REMOVE(&t->in->head, t, link);
	t->in = NULL;
}

/* Timers that exceed their tenant's time stay in the queue; timers of other tenants still run. */
static void expire_regions(struct agent *a, struct agent_timer_queue *q, uint64_t now)
{
	struct agent_timer *t, *next;

	for (t = TAILQ_FIRST(&q->head); t && t->due <= now; t = next) {
		next = TAILQ_NEXT(t, link);
		agent_region_end(a, AGENT_TIMER_OWNER(t, struct agent_region, timer), q->fn);
	}
}

void agent_timer_expire(struct agent *a, uint64_t now)
{
	a->end_turn++;
	for (int i = TIMER_ORPHAN; i <= TIMER_QUARANTINE; i++)
		expire_regions(a, &a->timers[i], now);
	for (int i = TIMER_QUARANTINE + 1; i < TIMER_COUNT; i++) {
		struct agent_timer_queue *q = &a->timers[i];
		struct agent_timer *t;

		while ((t = TAILQ_FIRST(&q->head)) && t->due <= now) {
			agent_timer_stop(t);
			q->fn(a, t);
		}
	}
}

uint64_t agent_timer_next_due(const struct agent *a)
{
	uint64_t due = UINT64_MAX;

	for (int i = 0; i < TIMER_COUNT; i++) {
		const struct agent_timer *t = TAILQ_FIRST(&a->timers[i].head);

		if (t && t->due < due)
			due = t->due;
	}
	return due;
}

static void say_alive(struct agent *a, struct agent_timer *t)
{
	base_alive();
	agent_timer_start(a, TIMER_ALIVE, t);
}

void agent_timer_init(struct agent *a)
{
	const struct agent_timer_queue all[TIMER_COUNT] = {
		[TIMER_ORPHAN] = {.delay = 50 * MS, .fn = agent_region_timer_orphan},
		[TIMER_RESTORED] = {.delay = 3000 * MS, .fn = agent_region_timer_orphan},
		[TIMER_GRACE] = {.delay = a->o.grace_ns, .fn = agent_region_timer_grace},
		[TIMER_QUARANTINE] = {.delay = 2 * a->o.lease_ns,
				      .fn = agent_region_timer_quarantine},
		[TIMER_SILENT] = {.delay = 10000 * MS, .fn = agent_conn_timer},
		[TIMER_BLOCKED] = {.delay = 5000 * MS, .fn = agent_conn_timer},
		[TIMER_IDLE] = {.delay = a->o.rest_idle_ns, .fn = agent_proxy_timer_idle},
		[TIMER_SETTLE] = {.delay = a->o.rdma_settle_ns, .fn = agent_rdma_timer_settle},
		[TIMER_REGISTER] = {.delay = 1000 * MS, .fn = agent_rdma_timer_register},
		[TIMER_RELEASE] = {.delay = 2 * a->o.lease_ns, .fn = agent_rdma_timer_release},
		[TIMER_KEY_AGE] = {.delay = a->o.rdma_key_lifetime_ns, .fn = agent_rdma_timer_age},
		[TIMER_KEY_LEFT] = {.delay = BASE_MIN(a->o.rdma_key_lifetime_ns, 60000 * MS),
				    .fn = agent_rdma_timer_left},
		[TIMER_KEY_DIRECTORY] = {.delay = BASE_MIN(a->o.rdma_key_lifetime_ns, 60000 * MS),
					 .fn = agent_rdma_timer_release},
		[TIMER_KEY_RENEW] = {.delay = 5 * MS, .fn = agent_rdma_timer_renew},
		[TIMER_NAMES] = {.delay = 10000 * MS, .fn = agent_region_timer_names},
		[TIMER_ALIVE] = {.delay = base_alive_ns(), .fn = say_alive},
		[TIMER_REOPEN] = {.delay = 1000 * MS, .fn = agent_rdma_timer_reopen},
	};

	memcpy(a->timers, all, sizeof(all));
	for (int i = 0; i < TIMER_COUNT; i++)
		TAILQ_INIT(&a->timers[i].head);
}
