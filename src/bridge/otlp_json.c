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

enum type { STRING, BOOLEAN, VARINT, ZIGZAG, DOUBLE, FIXED64, FIXED32, HEX, BASE64, MESSAGE };

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
#define ONE(name, number, type)	  ((struct field){name, number, type, false, NULL})
#define LIST(name, number, type)  ((struct field){name, number, type, true, NULL})
#define ONE_OF(name, number, of)  ((struct field){name, number, MESSAGE, false, &(of)})
#define LIST_OF(name, number, of) ((struct field){name, number, MESSAGE, true, &(of)})

/* declared first, because values contain lists, which contain values */
static const struct message any, key_value;
TABLE(array, LIST_OF("values", 1, any));
TABLE(map, LIST_OF("values", 1, key_value));
TABLE(any, ONE("stringValue", 1, STRING), ONE("boolValue", 2, BOOLEAN), ONE("intValue", 3, VARINT),
      ONE("doubleValue", 4, DOUBLE), ONE_OF("arrayValue", 5, array), ONE_OF("kvlistValue", 6, map),
      ONE("bytesValue", 7, BASE64));
TABLE(key_value, ONE("key", 1, STRING), ONE_OF("value", 2, any));
TABLE(resource, LIST_OF("attributes", 1, key_value));
TABLE(exemplar, ONE("timeUnixNano", 2, FIXED64), ONE("asDouble", 3, DOUBLE), ONE("spanId", 4, HEX),
      ONE("traceId", 5, HEX), ONE("asInt", 6, FIXED64),
      LIST_OF("filteredAttributes", 7, key_value));
TABLE(number_point, ONE("startTimeUnixNano", 2, FIXED64), ONE("timeUnixNano", 3, FIXED64),
      ONE("asDouble", 4, DOUBLE), LIST_OF("exemplars", 5, exemplar), ONE("asInt", 6, FIXED64),
      LIST_OF("attributes", 7, key_value), ONE("flags", 8, VARINT));
TABLE(histogram_point, ONE("startTimeUnixNano", 2, FIXED64), ONE("timeUnixNano", 3, FIXED64),
      ONE("count", 4, FIXED64), ONE("sum", 5, DOUBLE), LIST("bucketCounts", 6, FIXED64),
      LIST("explicitBounds", 7, DOUBLE), LIST_OF("exemplars", 8, exemplar),
      LIST_OF("attributes", 9, key_value), ONE("flags", 10, VARINT));
TABLE(buckets, ONE("offset", 1, ZIGZAG), LIST("bucketCounts", 2, VARINT));
TABLE(exponential_point, LIST_OF("attributes", 1, key_value), ONE("startTimeUnixNano", 2, FIXED64),
      ONE("timeUnixNano", 3, FIXED64), ONE("count", 4, FIXED64), ONE("sum", 5, DOUBLE),
      ONE("scale", 6, ZIGZAG), ONE("zeroCount", 7, FIXED64), ONE_OF("positive", 8, buckets),
      ONE_OF("negative", 9, buckets), ONE("flags", 10, VARINT), LIST_OF("exemplars", 11, exemplar),
      ONE("zeroThreshold", 14, DOUBLE));
TABLE(quantile, ONE("quantile", 1, DOUBLE), ONE("value", 2, DOUBLE));
TABLE(summary_point, ONE("startTimeUnixNano", 2, FIXED64), ONE("timeUnixNano", 3, FIXED64),
      ONE("count", 4, FIXED64), ONE("sum", 5, DOUBLE), LIST_OF("quantileValues", 6, quantile),
      LIST_OF("attributes", 7, key_value), ONE("flags", 8, VARINT));
TABLE(gauge, LIST_OF("dataPoints", 1, number_point));
TABLE(sum, LIST_OF("dataPoints", 1, number_point), ONE("aggregationTemporality", 2, VARINT),
      ONE("isMonotonic", 3, BOOLEAN));
TABLE(histogram, LIST_OF("dataPoints", 1, histogram_point),
      ONE("aggregationTemporality", 2, VARINT));
TABLE(exponential, LIST_OF("dataPoints", 1, exponential_point),
      ONE("aggregationTemporality", 2, VARINT));
TABLE(summary, LIST_OF("dataPoints", 1, summary_point));
TABLE(metric, ONE("name", 1, STRING), ONE("description", 2, STRING), ONE("unit", 3, STRING),
      ONE_OF("gauge", 5, gauge), ONE_OF("sum", 7, sum), ONE_OF("histogram", 9, histogram),
      ONE_OF("exponentialHistogram", 10, exponential), ONE_OF("summary", 11, summary));
TABLE(scope, ONE("name", 1, STRING), ONE("version", 2, STRING),
      LIST_OF("attributes", 3, key_value));
TABLE(scope_metrics, ONE_OF("scope", 1, scope), LIST_OF("metrics", 2, metric),
      ONE("schemaUrl", 3, STRING));
TABLE(resource_metrics, ONE_OF("resource", 1, resource), LIST_OF("scopeMetrics", 2, scope_metrics));
TABLE(metrics_request, LIST_OF("resourceMetrics", 1, resource_metrics));
TABLE(status, ONE("message", 2, STRING), ONE("code", 3, VARINT));
TABLE(span, ONE("traceId", 1, HEX), ONE("spanId", 2, HEX), ONE("parentSpanId", 4, HEX),
      ONE("name", 5, STRING), ONE("kind", 6, VARINT), ONE("startTimeUnixNano", 7, FIXED64),
      ONE("endTimeUnixNano", 8, FIXED64), LIST_OF("attributes", 9, key_value),
      ONE_OF("status", 15, status), ONE("flags", 16, FIXED32));
TABLE(scope_spans, LIST_OF("spans", 2, span));
TABLE(resource_spans, ONE_OF("resource", 1, resource), LIST_OF("scopeSpans", 2, scope_spans));
TABLE(trace_request, LIST_OF("resourceSpans", 1, resource_spans));

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
		p = export_pb_fixed64(p, f->number, i);
		break;
	case FIXED32:
		p = export_pb_fixed32(p, f->number, (uint32_t)i);
		break;
	case ZIGZAG:
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
