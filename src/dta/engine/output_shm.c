// SPDX-License-Identifier: Apache-2.0
/* output_shm.c - output for stores on this machine, which are mapped into memory */
#include "dta/engine/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct output_shm {
	struct dta_output o;
	void (*immediate)(void *arg, uint32_t number);
	void *arg;
};

static bool is_within(const struct dta_object *to, uint64_t offset, uint64_t bytes)
{
	return to->map && offset <= to->bytes && bytes <= to->bytes - offset;
}

static int shm_write(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     const void *data, uint32_t bytes, const uint32_t *immediate)
{
	const struct output_shm *s = (const struct output_shm *)o;
	uint32_t front = bytes > 8 ? bytes - 8 : 0;

	if (!is_within(to, offset, bytes))
		return -ERANGE;
	/* Write the end last, like an adapter, because readers poll the tail. */
	if (front)
		memcpy(to->map + offset, data, front);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (bytes)
		memcpy(to->map + offset + front, (const uint8_t *)data + front, bytes - front);
	dta_output_shm_account(o, 1, 0, bytes);
	o->stats.immediates += immediate != NULL;
	if (immediate && s->immediate)
		s->immediate(s->arg, *immediate);
	return 0;
}

static int shm_add(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		   uint64_t addend)
{
	if (!is_within(to, offset, 8) || offset & 7)
		return -ERANGE;
	/* Other translators add to the same counters. */
	__atomic_fetch_add((uint64_t *)(void *)(to->map + offset), addend, __ATOMIC_RELAXED);
	dta_output_shm_account(o, 0, 1, 8);
	return 0;
}

static void shm_flush(struct dta_output *o)
{
	(void)o;
}

static enum dta_output_state shm_drive(struct dta_output *o, uint64_t now_ns)
{
	(void)o;
	(void)now_ns;
	return DTA_OUTPUT_UP;
}

static void shm_close(struct dta_output *o)
{
	free(o);
}

static const struct dta_output_ops shm_ops = {
	.write = shm_write,
	.add = shm_add,
	.flush = shm_flush,
	.drive = shm_drive,
	.close = shm_close,
};

bool dta_output_is_shm(const struct dta_output *o)
{
	return o->ops == &shm_ops;
}

void dta_output_shm_account(struct dta_output *o, uint64_t writes, uint64_t adds, uint64_t bytes)
{
	o->stats.writes += writes;
	o->stats.adds += adds;
	o->stats.completed += writes + adds;
	o->stats.bytes += bytes;
}

struct dta_output *dta_output_shm(void (*immediate)(void *arg, uint32_t number), void *arg)
{
	struct output_shm *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->o.ops = &shm_ops;
	s->immediate = immediate;
	s->arg = arg;
	return &s->o;
}
