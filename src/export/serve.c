// SPDX-License-Identifier: Apache-2.0
#include "export/serve.h"

#include <string.h>

#include "base/base.h"

/*
 * Chooses the format from the Accept header (RFC 9110, 12.5.1). Prometheus 2.42 sends
 * "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,
 * text/plain;version=0.0.4;q=0.5,* / *;q=0.1", and with native histograms the protobuf format
 * first.
 */

/* Returns the format of a media range, or -1. */
static int format_of(const struct http_accepted *a)
{
	const struct http_word version = http_accept_value(a, "version");

	if (http_word_is(a->name, "application/vnd.google.protobuf") &&
	    http_word_is(http_accept_value(a, "proto"), "io.prometheus.client.MetricFamily") &&
	    http_word_is(http_accept_value(a, "encoding"), "delimited"))
		return EXPORT_FORMAT_PROTOBUF;
	if (http_word_is(a->name, "application/openmetrics-text") &&
	    (!version.bytes || http_word_is(version, "1.0.0") || http_word_is(version, "0.0.1")))
		return EXPORT_FORMAT_OPENMETRICS;
	if ((http_word_is(a->name, "text/plain") &&
	     (!version.bytes || http_word_is(version, "0.0.4"))) ||
	    http_word_is(a->name, "text/*") || http_word_is(a->name, "*/*"))
		return EXPORT_FORMAT_TEXT;
	return -1;
}

enum export_format export_format_negotiate(const char *accept)
{
	enum export_format best =
		EXPORT_FORMAT_TEXT; /* every reader accepts text, so never answer 406 */
	double best_q = 0;
	struct http_accepted a;

	while (http_accept_next(&accept, &a)) {
		const int format = format_of(&a);

		/* of several ranges with equal weight, the first wins */
		if (format >= 0 && a.q > best_q) {
			best = (enum export_format)format;
			best_q = a.q;
		}
	}
	return best;
}

/* Whether the client accepts UTF-8 names: "escaping=allow-utf-8", as sent by Prometheus 3. */
static bool takes_utf8(const char *accept)
{
	struct http_accepted a;

	while (http_accept_next(&accept, &a))
		if (http_word_is(http_accept_value(&a, "escaping"), "allow-utf-8"))
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
