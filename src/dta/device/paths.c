// SPDX-License-Identifier: Apache-2.0
/* paths.c - combines reports of single switches into paths (paths.h) */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/table.h"
#include "frame.h"
#include "paths.h"

struct joined_hop {
	/* next hop of the path in order of arrival, or next free element */
	struct joined_hop *next;
	struct dta_record r;
	uint64_t entered;
};

struct joined_path {
	struct base_node node;
	uint64_t began_ns;
	uint32_t hops;
	struct joined_hop *first, **last;
};

struct dta_paths {
	pthread_mutex_t lock;
	struct joined_hop *free;
	uint32_t oldest, waiting; /* .path is a ring, because all paths wait equally long */
	struct joined_path path[DTA_PATHS];
	struct base_table table;
	struct joined_hop hop[DTA_PATHS_HOPS];
};

struct dta_paths *dta_paths_new(void)
{
	struct dta_paths *p = calloc(1, sizeof(*p));

	if (!p || !base_table_init(&p->table)) {
		free(p);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	for (uint32_t i = 0; i < DTA_PATHS_HOPS; i++)
		p->hop[i].next = i + 1 < DTA_PATHS_HOPS ? &p->hop[i + 1] : NULL;
	p->free = p->hop;
	return p;
}

void dta_paths_free(struct dta_paths *p)
{
	if (p)
		base_table_free(&p->table);
	free(p);
}

static uint64_t number_of(const struct dta_record *r, enum dta_field f)
{
	return dta_record_has(r, f) ? r->number[f] : 0;
}

static uint64_t hash_of(const struct dta_record *r, uint64_t id)
{
	const struct {
		struct in6_addr from, to;
		uint64_t ports, id;
	} key = {r->address[DTA_FIELD_SOURCE], r->address[DTA_FIELD_DESTINATION],
		 number_of(r, DTA_FIELD_SOURCE_PORT) << 32 |
			 number_of(r, DTA_FIELD_DESTINATION_PORT) << 8 |
			 number_of(r, DTA_FIELD_PROTOCOL),
		 id};

	return base_hash(0, &key, sizeof(key));
}

static bool comes_before(const struct joined_hop *a, const struct joined_hop *b)
{
	const uint64_t ttl_a = a->r.number[DTA_FIELD_TTL], ttl_b = b->r.number[DTA_FIELD_TTL];

	return ttl_a != ttl_b ? ttl_a > ttl_b : a->entered && b->entered && a->entered < b->entered;
}

/* Emits the hops of the oldest path in order; with their positions, unless a router is missing. */
static void give_oldest(struct dta_paths *p, struct dta_decoder *d)
{
	struct joined_path *oldest = &p->path[p->oldest++ % DTA_PATHS];
	struct joined_hop *sorted[DTA_PATH_HOPS];
	bool whole = oldest->hops > 1;
	uint32_t n = 0, i;

	base_table_remove(&p->table, oldest);
	p->waiting--;
	for (struct joined_hop *h = oldest->first; h; h = h->next) {
		for (i = n++; i && comes_before(h, sorted[i - 1]); i--)
			sorted[i] = sorted[i - 1];
		sorted[i] = h;
	}
	for (i = 1; i < n; i++)
		whole &= sorted[i - 1]->r.number[DTA_FIELD_TTL] -
				 sorted[i]->r.number[DTA_FIELD_TTL] <=
			 1;
	for (i = 0; i < n; i++) {
		if (whole) {
			dta_record_set(&sorted[i]->r, DTA_FIELD_HOP, i);
			dta_record_set(&sorted[i]->r, DTA_FIELD_HOPS, n);
		}
		dta_decoder_give(d, &sorted[i]->r);
		sorted[i]->next = p->free;
		p->free = sorted[i];
	}
}

static void give_due(struct dta_paths *p, struct dta_decoder *d, uint64_t now_ns)
{
	/* Another worker's clock may be ahead of now_ns. */
	while (p->waiting && now_ns >= p->path[p->oldest % DTA_PATHS].began_ns + DTA_PATH_NS)
		give_oldest(p, d);
}

void dta_paths_flush(struct dta_paths *p, struct dta_decoder *d, uint64_t now_ns)
{
	pthread_mutex_lock(&p->lock);
	give_due(p, d, now_ns);
	pthread_mutex_unlock(&p->lock);
}

static struct joined_path *add_path(struct dta_paths *p, uint64_t hash, uint64_t now_ns)
{
	struct joined_path *path = &p->path[(p->oldest + p->waiting++) % DTA_PATHS];

	*path = (struct joined_path){.began_ns = now_ns, .last = &path->first};
	base_table_add(&p->table, path, hash);
	return path;
}

static bool take_hop(struct dta_paths *p, struct dta_decoder *d, const struct dta_record *r,
		     uint64_t hash, uint64_t entered, uint64_t now_ns)
{
	struct joined_path *path;
	struct joined_hop *hop;

	give_due(p, d, now_ns);
	for (; !p->free || p->waiting == DTA_PATHS; d->stats.refused[DTA_DEVICE_NO_ROOM]++)
		give_oldest(p, d);
	path = base_table_first(&p->table, hash);
	for (hop = path ? path->first : NULL; hop; hop = hop->next)
		if (hop->r.number[DTA_FIELD_SWITCH] == r->number[DTA_FIELD_SWITCH] &&
		    hop->r.number[DTA_FIELD_TTL] == r->number[DTA_FIELD_TTL])
			return false;
	if (!path)
		path = add_path(p, hash, now_ns);
	else if (path->hops == DTA_PATH_HOPS)
		return false;
	hop = p->free;
	p->free = hop->next;
	hop->r = *r;
	hop->entered = entered;
	hop->next = NULL;
	*path->last = hop;
	path->last = &hop->next;
	path->hops++;
	return true;
}

bool dta_paths_take(struct dta_paths *p, struct dta_decoder *d, const struct dta_record *r,
		    uint64_t id, uint64_t entered, uint64_t now_ns)
{
	const uint64_t hash = hash_of(r, id);
	bool taken;

	pthread_mutex_lock(&p->lock);
	taken = take_hop(p, d, r, hash, entered, now_ns);
	pthread_mutex_unlock(&p->lock);
	return taken;
}
