// SPDX-License-Identifier: Apache-2.0
/* test_otlp.c - how bodies of OTLP/HTTP metrics are read or refused. */
#include "support/test.h"

#include <errno.h>

#include "record.h"
#include "bridge/otlp.h"

static struct record record;
static bool refuse;

static struct bridge_sink *resource(void *arg, struct bridge_text service,
				    struct bridge_text instance)
{
	(void)arg;
	if (refuse)
		return NULL;
	fputs("resource ", record.to);
	record_text(record.to, service);
	fputc('/', record.to);
	record_text(record.to, instance);
	fputc('\n', record.to);
	return &record.sink;
}

static int read_body(const void *body, size_t n, bool json, struct bridge_otlp_counts *c,
		     char **text)
{
	struct bridge_otlp *o = bridge_otlp_new();
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
	return err;
}

#define BODY(metrics)                                                                                     \
	"{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","                 \
	"\"value\":{\"stringValue\":\"shop\"}},{\"key\":\"service.instance.id\",\"value\":"               \
	"{\"stringValue\":\"a1\"}}]},\"scopeMetrics\":[{\"scope\":{\"name\":\"x\"},\"metrics\":[" metrics \
	"]}]}]}"

static void reads(const char *body, const char *what, uint64_t points, uint64_t refused)
{
	struct bridge_otlp_counts c = {0};
	char *text;

	assert_int_equal(read_body(body, strlen(body), true, &c, &text), 0);
	assert_string_equal(text, what);
	assert_int_equal(c.points, points);
	assert_int_equal(c.refused, refused);
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
	      "  {code=200,http_route=/cart,ok=true} 17 created=1544712660000\n"
	      "gauge _9temp\n  {} -1.5\n"
	      "gauge queue\n  {} -3 delta\n",
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
	      "histogram h unit=seconds\n  {} 4.5 6 1 3 6 | 0.5 1\n"
	      "histogram e\n  {} 9 6 scale=-1 first=-2 zero=2 1 0 3 negative=4 delta\n"
	      "summary s\n  {} 5 2 1 NaN | 0.5 1\n",
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
	      "histogram h\n  {} 4.5 6 1 3 6 | 0.5 1 #3{span_id=00f067aa0ba902b7,"
	      "trace_id=4bf92f3577b34da6a3ce929d0e0e4736,user_id=7}0.75@1544712660000 #4{}9\n"
	      "counter c_total\n  {} 1 #2{}1\n",
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
	fputs("{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"g\",\"gauge\":"
	      "{\"dataPoints\":[{\"asInt\":1,\"exemplars\":[{\"asInt\":1}",
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
	assert_int_equal(c.refused, 0);
	assert_int_equal(c.exemplars_left_out, MORE + 1);
	free(text);
	free(body);
}

static void what_has_no_meaning_is_refused_and_counted(void **state)
{
	(void)state;
	/* No temporality; bounds that do not ascend; more buckets than bounds; no value. */
	reads(BODY("{\"name\":\"a\",\"sum\":{\"dataPoints\":[{\"asInt\":1}]}},"
		   "{\"name\":\"b\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
		   "{\"count\":1,\"bucketCounts\":[1,0,0],\"explicitBounds\":[1,1]},"
		   "{\"count\":1,\"bucketCounts\":[1,0,0],\"explicitBounds\":[1]}]}},"
		   "{\"name\":\"c\",\"gauge\":{\"dataPoints\":[{},{\"flags\":1},{\"asInt\":5}]}}"),
	      "resource shop/a1\ngauge a\nhistogram b\ngauge c\n  {} 5\n", 1, 4);
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
	assert_int_equal(c.points + c.refused, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_are_read),
		cmocka_unit_test(exemplars_are_kept_with_their_bucket),
		cmocka_unit_test(exemplars_beyond_bounds_are_left_out),
		cmocka_unit_test(what_has_no_meaning_is_refused_and_counted),
		cmocka_unit_test(malformed_bodies_are_refused_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
