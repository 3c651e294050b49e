// SPDX-License-Identifier: Apache-2.0
/* test_discover.c - a host that sources still name is read, even when memory is short. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "collect/discover/discover.h"
#include "collect/discover/source.h"

#define GET(x)	  __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define SET(x, v) __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST)

static bool exhausted, more;
static unsigned int asked;

/* Has no room to spare, so that each element needs memory. */
bool __wrap_base_grow(void *array, size_t *room, size_t count, size_t size);
bool __wrap_base_grow(void *array, size_t *room, size_t count, size_t size)
{
	void *v = GET(exhausted) ? NULL : realloc(*(void **)array, count * size);

	if (!v)
		return false;
	*(void **)array = v;
	*room = count;
	return true;
}

/* Names "old" and, later, a host before it. */
int __wrap_collect_source_ask(const char *source, const struct collect_source_opts *o,
			      struct collect_targets *out, char *error, size_t error_bytes);
int __wrap_collect_source_ask(const char *source, const struct collect_source_opts *o,
			      struct collect_targets *out, char *error, size_t error_bytes)
{
	(void)source, (void)o, (void)error, (void)error_bytes;
	out->name = calloc(2, sizeof(*out->name));
	assert_non_null(out->name);
	out->room = 2;
	if (GET(more))
		out->name[out->n++] = strdup("new");
	out->name[out->n++] = strdup("old");
	__atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
	return 0;
}

int __wrap_collect_collector_add_host(struct collect_collector *c, const char *target);
int __wrap_collect_collector_add_host(struct collect_collector *c, const char *target)
{
	(void)c;
	return strcmp(target, "old") ? 1 : 0;
}

void __wrap_collect_collector_want_host(struct collect_collector *c, size_t host, bool wanted);
void __wrap_collect_collector_want_host(struct collect_collector *c, size_t host, bool wanted)
{
	(void)c, (void)host, (void)wanted;
}

static struct collect_discover_stats stats_after(struct collect_discover *d, unsigned int more_asks)
{
	const unsigned int until = GET(asked) + more_asks;
	struct collect_discover_stats s;

	while (GET(asked) < until)
		usleep(1000);
	collect_discover_stats(d, &s);
	return s;
}

static void hosts_stay_when_memory_is_short(void **state)
{
	struct collect_discover_opts o = {.every_ns = 1000000,
					  .sources = {.v = (const char *[]){"any"}, .n = 1}};
	struct collect_discover_stats s;
	struct collect_discover *d;
	char error[256];

	(void)state;
	d = collect_discover_new(NULL, &o, error, sizeof(error));
	assert_non_null(d);
	assert_int_equal(collect_discover_start(d), 0);
	assert_int_equal(stats_after(d, 0).read, 1);
	SET(exhausted, true);
	SET(more, true);
	s = stats_after(d, 3);
	assert_int_equal(s.let_go, 0);
	assert_int_equal(s.read, 1);
	/* The new host is found again. */
	SET(exhausted, false);
	s = stats_after(d, 3);
	assert_int_equal(s.let_go, 0);
	assert_int_equal(s.read, 2);
	collect_discover_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_stay_when_memory_is_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
