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
#include "export/number.h"

#define LABELS_MAX  64u
#define TEXT_BYTES  (128u << 10) /* maximum size of the names and labels of a point */
#define BUCKETS_MAX 4096u	 /* maximum number of buckets, and of exemplars, per point */
#define NO_VALUE    1u		 /* point flag DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK */

enum temporality { UNSPECIFIED, DELTA, CUMULATIVE };

struct bridge_otlp {
	struct bridge_otlp_counts *counts;
	bridge_otlp_resource *resource;
	void *arg;
	/* the resource's sink; NULL if the resource is refused or this is only a check */
	struct bridge_sink *sink;
	bool check; /* the body is only checked; no points are taken */
	/* number of further messages allowed; deadline of the check */
	struct base_budget messages;
	uint32_t resources;

	struct bridge_label labels[LABELS_MAX];
	size_t label_count;
	bool too_much; /* the point has too many labels or too much text */
	char text[TEXT_BYTES];
	size_t text_used, name_used;
	double *values, *bounds;
	size_t value_count, value_room, bound_count, bound_room;
	uint64_t *buckets;
	size_t bucket_count, bucket_room;
	struct bridge_text total; /* the counter's name with "_total" */
	/* .labels are set once all exemplars have been read; all have the same number of labels. */
	struct bridge_exemplar *exemplars;
	size_t exemplar_count, exemplar_room, exemplar_text;
	struct bridge_label *exemplar_labels;
	size_t exemplar_label_count, exemplar_label_room;
};

struct bridge_otlp *bridge_otlp_new(void)
{
	return calloc(1, sizeof(struct bridge_otlp));
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

int bridge_otlp_begin(struct bridge_otlp *o, const char *body, size_t bytes, bool json,
		      struct bridge_otlp_counts *counts, struct bridge_error *error)
{
	o->counts = counts;
	bridge_otlp_again(o);
	o->messages.end_ns = base_now_ns() + BRIDGE_OTLP_NS;
	if (json && !bridge_otlp_json_short(body, bytes))
		set_cost(o, OTLP_COST_VALUES);
	return bridge_otlp_refused(o, error);
}

void bridge_otlp_again(struct bridge_otlp *o)
{
	o->resources = 0;
	o->messages = (struct base_budget){.end_ns = UINT64_MAX, .samples = BRIDGE_OTLP_MESSAGES};
}

int bridge_otlp_refused(const struct bridge_otlp *o, struct bridge_error *error)
{
	switch (o->counts->cost) {
	case OTLP_COST_NONE:
		return 0;
	case OTLP_COST_TIME:
		return bridge_fail(error, -E2BIG, 0, "checking the body takes longer than %u s",
				   (unsigned int)(BRIDGE_OTLP_NS / 1000000000u));
	default:
		return bridge_fail(error, -E2BIG, 0,
				   "too many %s, at most %u in a body: send smaller batches",
				   bridge_otlp_costs[o->counts->cost],
				   o->counts->cost == OTLP_COST_RESOURCES ? BRIDGE_OTLP_RESOURCES
									  : BRIDGE_OTLP_MESSAGES);
	}
}

/* ---- text ---- */

static struct bridge_text keep_text(struct bridge_otlp *o, struct bridge_text t)
{
	char *to = o->text + o->text_used;

	if (t.n > TEXT_BYTES - o->text_used) {
		o->too_much = true;
		return (struct bridge_text){"", 0};
	}
	if (t.n)
		memcpy(to, t.s, t.n);
	o->text_used += t.n;
	return (struct bridge_text){to, t.n};
}

/* Converts a name the way Prometheus does, by replacing characters outside [a-zA-Z0-9_:] by "_". */
static struct bridge_text plain_name(struct bridge_otlp *o, struct bridge_text t, bool colons)
{
	bool digit = t.n && *t.s >= '0' && *t.s <= '9';
	struct bridge_text out;
	char *c;

	if (digit)
		keep_text(o, (struct bridge_text){"_", 1});
	out = keep_text(o, t);
	for (c = (char *)out.s; c < out.s + out.n; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		      (*c >= '0' && *c <= '9') || (colons && *c == ':')))
			*c = '_';
	out.s -= digit && out.n;
	out.n += digit && out.n;
	return out;
}

/* Converts an AnyValue to text. Arrays, maps and bytes are left out. */
static struct bridge_text value_text(struct bridge_otlp *o, struct base_pb *p)
{
	struct bridge_text out = {"", 0};
	struct base_pb_field f;
	char number[EXPORT_NUMBER_MAX + 8];

	while (base_pb_next(p, &f)) {
		if (f.number == 1 && f.wire == 2) {
			out = bridge_otlp_text(f.data);
		} else if (f.number == 2 && f.wire == 0) {
			out = f.value ? (struct bridge_text){"true", 4}
				      : (struct bridge_text){"false", 5};
		} else if (f.number == 3 && f.wire == 0) {
			out.s = number;
			out.n = (size_t)(export_print_i64(number, (int64_t)f.value) - number);
			out = keep_text(o, out);
		} else if (f.number == 4 && f.wire == 1) {
			out.s = number;
			out.n = (size_t)(export_print_f64(number, base_pb_f64(f.value)) - number);
			out = keep_text(o, out);
		}
	}
	return out;
}

/* Decodes a KeyValue. Returns false if it is malformed. */
static bool key_value(struct bridge_otlp *o, struct base_pb p, struct bridge_text *key,
		      struct bridge_text *value)
{
	struct base_pb_field f;

	*key = *value = (struct bridge_text){"", 0};
	if (!bridge_otlp_message(o, false))
		return false;
	while (base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == 2)
			*key = bridge_otlp_text(f.data);
		else if (f.number == 2 && f.wire == 2) {
			*value = value_text(o, &f.data);
			p.bad |= f.data.bad;
		}
	}
	return !p.bad;
}

static bool add_label(struct bridge_otlp *o, struct base_pb p)
{
	struct bridge_label l;

	if (!key_value(o, p, &l.key, &l.value))
		return false;
	l.key = plain_name(o, l.key, false);
	if (!l.key.n)
		return true;
	if (o->label_count == LABELS_MAX)
		o->too_much = true;
	else
		o->labels[o->label_count++] = l;
	return true;
}

/*
 * Sorts the labels. If keys have become equal, keeps the first in the order of the original keys.
 */
static void sort_labels(struct bridge_otlp *o)
{
	size_t n = 0;

	if (bridge_labels_sort(o->labels, o->label_count))
		return;
	for (size_t i = 0; i < o->label_count; i++)
		if (!n || !bridge_text_equal(o->labels[n - 1].key, o->labels[i].key))
			o->labels[n++] = o->labels[i];
	o->label_count = n;
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
	uint64_t count, zero_count, flags, start_ns, negative;
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

/* Converts an ID to hexadecimal. */
static struct bridge_text hex_id(struct bridge_otlp *o, struct bridge_text id)
{
	struct bridge_text out = {o->text + o->text_used, 2 * id.n};
	char *to = (char *)out.s;

	if (out.n > TEXT_BYTES - o->text_used) {
		o->too_much = true;
		return (struct bridge_text){"", 0};
	}
	for (size_t i = 0; i < id.n; i++) {
		*to++ = "0123456789abcdef"[(unsigned char)id.s[i] >> 4];
		*to++ = "0123456789abcdef"[id.s[i] & 15];
	}
	o->text_used += out.n;
	return out;
}

static bool exemplar_label(struct bridge_otlp *o, struct bridge_exemplar *e, struct bridge_label l)
{
	if (!l.key.n || !l.value.n || e->label_count >= LABELS_MAX)
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
		l = (struct bridge_label){{"", 0}, {"", 0}};
		if (f.number == 2 && f.wire == 1) {
			e.time_ns = f.value;
		} else if (f.number == 3 && f.wire == 1) {
			e.value = base_pb_f64(f.value);
		} else if (f.number == 6 && f.wire == 1) {
			e.value = (double)(int64_t)f.value;
		} else if (f.number == 4 && f.wire == 2 && f.data.end - f.data.at == 8) {
			l = (struct bridge_label){{"span_id", 7},
						  hex_id(o, bridge_otlp_text(f.data))};
		} else if (f.number == 5 && f.wire == 2 && f.data.end - f.data.at == 16) {
			l = (struct bridge_label){{"trace_id", 8},
						  hex_id(o, bridge_otlp_text(f.data))};
		} else if (f.number == 7 && f.wire == 2) {
			good = key_value(o, f.data, &l.key, &l.value);
			l.key = good ? plain_name(o, l.key, false) : l.key;
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
	const size_t text = o->text_used, labels = o->exemplar_label_count;
	const bool too_much = o->too_much;

	if (o->exemplar_count < BUCKETS_MAX) {
		o->too_much = false;
		if (!take_exemplar(o, p))
			return false;
		o->exemplar_text += o->text_used - text;
		if (!o->too_much && o->exemplar_text <= TEXT_BYTES / 2) {
			o->too_much = too_much;
			return true;
		}
		o->exemplar_text -= o->text_used - text;
		o->too_much = too_much;
		o->text_used = text;
		o->exemplar_label_count = labels;
		o->exemplar_count--;
	}
	o->counts->exemplars_left_out += !o->check;
	return true;
}

/* Returns the index of the first bound that is not below the value. */
static uint32_t bucket_of(const struct bridge_point *p, double value)
{
	size_t first = 0, end = p->bound_count;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (value > p->bounds[middle])
			first = middle + 1;
		else
			end = middle;
	}
	return (uint32_t)first;
}

/* Sets the labels of each exemplar and, for a classic histogram, its bucket. */
static void set_exemplars(struct bridge_otlp *o, struct bridge_point *p)
{
	const struct bridge_label *l = o->exemplar_labels;

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

static bool send_point(struct bridge_otlp *o, int kind, const struct parsed *t, bool delta)
{
	struct bridge_exponential e;
	struct bridge_point p = {.labels = o->labels,
				 .label_count = o->label_count,
				 .created_ns = kind == GAUGE || delta ? 0 : t->start_ns,
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
		return false;
	p.values = o->values;
	p.value_count = o->value_count;
	p.bounds = o->bounds;
	p.bound_count = kind == HISTOGRAM || kind == SUMMARY ? o->bound_count : 0;
	set_exemplars(o, &p);
	return o->sink->point(o->sink, &p);
}

/* Decodes a point. Returns false if it is malformed. */
static bool read_point(struct bridge_otlp *o, int kind, struct base_pb p, bool delta, bool wrong)
{
	const struct kind *k = &kinds[kind];
	struct parsed t = {.sum = NAN};
	struct base_pb_field f;
	bool good = bridge_otlp_message(o, false);

	o->label_count = o->value_count = o->bound_count = o->bucket_count = 0;
	o->exemplar_count = o->exemplar_label_count = o->exemplar_text = 0;
	o->text_used = o->name_used;
	o->too_much = false;
	while (good && base_pb_next(&p, &f)) {
		if (f.number == k->attributes && f.wire == 2)
			good = add_label(o, f.data);
		else if (f.number == k->start && f.wire == 1)
			t.start_ns = f.value;
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
	sort_labels(o);
	if (wrong || o->too_much || !t.valued || !o->sink || !send_point(o, kind, &t, delta))
		o->counts->refused++;
	else
		o->counts->points++;
	return true;
}

/* ---- metrics ---- */

/*
 * Temporality and monotonicity follow the points, so read them first. Returns false if malformed.
 */
static bool read_points(struct bridge_otlp *o, int kind, struct bridge_family *family,
			struct base_pb p)
{
	struct base_pb_field f;
	uint64_t temporality = UNSPECIFIED;
	struct base_pb again = p;
	bool monotonic = false, good = bridge_otlp_message(o, false), wrong = false;
	struct bridge_family named;

	while (base_pb_next(&p, &f)) {
		if (f.number == 2 && f.wire == 0)
			temporality = f.value;
		else if (f.number == 3 && f.wire == 0)
			monotonic = f.value;
	}
	if (p.bad || !good)
		return false;
	if (kind == SUM || kind == HISTOGRAM || kind == EXPONENTIAL)
		wrong = temporality != DELTA && temporality != CUMULATIVE;
	else
		temporality = CUMULATIVE;
	family->type = kind == GAUGE	 ? BRIDGE_GAUGE
		       : kind == SUM	 ? (monotonic ? BRIDGE_COUNTER : BRIDGE_GAUGE)
		       : kind == SUMMARY ? BRIDGE_SUMMARY
					 : BRIDGE_HISTOGRAM;
	named = *family;
	if (named.type == BRIDGE_COUNTER)
		named.name = o->total;
	if (!o->check && o->sink && !o->sink->family(o->sink, &named))
		wrong = true;
	while (good && base_pb_next(&again, &f))
		if (f.number == 1 && f.wire == 2)
			good = read_point(o, kind, f.data, temporality == DELTA, wrong);
	return good;
}

/* Converts a unit to the plural used here, such as "s" to "seconds", if it is a single word. */
static struct bridge_text unit_of(struct bridge_text t)
{
	static const char *const known[][2] = {
		{"s", "seconds"}, {"ms", "milliseconds"}, {"By", "bytes"}, {"1", ""}};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (bridge_text_is(t, known[i][0], strlen(known[i][0])))
			return (struct bridge_text){known[i][1], strlen(known[i][1])};
	return t;
}

static bool read_metric(struct bridge_otlp *o, struct base_pb p)
{
	struct bridge_family family = {.name = {"", 0}};
	struct base_pb again = p;
	struct base_pb_field f;
	bool good = bridge_otlp_message(o, false);

	o->text_used = 0;
	while (good && base_pb_next(&p, &f)) {
		if (f.wire != 2)
			continue;
		if (f.number == 1)
			family.name = bridge_otlp_text(f.data);
		else if (f.number == 2)
			family.help = bridge_otlp_text(f.data);
		else if (f.number == 3)
			family.unit = unit_of(bridge_otlp_text(f.data));
	}
	o->too_much = false;
	family.name = plain_name(o, family.name, true);
	o->total = family.name;
	if (family.name.n &&
	    (family.name.n < 6 || memcmp(family.name.s + family.name.n - 6, "_total", 6)))
		o->total.n += keep_text(o, (struct bridge_text){"_total", 6}).n;
	o->name_used = o->text_used;
	if (!good || p.bad)
		return false;
	while (good && base_pb_next(&again, &f))
		for (int i = 0; i < 5 && good; i++)
			if (f.wire == 2 && f.number == kinds[i].message && family.name.n)
				good = read_points(o, i, &family, f.data);
	return good;
}

bool bridge_otlp_identity(struct bridge_otlp *o, struct base_pb resource,
			  struct bridge_text *service, struct bridge_text *instance)
{
	struct bridge_text key, value;
	struct base_pb_field f;
	bool good = true;

	o->text_used = 0;
	while (good && base_pb_next(&resource, &f)) {
		if (f.number != 1 || f.wire != 2)
			continue;
		good = key_value(o, f.data, &key, &value);
		if (bridge_text_is(key, "service.name", 12))
			*service = value;
		else if (bridge_text_is(key, "service.instance.id", 19))
			*instance = value;
	}
	return good && !resource.bad;
}

static bool resource_metrics(struct bridge_otlp *o, struct base_pb p)
{
	struct bridge_text service = {"", 0}, instance = {"", 0};
	struct base_pb_field f, g;
	struct base_pb again = p;
	bool good = bridge_otlp_message(o, true);

	while (good && base_pb_next(&p, &f))
		if (f.number == 1 && f.wire == 2)
			good = bridge_otlp_identity(o, f.data, &service, &instance);
	if (!good || p.bad)
		return false;
	o->sink = o->check ? NULL : o->resource(o->arg, service, instance);
	while (good && base_pb_next(&again, &f)) {
		if (f.number != 2 || f.wire != 2)
			continue;
		good = bridge_otlp_message(o, false); /* a scope */
		while (good && base_pb_next(&f.data, &g))
			if (g.number == 2 && g.wire == 2)
				good = read_metric(o, g.data);
		good = good && !f.data.bad;
	}
	return good;
}

static bool read_request(struct bridge_otlp *o, const void *body, size_t bytes)
{
	struct base_pb p = {body, (const uint8_t *)body + bytes, false};
	struct base_pb_field f;
	bool good = true;

	while (good && base_pb_next(&p, &f))
		if (f.number == 1 && f.wire == 2)
			good = resource_metrics(o, f.data);
	return good && !p.bad;
}

int bridge_otlp_read(struct bridge_otlp *o, const void *body, size_t bytes, bool json,
		     bridge_otlp_resource *resource, void *arg, struct bridge_otlp_counts *counts,
		     struct bridge_error *error)
{
	uint8_t *made = NULL;
	int err = bridge_otlp_begin(o, body, bytes, json, counts, error);

	if (err)
		return err;
	if (json) {
		body = made = bridge_otlp_of_json(body, bytes, OTLP_METRICS, &bytes, error);
		if (!made)
			return -EINVAL;
	}
	o->resource = resource;
	o->arg = arg;
	o->check = true;
	if (!read_request(o, body, bytes))
		err = bridge_otlp_refused(o, error)
			      ?: bridge_fail(error, -EINVAL, 0,
					     "malformed protobuf, or more than %u buckets",
					     BUCKETS_MAX);
	o->check = false;
	bridge_otlp_again(o);
	if (!err)
		read_request(o, body, bytes);
	free(made);
	return err;
}
