// SPDX-License-Identifier: Apache-2.0
/* codec.c - packs columns as bit streams of differences, or of XORs with the previous value */
#include <string.h>

#include "collect/read/codec.h"

/*
 * The first byte of a column: bits 0-6 are the width in bits of the packed values (0..64), or XOR;
 * bit 7: the values were doubles that are all whole numbers.
 */
enum {
	WHOLE = 0x80,
	XOR = 0x7f,
	DIFFERENCES = 0x00, /* plus the width in bits, 0..64 */
	/* The second byte of an integer column: the order of the packed differences. */
	FIRST_ORDER = 0,
	SECOND_ORDER = 1,
};

static inline uint64_t encode_zigzag(uint64_t v)
{
	return v << 1 ^ (0 - (v >> 63));
}

static inline uint64_t decode_zigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

static const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (unsigned int shift = 0; p < end && shift < 64; shift += 7) {
		*v |= (uint64_t)(*p & 0x7f) << shift;
		if (!(*p++ & 0x80))
			return p;
	}
	return NULL;
}

static inline unsigned int width_of(uint64_t v)
{
	return v ? 64 - (unsigned int)__builtin_clzll(v) : 0;
}

/* ---- bits, least significant first ---- */

struct codec_writer {
	uint8_t *p;
	uint64_t word;
	unsigned int used; /* bits in word, < 64 */
};

static inline void put_bits(struct codec_writer *w, uint64_t v, unsigned int n)
{
	w->word |= v << w->used;
	if (w->used + n >= 64) {
		memcpy(w->p, &w->word, 8);
		w->p += 8;
		/* A shift by 64 is undefined. */
		w->word = w->used ? v >> (64 - w->used) : 0;
		w->used = w->used + n - 64;
	} else {
		w->used += n;
	}
}

static uint8_t *finish_bits(struct codec_writer *w)
{
	for (; w->used; w->used = w->used > 8 ? w->used - 8 : 0, w->word >>= 8)
		*w->p++ = (uint8_t)w->word;
	return w->p;
}

struct codec_reader {
	const uint8_t *p, *end;
	uint64_t word;
	unsigned int left; /* bits left in word */
	bool over;
};

static inline void refill_word(struct codec_reader *r)
{
	size_t n = (size_t)(r->end - r->p);

	if (n >= 8) {
		memcpy(&r->word, r->p, 8);
		r->p += 8;
		r->left = 64;
		return;
	}
	r->word = 0;
	memcpy(&r->word, r->p, n);
	r->p += n;
	r->left = (unsigned int)n * 8;
}

static inline uint64_t get_bits(struct codec_reader *r, unsigned int n)
{
	uint64_t v, mask = n == 64 ? ~0ull : (1ull << n) - 1;
	unsigned int have = r->left;

	if (n <= have) {
		v = r->word & mask;
		r->word = n == 64 ? 0 : r->word >> n;
		r->left -= n;
		return v;
	}
	v = r->word;
	refill_word(r);
	n -= have;
	if (n > r->left) {
		r->over = true;
		r->left = 0;
		return 0;
	}
	if (have < 64)
		v |= r->word << have;
	r->word = n == 64 ? 0 : r->word >> n;
	r->left -= n;
	return v & mask;
}

/* ---- integers ---- */

static size_t pack_integers(uint8_t *out, const uint64_t *v, unsigned int n, uint8_t flags)
{
	uint64_t d[COLLECT_COLUMN_ROWS], dd[COLLECT_COLUMN_ROWS], any = 0, any2 = 0;
	int64_t low = INT64_MAX, high = INT64_MIN;
	unsigned int width, width2;
	struct codec_writer w;
	uint8_t *p = out + 2;

	/* Separate loops, so that the compiler can vectorize them. */
	for (unsigned int i = 1; i < n; i++)
		d[i] = v[i] - v[i - 1];
	for (unsigned int i = 1; i < n; i++)
		any |= d[i];
	p = put_varint(p, encode_zigzag(v[0]));
	if (!any) {
		out[0] = flags | DIFFERENCES;
		out[1] = FIRST_ORDER;
		*p++ = 0; /* the smallest difference */
		return (size_t)(p - out);
	}
	for (unsigned int i = 1; i < n; i++) {
		int64_t s = (int64_t)d[i];

		low = s < low ? s : low;
		high = s > high ? s : high;
	}
	for (unsigned int i = 2; i < n; i++) {
		dd[i] = encode_zigzag(d[i] - d[i - 1]);
		any2 |= dd[i];
	}
	width = width_of((uint64_t)high - (uint64_t)low);
	width2 = width_of(any2);
	if (width2 < width) {
		out[0] = flags | (uint8_t)width2;
		out[1] = SECOND_ORDER;
		p = put_varint(p, encode_zigzag(d[1]));
		w = (struct codec_writer){.p = p};
		if (width2)
			for (unsigned int i = 2; i < n; i++)
				put_bits(&w, dd[i], width2);
	} else {
		out[0] = flags | (uint8_t)width;
		out[1] = FIRST_ORDER;
		p = put_varint(p, encode_zigzag((uint64_t)low));
		w = (struct codec_writer){.p = p};
		if (width)
			for (unsigned int i = 1; i < n; i++)
				put_bits(&w, d[i] - (uint64_t)low, width);
	}
	return (size_t)(finish_bits(&w) - out);
}

static bool unpack_integers(uint64_t *v, unsigned int n, unsigned int width, const uint8_t *p,
			    const uint8_t *end)
{
	struct codec_reader r;
	uint64_t base, d;
	uint8_t order;

	if (p == end)
		return false;
	order = *p++;
	p = get_varint(p, end, &base);
	if (p)
		p = get_varint(p, end, &d);
	if (!p || width > 64 || order > SECOND_ORDER)
		return false;
	r = (struct codec_reader){.p = p, .end = end};
	d = decode_zigzag(d);
	v[0] = decode_zigzag(base);
	if (order == FIRST_ORDER) {
		for (unsigned int i = 1; i < n; i++)
			v[i] = v[i - 1] + d + (width ? get_bits(&r, width) : 0);
	} else {
		if (n > 1)
			v[1] = v[0] + d;
		for (unsigned int i = 2; i < n; i++) {
			d += decode_zigzag(width ? get_bits(&r, width) : 0);
			v[i] = v[i - 1] + d;
		}
	}
	return !r.over;
}

/* ---- doubles ---- */

/* Returns true if all doubles in v[] are whole numbers, and stores them in whole[]. */
static bool all_whole(uint64_t *whole, const uint64_t *v, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		double d, back;
		int64_t k;

		memcpy(&d, &v[i], 8);
		/*
		 * Beyond 2^53 not every whole number is a double. The comparison is false for NaN.
		 */
		if (!(d >= -0x1p53 && d <= 0x1p53))
			return false;
		k = (int64_t)d;
		back = (double)k;
		if (memcmp(&back, &v[i], 8)) /* v[i] is not a whole number, or is -0.0 */
			return false;
		whole[i] = (uint64_t)k;
	}
	return true;
}

static size_t pack_xor(uint8_t *out, const uint64_t *v, unsigned int n)
{
	struct codec_writer w = {.p = out + 1};
	/* window in use, as leading and trailing zero bits; lead 65: no window yet */
	unsigned int lead = 65, trail = 0;

	out[0] = XOR;
	put_bits(&w, v[0], 64);
	for (unsigned int i = 1; i < n; i++) {
		uint64_t x = v[i] ^ v[i - 1];
		unsigned int l, t, length;

		if (!x) {
			put_bits(&w, 0, 1);
			continue;
		}
		l = (unsigned int)__builtin_clzll(x);
		t = (unsigned int)__builtin_ctzll(x);
		if (l >= lead && t >= trail) {
			put_bits(&w, 1, 2); /* bits 1, 0: same window as before */
			put_bits(&w, x >> trail, 64 - lead - trail);
			continue;
		}
		lead = l > 31 ? 31 : l; /* lead is five bits, as in the paper */
		trail = t;
		length = 64 - lead - trail;
		put_bits(&w, 3, 2);
		put_bits(&w, lead, 5);
		put_bits(&w, length - 1, 6);
		put_bits(&w, x >> trail, length);
	}
	return (size_t)(finish_bits(&w) - out);
}

static bool unpack_xor(uint64_t *v, unsigned int n, const uint8_t *p, const uint8_t *end)
{
	struct codec_reader r = {.p = p, .end = end};
	unsigned int length = 0, trail = 0;

	v[0] = get_bits(&r, 64);
	for (unsigned int i = 1; i < n; i++) {
		if (!get_bits(&r, 1)) {
			v[i] = v[i - 1];
			continue;
		}
		if (get_bits(&r, 1)) {
			unsigned int lead = (unsigned int)get_bits(&r, 5);

			length = (unsigned int)get_bits(&r, 6) + 1;
			if (lead + length > 64)
				return false;
			trail = 64 - lead - length;
		}
		if (!length)
			return false;
		v[i] = v[i - 1] ^ get_bits(&r, length) << trail;
	}
	return !r.over;
}

/* ---- either ---- */

size_t collect_column_pack(uint8_t *out, const uint64_t *v, unsigned int n, bool f64)
{
	uint64_t whole[COLLECT_COLUMN_ROWS];

	if (!f64)
		return pack_integers(out, v, n, 0);
	if (all_whole(whole, v, n))
		return pack_integers(out, whole, n, WHOLE);
	return pack_xor(out, v, n);
}

bool collect_column_unpack(uint64_t *v, unsigned int n, const uint8_t *in, size_t bytes)
{
	const uint8_t *end = in + bytes;

	if (!bytes || !n || n > COLLECT_COLUMN_ROWS)
		return false;
	if (in[0] == XOR)
		return unpack_xor(v, n, in + 1, end);
	if (!unpack_integers(v, n, in[0] & ~WHOLE, in + 1, end))
		return false;
	if (in[0] & WHOLE)
		for (unsigned int i = 0; i < n; i++) {
			double d = (double)(int64_t)v[i];

			memcpy(&v[i], &d, 8);
		}
	return true;
}
