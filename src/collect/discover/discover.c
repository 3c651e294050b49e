// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads: one asks the sources, which may take seconds; the other hears the peers and assigns
 * hosts, and holds the lease.
 */
#include "collect/discover/discover.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/grow.h"
#include "base/relaxed.h"
#include "collect/discover/ring.h"

#define SECOND_NS 1000000000ull
#define HOLD_NS	  (SECOND_NS * 3 / 2)
#define LEASE_NS  (SECOND_NS * 3 / 2)
#define TURN_MS	  100

struct found_host {
	char *name;
	int slot;	   /* of the collector; < 0: none */
	bool known, owned; /* known: a source names it */
	uint64_t mine_ns;  /* since when this one is its owner; 0: it is not */
};

struct collect_discover {
	struct collect_collector *c;
	struct collect_discover_opts o;
	struct collect_peers *peers; /* NULL: no others */
	pthread_t asker, assigner;
	bool asks, assigns;
	int stop;

	pthread_mutex_t lock; /* of what the sources said last */
	struct collect_targets *said, *peers_said;
	uint64_t generation;

	/* The assigner's. */
	uint64_t seen; /* generation */
	struct found_host *host;
	size_t hosts, room;
	uint64_t turn_ns; /* of its last turn */

	struct collect_discover_stats stats; /* relaxed */
};

/* ---- sources ---- */

static void ask(struct collect_discover *d, const struct base_strings *from,
		struct collect_targets *said)
{
	for (size_t i = 0; i < from->n; i++) {
		struct collect_targets t = {0};
		char error[256] = "";

		if (collect_source_ask(from->v[i], &d->o.source, &t, error, sizeof(error))) {
			relaxed_add(d->stats.errors, 1);
			base_log_limited(BASE_WARN, "discover",
					 "source failed, its hosts stay source=%s error=\"%s\"",
					 from->v[i], error);
			collect_targets_free(&t);
			continue;
		}
		pthread_mutex_lock(&d->lock);
		collect_targets_free(&said[i]);
		said[i] = t;
		d->generation++;
		pthread_mutex_unlock(&d->lock);
	}
}

static void ask_all(struct collect_discover *d)
{
	ask(d, &d->o.sources, d->said);
	ask(d, &d->o.peers, d->peers_said);
}

static void *ask_main(void *arg)
{
	struct collect_discover *d = arg;

	pthread_setname_np(pthread_self(), "discover");
	while (!base_stop_wait(d->stop, (int)(d->o.every_ns / 1000000u)))
		ask_all(d);
	return NULL;
}

/* ---- hosts ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct found_host *)a)->name, ((const struct found_host *)b)->name);
}

static struct found_host *find(struct collect_discover *d, size_t sorted, const char *name)
{
	struct found_host key = {.name = (char *)(uintptr_t)name};

	return sorted ? bsearch(&key, d->host, sorted, sizeof(key), by_name) : NULL;
}

/* Takes over what the sources said. Under the lock. */
static void take_hosts(struct collect_discover *d)
{
	size_t sorted = d->hosts;

	for (size_t i = 0; i < d->hosts; i++)
		d->host[i].known = false;
	for (size_t s = 0; s < d->o.sources.n; s++)
		for (size_t i = 0; i < d->said[s].n; i++) {
			struct found_host *h = find(d, sorted, d->said[s].name[i]);

			if (h) {
				h->known = true;
				continue;
			}
			if (!BASE_GROW(d->host, d->hosts, d->room))
				return;
			h = &d->host[d->hosts];
			*h = (struct found_host){
				.name = strdup(d->said[s].name[i]), .slot = -1, .known = true};
			d->hosts += h->name != NULL;
		}
	qsort(d->host, d->hosts, sizeof(*d->host), by_name);
	for (size_t i = 1; i < d->hosts; i++) /* named by two sources at first */
		if (!strcmp(d->host[i - 1].name, d->host[i].name))
			d->host[i].known = false;
}

static void let_go(struct collect_discover *d, struct found_host *h)
{
	if (!h->owned)
		return;
	collect_collector_want_host(d->c, (size_t)h->slot, false);
	h->owned = false;
	relaxed_add(d->stats.let_go, 1);
	relaxed_sub(d->stats.owned, 1);
}

static void take(struct collect_discover *d, struct found_host *h)
{
	if (h->slot < 0)
		h->slot = collect_collector_add_host(d->c, h->name);
	if (h->slot < 0) {
		relaxed_add(d->stats.refused, 1);
		base_log_limited(BASE_WARN, "discover",
				 "host is not read host=%s: more than --max-hosts", h->name);
		return;
	}
	collect_collector_want_host(d->c, (size_t)h->slot, true);
	h->owned = true;
	relaxed_add(d->stats.taken, 1);
	relaxed_add(d->stats.owned, 1);
}

static void assign(struct collect_discover *d, uint64_t now)
{
	uint64_t known = 0;

	relaxed_store(d->stats.refused, 0);
	for (size_t i = 0; i < d->hosts; i++) {
		struct found_host *h = &d->host[i];

		known += h->known;
		if (!h->known || (d->peers && !collect_peers_own(d->peers, h->name))) {
			let_go(d, h);
			h->mine_ns = 0;
			continue;
		}
		h->mine_ns = h->mine_ns ?: now;
		if (!h->owned && (!d->peers || now - h->mine_ns >= HOLD_NS))
			take(d, h);
	}
	relaxed_store(d->stats.hosts, known);
}

/* One that stood still may have lost its hosts to others, which it has not heard of yet. */
static void lapse(struct collect_discover *d)
{
	relaxed_add(d->stats.lapses, 1);
	base_log_limited(BASE_WARN, "discover",
			 "this process stood still: its hosts are let go until peers are heard");
	for (size_t i = 0; i < d->hosts; i++) {
		let_go(d, &d->host[i]);
		d->host[i].mine_ns = 0;
	}
	collect_peers_restart(d->peers);
}

static void turn(struct collect_discover *d)
{
	uint64_t now = base_now_ns();

	if (d->peers && d->turn_ns && now - d->turn_ns > LEASE_NS)
		lapse(d);
	pthread_mutex_lock(&d->lock);
	if (d->seen != d->generation) {
		d->seen = d->generation;
		take_hosts(d);
		for (size_t i = 0; i < d->o.peers.n; i++)
			collect_peers_named(d->peers, i, &d->peers_said[i]);
	}
	pthread_mutex_unlock(&d->lock);
	if (d->peers)
		collect_peers_poll(d->peers, TURN_MS);
	assign(d, now);
	d->turn_ns = now;
	if (d->peers)
		collect_collector_lease(d->c, now + LEASE_NS);
}

static void *assign_main(void *arg)
{
	struct collect_discover *d = arg;

	pthread_setname_np(pthread_self(), "assign");
	while (!base_stop_wait(d->stop, d->peers ? 0 : TURN_MS))
		turn(d);
	return NULL;
}

/* ---- the interface ---- */

void collect_discover_stats(struct collect_discover *d, struct collect_discover_stats *out)
{
	*out = (struct collect_discover_stats){.hosts = relaxed_load(d->stats.hosts),
					       .owned = relaxed_load(d->stats.owned),
					       .errors = relaxed_load(d->stats.errors),
					       .refused = relaxed_load(d->stats.refused),
					       .taken = relaxed_load(d->stats.taken),
					       .let_go = relaxed_load(d->stats.let_go),
					       .lapses = relaxed_load(d->stats.lapses),
					       .peers = {.known = 1, .alive = 1, .joined = 1}};
	if (d->peers)
		collect_peers_stats(d->peers, &out->peers);
}

void collect_discover_put(struct collect_discover *d, struct base_json *j)
{
	if (d->peers)
		collect_peers_put(d->peers, j);
}

struct collect_discover *collect_discover_new(struct collect_collector *c,
					      const struct collect_discover_opts *opts, char *error,
					      size_t error_bytes)
{
	struct collect_discover *d = calloc(1, sizeof(*d));

	snprintf(error, error_bytes, "out of memory");
	if (!d)
		return NULL;
	d->c = c;
	d->o = *opts;
	d->o.every_ns = d->o.every_ns ?: 5 * SECOND_NS;
	pthread_mutex_init(&d->lock, NULL);
	d->stop = eventfd(0, EFD_CLOEXEC);
	d->said = calloc(opts->sources.n + 1, sizeof(*d->said));
	d->peers_said = calloc(opts->peers.n + 1, sizeof(*d->peers_said));
	if (d->stop < 0 || !d->said || !d->peers_said)
		goto fail;
	if (opts->peers.n) {
		d->peers = collect_peers_new(opts->self, opts->peers_config, error, error_bytes);
		if (!d->peers)
			goto fail;
		collect_collector_lease(c, 1); /* nothing is read before the first turn */
	}
	return d;
fail:
	collect_discover_free(d);
	return NULL;
}

int collect_discover_start(struct collect_discover *d)
{
	int err;

	ask_all(d);
	err = -pthread_create(&d->asker, NULL, ask_main, d);
	d->asks = !err;
	err = err ?: -pthread_create(&d->assigner, NULL, assign_main, d);
	d->assigns = !err;
	return err;
}

void collect_discover_free(struct collect_discover *d)
{
	if (!d)
		return;
	if (d->stop >= 0)
		eventfd_write(d->stop, 1);
	if (d->asks)
		pthread_join(d->asker, NULL);
	if (d->assigns)
		pthread_join(d->assigner, NULL);
	for (size_t i = 0; d->said && i < d->o.sources.n; i++)
		collect_targets_free(&d->said[i]);
	for (size_t i = 0; d->peers_said && i < d->o.peers.n; i++)
		collect_targets_free(&d->peers_said[i]);
	for (size_t i = 0; i < d->hosts; i++)
		free(d->host[i].name);
	collect_peers_free(d->peers);
	pthread_mutex_destroy(&d->lock);
	if (d->stop >= 0)
		close(d->stop);
	free(d->host);
	free(d->said);
	free(d->peers_said);
	free(d);
}
