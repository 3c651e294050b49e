// SPDX-License-Identifier: Apache-2.0
/* test_query_success.c - the share of keys that are found is predicted and measured right. */
#include <math.h>

#include "support/test.h"
#include "dta/query/json.h"
#include "store_write.h"

static uint32_t crc32_slot(uint64_t key, uint32_t n, uint32_t slots)
{
	static uint32_t table[256];
	static bool made;
	uint8_t bytes[9];
	uint32_t crc = ~0u;

	for (uint32_t i = 0; !made && i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
		table[i] = c;
	}
	made = true;
	memcpy(bytes, &key, 8);
	bytes[8] = (uint8_t)n;
	for (int i = 0; i < 9; i++)
		crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
	return ~crc % slots;
}

#define M 65536u

/*
 * Share of keys that are still in one of their N slots after load * M more keys have been written.
 */
static double measured(struct made *m, double load, uint32_t copies, uint64_t seed)
{
	enum { ASKED = 40000 };
	uint64_t later = (uint64_t)(load * M), key;
	uint8_t value[8], found;
	size_t hits = 0;

	memset(bank_of(m, 0), 0, m->v.bank_stride);
	for (uint64_t i = 0; i < ASKED + later; i++) {
		key = dta_mix(seed + i);
		put_keywrite(m, 0, &key, 8, &key, 0, copies);
		if (i < later)
			continue;
		/* The key that was followed by `later` keys, not counting itself. */
		key = dta_mix(seed + i - later);
		hits += dta_view_keywrite_many(&m->v, 0, copies, &key, 8, 1, value, &found);
	}
	return (double)hits / ASKED;
}

/*
 * Share of keys that can be read after load * M keys were written, in slots with CRC and in ours.
 */
static void measured_all(struct made *m, double load, uint32_t copies, double *crc, double *ours)
{
	static uint64_t slot[M], all[M], value[M];
	static uint8_t found[M];
	uint64_t keys = (uint64_t)(load * M), hits, hits_crc = 0, ours_found = 0;

	memset(slot, 0, sizeof(slot));
	memset(bank_of(m, 0), 0, m->v.bank_stride);
	for (uint64_t i = 1; i <= keys; i++) {
		uint64_t key = dta_mix(i);

		put_keywrite(m, 0, &key, 8, &key, 0, copies);
		for (uint32_t n = 0; n < copies; n++)
			slot[crc32_slot(key, n, M)] = key;
	}
	for (uint64_t i = 0; i < keys; i++)
		all[i] = dta_mix(i + 1);
	hits = dta_view_keywrite_many(&m->v, 0, copies, all, 8, keys, value, found);
	for (uint64_t i = 0; i < keys; i++) {
		const uint64_t key = all[i];
		bool hit = false;

		for (uint32_t n = 0; n < copies; n++)
			hit |= slot[crc32_slot(key, n, M)] == key;
		hits_crc += hit;
		assert_true(found[i] == SL_QUERY_EMPTY ||
			    (found[i] == SL_QUERY_FOUND && value[i] == key));
		hits -= found[i] == SL_QUERY_FOUND;
		ours_found += found[i] == SL_QUERY_FOUND;
	}
	assert_int_equal(hits, 0);
	*crc = (double)hits_crc / (double)keys;
	*ours = (double)ours_found / (double)keys;
}

static void success_is_the_formulas_where_crc_slots_fall_short(void **state)
{
	struct sl_store_config c = {
		.kind = SL_STORE_KEYWRITE, .slots = M, .value_bytes = 8, .copies = 4, .seed = 1};
	double crc, ours;
	struct made m;

	(void)state;
	assert_true(make_store(&m, c));
	for (uint32_t n = 1; n <= 4; n++)
		for (int load = 1; load <= 10; load++) {
			double a = load / 10.0, want = 1 - pow(1 - exp(-a * n), n);
			double got = measured(&m, a, n, n * 1000000007ull + (uint64_t)load);

			if (fabs(got - want) > .01)
				fail_msg("load %.1f, N=%u: %.4f, the formula says %.4f", a, n, got,
					 want);
		}
	/*
	 * As in the original implementation: two keys that share one slot share all of them, so
	 * more copies make it worse.
	 */
	measured_all(&m, .1, 2, &crc, &ours);
	assert_true(fabs(crc - .903) < .01);
	assert_true(fabs(ours - .986) < .005);
	measured_all(&m, .1, 4, &crc, &ours);
	assert_true(fabs(crc - .816) < .015);
	assert_true(fabs(ours - .997) < .003);
	free(m.map);
}

static void load_and_prediction_are_what_was_written(void **state)
{
	struct sl_store_config c = {
		.kind = SL_STORE_KEYWRITE, .slots = M, .value_bytes = 8, .copies = 2, .seed = 1};
	struct dta_store_load l;
	struct made m;

	(void)state;
	assert_true(make_store(&m, c));
	for (uint64_t i = 0; i < M / 2; i++)
		put_keywrite(&m, 0, &i, 8, &i, 0, 2);
	for (uint64_t sample = 0; sample <= 8192; sample += 8192) {
		dta_view_load(&m.v, NEWEST, sample, &l);
		assert_true(fabs(l.load - .5) < (sample ? .05 : .01));
		assert_true(fabs(l.predicted[1] - (1 - pow(1 - exp(-2 * l.load), 2))) < 1e-9);
	}
	memset(bank_of(&m, 0), 1, m.v.bank_stride);
	dta_view_load(&m.v, NEWEST, 0, &l);
	assert_true(isfinite(l.load) && l.load > 5);
	free(m.map);
}

#define IN_LOG 4096u

/*
 * Writes load * slots keys to the newest epoch, by two translators in turn, and some to the
 * previous epoch. They have two copies each, or a mix of one and three, as the log states.
 */
static void fill(struct made *m, struct made *log, uint32_t kind, double load, bool mixed)
{
	struct logged l[2] = {{.m = log}, {.m = log, .lane = 1}};
	uint32_t keys = (uint32_t)(load * IN_LOG), hop = 7;

	for (uint32_t epoch = 4; epoch <= 5; epoch++) {
		for (int i = 0; i < 2; i++)
			log_item(&l[i], 0, &epoch, 4);
		for (uint32_t k = 0; k < (epoch == 4 ? 500 : keys); k++) {
			const uint32_t copies = !mixed ? 2 : k / 2 % 4 ? 1 : 3;
			struct {
				uint64_t key;
				uint8_t copies;
			} item = {dta_mix(k + ((uint64_t)epoch << 40)), (uint8_t)copies};
			const uint64_t key = item.key;

			if (kind == SL_STORE_KEYWRITE)
				put_keywrite(m, epoch, &key, 8, &key, 0, copies);
			else
				put_path(m, epoch, &key, 8, 1, 1, &hop, 0, copies);
			log_item(&l[k & 1], 8, &item, mixed ? 9 : 8);
			if (k % 10 == 0) /* forgotten, and logged again: still one key */
				log_item(&l[k & 1], 8, &item, mixed ? 9 : 8);
		}
	}
	for (int i = 0; i < 2; i++)
		end_block(&l[i]);
}

static void success_measured_is_what_was_predicted(void **state)
{
	static const double loads[] = {.3, 1};
	static const uint32_t kinds[] = {SL_STORE_KEYWRITE, SL_STORE_POSTCARD};
	struct dta_held held = {.count = 1}, log = {.count = 1};
	struct made m, keys;
	struct dta_success s;

	(void)state;
	for (int i = 0; i < 8; i++) {
		const bool mixed = i >= 4;
		struct sl_store_config c = {.kind = kinds[i / 2 % 2],
					    .slots = IN_LOG,
					    .copies = mixed ? 4 : 2,
					    .banks = 2,
					    .seed = 3};

		if (c.kind == SL_STORE_KEYWRITE)
			c.value_bytes = 8;
		else
			c.hops = 3;
		assert_true(make_store(&m, c));
		set_epochs(&m, 5, 4);
		for (uint32_t blocks = 1024; blocks; blocks = blocks == 1024 ? 16 : 0) {
			assert_true(
				make_store(&keys, (struct sl_store_config){.kind = SL_STORE_APPEND,
									   .slots = blocks,
									   .value_bytes = 16,
									   .batch = 16,
									   .lists = 1,
									   .lanes = 4}));
			fill(&m, &keys, c.kind, loads[i % 2], mixed);
			held.view[0] = &m.v;
			log.view[0] = &keys.v;
			dta_query_success(&held, &log, &s);
			assert_int_equal(s.epoch, 5);
			if (blocks == 16) { /* keys that the log lacks are not guessed */
				assert_non_null(strstr(s.why_not, "not hold all keys"));
				assert_int_equal(s.asked, 0);
			} else {
				assert_null(s.why_not);
				assert_int_equal(s.known, (uint32_t)(loads[i % 2] * IN_LOG));
				assert_int_equal(s.asked, 1024);
				if (s.predicted < s.low || s.predicted > s.high)
					fail_msg("load %.1f: %.4f to %.4f found, %.4f predicted",
						 loads[i % 2], s.low, s.high, s.predicted);
				assert_true(s.high < 1 && s.low > (mixed ? .4 : .5) &&
					    s.high - s.low < .07);
			}
			free(keys.map);
		}
		dta_query_success(&held, NULL, &s);
		assert_string_equal(s.why_not, "the store has no key log");
		free(m.map);
	}
}

/* The log's keys of the current epoch are in its object from before the resize. */
static void success_is_measured_after_a_resize_of_the_log(void **state)
{
	const struct sl_store_config c = {.kind = SL_STORE_KEYWRITE,
					  .slots = IN_LOG,
					  .copies = 2,
					  .banks = 2,
					  .value_bytes = 8};
	struct sl_store_config log = {.kind = SL_STORE_APPEND,
				      .slots = 1024,
				      .value_bytes = 16,
				      .batch = 16,
				      .lists = 1,
				      .lanes = 4};
	struct made m, before, after;
	struct dta_success s;

	(void)state;
	assert_true(make_store(&m, c));
	set_epochs(&m, 5, 4);
	assert_true(make_store(&before, log));
	fill(&m, &before, c.kind, .3, false);
	log.slots = 2048;
	log.first_epoch = 1;
	assert_true(make_store(&after, log));
	dta_query_success(&(struct dta_held){.count = 1, .view = {&m.v}},
			  &(struct dta_held){.count = 2, .view = {&after.v, &before.v}}, &s);
	assert_null(s.why_not);
	assert_int_equal(s.known, (uint32_t)(.3 * IN_LOG));
	free(after.map);
	free(before.map);
	free(m.map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(success_is_the_formulas_where_crc_slots_fall_short),
		cmocka_unit_test(load_and_prediction_are_what_was_written),
		cmocka_unit_test(success_measured_is_what_was_predicted),
		cmocka_unit_test(success_is_measured_after_a_resize_of_the_log),
	};

	return cmocka_run_group_tests_name("success", tests, NULL, NULL);
}
