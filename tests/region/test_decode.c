// SPDX-License-Identifier: Apache-2.0
/* What a reader believes of a region, and what it refuses and why: every fault is reached. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include <errno.h>

#include "make_region.h"
#include "region/decode.h"

static const char labels[] =
	"service\0shop\0pod\0shop-0\0free\0\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82";

static bool reached[SL_FAULT_COUNT];

#define expect_of(what, fault_, expr)                                         \
	do {                                                                  \
		enum sl_fault got_ = (expr);                                  \
		reached[got_] = true;                                         \
		if (got_ != (fault_))                                         \
			fail_msg("%s: %s, not %s", what, sl_fault_name(got_), \
				 sl_fault_name(fault_));                      \
	} while (0)
#define expect(fault, expr) expect_of(#expr, fault, expr)

/* ---- failing allocations: malloc, calloc and realloc are wrapped by the linker ------------------ */

static long allocations_left = -1; /* -1: no limit */

void *__real_malloc(size_t size);
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

/* ---- header --------------------------------------------------------------------------------- */

static enum sl_fault parse(const struct make *m, struct sl_region_info *info)
{
	struct sl_region_header copy = *m->header;

	return sl_region_info_parse(&copy, m->size, info);
}

static void header_says_what_was_written(void **state)
{
	struct sl_region_info info;
	struct make m;

	(void)state;
	make_metrics(&m, 100, 5, 10000, labels, sizeof(labels));
	expect(SL_FAULT_NONE, parse(&m, &info));
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
	expect(SL_FAULT_NONE, parse(&m, &info));
	assert_int_equal(info.kind, SL_REGION_DIRECTORY);
	assert_int_equal(info.entries, 8192);
	assert_int_equal(info.max_entries, 100);
	assert_string_equal(info.labels[0].value, "node-1");
	make_free(&m);
}

#define EACH_HEADER_LIE(X)                                                                     \
	X(SL_FAULT_MAGIC, h->magic[7] ^= 1)                                                    \
	X(SL_FAULT_MAGIC, h->instance = 0)                                                     \
	X(SL_FAULT_VERSION, h->version = 2)                                                    \
	X(SL_FAULT_VERSION, h->version = 0)                                                    \
	X(SL_FAULT_VERSION, h->kind = 3)                                                       \
	X(SL_FAULT_VERSION, h->kind = 0)                                                       \
	X(SL_FAULT_SIZE, h->header_size = 8192)                                                \
	X(SL_FAULT_SIZE, h->header_size = 0)                                                   \
	X(SL_FAULT_SIZE, h->size++)                                                            \
	X(SL_FAULT_SIZE, h->size = 0)                                                          \
	X(SL_FAULT_SIZE, h->size = 4096)                                                       \
	X(SL_FAULT_SIZE, h->size = UINT64_MAX)                                                 \
	X(SL_FAULT_SECTION, h->size = 4096 + 64)                                               \
	X(SL_FAULT_SECTION, h->section_count = 17)                                             \
	X(SL_FAULT_SECTION, h->section_count = UINT32_MAX)                                     \
	X(SL_FAULT_SECTION, h->section_count = 0)                                              \
	X(SL_FAULT_SECTION, h->section_count = 1)                                              \
	X(SL_FAULT_SECTION, h->section_count = 2)                                              \
	X(SL_FAULT_SECTION, h->section_count = 4)                                              \
	X(SL_FAULT_SECTION, h->section[1].type = 0)                                            \
	X(SL_FAULT_SECTION, h->section[0].type = 99)                                           \
	X(SL_FAULT_SECTION, h->section[0].stride = 8)                                          \
	X(SL_FAULT_SECTION, h->section[0].length = 128)                                        \
	X(SL_FAULT_SECTION, h->section[0].length = 0)                                          \
	X(SL_FAULT_SECTION, h->section[0].offset = 0)                                          \
	X(SL_FAULT_SECTION, h->section[0].offset = 4032)                                       \
	X(SL_FAULT_SECTION, h->section[0].offset = 4096 + 8)                                   \
	X(SL_FAULT_SECTION, h->section[0].offset = h->size)                                    \
	X(SL_FAULT_SECTION, h->section[0].offset = UINT64_MAX - 63)                            \
	X(SL_FAULT_SECTION, h->section[0].offset = 8192)                                       \
	X(SL_FAULT_SECTION, h->section[0].offset = h->section[2].offset + 64)                  \
	X(SL_FAULT_SECTION, h->section[1].stride = 0)                                          \
	X(SL_FAULT_SECTION, h->section[1].stride = 64)                                         \
	X(SL_FAULT_SECTION, h->section[1].stride = 0xfffff000)                                 \
	X(SL_FAULT_SECTION, h->section[1].length = 0)                                          \
	X(SL_FAULT_SECTION, h->section[1].length += 4096)                                      \
	X(SL_FAULT_SECTION, h->section[1].length -= 4096)                                      \
	X(SL_FAULT_SECTION, h->section[1].length = UINT64_MAX - 8191)                          \
	X(SL_FAULT_SECTION, h->section[2].stride = 64)                                         \
	X(SL_FAULT_SECTION, h->section[2].length -= 4)                                         \
	X(SL_FAULT_SECTION, h->section[2].offset = h->section[1].offset)                       \
	X(SL_FAULT_SECTION, h->section[2].offset -= 4096)                                      \
	X(SL_FAULT_SECTION, h->section[2] = h->section[0])                                     \
	X(SL_FAULT_SECTION, h->kind = SL_REGION_DIRECTORY)                                     \
	X(SL_FAULT_SECTION,                                                                    \
	  (h->section_count = 4, h->section[3] = (struct sl_region_section){77, 1, 0, 1}))     \
	X(SL_FAULT_SECTION,                                                                    \
	  (h->section_count = 4, h->section[3] = h->section[1], h->section[3].offset += 8192,  \
	   h->section[3].length = 8192, h->section[1].length = 8192))                          \
	X(SL_FAULT_SECTION,                                                                    \
	  (h->section_count = 4, h->section[3] = (struct sl_region_section){4, 64, 4160, 64})) \
	X(SL_FAULT_LABEL, h->label_bytes = UINT32_MAX)                                         \
	X(SL_FAULT_LABEL, h->label_bytes = SL_HEADER_LABELS_MAX + 1)                           \
	X(SL_FAULT_LABEL, h->label_bytes -= 1)                                                 \
	X(SL_FAULT_LABEL, h->label_bytes = 8)                                                  \
	X(SL_FAULT_LABEL, h->label_bytes += 1)                                                 \
	X(SL_FAULT_LABEL, h->labels[0] = '1')                                                  \
	X(SL_FAULT_LABEL, h->labels[0] = 0)                                                    \
	X(SL_FAULT_LABEL, h->labels[1] = ':')                                                  \
	X(SL_FAULT_LABEL, h->labels[8] = 0x80)                                                 \
	X(SL_FAULT_LABEL, memcpy(h->labels, "__rvice", 7))                                     \
	X(SL_FAULT_LABEL, (h->label_bytes = 8, memcpy(h->labels, "a\0b\0a\0c", 8)))            \
	X(SL_FAULT_LABEL,                                                                      \
	  (memset(h->labels, 'a', sizeof(h->labels)), h->label_bytes = SL_HEADER_LABELS_MAX))  \
	X(SL_FAULT_LABEL, (memset(h->labels, 'a', 1200), h->labels[1] = h->labels[1199] = 0,   \
			   h->label_bytes = 1200))                                             \
	X(SL_FAULT_LABEL, (memset(h->labels, 'a', 400), h->labels[300] = h->labels[399] = 0,   \
			   h->label_bytes = 400))                                              \
	X(SL_FAULT_LABEL, too_many_labels(h))                                                  \
	X(SL_FAULT_NONE, h->minor = 7)                                                         \
	X(SL_FAULT_NONE, h->reserved[5] = 7)                                                   \
	X(SL_FAULT_NONE, h->label_bytes = 0)                                                   \
	X(SL_FAULT_NONE, h->size -= 64 + (h->section[2].length -= 64, 0))                      \
	X(SL_FAULT_NONE,                                                                       \
	  (h->section_count = 4, h->section[3] = (struct sl_region_section){77, 1, 4160, 1}))

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

static void header_that_lies_is_refused_with_its_cause(void **state)
{
	struct sl_region_info info;
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
	expect(SL_FAULT_CHECK, parse(&m, &info));
	make_header_check(&m);
	m.size -= 4096;
	expect(SL_FAULT_SIZE, parse(&m, &info)); /* claims more than there is */
	make_free(&m);
	make_directory(&m, 4);
	m.header->section[1].length = 100;
	make_header_check(&m);
	expect(SL_FAULT_SECTION, parse(&m, &info));
	m.header->section[1].length = 0;
	make_header_check(&m);
	expect(SL_FAULT_SECTION, parse(&m, &info));
	make_free(&m);
}

/* ---- hot lines and entries -------------------------------------------------------------------- */

static void hot_line_is_believed_within_the_header(void **state)
{
	struct sl_region_info info;
	struct sl_hot hot, later;
	struct make m;
	uint64_t line[8];

	(void)state;
	make_metrics(&m, 64, 3, 4096, NULL, 0);
	expect(SL_FAULT_NONE, parse(&m, &info));
	make_set(m.hot, SL_HOT_GENERATION, 9);
	make_set(m.hot, SL_HOT_SCHEMA_USED, 4096);
	make_set(m.hot, SL_HOT_LINES_USED, 64);
	make_set(m.hot, SL_HOT_STATE, SL_STATE_CLOSED | 77 << 8);
	make_set(m.hot, SL_HOT_REFUSED, 5);
	expect(SL_FAULT_NONE, sl_hot_parse(m.hot, &info, &hot));
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
		expect(SL_FAULT_HOT, sl_hot_parse(line, &info, &hot));
	}
	for (unsigned int bit = 0; bit < 512; bit++) {
		memcpy(line, m.hot, 64);
		line[bit / 64] ^= 1ull << bit % 64;
		expect(SL_FAULT_UNSETTLED, sl_hot_parse(line, &info, &hot));
	}
	memset(line, 0, 64); /* nothing yet */
	expect(SL_FAULT_NONE, sl_hot_parse(line, &info, &hot));

	later = hot;
	expect(SL_FAULT_NONE, sl_hot_follows(&hot, &later));
	later.generation = later.lines_used = later.stripes_used = 2;
	later.schema_used = 64;
	expect(SL_FAULT_NONE, sl_hot_follows(&hot, &later));
	hot = later;
#define BACK(field)                                         \
	later.field--;                                      \
	expect(SL_FAULT_HOT, sl_hot_follows(&hot, &later)); \
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
	struct sl_region_info info;
	struct sl_directory_hot hot;
	struct sl_entry e;
	struct make m;
	uint64_t line[8];

	(void)state;
	make_directory(&m, 4);
	expect(SL_FAULT_NONE, parse(&m, &info));
	make_entry(&m, 2, 42, 0x7f0000001000, 65536, 0xdeadbeef, SL_STATE_LIVE, SL_REGION_METRICS,
		   99);
	expect(SL_FAULT_NONE, sl_directory_hot_parse(m.hot, &info, &hot));
	assert_int_equal(hot.generation, 1);
	assert_int_equal(hot.entries_used, 3);
	assert_int_equal(hot.live, 1);
	assert_int_equal(hot.state, SL_STATE_LIVE);
	assert_int_equal(hot.lease_ns, 1000000000);
	expect(SL_FAULT_NONE, sl_entry_parse(m.entries[2], &e));
	assert_int_equal(e.id, 42);
	assert_true(e.addr == 0x7f0000001000);
	assert_int_equal(e.length, 65536);
	assert_int_equal(e.rkey, 0xdeadbeef);
	assert_int_equal(e.state, SL_STATE_LIVE);
	assert_int_equal(e.kind, SL_REGION_METRICS);
	assert_int_equal(e.generation, 1);
	assert_int_equal(e.instance, 99);
	expect(SL_FAULT_NONE, sl_entry_parse(m.entries[0], &e));
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
		expect(SL_FAULT_HOT, sl_directory_hot_parse(line, &info, &hot));
	}
	static const struct {
		unsigned int cell;
		uint64_t value;
		enum sl_fault fault;
	} entry_lies[] = {
		{SL_ENTRY_ID, 0, SL_FAULT_HOT},
		{SL_ENTRY_INSTANCE, 0, SL_FAULT_HOT},
		{SL_ENTRY_KEY, SL_ENTRY_KEY_OF(1, 5, 1), SL_FAULT_HOT},
		{SL_ENTRY_KEY, SL_ENTRY_KEY_OF(1, 1, 0), SL_FAULT_HOT},
		{SL_ENTRY_KEY, SL_ENTRY_KEY_OF(1, 1, 3), SL_FAULT_HOT},
		{SL_ENTRY_KEY, SL_ENTRY_KEY_OF(1, 1, 1) | 1ull << 48, SL_FAULT_HOT},
		{SL_ENTRY_LENGTH, 0, SL_FAULT_SIZE},
		{SL_ENTRY_LENGTH, 4096, SL_FAULT_SIZE},
		{SL_ENTRY_LENGTH, SL_REGION_SIZE_MAX + 1, SL_FAULT_SIZE},
		{SL_ENTRY_LENGTH, UINT64_MAX, SL_FAULT_SIZE},
		{SL_ENTRY_ADDR, UINT64_MAX - 100, SL_FAULT_SIZE},
	};
	for (size_t i = 0; i < sizeof(entry_lies) / sizeof(*entry_lies); i++) {
		memcpy(line, m.entries[2], 64);
		make_set(line, entry_lies[i].cell, entry_lies[i].value);
		expect(entry_lies[i].fault, sl_entry_parse(line, &e));
	}
	for (unsigned int bit = 0; bit < 512; bit++) {
		memcpy(line, m.entries[2], 64);
		line[bit / 64] ^= 1ull << bit % 64;
		expect(SL_FAULT_UNSETTLED, sl_entry_parse(line, &e));
		memcpy(line, m.hot, 64);
		line[bit / 64] ^= 1ull << bit % 64;
		expect(SL_FAULT_UNSETTLED, sl_directory_hot_parse(line, &info, &hot));
	}
	make_free(&m);
}

/* ---- schema ----------------------------------------------------------------------------------- */

static enum sl_fault append(struct sl_schema *s, const struct sl_region_info *info,
			    const struct make *m)
{
	/* An allocation of its own, so that the sanitizers and valgrind see a read past the end. */
	size_t n = m->hot[SL_HOT_SCHEMA_USED] - s->parsed;
	void *copy = __real_malloc(n ? n : 1);
	enum sl_fault fault;

	memcpy(copy, m->schema + s->parsed, n);
	fault = sl_schema_append(s, info, copy, n);
	free(copy);
	return fault;
}

static const double some_bounds[] = {0.1, 0.5, 2.5};

static const struct make_metric of_every_kind[] = {
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
#define KINDS (sizeof(of_every_kind) / sizeof(*of_every_kind))

static void schema_says_what_was_written(void **state)
{
	struct sl_region_info info;
	struct sl_schema s;
	struct make m;
	uint32_t cell[KINDS];

	(void)state;
	make_metrics(&m, 64, 1, 65536, NULL, 0);
	expect(SL_FAULT_NONE, parse(&m, &info));
	sl_schema_init(&s);
	expect(SL_FAULT_NONE, append(&s, &info, &m));
	for (size_t i = 0; i < KINDS; i++) {
		cell[i] = make_metric(&m, &of_every_kind[i]);
		if (i % 3 == 0) /* in pieces, as a reader meets them */
			expect(SL_FAULT_NONE, append(&s, &info, &m));
	}
	expect(SL_FAULT_NONE, append(&s, &info, &m));
	assert_int_equal(s.count, KINDS);
	assert_int_equal(s.parsed, m.hot[SL_HOT_SCHEMA_USED]);
	assert_int_equal(s.cells, m.cells);
	assert_int_equal(s.skipped, 0);
	for (size_t i = 0; i < KINDS; i++) {
		const struct make_metric *w = &of_every_kind[i];
		const struct sl_metric *r = s.metrics[i];

		assert_int_equal(r->id, i);
		assert_int_equal(r->kind, w->kind);
		assert_int_equal(r->cell, w->kind == SL_KIND_INFO ? 0 : cell[i]);
		assert_string_equal(r->name, w->name);
		assert_string_equal(r->unit, w->unit ? w->unit : "");
		assert_string_equal(r->help, w->help ? w->help : "");
		for (uint32_t l = 0; l < r->label_count; l++) {
			assert_string_equal(r->labels[l].key, w->labels[2 * l]);
			assert_string_equal(r->labels[l].value, w->labels[2 * l + 1]);
		}
		assert_null(w->labels[2 * r->label_count]);
		assert_int_equal(r->bound_count, w->bound_count);
		if (w->bound_count)
			assert_memory_equal(r->bounds, w->bounds, w->bound_count * sizeof(double));
		for (uint32_t l = 0; l < r->state_count; l++)
			assert_string_equal(r->states[l], w->states[l]);
		assert_null(w->states[r->state_count]);
	}
	assert_int_equal(s.metrics[4]->cells, 24);
	assert_int_equal(s.metrics[4]->bucket_count, 22);
	assert_int_equal(s.metrics[4]->scale, 3);
	assert_int_equal(s.metrics[4]->first_bucket, -10);
	assert_true(s.metrics[4]->zero_threshold == 1e-9);
	assert_int_equal(s.metrics[5]->bucket_count, 4);
	assert_int_equal(s.metrics[6]->cells, 0);
	sl_schema_free(&s);
	make_free(&m);
}

/* A record spoilt and its checksum made right again. index: of_every_kind. */
#define EACH_RECORD_LIE(X)                                                                         \
	X(SL_FAULT_RECORD, 0, r->id = 1)                                                           \
	X(SL_FAULT_RECORD, 0, r->name_bytes += 8)                                                  \
	X(SL_FAULT_RECORD, 0, r->name_bytes = UINT16_MAX)                                          \
	X(SL_FAULT_RECORD, 0, r->name_bytes = 0)                                                   \
	X(SL_FAULT_RECORD, 0, r->help_bytes = UINT16_MAX)                                          \
	X(SL_FAULT_RECORD, 0, r->state_bytes = 8)                                                  \
	X(SL_FAULT_RECORD, 0, r->bound_count = UINT16_MAX)                                         \
	X(SL_FAULT_RECORD, 0, r->cells = 2)                                                        \
	X(SL_FAULT_RECORD, 0, r->cells = 0)                                                        \
	X(SL_FAULT_RECORD, 0, r->kind = SL_KIND_HISTOGRAM_EXP)                                     \
	X(SL_FAULT_RECORD, 0, r->kind = SL_KIND_HISTOGRAM)                                         \
	X(SL_FAULT_RECORD, 0, r->kind = SL_KIND_STATESET)                                          \
	X(SL_FAULT_RECORD, 0, r->kind = SL_KIND_INFO)                                              \
	X(SL_FAULT_RECORD, 0, text[0] = '9')                                                       \
	X(SL_FAULT_RECORD, 0, text[3] = '-')                                                       \
	X(SL_FAULT_RECORD, 0, text[3] = 0)                                                         \
	X(SL_FAULT_RECORD, 0, text[r->name_bytes] = 0)                                             \
	X(SL_FAULT_RECORD, 0, text[r->name_bytes + 1] = 0xff)                                      \
	X(SL_FAULT_RECORD, 0, (r->unit_bytes = 2, r->help_bytes -= 2, text[r->name_bytes] = '\n')) \
	X(SL_FAULT_LABEL, 0, text[r->name_bytes + r->help_bytes] = 'z')                            \
	X(SL_FAULT_LABEL, 0, (r->label_bytes--, r->state_bytes++))                                 \
	X(SL_FAULT_LABEL, 0, text[r->name_bytes + r->help_bytes + r->label_bytes - 1] = 'x')       \
	X(SL_FAULT_CELLS, 0, r->cell = 64 * 7)                                                     \
	X(SL_FAULT_CELLS, 0, r->cell = UINT32_MAX)                                                 \
	X(SL_FAULT_CELLS, 0, r->cells = UINT32_MAX)                                                \
	X(SL_FAULT_CELLS, 0, (r->kind = 1000, r->cells = 64 * 7 + 1))                              \
	X(SL_FAULT_NONE, 0, (r->kind = 1000, r->name_bytes = UINT16_MAX, r->cells = 64 * 7))       \
	X(SL_FAULT_NONE, 0, r->cell = 64 * 7 - 1)                                                  \
	X(SL_FAULT_NONE, 0, r->flags = r->reserved = 7)                                            \
	X(SL_FAULT_NONE, 0, text[r->length - 65] = 'p') /* padding */                              \
	X(SL_FAULT_RECORD, 4, r->scale = 9)                                                        \
	X(SL_FAULT_RECORD, 4, r->scale = -5)                                                       \
	X(SL_FAULT_RECORD, 4, r->first_bucket = INT32_MAX)                                         \
	X(SL_FAULT_RECORD, 4, r->first_bucket = INT32_MIN)                                         \
	X(SL_FAULT_RECORD, 4, r->zero_threshold = -1)                                              \
	X(SL_FAULT_RECORD, 4, r->zero_threshold = NAN)                                             \
	X(SL_FAULT_RECORD, 4, r->zero_threshold = INFINITY)                                        \
	X(SL_FAULT_RECORD, 4, r->cells = 4)                                                        \
	X(SL_FAULT_RECORD, 4, r->cells = 1)                                                        \
	X(SL_FAULT_RECORD, 4, r->cells = 0)                                                        \
	X(SL_FAULT_RECORD, 5, r->cells++)                                                          \
	X(SL_FAULT_RECORD, 5, (r->bound_count--, r->name_bytes += 8))                              \
	X(SL_FAULT_RECORD, 5, r->bound_count = 0)                                                  \
	X(SL_FAULT_RECORD, 5, memcpy(text, text + 8, 8))                                           \
	X(SL_FAULT_RECORD, 5, memset(text, 0xff, 8))                                               \
	X(SL_FAULT_RECORD, 5, memcpy(text + 16, "\0\0\0\0\0\0\xf0\x7f", 8))                        \
	X(SL_FAULT_RECORD, 6, r->cells = 1)                                                        \
	X(SL_FAULT_RECORD, 7, r->state_count = 4)                                                  \
	X(SL_FAULT_RECORD, 7, r->state_count = 2)                                                  \
	X(SL_FAULT_RECORD, 7, r->state_count = 0)                                                  \
	X(SL_FAULT_RECORD, 7, r->state_count = UINT16_MAX)                                         \
	X(SL_FAULT_RECORD, 7, text[r->name_bytes] = 0)                                             \
	X(SL_FAULT_RECORD, 7, text[r->name_bytes] = 0xed)                                          \
	X(SL_FAULT_RECORD, 7, memcpy(text + r->name_bytes + 9, "aa\0aa", 6))                       \
	X(SL_FAULT_RECORD, 7, text[1] = ':')

static void record_that_lies_is_refused_with_its_cause(void **state)
{
	struct sl_region_info info;
	struct sl_schema s;
	struct make m;
	static uint8_t record[1 << 18];

	(void)state;
#define TRY(fault, which, lie)                                                  \
	do {                                                                    \
		struct sl_schema_record *r = (struct sl_schema_record *)record; \
		uint8_t *text = record + sizeof(*r);                            \
		make_metrics(&m, 64, 1, 8192, NULL, 0);                         \
		expect(SL_FAULT_NONE, parse(&m, &info));                        \
		sl_schema_init(&s);                                             \
		make_record(&m, &of_every_kind[which], record);                 \
		lie;                                                            \
		(void)text;                                                     \
		make_record_check(record);                                      \
		make_append(&m, record);                                        \
		expect_of(#lie, fault, append(&s, &info, &m));                  \
		if (fault) {                                                    \
			assert_int_equal(s.count, 0);                           \
			assert_int_equal(s.parsed, 0);                          \
			assert_int_equal(s.cells, 0);                           \
		}                                                               \
		sl_schema_free(&s);                                             \
		make_free(&m);                                                  \
	} while (0);
	EACH_RECORD_LIE(TRY)
#undef TRY
}

static void metric_refused(enum sl_fault fault, const struct make_metric *first,
			   const struct make_metric *second)
{
	struct sl_region_info info;
	struct sl_schema s;
	struct make m;

	make_metrics(&m, 1024, 1, 1 << 18, NULL, 0);
	expect(SL_FAULT_NONE, parse(&m, &info));
	sl_schema_init(&s);
	if (first)
		make_metric(&m, first);
	expect(SL_FAULT_NONE, append(&s, &info, &m));
	make_metric(&m, second);
	expect(fault, append(&s, &info, &m));
	assert_int_equal(s.count, (first != NULL) + (fault == SL_FAULT_NONE));
	sl_schema_free(&s);
	make_free(&m);
}

static void names_that_would_break_the_exposition_are_refused(void **state)
{
	static const struct make_metric
		le = {.kind = SL_KIND_HISTOGRAM, .name = "h", .labels = {"le", "1"}},
		le_exp = {.kind = SL_KIND_HISTOGRAM_EXP,
			  .name = "h",
			  .buckets = 1,
			  .labels = {"a", "", "le", "1"}},
		le_counter = {.kind = SL_KIND_COUNTER, .name = "h", .labels = {"le", "1"}},
		own_name = {.kind = SL_KIND_STATESET,
			    .name = "phase",
			    .states = {"up"},
			    .labels = {"phase", "x"}},
		other_kind = {.kind = SL_KIND_GAUGE, .name = "a", .labels = {"k", "v", "l", "w"}},
		counter = {.kind = SL_KIND_COUNTER, .name = "a", .labels = {"k", "v", "l", "w"}},
		other_labels = {.kind = SL_KIND_COUNTER, .name = "a", .labels = {"k", "v"}},
		unsorted = {.kind = SL_KIND_COUNTER, .name = "a", .labels = {"l", "v", "k", "w"}},
		twice = {.kind = SL_KIND_COUNTER, .name = "a", .labels = {"k", "v", "k", "w"}},
		dunder = {.kind = SL_KIND_COUNTER, .name = "a", .labels = {"__k", "v"}},
		surrogate = {.kind = SL_KIND_COUNTER, .name = "a", .labels = {"k", "\xed\xa0\x80"}},
		overlong = {.kind = SL_KIND_COUNTER, .name = "a", .labels = {"k", "\xc0\x80"}},
		beyond = {.kind = SL_KIND_COUNTER,
			  .name = "a",
			  .labels = {"k", "\xf4\x90\x80\x80"}},
		cut_off = {.kind = SL_KIND_COUNTER, .name = "a", .labels = {"k", "\xe2\x82"}},
		no_bounds = {.kind = SL_KIND_HISTOGRAM, .name = "h"};
	struct make_metric big = {.kind = SL_KIND_HISTOGRAM, .name = "h"};
	static double bounds[SL_BUCKETS_MAX];
	char text[1100];

	(void)state;
	metric_refused(SL_FAULT_LABEL, NULL, &le);
	metric_refused(SL_FAULT_LABEL, NULL, &le_exp);
	metric_refused(SL_FAULT_NONE, NULL, &le_counter);
	metric_refused(SL_FAULT_LABEL, NULL, &own_name);
	metric_refused(SL_FAULT_RECORD, &counter, &counter);
	metric_refused(SL_FAULT_RECORD, &counter, &other_kind);
	metric_refused(SL_FAULT_NONE, &counter, &other_labels);
	metric_refused(SL_FAULT_LABEL, NULL, &unsorted);
	metric_refused(SL_FAULT_LABEL, NULL, &twice);
	metric_refused(SL_FAULT_LABEL, NULL, &dunder);
	metric_refused(SL_FAULT_LABEL, NULL, &surrogate);
	metric_refused(SL_FAULT_LABEL, NULL, &overlong);
	metric_refused(SL_FAULT_LABEL, NULL, &beyond);
	metric_refused(SL_FAULT_LABEL, NULL, &cut_off);
	metric_refused(SL_FAULT_NONE, NULL, &no_bounds);

	for (unsigned int i = 0; i < SL_BUCKETS_MAX; i++)
		bounds[i] = i;
	big.bounds = bounds;
	big.bound_count = SL_BUCKETS_MAX - 1;
	metric_refused(SL_FAULT_NONE, NULL, &big);
	big.bound_count = SL_BUCKETS_MAX;
	metric_refused(SL_FAULT_RECORD, NULL, &big);

	/* Lengths at the limit and one above. */
	memset(text, 'a', sizeof(text));
	for (int over = 0; over < 2; over++) {
		struct make_metric x = {.kind = SL_KIND_COUNTER, .name = text};

		text[SL_NAME_MAX + over] = 0;
		metric_refused(over ? SL_FAULT_RECORD : SL_FAULT_NONE, NULL, &x);
		x.name = "x";
		x.unit = text;
		metric_refused(over ? SL_FAULT_RECORD : SL_FAULT_NONE, NULL, &x);
		x.unit = NULL;
		x.labels[0] = text;
		x.labels[1] = "";
		metric_refused(over ? SL_FAULT_LABEL : SL_FAULT_NONE, NULL, &x);
		text[SL_NAME_MAX + over] = 'a';
		text[SL_HELP_MAX + over] = 0;
		x.labels[0] = NULL;
		x.help = text;
		metric_refused(over ? SL_FAULT_RECORD : SL_FAULT_NONE, NULL, &x);
		x.help = NULL;
		x.labels[0] = "k";
		x.labels[1] = text;
		metric_refused(over ? SL_FAULT_LABEL : SL_FAULT_NONE, NULL, &x);
		text[SL_HELP_MAX + over] = 'a';
	}
	/* One label too many. */
	for (unsigned int over = 0; over < 2; over++) {
		struct make_metric x = {.kind = SL_KIND_COUNTER, .name = "x"};
		char keys[SL_LABELS_MAX + 1][3];

		for (unsigned int i = 0; i < SL_LABELS_MAX + over; i++) {
			memcpy(keys[i], (char[]){(char)('a' + i / 26), (char)('a' + i % 26), 0}, 3);
			x.labels[2 * i] = keys[i];
			x.labels[2 * i + 1] = "v";
		}
		metric_refused(over ? SL_FAULT_LABEL : SL_FAULT_NONE, NULL, &x);
	}
}

static void cells_of_two_metrics_never_overlap(void **state)
{
	static const struct make_metric first = {.kind = SL_KIND_HISTOGRAM, .name = "h"},
					second = {.kind = SL_KIND_COUNTER, .name = "c"};

	(void)state;
	/* A histogram without bounds has cells 2, 3 and 4 here. */
	for (uint32_t cell = 0; cell <= 7; cell++) {
		bool over = cell >= 2 && cell < 5;
		struct sl_region_info info;
		struct sl_schema s;
		struct make m;

		make_metrics(&m, 64, 1, 4096, NULL, 0);
		expect(SL_FAULT_NONE, parse(&m, &info));
		sl_schema_init(&s);
		m.next_cell = 2;
		make_metric(&m, &first);
		m.next_cell = cell;
		make_metric(&m, &second);
		expect(over ? SL_FAULT_CELLS : SL_FAULT_NONE, append(&s, &info, &m));
		assert_int_equal(s.count, over ? 1 : 2);
		assert_int_equal(s.cells, cell < 5 ? 5 : cell + 1);
		sl_schema_free(&s);
		make_free(&m);
	}
}

/* Records of a kind that is not known, too: who knows it would write there. */
static void in_whatever_order_cells_come_an_overlap_is_found(void **state)
{
	enum { CELLS = 5 * 64 * 7 };
	static uint8_t record[1 << 12];
	struct rng rng = {20261121};
	unsigned int met[2] = {0};

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct sl_schema_record *r = (struct sl_schema_record *)record;
		struct make_metric metric = {.kind = SL_KIND_COUNTER};
		struct sl_region_info info;
		bool taken[CELLS] = {false};
		uint64_t highest = 0;
		size_t known = 0;
		struct sl_schema s;
		struct make m;

		make_metrics(&m, CELLS / 7, 1, 1 << 16, NULL, 0);
		expect(SL_FAULT_NONE, parse(&m, &info));
		sl_schema_init(&s);
		for (int i = 0; i < 60; i++) {
			char name[16];
			bool over = false;

			snprintf(name, sizeof(name), "c%d", i);
			metric.name = name;
			make_record(&m, &metric, record);
			if (rng_below(&rng, 2)) {
				r->kind = 1000;
				r->cells = 1 + (uint32_t)rng_below(&rng, i % 8 ? 70 : 300);
			}
			r->cell = (uint32_t)rng_below(&rng, CELLS + 1 - r->cells);
			make_record_check(record);
			for (uint32_t c = 0; c < r->cells; c++)
				over |= taken[r->cell + c];
			met[over]++;
			expect(over ? SL_FAULT_CELLS : SL_FAULT_NONE,
			       sl_schema_append(&s, &info, record, r->length));
			if (over) {
				assert_true(s.count == known && s.cells == highest);
				continue;
			}
			m.next_id++;
			known += r->kind == SL_KIND_COUNTER;
			memset(taken + r->cell, true, r->cells);
			if (r->cell + r->cells > highest)
				highest = r->cell + r->cells;
			assert_true(s.count == known && s.cells == highest);
		}
		sl_schema_free(&s);
		make_free(&m);
	}
	assert_true(met[0] > 1000 && met[1] > 1000);
}

static void torn_copy_of_the_schema_is_told_from_a_lie(void **state)
{
	struct sl_region_info info;
	struct sl_schema s;
	struct make m;
	uint64_t whole, first;
	uint8_t *copy;

	(void)state;
	make_metrics(&m, 64, 1, 4096, NULL, 0);
	expect(SL_FAULT_NONE, parse(&m, &info));
	make_metric(&m, &of_every_kind[0]);
	first = m.hot[SL_HOT_SCHEMA_USED];
	make_metric(&m, &of_every_kind[5]);
	whole = m.hot[SL_HOT_SCHEMA_USED];
	copy = __real_malloc(whole);
	/* Any byte of the second record missing or other: the first is taken, the second waits. */
	for (uint64_t i = first; i < whole; i++) {
		sl_schema_init(&s);
		memcpy(copy, m.schema, whole);
		copy[i] ^= 0x5a;
		expect(SL_FAULT_CHECK, sl_schema_append(&s, &info, copy, whole));
		assert_int_equal(s.count, 1);
		assert_int_equal(s.parsed, first);
		expect(SL_FAULT_NONE, sl_schema_append(&s, &info, m.schema + first, whole - first));
		assert_int_equal(s.count, 2);
		sl_schema_free(&s);
	}
	/* Likewise if the copy came before the record: zeroes from somewhere on. */
	for (uint64_t i = first; i < whole; i += 8) {
		sl_schema_init(&s);
		memcpy(copy, m.schema, whole);
		memset(copy + i, 0, whole - i);
		/* The last bytes of a record may be padding: then nothing was missing. */
		if (memcmp(copy, m.schema, whole))
			expect(SL_FAULT_CHECK, sl_schema_append(&s, &info, copy, whole));
		sl_schema_free(&s);
		sl_schema_init(&s);
		memcpy(copy, m.schema, whole);
		expect(SL_FAULT_CHECK, sl_schema_append(&s, &info, copy, i == first ? 8 : i));
		sl_schema_free(&s);
	}
	sl_schema_init(&s);
	expect(SL_FAULT_SIZE, sl_schema_append(&s, &info, copy, info.schema_bytes + 8));
	free(copy);
	make_free(&m);
}

static void schema_that_runs_out_of_memory_goes_on_later(void **state)
{
	struct sl_region_info info;
	struct sl_schema s;
	struct make m;

	(void)state;
	make_metrics(&m, 64, 1, 65536, NULL, 0);
	expect(SL_FAULT_NONE, parse(&m, &info));
	for (int i = 0; i < 40; i++) {
		char name[8] = {'m', (char)('a' + i / 10), (char)('a' + i % 10)};
		struct make_metric x = {.kind = SL_KIND_COUNTER_F64, .name = name};

		make_metric(&m, &x);
	}
	for (long limit = 0;; limit++) {
		enum sl_fault fault;

		sl_schema_init(&s);
		allocations_left = limit;
		fault = append(&s, &info, &m);
		allocations_left = -1;
		reached[fault] = true;
		if (!fault) {
			assert_true(limit > 40);
			assert_int_equal(s.count, 40);
			sl_schema_free(&s);
			break;
		}
		assert_int_equal(fault, SL_FAULT_MEMORY);
		expect(SL_FAULT_NONE, append(&s, &info, &m));
		assert_int_equal(s.count, 40);
		sl_schema_free(&s);
	}
	make_free(&m);
}

/* ---- values ----------------------------------------------------------------------------------- */

static void values_are_summed_as_their_kind_demands(void **state)
{
	struct sl_region_info info;
	struct sl_schema s;
	struct sl_values v;
	struct make m;
	uint32_t cell[KINDS];
	uint64_t out[64], bits;

	(void)state;
	make_metrics(&m, 64, 3, 65536, NULL, 0);
	expect(SL_FAULT_NONE, parse(&m, &info));
	sl_schema_init(&s);
	for (size_t i = 0; i < KINDS; i++)
		cell[i] = make_metric(&m, &of_every_kind[i]);
	expect(SL_FAULT_NONE, append(&s, &info, &m));
	for (uint32_t i = 0; i < 3; i++) {
		make_cell_set(&m, i, cell[0], UINT64_MAX - 1 + i);
		make_cell_set(&m, i, cell[1], sl_cell_of_f64(0.25 + i));
		make_cell_set(&m, i, cell[2], (uint64_t)-5 + 100 * i); /* stripe 0 counts */
		make_cell_set(&m, i, cell[3], sl_cell_of_f64(-17.5 + i));
		make_cell_set(&m, i, cell[4], sl_cell_of_f64(1e3));
		make_cell_set(&m, i, cell[4] + 1, 7);
		make_cell_set(&m, i, cell[5], sl_cell_of_f64(1e-3));
		make_cell_set(&m, i, cell[5] + 4, 9);
		make_cell_set(&m, i, cell[7], 1u << i);
	}
	sl_values_init(&v);
	memset(out, 0xee, sizeof(out));
	sl_values_flatten(&v, &s, out); /* nothing yet: zeroes */
	for (uint64_t i = 0; i < s.cells; i++)
		assert_int_equal(out[i], 0);
	assert_int_equal(out[s.cells], 0xeeeeeeeeeeeeeeee);
	assert_int_equal(sl_values_resize(&v, (uint32_t)m.hot[SL_HOT_LINES_USED], 3), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sl_values_update(&v, i, 0,
						  (const uint64_t(*)[8])make_line(&m, i, 0),
						  v.lines, NULL),
				 0);
	sl_values_flatten(&v, &s, out);
	assert_true(out[cell[0]] == (uint64_t)-3);
	assert_true(sl_values_u64(&v, cell[0]) == (uint64_t)-3);
	assert_true(sl_values_f64(&v, cell[1]) == 3.75);
	bits = sl_cell_of_f64(3.75);
	assert_true(out[cell[1]] == (bits ^ bits >> 32));
	assert_true(out[cell[2]] == (uint64_t)-5);
	assert_true(sl_values_shared(&v, cell[2]) == (uint64_t)-5);
	assert_true(sl_f64_of_cell(out[cell[3]] ^ out[cell[3]] >> 32) == -17.5);
	assert_true(sl_f64_of_cell(out[cell[4]] ^ out[cell[4]] >> 32) == 3e3);
	assert_int_equal(out[cell[4] + 1], 21);
	assert_int_equal(out[cell[5] + 4], 27);
	assert_int_equal(out[cell[7]], 1);
	sl_values_free(&v);
	sl_schema_free(&s);
	make_free(&m);
}

static void unsettled_line_keeps_the_last_good_one(void **state)
{
	static void (*const set_of[])(uint64_t *, unsigned int, uint64_t) = {make_set_mixed,
									     make_set};
	struct sl_values v;
	uint64_t lines[130][8], retry[3];

	(void)state;
	sl_values_init(&v);
	for (uint32_t stripes = 1; stripes <= 2; stripes++) {
		assert_int_equal(sl_values_resize(&v, 140, stripes), 0);
		memset(lines, 0, sizeof(lines));
		for (int i = 0; i < 130; i++)
			set_of[stripes - 1](lines[i], i % 7, 1000 + i);
		assert_int_equal(sl_values_update(&v, stripes - 1, 5, (const uint64_t(*)[8])lines,
						  130, retry),
				 0);
		assert_int_equal(retry[0] | retry[1] | retry[2], 0);
		for (int i = 0; i < 130; i++)
			set_of[stripes - 1](lines[i], i % 7, 2000 + i);
		lines[0][7]++;	     /* check word */
		lines[64][5] ^= 256; /* a cell */
		lines[129][0] ^= 1ull << 63;
		memset(retry, 0xff, sizeof(retry));
		v.unsettled = 0;
		assert_int_equal(sl_values_update(&v, stripes - 1, 5, (const uint64_t(*)[8])lines,
						  130, retry),
				 3);
		assert_int_equal(v.unsettled, 3);
		assert_int_equal(retry[0], 1);
		assert_int_equal(retry[1], 1);
		assert_int_equal(retry[2], 2);
		for (uint32_t i = 0; i < 130; i++) {
			uint64_t old = stripes == 2 ? 2000 + i : 0; /* stripe 0, see below */

			assert_int_equal(sl_values_u64(&v, (5 + i) * 7 + i % 7),
					 old + (i == 0 || i == 64 || i == 129 ? 1000 : 2000) + i);
		}
		/* Settled again. */
		lines[0][7]--;
		lines[64][5] ^= 256;
		lines[129][0] ^= 1ull << 63;
		assert_int_equal(sl_values_update(&v, stripes - 1, 5, (const uint64_t(*)[8])lines,
						  130, retry),
				 0);
		assert_int_equal(sl_values_u64(&v, 5 * 7), (stripes == 2 ? 2000 : 0) + 2000);
	}
	/* Out of bounds is left out. */
	assert_int_equal(sl_values_update(&v, 2, 0, (const uint64_t(*)[8])lines, 1, NULL), 0);
	assert_int_equal(sl_values_update(&v, 0, 140, (const uint64_t(*)[8])lines, 1, NULL), 0);
	assert_int_equal(sl_values_update(&v, 1, 100, (const uint64_t(*)[8])lines, 130, retry), 0);
	sl_values_free(&v);
}

static void values_grow_and_keep_what_they_have(void **state)
{
	static const uint32_t sizes[][2] = {{1, 1}, {3, 1}, {3, 2}, {5, 2},
					    {9, 7}, {2, 8}, {30, 3}};
	struct sl_values v;
	uint64_t line[1][8] = {{0}};

	(void)state;
	sl_values_init(&v);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint32_t lines = v.lines, stripes = v.stripes;

		allocations_left = 0;
		assert_int_equal(sl_values_resize(&v, sizes[i][0], sizes[i][1]), -ENOMEM);
		allocations_left = -1;
		assert_int_equal(v.lines, lines);
		assert_int_equal(v.stripes, stripes);
		assert_int_equal(sl_values_resize(&v, sizes[i][0], sizes[i][1]), 0);
		assert_true(v.lines >= sizes[i][0] && v.lines >= lines);
		assert_true(v.stripes >= sizes[i][1] && v.stripes >= stripes);
		assert_int_equal((uintptr_t)v.line % 64, 0);
		for (uint32_t s = 0; s < v.stripes; s++)
			for (uint32_t l = 0; l < v.lines; l++) {
				bool old = s < stripes && l < lines;

				assert_true(v.line[(s * (size_t)v.lines + l) * 8] ==
					    (old ? 1 + s + 100 * l : 0));
			}
		for (uint32_t s = 0; s < v.stripes; s++)
			for (uint32_t l = 0; l < v.lines; l++) {
				memset(line, 0, sizeof(line));
				(s ? make_set : make_set_mixed)(line[0], 0, 1 + s + 100 * l);
				sl_values_update(&v, s, l, (const uint64_t(*)[8])line, 1, NULL);
			}
		for (uint32_t l = 0; l < v.lines; l++)
			assert_int_equal(sl_values_u64(&v, l * 7),
					 v.stripes * (1 + 100 * l) +
						 v.stripes * (v.stripes - 1) / 2);
	}
	assert_int_equal(sl_values_resize(&v, UINT32_MAX, UINT32_MAX), -ENOMEM);
	assert_int_equal(sl_values_resize(&v, 1, 1), 0);
	assert_int_equal(v.lines, 30);
	sl_values_free(&v);
}

static void repair_makes_every_line_in_use_verify(void **state)
{
	struct sl_region_info info;
	struct sl_hot hot;
	struct make m;

	(void)state;
	make_metrics(&m, 128, 4, 4096, NULL, 0);
	expect(SL_FAULT_NONE, parse(&m, &info));
	make_set(m.hot, SL_HOT_LINES_USED, 100);
	make_set(m.hot, SL_HOT_STRIPES_USED, 3);
	assert_int_equal(sl_region_repair(m.mem, &info), 0);
	/* A writer killed between its two stores: in lines, and in the hot line. */
	make_line(&m, 0, 0)[3] += 5;
	make_line(&m, 2, 99)[6] -= 1;
	m.hot[SL_HOT_GENERATION]++;
	make_line(&m, 3, 0)[0]++;   /* stripe not in use */
	make_line(&m, 0, 100)[0]++; /* line not in use */
	expect(SL_FAULT_UNSETTLED, sl_hot_parse(m.hot, &info, &hot));
	assert_int_equal(sl_region_repair(m.mem, &info), 3);
	expect(SL_FAULT_NONE, sl_hot_parse(m.hot, &info, &hot));
	assert_int_equal(make_line(&m, 0, 0)[3], 5); /* the values stay */
	assert_true(make_line(&m, 0, 0)[7] == sl_mixed_check(make_line(&m, 0, 0)));
	assert_true(make_line(&m, 2, 99)[7] == sl_line_check(make_line(&m, 2, 99)));
	assert_true(make_line(&m, 3, 0)[7] != sl_line_check(make_line(&m, 3, 0)));
	assert_int_equal(sl_region_repair(m.mem, &info), 0);
	/* A hot line that lies leads nowhere. */
	make_set(m.hot, SL_HOT_LINES_USED, UINT64_MAX);
	make_set(m.hot, SL_HOT_STRIPES_USED, UINT64_MAX);
	assert_int_equal(sl_region_repair(m.mem, &info), 2);
	make_free(&m);
	make_directory(&m, 4);
	expect(SL_FAULT_NONE, parse(&m, &info));
	m.hot[0]++;
	assert_int_equal(sl_region_repair(m.mem, &info), 1);
	make_free(&m);
}

static void mixed_lines_are_another_kind(void **state)
{
	struct rng r = {7};
	uint64_t line[8];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t check = 0;

		for (uint32_t c = 0; c < 7; c++) {
			uint64_t a, b, k = sl_line_k[c], low, one, two;

			line[c] = rng_next(&r) >> rng_below(&r, 64);
			/* By hand, in halves. */
			a = line[c] >> 32, b = (uint32_t)line[c];
			low = b * (uint32_t)k;
			one = a * (uint32_t)k + (low >> 32);
			two = b * (k >> 32) + (uint32_t)one;
			check += (line[c] * k) ^ (a * (k >> 32) + (one >> 32) + (two >> 32));
		}
		assert_true(sl_mixed_check(line) == check);
		assert_true(sl_stripe_check(0, line) == check);
		assert_true(sl_stripe_check(1, line) == sl_line_check(line));
		assert_true(sl_line_check(line) != check);
	}
	assert_int_equal(sl_cell_mix(0, 3), 0);
}

static void f64_cells_fold_and_unfold(void **state)
{
	static const double some[] = {0, -0.0, 1, -1, 17, 300, 1e-300, 1e300, INFINITY, 0.1};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		double back = sl_f64_of_cell(sl_cell_of_f64(some[i]));

		assert_memory_equal(&back, &some[i], 8);
	}
	assert_int_equal(sl_cell_of_f64(0), 0);
}

static void every_fault_was_reached_and_has_a_name(void **state)
{
	(void)state;
	for (int i = 0; i < SL_FAULT_COUNT; i++) {
		if (!reached[i])
			fail_msg("fault %s was never reached", sl_fault_name(i));
		assert_non_null(sl_fault_name(i));
		for (int j = 0; j < i; j++)
			assert_string_not_equal(sl_fault_name(i), sl_fault_name(j));
	}
	assert_string_equal(sl_fault_name(SL_FAULT_COUNT), "unknown");
	assert_string_equal(sl_fault_name((enum sl_fault) - 1), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_says_what_was_written),
		cmocka_unit_test(header_that_lies_is_refused_with_its_cause),
		cmocka_unit_test(hot_line_is_believed_within_the_header),
		cmocka_unit_test(directory_is_believed_within_its_bounds),
		cmocka_unit_test(schema_says_what_was_written),
		cmocka_unit_test(record_that_lies_is_refused_with_its_cause),
		cmocka_unit_test(names_that_would_break_the_exposition_are_refused),
		cmocka_unit_test(cells_of_two_metrics_never_overlap),
		cmocka_unit_test(in_whatever_order_cells_come_an_overlap_is_found),
		cmocka_unit_test(torn_copy_of_the_schema_is_told_from_a_lie),
		cmocka_unit_test(schema_that_runs_out_of_memory_goes_on_later),
		cmocka_unit_test(values_are_summed_as_their_kind_demands),
		cmocka_unit_test(unsettled_line_keeps_the_last_good_one),
		cmocka_unit_test(values_grow_and_keep_what_they_have),
		cmocka_unit_test(repair_makes_every_line_in_use_verify),
		cmocka_unit_test(mixed_lines_are_another_kind),
		cmocka_unit_test(f64_cells_fold_and_unfold),
		cmocka_unit_test(every_fault_was_reached_and_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
