// SPDX-License-Identifier: Apache-2.0
/* fuzz_bridge_families.c - protobuf of a target, published as it is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/families.h"
#include "bridge/publish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct bridge_publisher *p;
	const struct bridge_limits limits = {.points = 100, .values = 1000};
	struct bridge_body_counts counts;
	struct bridge_error e = {.text = ""};
	char *body = malloc(bytes ? bytes : 1);

	if (!p)
		p = bridge_publish_open(&(struct bridge_publish_opts){
			.service = "fuzz", .pod = "fuzz", .detached = true, .series_max = 64});
	if (!p || !body)
		abort();
	memcpy(body, data, bytes);
	bridge_publish_begin(p);
	if (bridge_families_read(&limits, &BRIDGE_ALL_TIMES, body, bytes, bridge_publish_sink(p),
				 &counts, &e) &&
	    (!*e.text || bridge_publish_series(p)))
		abort();
	bridge_publish_clear(p);
	free(body);
	return 0;
}
