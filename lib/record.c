// SPDX-License-Identifier: Apache-2.0
/* record.c - the schema record of a metric: checks of its options, encoding. */
#include <errno.h>
#include <stdlib.h>

#include "metric.h"

/* ---- shapes ---- */

static int shape_stateset(const struct sl_metric_opts *o, struct sl__shape *shape)
{
	if (!o->state_count || o->state_count > SL_STATES_MAX || !o->states)
		return SL__REFUSED_SHAPE;
	for (size_t i = 0; i < o->state_count; i++) {
		size_t n;

		if (!o->states[i] || !*o->states[i] || !sl__utf8(o->states[i], SL_NAME_MAX, &n))
			return SL__REFUSED_TEXT;
		for (size_t k = 0; k < i; k++)
			if (!strcmp(o->states[k], o->states[i]))
				return SL__REFUSED_SHAPE;
		shape->state_bytes += (uint32_t)n + 1;
	}
	shape->states = o->states;
	shape->state_count = (uint32_t)o->state_count;
	return 0;
}

static int shape_of(uint32_t kind, const struct sl_metric_opts *o, struct sl__shape *shape)
{
	shape->cells = !sl__is_string(kind) && kind != SL_KIND_INFO;
	switch (kind) {
	case SL_KIND_HISTOGRAM_EXP:
		return sl__shape_exponential(o, shape);
	case SL_KIND_HISTOGRAM:
		return sl__shape_classic(o, shape);
	case SL_KIND_STATESET:
		return shape_stateset(o, shape);
	default:
		return 0;
	}
}

/* ---- records ---- */

static struct sl__metric *metric_alloc(size_t record_bytes, size_t *length)
{
	*length = (record_bytes + 7) & ~(size_t)7;
	return calloc(1, offsetof(struct sl__metric, record) + *length);
}

/* The model of a checked metric; NULL: no memory. */
static struct sl__metric *model_make(uint32_t kind, const struct sl_metric_opts *o,
				     const struct sl__shape *shape, size_t unit, size_t help)
{
	size_t name = strlen(o->name), bounds = shape->bound_count * sizeof(double), length;
	struct sl__metric *m = metric_alloc(sizeof(struct sl_schema_record) + bounds + name + unit +
						    help + shape->state_bytes,
					    &length);
	uint8_t *to;

	if (!m)
		return NULL;
	m->record = (struct sl_schema_record){
		.kind = (uint16_t)kind,
		.cells = shape->cells,
		.name_bytes = (uint16_t)name,
		.unit_bytes = (uint16_t)unit,
		.help_bytes = (uint16_t)help,
		.state_bytes = (uint16_t)shape->state_bytes,
		.bound_count = (uint16_t)shape->bound_count,
		.scale = (int16_t)shape->scale,
		.state_count = (uint16_t)shape->state_count,
		.first_bucket = shape->first_bucket,
		.zero_threshold = shape->zero_threshold,
	};
	m->name_at = (uint32_t)(sizeof(m->record) + bounds);
	m->labels_at = (uint32_t)(m->name_at + name + unit + help);
	to = sl__metric_text(m, sizeof(m->record));
	if (bounds)
		memcpy(to, shape->bounds, bounds);
	to = mempcpy(to + bounds, o->name, name);
	if (unit)
		to = mempcpy(to, o->unit, unit);
	if (help)
		to = mempcpy(to, o->help, help);
	for (uint32_t i = 0; i < shape->state_count; i++)
		to = (uint8_t *)stpcpy((char *)to, shape->states[i]) + 1;
	return m;
}

int sl__model_of(const struct sl_publisher *p, uint32_t kind, const struct sl_metric_opts *opts,
		 struct sl_metric_opts *o, struct sl__metric **model)
{
	struct sl__shape shape = {0};
	size_t unit = 0, help = 0, unused;
	int refusal;

	if (!SL__HAS(opts, name) || !sl__opts_take(o, sizeof(*o), opts))
		return SL__REFUSED_OPTS;
	if (sl__is_string(kind) && !p->span_lines)
		return SL__REFUSED_SPANS;
	/* The exposition names a label after a state set: no colons. */
	if (sl__is_string(kind) ? !o->name || !*o->name || !sl__utf8(o->name, SL_NAME_MAX, &unused)
				: !sl__name_valid(o->name, kind != SL_KIND_STATESET))
		return SL__REFUSED_NAME;
	if ((o->help && !sl__utf8(o->help, SL_HELP_MAX, &help)) ||
	    (o->unit && !sl__unit_valid(o->unit, &unit)))
		return SL__REFUSED_TEXT;
	refusal = shape_of(kind, o, &shape);
	if (refusal)
		return refusal;
	*model = model_make(kind, o, &shape, unit, help);
	return *model ? 0 : SL__REFUSED_MEMORY;
}

int sl__metric_of(const struct sl__metric *model, const struct sl_label *labels, size_t count,
		  struct sl__metric **metric)
{
	const struct sl_schema_record *r = &model->record;
	char name[SL_NAME_MAX + 1] = "";
	uint32_t bytes, head = model->labels_at;
	struct sl__metric *m;
	uint8_t *encoded;
	size_t length;
	int error;

	memcpy(name, sl__metric_name(model), r->name_bytes);
	error = sl__labels_encode(labels, count,
				  sl__is_histogram(r->kind)	? "le"
				  : r->kind == SL_KIND_STATESET ? name
								: NULL,
				  &encoded, &bytes);
	if (error)
		return error == -ENOMEM ? SL__REFUSED_MEMORY : SL__REFUSED_LABEL;
	m = metric_alloc(head + bytes + r->state_bytes, &length);
	if (m) {
		memcpy(sl__metric_text(m, 0), sl__metric_text(model, 0), head);
		memcpy(mempcpy(sl__metric_text(m, head), encoded, bytes),
		       sl__metric_text(model, head), r->state_bytes);
		m->name_at = model->name_at;
		m->labels_at = head;
		m->record.length = (uint32_t)length;
		m->record.label_bytes = (uint16_t)bytes;
		m->hash = sl_fnv1a(SL_FNV_BASIS, name, r->name_bytes + 1u);
		m->hash = sl_fnv1a(m->hash, encoded, bytes);
	}
	free(encoded);
	*metric = m;
	return m ? 0 : SL__REFUSED_MEMORY;
}
