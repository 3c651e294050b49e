// SPDX-License-Identifier: Apache-2.0
/*
 * kernel.c - a worker's share in the translator in the kernel: for each of its queue pairs a
 * connection to the store server, as that of a translator of its own, with its own lane.
 */
#include "dta/translate/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

#if HAVE_XDP
#include "dta/io/kernel.h"
#include "dta/translate/lease.h"

struct kernel_queue {
	struct dta_kernel *kernel;
	uint32_t number;
	char name[64];
	struct dta_client *client;
};

struct dta_worker_kernel {
	struct dta_leases *leases;
	uint32_t n;
	struct kernel_queue queue[KERNEL_QUEUES];
};

static struct dta_output *open_output(void *arg, char *error, size_t error_bytes)
{
	const struct kernel_queue *q = arg;

	return dta_output_kernel(q->kernel, q->number, error, error_bytes);
}

static void took(void *arg, struct dta_engine_stats *s)
{
	const struct kernel_queue *q = arg;

	dta_kernel_engine(q->kernel, q->number, s);
}

int dta_worker_kernel_open(struct dta_worker *w, char *error, size_t error_bytes)
{
	struct dta_worker_kernel *k = calloc(1, sizeof(*k));

	snprintf(error, error_bytes, "no memory");
	if (!k)
		return -ENOMEM;
	w->kernel = k;
	k->leases = dta_leases_new(w->opts.kernel, w->loss, &w->account);
	if (!k->leases)
		return -ENOMEM;
	while (k->n < dta_kernel_queues(w->opts.kernel)) {
		struct dta_client_opts c = w->opts.client;
		struct kernel_queue *q = &k->queue[k->n];

		q->kernel = w->opts.kernel;
		q->number = k->n;
		snprintf(q->name, sizeof(q->name), "%.40s.kernel%u", w->name, k->n);
		c.collector = w->opts.collectors[0];
		c.name = q->name;
		c.own = open_output;
		c.took = took;
		c.own_arg = q;
		q->client = dta_client_new(&c, error, error_bytes);
		if (!q->client)
			return -errno;
		k->n++;
	}
	return 0;
}

void dta_worker_kernel_close(struct dta_worker *w)
{
	if (!w->kernel)
		return;
	for (uint32_t i = 0; i < w->kernel->n; i++)
		dta_client_free(w->kernel->queue[i].client);
	dta_leases_free(w->kernel->leases);
	free(w->kernel);
}

void dta_worker_kernel_before(struct dta_worker *w, const struct dta_loss_key *key, uint64_t now)
{
	if (w->kernel)
		dta_leases_before(w->kernel->leases, key, &w->packet.header, now);
}

uint32_t dta_worker_kernel_overtaken(struct dta_worker *w, const struct dta_loss_key *key)
{
	return w->kernel ? dta_leases_overtaken(w->kernel->leases, key, &w->packet, w->fresh) : 0;
}

bool dta_worker_kernel_drive(struct dta_worker *w, bool quiet, uint64_t now)
{
	struct dta_worker_kernel *k = w->kernel;
	bool ready = true;

	for (uint32_t i = 0; k && i < k->n; i++) {
		dta_client_drive(k->queue[i].client, now);
		ready &= dta_client_ready(k->queue[i].client);
	}
	if (k)
		dta_leases_tick(k->leases, quiet && !dta_client_waiting(w->client[0]), now);
	return ready;
}

bool dta_worker_kernel_waiting(const struct dta_worker *w)
{
	const struct dta_worker_kernel *k = w->kernel;
	bool waiting = false;

	for (uint32_t i = 0; k && i < k->n; i++)
		waiting |= dta_client_waiting(k->queue[i].client);
	return waiting;
}

void dta_worker_kernel_stop(struct dta_worker *w, uint64_t now)
{
	if (!w->kernel)
		return;
	dta_kernel_stop(w->opts.kernel);
	dta_leases_end(w->kernel->leases, now);
}

bool dta_worker_kernel_finish(struct dta_worker *w, uint64_t now)
{
	struct dta_worker_kernel *k = w->kernel;
	bool done = true;

	for (uint32_t i = 0; k && i < k->n; i++)
		done &= dta_client_finish(k->queue[i].client, now);
	return done;
}

void dta_worker_kernel_abandon(struct dta_worker *w)
{
	for (uint32_t i = 0; w->kernel && i < w->kernel->n; i++)
		dta_client_abandon(w->kernel->queue[i].client);
}

void dta_worker_kernel_notify(struct dta_worker *w)
{
	for (uint32_t i = 0; w->kernel && i < w->kernel->n; i++) {
		struct dta_translate_account a = {0};

		dta_client_account(w->kernel->queue[i].client, &a);
		a.fresh = a.reports = a.engine.in;
		dta_client_notify(w->kernel->queue[i].client, &a);
		dta_client_drive(w->kernel->queue[i].client, base_now_ns());
	}
}

void dta_worker_kernel_account(const struct dta_worker *w, struct dta_translate_account *all)
{
	for (uint32_t i = 0; w->kernel && i < w->kernel->n; i++) {
		struct dta_translate_account a = {0};

		dta_client_account(w->kernel->queue[i].client, &a);
		dta_account_add(all, &a);
	}
}

void dta_worker_kernel_detail(const struct dta_worker *w,
			      void (*say)(void *arg, const char *name, uint64_t value), void *arg)
{
	static const char *const names[KERNEL_PASSES] = {
		"kernel_passed_packet", "kernel_passed_store", "kernel_passed_order",
		"kernel_passed_full",	"kernel_passed_down",
	};

	for (uint32_t i = 0; w->kernel && i < w->kernel->n; i++) {
		const struct dta_kernel_queue *q = dta_kernel_queue(w->opts.kernel, i);

		say(arg, "kernel_frames", q->frames);
		say(arg, "kernel_failed", q->failed);
		for (uint32_t p = 0; p < KERNEL_PASSES; p++)
			say(arg, names[p], q->passed[p]);
	}
}
#else
int dta_worker_kernel_open(struct dta_worker *w, char *error, size_t error_bytes)
{
	(void)w;
	snprintf(error, error_bytes, "this build has no XDP");
	return -EOPNOTSUPP;
}
void dta_worker_kernel_close(struct dta_worker *w)
{
	(void)w;
}
void dta_worker_kernel_before(struct dta_worker *w, const struct dta_loss_key *key, uint64_t now)
{
	(void)w, (void)key, (void)now;
}
uint32_t dta_worker_kernel_overtaken(struct dta_worker *w, const struct dta_loss_key *key)
{
	(void)w, (void)key;
	return 0;
}
bool dta_worker_kernel_drive(struct dta_worker *w, bool quiet, uint64_t now)
{
	(void)w, (void)quiet, (void)now;
	return true;
}
bool dta_worker_kernel_waiting(const struct dta_worker *w)
{
	(void)w;
	return false;
}
void dta_worker_kernel_stop(struct dta_worker *w, uint64_t now)
{
	(void)w, (void)now;
}
bool dta_worker_kernel_finish(struct dta_worker *w, uint64_t now)
{
	(void)w, (void)now;
	return true;
}
void dta_worker_kernel_abandon(struct dta_worker *w)
{
	(void)w;
}
void dta_worker_kernel_notify(struct dta_worker *w)
{
	(void)w;
}
void dta_worker_kernel_account(const struct dta_worker *w, struct dta_translate_account *all)
{
	(void)w, (void)all;
}
void dta_worker_kernel_detail(const struct dta_worker *w,
			      void (*say)(void *arg, const char *name, uint64_t value), void *arg)
{
	(void)w, (void)say, (void)arg;
}
#endif
