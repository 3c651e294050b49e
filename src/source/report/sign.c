// SPDX-License-Identifier: Apache-2.0
#include "source/report/sign.h"

#include <string.h>

#include <nettle/cmac.h>

#include "dta/wire/endian.h"

/* FIPS 197, 4.2: multiplies by x in the field, modulo x^8 + x^4 + x^3 + x + 1. */
static uint8_t times_x(uint8_t a)
{
	return (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1b : 0));
}

static uint8_t rotate_left(uint8_t a, int bits)
{
	return (uint8_t)(a << bits | a >> (8 - bits));
}

/* FIPS 197, 5.1.1: the inverse, followed by an affine map. 3 generates the multiplicative group. */
static void make_sbox(uint8_t box[256])
{
	uint8_t power[255], log[256] = {0}, a = 1;

	for (int i = 0; i < 255; i++) {
		power[i] = a;
		log[a] = (uint8_t)i;
		a ^= times_x(a);
	}
	for (int i = 0; i < 256; i++) {
		a = i ? power[(255 - log[i]) % 255] : 0;
		box[i] = (uint8_t)(a ^ rotate_left(a, 1) ^ rotate_left(a, 2) ^ rotate_left(a, 3) ^
				   rotate_left(a, 4) ^ 0x63);
	}
}

static uint32_t sub_word(const uint8_t box[256], uint32_t w)
{
	return (uint32_t)box[w >> 24] << 24 | (uint32_t)box[w >> 16 & 255] << 16 |
	       (uint32_t)box[w >> 8 & 255] << 8 | box[w & 255];
}

/* FIPS 197, 5.2: computes the round keys. */
static void expand_key(struct report_sign *s, const uint8_t box[256], const uint8_t key[16])
{
	uint8_t constant = 1;

	for (int i = 0; i < 4; i++)
		s->round[i] = dta_get32(key + 4 * i);
	for (int i = 4; i < 44; i++) {
		uint32_t w = s->round[i - 1];

		if (i % 4 == 0) {
			w = sub_word(box, w << 8 | w >> 24) ^ (uint32_t)constant << 24;
			constant = times_x(constant);
		}
		s->round[i] = s->round[i - 4] ^ w;
	}
}

void report_sign_prepare(struct report_sign *s, const __u8 key[16], __u64 translator)
{
	struct cmac_aes128_ctx cmac;
	uint8_t box[256];

	make_sbox(box);
	for (int i = 0; i < 256; i++) {
		const uint8_t two = times_x(box[i]);
		uint32_t w = (uint32_t)two << 24 | (uint32_t)box[i] << 16 | (uint32_t)box[i] << 8 |
			     (two ^ box[i]);

		for (int t = 0; t < 4; t++) {
			s->table[t][i] = w;
			w = w << 24 | w >> 8;
		}
	}
	expand_key(s, box, key);
	cmac_aes128_set_key(&cmac, key);
	for (int i = 0; i < 4; i++) {
		s->whole[i] = dta_get32(cmac.key.K1.b + 4 * i);
		s->padded[i] = dta_get32(cmac.key.K2.b + 4 * i);
	}
	dta_put64(s->translator, translator);
	explicit_bzero(&cmac, sizeof(cmac));
}
