/* SPDX-License-Identifier: Apache-2.0 */
/* trace_export.h - see trace_export.c. */
#ifndef SL_COLLECT_TRACE_EXPORT_H
#define SL_COLLECT_TRACE_EXPORT_H

#include "collect/trace.h"
#include "export/otlp.h"

/* False: there was no memory for all of it. */
bool trace_export(struct sl_otlp *o, const struct sl_trace *t);

#endif
