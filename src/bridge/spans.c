// SPDX-License-Identifier: Apache-2.0
/* spans.c - publishes another program's spans with libsidelight, keeping their IDs and times. */
#include "bridge/otlp.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define RING_BYTES   (1u << 20)
#define SCHEMA_BYTES (256u << 10) /* space for names and keys, which are never freed */
#define OTHER	     "(other)"

struct bridge_spans {
	struct sl_publisher *publisher;
	struct sl_span_name other; /* for spans whose name does not fit */
};

struct bridge_spans *bridge_spans_open(const char *service, const char *pod, const char *socket)
{
	struct bridge_spans *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = service, .pod = pod,
						  .socket = socket, .max_cells = 64,
						  .max_threads = 1, .schema_bytes = SCHEMA_BYTES,
						  .span_bytes = RING_BYTES));
	if (!s->publisher) {
		free(s);
		return NULL;
	}
	s->other = sl_span_name_create(s->publisher, OTHER);
	return s;
}

void bridge_spans_close(struct bridge_spans *s)
{
	if (s)
		sl_publisher_close(s->publisher);
	free(s);
}

/*
 * Returns up to SL_NAME_MAX bytes of UTF-8, NUL-terminated, or an empty string if the text is not
 * UTF-8.
 */
static const char *name_of(struct bridge_text t, char to[SL_NAME_MAX + 1])
{
	size_t n = base_utf8_cut(t.s, t.n, SL_NAME_MAX);

	if (n)
		memcpy(to, t.s, n);
	to[n] = 0;
	if (!base_utf8(to, n))
		*to = 0;
	return to;
}

static void set_attribute(struct bridge_spans *s, struct sl_span *span,
			  const struct bridge_span_attribute *a)
{
	char key[SL_NAME_MAX + 1];
	struct sl_span_key k = sl_span_key_create(s->publisher, name_of(a->key, key));

	switch (a->type) {
	case BRIDGE_SPAN_TEXT:
		if (base_utf8(a->text.s, a->text.n))
			sl_span_set_text(span, k, a->text.s, a->text.n);
		break;
	case BRIDGE_SPAN_BOOL:
		sl_span_set_bool(span, k, a->i64);
		break;
	case BRIDGE_SPAN_I64:
		sl_span_set_i64(span, k, a->i64);
		break;
	case BRIDGE_SPAN_F64:
		sl_span_set_f64(span, k, a->f64);
		break;
	case BRIDGE_SPAN_NONE:
		break;
	}
}

bool bridge_spans_put(struct bridge_spans *s, const struct bridge_span *t)
{
	struct sl_trace_context parent = t->context;
	char text[SL_NAME_MAX + 1];
	struct sl_span_name name = sl_span_name_create(s->publisher, name_of(t->name, text));
	struct sl_span span;

	if (!sl_span_name_valid(name))
		name = s->other;
	if (!sl_span_name_valid(name))
		return false;
	parent.span_id = t->parent_id;
	parent.remote = t->remote;
	sl_span_start(&span, name, t->kind, t->parent_id ? &parent : NULL);
	span.context = t->context;
	for (size_t i = 0; i < t->attribute_count; i++)
		set_attribute(s, &span, &t->attributes[i]);
	if (t->status != SL_SPAN_UNSET)
		sl_span_set_status(&span, t->status,
				   t->message.n ? name_of(t->message, text) : NULL);
	sl_span_set_start(&span, t->start_ns);
	sl_span_set_end(&span, t->end_ns);
	sl_span_end(&span);
	return true;
}
