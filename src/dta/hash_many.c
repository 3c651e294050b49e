// SPDX-License-Identifier: Apache-2.0
/*
 * hash_many.c - XXH3 (its specification: doc/xxhash_spec.md of xxHash) over eight short keys at a time. Each has its
 * own seed where a check word is made, so that nothing but the lanes of a vector can be shared.
 */
#include "dta/hash_many.h"

#include <stdbool.h>
#include <string.h>

/* ---- one by one ------------------------------------------------------------------------------------ */

static inline __attribute__((always_inline)) void hash_each(const uint8_t *key, size_t key_bytes,
							    size_t step, uint64_t seed,
							    uint32_t count,
							    struct sl_dta_hashes *out)
{
	for (uint32_t i = 0; i < count; i++, key += step) {
		struct sl_dta_hash h = sl_dta_hash(key, key_bytes, seed);

		out->lo[i] = h.lo;
		out->hi[i] = h.hi;
	}
}

/* With lengths that are common as constants; 5-tuples are 13 bytes with IPv4, 37 with IPv6. */
static void hash_some(const uint8_t *key, size_t key_bytes, size_t step, uint64_t seed,
		      uint32_t count, struct sl_dta_hashes *out)
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

static void slot_some(const struct sl_dta_hashes *h, uint32_t n, uint64_t slots, uint32_t count,
		      uint64_t *slot)
{
	for (uint32_t i = 0; i < count; i++)
		slot[i] = sl_dta_slot(sl_dta_hash_of(h, i), n, slots);
}

static inline __attribute__((always_inline)) void check_each(const struct sl_dta_hashes *h,
							     const uint8_t *value, size_t bytes,
							     size_t step, uint32_t count,
							     uint64_t *check)
{
	for (uint32_t i = 0; i < count; i++, value += step)
		check[i] = sl_dta_check(sl_dta_hash_of(h, i), value, bytes);
}

static void check_some(const struct sl_dta_hashes *h, const uint8_t *value, size_t bytes,
		       size_t step, uint32_t count, uint64_t *check)
{
	if (bytes == 8)
		check_each(h, value, 8, step, count, check);
	else
		check_each(h, value, bytes, step, count, check);
}

/* ---- eight at a time ------------------------------------------------------------------------------- */

#ifdef __x86_64__
#include <immintrin.h>

#define WIDE	  __attribute__((target("avx512f,avx512dq,avx512bw")))
#define WIDE_PART static inline __attribute__((target("avx512f,avx512dq,avx512bw"), always_inline))
#define LANES	  8u

#define XXH3_MX1  0x165667919e3779f9ull
#define XXH3_MX2  0x9fb21c651e98df25ull

static bool wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512bw");
}

static uint64_t secret(size_t at)
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

WIDE_PART __m512i xor (__m512i a, __m512i b) { return _mm512_xor_si512(a, b); }

	WIDE_PART __m512i mul(__m512i a, __m512i b)
{
	return _mm512_mullo_epi64(a, b);
}

/* The upper halves of the products, of four products of 32 bits each. */
WIDE_PART __m512i mul_high(__m512i a, __m512i b)
{
	__m512i ah = _mm512_srli_epi64(a, 32), bh = _mm512_srli_epi64(b, 32);
	__m512i ll = _mm512_mul_epu32(a, b), lh = _mm512_mul_epu32(a, bh);
	__m512i hl = _mm512_mul_epu32(ah, b), hh = _mm512_mul_epu32(ah, bh);
	__m512i t = add(hl, _mm512_srli_epi64(ll, 32));
	__m512i u = add(lh, _mm512_and_si512(t, all(0xffffffff)));

	return add(hh, add(_mm512_srli_epi64(t, 32), _mm512_srli_epi64(u, 32)));
}

#define SHIFT_XOR(x, n) xor(x, _mm512_srli_epi64(x, n))

WIDE_PART __m512i avalanche(__m512i h)
{
	h = mul(SHIFT_XOR(h, 37), all(XXH3_MX1));
	return SHIFT_XOR(h, 32);
}

WIDE_PART __m512i mix(__m512i x) /* sl_dta_mix() */
{
	x = mul(SHIFT_XOR(x, 30), all(0xbf58476d1ce4e5b9ull));
	x = mul(SHIFT_XOR(x, 27), all(0x94d049bb133111ebull));
	return SHIFT_XOR(x, 31);
}

/* Bytes of each word in opposite order. */
WIDE_PART __m512i swap(__m512i x)
{
	const __m512i order = _mm512_broadcast_i32x4(
		_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));

	return _mm512_shuffle_epi8(x, order);
}

/*
 * Words of up to eight keys, from register to register. Not by way of an array: a vector that is read where words were
 * just written waits until they are in the cache, behind all writes to slots that are under way. Nor by a gather, which
 * takes twice as long.
 */
static inline __attribute__((always_inline)) long long word(const uint8_t *at)
{
	long long v;

	memcpy(&v, at, 8);
	return v;
}

/* Of 4 to 8 bytes: the first four are the lower half of the word, the last four the upper one. */
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

/* By halves: a word of 512 bits that is read one by one soon after waits for the cache. */
WIDE_PART void save(uint64_t *to, __m512i x)
{
	_mm256_storeu_si256((void *)to, _mm512_castsi512_si256(x));
	_mm256_storeu_si256((void *)(to + 4), _mm512_extracti64x4_epi64(x, 1));
}

/* "XXH3 algorithm, small inputs": 4 to 8 bytes. */
WIDE static void hash_to_8(const uint8_t *key, size_t bytes, size_t step, uint64_t seed,
			   uint32_t count, struct sl_dta_hashes *out)
{
	const uint64_t flip = (secret(16) ^ secret(24)) +
			      (seed ^ (uint64_t)__builtin_bswap32((uint32_t)seed) << 32);
	const __m512i by = all(XXH_PRIME64_1 + (bytes << 2));

	for (uint32_t i = 0; i < count; i += LANES, key += LANES * step) {
		__m512i keyed = xor(word_ends(key, bytes, step, count - i), all(flip));
		__m512i lo = mul(keyed, by), hi = mul_high(keyed, by);

		hi = add(hi, _mm512_slli_epi64(lo, 1));
		lo = xor(lo, _mm512_srli_epi64(hi, 3));
		lo = mul(SHIFT_XOR(lo, 35), all(XXH3_MX2));
		_mm512_storeu_si512(out->lo + i, SHIFT_XOR(lo, 28));
		_mm512_storeu_si512(out->hi + i, avalanche(hi));
	}
}

/* 9 to 16 bytes. */
WIDE static void hash_to_16(const uint8_t *key, size_t bytes, size_t step, uint64_t seed,
			    uint32_t count, struct sl_dta_hashes *out)
{
	const __m512i flip_lo = all((secret(32) ^ secret(40)) - seed);
	const __m512i flip_hi = all((secret(48) ^ secret(56)) + seed);

	for (uint32_t i = 0; i < count; i += LANES, key += LANES * step) {
		__m512i a = words(key, step, count - i);
		__m512i b = words(key + bytes - 8, step, count - i), lo, hi, x;

		x = xor(xor(a, b), flip_lo);
		lo = add(mul(x, all(XXH_PRIME64_1)), all((uint64_t)(bytes - 1) << 54));
		hi = mul_high(x, all(XXH_PRIME64_1));
		b = xor(b, flip_hi);
		hi = add(hi, add(b, _mm512_mul_epu32(b, all(XXH_PRIME32_2 - 1))));
		lo = xor(lo, swap(hi));
		x = add(mul_high(lo, all(XXH_PRIME64_2)), mul(hi, all(XXH_PRIME64_2)));
		_mm512_storeu_si512(out->lo + i, avalanche(mul(lo, all(XXH_PRIME64_2))));
		_mm512_storeu_si512(out->hi + i, avalanche(x));
	}
}

WIDE static void slot_wide(const struct sl_dta_hashes *h, uint32_t n, uint64_t slots,
			   uint32_t count, uint64_t *slot)
{
	for (uint32_t i = 0; i < count; i += LANES) {
		__m512i x = load(h->lo + i);

		if (n)
			x = add(x, mul(all(n), _mm512_or_si512(load(h->hi + i), all(1))));
		save(slot + i, mul_high(mix(x), all(slots)));
	}
}

/* Of 4 to 8 bytes: XXH3_64 with the lane's seed. */
WIDE static void check_to_8(const struct sl_dta_hashes *h, const uint8_t *value, size_t bytes,
			    size_t step, uint32_t count, uint64_t *check)
{
	const __m512i flip = all(secret(8) ^ secret(16)), one = all(1), length = all(bytes);

	for (uint32_t i = 0; i < count; i += LANES, value += LANES * step) {
		__m512i seed = xor(mix(add(load(h->hi + i), all(SL_LINE_K4))), load(h->lo + i));
		__m512i x;

		/* The seed's lower half, bytes swapped, onto its upper half. */
		seed = xor(seed, _mm512_and_si512(swap(seed), all(0xffffffff00000000ull)));
		/* The last four bytes are the lower half of the word. */
		x = _mm512_rol_epi64(word_ends(value, bytes, step, count - i), 32);
		x = xor(x, _mm512_sub_epi64(flip, seed));
		x = xor(x, xor(_mm512_rol_epi64(x, 49), _mm512_rol_epi64(x, 24)));
		x = mul(x, all(XXH3_MX2));
		x = xor(x, add(_mm512_srli_epi64(x, 35), length));
		x = mul(x, all(XXH3_MX2));
		x = SHIFT_XOR(x, 28);
		/* Never 0. */
		x = _mm512_mask_mov_epi64(x, _mm512_testn_epi64_mask(x, x), one);
		save(check + i, x);
	}
}

#else

#define wide()	   false
#define hash_to_8  hash_some
#define hash_to_16 hash_some
#define slot_wide  slot_some
#define check_to_8 check_some

#endif

/* ---------------------------------------------------------------------------------------------------- */

void sl_dta_hash_many(const uint8_t *keys, size_t key_bytes, size_t step, uint64_t seed,
		      uint32_t count, struct sl_dta_hashes *out)
{
	if (key_bytes <= 8 && wide())
		hash_to_8(keys, key_bytes, step, seed, count, out);
	else if (key_bytes <= 16 && wide())
		hash_to_16(keys, key_bytes, step, seed, count, out);
	else
		hash_some(keys, key_bytes, step, seed, count, out);
}

void sl_dta_slot_many(const struct sl_dta_hashes *h, uint32_t n, uint64_t slots, uint32_t count,
		      uint64_t slot[SL_DTA_MANY])
{
	if (wide())
		slot_wide(h, n, slots, count, slot);
	else
		slot_some(h, n, slots, count, slot);
}

void sl_dta_check_many(const struct sl_dta_hashes *h, const uint8_t *values, size_t value_bytes,
		       size_t step, uint32_t count, uint64_t check[SL_DTA_MANY])
{
	if (value_bytes <= 8 && wide())
		check_to_8(h, values, value_bytes, step, count, check);
	else
		check_some(h, values, value_bytes, step, count, check);
}
