// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_model.c - saved models of any content. The first byte picks the
 * detector, and whether the pod is in a fleet, which takes the model's thresholds; the checksum is
 * made right, so that the fields behind it are reached. What was loaded must score, learn and
 * merge, and what it then saves must load again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyse/fleet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define HEADER	 24u
#define IN_FLEET 0x80u

static void seal(uint8_t *model, size_t bytes)
{
	uint32_t crc = htole32((uint32_t)crc32_z(0, model + HEADER, bytes - HEADER));
	uint64_t length = htole64(bytes - HEADER);

	memcpy(model + 12, &crc, sizeof(crc));
	memcpy(model + 16, &length, sizeof(length));
}

/* What it saves loads, in another pod, and merges. */
static void save_again(struct analyse_pipeline *p, const struct analyse_pipeline_opts *o)
{
	struct analyse_pipeline *other = analyse_pipeline_create(o);
	void *again;
	int64_t n = analyse_pipeline_save_all(&p, 1, &again);

	if (!other || n < 0 || analyse_pipeline_load(other, again, (size_t)n) ||
	    analyse_pipeline_merge(p, other))
		abort();
	free(again);
	analyse_pipeline_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct analyse_column columns[] = {{"a", false}, {"b", true}, {"c", false}};
	struct analyse_pipeline_opts o = {.columns = 16, .seed = 1};
	struct analyse_fleet *fleet = NULL;
	struct analyse_pipeline *p;
	unsigned int n;
	uint8_t *model;

	if (bytes < 1)
		return 0;
	for (n = 0; analyse_detectors[n]; n++)
		;
	o.detector = analyse_detectors[(data[0] & (IN_FLEET - 1)) % n];
	p = analyse_pipeline_create(&o);
	model = malloc(bytes);
	if (!p || !model)
		abort();
	if (data[0] & IN_FLEET) {
		fleet = analyse_fleet_create(analyse_pipeline_budget(p), 1);
		if (!fleet || analyse_fleet_join(fleet, p, "shop"))
			abort();
	}
	data++;
	bytes--;
	memcpy(model, data, bytes);
	analyse_pipeline_load(p, model, bytes);
	if (bytes > HEADER) {
		seal(model, bytes);
		if (!analyse_pipeline_load(p, model, bytes))
			save_again(p, &o);
	}
	analyse_pipeline_columns(p, columns, 3);
	for (uint64_t i = 1; i < 60; i++) {
		double values[3] = {(double)(i % 7), (double)(i * i), i == 50 ? 1e9 : 3};
		struct analyse_verdict v;

		if (fleet ? analyse_pipeline_score(p, i * 1000000000, values, &v)
			  : analyse_pipeline_push(p, i * 1000000000, values, &v))
			abort();
		if (fleet)
			analyse_fleet_judge(fleet, &p, &v, 1);
		if (!(v.score >= 0))
			abort();
	}
	if (fleet)
		analyse_fleet_leave(fleet, p);
	free(model);
	analyse_pipeline_free(p);
	analyse_fleet_free(fleet);
	return 0;
}
