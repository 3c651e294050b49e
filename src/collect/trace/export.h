/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_EXPORT_H
#define SL_COLLECT_TRACE_EXPORT_H

#include "collect/trace/trace.h"

/*
 * Sends the spans that were not sent yet. An earlier process may have sent a trace that began
 * before since_ns, the start of this process; if this is unknown, the trace's resources get the
 * attribute sidelight.trace.maybe_again. Returns false if part of the trace was left out for lack
 * of memory.
 */
bool collect_trace_export(struct export_otlp *o, const struct collect_trace *t, uint64_t since_ns);

#endif
