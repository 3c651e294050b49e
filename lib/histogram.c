// SPDX-License-Identifier: Apache-2.0
/*
 * histogram.c - histograms. Exponential buckets follow Prometheus' native histograms. OpenTelemetry
 * (data model, "ExponentialHistogram") numbers the same buckets one lower. Bucket i holds
 * base^(i-1) < x <= base^i with base = 2^(2^-scale). The boundaries are exact, without logarithm or
 * rounding: see boundaries.py.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define SCALE_MIN     (-4)
#define SCALE_MAX     8
#define SCALE_DEFAULT 3
#define MIN_DEFAULT   1e-6
#define MAX_DEFAULT   1e6

/*
 * Bucket layout of one histogram, needed for each observation. This memory is reused for other
 * histograms but never freed: an observation after sl_publisher_close() still finds a valid
 * histogram here.
 */
struct sl__buckets {
	struct sl__buckets *next; /* next unused entry */
	uint32_t room;		  /* capacity of bounds[] */
	uint32_t cell;		  /* first cell of the histogram: the sum */
	/* values up to here take the slow path (zero bucket, classic histogram) */
	double threshold;
	uint64_t bias; /* added to bucket_position() so that the first bucket becomes 0 */
	/* right shift of the biased position, 52 - scale; -1 means classic histogram */
	int32_t shift;
	/* classic: number of bounds; exponential: buckets without the zero and overflow buckets */
	uint32_t count;
	double bounds[]; /* the bounds of a classic histogram */
};
static struct sl__buckets *unused; /* free list, protected by the lock */

static const uint64_t to_bucket[512] = {
#include "boundaries.inc"
};

/*
 * The bucket of x at scale 8, for a normal x > 0, in bits 44 and up: 256 times the biased exponent
 * (bias 1023), plus the bucket of the mantissa.
 */
#define EXPONENT_BIAS (1023 * 256)

static inline uint64_t bucket_position(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits + to_bucket[bits >> 43 & 511];
}

/* nextafter(x, INFINITY) for a normal x > 0, without libm. */
static double next_above(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	bits++;
	memcpy(&x, &bits, sizeof(bits));
	return x;
}

/* A bucket at a lower scale combines 2^shift buckets of scale 8: the quotient, rounded up. */
static inline int32_t bucket_of(double x, int shift)
{
	return ((int32_t)(bucket_position(x) >> 44) - EXPONENT_BIAS + (1 << shift) - 1) >> shift;
}

/*
 * The offset is line * 64 + word * 8 with line = cell / 7: eight bytes for each cell and for each
 * line. Multiplying by 2^32 / 7, rounded up, is exact for any cell below 2^32 / 3.
 */
static inline uintptr_t cell_at(uintptr_t stripe, uint64_t cell)
{
	return stripe + (uintptr_t)(cell + (cell * 0x24924925 >> 32)) * 8;
}

int sl__shape_exponential(const struct sl_metric_opts *o, struct sl__shape *shape)
{
	int scale = o->use_scale ? o->scale : SCALE_DEFAULT;
	double min = o->min == 0 ? MIN_DEFAULT : o->min, max = o->max == 0 ? MAX_DEFAULT : o->max;
	int32_t first, last;

	if (scale < SCALE_MIN || scale > SCALE_MAX || !isnormal(min) || !isnormal(max) || min < 0 ||
	    max <= min)
		return SL__REFUSED_SHAPE;
	/* Start with the bucket of the next number above min: min itself may end a bucket. */
	first = bucket_of(next_above(min), SCALE_MAX - scale);
	last = bucket_of(max, SCALE_MAX - scale);
	/* A bucket up to 2^1024 would include infinity, which belongs above the last bucket. */
	if (last >= 1024 * 256 >> (SCALE_MAX - scale))
		return SL__REFUSED_SHAPE;
	if (last - first + 1 > (int32_t)SL_BUCKETS_MAX - 2) /* leave two for zero and overflow */
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

/* Caller holds the lock. The bounds follow the record. Returns NULL if memory is exhausted. */
const struct sl__buckets *sl__buckets_get(const struct sl_schema_record *r, uint32_t cell)
{
	struct sl__buckets **at, *b;
	uint32_t room = 16;

	while (room < r->bound_count)
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
	b->cell = cell;
	if (r->bound_count) {
		b->threshold = INFINITY;
		b->shift = -1;
		b->count = r->bound_count;
		memcpy(b->bounds, r + 1, r->bound_count * sizeof(double));
	} else {
		int32_t group = 1 << (SCALE_MAX - r->scale);

		b->threshold = r->zero_threshold;
		b->shift = 44 + SCALE_MAX - r->scale;
		b->count = r->cells - SL_HIST_BUCKETS - 2;
		b->bias = (uint64_t)(group - 1 - EXPONENT_BIAS - r->first_bucket * group) << 44;
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

static uint32_t cell_classic(const struct sl__buckets *b, double v)
{
	uint32_t low = 0, high = b->count;

	if (isnan(v))
		return SL_HIST_REFUSED;
	while (low < high) { /* find the first bound >= v */
		uint32_t middle = (low + high) / 2;

		if (b->bounds[middle] < v)
			low = middle + 1;
		else
			high = middle;
	}
	return SL_HIST_BUCKETS + low;
}

/* Returns the cell for v > threshold of an exponential histogram. */
static inline uint32_t cell_above(const struct sl__buckets *b, double v)
{
	/* The exponent of infinity is 1024, above all buckets. */
	uint64_t index = (bucket_position(v) + b->bias) >> b->shift;

	return SL_HIST_BUCKETS + 1 + (index < b->count ? (uint32_t)index : b->count);
}

/* Returns the cell that counts v, relative to the first one; SL_HIST_REFUSED if v is refused. */
static uint32_t cell_of(const struct sl__buckets *b, double v)
{
	if (b->shift < 0)
		return cell_classic(b, v);
	if (v > b->threshold)
		return cell_above(b, v);
	return v >= -b->threshold ? SL_HIST_BUCKETS : SL_HIST_REFUSED;
}

static __attribute__((noinline)) void count_shared(unsigned int slot, uint32_t cell, uint64_t n)
{
	uintptr_t shared = sl__shared(slot);

	if (shared)
		sl__shared_add(cell_at(shared, cell), n);
}

static __attribute__((noinline)) void sum_shared(unsigned int slot, uint32_t cell, double v)
{
	uintptr_t shared = sl__shared(slot);

	if (shared)
		sl__shared_add_f64(cell_at(shared, cell), v);
}

/* Handles a thread without a stripe, a classic histogram, and v <= threshold. */
static __attribute__((noinline)) void observe_slow(struct sl_histogram h, double v)
{
	unsigned int slot = sl__slot_of(h.bits);
	uint32_t cell, index;
	uintptr_t stripe;

	if (slot == SL__SLOT_NONE)
		return;
	cell = h.buckets->cell;
	index = cell_of(h.buckets, v);
	stripe = sl__stripe_of(slot);
	if (!stripe || !sl__own_add(cell_at(stripe, cell + index), 1))
		count_shared(slot, cell + index, 1);
	if (index != SL_HIST_REFUSED && (!stripe || !sl__own_add_f64(cell_at(stripe, cell), v)))
		sum_shared(slot, cell, v);
}

void sl_histogram_observe(struct sl_histogram h, double v)
{
	uintptr_t base = sl__thread.base[h.bits >> 32], stripe = base + (uintptr_t)h.bits;
	const struct sl__buckets *b = h.buckets;

	if (unlikely(!base) || unlikely(!(v > b->threshold))) {
		observe_slow(h, v);
		return;
	}
	if (unlikely(!sl__own_add(cell_at(stripe, b->cell + cell_above(b, v)), 1)))
		count_shared(sl__slot_of(h.bits), b->cell + cell_above(b, v), 1);
	if (unlikely(!sl__own_add_f64(cell_at(stripe, b->cell), v)))
		sum_shared(sl__slot_of(h.bits), b->cell, v);
}

void sl_histogram_observe_exemplar(struct sl_histogram h, double v,
				   const struct sl_exemplar *exemplar)
{
	unsigned int slot = sl__slot_of(h.bits);
	uint32_t cell;

	sl_histogram_observe(h, v);
	if (slot == SL__SLOT_NONE)
		return;
	cell = cell_of(h.buckets, v);
	if (cell != SL_HIST_REFUSED)
		sl__exemplar_set(slot, h.buckets->cell + cell, v, false, exemplar);
}

/* ---- many observations at once ---- */

static uint32_t buckets_of(const struct sl__buckets *b)
{
	return b->count + (b->shift < 0 ? 1 : 2);
}

int sl_histogram_add(struct sl_histogram h, const uint64_t *buckets, size_t n, double sum)
{
	unsigned int slot = sl__slot_of(h.bits);
	const struct sl__buckets *b = h.buckets;
	uintptr_t own;

	if (slot == SL__SLOT_NONE)
		return 0;
	if (!buckets || n != buckets_of(b))
		return -EINVAL;
	if (!isfinite(sum)) {
		sl__refuse_observation(slot);
		return 0;
	}
	own = sl__stripe_of(slot);
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t cell = b->cell + SL_HIST_BUCKETS + i;

		if (buckets[i] && (!own || !sl__own_add(cell_at(own, cell), buckets[i])))
			count_shared(slot, cell, buckets[i]);
	}
	if (!own || !sl__own_add_f64(cell_at(own, b->cell), sum))
		sum_shared(slot, b->cell, sum);
	return 0;
}

/* ---- setting all buckets at once ---- */

static int set_all(uint64_t bits, const struct sl__buckets *b, const uint64_t *buckets, size_t n,
		   double sum)
{
	unsigned int slot = sl__slot_of(bits);
	uintptr_t shared;

	if (slot == SL__SLOT_NONE)
		return 0;
	if (!buckets || n != buckets_of(b))
		return -EINVAL;
	shared = sl__shared(slot);
	if (!shared)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		sl__shared_set(cell_at(shared, b->cell + SL_HIST_BUCKETS + i), buckets[i]);
	sl__shared_set(cell_at(shared, b->cell + SL_HIST_SUM), sl_cell_of_f64(sum));
	return 0;
}

int sl_gauge_histogram_set(struct sl_gauge_histogram h, const uint64_t *buckets, size_t n,
			   double sum)
{
	return set_all(h.bits, h.buckets, buckets, n, sum);
}

int sl_histogram_mirror(struct sl_histogram h, const uint64_t *buckets, size_t n, double sum)
{
	return set_all(h.bits, h.buckets, buckets, n, sum);
}

void sl_histogram_mirror_exemplar(struct sl_histogram h, size_t bucket, double value,
				  const struct sl_exemplar *exemplar)
{
	unsigned int slot = sl__slot_of(h.bits);

	if (slot != SL__SLOT_NONE && bucket < buckets_of(h.buckets))
		sl__exemplar_set(slot, h.buckets->cell + SL_HIST_BUCKETS + (uint32_t)bucket, value,
				 true, exemplar);
}

size_t sl_gauge_histogram_size(struct sl_gauge_histogram h)
{
	return sl__slot_of(h.bits) ? buckets_of(h.buckets) : 0;
}

/* ---- reading back ---- */

uint64_t sl_histogram_count(struct sl_histogram h)
{
	uint64_t sum = 0;
	uint32_t cells;

	if (!sl__slot_of(h.bits))
		return 0;
	cells = buckets_of(h.buckets);
	for (uint32_t i = 0; i < cells; i++)
		sum += sl__read_u64(sl__slot_of(h.bits),
				    (uint32_t)cell_at(0, h.buckets->cell + SL_HIST_BUCKETS + i));
	return sum;
}

int sl_histogram_buckets(struct sl_histogram h, uint64_t *buckets, size_t n)
{
	if (!sl__slot_of(h.bits))
		return 0;
	if (!buckets || n != buckets_of(h.buckets))
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		buckets[i] =
			sl__read_u64(sl__slot_of(h.bits),
				     (uint32_t)cell_at(0, h.buckets->cell + SL_HIST_BUCKETS + i));
	return 0;
}

double sl_histogram_sum(struct sl_histogram h)
{
	if (!sl__slot_of(h.bits))
		return 0;
	return sl__read_f64(sl__slot_of(h.bits), (uint32_t)cell_at(0, h.buckets->cell));
}
