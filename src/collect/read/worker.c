// SPDX-License-Identifier: Apache-2.0
/*
 * worker.c - a thread that starts a round on each of its links at absolute deadlines and polls them
 * in between. A slow host keeps its READs in flight; the rounds of other hosts do not wait for it.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/base.h"
#include "collect/read/link.h"
#include "collect/read/host.h"
#include "collect/read/worker.h"

/* spin for this long before the first sleep, as completions take microseconds */
#define SPIN_NS	       30000u
#define NAP_NS	       50000u  /* sleep between two polls after that */
#define URGENT_NAP_NS  500000u /* sleep while control makes a layout */
#define CONNECT_NAP_NS 5000000u
#define IDLE_NAP_NS    100000000u /* a stop takes effect within this time */
#define STALLED_NS     1000000u	  /* a link without a completion for this long is stalled */

/* Bucket i holds values up to 2^(i/4) microseconds. */
unsigned int collect_latency_bucket(uint64_t ns)
{
	/* 2^(1/4), 2^(2/4), 2^(3/4), as fractions of 2^16. */
	static const uint32_t quarter[3] = {77936, 92682, 110218};
	unsigned int octave, i = 0;
	uint64_t top;

	if (ns <= 1000)
		return 0;
	if (ns > 1000ull << 23)
		return COLLECT_LATENCY_BUCKETS - 1;
	octave = 63 - (unsigned int)__builtin_clzll((ns - 1) / 1000 ? (ns - 1) / 1000 : 1);
	top = 1000ull << octave;
	while (i < 3 && ns > top * quarter[i] >> 16)
		i++;
	i += octave * 4 + 1;
	return i < COLLECT_LATENCY_BUCKETS ? i : COLLECT_LATENCY_BUCKETS - 1;
}

static inline void relax_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
			     .tv_nsec = (long)(ns % 1000000000u)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void prepare_thread(struct collect_worker *w)
{
	char name[16];

	snprintf(name, sizeof(name), "worker-%u", w->number);
	pthread_setname_np(pthread_self(), name);
	/* With the default timer slack of 50 us, rounds would start late. */
	prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
	if (w->cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((size_t)w->cpu, &set);
		if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set)) {
			base_logf(BASE_WARN, "collect",
				  "cannot pin the worker worker=%u cpu=%d: check which CPUs are "
				  "allowed",
				  w->number, w->cpu);
			relaxed_store(w->cpu, -1);
		}
	}
}

/* Not taken without a period, because the worker would then never pause. */
static void take_priority(struct collect_worker *w)
{
	int err = w->c->opts.realtime && w->c->opts.period_ns ? collect_realtime_begin(&w->realtime)
							      : 0;

	if (err && !w->number)
		base_logf(BASE_INFO, "collect",
			  "workers have no real-time priority and may miss deadlines while the "
			  "CPUs are busy: %s: set LimitRTPRIO=1, add CAP_SYS_NICE, or use "
			  "--realtime off",
			  strerror(-err));
}

static bool is_stalled(const struct collect_link *l, uint64_t now_ns)
{
	return now_ns - l->progress_ns > STALLED_NS;
}

/*
 * Without a period, the next round starts when the last one is complete on all links that are not
 * stalled.
 */
static bool all_done(const struct collect_worker *w, uint64_t now_ns)
{
	for (unsigned int i = 0; i < w->links; i++)
		if (w->link[i].active && !is_stalled(&w->link[i], now_ns))
			return false;
	return true;
}

/* Returns true if a round was started on any link. */
static bool start_round(struct collect_worker *w, uint64_t now_ns)
{
	bool late = false, any = false;

	for (unsigned int i = 0; i < w->links; i++) {
		struct collect_link *l = &w->link[i];

		if (l->active) {
			relaxed_bump(l->skipped, 1);
			/*
			 * If the link is not stalled, the worker was too slow to take completions.
			 */
			late |= !is_stalled(l, now_ns);
			continue;
		}
		collect_link_start_round(l, now_ns);
		any |= l->active;
	}
	if (late)
		relaxed_bump(w->missed, 1);
	if (any)
		relaxed_bump(w->rounds, 1);
	return any;
}

static uint64_t get_nap(const struct collect_worker *w, uint64_t now_ns, uint64_t worked_ns)
{
	uint64_t n = IDLE_NAP_NS, wait;

	for (unsigned int i = 0; i < w->links; i++) {
		const struct collect_link *l = &w->link[i];

		if (!l->fabric)
			continue;
		if (l->ops_live || l->active) {
			if (now_ns - worked_ns < SPIN_NS)
				return 0;
			wait = now_ns - worked_ns < STALLED_NS ? NAP_NS : 10 * NAP_NS;
			n = BASE_MIN(n, wait);
		}
		if (l->urgents || l->fetch) {
			wait = l->fetch || l->urgent_ns < now_ns + URGENT_NAP_NS
				       ? URGENT_NAP_NS
				       : l->urgent_ns - now_ns;
			n = BASE_MIN(n, wait);
		}
		wait = collect_link_due_beside(l);
		if (wait != UINT64_MAX) {
			wait = wait > now_ns + URGENT_NAP_NS ? wait - now_ns : URGENT_NAP_NS;
			n = BASE_MIN(n, wait);
		}
		if (l->fabric && l->state != FABRIC_UP && relaxed_load(l->host->wanted))
			n = BASE_MIN(n, CONNECT_NAP_NS);
	}
	return n;
}

void *collect_worker_main(void *arg)
{
	struct collect_worker *w = arg;
	uint64_t period = w->c->opts.period_ns, deadline, now, worked, wait;

	prepare_thread(w);
	take_priority(w);
	deadline = worked = base_now_ns();
	relaxed_store(w->start_ns, deadline);
	while (!relaxed_load(w->c->stop)) {
		bool work = false;

		relaxed_bump(w->turns, 1);
		now = base_now_ns();
		collect_realtime_turn(&w->realtime, now);
		if (period ? now >= deadline : all_done(w, now)) {
			if (period) {
				uint64_t lost = (now - deadline) / period;

				if (lost && relaxed_load(w->rounds))
					relaxed_bump(w->missed, lost);
				deadline += (lost + 1) * period;
			}
			work = start_round(w, now);
		}
		for (unsigned int i = 0; i < w->links; i++)
			work |= collect_link_poll(&w->link[i], now);
		if (work) {
			worked = base_now_ns();
			relaxed_bump(w->busy_ns, worked - now);
			continue;
		}
		if (w->ring.word)
			collect_ring_expire(&w->ring, (int64_t)base_realtime_ns());
		wait = get_nap(w, now, worked);
		if (!wait)
			relax_cpu();
		else if (period && now + wait > deadline)
			sleep_until(deadline);
		else
			sleep_until(now + wait);
	}
	collect_realtime_end(&w->realtime);
	return NULL;
}
