/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture.h - code shared by the tests of the collector: pods made by a test, a collector that
 * reads them over mock.c, and its output.
 */
#ifndef SL_TESTS_COLLECT_FIXTURE_H
#define SL_TESTS_COLLECT_FIXTURE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "collect/read/collect.h"
#include "collect/tables/tables.h"

#include "mock.h"

#define MS	   1000000ull
#define GET(x)	   __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define TEST(name) cmocka_unit_test_setup(name, reset)

struct pod {
	struct make m;
	uint64_t instance;
};

#define LABELS(s) s, sizeof(s) /* keys and values, each with its NUL */

/* How much longer a slow machine that is busy with other things may take. */
#define PATIENCE 100

#define WITHIN(ms, condition)                                                                \
	do {                                                                                 \
		uint64_t end_ = base_now_ns() + PATIENCE * (ms)*MS;                          \
		while (!(condition)) {                                                       \
			if (base_now_ns() > end_) {                                          \
				char *text_ = scrape(c);                                     \
				fputs(text_, stderr);                                        \
				free(text_);                                                 \
				fail_msg("not within %llu ms: %s", (unsigned long long)(ms), \
					 #condition);                                        \
			}                                                                    \
			usleep(2000);                                                        \
		}                                                                            \
	} while (0)

void pod_make(struct pod *p, uint64_t instance, const char *labels, size_t bytes);
uint32_t counter(struct pod *p, const char *name, const char *key, const char *value);
uint32_t metric_of(struct pod *p, uint16_t kind, const char *name);
/* An entry of the directory. */
void put(struct mock_host *h, uint32_t index, uint64_t id, struct pod *p, uint32_t state);
/* A cell's value. */
void set(struct mock_host *h, struct pod *p, uint32_t stripe, uint32_t cell, uint64_t v);
/* Starts a collector; it reads host "one" unless agents are given. */
struct collect_collector *start(struct collect_collector_opts *o);
/* Like start(), with kernel tables unless tables is NULL. */
struct collect_collector *start_tables(struct collect_collector_opts *o,
				       const struct collect_tables_opts *tables);
/* An exposition, malloc'd. */
char *scrape(struct collect_collector *c);
char *scrape_as(struct collect_collector *c, enum export_format format, bool utf8, size_t *bytes);
/* Returns whether an exposition has this line. */
bool has(struct collect_collector *c, const char *line);
bool mentions(struct collect_collector *c, const char *what);
/* Returns the sum of a self metric's series, or -1 if there is none. */
double self_value(struct collect_collector *c, const char *name, const char *labels);
/* Faults of regions by this cause. */
double faults(struct collect_collector *c, const char *cause);
/* The views of the workers as last shown to see_worker(). */
extern __thread struct collect_worker_view seen[16];
void see_worker(const struct collect_worker_view *v, void *arg);
uint64_t rounds_of(struct collect_collector *c, unsigned int worker);
/* Before each test: no hosts. */
int reset(void **state);
/* READs of a region so far. */
uint64_t reads_of(struct mock_host *h, uint64_t id);
/* Returns the number of READs from now on until the region is no longer read. */
uint64_t reads_until_rest(struct mock_host *h, uint64_t id, uint64_t before);

/* Host "two", with a region of its own, whose good_total is 43. */
void honest_host(struct pod *p);
/*
 * Changes memory of host h at random while c reads it: for 2 s, in 'make soak' for 10 minutes. Half
 * of the changes have right checks, so that they get through. good_total stays what it is. Then the
 * memory is as before.
 */
void mutate(struct mock_host *h, void *memory, size_t size, struct collect_collector *c);

/* The tests of each file, up to one without a name. */
extern const struct CMUnitTest values_tests[], clashes_tests[], exemplars_tests[], fetches_tests[],
	taps_tests[], parts_tests[], hostile_tests[], lives_tests[], flows_tests[], layers_tests[],
	nets_tests[], removal_tests[], tenants_tests[], pairs_tests[];

/* Reads the history of the metric that has the ID now. */
static inline ssize_t read_history(struct collect_collector *c, uint64_t instance, uint32_t metric,
				   int64_t from_ns, int64_t to_ns, struct collect_point *out,
				   size_t max)
{
	const struct collect_series_ref of = {.instance = instance, .metric = metric};

	return collect_collector_points(c, &of, INT64_MAX, from_ns, to_ns, out, max, NULL);
}

#endif
