/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selftime.h - evidence about pods from span times. A span's own time is the part in which neither
 * a child nor a call to another pod runs. The gap of a call is its duration in excess of the
 * callee's span. Both are compared with earlier steps, per operation and step (docs/analytics.md,
 * Spans). The mere presence or number of spans is no evidence. Independent of files, clocks and
 * metrics. Equal calls give equal bits. Not thread-safe; allocates only for a new operation or for
 * a trace larger than any before.
 */
#ifndef SL_ANALYSE_SELFTIME_H
#define SL_ANALYSE_SELFTIME_H

#include <stdint.h>

#include "analyse/graph.h"

#define ANALYSE_TRACE_MAX 4096u /* maximum spans per trace; larger traces are ignored */

/* A span of one trace, by the clock of its host. */
struct analyse_timed {
	uint32_t pod, parent; /* as in struct analyse_span, but for pods instead of services */
	uint64_t operation;   /* hash of the operation's name */
	int64_t begin_ns, end_ns;
};

struct analyse_selftime;

struct analyse_selftime *analyse_selftime_new(void); /* returns NULL if memory is exhausted */
void analyse_selftime_free(struct analyse_selftime *t);
/*
 * Adds a trace to the current step. Skips spans that end before they begin. -E2BIG means too large;
 * -ENOMEM means the trace was added only in part or not at all.
 */
int analyse_selftime_add(struct analyse_selftime *t, const struct analyse_timed *spans, uint32_t n);
/*
 * Ends the step. Computes for each pod the log likelihood ratio, at least 0, of its operations or
 * calls taking longer, and learns the step. Pods numbered `pods` and above only serve as evidence
 * for others. -ENOMEM means there is no result for this step.
 */
int analyse_selftime_step(struct analyse_selftime *t, float *evidence, uint32_t pods);

#endif
