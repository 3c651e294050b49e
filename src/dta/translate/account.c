/* SPDX-License-Identifier: Apache-2.0 */
/* translate_account.c - a worker's account: of what it counts itself, its windows, engines and
 * outputs. */
#include <stddef.h>
#include <string.h>

#include "dta/translate/internal.h"

/* Structures of counters alone. */
static void add(uint64_t *to, const uint64_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		to[i] += from[i];
}

static void add_loss(struct dta_loss_stats *to, const struct dta_loss *l)
{
	struct dta_loss_stats s;

	if (!l)
		return;
	dta_loss_total(l, &s);
	add((uint64_t *)to, (const uint64_t *)&s, sizeof(s));
}

static void add_output(struct dta_output_stats *to, const struct dta_output_stats *from)
{
	add((uint64_t *)to, (const uint64_t *)from, offsetof(struct dta_output_stats, last_error));
	if (from->last_error[0])
		memcpy(to->last_error, from->last_error, sizeof(to->last_error));
}

/* What the worker itself counts: packets and windows. */
static void count(const struct dta_worker *w, struct dta_translate_account *a)
{
	*a = w->account;
	for (uint32_t i = 0; i < w->sources; i++) {
		const struct dta_source *s = &w->source[i];

		a->socket_drops += s->in->ops->drops(s->in);
		add_loss(&a->loss, s->loss);
		add_loss(&a->loss, s->legacy);
	}
}

/* The collector that is told of packets and windows: the first that is there. */
static uint32_t home(const struct dta_worker *w)
{
	return w->up ? (uint32_t)__builtin_ctzll(w->up) : 0;
}

/*
 * Each collector is told of the reports that were its own; and one alone of packets, and of reports
 * that never became anybody's. So what each is told closes, and nothing is in the sum over all of
 * them twice.
 */
void dta_worker_notify(struct dta_worker *w)
{
	struct dta_translate_account all;

	count(w, &all);
	for (uint32_t i = 0; i < w->opts.n_collectors; i++) {
		struct dta_translate_account a = {0};

		if (i == home(w))
			a = all;
		dta_client_account(w->client[i], &a);
		a.fresh = a.engine.in;
		a.reports = a.fresh + a.loss.duplicates + a.loss.late;
		dta_client_notify(w->client[i], &a);
	}
}

void dta_worker_account(const struct dta_worker *w, struct dta_translate_account *all,
			uint64_t *others)
{
	struct dta_translate_account a;

	count(w, &a);
	add(&all->packets, &a.packets, offsetof(struct dta_translate_account, engine));
	for (uint32_t i = 0; i < w->opts.n_collectors; i++) {
		dta_client_account(w->client[i], &a);
		add((uint64_t *)&all->engine, (const uint64_t *)&a.engine, sizeof(a.engine));
		add_output(&all->output, &a.output);
	}
	for (uint32_t i = 0; i < w->sources; i++)
		*others += w->source[i].in->ops->others(w->source[i].in);
}

void dta_worker_detail(const struct dta_worker *w,
		       void (*say)(void *arg, const char *name, uint64_t value), void *arg)
{
	for (uint32_t i = 0; i < w->sources; i++)
		if (w->source[i].in->ops->detail)
			w->source[i].in->ops->detail(w->source[i].in, say, arg);
}
