// SPDX-License-Identifier: Apache-2.0
/*
 * test_units.c - estimated and sampled counts of units in stores are within their stated error as
 * often as a standard error implies, for several sizes, loads and seeds.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/random.h"
#include "dta/store_server/internal.h"

static uint64_t seed = 1;

/* Number of trials, and of those whose difference is at most one error, or two. */
struct within {
	uint32_t trials, one, two;
};

static void count(struct within *w, double difference, double error)
{
	const double z = fabs(difference) / error;

	w->trials++;
	w->one += z <= 1;
	w->two += z <= 2;
}

/* 68.3 and 95.4 % of a normal distribution, less five standard deviations of n trials. */
static void check(const struct within *w, const char *what, uint64_t slots, double load)
{
	const double n = w->trials, one = w->one / n, two = w->two / n;

	if (one < .683 - 5 * sqrt(.683 * .317 / n) || two < .954 - 5 * sqrt(.954 * .046 / n))
		fail_msg("%s of %llu slots at load %.2f: %.2f within one error, %.2f within two",
			 what, (unsigned long long)slots, load, one, two);
}

/* Puts units into random slots. Returns the number of slots that they occupy. */
static uint64_t fill(struct dta_store_object *o, uint64_t units)
{
	uint8_t *bank = (uint8_t *)(uintptr_t)o->view.banks;
	const uint64_t slots = o->view.config->slots, bytes = sl_store_slot_bytes(o->view.config);
	uint64_t occupied = 0;

	memset(bank, 0, slots * bytes);
	for (uint64_t i = 0; i < units; i++) {
		uint64_t *slot = (void *)(bank + random_below(&seed, (uint32_t)slots) * bytes);

		occupied += !*slot;
		*slot = 1;
	}
	return occupied;
}

static void sampled_units_are_within_their_error(void **state)
{
	static const uint64_t sizes[] = {5000, 9000, 50000, 300007};
	static const double loads[] = {.05, .2, 1, 2.5, 5};
	const char *scale = getenv("SL_TEST_SCALE");
	const int trials = (int)(200 * (scale ? atof(scale) : 1));
	char error[160];

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const struct sl_store_config c = {.kind = SL_STORE_KEYWRITE,
						  .slots = sizes[i],
						  .value_bytes = 4,
						  .copies = 1,
						  .rows = 1,
						  .lanes = 1,
						  .banks = 1};
		struct dta_store_object *o = dta_store_object_new(&c, "s", NULL, DTA_HUGE_NEVER,
								  error, sizeof(error));

		if (!o)
			fail_msg("%s", error);
		for (size_t l = 0; l < sizeof(loads) / sizeof(*loads); l++) {
			const uint64_t units = (uint64_t)(loads[l] * (double)sizes[i]);
			struct within standing = {0}, overwritten = {0}, all = {0};

			for (int t = 0; t < (sizes[i] > 100000 ? trials / 4 : trials); t++) {
				const uint64_t occupied = fill(o, units);
				struct dta_store_server_units u = {0};
				double e;

				dta_store_server_units(o, &u);
				e = sqrt(u.variance);
				assert_int_equal(u.sampled, sizes[i] > 8192);
				if (!u.sampled)
					assert_int_equal(u.standing, occupied);
				count(&standing, (double)u.standing - (double)occupied, e);
				count(&overwritten, u.lost - (double)(units - occupied), e);
				/*
				 * The rest of the written units counts as updated, although nothing
				 * is.
				 */
				count(&all, (double)u.standing + u.lost - (double)units, e);
			}
			check(&standing, "standing", sizes[i], loads[l]);
			check(&overwritten, "overwritten", sizes[i], loads[l]);
			check(&all, "updated", sizes[i], loads[l]);
		}
		dta_store_object_free(o, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sampled_units_are_within_their_error),
	};

	return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
