// SPDX-License-Identifier: Apache-2.0
/* test_render.c - the renderer's output is byte-exact, whatever the size of the reads. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/random.h"
#include "base/number.h"
#include "export/render.h"
#include "fixture.h"

static const char *golden_dir;

static const enum export_format formats[] = {EXPORT_FORMAT_TEXT, EXPORT_FORMAT_OPENMETRICS,
					     EXPORT_FORMAT_PROTOBUF};

/* Compares UTF-8 names as shown to clients that do not accept them. */
static void check_escaped(const struct fixture_series *series, size_t count,
			  enum export_family_type type, const char *expected)
{
	struct fixture_family family = {.f = {.name = "m", .help = "", .unit = "", .type = type},
					.series = series,
					.count = count};
	struct fixture f = {.families = &family, .count = 1};
	struct export_source source = fixture_source(&f);
	struct export_render *r = export_render_new(&source, EXPORT_FORMAT_TEXT, false);
	char out[4096];
	ssize_t n = export_render_read(r, out, sizeof(out) - 1);

	assert_in_range(n, 1, sizeof(out) - 2);
	out[n] = '\0';
	export_render_free(r);
	assert_string_equal(out, expected);
}

/* Renders everything, read by max bytes at a time (0: 1, 2, 3, ... bytes in turn). */
static char *render_alone(struct fixture *f, enum export_format format, size_t max, size_t *bytes)
{
	struct export_source source = fixture_source(f);
	struct export_render *r = export_render_new(&source, format, true);
	size_t room = 1 << 20, used = 0, turn = 0, ask;
	char *out = malloc(room);
	ssize_t n;

	assert_non_null(r);
	for (;;) {
		ask = max ? max : ++turn % 300 + 1;
		while (room - used < ask)
			out = realloc(out, room *= 2);
		n = export_render_read(r, out + used, ask);
		if (n <= 0)
			break;
		assert_true((size_t)n <= ask);
		used += (size_t)n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(export_render_read(r, out, 1), 0); /* and stays at the end */
	export_render_free(r);
	out = realloc(out, used + 1);
	out[used] = '\0';
	*bytes = used;
	return out;
}

static char *render(struct fixture *f, enum export_format format, size_t max, size_t *bytes)
{
	char *out = render_alone(f, format, max, bytes);

	assert_int_equal(f->walks, 0); /* each was ended */
	return out;
}

/* ---- golden files ---- */

static void check_golden(const char *name, enum export_format format)
{
	char path[512], *is, *should = calloc(1, 1 << 16);
	size_t is_bytes, should_bytes;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", golden_dir, name);
	f = fopen(path, "rb");
	if (!f)
		fail_msg("%s: %s", path, strerror(errno));
	should_bytes = fread(should, 1, (1 << 16) - 1, f);
	fclose(f);
	is = render(&fixture_kinds, format, 32768, &is_bytes);
	for (size_t i = 0, line = 1; i < is_bytes || i < should_bytes; i++) {
		if (i >= is_bytes || i >= should_bytes || is[i] != should[i])
			fail_msg("%s:%zu: byte %zu differs: is \"%.60s\", should be \"%.60s\"",
				 name, line, i, is + i, should + i);
		line += is[i] == '\n';
	}
	free(is);
	free(should);
}

static void text_is_as_reviewed(void **state)
{
	(void)state;
	check_golden("kinds.txt", EXPORT_FORMAT_TEXT);
}

static void openmetrics_is_as_reviewed(void **state)
{
	(void)state;
	check_golden("kinds.om", EXPORT_FORMAT_OPENMETRICS);
}

static void an_empty_source_is_well_formed(void **state)
{
	struct fixture none = {0};
	size_t bytes;
	char *out;

	(void)state;
	for (int i = 0; i < 3; i++) {
		out = render(&none, formats[i], 32768, &bytes);
		assert_string_equal(out, formats[i] == EXPORT_FORMAT_OPENMETRICS ? "# EOF\n" : "");
		free(out);
	}
}

/* ---- pieces ---- */

static void bytes_do_not_depend_on_how_they_are_read(void **state)
{
	static const size_t max[] = {1, 2, 3, 5, 7, 16, 61, 100, 127, 255, 1000, 4096, 0};
	size_t whole_bytes, bytes;
	char *whole, *out;

	(void)state;
	for (int i = 0; i < 3; i++) {
		whole = render(&fixture_kinds, formats[i], 1 << 20, &whole_bytes);
		assert_true(whole_bytes > 1000);
		for (size_t j = 0; j < sizeof(max) / sizeof(*max); j++) {
			out = render(&fixture_kinds, formats[i], max[j], &bytes);
			assert_int_equal(bytes, whole_bytes);
			assert_memory_equal(out, whole, bytes);
			free(out);
		}
		free(whole);
	}
}

static void a_walk_that_fails_ends_the_body(void **state)
{
	struct fixture broken = fixture_kinds;
	struct export_source source = fixture_source(&broken);
	char buf[100];
	ssize_t n;

	(void)state;
	for (int i = 0; i < 3; i++) {
		for (broken.fail_at = 1; broken.fail_at < 30; broken.fail_at++) {
			struct export_render *r = export_render_new(&source, formats[i], true);

			while ((n = export_render_read(r, buf, sizeof(buf))) > 0)
				;
			assert_int_equal(n, -EIO);
			assert_int_equal(export_render_read(r, buf, sizeof(buf)), -EIO);
			export_render_free(r);
			assert_int_equal(broken.walks, 0);
		}
	}
}

static void *no_memory(void *ctx)
{
	(void)ctx;
	errno = ENOMEM;
	return NULL;
}

static void a_walk_that_cannot_begin_is_an_error(void **state)
{
	struct export_source source = fixture_source(&fixture_kinds);
	struct export_render *r;
	char c;

	(void)state;
	source.begin = no_memory;
	r = export_render_new(&source, EXPORT_FORMAT_TEXT, true);
	assert_int_equal(export_render_read(r, &c, 1), -ENOMEM);
	assert_int_equal(export_render_read(r, &c, 0), -EINVAL);
	export_render_free(r);
	export_render_free(export_render_new(&source, EXPORT_FORMAT_TEXT, true)); /* never begun */
	export_render_free(NULL);
}

/* A source without arrays: many series of one family, made on request. */
struct endless {
	uint64_t left;
	bool begun;
	enum export_family_type type;
};

static void *endless_begin(void *ctx)
{
	return ctx;
}

static void endless_end(void *walk)
{
	(void)walk;
}

static int endless_family(void *walk, struct export_family *out)
{
	struct endless *e = walk;

	*out = (struct export_family){.name = "f", .help = "h", .unit = "", .type = e->type};
	return e->begun ? 0 : (e->begun = true);
}

static int endless_series(void *walk, struct export_series *out)
{
	static char long_value[1001], text[1100];
	static uint64_t buckets[4098];
	static const char *const key[] = {"k"};
	static const char *const value[] = {long_value};
	struct endless *e = walk;

	if (!*long_value) {
		memset(long_value, 'v', 1000);
		snprintf(text, sizeof(text), "k=\"%s\"", long_value);
		for (int i = 0; i < 4098; i++)
			buckets[i] = (uint64_t)i * 1000003;
	}
	*out = (struct export_series){.label_text = text,
				      .label_bytes = strlen(text),
				      .label_keys = key,
				      .label_values = value,
				      .label_count = 1,
				      U64(e->left),
				      .exponential = true,
				      .buckets = buckets,
				      .bucket_count = 4098,
				      .first_bucket = -2000,
				      .scale = 5};
	return e->left-- > 0;
}

static void memory_is_bounded_however_much_there_is(void **state)
{
	static char buf[32768];
	static const struct {
		enum export_family_type type;
		uint64_t series;
	} cases[] = {{EXPORT_FAMILY_GAUGE, 100000}, {EXPORT_FAMILY_HISTOGRAM, 500}};

	(void)state;
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 2; j++) {
			struct endless e = {.left = cases[j].series, .type = cases[j].type};
			struct export_source source = {.ctx = &e,
						       .begin = endless_begin,
						       .next_family = endless_family,
						       .next_series = endless_series,
						       .end = endless_end};
			struct export_render *r = export_render_new(&source, formats[i], true);
			uint64_t bytes = 0;
			ssize_t n;

			while ((n = export_render_read(r, buf, sizeof(buf))) > 0)
				bytes += (uint64_t)n;
			assert_int_equal(n, 0);
			assert_true(bytes > cases[j].series * 1000);
			assert_true(r->spill_room <= 8192);
			assert_true(r->message_room <= 4 * EXPORT_PROTOBUF_MESSAGE);
			assert_true(r->native.delta_room <= 32768 && r->native.span_room <= 32768);
			export_render_free(r);
		}
	}
}

static void *render_in_thread(void *arg)
{
	for (int i = 0; i < 30; i++) {
		size_t bytes;
		char *out = render_alone(&fixture_kinds, formats[i % 3], 777, &bytes);

		*(uint64_t *)arg += bytes;
		free(out);
	}
	return NULL;
}

static void any_number_of_renderers_at_once(void **state)
{
	pthread_t threads[6];
	uint64_t bytes[6] = {0};

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, render_in_thread, &bytes[i]), 0);
	for (int i = 0; i < 6; i++) {
		pthread_join(threads[i], NULL);
		assert_true(bytes[i] > 10000 && bytes[i] == bytes[0]);
	}
	assert_int_equal(fixture_kinds.walks, 0);
}

/* ---- names ---- */

static int by_name(const void *a, const void *b)
{
	const struct fixture_family *x = a, *y = b;
	int c = strcmp(x->f.name, y->f.name);

	/* A counter, whose type is the least, comes last. */
	return c ? c : (int)y->f.type - (int)x->f.type;
}

static uint64_t rng = 88172645463325252u;

static uint64_t next_random(void)
{
	return random_xorshift(&rng);
}

static int by_string(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Checks that no two lines of out begin with the same word after prefix. */
static void assert_distinct(char *out, const char *prefix)
{
	char *lines[4096];
	size_t n = 0;

	for (char *line = out; line && *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, prefix, strlen(prefix)) && (*prefix || *line != '#'))
			lines[n++] = line + strlen(prefix);
	for (size_t i = 0; i < n; i++)
		lines[i] = strndup(lines[i], strcspn(lines[i], " \n"));
	qsort(lines, n, sizeof(*lines), by_string);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(lines[i - 1], lines[i]))
			fail_msg("%s%s comes twice in:\n%s", prefix, lines[i], out);
	for (size_t i = 0; i < n; i++)
		free(lines[i]);
}

static void no_two_families_share_a_name_or_a_sample(void **state)
{
	static const char *const part[] = {"a",	     "_total", "_created", "_bucket",  "_count",
					   "_sum",   "_info",  "_gauge",   "_counter", "_histogram",
					   "_state", "B",      "0",	   "_"};
	static const double bound[] = {1};
	static const uint64_t buckets[] = {1, 2};
	static const char *const states[] = {"on"};
	static const struct fixture_series one = {
		.s = {U64(1), .buckets = buckets, .bucket_count = 2, .bounds = bound,
		      .bound_count = 1, .states = states, .state_count = 1, .created_ns = 1}};

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct fixture_family families[40];
		char names[40][128];
		struct fixture f = {.families = families};
		size_t n = next_random() % 40 + 1, kept = 0, bytes;
		char *out;

		for (size_t i = 0; i < n; i++) {
			strcpy(names[i], "a");
			for (uint64_t parts = next_random() % 4; parts; parts--)
				strcat(names[i], part[next_random() % 14]);
			families[i] = (struct fixture_family){
				.f = {.name = names[i],
				      .help = "",
				      .unit = "",
				      .type = (enum export_family_type)(next_random() % 5 + 1)},
				.series = &one,
				.count = 1,
			};
		}
		qsort(families, n, sizeof(*families), by_name);
		for (size_t i = 0; i < n; i++)
			if (!i || by_name(&families[i], &families[kept - 1]))
				families[kept++] = families[i];
		f.count = kept;
		out = render(&f, EXPORT_FORMAT_OPENMETRICS, 32768, &bytes);
		assert_distinct(out, "# TYPE ");
		/* buckets differ in "le", state sets in their label: both come once here */
		assert_distinct(out, "");
		free(out);
		out = render(&f, EXPORT_FORMAT_TEXT, 32768, &bytes);
		assert_distinct(out, "# TYPE ");
		free(out);
	}
}

/* Keys that a hostile publisher might choose. */
static void no_two_labels_share_a_key(void **state)
{
	static const char *const states[] = {"on"};
	static const struct fixture_series gauge[] = {
		{.s = {U64(1), .utf8 = true}, .labels = {{"a.b", "1"}, {"a_b", "2"}}},
		{.s = {U64(2), .utf8 = true},
		 .labels = {{"U__a_2e_b", "1"}, {"a-b", "2"}, {"a.b", "3"}, {"a_b", "4"}}},
		{.s = {U64(3), .utf8 = true},
		 .labels = {{"U__a_2e_b", "1"}, {"U__a_2e_b_", "2"}, {"a.b", "3"}, {"a_b", "4"}}},
	};
	static const struct fixture_series set[] = {
		{.s = {U64(1), .states = states, .state_count = 1},
		 .labels = {{"exported_m", "1"}, {"m", "2"}}},
		{.s = {U64(0), .utf8 = true, .states = states, .state_count = 1},
		 .labels = {{"m.", "1"}, {"m_", "2"}}},
	};

	(void)state;
	check_escaped(gauge, 3, EXPORT_FAMILY_GAUGE,
		      "# TYPE m gauge\n"
		      "m{U__a_2e_b=\"1\",a_b=\"2\"} 1\n"
		      "m{U__a_2e_b=\"1\",U__a_2d_b=\"2\",U__a_2e_b_=\"3\",a_b=\"4\"} 2\n"
		      "m{U__a_2e_b=\"1\",U__a_2e_b_=\"2\",U__a_2e_b__=\"3\",a_b=\"4\"} 3\n");
	check_escaped(set, 2, EXPORT_FAMILY_STATESET,
		      "# TYPE m gauge\n"
		      "m{exported_m=\"1\",exported_m_=\"2\",m=\"on\"} 1\n"
		      "m{U__m_2e_=\"1\",m_=\"2\",m=\"on\"} 0\n");
}

static const struct fixture *looked_up;

static bool has_family(void *walk, const char *name)
{
	(void)walk;
	for (size_t i = 0; i < looked_up->count; i++)
		if (!strcmp(looked_up->families[i].f.name, name))
			return true;
	return false;
}

/*
 * "x_total" is lengthened, and would equal the escaped forms of two others, one before and one
 * after it.
 */
static void escaped_and_lengthened_names_differ(void **state)
{
	static const struct fixture_series one = {.s = {U64(1)}};
#define GAUGE(n)                                                                         \
	{                                                                                \
		.f = {.name = (n), .help = "", .unit = "", .type = EXPORT_FAMILY_GAUGE}, \
		.series = &one, .count = 1                                               \
	}
	struct fixture_family families[] = {GAUGE("x"), GAUGE("x.total_gauge"), GAUGE("x_total"),
					    GAUGE("x_total\xc3\xa4gauge_gauge")};
	struct fixture f = {.families = families, .count = 4};
	struct export_source source = fixture_source(&f);
	struct export_render *r;
	char out[4096];
	ssize_t n;

	(void)state;
	families[0].f.type = EXPORT_FAMILY_COUNTER;
	looked_up = &f;
	source.has_family = has_family;
	r = export_render_new(&source, EXPORT_FORMAT_TEXT, false);
	n = export_render_read(r, out, sizeof(out) - 1);
	assert_in_range(n, 1, sizeof(out) - 2);
	out[n] = '\0';
	export_render_free(r);
	assert_string_equal(out, "# TYPE x_total counter\nx_total 1\n"
				 "# TYPE x_total_gauge gauge\nx_total_gauge 1\n"
				 "# TYPE x_total_gauge_gauge gauge\nx_total_gauge_gauge 1\n"
				 "# TYPE U__x__total_e4_gauge__gauge gauge\n"
				 "U__x__total_e4_gauge__gauge 1\n");
}

static void a_name_too_long_is_left_out(void **state)
{
	static char long_name[EXPORT_SHOWN_NAME_MAX + 3];
	static const struct fixture_series one = {.s = {U64(1)}};
	struct fixture_family families[] = {
		{.f = {.name = "a", .help = "", .unit = "", .type = EXPORT_FAMILY_GAUGE},
		 .series = &one,
		 .count = 1},
		{.f = {.name = long_name, .help = "", .unit = "", .type = EXPORT_FAMILY_GAUGE},
		 .series = &one,
		 .count = 1},
	};
	struct fixture f = {.families = families, .count = 2};
	struct export_source source;
	struct export_render *r;
	uint64_t left_out = 0;
	char *out, buf[256];
	size_t bytes;

	(void)state;
	memset(long_name, 'b', EXPORT_SHOWN_NAME_MAX);
	out = render(&f, EXPORT_FORMAT_TEXT, 32768, &bytes);
	assert_int_equal(bytes, strlen("# TYPE a gauge\na 1\n# TYPE  gauge\n 1\n") +
					2 * EXPORT_SHOWN_NAME_MAX);
	free(out);
	long_name[EXPORT_SHOWN_NAME_MAX] = 'b';
	out = render(&f, EXPORT_FORMAT_TEXT, 32768, &bytes);
	assert_string_equal(out, "# TYPE a gauge\na 1\n");
	free(out);
	source = fixture_source(&f);
	source.left_out = &left_out;
	r = export_render_new(&source, EXPORT_FORMAT_TEXT, true);
	assert_int_equal(export_render_read(r, buf, sizeof(buf)), strlen("# TYPE a gauge\na 1\n"));
	assert_int_equal(left_out, 1);
	export_render_free(r);
}

/* ---- numbers ---- */

static const char *f64(double v)
{
	static char buf[BASE_NUMBER_MAX + 1];

	memset(buf, '!', sizeof(buf));
	*base_print_f64(buf, v) = '\0';
	assert_true(strlen(buf) <= BASE_NUMBER_MAX);
	return buf;
}

static const char *bound(double v, bool point)
{
	static char buf[BASE_NUMBER_MAX + 1];

	*base_print_bound(buf, v, point) = '\0';
	return buf;
}

static void numbers_read_well(void **state)
{
	static const struct {
		double v;
		const char *text, *bound, *point;
	} cases[] = {
		{0, "0", "0", "0.0"},
		{-0.0, "-0", "-0", "-0.0"},
		{1, "1", "1", "1.0"},
		{-1.5, "-1.5", "-1.5", "-1.5"},
		{0.1, "0.1", "0.1", "0.1"},
		{100000, "100000", "100000", "100000.0"},
		{1e6, "1000000", "1e+06", "1e+06"},
		{1234567, "1234567", "1.234567e+06", "1.234567e+06"},
		{1e21, "1e+21", "1e+21", "1e+21"},
		{123456789012345680.0, "1.2345678901234568e+17", "1.2345678901234568e+17",
		 "1.2345678901234568e+17"},
		{0.0001, "0.0001", "0.0001", "0.0001"},
		{0.00001, "0.00001", "1e-05", "1e-05"},
		{0.000001, "1e-06", "1e-06", "1e-06"},
		{1e-9, "1e-09", "1e-09", "1e-09"},
		{1e100, "1e+100", "1e+100", "1e+100"},
		{1e23, "1e+23", "1e+23", "1e+23"},
		{9007199254740991, "9007199254740991", "9.007199254740991e+15",
		 "9.007199254740991e+15"},
		{-9007199254740992, "-9007199254740992", "-9.007199254740992e+15",
		 "-9.007199254740992e+15"},
		{5e-324, "5e-324", "5e-324", "5e-324"},
		{2.2250738585072014e-308, "2.2250738585072014e-308", "2.2250738585072014e-308",
		 "2.2250738585072014e-308"},
		{1.7976931348623157e308, "1.7976931348623157e+308", "1.7976931348623157e+308",
		 "1.7976931348623157e+308"},
		{INFINITY, "+Inf", "+Inf", "+Inf"},
		{-INFINITY, "-Inf", "-Inf", "-Inf"},
		{NAN, "NaN", "NaN", "NaN"},
		{-NAN, "NaN", "NaN", "NaN"},
	};
	char buf[BASE_NUMBER_MAX + 1], should[64];
	uint64_t p = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_string_equal(f64(cases[i].v), cases[i].text);
		assert_string_equal(bound(cases[i].v, false), cases[i].bound);
		assert_string_equal(bound(cases[i].v, true), cases[i].point);
	}
	for (int i = 0; i < 20; i++, p *= 10) {
		for (uint64_t v = p - 1; v != p + 2; v++) {
			*base_print_u64(buf, v) = '\0';
			snprintf(should, sizeof(should), "%llu", (unsigned long long)v);
			assert_string_equal(buf, should);
		}
	}
	*base_print_u64(buf, UINT64_MAX) = '\0';
	assert_string_equal(buf, "18446744073709551615");
	*base_print_i64(buf, INT64_MIN) = '\0';
	assert_string_equal(buf, "-9223372036854775808");
}

/* v can be read back exactly, and no decimal with fewer digits gives v. */
static void check_double(double v)
{
	const char *text = f64(v);
	double back = strtod(text, NULL), a = fabs(v);
	char shorter[40];
	uint64_t digits;
	int e, n;

	if (memcmp(&back, &v, 8))
		fail_msg("%.17g became %s", v, text);
	if (v == 0)
		return;
	digits = base_shortest(a, &e);
	while (digits % 10 == 0) {
		digits /= 10;
		e++;
	}
	if (digits < 10)
		return;
	/* the two decimals around it with one digit fewer */
	n = snprintf(shorter, sizeof(shorter), "%llue%d", (unsigned long long)(digits / 10), e + 1);
	assert_true(n > 0 && strtod(shorter, NULL) != a);
	snprintf(shorter, sizeof(shorter), "%llue%d", (unsigned long long)(digits / 10 + 1), e + 1);
	assert_true(strtod(shorter, NULL) != a);
}

static void doubles_are_shortest_and_exact(void **state)
{
	static const double scale[] = {1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e9};
	const char *factor = getenv("SL_TEST_SCALE");
	long count = (long)(100000 * (factor ? atof(factor) : 1));
	uint64_t bits;
	double v;

	(void)state;
	for (int e = 0; e < 2047; e++) { /* powers of two and their neighbours: the hard cases */
		for (int d = -2; d <= 2; d++) {
			bits = ((uint64_t)e << 52) + (uint64_t)d;
			memcpy(&v, &bits, 8);
			if (isfinite(v))
				check_double(v);
		}
	}
	for (long i = 0; i < count; i++) {
		bits = next_random();
		memcpy(&v, &bits, 8);
		if (isfinite(v))
			check_double(v);
		check_double((double)(int64_t)(bits >> 34) / scale[bits & 7]);
		bits &= ~0ull << next_random() % 53;
		memcpy(&v, &bits, 8);
		if (isfinite(v))
			check_double(v);
	}
}

/* ---- histograms ---- */

/* Renders one histogram as text. */
static char *one_histogram(const struct export_series *s, enum export_format format)
{
	struct fixture_series series = {.s = *s};
	struct fixture_family family = {
		.f = {.name = "h", .help = "", .unit = "", .type = EXPORT_FAMILY_HISTOGRAM},
		.series = &series,
		.count = 1,
	};
	struct fixture f = {.families = &family, .count = 1};
	size_t bytes;

	return render(&f, format, 32768, &bytes);
}

/* The set of "le" must not depend on the observations, because pods are added up by it. */
static void bounds_depend_on_parameters_only(void **state)
{
	static uint64_t buckets[4098];
	char *empty, *full;

	(void)state;
	for (int scale = -4; scale <= 8; scale++) {
		for (int32_t first = -700; first <= 700; first += 175) {
			for (size_t n = 1; n <= 4098; n = n * 2 + 1) {
				struct export_series s = {.exponential = true,
							  .buckets = buckets,
							  .bucket_count = n,
							  .scale = scale,
							  .first_bucket = first,
							  .zero_threshold = 1e-12};
				size_t lines = 0, same = 0;
				const char *a, *b;

				memset(buckets, 0, sizeof(buckets));
				empty = one_histogram(&s, EXPORT_FORMAT_TEXT);
				for (size_t i = 0; i < n; i++)
					buckets[i] = 1;
				full = one_histogram(&s, EXPORT_FORMAT_TEXT);
				for (a = empty, b = full; *a && *b;) {
					same += !strncmp(a, b, strcspn(a, " "));
					lines++;
					a += strcspn(a, "\n") + 1;
					b += strcspn(b, "\n") + 1;
				}
				assert_int_equal(same, lines);
				assert_true(!*a && !*b);
				assert_true(lines <= EXPORT_TEXT_BOUNDS_MAX + 4);
				/* the count is the sum of the buckets */
				a = strstr(full, "h_count ");
				assert_non_null(a);
				assert_int_equal(strtoull(a + 8, NULL, 10), n);
				free(empty);
				free(full);
			}
		}
	}
}

/* Values that a hostile publisher may have written do no harm, however they are shown. */
static void absurd_histograms_do_no_harm(void **state)
{
	static const double bounds[] = {NAN, INFINITY, 1, 1, -5, -INFINITY};
	static const uint64_t buckets[] = {~0ull, ~0ull, 1, 0, 5, 7, 9};
	static const int scales[] = {-2000, -40, -5, -4, 0, 8, 9, 12, 40, 2000};
	static const int32_t firsts[] = {INT32_MIN, -(1 << 30),	   0,
					 1 << 30,   INT32_MAX - 1, INT32_MAX};
	static const double zeroes[] = {0, -1, NAN, INFINITY, 1e300};

	(void)state;
	for (int f = 0; f < 3; f++) {
		for (size_t n = 0; n <= 7; n++) {
			for (int i = 0; i < 10 * 6 * 5; i++) {
				struct export_series s = {.exponential = true,
							  .buckets = buckets,
							  .bucket_count = n,
							  .scale = scales[i % 10],
							  .first_bucket = firsts[i / 10 % 6],
							  .zero_threshold = zeroes[i / 60]};

				free(one_histogram(&s, formats[f]));
			}
			free(one_histogram(&(struct export_series){.buckets = buckets,
								   .bucket_count = n,
								   .bounds = bounds,
								   .bound_count = n ? n - 1 : 0},
					   formats[f]));
		}
	}
}

/* ---- negotiation ---- */

static void the_format_is_what_was_asked_for(void **state)
{
#define OM "application/openmetrics-text"
#define PB \
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	static const struct {
		const char *accept;
		enum export_format format;
	} cases[] = {
		{NULL, EXPORT_FORMAT_TEXT},
		{"", EXPORT_FORMAT_TEXT},
		{"*/*", EXPORT_FORMAT_TEXT},
		/* Prometheus 2.42, without and with native histograms */
		{OM ";version=1.0.0," OM
		    ";version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		 EXPORT_FORMAT_OPENMETRICS},
		{PB "," OM ";version=1.0.0;q=0.8," OM
		    ";version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		 EXPORT_FORMAT_PROTOBUF},
		/* Prometheus 2.26 and 3 */
		{OM "; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		 EXPORT_FORMAT_OPENMETRICS},
		{PB ";q=0.6," OM ";version=1.0.0;escaping=allow-utf-8;q=0.5," OM
		    ";version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
		    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
		 EXPORT_FORMAT_PROTOBUF},
		{"text/plain;version=0.0.4;q=0.9," OM ";version=1.0.0;q=0.8", EXPORT_FORMAT_TEXT},
		{"text/plain;q=0," OM ";q=0.001", EXPORT_FORMAT_OPENMETRICS},
		{OM ";q=0,*/*;q=0.1", EXPORT_FORMAT_TEXT},
		{OM "; version=\"1.0.0\" ; charset=utf-8", EXPORT_FORMAT_OPENMETRICS},
		{"APPLICATION/OpenMetrics-Text;VERSION=1.0.0", EXPORT_FORMAT_OPENMETRICS},
		{OM ";version=2.0.0", EXPORT_FORMAT_TEXT},
		{"application/vnd.google.protobuf", EXPORT_FORMAT_TEXT},
		{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
		 "encoding=text",
		 EXPORT_FORMAT_TEXT},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		 EXPORT_FORMAT_TEXT},
		{"application/json", EXPORT_FORMAT_TEXT},
		{",;,;;q=,q=1;=,\",;\"" OM, EXPORT_FORMAT_TEXT},
		{OM "," PB, EXPORT_FORMAT_OPENMETRICS}, /* equal: the first */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (export_format_negotiate(cases[i].accept) != cases[i].format)
			fail_msg("%s gave %d", cases[i].accept,
				 export_format_negotiate(cases[i].accept));
	assert_string_equal(export_format_content_type(EXPORT_FORMAT_TEXT, false),
			    "text/plain; version=0.0.4; charset=utf-8");
	assert_string_equal(export_format_content_type(EXPORT_FORMAT_OPENMETRICS, false),
			    "application/openmetrics-text; version=1.0.0; charset=utf-8");
	assert_string_equal(export_format_content_type(EXPORT_FORMAT_PROTOBUF, false),
			    "application/vnd.google.protobuf; "
			    "proto=io.prometheus.client.MetricFamily; encoding=delimited");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_as_reviewed),
		cmocka_unit_test(openmetrics_is_as_reviewed),
		cmocka_unit_test(an_empty_source_is_well_formed),
		cmocka_unit_test(bytes_do_not_depend_on_how_they_are_read),
		cmocka_unit_test(a_walk_that_fails_ends_the_body),
		cmocka_unit_test(a_walk_that_cannot_begin_is_an_error),
		cmocka_unit_test(memory_is_bounded_however_much_there_is),
		cmocka_unit_test(any_number_of_renderers_at_once),
		cmocka_unit_test(no_two_families_share_a_name_or_a_sample),
		cmocka_unit_test(no_two_labels_share_a_key),
		cmocka_unit_test(escaped_and_lengthened_names_differ),
		cmocka_unit_test(a_name_too_long_is_left_out),
		cmocka_unit_test(numbers_read_well),
		cmocka_unit_test(doubles_are_shortest_and_exact),
		cmocka_unit_test(bounds_depend_on_parameters_only),
		cmocka_unit_test(absurd_histograms_do_no_harm),
		cmocka_unit_test(the_format_is_what_was_asked_for),
	};

	golden_dir = argc > 1 ? argv[1] : "golden";
	return cmocka_run_group_tests_name("render", tests, NULL, NULL);
}
