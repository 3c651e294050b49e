// SPDX-License-Identifier: Apache-2.0
#include "export/xor_chunk.h"

#include <string.h>

#include "export/pb.h"

struct xor_bits { /* written from the highest bit of a byte on */
	uint8_t *at;
	unsigned int free; /* of *at: 1 to 8 */
};

static void put(struct xor_bits *b, uint64_t v, unsigned int n)
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
		put(b, (v & 0x7f) | 0x80, 8);
	put(b, v, 8);
}

/* The difference of two differences of times: a prefix tells how many bits it has. */
static void put_time(struct xor_bits *b, int64_t dod)
{
	static const struct {
		uint8_t prefix, prefix_bits, bits;
	} form[] = {{2, 2, 14}, {6, 3, 17}, {14, 4, 20}};

	if (!dod) {
		put(b, 0, 1);
		return;
	}
	for (size_t i = 0; i < sizeof(form) / sizeof(*form); i++) {
		const int64_t half = INT64_C(1) << (form[i].bits - 1);

		if (dod > -half && dod <= half) {
			put(b, form[i].prefix, form[i].prefix_bits);
			put(b, (uint64_t)dod, form[i].bits);
			return;
		}
	}
	put(b, 15, 4);
	put(b, (uint64_t)dod, 64);
}

struct xor_window {		    /* of the bits that differ */
	unsigned int leading, bits; /* bits 0: none yet */
};

static void put_value(struct xor_bits *b, uint64_t differ, struct xor_window *w)
{
	unsigned int leading, trailing;

	if (!differ) {
		put(b, 0, 1);
		return;
	}
	leading = (unsigned int)__builtin_clzll(differ);
	trailing = (unsigned int)__builtin_ctzll(differ);
	if (leading > 31)
		leading = 31; /* it has five bits */
	put(b, 1, 1);
	if (w->bits && leading >= w->leading && trailing >= 64 - w->leading - w->bits) {
		put(b, 0, 1);
		put(b, differ >> (64 - w->leading - w->bits), w->bits);
		return;
	}
	*w = (struct xor_window){leading, 64 - leading - trailing};
	put(b, 1, 1);
	put(b, leading, 5);
	put(b, w->bits & 63, 6); /* 64 is 0 */
	put(b, differ >> trailing, w->bits);
}

size_t export_xor_chunk(uint8_t out[EXPORT_XOR_BYTES], const int64_t *ms, const double *value,
			size_t n)
{
	struct xor_bits b = {.at = out, .free = 8};
	struct xor_window w = {.bits = 0};
	uint64_t bits, before = 0;
	int64_t delta = 0;

	out[0] = 0;
	put(&b, n, 16);
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
			put(&b, bits, 64);
		delta = d;
		before = bits;
	}
	return (size_t)(b.at - out) + (b.free < 8);
}
