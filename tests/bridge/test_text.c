// SPDX-License-Identifier: Apache-2.0
/* test_text.c - how text 0.0.4 and OpenMetrics are read or refused. */
#include "support/test.h"

#include <errno.h>

#include "record.h"
#include "bridge/text.h"

struct one {
	struct bridge_text_parser *parser;
	struct bridge_error error;
	struct record record;
	char *text;
	int err;
};

static void read_with(struct one *o, enum bridge_text_format format, const char *body, size_t n)
{
	char *exact = malloc(n + 1); /* so that a read beyond its end is seen */

	free(o->text);
	memcpy(exact, body, n);
	exact = realloc(exact, n ? n : 1);
	record_begin(&o->record);
	o->err = bridge_text_read(o->parser, format, exact, n, &o->record.sink, &o->error);
	o->text = record_end(&o->record);
	free(exact);
}

static void end(struct one *o)
{
	free(o->text);
	bridge_text_free(o->parser);
}

static void reads(enum bridge_text_format format, const char *body, const char *what)
{
	struct one o = {.parser = bridge_text_new(NULL)};

	read_with(&o, format, body, strlen(body));
	if (o.err)
		print_error("line %u: %s\n", o.error.line, o.error.text);
	assert_int_equal(o.err, 0);
	assert_string_equal(o.text, what);
	end(&o);
}

static void refuses(enum bridge_text_format format, const char *body, uint32_t line,
		    const char *why)
{
	struct one o = {.parser = bridge_text_new(NULL)};

	read_with(&o, format, body, strlen(body));
	assert_int_equal(o.err, -EINVAL);
	assert_string_equal(o.text, "");
	assert_string_equal(o.error.text, why);
	assert_int_equal(o.error.line, line);
	end(&o);
}

/* ---- numbers ---- */

static void a_number_is_that_of_strtod(void **state)
{
	static const char *const same[] = {"0",
					   "-0",
					   "1",
					   "42",
					   "0.1",
					   "1e22",
					   "1e23",
					   "9007199254740993",
					   "1.7976931348623157e308",
					   "4.9e-324",
					   "2.2250738585072011e-308",
					   "123456789012345678",
					   "18446744073709551615",
					   "18446744073709551616",
					   "1.00000000000000011102230246251565",
					   "1e400",
					   "1e-400",
					   "0.000000000000000000000000000000001",
					   "5e-324",
					   ".5",
					   "5.",
					   "1690123456.789",
					   "9223372036854775807",
					   "7.2057594037927933e16",
					   "8.5e27",
					   "3.5844466002796428e+298"};
	uint64_t x = 88172645463325252ull;
	double v;

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
		const char *e = same[i] + strlen(same[i]);

		assert_ptr_equal(bridge_number(same[i], e, &v), e);
		assert_true(v == strtod(same[i], NULL));
	}
	/* Random bits with 1 to 21 digits: some numbers are read without strtod(). */
	for (int i = 0; i < 300000; i++) {
		double want;
		char text[64];

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		if (i % 3)
			want = (double)(int64_t)x / (double)(1ull << (i % 64));
		else
			memcpy(&want, &x, sizeof(want));
		if (!isfinite(want))
			continue;
		snprintf(text, sizeof(text), "%.*g", 1 + i % 21, want);
		want = strtod(text, NULL);
		assert_non_null(bridge_number(text, text + strlen(text), &v));
		if (memcmp(&v, &want, sizeof(v)))
			print_error("%s\n", text);
		assert_memory_equal(&v, &want, sizeof(v));
	}
}

/* Products of more than 53 bits must not be rounded twice. */
static void numbers_are_rounded_once(void **state)
{
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (int i = 0; i < 300000; i++) {
		double want, v;
		char text[64];

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		snprintf(text, sizeof(text), "%llue%d", (unsigned long long)x >> (i % 12),
			 i % 55 - 27);
		want = strtod(text, NULL);
		assert_non_null(bridge_number(text, text + strlen(text), &v));
		if (memcmp(&v, &want, sizeof(v)))
			print_error("%s\n", text);
		assert_memory_equal(&v, &want, sizeof(v));
	}
}

static void a_number_ends_where_it_does(void **state)
{
	static const struct {
		const char *text;
		int length; /* -1: none */
	} cases[] = {{"1_2", 1},   {"0x1p-3", 1}, {"1e", -1},	{"1e+", -1},	  {"", -1},
		     {"-", -1},	   {".", -1},	  {"+Inf ", 4}, {"-infinity", 9}, {"nAn}", 3},
		     {"1.1.1", 3}, {"e5", -1},	  {"--1", -1},	{"0b1", 1},	  {" 1", -1}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *s = cases[i].text, *stop;
		double v;

		stop = bridge_number(s, s + strlen(s), &v);
		assert_int_equal(stop ? stop - s : -1, cases[i].length);
	}
}

/* ---- what is read ---- */

static void seconds_are_exact(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{"1700000000", 1700000000000000000},
		{"1700000000.1234567", 1700000000123456700},
		{"1.7000000001234567e+09", 1700000000123456700},
		{"1.5e-3 ", 1500000},
		{"0.0000000019", 1},
		{"17000000000000000000000e-13", 1700000000000000000},
		{"1e30", 0},
		{"99999999999999999999999", 0},
		{"1e999999999999", 0},
		{"1e-999999999999", 0},
		{"0e9", 0},
		{"", 0},
		{"x", 0},
		{"1e", 1000000000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (bridge_seconds_ns(cases[i].text, cases[i].text + strlen(cases[i].text)) !=
		    cases[i].ns)
			fail_msg("%s", cases[i].text);
}

static void text_keeps_types_help_and_labels(void **state)
{
	(void)state;
	reads(BRIDGE_TEXT_004,
	      "# HELP http_requests_total The \\\\ total\\n number.\n"
	      "# TYPE http_requests_total counter\n"
	      "http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n"
	      "http_requests_total{method=\"post\",code=\"400\",}    3 1395066363000\n"
	      "\n"
	      "# a comment\n"
	      "msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\F.TXT\",error=\"no \\\"x\\\"\\n\"} 1.5e9\n"
	      "  metric_without_timestamp_and_labels \t 12.47  \n"
	      "something_weird{problem=\"division by zero\"} +Inf -3982045\n"
	      "empty{a=\"\"} NaN\n",
	      "counter http_requests_total help=The \\ total\n number.\n"
	      "  {code=200,method=post} 1027\n"
	      "  {code=400,method=post} 3\n"
	      "unknown msdos_file_access_time_seconds\n"
	      "  {error=no \"x\"\n,path=C:\\DIR\\F.TXT} 1500000000\n"
	      "unknown metric_without_timestamp_and_labels\n  {} 12.47\n"
	      "unknown something_weird\n  {problem=division by zero} +Inf\n"
	      "unknown empty\n  {a=} NaN\n");
}

static void text_joins_the_samples_of_a_point(void **state)
{
	(void)state;
	/*
	 * The samples of two label sets are mixed, and one histogram has no +Inf, as some programs
	 * write.
	 */
	reads(BRIDGE_TEXT_004,
	      "# TYPE h histogram\n"
	      "h_bucket{x=\"1\",le=\"0.5\"} 2\n"
	      "h_bucket{le=\"0.5\",x=\"2\"} 7\n"
	      "h_bucket{x=\"1\",le=\"+Inf\"} 3\n"
	      "h_sum{x=\"1\"} 4.5\nh_count{x=\"1\"} 3\n"
	      "h_sum{x=\"2\"} 1\nh_count{x=\"2\"} 8\n"
	      "# TYPE s summary\n"
	      "s{quantile=\"0.9\"} 3\ns{quantile=\"0.5\"} NaN\ns_sum 17\ns_count 2\n"
	      "h_bucket{x=\"3\",le=\"1\"} 1\n",
	      "histogram h\n"
	      "  {x=1} 4.5 3 2 3 | 0.5\n"
	      "  {x=2} 1 8 7 8 | 0.5\n"
	      "summary s\n"
	      "  {} 17 2 NaN 3 | 0.5 0.9\n"
	      "histogram h\n"
	      "  {x=3} NaN NaN 1 1 | 1\n");
}

/* Prometheus takes each sample of text 0.0.4 by itself; node_exporter refuses such text files. */
static void odd_samples_cost_no_others(void **state)
{
	static const char late[] = "a 1\n# HELP a Late.\n# TYPE a counter\na{x=\"1\"} 2\n";
	static const char odd[] =
		"# TYPE s summary\ns{quantile=\"50\"} 1\ns 4\ns_sum 3\ns_count 2\n"
		"# TYPE h histogram\nh_bucket 1\nh_bucket{le=\"x\"} 1\n"
		"h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\n";
	const char *const both[] = {late, odd};
	struct one o = {.parser = bridge_text_new(NULL)};

	(void)state;
	reads(BRIDGE_TEXT_004, late,
	      "unknown a help=Late.\n  {} 1\ncounter a help=Late.\n  {x=1} 2\n");
	for (int i = 1; i <= 2; i++) {
		read_with(&o, BRIDGE_TEXT_004, odd, strlen(odd));
		assert_int_equal(o.err, 0);
		assert_string_equal(o.text, "summary s\n  {} 3 2\n"
					    "histogram h\n  {} NaN NaN 1 2 | 1\n");
		assert_int_equal(bridge_text_counts(o.parser).refused, 4);
	}
	end(&o);
	for (size_t i = 0; i < 2; i++) {
		o = (struct one){
			.parser = bridge_text_new(&(struct bridge_limits){.untimed = true})};
		read_with(&o, BRIDGE_TEXT_004, both[i], strlen(both[i]));
		assert_int_equal(o.err, -EINVAL);
		end(&o);
	}
}

static void openmetrics_keeps_all_of_its_kinds(void **state)
{
	(void)state;
	reads(BRIDGE_OPENMETRICS,
	      "# TYPE req_seconds counter\n# UNIT req_seconds seconds\n# HELP req_seconds Time.\n"
	      "req_seconds_total{a=\"1\"} 17.5 # {trace_id=\"0a\"} 0.25 1520879600.5\n"
	      "req_seconds_created{a=\"1\"} 1520872607.123\n"
	      "# TYPE build info\nbuild_info{version=\"8.2\"} 1\n"
	      "# TYPE state stateset\nstate{state=\"a\",z=\"0\"} 1\nstate{state=\"b\",z=\"0\"} 0\n"
	      "# TYPE g gaugehistogram\ng_bucket{le=\"0.01\"} 20\ng_bucket{le=\"+Inf\"} 34 # {} 9\n"
	      "g_gcount 34\ng_gsum 3289.3\n"
	      "# TYPE u unknown\nu 1\n"
	      "# EOF\n",
	      "counter req_seconds_total unit=seconds help=Time.\n"
	      "  {a=1} 17.5 created=1520872607123 #0{trace_id=0a}0.25@1520879600500\n"
	      "info build_info\n  {version=8.2}\n"
	      "stateset state\n  {z=0} 1 0 | a b\n"
	      "gaugehistogram g\n  {} 3289.3 34 20 34 | 0.01 #3{}9\n"
	      "unknown u\n  {} 1\n");
}

static void names_may_be_quoted(void **state)
{
	(void)state;
	reads(BRIDGE_TEXT_004,
	      "# HELP \"my.noncompliant.metric\" help\n# TYPE \"my.noncompliant.metric\" counter\n"
	      "{\"my.noncompliant.metric\",\"label.key\"=\"v\",b=\"\xc3\xa4\"} 5\n"
	      "{\"another \\\"one\\\"\"} 6\n",
	      "counter my.noncompliant.metric help=help\n"
	      "  {b=\xc3\xa4,label.key=v} 5\n"
	      "unknown another \"one\"\n  {} 6\n");
	refuses(BRIDGE_TEXT_004, "a{\"b\"} 1\n", 1, "expected a label, but found a quoted name");
	refuses(BRIDGE_TEXT_004, "{} 1\n", 1, "malformed name");
}

/* ---- what is refused: as a whole, with the line ---- */

static void what_is_malformed_is_refused_with_its_line(void **state)
{
	(void)state;
	refuses(BRIDGE_TEXT_004, "a 1\nb{x=\"1\" 2\n", 2, "a comma is missing between labels");
	refuses(BRIDGE_TEXT_004, "a 1\nb\n", 2, "the value is missing, or the name is malformed");
	refuses(BRIDGE_TEXT_004, "a{x=\"1\",x=\"2\"} 1\n", 1, "duplicate label name");
	refuses(BRIDGE_TEXT_004, "a 1 2 3\n", 1, "there is text after the value");
	refuses(BRIDGE_TEXT_004, "a 1 # {} 1\n", 1, "there is text after the value");
	refuses(BRIDGE_TEXT_004, "a 1 1.5\n", 1, "malformed timestamp");
	refuses(BRIDGE_TEXT_004, "# TYPE a nothing\n", 1, "unknown type 'nothing'");
	refuses(BRIDGE_TEXT_004, "a{x=\"\\", 1, "the value of label 'x' is not terminated");
	refuses(BRIDGE_TEXT_004, "a{x=\"\x1b[2J", 1, "the value of label 'x' is not terminated");
	refuses(BRIDGE_OPENMETRICS, "a 1\n", 1, "# EOF is missing: the body is truncated");
	refuses(BRIDGE_OPENMETRICS, "a 1\n# EOF\n\n", 3, "there is text after # EOF");
	refuses(BRIDGE_OPENMETRICS, "a\t1\n# EOF\n", 1,
		"the value is missing, or the name is malformed");
	refuses(BRIDGE_OPENMETRICS, "# TYPE a counter\na_total -1\n# EOF\n", 2, "a negative count");
	refuses(BRIDGE_OPENMETRICS, "# TYPE a gauge\na 1\na{x=\"\"} 1\na 1\n# EOF\n", 4,
		"the samples of a metric are not consecutive");
	refuses(BRIDGE_OPENMETRICS, "# TYPE a_total gauge\n# TYPE a counter\n# EOF\n", 3,
		"another family already uses the name of family 'a'");
	refuses(BRIDGE_OPENMETRICS,
		"# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\n# EOF\n", 3,
		"a bucket is smaller than the previous one");
}

static void more_than_the_limits_is_refused(void **state)
{
	const struct bridge_limits limits = {.points = 3, .values = 8};
	struct one o = {.parser = bridge_text_new(&limits)};

	(void)state;
	read_with(&o, BRIDGE_TEXT_004, "a 1\nb 1\nc 1\n", 12);
	assert_int_equal(o.err, 0);
	read_with(&o, BRIDGE_TEXT_004, "a 1\nb 1\nc 1\nd 1\n", 16);
	assert_int_equal(o.err, -E2BIG);
	assert_string_equal(o.error.text, "more than 3 series or 8 values");
	assert_string_equal(o.text, "");
	end(&o);
}

/* Empty lines and descriptions of families cause work as well. */
static void lines_families_and_labels_are_limited(void **state)
{
	const struct bridge_limits limits = {.points = 3, .values = 8};
	struct one o = {.parser = bridge_text_new(&limits)};
	char labels[20000] = "a{", *to = labels + 2;
	const char *types = "# TYPE a gauge\n# TYPE b gauge\n# TYPE c gauge\n# TYPE d gauge\n";

	(void)state;
	read_with(&o, BRIDGE_TEXT_004, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\na 1\n", 19);
	assert_int_equal(o.err, 0);
	read_with(&o, BRIDGE_TEXT_004, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\na 1\n", 20);
	assert_int_equal(o.err, -E2BIG);
	assert_string_equal(o.error.text, "more than 16 lines");
	read_with(&o, BRIDGE_TEXT_004, types, strlen(types) - strlen("# TYPE d gauge\n"));
	assert_int_equal(o.err, 0);
	read_with(&o, BRIDGE_TEXT_004, types, strlen(types));
	assert_int_equal(o.err, -E2BIG);
	assert_string_equal(o.error.text, "more than 3 families");
	end(&o);
	for (int i = 0; i < 1025; i++)
		to += sprintf(to, "l%d=\"\",", i);
	strcpy(to, "} 1\n");
	refuses(BRIDGE_TEXT_004, labels, 1, "more than 1024 labels");
}

/* ---- the shape of a body ---- */

#define SHAPE                                                                         \
	"# HELP a Help.\n# TYPE a gauge\na{x=\"1\"} %s\na{x=\"2\"} 5 1395066363000\n" \
	"# TYPE h histogram\nh_bucket{le=\"1\"} %s\nh_bucket{le=\"+Inf\"} 9\n"        \
	"h_sum 1.5\nh_count %s\n"

static void read_shape(struct one *o, const char *a, const char *h, const char *count)
{
	char body[512];
	int n = snprintf(body, sizeof(body), SHAPE, a, h, count);

	read_with(o, BRIDGE_TEXT_004, body, (size_t)n);
}

static void a_body_of_the_same_shape_brings_values_alone(void **state)
{
	struct one o = {.parser = bridge_text_new(NULL)};
	const double want[] = {17.25, 5, 1.5, 9, 3, 9};
	const char *less = "# HELP a Help.\n# TYPE a gauge\na{x=\"1\"} 8\n";

	(void)state;
	read_shape(&o, "1", "4", "9");
	assert_int_equal(o.record.points, 3);
	assert_int_equal(o.record.repeats, 0);
	read_shape(&o, "17.25", "3", "9");
	assert_int_equal(o.err, 0);
	assert_int_equal(o.record.points, 0);
	assert_int_equal(o.record.repeats, 1);
	assert_int_equal(o.record.last_count, 6);
	assert_memory_equal(o.record.last, want, sizeof(want));
	assert_true(bridge_text_counts(o.parser).same_shape);
	/* The next number is malformed: nothing is accepted, and the error names the line. */
	read_shape(&o, "17.2.5", "3", "9");
	assert_int_equal(o.err, -EINVAL);
	assert_int_equal(o.error.line, 3);
	assert_int_equal(o.record.repeats, 0);
	assert_string_equal(o.text, "");
	/* After an error, everything is passed on again. */
	read_shape(&o, "2", "3", "9");
	assert_int_equal(o.record.points, 3);
	read_shape(&o, "3", "3", "9");
	assert_int_equal(o.record.repeats, 1);
	/* A body with more or fewer lines has another shape. */
	read_with(&o, BRIDGE_TEXT_004, less, strlen(less));
	assert_string_equal(o.text, "gauge a help=Help.\n  {x=1} 8\n");
	end(&o);
}

static size_t untimely(struct one *o, enum bridge_text_format format, double from, const char *body)
{
	const struct bridge_window w = {from, from + 10};

	bridge_text_set_window(o->parser, &w);
	read_with(o, format, body, strlen(body));
	assert_int_equal(o->err, 0);
	return bridge_text_counts(o->parser).untimely;
}

static void points_of_other_times_are_left_out(void **state)
{
	static const char timed[] = "a 1 100000\nb 2 109000\nc 3\n";
	static const char open[] = "# TYPE a gauge\na 1 90\na 2 100\nb 3 105.5\n# EOF\n";
	struct one o = {.parser = bridge_text_new(NULL)};

	(void)state;
	assert_int_equal(untimely(&o, BRIDGE_TEXT_004, 99, timed), 0);
	assert_int_equal(untimely(&o, BRIDGE_TEXT_004, 99.5, timed), 0);
	assert_int_equal(o.record.repeats, 1);
	assert_int_equal(untimely(&o, BRIDGE_TEXT_004, 98, timed), 1); /* b is ahead */
	assert_string_equal(o.text, "unknown a\n  {} 1\nunknown c\n  {} 3\n");
	/* It is again: no shape says so, as b is not where the sink could find it. */
	assert_int_equal(untimely(&o, BRIDGE_TEXT_004, 99, timed), 0);
	assert_int_equal(o.record.points, 3);
	assert_int_equal(untimely(&o, BRIDGE_TEXT_004, 100.001, timed), 1); /* a is old */
	assert_string_equal(o.text, "unknown b\n  {} 2\nunknown c\n  {} 3\n");
	/* The same bytes later; if there are several samples, the last one counts. */
	assert_int_equal(untimely(&o, BRIDGE_OPENMETRICS, 100, open), 0);
	assert_int_equal(untimely(&o, BRIDGE_OPENMETRICS, 100, open), 0);
	assert_int_equal(untimely(&o, BRIDGE_OPENMETRICS, 101, open), 1);
	assert_string_equal(o.text, "unknown b\n  {} 3\n");
	end(&o);
}

static void a_shape_keeps_what_openmetrics_demands(void **state)
{
#define BODY(total, created, low, high, count)                                            \
	"# TYPE a counter\na_total " total "\na_created " created                         \
	"\n# TYPE h histogram\nh_bucket{le=\"1.0\"} " low "\nh_bucket{le=\"+Inf\"} " high \
	"\nh_count " count "\nh_sum 1\n# EOF\n"
	static const struct {
		const char *body;
		int err;
		bool repeats;
	} cases[] = {
		{BODY("1", "1520872607.5", "1", "2", "2"), 0, false},
		{BODY("2", "1520872607.5", "2", "3", "3"), 0, true},
		{BODY("2", "1520872607.5", "4", "3", "3"), -EINVAL, false},
		{BODY("1", "1520872607.5", "1", "2", "2"), 0, false},
		{BODY("1", "1520872607.5", "1", "2", "3"), -EINVAL, false},
		{BODY("1", "1520872607.5", "1", "2", "2"), 0, false},
		{BODY("-1", "1520872607.5", "1", "2", "2"), -EINVAL, false},
		{BODY("1", "1520872607.5", "1", "2", "2"), 0, false},
		{BODY("1", "1520872608.5", "1", "2", "2"), 0, false}, /* it began anew */
		{BODY("1", "1520872608.5", "1", "2", "2"), 0, true},
		{BODY("NaN", "1520872608.5", "1", "2", "2"), -EINVAL, false},
	};
	struct one o = {.parser = bridge_text_new(NULL)};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		read_with(&o, BRIDGE_OPENMETRICS, cases[i].body, strlen(cases[i].body));
		assert_int_equal(o.err, cases[i].err);
		assert_int_equal(o.record.repeats, cases[i].repeats);
	}
	end(&o);
}

/* One parser reads bodies in turn like a new one: nothing kept of one body appears in another. */
static void a_parser_forgets_the_body_before(void **state)
{
	static const char *const bodies[] = {
		"a 1\n",
		"a 1\nb 2\n",
		"# TYPE a counter\na 1\n",
		"a{x=\"\\n\"} 1\n",
		"",
		"a 1",
		"# TYPE h histogram\nh_bucket{le=\"1\"} 1\n",
		"# TYPE h summary\nh_sum 1\n",
		"x",
		"# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 2\n",
		"a 1\na 2\na 3\n",
		"# TYPE a gauge\na 1 5\na 2 6\n"};
	const size_t n = sizeof(bodies) / sizeof(*bodies);
	struct one o = {.parser = bridge_text_new(NULL)};

	(void)state;
	for (size_t i = 0; i < n * n * 2; i++) {
		const char *body = bodies[i % 2 ? i / 2 % n : i / 2 / n];
		struct one fresh = {.parser = bridge_text_new(NULL)};

		read_with(&o, BRIDGE_TEXT_004, body, strlen(body));
		read_with(&fresh, BRIDGE_TEXT_004, body, strlen(body));
		assert_int_equal(o.err, fresh.err);
		if (o.record.repeats)
			assert_int_equal(bridge_text_counts(o.parser).points, fresh.record.points);
		else
			assert_string_equal(o.text, fresh.text);
		end(&fresh);
	}
	end(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_is_that_of_strtod),
		cmocka_unit_test(numbers_are_rounded_once),
		cmocka_unit_test(a_number_ends_where_it_does),
		cmocka_unit_test(seconds_are_exact),
		cmocka_unit_test(text_keeps_types_help_and_labels),
		cmocka_unit_test(text_joins_the_samples_of_a_point),
		cmocka_unit_test(odd_samples_cost_no_others),
		cmocka_unit_test(openmetrics_keeps_all_of_its_kinds),
		cmocka_unit_test(names_may_be_quoted),
		cmocka_unit_test(what_is_malformed_is_refused_with_its_line),
		cmocka_unit_test(more_than_the_limits_is_refused),
		cmocka_unit_test(lines_families_and_labels_are_limited),
		cmocka_unit_test(a_body_of_the_same_shape_brings_values_alone),
		cmocka_unit_test(points_of_other_times_are_left_out),
		cmocka_unit_test(a_shape_keeps_what_openmetrics_demands),
		cmocka_unit_test(a_parser_forgets_the_body_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
