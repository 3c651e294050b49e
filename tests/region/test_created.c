// SPDX-License-Identifier: Apache-2.0
/* test_created.c - features of minor 1: kinds, UTF-8 names, metrics that come and go, exemplars. */
#include "decoding.h"
#include "region/exemplars.h"

static const double ranks[] = {0, 0.5, 0.99, 1}, some_bounds[] = {0.1, 0.5, 2.5};

const struct make_metric of_newer_kinds[NEWER_KINDS] = {
	{.kind = SL_KIND_SUMMARY, .name = "rpc.seconds", .bounds = ranks, .bound_count = 4},
	{.kind = SL_KIND_UNKNOWN, .name = "\xc3\xa4 b", .labels = {"my key", "v"}},
	{.kind = SL_KIND_GAUGE_HISTOGRAM, .name = "sizes", .bounds = some_bounds, .bound_count = 3},
	{.kind = SL_KIND_GAUGE_HISTOGRAM_EXP, .name = "ages", .buckets = 4, .scale = 2},
	{.kind = SL_KIND_GAUGE_TIMED, .name = "last", .flags = SL_COMBINE_MOST_RECENT},
	{.kind = SL_KIND_COUNTER | SL_KIND_REPLACEABLE, .name = "n.total", .spare = 64},
	{.kind = SL_KIND_HISTOGRAM | SL_KIND_REPLACEABLE,
	 .name = "h",
	 .bounds = some_bounds,
	 .bound_count = 3,
	 .flags = SL_FLAG_MIRROR | SL_FLAG_LIVE},
	{.kind = SL_KIND_INFO | SL_KIND_REPLACEABLE, .name = "i", .labels = {"a.b", "c"}},
	{.kind = SL_KIND_SUMMARY | SL_KIND_REPLACEABLE, .name = "s", .flags = SL_FLAG_MIRROR},
};

static void begin(struct make *m, struct region_info *info, struct region_schema *s)
{
	make_metrics(m, 64, 3, 16384, NULL, 0);
	make_created(m, 100);
	make_exemplars(m, 8);
	expect(REGION_FAULT_NONE, parse(m, info));
	region_schema_init(s);
}

static void end(struct make *m, struct region_schema *s)
{
	region_schema_free(s);
	make_free(m);
}

static void newer_kinds_say_what_was_written(void **state)
{
	struct region_info info;
	struct region_schema s;
	struct make m;

	(void)state;
	begin(&m, &info, &s);
	assert_int_equal(info.created_lines, 15);
	assert_int_equal(info.max_exemplars, 8);
	for (size_t i = 0; i < NEWER_KINDS; i++)
		make_metric(&m, &of_newer_kinds[i]);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	assert_int_equal(s.count, NEWER_KINDS);
	assert_int_equal(s.skipped, 0);
	for (size_t i = 0; i < NEWER_KINDS; i++) {
		const struct make_metric *w = &of_newer_kinds[i];
		const struct region_metric *r = s.metrics[i];

		assert_int_equal(r->kind, w->kind & ~SL_KIND_REPLACEABLE);
		assert_int_equal(r->replaceable, !!(w->kind & SL_KIND_REPLACEABLE));
		assert_int_equal(r->flags, w->flags);
		assert_string_equal(r->name, w->name);
		assert_int_equal(r->bound_count, w->bound_count);
		assert_false(r->removed);
		assert_true(r->created_ns == m.header->start_ns);
		assert_true(*region_kind_name(r->kind));
	}
	assert_int_equal(s.metrics[2]->bucket_count, 4);
	assert_int_equal(s.metrics[3]->bucket_count, 6);
	assert_int_equal(s.metrics[3]->scale, 2);
	end(&m, &s);
}

static void newer_kinds_are_summed_as_they_demand(void **state)
{
	struct region_info info;
	struct region_schema s;
	struct region_values v;
	struct make m;
	uint32_t cell[NEWER_KINDS];
	uint64_t out[128];

	(void)state;
	begin(&m, &info, &s);
	for (size_t i = 0; i < NEWER_KINDS; i++)
		cell[i] = make_metric(&m, &of_newer_kinds[i]);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	for (uint32_t i = 0; i < 3; i++)
		for (size_t k = 0; k < NEWER_KINDS; k++)
			for (uint32_t c = 0; c < s.metrics[k]->cells; c++)
				make_cell_set(&m, i, cell[k] + c, sl_cell_of_f64(1.5 + c + i));
	region_values_init(&v);
	assert_int_equal(region_values_resize(&v, (uint32_t)m.hot[SL_HOT_LINES_USED], 3), 0);
	for (uint32_t i = 0; i < 3; i++)
		region_values_update(&v, i, 0, (const uint64_t(*)[8])make_line(&m, i, 0), v.lines,
				     NULL);
	region_values_flatten(&v, s.specials, s.special_count, s.cells, out);
#define F(metric, c) region_f64(out[cell[metric] + (c)])
#define U(metric, c) (out[cell[metric] + (c)])
	/* Summed: 1.5 + 2.5 + 3.5 in the first cell. Of stripe 0: 1.5 + c. */
	assert_true(F(0, 0) == 7.5);
	assert_true(U(0, 1) == sl_cell_of_f64(2.5) + sl_cell_of_f64(3.5) + sl_cell_of_f64(4.5));
	assert_true(F(0, 2) == 3.5 && F(0, 5) == 6.5);
	assert_true(F(1, 0) == 1.5);
	assert_true(F(2, 0) == 1.5 && U(2, 1) == sl_cell_of_f64(2.5));
	assert_true(U(2, 5) == sl_cell_of_f64(6.5));
	assert_true(F(3, 0) == 1.5 && U(3, 7) == sl_cell_of_f64(8.5));
	assert_true(F(4, 0) == 1.5 && U(4, 1) == sl_cell_of_f64(2.5));
	assert_true(U(5, 0) == sl_cell_of_f64(1.5) + sl_cell_of_f64(2.5) + sl_cell_of_f64(3.5));
	/* Mirrors: of stripe 0. */
	assert_true(F(6, 0) == 1.5 && U(6, 3) == sl_cell_of_f64(4.5));
	assert_true(F(8, 0) == 1.5 && U(8, 1) == sl_cell_of_f64(2.5));
	region_values_free(&v);
	end(&m, &s);
}

#define EACH_RECORD_LIE(X)                                                                        \
	X(REGION_FAULT_NONE, 0, (void)0)                                                          \
	X(REGION_FAULT_RECORD, 0, r->cells++)                                                     \
	X(REGION_FAULT_RECORD, 0, put_f64(text, 0, -0.1))                                         \
	X(REGION_FAULT_RECORD, 0, put_f64(text, 3, 1.1))                                          \
	X(REGION_FAULT_RECORD, 0, put_f64(text, 1, NAN))                                          \
	X(REGION_FAULT_RECORD, 0, put_f64(text, 2, 0.5))                                          \
	X(REGION_FAULT_RECORD, 1, text[0] = 0)                                                    \
	X(REGION_FAULT_RECORD, 1, text[1] = '!')                                                  \
	X(REGION_FAULT_RECORD, 1, r->name_bytes = 0)                                              \
	X(REGION_FAULT_RECORD, 1, r->cells = 2)                                                   \
	X(REGION_FAULT_RECORD, 1, r->bound_count = 1)                                             \
	X(REGION_FAULT_LABEL, 1, memcpy(text + r->name_bytes, "__", 2))                           \
	X(REGION_FAULT_LABEL, 1, text[r->name_bytes] = 0xff)                                      \
	X(REGION_FAULT_RECORD, 2, r->cells--)                                                     \
	X(REGION_FAULT_RECORD, 2, put_f64(text, 1, 9))                                            \
	X(REGION_FAULT_RECORD, 3, r->scale = 9)                                                   \
	X(REGION_FAULT_RECORD, 4, r->cells = 1)                                                   \
	X(REGION_FAULT_RECORD, 5, text[r->length - 65] = 1)                                       \
	X(REGION_FAULT_RECORD, 5, r->name_bytes = 100)                                            \
	X(REGION_FAULT_RECORD, 5, r->cells = 2)                                                   \
	X(REGION_FAULT_NONE, 5, r->name_bytes += 64 + (memset(text + r->name_bytes, 'x', 64), 0)) \
	X(REGION_FAULT_NONE, 5, (r->kind = SL_KIND_REPLACEABLE, r->name_bytes = 9))               \
	X(REGION_FAULT_NONE, 5, (r->kind = SL_KIND_REPLACEABLE + 14, r->name_bytes = 9))          \
	X(REGION_FAULT_NONE, 5, (r->kind = 14, r->name_bytes = 9))                                \
	X(REGION_FAULT_RECORD, 5, r->kind = SL_KIND_COUNTER)

static void put_f64(uint8_t *text, int i, double v)
{
	memcpy(text + i * 8, &v, 8);
}

static void newer_record_that_lies_is_refused(void **state)
{
	static uint8_t record[1 << 18];
	struct region_info info;
	struct region_schema s;
	struct make m;

	(void)state;
#define TRY(fault, which, lie)                                                  \
	do {                                                                    \
		struct sl_schema_record *r = (struct sl_schema_record *)record; \
		uint8_t *text = record + sizeof(*r);                            \
		begin(&m, &info, &s);                                           \
		make_record(&m, &of_newer_kinds[which], record);                \
		lie;                                                            \
		(void)text;                                                     \
		make_record_check(record);                                      \
		make_append(&m, record);                                        \
		expect_of(#lie, fault, append(&s, &info, &m));                  \
		end(&m, &s);                                                    \
	} while (0);
	EACH_RECORD_LIE(TRY)
#undef TRY
	static const struct make_metric rank = {.kind = SL_KIND_SUMMARY,
						.name = "s",
						.labels = {"quantile", "1"}},
					le = {.kind = SL_KIND_GAUGE_HISTOGRAM,
					      .name = "h",
					      .labels = {"le", "1"}};
	for (int i = 0; i < 2; i++) {
		begin(&m, &info, &s);
		make_metric(&m, i ? &le : &rank);
		expect(REGION_FAULT_LABEL, append(&s, &info, &m));
		end(&m, &s);
	}
}

static void removed_metric_leaves_its_name_to_others(void **state)
{
	static const struct make_metric a = {.kind = SL_KIND_COUNTER, .name = "a"};
	struct region_info info;
	struct region_schema s;
	struct make m;

	(void)state;
	begin(&m, &info, &s);
	make_metric(&m, &a);
	make_metric(&m, &a);
	expect(REGION_FAULT_RECORD, append(&s, &info, &m)); /* both are there */
	region_schema_free(&s);
	make_created_set(&m, 0, 0);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	assert_int_equal(s.count, 2);
	assert_true(s.metrics[0]->removed && !s.metrics[1]->removed);
	assert_string_equal(s.metrics[0]->name, "a");
	end(&m, &s);
	/* A record without a cell exists. */
	make_metrics(&m, 64, 1, 16384, NULL, 0);
	make_created(&m, 1);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	region_schema_init(&s);
	for (int i = 0; i < 8; i++) {
		char name[] = {(char)('a' + i), 0};

		make_metric(&m, &(struct make_metric){.kind = SL_KIND_GAUGE, .name = name});
	}
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	assert_true(s.metrics[6]->created_ns && !s.metrics[7]->created_ns);
	assert_false(s.metrics[7]->removed);
	end(&m, &s);
}

static void record_being_replaced_is_not_looked_at(void **state)
{
	static const struct make_metric old = {.kind = SL_KIND_HISTOGRAM | SL_KIND_REPLACEABLE,
					       .name = "old",
					       .bounds = some_bounds,
					       .bound_count = 3,
					       .spare = 64},
					now = {.kind = SL_KIND_HISTOGRAM | SL_KIND_REPLACEABLE,
					       .name = "now",
					       .bounds = ranks,
					       .bound_count = 3,
					       .labels = {"k", "v"}},
					fixed = {.kind = SL_KIND_COUNTER, .name = "fixed"};
	struct region_info info;
	struct region_schema s;
	struct make m;
	uint64_t second;

	(void)state;
	begin(&m, &info, &s);
	make_metric(&m, &old);
	second = m.hot[SL_HOT_SCHEMA_USED];
	make_metric(&m, &fixed);
	/*
	 * A half-written record may have any content while its cell in "created" is 0. Once it
	 * exists, it is refused.
	 */
	make_created_set(&m, 0, 0);
	memset(m.schema + sizeof(struct sl_schema_record), 0x5a, 40);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	assert_int_equal(s.count, 2);
	assert_true(s.metrics[0]->removed && s.metrics[0]->cells == 6);
	assert_int_equal(s.metrics[0]->kind, SL_KIND_HISTOGRAM);
	assert_int_equal(s.metrics[0]->bucket_count, 0);
	assert_string_equal(s.metrics[1]->name, "fixed");
	region_schema_free(&s);
	make_created_set(&m, 0, 77);
	expect(REGION_FAULT_CHECK, append(&s, &info, &m));
	region_schema_free(&s);
	make_created_set(&m, 0, 0);
	make_replace(&m, 0, &now, 99);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	assert_string_equal(s.metrics[0]->name, "now");
	assert_true(s.metrics[0]->created_ns == 99);
	region_schema_free(&s);
	/* A removed record still holds its cells and its length. */
	make_created_set(&m, 0, 0);
	((struct sl_schema_record *)(m.schema + second))->cell = 2;
	make_record_check(m.schema + second);
	expect(REGION_FAULT_CELLS, append(&s, &info, &m));
	region_schema_free(&s);
	((struct sl_schema_record *)m.schema)->length += 4;
	expect(REGION_FAULT_CHECK, append(&s, &info, &m));
	region_schema_free(&s);
	/* Others are checked even if removed. */
	((struct sl_schema_record *)m.schema)->length -= 4;
	make_created_set(&m, 1, 0);
	((struct sl_schema_record *)(m.schema + second))->cells = 0;
	expect(REGION_FAULT_CHECK, append(&s, &info, &m));
	end(&m, &s);
}

static void exemplars_are_believed_when_whole(void **state)
{
	static const char labels[] = "trace_id\0abc\0span_id\0d";
	struct region_exemplars_head head;
	struct region_exemplar e;
	struct region_info info;
	struct region_schema s;
	struct make m;
	uint64_t words[32];

	(void)state;
	begin(&m, &info, &s);
	make_metric(&m, &of_newer_kinds[5]);
	make_metric(&m, &of_newer_kinds[6]);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	expect(REGION_FAULT_NONE, region_exemplars_head_parse(m.exemplars[0], &info, &head));
	assert_int_equal(head.used, 0);
	expect(REGION_FAULT_UNSETTLED, region_exemplar_parse(m.exemplars[1], &e)); /* never used */
	make_exemplar(&m, 1, 1, 3, 0.4, 1234, labels, sizeof(labels));
	expect(REGION_FAULT_NONE, region_exemplars_head_parse(m.exemplars[0], &info, &head));
	assert_true(head.used == 2 && head.set == 1);
	expect(REGION_FAULT_NONE, region_exemplar_parse(m.exemplars[1], &e));
	assert_true(e.id == 1 && e.cell == 3 && e.value == 0.4 && e.ns == 1234);
	assert_int_equal(e.label_count, 2);
	assert_string_equal(e.labels[1].key, "span_id");
	assert_string_equal(e.labels[1].value, "d");
	assert_true(region_exemplar_fits(&e, s.metrics[1]));
	assert_false(region_exemplar_fits(&e, s.metrics[0]));
	e.cell = 1; /* refused observations */
	assert_false(region_exemplar_fits(&e, s.metrics[1]));
	e.cell = 6;
	assert_false(region_exemplar_fits(&e, s.metrics[1]));
	e.cell = 5;
	assert_true(region_exemplar_fits(&e, s.metrics[1]));
	e.created_ns++; /* of an earlier metric */
	assert_false(region_exemplar_fits(&e, s.metrics[1]));
	for (unsigned int bit = 0; bit < 2048; bit++) {
		memcpy(words, m.exemplars[1], 256);
		words[bit / 64] ^= 1ull << bit % 64;
		expect(REGION_FAULT_UNSETTLED, region_exemplar_parse(words, &e));
	}
	/* Half of one exemplar and half of the next. */
	memcpy(words, m.exemplars[1], 256);
	make_exemplar(&m, 1, 1, 3, 0.4, 1235, labels, sizeof(labels));
	memcpy(words, m.exemplars[1], 128);
	expect(REGION_FAULT_UNSETTLED, region_exemplar_parse(words, &e));
	make_exemplar(&m, 2, 0, 0, 1, 1, (const char[153]){"a\0b"}, 153);
	expect(REGION_FAULT_SIZE, region_exemplar_parse(m.exemplars[2], &e));
	make_exemplar(&m, 2, 0, 0, 1, 1, "a\0b", 3);
	expect(REGION_FAULT_LABEL, region_exemplar_parse(m.exemplars[2], &e));
	make_exemplar(&m, 2, 0, 0, 1, 1, "a\0\xff", 4);
	expect(REGION_FAULT_LABEL, region_exemplar_parse(m.exemplars[2], &e));
	make_exemplar(&m, 2, 0, 0, 1, 1, "", 0);
	expect(REGION_FAULT_NONE, region_exemplar_parse(m.exemplars[2], &e));
	assert_true(region_exemplar_fits(&e, s.metrics[0]));
	make_set(m.exemplars[0], 0, 9);
	expect(REGION_FAULT_HOT, region_exemplars_head_parse(m.exemplars[0], &info, &head));
	end(&m, &s);
}

static void dead_writers_created_cells_are_repaired(void **state)
{
	struct region_info info;
	struct region_schema s;
	struct make m;

	(void)state;
	begin(&m, &info, &s);
	for (size_t i = 0; i < NEWER_KINDS; i++)
		make_metric(&m, &of_newer_kinds[i]);
	m.created[0][2] = 5; /* killed before the check word */
	m.exemplars[0][1]++;
	assert_int_equal(region_repair(m.mem, &info), 2);
	assert_true(m.created[0][7] == sl_mixed_check(m.created[0]));
	assert_true(m.exemplars[0][7] == sl_line_check(m.exemplars[0]));
	end(&m, &s);
}

const struct CMUnitTest created_tests[] = {
	cmocka_unit_test(newer_kinds_say_what_was_written),
	cmocka_unit_test(newer_kinds_are_summed_as_they_demand),
	cmocka_unit_test(newer_record_that_lies_is_refused),
	cmocka_unit_test(removed_metric_leaves_its_name_to_others),
	cmocka_unit_test(record_being_replaced_is_not_looked_at),
	cmocka_unit_test(exemplars_are_believed_when_whole),
	cmocka_unit_test(dead_writers_created_cells_are_repaired),
	{0},
};
