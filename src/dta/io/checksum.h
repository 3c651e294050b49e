/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checksum.h - the Internet checksum (RFC 1071) in host byte order, as its section 2(B) allows. The
 * checksum field is the complement of dta_sum_fold(); the sum over correct data folds to 0xffff.
 */
#ifndef SL_DTA_IO_CHECKSUM_H
#define SL_DTA_IO_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns an unfolded sum, so that several sums can be added. */
static inline uint64_t dta_sum_of(const uint8_t *p, size_t bytes)
{
	uint64_t sum = 0;
	uint32_t w;

	for (; bytes >= 4; bytes -= 4, p += 4) {
		memcpy(&w, p, 4);
		sum += w;
	}
	w = 0;
	memcpy(&w, p, bytes);
	return sum + w;
}

static inline uint16_t dta_sum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

#endif
