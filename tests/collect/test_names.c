// SPDX-License-Identifier: Apache-2.0
/* test_names.c - names that an attacker chose to collide cost no more comparisons than others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/region.h>

#include "support/test.h"
#include "collect/read/collector_internal.h"

#define BITS  17u /* 2^17 names, as a product of pairs of blocks */
#define BLOCK 4u
#define COUNT 100000u
#define LOW   0xfffffu /* more bits than a table of COUNT names uses */

/*
 * Joux's multicollision on the low bits of FNV-1a, which only depend on the low bits of its state:
 * at each place there are two blocks that lead from one state to the next.
 */
static char pair[BITS][2][BLOCK + 1];

static void block_text(char *to, uint32_t n)
{
	for (unsigned int i = 0; i < BLOCK; i++, n /= 26)
		to[i] = (char)('a' + n % 26);
	to[BLOCK] = '\0';
}

static void make_pairs(void)
{
	uint32_t *seen = malloc((LOW + 1) * sizeof(*seen));
	uint64_t state = SL_FNV_BASIS;

	assert_non_null(seen);
	for (unsigned int k = 0; k < BITS; k++) {
		memset(seen, 0, (LOW + 1) * sizeof(*seen));
		for (uint32_t n = 1;; n++) {
			uint64_t next;

			block_text(pair[k][1], n);
			next = sl_fnv1a(state, pair[k][1], BLOCK) & LOW;
			if (seen[next]) {
				block_text(pair[k][0], seen[next]);
				state = next;
				break;
			}
			seen[next] = n;
		}
	}
	free(seen);
}

static void name_make(char *to, uint32_t n, bool collide)
{
	if (!collide) {
		sprintf(to, "random_name_%u", n * 2654435761u);
		return;
	}
	for (unsigned int k = 0; k < BITS; k++)
		memcpy(to + k * BLOCK, pair[k][n >> k & 1], BLOCK);
	to[BITS * BLOCK] = '\0';
}

/* Comparisons that filled the table: each node was compared with those of its bucket. */
static double comparisons(const struct base_table *h)
{
	double sum = 0;

	for (size_t i = 0; i < h->buckets; i++) {
		double n = 0;

		for (const struct base_node *node = h->bucket[i]; node; node = node->next)
			n++;
		sum += n * (n - 1) / 2;
	}
	return sum;
}

static void cost_of(bool collide, double *families, double *defs)
{
	struct collect_collector c = {.opts.max_series = COUNT};
	struct collect_tenant t = {.exempt = true};
	struct collect_region r = {.c = &c, .tenant = &t, .labels = collect_label_set_new(NULL, 0)};
	struct region_metric *metric = calloc(COUNT, sizeof(*metric)), **at;
	char(*name)[BITS * BLOCK + 1] = calloc(COUNT, sizeof(*name));
	struct collect_layout *l;

	at = calloc(COUNT, sizeof(struct region_metric *));
	assert_int_equal(collect_defs_init(&c.defs), 0);
	assert_true(metric && name && at && r.labels);
	for (uint32_t i = 0; i < COUNT; i++) {
		name_make(name[i], i, collide);
		metric[i] = (struct region_metric){
			.kind = SL_KIND_GAUGE, .cells = 1, .name = name[i], .unit = "", .help = ""};
		at[i] = &metric[i];
	}
	l = collect_layout_make(&c, &r, at, COUNT, 1, 1);
	assert_non_null(l);
	assert_int_equal(c.defs.families.count, COUNT);
	*families = comparisons(&c.defs.families);
	*defs = comparisons(&c.defs.defs);
	collect_layout_put(l);
	collect_defs_free(&c.defs);
	free(r.labels);
	free(at);
	free(name);
	free(metric);
}

static void colliding_names_cost_no_more_than_others(void **state)
{
	double families, defs, evil_families, evil_defs;

	(void)state;
	make_pairs();
	cost_of(false, &families, &defs);
	cost_of(true, &evil_families, &evil_defs);
	printf("comparisons: %.0f and %.0f; of colliding names %.0f and %.0f\n", families, defs,
	       evil_families, evil_defs);
	assert_true(evil_families < 2 * families && evil_defs < 2 * defs);
}

int collect_test_names(void);
int collect_test_names(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(colliding_names_cost_no_more_than_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
