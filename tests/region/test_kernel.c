// SPDX-License-Identifier: Apache-2.0
/*
 * test_kernel.c - the other regions that the kernel writes: written slots are read, lies are
 * refused.
 */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "region/flows.h"
#include "region/layers.h"
#include "region/tasks.h"

#define CPUS   3u
#define SLOTS  4u
#define GROUPS 2u

static void header_begin(struct sl_region_header *h, uint32_t kind, uint64_t size)
{
	memset(h, 0, sizeof(*h));
	memcpy(h->magic, SL_REGION_MAGIC, 8);
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = size;
	h->kind = kind;
	h->instance = 7;
}

static void section(struct sl_region_header *h, uint32_t type, uint32_t stride, uint64_t offset,
		    uint64_t length)
{
	h->section[h->section_count++] = (struct sl_region_section){type, stride, offset, length};
}

static void header_end(struct sl_region_header *h)
{
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
}

/* Sets every cell of every line to a different number, with all check words correct. */
static void fill(uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		words[i] = (i + 1) * 0x0101010101010101ull;
	for (size_t i = 0; i < n; i += 8)
		words[i + 7] = sl_line_check(words + i);
}

/* Any changed bit of a line must be detected. */
#define EACH_WORD_IS_CHECKED(words, n, parse)                   \
	for (size_t i_ = 0; i_ < (n); i_++) {                   \
		(words)[i_] ^= 1ull << i_ % 64;                 \
		assert_int_not_equal(parse, REGION_FAULT_NONE); \
		(words)[i_] ^= 1ull << i_ % 64;                 \
		assert_int_equal(parse, REGION_FAULT_NONE);     \
	}

/* ---- layers ---- */

#define ELEMENT	    ((uint64_t)SL_LAYER_SLOT_SIZE)
#define LAYERS_SIZE (ELEMENT * (1 + CPUS + SLOTS + GROUPS))

static void make_layers(struct sl_region_header *h)
{
	header_begin(h, SL_REGION_LAYERS, LAYERS_SIZE);
	section(h, SL_SECTION_HOT, 64, SL_HEADER_SIZE, 64);
	section(h, SL_SECTION_LOSSES, SL_LAYER_SLOT_SIZE, ELEMENT, CPUS * ELEMENT);
	section(h, SL_SECTION_LAYER_FLOWS, SL_LAYER_SLOT_SIZE, ELEMENT * (1 + CPUS),
		SLOTS * ELEMENT);
	section(h, SL_SECTION_LAYER_GROUPS, SL_LAYER_SLOT_SIZE, ELEMENT * (1 + CPUS + SLOTS),
		GROUPS * ELEMENT);
	header_end(h);
}

static void layers_lie_where_the_header_says(void **state)
{
	struct sl_region_header h;
	struct region_layers_info info;
	struct region_info other;
	uint64_t line[8] = {3, 9, 40, 37};
	struct region_layers_hot hot;

	(void)state;
	make_layers(&h);
	assert_int_equal(region_layers_info_parse(&h, LAYERS_SIZE, &info), REGION_FAULT_NONE);
	assert_int_equal(info.flow_slots, SLOTS);
	assert_int_equal(info.group_slots, GROUPS);
	assert_int_equal(info.flows, ELEMENT * (1 + CPUS));
	assert_int_equal(info.groups, ELEMENT * (1 + CPUS + SLOTS));
	assert_int_equal(info.losses.count, CPUS);
	assert_int_equal(info.losses.offset, ELEMENT);
	assert_int_equal(region_info_parse(&h, LAYERS_SIZE, &other), REGION_FAULT_VERSION);
	assert_int_equal(region_layers_info_parse(&h, LAYERS_SIZE - 1, &info), REGION_FAULT_SIZE);
	assert_int_equal(region_layers_info_parse(&h, LAYERS_SIZE, &info), REGION_FAULT_NONE);
#define LIE(fault, lie)                                                                    \
	do {                                                                               \
		make_layers(&h);                                                           \
		lie;                                                                       \
		header_end(&h);                                                            \
		assert_int_equal(region_layers_info_parse(&h, LAYERS_SIZE, &info), fault); \
	} while (0)
	LIE(REGION_FAULT_SECTION, h.section[2].stride = 2 * SL_LAYER_SLOT_SIZE);
	LIE(REGION_FAULT_SECTION, h.section[2].stride = 0);
	LIE(REGION_FAULT_SECTION, h.section[2].length -= 64);
	LIE(REGION_FAULT_SECTION, h.section[2].length = 0);
	LIE(REGION_FAULT_SECTION, h.section[2].length += ELEMENT); /* reaches into the groups */
	LIE(REGION_FAULT_SECTION, h.section[3].type = SL_SECTION_LAYER_FLOWS);
	LIE(REGION_FAULT_SECTION, h.section[3].offset = LAYERS_SIZE);
	LIE(REGION_FAULT_SECTION, h.section[1].stride = 64; h.section[1].length = 64);
	LIE(REGION_FAULT_SECTION, h.section[1].type = 99);
	LIE(REGION_FAULT_SECTION, h.section_count = 3);
	LIE(REGION_FAULT_SECTION, h.section[1].type = SL_SECTION_JOURNAL; h.section[1].stride = 64;
	    h.section[1].length = 64);
	LIE(REGION_FAULT_VERSION, h.kind = SL_REGION_TASKS);
	LIE(REGION_FAULT_VERSION, h.kind = 200);
	LIE(REGION_FAULT_VERSION, h.kind = 0);
#undef LIE
	make_layers(&h);
	assert_int_equal(region_layers_info_parse(&h, LAYERS_SIZE, &info), REGION_FAULT_NONE);
	line[7] = sl_line_check(line);
	assert_int_equal(region_layers_hot_parse(line, &info, &hot), REGION_FAULT_NONE);
	assert_int_equal(hot.flows_used, 3);
	assert_int_equal(hot.groups_used, GROUPS); /* never more than there are */
	assert_int_equal(hot.opened, 40);
	assert_int_equal(hot.closed, 37);
	line[7]++;
	assert_int_equal(region_layers_hot_parse(line, &info, &hot), REGION_FAULT_UNSETTLED);
}

static void layers_of_a_slot_are_read_from_their_places(void **state)
{
	static uint64_t slot[SL_SLOT_WORDS];
	static struct region_layer_view v;
	uint64_t generation;

	(void)state;
	fill(slot, SL_SLOT_WORDS);
	slot[SL_SLOT_STATE] = 12ull << 16 | SL_ROLE_CLIENT << 8 | SL_SLOT_CLOSED;
	slot[7] = sl_line_check(slot);
	assert_int_equal(region_layer_parse(slot, false, &v), REGION_FAULT_NONE);
	assert_int_equal(v.generation, 12);
	assert_int_equal(v.state, SL_SLOT_CLOSED);
	assert_int_equal(v.role, SL_ROLE_CLIENT);
	assert_memory_equal(v.local, slot + 1, 16);
	assert_memory_equal(v.remote, slot + 3, 16);
	assert_int_equal(v.cgroup, slot[6]);
	assert_int_equal(v.end_ns, slot[9]);
	assert_int_equal(v.netns, (uint32_t)slot[10]);
	assert_int_equal(v.count[6], slot[22]);
	for (int i = 0; i < SL_LAYERS * SL_LAYER_CELLS; i++)
		assert_int_equal(v.cell[i / 56][i % 56], slot[24 + i / 7 * 8 + i % 7]);
	EACH_WORD_IS_CHECKED(slot, SL_SLOT_WORDS, region_layer_parse(slot, false, &v));
	assert_int_equal(region_layer_generation(slot, &generation), REGION_FAULT_NONE);
	assert_int_equal(generation, 12);

	slot[SL_SLOT_STATE] = 12ull << 16 | 3;
	slot[7] = sl_line_check(slot);
	assert_int_equal(region_layer_parse(slot, false, &v), REGION_FAULT_HOT);
	slot[SL_SLOT_STATE] = 12ull << 16 | 3 << 8 | SL_SLOT_OPEN;
	slot[7] = sl_line_check(slot);
	assert_int_equal(region_layer_parse(slot, false, &v), REGION_FAULT_HOT);
	/*
	 * A free slot is not counted, whatever it contains; but group 0, which has no key, is a
	 * group.
	 */
	memset(slot, 0, 64);
	slot[15]++;
	assert_int_equal(region_layer_parse(slot, false, &v), REGION_FAULT_NONE);
	assert_int_equal(v.state, SL_SLOT_FREE);
	assert_int_equal(region_layer_parse(slot, true, &v), REGION_FAULT_UNSETTLED);
	slot[15]--;
	memset(&v, 0, sizeof(v));
	assert_int_equal(region_layer_parse(slot, true, &v), REGION_FAULT_NONE);
	assert_int_equal(v.count[0], slot[16]);
}

static void losses_of_all_copies_are_added(void **state)
{
	uint64_t element[32], sum[SL_CAUSES] = {0};

	(void)state;
	fill(element, 32);
	assert_int_equal(region_losses_add(element, SL_CAUSES, sum), REGION_FAULT_NONE);
	assert_int_equal(region_losses_add(element, SL_CAUSES, sum), REGION_FAULT_NONE);
	for (int i = 0; i < SL_CAUSES; i++)
		assert_int_equal(sum[i], 2 * element[i / 7 * 8 + i % 7]);
	/* Nothing is read from an element unless all of it settled. */
	element[31]++;
	assert_int_equal(region_losses_add(element, SL_CAUSES, sum), REGION_FAULT_UNSETTLED);
	assert_int_equal(sum[0], 2 * element[0]);
}

/* ---- tasks ---- */

#define TASKS_AT   ((uint64_t)SL_TASKS_FIRST * SL_TASK_SIZE)
#define CGROUPS_AT (TASKS_AT + SLOTS * SL_TASK_SIZE)
#define TASKS_SIZE (CGROUPS_AT + GROUPS * CPUS * SL_TASK_SIZE)

static void make_tasks(struct sl_region_header *h)
{
	header_begin(h, SL_REGION_TASKS, TASKS_SIZE);
	section(h, SL_SECTION_HOT, 64, SL_TASKS_HOT_AT, 64);
	section(h, SL_SECTION_LOSSES, 64, SL_TASKS_LOSSES_AT, 64);
	section(h, SL_SECTION_TASKS, SL_TASK_SIZE, TASKS_AT, SLOTS * SL_TASK_SIZE);
	section(h, SL_SECTION_TASK_CGROUPS, CPUS * SL_TASK_SIZE, CGROUPS_AT,
		GROUPS * CPUS * SL_TASK_SIZE);
	header_end(h);
}

static void tasks_lie_where_the_header_says(void **state)
{
	struct sl_region_header h;
	struct region_tasks_info info;
	struct region_info other;
	uint64_t line[8] = {2, 99};
	struct region_tasks_hot hot;

	(void)state;
	make_tasks(&h);
	assert_int_equal(region_tasks_info_parse(&h, TASKS_SIZE, &info), REGION_FAULT_NONE);
	assert_int_equal(info.task_slots, SLOTS);
	assert_int_equal(info.cgroup_slots, GROUPS);
	assert_int_equal(info.cpus, CPUS);
	assert_int_equal(info.tasks, TASKS_AT);
	assert_int_equal(info.cgroups, CGROUPS_AT);
	assert_int_equal(region_info_parse(&h, TASKS_SIZE, &other), REGION_FAULT_VERSION);
	line[7] = sl_line_check(line);
	assert_int_equal(region_tasks_hot_parse(line, &info, &hot), REGION_FAULT_NONE);
	assert_int_equal(hot.tasks_used, 2);
	assert_int_equal(hot.cgroups_used, GROUPS);
	line[0]++;
	assert_int_equal(region_tasks_hot_parse(line, &info, &hot), REGION_FAULT_UNSETTLED);
#define LIE(fault, lie)                                                                  \
	do {                                                                             \
		make_tasks(&h);                                                          \
		lie;                                                                     \
		header_end(&h);                                                          \
		assert_int_equal(region_tasks_info_parse(&h, TASKS_SIZE, &info), fault); \
	} while (0)
	LIE(REGION_FAULT_SECTION, h.section[2].stride -= 64);
	LIE(REGION_FAULT_SECTION, h.section[3].stride += 64);
	LIE(REGION_FAULT_SECTION, h.section[3].stride = 0);
	LIE(REGION_FAULT_SECTION, h.section[3].length -= SL_TASK_SIZE);
	LIE(REGION_FAULT_SECTION, h.section[3].offset -= 64);
	LIE(REGION_FAULT_SECTION, h.section[1].type = 99);
	LIE(REGION_FAULT_SECTION, h.section[1].length = 0);
	/* Two sections of one type: it is unclear which one is valid. */
	LIE(REGION_FAULT_SECTION, section(&h, SL_SECTION_LOSSES, 64, SL_TASKS_LOSSES_AT + 64, 64));
	LIE(REGION_FAULT_SECTION, h.section[2].type = SL_SECTION_TASK_CGROUPS);
	LIE(REGION_FAULT_SECTION, h.section[2].type = SL_SECTION_ENTRIES; h.section[2].stride = 64);
	LIE(REGION_FAULT_VERSION, h.kind = SL_REGION_LAYERS);
#undef LIE
}

static void tasks_and_cgroups_are_read_from_their_places(void **state)
{
	static uint64_t part[CPUS][REGION_TASK_WORDS];
	struct region_cpu_row row, sum;

	(void)state;
	fill(part[0], CPUS * REGION_TASK_WORDS);
	part[0][0] = 9 << 2 | SL_CPU_ENDED;
	part[0][7] = sl_line_check(part[0]);
	assert_int_equal(region_task_parse(part[0], &row), REGION_FAULT_NONE);
	assert_int_equal(row.generation, 9);
	assert_true(row.ended);
	assert_int_equal(row.pid, (uint32_t)part[0][1]);
	assert_int_equal(row.tgid, part[0][1] >> 32);
	assert_int_equal(row.cgroup, part[0][3]);
	assert_memory_equal(row.comm, &part[0][4], 16);
	assert_int_equal(row.n.run_ns, part[0][8]);
	assert_int_equal(row.n.unplaced, part[0][14]);
	for (int i = 0; i < SL_CPU_BUCKETS; i++)
		assert_int_equal(row.n.wait[i], part[0][16 + i / 7 * 8 + i % 7]);
	EACH_WORD_IS_CHECKED(part[0], REGION_TASK_WORDS, region_task_parse(part[0], &row));

	assert_int_equal(region_task_cgroup_parse(part[0], CPUS, false, &sum), REGION_FAULT_NONE);
	assert_int_equal(sum.cgroup, part[0][1]);
	assert_int_equal(sum.ended_tasks, part[0][4]);
	assert_int_equal(sum.n.run_ns, part[0][8] + part[1][8] + part[2][8]);
	part[2][8]++;
	assert_int_equal(region_task_cgroup_parse(part[0], CPUS, false, &sum),
			 REGION_FAULT_UNSETTLED);
	part[2][8]--;
	part[0][0] = 9 << 2 | 3;
	part[0][7] = sl_line_check(part[0]);
	assert_int_equal(region_task_parse(part[0], &row), REGION_FAULT_HOT);
	/* Free: nothing else is checked, except for cgroup 0. */
	part[0][0] = 9 << 2;
	part[0][7] = sl_line_check(part[0]);
	assert_int_equal(region_task_parse(part[0], &row), REGION_FAULT_NONE);
	assert_int_equal(row.state, SL_CPU_FREE);
	assert_int_equal(row.n.run_ns, 0);
	assert_int_equal(region_task_cgroup_parse(part[0], CPUS, false, &sum), REGION_FAULT_NONE);
	assert_int_equal(sum.n.run_ns, 0);
	assert_int_equal(region_task_cgroup_parse(part[0], CPUS, true, &sum), REGION_FAULT_NONE);
	assert_int_equal(sum.n.run_ns, part[0][8] + part[1][8] + part[2][8]);
}

/* ---- who a cgroup is ---- */

static void names_of_a_cgroup_come_out_as_they_went_in(void **state)
{
	const char *const name[SL_CGROUP_TEXTS] = {"shop", "cart-7d9f-x2x4z", NULL, "",
						   "/kubepods.slice/\xc3\xa4"};
	struct region_flow_cgroup c;
	uint64_t slot[64];

	(void)state;
	region_flow_cgroup_pack(slot, 77, false, 5, name);
	region_flow_cgroup_seal(slot, 3, 9);
	assert_int_equal(region_flow_cgroup_parse(slot, &c), REGION_FAULT_NONE);
	assert_int_equal(c.id, 77);
	assert_int_equal(c.state, SL_STATE_LIVE);
	assert_int_equal(c.generation, 3);
	assert_int_equal(c.number, 9);
	assert_int_equal(c.changed_ns, 5);
	assert_false(c.cut);
	for (int i = 0; i < SL_CGROUP_TEXTS; i++)
		assert_string_equal(c.name[i], name[i] ? name[i] : "");
	EACH_WORD_IS_CHECKED(slot, 64, region_flow_cgroup_parse(slot, &c));
	slot[8]++; /* one line of another snapshot, with a correct check word */
	slot[15] = sl_folded_check(slot + 8);
	assert_int_equal(region_flow_cgroup_parse(slot, &c), REGION_FAULT_UNSETTLED);
	region_flow_cgroup_pack(slot, 77, true, 5, name);
	region_flow_cgroup_seal(slot, 3, 10);
	assert_int_equal(region_flow_cgroup_parse(slot, &c), REGION_FAULT_NONE);
	assert_int_equal(c.state, SL_STATE_CLOSED);
	memset(slot, 0, sizeof(slot));
	assert_int_equal(region_flow_cgroup_parse(slot, &c), REGION_FAULT_NONE);
	assert_int_equal(c.state, SL_STATE_FREE);
	assert_string_equal(c.name[SL_CGROUP_PATH], "");
}

static void long_names_are_cut_and_the_path_keeps_its_end(void **state)
{
	char many[301], path[601];
	const char *const name[SL_CGROUP_TEXTS] = {many, many, many, many, path};
	struct region_flow_cgroup c;
	uint64_t slot[64];

	(void)state;
	for (size_t i = 0; i < 300; i++) /* two bytes a character, from the second byte on */
		many[i] = i ? (i % 2 ? (char)0xc3 : (char)0xa4) : 'x';
	many[299] = many[300] = 0;
	memset(path, '/', 600);
	strcpy(path + 590, "/the-end");
	region_flow_cgroup_pack(slot, 1, false, 1, name);
	region_flow_cgroup_seal(slot, 1, 1);
	assert_int_equal(region_flow_cgroup_parse(slot, &c), REGION_FAULT_NONE);
	assert_true(c.cut);
	for (int i = 0; i < SL_CGROUP_PATH; i++) {
		assert_in_range(strlen(c.name[i]), 60, 72);
		assert_int_equal(strncmp(c.name[i], many, strlen(c.name[i])), 0);
		assert_null(strchr(c.name[i], '?')); /* no half character */
	}
	assert_string_equal(c.name[SL_CGROUP_PATH] + strlen(c.name[SL_CGROUP_PATH]) - 8,
			    "/the-end");
	/* A single long name has all the room that the others leave. */
	many[250] = 0;
	region_flow_cgroup_pack(slot, 1, false, 1,
				(const char *const[]){"a", many, NULL, NULL, "/b"});
	region_flow_cgroup_seal(slot, 1, 1);
	assert_int_equal(region_flow_cgroup_parse(slot, &c), REGION_FAULT_NONE);
	assert_false(c.cut);
	assert_int_equal(strlen(c.name[SL_CGROUP_POD]), 250);
}

static void names_that_lie_are_refused_or_made_harmless(void **state)
{
	const char *const name[SL_CGROUP_TEXTS] = {"a\033[2Jb", "\xff\xfe", "\xc2\x9bx", "\n", "/"};
	struct region_flow_cgroup c;
	uint64_t slot[64];

	(void)state;
	region_flow_cgroup_pack(slot, 1, false, 1, name);
	region_flow_cgroup_seal(slot, 1, 1);
	assert_int_equal(region_flow_cgroup_parse(slot, &c), REGION_FAULT_NONE);
	assert_string_equal(c.name[0], "a?[2Jb");
	assert_string_equal(c.name[1], "??");
	assert_string_equal(c.name[2], "??x");
	assert_string_equal(c.name[3], "?");
#define LIE(fault, lie)                                                      \
	do {                                                                 \
		region_flow_cgroup_pack(slot, 1, false, 1, name);            \
		lie;                                                         \
		region_flow_cgroup_seal(slot, 1, 1);                         \
		assert_int_equal(region_flow_cgroup_parse(slot, &c), fault); \
	} while (0)
	LIE(REGION_FAULT_HOT, slot[SL_FLOW_CGROUP_STATE] = SL_STATE_RETIRED);
	LIE(REGION_FAULT_HOT, slot[SL_FLOW_CGROUP_ID] = 0);
	/* If the text has no NUL, nothing beyond it is read. */
	LIE(REGION_FAULT_HOT, for (int l = 1; l < 8; l++) memset(slot + l * 8 + 1, 'x', 48));
	LIE(REGION_FAULT_HOT, for (int l = 1; l < 8; l++) memset(slot + l * 8 + 1, 'x', 48);
	    memset(slot + 9, 0, 4));
#undef LIE
}

static void flows_say_where_their_cgroups_are(void **state)
{
	const uint64_t cgroups = SL_HEADER_SIZE + 64 + 512 + 64, size = cgroups + 2 * 512;
	struct sl_region_header h;
	struct region_flows_info info;

	(void)state;
#define MAKE(stride, length)                                                        \
	do {                                                                        \
		header_begin(&h, SL_REGION_FLOWS, size);                            \
		section(&h, SL_SECTION_HOT, 64, SL_HEADER_SIZE, 64);                \
		section(&h, SL_SECTION_FLOWS, 512, SL_HEADER_SIZE + 64, 512);       \
		section(&h, SL_SECTION_JOURNAL, 64, SL_HEADER_SIZE + 64 + 512, 64); \
		section(&h, SL_SECTION_CGROUPS, stride, cgroups, length);           \
		header_end(&h);                                                     \
	} while (0)
	MAKE(512, 1024);
	assert_int_equal(region_flows_info_parse(&h, size, &info), REGION_FAULT_NONE);
	assert_int_equal(info.cgroups, cgroups);
	assert_int_equal(info.cgroup_slots, 2);
	MAKE(256, 1024);
	assert_int_equal(region_flows_info_parse(&h, size, &info), REGION_FAULT_SECTION);
	MAKE(512, 768);
	assert_int_equal(region_flows_info_parse(&h, size, &info), REGION_FAULT_SECTION);
	MAKE(512, 0);
	assert_int_equal(region_flows_info_parse(&h, size, &info), REGION_FAULT_SECTION);
	MAKE(512, 1536);
	assert_int_equal(region_flows_info_parse(&h, size, &info), REGION_FAULT_SECTION);
}

static void lines_of_drops_come_in_pairs_and_for_each_slot(void **state)
{
	const uint64_t drops = SL_HEADER_SIZE + 64 + 1024 + 64, reasons = drops + 2 * 64;
	const uint64_t size = reasons + 64;
	struct region_flows_info info;
	struct sl_region_header h;

	(void)state;
#define BEGIN()                                                                      \
	do {                                                                         \
		header_begin(&h, SL_REGION_FLOWS, size);                             \
		section(&h, SL_SECTION_HOT, 64, SL_HEADER_SIZE, 64);                 \
		section(&h, SL_SECTION_FLOWS, 512, SL_HEADER_SIZE + 64, 1024);       \
		section(&h, SL_SECTION_JOURNAL, 64, SL_HEADER_SIZE + 64 + 1024, 64); \
	} while (0)
	BEGIN();
	section(&h, SL_SECTION_DROPS, 64, drops, 128);
	section(&h, SL_SECTION_DROP_REASONS, 64, reasons, 64);
	header_end(&h);
	assert_int_equal(region_flows_info_parse(&h, size, &info), REGION_FAULT_NONE);
	assert_true(info.drops == drops && info.reasons == reasons && info.drop_reasons == 1);
	BEGIN();
	section(&h, SL_SECTION_DROPS, 64, drops, 128);
	header_end(&h);
	assert_int_equal(region_flows_info_parse(&h, size, &info), REGION_FAULT_SECTION);
	BEGIN();
	section(&h, SL_SECTION_DROPS, 64, drops, 64);
	section(&h, SL_SECTION_DROP_REASONS, 64, reasons, 64);
	header_end(&h);
	assert_int_equal(region_flows_info_parse(&h, size, &info), REGION_FAULT_SECTION);
#undef BEGIN
}

static void entry_of_a_kind_that_is_not_known_is_an_entry(void **state)
{
	uint64_t line[8] = {5, 0, 8192, SL_ENTRY_KEY_OF(1, SL_STATE_LIVE, 200), 1, 1, 9};
	struct region_entry e;

	(void)state;
	line[7] = sl_line_check(line);
	assert_int_equal(region_entry_parse(line, &e), REGION_FAULT_NONE);
	assert_int_equal(e.kind, 200);
	line[3] = SL_ENTRY_KEY_OF(1, SL_STATE_LIVE, 0);
	line[7] = sl_line_check(line);
	assert_int_equal(region_entry_parse(line, &e), REGION_FAULT_HOT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_lie_where_the_header_says),
		cmocka_unit_test(layers_of_a_slot_are_read_from_their_places),
		cmocka_unit_test(losses_of_all_copies_are_added),
		cmocka_unit_test(tasks_lie_where_the_header_says),
		cmocka_unit_test(tasks_and_cgroups_are_read_from_their_places),
		cmocka_unit_test(names_of_a_cgroup_come_out_as_they_went_in),
		cmocka_unit_test(long_names_are_cut_and_the_path_keeps_its_end),
		cmocka_unit_test(names_that_lie_are_refused_or_made_harmless),
		cmocka_unit_test(flows_say_where_their_cgroups_are),
		cmocka_unit_test(lines_of_drops_come_in_pairs_and_for_each_slot),
		cmocka_unit_test(entry_of_a_kind_that_is_not_known_is_an_entry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
