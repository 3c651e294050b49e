// SPDX-License-Identifier: Apache-2.0
/* collector.c - creates and frees a collector: options, memory, threads */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "collect/read/ended.h"
#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/read/link.h"
#include "collect/read/worker.h"

static void set_defaults(struct collect_collector_opts *o)
{
	o->workers = o->workers ?: 1;
	o->queues = BASE_MIN(o->queues ?: 1, o->workers);
	o->read_timeout_ns = o->read_timeout_ns ?: 500000000;
	/* While an agent is slow to answer, read other regions and hosts. */
	o->fabric.map_later = true;
	o->fabric.answer_timeout_ms = o->fabric.answer_timeout_ms ?: 2000;
	o->stale_ns = o->stale_ns ?: BASE_MAX(5 * o->period_ns, 2000000000ull);
	o->dropped_ns = o->dropped_ns ?: 5000000000;
	o->unwanted_ns = o->unwanted_ns ?: 600000000000;
	o->max_regions = o->max_regions ?: 65536;
	o->max_series = o->max_series ?: 4194304;
	o->retired_ns = o->retired_ns ?: 7200000000000;
	o->retired_cells = o->retired_cells ?: 4194304;
}

/* Returns the CPU that a worker is pinned to, or -1. */
static int cpu_of(const struct collect_collector_opts *o, unsigned int worker)
{
	unsigned int n = worker;
	cpu_set_t set;

	if (o->cpu_count)
		return o->cpus[worker % o->cpu_count];
	if (!o->pin || sched_getaffinity(0, sizeof(set), &set))
		return -1;
	n %= (unsigned int)CPU_COUNT(&set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((size_t)cpu, &set) && !n--)
			return cpu;
	return -1;
}

static int make_worker(struct collect_collector *c, unsigned int i, char *error, size_t error_bytes)
{
	struct collect_worker *w = &c->worker[i];
	unsigned int workers = c->opts.workers;
	size_t bytes = c->opts.history_bytes;
	size_t share = (bytes - bytes / COLLECT_ENDED_SHARE) / workers;
	int err = 0;

	w->c = c;
	w->number = i;
	w->showing_ns = INT64_MAX;
	w->cpu = cpu_of(&c->opts, i);
	c->workers++;
	if (share) {
		/* A quarter of the memory is for rows that are not packed yet. */
		w->row_limit = share / 4;
		err = collect_ring_init(&w->ring, share - w->row_limit, c->opts.history_ns);
		if (err)
			return base_fail(error, error_bytes, err,
					 "cannot allocate a history of %zu bytes for %u workers: "
					 "%s",
					 c->opts.history_bytes, workers,
					 err == -EINVAL ? "too small" : strerror(-err));
	}
	w->link = calloc((c->hosts / workers + 1) * c->opts.queues, sizeof(*w->link));
	if (!w->link)
		return -ENOMEM;
	/*
	 * Queue q of host h goes to worker (h + q) % workers, so that each host is spread over
	 * several workers.
	 */
	for (size_t h = 0; h < c->hosts; h++) {
		unsigned int q = (i + workers - (unsigned int)(h % workers)) % workers;

		if (q >= c->opts.queues)
			continue;
		collect_link_init(&w->link[w->links], w, &c->host[h], q);
		if (h < c->opts.agent_count)
			err = collect_link_open(&w->link[w->links], error, error_bytes);
		w->links++;
		if (err)
			return err;
	}
	return 0;
}

struct collect_collector *collect_collector_new(const struct collect_collector_opts *opts,
						char *error, size_t error_bytes)
{
	struct collect_collector *c = calloc(1, sizeof(*c));
	int err = -ENOMEM;

	snprintf(error, error_bytes, "out of memory");
	if (!c) {
		errno = ENOMEM;
		return NULL;
	}
	c->opts = *opts;
	c->ended_end = &c->ended;
	set_defaults(&c->opts);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&c->index_lock, NULL);
	if (c->wake_fd < 0) {
		err = -errno;
		snprintf(error, error_bytes, "eventfd: %s", strerror(errno));
		goto fail;
	}
	c->host = calloc(opts->agent_count + opts->spare_hosts + 1, sizeof(*c->host));
	c->worker = calloc(c->opts.workers, sizeof(*c->worker));
	if (!c->host || !c->worker || collect_defs_init(&c->defs) ||
	    !base_table_init(&c->retired) || !base_table_init(&c->retired_groups) ||
	    collect_collector_attach(c, &collect_self_own_part, c))
		goto fail;
	for (; c->hosts < opts->agent_count + opts->spare_hosts; c->hosts++)
		if (collect_host_init(&c->host[c->hosts], c,
				      c->hosts < opts->agent_count ? opts->agents[c->hosts] : "",
				      c->opts.queues))
			goto fail;
	for (unsigned int i = 0; i < c->opts.workers; i++) {
		err = make_worker(c, i, error, error_bytes);
		if (err)
			goto fail;
	}
	return c;
fail:
	collect_collector_free(c);
	errno = -err;
	return NULL;
}

int collect_collector_start(struct collect_collector *c)
{
	int err = pthread_create(&c->control, NULL, collect_control_main, c);

	if (err)
		return -err;
	c->running = true;
	for (unsigned int i = 0; i < c->workers; i++) {
		err = pthread_create(&c->worker[i].thread, NULL, collect_worker_main,
				     &c->worker[i]);
		if (err)
			/* collect_collector_free() stops the threads that were started */
			return -err;
		c->worker[i].started = true;
	}
	return 0;
}

void collect_collector_free(struct collect_collector *c)
{
	if (!c)
		return;
	relaxed_store(c->stop, true);
	for (unsigned int i = 0; i < c->workers; i++)
		if (c->worker[i].started)
			pthread_join(c->worker[i].thread, NULL);
	/*
	 * Control exits after the workers, because their last queue entries hold regions that
	 * control must release.
	 */
	relaxed_store(c->over, true);
	if (c->running) {
		collect_control_wake(c);
		pthread_join(c->control, NULL);
	}
	/*
	 * Free the index before the links cancel their fetches, so that a callback that fetches
	 * again finds no region.
	 */
	collect_index_put(c->index);
	c->index = NULL;
	for (size_t i = 0; i < c->regions; i++)
		collect_region_put(c->region[i]);
	collect_retired_free(c);
	collect_ended_free(c);
	for (unsigned int i = 0; i < c->workers; i++) {
		struct collect_worker *w = &c->worker[i];

		for (unsigned int k = 0; k < w->links; k++)
			collect_link_free(&w->link[k]);
	}
	for (unsigned int i = 0; i < c->workers; i++) {
		free(c->worker[i].link);
		free(c->worker[i].flat);
		free(c->worker[i].row);
		collect_ring_free(&c->worker[i].ring);
	}
	collect_parts_free(c);
	for (size_t i = 0; i < c->hosts; i++)
		collect_host_free(&c->host[i]);
	collect_defs_free(&c->defs);
	free(c->region);
	free(c->worker);
	free(c->host);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	pthread_mutex_destroy(&c->index_lock);
	free(c);
}

int collect_collector_add_host(struct collect_collector *c, const char *target)
{
	size_t i = c->opts.agent_count;

	while (i < c->hosts && *c->host[i].target)
		i++;
	if (i == c->hosts)
		return -ENOSPC;
	if (!*target || strlen(target) >= sizeof(c->host[i].own_target))
		return -EINVAL;
	strcpy(c->host[i].own_target, target);
	__atomic_store_n(&c->host[i].target, c->host[i].own_target, __ATOMIC_RELEASE);
	return (int)i;
}

void collect_collector_want_host(struct collect_collector *c, size_t host, bool wanted)
{
	__atomic_store_n(&c->host[host].wanted, wanted, __ATOMIC_RELEASE);
}

bool collect_collector_ready(const struct collect_collector *c)
{
	for (unsigned int i = 0; i < c->workers; i++)
		for (unsigned int k = 0; k < c->worker[i].links; k++) {
			const struct collect_link *l = &c->worker[i].link[k];

			if (!relaxed_load(l->tried) && !relaxed_load(l->settled))
				return false;
		}
	/* True once the index contains everything that the links found. */
	return relaxed_load(c->index_builds) && !relaxed_load(c->dirty) && !relaxed_load(c->queue);
}

int64_t collect_collector_shown(const struct collect_collector *c)
{
	int64_t all = (int64_t)base_realtime_ns() - 1;

	/*
	 * Pairs with the fence in collect_reads_poll(): if a worker is not seen publishing rows
	 * here, it reads the clock later than this function did.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < c->workers; i++) {
		/*
		 * Pairs with the release in collect_reads_poll(): if showing_ns is 0, all earlier
		 * rows are visible.
		 */
		int64_t t = __atomic_load_n(&c->worker[i].showing_ns, __ATOMIC_ACQUIRE);

		all = BASE_MIN(all, t ? t - 1 : 0);
	}
	return all;
}

bool collect_collector_turned(struct collect_collector *c)
{
	if (relaxed_load(c->turns) == c->turns_seen)
		return false;
	for (unsigned int i = 0; i < c->workers; i++)
		if (relaxed_load(c->worker[i].turns) == c->worker[i].turns_seen)
			return false;
	c->turns_seen = relaxed_load(c->turns);
	for (unsigned int i = 0; i < c->workers; i++)
		c->worker[i].turns_seen = relaxed_load(c->worker[i].turns);
	return true;
}
