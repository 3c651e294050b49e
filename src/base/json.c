// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/json.h"
#include "base/number.h"
#include "base/text.h"

void base_json_init(struct base_json *j, size_t max)
{
	*j = (struct base_json){.max = max};
}

void base_json_free(struct base_json *j)
{
	free(j->buf);
	*j = (struct base_json){0};
}

void base_json_stream(struct base_json *j, FILE *to)
{
	*j = (struct base_json){.stream = to};
}

/* Makes space for n more bytes. Returns false beyond the limit, or if memory is exhausted. */
static bool reserve_bytes(struct base_json *j, size_t n)
{
	size_t cap = j->cap ? j->cap : 4096;
	char *buf;

	if (n <= j->cap - j->len)
		return true;
	if (n > j->max - j->len)
		return false;
	while (cap - j->len < n)
		cap *= 2;
	cap = BASE_MIN(cap, j->max);
	buf = realloc(j->buf, cap);
	if (!buf)
		return false;
	j->buf = buf;
	j->cap = cap;
	return true;
}

static void put_bytes(struct base_json *j, const char *s, size_t n)
{
	if (j->stream) {
		fwrite(s, 1, n, j->stream);
	} else if (!j->overflow && reserve_bytes(j, n)) {
		memcpy(j->buf + j->len, s, n);
		j->len += n;
	} else {
		j->overflow = true;
	}
}

void base_json_line(struct base_json *j)
{
	j->comma = false;
	put_bytes(j, "\n", 1);
}

static void put_value(struct base_json *j, const char *s, size_t n)
{
	if (j->comma)
		put_bytes(j, ",", 1);
	put_bytes(j, s, n);
	j->comma = true;
}

void base_json_begin(struct base_json *j, char bracket)
{
	put_value(j, &bracket, 1);
	j->comma = false;
}

void base_json_end(struct base_json *j, char bracket)
{
	put_bytes(j, &bracket, 1);
	j->comma = true;
}

void base_json_string(struct base_json *j, const char *s)
{
	const char *run = s;

	if (j->comma)
		put_bytes(j, ",", 1);
	put_bytes(j, "\"", 1);
	while (*s) {
		unsigned char c = (unsigned char)*s;
		size_t n = base_utf8_sequence(s, 4);
		/* U+0080 to U+009F, whose second UTF-8 byte equals the code point */
		bool c1 = n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0;
		char escape[8];

		if (n && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !c1) {
			s += n;
			continue;
		}
		put_bytes(j, run, (size_t)(s - run));
		if (!n)
			put_bytes(j, "\xef\xbf\xbd", 3);
		else if (c == '"' || c == '\\')
			put_bytes(j, (char[]){'\\', (char)c}, 2);
		else
			put_bytes(j, escape,
				  (size_t)snprintf(escape, sizeof(escape), "\\u%04x",
						   c1 ? (unsigned char)s[1] : c));
		s += n ? n : 1;
		run = s;
	}
	put_bytes(j, run, (size_t)(s - run));
	put_bytes(j, "\"", 1);
	j->comma = true;
}

void base_json_key(struct base_json *j, const char *key)
{
	base_json_string(j, key);
	put_bytes(j, ":", 1);
	j->comma = false;
}

void base_json_u64(struct base_json *j, uint64_t v)
{
	char text[BASE_NUMBER_MAX];

	put_value(j, text, (size_t)(base_print_u64(text, v) - text));
}

void base_json_i64(struct base_json *j, int64_t v)
{
	char text[BASE_NUMBER_MAX];

	put_value(j, text, (size_t)(base_print_i64(text, v) - text));
}

void base_json_f64(struct base_json *j, double v)
{
	char text[BASE_NUMBER_MAX + 2] = "\"", *end = base_print_f64(text + 1, v);

	/* JSON has no number for NaN and the infinities: they are strings. */
	if (!isfinite(v)) {
		*end++ = '"';
		put_value(j, text, (size_t)(end - text));
	} else {
		put_value(j, text + 1, (size_t)(end - text) - 1);
	}
}

void base_json_bool(struct base_json *j, bool v)
{
	put_value(j, v ? "true" : "false", v ? 4 : 5);
}

void base_json_null(struct base_json *j)
{
	put_value(j, "null", 4);
}

void base_json_time(struct base_json *j, int64_t ns)
{
	/* Seconds and microseconds are truncated towards zero; there is a single sign in front. */
	uint64_t us = (ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns) / 1000;
	char text[32];

	put_value(j, text,
		  (size_t)snprintf(text, sizeof(text), "%s%llu.%06llu", ns < 0 ? "-" : "",
				   (unsigned long long)(us / 1000000),
				   (unsigned long long)(us % 1000000)));
}

void base_json_kformat(struct base_json *j, const char *key, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	base_json_kstring(j, key, text);
}

static void put_f64(struct base_json *j, double v, bool null)
{
	if (null)
		base_json_null(j);
	else
		base_json_f64(j, v);
}

static void put_time(struct base_json *j, uint64_t ns)
{
	if (!ns || ns > INT64_MAX)
		base_json_null(j);
	else
		base_json_time(j, (int64_t)ns);
}

static void put_pairs(struct base_json *j, va_list ap)
{
	char id[17];
	const char *key;
	uint64_t n;
	double v;

	while ((key = va_arg(ap, const char *))) {
		base_json_key(j, key);
		switch (va_arg(ap, enum base_kv_type)) {
		case BASE_KV_BOOL:
			base_json_bool(j, va_arg(ap, int));
			break;
		case BASE_KV_U32:
			base_json_u64(j, va_arg(ap, uint32_t));
			break;
		case BASE_KV_U64:
			base_json_u64(j, va_arg(ap, uint64_t));
			break;
		case BASE_KV_I64:
			base_json_i64(j, va_arg(ap, int64_t));
			break;
		case BASE_KV_F64:
			base_json_f64(j, va_arg(ap, double));
			break;
		case BASE_KV_STRING:
			base_json_string(j, va_arg(ap, const char *));
			break;
		case BASE_KV_ID:
			n = va_arg(ap, uint64_t);
			snprintf(id, sizeof(id), "%016llx", (unsigned long long)n);
			base_json_string(j, n ? id : "");
			break;
		case BASE_KV_TIME:
			put_time(j, va_arg(ap, uint64_t));
			break;
		case BASE_KV_QUANTILE:
			v = va_arg(ap, double);
			put_f64(j, v, isnan(v));
			break;
		case BASE_KV_FINITE:
			v = va_arg(ap, double);
			put_f64(j, v, !isfinite(v));
			break;
		}
	}
}

void base_put_pairs(struct base_json *j, ...)
{
	va_list ap;

	va_start(ap, j);
	put_pairs(j, ap);
	va_end(ap);
}

void base_put_object_pairs(struct base_json *j, const char *key, ...)
{
	va_list ap;

	if (key)
		base_json_key(j, key);
	base_json_begin(j, '{');
	va_start(ap, key);
	put_pairs(j, ap);
	va_end(ap);
	base_json_end(j, '}');
}

struct base_json_mark base_json_mark(const struct base_json *j)
{
	return (struct base_json_mark){.len = j->len, .comma = j->comma};
}

void base_json_back(struct base_json *j, struct base_json_mark mark)
{
	j->len = mark.len;
	j->comma = mark.comma;
	j->overflow = false;
}
