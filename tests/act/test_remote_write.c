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
	struct export_remote_write *w = export_remote_write_new(receiver_url(r), batch, error,
								sizeof(error));

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
	/* Labels sorted by name: "Zed" before "__name__" before "zone"; 1.5 at 300 ms; stale at
	 * 301. */
	static const char want[] = "\x0a\x43"
				   "\x0a\x09\x0a\x03Zed\x12\x02\xc3\xa9"
				   "\x0a\x13\x0a\x08__name__\x12\x07"
				   "a_total"
				   "\x0a\x0a\x0a\x04zone\x12\x02"
				   "eu"
				   "\x12\x0c\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02"
				   "\x12\x0c\x09\x02\0\0\0\0\0\xf0\x7f\x10\xad\x02";
	struct export_remote_series *s = export_remote_series_new("a", "_total", labels, 3);
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
	struct export_remote_series *s = export_remote_series_new("a", "", NULL, 0);
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
	struct export_remote_series *s = export_remote_series_new("a", "", NULL, 0);
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
	export_remote_write_points(w, s, p, 25000); /* all of it has been */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_as_the_protocol_says),
		cmocka_unit_test(one_sample_a_millisecond_and_never_backwards),
		cmocka_unit_test(requests_are_bounded_and_nothing_is_lost_between),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
