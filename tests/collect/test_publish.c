// SPDX-License-Identifier: Apache-2.0
/* test_publish.c - sums of counters count each increment once, whatever becomes of a host. */
#include <stdio.h>
#include <stdlib.h>

#include "support/test.h"
#include "base/base.h"
#include "collect/publish/internal.h"
#include "collect/read/collector_internal.h"

#define HOUR_NS 3600000000000ull
#define MANY	70000u /* more series than are remembered for longer than an hour */

static uint64_t now_ns = 1;

uint64_t __wrap_base_now_ns(void);
uint64_t __wrap_base_now_ns(void)
{
	return now_ns;
}

/* ---- the exposed series: x_total{process="N"} with the value 1 for N in [from, to) ---- */

static uint32_t from, to, at;
static bool family_done;

static void *begin_walk(void *ctx)
{
	(void)ctx;
	at = from;
	family_done = false;
	return &at;
}

static int next_family(void *walk, struct export_family *f)
{
	(void)walk;
	*f = (struct export_family){
		.name = "x", .help = "", .unit = "", .type = EXPORT_FAMILY_COUNTER};
	return family_done ? 0 : (family_done = true);
}

static int next_series(void *walk, struct export_series *s)
{
	static char number[16], text[32];
	static const char *const key[] = {"process"}, *const value[] = {number};

	(void)walk;
	if (at >= to)
		return 0;
	snprintf(number, sizeof(number), "%u", at++);
	*s = (struct export_series){.label_text = text,
				    .label_keys = key,
				    .label_values = value,
				    .label_count = 1,
				    .value_type = EXPORT_VALUE_U64,
				    .value.u64 = 1};
	s->label_bytes = (size_t)snprintf(text, sizeof(text), "process=\"%s\"", number);
	return 1;
}

static void end_walk(void *walk)
{
	(void)walk;
}

struct export_source __wrap_collect_collector_source(struct collect_collector *c);
struct export_source __wrap_collect_collector_source(struct collect_collector *c)
{
	(void)c;
	return (struct export_source){.begin = begin_walk,
				      .next_family = next_family,
				      .next_series = next_series,
				      .end = end_walk};
}

bool __wrap_collect_self_has(const struct collect_collector *c, const char *name);
bool __wrap_collect_self_has(const struct collect_collector *c, const char *name)
{
	(void)c, (void)name;
	return false;
}

/* ---- the sum ---- */

static uint64_t sum;

bool __wrap_collect_publish_target_set(struct collect_publish *p, struct collect_publish_target *t);
bool __wrap_collect_publish_target_set(struct collect_publish *p, struct collect_publish_target *t)
{
	(void)p;
	sum = t->value[0];
	return true;
}

static bool any_name(void *arg, const char *name)
{
	(void)arg, (void)name;
	return true;
}

static int any_labels(void *arg, const struct collect_series_view *s)
{
	(void)arg, (void)s;
	return 1;
}

/* Returns the sum once the processes [first, end) are the ones that are exposed. */
static uint64_t sum_of(struct collect_publish *p, uint32_t first, uint32_t end)
{
	from = first;
	to = end;
	assert_int_equal(collect_publish_pass(p), 0);
	return sum;
}

static void a_sum_counts_a_process_once(void **state)
{
	static const struct collect_publish_rule rule = {
		.sum = true, .name = any_name, .labels = any_labels};
	struct collect_publish p = {.o = {.rules = &rule, .rule_count = 1}};

	(void)state;
	assert_true(base_table_init(&p.series) && base_table_init(&p.targets));
	assert_int_equal(sum_of(&p, 0, 10), 10);
	/* A host is away for a day, and comes back. */
	assert_int_equal(sum_of(&p, 0, 4), 10);
	now_ns += 24 * HOUR_NS;
	assert_int_equal(sum_of(&p, 0, 4), 10);
	assert_int_equal(sum_of(&p, 0, 10), 10);
	/* More processes end than are remembered for longer than an hour. */
	assert_int_equal(sum_of(&p, 0, MANY), MANY);
	assert_int_equal(sum_of(&p, 0, 10), MANY);
	assert_int_equal(p.series.count, MANY);
	now_ns += HOUR_NS;
	assert_int_equal(sum_of(&p, 0, 10), MANY);
	assert_true(p.series.count < MANY);
	collect_publish_forget(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sum_counts_a_process_once),
	};

	return cmocka_run_group_tests_name("publish", tests, NULL, NULL);
}
