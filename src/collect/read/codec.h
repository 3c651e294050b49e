/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - packs columns of up to COLLECT_COLUMN_ROWS 64-bit values. Pure functions on arrays.
 *
 * Integers: the first value, then either the differences minus the smallest difference (suits noise
 * around a rate) or the differences of differences (suits a steady rate), whichever needs fewer
 * bits, all of one width. Arithmetic is modulo 2^64, so a wrapping counter needs no special case.
 *
 * Doubles: packed as integers if all are whole numbers, otherwise by XOR with the previous value,
 * as in T. Pelkonen et al., "Gorilla: a fast, scalable, in-memory time series database", VLDB 8
 * (2015), section 4.1.2. Packing is lossless bit for bit, including NaN payloads and negative
 * zeros.
 */
#ifndef SL_COLLECT_READ_CODEC_H
#define SL_COLLECT_READ_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COLLECT_COLUMN_ROWS 64u
/* The maximum size of a packed column of n rows: a mode byte, two varints, 77 bits per double. */
#define COLLECT_COLUMN_MAX(n) (32u + ((n)*80u) / 8u)

/*
 * Packs n (1..COLLECT_COLUMN_ROWS) values into out, which has COLLECT_COLUMN_MAX(n) bytes. Returns
 * the number of bytes used.
 */
size_t collect_column_pack(uint8_t *out, const uint64_t *v, unsigned int n, bool f64);

/*
 * Unpacks n rows into v. Returns false if the bytes are not a column of n rows, e.g. because they
 * were overwritten.
 */
bool collect_column_unpack(uint64_t *v, unsigned int n, const uint8_t *in, size_t bytes);

#endif
