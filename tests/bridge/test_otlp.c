// SPDX-License-Identifier: Apache-2.0
/* test_otlp.c - how bodies of OTLP/HTTP metrics are read or refused. */
#include "support/test.h"

#include <errno.h>

#include "record.h"
#include "bridge/otlp.h"

static struct record record;
static bool refuse;
static struct bridge_otlp_counts *short_of_regions;

static struct base_table known;
static const struct bridge_otlp_opts *opts;

static struct bridge_sink *resource(void *arg, const struct bridge_otlp_identity *id,
				    struct base_table **names)
{
	(void)arg;
	*names = &known;
	if (short_of_regions)
		short_of_regions->unserved = OTLP_REGIONS;
	if (refuse)
		return NULL;
	fputs("resource ", record.to);
	record_text(record.to, id->service);
	fputc('/', record.to);
	record_text(record.to, id->instance);
	fputc('\n', record.to);
	return &record.sink;
}

static int read_body(const void *body, size_t n, bool json, struct bridge_otlp_counts *c,
		     char **text)
{
	struct bridge_otlp *o = bridge_otlp_new(opts);
	struct bridge_error e = {.text = ""};
	char *exact = malloc(n ? n : 1); /* so that a read beyond its end is seen */
	int err;

	assert_non_null(o);
	memcpy(exact, body, n);
	record_begin(&record);
	err = bridge_otlp_read(o, exact, n, json, resource, NULL, c, &e);
	assert_true(!err || *e.text);
	*text = record_end(&record);
	free(exact);
	bridge_otlp_free(o);
	bridge_otlp_names_free(&known);
	return err;
}

#define BODY(metrics)                                                                                     \
	"{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","                 \
	"\"value\":{\"stringValue\":\"shop\"}},{\"key\":\"service.instance.id\",\"value\":"               \
	"{\"stringValue\":\"a1\"}}]},\"scopeMetrics\":[{\"scope\":{\"name\":\"x\"},\"metrics\":[" metrics \
	"]}]}]}"

static uint64_t refusals(const struct bridge_otlp_counts *c)
{
	uint64_t n = 0;

	for (int i = 0; i < OTLP_CAUSES; i++)
		n += c->refused[i];
	return n;
}

static void reads(const char *body, const char *what, uint64_t points, uint64_t refused)
{
	struct bridge_otlp_counts c = {0};
	char *text;

	assert_int_equal(read_body(body, strlen(body), true, &c, &text), 0);
	assert_string_equal(text, what);
	assert_int_equal(c.points, points);
	assert_int_equal(refusals(&c), refused);
	free(text);
}

static void all_kinds_are_read(void **state)
{
	(void)state;
	reads(BODY("{\"name\":\"http.requests\",\"description\":\"Requests.\",\"unit\":\"1\",\"sum\":"
		   "{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":[{\"attributes\":["
		   "{\"key\":\"http.route\",\"value\":{\"stringValue\":\"/cart\"}},{\"key\":\"code\","
		   "\"value\":{\"intValue\":\"200\"}},{\"key\":\"ok\",\"value\":{\"boolValue\":true}}],"
		   "\"startTimeUnixNano\":\"1544712660000000000\",\"asInt\":\"17\"}]}},"
		   "{\"name\":\"9temp\",\"gauge\":{\"dataPoints\":[{\"asDouble\":-1.5}]}},"
		   "{\"name\":\"queue\",\"sum\":{\"aggregationTemporality\":1,\"dataPoints\":["
		   "{\"asInt\":-3}]}}"),
	      "resource shop/a1\n"
	      "counter http_requests_total help=Requests.\n"
	      "  {code=200,http_route=/cart,ok=true,otel_scope_name=x} 17 created=1544712660000\n"
	      "gauge _9temp\n  {otel_scope_name=x} -1.5\n"
	      "gauge queue\n  {otel_scope_name=x} -3 delta\n",
	      3, 0);
	reads(BODY("{\"name\":\"h\",\"unit\":\"s\",\"histogram\":{\"aggregationTemporality\":2,"
		   "\"dataPoints\":[{\"count\":\"6\",\"sum\":4.5,\"bucketCounts\":[\"1\",2,\"3\"],"
		   "\"explicitBounds\":[0.5,1]}]}},"
		   "{\"name\":\"e\",\"exponentialHistogram\":{\"aggregationTemporality\":1,\"dataPoints\":"
		   "[{\"count\":6,\"sum\":9,\"scale\":-1,\"zeroCount\":\"2\",\"positive\":{\"offset\":-3,"
		   "\"bucketCounts\":[\"1\",0,3]},\"negative\":{\"bucketCounts\":[4]}}]}},"
		   "{\"name\":\"s\",\"summary\":{\"dataPoints\":[{\"count\":\"2\",\"sum\":5,"
		   "\"quantileValues\":[{\"quantile\":0.5,\"value\":1},{\"quantile\":1,\"value\":\"NaN\"}]}]}}"),
	      "resource shop/a1\n"
	      "histogram h_seconds unit=seconds\n  {otel_scope_name=x} 4.5 6 1 3 6 | 0.5 1\n"
	      "histogram e\n  {otel_scope_name=x} 9 6 scale=-1 first=-2 zero=2 1 0 3 negative=4 delta\n"
	      "summary s\n  {otel_scope_name=x} 5 2 1 NaN | 0.5 1\n",
	      3, 0);
}

static void exemplars_are_kept_with_their_bucket(void **state)
{
	(void)state;
	reads(BODY("{\"name\":\"h\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":[{\"count\":\"6\","
		   "\"sum\":4.5,\"bucketCounts\":[\"1\",2,\"3\"],\"explicitBounds\":[0.5,1],\"exemplars\":["
		   "{\"timeUnixNano\":\"1544712660000000000\",\"asDouble\":0.75,\"spanId\":\"00F067aa0ba902b7\","
		   "\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"filteredAttributes\":[{\"key\":\"user.id\","
		   "\"value\":{\"stringValue\":\"7\"}}]},{\"asInt\":\"9\"}]}]}},"
		   "{\"name\":\"c_total\",\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":["
		   "{\"asInt\":1,\"exemplars\":[{\"asInt\":1}]}]}}"),
	      "resource shop/a1\n"
	      "histogram h\n  {otel_scope_name=x} 4.5 6 1 3 6 | 0.5 1 #3{span_id=00f067aa0ba902b7,"
	      "trace_id=4bf92f3577b34da6a3ce929d0e0e4736,user_id=7}0.75@1544712660000 #4{}9\n"
	      "counter c_total\n  {otel_scope_name=x} 1 #2{}1\n",
	      2, 0);
}

/*
 * The body belongs to the sender: exemplars take neither unbounded memory nor references to its
 * labels.
 */
static void exemplars_beyond_bounds_are_left_out(void **state)
{
	enum { MOST = 4096, MORE = 10, LONG = 100 << 10 };
	struct bridge_otlp_counts c = {0};
	char *body, *text, *at;
	size_t bytes, kept = 0;
	FILE *to = open_memstream(&body, &bytes);

	(void)state;
	fputs("{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"g\",\"sum\":"
	      "{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":[{\"asInt\":1,\"exemplars\":[{\"asInt\":1}",
	      to);
	for (int i = 1; i < MOST + MORE; i++)
		fputs(",{\"asInt\":1}", to);
	fprintf(to,
		"]},{\"asInt\":2,\"exemplars\":[{\"asInt\":3,\"filteredAttributes\":[{\"key\":"
		"\"%0*d\",\"value\":{\"intValue\":1}}]},{\"asInt\":4}],\"attributes\":[{\"key\":"
		"\"%0*d\",\"value\":{\"stringValue\":\"here\"}}]}]}}]}]}]}",
		LONG, 0, LONG / 2, 0);
	fclose(to);
	assert_int_equal(read_body(body, bytes, true, &c, &text), 0);
	for (at = text; (at = strchr(at, '#')); at++)
		kept++;
	assert_int_equal(kept, MOST + 1);
	assert_non_null(strstr(text, "=here} 2 #2{}4\n"));
	assert_int_equal(c.points, 2);
	assert_int_equal(refusals(&c), 0);
	assert_int_equal(c.exemplars_left_out, MORE + 1);
	free(text);
	free(body);
}

static void what_has_no_meaning_is_refused_and_counted(void **state)
{
	(void)state;
	/* Without temporality; bounds not ascending; more buckets than bounds; no value. */
	reads(BODY("{\"name\":\"a\",\"sum\":{\"dataPoints\":[{\"asInt\":1}]}},"
		   "{\"name\":\"b\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
		   "{\"count\":1,\"bucketCounts\":[1,0,0],\"explicitBounds\":[1,1]},"
		   "{\"count\":1,\"bucketCounts\":[1,0,0],\"explicitBounds\":[1]}]}},"
		   "{\"name\":\"c\",\"gauge\":{\"dataPoints\":[{},{\"flags\":1},{\"asInt\":5}]}}"),
	      "resource shop/a1\ngauge a\nhistogram b\ngauge c\n  {otel_scope_name=x} 5\n", 1, 4);
	refuse = true;
	reads(BODY("{\"name\":\"c\",\"gauge\":{\"dataPoints\":[{\"asInt\":5}]}}"), "", 0, 1);
	refuse = false;
}

static void malformed_bodies_are_refused_whole(void **state)
{
	static const char *const bodies[] = {
		"",
		"[",
		"[]",
		"{\"resourceMetrics\":{}}",
		"{\"resourceMetrics\":[1]}",
		BODY("{\"name\":\"good\",\"gauge\":{\"dataPoints\":[{\"asInt\":5}]}},{\"name\":5}"),
		BODY("{\"name\":\"a\",\"gauge\":{\"dataPoints\":[{\"asInt\":\"x\"}]}}"),
		BODY("{\"name\":\"a\",\"gauge\":{\"dataPoints\":[{\"asDouble\":\"1x\"}]}}"),
	};
	/* Lengths beyond the end, a group, a field 0, a varint without end. */
	static const char *const binary[] = {"\x0a\x05\x12", "\x0b", "\x02\x01", "\x0a\xff\xff\xff",
					     "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
	struct bridge_otlp_counts c = {0};
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
		assert_int_equal(read_body(bodies[i], strlen(bodies[i]), true, &c, &text), -EINVAL);
		assert_string_equal(text, "");
		free(text);
	}
	for (size_t i = 0; i < sizeof(binary) / sizeof(*binary); i++) {
		assert_int_equal(read_body(binary[i], strlen(binary[i]), false, &c, &text),
				 -EINVAL);
		free(text);
	}
	assert_int_equal(c.points + refusals(&c), 0);
	/* Any piece of a valid body is refused, or read without reading beyond its end. */
	{
		const char *body =
			BODY("{\"name\":\"a\",\"gauge\":{\"dataPoints\":[{\"asInt\":\"5\"}]}}");
		struct bridge_error e;
		size_t n;
		uint8_t *b = bridge_otlp_of_json(body, strlen(body), OTLP_METRICS, &n, &e);

		assert_non_null(b);
		for (size_t i = 0; i < n; i++) {
			read_body(b, i, false, &c, &text);
			free(text);
		}
		free(b);
	}
}

#define RESOURCE(attributes, scopes)                                       \
	"{\"resourceMetrics\":[{\"resource\":{\"attributes\":[" attributes \
	"]},\"scopeMetrics\":[" scopes "]}]}"
#define TEXT_OF(key, value) "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"
#define GAUGE_OF(name, unit, attributes, value)   \
	"{\"name\":\"" name "\",\"unit\":\"" unit \
	"\",\"gauge\":{\"dataPoints\":[{\"attributes\":[" attributes "],\"asInt\":" value "}]}}"
#define COUNTER_OF(name, unit, attributes, value)                                         \
	"{\"name\":\"" name "\",\"unit\":\"" unit                                         \
	"\",\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":[{" \
	"\"attributes\":[" attributes "],\"asInt\":" value "}]}}"

static void scopes_are_labels(void **state)
{
	(void)state;
	reads(RESOURCE("",
		       "{\"schemaUrl\":\"http://s\",\"scope\":{\"name\":\"lib\",\"version\":\"2\","
		       "\"attributes\":[" TEXT_OF("a.b", "c") "," TEXT_OF(
			       "version", "dropped") "]},"
						     "\"metrics\":[" GAUGE_OF(
							     "g", "", "",
							     "1") "]},"
								  "{\"metrics\":[" GAUGE_OF(
									  "g", "", "", "2") "]}"),
	      "resource /\ngauge g\n"
	      "  {otel_scope_a_b=c,otel_scope_name=lib,otel_scope_schema_url=http://s,otel_scope_version=2} 1\n"
	      "gauge g\n  {} 2\n",
	      2, 0);
}

static void lists_maps_and_bytes_are_json(void **state)
{
#define ARRAY(values) "{\"key\":\"a\",\"value\":{\"arrayValue\":{\"values\":[" values "]}}}"
	(void)state;
	reads(RESOURCE(
		      "",
		      "{\"metrics\":[" GAUGE_OF(
			      "g", "",
			      ARRAY("{\"stringValue\":\"x\\\"\\n\"},{\"intValue\":\"-3\"},"
				    "{\"boolValue\":true},{},{\"doubleValue\":\"NaN\"},"
				    "{\"arrayValue\":{}}"),
			      "1") "," GAUGE_OF("m", "",
						"{\"key\":\"a\",\"value\":{\"kvlistValue\":{\"values\":[" TEXT_OF(
							"k",
							"v") ",{\"key\":\"b\",\"value\":{\"bytesValue\":\"AAECAw==\"}}]}}},"
							     "{\"key\":\"b\",\"value\":{\"bytesValue\":\"_-8\"}}",
						"2") "]}"),
	      "resource /\ngauge g\n  {a=[\"x\\\"\\u000a\",-3,true,null,\"NaN\",[]]} 1\n"
	      "gauge m\n  {a={\"k\":\"v\",\"b\":\"AAECAw==\"},b=/+8=} 2\n",
	      2, 0);
	reads(RESOURCE(
		      "",
		      "{\"metrics\":[" GAUGE_OF(
			      "g", "",
			      ARRAY("{\"arrayValue\":{\"values\":["
				    "{\"arrayValue\":{\"values\":[{\"arrayValue\":{\"values\":[{\"intValue\":1}]}}]}}]}}"),
			      "1") "]}"),
	      "resource /\ngauge g\n  {a=[[[[1]]]]} 1\n", 1, 0);
}

/* JavaScript cuts an emoji in two; the second backslash of "c" is no escape. */
static void half_characters_cost_no_body(void **state)
{
	(void)state;
	reads(RESOURCE("",
		       "{\"metrics\":[" GAUGE_OF(
			       "g", "",
			       TEXT_OF("a", "x\\ud83d") "," TEXT_OF(
				       "b",
				       "\\uD83D\\uDE00\\ude00") "," TEXT_OF("c",
									    "\\u0000\\\\ud800\\n"),
			       "1") "]}"),
	      "resource /\ngauge g\n  {a=x\xef\xbf\xbd,b=\xf0\x9f\x98\x80\xef\xbf\xbd,"
	      "c=\xef\xbf\xbd\\ud800\n} 1\n",
	      1, 0);
}

static void equal_keys_are_joined_in_their_original_order(void **state)
{
	(void)state;
	reads(RESOURCE("", "{\"metrics\":[" GAUGE_OF(
				   "g", "",
				   TEXT_OF("a_b", "3") "," TEXT_OF("z", "") "," TEXT_OF(
					   "a.b", "2") "," TEXT_OF("a-b", "1"),
				   "1") "]}"),
	      "resource /\ngauge g\n  {a_b=1;2;3,z=} 1\n", 1, 0);
}

static void metrics_that_get_the_same_name_are_kept_apart(void **state)
{
	(void)state;
	reads(RESOURCE("", "{\"metrics\":[" COUNTER_OF("name.x", "", "", "10") "," COUNTER_OF(
				   "name_x", "", "",
				   "3") "," COUNTER_OF("name.x", "", "",
						       "11") "," COUNTER_OF("name..x_total", "", "",
									    "4") "]}"),
	      "resource /\ncounter name_x_total\n  {} 10\n"
	      "counter name_x_total\n  {otel_metric_name=name_x} 3\n"
	      "counter name_x_total\n  {} 11\n"
	      "counter name_x_total\n  {otel_metric_name=name..x_total} 4\n",
	      4, 0);
}

static void units_are_suffixes(void **state)
{
	(void)state;
	reads(RESOURCE(
		      "",
		      "{\"metrics\":[" COUNTER_OF("io", "By", "", "1") "," COUNTER_OF("io.bytes.total", "By", "", "2") "," GAUGE_OF(
			      "load", "1", "",
			      "3") "," GAUGE_OF("speed", "m/s", "",
						"4") "," GAUGE_OF("rate", "{packets}/s", "",
								  "5") "," GAUGE_OF("used", "%", "",
										    "6") "," GAUGE_OF("n",
												      "{packets}",
												      "",
												      "7") "," GAUGE_OF("beer",
															"pint",
															"",
															"8") "," COUNTER_OF("ones",
																	    "1",
																	    "",
																	    "9") "]}"),
	      "resource /\ncounter io_bytes_total unit=bytes\n  {} 1\n"
	      "counter io_bytes_total unit=bytes\n  {otel_metric_name=io.bytes.total} 2\n"
	      "gauge load_ratio unit=ratio\n  {} 3\ngauge speed_meters_per_second unit=meters_per_second\n  {} 4\n"
	      "gauge rate_per_second unit=per_second\n  {} 5\ngauge used_percent unit=percent\n  {} 6\n"
	      "gauge n\n  {} 7\ngauge beer_pint unit=pint\n  {} 8\ncounter ones_total\n  {} 9\n",
	      9, 0);
}

static void resources_are_target_info_and_labels_by_choice(void **state)
{
	static const struct bridge_otlp_opts chosen = {.resource_labels = "host.name,k8s.pod"};

	(void)state;
	opts = &chosen;
	reads(RESOURCE(TEXT_OF("service.name", "shop") "," TEXT_OF(
			       "host.name",
			       "h") ","
				    "{\"key\":\"process.pid\",\"value\":{\"intValue\":\"7\"}}",
		       "{\"metrics\":[" GAUGE_OF("g", "", TEXT_OF("a", "b"), "1") "]}"),
	      "resource shop/\ninfo target_info help=Target metadata\n  {host_name=h,process_pid=7}\n"
	      "gauge g\n  {a=b,host_name=h} 1\n",
	      1, 0);
	opts = NULL;
}

static void names_stay_as_they_are_if_wanted(void **state)
{
	static const struct bridge_otlp_opts utf8 = {.utf8 = true};

	(void)state;
	opts = &utf8;
	reads(RESOURCE("", "{\"metrics\":[" COUNTER_OF(
				   "http.\u00e4", "s", TEXT_OF("a.b", "1") "," TEXT_OF("a_b", "2"),
				   "1") "," COUNTER_OF("name.x", "", "",
						       "10") "," COUNTER_OF("name_x", "", "",
									    "3") "]}"),
	      "resource /\ncounter http.\xc3\xa4_seconds_total unit=seconds\n  {a.b=1,a_b=2} 1\n"
	      "counter name.x_total\n  {} 10\ncounter name_x_total\n  {} 3\n",
	      3, 0);
	opts = NULL;
}

/*
 * Resources without relevant attributes must not use up the limits in the second pass over the
 * body.
 */
static void a_checked_body_is_taken_whole(void **state)
{
	enum { N = 200000 };
	struct bridge_otlp_counts c = {0};
	char *body, *text;
	size_t bytes;
	FILE *to = open_memstream(&body, &bytes);
	int err;

	(void)state;
	fputs("{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[" GAUGE_OF(
		      "g", "", "", "1") "]}],"
					"\"resource\":{\"attributes\":[{}",
	      to);
	for (int i = 0; i < N; i++)
		fputs(",{}", to);
	fputs("]}}]}", to);
	fclose(to);
	err = read_body(body, bytes, true, &c, &text);
	assert_true(err == -E2BIG || c.points == 1);
	free(text);
	free(body);
}

static void every_refusal_has_its_cause(void **state)
{
	struct bridge_otlp_counts c = {0};
	char *text;
	const char *body = BODY(
		"{\"name\":\"a\",\"sum\":{\"dataPoints\":[{\"asInt\":1}]}},"
		"{\"name\":\"b\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
		"{\"count\":1,\"bucketCounts\":[1,0,0],\"explicitBounds\":[1,1]}]}},"
		"{\"name\":\"c\",\"gauge\":{\"dataPoints\":[{}]}},"
		"{\"name\":\"\",\"gauge\":{\"dataPoints\":[{\"asInt\":1}]}}");

	(void)state;
	assert_int_equal(read_body(body, strlen(body), true, &c, &text), 0);
	assert_int_equal(c.refused[OTLP_TEMPORALITY], 1);
	assert_int_equal(c.refused[OTLP_BUCKETS], 1);
	assert_int_equal(c.refused[OTLP_VALUE], 1);
	assert_int_equal(c.refused[OTLP_NAME], 1);
	assert_int_equal(refusals(&c), 4);
	free(text);
	refuse = true;
	assert_int_equal(read_body(body, strlen(body), true, &c, &text), 0);
	assert_int_equal(c.refused[OTLP_SERVICES], 1);
	free(text);
	short_of_regions = &c;
	assert_int_equal(read_body(body, strlen(body), true, &c, &text), 0);
	assert_int_equal(c.refused[OTLP_REGIONS], 1);
	short_of_regions = NULL;
	refuse = false;
	free(text);
}

/* In the body, # stands for a text that is longer than the room for the names of a point. */
static void reads_long_of(int length, const char *body, uint64_t points,
			  const struct bridge_otlp_counts *want)
{
	struct bridge_otlp_counts c = {0}, binary = {0};
	const char *at = strchr(body, '#');
	struct bridge_error e;
	char *long_body, *text;
	size_t bytes, n;
	uint8_t *b;
	FILE *to = open_memstream(&long_body, &bytes);

	fprintf(to, "%.*s%0*d%s", (int)(at - body), body, length, 0, at + 1);
	fclose(to);
	assert_int_equal(read_body(long_body, bytes, true, &c, &text), 0);
	free(text);
	b = bridge_otlp_of_json(long_body, bytes, OTLP_METRICS, &n, &e);
	assert_non_null(b);
	assert_int_equal(read_body(b, n, false, &binary, &text), 0);
	assert_int_equal(c.points, points);
	assert_memory_equal(c.refused, want->refused, sizeof(c.refused));
	assert_int_equal(c.exemplars_left_out, want->exemplars_left_out);
	assert_int_equal(c.attributes_left_out, want->attributes_left_out);
	assert_memory_equal(&binary, &c, sizeof(c));
	free(text);
	free(long_body);
	free(b);
}

static void reads_long(const char *body, uint64_t points, const struct bridge_otlp_counts *want)
{
	reads_long_of(200 << 10, body, points, want);
}

static void names_without_room_are_refused(void **state)
{
	const struct bridge_otlp_counts labels = {.refused[OTLP_LABELS] = 1};
	const struct bridge_otlp_counts exemplar = {.exemplars_left_out = 1};
#define AND_GOOD "," GAUGE_OF("good", "", "", "2") "]}"

	(void)state;
	reads_long(RESOURCE("", "{\"metrics\":[" GAUGE_OF("#", "", "", "1") AND_GOOD), 1, &labels);
	reads_long(RESOURCE("", "{\"metrics\":[" COUNTER_OF("a", "#", "", "1") AND_GOOD), 1,
		   &labels);
	reads_long(RESOURCE("", "{\"metrics\":[" GAUGE_OF("a", "x/#", "", "1") AND_GOOD), 1,
		   &labels);
	reads_long(
		RESOURCE("", "{\"metrics\":[" GAUGE_OF("a", "", TEXT_OF("#", "b"), "1") AND_GOOD),
		1, &labels);
	reads_long(
		RESOURCE(
			"",
			"{\"scope\":{\"attributes\":[" TEXT_OF("#", "b") "]},\"metrics\":[" GAUGE_OF(
				"a", "", "", "1") "]},{\"metrics\":[" GAUGE_OF("good", "", "",
									       "2") "]}"),
		1, &labels);
	/* target_info is refused. */
	reads_long(
		RESOURCE(TEXT_OF("#", "b"), "{\"metrics\":[" GAUGE_OF("a", "", "", "1") AND_GOOD),
		2, &labels);
	reads_long(
		RESOURCE(
			"",
			"{\"metrics\":[{\"name\":\"a\",\"sum\":{\"aggregationTemporality\":2,"
			"\"isMonotonic\":true,\"dataPoints\":[{\"asInt\":1,\"exemplars\":[{\"asInt\":1,"
			"\"filteredAttributes\":[" TEXT_OF("#", "b") "]}]}]}}" AND_GOOD),
		2, &exemplar);
}

/* An attribute that is not used takes no room from others, however long it becomes as JSON. */
static void long_attributes_are_left_out_alone(void **state)
{
	const struct bridge_otlp_counts left_out = {.attributes_left_out = 1}, none = {.points = 0};
#define LONG_ARRAY(key) \
	"{\"key\":\"" key "\",\"value\":{\"arrayValue\":{\"values\":[{\"stringValue\":\"#\"}]}}}"

	(void)state;
	for (int length = 1000; length < 200000; length += 30000) {
		const bool is_long = length > 1023;

		reads_long_of(
			length,
			RESOURCE(TEXT_OF("a", "b") "," LONG_ARRAY("c") "," TEXT_OF("d", "e"),
				 "{\"metrics\":[" GAUGE_OF("g", "", TEXT_OF("f", "h"), "1") "]}"),
			1, is_long ? &left_out : &none);
		reads_long_of(
			length,
			RESOURCE("",
				 "{\"scope\":{\"attributes\":[" LONG_ARRAY("version") "," TEXT_OF(
					 "a", "b") "]},\"metrics\":[" GAUGE_OF("g", "",
									       TEXT_OF("f", "h"),
									       "1") "]}"),
			1, &none);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_are_read),
		cmocka_unit_test(exemplars_are_kept_with_their_bucket),
		cmocka_unit_test(exemplars_beyond_bounds_are_left_out),
		cmocka_unit_test(what_has_no_meaning_is_refused_and_counted),
		cmocka_unit_test(names_without_room_are_refused),
		cmocka_unit_test(long_attributes_are_left_out_alone),
		cmocka_unit_test(scopes_are_labels),
		cmocka_unit_test(lists_maps_and_bytes_are_json),
		cmocka_unit_test(half_characters_cost_no_body),
		cmocka_unit_test(equal_keys_are_joined_in_their_original_order),
		cmocka_unit_test(metrics_that_get_the_same_name_are_kept_apart),
		cmocka_unit_test(units_are_suffixes),
		cmocka_unit_test(resources_are_target_info_and_labels_by_choice),
		cmocka_unit_test(names_stay_as_they_are_if_wanted),
		cmocka_unit_test(a_checked_body_is_taken_whole),
		cmocka_unit_test(every_refusal_has_its_cause),
		cmocka_unit_test(malformed_bodies_are_refused_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
