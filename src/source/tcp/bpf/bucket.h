/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* bucket.h - computes bucket indices of exponential histograms in eBPF programs. */
#ifndef SL_SOURCE_TCP_BPF_BUCKET_H
#define SL_SOURCE_TCP_BPF_BUCKET_H

#include "kernel.h"

/*
 * Returns a bucket index of scale 1, as in SL_KIND_HISTOGRAM_EXP and Prometheus' native histograms:
 * bucket i holds values above 2^((i - 1) / 2) and up to 2^(i / 2). x must be at least 1. As sqrt(2)
 * is irrational, no x lies exactly on an odd bound.
 */
static __always_inline u32 bucket_scale_1(u64 x)
{
	u32 e = 0;
	u64 m = x;

#define HALVE(bits)           \
	if (m >> (bits)) {    \
		e += (bits);  \
		m >>= (bits); \
	}
	HALVE(32)
	HALVE(16)
	HALVE(8)
	HALVE(4)
	HALVE(2)
#undef HALVE
	e += (u32)(m >> 1);
	m = x << (63 - e);
	return 2 * e + (m == 1ull << 63 ? 0 : m <= 0xb504f333f9de6484ull ? 1 : 2);
}

/*
 * Like bucket_scale_1(), but in seconds: bucket i holds times above 2^((i - 1) / 2) s and up to
 * 2^(i / 2) s. ns must be 1 to 2^37. Times are converted to units of 2^-50 s: 2^30 / 10^9 is 1 +
 * (SHARE + MORE / 2^26) / 2^30, which is accurate enough that no bound is off by a nanosecond.
 */
#define BUCKET_SHARE 79179680ull
#define BUCKET_MORE  40724811ull
static __always_inline int bucket_of_seconds(u64 ns)
{
	u64 more = ns * BUCKET_SHARE + (ns * BUCKET_MORE >> 26);

	return (int)bucket_scale_1((ns << 20) + (more >> 10)) - 100;
}

#endif
