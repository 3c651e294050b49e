// SPDX-License-Identifier: Apache-2.0
/*
 * rdma.c - where regions are mapped, and how they are registered for remote reading.
 *
 * Without --rdma a region is mapped anywhere and has no key. With it, regions are placed one after
 * the other in a reserved range of addresses, the arena, so that neighbours can share one memory
 * region of the device: a collector then READs across them in one work request, and the adapter
 * keeps one key in its cache instead of sixteen.
 *
 * A new region is registered by itself at once. When it has settled (--rdma-settle) it is taken
 * together with its neighbours: runs double, 1 + 1, 2 + 2, 4 + 4, 8 + 8, so that a region is
 * registered at most five times. The new key is published, and the old one stays valid for two
 * leases, since a READ by a key that is gone would break the collector's connection. When a
 * member goes, the others are registered anew, in the runs that are left, in the same manner.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sys/epoll.h>

#include "agent/internal.h"

#define PAGE	      4096u
#define GROUP_REGIONS 16u
#define GROUP_BYTES   (8u << 20)
#define QUEUES_SHOWN  1024u

/* Either mapped (a region may not be there yet) or free; the list is in the order of addresses. */
struct block {
	char *at;
	uint64_t bytes; /* whole pages */
	bool used;
	struct region *region;
	TAILQ_ENTRY(block) link;
};

struct mr {
	struct sl_host_key key;
	char *from, *to;
	uint32_t members; /* regions whose entries name it */
	bool released;	  /* no entry names it any more; the timer runs */
	struct timer timer;
	TAILQ_ENTRY(mr) link;
};

struct rdma {
	struct source source;
	struct sl_host *host; /* NULL: the device is gone */
	struct sl_host_opts opts;
	struct sl_host_key board;
	char *arena;
	uint64_t arena_bytes;
	TAILQ_HEAD(block_list, block) blocks;
	TAILQ_HEAD(, mr) mrs;
	uint32_t mr_count;
	struct timer reopen;
	char where[160];
};

static uint64_t pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* ---- the arena --------------------------------------------------------------------------------- */

static struct block *block_new(char *at, uint64_t bytes)
{
	struct block *b = calloc(1, sizeof(*b));

	if (b) {
		b->at = at;
		b->bytes = bytes;
	}
	return b;
}

/* First fit: the arena stays dense, and neighbours are found. */
static struct block *block_take(struct rdma *d, uint64_t bytes)
{
	struct block *b, *rest;

	TAILQ_FOREACH(b, &d->blocks, link)
	if (!b->used && b->bytes >= bytes)
		break;
	if (!b)
		return NULL;
	if (b->bytes > bytes) {
		rest = block_new(b->at + bytes, b->bytes - bytes);
		if (!rest)
			return NULL;
		b->bytes = bytes;
		TAILQ_INSERT_AFTER(&d->blocks, b, rest, link);
	}
	b->used = true;
	return b;
}

static void block_join(struct rdma *d, struct block *a, struct block *b)
{
	if (!a || !b || a->used || b->used)
		return;
	a->bytes += b->bytes;
	TAILQ_REMOVE(&d->blocks, b, link);
	free(b);
}

static void block_give(struct rdma *d, struct block *b)
{
	struct block *before = TAILQ_PREV(b, block_list, link);

	b->used = false;
	b->region = NULL;
	block_join(d, b, TAILQ_NEXT(b, link));
	block_join(d, before, b);
}

static struct block *block_at(const struct rdma *d, const void *at)
{
	struct block *b;

	TAILQ_FOREACH(b, &d->blocks, link)
	if (b->at == at)
		return b;
	return NULL;
}

void *rdma_map(struct sl_agent *a, int fd, uint64_t size)
{
	struct block *b;
	void *map;

	if (!a->rdma)
		return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	b = block_take(a->rdma, pages(size));
	if (!b) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	map = mmap(b->at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	if (map == MAP_FAILED)
		block_give(a->rdma, b);
	return map;
}

void rdma_unmap(struct sl_agent *a, void *map, uint64_t size)
{
	if (!a->rdma) {
		munmap(map, size);
		return;
	}
	/* Not a hole that somebody else's mmap() could fall into: reserved again. */
	mmap(map, pages(size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
	     -1, 0);
	block_give(a->rdma, block_at(a->rdma, map));
}

/* ---- memory regions ------------------------------------------------------------------------------- */

static void mr_free(struct rdma *d, struct mr *m)
{
	timer_stop(&m->timer);
	if (d->host)
		sl_host_unregister(d->host, &m->key);
	TAILQ_REMOVE(&d->mrs, m, link);
	d->mr_count--;
	free(m);
}

static int mr_new(struct sl_agent *a, char *from, char *to, struct mr **out)
{
	struct rdma *d = a->rdma;
	struct mr *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	err = sl_host_register(d->host, from, (size_t)(to - from), &m->key);
	if (err) {
		a->n.registration_failures++;
		sl_log_limited(SL_ERROR, LOG,
			       "registration failed bytes=%zu: %s; see LimitMEMLOCK and the "
			       "device's max_mr",
			       (size_t)(to - from), strerror(-err));
		free(m);
		return err;
	}
	m->from = from;
	m->to = to;
	TAILQ_INSERT_TAIL(&d->mrs, m, link);
	d->mr_count++;
	*out = m;
	return 0;
}

/* One region less names it. Those who read by its key do so for a lease yet: two are given. */
static void mr_leave(struct sl_agent *a, struct mr *m, bool now)
{
	if (--m->members)
		return;
	if (now || m->released) {
		mr_free(a->rdma, m);
		return;
	}
	m->released = true;
	timer_start(&a->timers[TIMER_RELEASE], &m->timer, agent_now(a));
}

void rdma_timer_release(struct sl_agent *a, struct timer *t)
{
	mr_free(a->rdma, (struct mr *)((char *)t - offsetof(struct mr, timer)));
}

/* From here on the region's entry names this one. */
static void region_move(struct sl_agent *a, struct region *r, struct mr *to)
{
	struct mr *from = r->mr;

	r->mr = to;
	to->members++;
	region_publish(a, r);
	if (from)
		mr_leave(a, from, false);
}

int rdma_add(struct sl_agent *a, struct region *r)
{
	struct rdma *d = a->rdma;
	struct block *b;
	int err;

	if (!d)
		return 0;
	b = block_at(d, r->map);
	b->region = r;
	if (!d->host)
		return 0; /* when the device comes back */
	err = mr_new(a, b->at, b->at + b->bytes, &r->mr);
	if (err) {
		b->region = NULL;
		return err;
	}
	r->mr->members = 1;
	timer_start(&a->timers[TIMER_SETTLE], &r->settle, agent_now(a));
	return 0;
}

/* Two leases have passed since it was retired: nobody reads it by any key. */
void rdma_remove(struct sl_agent *a, struct region *r)
{
	if (r->mr)
		mr_leave(a, r->mr, true);
	r->mr = NULL;
}

void rdma_where(const struct sl_agent *a, const struct region *r, uint64_t *addr, uint32_t *rkey)
{
	bool there = a->rdma && a->rdma->host && r->mr;

	*addr = there ? (uintptr_t)r->map : 0;
	*rkey = there ? r->mr->key.rkey : 0;
}

/* ---- neighbours -------------------------------------------------------------------------------------- */

struct run { /* of blocks without a gap between them, all of one memory region */
	struct block *first, *last;
	uint32_t count;
	uint64_t bytes;
};

static bool settled(const struct block *b)
{
	return b && b->used && b->region && b->region->mr && !b->region->settle.in &&
	       b->region->state == SL_STATE_LIVE;
}

/* The run that a block belongs to; count 0 if not all of it has settled. */
static struct run run_of(struct block *b)
{
	struct run none = {0}, run = {b, b, 1, 0};
	struct block *n;

	if (!settled(b))
		return none;
	run.bytes = b->bytes;
	while ((n = TAILQ_PREV(run.first, block_list, link)) && n->region &&
	       n->region->mr == b->region->mr) {
		run.first = n;
		run.count++;
		run.bytes += n->bytes;
	}
	while ((n = TAILQ_NEXT(run.last, link)) && n->region && n->region->mr == b->region->mr) {
		run.last = n;
		run.count++;
		run.bytes += n->bytes;
	}
	for (n = run.first; n != TAILQ_NEXT(run.last, link); n = TAILQ_NEXT(n, link))
		if (!settled(n))
			return none;
	return run;
}

static bool fits(const struct run *one, const struct run *other)
{
	return other->count && other->count <= one->count &&
	       one->count + other->count <= GROUP_REGIONS &&
	       one->bytes + other->bytes <= GROUP_BYTES;
}

void rdma_timer_settle(struct sl_agent *a, struct timer *t)
{
	struct region *r = (struct region *)((char *)t - offsetof(struct region, settle));
	struct rdma *d = a->rdma;
	struct run all, more;
	struct block *b, *n;
	struct mr *m;

	if (!d->host || !r->mr)
		return;
	b = block_at(d, r->map);
	all = run_of(b);
	if (!all.count)
		return;
	for (bool grown = true; grown;) {
		grown = false;
		n = TAILQ_PREV(all.first, block_list, link);
		more = n ? run_of(n) : (struct run){0};
		if (fits(&all, &more)) {
			all.first = more.first;
			grown = true;
		} else {
			n = TAILQ_NEXT(all.last, link);
			more = n ? run_of(n) : (struct run){0};
			if (fits(&all, &more)) {
				all.last = more.last;
				grown = true;
			}
		}
		if (grown) {
			all.count += more.count;
			all.bytes += more.bytes;
		}
	}
	if (all.first->region->mr == all.last->region->mr)
		return; /* found none */
	if (mr_new(a, all.first->at, all.last->at + all.last->bytes, &m))
		return; /* as it was is good, too */
	a->n.promotions++;
	a->n.promoted_regions += all.count;
	for (n = all.first;; n = TAILQ_NEXT(n, link)) {
		region_move(a, n->region, m);
		if (n == all.last)
			break;
	}
}

/* Registers blocks [first, last] together, which were part of something larger. */
static void regroup(struct sl_agent *a, struct block *first, struct block *last)
{
	struct mr *m;

	if (mr_new(a, first->at, last->at + last->bytes, &m))
		return; /* they keep the old one, which covers a hole then: counted, and harmless */
	for (struct block *n = first;; n = TAILQ_NEXT(n, link)) {
		region_move(a, n->region, m);
		if (n == last)
			break;
	}
}

/* A region is retired: those registered together with it get new keys before it is unmapped. */
void rdma_retire(struct sl_agent *a, struct region *r)
{
	struct block *b, *n, *first, *last;

	timer_stop(&r->settle);
	if (!r->mr || r->mr->members < 2)
		return;
	a->n.breakups++;
	b = block_at(a->rdma, r->map);
	first = last = b;
	while ((n = TAILQ_PREV(first, block_list, link)) && n->region && n->region->mr == r->mr)
		first = n;
	while ((n = TAILQ_NEXT(last, link)) && n->region && n->region->mr == r->mr)
		last = n;
	if (first != b)
		regroup(a, first, TAILQ_PREV(b, block_list, link));
	if (last != b)
		regroup(a, TAILQ_NEXT(b, link), last);
}

/* ---- the device ----------------------------------------------------------------------------------------- */

static int device_open(struct sl_agent *a, char *error, size_t bytes)
{
	struct rdma *d = a->rdma;
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &d->source};
	struct sl_host_stats s;
	int err;

	d->host = sl_host_open(&d->opts, error, bytes);
	if (!d->host)
		return -errno;
	err = sl_host_register(d->host, a->dir.map, a->dir.size, &a->dir.key);
	if (err) {
		snprintf(error, bytes, "cannot register the directory: %s (see LimitMEMLOCK)",
			 strerror(-err));
		goto err;
	}
	err = sl_host_register_board(d->host, a->board, board_bytes(a), &d->board, board_notice, a);
	if (err) {
		snprintf(error, bytes, "cannot register the board of verdicts: %s", strerror(-err));
		goto err_directory;
	}
	sl_host_set_directory(d->host, &a->dir.key, a->dir.size, a->dir.instance);
	if (a->epoll_fd >= 0 && epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, sl_host_fd(d->host), &ev)) {
		err = -errno;
		snprintf(error, bytes, "epoll: %s", strerror(errno));
		goto err_board;
	}
	sl_host_stats(d->host, &s);
	snprintf(d->where, sizeof(d->where), "%s/%s", s.device, s.address);
	return 0;

err_board:
	sl_host_unregister(d->host, &d->board);
err_directory:
	sl_host_unregister(d->host, &a->dir.key);
err:
	sl_host_close(d->host);
	d->host = NULL;
	return err;
}

static void device_close(struct sl_agent *a)
{
	struct rdma *d = a->rdma;
	struct mr *m;

	if (!d->host)
		return;
	for (uint32_t i = 0; i < a->slot_count; i++)
		if (a->slots[i])
			a->slots[i]->mr = NULL;
	while ((m = TAILQ_FIRST(&d->mrs)))
		mr_free(d, m);
	sl_host_unregister(d->host, &d->board);
	sl_host_unregister(d->host, &a->dir.key);
	if (a->epoll_fd >= 0)
		epoll_ctl(a->epoll_fd, EPOLL_CTL_DEL, sl_host_fd(d->host), NULL);
	sl_host_close(d->host);
	d->host = NULL;
}

/* The device was taken away (module unloaded, cable of a SmartNIC): others go on, this waits. */
static void device_lost(struct sl_agent *a)
{
	device_close(a);
	sl_logf(SL_ERROR, LOG, "the RDMA device is gone, waiting for it device=%s", a->rdma->where);
	for (uint32_t i = 0; i < a->slot_count; i++)
		if (a->slots[i]) {
			timer_stop(&a->slots[i]->settle);
			region_publish(a, a->slots[i]);
		}
	timer_start(&a->timers[TIMER_REOPEN], &a->rdma->reopen, agent_now(a));
}

void rdma_timer_reopen(struct sl_agent *a, struct timer *t)
{
	struct rdma *d = a->rdma;
	char error[256];

	if (device_open(a, error, sizeof(error))) {
		timer_start(&a->timers[TIMER_REOPEN], t, agent_now(a));
		return;
	}
	for (uint32_t i = 0; i < a->slot_count; i++) {
		struct region *r = a->slots[i];
		struct block *b;

		if (!r || r->state == SL_STATE_RETIRED)
			continue;
		b = block_at(d, r->map);
		if (mr_new(a, b->at, b->at + b->bytes, &r->mr))
			continue; /* stays without a key, which readers respect */
		r->mr->members = 1;
		timer_start(&a->timers[TIMER_SETTLE], &r->settle, agent_now(a));
		region_publish(a, r);
	}
	sl_logf(SL_INFO, LOG, "the RDMA device is back device=%s", d->where);
}

void rdma_event(struct sl_agent *a)
{
	struct sl_host_stats s;

	if (!a->rdma || !a->rdma->host)
		return;
	sl_host_dispatch(a->rdma->host);
	sl_host_stats(a->rdma->host, &s);
	if (s.lost)
		device_lost(a);
}

int rdma_init(struct sl_agent *a, char *error, size_t bytes)
{
	struct rdma *d;
	struct block *all;
	int err = -ENOMEM;

	if (!a->o.rdma)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		goto err_memory;
	d->source.kind = SOURCE_HOST;
	d->opts = (struct sl_host_opts){
		.device = a->o.rdma_device && *a->o.rdma_device ? a->o.rdma_device : NULL,
		.address = a->o.rdma_address,
		.port = a->o.rdma_port,
		.gid_index = a->o.rdma_gid,
		.ib_port = a->o.rdma_ib_port,
		.max_queues = a->o.rdma_queues,
	};
	TAILQ_INIT(&d->blocks);
	TAILQ_INIT(&d->mrs);
	/* Addresses cost nothing; twice the memory leaves room for holes. */
	d->arena_bytes = pages(a->o.max_memory) * 2 + (64u << 20);
	d->arena = mmap(NULL, d->arena_bytes, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (d->arena == MAP_FAILED)
		goto err_free;
	err = board_init(a);
	if (err)
		goto err_arena;
	err = -ENOMEM;
	all = block_new(d->arena, d->arena_bytes);
	if (!all)
		goto err_board;
	TAILQ_INSERT_HEAD(&d->blocks, all, link);
	a->rdma = d;
	err = device_open(a, error, bytes);
	if (err)
		rdma_fini(a);
	return err;

err_board:
	board_fini(a);
err_arena:
	munmap(d->arena, d->arena_bytes);
err_free:
	free(d);
err_memory:
	snprintf(error, bytes, "out of memory");
	return err;
}

void rdma_fini(struct sl_agent *a)
{
	struct rdma *d = a->rdma;
	struct block *b;

	if (!d)
		return;
	timer_stop(&d->reopen);
	device_close(a);
	while ((b = TAILQ_FIRST(&d->blocks))) {
		TAILQ_REMOVE(&d->blocks, b, link);
		free(b);
	}
	board_fini(a);
	munmap(d->arena, d->arena_bytes);
	free(d);
	a->rdma = NULL;
}

const char *sl_agent_rdma(const struct sl_agent *a)
{
	return a->rdma ? a->rdma->where : NULL;
}

/* ---- looking at it ------------------------------------------------------------------------------------------ */

size_t rdma_queue_count(const struct sl_agent *a)
{
	return a->rdma && a->rdma->host ? sl_host_queues(a->rdma->host, NULL, 0) : 0;
}

uint32_t rdma_mr_count(const struct sl_agent *a)
{
	return a->rdma ? a->rdma->mr_count : 0;
}

static json_t *queue_json(const struct sl_host_queue *q)
{
	return json_pack("{s:i,s:s,s:s,s:I}", "qp_num", (int)q->qp_num, "peer", q->peer, "state",
			 q->state, "connected_ns", (json_int_t)q->connected_ns);
}

json_t *rdma_queues_json(const struct sl_agent *a, int64_t number)
{
	struct sl_host_queue *q = calloc(QUEUES_SHOWN, sizeof(*q));
	json_t *all = json_array(), *one = NULL;
	size_t n = 0;

	if (q && a->rdma && a->rdma->host)
		n = sl_host_queues(a->rdma->host, q, QUEUES_SHOWN);
	for (size_t i = 0; i < n && i < QUEUES_SHOWN; i++) {
		if (number == q[i].qp_num)
			one = queue_json(&q[i]);
		json_array_append_new(all, queue_json(&q[i]));
	}
	free(q);
	if (number >= 0) {
		json_decref(all);
		return one;
	}
	return json_pack("{s:b,s:o}", "rdma", a->rdma != NULL, "qps", all);
}

json_t *rdma_connect_json(const struct sl_agent *a)
{
	struct sl_host_stats s;

	if (!a->rdma || !a->rdma->host)
		return json_null();
	sl_host_stats(a->rdma->host, &s);
	return json_pack(
		"{s:s,s:s,s:i,s:s,s:s,s:i,s:i,s:{s:s,s:i,s:s}}", "by", "rdma_cm", "address",
		s.address, "port", (int)s.port, "device", s.device, "gid", s.gid, "gid_index",
		s.gid_index, "ib_port", s.ib_port, "private_data", "of", "rdma_accept", "bytes",
		(int)sizeof(struct sl_host_hello), "fields",
		"u32 magic \"SLH1\", u32 version 1, u64 agent_instance, u64 "
		"directory_addr, u64 directory_length, u32 directory_rkey, u32 reserved[3]");
}

json_t *rdma_directory_json(const struct sl_agent *a)
{
	return json_pack("{s:I,s:I,s:I}", "address", (json_int_t)a->dir.key.addr, "length",
			 (json_int_t)a->dir.size, "rkey", (json_int_t)a->dir.key.rkey);
}
