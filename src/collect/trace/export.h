/* SPDX-License-Identifier: Apache-2.0 */
/* collect_trace_export.h - see collect_trace_export.c. */
#ifndef SL_COLLECT_TRACE_EXPORT_H
#define SL_COLLECT_TRACE_EXPORT_H

#include "collect/trace/trace.h"
#include "export/otlp.h"

/*
 * The spans of it that were not sent yet. A trace that began before since_ns, when this process
 * started, may have been sent by the one before it: if that can't be known it says so, in the
 * attribute sidelight.trace.maybe_again of its resources. False: no memory for all of it.
 */
bool collect_trace_export(struct export_otlp *o, const struct collect_trace *t, uint64_t since_ns);

#endif
