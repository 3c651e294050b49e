/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * sign.bpf.h - appends an authentication trailer to a message: the identity of the translator, and
 * AES-CMAC-128 (RFC 4493). The loader computes the tables (sign.h). Include it only once, after the
 * map `slots`.
 *
 * A round of AES (FIPS 197) takes four lookups per column in tables that combine SubBytes and
 * MixColumns. Cache effects make their time depend on the data: a process that shares a cache with
 * this CPU could in principle learn something about the key.
 */
#ifndef SL_SOURCE_REPORT_SIGN_BPF_H
#define SL_SOURCE_REPORT_SIGN_BPF_H

const volatile struct report_sign sign = {};

struct cmac {
	__u32 x[4]; /* result of the previous blocks, in host byte order */
	__u32 slot, blocks;
	__u32 whole; /* the last block needed no padding */
};

static __always_inline __u32 sign_column(__u32 a, __u32 b, __u32 c, __u32 d, __u32 key)
{
	return sign.table[0][a >> 24] ^ sign.table[1][b >> 16 & 255] ^ sign.table[2][c >> 8 & 255] ^
	       sign.table[3][d & 255] ^ key;
}

/* Omits MixColumns: bytes 1 and 2 of the first table's words are the bytes of the S-box. */
static __always_inline __u32 sign_last_column(__u32 a, __u32 b, __u32 c, __u32 d, __u32 key)
{
	return ((sign.table[0][a >> 24] << 8 & 0xff000000) |
		(sign.table[0][b >> 16 & 255] & 0xff0000) | (sign.table[0][c >> 8 & 255] & 0xff00) |
		(sign.table[0][d & 255] >> 8 & 0xff)) ^
	       key;
}

static long sign_block(__u32 i, struct cmac *c)
{
	struct report_slot *s = bpf_map_lookup_elem(&slots, &c->slot);
	__u64 at = (__u64)i * 16;
	__u32 a[4], b[4];
	const __u8 *m;

	asm volatile("" : "+r"(at)); /* show the verifier the following bound */
	if (!s || at > sizeof(s->message) - 16)
		return 1; /* impossible */
	m = s->message + at;
	for (int j = 0; j < 4; j++) {
		a[j] = bpf_ntohl(*(const __u32 *)(m + 4 * j)) ^ c->x[j];
		if (i + 1 == c->blocks)
			a[j] ^= c->whole ? sign.whole[j] : sign.padded[j];
		a[j] ^= sign.round[j];
	}
#pragma unroll
	for (int r = 4; r < 40; r += 4) {
		for (int j = 0; j < 4; j++)
			b[j] = sign_column(a[j], a[(j + 1) & 3], a[(j + 2) & 3], a[(j + 3) & 3],
					   sign.round[r + j]);
		for (int j = 0; j < 4; j++)
			a[j] = b[j];
	}
	for (int j = 0; j < 4; j++)
		c->x[j] = sign_last_column(a[j], a[(j + 1) & 3], a[(j + 2) & 3], a[(j + 3) & 3],
					   sign.round[40 + j]);
	return 0;
}

/*
 * Appends the authentication trailer to a message of `bytes` bytes, which must have room for it.
 * Returns the new length.
 */
static __always_inline __u64 sign_message(struct report_slot *s, __u32 slot, __u64 bytes)
{
	const __u64 signed_bytes = bytes + 8;
	struct cmac c = {
		.slot = slot, .blocks = (signed_bytes + 15) / 16, .whole = !(signed_bytes & 15)};
	__u8 *proof = s->message + bytes;

	for (int i = 0; i < 8; i++) /* a memcpy() would copy the zeros of the initialiser */
		proof[i] = sign.translator[i];
	__builtin_memset(proof + 8, 0, 16);
	proof[8] = 0x80; /* start of the padding, later replaced by the MAC */
	bpf_loop(c.blocks, sign_block, &c, 0);
	for (int j = 0; j < 4; j++)
		c.x[j] = bpf_htonl(c.x[j]);
	__builtin_memcpy(proof + 8, c.x, 16);
	return bytes + RPT_PROOF;
}

#endif
