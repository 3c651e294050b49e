// SPDX-License-Identifier: Apache-2.0
#include "export/serve.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"

/*
 * Chooses the format from the Accept header (RFC 9110, 12.5.1). Prometheus 2.42 sends
 * "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,
 * text/plain;version=0.0.4;q=0.5,* / *;q=0.1", and with native histograms the protobuf format
 * first.
 */

/* A piece of the header. */
struct negotiate_text {
	const char *s;
	size_t bytes;
};

/* A media range and its parameters. */
struct negotiate_range {
	struct negotiate_text type, version, proto, encoding, escaping;
	double q;
};

static bool is_word(struct negotiate_text t, const char *word)
{
	return t.bytes == strlen(word) && !strncasecmp(t.s, word, t.bytes);
}

/* Removes surrounding blanks and quotes. */
static struct negotiate_text trim_text(const char *s, const char *end)
{
	while (s < end && strchr(" \t\"", *s))
		s++;
	while (s < end && strchr(" \t\"", end[-1]))
		end--;
	return (struct negotiate_text){s, (size_t)(end - s)};
}

static void parse_range(const char *s, size_t bytes, struct negotiate_range *r)
{
	const char *end = s + bytes, *next;

	*r = (struct negotiate_range){.q = 1};
	for (bool first = true; s <= end; s = next + 1, first = false) {
		struct negotiate_text key, value;
		const char *equals;

		next = memchr(s, ';', (size_t)(end - s));
		next = next ? next : end;
		if (first) {
			r->type = trim_text(s, next);
			continue;
		}
		equals = memchr(s, '=', (size_t)(next - s));
		if (!equals)
			continue;
		key = trim_text(s, equals);
		value = trim_text(equals + 1, next);
		if (is_word(key, "q")) {
			char number[8] = "";

			memcpy(number, value.s, BASE_MIN(value.bytes, sizeof(number) - 1));
			r->q = strtod(number, NULL);
		} else if (is_word(key, "version")) {
			r->version = value;
		} else if (is_word(key, "proto")) {
			r->proto = value;
		} else if (is_word(key, "encoding")) {
			r->encoding = value;
		} else if (is_word(key, "escaping")) {
			r->escaping = value;
		}
	}
}

/* Parses the next media range of a header, which may be NULL. Returns false at the end. */
static bool next_range(const char **accept, struct negotiate_range *r)
{
	size_t bytes;

	if (!*accept || !**accept)
		return false;
	bytes = strcspn(*accept, ",");
	parse_range(*accept, bytes, r);
	*accept += bytes + ((*accept)[bytes] == ',');
	return true;
}

/* Returns the format of a media range, or -1. */
static int format_of(const struct negotiate_range *r)
{
	if (is_word(r->type, "application/vnd.google.protobuf") &&
	    is_word(r->proto, "io.prometheus.client.MetricFamily") &&
	    is_word(r->encoding, "delimited"))
		return EXPORT_FORMAT_PROTOBUF;
	if (is_word(r->type, "application/openmetrics-text") &&
	    (!r->version.bytes || is_word(r->version, "1.0.0") || is_word(r->version, "0.0.1")))
		return EXPORT_FORMAT_OPENMETRICS;
	if ((is_word(r->type, "text/plain") &&
	     (!r->version.bytes || is_word(r->version, "0.0.4"))) ||
	    is_word(r->type, "text/*") || is_word(r->type, "*/*"))
		return EXPORT_FORMAT_TEXT;
	return -1;
}

enum export_format export_format_negotiate(const char *accept)
{
	enum export_format best =
		EXPORT_FORMAT_TEXT; /* every reader accepts text, so never answer 406 */
	double best_q = 0;
	struct negotiate_range r;

	while (next_range(&accept, &r)) {
		const int format = format_of(&r);

		/* of several ranges with equal weight, the first wins */
		if (format >= 0 && r.q > best_q) {
			best = (enum export_format)format;
			best_q = r.q;
		}
	}
	return best;
}

/* Whether the client accepts UTF-8 names: "escaping=allow-utf-8", as sent by Prometheus 3. */
static bool takes_utf8(const char *accept)
{
	struct negotiate_range r;

	while (next_range(&accept, &r))
		if (is_word(r.escaping, "allow-utf-8"))
			return true;
	return false;
}

/* ---- the route ---- */

static ssize_t stream_read(void *arg, char *buf, size_t max)
{
	ssize_t n = export_render_read(arg, buf, max);

	if (n < 0)
		base_log_limited(BASE_WARN, "export", "scrape aborted error=%s", strerror((int)-n));
	return n;
}

static void stream_done(void *arg)
{
	export_render_free(arg);
}

static void on_scrape(struct http_request *req, void *arg)
{
	const char *accept = http_header(req, "Accept");
	enum export_format format = export_format_negotiate(accept);
	const bool utf8 = takes_utf8(accept);
	struct export_render *r = export_render_new(arg, format, utf8);

	if (!r) {
		http_reply_error(req, 503, "out of memory");
		return;
	}
	if (http_query(req, "classic"))
		export_render_classic(r);
	http_add_header(req, "Vary", "Accept");
	http_reply_stream(req, 200, export_format_content_type(format, utf8), stream_read,
			  stream_done, r);
}

int export_route(struct http *h, const char *path, const struct export_source *source)
{
	return http_route(h, "GET", path, HTTP_READER, on_scrape, (void *)(uintptr_t)source);
}
