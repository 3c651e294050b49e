// SPDX-License-Identifier: Apache-2.0
#include "collect/discover/discover.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/thread.h"

#define SECOND_NS 1000000000ull

struct found_host {
	char *name;
	int slot;	  /* slot of the host in the collector; < 0 means none */
	bool known, read; /* known: named by a source */
};

struct collect_discover {
	struct collect_collector *c;
	struct collect_discover_opts o;
	struct base_thread thread;
	struct collect_targets *said; /* last valid answer from each source */
	bool shard_failed;	      /* the shard's file could not be read last time */
	struct found_host *host;      /* sorted by name */
	size_t hosts, room;
	struct collect_discover_stats now; /* updated by the thread only */

	pthread_mutex_t lock; /* protects the fields that other threads read */
	struct collect_discover_stats shown;
};

/* ---- the shard ---- */

static void use_shard(struct collect_discover *d, const struct collect_shard *s)
{
	const struct collect_shard *before = &d->now.shard;

	if (s->member == before->member && s->members == before->members)
		return;
	if (before->members)
		base_logf(BASE_INFO, "discover", "the shard is now %u/%u instead of %u/%u",
			  s->member, s->members, before->member, before->members);
	d->now.shard = *s;
	d->now.replicas = BASE_MIN(d->o.replicas ?: 1u, s->members);
}

/* Rereads the shard's file. */
static void refresh_shard(struct collect_discover *d)
{
	struct collect_shard s;
	char error[256];

	if (!d->o.shard || !collect_source_file(d->o.shard))
		return;
	if (collect_shard_parse(d->o.shard, &s, error, sizeof(error))) {
		d->now.errors++;
		if (!d->shard_failed)
			base_logf(BASE_WARN, "discover",
				  "cannot read --shard again, keeping shard %u/%u error=\"%s\"",
				  d->now.shard.member, d->now.shard.members, error);
		d->shard_failed = true;
		return;
	}
	d->shard_failed = false;
	use_shard(d, &s);
}

/* ---- sources ---- */

static void ask_sources(struct collect_discover *d)
{
	for (size_t i = 0; i < d->o.sources.n; i++) {
		const char *source = d->o.sources.v[i];
		struct collect_targets t = {0};
		char error[256] = "";

		if (collect_source_ask(source, &d->o.source, &t, error, sizeof(error))) {
			d->now.errors++;
			base_log_each(BASE_WARN, "discover", source,
				      "discovery source failed, keeping its hosts source=%s "
				      "error=\"%s\"",
				      source, error);
			collect_targets_free(&t);
			continue;
		}
		collect_targets_free(&d->said[i]);
		d->said[i] = t;
	}
}

/* ---- hosts ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct found_host *)a)->name, ((const struct found_host *)b)->name);
}

/* Returns the first host of this name, as sources may name it twice. */
static struct found_host *find_host(struct collect_discover *d, size_t sorted, const char *name)
{
	size_t at;

	BASE_LOWER_BOUND(at, 0, sorted, strcmp(d->host[at].name, name) < 0);
	return at < sorted && !strcmp(d->host[at].name, name) ? &d->host[at] : NULL;
}

/* Marks the hosts that sources name, and adds new ones. */
static void update_hosts(struct collect_discover *d)
{
	size_t sorted = d->hosts;

	for (size_t i = 0; i < d->hosts; i++)
		d->host[i].known = false;
	for (size_t s = 0; s < d->o.sources.n; s++)
		for (size_t i = 0; i < d->said[s].n; i++) {
			struct found_host *h = find_host(d, sorted, d->said[s].name[i]);

			if (h) {
				h->known = true;
				continue;
			}
			if (!BASE_GROW(d->host, d->hosts, d->room))
				continue; /* the next query finds it again */
			h = &d->host[d->hosts];
			*h = (struct found_host){
				.name = strdup(d->said[s].name[i]), .slot = -1, .known = true};
			d->hosts += h->name != NULL;
		}
	qsort(d->host, d->hosts, sizeof(*d->host), compare_names);
	for (size_t i = 1; i < d->hosts; i++) /* named twice */
		if (!strcmp(d->host[i - 1].name, d->host[i].name))
			d->host[i].known = false;
}

static void let_go_host(struct collect_discover *d, struct found_host *h)
{
	if (!h->read)
		return;
	collect_collector_want_host(d->c, (size_t)h->slot, false);
	h->read = false;
	d->now.let_go++;
}

static void take_host(struct collect_discover *d, struct found_host *h)
{
	if (h->read)
		return;
	if (h->slot < 0)
		h->slot = collect_collector_add_host(d->c, h->name);
	if (h->slot < 0) {
		d->now.refused++;
		base_log_each(BASE_WARN, "discover", h->name,
			      "host is not read because --max-hosts is reached host=%s", h->name);
		return;
	}
	collect_collector_want_host(d->c, (size_t)h->slot, true);
	h->read = true;
	d->now.taken++;
}

static bool is_wanted(const struct collect_discover *d, const struct found_host *h)
{
	const struct collect_discover_stats *n = &d->now;

	return h->known && (!n->shard.members ||
			    collect_shard_reads(&n->shard, (unsigned int)n->replicas, h->name));
}

static void assign_hosts(struct collect_discover *d)
{
	struct collect_discover_stats *n = &d->now;

	n->known = n->read = n->refused = n->list = 0;
	for (size_t i = 0; i < d->hosts; i++) {
		struct found_host *h = &d->host[i];

		if (is_wanted(d, h))
			take_host(d, h);
		else
			let_go_host(d, h);
		n->known += h->known;
		n->read += h->read;
		/* A sum, so that the order of the hosts does not matter. */
		if (h->known)
			n->list = (uint32_t)(n->list + collect_shard_hash(0, h->name));
	}
	pthread_mutex_lock(&d->lock);
	d->shown = *n;
	pthread_mutex_unlock(&d->lock);
}

/* Forgets hosts that no source names any more, except those with a slot, which they keep. */
static void forget_hosts(struct collect_discover *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->hosts; i++)
		if (d->host[i].known || d->host[i].slot >= 0)
			d->host[kept++] = d->host[i];
		else
			free(d->host[i].name);
	d->hosts = kept;
}

static void discover_hosts(struct collect_discover *d)
{
	refresh_shard(d);
	ask_sources(d);
	update_hosts(d);
	assign_hosts(d);
	forget_hosts(d);
}

static void *run_thread(void *arg)
{
	struct collect_discover *d = arg;

	pthread_setname_np(pthread_self(), "discover");
	while (!base_stop_wait(d->thread.stop, (int)(d->o.every_ns / 1000000u)))
		discover_hosts(d);
	return NULL;
}

/* ---- the interface ---- */

void collect_discover_stats(struct collect_discover *d, struct collect_discover_stats *out)
{
	pthread_mutex_lock(&d->lock);
	*out = d->shown;
	pthread_mutex_unlock(&d->lock);
}

struct collect_discover *collect_discover_new(struct collect_collector *c,
					      const struct collect_discover_opts *opts, char *error,
					      size_t error_bytes)
{
	struct collect_discover *d = calloc(1, sizeof(*d));
	struct collect_shard shard;

	snprintf(error, error_bytes, "out of memory");
	if (!d)
		return NULL;
	d->c = c;
	d->o = *opts;
	d->o.every_ns = d->o.every_ns ?: 5 * SECOND_NS;
	d->now.replicas = 1;
	pthread_mutex_init(&d->lock, NULL);
	d->said = calloc(opts->sources.n + 1, sizeof(*d->said));
	if (!d->said)
		goto fail;
	if (opts->shard) {
		if (collect_shard_parse(opts->shard, &shard, error, error_bytes))
			goto fail;
		use_shard(d, &shard);
	}
	d->shown = d->now;
	return d;
fail:
	collect_discover_free(d);
	return NULL;
}

int collect_discover_start(struct collect_discover *d)
{
	discover_hosts(d);
	return base_thread_start(&d->thread, run_thread, d);
}

void collect_discover_free(struct collect_discover *d)
{
	if (!d)
		return;
	base_thread_stop(&d->thread);
	for (size_t i = 0; d->said && i < d->o.sources.n; i++)
		collect_targets_free(&d->said[i]);
	for (size_t i = 0; i < d->hosts; i++)
		free(d->host[i].name);
	pthread_mutex_destroy(&d->lock);
	free(d->host);
	free(d->said);
	free(d);
}
