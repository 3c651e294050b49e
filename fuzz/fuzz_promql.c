// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_promql.c - queries of a client: what is read must be read again to the same result, and
 * matchers, regular expressions among them, must end on any label.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const keys[] = {"pod", "service", "long"};
	char *text = malloc(bytes + 1), error[256] = "x", *values[3];
	struct api_promql q = {.range_ns = 0};
	struct collect_series_view v = {.keys = keys, .labels = 3};
	int err;

	must(text);
	memcpy(text, data, bytes);
	text[bytes] = 0;
	values[0] = "shop-1";
	values[1] = text;
	values[2] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
	v.values = (const char *const *)values;
	err = api_promql_parse(&q, text, error, sizeof(error));
	must(!err == !*error);
	if (!err) {
		must(q.matchers.n && q.range_ns >= 0 && q.offset_ns >= 0);
		must(q.aggregates <= API_PROMQL_AGGREGATES);
		must(q.function == API_PROMQL_VALUE || q.range_ns);
		api_matchers_name(&q.matchers, "x_total");
		api_matchers_labels(&q.matchers, &v);
	}
	api_promql_free(&q);
	free(text);
	return 0;
}
