// SPDX-License-Identifier: Apache-2.0
/*
 * test_property.c - random regions decode to the values written; corrupted ones do no harm.
 * SL_TEST_SEED repeats a run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "exercise.h"
#include "make_region.h"

static uint64_t seed = 20260401;
static double scale = 1;

#define METRICS_MAX 200

static struct written {
	struct make_metric m;
	char name[40], unit[20], help[60], key[8][12], value[8][40], state[8][20];
	double bounds[30];
	uint32_t cell, cells;
} written[METRICS_MAX];

static const char *const pieces[] = {
	"a", "Z9", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x99\x82", "\"", "\\", "\n", " ", "=", ",",
	"{", "}",  "0"};

static void random_text(struct rng *r, char *to, size_t room)
{
	*to = 0;
	while (rng_below(r, 6)) {
		const char *piece = pieces[rng_below(r, sizeof(pieces) / sizeof(*pieces))];

		if (strlen(to) + strlen(piece) + 1 > room)
			return;
		strcat(to, piece);
	}
}

static void random_metric(struct rng *r, struct written *w, unsigned int serial)
{
	unsigned int labels = (unsigned int)rng_below(r, 5);

	memset(w, 0, sizeof(*w));
	w->m.kind = (uint16_t)(1 + rng_below(r, 8));
	snprintf(w->name, sizeof(w->name), "m_%u%s", serial / 2, rng_below(r, 2) ? "_total" : "");
	w->m.name = w->name;
	if (rng_below(r, 2)) {
		random_text(r, w->help, sizeof(w->help));
		w->m.help = w->help;
	}
	if (rng_below(r, 2))
		w->m.unit = strcpy(w->unit, "seconds");
	for (unsigned int i = 0; i < labels; i++) {
		snprintf(w->key[i], sizeof(w->key[i]), "%c%u", 'a' + i, (unsigned)rng_below(r, 9));
		random_text(r, w->value[i], sizeof(w->value[i]));
		w->m.labels[2 * i] = w->key[i];
		w->m.labels[2 * i + 1] = w->value[i];
	}
	/* The serial number makes any two different. */
	snprintf(w->key[labels], sizeof(w->key[labels]), "z");
	snprintf(w->value[labels], sizeof(w->value[labels]), "%u", serial);
	w->m.labels[2 * labels] = w->key[labels];
	w->m.labels[2 * labels + 1] = w->value[labels];
	w->cells = 1;
	switch (w->m.kind) {
	case SL_KIND_HISTOGRAM:
		w->m.bound_count = (uint16_t)rng_below(r, 30);
		for (unsigned int i = 0; i < w->m.bound_count; i++)
			w->bounds[i] = (i ? w->bounds[i - 1] : -5) + 1e-3 +
				       (double)rng_below(r, 100);
		w->m.bounds = w->bounds;
		w->cells = 3u + w->m.bound_count;
		break;
	case SL_KIND_HISTOGRAM_EXP:
		w->m.buckets = 1 + (uint32_t)rng_below(r, 60);
		w->m.scale = (int16_t)(rng_below(r, 13) - 4);
		w->m.first_bucket = (int32_t)rng_below(r, 2000) - 1000;
		w->m.zero_threshold = (double)rng_below(r, 10) * 1e-9;
		w->cells = 4 + w->m.buckets;
		break;
	case SL_KIND_INFO:
		w->cells = 0;
		break;
	case SL_KIND_STATESET:
		for (unsigned int i = 0; i <= rng_below(r, 6); i++) {
			snprintf(w->state[i], sizeof(w->state[i]), "s%u", i);
			w->m.states[i] = w->state[i];
		}
		break;
	}
}

static void same_metric(const struct region_metric *m, const struct written *w, uint32_t id)
{
	uint32_t n = 0;

	assert_int_equal(m->id, id);
	assert_int_equal(m->kind, w->m.kind);
	assert_int_equal(m->cells, w->cells);
	if (w->cells)
		assert_int_equal(m->cell, w->cell);
	assert_string_equal(m->name, w->m.name);
	assert_string_equal(m->help, w->m.help ? w->m.help : "");
	assert_string_equal(m->unit, w->m.unit ? w->m.unit : "");
	for (; w->m.labels[2 * n]; n++) {
		assert_string_equal(m->labels[n].key, w->m.labels[2 * n]);
		assert_string_equal(m->labels[n].value, w->m.labels[2 * n + 1]);
	}
	assert_int_equal(m->label_count, n);
	assert_int_equal(m->bound_count, w->m.bound_count);
	if (m->bound_count)
		assert_memory_equal(m->bounds, w->bounds, m->bound_count * sizeof(double));
	for (n = 0; w->m.states[n]; n++)
		assert_string_equal(m->states[n], w->m.states[n]);
	assert_int_equal(m->state_count, n);
	if (m->kind == SL_KIND_HISTOGRAM_EXP) {
		assert_int_equal(m->bucket_count, w->m.buckets + 2);
		assert_int_equal(m->scale, w->m.scale);
		assert_int_equal(m->first_bucket, w->m.first_bucket);
		assert_true(m->zero_threshold == w->m.zero_threshold);
	}
}

static bool taken[320 * 7]; /* cells of the region that is being built */

static bool are_free(uint32_t first, uint32_t cells)
{
	while (cells && !taken[first])
		first++, cells--;
	return !cells;
}

/* Any free place, usually right after the last one. Returns false if there is no room left. */
static bool random_place(struct rng *r, struct make *m, uint32_t cells)
{
	uint32_t all = m->stride / 64 * 7;

	for (int i = 0; i < 20; i++) {
		uint32_t first = i || !rng_below(r, 3) ? (uint32_t)rng_below(r, all) : m->next_cell;

		if (first + cells <= all && are_free(first, cells)) {
			m->next_cell = first;
			return true;
		}
	}
	return false;
}

/* Fills a region; written[] has its metrics. */
static unsigned int random_region(struct rng *r, struct make *m, struct region_schema *schema,
				  const struct region_info *info)
{
	unsigned int count = (unsigned int)rng_below(r, METRICS_MAX), n = 0;

	memset(taken, 0, sizeof(taken));
	for (; n < count; n++) {
		static uint8_t record[8192];
		size_t length;

		random_metric(r, &written[n], n);
		if (written[n].cells && !random_place(r, m, written[n].cells))
			break;
		written[n].cell = m->next_cell;
		length = make_record(m, &written[n].m, record);
		if (length > m->schema_bytes - m->hot[SL_HOT_SCHEMA_USED])
			break;
		make_append(m, record);
		memset(taken + written[n].cell, true, written[n].cells);
		if (schema && rng_below(r, 4) == 0)
			assert_int_equal(
				REGION_FAULT_NONE,
				region_schema_append(schema, info, m->schema + schema->parsed,
						     m->hot[SL_HOT_SCHEMA_USED] - schema->parsed));
	}
	for (uint32_t s = 0; s < m->max_stripes; s++)
		for (uint32_t c = 0; c < m->cells; c++)
			if (rng_below(r, 3))
				make_cell_set(m, s, c, rng_next(r));
	return n;
}

static void compare_values(const struct make *m, const struct region_schema *schema,
			   const uint64_t *out)
{
	for (size_t i = 0; i < schema->count; i++) {
		const struct region_metric *metric = schema->metrics[i];

		for (uint32_t k = 0; k < metric->cells; k++) {
			uint32_t cell = metric->cell + k, kind = metric->kind;
			bool f64 = kind == SL_KIND_COUNTER_F64 || kind == SL_KIND_GAUGE_F64 ||
				   ((kind == SL_KIND_HISTOGRAM || kind == SL_KIND_HISTOGRAM_EXP) &&
				    k == SL_HIST_SUM);
			bool one = kind == SL_KIND_GAUGE || kind == SL_KIND_GAUGE_F64 ||
				   kind == SL_KIND_STATESET;
			uint64_t sum = 0;
			double total = 0;

			for (uint32_t s = 0; s < (one ? 1 : m->max_stripes); s++) {
				sum += make_cell(m, s, cell);
				total += sl_f64_of_cell(make_cell(m, s, cell));
			}
			if (f64 && one)
				sum ^= sum >> 32;
			else if (f64)
				memcpy(&sum, &total, 8);
			/* A NaN may be read back as a different NaN. */
			if (!(f64 && total != total))
				assert_true(out[cell] == sum);
		}
	}
}

static void region_decodes_to_what_was_written(void **state)
{
	struct rng r = {seed};
	unsigned int rounds = (unsigned int)(150 * scale), metrics = 0;

	(void)state;
	for (unsigned int round = 0; round < rounds; round++) {
		struct region_info info;
		struct region_schema schema;
		struct region_values v;
		struct region_hot hot;
		struct make m;
		unsigned int n;
		uint64_t *out;

		make_metrics(&m, 1 + (uint32_t)rng_below(&r, 300), 1 + (uint32_t)rng_below(&r, 6),
			     1 + rng_below(&r, 40000), "pod\0p", 6);
		assert_int_equal(region_info_parse(m.header, m.size, &info), REGION_FAULT_NONE);
		region_schema_init(&schema);
		n = random_region(&r, &m, &schema, &info);
		assert_int_equal(region_hot_parse(m.hot, &info, &hot), REGION_FAULT_NONE);
		assert_int_equal(region_schema_append(&schema, &info, m.schema + schema.parsed,
						      hot.schema_used - schema.parsed),
				 REGION_FAULT_NONE);
		assert_int_equal(schema.count, n);
		for (unsigned int i = 0; i < n; i++)
			same_metric(schema.metrics[i], &written[i], i);
		metrics += n;
		region_values_init(&v);
		out = calloc(schema.cells + 1, 8);
		for (int again = 0; again < 3; again++) {
			uint32_t first = 0, lines = hot.lines_used;

			assert_int_equal(region_values_resize(&v, lines, hot.stripes_used), 0);
			for (uint32_t s = 0; s < hot.stripes_used; s++)
				for (first = 0; first < lines;) {
					uint32_t some = 1 + (uint32_t)rng_below(&r, lines - first);

					assert_int_equal(region_values_update(
								 &v, s, first,
								 (const uint64_t(*)[8])make_line(
									 &m, s, first),
								 some, NULL),
							 0);
					first += some;
				}
			region_values_flatten(&v, schema.specials, schema.special_count,
					      schema.cells, out);
			compare_values(&m, &schema, out);
			for (uint32_t i = 0; i < 20 && m.cells; i++)
				make_cell_add(&m, (uint32_t)rng_below(&r, m.max_stripes),
					      (uint32_t)rng_below(&r, m.cells), rng_next(&r));
		}
		free(out);
		region_values_free(&v);
		region_schema_free(&schema);
		assert_int_equal(exercise_region(m.mem, m.size), REGION_FAULT_NONE);
		make_free(&m);
	}
	print_message("%u regions, %u metrics\n", rounds, metrics);
}

static const uint64_t nasty[] = {0,	     1,		 7,	     8,		 63,
				 64,	     0x7f,	 0xff,	     0xffff,	 0x7fffffff,
				 0xffffffff, 1ull << 32, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};

static void mutate(struct rng *r, uint8_t *data, size_t size, uint64_t schema, uint64_t schema_used)
{
	for (unsigned int n = 1 + (unsigned int)rng_below(r, 4); n--;) {
		static const uint8_t widths[] = {1, 2, 4, 8};
		uint8_t width = widths[rng_below(r, 4)];
		uint64_t value = nasty[rng_below(r, sizeof(nasty) / sizeof(*nasty))], at;

		switch (rng_below(r, 5)) {
		case 0: /* header fields and section table */
			at = rng_below(r, 80 + 24 * 5);
			break;
		case 1: /* hot line */
			at = SL_HEADER_SIZE + rng_below(r, 64);
			break;
		case 2:
		case 3: /* schema */
			at = schema + (schema_used ? rng_below(r, schema_used) : 0);
			break;
		default:
			at = rng_below(r, size);
		}
		if (rng_below(r, 2))
			value = rng_next(r);
		at = at / width * width;
		if (at + width <= size)
			memcpy(data + at, &value, width);
	}
}

static void spoilt_region_does_no_harm(void **state)
{
	struct rng r = {seed + 1};
	unsigned int rounds = (unsigned int)(60 * scale), met[REGION_FAULT_COUNT] = {0};

	(void)state;
	for (unsigned int round = 0; round < rounds; round++) {
		struct region_info info;
		struct make m;
		uint8_t *copy;

		if (round % 4) {
			make_metrics(&m, 1 + (uint32_t)rng_below(&r, 64),
				     1 + (uint32_t)rng_below(&r, 3), 1 + rng_below(&r, 9000),
				     "a\0b", 4);
			assert_int_equal(region_info_parse(m.header, m.size, &info), 0);
			random_region(&r, &m, NULL, &info);
		} else {
			make_directory(&m, 20);
			for (uint32_t i = 0; i < 20; i++)
				make_entry(&m, i, i + 1, 4096 * i, 8192, i, i % 5,
					   SL_REGION_METRICS, 9);
			assert_int_equal(region_info_parse(m.header, m.size, &info), 0);
		}
		copy = malloc(m.size);
		assert_non_null(copy);
		for (int i = 0; i < 200; i++) {
			memcpy(copy, m.mem, m.size);
			mutate(&r, copy, m.size, info.schema, m.hot[SL_HOT_SCHEMA_USED]);
			if (i % 8)
				exercise_fix_checks(copy, m.size);
			met[exercise_region(copy, m.size)]++;
		}
		free(copy);
		make_free(&m);
	}
	for (int i = 0; i < REGION_FAULT_COUNT; i++)
		print_message("%s %u  ", region_fault_name(i), met[i]);
	print_message("\n");
	/* None of the lies may have become ineffective. */
	if (scale >= 1)
		for (int i = 0; i < REGION_FAULT_COUNT; i++)
			assert_true(met[i] || i == REGION_FAULT_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(region_decodes_to_what_was_written),
		cmocka_unit_test(spoilt_region_does_no_harm),
	};

	if (getenv("SL_TEST_SEED"))
		seed = strtoull(getenv("SL_TEST_SEED"), NULL, 0);
	if (getenv("SL_TEST_SCALE"))
		scale = strtod(getenv("SL_TEST_SCALE"), NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
