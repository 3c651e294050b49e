// SPDX-License-Identifier: Apache-2.0
/*
 * otlp.c - decodes the points of opentelemetry/proto/metrics/v1/metrics.proto, which defines the
 * field numbers used here.
 */
#include "bridge/otlp_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/region.h>

#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/text.h"

#define BUCKETS_MAX	  4096u /* maximum number of buckets, and of exemplars, per point */
#define NO_VALUE	  1u	/* point flag DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK */

#define TARGET_LABELS_MAX SL_LABELS_MAX

enum temporality { UNSPECIFIED, DELTA, CUMULATIVE };

struct bridge_otlp {
	struct bridge_otlp_opts opts;
	struct bridge_otlp_counts *counts;
	bridge_otlp_resource *resource;
	void *arg;
	/* the resource's sink; NULL if the resource is refused or this is only a check */
	struct bridge_sink *sink;
	struct base_table *names; /* the target's names; NULL if it has none */
	bool check;		  /* the body is only checked; no points are taken */
	/* number of further messages allowed; deadline of the check */
	struct base_budget messages;
	uint32_t resources;

	struct bridge_otlp_labels l;
	/* labels shared by all points of a resource, of a scope, and of a metric */
	struct bridge_otlp_mark of_resource, of_scope, of_metric;
	struct bridge_label labels[OTLP_LABELS_MAX];
	size_t label_count;
	enum bridge_type type; /* type of the current metric */
	double *values, *bounds;
	size_t value_count, value_room, bound_count, bound_room;
	uint64_t *buckets;
	size_t bucket_count, bucket_room;
	/* .labels is set after all exemplars have been read. All have the same number of labels. */
	struct bridge_exemplar *exemplars;
	size_t exemplar_count, exemplar_room, exemplar_text;
	struct bridge_label *exemplar_labels;
	size_t exemplar_label_count, exemplar_label_room;
};

struct bridge_otlp *bridge_otlp_new(const struct bridge_otlp_opts *opts)
{
	struct bridge_otlp *o = calloc(1, sizeof(*o));

	if (o && opts)
		o->opts = *opts;
	if (o)
		o->l.utf8 = o->opts.utf8;
	return o;
}

void bridge_otlp_free(struct bridge_otlp *o)
{
	if (!o)
		return;
	free(o->values);
	free(o->bounds);
	free(o->buckets);
	free(o->exemplars);
	free(o->exemplar_labels);
	free(o);
}

/* ---- limits ---- */

const char *const bridge_otlp_costs[OTLP_COSTS] = {
	[OTLP_COST_NONE] = "none",	   [OTLP_COST_RESOURCES] = "resources",
	[OTLP_COST_MESSAGES] = "messages", [OTLP_COST_VALUES] = "values",
	[OTLP_COST_TIME] = "time",
};

const struct bridge_otlp_cause_text bridge_otlp_causes[OTLP_CAUSES] = {
	[OTLP_TEMPORALITY] = {"temporality", "the metric has no aggregation temporality"},
	[OTLP_VALUE] = {"value", "the point has no value"},
	[OTLP_NAME] = {"name", "the metric has no name, or there is no room for more names"},
	[OTLP_BUCKETS] = {"buckets",
			  "bounds or quantiles are not ascending, or do not match the counts"},
	[OTLP_LABELS] = {"labels", "too many attributes, or attributes that are too long"},
	[OTLP_SERVICES] = {"services", "there is no room for another service"},
	[OTLP_REGIONS] = {"regions", "the bridges of this host have no region for another service"},
	[OTLP_DUPLICATE] = {"duplicate",
			    "the same point, or a later delta of its series, was received before"},
	[OTLP_NEGATIVE] = {"negative", "negative observations of a histogram are not published"},
	[OTLP_UNPUBLISHABLE] = {"unpublishable",
				"a name or value is too long or not UTF-8, or the name has another "
				"type"},
	[OTLP_FULL] = {"full", "there is no room for another series"},
	[OTLP_IDS] = {"ids", "the trace ID or span ID is missing or malformed"},
	[OTLP_TIMES] = {"times", "the span has no start or ends before it"},
};

static bool set_cost(struct bridge_otlp *o, enum bridge_otlp_cost cost)
{
	o->counts->cost = cost;
	return false;
}

bool bridge_otlp_message(struct bridge_otlp *o, bool resource)
{
	o->resources += resource;
	if (o->resources > BRIDGE_OTLP_RESOURCES)
		return set_cost(o, OTLP_COST_RESOURCES);
	return base_budget_spend(&o->messages, 1) ||
	       set_cost(o, o->messages.err == -ETIMEDOUT ? OTLP_COST_TIME : OTLP_COST_MESSAGES);
}

/* Returns 0, or -E2BIG with an error if a limit was exceeded. */
static int explain_cost(const struct bridge_otlp *o, struct bridge_error *error)
{
	switch (o->counts->cost) {
	case OTLP_COST_NONE:
		return 0;
	case OTLP_COST_TIME:
		return bridge_fail(error, -E2BIG, 0, "validating the body took longer than %u s",
				   (unsigned int)(BRIDGE_OTLP_NS / 1000000000u));
	default:
		return bridge_fail(error, -E2BIG, 0,
				   "too many %s: at most %u are allowed per request; send smaller "
				   "batches",
				   bridge_otlp_costs[o->counts->cost],
				   o->counts->cost == OTLP_COST_RESOURCES ? BRIDGE_OTLP_RESOURCES
									  : BRIDGE_OTLP_MESSAGES);
	}
}

/* Reads each resource of a body. end_ns: when to give up. Returns false if it is malformed. */
static bool read_resources(struct bridge_otlp *o, const void *body, size_t bytes, uint64_t end_ns,
			   bridge_otlp_take *take, void *arg, bool check)
{
	struct base_pb p = {body, (const uint8_t *)body + bytes, false};
	struct base_pb_field f;
	bool good = true;

	o->resources = 0;
	o->messages = (struct base_budget){.end_ns = end_ns, .samples = BRIDGE_OTLP_MESSAGES};
	while (good && base_pb_next(&p, &f))
		if (f.number == 1 && f.wire == 2)
			good = take(arg, f.data, check);
	return good && !p.bad;
}

int bridge_otlp_read_twice(struct bridge_otlp *o, const void *body, size_t bytes, bool json,
			   enum bridge_otlp_signal signal, bridge_otlp_take *take, void *arg,
			   struct bridge_otlp_counts *counts, struct bridge_error *error)
{
	const uint64_t end_ns = base_now_ns() + BRIDGE_OTLP_NS;
	uint8_t *made = NULL;
	int err = 0;

	o->counts = counts;
	if (json && !bridge_otlp_json_short(body, bytes)) {
		set_cost(o, OTLP_COST_VALUES);
		return explain_cost(o, error);
	}
	if (json) {
		body = made = bridge_otlp_of_json(body, bytes, signal, &bytes, error);
		if (!made)
			return -EINVAL;
	}
	if (!read_resources(o, body, bytes, end_ns, take, arg, true)) {
		err = explain_cost(o, error);
		if (!err && signal == OTLP_TRACES)
			err = bridge_fail(error, -EINVAL, 0, "malformed protobuf");
		else if (!err)
			err = bridge_fail(error, -EINVAL, 0,
					  "malformed protobuf, or more than %u buckets",
					  BUCKETS_MAX);
	}
	if (!err)
		read_resources(o, body, bytes, UINT64_MAX, take, arg, false);
	free(made);
	return err;
}

/* ---- numbers ---- */

static bool put_f64(double **v, size_t *count, size_t *room, double x)
{
	if (*count > BUCKETS_MAX + BRIDGE_BUCKETS || !BASE_GROW(*v, *count, *room))
		return false;
	(*v)[(*count)++] = x;
	return true;
}

static bool put_bucket(struct bridge_otlp *o, uint64_t n)
{
	if (o->bucket_count > BUCKETS_MAX ||
	    !BASE_GROW(o->buckets, o->bucket_count, o->bucket_room))
		return false;
	o->buckets[o->bucket_count++] = n;
	return true;
}

/* Decodes a repeated 8-byte field, packed or not. */
static bool fixed_list(struct bridge_otlp *o, struct base_pb_field *f, bool bounds)
{
	struct base_pb p = f->wire == 2 ? f->data : (struct base_pb){0};
	bool more = f->wire == 1;
	uint64_t v = f->value;

	while (more || p.at < p.end) {
		if (!more)
			v = base_pb_fixed(&p, 8);
		more = false;
		if (p.bad ||
		    !(bounds ? put_f64(&o->bounds, &o->bound_count, &o->bound_room, base_pb_f64(v))
			     : put_bucket(o, v)))
			return false;
	}
	return true;
}

/* Decodes the buckets of an exponential histogram: offset and counts. */
static bool exponential_buckets(struct bridge_otlp *o, struct base_pb p, int64_t *offset)
{
	struct base_pb_field f;

	while (base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == 0) {
			*offset = base_pb_zigzag(f.value);
		} else if (f.number == 2 && f.wire == 0) {
			p.bad |= !put_bucket(o, f.value);
		} else if (f.number == 2 && f.wire == 2) {
			while (f.data.at < f.data.end && !p.bad) {
				uint64_t n = base_pb_varint(&f.data);

				p.bad |= f.data.bad || !put_bucket(o, n);
			}
		}
	}
	return !p.bad && *offset >= INT32_MIN && *offset <= INT32_MAX;
}

/* ---- points ---- */

/* Field numbers of a point, which differ between kinds of points. */
struct kind {
	uint32_t message; /* field number in Metric */
	/* field numbers in a point; 0 means that it has no such field */
	uint32_t attributes, start, flags, exemplars;
};
#define POINT_TIME 3 /* field number of time_unix_nano, the same in all types of points */
static const struct kind kinds[] = {
	{5, 7, 2, 8, 5},    /* gauge */
	{7, 7, 2, 8, 5},    /* sum */
	{9, 9, 2, 10, 8},   /* histogram */
	{10, 1, 2, 10, 11}, /* exponential histogram */
	{11, 7, 2, 8, 0},   /* summary */
};
enum { GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY };

struct parsed {
	double value, sum, zero_threshold;
	uint64_t count, zero_count, flags, start_ns, time_ns, negative;
	int64_t scale, offset;
	bool valued;
};

static bool summary_quantile(struct bridge_otlp *o, struct base_pb p)
{
	struct base_pb_field f;
	double rank = 0, value = 0;

	if (!bridge_otlp_message(o, false))
		return false;
	while (base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == 1)
			rank = base_pb_f64(f.value);
		else if (f.number == 2 && f.wire == 1)
			value = base_pb_f64(f.value);
	}
	return !p.bad && put_f64(&o->bounds, &o->bound_count, &o->bound_room, rank) &&
	       put_f64(&o->values, &o->value_count, &o->value_room, value);
}

/* Decodes a field that depends on the kind of point. Returns false if it is malformed. */
static bool take_field(struct bridge_otlp *o, int kind, struct base_pb_field *f, struct parsed *t)
{
	int64_t unused = 0;
	size_t before;

	if (kind == GAUGE || kind == SUM) {
		if (f->number == 4 && f->wire == 1)
			t->value = base_pb_f64(f->value);
		else if (f->number == 6 && f->wire == 1)
			t->value = (double)(int64_t)f->value;
		else
			return true;
		t->valued = true;
		return true;
	}
	t->valued = true;
	if (f->number == 4 && f->wire == 1)
		t->count = f->value;
	else if (f->number == 5 && f->wire == 1)
		t->sum = base_pb_f64(f->value);
	else if (kind == HISTOGRAM && f->number == 6)
		return fixed_list(o, f, false);
	else if (kind == HISTOGRAM && f->number == 7)
		return fixed_list(o, f, true);
	else if (kind == SUMMARY && f->number == 6 && f->wire == 2)
		return summary_quantile(o, f->data);
	else if (kind != EXPONENTIAL)
		return true;
	else if (f->number == 6 && f->wire == 0)
		t->scale = base_pb_zigzag(f->value);
	else if (f->number == 7 && f->wire == 1)
		t->zero_count = f->value;
	else if (f->number == 14 && f->wire == 1)
		t->zero_threshold = base_pb_f64(f->value);
	else if (f->number == 8 && f->wire == 2)
		return exponential_buckets(o, f->data, &t->offset);
	else if (f->number == 9 && f->wire == 2) {
		before = o->bucket_count;
		if (!exponential_buckets(o, f->data, &unused))
			return false;
		while (o->bucket_count > before)
			t->negative += o->buckets[--o->bucket_count];
	}
	return true;
}

/* Converts buckets to the sink's values. Returns false if the buckets are malformed. */
static bool histogram_values(struct bridge_otlp *o, const struct parsed *t)
{
	double sum = 0;
	bool good = o->bucket_count == o->bound_count + 1 ||
		    (!o->bucket_count && !o->bound_count && put_bucket(o, t->count));

	for (size_t i = 1; i < o->bound_count; i++)
		good &= o->bounds[i] > o->bounds[i - 1];
	good = good && put_f64(&o->values, &o->value_count, &o->value_room, t->sum) &&
	       put_f64(&o->values, &o->value_count, &o->value_room, (double)t->count);
	for (size_t i = 0; i < o->bucket_count && good; i++) {
		sum += (double)o->buckets[i];
		good = put_f64(&o->values, &o->value_count, &o->value_room, sum);
	}
	return good;
}

/* Ranks must be ascending, without duplicates. Puts sum and count before the values. */
static bool summary_values(struct bridge_otlp *o, const struct parsed *t)
{
	for (size_t i = 0; i < o->bound_count; i++)
		if (!(o->bounds[i] >= 0 && o->bounds[i] <= 1) ||
		    (i && !(o->bounds[i] > o->bounds[i - 1])))
			return false;
	if (!base_grow(&o->values, &o->value_room, o->value_count + 2, sizeof(*o->values)))
		return false;
	memmove(o->values + 2, o->values, o->value_count * sizeof(*o->values));
	o->values[BRIDGE_SUM] = t->sum;
	o->values[BRIDGE_COUNT] = (double)t->count;
	o->value_count += 2;
	return true;
}

/* ---- exemplars ---- */

/* Converts an ID of at most 16 bytes to hexadecimal. */
static struct bridge_text hex_id(struct bridge_otlp *o, struct bridge_text id)
{
	char text[33];

	base_hex(text, id.s, id.n);
	return bridge_otlp_keep(&o->l, (struct bridge_text){text, 2 * id.n});
}

static bool exemplar_label(struct bridge_otlp *o, struct bridge_exemplar *e, struct bridge_label l)
{
	if (!l.key.n || !l.value.n || e->label_count >= OTLP_LABELS_MAX)
		return true;
	if (!BASE_GROW(o->exemplar_labels, o->exemplar_label_count, o->exemplar_label_room))
		return false;
	o->exemplar_labels[o->exemplar_label_count++] = l;
	e->label_count++;
	return true;
}

/*
 * Decodes an exemplar: its filtered attributes and its span and trace IDs. Returns false if it is
 * malformed.
 */
static bool take_exemplar(struct bridge_otlp *o, struct base_pb p)
{
	struct bridge_exemplar e = {0};
	struct base_pb_field f;
	struct bridge_label l;
	bool good = bridge_otlp_message(o, false);

	while (good && base_pb_next(&p, &f)) {
		l = (struct bridge_label){BRIDGE_TEXT(""), BRIDGE_TEXT("")};
		if (f.number == 2 && f.wire == 1) {
			e.time_ns = f.value;
		} else if (f.number == 3 && f.wire == 1) {
			e.value = base_pb_f64(f.value);
		} else if (f.number == 6 && f.wire == 1) {
			e.value = (double)(int64_t)f.value;
		} else if (f.number == 4 && f.wire == 2 && f.data.end - f.data.at == 8) {
			l = (struct bridge_label){BRIDGE_TEXT("span_id"),
						  hex_id(o, bridge_text_of(f.data))};
		} else if (f.number == 5 && f.wire == 2 && f.data.end - f.data.at == 16) {
			l = (struct bridge_label){BRIDGE_TEXT("trace_id"),
						  hex_id(o, bridge_text_of(f.data))};
		} else if (f.number == 7 && f.wire == 2) {
			good = bridge_otlp_key_value(o, &o->l, f.data, &l.key, &l.value);
			l.key = good ? bridge_otlp_label_name(&o->l, l.key) : l.key;
		}
		good = good && exemplar_label(o, &e, l);
	}
	if (!good || p.bad || !BASE_GROW(o->exemplars, o->exemplar_count, o->exemplar_room))
		return false;
	o->exemplars[o->exemplar_count++] = e;
	return true;
}

/* Limits the number and size of exemplars, so that there is room for the point's own labels. */
static bool add_exemplar(struct bridge_otlp *o, struct base_pb p)
{
	const size_t text = o->l.used, labels = o->exemplar_label_count;
	const bool too_much = o->l.too_much;

	if (o->exemplar_count < BUCKETS_MAX) {
		o->l.too_much = false;
		if (!take_exemplar(o, p))
			return false;
		o->exemplar_text += o->l.used - text;
		if (!o->l.too_much && o->exemplar_text <= OTLP_TEXT_BYTES / 2) {
			o->l.too_much = too_much;
			return true;
		}
		o->exemplar_text -= o->l.used - text;
		o->l.too_much = too_much;
		o->l.used = text;
		o->exemplar_label_count = labels;
		o->exemplar_count--;
	}
	o->counts->exemplars_left_out += !o->check;
	return true;
}

/* Returns the index of the first bound that is not below the value. */
static uint32_t bucket_of(const struct bridge_point *p, double value)
{
	size_t at;

	BASE_LOWER_BOUND(at, 0, p->bound_count, value > p->bounds[at]);
	return (uint32_t)at;
}

/* Sets the labels of each exemplar and, for a classic histogram, its bucket. */
static void set_exemplars(struct bridge_otlp *o, struct bridge_point *p)
{
	const struct bridge_label *l = o->exemplar_labels;

	/* A histogram without bounds becomes a summary. */
	if (o->type != BRIDGE_COUNTER &&
	    (o->type != BRIDGE_HISTOGRAM || (!p->exponential && !p->bound_count))) {
		o->counts->exemplars_left_out += o->exemplar_count;
		return;
	}
	for (size_t i = 0; i < o->exemplar_count; i++) {
		struct bridge_exemplar *e = &o->exemplars[i];

		e->labels = l;
		if (e->label_count) /* without labels, the array may not exist */
			l += e->label_count;
		e->bucket = BRIDGE_BUCKETS + bucket_of(p, e->value);
	}
	p->exemplars = o->exemplars;
	p->exemplar_count = o->exemplar_count;
}

/* Returns the cause of a refusal, or OTLP_CAUSES. */
static enum bridge_otlp_cause send_point(struct bridge_otlp *o, int kind, const struct parsed *t,
					 bool delta)
{
	struct bridge_exponential e;
	struct bridge_point p = {.labels = o->labels,
				 .label_count = o->label_count,
				 .created_ns = kind == GAUGE || delta ? 0 : t->start_ns,
				 .time_ns = t->time_ns,
				 .delta = delta};
	bool good = true;

	if (kind == GAUGE || kind == SUM)
		good = put_f64(&o->values, &o->value_count, &o->value_room, t->value);
	else if (kind == HISTOGRAM)
		good = histogram_values(o, t);
	else if (kind == SUMMARY)
		good = summary_values(o, t);
	if (kind == EXPONENTIAL) {
		good = t->scale >= -10 && t->scale <= 20 && t->offset > INT32_MIN / 2 &&
		       t->offset < INT32_MAX / 2;
		good = good && put_f64(&o->values, &o->value_count, &o->value_room, t->sum) &&
		       put_f64(&o->values, &o->value_count, &o->value_room, (double)t->count);
		/*
		 * The bucket that starts at base^i has index i in OpenTelemetry and i + 1 in a
		 * region.
		 */
		e = (struct bridge_exponential){
			(int)t->scale, t->zero_threshold, t->zero_count, (int32_t)t->offset + 1,
			o->buckets,    o->bucket_count,	  t->negative};
		p.exponential = &e;
	}
	if (!good)
		return OTLP_BUCKETS;
	p.values = o->values;
	p.value_count = o->value_count;
	p.bounds = o->bounds;
	p.bound_count = kind == HISTOGRAM || kind == SUMMARY ? o->bound_count : 0;
	set_exemplars(o, &p);
	return o->sink->point(o->sink, &p) ? OTLP_CAUSES : OTLP_FULL;
}

/* Returns the cause of a refusal, or OTLP_CAUSES. */
static enum bridge_otlp_cause take_point(struct bridge_otlp *o, int kind, const struct parsed *t,
					 bool delta)
{
	o->label_count = bridge_otlp_join(&o->l, o->labels);
	return o->l.too_much ? OTLP_LABELS
	       : !t->valued  ? OTLP_VALUE
	       : !o->sink    ? o->counts->unserved
			     : send_point(o, kind, t, delta);
}

/*
 * Decodes a point. wrong: the reason why all of the metric's points are refused. Returns false if
 * the point is malformed.
 */
static bool read_point(struct bridge_otlp *o, int kind, struct base_pb p, bool delta,
		       enum bridge_otlp_cause wrong)
{
	const struct kind *k = &kinds[kind];
	struct parsed t = {.sum = NAN};
	struct bridge_label l;
	struct base_pb_field f;
	bool good = bridge_otlp_message(o, false);

	o->value_count = o->bound_count = o->bucket_count = 0;
	o->exemplar_count = o->exemplar_label_count = o->exemplar_text = 0;
	bridge_otlp_return(&o->l, &o->of_metric);
	while (good && base_pb_next(&p, &f)) {
		if (f.number == k->attributes && f.wire == 2) {
			good = bridge_otlp_key_value(o, &o->l, f.data, &l.key, &l.value);
			bridge_otlp_add_label(&o->l, "", l.key, l.value);
		} else if (f.number == k->start && f.wire == 1)
			t.start_ns = f.value;
		else if (f.number == POINT_TIME && f.wire == 1)
			t.time_ns = f.value;
		else if (f.number == k->flags && (f.wire == 0 || f.wire == 5))
			t.flags = f.value;
		else if (k->exemplars && f.number == k->exemplars && f.wire == 2)
			good = add_exemplar(o, f.data);
		else
			good = take_field(o, kind, &f, &t);
	}
	if (!good || p.bad)
		return false;
	if (o->check || t.flags & NO_VALUE)
		return true;
	if (wrong == OTLP_CAUSES)
		wrong = take_point(o, kind, &t, delta);
	if (wrong == OTLP_CAUSES)
		o->counts->points++;
	else
		o->counts->refused[wrong]++;
	return true;
}

/* ---- metrics ---- */

/*
 * Gives the metric the name under which it is published. If another metric of the target has that
 * name already, adds a label with the original name to the points. Returns the cause of a refusal,
 * or OTLP_CAUSES.
 */
static enum bridge_otlp_cause announce(struct bridge_otlp *o, const struct bridge_family *f)
{
	struct bridge_family named = *f;
	bool full = false;

	named.type = o->type;
	named.name = bridge_otlp_metric_name(&o->l, f->name, &named.unit, o->type);
	if (o->l.too_much)
		return OTLP_LABELS;
	if (!named.name.n)
		return OTLP_NAME;
	if (o->check || !o->sink)
		return OTLP_CAUSES;
	if (o->names && !bridge_otlp_names_own(o->names, named.name, f->name, &full))
		bridge_otlp_add_label(&o->l, "", BRIDGE_TEXT("otel_metric_name"), f->name);
	if (full)
		return OTLP_NAME;
	return o->sink->family(o->sink, &named) ? OTLP_CAUSES : OTLP_FULL;
}

/*
 * Temporality and monotonicity follow the points, so read them first. Returns false if malformed.
 */
static bool read_points(struct bridge_otlp *o, int kind, const struct bridge_family *family,
			struct base_pb p)
{
	struct base_pb_field f;
	uint64_t temporality = UNSPECIFIED;
	struct base_pb again = p;
	bool monotonic = false, good = bridge_otlp_message(o, false);
	enum bridge_otlp_cause wrong;

	while (base_pb_next(&p, &f)) {
		if (f.number == 2 && f.wire == 0)
			temporality = f.value;
		else if (f.number == 3 && f.wire == 0)
			monotonic = f.value;
	}
	if (p.bad || !good)
		return false;
	o->type = kind == GAUGE	    ? BRIDGE_GAUGE
		  : kind == SUM	    ? (monotonic ? BRIDGE_COUNTER : BRIDGE_GAUGE)
		  : kind == SUMMARY ? BRIDGE_SUMMARY
				    : BRIDGE_HISTOGRAM;
	bridge_otlp_return(&o->l, &o->of_scope);
	wrong = announce(o, family);
	bridge_otlp_mark(&o->l, &o->of_metric);
	if (kind == GAUGE || kind == SUMMARY)
		temporality = CUMULATIVE;
	else if (temporality != DELTA && temporality != CUMULATIVE)
		wrong = OTLP_TEMPORALITY;
	while (good && base_pb_next(&again, &f))
		if (f.number == 1 && f.wire == 2)
			good = read_point(o, kind, f.data, temporality == DELTA, wrong);
	return good;
}

static bool read_metric(struct bridge_otlp *o, struct base_pb p)
{
	struct bridge_family family = {.name = BRIDGE_TEXT("")};
	struct base_pb again = p;
	struct base_pb_field f;
	bool good = bridge_otlp_message(o, false);

	while (good && base_pb_next(&p, &f)) {
		if (f.wire != 2)
			continue;
		if (f.number == 1)
			family.name = bridge_text_of(f.data);
		else if (f.number == 2)
			family.help = bridge_text_of(f.data);
		else if (f.number == 3)
			family.unit = bridge_text_of(f.data);
	}
	if (!good || p.bad)
		return false;
	while (good && base_pb_next(&again, &f))
		for (int i = 0; i < 5 && good; i++)
			if (f.wire == 2 && f.number == kinds[i].message)
				good = read_points(o, i, &family, f.data);
	return good;
}

/* ---- resources and scopes ---- */

static bool is_service(struct bridge_text key)
{
	return bridge_text_is(key, "service.name") || bridge_text_is(key, "service.instance.id");
}

/* Returns true if the option names this attribute, which then becomes a label of all points. */
static bool is_promoted(const struct bridge_otlp *o, struct bridge_text key)
{
	const char *s = o->opts.resource_labels, *end;

	for (; s; s = *end ? end + 1 : NULL) {
		end = strchrnul(s, ',');
		if (bridge_text_equal(key, (struct bridge_text){s, (size_t)(end - s)}))
			return true;
	}
	return false;
}

/* Drops the text of an attribute that is not used, so that it takes no room from others. */
static void drop_text(struct bridge_otlp *o, size_t used, bool too_much)
{
	o->l.used = used;
	o->l.too_much = too_much;
}

/* Adds attributes of a Resource as labels: the promoted ones, or all except the service's. */
static bool add_attributes(struct bridge_otlp *o, struct base_pb resource, bool promoted)
{
	struct base_pb_field f;
	struct bridge_label l;
	bool good = true;

	while (good && base_pb_next(&resource, &f)) {
		const size_t used = o->l.used;
		const bool too_much = o->l.too_much;

		if (f.number != 1 || f.wire != 2)
			continue;
		good = bridge_otlp_key_value(o, &o->l, f.data, &l.key, &l.value);
		if (promoted ? !is_promoted(o, l.key) : is_service(l.key)) {
			drop_text(o, used, too_much);
		} else if (!promoted &&
			   (l.value.n > SL_LABEL_VALUE_MAX || o->l.too_much != too_much ||
			    o->l.count == TARGET_LABELS_MAX)) {
			drop_text(o, used, too_much);
			o->counts->attributes_left_out += o->sink != NULL;
		} else {
			bridge_otlp_add_label(&o->l, "", l.key, l.value);
		}
	}
	return good;
}

bool bridge_otlp_identity(struct bridge_otlp *o, struct base_pb resource,
			  struct bridge_otlp_identity *out)
{
	struct bridge_text key, value;
	struct base_pb_field f;
	bool good = true;

	o->l.count = o->l.used = 0;
	o->l.too_much = false;
	while (good && base_pb_next(&resource, &f)) {
		const size_t used = o->l.used;
		const bool too_much = o->l.too_much;

		if (f.number != 1 || f.wire != 2)
			continue;
		out->hash += base_hash(0, f.data.at, (size_t)(f.data.end - f.data.at));
		good = bridge_otlp_key_value(o, &o->l, f.data, &key, &value);
		if (bridge_text_is(key, "service.name"))
			out->service = value;
		else if (bridge_text_is(key, "service.instance.id"))
			out->instance = value;
		else
			drop_text(o, used, too_much);
	}
	return good && !resource.bad;
}

/* Publishes the attributes of a Resource that are not labels of its points. */
static void send_target_info(struct bridge_otlp *o)
{
	const struct bridge_family f = {.name = BRIDGE_TEXT("target_info"),
					.help = BRIDGE_TEXT("Target metadata"),
					.type = BRIDGE_INFO};
	struct bridge_point p = {.labels = o->labels};

	p.label_count = bridge_otlp_join(&o->l, o->labels);
	if (!p.label_count)
		return;
	if (o->l.too_much || !o->sink->family(o->sink, &f) || !o->sink->point(o->sink, &p))
		o->counts->refused[OTLP_LABELS]++;
}

/* Sets target and labels for a resource's points. A check does the same, to find all errors. */
static bool begin_resource(struct bridge_otlp *o, struct base_pb resource)
{
	struct bridge_otlp_identity id = {.service = BRIDGE_TEXT(""), .instance = BRIDGE_TEXT("")};

	if (!bridge_otlp_identity(o, resource, &id))
		return false;
	bridge_otlp_mark(&o->l, &o->of_resource);
	o->names = NULL;
	o->counts->unserved = OTLP_SERVICES;
	o->sink = o->check ? NULL : o->resource(o->arg, &id, &o->names);
	if (!add_attributes(o, resource, false))
		return false;
	if (o->sink)
		send_target_info(o);
	bridge_otlp_return(&o->l, &o->of_resource);
	if (!add_attributes(o, resource, true))
		return false;
	bridge_otlp_mark(&o->l, &o->of_resource);
	return true;
}

/* Adds the labels of an InstrumentationScope. */
static bool read_scope(struct bridge_otlp *o, struct base_pb p)
{
	struct base_pb_field f;
	struct bridge_label l;
	bool good = true;

	while (good && base_pb_next(&p, &f)) {
		const size_t used = o->l.used;
		const bool too_much = o->l.too_much;

		if (f.wire != 2)
			continue;
		l.value = bridge_text_of(f.data);
		if (f.number == 1 && l.value.n) {
			bridge_otlp_add_label(&o->l, "otel_scope_", BRIDGE_TEXT("name"), l.value);
		} else if (f.number == 2 && l.value.n) {
			bridge_otlp_add_label(&o->l, "otel_scope_", BRIDGE_TEXT("version"),
					      l.value);
		} else if (f.number == 3) {
			good = bridge_otlp_key_value(o, &o->l, f.data, &l.key, &l.value);
			/*
			 * The specification drops attributes that would collide with the scope's
			 * own labels.
			 */
			if (!bridge_text_is(l.key, "name") && !bridge_text_is(l.key, "version") &&
			    !bridge_text_is(l.key, "schema_url"))
				bridge_otlp_add_label(&o->l, "otel_scope_", l.key, l.value);
			else
				drop_text(o, used, too_much);
		}
	}
	return good && !p.bad;
}

static bool scope_metrics(struct bridge_otlp *o, struct base_pb p)
{
	struct base_pb again = p;
	struct base_pb_field f;
	bool good = bridge_otlp_message(o, false);

	bridge_otlp_return(&o->l, &o->of_resource);
	while (good && base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == 2)
			good = read_scope(o, f.data);
		else if (f.number == 3 && f.wire == 2 && f.data.at < f.data.end)
			bridge_otlp_add_label(&o->l, "otel_scope_", BRIDGE_TEXT("schema_url"),
					      bridge_text_of(f.data));
	}
	bridge_otlp_mark(&o->l, &o->of_scope);
	while (good && base_pb_next(&again, &f))
		if (f.number == 2 && f.wire == 2)
			good = read_metric(o, f.data);
	return good && !p.bad;
}

static bool resource_metrics(void *arg, struct base_pb p, bool check)
{
	struct bridge_otlp *o = arg;
	struct base_pb_field f;
	struct base_pb again = p, resource = {p.at, p.at, false};
	bool good = bridge_otlp_message(o, true);

	o->check = check;
	while (good && base_pb_next(&p, &f))
		if (f.number == 1 && f.wire == 2)
			resource = f.data;
	good = good && !p.bad && begin_resource(o, resource);
	while (good && base_pb_next(&again, &f))
		if (f.number == 2 && f.wire == 2)
			good = scope_metrics(o, f.data);
	return good;
}

int bridge_otlp_read(struct bridge_otlp *o, const void *body, size_t bytes, bool json,
		     bridge_otlp_resource *resource, void *arg, struct bridge_otlp_counts *counts,
		     struct bridge_error *error)
{
	o->resource = resource;
	o->arg = arg;
	return bridge_otlp_read_twice(o, body, bytes, json, OTLP_METRICS, resource_metrics, o,
				      counts, error);
}
