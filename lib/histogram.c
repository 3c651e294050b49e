// SPDX-License-Identifier: Apache-2.0
/*
 * Histograms. Exponential buckets are those of Prometheus' native histograms and, numbered one
 * lower, of OpenTelemetry (data model, "ExponentialHistogram"): bucket i holds
 * base^(i-1) < x <= base^i with base = 2^(2^-scale). The boundaries are exact: no logarithm and no
 * rounding is involved, see boundaries.py.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "boundaries.h"

#define SCALE_MIN     (-4)
#define SCALE_MAX     8
#define SCALE_DEFAULT 3
#define MIN_DEFAULT   1e-6
#define MAX_DEFAULT   1e6

/*
 * What an observation needs to know of its histogram. The memory of these is used again, but
 * never given back: an observation that comes too late, after sl_publisher_close(), finds a
 * histogram here, not somebody else's memory.
 */
struct sl__buckets {
	struct sl__buckets *next; /* while unused */
	uint32_t room;		  /* bounds that fit */
	uint32_t count;		  /* bounds; exponential: buckets without zero and overflow */
	int32_t shift;		  /* 8 - scale; -1: classic */
	int32_t bias;		  /* added to bucket_at_8(): makes the first bucket 0 */
	double threshold;	  /* exponential: up to here into the zero bucket */
	double bounds[];	  /* classic */
};
static struct sl__buckets *unused; /* under the lock */

/*
 * The number of the bucket of x at scale 8, for a normal x > 0: 256 times the exponent, which is
 * left biased by 1023, and what the mantissa says: the slot of its first 9 bits has at most one
 * boundary inside.
 */
#define EXPONENT_BIAS (1023 * 256)

static inline int32_t bucket_at_8(double x)
{
	uint64_t bits, mantissa;
	uint32_t index;

	memcpy(&bits, &x, sizeof(bits));
	mantissa = bits & ((1ull << 52) - 1);
	index = first_of_slot[mantissa >> 43];
	index += mantissa > boundaries[index];
	return (int32_t)((uint32_t)(bits >> 52) * 256 + index);
}

/*
 * Buckets of a lower scale are whole groups of those: their number is the quotient by 2^shift,
 * rounded up.
 */
static inline int32_t bucket_of(double x, int shift)
{
	return (bucket_at_8(x) - EXPONENT_BIAS + (1 << shift) - 1) >> shift;
}

/* offset = line * 64 + word * 8 with line = cell / 7: eight bytes for each cell and each line. */
static inline uintptr_t cell_at(uintptr_t stripe, uint32_t cell)
{
	return stripe + (cell + cell / SL_LINE_CELLS) * (uintptr_t)8;
}

int sl__shape_exponential(const struct sl_metric_opts *o, struct sl__shape *shape)
{
	int scale = o->use_scale ? o->scale : SCALE_DEFAULT;
	double min = o->min == 0 ? MIN_DEFAULT : o->min, max = o->max == 0 ? MAX_DEFAULT : o->max;
	int32_t first, last;

	if (scale < SCALE_MIN || scale > SCALE_MAX || !isnormal(min) || !isnormal(max) || min < 0 ||
	    max <= min)
		return SL__REFUSED_SHAPE;
	/* The first bucket is the one of the numbers right above min, which min itself may end. */
	first = bucket_of(nextafter(min, INFINITY), SCALE_MAX - scale);
	last = bucket_of(max, SCALE_MAX - scale);
	/* A bucket up to 2^1024 would take infinity, which counts as above the last one. */
	if (last >= 1024 * 256 >> (SCALE_MAX - scale))
		return SL__REFUSED_SHAPE;
	if (last - first + 1 > (int32_t)SL_BUCKETS_MAX - 2) /* zero and overflow are two more */
		return SL__REFUSED_SHAPE;
	shape->scale = scale;
	shape->first_bucket = first;
	shape->zero_threshold = min;
	shape->cells = SL_HIST_BUCKETS + 1 + (uint32_t)(last - first + 1) + 1;
	return 0;
}

int sl__shape_classic(const struct sl_metric_opts *o, struct sl__shape *shape)
{
	if (!o->bound_count || !o->bounds || o->bound_count > SL_BUCKETS_MAX - 1)
		return SL__REFUSED_SHAPE;
	for (size_t i = 0; i < o->bound_count; i++)
		if (!isfinite(o->bounds[i]) || (i && !(o->bounds[i] > o->bounds[i - 1])))
			return SL__REFUSED_SHAPE;
	shape->bounds = o->bounds;
	shape->bound_count = (uint32_t)o->bound_count;
	shape->cells = SL_HIST_BUCKETS + shape->bound_count + 1;
	return 0;
}

/* Under the lock. NULL: no memory. */
const struct sl__buckets *sl__buckets_get(const struct sl__shape *shape)
{
	struct sl__buckets **at, *b;
	uint32_t room = 16;

	while (room < shape->bound_count)
		room *= 2;
	for (at = &unused; *at && (*at)->room != room; at = &(*at)->next)
		;
	b = *at;
	if (b) {
		*at = b->next;
	} else {
		b = malloc(sizeof(*b) + room * sizeof(double));
		if (!b)
			return NULL;
		b->room = room;
	}
	b->next = NULL;
	b->threshold = shape->zero_threshold;
	if (shape->bound_count) {
		b->shift = -1;
		b->count = shape->bound_count;
		memcpy(b->bounds, shape->bounds, shape->bound_count * sizeof(double));
	} else {
		b->shift = SCALE_MAX - shape->scale;
		b->count = shape->cells - SL_HIST_BUCKETS - 2;
		b->bias = (1 << b->shift) - 1 - EXPONENT_BIAS -
			  shape->first_bucket * (1 << b->shift);
	}
	return b;
}

void sl__buckets_put(const struct sl__buckets *buckets)
{
	struct sl__buckets *b = (struct sl__buckets *)buckets;

	if (!b)
		return;
	b->next = unused;
	unused = b;
}

static __attribute__((noinline)) uint32_t cell_classic(const struct sl__buckets *b, double v)
{
	uint32_t low = 0, high = b->count;

	if (isnan(v))
		return SL_HIST_REFUSED;
	while (low < high) { /* the first bound that is not below v */
		uint32_t middle = (low + high) / 2;

		if (b->bounds[middle] < v)
			low = middle + 1;
		else
			high = middle;
	}
	return SL_HIST_BUCKETS + low;
}

/* The cell of the histogram that v counts in; SL_HIST_REFUSED for what it does not take. */
static inline uint32_t cell_of(const struct sl__buckets *b, double v)
{
	uint32_t index;

	if (unlikely(b->shift < 0))
		return cell_classic(b, v);
	if (unlikely(!(v > b->threshold)))
		return v >= -b->threshold ? SL_HIST_BUCKETS : SL_HIST_REFUSED;
	/* Not below 0, as v > threshold; infinity's exponent is 1024, above every bucket. */
	index = (uint32_t)((bucket_at_8(v) + b->bias) >> b->shift);
	return SL_HIST_BUCKETS + 1 + (index < b->count ? index : b->count);
}

static __attribute__((noinline)) void sum_shared(unsigned int slot, uint32_t cell, double v)
{
	uintptr_t shared = sl__shared(slot);

	if (shared)
		sl__shared_add_f64(cell_at(shared, cell), v);
}

static __attribute__((noinline)) void observe_slow(struct sl_histogram h, double v)
{
	unsigned int slot = sl__slot_of(h.bits);
	uintptr_t stripe;
	uint32_t index;

	if (slot == SL_SLOT_NONE)
		return;
	if (sl__stripe_claim(slot)) {
		sl_histogram_observe(h, v);
		return;
	}
	stripe = sl__shared(slot);
	if (!stripe)
		return;
	index = cell_of(h.buckets, v);
	sl__shared_add(cell_at(stripe, (uint32_t)h.bits + index), 1);
	if (index != SL_HIST_REFUSED)
		sum_shared(slot, (uint32_t)h.bits, v);
}

void sl_histogram_observe(struct sl_histogram h, double v)
{
	uintptr_t stripe = sl__thread.stripe[h.bits >> 32];
	uint32_t cell = (uint32_t)h.bits, index;

	if (unlikely(!stripe)) {
		observe_slow(h, v);
		return;
	}
	index = cell_of(h.buckets, v);
	sl__own_add(cell_at(stripe, cell + index), 1);
	if (likely(index != SL_HIST_REFUSED) &&
	    unlikely(!sl__own_add_f64(cell_at(stripe, cell), v)))
		sum_shared(sl__slot_of(h.bits), cell, v);
}

/* ---- reading back ------------------------------------------------------------------------------- */

uint64_t sl_histogram_count(struct sl_histogram h)
{
	uint32_t cells, cell = (uint32_t)h.bits;
	uint64_t sum = 0;

	if (!sl__slot_of(h.bits))
		return 0;
	cells = h.buckets->count + (h.buckets->shift < 0 ? 1 : 2);
	for (uint32_t i = 0; i < cells; i++)
		sum += sl__read_u64(sl__slot_of(h.bits),
				    (uint32_t)sl_cell_offset(cell + SL_HIST_BUCKETS + i));
	return sum;
}

double sl_histogram_sum(struct sl_histogram h)
{
	return sl__read_f64(sl__slot_of(h.bits), (uint32_t)sl_cell_offset((uint32_t)h.bits));
}
