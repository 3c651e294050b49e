// SPDX-License-Identifier: Apache-2.0
/* test_remote_write.c - remote write sends the exact bytes of the protocol. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snappy-c.h>

#include "support/test.h"
#include "base/base.h"
#include "export/remote_write.h"
#include "receiver.h"

#define MS 1000000ll

static struct export_remote_write *writer(struct receiver *r, size_t batch)
{
	char error[128] = "";
	const struct export_remote_opts o = {.url = receiver_url(r), .batch_samples = batch};
	struct export_remote_write *w = export_remote_write_open(&o, error, sizeof(error));

	if (!w)
		fail_msg("%s", error);
	return w;
}

static char *unpacked(struct receiver *r, size_t i, size_t *n)
{
	const char *body;
	size_t bytes;
	char *out;

	receiver_request(r, i, &body, &bytes);
	assert_int_equal(snappy_uncompressed_length(body, bytes, n), SNAPPY_OK);
	out = malloc(*n + 1);
	assert_int_equal(snappy_uncompress(body, bytes, out, n), SNAPPY_OK);
	return out;
}

static void a_request_is_as_the_protocol_says(void **state)
{
	static const struct region_text_label labels[] = {
		{"zone", "eu"}, {"empty", ""}, {"Zed", "\xc3\xa9"}};
	/*
	 * Labels sorted by name: "Zed" before "__name__" before "zone"; 1.5 at 300 ms; stale at
	 * 301.
	 */
	static const char want[] = "\x0a\x43"
				   "\x0a\x09\x0a\x03Zed\x12\x02\xc3\xa9"
				   "\x0a\x13\x0a\x08__name__\x12\x07"
				   "a_total"
				   "\x0a\x0a\x0a\x04zone\x12\x02"
				   "eu"
				   "\x12\x0c\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02"
				   "\x12\x0c\x09\x02\0\0\0\0\0\xf0\x7f\x10\xad\x02";
	struct export_remote_series *s = export_remote_series_new("a", "_total", labels, 3, false);
	struct export_remote_point p = {300 * MS, 1.5};
	struct receiver *r = receiver_new("");
	struct export_remote_write *w = writer(r, 0);
	uint8_t split[sizeof(want) + 64];
	size_t n, labels_end = 2 + 11 + 21 + 12;
	const char *head;
	char *got;

	(void)state;
	export_remote_write_points(w, s, &p, 1);
	export_remote_write_flush(w);
	export_remote_write_end(w, s, 300 * MS);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	assert_int_equal(receiver_requests(r), 2);
	head = receiver_request(r, 0, NULL, NULL);
	assert_non_null(strstr(head, "Content-Encoding: snappy\r\n"));
	assert_non_null(strstr(head, "Content-Type: application/x-protobuf\r\n"));
	assert_non_null(strstr(head, "X-Prometheus-Remote-Write-Version: 0.1.0\r\n"));
	memcpy(split, want, labels_end);
	split[1] = (uint8_t)(labels_end - 2 + 14);
	memcpy(split + labels_end, want + labels_end, 14);
	got = unpacked(r, 0, &n);
	assert_int_equal(n, labels_end + 14);
	assert_memory_equal(got, split, n);
	free(got);
	memcpy(split + labels_end, want + labels_end + 14, 14);
	got = unpacked(r, 1, &n);
	assert_int_equal(n, labels_end + 14);
	assert_memory_equal(got, split, n);
	free(got);
	free(s);
	receiver_free(r);
}

static void one_sample_a_millisecond_and_never_backwards(void **state)
{
	struct export_remote_series *s = export_remote_series_new("a", "", NULL, 0, false);
	struct export_remote_point p[] = {{5 * MS, 1}, {5 * MS + 9, 2}, {6 * MS, 3}, {4 * MS, 4}};
	struct receiver *r = receiver_new("");
	struct export_remote_write *w = writer(r, 0);
	struct export_remote_write_stats stats;

	(void)state;
	export_remote_write_end(w, s, 4 * MS); /* of a series that was never sent */
	export_remote_write_points(w, s, p, 4);
	export_remote_write_points(w, s, p + 2, 1);
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.samples, 2);
	assert_int_equal(stats.same_ms, 3);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	assert_int_equal(receiver_requests(r), 1);
	free(s);
	receiver_free(r);
}

static void requests_are_bounded_and_nothing_is_lost_between(void **state)
{
	struct export_remote_series *s = export_remote_series_new("a", "", NULL, 0, false);
	struct export_remote_point *p = calloc(25000, sizeof(*p));
	struct receiver *r = receiver_new("");
	struct export_remote_write *w = writer(r, 1000);
	struct export_remote_write_stats stats;
	size_t n, sum = 0;

	(void)state;
	for (int i = 0; i < 25000; i++)
		p[i] = (struct export_remote_point){(1000 + i) * MS, i};
	for (int i = 0; i < 25000; i += 500)
		export_remote_write_points(w, s, p + i, 500);
	export_remote_write_points(w, s, p, 25000); /* all of it was sent before */
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.samples, 25000);
	assert_int_equal(stats.same_ms, 25000);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	assert_int_equal(receiver_requests(r), 25);
	for (size_t i = 0; i < 25; i++) {
		free(unpacked(r, i, &n));
		sum += n;
	}
	assert_true(sum > 25000 * 14);
	free(p);
	free(s);
	receiver_free(r);
}

static void an_exemplar_is_sent_once_after_the_first_sample(void **state)
{
	static const struct region_text_label label = {"trace_id", "4f"};
	struct export_exemplar timed = {
		.value = 2, .ns = 400 * MS, .labels = &label, .label_count = 1};
	struct export_exemplar timeless = {.value = 3};
	/* Of {__name__="a"}: the sample 1 at 500 ms; trace_id="4f" of 2 at 400 ms; 3 at 501 ms. */
	static const char want[] = "\x0a\x1d\x0a\x0d\x0a\x08__name__\x12\x01"
				   "a\x12\x0c\x09\0\0\0\0\0\0\xf0\x3f\x10\xf4\x03"
				   "\x0a\x2d\x0a\x0d\x0a\x08__name__\x12\x01"
				   "a\x1a\x1c\x0a\x0e\x0a\x08trace_id\x12\x02"
				   "4f\x11\0\0\0\0\0\0\0\x40\x18\x90\x03"
				   "\x0a\x1d\x0a\x0d\x0a\x08__name__\x12\x01"
				   "a\x1a\x0c\x11\0\0\0\0\0\0\x08\x40\x18\xf5\x03";
	struct export_remote_series *s = export_remote_series_new("a", "", NULL, 0, false);
	struct export_remote_point p = {500 * MS, 1};
	struct receiver *r = receiver_new("");
	struct export_remote_write *w = writer(r, 0);
	struct export_remote_write_stats stats;
	size_t n;
	char *got;

	(void)state;
	export_remote_write_exemplar(w, s, 500 * MS, &timed); /* of an unknown series */
	export_remote_write_points(w, s, &p, 1);
	for (int i = 0; i < 2; i++) {
		export_remote_write_exemplar(w, s, 500 * MS, &timed);
		export_remote_write_exemplar(w, s, (501 + i) * MS, &timeless);
	}
	timed.value = 4; /* another one, and older */
	export_remote_write_exemplar(w, s, 500 * MS, &timed);
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.samples, 1);
	assert_int_equal(stats.exemplars, 2);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	assert_int_equal(receiver_requests(r), 1);
	got = unpacked(r, 0, &n);
	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(got, want, n);
	free(got);
	free(s);
	receiver_free(r);
}

static void an_exemplar_from_the_future_blocks_no_other(void **state)
{
	const struct export_exemplar future[] = {{.value = 2, .ns = 5000000000 * MS},
						 {.value = 3, .ns = UINT64_MAX}};
	struct export_exemplar timed = {.value = 4};
	struct export_remote_series *s = export_remote_series_new("a", "", NULL, 0, false);
	struct export_remote_point p = {500 * MS, 1};
	struct receiver *r = receiver_new("");
	struct export_remote_write *w = writer(r, 0);
	struct export_remote_write_stats stats;

	(void)state;
	export_remote_write_points(w, s, &p, 1);
	for (int i = 0; i < 6; i++) {
		timed.ns = (uint64_t)(500 + i) * MS;
		export_remote_write_exemplar(w, s, (500 + i) * MS, &timed);
		export_remote_write_exemplar(w, s, (500 + i) * MS, &future[i / 3]);
	}
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.exemplars, 6);
	assert_int_equal(stats.future_exemplars, 2);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	free(s);
	receiver_free(r);
}

static void a_long_exemplar_is_counted(void **state)
{
	/* 121 characters and 8 are one too many; bytes do not count. */
	static const char exact[] =
		"\xc3\xa9 23456789 123456789 123456789 123456789 123456789 123456789 123456789 "
		"123456789 123456789 123456789 123456789 12345678";
	static const char more[] =
		"123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456789 "
		"123456789 123456789 123456789 123456789 1";
	struct region_text_label label = {"trace_id", exact};
	struct export_exemplar e = {.ns = MS, .labels = &label, .label_count = 1};
	struct export_remote_series *s = export_remote_series_new("a", "", NULL, 0, false);
	struct export_remote_point p = {MS, 1};
	struct receiver *r = receiver_new("");
	struct export_remote_write *w = writer(r, 0);
	struct export_remote_write_stats stats;

	(void)state;
	export_remote_write_points(w, s, &p, 1);
	export_remote_write_exemplar(w, s, MS, &e);
	label.value = more;
	e.ns = 2 * MS;
	export_remote_write_exemplar(w, s, MS, &e);
	export_remote_write_exemplar(w, s, MS, &e);
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.exemplars, 1);
	assert_int_equal(stats.long_exemplars, 1);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	free(s);
	receiver_free(r);
}

/* Version 2.0: in a new request, the exemplar would need a sample at the time of the histogram. */
static void exemplar_waits(size_t batch, const char *name_a, const char *name_b)
{
	static const uint64_t bucket[] = {0, 1, 0};
	const struct export_native_buckets of = {.bucket = bucket, .count = 3, .sum = 1};
	struct export_exemplar e = {.value = 1, .ns = 400 * MS};
	struct export_remote_series *a = export_remote_series_new(name_a, "", NULL, 0, false);
	struct export_remote_series *b = export_remote_series_new(name_b, "", NULL, 0, false);
	struct export_remote_point p = {500 * MS, 1};
	struct receiver *r = receiver_new("");
	const struct export_remote_opts o = {
		.url = receiver_url(r), .batch_samples = batch, .protocol = EXPORT_REMOTE_2};
	char error[128] = "";
	struct export_remote_write *w = export_remote_write_open(&o, error, sizeof(error));
	struct export_remote_write_stats stats;
	struct export_native native = {0};

	if (!w)
		fail_msg("%s", error);
	assert_true(export_native_make(&native, &of));
	export_remote_write_points(w, b, &p, 1);
	export_remote_write_native(w, a, 500 * MS, &native);
	export_remote_write_exemplar(w, a, 500 * MS, &e);
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.exemplars, 0);
	export_remote_write_native(w, a, 600 * MS, &native);
	export_remote_write_exemplar(w, a, 600 * MS, &e);
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.exemplars, 1);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	assert_int_equal(receiver_requests(r), 2);
	export_native_free(&native);
	free(a);
	free(b);
	receiver_free(r);
}

static void an_exemplar_waits_for_a_histogram_in_its_request(void **state)
{
	static char a[1200000], b[2600000]; /* bytes; both fit into 4 MiB, but not with a twice */

	(void)state;
	exemplar_waits(2, "a", "b"); /* the histogram completes the request */
	memset(a, 'a', sizeof(a) - 1);
	memset(b, 'b', sizeof(b) - 1);
	exemplar_waits(1000, a, b);
}

/* Version 2.0: the clock may have been set back since the histogram was created. */
static void a_histogram_is_not_older_than_its_start(void **state)
{
	/* start_timestamp is 400. */
	static const char start[] = "\x88\x01\x90\x03";
	static const uint64_t bucket[] = {0, 1, 0};
	const struct export_native_buckets of = {.bucket = bucket, .count = 3, .sum = 1};
	struct export_remote_series *a = export_remote_series_new("a", "", NULL, 0, false);
	struct receiver *r = receiver_new("");
	const struct export_remote_opts o = {
		.url = receiver_url(r), .batch_samples = 1, .protocol = EXPORT_REMOTE_2};
	char error[128] = "";
	struct export_remote_write *w = export_remote_write_open(&o, error, sizeof(error));
	struct export_native native = {0};

	(void)state;
	if (!w)
		fail_msg("%s", error);
	assert_true(export_native_make(&native, &of));
	a->created_ms = 400;
	export_remote_write_native(w, a, 399 * MS, &native);
	export_remote_write_native(w, a, 400 * MS, &native);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	assert_int_equal(receiver_requests(r), 2);
	for (size_t i = 0; i < 2; i++) {
		size_t n;
		char *got = unpacked(r, i, &n);

		assert_int_equal(memmem(got, n, start, sizeof(start) - 1) != NULL, i);
		free(got);
	}
	export_native_free(&native);
	free(a);
	receiver_free(r);
}

static bool has(const struct export_remote_series *s, const char *text)
{
	return memmem(s->labels, s->label_bytes, text, strlen(text));
}

static void names_in_utf8_are_escaped_unless_they_are_taken(void **state)
{
	static const struct region_text_label labels[] = {
		{"k\xc3\xa4se", "1"}, {"k_se", "2"}, {"U__k_e4_se", "3"}, {"a.b", "4"}};
	struct export_remote_series *s[] = {
		export_remote_series_new("http.requests", "_total", labels, 4, false),
		export_remote_series_new("http.requests", "_total", labels, 4, true),
	};

	(void)state;
	assert_true(has(s[0], "\x12\x13http_requests_total"));
	assert_true(has(s[0], "\x0a\x0bU__k_e4_se_\x12\x01"
			      "1"));
	assert_true(has(s[0], "\x0a\x04k_se\x12\x01"
			      "2"));
	assert_true(has(s[0], "\x0a\x0aU__k_e4_se\x12\x01"
			      "3"));
	assert_true(has(s[0], "\x0a\x03"
			      "a_b\x12\x01"
			      "4"));
	assert_true(has(s[1], "\x12\x13http.requests_total"));
	assert_true(has(s[1], "\x0a\x05k\xc3\xa4se\x12\x01"
			      "1"));
	free(s[0]);
	free(s[1]);
}

static void no_two_series_are_sent_with_equal_labels(void **state)
{
	struct export_remote_series *s[] = {
		export_remote_series_new("a.b", "", NULL, 0, false),
		export_remote_series_new("a-b", "", NULL, 0, false),
		export_remote_series_new("a_b", "", NULL, 0, false),
		export_remote_series_new("c", "_total", NULL, 0, false),
		export_remote_series_new("c_total", "", NULL, 0, false),
	};
	static const char *const names[] = {"U__a_2d_b", "U__a_2e_b", "a_b", "c_total", "c_total"};
	struct export_remote_point p = {MS, 1};
	struct receiver *r = receiver_new("");
	struct export_remote_write *w = writer(r, 0);
	struct export_remote_series *first;
	struct export_remote_write_stats stats;

	(void)state;
	first = s[3];
	export_remote_series_settle(s, 5);
	for (int k = 0; k < 5; k++) {
		bool found = false;

		for (int i = 0; i < 5; i++)
			found = found || has(s[i], names[k]);
		assert_true(found);
	}
	for (int i = 0; i < 5; i++) {
		assert_int_equal(s[i]->clashes, has(s[i], "c_total") && s[i] != first);
		export_remote_write_points(w, s[i], &p, 1);
	}
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.samples, 4);
	assert_int_equal(stats.clashing, 1);
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	for (int i = 0; i < 5; i++)
		free(s[i]);
	receiver_free(r);
}

static void series_go_on_or_end_where_others_take_their_place(void **state)
{
	struct export_remote_series *old[] = {
		export_remote_series_new("a", "", NULL, 0, false),
		export_remote_series_new("b", "", NULL, 0, false),
		export_remote_series_new("c", "", NULL, 0, false),
	};
	struct export_remote_series *now[] = {
		export_remote_series_new("d", "", NULL, 0, false),
		export_remote_series_new("c", "", NULL, 0, false),
		export_remote_series_new("a", "", NULL, 0, false),
	};
	struct export_remote_point p = {7 * MS, 1};
	struct receiver *r = receiver_new("");
	struct export_remote_write *w = writer(r, 0);
	struct export_remote_write_stats stats;

	(void)state;
	export_remote_series_settle(old, 3);
	export_remote_series_settle(now, 3);
	for (int i = 0; i < 3; i++)
		export_remote_write_points(w, old[i], &p, 1);
	export_remote_write_follow(w, now, 3, old, 3, 8 * MS);
	assert_int_equal(now[0]->last_ms, 7);
	assert_int_equal(now[1]->last_ms, 7);
	assert_int_equal(now[2]->last_ms, INT64_MIN);
	assert_int_equal(old[1]->last_ms, 8);
	export_remote_write_stats(w, &stats);
	assert_int_equal(stats.samples, 4); /* one ends a series */
	export_remote_write_free(w, 10000 * (uint64_t)MS);
	for (int i = 0; i < 3; i++) {
		free(old[i]);
		free(now[i]);
	}
	receiver_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_as_the_protocol_says),
		cmocka_unit_test(one_sample_a_millisecond_and_never_backwards),
		cmocka_unit_test(requests_are_bounded_and_nothing_is_lost_between),
		cmocka_unit_test(an_exemplar_is_sent_once_after_the_first_sample),
		cmocka_unit_test(an_exemplar_from_the_future_blocks_no_other),
		cmocka_unit_test(a_long_exemplar_is_counted),
		cmocka_unit_test(an_exemplar_waits_for_a_histogram_in_its_request),
		cmocka_unit_test(a_histogram_is_not_older_than_its_start),
		cmocka_unit_test(names_in_utf8_are_escaped_unless_they_are_taken),
		cmocka_unit_test(no_two_series_are_sent_with_equal_labels),
		cmocka_unit_test(series_go_on_or_end_where_others_take_their_place),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
