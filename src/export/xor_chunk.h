/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xor_chunk.h - writes Prometheus' XOR chunks (prometheus/tsdb/docs/format/chunks.md; Gorilla,
 * Pelkonen and others, 2015): times as differences of differences, values as the bits in which they
 * differ from the one before.
 */
#ifndef SL_EXPORT_XOR_CHUNK_H
#define SL_EXPORT_XOR_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT_XOR_SAMPLES 120u /* as Prometheus' own; the format takes 65535 */
/* Bytes of a chunk at most: a time takes 68 bits, a value 77. */
#define EXPORT_XOR_BYTES (2u + EXPORT_XOR_SAMPLES * 19u)

/* Writes n (1 to EXPORT_XOR_SAMPLES) samples, in the order of their times. Returns the bytes. */
size_t export_xor_chunk(uint8_t out[EXPORT_XOR_BYTES], const int64_t *ms, const double *value,
			size_t n);

#endif
