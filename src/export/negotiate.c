// SPDX-License-Identifier: Apache-2.0
/*
 * negotiate.c - which format a scraper wants, by its Accept header (RFC 9110, 12.5.1). Prometheus
 * 2.42 sends "application/openmetrics-text;version=1.0.0,application/openmetrics-text;
 * version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,* / *;q=0.1", and with native histograms the
 * protobuf format before it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "export/model.h"

/* One media range of the list, its parameters cut out of it. */
struct negotiate_range {
	const char *type;
	size_t type_bytes;
	const char *version, *proto, *encoding;
	size_t version_bytes, proto_bytes, encoding_bytes;
	double q;
};

static bool is(const char *s, size_t bytes, const char *word)
{
	return bytes == strlen(word) && !strncasecmp(s, word, bytes);
}

/* Blanks and quotes around a value do not count. */
static void trim(const char **s, size_t *bytes)
{
	while (*bytes && strchr(" \t\"", **s))
		(*s)++, (*bytes)--;
	while (*bytes && strchr(" \t\"", (*s)[*bytes - 1]))
		(*bytes)--;
}

static void parse_range(const char *s, size_t bytes, struct negotiate_range *r)
{
	const char *end = s + bytes, *next;

	*r = (struct negotiate_range){.q = 1};
	for (bool first = true; s <= end; s = next + 1, first = false) {
		const char *value;
		size_t n, value_bytes;

		next = memchr(s, ';', (size_t)(end - s));
		next = next ? next : end;
		n = (size_t)(next - s);
		trim(&s, &n);
		if (first) {
			r->type = s;
			r->type_bytes = n;
			continue;
		}
		value = memchr(s, '=', n);
		if (!value)
			continue;
		value_bytes = (size_t)(s + n - value - 1);
		n = (size_t)(value++ - s);
		trim(&s, &n);
		trim(&value, &value_bytes);
		if (is(s, n, "q")) {
			char number[8] = "";

			memcpy(number, value, value_bytes < 7 ? value_bytes : 7);
			r->q = strtod(number, NULL);
		} else if (is(s, n, "version")) {
			r->version = value;
			r->version_bytes = value_bytes;
		} else if (is(s, n, "proto")) {
			r->proto = value;
			r->proto_bytes = value_bytes;
		} else if (is(s, n, "encoding")) {
			r->encoding = value;
			r->encoding_bytes = value_bytes;
		}
	}
}

/* The format that a range asks for, or -1. */
static int format_of(const struct negotiate_range *r)
{
	if (is(r->type, r->type_bytes, "application/vnd.google.protobuf") &&
	    is(r->proto, r->proto_bytes, "io.prometheus.client.MetricFamily") &&
	    is(r->encoding, r->encoding_bytes, "delimited"))
		return EXPORT_FORMAT_PROTOBUF;
	if (is(r->type, r->type_bytes, "application/openmetrics-text") &&
	    (!r->version_bytes || is(r->version, r->version_bytes, "1.0.0") ||
	     is(r->version, r->version_bytes, "0.0.1")))
		return EXPORT_FORMAT_OPENMETRICS;
	if ((is(r->type, r->type_bytes, "text/plain") &&
	     (!r->version_bytes || is(r->version, r->version_bytes, "0.0.4"))) ||
	    is(r->type, r->type_bytes, "text/*") || is(r->type, r->type_bytes, "*/*"))
		return EXPORT_FORMAT_TEXT;
	return -1;
}

enum export_format export_format_negotiate(const char *accept)
{
	enum export_format best = EXPORT_FORMAT_TEXT; /* what everybody reads, rather than a 406 */
	double best_q = 0;

	while (accept && *accept) {
		size_t bytes = strcspn(accept, ",");
		struct negotiate_range r;
		int format;

		parse_range(accept, bytes, &r);
		format = format_of(&r);
		if (format >= 0 && r.q > best_q) { /* of equals the first */
			best = (enum export_format)format;
			best_q = r.q;
		}
		accept += bytes;
		accept += *accept == ',';
	}
	return best;
}
