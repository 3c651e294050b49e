// SPDX-License-Identifier: Apache-2.0
/* test_query.c - answers about a key: found, empty and conflict, in every kind of store. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "support/test.h"
#include "base/budget.h"
#include "dta/query/export.h"
#include "dta/query/json.h"
#include "dta/query/seen.h"
#include "dta/wire/text.h"
#include "sketch/cells.h"
#include "store_write.h"

#define NEWEST (~0ull)

static struct dta_query by(const uint64_t *key, uint32_t copies, enum sl_query_policy policy,
			   uint32_t t)
{
	return (struct dta_query){.key = key,
				  .key_bytes = 8,
				  .epoch = NEWEST,
				  .copies = copies,
				  .policy = policy,
				  .consensus = t};
}

static const struct sl_store_config keywrite = {.kind = SL_STORE_KEYWRITE,
						.slots = 4096,
						.value_bytes = 12,
						.copies = 4,
						.banks = 2,
						.seed = 7};

static void what_was_written_is_found_and_nothing_else(void **state)
{
	uint64_t key = 0x1234, other = 0x1235;
	struct sl_keywrite_answer a;
	struct dta_query q;
	struct made m;

	(void)state;
	assert_true(make_store(&m, keywrite));
	q = by(&key, 0, SL_QUERY_FIRST, 0);
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_EMPTY);
	assert_int_equal(a.occupied, 0);
	put_keywrite(&m, 0, &key, 8, "hello, world", 0, 4);
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	assert_int_equal(a.bytes, 12);
	assert_memory_equal(a.value, "hello, world", 12);
	assert_int_equal(a.verified, 4);
	assert_true(a.error_probability > 0 && a.error_probability < 1e-18);
	q.key = &other;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_EMPTY);
	q.key = &key;
	q.key_bytes = 7; /* of another length: another key */
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_EMPTY);
	q.key_bytes = 3;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_UNKNOWN);
	free(m.map);
}

/* A value of zeros is a value: the original DTA cannot distinguish it from an empty slot. */
static void a_value_of_zeros_is_found(void **state)
{
	uint64_t key = 5;
	struct dta_query q = by(&key, 0, SL_QUERY_FIRST, 0);
	struct sl_keywrite_answer a;
	struct made m;

	(void)state;
	assert_true(make_store(&m, keywrite));
	put_keywrite(&m, 0, &key, 8, "\0\0\0\0\0\0\0\0\0\0\0", 0, 1);
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	assert_int_equal(a.occupied, 1);
	free(m.map);
}

static void a_torn_value_is_never_returned(void **state)
{
	uint64_t key = 77;
	struct dta_query q = by(&key, 1, SL_QUERY_FIRST, 0);
	uint64_t slot, at;
	struct sl_keywrite_answer a;
	struct made m;
	uint8_t *unit;

	(void)state;
	assert_true(make_store(&m, keywrite));
	put_keywrite(&m, 0, &key, 8, "hello, world", 0, 1);
	slot = dta_slot(dta_hash(&key, 8, 7), 0, 4096);
	unit = bank_of(&m, 0) + slot * sl_store_slot_bytes(m.v.config);
	for (at = 0; at < 20 * 8; at++) {
		unit[at / 8] ^= (uint8_t)(1u << at % 8);
		dta_view_keywrite(&m.v, &q, &a);
		assert_int_equal(a.result, SL_QUERY_EMPTY);
		assert_int_equal(a.verified, 0);
		unit[at / 8] ^= (uint8_t)(1u << at % 8);
	}
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	free(m.map);
}

static void policies_choose_as_they_are_named(void **state)
{
	static const struct {
		const char *copy[4];
		enum sl_query_policy policy;
		uint32_t t;
		enum sl_query_result result;
		const char *value;
	} cases[] = {
		{{"a", "b", "b", NULL}, SL_QUERY_FIRST, 0, SL_QUERY_FOUND, "a"},
		{{NULL, NULL, "b", "a"}, SL_QUERY_FIRST, 0, SL_QUERY_FOUND, "b"},
		/* rewritten with fewer copies */
		{{"a", "b", "b", NULL}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{NULL, "a", "b", "b"}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{"a", "b", "a", "b"}, SL_QUERY_PLURALITY, 0, SL_QUERY_CONFLICT, NULL},
		{{"a", "b", "a", "a"}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{"a", "b", "b", "a"}, SL_QUERY_PLURALITY, 0, SL_QUERY_CONFLICT, NULL},
		{{"b", "a", "b", "a"}, SL_QUERY_PLURALITY, 0, SL_QUERY_CONFLICT, NULL},
		{{"a", "b", "c", "c"}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{"a", "b", "c", NULL}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{NULL, NULL, NULL, "c"}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "c"},
		{{NULL, NULL, NULL, NULL}, SL_QUERY_PLURALITY, 0, SL_QUERY_EMPTY, NULL},
		{{"a", "b", "b", "b"}, SL_QUERY_CONSENSUS, 3, SL_QUERY_CONFLICT, NULL},
		{{"a", "a", "b", "b"}, SL_QUERY_CONSENSUS, 2, SL_QUERY_FOUND, "a"},
		{{"b", "a", "b", "b"}, SL_QUERY_CONSENSUS, 3, SL_QUERY_FOUND, "b"},
		{{"a", "b", "b", NULL}, SL_QUERY_CONSENSUS, 3, SL_QUERY_CONFLICT, NULL},
		{{"b", "b", NULL, NULL}, SL_QUERY_CONSENSUS, 3, SL_QUERY_EMPTY, NULL},
		{{NULL, NULL, NULL, NULL}, SL_QUERY_CONSENSUS, 1, SL_QUERY_EMPTY, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t key = 42;
		struct dta_query q = by(&key, 4, cases[i].policy, cases[i].t);
		char value[12] = "x..........";
		struct sl_keywrite_answer a;
		struct made m;

		assert_true(make_store(&m, keywrite));
		for (uint32_t n = 0; n < 4; n++) {
			if (!cases[i].copy[n])
				continue;
			value[0] = cases[i].copy[n][0];
			put_keywrite(&m, 0, &key, 8, value, n, n + 1);
		}
		dta_view_keywrite(&m.v, &q, &a);
		assert_int_equal(a.result, cases[i].result);
		if (cases[i].value)
			assert_int_equal(a.value[0], cases[i].value[0]);
		free(m.map);
	}
}

/* Paths of other lengths, too: a longer one and a shorter one. */
static void a_path_rewritten_with_fewer_copies_is_the_newest(void **state)
{
	static const enum sl_query_policy policies[] = {SL_QUERY_FIRST, SL_QUERY_PLURALITY};
	const struct sl_store_config c = {.kind = SL_STORE_POSTCARD,
					  .slots = 4096,
					  .hops = 5,
					  .copies = 4,
					  .banks = 2,
					  .seed = 5};
	const uint32_t old[5] = {1, 2, 3, 4, 5}, new[5] = {11, 12, 13, 14, 15};
	struct sl_postcard_answer p;
	struct made m;

	(void)state;
	assert_true(make_store(&m, c));
	for (uint64_t key = 0; key < 100; key++) {
		const uint32_t was = 2 + key % 4, is = 2 + key / 4 % 4;

		put_path(&m, 0, &key, 8, (1ull << was) - 1, was, old, 0, 4);
		put_path(&m, 0, &key, 8, (1ull << is) - 1, is, new, 0, 1);
		for (int i = 0; i < 2; i++) {
			const struct dta_query q = by(&key, 0, policies[i], 0);

			dta_view_path(&m.v, &q, NULL, 0, &p);
			assert_int_equal(p.result, SL_QUERY_FOUND);
			assert_int_equal(p.hops, is);
			for (uint32_t hop = 0; hop < is; hop++)
				assert_int_equal(p.value[hop], new[hop]);
		}
	}
	free(m.map);
}

static void epochs_are_asked_apart_and_newest_first(void **state)
{
	uint64_t key = 9, old = 10, none = 11, keys[3] = {9, 10, 11};
	struct dta_query q = by(&key, 0, SL_QUERY_FIRST, 0);
	uint8_t values[36], found[3];
	struct sl_keywrite_answer a;
	struct made m;

	(void)state;
	assert_true(make_store(&m, keywrite));
	put_keywrite(&m, 0, &key, 8, "in epoch  0.", 0, 2);
	put_keywrite(&m, 0, &old, 8, "in epoch  0.", 0, 2);
	set_epochs(&m, 1, 0);
	put_keywrite(&m, 1, &key, 8, "in epoch  1.", 0, 2);
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.epoch, 1);
	assert_memory_equal(a.value, "in epoch  1.", 12);
	q.epoch = 0;
	dta_view_keywrite(&m.v, &q, &a);
	assert_memory_equal(a.value, "in epoch  0.", 12);
	q.key = &old;
	q.epoch = NEWEST;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	assert_int_equal(a.epoch, 0);
	q.epoch = 2;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_UNKNOWN);
	q.key = &none;
	q.epoch = NEWEST;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_EMPTY);
	assert_int_equal(dta_view_keywrite_many(&m.v, NEWEST, 2, keys, 8, 3, values, found), 2);
	assert_int_equal(found[1], SL_QUERY_FOUND);
	assert_memory_equal(values + 12, "in epoch  0.", 12);
	assert_int_equal(found[2], SL_QUERY_EMPTY);
	assert_int_equal(dta_view_keywrite_many(&m.v, 1, 2, keys, 8, 3, values, found), 1);
	set_epochs(&m, 2, 1); /* bank 0 is epoch 2's now */
	q.key = &old;
	q.epoch = 0;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_UNKNOWN);
	assert_int_equal(dta_view_keywrite_many(&m.v, 0, 2, keys, 8, 3, values, found), 0);
	assert_int_equal(found[0], SL_QUERY_UNKNOWN);
	free(m.map);
}

/* ---- the proof: success against load ---- */

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
	 * As in the original: two keys that share one slot share all of them, so copies make it
	 * worse.
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
		dta_view_load(&m.v, NEWEST, 2, sample, &l);
		assert_true(fabs(l.load - .5) < (sample ? .05 : .01));
		assert_true(fabs(l.predicted[1] - (1 - pow(1 - exp(-2 * l.load), 2))) < 1e-9);
	}
	memset(bank_of(&m, 0), 1, m.v.bank_stride);
	dta_view_load(&m.v, NEWEST, 2, 0, &l);
	assert_true(isfinite(l.load) && l.load > 5);
	free(m.map);
}

/* A log of one lane in blocks of 16, as the engine writes it. */
struct logged {
	struct made *m;
	uint32_t lane, count;
	uint64_t block;
	uint8_t items[16 * 32];
};

static void end_block(struct logged *l)
{
	if (l->count)
		put_block(l->m, 0, l->lane, l->block++, l->items, l->count);
	l->count = 0;
}

static void log_item(struct logged *l, uint8_t bytes, const void *data, size_t n)
{
	const uint32_t size = l->m->v.config->value_bytes;
	uint8_t *item = l->items + l->count * size;

	memset(item, 0, size);
	item[0] = bytes;
	memcpy(item + 1, data, n);
	if (++l->count == 16)
		end_block(l);
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

/* Its keys of the current epoch are in the object of before the resize. */
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

/* ---- increment ---- */

static void a_count_is_never_low_and_within_the_bound(void **state)
{
	struct sl_store_config c = {
		.kind = SL_STORE_INCREMENT, .slots = 1000, .rows = 4, .copies = 4, .banks = 2};
	struct dta_totals totals = {0};
	uint64_t high = 0, total = 0;
	struct sl_increment_answer i, again;
	struct made m;

	(void)state;
	assert_true(make_store(&m, c));
	for (uint64_t key = 1; key <= 2000; key++)
		for (uint32_t r = 0; r < 4; r++) {
			uint8_t *cell = bank_of(&m, 0) +
					sl_store_counter_offset(
						&c, r, dta_slot(dta_hash(&key, 8, 0), r, 1000));

			*(uint64_t *)(void *)cell += key % 10;
			total += r ? 0 : key % 10;
		}
	for (uint64_t key = 1; key <= 2000; key++) {
		struct dta_query q = by(&key, 0, SL_QUERY_FIRST, 0);

		dta_view_increment(&m.v, &q, &i);
		assert_true(i.value >= key % 10);
		high += (double)(i.value - key % 10) > i.error;
		assert_true(fabs(i.error - M_E / 1000 * (double)total) < 1e-6);
		q.totals = &totals;
		dta_view_increment(&m.v, &q, &again);
		assert_memory_equal(&again, &i, sizeof(i));
	}
	assert_int_equal(totals.used, 1); /* a row is summed once for all keys */
	assert_true((double)high / 2000 <= 1 - i.probability);
	free(m.map);
}

/* ---- flows by device and time ---- */

/* A store of flows by exporter, with a key log; both have epochs 0 to newest. */
struct seen_flows {
	struct made counts, log;
	struct dta_held store, keys;
	struct logged to;
	uint64_t since_ns[SL_STORE_BANKS_MAX];
};

static void flows_make(struct seen_flows *f, uint64_t newest)
{
	*f = (struct seen_flows){.to.m = &f->log};
	assert_true(make_store(&f->counts, (struct sl_store_config){.kind = SL_STORE_INCREMENT,
								    .slots = 1000,
								    .copies = 1,
								    .banks = 8}));
	assert_true(make_store(&f->log, (struct sl_store_config){.kind = SL_STORE_APPEND,
								 .slots = 64,
								 .value_bytes = 32,
								 .batch = 16,
								 .lists = 1}));
	set_epochs(&f->counts, newest, 0);
	f->store = (struct dta_held){.count = 1,
				     .view = {&f->counts.v},
				     .keylog = "log",
				     .layout = {"exporter,5-tuple"},
				     .since_ns = f->since_ns};
	f->keys = (struct dta_held){.count = 1, .view = {&f->log.v}};
}

static void flows_free(struct seen_flows *f)
{
	free(f->counts.map);
	free(f->log.map);
}

/* Counts bytes of the flow from 10.0.0.host at an exporter, and logs its key. */
static void flows_count(struct seen_flows *f, uint32_t epoch, uint8_t host, uint64_t bytes)
{
	const struct sl_store_config *c = f->counts.v.config;
	const uint8_t key[17] = {192, 0, 2, 1, 10, 0, 0, host, 10, 0, 1, 1, 0, 80, 1, 0, 6};
	const uint64_t slot = dta_slot(dta_hash(key, sizeof(key), c->seed), 0, c->slots);

	*(uint64_t *)(void *)(bank_of(&f->counts, epoch) + sl_store_counter_offset(c, 0, slot)) +=
		bytes;
	log_item(&f->to, 0, &epoch, sizeof(epoch));
	log_item(&f->to, sizeof(key), key, sizeof(key));
}

static json_t *flows_paths(struct seen_flows *f, struct dta_seen *s, uint32_t max, uint64_t *more)
{
	const struct dta_seen_ask ask = {.max = max};

	end_block(&f->to);
	dta_seen_take(s, &f->store, &f->keys);
	return dta_seen_paths(s, &ask, more);
}

/* The store server knows when its epochs began, except those before its start. */
static void epochs_before_a_restart_belong_to_ranges(void **state)
{
	struct dta_seen s = {.from_ns = 40, .to_ns = 45};
	struct seen_flows f;
	uint64_t more;
	json_t *all;

	(void)state;
	flows_make(&f, 5);
	f.since_ns[4] = 50;
	f.since_ns[5] = 60;
	for (uint32_t epoch = 1; epoch <= 5; epoch++)
		flows_count(&f, epoch, 1, UINT64_C(1) << 8 * epoch);
	all = flows_paths(&f, &s, 10, &more);
	/* Epochs 1 to 3 may have been at that time. */
	assert_int_equal(s.rows, 1);
	assert_int_equal(s.row->count, 0x01010100);
	assert_int_equal(s.row->from_ns, 0);
	assert_int_equal(s.row->to_ns, 50);
	json_decref(all);
	s.rows = 0;
	s.from_ns = 50;
	s.to_ns = 51;
	all = flows_paths(&f, &s, 10, &more);
	assert_int_equal(s.rows, 1);
	assert_int_equal(s.row->count, UINT64_C(1) << 32);
	json_decref(all);
	free(s.row);
	flows_free(&f);
}

/* Their keys are still in the log. */
static void expired_epochs_are_not_in_the_range(void **state)
{
	struct dta_seen s = {.to_ns = UINT64_MAX};
	struct seen_flows f;
	uint64_t more;

	(void)state;
	flows_make(&f, 5);
	for (uint32_t epoch = 1; epoch <= 5; epoch++) {
		f.since_ns[epoch] = 10 * epoch;
		flows_count(&f, epoch, 1, 100);
	}
	set_epochs(&f.counts, 5, 4);
	json_decref(flows_paths(&f, &s, 10, &more));
	assert_int_equal(s.rows, 1);
	assert_int_equal(s.row->count, 200);
	assert_int_equal(s.began_ns, 40);
	free(s.row);
	flows_free(&f);
}

/* After a resize, the newest object of the log has the newest keys only. */
static void flows_logged_before_a_resize_are_listed(void **state)
{
	struct base_budget few = {.end_ns = UINT64_MAX, .samples = 3};
	struct dta_seen s = {.to_ns = UINT64_MAX};
	struct dta_logged_key *keys;
	struct sl_store_config c;
	struct seen_flows f;
	struct made before;
	char error[160];
	uint64_t more;
	json_t *all, *j;
	size_t n;

	(void)state;
	flows_make(&f, 0);
	flows_count(&f, 0, 1, 100);
	end_block(&f.to);
	before = f.log;
	c = *before.v.config;
	c.slots = 128;
	assert_true(make_store(&f.log, c));
	f.to = (struct logged){.m = &f.log};
	f.keys = (struct dta_held){.count = 2, .view = {&f.log.v, &before.v}};
	flows_count(&f, 0, 2, 200);
	all = flows_paths(&f, &s, 10, &more);
	assert_int_equal(json_array_size(all), 2);
	json_decref(all);
	all = dta_query_keys_json(&f.keys, &f.store, 10, true);
	assert_int_equal(json_integer_value(json_object_get(all, "known")), 2);
	json_decref(all);
	all = dta_query_keys_json(&f.keys, &f.store, 1, false); /* the newest */
	j = json_array_get(json_object_get(all, "keys"), 0);
	assert_memory_equal(json_string_value(json_object_get(j, "key")) + 14, "02", 2);
	json_decref(all);
	all = dta_export_page(&f.store, &f.keys, &(struct dta_export){.epoch = NEWEST}, error,
			      sizeof(error));
	assert_int_equal(json_array_size(json_object_get(all, "records")), 2);
	json_decref(all);
	/* If there are too many keys, the newest ones are read. */
	f.store.budget = &few;
	keys = dta_query_logged(&f.keys, &f.store, &n, &more);
	assert_int_equal(n, 1);
	assert_int_equal(keys[0].key[7], 2);
	free(keys);
	free(s.row);
	free(before.map);
	flows_free(&f);
}

static void paths_are_cut_after_the_greatest_counts(void **state)
{
	struct dta_seen s = {.to_ns = UINT64_MAX};
	struct seen_flows f;
	uint64_t more;
	json_t *all;

	(void)state;
	flows_make(&f, 0);
	for (uint8_t host = 1; host <= 9; host++)
		flows_count(&f, 0, host, host * 100u);
	all = flows_paths(&f, &s, 2, &more);
	assert_int_equal(json_array_size(all), 2);
	assert_int_equal(more, 7);
	for (size_t i = 0; i < 2; i++) {
		const json_t *at = json_object_get(json_array_get(all, i), "crossed");

		assert_int_equal(
			json_integer_value(json_object_get(json_array_get(at, 0), "bytes")),
			900 - 100 * i);
	}
	json_decref(all);
	free(s.row);
	flows_free(&f);
}

static void paths_are_ordered_by_bytes_not_by_reports(void **state)
{
	struct dta_seen s = {.to_ns = UINT64_MAX};
	struct seen_flows exporters, switches;
	const char *flow;
	uint64_t more;
	json_t *all;

	(void)state;
	flows_make(&exporters, 0);
	flows_make(&switches, 0);
	switches.store.layout[0] = "switch,5-tuple";
	for (uint8_t host = 1; host <= 2; host++) {
		flows_count(&exporters, 0, host, host * 100u);
		flows_count(&switches, 0, host, 1000u / host);
	}
	end_block(&switches.to);
	dta_seen_take(&s, &switches.store, &switches.keys);
	all = flows_paths(&exporters, &s, 2, &more);
	flow = json_string_value(json_object_get(json_array_get(all, 0), "flow"));
	assert_non_null(strstr(flow, "10.0.0.2"));
	json_decref(all);
	free(s.row);
	flows_free(&exporters);
	flows_free(&switches);
}

/* ---- append ---- */

static const struct sl_store_config ring = {.kind = SL_STORE_APPEND,
					    .slots = 7,
					    .value_bytes = 8,
					    .batch = 4,
					    .lists = 2,
					    .lanes = 2,
					    .seed = 3};

static void put_items(struct made *m, uint64_t block, uint64_t first, uint32_t count)
{
	uint64_t items[4];

	for (uint32_t i = 0; i < count; i++)
		items[i] = first + i;
	put_block(m, 1, 1, block, items, count);
}

/*
 * Thousands of wraps, full and partial blocks, readers near and far: no item is lost or read twice,
 * and all are in order.
 */
static void a_reader_sees_every_item_once_in_order_over_wraps(void **state)
{
	struct sl_query_append_reader r = {.list = 1, .lane = 1};
	uint64_t block = 0, written = 0, read = 0, items[8], seed = 1;
	struct made m;

	(void)state;
	assert_true(make_store(&m, ring));
	while (block < 50000) {
		uint32_t blocks = (uint32_t)(dta_mix(seed++) % 8);

		for (uint32_t i = 0; i < blocks; i++) { /* up to a whole ring at once */
			uint32_t count = 1 + (uint32_t)(dta_mix(seed++) % 4);

			put_items(&m, block++, written, count);
			written += count;
		}
		for (int n; (n = dta_append_read(&m.v, &r, items, 8)) != 0;) {
			assert_true(n > 0);
			for (int i = 0; i < n; i++)
				assert_int_equal(items[i], read++);
		}
		assert_int_equal(read, written);
		assert_int_equal(r.block, block);
	}
	assert_int_equal(r.overrun, 0);
	assert_int_equal(r.items, written);
	assert_int_equal(dta_append_next(&m.v, 1, 1), block);
	assert_int_equal(dta_append_next(&m.v, 1, 0), 0);
	assert_int_equal(dta_append_read(&m.v, &r, items, 3), -EINVAL);
	free(m.map);
}

static void an_overrun_is_always_seen_and_counted(void **state)
{
	(void)state;
	for (uint64_t ahead = 8; ahead < 100; ahead++) {
		struct sl_query_append_reader r = {.list = 1, .lane = 1};
		uint64_t items[28];
		struct made m;

		assert_true(make_store(&m, ring));
		for (uint64_t b = 0; b < ahead; b++)
			put_items(&m, b, b * 4, 4);
		assert_int_equal(dta_append_next(&m.v, 1, 1), ahead);
		assert_int_equal(dta_append_read(&m.v, &r, items, 28), -EOVERFLOW);
		assert_int_equal(r.overrun, ahead - 7);
		assert_int_equal(r.block, ahead - 7);
		assert_int_equal(dta_append_read(&m.v, &r, items, 28), 28);
		for (uint64_t i = 0; i < 28; i++)
			assert_int_equal(items[i], (ahead - 7) * 4 + i);
		free(m.map);
	}
}

static void a_block_that_is_half_written_is_waited_for(void **state)
{
	struct sl_query_append_reader r = {.list = 1, .lane = 1};
	uint64_t items[4];
	struct made m;
	uint8_t *byte;

	(void)state;
	assert_true(make_store(&m, ring));
	put_items(&m, 0, 100, 4);
	byte = bank_of(&m, 0) + sl_store_ring_offset(m.v.config, 1, 1) + 3;
	*byte ^= 1;
	assert_int_equal(dta_append_read(&m.v, &r, items, 4), 0);
	assert_true(r.torn > 0);
	*byte ^= 1;
	assert_int_equal(dta_append_read(&m.v, &r, items, 4), 4);
	assert_int_equal(dta_append_wait(&m.v, &r, items, 4, 1000000), 0);
	r.list = 2;
	assert_int_equal(dta_append_read(&m.v, &r, items, 4), -EINVAL);
	free(m.map);
}

/* Lap numbers have 24 bits: a ring that wraps more often still works. */
static void lap_numbers_go_round(void **state)
{
	struct sl_query_append_reader r = {.list = 1, .lane = 1, .block = 0xffffffull * 7 - 3};
	uint64_t items[4], first = r.block;
	struct made m;

	(void)state;
	assert_true(make_store(&m, ring));
	for (uint64_t b = first; b < first + 20; b++) {
		put_items(&m, b, b, 1);
		assert_int_equal(dta_append_read(&m.v, &r, items, 4), 1);
		assert_int_equal(items[0], b);
		assert_int_equal(dta_append_next(&m.v, 1, 1), b + 1);
	}
	r.block = first;
	assert_int_equal(dta_append_read(&m.v, &r, items, 4), -EOVERFLOW);
	assert_int_equal(r.block, first + 13);
	free(m.map);
}

/* Returns a position's answer of a list in one lane, and checks its items. */
static uint64_t check_page(const struct dta_held *held, uint64_t from, uint32_t max, uint32_t first,
			   uint32_t items)
{
	char error[160], hex[17];
	struct dta_ask ask;
	const json_t *got;
	uint64_t next;
	json_t *j;

	dta_ask_init(&ask);
	ask.list = ask.lane = 1;
	ask.from = from;
	ask.max = max ?: ask.max;
	j = dta_query_json(held, &ask, error, sizeof(error));
	got = json_array_get(json_object_get(j, "rings"), 0);
	next = (uint64_t)json_integer_value(json_object_get(got, "next"));
	got = json_object_get(got, "items");
	assert_int_equal(json_array_size(got), items);
	for (uint32_t i = 0; i < items; i++) {
		snprintf(hex, sizeof(hex), "%02x00000000000000", first + i);
		assert_string_equal(json_string_value(json_array_get(got, i)), hex);
	}
	json_decref(j);
	return next;
}

static uint64_t check_list(const struct dta_held *held, uint64_t from, uint32_t first,
			   uint32_t items)
{
	return check_page(held, from, 0, first, items);
}

/* After two resizes, with no item in between. */
static void a_list_is_read_on_after_a_resize(void **state)
{
	struct sl_store_config c = ring;
	struct dta_held held = {.count = 1};
	struct made m[3];
	char error[160];
	uint64_t next;
	json_t *all;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		c.slots = 7 + i;
		c.first_epoch = i;
		assert_true(make_store(&m[i], c));
		held.view[2 - i] = &m[i].v;
	}
	put_items(&m[0], 0, 100, 4);
	put_items(&m[0], 1, 104, 2);
	next = check_list(&(struct dta_held){.count = 1, .view = {&m[0].v}}, NEWEST, 100, 6);
	assert_int_equal(next, 2);
	held.count = 3;
	assert_int_equal(check_list(&held, next, 0, 0), next);
	put_items(&m[0], 2, 106, 1); /* the translator had not heard of the resize yet */
	assert_int_equal(check_list(&held, next, 106, 1), next + 1);
	put_items(&m[2], 0, 107, 3);
	next = check_list(&held, next, 106, 4);
	put_items(&m[2], 1, 110, 2);
	next = check_list(&held, next, 110, 2);
	assert_int_equal(check_list(&held, next, 0, 0), next);
	check_list(&held, NEWEST, 100, 12);
	/* A page that is full before the end of an object goes on there. */
	next = check_page(&held, NEWEST, 4, 100, 4);
	next = check_page(&held, next, 4, 104, 2);
	check_list(&held, next, 106, 6);
	all = dta_export_page(&held, NULL, &(struct dta_export){.epoch = NEWEST}, error,
			      sizeof(error));
	assert_int_equal(json_array_size(json_object_get(all, "records")), 12);
	assert_true(json_is_null(json_object_get(all, "next")));
	json_decref(all);
	/* The oldest object has been dropped: the reader goes on with the oldest one left. */
	held.count = 2;
	check_list(&held, 3, 107, 5);
	for (int i = 0; i < 3; i++)
		free(m[i].map);
}

/* ---- postcards ---- */

static void a_path_is_decoded_against_the_known_values(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_POSTCARD,
				    .slots = 512,
				    .hops = 64,
				    .copies = 2,
				    .banks = 2,
				    .seed = 5};
	uint32_t hop[64], set[64], wrong = 999;
	struct sl_postcard_answer p;
	struct made m;

	(void)state;
	assert_true(make_store(&m, c));
	for (uint32_t i = 0; i < 64; i++)
		set[i] = hop[i] = 10 + i * 3;
	for (uint64_t key = 1; key <= 64; key++) {
		uint32_t hops = (uint32_t)key;
		uint64_t all = hops == 64 ? ~0ull : (1ull << hops) - 1,
			 some = all & ~(key > 1 ? 1ull << key / 2 : 0);
		struct dta_query q = by(&key, 0, SL_QUERY_FIRST, 0);

		put_path(&m, 0, &key, 8, some, hops, hop, 0, 2);
		dta_view_path(&m.v, &q, set, 64, &p);
		assert_int_equal(p.result, SL_QUERY_FOUND);
		assert_int_equal(p.hops, hops);
		assert_int_equal(p.present, some);
		assert_int_equal(p.agreed, 2);
		for (uint32_t i = 0; i < hops; i++)
			assert_int_equal(p.value[i], some >> i & 1 ? hop[i] : 0);
		dta_view_path(&m.v, &q, &wrong, 1, &p);
		assert_int_equal(p.result, SL_QUERY_CONFLICT);
		dta_view_path(&m.v, &q, NULL, 0, &p);
		assert_int_equal(p.result, SL_QUERY_FOUND);
		memset(bank_of(&m, 0), 0, m.v.bank_stride);
		dta_view_path(&m.v, &q, set, 64, &p);
		assert_int_equal(p.result, SL_QUERY_EMPTY);
		/*
		 * Hops that are written separately add up; of several paths of a key, the complete
		 * one counts.
		 */
		put_path(&m, 0, &key, 8, some, hops, hop, 0, 1);
		put_path(&m, 0, &key, 8, all ^ some, hops, hop, 1, 2);
		dta_view_path(&m.v, &q, set, 64, &p);
		assert_int_equal(p.result, SL_QUERY_FOUND);
		assert_int_equal(p.present, all);
		assert_int_equal(p.agreed, 1);
		put_path(&m, 0, &key, 8, 1, 1, hop, 0, 2);
		dta_view_path(&m.v, &q, set, 64, &p);
		assert_int_equal(p.result, SL_QUERY_FOUND);
		assert_int_equal(p.hops, 1);
		assert_int_equal(p.present, 1);
		memset(bank_of(&m, 0), 0, m.v.bank_stride);
		/*
		 * A translator that lies: the number of hops is at most the hop's number, or
		 * exceeds the maximum.
		 */
		for (uint32_t lie = 0; lie <= 65; lie += 65) {
			uint64_t *unit = (void *)(bank_of(&m, 0) +
						  dta_slot(dta_hash(&key, 8, c.seed), 0, c.slots) *
							  sl_store_path_bytes(&c));

			unit[0] = dta_hop_word(dta_hash(&key, 8, c.seed), 0, lie, 10);
			dta_view_path(&m.v, &q, NULL, 0, &p);
			assert_int_equal(p.result, SL_QUERY_EMPTY);
			memset(bank_of(&m, 0), 0, m.v.bank_stride);
		}
	}
	free(m.map);
}

/* ---- sketches ---- */

struct made_sketch {
	struct sketch_cells s;
	uint64_t cells[3 * 256];
};

static void sketch_make(struct made_sketch *m, const struct sl_store_config *c)
{
	memset(m, 0, sizeof(*m));
	assert_int_equal(sketch_cells_init(&m->s,
					   (enum sketch_cells_kind)(c->sketch - SL_STORE_COUNT_MIN),
					   c->slots, c->rows, c->seed, m->cells),
			 0);
}

static uint64_t hash_of(uint64_t key)
{
	return sketch_hash_bytes(&key, 8, 11);
}

static void merged_lanes_are_the_sketch_of_the_union(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_SKETCH,
				    .sketch = SL_STORE_COUNT_MIN,
				    .slots = 256,
				    .rows = 3,
				    .lanes = 3,
				    .reporters = 3,
				    .banks = 2,
				    .seed = 11};
	static struct made_sketch whole, part;
	uint64_t cells[3 * 256], key = 3;
	double error;

	(void)state;
	for (uint32_t kind = SL_STORE_COUNT_MIN; kind <= SL_STORE_HLL; kind++) {
		struct dta_sketch_estimate e;
		struct dta_merged merged;
		uint64_t bytes;
		struct made m;

		c.sketch = kind;
		c.rows = kind == SL_STORE_HLL ? 1 : 3;
		bytes = c.rows * 256ull * sl_store_cell_bytes(&c);
		sketch_make(&whole, &c);
		assert_true(make_store(&m, c));
		dta_view_sketch(&m.v, NEWEST, cells, &merged);
		assert_int_equal(merged.result, SL_QUERY_EMPTY);
		for (uint32_t lane = 0; lane < 3; lane++) {
			sketch_make(&part, &c);
			for (uint64_t i = 0; i < 500; i++) {
				uint64_t k = dta_mix(lane * 1000 + i) % 100;

				sketch_cells_add(&whole.s, hash_of(k), 1);
				sketch_cells_add(&part.s, hash_of(k), 1);
			}
			put_lane(&m, 0, lane, part.cells, c.rows * 256ull, lane, 1);
			dta_view_sketch(&m.v, NEWEST, cells, &merged);
			assert_int_equal(merged.result, SL_QUERY_FOUND);
			assert_int_equal(merged.ended, lane + 1);
			assert_int_equal(merged.complete, lane == 2);
		}
		assert_int_equal(merged.columns, 3 * c.rows * 256);
		assert_memory_equal(cells, whole.cells, bytes);
		assert_int_equal(
			dta_sketch_estimate(&c, cells, kind == SL_STORE_HLL ? NULL : &key, 8, &e),
			0);
		assert_true(e.value == sketch_cells_estimate(&whole.s, hash_of(key), &error));
		assert_true(e.error == error);
		/* Impossible cells have no estimate; a Count-Sketch may have any cells. */
		memset(cells, 0xff, 8);
		assert_int_equal(
			dta_sketch_estimate(&c, cells, kind == SL_STORE_HLL ? NULL : &key, 8, &e),
			kind == SL_STORE_COUNT_SKETCH ? 0 : -EINVAL);
		/* A row that changed after its check word was computed is refused. */
		bank_of(&m, 0)[sl_store_lane_bytes(&c) + sizeof(struct sl_store_complete)] ^= 1;
		dta_view_sketch(&m.v, NEWEST, cells, &merged);
		assert_int_equal(merged.result, SL_QUERY_CONFLICT);
		assert_false(merged.complete);
		free(m.map);
	}
}

static void a_sketch_from_before_a_resize_is_merged(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_SKETCH,
				    .sketch = SL_STORE_COUNT_MIN,
				    .slots = 256,
				    .rows = 3,
				    .lanes = 1,
				    .reporters = 1,
				    .banks = 2};
	static uint64_t cells[3 * 256];
	struct made before, after;
	char error[160];
	struct dta_ask ask;
	json_t *j;

	(void)state;
	assert_true(make_store(&before, c));
	put_lane(&before, 0, 0, cells, 3 * 256, 0, 1);
	c.slots = 128;
	c.first_epoch = 1;
	assert_true(make_store(&after, c));
	dta_ask_init(&ask);
	ask.epoch = 0;
	ask.cells = true;
	j = dta_query_json(&(struct dta_held){.count = 2, .view = {&after.v, &before.v}}, &ask,
			   error, sizeof(error));
	assert_string_equal(json_string_value(json_object_get(j, "result")), "found");
	assert_int_equal(json_integer_value(json_object_get(j, "columns")), 256);
	assert_int_equal(strlen(json_string_value(json_object_get(j, "cells"))), 2 * sizeof(cells));
	json_decref(j);
	free(after.map);
	free(before.map);
}

static void a_5_tuple_is_said_as_it_is_read(void **state)
{
	static const char *const flows[] = {"flow:10.0.0.1:443,192.0.2.7:65535,tcp",
					    "flow:[2001:db8::1]:1,[::1]:53,udp",
					    "flow:0.0.0.0:0,255.255.255.255:1,200"};
	char text[DTA_FLOW_TEXT];
	uint8_t key[64];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		const int n = dta_text(flows[i], key, sizeof(key));

		assert_int_equal(n, i == 1 ? 37 : 13);
		assert_true(dta_flow_text(key, (size_t)n, text));
		assert_string_equal(text, flows[i]);
	}
	assert_false(dta_flow_text(key, 12, text));
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_5_tuple_is_said_as_it_is_read),
		cmocka_unit_test(what_was_written_is_found_and_nothing_else),
		cmocka_unit_test(a_value_of_zeros_is_found),
		cmocka_unit_test(a_torn_value_is_never_returned),
		cmocka_unit_test(policies_choose_as_they_are_named),
		cmocka_unit_test(a_path_rewritten_with_fewer_copies_is_the_newest),
		cmocka_unit_test(epochs_are_asked_apart_and_newest_first),
		cmocka_unit_test(success_is_the_formulas_where_crc_slots_fall_short),
		cmocka_unit_test(load_and_prediction_are_what_was_written),
		cmocka_unit_test(success_measured_is_what_was_predicted),
		cmocka_unit_test(success_is_measured_after_a_resize_of_the_log),
		cmocka_unit_test(a_count_is_never_low_and_within_the_bound),
		cmocka_unit_test(epochs_before_a_restart_belong_to_ranges),
		cmocka_unit_test(expired_epochs_are_not_in_the_range),
		cmocka_unit_test(flows_logged_before_a_resize_are_listed),
		cmocka_unit_test(paths_are_cut_after_the_greatest_counts),
		cmocka_unit_test(paths_are_ordered_by_bytes_not_by_reports),
		cmocka_unit_test(a_reader_sees_every_item_once_in_order_over_wraps),
		cmocka_unit_test(an_overrun_is_always_seen_and_counted),
		cmocka_unit_test(a_block_that_is_half_written_is_waited_for),
		cmocka_unit_test(lap_numbers_go_round),
		cmocka_unit_test(a_list_is_read_on_after_a_resize),
		cmocka_unit_test(a_path_is_decoded_against_the_known_values),
		cmocka_unit_test(merged_lanes_are_the_sketch_of_the_union),
		cmocka_unit_test(a_sketch_from_before_a_resize_is_merged),
	};

	return cmocka_run_group_tests_name("query", tests, NULL, NULL);
}
