// SPDX-License-Identifier: Apache-2.0
/* engine.c - stores, tenants' rates, accounts, and operations through an output that may be full. */
#include "dta/engine/impl.h"

#include <errno.h>
#include <stdlib.h>

#define TENANTS 65536u

SL_STATIC_ASSERT((int)SL_DTA_KEYWRITE == (int)SL_STORE_KEYWRITE &&
			 (int)SL_DTA_SKETCH == (int)SL_STORE_SKETCH,
		 "a block's opcode is its store's kind");
SL_STATIC_ASSERT((int)SL_DROP_OUTPUT_FULL > 0, "causes of an output are never 0");

struct engine_limit {  /* a token bucket */
	uint64_t rate; /* reports a second; 0: any */
	uint64_t burst;
	uint64_t at;
	double tokens;
};

const char *sl_engine_drop_name(enum sl_engine_drop d)
{
	static const char *const name[SL_DROPS] = {
		[SL_DROP_NO_STORE] = "no_store",
		[SL_DROP_SHAPE] = "shape",
		[SL_DROP_LIST] = "list",
		[SL_DROP_RATE] = "rate",
		[SL_DROP_OUTPUT_FULL] = "output_full",
		[SL_DROP_OUTPUT_DOWN] = "output_down",
		[SL_DROP_OUTPUT_FAILED] = "output_failed",
		[SL_DROP_LATE] = "late",
		[SL_DROP_DUPLICATE_HOP] = "duplicate_hop",
	};

	return (unsigned)d < SL_DROPS ? name[d] : "unknown";
}

/* ---- operations ------------------------------------------------------------------------------------ */

/* After an operation that returned r: true, try again; else *cause says what came of it. */
static bool again(struct sl_engine *e, int r, unsigned *tries, int *cause)
{
	switch (r) {
	case 0:
		*cause = 0;
		return false;
	case -EAGAIN:
		*cause = SL_DROP_OUTPUT_FULL;
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
		*cause = SL_DROP_OUTPUT_DOWN;
		return false;
	default:
		*cause = SL_DROP_OUTPUT_FAILED;
		return false;
	}
}

int engine_write(struct sl_engine *e, struct engine_store *s, uint64_t offset, const void *data,
		 uint64_t bytes, bool immediate)
{
	const struct sl_output_ops *ops = e->output->ops;
	unsigned tries = 0;
	int r, cause;

	do {
		if (immediate)
			r = ops->write_immediate(e->output, &s->object, offset, data,
						 (uint32_t)bytes,
						 sl_engine_immediate(s->c.tenant, s->c.id));
		else
			r = ops->write(e->output, &s->object, offset, data, (uint32_t)bytes);
	} while (again(e, r, &tries, &cause));
	s->stats.operations += !cause;
	s->stats.immediates += !cause && immediate;
	return cause;
}

int engine_add(struct sl_engine *e, struct engine_store *s, uint64_t offset, uint64_t addend)
{
	unsigned tries = 0;
	int r, cause;

	do
		r = e->output->ops->add(e->output, &s->object, offset, addend);
	while (again(e, r, &tries, &cause));
	s->stats.operations += !cause;
	return cause;
}

int engine_wake(struct sl_engine *e, struct engine_store *s)
{
	return engine_write(e, s, s->bank, NULL, 0, true);
}

/* ---- stores ---------------------------------------------------------------------------------------- */

static uint32_t place_of(uint16_t tenant, uint16_t number)
{
	return (uint32_t)sl_dta_mix((uint64_t)tenant << 16 | number);
}

static struct engine_store **find(const struct sl_engine *e, uint16_t tenant, uint16_t number)
{
	for (uint32_t i = place_of(tenant, number);; i++) {
		struct engine_store **s = &e->table[i & e->mask];

		if (!*s || ((*s)->c.id == number && (*s)->c.tenant == tenant))
			return s;
	}
}

struct engine_store *engine_find(const struct sl_engine *e, uint16_t tenant, uint16_t number)
{
	return *find(e, tenant, number);
}

static void stats_add(struct sl_engine_stats *to, const struct sl_engine_stats *from)
{
	uint64_t *a = (uint64_t *)to;
	const uint64_t *b = (const uint64_t *)from;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*a); i++)
		a[i] += b[i];
}

static void free_store(struct engine_store *s)
{
	if (!s)
		return;
	s->kind->close(s);
	free(s->keylog);
	free(s);
}

/* Writes what waits, and what can't be is dropped. */
static void settle(struct sl_engine *e, struct engine_store *s)
{
	int cause = s->kind->flush ? s->kind->flush(e, s) : 0;

	if (s->kind->drop)
		s->kind->drop(s, cause);
}

static void set_epoch(struct engine_store *s, uint64_t epoch)
{
	s->epoch = epoch;
	s->bank = SL_STORE_BANKS_OFFSET + epoch % s->c.banks * sl_store_bank_stride(&s->c);
}

/* Everything that the code behind relies on, whoever checked the configuration before. */
static bool fits(const struct sl_store_config *c, const struct sl_object *object, uint32_t lane)
{
	char error[256];

	return !sl_store_config_check(c, error, sizeof(error)) && lane < c->lanes &&
	       sl_store_object_bytes(c) <= object->bytes && !((uintptr_t)object->map & 63);
}

static int grow(struct sl_engine *e)
{
	struct engine_store **old = e->table;
	uint32_t places = old ? e->mask + 1 : 0;

	if (old && e->stores * 2 < places)
		return 0;
	e->table = calloc(places ? places * 2 : 16, sizeof(struct engine_store *));
	if (!e->table) {
		e->table = old;
		return -ENOMEM;
	}
	e->mask = (places ? places * 2 : 16) - 1;
	for (uint32_t i = 0; i < places; i++)
		if (old[i])
			*find(e, old[i]->c.tenant, old[i]->c.id) = old[i];
	free(old);
	return 0;
}

int sl_engine_store(struct sl_engine *e, const struct sl_store_config *config,
		    const struct sl_object *object, uint32_t lane, uint64_t epoch,
		    const uint64_t *next)
{
	static const struct engine_kind *const kinds[] = {
		[SL_STORE_KEYWRITE] = &engine_keywrite,	  [SL_STORE_APPEND] = &engine_append,
		[SL_STORE_INCREMENT] = &engine_increment, [SL_STORE_POSTCARD] = &engine_postcard,
		[SL_STORE_SKETCH] = &engine_sketch,
	};
	struct engine_store *s, **at;
	int r;

	if (!fits(config, object, lane))
		return -EINVAL;
	if (grow(e))
		return -ENOMEM;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->c = *config;
	s->object = *object;
	s->lane = lane;
	s->kind = kinds[config->kind];
	s->direct = object->map && sl_output_is_shm(e->output);
	set_epoch(s, epoch);
	r = s->kind->open(e, s, next);
	if (!r)
		r = engine_keylog_open(s);
	if (r) {
		free_store(s);
		return r;
	}
	e->stalled = false;
	at = find(e, config->tenant, config->id);
	if (*at) {
		settle(e, *at);
		s->stats = (*at)->stats;
		free_store(*at);
	} else {
		e->stores++;
	}
	*at = s;
	return 0;
}

int sl_engine_rotate(struct sl_engine *e, uint16_t tenant, uint16_t store, uint64_t epoch)
{
	struct engine_store *s = engine_find(e, tenant, store);
	int cause;

	if (!s)
		return -ENOENT;
	if (epoch == s->epoch)
		return 0;
	e->stalled = false;
	cause = s->kind->flush ? s->kind->flush(e, s) : 0;
	if (!s->kind->rotated && s->kind->drop)
		s->kind->drop(s, cause);
	set_epoch(s, epoch);
	if (s->kind->rotated)
		s->kind->rotated(e, s, cause);
	engine_keylog_clear(s);
	e->output->ops->flush(e->output);
	return 0;
}

void sl_engine_remove(struct sl_engine *e, uint16_t tenant, uint16_t store)
{
	struct engine_store **at = find(e, tenant, store), *s = *at;

	if (!s)
		return;
	e->stalled = false;
	settle(e, s);
	stats_add(&e->gone, &s->stats);
	free_store(s);
	*at = NULL;
	e->stores--;
	/* Those behind it may have been put there as this place was taken. */
	for (uint32_t i = (uint32_t)(at - e->table) + 1; (s = e->table[i & e->mask]); i++) {
		e->table[i & e->mask] = NULL;
		*find(e, s->c.tenant, s->c.id) = s;
	}
	e->output->ops->flush(e->output);
}

/* ---- rates ----------------------------------------------------------------------------------------- */

int sl_engine_limit(struct sl_engine *e, uint16_t tenant, uint64_t per_second, uint64_t burst)
{
	if (!e->limit)
		e->limit = calloc(TENANTS, sizeof(*e->limit));
	if (!e->limit)
		return -ENOMEM;
	burst = burst ? burst : 1;
	e->limit[tenant] = (struct engine_limit){per_second, burst, e->now, (double)burst};
	return 0;
}

/* How many of so many reports a tenant may send now. */
static uint32_t allowed(struct sl_engine *e, uint16_t tenant, uint32_t count)
{
	struct engine_limit *l = &e->limit[tenant];
	double taken;

	if (!l->rate)
		return count;
	if (e->now > l->at) {
		l->tokens += (double)(e->now - l->at) * 1e-9 * (double)l->rate;
		if (l->tokens > (double)l->burst)
			l->tokens = (double)l->burst;
	}
	l->at = e->now;
	taken = l->tokens < count ? (double)(uint32_t)l->tokens : count;
	l->tokens -= taken;
	return (uint32_t)taken;
}

/* ---- the engine ------------------------------------------------------------------------------------ */

struct sl_engine *sl_engine_new(const struct sl_engine_opts *opts, struct sl_output *output)
{
	struct sl_engine *e;

	if (!output) {
		errno = EINVAL;
		return NULL;
	}
	e = calloc(1, sizeof(*e));
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
	if (grow(e)) {
		free(e);
		return NULL;
	}
	return e;
}

void sl_engine_free(struct sl_engine *e)
{
	if (!e)
		return;
	for (uint32_t i = 0; i <= e->mask; i++)
		free_store(e->table[i]);
	free(e->table);
	free(e->limit);
	free(e);
}

uint32_t sl_engine_block(struct sl_engine *e, uint16_t tenant, uint32_t reporter,
			 const struct sl_dta_block *block, uint64_t now_ns)
{
	struct engine_store *s = engine_find(e, tenant, block->store);
	const uint32_t kind = block->opcode == SL_DTA_SKETCH_END ? SL_DTA_SKETCH : block->opcode;
	struct sl_dta_block some;
	uint32_t taken;

	e->now = now_ns;
	e->stalled = false;
	if (!s || s->c.kind != kind) {
		e->gone.in += block->count;
		e->gone.dropped[SL_DROP_NO_STORE] += block->count;
		return 0;
	}
	s->stats.in += block->count;
	if (e->limit) {
		uint32_t count = allowed(e, tenant, block->count);

		if (count < block->count) {
			s->stats.dropped[SL_DROP_RATE] += block->count - count;
			some = *block;
			some.count = (uint16_t)count;
			block = &some;
		}
	}
	if (!block->count)
		return 0;
	taken = s->kind->block(e, s, reporter, block);
	if (s->keylog && taken)
		engine_keylog_block(e, s, block);
	return taken;
}

void sl_engine_tick(struct sl_engine *e, uint64_t now_ns)
{
	e->now = now_ns;
	e->stalled = false;
	for (uint32_t i = 0; i <= e->mask; i++)
		if (e->table[i] && e->table[i]->kind->tick)
			e->table[i]->kind->tick(e, e->table[i]);
	e->output->ops->flush(e->output);
	e->output->ops->drive(e->output, now_ns);
}

void sl_engine_flush(struct sl_engine *e)
{
	e->stalled = false;
	for (uint32_t i = 0; i <= e->mask; i++)
		if (e->table[i] && e->table[i]->kind->flush)
			e->table[i]->kind->flush(e, e->table[i]);
	e->output->ops->flush(e->output);
}

uint64_t sl_engine_oldest(const struct sl_engine *e)
{
	uint64_t oldest = UINT64_MAX;

	for (uint32_t i = 0; i <= e->mask; i++) {
		const struct engine_store *s = e->table[i];
		const uint64_t since = s && s->kind->oldest ? s->kind->oldest(s) : UINT64_MAX;

		oldest = since < oldest ? since : oldest;
	}
	return oldest;
}

void sl_engine_stats(const struct sl_engine *e, struct sl_engine_stats *out)
{
	*out = e->gone;
	for (uint32_t i = 0; i <= e->mask; i++)
		if (e->table[i])
			stats_add(out, &e->table[i]->stats);
}

int sl_engine_store_stats(const struct sl_engine *e, uint16_t tenant, uint16_t store,
			  struct sl_engine_stats *out)
{
	const struct engine_store *s = engine_find(e, tenant, store);

	if (!s)
		return -ENOENT;
	*out = s->stats;
	return 0;
}
