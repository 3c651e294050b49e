// SPDX-License-Identifier: Apache-2.0
/* engine.c - stores, accounts, and retries while the output is full */
#include "dta/engine/impl.h"

#include <errno.h>
#include <stdlib.h>

SL_STATIC_ASSERT((int)DTA_KEYWRITE == (int)SL_STORE_KEYWRITE &&
			 (int)DTA_SKETCH == (int)SL_STORE_SKETCH,
		 "a block's opcode is its store's kind");
SL_STATIC_ASSERT((int)DTA_DROP_OUTPUT_FULL > 0, "causes of an output are never 0");

const char *dta_engine_drop_name(enum dta_engine_drop d)
{
	static const char *const name[DTA_DROPS] = {
		[DTA_DROP_NO_STORE] = "no_store",
		[DTA_DROP_SHAPE] = "shape",
		[DTA_DROP_LIST] = "list",
		[DTA_DROP_RATE] = "rate",
		[DTA_DROP_OUTPUT_FULL] = "output_full",
		[DTA_DROP_OUTPUT_DOWN] = "output_down",
		[DTA_DROP_OUTPUT_FAILED] = "output_failed",
		[DTA_DROP_LATE] = "late",
		[DTA_DROP_DUPLICATE_HOP] = "duplicate_hop",
		[DTA_DROP_SUPERSEDED] = "superseded",
	};

	return (unsigned)d < DTA_DROPS ? name[d] : "unknown";
}

/* ---- operations ---- */

/* Whether to retry an operation that returned r; otherwise sets *cause. */
static bool should_retry(struct dta_engine *e, int r, unsigned *tries, int *cause)
{
	switch (r) {
	case 0:
		*cause = 0;
		return false;
	case -EAGAIN:
		*cause = DTA_DROP_OUTPUT_FULL;
		if (e->stalled)
			return false;
		if (++*tries > ENGINE_TRIES) {
			e->stalled = true;
			return false;
		}
		e->output->ops->flush(e->output);
		e->output->ops->drive(e->output, e->now);
		return true;
	case -ENOTCONN:
		*cause = DTA_DROP_OUTPUT_DOWN;
		return false;
	default:
		*cause = DTA_DROP_OUTPUT_FAILED;
		return false;
	}
}

int dta_engine_write(struct dta_engine *e, struct dta_engine_store *s, uint64_t offset,
		     const void *data, uint64_t bytes, bool immediate)
{
	const uint32_t number = dta_engine_immediate(s->c.tenant, s->c.id);
	struct dta_output *o = e->output;
	unsigned tries = 0;
	int r, cause;

	do
		r = o ? o->ops->write(o, &s->object, offset, data, (uint32_t)bytes,
				      immediate ? &number : NULL)
		      : -ENOTCONN;
	while (should_retry(e, r, &tries, &cause));
	s->stats.operations += !cause;
	s->stats.immediates += !cause && immediate;
	return cause;
}

int dta_engine_add(struct dta_engine *e, struct dta_engine_store *s, uint64_t offset,
		   uint64_t addend)
{
	struct dta_output *o = e->output;
	unsigned tries = 0;
	int r, cause;

	do
		r = o ? o->ops->add(o, &s->object, offset, addend) : -ENOTCONN;
	while (should_retry(e, r, &tries, &cause));
	s->stats.operations += !cause;
	return cause;
}

int dta_engine_wake(struct dta_engine *e, struct dta_engine_store *s)
{
	return dta_engine_write(e, s, s->bank, NULL, 0, true);
}

static void flush_output(struct dta_engine *e)
{
	if (e->output)
		e->output->ops->flush(e->output);
}

/* ---- stores ---- */

/* dta_mix() is a bijection, so no two stores have the same hash. */
static uint64_t hash_of(uint16_t tenant, uint16_t number)
{
	return dta_mix((uint64_t)tenant << 16 | number);
}

struct dta_engine_store *dta_engine_find(const struct dta_engine *e, uint16_t tenant,
					 uint16_t number)
{
	return base_table_first(&e->table, hash_of(tenant, number));
}

static void free_store(struct dta_engine_store *s)
{
	if (s->kind->close)
		s->kind->close(s);
	free(s->keylog);
	free(s);
}

/* Frees a store that is in the engine. */
static void remove_store(struct dta_engine *e, struct dta_engine_store *s)
{
	struct dta_engine_store **at = &e->stores;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	base_table_remove(&e->table, s);
	free_store(s);
}

static int flush_store(struct dta_engine *e, struct dta_engine_store *s)
{
	return s->kind->flush ? s->kind->flush(e, s, 0) : 0;
}

/* Writes waiting reports and drops those that can't be written. */
static void flush_or_drop(struct dta_engine *e, struct dta_engine_store *s)
{
	const int cause = flush_store(e, s);

	if (s->kind->drop)
		s->kind->drop(s, cause);
}

static void set_epoch(struct dta_engine_store *s, uint64_t epoch)
{
	s->epoch = epoch;
	s->bank = SL_STORE_BANKS_OFFSET + epoch % s->c.banks * sl_store_bank_stride(&s->c);
}

/* Checks everything the engine relies on, even if the caller has already checked it. */
static bool config_fits(const struct sl_store_config *c, const struct dta_object *object,
			uint32_t lane)
{
	char error[256];

	return !dta_store_config_check(c, error, sizeof(error)) && lane < c->lanes &&
	       dta_store_object_bytes(c) <= object->bytes && !((uintptr_t)object->map & 63);
}

/* The new object of a key log lacks the keys of the previous one, so they must be logged again. */
static void forget_logged_keys(struct dta_engine *e, const struct sl_store_config *log)
{
	for (struct dta_engine_store *s = e->stores; s; s = s->next)
		if (s->keylog && s->c.tenant == log->tenant && s->c.keylog == log->id + 1u)
			memset(s->keylog, 0, sizeof(*s->keylog));
}

int dta_engine_store(struct dta_engine *e, const struct sl_store_config *config,
		     const struct dta_object *object, uint32_t lane, uint64_t epoch,
		     const uint64_t *next)
{
	static const struct dta_engine_kind *const kinds[] = {
		[SL_STORE_KEYWRITE] = &dta_engine_keywrite,
		[SL_STORE_APPEND] = &dta_engine_append,
		[SL_STORE_INCREMENT] = &dta_engine_increment,
		[SL_STORE_POSTCARD] = &dta_engine_postcard,
		[SL_STORE_SKETCH] = &dta_engine_sketch,
	};
	struct dta_engine_store *s, *old;
	int r;

	if (!config_fits(config, object, lane))
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->c = *config;
	s->object = *object;
	s->lane = lane;
	s->kind = kinds[config->kind];
	s->direct = object->map && dta_output_is_shm(e->output);
	set_epoch(s, epoch);
	r = s->kind->open(e, s, next);
	if (!r && s->c.keylog && !(s->keylog = calloc(1, sizeof(*s->keylog))))
		r = -ENOMEM;
	if (r) {
		free_store(s);
		return r;
	}
	e->stalled = false;
	old = dta_engine_find(e, config->tenant, config->id);
	if (old) {
		if (s->kind != old->kind || !s->kind->inherit || !s->kind->inherit(e, s, old))
			flush_or_drop(e, old);
		s->stats = old->stats;
		forget_logged_keys(e, config);
		remove_store(e, old);
	}
	s->next = e->stores;
	e->stores = s;
	base_table_add(&e->table, s, hash_of(config->tenant, config->id));
	return 0;
}

int dta_engine_rotate(struct dta_engine *e, uint16_t tenant, uint16_t store, uint64_t epoch)
{
	struct dta_engine_store *s = dta_engine_find(e, tenant, store);
	int cause;

	if (!s)
		return -ENOENT;
	if (epoch == s->epoch)
		return 0;
	e->stalled = false;
	cause = flush_store(e, s);
	set_epoch(s, epoch);
	if (s->kind->rotated)
		s->kind->rotated(s, cause);
	else if (s->kind->drop && !s->kind->no_epochs)
		s->kind->drop(s, cause);
	if (s->keylog)
		memset(s->keylog, 0, sizeof(*s->keylog));
	flush_output(e);
	return 0;
}

void dta_engine_remove(struct dta_engine *e, uint16_t tenant, uint16_t store)
{
	struct dta_engine_store *s = dta_engine_find(e, tenant, store);

	if (!s)
		return;
	e->stalled = false;
	flush_or_drop(e, s);
	dta_add_counters(&e->gone, &s->stats, sizeof(e->gone));
	remove_store(e, s);
	flush_output(e);
}

/* ---- the engine ---- */

struct dta_engine *dta_engine_new(const struct dta_engine_opts *opts, struct dta_output *output)
{
	struct dta_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	if (opts)
		e->opts = *opts;
	if (!e->opts.flush_ns)
		e->opts.flush_ns = 1000000;
	if (!e->opts.path_ns)
		e->opts.path_ns = 10000000;
	if (!e->opts.path_entries)
		e->opts.path_entries = 16384;
	if (!e->opts.sketch_ns)
		e->opts.sketch_ns = 1000000000;
	e->output = output;
	if (base_table_init(&e->table))
		return e;
	free(e);
	return NULL;
}

void dta_engine_output(struct dta_engine *e, struct dta_output *output)
{
	e->output = output;
}

void dta_engine_free(struct dta_engine *e)
{
	if (!e)
		return;
	while (e->stores)
		remove_store(e, e->stores);
	base_table_free(&e->table);
	free(e);
}

uint32_t dta_engine_block(struct dta_engine *e, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns)
{
	struct dta_engine_store *s = dta_engine_find(e, tenant, block->store);
	const uint32_t kind = block->opcode == DTA_SKETCH_END ? DTA_SKETCH : block->opcode;
	uint32_t taken;

	e->now = now_ns;
	e->reporter = reporter;
	e->stalled = false;
	if (!s || s->c.kind != kind) {
		e->gone.in += block->count;
		e->gone.dropped[DTA_DROP_NO_STORE] += block->count;
		return 0;
	}
	s->stats.in += block->count;
	taken = s->kind->block(e, s, block);
	if (s->keylog && taken)
		dta_engine_keylog_block(e, s, block);
	return taken;
}

void dta_engine_prefetch(const struct dta_engine *e, const uint8_t *packet, size_t bytes)
{
	const uint8_t *block = packet + DTA_HEADER_BYTES, *key = block + DTA_BLOCK_BYTES;
	const struct dta_engine_store *s;
	struct dta_hash h;

	if (bytes < DTA_HEADER_BYTES + DTA_BLOCK_BYTES || packet[0] != DTA_MAGIC ||
	    block[0] != DTA_KEYWRITE || dta_get16(block + 2) != 1)
		return;
	s = dta_engine_find(e, dta_get16(packet + 4), dta_get16(block + 8));
	if (!s || !s->direct || s->c.kind != DTA_KEYWRITE || !block[5] ||
	    bytes < DTA_HEADER_BYTES + DTA_BLOCK_BYTES + (size_t)block[5])
		return;
	h = dta_hash(key, block[5], s->c.seed);
	for (uint32_t k = 0; k < block[4] && k < s->c.copies; k++)
		dta_engine_prefetch_far(
			s->object.map + s->bank + dta_slot(h, k, s->c.slots) * s->unit, s->unit);
}

void dta_engine_tick(struct dta_engine *e, uint64_t now_ns)
{
	e->now = now_ns;
	e->stalled = false;
	for (struct dta_engine_store *s = e->stores; s; s = s->next)
		if (s->kind->flush)
			s->kind->flush(e, s, s->age_ns);
	flush_output(e);
	if (e->output)
		e->output->ops->drive(e->output, now_ns);
}

void dta_engine_flush(struct dta_engine *e)
{
	e->stalled = false;
	for (struct dta_engine_store *s = e->stores; s; s = s->next)
		flush_store(e, s);
	flush_output(e);
}

uint64_t dta_engine_oldest(const struct dta_engine *e)
{
	uint64_t oldest = UINT64_MAX;

	for (const struct dta_engine_store *s = e->stores; s; s = s->next) {
		const uint64_t since = s->kind->oldest ? s->kind->oldest(s) : UINT64_MAX;

		oldest = since < oldest ? since : oldest;
	}
	return oldest;
}

void dta_engine_drop_delayed(struct dta_engine *e)
{
	for (struct dta_engine_store *s = e->stores; s; s = s->next)
		if (s->kind->oldest)
			s->kind->drop(s, DTA_DROP_OUTPUT_DOWN);
}

void dta_engine_stats(const struct dta_engine *e, struct dta_engine_stats *out)
{
	*out = e->gone;
	for (const struct dta_engine_store *s = e->stores; s; s = s->next)
		dta_add_counters(out, &s->stats, sizeof(*out));
}
