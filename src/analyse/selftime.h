/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selftime.h - what the times of spans say about pods. A span's own time is the part of it in which
 * neither a child nor a call to another pod runs; the gap of a call is what it takes longer than
 * the callee's span. Both are compared, per operation and step, with what they were at earlier
 * steps (docs/analytics.md, Spans). That spans are there, or how many, says nothing.
 *
 * Knows no files, clocks or metrics. Equal calls give equal bits. Not thread-safe; allocates when
 * an operation is new, or a trace larger than all before.
 */
#ifndef SL_ANALYSE_SELFTIME_H
#define SL_ANALYSE_SELFTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "analyse/graph.h"

#define ANALYSE_TRACE_MAX 4096u /* spans of a trace; of a larger one nothing is learned */

/* A span of one trace, by the clock of its host. */
struct analyse_timed {
	uint32_t pod, parent; /* as of struct analyse_span, by pod instead of service */
	uint64_t operation;   /* its name, hashed */
	int64_t begin_ns, end_ns;
};

struct analyse_selftime;

struct analyse_selftime *analyse_selftime_new(void); /* NULL: out of memory */
void analyse_selftime_free(struct analyse_selftime *t);
/*
 * Adds a trace to the current step. Spans that end before they begin are left out. -E2BIG: too
 * large; -ENOMEM: not added, or only in part.
 */
int analyse_selftime_add(struct analyse_selftime *t, const struct analyse_timed *spans, uint32_t n);
/*
 * Ends the step: the log likelihood ratio for each pod, at least 0, that its operations or calls
 * take longer; then the step is learned. Pods from `pods` on are evidence for others only. -ENOMEM:
 * nothing is known of the step.
 */
int analyse_selftime_step(struct analyse_selftime *t, float *evidence, uint32_t pods);

#endif
