/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_drive.h - code shared by the engine's tests: stores between guard pages, blocks of
 * reports, an output that fails on demand, and checks of the engine's counters.
 */
#ifndef TESTS_DTA_ENGINE_DRIVE_H
#define TESTS_DTA_ENGINE_DRIVE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/test.h"
#include "dta/engine/engine.h"
#include "dta/store/hash.h"
#include "dta/query/query.h"

/* ---- a store that ends where its mapping ends ---- */

struct fenced {
	uint8_t *all; /* guard page, object, guard page */
	struct dta_object object;
	struct dta_store_view v;
	struct sl_store_config c;
};

static inline void fence(struct fenced *f, struct sl_store_config c)
{
	static uint32_t number;
	char error[256];
	uint64_t bytes;

	c.rows = c.rows ? c.rows : 1;
	c.lanes = c.lanes ? c.lanes : 1;
	c.banks = c.banks ? c.banks : 1;
	bytes = dta_store_object_bytes(&c);
	f->all = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		      -1, 0);
	assert_ptr_not_equal(f->all, MAP_FAILED);
	assert_int_equal(mprotect(f->all + 4096, bytes, PROT_READ | PROT_WRITE), 0);
	dta_store_format(f->all + 4096, &c, "fenced");
	if (dta_store_view(f->all + 4096, bytes, &f->v, error, sizeof(error)))
		fail_msg("%s", error);
	f->object = (struct dta_object){.number = ++number, .bytes = bytes, .map = f->all + 4096};
	f->c = c;
}

static inline void unfence(struct fenced *f)
{
	munmap(f->all, f->object.bytes + 8192);
}

/* The owner's part of a rotation. */
static inline void owner_rotates(struct fenced *f, uint64_t epoch)
{
	uint64_t oldest = epoch + 1 > f->c.banks ? epoch + 1 - f->c.banks : 0;

	memset(f->object.map + SL_STORE_BANKS_OFFSET +
		       epoch % f->c.banks * sl_store_bank_stride(&f->c),
	       0, sl_store_bank_stride(&f->c));
	dta_store_epochs_set(f->object.map, &(struct dta_store_epochs){
						    .epoch = epoch, .oldest = oldest, .state = 1});
}

/* ---- blocks ---- */

struct feed {
	struct dta_block b;
	uint8_t items[1 << 16];
};

static inline struct feed *feed_of(struct feed *f, uint8_t opcode, uint8_t copies,
				   uint8_t key_bytes, uint16_t value_bytes, uint16_t store)
{
	f->b = (struct dta_block){.opcode = opcode,
				  .copies = copies,
				  .key_bytes = key_bytes,
				  .value_bytes = value_bytes,
				  .store = store,
				  .items = f->items};
	return f;
}

static inline void put(struct feed *f, const void *key, const void *value)
{
	uint8_t *to = f->items + f->b.count++ * (f->b.key_bytes + (size_t)f->b.value_bytes);

	assert_true(to + f->b.key_bytes + f->b.value_bytes <= f->items + sizeof(f->items));
	memcpy(to, key, f->b.key_bytes);
	memcpy(to + f->b.key_bytes, value, f->b.value_bytes);
}

static inline void be32(void *to, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(to, &v, 4);
}

static inline void be64(void *to, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(to, &v, 8);
}

static inline void put_append(struct feed *f, uint32_t list, const void *value)
{
	uint8_t key[4];

	be32(key, list);
	put(f, key, value);
}

static inline void put_increment(struct feed *f, const void *key, uint64_t addend)
{
	uint8_t value[8];

	be64(value, addend);
	put(f, key, value);
}

static inline void put_hop(struct feed *f, const void *key, uint8_t hop, uint8_t hops,
			   uint32_t data)
{
	uint8_t value[8] = {hop, hops};

	be32(value + 4, data);
	put(f, key, value);
}

/* Passes the block to the engine, and begins another of the same shape. */
static inline uint32_t give(struct dta_engine *e, uint32_t reporter, struct feed *f, uint64_t now)
{
	uint32_t taken = dta_engine_block(e, 0, reporter, &f->b, now);

	f->b.count = 0;
	return taken;
}

/* ---- the account ---- */

static inline uint64_t dropped(const struct dta_engine_stats *s)
{
	uint64_t n = 0;

	for (int i = 0; i < DTA_DROPS; i++)
		n += s->dropped[i];
	return n;
}

static inline struct dta_engine_stats closed(const struct dta_engine *e)
{
	struct dta_engine_stats s;

	dta_engine_stats(e, &s);
	if (s.in != s.stored + s.waiting + dropped(&s))
		fail_msg("%llu reports: %llu stored, %llu waiting, %llu dropped",
			 (unsigned long long)s.in, (unsigned long long)s.stored,
			 (unsigned long long)s.waiting, (unsigned long long)dropped(&s));
	return s;
}

static inline uint64_t next_random(uint64_t *state)
{
	return dta_mix(*state += 0x9e3779b97f4a7c15u);
}

/* ---- an output without a mapping ---- */

/*
 * An output into memory-mapped stores that the engine cannot see, so that it does not write to them
 * itself.
 */
static inline struct dta_output *output_apart(void)
{
	static struct dta_output_ops ops;
	struct dta_output *o = dta_output_shm(NULL, NULL);

	assert_non_null(o);
	ops = *o->ops;
	o->ops = &ops;
	return o;
}

struct moody {
	struct dta_output o;
	uint8_t *memory; /* of the one object */
	uint64_t bytes;
	uint32_t room;	     /* operations accepted before drive() is called; ~0: any */
	uint32_t gain;	     /* room that each drive() makes */
	uint64_t until_down; /* operations until it goes down; ~0: never */
	int refusal;	     /* the error that it returns instead of accepting one, or 0 */
	uint64_t ops, wakes, flushes, drives;
	uint32_t woken_by;
};

static inline int moody_take(struct moody *m, uint64_t offset, uint64_t bytes)
{
	if (m->refusal)
		return m->refusal;
	if (!m->until_down)
		return -ENOTCONN;
	if (!m->room)
		return -EAGAIN;
	assert_true(offset >= SL_STORE_BANKS_OFFSET && offset <= m->bytes &&
		    bytes <= m->bytes - offset);
	m->room -= m->room != ~0u;
	m->until_down -= m->until_down != ~0ull;
	m->ops++;
	m->o.stats.completed++;
	return 0;
}

static inline int moody_write(struct dta_output *o, const struct dta_object *to, uint64_t offset,
			      const void *data, uint32_t bytes, const uint32_t *immediate)
{
	struct moody *m = (struct moody *)o;
	int r = moody_take(m, offset, bytes);

	(void)to;
	if (!r && bytes)
		memcpy(m->memory + offset, data, bytes);
	if (immediate) {
		m->wakes += !r;
		m->woken_by = *immediate;
	}
	return r;
}

static inline int moody_add(struct dta_output *o, const struct dta_object *to, uint64_t offset,
			    uint64_t addend)
{
	struct moody *m = (struct moody *)o;
	int r = moody_take(m, offset, 8);
	uint64_t v;

	(void)to;
	if (r)
		return r;
	assert_int_equal(offset % 8, 0);
	memcpy(&v, m->memory + offset, 8);
	v += addend;
	memcpy(m->memory + offset, &v, 8);
	return 0;
}

static inline void moody_flush(struct dta_output *o)
{
	((struct moody *)o)->flushes++;
}

static inline enum dta_output_state moody_drive(struct dta_output *o, uint64_t now_ns)
{
	struct moody *m = (struct moody *)o;

	(void)now_ns;
	m->drives++;
	if (m->room != ~0u)
		m->room += m->gain;
	return m->until_down ? DTA_OUTPUT_UP : DTA_OUTPUT_DOWN;
}

static inline void moody_close(struct dta_output *o)
{
	(void)o;
}

/* An output into the fenced object that does not let the engine see the mapping. */
static inline void moody_over(struct moody *m, struct fenced *f)
{
	static const struct dta_output_ops ops = {.write = moody_write,
						  .add = moody_add,
						  .flush = moody_flush,
						  .drive = moody_drive,
						  .close = moody_close};

	*m = (struct moody){.o.ops = &ops,
			    .memory = f->object.map,
			    .bytes = f->object.bytes,
			    .room = ~0u,
			    .until_down = ~0ull};
	f->object.map = NULL;
}

static inline struct dta_engine *engine_over(struct fenced *f, struct dta_output *o,
					     const struct dta_engine_opts *opts)
{
	struct dta_engine *e = dta_engine_new(opts, o);

	assert_non_null(e);
	assert_int_equal(dta_engine_store(e, &f->c, &f->object, 0, 0, NULL), 0);
	return e;
}

#endif
