// SPDX-License-Identifier: Apache-2.0
/* export.c - a kept trace as OTLP: one resource per pod. */
#include <stdio.h>
#include <stdlib.h>

#include "collect/trace/internal.h"

#define RESOURCE 5u

static struct export_otlp_attr text(const char *key, const char *value)
{
	return (struct export_otlp_attr){.key = key, .type = EXPORT_OTLP_STRING, .string = value};
}

/* A span to send, and its position in the trace. */
struct export_item {
	const struct collect_trace_span *span;
	uint32_t at;
};

static int by_pod(const void *a, const void *b)
{
	const struct export_item *x = a, *y = b;

	if (x->span->instance != y->span->instance)
		return x->span->instance < y->span->instance ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* n spans of one pod. */
static void export_pod(struct export_otlp *o, const struct collect_trace *t,
		       const struct export_item *item, size_t n, struct export_otlp_span *out,
		       bool maybe_again)
{
	const struct collect_trace_span *first = item->span;
	struct export_otlp_attr resource[RESOURCE];
	size_t count = 4;
	char instance[20];

	for (size_t k = 0; k < n; k++)
		out[k] = item[k].span->o;
	snprintf(instance, sizeof(instance), "%016llx", (unsigned long long)first->instance);
	resource[0] = text("service.name", first->service);
	resource[1] = text("service.instance.id", instance);
	resource[2] = text("k8s.pod.name", first->pod);
	resource[3] = text("sidelight.trace.reason", act_trace_reason_name(t->reason));
	if (maybe_again)
		resource[count++] = (struct export_otlp_attr){.key = "sidelight.trace.maybe_again",
							      .type = EXPORT_OTLP_BOOL,
							      .boolean = true};
	export_otlp_spans(o, resource, count, out, n);
}

bool collect_trace_export(struct export_otlp *o, const struct collect_trace *t, uint64_t since_ns)
{
	bool maybe_again = t->start_ns < since_ns && !export_otlp_certain(o);
	size_t n = 0, first = 0;
	struct export_otlp_span *out;
	struct export_item *item;
	uint32_t at = 0;
	bool whole;

	for (const struct collect_trace_span *s = t->first; s; s = s->next)
		n += !s->sent;
	item = malloc((n + 1) * sizeof(*item));
	out = malloc((n + 1) * sizeof(*out));
	whole = item && out;
	for (const struct collect_trace_span *s = t->first; whole && s; s = s->next) {
		if (s->sent)
			continue;
		item[at] = (struct export_item){s, at};
		at++;
	}
	if (whole && n)
		qsort(item, n, sizeof(*item), by_pod);
	for (size_t i = 1; whole && i <= n; i++) {
		if (i < n && item[i].span->instance == item[first].span->instance)
			continue;
		export_pod(o, t, &item[first], i - first, out, maybe_again);
		first = i;
	}
	free(item);
	free(out);
	return whole;
}
