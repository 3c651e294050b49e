// SPDX-License-Identifier: Apache-2.0
/*
 * test_decode.c - which regions a reader accepts, and why it refuses the others: every fault is
 * reached.
 */
#include <unistd.h>

#include "decoding.h"

static const char labels[] =
	"service\0shop\0pod\0shop-0\0free\0\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82";

bool reached[REGION_FAULT_COUNT];

/* ---- failing allocations: malloc, calloc and realloc are wrapped by the linker ---- */

long allocations_left = -1;

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool may_allocate(void)
{
	if (allocations_left < 0)
		return true;
	return allocations_left > 0 ? allocations_left-- > 0 : false;
}

void *__wrap_malloc(size_t size)
{
	return may_allocate() ? __real_malloc(size) : NULL;
}
void *__wrap_calloc(size_t n, size_t s)
{
	return may_allocate() ? __real_calloc(n, s) : NULL;
}
void *__wrap_realloc(void *p, size_t s)
{
	return may_allocate() ? __real_realloc(p, s) : NULL;
}

/* ---- what is decoded ---- */

enum region_fault parse(const struct make *m, struct region_info *info)
{
	struct sl_region_header copy = *m->header;

	return region_info_parse(&copy, m->size, info);
}

enum region_fault append(struct region_schema *s, const struct region_info *info,
			 const struct make *m)
{
	/*
	 * A separate allocation, so that the sanitizers and valgrind detect reads beyond the end.
	 */
	size_t n = m->hot[SL_HOT_SCHEMA_USED] - s->parsed;
	void *copy = __real_malloc(n ? n : 1);
	enum region_fault fault;

	s->created = m->created;
	s->created_lines = region_created_lines(info, m->hot[SL_HOT_SCHEMA_USED]);
	memcpy(copy, m->schema + s->parsed, n);
	fault = region_schema_append(s, info, copy, n);
	free(copy);
	return fault;
}

static const double some_bounds[] = {0.1, 0.5, 2.5};

const struct make_metric of_every_kind[KINDS] = {
	{.kind = SL_KIND_COUNTER,
	 .name = "http_requests_total",
	 .help = "Requests \xe2\x80\xa6",
	 .labels = {"code", "200", "path", "/\"\\\n"}},
	{.kind = SL_KIND_COUNTER_F64, .name = "busy_seconds_total", .unit = "seconds"},
	{.kind = SL_KIND_GAUGE, .name = "queue:length", .labels = {"a", ""}},
	{.kind = SL_KIND_GAUGE_F64, .name = "temperature_celsius"},
	{.kind = SL_KIND_HISTOGRAM_EXP,
	 .name = "latency_seconds",
	 .unit = "seconds",
	 .buckets = 20,
	 .scale = 3,
	 .first_bucket = -10,
	 .zero_threshold = 1e-9},
	{.kind = SL_KIND_HISTOGRAM, .name = "size_bytes", .bounds = some_bounds, .bound_count = 3},
	{.kind = SL_KIND_INFO, .name = "build", .labels = {"revision", "abc", "version", "1"}},
	{.kind = SL_KIND_STATESET, .name = "phase", .states = {"starting", "up", "down"}},
};

/* ---- header ---- */

static void header_says_what_was_written(void **state)
{
	struct region_info info;
	struct make m;

	(void)state;
	make_metrics(&m, 100, 5, 10000, labels, sizeof(labels));
	expect(REGION_FAULT_NONE, parse(&m, &info));
	assert_int_equal(info.size, m.size);
	assert_int_equal(info.kind, SL_REGION_METRICS);
	assert_int_equal(info.pid, 4711);
	assert_true(info.instance == m.header->instance);
	assert_true(info.start_ns == m.header->start_ns);
	assert_int_equal(info.start_ticks, 12345);
	assert_memory_equal(info.boot_id, m.header->boot_id, 16);
	assert_int_equal(info.hot, 4096);
	assert_int_equal(info.stripes, 8192);
	assert_int_equal(info.stripe_stride, 8192);
	assert_int_equal(info.max_stripes, 5);
	assert_int_equal(info.max_lines, 128);
	assert_int_equal(info.schema, 8192 + 5 * 8192);
	assert_int_equal(info.schema_bytes, 12288);
	assert_int_equal(info.label_count, 3);
	assert_string_equal(info.labels[0].key, "service");
	assert_string_equal(info.labels[1].value, "shop-0");
	assert_string_equal(info.labels[2].value, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82");
	make_free(&m);

	make_directory(&m, 100);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	assert_int_equal(info.kind, SL_REGION_DIRECTORY);
	assert_int_equal(info.entries, 8192);
	assert_int_equal(info.max_entries, 100);
	assert_string_equal(info.labels[0].value, "node-1");
	make_free(&m);
}

#define EACH_HEADER_LIE(X)                                                                       \
	X(REGION_FAULT_MAGIC, h->magic[7] ^= 1)                                                  \
	X(REGION_FAULT_MAGIC, h->instance = 0)                                                   \
	X(REGION_FAULT_VERSION, h->version = 2)                                                  \
	X(REGION_FAULT_VERSION, h->version = 0)                                                  \
	X(REGION_FAULT_VERSION, h->kind = 3)                                                     \
	X(REGION_FAULT_VERSION, h->kind = 0)                                                     \
	X(REGION_FAULT_SIZE, h->header_size = 8192)                                              \
	X(REGION_FAULT_SIZE, h->header_size = 0)                                                 \
	X(REGION_FAULT_SIZE, h->size++)                                                          \
	X(REGION_FAULT_SIZE, h->size = 0)                                                        \
	X(REGION_FAULT_SIZE, h->size = 4096)                                                     \
	X(REGION_FAULT_SIZE, h->size = UINT64_MAX)                                               \
	X(REGION_FAULT_SECTION, h->size = 4096 + 64)                                             \
	X(REGION_FAULT_SECTION, h->section_count = 17)                                           \
	X(REGION_FAULT_SECTION, h->section_count = UINT32_MAX)                                   \
	X(REGION_FAULT_SECTION, h->section_count = 0)                                            \
	X(REGION_FAULT_SECTION, h->section_count = 1)                                            \
	X(REGION_FAULT_SECTION, h->section_count = 2)                                            \
	X(REGION_FAULT_SECTION, h->section_count = 4)                                            \
	X(REGION_FAULT_SECTION, h->section[1].type = 0)                                          \
	X(REGION_FAULT_SECTION, h->section[0].type = 99)                                         \
	X(REGION_FAULT_SECTION, h->section[0].stride = 8)                                        \
	X(REGION_FAULT_SECTION, h->section[0].length = 128)                                      \
	X(REGION_FAULT_SECTION, h->section[0].length = 0)                                        \
	X(REGION_FAULT_SECTION, h->section[0].offset = 0)                                        \
	X(REGION_FAULT_SECTION, h->section[0].offset = 4032)                                     \
	X(REGION_FAULT_SECTION, h->section[0].offset = 4096 + 8)                                 \
	X(REGION_FAULT_SECTION, h->section[0].offset = h->size)                                  \
	X(REGION_FAULT_SECTION, h->section[0].offset = UINT64_MAX - 63)                          \
	X(REGION_FAULT_SECTION, h->section[0].offset = 8192)                                     \
	X(REGION_FAULT_SECTION, h->section[0].offset = h->section[2].offset + 64)                \
	X(REGION_FAULT_SECTION, h->section[1].stride = 0)                                        \
	X(REGION_FAULT_SECTION, h->section[1].stride = 64)                                       \
	X(REGION_FAULT_SECTION, h->section[1].stride = 0xfffff000)                               \
	X(REGION_FAULT_SECTION, h->section[1].length = 0)                                        \
	X(REGION_FAULT_SECTION, h->section[1].length += 4096)                                    \
	X(REGION_FAULT_SECTION, h->section[1].length -= 4096)                                    \
	X(REGION_FAULT_SECTION, h->section[1].length = UINT64_MAX - 8191)                        \
	X(REGION_FAULT_SECTION, h->section[2].stride = 64)                                       \
	X(REGION_FAULT_SECTION, h->section[2].length -= 4)                                       \
	X(REGION_FAULT_SECTION, h->section[2].offset = h->section[1].offset)                     \
	X(REGION_FAULT_SECTION, h->section[2].offset -= 4096)                                    \
	X(REGION_FAULT_SECTION, h->section[2] = h->section[0])                                   \
	X(REGION_FAULT_SECTION, h->kind = SL_REGION_DIRECTORY)                                   \
	X(REGION_FAULT_SECTION,                                                                  \
	  (h->section_count = 4, h->section[3] = (struct sl_region_section){77, 1, 0, 1}))       \
	X(REGION_FAULT_SECTION,                                                                  \
	  (h->section_count = 4, h->section[3] = h->section[1], h->section[3].offset += 8192,    \
	   h->section[3].length = 8192, h->section[1].length = 8192))                            \
	X(REGION_FAULT_SECTION,                                                                  \
	  (h->section_count = 4, h->section[3] = (struct sl_region_section){4, 64, 4160, 64}))   \
	X(REGION_FAULT_LABEL, h->label_bytes = UINT32_MAX)                                       \
	X(REGION_FAULT_LABEL, h->label_bytes = SL_HEADER_LABELS_MAX + 1)                         \
	X(REGION_FAULT_LABEL, h->label_bytes -= 1)                                               \
	X(REGION_FAULT_LABEL, h->label_bytes = 8)                                                \
	X(REGION_FAULT_LABEL, h->label_bytes += 1)                                               \
	X(REGION_FAULT_LABEL, h->labels[0] = '1')                                                \
	X(REGION_FAULT_LABEL, h->labels[0] = 0)                                                  \
	X(REGION_FAULT_LABEL, h->labels[1] = ':')                                                \
	X(REGION_FAULT_LABEL, h->labels[8] = 0x80)                                               \
	X(REGION_FAULT_LABEL, memcpy(h->labels, "__rvice", 7))                                   \
	X(REGION_FAULT_LABEL, (h->label_bytes = 8, memcpy(h->labels, "a\0b\0a\0c", 8)))          \
	X(REGION_FAULT_LABEL,                                                                    \
	  (memset(h->labels, 'a', sizeof(h->labels)), h->label_bytes = SL_HEADER_LABELS_MAX))    \
	X(REGION_FAULT_LABEL, (memset(h->labels, 'a', 1200), h->labels[1] = h->labels[1199] = 0, \
			       h->label_bytes = 1200))                                           \
	X(REGION_FAULT_LABEL, (memset(h->labels, 'a', 400), h->labels[300] = h->labels[399] = 0, \
			       h->label_bytes = 400))                                            \
	X(REGION_FAULT_LABEL, too_many_labels(h))                                                \
	X(REGION_FAULT_SECTION, add_section(h, SL_SECTION_CREATED, 8, 64))                       \
	X(REGION_FAULT_SECTION, add_section(h, SL_SECTION_CREATED, 64, 0))                       \
	X(REGION_FAULT_SECTION, add_section(h, SL_SECTION_CREATED, 64, 65))                      \
	X(REGION_FAULT_SECTION, add_section(h, SL_SECTION_EXEMPLARS, 64, 512))                   \
	X(REGION_FAULT_SECTION, add_section(h, SL_SECTION_EXEMPLARS, 256, 256))                  \
	X(REGION_FAULT_SECTION, add_section(h, SL_SECTION_EXEMPLARS, 256, 520))                  \
	X(REGION_FAULT_SECTION, (add_section(h, SL_SECTION_CREATED, 64, 64),                     \
				 add_section(h, SL_SECTION_CREATED, 64, 64)))                    \
	X(REGION_FAULT_NONE, add_section(h, SL_SECTION_CREATED, 64, 64))                         \
	X(REGION_FAULT_NONE, add_section(h, SL_SECTION_EXEMPLARS, 256, 512))                     \
	X(REGION_FAULT_NONE, h->minor = 7)                                                       \
	X(REGION_FAULT_NONE, h->reserved[5] = 7)                                                 \
	X(REGION_FAULT_NONE, h->label_bytes = 0)                                                 \
	X(REGION_FAULT_NONE, h->size -= 64 + (h->section[2].length -= 64, 0))                    \
	X(REGION_FAULT_NONE,                                                                     \
	  (h->section_count = 4, h->section[3] = (struct sl_region_section){77, 1, 4160, 1}))

/* Adds a section at the end of the schema, where there is room. */
static void add_section(struct sl_region_header *h, uint32_t type, uint32_t stride, uint64_t bytes)
{
	uint64_t room = (bytes + 63) / 64 * 64 + 64;

	h->section[2].length -= room;
	h->section[h->section_count++] = (struct sl_region_section){
		type, stride, h->section[2].offset + h->section[2].length, bytes};
}

static void too_many_labels(struct sl_region_header *h)
{
	char *to = (char *)h->labels;

	for (unsigned int i = 0; i < SL_LABELS_MAX + 1; i++) {
		*to++ = (char)('A' + i % 26);
		*to++ = (char)('a' + i / 26);
		*to++ = 0;
		*to++ = 0;
	}
	h->label_bytes = (uint32_t)(to - (char *)h->labels);
}

/* A reader recognises a reboot, and therefore other clocks, by the boot ID. */
static void a_written_header_names_boot_and_process(void **state)
{
	struct sl_region_header h = {0};
	char boot[64] = "", hex[33];
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

	(void)state;
	assert_non_null(f);
	assert_non_null(fgets(boot, sizeof(boot), f));
	fclose(f);
	assert_int_equal(region_header_write(&h, 4096, SL_REGION_DIRECTORY,
					     &(struct sl_region_section){0}, 0),
			 0);
	for (int i = 0; i < 16; i++)
		sprintf(hex + i * 2, "%02x", h.boot_id[i]);
	for (const char *from = boot, *to = hex; *to; from++)
		if (*from != '-')
			assert_int_equal(*from, *to++);
	assert_int_equal(h.pid, getpid());
	assert_true(h.instance != 0);
}

static void header_that_lies_is_refused_with_its_cause(void **state)
{
	struct region_info info;
	struct make m;

	(void)state;
#define TRY(fault, lie)                                                  \
	do {                                                             \
		struct sl_region_header *h;                              \
		make_metrics(&m, 100, 5, 10000, labels, sizeof(labels)); \
		h = m.header;                                            \
		lie;                                                     \
		make_header_check(&m);                                   \
		expect(fault, parse(&m, &info));                         \
		make_free(&m);                                           \
	} while (0);
	EACH_HEADER_LIE(TRY)
#undef TRY
	make_metrics(&m, 100, 5, 10000, labels, sizeof(labels));
	m.header->pid++;
	expect(REGION_FAULT_CHECK, parse(&m, &info));
	make_header_check(&m);
	m.size -= 4096;
	expect(REGION_FAULT_SIZE, parse(&m, &info)); /* states more than there is */
	make_free(&m);
	make_directory(&m, 4);
	m.header->section[1].length = 100;
	make_header_check(&m);
	expect(REGION_FAULT_SECTION, parse(&m, &info));
	m.header->section[1].length = 0;
	make_header_check(&m);
	expect(REGION_FAULT_SECTION, parse(&m, &info));
	make_free(&m);
	/* Only regions of metrics have a section "created". */
	make_directory(&m, 4);
	m.header->section[1].length -= 64;
	m.header->section[m.header->section_count++] = (struct sl_region_section){
		SL_SECTION_CREATED, 64, m.header->section[1].offset + m.header->section[1].length,
		64};
	make_header_check(&m);
	expect(REGION_FAULT_SECTION, parse(&m, &info));
	make_free(&m);
}

/* ---- hot lines and entries ---- */

static void hot_line_is_believed_within_the_header(void **state)
{
	struct region_info info;
	struct region_hot hot, later;
	struct make m;
	uint64_t line[8];

	(void)state;
	make_metrics(&m, 64, 3, 4096, NULL, 0);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	make_set(m.hot, SL_HOT_GENERATION, 9);
	make_set(m.hot, SL_HOT_SCHEMA_USED, 4096);
	make_set(m.hot, SL_HOT_LINES_USED, 64);
	make_set(m.hot, SL_HOT_STATE, SL_STATE_CLOSED | 77 << 8);
	make_set(m.hot, SL_HOT_REFUSED, 5);
	expect(REGION_FAULT_NONE, region_hot_parse(m.hot, &info, &hot));
	assert_int_equal(hot.generation, 9);
	assert_int_equal(hot.schema_used, 4096);
	assert_int_equal(hot.lines_used, 64);
	assert_int_equal(hot.stripes_used, 3);
	assert_int_equal(hot.state, SL_STATE_CLOSED);
	assert_int_equal(hot.threads_sharing, 77);
	assert_true(hot.changed_ns == m.header->start_ns);
	assert_int_equal(hot.refused, 5);

	static const struct {
		unsigned int cell;
		uint64_t value;
	} lies[] = {
		{SL_HOT_SCHEMA_USED, 4104},
		{SL_HOT_SCHEMA_USED, 4},
		{SL_HOT_SCHEMA_USED, UINT64_MAX - 7},
		{SL_HOT_LINES_USED, 65},
		{SL_HOT_LINES_USED, 1ull << 32},
		{SL_HOT_STRIPES_USED, 4},
		{SL_HOT_STRIPES_USED, 1ull << 32},
		{SL_HOT_STATE, SL_STATE_RETIRED},
		{SL_HOT_STATE, 255},
	};
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		memcpy(line, m.hot, 64);
		make_set(line, lies[i].cell, lies[i].value);
		expect(REGION_FAULT_HOT, region_hot_parse(line, &info, &hot));
	}
	for (unsigned int bit = 0; bit < 512; bit++) {
		memcpy(line, m.hot, 64);
		line[bit / 64] ^= 1ull << bit % 64;
		expect(REGION_FAULT_UNSETTLED, region_hot_parse(line, &info, &hot));
	}
	memset(line, 0, 64); /* nothing yet */
	expect(REGION_FAULT_NONE, region_hot_parse(line, &info, &hot));

	later = hot;
	expect(REGION_FAULT_NONE, region_hot_follows(&hot, &later));
	later.generation = later.lines_used = later.stripes_used = 2;
	later.schema_used = 64;
	expect(REGION_FAULT_NONE, region_hot_follows(&hot, &later));
	hot = later;
#define BACK(field)                                                 \
	later.field--;                                              \
	expect(REGION_FAULT_HOT, region_hot_follows(&hot, &later)); \
	later = hot
	BACK(generation);
	BACK(schema_used);
	BACK(lines_used);
	BACK(stripes_used);
#undef BACK
	make_free(&m);
}

static void directory_is_believed_within_its_bounds(void **state)
{
	struct region_info info;
	struct region_directory_hot hot;
	struct region_entry e;
	struct make m;
	uint64_t line[8];

	(void)state;
	make_directory(&m, 4);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	make_entry(&m, 2, 42, 0x7f0000001000, 65536, 0xdeadbeef, SL_STATE_LIVE, SL_REGION_METRICS,
		   99);
	expect(REGION_FAULT_NONE, region_directory_hot_parse(m.hot, &info, &hot));
	assert_int_equal(hot.generation, 1);
	assert_int_equal(hot.entries_used, 3);
	assert_int_equal(hot.live, 1);
	assert_int_equal(hot.state, SL_STATE_LIVE);
	assert_int_equal(hot.lease_ns, 1000000000);
	expect(REGION_FAULT_NONE, region_entry_parse(m.entries[2], &e));
	assert_int_equal(e.id, 42);
	assert_true(e.addr == 0x7f0000001000);
	assert_int_equal(e.length, 65536);
	assert_int_equal(e.rkey, 0xdeadbeef);
	assert_int_equal(e.state, SL_STATE_LIVE);
	assert_int_equal(e.kind, SL_REGION_METRICS);
	assert_int_equal(e.generation, 1);
	assert_int_equal(e.instance, 99);
	expect(REGION_FAULT_NONE, region_entry_parse(m.entries[0], &e));
	assert_int_equal(e.state, SL_STATE_FREE);

	static const struct {
		unsigned int cell;
		uint64_t value;
	} hot_lies[] = {
		{SL_DIR_ENTRIES_USED, 5}, {SL_DIR_ENTRIES_USED, 1ull << 32},
		{SL_DIR_LIVE, 5},	  {SL_DIR_STATE, SL_STATE_RETIRED},
		{SL_DIR_STATE, 1 << 8},
	};
	for (size_t i = 0; i < sizeof(hot_lies) / sizeof(*hot_lies); i++) {
		memcpy(line, m.hot, 64);
		make_set(line, hot_lies[i].cell, hot_lies[i].value);
		expect(REGION_FAULT_HOT, region_directory_hot_parse(line, &info, &hot));
	}
	static const struct {
		unsigned int cell;
		uint64_t value;
		enum region_fault fault;
	} entry_lies[] = {
		{SL_ENTRY_ID, 0, REGION_FAULT_HOT},
		{SL_ENTRY_INSTANCE, 0, REGION_FAULT_HOT},
		{SL_ENTRY_KEY, SL_ENTRY_KEY_OF(1, 5, 1), REGION_FAULT_HOT},
		{SL_ENTRY_KEY, SL_ENTRY_KEY_OF(1, 1, 0), REGION_FAULT_HOT},
		{SL_ENTRY_KEY, SL_ENTRY_KEY_OF(1, 1, 1) | 1ull << 48, REGION_FAULT_HOT},
		{SL_ENTRY_LENGTH, 0, REGION_FAULT_SIZE},
		{SL_ENTRY_LENGTH, 4096, REGION_FAULT_SIZE},
		{SL_ENTRY_LENGTH, SL_REGION_SIZE_MAX + 1, REGION_FAULT_SIZE},
		{SL_ENTRY_LENGTH, UINT64_MAX, REGION_FAULT_SIZE},
		{SL_ENTRY_ADDR, UINT64_MAX - 100, REGION_FAULT_SIZE},
	};
	for (size_t i = 0; i < sizeof(entry_lies) / sizeof(*entry_lies); i++) {
		memcpy(line, m.entries[2], 64);
		make_set(line, entry_lies[i].cell, entry_lies[i].value);
		expect(entry_lies[i].fault, region_entry_parse(line, &e));
	}
	for (unsigned int bit = 0; bit < 512; bit++) {
		memcpy(line, m.entries[2], 64);
		line[bit / 64] ^= 1ull << bit % 64;
		expect(REGION_FAULT_UNSETTLED, region_entry_parse(line, &e));
		memcpy(line, m.hot, 64);
		line[bit / 64] ^= 1ull << bit % 64;
		expect(REGION_FAULT_UNSETTLED, region_directory_hot_parse(line, &info, &hot));
	}
	make_free(&m);
}

static void every_fault_was_reached_and_has_a_name(void **state)
{
	(void)state;
	for (int i = 0; i < REGION_FAULT_COUNT; i++) {
		if (!reached[i])
			fail_msg("fault %s was never reached", region_fault_name(i));
		assert_non_null(region_fault_name(i));
		for (int j = 0; j < i; j++)
			assert_string_not_equal(region_fault_name(i), region_fault_name(j));
	}
	assert_string_equal(region_fault_name(REGION_FAULT_COUNT), "unknown");
	assert_string_equal(region_fault_name((enum region_fault) - 1), "unknown");
}

int main(void)
{
	const struct CMUnitTest header_tests[] = {
		cmocka_unit_test(header_says_what_was_written),
		cmocka_unit_test(a_written_header_names_boot_and_process),
		cmocka_unit_test(header_that_lies_is_refused_with_its_cause),
		cmocka_unit_test(hot_line_is_believed_within_the_header),
		cmocka_unit_test(directory_is_believed_within_its_bounds),
		{0},
	};
	const struct CMUnitTest end[] = {
		cmocka_unit_test(every_fault_was_reached_and_has_a_name),
		{0},
	};
	const struct {
		const char *name;
		const struct CMUnitTest *tests;
	} all[] = {{"header", header_tests},
		   {"schema", schema_tests},
		   {"values", values_tests},
		   {"created", created_tests},
		   {"faults", end}};
	int failed = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t n = 0;

		while (all[i].tests[n].name)
			n++;
		failed += _cmocka_run_group_tests(all[i].name, all[i].tests, n, NULL, NULL);
	}
	return failed;
}
