/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - a kept trace as JSON, for the API and for Kafka */
#ifndef SL_COLLECT_TRACE_JSON_H
#define SL_COLLECT_TRACE_JSON_H

#include "base/json.h"
#include "collect/trace/trace.h"

/* Adds the attributes of a trace, without its spans, to the current object. */
void collect_trace_put(struct base_json *j, const struct collect_trace *t);
/* Adds a span to the current object. */
void collect_trace_put_span(struct base_json *j, const struct collect_trace_span *s);

#endif
