// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/hash.h"
#include "sketch/hll.h"
#include "sketch/wire.h"

struct sketch_hll {
	uint32_t p;
	uint64_t seed;
	uint8_t reg[]; /* 2^p registers: the most leading zeroes after the index, plus 1; 0: unused
			*/
};

struct sketch_hll *sketch_hll_new(uint32_t p, uint64_t seed)
{
	struct sketch_hll *h;

	if (p < SKETCH_HLL_MIN || p > SKETCH_HLL_MAX) {
		errno = EINVAL;
		return NULL;
	}
	h = calloc(1, sizeof(*h) + ((size_t)1 << p));
	if (!h)
		return NULL;
	h->p = p;
	h->seed = seed;
	return h;
}

void sketch_hll_free(struct sketch_hll *h)
{
	free(h);
}

static inline void add(struct sketch_hll *h, uint64_t hash)
{
	const size_t at = hash >> (64 - h->p);
	/* A one behind the last bit bounds the count. */
	const uint64_t rest = hash << h->p | (uint64_t)1 << (h->p - 1);
	const uint8_t rho = (uint8_t)(__builtin_clzll(rest) + 1);

	if (rho > h->reg[at])
		h->reg[at] = rho;
}

void sketch_hll_add(struct sketch_hll *h, const void *key, size_t bytes)
{
	add(h, sketch_hash_bytes(key, bytes, h->seed));
}

void sketch_hll_add_u64(struct sketch_hll *h, uint64_t key)
{
	add(h, sketch_hash_u64(key, h->seed));
}

/* Ertl, algorithm 6: sigma for empty registers, tau for saturated ones. */
static double sigma(double x)
{
	double y = 1, z = x, before;

	if (x == 1)
		return INFINITY;
	do {
		x *= x;
		before = z;
		z += x * y;
		y += y;
	} while (z != before);
	return z;
}

static double tau(double x)
{
	double y = 1, z = 1 - x, before;

	if (x == 0 || x == 1)
		return 0;
	do {
		x = sqrt(x);
		before = z;
		y *= 0.5;
		z -= (1 - x) * (1 - x) * y;
	} while (z != before);
	return z / 3;
}

double sketch_hll_estimate(const struct sketch_hll *h)
{
	const uint32_t q = 64 - h->p;
	const size_t m = (size_t)1 << h->p;
	uint32_t count[66] = {0};
	double z;

	for (size_t i = 0; i < m; i++)
		count[h->reg[i]]++;
	z = (double)m * tau(1 - (double)count[q + 1] / (double)m);
	for (uint32_t k = q; k >= 1; k--)
		z = 0.5 * (z + count[k]);
	z += (double)m * sigma((double)count[0] / (double)m);
	return fmin((double)m * (double)m / (2 * M_LN2 * z), 0x1p64);
}

double sketch_hll_error(const struct sketch_hll *h)
{
	return 1.04 / sqrt((double)((size_t)1 << h->p));
}

size_t sketch_hll_save_bytes(const struct sketch_hll *h)
{
	return SKETCH_FRAME + 4 + 8 + ((size_t)1 << h->p);
}

int64_t sketch_hll_save(const struct sketch_hll *h, void *buf, size_t bytes)
{
	struct sketch_wire w;
	int rc = sketch_wire_begin(&w, buf, bytes, sketch_hll_save_bytes(h), SKETCH_HLL);

	if (rc)
		return rc;
	sketch_put_u32(&w, h->p);
	sketch_put_u64(&w, h->seed);
	sketch_put_bytes(&w, h->reg, (size_t)1 << h->p);
	return sketch_wire_end(&w, buf);
}

int sketch_hll_load(struct sketch_hll **out, const void *buf, size_t bytes)
{
	struct sketch_wire_in r;
	struct sketch_hll *h;
	uint32_t p;
	int rc = sketch_wire_open(&r, buf, bytes, SKETCH_HLL);

	if (rc)
		return rc;
	p = sketch_take_u32(&r);
	if (p < SKETCH_HLL_MIN || p > SKETCH_HLL_MAX ||
	    bytes != SKETCH_FRAME + 4 + 8 + ((size_t)1 << p))
		return -EINVAL;
	h = sketch_hll_new(p, sketch_take_u64(&r));
	if (!h)
		return -errno;
	sketch_take_bytes(&r, h->reg, (size_t)1 << p);
	for (size_t i = 0; i < (size_t)1 << p; i++)
		if (h->reg[i] > 64 - p + 1) {
			sketch_hll_free(h);
			return -EINVAL;
		}
	*out = h;
	return 0;
}
