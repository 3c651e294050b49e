/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4), for identifiers that others must not be able to forge. */
#ifndef SL_BASE_SHA256_H
#define SL_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* Sets out to the SHA-256 of at most BASE_SHA256_MAX bytes. */
#define BASE_SHA256_MAX 55u
void base_sha256(const void *data, size_t bytes, uint8_t out[32]);

#endif
