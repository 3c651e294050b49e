// SPDX-License-Identifier: Apache-2.0
#include "export/serve.h"

#include <string.h>

#include "base/base.h"

static ssize_t stream_read(void *arg, char *buf, size_t max)
{
	ssize_t n = sl_render_read(arg, buf, max);

	if (n < 0)
		sl_log_limited(SL_WARN, "export", "a scrape was broken off error=%s",
			       strerror((int)-n));
	return n;
}

static void stream_done(void *arg)
{
	sl_render_free(arg);
}

static void on_scrape(struct sl_http_request *req, void *arg)
{
	enum sl_format format = sl_format_negotiate(sl_http_header(req, "Accept"));
	struct sl_render *r = sl_render_new(arg, format);

	if (!r) {
		sl_http_reply_error(req, 503, "out of memory");
		return;
	}
	sl_http_add_header(req, "Vary", "Accept");
	sl_http_reply_stream(req, 200, sl_format_content_type(format), stream_read, stream_done, r);
}

int sl_export_route(struct sl_http *h, const char *path, const struct sl_source *source)
{
	return sl_http_route(h, "GET", path, on_scrape, (void *)(uintptr_t)source);
}
