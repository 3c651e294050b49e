// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/hash.h"
#include "sketch/kll.h"
#include "sketch/wire.h"

/* The top level was made by compacting 8 items of the one below, so 2^60 values need fewer. */
#define LEVELS	  60u
#define COUNT_MAX ((uint64_t)1 << 60)
#define LEAST	  8u

/*
 * Level h is item[start[h]..start[h + 1]), the lowest first, the last ends at `size`: free room is
 * in front. Level 0 is in any order, the others are sorted.
 */
struct sketch_kll {
	uint32_t k, levels, size, room; /* room: items of so many levels, all full */
	uint32_t start[LEVELS + 1];
	uint32_t cap[LEVELS]; /* by depth below the top */
	uint64_t seed, coins, count;
	double s, min, max;
	double *item, *run; /* run: half of size, to merge with */
};

static uint32_t room_of(const struct sketch_kll *s, uint32_t levels)
{
	uint32_t room = 0;

	for (uint32_t d = 0; d < levels; d++)
		room += s->cap[d];
	return room;
}

struct sketch_kll *sketch_kll_new(uint32_t k, uint64_t seed)
{
	struct sketch_kll *s;
	uint32_t size;

	if (k < SKETCH_KLL_K_MIN || k > SKETCH_KLL_K_MAX) {
		errno = EINVAL;
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->k = k;
	s->seed = seed;
	/* k (2/3)^depth in integers, rounded up: the same on every machine. */
	for (uint64_t d = 0, c = (uint64_t)k << 32; d < LEVELS; d++, c = c / 3 * 2) {
		s->cap[d] = (uint32_t)((c + UINT32_MAX) >> 32);
		s->cap[d] = s->cap[d] < LEAST ? LEAST : s->cap[d];
	}
	size = room_of(s, LEVELS);
	s->size = size;
	s->item = malloc((size + size / 2) * sizeof(double));
	if (!s->item) {
		free(s);
		errno = ENOMEM;
		return NULL;
	}
	s->run = s->item + size;
	sketch_kll_clear(s);
	return s;
}

void sketch_kll_free(struct sketch_kll *s)
{
	if (s)
		free(s->item);
	free(s);
}

void sketch_kll_clear(struct sketch_kll *s)
{
	s->levels = 1;
	s->room = room_of(s, 1);
	s->start[0] = s->start[1] = s->size;
	s->coins = s->count = 0;
	s->s = 0;
	s->min = INFINITY;
	s->max = -INFINITY;
}

static void sift(double *v, uint32_t n, uint32_t at)
{
	const double x = v[at];

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= n)
			break;
		if (child + 1 < n && v[child + 1] > v[child])
			child++;
		if (v[child] <= x)
			break;
		v[at] = v[child];
		at = child;
	}
	v[at] = x;
}

static void sort(double *v, uint32_t n)
{
	if (n <= 32) {
		for (uint32_t i = 1; i < n; i++) {
			const double x = v[i];
			uint32_t j = i;

			for (; j && v[j - 1] > x; j--)
				v[j] = v[j - 1];
			v[j] = x;
		}
		return;
	}
	for (uint32_t i = n / 2; i-- > 0;)
		sift(v, n, i);
	while (--n) {
		const double x = v[0];

		v[0] = v[n];
		v[n] = x;
		sift(v, n, 0);
	}
}

/* Two sorted runs that are neighbours, v[0..a) and v[a..n), become one; a fits into s->run. */
static void join(struct sketch_kll *s, double *v, uint32_t a, uint32_t n)
{
	uint32_t i = 0, j = a, to = 0;

	memcpy(s->run, v, a * sizeof(*v));
	while (i < a)
		v[to++] = j < n && v[j] < s->run[i] ? v[j++] : s->run[i++];
}

static void grow(struct sketch_kll *s)
{
	s->levels++;
	s->start[s->levels] = s->size;
	s->room = room_of(s, s->levels);
}

/* All room is taken, so one level is full at least. */
static void compact(struct sketch_kll *s)
{
	uint32_t h = 0, a, b, half, coin;

	while (s->start[h + 1] - s->start[h] < s->cap[s->levels - 1 - h])
		h++;
	if (h == s->levels - 1)
		grow(s);
	if (h == 0)
		sort(s->item + s->start[0], s->start[1] - s->start[0]);
	/* Of an odd number the least stays behind. */
	b = s->start[h + 1];
	half = (b - s->start[h]) / 2;
	a = b - 2 * half;
	coin = (uint32_t)(sketch_hash_nth(s->seed, s->coins++) >> 63);
	for (uint32_t i = half; i-- > 0;)
		s->item[b - half + i] = s->item[a + 2 * i + coin];
	join(s, s->item + b - half, half, s->start[h + 2] - (b - half));
	memmove(s->item + s->start[0] + half, s->item + s->start[0],
		(a - s->start[0]) * sizeof(double));
	s->start[h + 1] = b - half;
	for (uint32_t g = 0; g <= h; g++)
		s->start[g] += half;
	s->s += ldexp(1, (int)(2 * h));
}

int sketch_kll_add(struct sketch_kll *s, double x)
{
	if (isnan(x))
		return -EINVAL;
	if (s->count == COUNT_MAX)
		return -EOVERFLOW;
	if (s->size - s->start[0] == s->room)
		compact(s);
	s->item[--s->start[0]] = x;
	s->count++;
	s->min = x < s->min ? x : s->min;
	s->max = x > s->max ? x : s->max;
	return 0;
}

uint64_t sketch_kll_count(const struct sketch_kll *s)
{
	return s->count;
}

double sketch_kll_quantile(struct sketch_kll *s, double q)
{
	uint32_t head[LEVELS];
	uint64_t below = 0, rank;

	if (!s->count || !(q >= 0 && q <= 1))
		return NAN;
	if (q == 0)
		return s->min;
	if (q == 1)
		return s->max;
	rank = (uint64_t)(q * (double)(s->count - 1));
	sort(s->item + s->start[0], s->start[1] - s->start[0]);
	memcpy(head, s->start, s->levels * sizeof(*head));
	for (;;) {
		uint32_t least = LEVELS;

		for (uint32_t h = 0; h < s->levels; h++)
			if (head[h] < s->start[h + 1] &&
			    (least == LEVELS || s->item[head[h]] < s->item[head[least]]))
				least = h;
		if (least == LEVELS) /* rank was rounded up to count */
			return s->max;
		below += (uint64_t)1 << least;
		if (below > rank)
			return s->item[head[least]];
		head[least]++;
	}
}

double sketch_kll_rank(const struct sketch_kll *s, double x)
{
	uint64_t below = 0;

	for (uint32_t i = s->start[0]; i < s->start[1]; i++)
		below += s->item[i] < x;
	for (uint32_t h = 1; h < s->levels; h++) {
		uint32_t from = s->start[h], to = s->start[h + 1];

		while (from < to) {
			const uint32_t mid = from + (to - from) / 2;

			if (s->item[mid] < x)
				from = mid + 1;
			else
				to = mid;
		}
		below += (uint64_t)(from - s->start[h]) << h;
	}
	return (double)below;
}

double sketch_kll_error(const struct sketch_kll *s, double delta)
{
	return sqrt(2 * s->s * log(2 / delta));
}

/* n items of level h, sorted unless h is 0. */
static void insert(struct sketch_kll *s, uint32_t h, const double *item, uint32_t n)
{
	while (s->levels <= h)
		grow(s);
	while (n) {
		uint32_t some;

		while (s->size - s->start[0] == s->room)
			compact(s);
		some = s->room - (s->size - s->start[0]);
		some = some < n ? some : n;
		some = some < s->size / 2 ? some : s->size / 2;
		memmove(s->item + s->start[0] - some, s->item + s->start[0],
			(s->start[h] - s->start[0]) * sizeof(double));
		for (uint32_t g = 0; g <= h; g++)
			s->start[g] -= some;
		memcpy(s->item + s->start[h], item, some * sizeof(double));
		if (h)
			join(s, s->item + s->start[h], some, s->start[h + 1] - s->start[h]);
		item += some;
		n -= some;
	}
}

int sketch_kll_merge(struct sketch_kll *into, const struct sketch_kll *from)
{
	if (into == from || into->k != from->k)
		return -EINVAL;
	if (from->count > COUNT_MAX - into->count)
		return -EOVERFLOW;
	for (uint32_t h = 0; h < from->levels; h++)
		insert(into, h, from->item + from->start[h], from->start[h + 1] - from->start[h]);
	into->count += from->count;
	into->s += from->s;
	into->min = from->min < into->min ? from->min : into->min;
	into->max = from->max > into->max ? from->max : into->max;
	return 0;
}

size_t sketch_kll_save_bytes(const struct sketch_kll *s)
{
	return SKETCH_FRAME + 2 * 4 + 6 * 8 + s->levels * 4 + (size_t)(s->size - s->start[0]) * 8;
}

int64_t sketch_kll_save(const struct sketch_kll *s, void *buf, size_t bytes)
{
	struct sketch_wire w;
	int rc = sketch_wire_begin(&w, buf, bytes, sketch_kll_save_bytes(s), SKETCH_KLL);

	if (rc)
		return rc;
	sketch_put_u32(&w, s->k);
	sketch_put_u32(&w, s->levels);
	sketch_put_u64(&w, s->seed);
	sketch_put_u64(&w, s->coins);
	sketch_put_u64(&w, s->count);
	sketch_put_f64(&w, s->s);
	sketch_put_f64(&w, s->min);
	sketch_put_f64(&w, s->max);
	for (uint32_t h = 0; h < s->levels; h++)
		sketch_put_u32(&w, s->start[h + 1] - s->start[h]);
	for (uint32_t i = s->start[0]; i < s->size; i++)
		sketch_put_f64(&w, s->item[i]);
	return sketch_wire_end(&w, buf);
}

int sketch_kll_load(struct sketch_kll **out, const void *buf, size_t bytes)
{
	uint64_t weight = 0, items = 0;
	uint32_t k, levels;
	struct sketch_wire_in r;
	struct sketch_kll *s;
	int rc = sketch_wire_open(&r, buf, bytes, SKETCH_KLL);

	if (rc)
		return rc;
	k = sketch_take_u32(&r);
	levels = sketch_take_u32(&r);
	if (k < SKETCH_KLL_K_MIN || k > SKETCH_KLL_K_MAX || !levels || levels > LEVELS)
		return -EINVAL;
	s = sketch_kll_new(k, sketch_take_u64(&r));
	if (!s)
		return -errno;
	s->levels = levels;
	s->room = room_of(s, levels);
	s->coins = sketch_take_u64(&r);
	s->count = sketch_take_u64(&r);
	s->s = sketch_take_f64(&r);
	s->min = sketch_take_f64(&r);
	s->max = sketch_take_f64(&r);
	for (uint32_t h = 0; h < levels; h++) {
		const uint64_t n = sketch_take_u32(&r);

		s->start[h] = (uint32_t)n; /* for now */
		items += n;
		if (n > s->room || (n && n > COUNT_MAX >> h))
			goto refuse;
		weight += n << h;
		if (weight > COUNT_MAX)
			goto refuse;
	}
	if (weight != s->count || items > s->room || r.bad ||
	    (size_t)(r.end - r.at) != items * sizeof(double) || !(s->s >= 0 && s->s <= DBL_MAX))
		goto refuse;
	s->start[levels] = s->size;
	for (uint32_t h = levels; h-- > 0;)
		s->start[h] = s->start[h + 1] - s->start[h];
	for (uint32_t h = 0; h < levels; h++)
		for (uint32_t i = s->start[h]; i < s->start[h + 1]; i++) {
			const double x = s->item[i] = sketch_take_f64(&r);

			if (!(x >= s->min && x <= s->max) ||
			    (h && i > s->start[h] && x < s->item[i - 1]))
				goto refuse;
		}
	if (!s->count && (s->min != INFINITY || s->max != -INFINITY))
		goto refuse;
	*out = s;
	return 0;

refuse:
	sketch_kll_free(s);
	return -EINVAL;
}
