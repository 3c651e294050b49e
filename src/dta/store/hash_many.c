// SPDX-License-Identifier: Apache-2.0
/*
 * hash_many.c - XXH3 (doc/xxhash_spec.md in xxHash) over eight short keys at a time. Each key's
 * check word has its own seed, so different keys can share only the vector instructions.
 */
#include "dta/store/hash_many.h"

#include <stdbool.h>
#include <string.h>

/* ---- one key at a time ---- */

static inline __attribute__((always_inline)) void hash_each(const uint8_t *key, size_t key_bytes,
							    size_t step, uint64_t seed,
							    uint32_t count, struct dta_hashes *out)
{
	for (uint32_t i = 0; i < count; i++, key += step) {
		struct dta_hash h = dta_hash(key, key_bytes, seed);

		out->lo[i] = h.lo;
		out->hi[i] = h.hi;
	}
}

/* Specialised for common lengths; 5-tuples have 13 bytes with IPv4 and 37 with IPv6. */
static void hash_some(const uint8_t *key, size_t key_bytes, size_t step, uint64_t seed,
		      uint32_t count, struct dta_hashes *out)
{
	switch (key_bytes) {
#define CASE(n)                                            \
	case n:                                            \
		hash_each(key, n, step, seed, count, out); \
		return;
		CASE(8)
		CASE(13)
		CASE(16)
		CASE(37)
	}
	hash_each(key, key_bytes, step, seed, count, out);
}

static void slot_some(const struct dta_hashes *h, uint32_t n, uint64_t slots, uint32_t count,
		      uint64_t *slot)
{
	for (uint32_t i = 0; i < count; i++)
		slot[i] = dta_slot(dta_hash_of(h, i), n, slots);
}

static inline __attribute__((always_inline)) void check_each(const struct dta_hashes *h,
							     const uint8_t *value, size_t bytes,
							     size_t step, uint32_t count,
							     uint64_t *check)
{
	for (uint32_t i = 0; i < count; i++, value += step)
		check[i] = dta_check(dta_hash_of(h, i), value, bytes);
}

static void check_some(const struct dta_hashes *h, const uint8_t *value, size_t bytes, size_t step,
		       uint32_t count, uint64_t *check)
{
	if (bytes == 8)
		check_each(h, value, 8, step, count, check);
	else
		check_each(h, value, bytes, step, count, check);
}

/* ---- eight keys at a time ---- */

#ifdef __x86_64__
#include <immintrin.h>

#define WIDE	  __attribute__((target("avx512f,avx512dq,avx512bw")))
#define WIDE_PART static inline __attribute__((target("avx512f,avx512dq,avx512bw"), always_inline))
#define LANES	  8u

#define XXH3_MX1  0x165667919e3779f9ull
#define XXH3_MX2  0x9fb21c651e98df25ull

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512bw");
}

static uint64_t secret_at(size_t at)
{
	uint64_t v;

	memcpy(&v, XXH3_kSecret + at, 8);
	return v;
}

WIDE_PART __m512i all(uint64_t v)
{
	return _mm512_set1_epi64((long long)v);
}

WIDE_PART __m512i load(const uint64_t *p)
{
	return _mm512_loadu_si512(p);
}

WIDE_PART __m512i add(__m512i a, __m512i b)
{
	return _mm512_add_epi64(a, b);
}

WIDE_PART __m512i vxor(__m512i a, __m512i b)
{
	return _mm512_xor_si512(a, b);
}

WIDE_PART __m512i mul(__m512i a, __m512i b)
{
	return _mm512_mullo_epi64(a, b);
}

/* Returns the upper halves of the 128-bit products, each composed of four 32-bit products. */
WIDE_PART __m512i mul_high(__m512i a, __m512i b)
{
	__m512i ah = _mm512_srli_epi64(a, 32), bh = _mm512_srli_epi64(b, 32);
	__m512i ll = _mm512_mul_epu32(a, b), lh = _mm512_mul_epu32(a, bh);
	__m512i hl = _mm512_mul_epu32(ah, b), hh = _mm512_mul_epu32(ah, bh);
	__m512i t = add(hl, _mm512_srli_epi64(ll, 32));
	__m512i u = add(lh, _mm512_and_si512(t, all(0xffffffff)));

	return add(hh, add(_mm512_srli_epi64(t, 32), _mm512_srli_epi64(u, 32)));
}

#define SHIFT_XOR(x, n) vxor(x, _mm512_srli_epi64(x, n))

WIDE_PART __m512i avalanche(__m512i h)
{
	h = mul(SHIFT_XOR(h, 37), all(XXH3_MX1));
	return SHIFT_XOR(h, 32);
}

WIDE_PART __m512i mix(__m512i x) /* same as dta_mix() */
{
	x = mul(SHIFT_XOR(x, 30), all(0xbf58476d1ce4e5b9ull));
	x = mul(SHIFT_XOR(x, 27), all(0x94d049bb133111ebull));
	return SHIFT_XOR(x, 31);
}

/* Reverses the bytes of each word. */
WIDE_PART __m512i swap(__m512i x)
{
	const __m512i order = _mm512_broadcast_i32x4(
		_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));

	return _mm512_shuffle_epi8(x, order);
}

/*
 * Loads words of up to eight keys through scalar registers. A vector load from an array that was
 * just written would stall until the writes reach the cache, behind all outstanding writes to
 * slots. A gather takes twice as long.
 */
static inline __attribute__((always_inline)) long long word(const uint8_t *at)
{
	long long v;

	memcpy(&v, at, 8);
	return v;
}

/*
 * Loads 4 to 8 bytes: the first four into the lower half of the word, the last four into the upper
 * half.
 */
static inline __attribute__((always_inline)) long long ends(const uint8_t *at, size_t bytes)
{
	uint32_t first, last;

	memcpy(&first, at, 4);
	memcpy(&last, at + bytes - 4, 4);
	return (long long)(first | (uint64_t)last << 32);
}

#define LANE(i) (from + (count > (i) ? (i)*step : 0))
#define EACH(f) _mm512_set_epi64(f(7), f(6), f(5), f(4), f(3), f(2), f(1), f(0))

WIDE_PART __m512i words(const uint8_t *from, size_t step, uint32_t count)
{
#define WORD(i) word(LANE(i))
	return EACH(WORD);
}

WIDE_PART __m512i word_ends(const uint8_t *from, size_t bytes, size_t step, uint32_t count)
{
#define ENDS(i) ends(LANE(i), bytes)
	return bytes == 8 ? words(from, step, count) : EACH(ENDS);
}

/*
 * Stores two halves, because a 512-bit store can't be forwarded to the scalar loads that follow
 * soon after.
 */
WIDE_PART void save(uint64_t *to, __m512i x)
{
	_mm256_storeu_si256((void *)to, _mm512_castsi512_si256(x));
	_mm256_storeu_si256((void *)(to + 4), _mm512_extracti64x4_epi64(x, 1));
}

/* The hashes of eight keys. */
struct hashes {
	__m512i lo, hi;
};

/* Hashes keys of 4 to 8 bytes ("XXH3 algorithm, small inputs"). */
WIDE_PART struct hashes hash_to_8(const uint8_t *key, size_t bytes, size_t step, uint64_t seed,
				  uint32_t count)
{
	const uint64_t flip = (secret_at(16) ^ secret_at(24)) +
			      (seed ^ (uint64_t)__builtin_bswap32((uint32_t)seed) << 32);
	__m512i keyed = vxor(word_ends(key, bytes, step, count), all(flip));
	__m512i by = all(XXH_PRIME64_1 + (bytes << 2));
	__m512i lo = mul(keyed, by), hi = mul_high(keyed, by);

	hi = add(hi, _mm512_slli_epi64(lo, 1));
	lo = vxor(lo, _mm512_srli_epi64(hi, 3));
	lo = mul(SHIFT_XOR(lo, 35), all(XXH3_MX2));
	return (struct hashes){SHIFT_XOR(lo, 28), avalanche(hi)};
}

/* Hashes keys of 9 to 16 bytes. */
WIDE_PART struct hashes hash_to_16(const uint8_t *key, size_t bytes, size_t step, uint64_t seed,
				   uint32_t count)
{
	const __m512i flip_lo = all((secret_at(32) ^ secret_at(40)) - seed);
	const __m512i flip_hi = all((secret_at(48) ^ secret_at(56)) + seed);
	__m512i a = words(key, step, count);
	__m512i b = words(key + bytes - 8, step, count), lo, hi, x;

	x = vxor(vxor(a, b), flip_lo);
	lo = add(mul(x, all(XXH_PRIME64_1)), all((uint64_t)(bytes - 1) << 54));
	hi = mul_high(x, all(XXH_PRIME64_1));
	b = vxor(b, flip_hi);
	hi = add(hi, add(b, _mm512_mul_epu32(b, all(XXH_PRIME32_2 - 1))));
	lo = vxor(lo, swap(hi));
	x = add(mul_high(lo, all(XXH_PRIME64_2)), mul(hi, all(XXH_PRIME64_2)));
	return (struct hashes){avalanche(mul(lo, all(XXH_PRIME64_2))), avalanche(x)};
}

WIDE_PART struct hashes hash_eight(const uint8_t *key, size_t bytes, size_t step, uint64_t seed,
				   uint32_t count)
{
	return bytes <= 8 ? hash_to_8(key, bytes, step, seed, count)
			  : hash_to_16(key, bytes, step, seed, count);
}

WIDE_PART __m512i slot_eight(struct hashes h, uint32_t n, uint64_t slots)
{
	if (n)
		h.lo = add(h.lo, mul(all(n), _mm512_or_si512(h.hi, all(1))));
	return mul_high(mix(h.lo), all(slots));
}

/* XXH3_64 with one seed per lane, for values of 4 to 8 bytes loaded by word_ends(). */
WIDE_PART __m512i check_eight(struct hashes h, __m512i value_ends, size_t bytes)
{
	const __m512i flip = all(secret_at(8) ^ secret_at(16));
	__m512i seed = vxor(mix(add(h.hi, all(SL_LINE_K4))), h.lo), x;

	/* Xor the byte-swapped lower half of the seed into its upper half. */
	seed = vxor(seed, _mm512_and_si512(swap(seed), all(0xffffffff00000000ull)));
	/* Rotate, because XXH3 has the last four bytes in the lower half of the word. */
	x = _mm512_rol_epi64(value_ends, 32);
	x = vxor(x, _mm512_sub_epi64(flip, seed));
	x = vxor(x, vxor(_mm512_rol_epi64(x, 49), _mm512_rol_epi64(x, 24)));
	x = mul(x, all(XXH3_MX2));
	x = vxor(x, add(_mm512_srli_epi64(x, 35), all(bytes)));
	x = mul(x, all(XXH3_MX2));
	x = SHIFT_XOR(x, 28);
	/* A check word is never 0. */
	return _mm512_mask_mov_epi64(x, _mm512_testn_epi64_mask(x, x), all(1));
}

WIDE static void hash_wide(const uint8_t *key, size_t bytes, size_t step, uint64_t seed,
			   uint32_t count, struct dta_hashes *out)
{
	for (uint32_t i = 0; i < count; i += LANES, key += LANES * step) {
		struct hashes h = hash_eight(key, bytes, step, seed, count - i);

		save(out->lo + i, h.lo);
		save(out->hi + i, h.hi);
	}
}

WIDE static void slot_wide(const struct dta_hashes *h, uint32_t n, uint64_t slots, uint32_t count,
			   uint64_t *slot)
{
	for (uint32_t i = 0; i < count; i += LANES)
		save(slot + i,
		     slot_eight((struct hashes){load(h->lo + i), load(h->hi + i)}, n, slots));
}

WIDE static void check_wide(const struct dta_hashes *h, const uint8_t *value, size_t bytes,
			    size_t step, uint32_t count, uint64_t *check)
{
	for (uint32_t i = 0; i < count; i += LANES, value += LANES * step)
		save(check + i, check_eight((struct hashes){load(h->lo + i), load(h->hi + i)},
					    word_ends(value, bytes, step, count - i), bytes));
}

/* ---- slots of 16 bytes, written from registers to memory ---- */

#define PAIR_OF(x, i) _mm512_extracti64x2_epi64(x, (i) / 2)
#define WORD_OF(x, i) (uint64_t) _mm_extract_epi64(PAIR_OF(x, i), (i) % 2)
#define ALL_EIGHT(f)  f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)

WIDE_PART void put_wide(uint8_t *bank, const struct dta_shape *s, const uint8_t *items,
			size_t key_bytes, uint32_t copies, uint32_t count)
{
	const size_t value_bytes = s->value_bytes, step = key_bytes + value_bytes;
	const uint8_t *item = items;

	for (uint32_t i = 0; i < count; i += LANES, item += LANES * step) {
		struct hashes h = hash_eight(item, key_bytes, step, s->seed, count - i);
		__m512i a = slot_eight(h, 0, s->slots);
		__m512i b = copies > 1 ? slot_eight(h, 1, s->slots) : a;

#define PREFETCH(i)                                          \
	__builtin_prefetch(bank + WORD_OF(a, i) * 16, 0, 2); \
	if (copies > 1)                                      \
		__builtin_prefetch(bank + WORD_OF(b, i) * 16, 0, 2);
		ALL_EIGHT(PREFETCH)
	}
	item = items;
	for (uint32_t i = 0; i < count; i += LANES, item += LANES * step) {
		const uint32_t left = count - i;
		struct hashes h = hash_eight(item, key_bytes, step, s->seed, left);
		__m512i a = slot_eight(h, 0, s->slots);
		__m512i b = copies > 1 ? slot_eight(h, 1, s->slots) : a;
		__m512i value = word_ends(item + key_bytes, value_bytes, step, left);
		__m512i check = check_eight(h, value, value_bytes), even, odd;

		/* Move the last four bytes to their place in the value. */
		if (value_bytes < 8)
			value = _mm512_or_si512(
				_mm512_and_si512(value, all(0xffffffff)),
				_mm512_sll_epi64(
					_mm512_srli_epi64(value, 32),
					_mm_cvtsi64_si128((long long)value_bytes * 8 - 32)));
		even = _mm512_unpacklo_epi64(check, value);
		odd = _mm512_unpackhi_epi64(check, value);
/* Write in order, so that the last report of a key wins. */
#define PUT(i)                                                                       \
	if (left > (i)) {                                                            \
		__m128i pair = (i) % 2 ? PAIR_OF(odd, i) : PAIR_OF(even, i);         \
                                                                                     \
		_mm_storeu_si128((void *)(bank + WORD_OF(a, i) * 16), pair);         \
		if (copies > 1)                                                      \
			_mm_storeu_si128((void *)(bank + WORD_OF(b, i) * 16), pair); \
	}
		ALL_EIGHT(PUT)
	}
}

/* Specialised for common shapes. */
WIDE static void put_some(uint8_t *bank, const struct dta_shape *s, const uint8_t *items,
			  uint32_t count)
{
	struct dta_shape eight = *s;

	eight.value_bytes = 8;
	if (s->copies == 1 && s->value_bytes == 8 && s->key_bytes == 8)
		put_wide(bank, &eight, items, 8, 1, count);
	else if (s->copies == 2 && s->value_bytes == 8 && s->key_bytes == 8)
		put_wide(bank, &eight, items, 8, 2, count);
	else if (s->copies == 1)
		put_wide(bank, s, items, s->key_bytes, 1, count);
	else
		put_wide(bank, s, items, s->key_bytes, 2, count);
}

#else

/*
 * NEON has no multiplication of 64-bit lanes. Two products take six vector instructions, while
 * scalar code needs one instruction per half product, so hashing one key at a time is fastest.
 */
#define has_avx512()			    false
#define hash_wide			    hash_some
#define slot_wide			    slot_some
#define check_wide			    check_some
#define put_some(bank, shape, items, count) ((void)(bank), (void)(items), (void)(count))

#endif

void dta_hash_many(const uint8_t *keys, size_t key_bytes, size_t step, uint64_t seed,
		   uint32_t count, struct dta_hashes *out)
{
	if (key_bytes <= 16 && has_avx512())
		hash_wide(keys, key_bytes, step, seed, count, out);
	else
		hash_some(keys, key_bytes, step, seed, count, out);
}

void dta_slot_many(const struct dta_hashes *h, uint32_t n, uint64_t slots, uint32_t count,
		   uint64_t slot[DTA_MANY])
{
	if (has_avx512())
		slot_wide(h, n, slots, count, slot);
	else
		slot_some(h, n, slots, count, slot);
}

void dta_check_many(const struct dta_hashes *h, const uint8_t *values, size_t value_bytes,
		    size_t step, uint32_t count, uint64_t check[DTA_MANY])
{
	if (value_bytes <= 8 && has_avx512())
		check_wide(h, values, value_bytes, step, count, check);
	else
		check_some(h, values, value_bytes, step, count, check);
}

bool dta_put_many(uint8_t *bank, const struct dta_shape *shape, const uint8_t *items,
		  uint32_t count)
{
	if (shape->key_bytes > 16 || shape->value_bytes > 8 || shape->copies > 2 || !has_avx512())
		return false;
	put_some(bank, shape, items, count);
	return true;
}
