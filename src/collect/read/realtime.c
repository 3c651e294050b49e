// SPDX-License-Identifier: Apache-2.0
#include "collect/read/realtime.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/base.h"
#include "base/relaxed.h"

#define PRIORITY 1 /* the lowest of SCHED_FIFO, above all ordinary threads */
#define SIGNAL	 (SIGRTMAX - 2)

static int set_policy(int policy)
{
	const struct sched_param p = {policy == SCHED_OTHER ? 0 : PRIORITY};

	/* 0 means the calling thread. Async-signal-safe. */
	return sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &p) ? -errno : 0;
}

/* Runs in the worker's thread, at the first tick of the clock after the share is used up. */
static void on_used_up(int signal, siginfo_t *info, void *context)
{
	struct collect_realtime *r = info->si_value.sival_ptr;
	const int saved = errno;

	(void)signal, (void)context;
	set_policy(SCHED_OTHER);
	relaxed_store(r->on, false);
	relaxed_bump(r->used_up, 1);
	errno = saved;
}

bool collect_realtime_permit(void)
{
	struct rlimit is;

	if (getrlimit(RLIMIT_RTPRIO, &is))
		return false;
	is.rlim_max = BASE_MAX(is.rlim_max, (rlim_t)PRIORITY);
	is.rlim_cur = BASE_MAX(is.rlim_cur, (rlim_t)PRIORITY);
	return !setrlimit(RLIMIT_RTPRIO, &is);
}

static void begin_window(struct collect_realtime *r, uint64_t now_ns)
{
	const struct itimerspec share = {.it_value.tv_nsec = COLLECT_REALTIME_SHARE_NS};

	/* Set the timer first: without it, there must be no priority. */
	if (!timer_settime(r->timer, 0, &share, NULL) && !relaxed_load(r->on))
		relaxed_store(r->on, !set_policy(SCHED_FIFO));
	r->window_ns = now_ns + COLLECT_REALTIME_WINDOW_NS;
}

int collect_realtime_begin(struct collect_realtime *r)
{
	const struct sigaction act = {.sa_sigaction = on_used_up,
				      .sa_flags = SA_SIGINFO | SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
				 .sigev_signo = SIGNAL,
				 .sigev_value.sival_ptr = r,
				 ._sigev_un._tid = gettid()};
	const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	int err;

	/*
	 * The program was started with such a priority: with a lower one, the worker would starve
	 * behind the other threads.
	 */
	if (policy == SCHED_FIFO || policy == SCHED_RR) {
		relaxed_store(r->on, true);
		return 0;
	}
	if (sigaction(SIGNAL, &act, NULL) ||
	    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &r->timer))
		return -errno;
	/* Find out whether real-time priority is allowed. */
	err = set_policy(SCHED_FIFO);
	if (err) {
		timer_delete(r->timer);
		return err;
	}
	relaxed_store(r->on, true);
	relaxed_store(r->allowed, true);
	begin_window(r, base_now_ns());
	return 0;
}

void collect_realtime_turn(struct collect_realtime *r, uint64_t now_ns)
{
	if (r->allowed && now_ns >= r->window_ns)
		begin_window(r, now_ns);
}

void collect_realtime_end(struct collect_realtime *r)
{
	if (!r->allowed)
		return;
	set_policy(SCHED_OTHER);
	timer_delete(r->timer);
	relaxed_store(r->allowed, false);
}
