/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_EXPORT_H
#define SL_COLLECT_TRACE_EXPORT_H

#include "collect/trace/trace.h"

/*
 * Sends the spans that were not sent yet. A trace that began before since_ns, the start of this
 * process, may have been sent by an earlier process; if that is not known, its resources have the
 * attribute sidelight.trace.maybe_again. False: out of memory for part of it.
 */
bool collect_trace_export(struct export_otlp *o, const struct collect_trace *t, uint64_t since_ns);

#endif
