// SPDX-License-Identifier: Apache-2.0
/* make_corpus FUZZ_CORPUS_DIR: writes the seeds of fuzz_region and fuzz_directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/flow.h>

#include "make_region.h"

static const char *dir;

static void save(const char *sub, const char *name, const void *data, size_t size)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s", dir, sub, name);
	f = fopen(path, "wb");
	if (!f || fwrite(data, 1, size, f) != size || fclose(f)) {
		perror(path);
		exit(1);
	}
}

/* Moves the sections together, so that the fuzzer has little to carry. */
static void save_small(struct make *m, const char *name)
{
	uint64_t stripes = (uint64_t)m->stride * m->max_stripes;
	uint64_t schema = (m->hot[SL_HOT_SCHEMA_USED] + 63) / 64 * 64;
	uint64_t size = SL_HEADER_SIZE + 64 + stripes + schema;
	struct make small = {.mem = calloc(1, size)};

	if (!small.mem)
		exit(1);
	small.header = (struct sl_region_header *)small.mem;
	memcpy(small.mem, m->mem, SL_HEADER_SIZE + 64);
	memcpy(small.mem + SL_HEADER_SIZE + 64, m->stripes, stripes);
	memcpy(small.mem + SL_HEADER_SIZE + 64 + stripes, m->schema, schema);
	small.header->size = size;
	small.header->section[1].offset = SL_HEADER_SIZE + 64;
	small.header->section[2].offset = SL_HEADER_SIZE + 64 + stripes;
	small.header->section[2].length = schema;
	make_header_check(&small);
	save("region", name, small.mem, size);
	free(small.mem);
}

static void one_metric(const char *name, const struct make_metric *metric)
{
	struct make m;
	uint32_t cell;

	make_metrics(&m, 64, 1, 4096, "pod\0shop-0\0service\0shop", 24);
	cell = make_metric(&m, metric);
	for (uint32_t c = cell; c < m.cells; c++)
		make_cell_set(&m, 0, c, c % 3 ? c : sl_cell_of_f64(c * 1.5));
	save_small(&m, name);
	make_free(&m);
}

/* A table of connections: one slot, one line of the journal. */
static void flows(void)
{
	static _Alignas(64) uint8_t mem[SL_HEADER_SIZE + 64 + SL_FLOW_SIZE + 64];
	struct make m = {.mem = mem, .header = (struct sl_region_header *)mem};
	uint64_t *line = (uint64_t *)(mem + SL_HEADER_SIZE);

	*m.header = (struct sl_region_header){
		.version = SL_REGION_VERSION,
		.header_size = SL_HEADER_SIZE,
		.size = sizeof(mem),
		.kind = SL_REGION_FLOWS,
		.instance = 7,
		.section_count = 3,
		.section = {{SL_SECTION_HOT, 64, SL_HEADER_SIZE, 64},
			    {SL_SECTION_FLOWS, SL_FLOW_SIZE, SL_HEADER_SIZE + 64, SL_FLOW_SIZE},
			    {SL_SECTION_JOURNAL, 64, SL_HEADER_SIZE + 64 + SL_FLOW_SIZE, 64}},
	};
	memcpy(m.header->magic, SL_REGION_MAGIC, sizeof(m.header->magic));
	make_header_check(&m);
	line[SL_FLOWS_USED] = 1;
	line[8 + SL_FLOW_ID] = 1;
	line[8 + SL_FLOW_WORD] = SL_FLOW_WORD_OF(SL_STATE_LIVE, 1, 4, 80, 40000);
	line[72 + SL_JOURNAL_TAG] = SL_FLOW_EVENT_OPEN;
	for (uint32_t l = 0; l < 10; l++)
		line[l * 8 + 7] = sl_folded_check(line + (size_t)l * 8);
	save("region", "flows", mem, sizeof(mem));
}

int main(int argc, char **argv)
{
	static const double bounds[] = {0.1, 1, 10};
	static const struct make_metric
		counter = {.kind = SL_KIND_COUNTER,
			   .name = "requests_total",
			   .help = "Requests",
			   .unit = "requests",
			   .labels = {"code", "200", "path", "/\xc3\xa4"}},
		f64 = {.kind = SL_KIND_COUNTER_F64, .name = "busy_seconds_total"},
		gauge = {.kind = SL_KIND_GAUGE, .name = "queue"},
		gauge_f64 = {.kind = SL_KIND_GAUGE_F64, .name = "load"},
		exponential = {.kind = SL_KIND_HISTOGRAM_EXP,
			       .name = "latency_seconds",
			       .buckets = 4,
			       .scale = 3,
			       .first_bucket = -2,
			       .zero_threshold = 1e-9},
		classic = {.kind = SL_KIND_HISTOGRAM,
			   .name = "size_bytes",
			   .bounds = bounds,
			   .bound_count = 3},
		info = {.kind = SL_KIND_INFO, .name = "build", .labels = {"version", "1"}},
		states = {.kind = SL_KIND_STATESET, .name = "phase", .states = {"up", "down"}};
	struct make m;

	if (argc != 2)
		return 2;
	dir = argv[1];
	one_metric("counter", &counter);
	one_metric("counter-f64", &f64);
	one_metric("gauge", &gauge);
	one_metric("gauge-f64", &gauge_f64);
	one_metric("histogram-exp", &exponential);
	one_metric("histogram", &classic);
	one_metric("info", &info);
	one_metric("stateset", &states);

	make_metrics(&m, 64, 2, 4096, NULL, 0);
	make_metric(&m, &counter);
	m.next_cell = 14; /* out of order, as the library gives them out */
	make_metric(&m, &f64);
	m.next_cell = 7;
	make_metric(&m, &states);
	m.next_cell = 28;
	make_metric(&m, &exponential);
	make_cell_set(&m, 1, 0, 5);
	save_small(&m, "two-stripes");
	make_free(&m);

	flows();
	make_directory(&m, 4);
	save("directory", "empty", m.hot, 128);
	for (uint32_t i = 0; i < 4; i++)
		make_entry(&m, i, i + 1, 0x7f0000000000 + 65536 * i, 65536, 0x1000 + i,
			   i == 3 ? SL_STATE_RETIRED : SL_STATE_LIVE + i, SL_REGION_METRICS,
			   77 + i);
	memcpy(m.mem + SL_HEADER_SIZE + 64, m.entries, 4 * 64);
	save("directory", "four", m.hot, 5 * 64);
	save("region", "directory", m.mem, m.size);
	make_free(&m);
	return 0;
}
