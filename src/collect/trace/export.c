// SPDX-License-Identifier: Apache-2.0
/* export.c - exports a kept trace as OTLP: one resource per pod */
#include <stdio.h>
#include <stdlib.h>

#include "collect/trace/export.h"

#define RESOURCE 5u

static struct export_otlp_attr text_attribute(const char *key, const char *value)
{
	return (struct export_otlp_attr){.key = key, .type = EXPORT_OTLP_STRING, .string = value};
}

/* Sorts by pod, and spans of one pod by start, as in the trace. */
static int by_pod(const void *a, const void *b)
{
	const struct collect_trace_span *x = *(const struct collect_trace_span *const *)a;
	const struct collect_trace_span *y = *(const struct collect_trace_span *const *)b;

	if (x->instance != y->instance)
		return x->instance < y->instance ? -1 : 1;
	if (x->o.start_ns != y->o.start_ns)
		return x->o.start_ns < y->o.start_ns ? -1 : 1;
	return (x->o.span_id > y->o.span_id) - (x->o.span_id < y->o.span_id);
}

/* Exports n spans of one pod. */
static void export_pod(struct export_otlp *o, const struct collect_trace *t,
		       const struct collect_trace_span *const *span, size_t n,
		       struct export_otlp_span *out, bool maybe_again)
{
	struct export_otlp_attr resource[RESOURCE];
	size_t count = 4;
	char instance[20];

	for (size_t k = 0; k < n; k++)
		out[k] = span[k]->o;
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)span[0]->instance);
	resource[0] = text_attribute("service.name", span[0]->service);
	resource[1] = text_attribute("service.instance.id", instance);
	resource[2] = text_attribute("k8s.pod.name", span[0]->pod);
	resource[3] = text_attribute("sidelight.trace.reason", act_trace_reason_name(t->reason));
	if (maybe_again)
		resource[count++] = (struct export_otlp_attr){.key = "sidelight.trace.maybe_again",
							      .type = EXPORT_OTLP_BOOL,
							      .boolean = true};
	export_otlp_spans(o, resource, count, out, n);
}

bool collect_trace_export(struct export_otlp *o, const struct collect_trace *t, uint64_t since_ns)
{
	bool maybe_again = t->start_ns < since_ns && !export_otlp_certain(o);
	const struct collect_trace_span **span;
	struct export_otlp_span *out;
	size_t n = 0, first = 0;
	bool whole;

	for (const struct collect_trace_span *s = t->first; s; s = s->next)
		n += !s->sent;
	span = malloc((n + 1) * sizeof(*span));
	out = malloc((n + 1) * sizeof(*out));
	whole = span && out;
	n = 0;
	for (const struct collect_trace_span *s = t->first; whole && s; s = s->next)
		if (!s->sent)
			span[n++] = s;
	if (n)
		qsort(span, n, sizeof(*span), by_pod);
	for (size_t i = 1; i <= n; i++) {
		if (i < n && span[i]->instance == span[first]->instance)
			continue;
		export_pod(o, t, &span[first], i - first, out, maybe_again);
		first = i;
	}
	free(span);
	free(out);
	return whole;
}
