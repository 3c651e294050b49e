// SPDX-License-Identifier: Apache-2.0
/*
 * otlp_json.c - converts OTLP's JSON to protobuf using tables of the messages' fields
 * (protobuf.dev/programming-guides/json, and opentelemetry.io/docs/specs/otlp, JSON Protobuf
 * Encoding). Skips unknown keys; 64-bit numbers may be strings.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/grow.h"
#include "base/json_read.h"
#include "base/text.h"
#include "bridge/otlp.h"
#include "export/pb.h"

#define DEPTH_MAX 48 /* an array in an array takes four levels */

enum type {
	STRING,
	BOOLEAN,
	INT64,
	DOUBLE,
	FIXED64,
	SFIXED64,
	UINT32,
	UINT64,
	SINT32,
	HEX,
	FIXED32,
	BASE64,
	MESSAGE
};

struct message;
struct field {
	const char *name; /* in lowerCamelCase */
	uint32_t number;
	enum type type;
	bool repeated;
	const struct message *of;
};
struct message {
	const struct field *fields; /* terminated by {0} */
};

#define TABLE(name, ...)                                                \
	static const struct field name##_fields[] = {__VA_ARGS__, {0}}; \
	static const struct message name = {name##_fields}

/* declared first, because values contain lists, which contain values */
static const struct message any, key_value;
TABLE(array, {"values", 1, MESSAGE, true, &any});
TABLE(map, {"values", 1, MESSAGE, true, &key_value});
TABLE(any, {"stringValue", 1, STRING, false, NULL}, {"boolValue", 2, BOOLEAN, false, NULL},
      {"intValue", 3, INT64, false, NULL}, {"doubleValue", 4, DOUBLE, false, NULL},
      {"arrayValue", 5, MESSAGE, false, &array}, {"kvlistValue", 6, MESSAGE, false, &map},
      {"bytesValue", 7, BASE64, false, NULL});
TABLE(key_value, {"key", 1, STRING, false, NULL}, {"value", 2, MESSAGE, false, &any});
TABLE(resource, {"attributes", 1, MESSAGE, true, &key_value});
TABLE(exemplar, {"timeUnixNano", 2, FIXED64, false, NULL}, {"asDouble", 3, DOUBLE, false, NULL},
      {"spanId", 4, HEX, false, NULL}, {"traceId", 5, HEX, false, NULL},
      {"asInt", 6, SFIXED64, false, NULL}, {"filteredAttributes", 7, MESSAGE, true, &key_value});
TABLE(number_point, {"startTimeUnixNano", 2, FIXED64, false, NULL},
      {"timeUnixNano", 3, FIXED64, false, NULL}, {"asDouble", 4, DOUBLE, false, NULL},
      {"exemplars", 5, MESSAGE, true, &exemplar}, {"asInt", 6, SFIXED64, false, NULL},
      {"attributes", 7, MESSAGE, true, &key_value}, {"flags", 8, UINT32, false, NULL});
TABLE(histogram_point, {"startTimeUnixNano", 2, FIXED64, false, NULL},
      {"timeUnixNano", 3, FIXED64, false, NULL}, {"count", 4, FIXED64, false, NULL},
      {"sum", 5, DOUBLE, false, NULL}, {"bucketCounts", 6, FIXED64, true, NULL},
      {"explicitBounds", 7, DOUBLE, true, NULL}, {"exemplars", 8, MESSAGE, true, &exemplar},
      {"attributes", 9, MESSAGE, true, &key_value}, {"flags", 10, UINT32, false, NULL});
TABLE(buckets, {"offset", 1, SINT32, false, NULL}, {"bucketCounts", 2, UINT64, true, NULL});
TABLE(exponential_point, {"attributes", 1, MESSAGE, true, &key_value},
      {"startTimeUnixNano", 2, FIXED64, false, NULL}, {"timeUnixNano", 3, FIXED64, false, NULL},
      {"count", 4, FIXED64, false, NULL}, {"sum", 5, DOUBLE, false, NULL},
      {"scale", 6, SINT32, false, NULL}, {"zeroCount", 7, FIXED64, false, NULL},
      {"positive", 8, MESSAGE, false, &buckets}, {"negative", 9, MESSAGE, false, &buckets},
      {"flags", 10, UINT32, false, NULL}, {"exemplars", 11, MESSAGE, true, &exemplar},
      {"zeroThreshold", 14, DOUBLE, false, NULL});
TABLE(quantile, {"quantile", 1, DOUBLE, false, NULL}, {"value", 2, DOUBLE, false, NULL});
TABLE(summary_point, {"startTimeUnixNano", 2, FIXED64, false, NULL},
      {"timeUnixNano", 3, FIXED64, false, NULL}, {"count", 4, FIXED64, false, NULL},
      {"sum", 5, DOUBLE, false, NULL}, {"quantileValues", 6, MESSAGE, true, &quantile},
      {"attributes", 7, MESSAGE, true, &key_value}, {"flags", 8, UINT32, false, NULL});
TABLE(gauge, {"dataPoints", 1, MESSAGE, true, &number_point});
TABLE(sum, {"dataPoints", 1, MESSAGE, true, &number_point},
      {"aggregationTemporality", 2, UINT32, false, NULL}, {"isMonotonic", 3, BOOLEAN, false, NULL});
TABLE(histogram, {"dataPoints", 1, MESSAGE, true, &histogram_point},
      {"aggregationTemporality", 2, UINT32, false, NULL});
TABLE(exponential, {"dataPoints", 1, MESSAGE, true, &exponential_point},
      {"aggregationTemporality", 2, UINT32, false, NULL});
TABLE(summary, {"dataPoints", 1, MESSAGE, true, &summary_point});
TABLE(metric, {"name", 1, STRING, false, NULL}, {"description", 2, STRING, false, NULL},
      {"unit", 3, STRING, false, NULL}, {"gauge", 5, MESSAGE, false, &gauge},
      {"sum", 7, MESSAGE, false, &sum}, {"histogram", 9, MESSAGE, false, &histogram},
      {"exponentialHistogram", 10, MESSAGE, false, &exponential},
      {"summary", 11, MESSAGE, false, &summary});
TABLE(scope, {"name", 1, STRING, false, NULL}, {"version", 2, STRING, false, NULL},
      {"attributes", 3, MESSAGE, true, &key_value});
TABLE(scope_metrics, {"scope", 1, MESSAGE, false, &scope}, {"metrics", 2, MESSAGE, true, &metric},
      {"schemaUrl", 3, STRING, false, NULL});
TABLE(resource_metrics, {"resource", 1, MESSAGE, false, &resource},
      {"scopeMetrics", 2, MESSAGE, true, &scope_metrics});
TABLE(metrics_request, {"resourceMetrics", 1, MESSAGE, true, &resource_metrics});
TABLE(status, {"message", 2, STRING, false, NULL}, {"code", 3, UINT32, false, NULL});
TABLE(span, {"traceId", 1, HEX, false, NULL}, {"spanId", 2, HEX, false, NULL},
      {"parentSpanId", 4, HEX, false, NULL}, {"name", 5, STRING, false, NULL},
      {"kind", 6, UINT32, false, NULL}, {"startTimeUnixNano", 7, FIXED64, false, NULL},
      {"endTimeUnixNano", 8, FIXED64, false, NULL}, {"attributes", 9, MESSAGE, true, &key_value},
      {"status", 15, MESSAGE, false, &status}, {"flags", 16, FIXED32, false, NULL});
TABLE(scope_spans, {"spans", 2, MESSAGE, true, &span});
TABLE(resource_spans, {"resource", 1, MESSAGE, false, &resource},
      {"scopeSpans", 2, MESSAGE, true, &scope_spans});
TABLE(trace_request, {"resourceSpans", 1, MESSAGE, true, &resource_spans});

struct out {
	uint8_t *bytes;
	size_t used, room;
	const char *bad; /* key with a malformed value */
};

static uint8_t *make_room(struct out *o, size_t n)
{
	return base_grow(&o->bytes, &o->room, o->used + n + 2 * EXPORT_PB_FIELD, 1)
		       ? o->bytes + o->used
		       : NULL;
}

/* ---- scalars; functions return false if malformed or out of memory ---- */

static bool integer_of(const json_t *v, uint64_t *out)
{
	char *end;
	const char *s = json_string_value(v);

	if (json_is_integer(v)) {
		*out = (uint64_t)json_integer_value(v);
		return true;
	}
	if (!s || !*s || *s == ' ')
		return false;
	errno = 0;
	*out = *s == '-' ? (uint64_t)strtoll(s, &end, 10) : strtoull(s, &end, 10);
	return !*end && !errno;
}

static bool double_of(const json_t *v, double *out)
{
	const char *s = json_string_value(v);

	if (json_is_number(v)) {
		*out = json_number_value(v);
		return true;
	}
	return s && bridge_number(s, s + strlen(s), out) == s + strlen(s);
}

/* IDs are hexadecimal, unlike other bytes fields, which are base64. */
static bool put_hex(struct out *o, const struct field *f, const char *s, size_t n)
{
	uint8_t *p = s && n % 2 == 0 ? make_room(o, n) : NULL;

	if (!p)
		return false;
	p = export_pb_head(p, f->number, n / 2);
	o->used = (size_t)(p - o->bytes) + n / 2;
	return !base_unhex(p, s, n / 2);
}

static int base64_digit(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+' || c == '-' ? 62
	       : c == '/' || c == '_' ? 63
				      : -1;
}

/* Standard or URL-safe base64, with or without padding. */
static bool put_base64(struct out *o, const struct field *f, const char *s, size_t n)
{
	uint32_t bits = 0;
	uint8_t *p;

	while (n && s[n - 1] == '=')
		n--;
	p = n % 4 != 1 ? make_room(o, n) : NULL;
	if (!p)
		return false;
	p = export_pb_head(p, f->number, n * 3 / 4);
	for (size_t i = 0; i < n; i++) {
		int digit = base64_digit(s[i]);

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		if (i % 4)
			*p++ = (uint8_t)(bits >> (6 - 2 * (i % 4)));
	}
	o->used = (size_t)(p - o->bytes);
	return true;
}

static bool put_scalar(struct out *o, const struct field *f, const json_t *v)
{
	const char *s = json_string_value(v);
	size_t n = s ? json_string_length(v) : 0;
	uint64_t i = 0;
	double d = 0;
	bool good = f->type == STRING || f->type == HEX || f->type == BASE64 ? s != NULL
		    : f->type == BOOLEAN				     ? json_is_boolean(v)
		    : f->type == DOUBLE					     ? double_of(v, &d)
									     : integer_of(v, &i);
	uint8_t *p;

	if (f->type == HEX)
		return put_hex(o, f, s, n);
	if (f->type == BASE64)
		return s && put_base64(o, f, s, n);
	p = good ? make_room(o, n) : NULL;
	if (!p)
		return false;
	switch (f->type) {
	case STRING:
		p = export_pb_bytes(p, f->number, s, n);
		break;
	case BOOLEAN:
		p = export_pb_u64(p, f->number, json_is_true(v));
		break;
	case DOUBLE:
		p = export_pb_f64(p, f->number, d);
		break;
	case FIXED64:
	case SFIXED64:
		p = export_pb_fixed64(p, f->number, i);
		break;
	case FIXED32:
		p = export_pb_fixed32(p, f->number, (uint32_t)i);
		break;
	case SINT32:
		p = export_pb_u64(p, f->number, export_pb_zigzag((int64_t)i));
		break;
	default:
		p = export_pb_u64(p, f->number, i);
		break;
	}
	o->used = (size_t)(p - o->bytes);
	return true;
}

/* ---- messages ---- */

static bool put_message(struct out *o, const struct message *m, const json_t *v, int depth);

/* The length is written first and always takes five bytes. */
static bool put_inner(struct out *o, const struct field *f, const json_t *v, int depth)
{
	uint8_t *p = make_room(o, 0);
	size_t at, n;

	if (!p)
		return false;
	o->used = (size_t)(export_pb_tag(p, f->number, PB_LENGTH) - o->bytes) + 5;
	at = o->used;
	if (!put_message(o, f->of, v, depth))
		return false;
	n = o->used - at;
	for (int i = 0; i < 5; i++)
		o->bytes[at - 5 + (size_t)i] = (uint8_t)((n >> (7 * i) & 0x7f) |
							 (i < 4 ? 0x80 : 0));
	return n >> 35 == 0;
}

static bool put_field(struct out *o, const struct field *f, const json_t *v, int depth)
{
	bool good = f->type == MESSAGE ? put_inner(o, f, v, depth) : put_scalar(o, f, v);

	if (!good && !o->bad)
		o->bad = f->name;
	return good;
}

static bool put_message(struct out *o, const struct message *m, const json_t *v, int depth)
{
	size_t i;
	json_t *e;

	if (!json_is_object(v) || depth == DEPTH_MAX)
		return false;
	for (const struct field *f = m->fields; f->name; f++) {
		json_t *of = json_object_get(v, f->name);

		if (!of || json_is_null(of))
			continue;
		if (!f->repeated) {
			if (!put_field(o, f, of, depth + 1))
				return false;
			continue;
		}
		if (!json_is_array(of)) {
			o->bad = o->bad ?: f->name;
			return false;
		}
		json_array_foreach(of, i, e)
		{
			if (!put_field(o, f, e, depth + 1))
				return false;
		}
	}
	return true;
}

bool bridge_otlp_json_short(const char *text, size_t bytes)
{
	bool quoted = false;
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '"')
			quoted = !quoted;
		else if (quoted)
			i += text[i] == '\\';
		else
			n += text[i] == ',' || text[i] == '[' || text[i] == '{';
	}
	return n <= BRIDGE_OTLP_MESSAGES;
}

/* Returns the UTF-16 unit of the escape \\uXXXX at s, or -1. */
static int escaped_unit(const char *s, const char *end)
{
	char digits[5] = "";
	uint8_t unit[2];

	if (end - s < 6 || s[0] != '\\' || s[1] != 'u')
		return -1;
	memcpy(digits, s + 2, 4);
	return base_unhex(unit, digits, 2) ? -1 : unit[0] << 8 | unit[1];
}

/*
 * Replaces NUL and half surrogate pairs by U+FFFD, because the parser refuses a whole body for
 * them. SDKs for JavaScript make half pairs when they cut a long attribute within an emoji.
 */
static void replace_escapes(char *s, const char *end)
{
	for (; s < end; s++) {
		int unit = *s == '\\' ? escaped_unit(s, end) : -1, next;

		if (unit < 0) {
			s += *s == '\\';
			continue;
		}
		next = escaped_unit(s + 6, end);
		if (unit >> 10 == 0xd800 >> 10 && next >> 10 == 0xdc00 >> 10)
			s += 6;
		else if (!unit || unit >> 11 == 0xd800 >> 11)
			memcpy(s + 2, "fffd", 4);
		s += 5;
	}
}

static json_t *read_json(const char *text, size_t bytes, json_error_t *e)
{
	char *copy = malloc(bytes + 1);
	json_t *v;

	*e = (json_error_t){.text = "out of memory"};
	if (!copy)
		return NULL;
	if (bytes)
		memcpy(copy, text, bytes);
	replace_escapes(copy, copy + bytes);
	v = base_json_read(copy, bytes, e);
	free(copy);
	return v;
}

uint8_t *bridge_otlp_of_json(const char *text, size_t bytes, enum bridge_otlp_signal signal,
			     size_t *out_bytes, struct bridge_error *error)
{
	struct out o = {.bytes = NULL};
	json_error_t e;
	json_t *v = read_json(text, bytes, &e);
	bool good;

	if (!v) {
		bridge_fail(error, -EINVAL, (uint32_t)(e.line > 0 ? e.line : 0), "not JSON: %s",
			    e.text);
		return NULL;
	}
	good = make_room(&o, 0) &&
	       put_message(&o, signal == OTLP_TRACES ? &trace_request : &metrics_request, v, 0);
	json_decref(v);
	*out_bytes = o.used;
	if (good)
		return o.bytes;
	free(o.bytes);
	bridge_fail(error, -EINVAL, 0, "malformed value of '%s'", o.bad ?: "the request");
	return NULL;
}
