// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

/* FIPS 180-4, 4.2.2 and 5.3.3: fractional parts of cube and square roots of the first primes. */
static const uint32_t k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};
static const uint32_t start[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t rotate_right(uint32_t x, unsigned int n)
{
	return x >> n | x << (32 - n);
}

/* Inputs are so short that one block holds them with their padding (5.1.1). */
void base_sha256(const void *data, size_t bytes, uint8_t out[32])
{
	const uint64_t bits = htobe64((uint64_t)bytes * 8);
	uint8_t block[64] = {0};
	uint32_t w[64], h[8];

	assert(bytes <= BASE_SHA256_MAX);
	memcpy(block, data, bytes);
	block[bytes] = 0x80;
	memcpy(block + 56, &bits, sizeof(bits));
	memcpy(w, block, sizeof(block));
	for (int i = 0; i < 64; i++) {
		uint32_t a = i < 16 ? 0 : w[i - 15], b = i < 16 ? 0 : w[i - 2];

		w[i] = i < 16 ? be32toh(w[i])
			      : w[i - 16] + w[i - 7] +
					(rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) +
					(rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
	}
	memcpy(h, start, sizeof(h));
	for (int i = 0; i < 64; i++) {
		uint32_t a = h[0], e = h[4];
		uint32_t t1 = h[7] +
			      (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
			      ((e & h[5]) ^ (~e & h[6])) + k[i] + w[i];
		uint32_t t2 = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
			      ((a & h[1]) ^ (a & h[2]) ^ (h[1] & h[2]));

		memmove(h + 1, h, 7 * sizeof(*h));
		h[4] += t1;
		h[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		h[i] = htobe32(h[i] + start[i]);
	memcpy(out, h, sizeof(h));
}
