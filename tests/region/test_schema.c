// SPDX-License-Identifier: Apache-2.0
/* test_schema.c - which schemas a reader accepts, and why it refuses the others. */
#include "decoding.h"

static void schema_says_what_was_written(void **state)
{
	struct region_info info;
	struct region_schema s;
	struct make m;
	uint32_t cell[KINDS];

	(void)state;
	make_metrics(&m, 64, 1, 65536, NULL, 0);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	region_schema_init(&s);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	for (size_t i = 0; i < KINDS; i++) {
		cell[i] = make_metric(&m, &of_every_kind[i]);
		if (i % 3 == 0) /* in pieces, as a reader receives them */
			expect(REGION_FAULT_NONE, append(&s, &info, &m));
	}
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	assert_int_equal(s.count, KINDS);
	assert_int_equal(s.parsed, m.hot[SL_HOT_SCHEMA_USED]);
	assert_int_equal(s.cells, m.cells);
	assert_int_equal(s.skipped, 0);
	for (size_t i = 0; i < KINDS; i++) {
		const struct make_metric *w = &of_every_kind[i];
		const struct region_metric *r = s.metrics[i];

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
	region_schema_free(&s);
	make_free(&m);
}

/* A damaged record with a correct checksum. index: of_every_kind. */
#define EACH_RECORD_LIE(X)                                                                       \
	X(REGION_FAULT_RECORD, 0, r->id = 1)                                                     \
	X(REGION_FAULT_RECORD, 0, r->name_bytes += 8)                                            \
	X(REGION_FAULT_RECORD, 0, r->name_bytes = UINT16_MAX)                                    \
	X(REGION_FAULT_RECORD, 0, r->name_bytes = 0)                                             \
	X(REGION_FAULT_RECORD, 0, r->help_bytes = UINT16_MAX)                                    \
	X(REGION_FAULT_RECORD, 0, r->state_bytes = 8)                                            \
	X(REGION_FAULT_RECORD, 0, r->bound_count = UINT16_MAX)                                   \
	X(REGION_FAULT_RECORD, 0, r->cells = 2)                                                  \
	X(REGION_FAULT_RECORD, 0, r->cells = 0)                                                  \
	X(REGION_FAULT_RECORD, 0, r->kind = SL_KIND_HISTOGRAM_EXP)                               \
	X(REGION_FAULT_RECORD, 0, r->kind = SL_KIND_HISTOGRAM)                                   \
	X(REGION_FAULT_RECORD, 0, r->kind = SL_KIND_STATESET)                                    \
	X(REGION_FAULT_RECORD, 0, r->kind = SL_KIND_INFO)                                        \
	X(REGION_FAULT_RECORD, 0, text[0] = '9')                                                 \
	X(REGION_FAULT_RECORD, 0, text[3] = '-')                                                 \
	X(REGION_FAULT_RECORD, 0, text[3] = 0)                                                   \
	X(REGION_FAULT_RECORD, 0, text[r->name_bytes] = 0)                                       \
	X(REGION_FAULT_RECORD, 0, text[r->name_bytes + 1] = 0xff)                                \
	X(REGION_FAULT_RECORD, 0,                                                                \
	  (r->unit_bytes = 2, r->help_bytes -= 2, text[r->name_bytes] = '\n'))                   \
	X(REGION_FAULT_LABEL, 0, text[r->name_bytes + r->help_bytes] = 'z')                      \
	X(REGION_FAULT_LABEL, 0, (r->label_bytes--, r->state_bytes++))                           \
	X(REGION_FAULT_LABEL, 0, text[r->name_bytes + r->help_bytes + r->label_bytes - 1] = 'x') \
	X(REGION_FAULT_CELLS, 0, r->cell = 64 * 7)                                               \
	X(REGION_FAULT_CELLS, 0, r->cell = UINT32_MAX)                                           \
	X(REGION_FAULT_CELLS, 0, r->cells = UINT32_MAX)                                          \
	X(REGION_FAULT_CELLS, 0, (r->kind = 1000, r->cells = 64 * 7 + 1))                        \
	X(REGION_FAULT_NONE, 0, (r->kind = 1000, r->name_bytes = UINT16_MAX, r->cells = 64 * 7)) \
	X(REGION_FAULT_NONE, 0, r->cell = 64 * 7 - 1)                                            \
	X(REGION_FAULT_NONE, 0, r->flags = r->reserved = 7)                                      \
	X(REGION_FAULT_NONE, 0, text[r->length - 65] = 'p') /* padding */                        \
	X(REGION_FAULT_RECORD, 4, r->scale = 9)                                                  \
	X(REGION_FAULT_RECORD, 4, r->scale = -5)                                                 \
	X(REGION_FAULT_RECORD, 4, r->first_bucket = INT32_MAX)                                   \
	X(REGION_FAULT_RECORD, 4, r->first_bucket = INT32_MIN)                                   \
	X(REGION_FAULT_RECORD, 4, r->zero_threshold = -1)                                        \
	X(REGION_FAULT_RECORD, 4, r->zero_threshold = NAN)                                       \
	X(REGION_FAULT_RECORD, 4, r->zero_threshold = INFINITY)                                  \
	X(REGION_FAULT_RECORD, 4, r->cells = 4)                                                  \
	X(REGION_FAULT_RECORD, 4, r->cells = 1)                                                  \
	X(REGION_FAULT_RECORD, 4, r->cells = 0)                                                  \
	X(REGION_FAULT_RECORD, 5, r->cells++)                                                    \
	X(REGION_FAULT_RECORD, 5, (r->bound_count--, r->name_bytes += 8))                        \
	X(REGION_FAULT_RECORD, 5, r->bound_count = 0)                                            \
	X(REGION_FAULT_RECORD, 5, memcpy(text, text + 8, 8))                                     \
	X(REGION_FAULT_RECORD, 5, memset(text, 0xff, 8))                                         \
	X(REGION_FAULT_RECORD, 5, memcpy(text + 16, "\0\0\0\0\0\0\xf0\x7f", 8))                  \
	X(REGION_FAULT_RECORD, 6, r->cells = 1)                                                  \
	X(REGION_FAULT_RECORD, 7, r->state_count = 4)                                            \
	X(REGION_FAULT_RECORD, 7, r->state_count = 2)                                            \
	X(REGION_FAULT_RECORD, 7, r->state_count = 0)                                            \
	X(REGION_FAULT_RECORD, 7, r->state_count = UINT16_MAX)                                   \
	X(REGION_FAULT_RECORD, 7, text[r->name_bytes] = 0)                                       \
	X(REGION_FAULT_RECORD, 7, text[r->name_bytes] = 0xed)                                    \
	X(REGION_FAULT_RECORD, 7, memcpy(text + r->name_bytes + 9, "aa\0aa", 6))                 \
	X(REGION_FAULT_RECORD, 7, text[1] = ':')

static void record_that_lies_is_refused_with_its_cause(void **state)
{
	struct region_info info;
	struct region_schema s;
	struct make m;
	static uint8_t record[1 << 18];

	(void)state;
#define TRY(fault, which, lie)                                                  \
	do {                                                                    \
		struct sl_schema_record *r = (struct sl_schema_record *)record; \
		uint8_t *text = record + sizeof(*r);                            \
		make_metrics(&m, 64, 1, 8192, NULL, 0);                         \
		expect(REGION_FAULT_NONE, parse(&m, &info));                    \
		region_schema_init(&s);                                         \
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
		region_schema_free(&s);                                         \
		make_free(&m);                                                  \
	} while (0);
	EACH_RECORD_LIE(TRY)
#undef TRY
}

static void metric_refused(enum region_fault fault, const struct make_metric *first,
			   const struct make_metric *second)
{
	struct region_info info;
	struct region_schema s;
	struct make m;

	make_metrics(&m, 1024, 1, 1 << 18, NULL, 0);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	region_schema_init(&s);
	if (first)
		make_metric(&m, first);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	make_metric(&m, second);
	expect(fault, append(&s, &info, &m));
	assert_int_equal(s.count, (first != NULL) + (fault == REGION_FAULT_NONE));
	region_schema_free(&s);
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

	(void)state;
	metric_refused(REGION_FAULT_LABEL, NULL, &le);
	metric_refused(REGION_FAULT_LABEL, NULL, &le_exp);
	metric_refused(REGION_FAULT_NONE, NULL, &le_counter);
	metric_refused(REGION_FAULT_LABEL, NULL, &own_name);
	metric_refused(REGION_FAULT_RECORD, &counter, &counter);
	metric_refused(REGION_FAULT_RECORD, &counter, &other_kind);
	metric_refused(REGION_FAULT_NONE, &counter, &other_labels);
	metric_refused(REGION_FAULT_LABEL, NULL, &unsorted);
	metric_refused(REGION_FAULT_LABEL, NULL, &twice);
	metric_refused(REGION_FAULT_LABEL, NULL, &dunder);
	metric_refused(REGION_FAULT_LABEL, NULL, &surrogate);
	metric_refused(REGION_FAULT_LABEL, NULL, &overlong);
	metric_refused(REGION_FAULT_LABEL, NULL, &beyond);
	metric_refused(REGION_FAULT_LABEL, NULL, &cut_off);
	metric_refused(REGION_FAULT_NONE, NULL, &no_bounds);
}

static void buckets_are_bounded(void **state)
{
	struct make_metric big = {.kind = SL_KIND_HISTOGRAM, .name = "h"};
	static double bounds[SL_BUCKETS_MAX];

	(void)state;
	for (unsigned int i = 0; i < SL_BUCKETS_MAX; i++)
		bounds[i] = i;
	big.bounds = bounds;
	big.bound_count = SL_BUCKETS_MAX - 1;
	metric_refused(REGION_FAULT_NONE, NULL, &big);
	big.bound_count = SL_BUCKETS_MAX;
	metric_refused(REGION_FAULT_RECORD, NULL, &big);
}

static void texts_are_refused_one_byte_above_their_limit(void **state)
{
	char text[1100];

	(void)state;
	memset(text, 'a', sizeof(text));
	for (int over = 0; over < 2; over++) {
		struct make_metric x = {.kind = SL_KIND_COUNTER, .name = text};

		text[SL_NAME_MAX + over] = 0;
		metric_refused(over ? REGION_FAULT_RECORD : REGION_FAULT_NONE, NULL, &x);
		x.name = "x";
		x.unit = text;
		metric_refused(over ? REGION_FAULT_RECORD : REGION_FAULT_NONE, NULL, &x);
		x.unit = NULL;
		x.labels[0] = text;
		x.labels[1] = "";
		metric_refused(over ? REGION_FAULT_LABEL : REGION_FAULT_NONE, NULL, &x);
		text[SL_NAME_MAX + over] = 'a';
		text[SL_HELP_MAX + over] = 0;
		x.labels[0] = NULL;
		x.help = text;
		metric_refused(over ? REGION_FAULT_RECORD : REGION_FAULT_NONE, NULL, &x);
		x.help = NULL;
		x.labels[0] = "k";
		x.labels[1] = text;
		metric_refused(over ? REGION_FAULT_LABEL : REGION_FAULT_NONE, NULL, &x);
		text[SL_HELP_MAX + over] = 'a';
	}
}

static void one_label_too_many_is_refused(void **state)
{
	(void)state;
	for (unsigned int over = 0; over < 2; over++) {
		struct make_metric x = {.kind = SL_KIND_COUNTER, .name = "x"};
		char keys[SL_LABELS_MAX + 1][3];

		for (unsigned int i = 0; i < SL_LABELS_MAX + over; i++) {
			memcpy(keys[i], (char[]){(char)('a' + i / 26), (char)('a' + i % 26), 0}, 3);
			x.labels[2 * i] = keys[i];
			x.labels[2 * i + 1] = "v";
		}
		metric_refused(over ? REGION_FAULT_LABEL : REGION_FAULT_NONE, NULL, &x);
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
		struct region_info info;
		struct region_schema s;
		struct make m;

		make_metrics(&m, 64, 1, 4096, NULL, 0);
		expect(REGION_FAULT_NONE, parse(&m, &info));
		region_schema_init(&s);
		m.next_cell = 2;
		make_metric(&m, &first);
		m.next_cell = cell;
		make_metric(&m, &second);
		expect(over ? REGION_FAULT_CELLS : REGION_FAULT_NONE, append(&s, &info, &m));
		assert_int_equal(s.count, over ? 1 : 2);
		assert_int_equal(s.cells, cell < 5 ? 5 : cell + 1);
		region_schema_free(&s);
		make_free(&m);
	}
}

/* Also with records of an unknown kind: a program that knows the kind would write there. */
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
		struct region_info info;
		bool taken[CELLS] = {false};
		uint64_t highest = 0;
		size_t known = 0;
		struct region_schema s;
		struct make m;

		make_metrics(&m, CELLS / 7, 1, 1 << 16, NULL, 0);
		expect(REGION_FAULT_NONE, parse(&m, &info));
		region_schema_init(&s);
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
			expect(over ? REGION_FAULT_CELLS : REGION_FAULT_NONE,
			       region_schema_append(&s, &info, record, r->length));
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
		region_schema_free(&s);
		make_free(&m);
	}
	assert_true(met[0] > 1000 && met[1] > 1000);
}

static void torn_copy_of_the_schema_is_told_from_a_lie(void **state)
{
	struct region_info info;
	struct region_schema s;
	struct make m;
	uint64_t whole, first;
	uint8_t *copy;

	(void)state;
	make_metrics(&m, 64, 1, 4096, NULL, 0);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	make_metric(&m, &of_every_kind[0]);
	first = m.hot[SL_HOT_SCHEMA_USED];
	make_metric(&m, &of_every_kind[5]);
	whole = m.hot[SL_HOT_SCHEMA_USED];
	copy = __real_malloc(whole);
	/*
	 * Any byte of the second record is missing or wrong: the first record is accepted, the
	 * second waits.
	 */
	for (uint64_t i = first; i < whole; i++) {
		region_schema_init(&s);
		memcpy(copy, m.schema, whole);
		copy[i] ^= 0x5a;
		expect(REGION_FAULT_CHECK, region_schema_append(&s, &info, copy, whole));
		assert_int_equal(s.count, 1);
		assert_int_equal(s.parsed, first);
		expect(REGION_FAULT_NONE,
		       region_schema_append(&s, &info, m.schema + first, whole - first));
		assert_int_equal(s.count, 2);
		region_schema_free(&s);
	}
	/* Likewise if the copy was made before the record was written: zeros from somewhere on. */
	for (uint64_t i = first; i < whole; i += 8) {
		region_schema_init(&s);
		memcpy(copy, m.schema, whole);
		memset(copy + i, 0, whole - i);
		/* The last bytes of a record may be padding; then nothing was missing. */
		if (memcmp(copy, m.schema, whole))
			expect(REGION_FAULT_CHECK, region_schema_append(&s, &info, copy, whole));
		region_schema_free(&s);
		region_schema_init(&s);
		memcpy(copy, m.schema, whole);
		expect(REGION_FAULT_CHECK,
		       region_schema_append(&s, &info, copy, i == first ? 8 : i));
		region_schema_free(&s);
	}
	region_schema_init(&s);
	expect(REGION_FAULT_SIZE, region_schema_append(&s, &info, copy, info.schema_bytes + 8));
	free(copy);
	make_free(&m);
}

static void schema_that_runs_out_of_memory_goes_on_later(void **state)
{
	struct region_info info;
	struct region_schema s;
	struct make m;

	(void)state;
	make_metrics(&m, 64, 1, 65536, NULL, 0);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	for (int i = 0; i < 40; i++) {
		char name[8] = {'m', (char)('a' + i / 10), (char)('a' + i % 10)};
		struct make_metric x = {.kind = SL_KIND_COUNTER_F64, .name = name};

		make_metric(&m, &x);
	}
	for (long limit = 0;; limit++) {
		enum region_fault fault;

		region_schema_init(&s);
		allocations_left = limit;
		fault = append(&s, &info, &m);
		allocations_left = -1;
		reached[fault] = true;
		if (!fault) {
			assert_true(limit > 40);
			assert_int_equal(s.count, 40);
			region_schema_free(&s);
			break;
		}
		assert_int_equal(fault, REGION_FAULT_MEMORY);
		expect(REGION_FAULT_NONE, append(&s, &info, &m));
		assert_int_equal(s.count, 40);
		region_schema_free(&s);
	}
	make_free(&m);
}

const struct CMUnitTest schema_tests[] = {
	cmocka_unit_test(schema_says_what_was_written),
	cmocka_unit_test(record_that_lies_is_refused_with_its_cause),
	cmocka_unit_test(names_that_would_break_the_exposition_are_refused),
	cmocka_unit_test(buckets_are_bounded),
	cmocka_unit_test(texts_are_refused_one_byte_above_their_limit),
	cmocka_unit_test(one_label_too_many_is_refused),
	cmocka_unit_test(cells_of_two_metrics_never_overlap),
	cmocka_unit_test(in_whatever_order_cells_come_an_overlap_is_found),
	cmocka_unit_test(torn_copy_of_the_schema_is_told_from_a_lie),
	cmocka_unit_test(schema_that_runs_out_of_memory_goes_on_later),
	{0},
};
