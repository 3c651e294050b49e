// SPDX-License-Identifier: Apache-2.0
/*
 * exposition_server [SERIES] - serves fixture_shop at /metrics, only as text at /text, and SERIES
 * (default 100000) gauges at /many, until its standard input ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "export/serve.h"
#include "fixture.h"

static ssize_t stream_read(void *arg, char *buf, size_t max)
{
	return export_render_read(arg, buf, max);
}

static void stream_done(void *arg)
{
	export_render_free(arg);
}

static void on_text(struct http_request *req, void *arg)
{
	http_reply_stream(req, 200, export_format_content_type(EXPORT_FORMAT_TEXT, false),
			  stream_read, stream_done,
			  export_render_new(arg, EXPORT_FORMAT_TEXT, true));
}

/* ---- many series ---- */

struct many {
	uint64_t next, end;
	bool begun;
	char text[128], value[32];
	const char *values[3];
};

static const char *const many_keys[3] = {"service", "pod", "item"};

static void *many_begin(void *ctx)
{
	struct many *m = calloc(1, sizeof(*m));

	if (m)
		m->end = *(uint64_t *)ctx;
	return m;
}

static int many_family(void *walk, struct export_family *out)
{
	struct many *m = walk;

	*out = (struct export_family){
		.name = "many_items", .help = "Many", .unit = "", .type = EXPORT_FAMILY_GAUGE};
	return m->begun ? 0 : (m->begun = true);
}

static int many_series(void *walk, struct export_series *out)
{
	struct many *m = walk;
	uint64_t i = m->next++;

	if (i >= m->end)
		return 0;
	snprintf(m->value, sizeof(m->value), "%llu", (unsigned long long)i);
	m->values[0] = "shop";
	m->values[1] = "shop-0";
	m->values[2] = m->value;
	out->label_text = m->text;
	out->label_bytes = (size_t)snprintf(
		m->text, sizeof(m->text), "service=\"shop\",pod=\"shop-0\",item=\"%s\"", m->value);
	out->label_keys = many_keys;
	out->label_values = m->values;
	out->label_count = 3;
	out->value_type = EXPORT_VALUE_U64;
	out->value.u64 = i * 1000003;
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t series = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
	struct export_source shop = fixture_source(&fixture_shop);
	struct export_source many = {.ctx = &series,
				     .begin = many_begin,
				     .next_family = many_family,
				     .next_series = many_series,
				     .end = free};
	char error[256];
	struct http *h;
	int stop = base_stop_fd();

	h = http_new(&(struct http_opts){.listen = "127.0.0.1:0"}, error, sizeof(error));
	if (!h || export_route(h, "/metrics", &shop) || export_route(h, "/many", &many) ||
	    http_route(h, "GET", "/text", HTTP_READER, on_text, &shop) ||
	    http_start(h, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	base_ready("address=%s", http_address(h));
	base_stop_wait(stop, -1);
	http_free(h);
	return fixture_shop.walks != 0;
}
