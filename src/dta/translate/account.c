/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - a worker's account: its own counters and those of its windows, engines and outputs */
#include <stddef.h>

#include "base/base.h"
#include "dta/translate/internal.h"

static void add_loss(struct dta_translate_account *a, const struct dta_loss *l)
{
	struct dta_translate_account more = {0};

	if (!l)
		return;
	dta_loss_total(l, &more.loss);
	dta_account_add(a, &more);
}

static uint64_t handover_drops(const struct dta_worker *w)
{
	return w->opts.steer ? dta_steer_drops(w->opts.steer, w->opts.worker) : 0;
}

static uint64_t socket_drops(const struct dta_worker *w)
{
	uint64_t drops = 0;

	for (uint32_t i = 0; i < w->sources; i++)
		if (w->source[i].in->ops->drops)
			drops += w->source[i].in->ops->drops(w->source[i].in);
	return drops;
}

uint64_t dta_worker_drops(const struct dta_worker *w)
{
	return socket_drops(w) + handover_drops(w);
}

/* Collects the worker's own counts of packets and windows. */
static void count_own(const struct dta_worker *w, struct dta_translate_account *a)
{
	*a = w->account;
	a->socket_drops += socket_drops(w);
	a->handover_drops += handover_drops(w);
	add_loss(a, w->loss);
	add_loss(a, w->legacy);
	dta_worker_device_account(w, a);
}

/* Returns the collector that receives new counts of packets and windows: the first that is up. */
static uint32_t home_of(const struct dta_worker *w)
{
	return w->up ? (uint32_t)__builtin_ctzll(w->up) : 0;
}

/* Gauges describe the present, so they are in no share but that of the current home. */
static void clear_gauges(struct dta_translate_account *a)
{
	a->loss.missing = a->loss.reporters = 0;
	for (int d = 0; d < DTA_DEVICES; d++)
		a->device[d].decoder.exporters = a->device[d].decoder.templates = 0;
}

/*
 * Divides one counter. A collector that is cut off keeps what it was told. New counts go to the
 * home. If the counter has decreased, the shares of connected collectors are reduced.
 */
static void share_counter(struct dta_worker *w, size_t at, uint64_t all)
{
	uint64_t told = 0;

	for (uint32_t i = 0; i < w->opts.n_collectors; i++)
		told += ((uint64_t *)&w->share[i])[at];
	if (all >= told)
		((uint64_t *)&w->share[home_of(w)])[at] += all - told;
	for (uint32_t i = 0; i < w->opts.n_collectors && told > all; i++) {
		uint64_t *share = &((uint64_t *)&w->share[i])[at];
		const uint64_t less = BASE_MIN(*share, told - all);

		if (!dta_client_welcomed(w->client[i]))
			continue;
		*share -= less;
		told -= less;
	}
}

/* Divides the worker's own counts among the collectors. */
static void share_own(struct dta_worker *w, const struct dta_translate_account *all)
{
	const size_t counters = offsetof(struct dta_translate_account, output) / sizeof(uint64_t);

	for (uint32_t i = 0; i < w->opts.n_collectors; i++)
		clear_gauges(&w->share[i]);
	/* If the home is not connected, the next home gets the counts. */
	if (dta_client_welcomed(w->client[home_of(w)]))
		for (size_t at = 0; at < counters; at++)
			share_counter(w, at, ((const uint64_t *)all)[at]);
}

static void tell_reporters(struct dta_worker *w, struct dta_client *to, uint64_t known)
{
	struct dta_loss_about about[DTA_REPORTERS_TOLD];
	const uint64_t now = base_now_ns();
	uint32_t n;

	if (!dta_client_welcomed(to))
		return;
	n = dta_loss_list(w->loss, now, about, DTA_REPORTERS_TOLD);
	if (w->legacy)
		n += dta_loss_list(w->legacy, now, about + n, DTA_REPORTERS_TOLD - n);
	dta_client_send(to, json_pack("{s:s,s:o,s:I}", "type", "reporters", "reporters",
				      dta_reporters_json(about, n), "more",
				      (json_int_t)(known > n ? known - n : 0)));
}

/*
 * Sends the lists of exporters, if there are inputs for devices, in pieces that the collector
 * accepts.
 */
static void tell_exporters(struct dta_worker *w, struct dta_client *to)
{
	json_t *all = json_array();
	size_t n;

	for (uint32_t i = 0; i < w->sources; i++)
		if (w->source[i].exporters)
			dta_exporter_list_json(all, w->source[i].exporters, base_realtime_ns());
	n = dta_client_welcomed(to) ? json_array_size(all) : 0;
	for (size_t at = 0; at < n; at += DTA_EXPORTERS_TOLD) {
		json_t *piece = json_array();

		for (size_t i = at; i < n && i < at + DTA_EXPORTERS_TOLD; i++)
			json_array_append(piece, json_array_get(all, i));
		dta_client_send(to, json_pack("{s:s,s:b,s:b,s:o}", "type", "exporters", "first",
					      !at, "last", at + DTA_EXPORTERS_TOLD >= n,
					      "exporters", piece));
	}
	json_decref(all);
}

/*
 * Each collector receives the account of its own reports, and its share of the counts of packets
 * and of reports that reached no collector. Each account balances, and the sum of all accounts
 * counts nothing twice, also while a collector is cut off.
 */
void dta_worker_notify(struct dta_worker *w)
{
	struct dta_translate_account all;

	count_own(w, &all);
	share_own(w, &all);
	for (uint32_t i = 0; i < w->opts.n_collectors; i++) {
		struct dta_translate_account a = {0};

		dta_client_account(w->client[i], &a);
		dta_account_add(&a, &w->share[i]);
		a.fresh = a.engine.in;
		a.reports = a.fresh + a.loss.duplicates + a.loss.late;
		dta_client_notify(w->client[i], &a);
		if (i != home_of(w))
			continue;
		tell_reporters(w, w->client[i], all.loss.reporters);
		tell_exporters(w, w->client[i]);
	}
}

void dta_worker_account(const struct dta_worker *w, struct dta_translate_account *all,
			uint64_t *others)
{
	struct dta_translate_account a;

	count_own(w, &a);
	dta_account_add(all, &a);
	for (uint32_t i = 0; i < w->opts.n_collectors; i++) {
		a = (struct dta_translate_account){0};
		dta_client_account(w->client[i], &a);
		dta_account_add(all, &a);
	}
	for (uint32_t i = 0; i < w->sources; i++)
		*others += w->source[i].in->others;
}

void dta_worker_detail(const struct dta_worker *w,
		       void (*say)(void *arg, const char *name, uint64_t value), void *arg)
{
	for (uint32_t i = 0; i < w->sources; i++)
		if (w->source[i].in->ops->detail)
			w->source[i].in->ops->detail(w->source[i].in, say, arg);
}
