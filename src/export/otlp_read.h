/* SPDX-License-Identifier: Apache-2.0 */
/* otlp_read.h - reads OTLP: answers of receivers, which are untrusted, and requests of ours. */
#ifndef SL_EXPORT_OTLP_READ_H
#define SL_EXPORT_OTLP_READ_H

#include <stddef.h>
#include <stdint.h>

/*
 * The number of spans that the receiver's answer says it rejected from a request it took; 0 also if
 * the answer is malformed or truncated before. why gets the reason or a warning, in any bytes but
 * NUL, and is unchanged without one.
 */
uint64_t export_otlp_left_out(const void *answer, size_t bytes, char *why, size_t why_bytes);
/* Calls fn for each trace of a request, once per group of consecutive spans. */
void export_otlp_traces(const void *request, size_t bytes,
			void (*fn)(void *arg, uint64_t trace_hi, uint64_t trace_lo), void *arg);

#endif
