// SPDX-License-Identifier: Apache-2.0
/*
 * What a client of the API may send, and what a pod may make it write: lists of series, search
 * terms, any bytes as text in JSON, any numbers as points and buckets.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/read/calc.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void as_query(const char *text)
{
	struct region_text_label label = {.key = "route", .value = text};
	struct collect_series_id ids[32];
	struct collect_terms terms;
	char bad[40];
	int n = collect_series_ids_parse(text, ids, 32, bad);

	must(n != 0 && n <= 32);
	for (int i = 0; i < n; i++) {
		char again[COLLECT_SERIES_ID_BYTES];
		struct collect_series_id same;

		collect_series_id_format(ids[i], again);
		must(collect_series_ids_parse(again, &same, 1, bad) == 1);
		must(same.instance == ids[i].instance && same.metric == ids[i].metric);
	}
	if (!collect_terms_parse(text, &terms)) {
		uint32_t all = (1u << terms.count) - 1;

		must(terms.count <= COLLECT_TERMS_MAX);
		must(!((collect_terms_in_text(&terms, text) |
			collect_terms_in_labels(&terms, &label, 1)) &
		       ~all));
	}
}

static void as_json(const char *text, size_t max)
{
	struct base_json j;
	json_t *got;

	base_json_init(&j, max);
	base_json_begin(&j, '{');
	base_json_kstring(&j, text, text);
	base_json_end(&j, '}');
	must(j.len <= max && j.cap <= max);
	if (!j.overflow) {
		got = json_loadb(j.buf, j.len, 0, NULL);
		must(got && json_object_size(got) == 1);
		json_decref(got);
	}
	base_json_free(&j);
}

static void as_numbers(const uint8_t *data, size_t size)
{
	size_t n = size / sizeof(struct collect_point);
	struct collect_point *p = malloc(size + 1);
	double bounds[8];

	must(p);
	memcpy(p, data, size);
	/* The times of READs go forward, and are not negative. */
	for (size_t i = 0; i < n; i++) {
		p[i].ns &= INT64_MAX >> 16;
		if (i)
			p[i].ns = p[i - 1].ns + 1 + p[i].ns % 100000000;
	}
	if (n)
		must(collect_decimate(p, n, p[0].ns, p[n - 1].ns, COLLECT_DECIMATE_MIN) <=
		     COLLECT_DECIMATE_MIN);
	free(p);
	if (size >= 8 * sizeof(uint64_t)) {
		uint64_t buckets[8];
		double q;

		memcpy(buckets, data, sizeof(buckets));
		for (int i = 0; i < 8; i++)
			bounds[i] = i - 2;
		q = collect_quantile_classic(buckets, bounds, 7, data[0] / 255.0);
		must(isnan(q) || (q >= -2 && q <= 4));
		q = collect_quantile_exponential(buckets, 8, 0, -3, 0.01, data[0] / 255.0);
		must(isnan(q) || (q >= 0 && q <= 8));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	as_query(text);
	as_json(text, 1 << 20);
	as_json(text, 24);
	free(text);
	as_numbers(data, size);
	return 0;
}
