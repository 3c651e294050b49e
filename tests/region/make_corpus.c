// SPDX-License-Identifier: Apache-2.0
/* make_corpus FUZZ_CORPUS_DIR: writes the seeds of fuzz_region and fuzz_directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exercise.h"
#include "make_region.h"
#include "region/flows.h"
#include "region/layers.h"
#include "region/tasks.h"

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

/* Moves the sections together, so that the fuzzer's input is short. */
static void save_small(struct make *m, const char *name)
{
	uint64_t stripes = (uint64_t)m->stride * m->max_stripes;
	uint64_t schema = (m->hot[SL_HOT_SCHEMA_USED] + 63) / 64 * 64;
	uint64_t created = (uint64_t)m->created_lines * 64, exemplars = m->max_exemplars * 256ull;
	uint64_t at = SL_HEADER_SIZE + 64 + stripes + schema, size = at + created + exemplars;
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
	if (created)
		memcpy(small.mem + at, m->created, created);
	if (exemplars)
		memcpy(small.mem + at + created, m->exemplars, exemplars);
	for (uint32_t i = 3; i < m->header->section_count; i++, at += created)
		small.header->section[i].offset = at; /* created, exemplars */
	make_header_check(&small);
	save("region", name, small.mem, size);
	free(small.mem);
}

static void one_metric(const char *name, const struct make_metric *metric)
{
	struct make m;
	uint32_t cell;

	make_metrics(&m, 64, 1, 4096, "pod\0shop-0\0service\0shop", 24);
	if (metric->kind >= SL_KIND_SUMMARY) {
		make_created(&m, 7);
		make_exemplars(&m, 2);
	}
	cell = make_metric(&m, metric);
	if (metric->kind & SL_KIND_REPLACEABLE) {
		make_metric(&m, metric);
		make_created_set(&m, 1, 0);
		make_exemplar(&m, 1, 0, m.exemplars && m.cells > 3 ? 2 : 0, 0.5, 9, "trace_id\0ab",
			      12);
	}
	for (uint32_t c = cell; c < m.cells; c++)
		make_cell_set(&m, 0, c, c % 3 ? c : sl_cell_of_f64(c * 1.5));
	save_small(&m, name);
	make_free(&m);
}

/* A region without the rest of struct make; sections by offset and length, elements of stride. */
static void kernel_region(const char *name, uint32_t kind, size_t size,
			  const struct sl_region_section *sections, uint32_t count,
			  void (*fill)(uint64_t *words))
{
	struct make m = {.mem = calloc(1, size)};

	if (!m.mem)
		abort();
	m.header = (struct sl_region_header *)m.mem;
	*m.header = (struct sl_region_header){
		.version = SL_REGION_VERSION,
		.header_size = SL_HEADER_SIZE,
		.size = size,
		.kind = kind,
		.instance = 7,
		.section_count = count,
	};
	memcpy(m.header->section, sections, count * sizeof(*sections));
	memcpy(m.header->magic, SL_REGION_MAGIC, sizeof(m.header->magic));
	fill((uint64_t *)m.mem);
	make_header_check(&m);
	exercise_fix_checks(m.mem, size);
	save("region", name, m.mem, size);
	free(m.mem);
}

#define FLOWS_AT   (SL_HEADER_SIZE + 64)
#define JOURNAL_AT (FLOWS_AT + SL_FLOW_SIZE)
#define CGROUPS_AT (JOURNAL_AT + 64)

static void fill_flows(uint64_t *words)
{
	const char *const name[SL_CGROUP_TEXTS] = {"shop", "cart-0", "cart", "cart", "/kube/cart"};

	words[SL_HEADER_SIZE / 8 + SL_FLOWS_USED] = 1;
	words[FLOWS_AT / 8 + SL_FLOW_ID] = 1;
	words[FLOWS_AT / 8 + SL_FLOW_WORD] = SL_FLOW_WORD_OF(SL_STATE_LIVE, 1, 4, 80, 40000);
	words[JOURNAL_AT / 8 + SL_JOURNAL_TAG] = SL_FLOW_EVENT_OPEN;
	region_flow_cgroup_pack(words + CGROUPS_AT / 8, 0, false, 1, name);
	words[CGROUPS_AT / 8 + SL_FLOW_CGROUP_STATE] = 0;
	words[CGROUPS_AT / 8 + SL_FLOW_CGROUP_USED] = 2;
	region_flow_cgroup_pack(words + CGROUPS_AT / 8 + 64, 77, false, 1, name);
}

/* A table of connections: one slot, one line of the journal, one cgroup. */
static void flows(void)
{
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, 64, SL_HEADER_SIZE, 64},
		{SL_SECTION_FLOWS, SL_FLOW_SIZE, FLOWS_AT, SL_FLOW_SIZE},
		{SL_SECTION_JOURNAL, 64, JOURNAL_AT, 64},
		{SL_SECTION_CGROUPS, SL_FLOW_CGROUP_SIZE, CGROUPS_AT, 2 * SL_FLOW_CGROUP_SIZE},
	};

	kernel_region("flows", SL_REGION_FLOWS, CGROUPS_AT + 2 * SL_FLOW_CGROUP_SIZE, sections, 4,
		      fill_flows);
}

#define LAYER_AT(element) ((element)*SL_LAYER_SLOT_SIZE)

static void fill_layers(uint64_t *words)
{
	words[SL_HEADER_SIZE / 8 + SL_LAYERS_FLOWS_USED] = 1;
	words[SL_HEADER_SIZE / 8 + SL_LAYERS_GROUPS_USED] = 1;
	words[LAYER_AT(1) / 8 + SL_CAUSE_NO_IP] = 3;
	words[LAYER_AT(2) / 8 + SL_SLOT_STATE] = 1 << 16 | SL_ROLE_SERVER << 8 | SL_SLOT_OPEN;
	words[LAYER_AT(2) / 8 + SL_SLOT_HISTOGRAMS + SL_LAYER_ZERO] = 5;
}

static void layers(void)
{
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, 64, SL_HEADER_SIZE, 64},
		{SL_SECTION_LOSSES, SL_LAYER_SLOT_SIZE, LAYER_AT(1), SL_LAYER_SLOT_SIZE},
		{SL_SECTION_LAYER_FLOWS, SL_LAYER_SLOT_SIZE, LAYER_AT(2), SL_LAYER_SLOT_SIZE},
		{SL_SECTION_LAYER_GROUPS, SL_LAYER_SLOT_SIZE, LAYER_AT(3), SL_LAYER_SLOT_SIZE},
	};

	kernel_region("layers", SL_REGION_LAYERS, LAYER_AT(4), sections, 4, fill_layers);
}

#define TASK_AT(slot) ((SL_TASKS_FIRST + (slot)) * SL_TASK_SIZE)

static void fill_tasks(uint64_t *words)
{
	words[SL_TASKS_HOT_AT / 8 + SL_TASKS_USED] = 1;
	words[SL_TASKS_HOT_AT / 8 + SL_TASKS_CGROUPS_USED] = 1;
	words[SL_TASKS_LOSSES_AT / 8 + SL_TASK_LOSS_TASKS] = 2;
	words[TASK_AT(0) / 8] = 1 << 2 | SL_CPU_LIVE;
	words[TASK_AT(0) / 8 + 8 + SL_CPU_RUN_NS] = 9;
}

static void tasks(void)
{
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, 64, SL_TASKS_HOT_AT, 64},
		{SL_SECTION_LOSSES, 64, SL_TASKS_LOSSES_AT, 64},
		{SL_SECTION_TASKS, SL_TASK_SIZE, TASK_AT(0), SL_TASK_SIZE},
		{SL_SECTION_TASK_CGROUPS, 2 * SL_TASK_SIZE, TASK_AT(1), 2 * SL_TASK_SIZE},
	};

	kernel_region("tasks", SL_REGION_TASKS, TASK_AT(3), sections, 4, fill_tasks);
}

int main(int argc, char **argv)
{
	static const double bounds[] = {0.1, 1, 10}, ranks[] = {0.5, 0.99};
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
		states = {.kind = SL_KIND_STATESET, .name = "phase", .states = {"up", "down"}},
		summary = {.kind = SL_KIND_SUMMARY,
			   .name = "rpc.seconds",
			   .bounds = ranks,
			   .bound_count = 2},
		unknown = {.kind = SL_KIND_UNKNOWN, .name = "\xc3\xa4", .labels = {"a b", "c"}},
		gauge_histogram = {.kind = SL_KIND_GAUGE_HISTOGRAM,
				   .name = "sizes",
				   .bounds = bounds,
				   .bound_count = 3},
		gauge_exp = {.kind = SL_KIND_GAUGE_HISTOGRAM_EXP, .name = "ages", .buckets = 2},
		timed = {.kind = SL_KIND_GAUGE_TIMED,
			 .name = "last",
			 .flags = SL_COMBINE_MOST_RECENT},
		replaceable = {.kind = SL_KIND_COUNTER | SL_KIND_REPLACEABLE,
			       .name = "n",
			       .spare = 16},
		replaceable_histogram = {.kind = SL_KIND_HISTOGRAM | SL_KIND_REPLACEABLE,
					 .name = "h",
					 .bounds = bounds,
					 .bound_count = 3,
					 .flags = SL_FLAG_MIRROR};
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
	one_metric("summary", &summary);
	one_metric("unknown", &unknown);
	one_metric("gauge-histogram", &gauge_histogram);
	one_metric("gauge-histogram-exp", &gauge_exp);
	one_metric("gauge-timed", &timed);
	one_metric("replaceable", &replaceable);
	one_metric("replaceable-histogram", &replaceable_histogram);

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
	layers();
	tasks();
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
