// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/ddsketch.h"
#include "sketch/wire.h"

/* Bins low..low+span-1 may be non-zero; bin i is at index i & mask. All others are zero. */
struct store {
	int32_t low,
		floor; /* floor: low after smaller magnitudes were collapsed into it, else OPEN */
	uint32_t span;
	uint64_t *bin;
};

#define OPEN INT32_MIN

struct sketch_ddsketch {
	double scale; /* bins per octave */
	uint32_t mask, flags;
	uint64_t count, zero;
	double min, max, alpha;
	struct store side[2]; /* positive, negative */
};

/* ---- mapping: x in 2^-1022..DBL_MAX to indices in 0..2^28-1 ---- */

#define A (6.0 / 35)
#define B (-3.0 / 5)
#define C (10.0 / 7)

static inline int32_t index_of(const struct sketch_ddsketch *s, double x)
{
	uint64_t bits;
	double e, m;

	if (s->flags & SKETCH_DDSKETCH_LOG)
		return (int32_t)((log2(x) + 1022) * s->scale);
	memcpy(&bits, &x, 8);
	e = (double)((int32_t)(bits >> 52) - 1);
	bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
	memcpy(&m, &bits, 8);
	m -= 1;
	return (int32_t)((((A * m + B) * m + C) * m + e) * s->scale);
}

/* The lower bound of a bin. */
static double value_of(const struct sketch_ddsketch *s, int32_t index)
{
	const double v = index / s->scale, e = floor(v), f = v - e;
	double m = f;

	if (s->flags & SKETCH_DDSKETCH_LOG)
		return ldexp(exp2(f), (int)e - 1022);
	/* Newton; the slope lies within 0.74 and 1.43. */
	for (int i = 0; i < 8; i++)
		m -= (((A * m + B) * m + C) * m - f) / ((3 * A * m + 2 * B) * m + C);
	return ldexp(1 + m, (int)e - 1022);
}

/* ---- bins ---- */

/* Makes `low` the lowest bin and collapses those below into it. */
static void raise_low(struct store *t, uint32_t mask, int32_t low)
{
	const uint32_t gone = (uint32_t)(low - t->low);
	uint64_t n = 0;

	for (uint32_t i = 0; i < gone && i < t->span; i++) {
		uint64_t *bin = &t->bin[(uint32_t)(t->low + (int32_t)i) & mask];

		n += *bin;
		*bin = 0;
	}
	t->span = gone < t->span ? t->span - gone : 1;
	t->low = low;
	t->bin[(uint32_t)low & mask] += n;
	t->floor = low; /* the lowest bin was in use, by definition of span */
}

/* Adds to a bin outside low..low+span-1. */
static __attribute__((noinline)) void store_widen(struct store *t, uint32_t mask, int32_t index,
						  uint64_t n)
{
	const int32_t bins = (int32_t)mask + 1;

	if (!t->span) {
		t->low = index;
		t->span = 1;
	} else if (index < t->low) {
		const int32_t top = t->low + (int32_t)t->span - 1;

		if (top - index >= bins) {
			index = top - bins + 1;
			t->floor = index;
		}
		t->span = (uint32_t)(top - index + 1);
		t->low = index;
	} else {
		if (index - t->low >= bins)
			raise_low(t, mask, index - bins + 1);
		t->span = (uint32_t)(index - t->low + 1);
	}
	t->bin[(uint32_t)index & mask] += n;
}

static inline void store_add(struct store *t, uint32_t mask, int32_t index, uint64_t n)
{
	index = index < t->floor ? t->floor : index;
	if (__builtin_expect((uint32_t)(index - t->low) < t->span, 1))
		t->bin[(uint32_t)index & mask] += n;
	else
		store_widen(t, mask, index, n);
}

/* ---- interface ---- */

static bool fits(double alpha, uint32_t bins, unsigned int flags)
{
	return alpha >= SKETCH_DDSKETCH_ALPHA_MIN && alpha <= SKETCH_DDSKETCH_ALPHA_MAX &&
	       bins >= SKETCH_DDSKETCH_BINS_MIN && bins <= SKETCH_DDSKETCH_BINS_MAX &&
	       !(bins & (bins - 1)) && !(flags & ~(SKETCH_DDSKETCH_LOG | SKETCH_DDSKETCH_SIGNED));
}

struct sketch_ddsketch *sketch_ddsketch_new(double alpha, uint32_t bins, unsigned int flags)
{
	const size_t sides = flags & SKETCH_DDSKETCH_SIGNED ? 2 : 1;
	struct sketch_ddsketch *s;
	double gamma;

	if (!fits(alpha, bins, flags)) {
		errno = EINVAL;
		return NULL;
	}
	s = calloc(1, sizeof(*s) + sides * bins * sizeof(uint64_t));
	if (!s)
		return NULL;
	gamma = (1 + alpha) / (1 - alpha);
	/* The polynomial's smallest slope is C ln 2 times the logarithm's. */
	s->scale = flags & SKETCH_DDSKETCH_LOG ? M_LN2 / log(gamma) : 1 / (C * log(gamma));
	s->alpha = alpha;
	s->mask = bins - 1;
	s->flags = flags;
	s->side[0].bin = (uint64_t *)(s + 1);
	s->side[1].bin = sides == 2 ? s->side[0].bin + bins : NULL;
	sketch_ddsketch_clear(s);
	return s;
}

void sketch_ddsketch_free(struct sketch_ddsketch *s)
{
	free(s);
}

void sketch_ddsketch_clear(struct sketch_ddsketch *s)
{
	for (int i = 0; i < 2; i++) {
		struct store *t = &s->side[i];

		if (t->bin)
			memset(t->bin, 0, ((size_t)s->mask + 1) * sizeof(*t->bin));
		t->low = 0;
		t->span = 0;
		t->floor = OPEN;
	}
	s->count = s->zero = 0;
	s->min = INFINITY;
	s->max = -INFINITY;
}

int sketch_ddsketch_add(struct sketch_ddsketch *s, double x, uint64_t n)
{
	const double magnitude = fabs(x);
	struct store *t = &s->side[x < 0];
	uint64_t count;

	if (!(magnitude <= DBL_MAX) || !t->bin)
		return -EINVAL;
	if (__builtin_add_overflow(s->count, n, &count))
		return -EOVERFLOW;
	if (__builtin_expect(!n, 0))
		return 0;
	s->count = count;
	if (__builtin_expect(x < s->min, 0))
		s->min = x;
	if (__builtin_expect(x > s->max, 0))
		s->max = x;
	if (magnitude < DBL_MIN)
		s->zero += n;
	else
		store_add(t, s->mask, index_of(s, magnitude), n);
	return 0;
}

uint64_t sketch_ddsketch_count(const struct sketch_ddsketch *s)
{
	return s->count;
}

/* The representative of a bin: within alpha of each of its values. */
static double middle(const struct sketch_ddsketch *s, int32_t index)
{
	return value_of(s, index) * (1 + s->alpha);
}

double sketch_ddsketch_quantile(const struct sketch_ddsketch *s, double q)
{
	const struct store *pos = &s->side[0], *neg = &s->side[1];
	uint64_t rank, below = 0;
	double x = 0;

	if (!s->count || !(q >= 0 && q <= 1))
		return NAN;
	if (q == 0)
		return s->min;
	if (q == 1)
		return s->max;
	x = q * (double)(s->count - 1);
	rank = x < 0x1p64 ? (uint64_t)x : UINT64_MAX;
	if (rank >= s->count) /* rounded up */
		rank = s->count - 1;
	for (uint32_t i = neg->span; i-- > 0;) {
		const int32_t index = neg->low + (int32_t)i;

		below += neg->bin[(uint32_t)index & s->mask];
		if (below > rank) {
			x = -middle(s, index);
			goto found;
		}
	}
	below += s->zero;
	if (below > rank) {
		x = 0;
		goto found;
	}
	for (uint32_t i = 0; i < pos->span; i++) {
		const int32_t index = pos->low + (int32_t)i;

		below += pos->bin[(uint32_t)index & s->mask];
		if (below > rank) {
			x = middle(s, index);
			break;
		}
	}
found:
	return fmin(fmax(x, s->min), s->max);
}

double sketch_ddsketch_exact_from(const struct sketch_ddsketch *s)
{
	double from = 0;

	for (int i = 0; i < 2; i++)
		if (s->side[i].floor != OPEN)
			from = fmax(from, value_of(s, s->side[i].low + 1));
	return from;
}

int sketch_ddsketch_merge(struct sketch_ddsketch *into, const struct sketch_ddsketch *from)
{
	uint64_t count;

	if (into == from || into->alpha != from->alpha || into->mask != from->mask ||
	    into->flags != from->flags)
		return -EINVAL;
	if (__builtin_add_overflow(into->count, from->count, &count))
		return -EOVERFLOW;
	for (int i = 0; i < 2; i++) {
		const struct store *t = &from->side[i];

		/* From the largest down, so that bins to be collapsed are collapsed once. */
		for (uint32_t j = t->span; j-- > 0;) {
			const int32_t index = t->low + (int32_t)j;
			const uint64_t n = t->bin[(uint32_t)index & into->mask];

			if (n)
				store_add(&into->side[i], into->mask, index, n);
		}
		if (t->floor != OPEN)
			into->side[i].floor = into->side[i].low;
	}
	into->count = count;
	into->zero += from->zero;
	into->min = fmin(into->min, from->min);
	into->max = fmax(into->max, from->max);
	return 0;
}

/* ---- bytes ---- */

size_t sketch_ddsketch_save_bytes(const struct sketch_ddsketch *s)
{
	return SKETCH_FRAME + 8 + 2 * 4 + 3 * 8 + 2 * 3 * 4 +
	       ((size_t)s->side[0].span + s->side[1].span) * 8;
}

int64_t sketch_ddsketch_save(const struct sketch_ddsketch *s, void *buf, size_t bytes)
{
	struct sketch_wire w;
	int rc = sketch_wire_begin(&w, buf, bytes, sketch_ddsketch_save_bytes(s), SKETCH_DDSKETCH);

	if (rc)
		return rc;
	sketch_put_f64(&w, s->alpha);
	sketch_put_u32(&w, s->mask + 1);
	sketch_put_u32(&w, s->flags);
	sketch_put_u64(&w, s->zero);
	sketch_put_f64(&w, s->min);
	sketch_put_f64(&w, s->max);
	for (int i = 0; i < 2; i++) {
		const struct store *t = &s->side[i];

		sketch_put_u32(&w, (uint32_t)t->low);
		sketch_put_u32(&w, t->span);
		sketch_put_u32(&w, t->floor != OPEN);
		for (uint32_t j = 0; j < t->span; j++)
			sketch_put_u64(&w, t->bin[(uint32_t)(t->low + (int32_t)j) & s->mask]);
	}
	return sketch_wire_end(&w, buf);
}

/* The bins of one sign; false if no sketch can have them. */
static bool load_side(struct sketch_ddsketch *s, struct store *t, struct sketch_wire_in *r)
{
	const uint32_t low = sketch_take_u32(r), span = sketch_take_u32(r),
		       collapsed = sketch_take_u32(r);
	const int32_t last = index_of(s, DBL_MAX);

	if (span > s->mask + 1 || (span && !t->bin) || low > (uint32_t)last ||
	    (span && low + span - 1 > (uint32_t)last) || collapsed > 1 || (!span && low) ||
	    (collapsed && span != s->mask + 1))
		return false;
	t->low = (int32_t)low;
	t->span = span;
	t->floor = collapsed ? t->low : OPEN;
	for (uint32_t j = 0; j < span; j++) {
		const uint64_t n = sketch_take_u64(r);

		t->bin[(low + j) & s->mask] = n;
		/* The outermost bins are in use, by definition of span. */
		if ((!n && (j == 0 || j == span - 1)) ||
		    __builtin_add_overflow(s->count, n, &s->count))
			return false;
	}
	return true;
}

int sketch_ddsketch_load(struct sketch_ddsketch **out, const void *buf, size_t bytes)
{
	struct sketch_wire_in r;
	struct sketch_ddsketch *s;
	uint32_t bins, flags;
	double alpha;
	int rc = sketch_wire_open(&r, buf, bytes, SKETCH_DDSKETCH);

	if (rc)
		return rc;
	alpha = sketch_take_f64(&r);
	bins = sketch_take_u32(&r);
	flags = sketch_take_u32(&r);
	if (!fits(alpha, bins, flags))
		return -EINVAL;
	s = sketch_ddsketch_new(alpha, bins, flags);
	if (!s)
		return -errno;
	s->count = s->zero = sketch_take_u64(&r);
	s->min = sketch_take_f64(&r);
	s->max = sketch_take_f64(&r);
	if (!load_side(s, &s->side[0], &r) || !load_side(s, &s->side[1], &r) ||
	    !sketch_wire_done(&r))
		goto refuse;
	if (s->count ? !(s->min <= s->max && fabs(s->min) <= DBL_MAX && fabs(s->max) <= DBL_MAX)
		     : s->min != INFINITY || s->max != -INFINITY)
		goto refuse;
	*out = s;
	return 0;

refuse:
	sketch_ddsketch_free(s);
	return -EINVAL;
}
