// SPDX-License-Identifier: Apache-2.0
/* trace_export.c - a kept trace as OTLP: the spans of each pod are those of one resource. */
#include <stdio.h>
#include <stdlib.h>

#include "collect/trace_export.h"

#define RESOURCE 5u

static struct sl_otlp_attr text(const char *key, const char *value)
{
	return (struct sl_otlp_attr){.key = key, .type = SL_OTLP_STRING, .string = value};
}

static void take_attr(struct sl_otlp_attr *to, const struct sl_trace_attr *a)
{
	*to = (struct sl_otlp_attr){.key = a->key};
	switch (a->type) {
	case SL_SPAN_TYPE_STRING:
		to->type = SL_OTLP_STRING;
		to->string = a->string;
		break;
	case SL_SPAN_TYPE_BOOL:
		to->type = SL_OTLP_BOOL;
		to->boolean = a->boolean;
		break;
	case SL_SPAN_TYPE_F64:
		to->type = SL_OTLP_F64;
		to->f64 = a->f64;
		break;
	default:
		to->type = SL_OTLP_I64;
		to->i64 = a->i64;
	}
}

/* A publisher may claim any duration; a sum that wraps would end before it begins. */
static uint64_t end_of(const struct sl_trace_span *s)
{
	return s->duration_ns < UINT64_MAX - s->start_ns ? s->start_ns + s->duration_ns
							 : UINT64_MAX;
}

/* The spans of the instance of this one, which is the first; room for all of the trace's. */
static void export_pod(struct sl_otlp *o, const struct sl_trace *t,
		       const struct sl_trace_span *first, struct sl_otlp_span *out,
		       struct sl_otlp_attr *attr, bool maybe_again)
{
	struct sl_otlp_attr resource[RESOURCE];
	size_t n = 0, count = 4;
	char instance[20];

	for (const struct sl_trace_span *s = first; s; s = s->next) {
		if (s->instance != first->instance)
			continue;
		out[n++] = (struct sl_otlp_span){
			.trace_hi = t->trace_hi,
			.trace_lo = t->trace_lo,
			.span_id = s->span_id,
			.parent_id = s->parent_id,
			.start_ns = s->start_ns,
			.end_ns = end_of(s),
			.kind = s->kind + 1, /* where 0 is "unspecified" */
			.status = s->status,
			.flags = s->flags | SL_OTLP_HAS_REMOTE |
				 (s->remote ? SL_OTLP_IS_REMOTE : 0),
			.name = s->name,
			.message = s->message,
			.attrs = attr,
			.attr_count = s->attr_count,
		};
		for (uint32_t i = 0; i < s->attr_count; i++)
			take_attr(attr++, &s->attrs[i]);
	}
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)first->instance);
	resource[0] = text("service.name", first->service);
	resource[1] = text("service.instance.id", instance);
	resource[2] = text("k8s.pod.name", first->pod);
	resource[3] = text("sidelight.trace.reason", sl_trace_reason_name(t->reason));
	if (maybe_again)
		resource[count++] = (struct sl_otlp_attr){.key = "sidelight.trace.maybe_again",
							  .type = SL_OTLP_BOOL,
							  .boolean = true};
	sl_otlp_spans(o, resource, count, out, n);
}

static bool first_of_pod(const struct sl_trace *t, const struct sl_trace_span *s)
{
	for (const struct sl_trace_span *before = t->first; before != s; before = before->next)
		if (before->instance == s->instance)
			return false;
	return true;
}

bool trace_export(struct sl_otlp *o, const struct sl_trace *t, uint64_t since_ns)
{
	bool maybe_again = t->start_ns < since_ns && !sl_otlp_certain(o);
	struct sl_otlp_attr *attrs;
	struct sl_otlp_span *out;
	size_t spans = 0, attr_count = 0;
	bool whole;

	if (sl_otlp_known(o, t->trace_hi, t->trace_lo))
		return true;
	for (const struct sl_trace_span *s = t->first; s; s = s->next) {
		spans++;
		attr_count += s->attr_count;
	}
	out = malloc((spans + 1) * sizeof(*out));
	attrs = malloc((attr_count + 1) * sizeof(*attrs));
	for (const struct sl_trace_span *s = t->first; out && attrs && s; s = s->next)
		if (first_of_pod(t, s))
			export_pod(o, t, s, out, attrs, maybe_again);
	whole = out && attrs;
	free(out);
	free(attrs);
	return whole;
}
