// SPDX-License-Identifier: Apache-2.0
/* fuzz_bridge_otlp.c - OTLP in protobuf or JSON, by the first byte, published as it is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/otlp.h"
#include "bridge/publish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct bridge_sink *resource(void *arg, struct bridge_text service,
				    struct bridge_text instance)
{
	(void)service, (void)instance;
	bridge_publish_begin(arg);
	return bridge_publish_sink(arg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct bridge_publisher *p;
	struct bridge_otlp *o = bridge_otlp_new();
	struct bridge_otlp_counts c = {0};
	struct bridge_error e = {.text = ""};
	char *body = malloc(bytes ? bytes : 1);

	if (!p)
		p = bridge_publish_open(&(struct bridge_publish_opts){
			.service = "fuzz", .pod = "fuzz", .detached = true, .series_max = 64});
	if (!p || !o || !body)
		abort();
	if (bytes) {
		memcpy(body, data + 1, bytes - 1);
		if (bridge_otlp_read(o, body, bytes - 1, data[0] == '{', resource, p, &c, &e) &&
		    (c.points || c.refused || !*e.text))
			abort();
		bridge_publish_clear(p);
	}
	free(body);
	bridge_otlp_free(o);
	return 0;
}
