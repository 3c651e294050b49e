// SPDX-License-Identifier: Apache-2.0
/*
 * rdma.c - maps regions and registers them for remote reading.
 *
 * Without --rdma, a region is mapped anywhere and has no key. With --rdma, regions are placed next
 * to each other in a reserved range of addresses, the arena, so that neighbours can share a memory
 * region of the device: a collector READs them all in one work request, and the adapter caches one
 * key instead of sixteen.
 *
 * A new region is at first registered individually. Once it has settled (--rdma-settle), it is
 * merged with its neighbours in runs that double in size, 1 + 1, 2 + 2, 4 + 4, 8 + 8, so a region
 * is registered at most five times. The new key is published, and the old key stays valid for two
 * leases, because a READ with an invalid key breaks the collector's connection. When a region of a
 * run is retired, the remaining parts of the run are registered again. If that fails, their regions
 * have no key until they can be registered individually.
 *
 * Keys are also renewed, one registration at a time, when they are older than --rdma-key-lifetime,
 * and after a collector has left. The directory's own entry, in slot 0, tells collectors its new
 * key.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/arena.h"
#include "agent/region.h"

#define GROUP_REGIONS 16u
#define GROUP_BYTES   (8u << 20)

const char *const agent_rdma_refusal_names[FABRIC_REFUSED_COUNT] = {
	[FABRIC_REFUSED_MALFORMED] = "malformed", [FABRIC_REFUSED_PROOF] = "proof",
	[FABRIC_REFUSED_SHARE] = "share",	  [FABRIC_REFUSED_FULL] = "full",
	[FABRIC_REFUSED_SYSTEM] = "system",
};

struct agent_mr {
	struct fabric_host_key key;
	const char *from;
	uint32_t members; /* number of regions whose entries hold the key of this registration */
	uint64_t left_ns; /* time when a region that is still read changed to another key */
	bool released;	  /* no entry holds the key any more; the timer is running */
	bool stale;	  /* the key of this registration must be renewed */
	bool directory;	  /* registration of the directory, not of a region */
	struct agent_timer timer, age;
	TAILQ_ENTRY(agent_mr) link;
};

struct agent_rdma {
	struct agent_source source;
	struct fabric_host *host; /* the RDMA device; NULL if it is gone */
	struct agent_mr *directory;
	uint64_t directory_id;
	struct fabric_host_stats counted;
	struct agent_arena arena;
	TAILQ_HEAD(, agent_mr) mrs;
	uint32_t mr_count; /* number of region registrations */
	struct agent_timer reopen, left, renew;
	char where[160];
};

/* ---- mapping ---- */

void *agent_rdma_map(struct agent *a, int fd, uint64_t size, bool writable)
{
	const int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	struct agent_block *b;
	void *map;

	if (!a->rdma)
		return mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	b = agent_arena_take(&a->rdma->arena, size);
	if (!b) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	map = mmap(b->at, size, prot, MAP_SHARED | MAP_FIXED, fd, 0);
	if (map == MAP_FAILED)
		agent_arena_give(&a->rdma->arena, b);
	return map;
}

void agent_rdma_unmap(struct agent *a, void *map, uint64_t size)
{
	if (!a->rdma) {
		munmap(map, size);
		return;
	}
	agent_arena_unmap(&a->rdma->arena, map);
}

/* ---- memory regions ---- */

static void mr_free(struct agent_rdma *d, struct agent_mr *m)
{
	agent_timer_stop(&m->timer);
	agent_timer_stop(&m->age);
	if (d->host)
		fabric_host_unregister(d->host, &m->key);
	TAILQ_REMOVE(&d->mrs, m, link);
	d->mr_count -= !m->directory;
	free(m);
}

static int mr_new(struct agent *a, char *from, char *to, struct agent_mr **out)
{
	struct agent_rdma *d = a->rdma;
	struct agent_mr *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	err = fabric_host_register(d->host, from, (size_t)(to - from), &m->key);
	if (err) {
		a->n.registration_failures++;
		base_log_limited(
			BASE_ERROR, AGENT_LOG,
			"memory registration failed bytes=%zu: %s; see LimitMEMLOCK and the "
			"device's max_mr",
			(size_t)(to - from), strerror(-err));
		free(m);
		return err;
	}
	m->from = from;
	TAILQ_INSERT_TAIL(&d->mrs, m, link);
	d->mr_count++;
	if (a->o.rdma_key_lifetime_ns)
		agent_timer_start(a, TIMER_KEY_AGE, &m->age);
	*out = m;
	return 0;
}

/*
 * Removes a region from its registration. Readers may use the key for one more lease; it stays
 * valid for two. now: the region was retired two leases ago, so the wait depends only on other
 * regions that left recently.
 */
static void mr_leave(struct agent *a, struct agent_mr *m, bool now)
{
	if (!now)
		m->left_ns = agent_now(a);
	if (--m->members)
		return;
	if (m->released || !m->left_ns || agent_now(a) - m->left_ns >= 2 * a->o.lease_ns) {
		mr_free(a->rdma, m);
		return;
	}
	m->released = true;
	agent_timer_start(a, TIMER_RELEASE, &m->timer);
}

void agent_rdma_timer_release(struct agent *a, struct agent_timer *t)
{
	mr_free(a->rdma, AGENT_TIMER_OWNER(t, struct agent_mr, timer));
}

/* Publishes the region's entry with the new key, or without a key if to is NULL. */
static void region_move(struct agent *a, struct agent_region *r, struct agent_mr *to)
{
	struct agent_mr *from = r->mr;

	r->mr = to;
	if (to)
		to->members++;
	agent_region_publish(a, r);
	if (from)
		mr_leave(a, from, false);
}

/* Registering memory would allocate its holes, which would be charged to the agent. */
static bool is_sparse(const struct agent_region *r)
{
	return r->fd >= 0 && !r->kernel && agent_memory_sparse(r->fd, r->info->size);
}

static void report_holes(const struct agent_region *r)
{
	base_log_limited(BASE_WARN, AGENT_LOG,
			 "region cannot be read remotely until its publisher fills the holes in "
			 "its memory: allocate all of it with posix_fallocate() id=%" PRIu64,
			 r->id);
}

/* Registers a region individually; it may be merged once it has settled. */
static int register_alone(struct agent *a, struct agent_region *r, struct agent_block *b)
{
	int err;

	if (is_sparse(r)) {
		report_holes(r);
		return -ENODATA;
	}
	err = mr_new(a, b->at, b->at + b->bytes, &r->mr);
	if (err)
		return err;
	r->mr->members = 1;
	agent_timer_start(a, TIMER_SETTLE, &r->settle);
	return 0;
}

int agent_rdma_add(struct agent *a, struct agent_region *r)
{
	struct agent_rdma *d = a->rdma;
	struct agent_block *b;
	int err;

	if (!d)
		return 0;
	/* Check even without the device: only now can the publisher be told to fill them. */
	if (is_sparse(r))
		return -ENODATA;
	b = agent_arena_at(&d->arena, r->map);
	b->region = r;
	if (!d->host)
		return 0; /* the region is registered when the device returns */
	err = register_alone(a, r, b);
	if (err)
		b->region = NULL;
	return err;
}

/* The region was retired two leases ago, so no reader uses its keys. */
void agent_rdma_remove(struct agent *a, struct agent_region *r)
{
	if (r->mr)
		mr_leave(a, r->mr, true);
	r->mr = NULL;
}

struct fabric_host_key agent_rdma_key(const struct agent *a, const struct agent_region *r)
{
	struct fabric_host_key none = {0};

	return a->rdma && a->rdma->host && r->mr
		       ? (struct fabric_host_key){.addr = r->mr->key.addr +
							  (uint64_t)((char *)r->map - r->mr->from),
						  .rkey = r->mr->key.rkey}
		       : none;
}

/* ---- neighbours ---- */

struct rdma_run { /* a run: adjacent blocks that share a memory region */
	struct agent_block *first, *last;
	uint32_t count;
	uint64_t bytes;
};

static bool is_settled(const struct agent_block *b)
{
	return b && b->used && b->region && b->region->mr && !b->region->settle.in &&
	       b->region->state == SL_STATE_LIVE && !is_sparse(b->region);
}

/* Extends the run to all neighbours of the same memory region. */
static void extend_run(struct rdma_run *run)
{
	const struct agent_mr *m = run->first->region->mr;
	struct agent_block *n;

	while ((n = TAILQ_PREV(run->first, agent_block_list, link)) && n->region &&
	       n->region->mr == m)
		run->first = n;
	while ((n = TAILQ_NEXT(run->last, link)) && n->region && n->region->mr == m)
		run->last = n;
}

/* Returns the run of a block; .count is 0 unless all of its regions have settled. */
static struct rdma_run run_of(struct agent_block *b)
{
	struct rdma_run none = {0}, run = {b, b, 0, 0};
	struct agent_block *n;

	if (!is_settled(b))
		return none;
	extend_run(&run);
	for (n = run.first; n != TAILQ_NEXT(run.last, link); n = TAILQ_NEXT(n, link)) {
		if (!is_settled(n))
			return none;
		run.count++;
		run.bytes += n->bytes;
	}
	return run;
}

/* Merges an adjacent settled run into this one if it is not longer than this one. */
static bool merge_run(struct rdma_run *run, struct agent_block *next, bool before)
{
	struct rdma_run more = run_of(next);

	if (!more.count || more.count > run->count || run->count + more.count > GROUP_REGIONS ||
	    run->bytes + more.bytes > GROUP_BYTES)
		return false;
	if (before)
		run->first = more.first;
	else
		run->last = more.last;
	run->count += more.count;
	run->bytes += more.bytes;
	return true;
}

/*
 * Registers blocks first to last together. Returns false on failure; the old registrations then
 * stay valid.
 */
static bool register_run(struct agent *a, struct agent_block *first, struct agent_block *last)
{
	struct agent_mr *m;

	if (mr_new(a, first->at, last->at + last->bytes, &m))
		return false;
	for (struct agent_block *n = first; n != TAILQ_NEXT(last, link); n = TAILQ_NEXT(n, link))
		region_move(a, n->region, m);
	return true;
}

void agent_rdma_timer_settle(struct agent *a, struct agent_timer *t)
{
	struct agent_region *r = AGENT_TIMER_OWNER(t, struct agent_region, settle);
	struct rdma_run all;

	if (!a->rdma->host || !r->mr)
		return;
	all = run_of(agent_arena_at(&a->rdma->arena, r->map));
	if (!all.count)
		return;
	while (merge_run(&all, TAILQ_PREV(all.first, agent_block_list, link), true) ||
	       merge_run(&all, TAILQ_NEXT(all.last, link), false))
		;
	if (all.first->region->mr == all.last->region->mr || !register_run(a, all.first, all.last))
		return;
	a->n.promotions++;
	a->n.promoted_regions += all.count;
}

/* Withdraws the region's key, and registers the region individually as soon as possible. */
static void withdraw_key(struct agent *a, struct agent_region *r)
{
	region_move(a, r, NULL);
	agent_timer_start(a, TIMER_REGISTER, &r->settle);
}

static bool is_renewable(const struct agent_block *b, const struct agent_mr *m)
{
	return b && b->region && b->region->mr == m && b->region->state != SL_STATE_RETIRED;
}

/*
 * Registers the regions of a registration again, except those that are retired or have holes. The
 * latter lose their key, because the old one must go. Returns false on a failure; the other regions
 * then keep the old key.
 */
static bool register_again(struct agent *a, const struct agent_mr *m)
{
	struct agent_block *first, *last;
	bool all = true;

	TAILQ_FOREACH(first, &a->rdma->arena.blocks, link)
	if (is_renewable(first, m) && is_sparse(first->region)) {
		report_holes(first->region);
		withdraw_key(a, first->region);
	}
	for (first = TAILQ_FIRST(&a->rdma->arena.blocks); first; first = TAILQ_NEXT(last, link)) {
		last = first;
		if (!is_renewable(first, m))
			continue;
		while (is_renewable(TAILQ_NEXT(last, link), m))
			last = TAILQ_NEXT(last, link);
		all &= register_run(a, first, last);
	}
	return all;
}

void agent_rdma_timer_register(struct agent *a, struct agent_timer *t)
{
	struct agent_region *r = AGENT_TIMER_OWNER(t, struct agent_region, settle);

	if (!a->rdma->host)
		return;
	if (register_alone(a, r, agent_arena_at(&a->rdma->arena, r->map)))
		agent_timer_start(a, TIMER_REGISTER, t);
	else
		agent_region_publish(a, r);
}

/* Gives the other regions of the run new keys before this region, now retired, is unmapped. */
void agent_rdma_retire(struct agent *a, struct agent_region *r)
{
	const struct agent_mr *m = r->mr;
	struct agent_block *b;

	agent_timer_stop(&r->settle);
	if (!m || m->members < 2)
		return;
	a->n.breakups++;
	if (register_again(a, m))
		return;
	base_log_limited(BASE_ERROR, AGENT_LOG,
			 "regions cannot be read remotely until their memory can be registered "
			 "again: see LimitMEMLOCK and the device's max_mr");
	TAILQ_FOREACH(b, &a->rdma->arena.blocks, link)
	if (is_renewable(b, m))
		withdraw_key(a, b->region);
}

/* ---- renewal of keys ---- */

/* Writes the directory's entry in itself: collectors that know the old key learn the new one. */
static void publish_directory(struct agent *a)
{
	const struct fabric_host_key *k = &a->rdma->directory->key;
	const uint64_t cells[7] = {
		[SL_ENTRY_ID] = a->rdma->directory_id,
		[SL_ENTRY_ADDR] = k->addr,
		[SL_ENTRY_LENGTH] = a->dir.size,
		[SL_ENTRY_KEY] = SL_ENTRY_KEY_OF(k->rkey, SL_STATE_LIVE, SL_REGION_DIRECTORY),
		[SL_ENTRY_INSTANCE] = a->dir.instance,
	};

	a->dir.key = *k;
	fabric_host_set_directory(a->rdma->host, k, a->dir.size, a->dir.instance);
	agent_directory_set(a, AGENT_DIRECTORY_SLOT, cells);
}

static int register_directory(struct agent *a)
{
	struct agent_rdma *d = a->rdma;
	struct agent_mr *old = d->directory, *m;
	int err = mr_new(a, a->dir.map, (char *)a->dir.map + a->dir.size, &m);

	if (err)
		return err;
	m->directory = true;
	d->mr_count--;
	d->directory = m;
	publish_directory(a);
	if (!old)
		return 0;
	old->released = true;
	agent_timer_start(a, TIMER_KEY_DIRECTORY, &old->timer);
	return 0;
}

/* Registers the memory again. A failed renewal is repeated when the key reaches this age again. */
static void mr_renew(struct agent *a, struct agent_mr *m)
{
	m->stale = false;
	agent_timer_start(a, TIMER_KEY_AGE, &m->age);
	a->n.keys_renewed += m->directory ? !register_directory(a) : register_again(a, m);
}

void agent_rdma_timer_age(struct agent *a, struct agent_timer *t)
{
	AGENT_TIMER_OWNER(t, struct agent_mr, age)->stale = true;
	if (!a->rdma->renew.in)
		agent_timer_start(a, TIMER_KEY_RENEW, &a->rdma->renew);
}

/* Renews one key at a time, because pinning memory is slow. */
void agent_rdma_timer_renew(struct agent *a, struct agent_timer *t)
{
	struct agent_mr *m;

	if (!a->rdma->host)
		return;
	TAILQ_FOREACH(m, &a->rdma->mrs, link)
	if (m->stale && !m->released)
		break;
	if (!m)
		return;
	mr_renew(a, m);
	agent_timer_start(a, TIMER_KEY_RENEW, t);
}

/* Called some time after a collector has left, which knew all keys. */
void agent_rdma_timer_left(struct agent *a, struct agent_timer *t)
{
	struct agent_mr *m;

	(void)t;
	TAILQ_FOREACH(m, &a->rdma->mrs, link)
	m->stale = true;
	agent_timer_start(a, TIMER_KEY_RENEW, &a->rdma->renew);
}

/* ---- the device ---- */

static void device_close(struct agent *a)
{
	struct agent_rdma *d = a->rdma;
	struct agent_mr *m;

	if (!d->host)
		return;
	for (uint32_t i = 0; i < a->slot_count; i++)
		if (a->slots[i])
			a->slots[i]->mr = NULL;
	while ((m = TAILQ_FIRST(&d->mrs)))
		mr_free(d, m);
	d->directory = NULL;
	a->dir.key = (struct fabric_host_key){0};
	agent_timer_stop(&d->left);
	agent_timer_stop(&d->renew);
	agent_unwatch(a, fabric_host_fd(d->host));
	fabric_host_close(d->host);
	d->host = NULL;
}

static int device_open(struct agent *a, char *error, size_t bytes)
{
	struct agent_rdma *d = a->rdma;
	struct fabric_host_stats s;
	int err;

	d->host = fabric_host_open(&a->o.fabric, error, bytes);
	if (!d->host)
		return -errno;
	memset(&d->counted, 0, sizeof(d->counted));
	err = register_directory(a);
	if (err) {
		snprintf(error, bytes, "cannot register the directory: %s (see LimitMEMLOCK)",
			 strerror(-err));
		goto err;
	}
	err = fabric_host_let_notify(d->host, a->verdict_board, agent_verdict_board_bytes(a),
				     agent_verdict_board_notice, a);
	if (err) {
		snprintf(error, bytes, "cannot accept verdicts: %s", strerror(-err));
		goto err;
	}
	err = agent_watch(a, fabric_host_fd(d->host), &d->source, SOURCE_HOST);
	if (err) {
		snprintf(error, bytes, "epoll: %s", strerror(-err));
		goto err;
	}
	fabric_host_stats(d->host, &s);
	snprintf(d->where, sizeof(d->where), "%s%s%s", s.device, a->o.fabric.tcp ? "://" : "/",
		 s.address);
	return 0;
err:
	device_close(a);
	return err;
}

/* Stops RDMA. Local readers are unaffected. */
static void leave_device(struct agent *a)
{
	device_close(a);
	for (uint32_t i = 0; i < a->slot_count; i++)
		if (a->slots[i]) {
			agent_timer_stop(&a->slots[i]->settle);
			agent_region_publish(a, a->slots[i]);
		}
}

static int return_to_device(struct agent *a, char *error, size_t bytes)
{
	struct agent_rdma *d = a->rdma;
	int err = device_open(a, error, bytes), err_region;

	for (uint32_t i = 0; !err && i < a->slot_count; i++) {
		struct agent_region *r = a->slots[i];

		if (!r || r->state == SL_STATE_RETIRED)
			continue;
		err_region = register_alone(a, r, agent_arena_at(&d->arena, r->map));
		/* Until it can be registered, the region has no key, which readers accept. */
		if (!err_region)
			agent_region_publish(a, r);
		else if (err_region == -ENODATA || !r->read_only)
			agent_timer_start(a, TIMER_REGISTER, &r->settle);
	}
	return err;
}

int agent_rdma_start(struct agent *a, char *error, size_t bytes)
{
	int err = a->rdma ? return_to_device(a, error, bytes) : 0;

	if (!err && a->rdma && a->o.fabric.tcp)
		base_logf(BASE_INFO, AGENT_LOG,
			  "each READ over %s costs CPU time on this host: see "
			  "sidelight_agent_fabric_cpu_seconds_total",
			  a->rdma->where);
	if (!err && a->rdma && !a->o.fabric.secret)
		base_logf(BASE_WARN, AGENT_LOG,
			  "any peer that can reach %s can read every region%s: set --rdma-secret",
			  a->rdma->where, a->o.fabric.tcp ? ", and nothing is encrypted" : "");
	return err;
}

/* The device was removed: its module was unloaded, or a SmartNIC was reset. */
static void device_lost(struct agent *a)
{
	leave_device(a);
	base_logf(BASE_ERROR, AGENT_LOG, "RDMA device lost; waiting for it to return device=%s",
		  a->rdma->where);
	agent_timer_start(a, TIMER_REOPEN, &a->rdma->reopen);
}

void agent_rdma_timer_reopen(struct agent *a, struct agent_timer *t)
{
	char error[256];

	if (return_to_device(a, error, sizeof(error)))
		agent_timer_start(a, TIMER_REOPEN, t);
	else
		base_logf(BASE_INFO, AGENT_LOG, "RDMA device is back device=%s", a->rdma->where);
}

/* Adds the growth of the host's counters; if a collector has left, schedules new keys. */
static void add_stats(struct agent *a, const struct fabric_host_stats *s)
{
	struct agent_rdma *d = a->rdma;

	for (int i = 0; i < FABRIC_REFUSED_COUNT; i++)
		a->n.rdma_refused[i] += s->refused[i] - d->counted.refused[i];
	a->n.rdma_challenged += s->challenged - d->counted.challenged;
	a->n.rdma_half_open += s->half_open - d->counted.half_open;
	a->n.fabric_sent_bytes += s->sent_bytes - d->counted.sent_bytes;
	a->n.fabric_silent += s->silent - d->counted.silent;
	if (s->disconnected != d->counted.disconnected && a->o.rdma_key_lifetime_ns && !d->left.in)
		agent_timer_start(a, TIMER_KEY_LEFT, &d->left);
	d->counted = *s;
}

void agent_rdma_event(struct agent *a)
{
	if (a->rdma && a->rdma->host)
		fabric_host_dispatch(a->rdma->host);
	agent_rdma_count(a);
}

uint64_t agent_rdma_count(struct agent *a)
{
	struct fabric_host_stats s;

	if (!a->rdma || !a->rdma->host)
		return 0;
	fabric_host_stats(a->rdma->host, &s);
	add_stats(a, &s);
	if (s.lost)
		device_lost(a);
	return s.cpu_ns;
}

int agent_rdma_init(struct agent *a, char *error, size_t bytes)
{
	struct agent_rdma *d;
	int err;

	if (!a->o.rdma)
		return 0;
	d = a->rdma = calloc(1, sizeof(*d));
	if (!d)
		return base_fail(error, bytes, -ENOMEM, "out of memory");
	a->o.fabric.shares = true;
	a->o.fabric.notifier_ns = a->o.rdma_key_lifetime_ns;
	if (a->o.fabric.device && !*a->o.fabric.device) /* --rdma without a name */
		a->o.fabric.device = NULL;
	d->directory_id = ++a->last_id;
	TAILQ_INIT(&d->mrs);
	/* Address space costs nothing; twice the memory leaves room for fragmentation. */
	err = agent_arena_init(&d->arena, a->o.max_memory * 2 + (64u << 20));
	if (err || agent_verdict_board_init(a)) {
		agent_rdma_fini(a);
		return base_fail(error, bytes, -ENOMEM, "out of memory");
	}
	return 0;
}

void agent_rdma_stop(struct agent *a)
{
	if (a->rdma)
		device_close(a);
}

void agent_rdma_fini(struct agent *a)
{
	struct agent_rdma *d = a->rdma;

	if (!d)
		return;
	agent_timer_stop(&d->reopen);
	device_close(a);
	agent_verdict_board_fini(a);
	agent_arena_fini(&d->arena);
	free(d);
	a->rdma = NULL;
}

struct fabric_host *agent_rdma_host(const struct agent *a)
{
	return a->rdma ? a->rdma->host : NULL;
}

uint32_t agent_rdma_mr_count(const struct agent *a)
{
	return a->rdma ? a->rdma->mr_count : 0;
}

const char *agent_rdma(const struct agent *a)
{
	return a->rdma ? a->rdma->where : NULL;
}
