/* SPDX-License-Identifier: Apache-2.0 */
/* otlp_read.h - what is read of OTLP: a receiver's answers, which are a stranger's; requests of
 * ours. */
#ifndef SL_EXPORT_OTLP_READ_H
#define SL_EXPORT_OTLP_READ_H

#include <stddef.h>
#include <stdint.h>

/*
 * How many spans the receiver left out of a request that it took, as its answer says; 0: none, or
 * the answer says nothing that makes sense, or is cut off before. why gets its reason, or a
 * warning, and is left alone if there is none; its bytes may be any but NUL.
 */
uint64_t export_otlp_left_out(const void *answer, size_t bytes, char *why, size_t why_bytes);
/* Each trace of a request that has spans; one whose spans are together once. */
void export_otlp_traces(const void *request, size_t bytes,
			void (*fn)(void *arg, uint64_t trace_hi, uint64_t trace_lo), void *arg);

#endif
