// SPDX-License-Identifier: Apache-2.0
/* output_shm.c - stores on this machine, as mappings */
#include "dta/engine/output_shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct output_shm {
	struct dta_output o;
	void (*immediate)(void *arg, uint32_t number);
	void *arg;
	struct dta_output_stats stats;
};

static struct output_shm *shm_of(struct dta_output *o)
{
	return (struct output_shm *)o;
}

static bool within(const struct dta_object *to, uint64_t offset, uint64_t bytes)
{
	return to->map && offset <= to->bytes && bytes <= to->bytes - offset;
}

static int shm_write(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     const void *data, uint32_t bytes)
{
	uint32_t front = bytes > 8 ? bytes - 8 : 0;

	if (!within(to, offset, bytes))
		return -ERANGE;
	/* The end is written last, as an adapter does: readers poll tails. */
	if (front)
		memcpy(to->map + offset, data, front);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (bytes)
		memcpy(to->map + offset + front, (const uint8_t *)data + front, bytes - front);
	dta_output_shm_account(o, 1, 0, bytes);
	return 0;
}

static int shm_write_immediate(struct dta_output *o, const struct dta_object *to, uint64_t offset,
			       const void *data, uint32_t bytes, uint32_t immediate)
{
	int r = shm_write(o, to, offset, data, bytes);

	if (r)
		return r;
	shm_of(o)->stats.immediates++;
	if (shm_of(o)->immediate)
		shm_of(o)->immediate(shm_of(o)->arg, immediate);
	return 0;
}

static int shm_add(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		   uint64_t addend)
{
	if (!within(to, offset, 8) || offset & 7)
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

static uint64_t shm_outstanding(const struct dta_output *o)
{
	(void)o;
	return 0;
}

static void shm_stats(const struct dta_output *o, struct dta_output_stats *out)
{
	*out = ((const struct output_shm *)o)->stats;
}

static void shm_close(struct dta_output *o)
{
	free(o);
}

static const struct dta_output_ops shm_ops = {
	.name = "shm",
	.write = shm_write,
	.write_immediate = shm_write_immediate,
	.add = shm_add,
	.flush = shm_flush,
	.drive = shm_drive,
	.outstanding = shm_outstanding,
	.stats = shm_stats,
	.close = shm_close,
};

bool dta_output_is_shm(const struct dta_output *o)
{
	return o->ops == &shm_ops;
}

void dta_output_shm_account(struct dta_output *o, uint64_t writes, uint64_t adds, uint64_t bytes)
{
	struct dta_output_stats *s = &shm_of(o)->stats;

	s->writes += writes;
	s->adds += adds;
	s->completed += writes + adds;
	s->bytes += bytes;
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
