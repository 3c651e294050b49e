// SPDX-License-Identifier: Apache-2.0
/*
 * otlp_label.c - names and labels of points, according to the OpenTelemetry specification
 * "Prometheus and OpenMetrics Compatibility" (opentelemetry.io/docs/specs/otel/compatibility).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "bridge/otlp_internal.h"
#include "base/number.h"

#define DEPTH_MAX 16	 /* maximum depth of arrays and maps in a value */
#define NAMES_MAX 65536u /* maximum number of names per target */

/* ---- text ---- */

struct bridge_text bridge_otlp_keep(struct bridge_otlp_labels *l, struct bridge_text t)
{
	char *to = l->text + l->used;

	if (t.n > OTLP_TEXT_BYTES - l->used) {
		l->too_much = true;
		return BRIDGE_TEXT("");
	}
	if (t.n)
		memcpy(to, t.s, t.n);
	l->used += t.n;
	return (struct bridge_text){to, t.n};
}

/* Returns the text appended since .used was `from`. */
static struct bridge_text kept_since(const struct bridge_otlp_labels *l, size_t from)
{
	return (struct bridge_text){l->text + from, l->used - from};
}

/* Appends a name. Invalid characters become "_"; in a metric's name, a run becomes one "_". */
static struct bridge_text keep_name(struct bridge_otlp_labels *l, struct bridge_text t, bool metric)
{
	const size_t from = l->used;
	char *to;

	if (l->utf8 && base_utf8(t.s, t.n))
		return bridge_otlp_keep(l, t);
	if (t.n && *t.s >= '0' && *t.s <= '9')
		bridge_otlp_keep(l, BRIDGE_TEXT("_"));
	to = l->text + l->used;
	if (bridge_otlp_keep(l, t).n < t.n)
		return BRIDGE_TEXT("");
	for (const char *s = to; s < l->text + l->used; s++) {
		bool good = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
			    (*s >= '0' && *s <= '9') || (metric && *s == ':');

		if (good || !metric || to == l->text + from || to[-1] != '_')
			*to++ = good ? *s : '_';
	}
	l->used = (size_t)(to - l->text);
	return kept_since(l, from);
}

struct bridge_text bridge_otlp_label_name(struct bridge_otlp_labels *l, struct bridge_text key)
{
	return keep_name(l, key, false);
}

void bridge_otlp_mark(const struct bridge_otlp_labels *l, struct bridge_otlp_mark *out)
{
	out->too_much = l->too_much;
	out->count = l->count;
	out->used = l->used;
	memcpy(out->set, l->set, l->count * sizeof(*l->set));
}

void bridge_otlp_return(struct bridge_otlp_labels *l, const struct bridge_otlp_mark *to)
{
	l->too_much = to->too_much;
	l->count = to->count;
	l->used = to->used;
	memcpy(l->set, to->set, to->count * sizeof(*l->set));
}

/* ---- names of metrics ---- */

static struct bridge_text unit_word(struct bridge_text t, bool per)
{
	/* UCUM's units, and the words that Prometheus' naming conventions use for them */
	static const char *const words[][2] = {{"d", "days"},	       {"h", "hours"},
					       {"min", "minutes"},     {"s", "seconds"},
					       {"ms", "milliseconds"}, {"us", "microseconds"},
					       {"ns", "nanoseconds"},  {"By", "bytes"},
					       {"KiBy", "kibibytes"},  {"MiBy", "mebibytes"},
					       {"GiBy", "gibibytes"},  {"TiBy", "tibibytes"},
					       {"KBy", "kilobytes"},   {"MBy", "megabytes"},
					       {"GBy", "gigabytes"},   {"TBy", "terabytes"},
					       {"m", "meters"},	       {"V", "volts"},
					       {"A", "amperes"},       {"J", "joules"},
					       {"W", "watts"},	       {"g", "grams"},
					       {"Cel", "celsius"},     {"Hz", "hertz"},
					       {"%", "percent"},       {"1", ""}};
	static const char *const rates[][2] = {{"s", "second"}, {"m", "minute"}, {"min", "minute"},
					       {"h", "hour"},	{"d", "day"},	 {"w", "week"},
					       {"mo", "month"}, {"y", "year"}};
	const char *const(*known)[2] = per ? rates : words;
	const size_t n = per ? sizeof(rates) / sizeof(*rates) : sizeof(words) / sizeof(*words);

	for (size_t i = 0; i < n; i++)
		if (bridge_text_is(t, known[i][0]))
			return (struct bridge_text){known[i][1], strlen(known[i][1])};
	return t;
}

/* Converts a unit to words such as "seconds" or "bytes_per_second". Drops annotations "{...}". */
static struct bridge_text unit_words(struct bridge_otlp_labels *l, struct bridge_text t,
				     enum bridge_type type)
{
	const char *slash = t.n ? memchr(t.s, '/', t.n) : NULL;
	const size_t from = l->used;
	struct bridge_text unit = {t.s, slash ? (size_t)(slash - t.s) : t.n}, per = {"", 0};

	if (slash)
		per = (struct bridge_text){slash + 1, (size_t)(t.s + t.n - slash - 1)};
	if (bridge_text_is(t, "1") && type == BRIDGE_GAUGE)
		return bridge_otlp_keep(l, BRIDGE_TEXT("ratio"));
	if (unit.n && !memchr(unit.s, '{', unit.n))
		keep_name(l, unit_word(unit, false), true);
	if (per.n && !memchr(per.s, '{', per.n)) {
		bridge_otlp_keep(l, l->used > from ? BRIDGE_TEXT("_per_") : BRIDGE_TEXT("per_"));
		keep_name(l, unit_word(per, true), true);
	}
	while (l->used > from && l->text[l->used - 1] == '_')
		l->used--;
	return kept_since(l, from);
}

static bool ends_with(struct bridge_text t, struct bridge_text word)
{
	return t.n >= word.n && !memcmp(t.s + t.n - word.n, word.s, word.n) &&
	       (t.n == word.n || t.s[t.n - word.n - 1] == '_');
}

struct bridge_text bridge_otlp_metric_name(struct bridge_otlp_labels *l, struct bridge_text name,
					   struct bridge_text *unit, enum bridge_type type)
{
	struct bridge_text out;
	size_t from;

	*unit = unit_words(l, *unit, type);
	from = l->used;
	out = keep_name(l, name, true);
	if (!out.n)
		return out;
	if (type == BRIDGE_COUNTER && out.n > 6 && ends_with(out, BRIDGE_TEXT("total")))
		l->used -= 6;
	if (unit->n && !ends_with(kept_since(l, from), *unit)) {
		bridge_otlp_keep(l, BRIDGE_TEXT("_"));
		bridge_otlp_keep(l, *unit);
	}
	if (type == BRIDGE_COUNTER)
		bridge_otlp_keep(l, BRIDGE_TEXT("_total"));
	return kept_since(l, from);
}

struct otlp_name {
	struct base_node node; /* hash of the Prometheus name */
	uint64_t original;     /* hash of the original name */
};

void bridge_otlp_names_free(struct base_table *names)
{
	BASE_TABLE_EACH(names, at)
		free(at);
	base_table_free(names);
}

bool bridge_otlp_names_own(struct base_table *names, struct bridge_text name,
			   struct bridge_text original, bool *error)
{
	uint64_t hash = base_hash(0, name.s, name.n);
	uint64_t owner = base_hash(0, original.s, original.n);
	struct otlp_name *n;

	*error = !names->buckets && !base_table_init(names);
	if (*error)
		return false;
	n = base_table_first(names, hash);
	if (n)
		return n->original == owner;
	n = names->count < NAMES_MAX ? malloc(sizeof(*n)) : NULL;
	*error = !n;
	if (!n)
		return false;
	n->original = owner;
	base_table_add(names, n, hash);
	return true;
}

/* ---- values ---- */

static bool keep_json(struct bridge_otlp *o, struct bridge_otlp_labels *l, struct base_pb p,
		      int depth);

static void keep_quoted(struct bridge_otlp_labels *l, struct bridge_text t)
{
	char escape[8];

	bridge_otlp_keep(l, BRIDGE_TEXT("\""));
	for (size_t i = 0; i < t.n; i++) {
		unsigned char c = (unsigned char)t.s[i];
		int n = c == '"' || c == '\\' ? snprintf(escape, sizeof(escape), "\\%c", c)
			: c < ' '	      ? snprintf(escape, sizeof(escape), "\\u%04x", c)
					      : snprintf(escape, sizeof(escape), "%c", c);

		bridge_otlp_keep(l, (struct bridge_text){escape, (size_t)n});
	}
	bridge_otlp_keep(l, BRIDGE_TEXT("\""));
}

static void keep_base64(struct bridge_otlp_labels *l, struct bridge_text t)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < t.n; i += 3) {
		uint32_t v = 0;
		char four[4];

		for (size_t k = 0; k < 3; k++)
			v = v << 8 | (i + k < t.n ? (unsigned char)t.s[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			four[k] = i + k > t.n ? '=' : digits[v >> (18 - 6 * k) & 63];
		bridge_otlp_keep(l, (struct bridge_text){four, 4});
	}
}

/* Appends an ArrayValue or a KeyValueList as JSON. */
static bool keep_list(struct bridge_otlp *o, struct bridge_otlp_labels *l, struct base_pb p,
		      bool map, int depth)
{
	struct base_pb_field f, g;
	bool first = true, good = true;

	bridge_otlp_keep(l, map ? BRIDGE_TEXT("{") : BRIDGE_TEXT("["));
	while (good && base_pb_next(&p, &f)) {
		struct base_pb value = f.data;

		if (f.number != 1 || f.wire != 2)
			continue;
		if (!first)
			bridge_otlp_keep(l, BRIDGE_TEXT(","));
		first = false;
		if (map) {
			struct bridge_text key = {"", 0};

			value = (struct base_pb){f.data.at, f.data.at, false};
			while (base_pb_next(&f.data, &g)) {
				if (g.number == 1 && g.wire == 2)
					key = bridge_text_of(g.data);
				else if (g.number == 2 && g.wire == 2)
					value = g.data;
			}
			good = !f.data.bad;
			keep_quoted(l, key);
			bridge_otlp_keep(l, BRIDGE_TEXT(":"));
		}
		good = good && keep_json(o, l, value, depth + 1);
	}
	bridge_otlp_keep(l, map ? BRIDGE_TEXT("}") : BRIDGE_TEXT("]"));
	return good && !p.bad;
}

/* Appends a number or a bool. Returns false if the field is neither. */
static bool keep_scalar(struct bridge_otlp_labels *l, const struct base_pb_field *f, bool json)
{
	char number[BASE_NUMBER_MAX + 8], *end;

	if (f->number == 2 && f->wire == 0) {
		bridge_otlp_keep(l, f->value ? BRIDGE_TEXT("true") : BRIDGE_TEXT("false"));
	} else if (f->number == 3 && f->wire == 0) {
		end = base_print_i64(number, (int64_t)f->value);
		bridge_otlp_keep(l, (struct bridge_text){number, (size_t)(end - number)});
	} else if (f->number == 4 && f->wire == 1) {
		double v = base_pb_f64(f->value);
		struct bridge_text t = {number, (size_t)(base_print_f64(number, v) - number)};

		/* JSON has no infinity or NaN. */
		if (json && !isfinite(v))
			keep_quoted(l, t);
		else
			bridge_otlp_keep(l, t);
	} else {
		return false;
	}
	return true;
}

/* Appends an AnyValue as JSON. Returns false if it is malformed. */
static bool keep_json(struct bridge_otlp *o, struct bridge_otlp_labels *l, struct base_pb p,
		      int depth)
{
	struct base_pb_field f;
	bool some = false, good = bridge_otlp_message(o, false);

	l->too_much = l->too_much || depth > DEPTH_MAX;
	while (good && !some && depth <= DEPTH_MAX && base_pb_next(&p, &f)) {
		some = keep_scalar(l, &f, true) || (f.wire == 2 && f.number != 2);
		if (f.wire != 2)
			continue;
		if (f.number == 1)
			keep_quoted(l, bridge_text_of(f.data));
		else if (f.number == 5 || f.number == 6)
			good = keep_list(o, l, f.data, f.number == 6, depth);
		else if (f.number == 7) {
			bridge_otlp_keep(l, BRIDGE_TEXT("\""));
			keep_base64(l, bridge_text_of(f.data));
			bridge_otlp_keep(l, BRIDGE_TEXT("\""));
		}
	}
	if (!some)
		bridge_otlp_keep(l, BRIDGE_TEXT("null"));
	return good && !p.bad;
}

/* Converts an AnyValue to text. Strings are unchanged; arrays and maps become JSON. */
static bool value_text(struct bridge_otlp *o, struct bridge_otlp_labels *l, struct base_pb p,
		       struct bridge_text *out)
{
	const size_t from = l->used;
	struct base_pb_field f;
	bool good = true;

	while (good && base_pb_next(&p, &f)) {
		l->used = from;
		if (f.number == 1 && f.wire == 2) {
			*out = bridge_text_of(f.data);
			continue;
		}
		if (f.wire == 2 && (f.number == 5 || f.number == 6))
			good = keep_list(o, l, f.data, f.number == 6, 0);
		else if (f.wire == 2 && f.number == 7)
			keep_base64(l, bridge_text_of(f.data));
		else
			keep_scalar(l, &f, false);
		*out = kept_since(l, from);
	}
	return good && !p.bad;
}

bool bridge_otlp_key_value(struct bridge_otlp *o, struct bridge_otlp_labels *l, struct base_pb p,
			   struct bridge_text *key, struct bridge_text *value)
{
	struct base_pb_field f;
	bool good = bridge_otlp_message(o, false);

	*key = *value = BRIDGE_TEXT("");
	while (good && base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == 2)
			*key = bridge_text_of(f.data);
		else if (f.number == 2 && f.wire == 2)
			good = value_text(o, l, f.data, value);
	}
	return good && !p.bad;
}

/* ---- labels ---- */

void bridge_otlp_add_label(struct bridge_otlp_labels *l, const char *prefix, struct bridge_text key,
			   struct bridge_text value)
{
	const size_t from = l->used;
	struct bridge_otlp_label new = {.value = value, .original = key};
	size_t i = l->count;

	if (!key.n)
		return;
	if (*prefix) {
		bridge_otlp_keep(l, (struct bridge_text){prefix, strlen(prefix)});
		bridge_otlp_keep(l, key);
		new.original = kept_since(l, from);
	}
	new.key = bridge_otlp_label_name(l, new.original);
	if (i == OTLP_LABELS_MAX) {
		l->too_much = true;
		return;
	}
	for (; i; i--) {
		const struct bridge_otlp_label *o = &l->set[i - 1];

		if ((bridge_text_compare(o->key, new.key)
			     ?: bridge_text_compare(o->original, new.original)) <= 0)
			break;
		l->set[i] = *o;
	}
	l->set[i] = new;
	l->count++;
}

size_t bridge_otlp_join(struct bridge_otlp_labels *l, struct bridge_label out[OTLP_LABELS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct bridge_otlp_label *b = &l->set[i];
		struct bridge_label *to = &out[n ? n - 1 : 0];
		const size_t from = l->used;

		if (!n || !bridge_text_equal(to->key, b->key)) {
			out[n++] = (struct bridge_label){b->key, b->value};
		} else if (!bridge_text_equal(l->set[i - 1].original, b->original)) {
			bridge_otlp_keep(l, to->value);
			bridge_otlp_keep(l, BRIDGE_TEXT(";"));
			bridge_otlp_keep(l, b->value);
			to->value = kept_since(l, from);
		}
	}
	return n;
}
