// SPDX-License-Identifier: Apache-2.0
#include "export/xor_chunk.h"

#include <string.h>

#include "export/pb.h"

struct xor_bits { /* a bit stream, most significant bit first */
	uint8_t *at;
	unsigned int free; /* free bits in *at: 1 to 8 */
};

static void put_bits(struct xor_bits *b, uint64_t v, unsigned int n)
{
	while (n) {
		const unsigned int k = n < b->free ? n : b->free;

		n -= k;
		b->free -= k;
		*b->at |= (uint8_t)((v >> n & ((1u << k) - 1)) << b->free);
		if (!b->free) {
			*++b->at = 0;
			b->free = 8;
		}
	}
}

static void put_varint(struct xor_bits *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		put_bits(b, (v & 0x7f) | 0x80, 8);
	put_bits(b, v, 8);
}

/* Writes a difference between time differences. A prefix states its number of bits. */
static void put_time(struct xor_bits *b, int64_t dod)
{
	static const struct {
		uint8_t prefix, prefix_bits, bits;
	} form[] = {{2, 2, 14}, {6, 3, 17}, {14, 4, 20}};

	if (!dod) {
		put_bits(b, 0, 1);
		return;
	}
	for (size_t i = 0; i < sizeof(form) / sizeof(*form); i++) {
		const int64_t half = INT64_C(1) << (form[i].bits - 1);

		if (dod > -half && dod <= half) {
			put_bits(b, form[i].prefix, form[i].prefix_bits);
			put_bits(b, (uint64_t)dod, form[i].bits);
			return;
		}
	}
	put_bits(b, 15, 4);
	put_bits(b, (uint64_t)dod, 64);
}

struct xor_window {		    /* the range of bits that differ from the previous value */
	unsigned int leading, bits; /* bits == 0 means no window yet */
};

static void put_value(struct xor_bits *b, uint64_t differ, struct xor_window *w)
{
	unsigned int leading, trailing;

	if (!differ) {
		put_bits(b, 0, 1);
		return;
	}
	leading = (unsigned int)__builtin_clzll(differ);
	trailing = (unsigned int)__builtin_ctzll(differ);
	if (leading > 31)
		leading = 31; /* the field has five bits */
	put_bits(b, 1, 1);
	if (w->bits && leading >= w->leading && trailing >= 64 - w->leading - w->bits) {
		put_bits(b, 0, 1);
		put_bits(b, differ >> (64 - w->leading - w->bits), w->bits);
		return;
	}
	*w = (struct xor_window){leading, 64 - leading - trailing};
	put_bits(b, 1, 1);
	put_bits(b, leading, 5);
	put_bits(b, w->bits & 63, 6); /* 64 is encoded as 0 */
	put_bits(b, differ >> trailing, w->bits);
}

size_t export_xor_chunk(uint8_t out[EXPORT_XOR_BYTES], const int64_t *ms, const double *value,
			size_t n)
{
	struct xor_bits b = {.at = out, .free = 8};
	struct xor_window w = {.bits = 0};
	uint64_t bits, before = 0;
	int64_t delta = 0;

	out[0] = 0;
	put_bits(&b, n, 16);
	for (size_t i = 0; i < n; i++) {
		const int64_t d = i ? ms[i] - ms[i - 1] : 0;

		memcpy(&bits, &value[i], sizeof(bits));
		if (!i)
			put_varint(&b, export_pb_zigzag(ms[0]));
		else if (i == 1)
			put_varint(&b, (uint64_t)d);
		else
			put_time(&b, d - delta);
		if (i)
			put_value(&b, bits ^ before, &w);
		else
			put_bits(&b, bits, 64);
		delta = d;
		before = bits;
	}
	return (size_t)(b.at - out) + (b.free < 8);
}
