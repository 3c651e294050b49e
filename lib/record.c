// SPDX-License-Identifier: Apache-2.0
/* record.c - builds the schema record of a metric: checks its options and encodes it. */
#include <errno.h>
#include <stdlib.h>

#include "metric.h"

/* Lengths of replaceable records are multiples of this, so that a freed record fits others. */
#define REPLACEABLE_UNIT 64u

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

static int shape_summary(const struct sl_metric_opts *o, struct sl__shape *shape)
{
	if (o->quantile_count > SL_QUANTILES_MAX || (o->quantile_count && !o->quantiles))
		return SL__REFUSED_SHAPE;
	for (size_t i = 0; i < o->quantile_count; i++)
		if (!(o->quantiles[i] >= 0 && o->quantiles[i] <= 1) ||
		    (i && !(o->quantiles[i] > o->quantiles[i - 1])))
			return SL__REFUSED_SHAPE;
	shape->bounds = o->quantiles;
	shape->bound_count = (uint32_t)o->quantile_count;
	shape->cells = SL_SUMMARY_QUANTILES + shape->bound_count;
	return 0;
}

static int shape_of(uint32_t kind, const struct sl_metric_opts *o, struct sl__shape *shape)
{
	shape->cells = !sl__is_string(kind) && kind != SL_KIND_INFO;
	switch (kind) {
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_GAUGE_HISTOGRAM_EXP:
		return sl__shape_exponential(o, shape);
	case SL_KIND_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM:
		return sl__shape_classic(o, shape);
	case SL_KIND_SUMMARY:
		return shape_summary(o, shape);
	case SL_KIND_GAUGE_TIMED:
		shape->cells = 2;
		return 0;
	case SL_KIND_STATESET:
		return shape_stateset(o, shape);
	default:
		return 0;
	}
}

/* Computes the flags of a record. Returns false if the kind does not support this combination. */
static bool flags_of(uint32_t kind, const struct sl_metric_opts *o, uint16_t *flags)
{
	uint32_t combine = (uint32_t)o->combine;

	if (kind == SL_KIND_GAUGE_TIMED && !combine)
		combine = SL_COMBINE_MOST_RECENT;
	if (combine > SL_COMBINE_ALL ||
	    (combine == SL_COMBINE_MOST_RECENT && kind != SL_KIND_GAUGE_TIMED))
		return false;
	*flags = (uint16_t)(combine | (o->live ? SL_FLAG_LIVE : 0) |
			    (o->mirror ? SL_FLAG_MIRROR : 0));
	return true;
}

/* ---- records ---- */

static struct sl__metric *metric_alloc(size_t record_bytes, size_t *length)
{
	*length = (record_bytes + 7) & ~(size_t)7;
	return calloc(1, offsetof(struct sl__metric, record) + *length);
}

/* Creates the model of a checked metric. Returns NULL if out of memory. */
static struct sl__metric *model_make(uint32_t kind, const struct sl_metric_opts *o,
				     const struct sl__shape *shape, size_t unit, size_t help,
				     uint16_t flags)
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
		.flags = flags,
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
	m->created = o->created_ns;
	m->utf8 = o->utf8;
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
	uint16_t flags;
	int refusal;

	if (!SL__HAS(opts, name) || !sl__opts_take(o, sizeof(*o), opts))
		return SL__REFUSED_OPTS;
	if (sl__is_string(kind) && !p->regions->span_lines)
		return SL__REFUSED_SPANS;
	/* No colons in a state set's name: the exposition also uses the name as a label. */
	if (sl__is_string(kind) || o->utf8
		    ? !o->name || !*o->name || !sl__utf8(o->name, SL_NAME_MAX, &unused)
		    : !sl__name_valid(o->name, kind != SL_KIND_STATESET))
		return SL__REFUSED_NAME;
	if (kind == SL_KIND_STATESET && strchr(o->name, ':'))
		return SL__REFUSED_NAME;
	if (!flags_of(kind, o, &flags))
		return SL__REFUSED_FLAGS;
	if ((o->help && !sl__utf8(o->help, SL_HELP_MAX, &help)) ||
	    (o->unit && !sl__unit_valid(o->unit, &unit)))
		return SL__REFUSED_TEXT;
	refusal = shape_of(kind, o, &shape);
	if (refusal)
		return refusal;
	*model = model_make(kind, o, &shape, unit, help, flags);
	return *model ? 0 : SL__REFUSED_MEMORY;
}

int sl__metric_of(const struct sl__metric *model, const struct sl_label *labels, size_t count,
		  bool family, struct sl__metric **metric)
{
	const bool replaceable = family || model->utf8;
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
				  : r->kind == SL_KIND_SUMMARY	? "quantile"
				  : r->kind == SL_KIND_STATESET ? name
								: NULL,
				  model->utf8, &encoded, &bytes);
	if (error)
		return error == -ENOMEM ? SL__REFUSED_MEMORY : SL__REFUSED_LABEL;
	length = head + bytes + r->state_bytes;
	if (replaceable)
		length = (length + REPLACEABLE_UNIT - 1) & ~(REPLACEABLE_UNIT - 1);
	m = metric_alloc(length, &length);
	if (m) {
		m->created = model->created;
		memcpy(sl__metric_text(m, 0), sl__metric_text(model, 0), head);
		memcpy(mempcpy(sl__metric_text(m, head), encoded, bytes),
		       sl__metric_text(model, head), r->state_bytes);
		m->name_at = model->name_at;
		m->labels_at = head;
		m->record.length = (uint32_t)length;
		m->record.label_bytes = (uint16_t)bytes;
		if (replaceable)
			m->record.kind |= SL_KIND_REPLACEABLE;
		m->hash = sl_fnv1a(SL_FNV_BASIS, name, r->name_bytes + 1u);
		m->hash = sl_fnv1a(m->hash, encoded, bytes);
	}
	free(encoded);
	*metric = m;
	return m ? 0 : SL__REFUSED_MEMORY;
}
