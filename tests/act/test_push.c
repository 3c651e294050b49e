// SPDX-License-Identifier: Apache-2.0
/*
 * test_push.c - pushed bodies arrive once and in order, or are counted as lost, whatever the
 * receiver does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "export/push.h"
#include "receiver.h"

#define MS 1000000ull

static struct export_push *pusher(struct receiver *r, struct export_push_opts o)
{
	char error[256] = "";
	struct export_push *p;

	o.url = receiver_url(r);
	o.name = "test";
	o.content_type = "text/plain";
	o.pause_min_ns = o.pause_min_ns ? o.pause_min_ns : MS;
	o.timeout_ns = o.timeout_ns ? o.timeout_ns : 20000 * MS;
	p = export_push_new(&o, error, sizeof(error));
	if (!p)
		fail_msg("%s", error);
	return p;
}

static int say(struct export_push *p, const char *text)
{
	return export_push_send(p, strdup(text), strlen(text), 10);
}

/* Until the queue is empty. */
static struct export_push_stats settle(struct export_push *p)
{
	struct export_push_stats s;

	for (int i = 0; i < 30000; i++) {
		export_push_stats(p, &s);
		if (!s.waiting)
			return s;
		usleep(1000);
	}
	fail_msg("still %zu waiting: %s", s.waiting, s.last_error);
	return s;
}

static void bodies_arrive_once_and_in_order(void **state)
{
	static const char *const headers[] = {"X-Version: 1", NULL};
	struct receiver *r = receiver_new("onooo");
	struct export_push *p = pusher(r, (struct export_push_opts){.headers = headers});
	struct export_push_stats s;
	const char *body;
	char text[16];
	size_t n;

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "body %d", i);
		assert_int_equal(say(p, text), 0);
	}
	s = settle(p);
	assert_int_equal(s.sent, 100);
	assert_int_equal(s.sent_items, 1000);
	assert_int_equal(s.retries, 0);
	assert_int_equal(receiver_requests(r), 100);
	for (size_t i = 0; i < 100; i++) {
		const char *head = receiver_request(r, i, &body, &n);

		snprintf(text, sizeof(text), "body %zu", i);
		assert_int_equal(n, strlen(text));
		assert_memory_equal(body, text, n);
		assert_memory_equal(head, "POST /path HTTP/1.1\r\n", 21);
		assert_non_null(strstr(head, "X-Version: 1\r\n"));
		assert_non_null(strstr(head, "Content-Type: text/plain\r\n"));
		assert_null(strcasestr(head, "Expect:"));
	}
	export_push_free(p, 0);
	receiver_free(r);
}

static void what_may_pass_is_tried_again_and_order_stays(void **state)
{
	struct receiver *r = receiver_new("eurghoeo");
	struct export_push *p = pusher(r, (struct export_push_opts){.timeout_ns = 3000 * MS});
	struct export_push_stats s;
	const char *body;
	size_t n;

	(void)state;
	say(p, "first");
	say(p, "second");
	s = settle(p);
	/*
	 * A reset after an answer may also hit a kept-alive connection, which libcurl then retries.
	 */
	assert_int_equal(s.sent, 2);
	assert_true(s.errors_status >= 3);
	assert_true(s.errors_timeout >= 1);
	assert_true(s.errors_connect >= 1);
	assert_int_equal(s.dropped_full + s.dropped_refused + s.dropped_old, 0);
	n = receiver_requests(r);
	assert_true(n >= 8);
	receiver_request(r, n - 1, &body, &n);
	assert_memory_equal(body, "second", 6);
	for (size_t i = 0; i < 6; i++) {
		receiver_request(r, i, &body, &n);
		assert_memory_equal(body, "first", 5);
	}
	export_push_free(p, 0);
	receiver_free(r);
}

static void what_never_will_pass_is_dropped_and_counted(void **state)
{
	struct receiver *r = receiver_new("bmo");
	struct export_push *p = pusher(r, (struct export_push_opts){0});
	struct export_push_stats s;

	(void)state;
	say(p, "bad");
	say(p, "moved");
	say(p, "good");
	s = settle(p);
	assert_int_equal(s.dropped_refused, 20);
	assert_int_equal(s.sent_items, 10);
	assert_int_equal(receiver_requests(r), 3);
	assert_string_equal(s.last_error, "HTTP 302 ");
	export_push_free(p, 0);
	receiver_free(r);
}

static uint64_t two_of_ten(void *arg, const void *body, size_t bytes, const void *answer,
			   size_t answer_bytes, char *why, size_t why_bytes)
{
	assert_string_equal(arg, "arg");
	assert_int_equal(bytes, 4);
	assert_memory_equal(body, "good", 4);
	assert_int_equal(answer_bytes, 2);
	assert_memory_equal(answer, "ok", 2);
	snprintf(why, why_bytes, "a reason");
	return 2;
}

static void permanent_errors_and_partial_success_are_counted(void **state)
{
	struct receiver *r = receiver_new("eluo");
	struct export_push *p = pusher(r, (struct export_push_opts){.unavailable_only = true,
								    .taken = two_of_ten,
								    .taken_arg = "arg"});
	struct export_push_stats s;

	(void)state;
	say(p, "bad"); /* 500 is not retried; 429 and 503 are */
	say(p, "good");
	s = settle(p);
	assert_int_equal(s.dropped_refused, 10);
	assert_int_equal(s.errors_status, 2);
	assert_int_equal(s.retries, 2);
	assert_int_equal(s.sent, 1);
	assert_int_equal(s.sent_items, 8);
	assert_int_equal(s.dropped_partial, 2);
	assert_int_equal(receiver_requests(r), 4);
	export_push_free(p, 0);
	receiver_free(r);
}

static void retry_after_is_honoured_within_bounds(void **state)
{
	struct receiver *r = receiver_new("l");
	struct export_push *p = pusher(r, (struct export_push_opts){.pause_max_ns = 5000 * MS});
	uint64_t start = base_now_ns();
	struct export_push_stats s;

	(void)state;
	say(p, "x");
	s = settle(p);
	assert_int_equal(s.errors_status, 1);
	assert_int_equal(s.sent, 1);
	assert_true(base_now_ns() - start >= 1000 * MS); /* asked for; later is no fault */
	export_push_free(p, 0);
	receiver_free(r);
}

static void a_full_queue_drops_counts_and_never_waits(void **state)
{
	struct receiver *r = receiver_new("h");
	struct export_push *p =
		pusher(r, (struct export_push_opts){.max_bodies = 4, .max_bytes = 100});
	struct export_push_stats s;
	char *big = calloc(1, 101);

	(void)state;
	assert_int_equal(export_push_send(p, big, 101, 7), -ENOSPC);
	assert_false(export_push_busy(p));
	for (int i = 0; i < 4; i++)
		assert_int_equal(say(p, "waits"), 0);
	assert_true(export_push_busy(p));
	assert_int_equal(say(p, "no room"), -ENOSPC);
	export_push_stats(p, &s);
	assert_int_equal(s.dropped_full, 17);
	assert_int_equal(s.waiting, 4);
	/* One body is being sent to a receiver that hangs: freeing does not wait for it. */
	export_push_free(p, 0);
	receiver_free(r);
}

static void what_is_too_old_is_dropped(void **state)
{
	struct receiver *r = receiver_new("eeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
	struct export_push *p = pusher(
		r, (struct export_push_opts){.max_age_ns = 50 * MS, .pause_max_ns = 20 * MS});
	struct export_push_stats s;

	(void)state;
	say(p, "x");
	s = settle(p);
	assert_true(s.dropped_old == 10 || s.sent == 1); /* a very slow machine may send one */
	export_push_free(p, 0);
	receiver_free(r);
}

static void an_answer_without_end_is_cut_off(void **state)
{
	struct receiver *r = receiver_new("xo");
	struct export_push *p = pusher(r, (struct export_push_opts){0});
	struct export_push_stats s;

	(void)state;
	say(p, "x");
	say(p, "y");
	s = settle(p);
	assert_int_equal(s.sent, 2);
	assert_int_equal(receiver_requests(r), 2);
	export_push_free(p, 0);
	receiver_free(r);
}

static void what_waits_at_the_end_goes_out_or_is_counted(void **state)
{
	struct receiver *r = receiver_new("eo");
	struct export_push *p = pusher(r, (struct export_push_opts){0});

	(void)state;
	say(p, "last words");
	export_push_free(p, 20000 * MS);
	assert_int_equal(receiver_requests(r), 2);
	receiver_free(r);
}

static void a_url_that_is_none_is_said_at_the_start(void **state)
{
	static const char *const bad[] = {"", "ftp://a/", "file:///etc/passwd", "no url",
					  "http://"};
	char error[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct export_push_opts o = {.url = bad[i], .name = "test", .content_type = "a/b"};

		assert_null(export_push_new(&o, error, sizeof(error)));
		assert_non_null(strstr(error, "it is not an http or https URL"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_arrive_once_and_in_order),
		cmocka_unit_test(what_may_pass_is_tried_again_and_order_stays),
		cmocka_unit_test(what_never_will_pass_is_dropped_and_counted),
		cmocka_unit_test(permanent_errors_and_partial_success_are_counted),
		cmocka_unit_test(retry_after_is_honoured_within_bounds),
		cmocka_unit_test(a_full_queue_drops_counts_and_never_waits),
		cmocka_unit_test(what_is_too_old_is_dropped),
		cmocka_unit_test(an_answer_without_end_is_cut_off),
		cmocka_unit_test(what_waits_at_the_end_goes_out_or_is_counted),
		cmocka_unit_test(a_url_that_is_none_is_said_at_the_start),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
