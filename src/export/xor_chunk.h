/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xor_chunk.h - writes Prometheus' XOR chunks (prometheus/tsdb/docs/format/chunks.md; Pelkonen et
 * al., Gorilla, 2015): times as differences of differences, values XORed with the previous value.
 */
#ifndef SL_EXPORT_XOR_CHUNK_H
#define SL_EXPORT_XOR_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT_XOR_SAMPLES 120u /* the same as Prometheus; the format allows 65535 */
/* Maximum size of a chunk: a time takes 68 bits, a value 77. */
#define EXPORT_XOR_BYTES (2u + EXPORT_XOR_SAMPLES * 19u)

/*
 * Writes n samples (1 to EXPORT_XOR_SAMPLES) in chronological order. Returns the number of bytes.
 */
size_t export_xor_chunk(uint8_t out[EXPORT_XOR_BYTES], const int64_t *ms, const double *value,
			size_t n);

#endif
