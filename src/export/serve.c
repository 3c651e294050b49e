// SPDX-License-Identifier: Apache-2.0
#include "export/serve.h"

#include <string.h>

#include "base/base.h"

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
	enum export_format format = export_format_negotiate(http_header(req, "Accept"));
	struct export_render *r = export_render_new(arg, format);

	if (!r) {
		http_reply_error(req, 503, "out of memory");
		return;
	}
	http_add_header(req, "Vary", "Accept");
	http_reply_stream(req, 200, export_format_content_type(format), stream_read, stream_done,
			  r);
}

int export_route(struct http *h, const char *path, const struct export_source *source)
{
	return http_route(h, "GET", path, on_scrape, (void *)(uintptr_t)source);
}
