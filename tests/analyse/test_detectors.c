// SPDX-License-Identifier: Apache-2.0
/* test_detectors.c - the promises common to all detectors, and the purpose of each. */
#include <stdlib.h>

#include "support/test.h"
#include "analyse/detector.h"
#include "noise.h"

#define DIMS 16u

struct rows {
	uint64_t seed;
	float z[DIMS], move[DIMS];
};

/* Eleven metrics that follow three causes, one constant, four missing. */
static struct analyse_row normal_row(struct rows *r)
{
	double cause[3];

	for (int i = 0; i < 3; i++)
		cause[i] = noise_normal(&r->seed);
	for (uint32_t c = 0; c < DIMS; c++) {
		r->z[c] = r->move[c] = (float)(0.95 * cause[c % 3] + 0.3 * noise_normal(&r->seed));
		if (c == 11)
			r->z[c] = r->move[c] = 0;
		if (c >= 12)
			r->z[c] = r->move[c] = NAN;
	}
	return (struct analyse_row){DIMS, r->z, r->move, NULL};
}

static void *trained(const struct analyse_detector_ops *ops, uint64_t seed, unsigned int rows)
{
	struct analyse_detector_opts o = {.dims = DIMS, .seed = 1};
	struct rows r = {.seed = seed};
	void *d = ops->create(&o);

	assert_non_null(d);
	for (unsigned int i = 0; i < rows; i++) {
		struct analyse_row row = normal_row(&r);

		if (ops->learn)
			ops->learn(d, &row);
	}
	return d;
}

static void scores_are_finite_and_not_negative_whatever_comes(void **state)
{
	static const float odd[] = {0, 1000, -1000, NAN, 5, -0.0f};

	(void)state;
	for (unsigned int k = 0; analyse_detectors[k]; k++) {
		const struct analyse_detector_ops *ops = analyse_detectors[k];
		void *d = trained(ops, 1, 300);
		struct rows r = {.seed = 2};
		float blame[DIMS];

		for (int i = 0; i < 500; i++) {
			struct analyse_row row = {DIMS, r.z, r.move, NULL};
			float s;

			for (uint32_t c = 0; c < DIMS; c++) {
				r.z[c] = odd[sketch_random_next(&r.seed) % 6];
				r.move[c] = odd[sketch_random_next(&r.seed) % 6];
			}
			s = ops->score(d, &row, blame);
			assert_true(s >= 0 && isfinite(s));
			for (uint32_t c = 0; c < DIMS; c++)
				assert_true(blame[c] >= 0 && isfinite(blame[c]));
			if (ops->learn)
				ops->learn(d, &row);
		}
		analyse_detector_destroy(ops, d);
	}
}

/* One metric departs from the others: all detectors see this, and blame it. */
static void a_fault_scores_more_than_normal_rows_and_is_blamed(void **state)
{
	(void)state;
	for (unsigned int k = 0; analyse_detectors[k]; k++) {
		const struct analyse_detector_ops *ops = analyse_detectors[k];
		void *d = trained(ops, 1, 600);
		struct rows r = {.seed = 3};
		float blame[DIMS], most = 0, s = 0;
		uint32_t worst = 0;

		for (int i = 0; i < 200; i++) {
			struct analyse_row row = normal_row(&r);

			s = ops->score(d, &row, blame);
			most = s > most ? s : most;
		}
		for (int i = 0; i < 8; i++) {
			struct analyse_row row = normal_row(&r);

			r.z[4] = r.move[4] = 12;
			s = ops->score(d, &row, blame);
		}
		for (uint32_t c = 1; c < DIMS; c++)
			if (blame[c] > blame[worst])
				worst = c;
		/* fd judges the direction of a row, so the size of a deviation matters little. */
		if ((s <= most && ops != &analyse_detector_fd) || worst != 4)
			fail_msg("%s: %g, normal rows up to %g, blames %u", ops->name, (double)s,
				 (double)most, worst);
		analyse_detector_destroy(ops, d);
	}
}

/* Each metric is within its usual range, but their combination is unusual. */
static void fd_and_autoencoder_see_what_no_single_metric_shows(void **state)
{
	static const char *const names[] = {"fd", "autoencoder"};

	(void)state;
	for (int k = 0; k < 2; k++) {
		const struct analyse_detector_ops *ops = analyse_detector_find(names[k]);
		void *d = trained(ops, 1, 1500);
		struct rows r = {.seed = 4};
		unsigned int wins = 0;
		float blame[DIMS];

		for (int i = 0; i < 100; i++) {
			struct analyse_row row = normal_row(&r);
			float usual = ops->score(d, &row, blame), odd;

			r.z[1] = 1.5f;
			r.z[4] = -1.5f;
			r.z[7] = 1.5f;
			r.z[10] = -1.5f;
			odd = ops->score(d, &row, blame);
			wins += odd > usual;
		}
		if (wins < 95)
			fail_msg("%s: %u of 100", names[k], wins);
		analyse_detector_destroy(ops, d);
	}
}

static void the_autoencoder_is_really_trained(void **state)
{
	const struct analyse_detector_ops *ops = &analyse_detector_autoencoder;
	void *young = trained(ops, 1, 5), *old = trained(ops, 1, 1500);
	struct rows r = {.seed = 6};
	double a = 0, b = 0;
	float blame[DIMS];

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct analyse_row row = normal_row(&r);

		a += (double)ops->score(young, &row, blame);
		b += (double)ops->score(old, &row, blame);
	}
	/* Only the noise of 0.3 in the rows cannot be reproduced. */
	assert_true(b < a / 2);
	analyse_detector_destroy(ops, young);
	analyse_detector_destroy(ops, old);
}

/*
 * Eight metrics that are copies of each other count as one; if four of them are another kind of
 * evidence, as two.
 */
static void combined_counts_copies_once(void **state)
{
	const struct analyse_detector_ops *ops = &analyse_detector_combined;
	struct analyse_detector_opts o = {.dims = DIMS, .seed = 1};
	void *d = ops->create(&o);
	float z[DIMS], copies, alone, blame[DIMS];
	static const uint8_t two[DIMS] = {[4] = 1, 1, 1, 1};
	struct analyse_row row = {DIMS, z, z, NULL};
	float kinds;
	uint64_t seed = 8;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		float x = (float)noise_normal(&seed);

		for (uint32_t c = 0; c < DIMS; c++)
			z[c] = c < 8 ? x : (float)noise_normal(&seed);
		ops->learn(d, &row);
	}
	for (uint32_t c = 0; c < DIMS; c++)
		z[c] = c < 8 ? 10 : 0;
	copies = ops->score(d, &row, blame);
	row.group = two;
	kinds = ops->score(d, &row, blame);
	row.group = NULL;
	assert_true(kinds > 1.9f * copies && kinds < 2.1f * copies);
	for (uint32_t c = 0; c < DIMS; c++)
		z[c] = c == 9 ? 10 : 0;
	alone = ops->score(d, &row, blame);
	assert_true(copies < 1.3f * alone && copies > 0.7f * alone);
	analyse_detector_destroy(ops, d);
}

static void equal_seeds_give_equal_bits(void **state)
{
	(void)state;
	for (unsigned int k = 0; analyse_detectors[k]; k++) {
		const struct analyse_detector_ops *ops = analyse_detectors[k];
		void *a = trained(ops, 1, 300), *b = trained(ops, 1, 300);
		struct rows r = {.seed = 5};
		float blame[DIMS];

		for (int i = 0; i < 50; i++) {
			struct analyse_row row = normal_row(&r);

			assert_true(ops->score(a, &row, blame) == ops->score(b, &row, blame));
		}
		analyse_detector_destroy(ops, a);
		analyse_detector_destroy(ops, b);
	}
}

/* The merge of two halves scores about like a detector that saw all rows. */
static void merging_adds_what_the_other_learned(void **state)
{
	(void)state;
	for (unsigned int k = 0; analyse_detectors[k]; k++) {
		const struct analyse_detector_ops *ops = analyse_detectors[k];
		struct rows r = {.seed = 5};
		float blame[DIMS];
		double sum = 0, whole = 0;
		void *a, *b, *all;

		if (!ops->merge)
			continue;
		a = trained(ops, 1, 600);
		b = trained(ops, 77, 600);
		all = trained(ops, 1, 1200);
		assert_int_equal(ops->merge(a, b), 0);
		for (int i = 0; i < 200; i++) {
			struct analyse_row row = normal_row(&r);

			sum += (double)ops->score(a, &row, blame);
			whole += (double)ops->score(all, &row, blame);
		}
		if (sum > 1.25 * whole || sum < 0.8 * whole)
			fail_msg("%s: %g and %g", ops->name, sum, whole);
		analyse_detector_destroy(ops, a);
		analyse_detector_destroy(ops, b);
		analyse_detector_destroy(ops, all);
	}
}

static void options_that_make_no_sense_are_refused(void **state)
{
	struct analyse_detector_opts o = {.dims = DIMS, .seed = 1, .l = 4, .k = 5};

	(void)state;
	assert_null(analyse_detector_fd.create(&o));
	assert_null(analyse_detector_find("no-such-detector"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scores_are_finite_and_not_negative_whatever_comes),
		cmocka_unit_test(a_fault_scores_more_than_normal_rows_and_is_blamed),
		cmocka_unit_test(fd_and_autoencoder_see_what_no_single_metric_shows),
		cmocka_unit_test(the_autoencoder_is_really_trained),
		cmocka_unit_test(combined_counts_copies_once),
		cmocka_unit_test(equal_seeds_give_equal_bits),
		cmocka_unit_test(merging_adds_what_the_other_learned),
		cmocka_unit_test(options_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
