// SPDX-License-Identifier: Apache-2.0
/*
 * The messages of version 2.0 (io/prometheus/write/v2/types.proto):
 *
 *	Request    { repeated string symbols = 4; repeated TimeSeries timeseries = 5; }
 *	TimeSeries { repeated uint32 labels_refs = 1; repeated Sample samples = 2;
 *		     repeated Histogram histograms = 3; repeated Exemplar exemplars = 4;
 *		     Metadata metadata = 5; int64 created_timestamp = 6; }
 *	Sample     { double value = 1; int64 timestamp = 2; int64 start_timestamp = 3; }
 *	Exemplar   { repeated uint32 labels_refs = 1; double value = 2; int64 timestamp = 3; }
 *	Metadata   { MetricType type = 1; uint32 help_ref = 3; uint32 unit_ref = 4; }
 *	Histogram  as in 1.0, and int64 start_timestamp = 17
 *
 * Receivers up to release candidate 3 of the specification read created_timestamp, later ones
 * start_timestamp; each ignores the other.
 */
#include "export/remote_form.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/pb_read.h"
#include "export/pb.h"

#define NONE UINT32_MAX

/* A buffer that grows. */
struct form_out {
	uint8_t *at;
	size_t bytes, room;
	bool failed;
};

/* Room for n bytes and the head of a field, or NULL; put_end() ends it. */
static uint8_t *put_begin(struct form_out *o, size_t n)
{
	if (o->failed || !base_grow(&o->at, &o->room, o->bytes + n + EXPORT_PB_FIELD, 1)) {
		o->failed = true;
		return NULL;
	}
	return o->at + o->bytes;
}

static void put_end(struct form_out *o, const uint8_t *end)
{
	o->bytes = (size_t)(end - o->at);
}

static void put_raw(struct form_out *o, const void *from, size_t n)
{
	uint8_t *p = put_begin(o, n);

	if (p && n)
		put_end(o, (uint8_t *)mempcpy(p, from, n));
}

static void put_field(struct form_out *o, unsigned int field, const void *from, size_t n)
{
	uint8_t *p = put_begin(o, n);

	if (p)
		put_end(o, export_pb_bytes(p, field, from ?: "", n));
}

static void put_u64(struct form_out *o, unsigned int field, uint64_t v)
{
	uint8_t *p = put_begin(o, 0);

	if (p)
		put_end(o, export_pb_u64(p, field, v));
}

static void put_f64(struct form_out *o, unsigned int field, double v)
{
	uint8_t *p = put_begin(o, 0);

	if (p)
		put_end(o, export_pb_f64(p, field, v));
}

/* The field as it stands, from `from` on. */
static void put_same(struct form_out *o, const uint8_t *from, const struct base_pb *after)
{
	put_raw(o, from, (size_t)(after->at - from));
}

/* ---- 1.0 ---- */

int export_remote_form_1(const void *queued, size_t bytes, void **body, size_t *body_bytes)
{
	struct base_pb p = {queued, (const uint8_t *)queued + bytes, false};
	struct form_out all = {0}, one = {0};
	struct base_pb_field f, inner;
	bool bad = false;

	while (base_pb_next(&p, &f)) {
		const uint8_t *from = f.data.at;

		if (f.number != 1 || f.wire != 2)
			continue;
		one.bytes = 0;
		for (; base_pb_next(&f.data, &inner); from = f.data.at)
			if (inner.number <= 4)
				put_same(&one, from, &f.data);
		bad = bad || f.data.bad;
		put_field(&all, 1, one.at, one.bytes);
	}
	all.failed = all.failed || one.failed;
	free(one.at);
	if (p.bad || bad || all.failed) {
		free(all.at);
		return all.failed ? -ENOMEM : -EINVAL;
	}
	*body = all.at;
	*body_bytes = all.bytes;
	return 0;
}

/* ---- 2.0: symbols ---- */

struct text {
	const uint8_t *at;
	size_t bytes;
};

/* Texts and their numbers. */
struct table {
	struct text *text;
	uint32_t *slot; /* number + 1; 0: free; twice as many as texts, at least */
	size_t texts, text_room, slots;
};

static bool same_text(const struct text *a, const struct text *b)
{
	return a->bytes == b->bytes && (!a->bytes || !memcmp(a->at, b->at, a->bytes));
}

static uint32_t *slot_of(const struct table *t, const struct text *x)
{
	size_t i = base_hash(0, x->at, x->bytes) & (t->slots - 1);

	while (t->slot[i] && !same_text(&t->text[t->slot[i] - 1], x))
		i = (i + 1) & (t->slots - 1);
	return &t->slot[i];
}

static bool table_grow(struct table *t)
{
	size_t slots = t->slots ? t->slots * 2 : 256;
	uint32_t *slot = calloc(slots, sizeof(*slot));

	if (!slot)
		return false;
	free(t->slot);
	t->slot = slot;
	t->slots = slots;
	for (size_t i = 0; i < t->texts; i++)
		*slot_of(t, &t->text[i]) = (uint32_t)i + 1;
	return true;
}

/* The number of a text, which stays where it is; a new one is the next. NONE: out of memory. */
static uint32_t number_of(struct table *t, struct text x)
{
	uint32_t *slot;

	if (t->texts * 2 >= t->slots && !table_grow(t))
		return NONE;
	slot = slot_of(t, &x);
	if (*slot)
		return *slot - 1;
	if (!BASE_GROW(t->text, t->texts, t->text_room))
		return NONE;
	t->text[t->texts++] = x;
	*slot = (uint32_t)t->texts;
	return *slot - 1;
}

static void table_free(struct table *t)
{
	free(t->text);
	free(t->slot);
}

/* ---- 2.0: what a request says of each series ---- */

struct form_series {
	struct text last, labels; /* labels: as queued */
	struct form_out samples, histograms, exemplars;
	uint64_t metadata, created;
	uint32_t sample_count, exemplar_count;
};

struct form {
	struct table symbols, names; /* names: labels of series */
	struct form_series *series;
	size_t series_room;
	struct text *metadata;
	size_t metadata_count, metadata_room;
	uint64_t items;
	bool bad, failed;
	struct form_out refs; /* scratch */
};

static void put_ref(struct form *m, struct form_out *o, struct text x)
{
	uint32_t n = number_of(&m->symbols, x);
	uint8_t *p = put_begin(o, 0);

	m->failed = m->failed || n == NONE || !p;
	if (p)
		put_end(o, export_pb_varint(p, n));
}

static struct text text_of(const struct base_pb_field *f)
{
	return (struct text){f->data.at, (size_t)(f->data.end - f->data.at)};
}

/* Appends the references of a label to m->refs. */
static void put_label(struct form *m, struct base_pb label)
{
	struct text part[2] = {{0}};
	struct base_pb_field f;

	while (base_pb_next(&label, &f))
		if (f.wire == 2 && f.number >= 1 && f.number <= 2)
			part[f.number - 1] = text_of(&f);
	m->bad = m->bad || label.bad;
	put_ref(m, &m->refs, part[0]);
	put_ref(m, &m->refs, part[1]);
}

/* The labels of a message (field 1) as references, in field 1 of o. */
static void put_labels(struct form *m, struct form_out *o, struct base_pb message)
{
	struct base_pb_field f;

	m->refs.bytes = 0;
	while (base_pb_next(&message, &f))
		if (f.number == 1 && f.wire == 2)
			put_label(m, f.data);
	m->bad = m->bad || message.bad;
	put_field(o, 1, m->refs.at, m->refs.bytes);
}

/* Adds message `one` as this field of o. */
static void put_message(struct form *m, struct form_out *o, unsigned int field,
			struct form_out *one)
{
	put_field(o, field, one->at, one->bytes);
	m->failed = m->failed || one->failed || o->failed;
	free(one->at);
}

/* A double and an int64: all of a sample, and of an exemplar but its labels. */
static bool read_point(struct base_pb p, unsigned int value_field, double *value, uint64_t *ms)
{
	struct base_pb_field f;

	*value = 0;
	*ms = 0;
	while (base_pb_next(&p, &f))
		if (f.number == value_field && f.wire == 1)
			*value = base_pb_f64(f.value);
		else if (f.number == value_field + 1 && !f.wire)
			*ms = f.value;
	return !p.bad;
}

static void add_sample(struct form *m, struct form_series *s, struct base_pb sample)
{
	struct form_out one = {0};
	double value;
	uint64_t ms;

	m->bad = !read_point(sample, 1, &value, &ms) || m->bad;
	put_f64(&one, 1, value);
	put_u64(&one, 2, ms);
	if (s->created && s->created <= ms)
		put_u64(&one, 3, s->created);
	put_message(m, &s->samples, 2, &one);
	s->sample_count++;
}

static void add_histogram(struct form *m, struct form_series *s, struct base_pb histogram)
{
	struct form_out one = {0};

	put_raw(&one, histogram.at, (size_t)(histogram.end - histogram.at));
	if (s->created)
		put_u64(&one, 17, s->created);
	put_message(m, &s->histograms, 3, &one);
	s->sample_count++;
}

static void add_exemplar(struct form *m, struct form_series *s, struct base_pb exemplar)
{
	struct form_out one = {0};
	double value;
	uint64_t ms;

	m->bad = !read_point(exemplar, 2, &value, &ms) || m->bad;
	put_labels(m, &one, exemplar);
	put_f64(&one, 2, value);
	put_u64(&one, 3, ms);
	put_message(m, &s->exemplars, 4, &one);
	s->exemplar_count++;
}

/* The series of a queued message, by its labels, which come first. NULL: out of memory. */
static struct form_series *find(struct form *m, struct base_pb message)
{
	struct text labels = {message.at, 0};
	struct base_pb_field f;
	size_t known = m->names.texts;
	uint32_t n;

	while (base_pb_next(&message, &f) && f.number == 1)
		labels.bytes = (size_t)(message.at - labels.at);
	n = number_of(&m->names, labels);
	if (n == NONE || !base_grow(&m->series, &m->series_room, n + 1ul, sizeof(*m->series))) {
		m->failed = true;
		return NULL;
	}
	if (n == known)
		m->series[n] = (struct form_series){.labels = labels};
	return &m->series[n];
}

static void add_series(struct form *m, struct base_pb message)
{
	struct form_series *s = find(m, message);
	struct base_pb p = message;
	struct base_pb_field f;

	if (!s)
		return;
	/* What samples need first, which is queued last. */
	while (base_pb_next(&p, &f))
		if (f.number == EXPORT_REMOTE_CREATED && !f.wire)
			s->created = f.value;
		else if (f.number == EXPORT_REMOTE_METADATA && !f.wire)
			s->metadata = f.value;
		else if (f.number == EXPORT_REMOTE_LAST && f.wire == 2)
			s->last = text_of(&f);
	m->bad = m->bad || p.bad;
	for (p = message; base_pb_next(&p, &f);)
		if (f.wire != 2)
			continue;
		else if (f.number == 2)
			add_sample(m, s, f.data);
		else if (f.number == 3)
			add_exemplar(m, s, f.data);
		else if (f.number == 4)
			add_histogram(m, s, f.data);
}

/* ---- 2.0: the request ---- */

static void put_metadata(struct form *m, struct form_out *o, struct text metadata)
{
	struct base_pb p = {metadata.at, metadata.at + metadata.bytes, false};
	struct base_pb_field f;
	struct form_out one = {0};

	while (base_pb_next(&p, &f))
		if (f.number == 1 && !f.wire)
			put_u64(&one, 1, f.value);
		else if ((f.number == 4 || f.number == 5) && f.wire == 2)
			put_u64(&one, f.number - 1, number_of(&m->symbols, text_of(&f)));
	m->bad = m->bad || p.bad;
	put_message(m, o, 5, &one);
}

static void put_series(struct form *m, struct form_out *all, struct form_series *s)
{
	struct base_pb labels = {s->labels.at, s->labels.at + s->labels.bytes, false};
	struct form_out one = {0};

	if (!s->sample_count && s->last.bytes)
		add_sample(m, s, (struct base_pb){s->last.at, s->last.at + s->last.bytes, false});
	if (!s->sample_count)
		return;
	put_labels(m, &one, labels);
	put_raw(&one, s->samples.at, s->samples.bytes);
	put_raw(&one, s->histograms.at, s->histograms.bytes);
	put_raw(&one, s->exemplars.at, s->exemplars.bytes);
	if (s->metadata && s->metadata <= m->metadata_count)
		put_metadata(m, &one, m->metadata[s->metadata - 1]);
	if (s->created)
		put_u64(&one, 6, s->created);
	put_message(m, all, 5, &one);
	m->items += s->sample_count + s->exemplar_count;
}

static void form_free(struct form *m)
{
	for (size_t i = 0; i < m->names.texts && i < m->series_room; i++) {
		free(m->series[i].samples.at);
		free(m->series[i].histograms.at);
		free(m->series[i].exemplars.at);
	}
	free(m->series);
	free(m->metadata);
	free(m->refs.at);
	table_free(&m->names);
	table_free(&m->symbols);
}

int export_remote_form_2(const void *queued, size_t bytes, void **body, size_t *body_bytes,
			 uint64_t *items)
{
	struct base_pb p = {queued, (const uint8_t *)queued + bytes, false};
	struct form_out series = {0}, all = {0};
	struct form m = {0};
	struct base_pb_field f;
	int err = 0;

	/* The first symbol is the empty one. */
	m.failed = number_of(&m.symbols, (struct text){queued, 0}) == NONE;
	while (!m.failed && base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == 2)
			add_series(&m, f.data);
		if (f.number != 3 || f.wire != 2)
			continue;
		m.failed = m.failed || !BASE_GROW(m.metadata, m.metadata_count, m.metadata_room);
		if (!m.failed)
			m.metadata[m.metadata_count++] = text_of(&f);
	}
	for (size_t i = 0; i < m.names.texts && !m.failed; i++)
		put_series(&m, &series, &m.series[i]);
	for (size_t i = 0; i < m.symbols.texts; i++)
		put_field(&all, 4, m.symbols.text[i].at, m.symbols.text[i].bytes);
	put_raw(&all, series.at, series.bytes);
	if (p.bad || m.bad)
		err = -EINVAL;
	if (m.failed || all.failed || series.failed)
		err = -ENOMEM;
	free(series.at);
	*items = m.items;
	form_free(&m);
	if (err) {
		free(all.at);
		return err;
	}
	*body = all.at;
	*body_bytes = all.bytes;
	return 0;
}
