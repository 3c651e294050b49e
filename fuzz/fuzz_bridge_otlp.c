// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_bridge_otlp.c - OTLP in protobuf or JSON, metrics or spans, by the first byte, published as
 * it is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/otlp.h"
#include "bridge/publish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct base_table known;

static struct bridge_sink *resource(void *arg, const struct bridge_otlp_identity *id,
				    struct base_table **names)
{
	(void)id;
	*names = &known;
	bridge_publish_begin(arg);
	return bridge_publish_sink(arg);
}

static void *span_resource(void *arg, const struct bridge_otlp_identity *id)
{
	(void)id;
	return arg;
}

static bool span(void *to, const struct bridge_span *s)
{
	return bridge_spans_put(to, s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct bridge_publisher *p;
	static struct bridge_spans *spans;
	struct bridge_span_sink to = {span_resource, NULL, span};
	int err;
	struct bridge_otlp *o = bridge_otlp_new(NULL);
	struct bridge_otlp_counts c = {0};
	struct bridge_error e = {.text = ""};
	char *body = malloc(bytes ? bytes : 1);

	if (!p)
		p = bridge_publish_open(&(struct bridge_publish_opts){
			.service = "fuzz", .pod = "fuzz", .detached = true, .series_max = 64});
	if (!spans)
		spans = bridge_spans_open("fuzz", "fuzz", "/nowhere");
	to.arg = spans;
	if (!p || !o || !body || !spans)
		abort();
	if (bytes) {
		memcpy(body, data + 1, bytes - 1);
		err = data[0] == 'T' || data[0] == 't'
			      ? bridge_otlp_read_traces(o, body, bytes - 1, data[0] == 't', &to, &c,
							&e)
			      : bridge_otlp_read(o, body, bytes - 1, data[0] == '{', resource, p,
						 &c, &e);
		if (err && (c.points || !*e.text))
			abort();
		for (int i = 0; err && i < OTLP_CAUSES; i++)
			if (c.refused[i])
				abort();
		bridge_publish_clear(p);
	}
	free(body);
	bridge_otlp_free(o);
	return 0;
}
