// SPDX-License-Identifier: Apache-2.0
/*
 * render.c - walks a source and emits its exposition in pieces. It never holds more than one line
 * of text or one protobuf message.
 */
#include "export/render.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"

#define TYPE(text)                                  \
	{                                           \
		text, text "; escaping=allow-utf-8" \
	}

const char *export_format_content_type(enum export_format format, bool utf8)
{
	static const char *const types[][2] = {
		[EXPORT_FORMAT_TEXT] = TYPE("text/plain; version=0.0.4; charset=utf-8"),
		[EXPORT_FORMAT_OPENMETRICS] =
			TYPE("application/openmetrics-text; version=1.0.0; charset=utf-8"),
		[EXPORT_FORMAT_PROTOBUF] = TYPE(
			"application/vnd.google.protobuf; "
			"proto=io.prometheus.client.MetricFamily; encoding=delimited"),
	};

	return types[format][utf8];
}

struct export_render *export_render_new(const struct export_source *source,
					enum export_format format, bool utf8)
{
	struct export_render *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->source = *source;
	r->format = format;
	r->utf8 = utf8;
	return r;
}

void export_render_classic(struct export_render *r)
{
	r->classic = true;
}

void export_render_free(struct export_render *r)
{
	if (!r)
		return;
	if (r->walk)
		r->source.end(r->walk);
	free(r->reserved);
	free(r->labels);
	free(r->keys);
	free(r->key_text);
	free(r->escaped);
	free(r->spill);
	free(r->bounds.bound);
	free(r->bounds.bucket);
	free(r->bounds.text_at);
	free(r->bounds.text);
	free(r->message);
	export_native_free(&r->native);
	free(r);
}

bool export_render_grow(struct export_render *r, void *p, size_t *room, size_t count, size_t size)
{
	bool grown = base_grow(p, room, count, size);

	if (!grown)
		r->error = -ENOMEM;
	return grown;
}

/*
 * Called when the caller's buffer is too small. The spill buffer is always empty when a piece
 * starts.
 */
char *export_render_room_slow(struct export_render *r, size_t n)
{
	if (!export_render_grow(r, &r->spill, &r->spill_room, n < 4096 ? 4096 : n, 1))
		return NULL;
	return r->spill;
}

static void drain_pending(struct export_render *r)
{
	size_t n = BASE_MIN(r->pending_bytes, (size_t)(r->end - r->out));

	if (!n)
		return;
	memcpy(r->out, r->pending, n);
	r->out += n;
	r->pending += n;
	r->pending_bytes -= n;
}

void export_render_pend(struct export_render *r, const void *bytes, size_t n)
{
	r->pending = bytes;
	r->pending_bytes = n;
	drain_pending(r);
}

void export_render_took_slow(struct export_render *r, char *to)
{
	export_render_pend(r, r->spill, (size_t)(to - r->spill));
}

ssize_t export_render_read(struct export_render *r, char *buf, size_t max)
{
	if (!max)
		return -EINVAL;
	r->out = buf;
	r->end = buf + max;
	drain_pending(r);
	if (r->phase == EXPORT_PHASE_START && !r->error) {
		r->walk = r->source.begin(r->source.ctx);
		if (!r->walk)
			r->error = errno ? -errno : -ENOMEM;
		r->phase = EXPORT_PHASE_FAMILY;
	}
	/* Return an error immediately, because output before it is useless. */
	while (r->out < r->end && !r->error && r->phase != EXPORT_PHASE_END) {
		if (r->format == EXPORT_FORMAT_PROTOBUF)
			export_protobuf_step(r);
		else
			export_text_step(r);
	}
	if (r->error)
		return r->error;
	return r->out - buf;
}

/* ---- label keys that differ from the source's keys ---- */

char *export_render_escape(char *p, const char *s, bool quotes)
{
	for (; *s; s++) {
		if (*s == '\\' || *s == '\n' || (quotes && *s == '"'))
			*p++ = '\\';
		*p++ = *s == '\n' ? 'n' : *s;
	}
	return p;
}

/* Renders the labels with distinct keys; label `taken` becomes exported_KEY. */
static bool rebuild_labels(struct export_render *r, size_t taken, const char *reserved)
{
	struct export_series *s = &r->series;
	size_t text = 0;
	char *p;

	if (!export_render_grow(r, &r->keys, &r->keys_room, s->label_count, sizeof(*r->keys)))
		return false;
	memcpy(r->keys, s->label_keys, s->label_count * sizeof(*r->keys));
	free(r->key_text);
	r->key_text = export_distinct_keys(r->keys, s->label_count, reserved, taken, r->utf8);
	if (!r->key_text) {
		r->error = -ENOMEM;
		return false;
	}
	for (size_t i = 0; i < s->label_count; i++)
		text += 2 * strlen(r->keys[i]) + 2 * strlen(s->label_values[i]) + 16;
	if (!export_render_grow(r, &r->labels, &r->labels_room, text, 1))
		return false;
	p = r->labels;
	for (size_t i = 0; i < s->label_count; i++) {
		const char *quote = export_is_plain(r->keys[i], false) ? "" : "\"";

		if (i)
			*p++ = ',';
		p = stpcpy(p, quote);
		p = export_render_escape(p, r->keys[i], true);
		p = stpcpy(p, quote);
		*p++ = '=';
		*p++ = '"';
		p = export_render_escape(p, s->label_values[i], true);
		*p++ = '"';
	}
	s->label_keys = r->keys;
	s->label_text = r->labels;
	s->label_bytes = (size_t)(p - r->labels);
	return true;
}

int export_render_next_series(struct export_render *r, const char *reserved_label)
{
	const struct export_series *s = &r->series;
	int more = r->source.next_series(r->walk, &r->series);
	size_t taken = 0;

	if (more < 0)
		r->error = more;
	if (more <= 0)
		return 0;
	r->exemplar = 0;
	while (taken < s->label_count &&
	       (!*reserved_label || strcmp(s->label_keys[taken], reserved_label)))
		taken++;
	if (taken == s->label_count && (r->utf8 || !s->utf8))
		return 1;
	return rebuild_labels(r, taken, reserved_label);
}

#define EXEMPLAR_CHARACTERS 128u

static size_t count_characters(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

bool export_exemplar_is_long(const struct export_exemplar *e)
{
	size_t n = 0, bytes = 0;

	for (size_t i = 0; i < e->label_count; i++) {
		n += count_characters(e->labels[i].key) + count_characters(e->labels[i].value);
		bytes += strlen(e->labels[i].key) + strlen(e->labels[i].value);
	}
	return n > EXEMPLAR_CHARACTERS || bytes > SL_EXEMPLAR_LABELS ||
	       e->label_count > SL_LABELS_MAX;
}

const struct export_exemplar *export_exemplar_upto(struct export_render *r, size_t bucket)
{
	const struct export_series *s = &r->series;
	const struct export_exemplar *latest = NULL;

	for (; r->exemplar < s->exemplar_count && s->exemplars[r->exemplar].bucket < bucket;
	     r->exemplar++)
		if (!latest || s->exemplars[r->exemplar].ns >= latest->ns)
			latest = &s->exemplars[r->exemplar];
	return latest;
}

const char *export_render_state_label(struct export_render *r, char buf[EXPORT_SHOWN_NAME_MAX + 1])
{
	memcpy(buf, r->name, r->name_bytes + 1);
	for (char *c = buf; (c = strchr(c, ':'));)
		*c = '_';
	return buf;
}

const char *export_reserved_label(struct export_render *r, char buf[EXPORT_SHOWN_NAME_MAX + 1])
{
	if (export_is_histogram(r->family.type))
		return "le";
	if (r->family.type == EXPORT_FAMILY_SUMMARY)
		return "quantile";
	return r->family.type == EXPORT_FAMILY_STATESET ? export_render_state_label(r, buf) : "";
}
