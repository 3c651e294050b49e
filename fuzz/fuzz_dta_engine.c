// SPDX-License-Identifier: Apache-2.0
/*
 * The engine: stores as the input says, and then blocks of reports, rotations and timers as it
 * says. An object is exactly as long as it must be, so that a write beyond it is seen; headers and
 * other lanes stay as they were; the account closes after each step.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dta/engine/engine.h"
#include "dta/store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at;
	size_t left;
};

static uint32_t take(struct input *in, uint32_t below)
{
	uint32_t v = 0;

	for (int i = 0; i < 2 && in->left; i++, in->left--)
		v = v << 8 | *in->at++;
	return v % below;
}

/* An output without a mapping, that is full, down or refusing when the input says so. */
struct moody {
	struct dta_output o;
	uint8_t *memory;
	uint64_t bytes;
	uint32_t moods; /* bits, one an operation, for ever round */
};

static int mood(struct moody *m, uint64_t offset, uint64_t bytes)
{
	m->moods = m->moods << 3 | m->moods >> 29;
	if (offset < SL_STORE_BANKS_OFFSET || offset > m->bytes || bytes > m->bytes - offset)
		abort();
	switch (m->moods & 15) {
	case 7:
		return -EAGAIN;
	case 11:
		return -ENOTCONN;
	case 15:
		return -ERANGE;
	}
	return 0;
}

static int moody_write(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		       const void *data, uint32_t bytes, const uint32_t *immediate)
{
	struct moody *m = (struct moody *)o;
	int r = mood(m, offset, bytes);

	(void)to;
	(void)immediate;
	if (!r && bytes)
		memcpy(m->memory + offset, data, bytes);
	return r;
}

static int moody_add(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     uint64_t addend)
{
	return moody_write(o, to, offset, &addend, 8, NULL);
}

static void moody_flush(struct dta_output *o)
{
	(void)o;
}

static enum dta_output_state moody_drive(struct dta_output *o, uint64_t now)
{
	(void)o;
	(void)now;
	return DTA_OUTPUT_UP;
}

static void check(const struct dta_engine *e, bool empty)
{
	struct dta_engine_stats s;
	uint64_t dropped = 0;

	dta_engine_stats(e, &s);
	for (int i = 0; i < DTA_DROPS; i++)
		dropped += s.dropped[i];
	if (s.in != s.stored + s.waiting + dropped || (empty && s.waiting))
		abort();
}

static void block(struct dta_engine *e, struct input *in, const struct sl_store_config *c,
		  uint64_t now)
{
	struct dta_block b = {
		.opcode = (uint8_t)(take(in, 8) ? c->kind : 1 + take(in, DTA_OPCODE_END - 1)),
		.flags = (uint8_t)take(in, 4),
		.copies = (uint8_t)take(in, 10),
		.key_bytes = (uint8_t)(4 + take(in, 61)),
		.value_bytes = (uint16_t)(4 + take(in, 1021)),
	};
	uint32_t reporter = take(in, 2000);
	uint8_t *items;
	size_t bytes;

	/* Mostly what the store takes. */
	if (take(in, 4)) {
		b.key_bytes = c->kind == SL_STORE_SKETCH   ? 12
			      : c->kind == SL_STORE_APPEND ? 4
							   : b.key_bytes;
		b.value_bytes = (uint16_t)(c->value_bytes ? c->value_bytes : 8);
	}
	b.count = (uint16_t)(1 + take(in, 100));
	bytes = (size_t)b.count * (b.key_bytes + b.value_bytes);
	items = calloc(1, bytes);
	if (!items)
		return;
	/* What the input has, again and again. */
	for (size_t i = 0; i < bytes && in->left; i++)
		items[i] = in->at[i % in->left];
	b.items = items;
	dta_engine_block(e, 0, reporter, &b, now);
	if (in->left)
		take(in, 2);
	free(items);
}

/* The input as a packet, if it is one. */
static void packet(struct dta_engine *e, const struct input *in, uint64_t now)
{
	static struct dta_packet p;

	if (dta_parse(in->at, in->left, &p) != DTA_FINE)
		return;
	for (uint32_t i = 0; i < p.header.blocks; i++)
		dta_engine_block(e, p.header.tenant, p.header.reporter, &p.block[i], now);
}

/* Any configuration that dta_store_format() takes. */
static struct sl_store_config configuration(struct input *in, bool *mapped)
{
	const uint32_t kind = 1 + take(in, 5);
	const bool kw = kind == SL_STORE_KEYWRITE, ap = kind == SL_STORE_APPEND,
		   sk = kind == SL_STORE_SKETCH;
	const bool pc = kind == SL_STORE_POSTCARD;
	struct sl_store_config c;

	*mapped = take(in, 2);
	c = (struct sl_store_config){
		.kind = kind,
		.seed = take(in, 9),
		.slots = 1 + take(in, 70),
		.rows = kind == SL_STORE_INCREMENT || sk ? 1 + take(in, 8) : 1,
		.value_bytes = kw || ap ? 4 + take(in, 253) : 0,
		.batch = ap ? 1 + take(in, 64) : 0,
		.lists = ap ? 1 + take(in, 5) : 0,
		.lanes = ap || sk ? 1 + take(in, 3) : 1,
		.hops = pc ? 1 + take(in, 64) : 0,
		.sketch = sk ? 1 + take(in, 3) : 0,
		.reporters = sk ? 1 + take(in, 1024) : 0,
		.banks = ap ? 1 : 1 + take(in, 3),
		.copies = kw || pc ? 1 + take(in, 8) : 0,
	};

	if (c.sketch == SL_STORE_HLL)
		c.rows = 1;
	return c;
}

static void step(struct dta_engine *e, struct input *in, const struct sl_store_config *c,
		 uint64_t *now, uint64_t *epoch)
{
	switch (take(in, 8)) {
	case 0:
		dta_engine_tick(e, *now += take(in, 65536) * 1000ull);
		break;
	case 1:
		*epoch += take(in, 3);
		dta_engine_rotate(e, 0, 0, *epoch);
		break;
	case 2:
		dta_engine_flush(e);
		break;
	default:
		block(e, in, c, ++*now);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct dta_output_ops ops = {
		.write = moody_write,
		.add = moody_add,
		.flush = moody_flush,
		.drive = moody_drive,
	};
	struct input in = {data, size};
	bool mapped;
	struct sl_store_config c = configuration(&in, &mapped);
	struct dta_engine_opts opts = {.increment_entries = take(&in, 2) ? ~0u : 8,
				       .path_entries = 8};
	struct moody m = {.o.ops = &ops, .moods = take(&in, 65536) * 65537u};
	struct dta_object object = {.number = 1};
	uint64_t now = 1, epoch = 0;
	struct dta_output *shm;
	struct dta_engine *e;
	uint8_t *memory, *head;

	object.bytes = dta_store_object_bytes(&c);
	memory = aligned_alloc(4096, object.bytes);
	head = malloc(SL_STORE_BANKS_OFFSET);
	shm = dta_output_shm(NULL, NULL);
	if (!memory || !head || !shm)
		abort();
	memset(memory, 0, object.bytes);
	dta_store_format(memory, &c, "fuzz");
	memcpy(head, memory, SL_STORE_BANKS_OFFSET);
	m.memory = memory;
	m.bytes = object.bytes;
	object.map = mapped ? memory : NULL;
	e = dta_engine_new(&opts, mapped ? shm : &m.o);
	if (!e || dta_engine_store(e, &c, &object, c.lanes - 1, 0, NULL))
		abort();
	packet(e, &in, now);
	while (in.left) {
		step(e, &in, &c, &now, &epoch);
		check(e, false);
	}
	dta_engine_remove(e, 0, 0);
	check(e, true);
	if (memcmp(head, memory, SL_STORE_BANKS_OFFSET))
		abort();
	/* The lanes before ours. */
	for (uint64_t i = 0;
	     c.kind == SL_STORE_SKETCH && i < (c.lanes - 1) * sl_store_lane_bytes(&c); i++)
		if (memory[SL_STORE_BANKS_OFFSET + i])
			abort();
	dta_engine_free(e);
	shm->ops->close(shm);
	free(memory);
	free(head);
	return 0;
}
