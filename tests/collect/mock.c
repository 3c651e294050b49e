// SPDX-License-Identifier: Apache-2.0
/* mock.c - see mock.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/random.h"
#include "base/base.h"
#include "fabric/fabric.h"
#include "region/flows.h"

#include "mock.h"

#define READS 4096u
#define HOT   4096u /* where make_region.c puts the hot line, with which each pass begins */

struct fabric {
	struct mock_host *host;
	struct fabric_remote directory;
	uint64_t seen; /* the host's epoch when this connection was made */
	uint64_t epoch;
	enum fabric_state state;
	struct fabric_stats stats;
	uint64_t asked_ns;		 /* the time of the last answered READ of the directory */
	struct fabric_read *read[READS]; /* accepted, not completed */
	uint64_t posted_ns[READS];
	uint32_t count;
	uint8_t *buffer;
	size_t bytes;
};

static struct mock_host *hosts[MOCK_HOSTS];

struct mock_host *mock_host(const char *target, uint32_t entries)
{
	struct mock_host *h = calloc(1, sizeof(*h));
	int i = 0;

	while (hosts[i])
		i++;
	hosts[i] = h;
	snprintf(h->target, sizeof(h->target), "%s", target);
	pthread_mutex_init(&h->lock, NULL);
	make_directory(&h->directory, entries);
	h->up = true;
	h->epoch = 1;
	h->rng = 1;
	return h;
}

void mock_put_kind(struct mock_host *h, uint32_t index, uint64_t id, const void *memory,
		   uint64_t bytes, uint32_t state, uint64_t instance, uint32_t kind)
{
	uint64_t live = 0;

	pthread_mutex_lock(&h->lock);
	if (memory)
		h->region[id] = (struct mock_region){.memory = memory, .bytes = bytes};
	make_entry(&h->directory, index, id, 0, bytes, 0, state, kind, instance);
	for (uint32_t i = 0; i < h->directory.max_entries; i++)
		live += SL_ENTRY_STATE(h->directory.entries[i][SL_ENTRY_KEY]) == SL_STATE_LIVE;
	make_set(h->directory.hot, SL_DIR_LIVE, live);
	pthread_mutex_unlock(&h->lock);
}

void mock_put(struct mock_host *h, uint32_t index, uint64_t id, const void *memory, uint64_t bytes,
	      uint32_t state, uint64_t instance)
{
	mock_put_kind(h, index, id, memory, bytes, state, instance, SL_REGION_METRICS);
}

void mock_put_flows(struct mock_host *h, uint32_t index, uint64_t id, const void *memory,
		    uint64_t bytes, uint32_t state, uint64_t instance)
{
	mock_put_kind(h, index, id, memory, bytes, state, instance, SL_REGION_FLOWS);
}

/* Adds a section of this many bytes per entry to the directory. */
static void add_section(struct mock_host *h, uint32_t type, uint32_t stride)
{
	struct make *m = &h->directory;
	size_t records = ((size_t)m->max_entries * stride + 4095) / 4096 * 4096;
	uint8_t *mem = aligned_alloc(4096, m->size + records);

	memcpy(mem, m->mem, m->size);
	memset(mem + m->size, 0, records);
	free(m->mem);
	m->mem = mem;
	m->header = (struct sl_region_header *)mem;
	m->hot = (uint64_t *)(mem + HOT);
	m->entries = (uint64_t(*)[8])(mem + m->header->section[1].offset);
	m->header->section[m->header->section_count++] = (struct sl_region_section){
		type, stride, m->size, (uint64_t)m->max_entries * stride};
	m->size += records;
	m->header->size = m->size;
	make_header_check(m);
}

void mock_tenants(struct mock_host *h)
{
	add_section(h, SL_SECTION_TENANTS, SL_TENANT_SIZE);
}

void mock_names(struct mock_host *h, uint32_t index, uint64_t id, const struct region_names *names)
{
	struct region_names of = *names;
	uint8_t *at;

	if (h->directory.header->section_count == 3)
		add_section(h, SL_SECTION_NAMES, SL_NAMES_SIZE);
	at = h->directory.mem + h->directory.header->section[3].offset;
	of.id = id;
	region_names_write((uint64_t *)(at + (size_t)index * SL_NAMES_SIZE), &of);
}

void mock_tenant(struct mock_host *h, uint32_t index, const struct region_tenant *who)
{
	uint8_t *records = h->directory.mem + h->directory.header->section[2].offset;

	pthread_mutex_lock(&h->lock);
	region_tenant_write((uint64_t *)(records + (size_t)index * SL_TENANT_SIZE), who);
	pthread_mutex_unlock(&h->lock);
}

void mock_restart(struct mock_host *h)
{
	uint32_t entries = h->directory.max_entries;

	pthread_mutex_lock(&h->lock);
	make_free(&h->directory);
	make_directory(&h->directory, entries);
	memset(h->region, 0, sizeof(h->region));
	h->epoch++;
	pthread_mutex_unlock(&h->lock);
}

void mock_set(struct mock_host *h, bool up)
{
	pthread_mutex_lock(&h->lock);
	h->epoch += up && !h->up;
	h->up = up;
	pthread_mutex_unlock(&h->lock);
}

void mock_reset(void)
{
	for (int i = 0; i < MOCK_HOSTS; i++) {
		if (!hosts[i])
			continue;
		make_free(&hosts[i]->directory);
		pthread_mutex_destroy(&hosts[i]->lock);
		free(hosts[i]);
		hosts[i] = NULL;
	}
}

static uint64_t any(struct mock_host *h)
{
	return random_xorshift(&h->rng);
}

static uint64_t hot_offset(const struct mock_host *h)
{
	return (uint64_t)((const uint8_t *)h->directory.hot - h->directory.mem);
}

/* ---- fabric.h ---- */

struct fabric *fabric_open(const char *target, const struct fabric_opts *opts)
{
	struct fabric *f;

	for (int i = 0; i < MOCK_HOSTS; i++) {
		if (!hosts[i] || strcmp(hosts[i]->target, target))
			continue;
		f = calloc(1, sizeof(*f));
		f->host = hosts[i];
		f->bytes = opts->buffer_bytes ? opts->buffer_bytes : 4u << 20;
		f->buffer = aligned_alloc(64, f->bytes);
		__atomic_fetch_add(&hosts[i]->open, 1, __ATOMIC_RELAXED);
		return f;
	}
	errno = EINVAL;
	return NULL;
}

const char *fabric_error(void)
{
	return "no such mock";
}

int fabric_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict)
{
	(void)f, (void)entry, (void)verdict;
	return -EOPNOTSUPP;
}

void fabric_close(struct fabric *f)
{
	if (!f)
		return;
	__atomic_fetch_sub(&f->host->open, 1, __ATOMIC_RELAXED);
	free(f->buffer);
	free(f);
}

const char *fabric_name(const struct fabric *f)
{
	(void)f;
	return "mock";
}

enum fabric_state fabric_drive(struct fabric *f, uint64_t now_ns, uint64_t *epoch)
{
	struct mock_host *h = f->host;

	(void)now_ns;
	pthread_mutex_lock(&h->lock);
	if (!h->up) {
		f->state = FABRIC_DOWN;
	} else if (f->state != FABRIC_UP || f->seen != h->epoch) {
		f->state = FABRIC_UP;
		f->seen = h->epoch;
		f->epoch++;
		f->stats.connects++;
		f->directory = (struct fabric_remote){.length = h->directory.size};
	}
	pthread_mutex_unlock(&h->lock);
	*epoch = f->epoch;
	return f->state;
}

const struct fabric_remote *fabric_directory(struct fabric *f)
{
	return f->state == FABRIC_UP ? &f->directory : NULL;
}

void fabric_directory_moved(struct fabric *f, uint64_t addr, uint32_t rkey)
{
	(void)f, (void)addr, (void)rkey;
}

int fabric_map(struct fabric *f, struct fabric_remote *remote)
{
	struct mock_host *h = f->host;
	int err = 0;

	pthread_mutex_lock(&h->lock);
	__atomic_fetch_add(&h->maps, 1, __ATOMIC_RELAXED);
	if (remote->id >= sizeof(h->region) / sizeof(*h->region) || !h->region[remote->id].memory ||
	    h->region[remote->id].no_map)
		err = -ENOENT;
	else
		remote->local = &h->region[remote->id];
	pthread_mutex_unlock(&h->lock);
	return err;
}

void fabric_unmap(struct fabric *f, struct fabric_remote *remote)
{
	pthread_mutex_lock(&f->host->lock);
	__atomic_fetch_add(&f->host->unmaps, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&f->host->lock);
	remote->local = NULL;
}

void *fabric_buffer(struct fabric *f, size_t *bytes)
{
	*bytes = f->bytes;
	return f->buffer;
}

int fabric_post(struct fabric *f, struct fabric_read *reads, uint32_t count)
{
	uint64_t lease_ns;
	uint32_t n = 0;

	if (f->state != FABRIC_UP)
		return -ENOTCONN;
	pthread_mutex_lock(&f->host->lock);
	lease_ns = f->host->directory.hot[SL_DIR_LEASE_NS];
	pthread_mutex_unlock(&f->host->lock);
	for (; n < count && f->count < 128; n++) {
		f->posted_ns[f->count] = base_now_ns();
		if (reads[n].remote->id && f->posted_ns[f->count] > f->asked_ns + 2 * lease_ns)
			__atomic_fetch_add(&f->host->late_reads, 1, __ATOMIC_RELAXED);
		f->read[f->count++] = &reads[n];
		f->stats.reads++;
	}
	return (int)n;
}

/* Copies words by relaxed loads; some lines are half from before and half from after a change. */
static int copy(struct fabric *f, struct fabric_read *r)
{
	struct mock_host *h = f->host;
	const uint8_t *from = NULL;
	uint64_t bytes = 0;

	if (r->remote->id == 0) {
		from = h->directory.mem;
		bytes = h->directory.size;
		__atomic_fetch_add(&h->directory_reads, 1, __ATOMIC_RELAXED);
	} else if (h->region[r->remote->id].memory) {
		struct mock_region *region = &h->region[r->remote->id];

		from = region->memory;
		bytes = region->bytes;
		if (r->offset == HOT && r->length == 64) {
			region->pass = region->reads - region->hot_at;
			region->hot_at = region->reads;
		}
		__atomic_fetch_add(&region->reads, 1, __ATOMIC_RELAXED);
		if (h->hold_at && h->region[1].reads == h->hold_at)
			__atomic_store_n(&h->hold, true, __ATOMIC_RELAXED);
	}
	if (!from)
		return -EACCES;
	if (r->offset + r->length > bytes || r->offset + r->length > r->remote->length)
		return -ERANGE;
	region_copy_words(r->to, (const volatile uint64_t *)(from + r->offset), r->length / 8);
	/* Headers do not change, so they cannot be torn. */
	for (uint32_t at = 0; h->tear && r->offset && at < r->length; at += 64)
		if (any(h) % 100 < h->tear)
			((uint64_t *)((uint8_t *)r->to + at))[any(h) % 7] ^= 1ull << any(h) % 64;
	return 0;
}

/* A failed READ may leave valid lines of another region in memory. They must not be used. */
static void mislead(struct mock_host *h, struct fabric_read *r)
{
	const struct mock_region *other = &h->region[(r->remote->id + 1) % MOCK_REGIONS];

	if (r->remote->id && other->memory && r->offset + r->length <= other->bytes)
		region_copy_words(r->to, (const uint64_t *)other->memory + r->offset / 8,
				  r->length / 8);
	else
		memset(r->to, 0xee, r->length);
}

/* The next READ to complete; f->count: none may. */
static uint32_t choose(const struct fabric *f, bool lost)
{
	struct mock_host *h = f->host;
	uint32_t i = 0;

	if (lost || !h->hold_cells)
		return h->shuffle ? (uint32_t)(any(h) % f->count) : 0;
	for (; i < f->count && h->cells_held && f->read[i]->remote->id == 1; i++)
		;
	if (i < f->count && f->read[i]->remote->id == 1 && f->read[i]->offset == HOT)
		__atomic_store_n(&h->cells_held, true, __ATOMIC_RELAXED);
	return i;
}

int fabric_poll(struct fabric *f, struct fabric_read **done, uint32_t max, uint64_t now_ns,
		uint64_t timeout_ns)
{
	struct mock_host *h = f->host;
	bool lost = false;
	uint32_t n = 0;

	pthread_mutex_lock(&h->lock);
	lost = f->count && (f->state != FABRIC_UP || !h->up || f->seen != h->epoch);
	for (uint32_t i = 0; i < f->count && timeout_ns; i++)
		lost |= now_ns > f->posted_ns[i] + timeout_ns;
	if (f->count && h->fail && any(h) % 100 < h->fail) {
		h->epoch++; /* a timeout resets the connection, with all READs in progress */
		lost = true;
	}
	while (n < max && f->count && (lost || !h->hold)) {
		uint32_t i = choose(f, lost);
		struct fabric_read *r;
		uint64_t asked_ns;

		if (i == f->count)
			break;
		r = f->read[i];
		asked_ns = f->posted_ns[i];
		memmove(&f->read[i], &f->read[i + 1], (f->count - i - 1) * sizeof(*f->read));
		memmove(&f->posted_ns[i], &f->posted_ns[i + 1],
			(f->count - i - 1) * sizeof(*f->posted_ns));
		f->count--;
		if (lost)
			mislead(h, r);
		r->status = lost ? -ETIMEDOUT : copy(f, r);
		if (!r->status && !r->remote->id && r->offset == hot_offset(h))
			f->asked_ns = asked_ns;
		f->stats.errors_timeout += lost;
		done[n++] = r;
		if (!lost && h->shuffle && any(h) % 4 == 0)
			break;
	}
	if (lost && !f->count && f->seen == h->epoch && h->up)
		h->epoch++;
	pthread_mutex_unlock(&h->lock);
	return (int)n;
}

void fabric_stats(const struct fabric *f, struct fabric_stats *out)
{
	*out = f->stats;
	pthread_mutex_lock(&f->host->lock);
	if (f->host->error) {
		snprintf(out->last_error, sizeof(out->last_error), "%s", f->host->error);
		out->last_error_ns = f->host->error_ns;
	}
	pthread_mutex_unlock(&f->host->lock);
}
