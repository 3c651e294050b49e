// SPDX-License-Identifier: Apache-2.0
/* test_guard.c - settings that change while the server runs. Files and the front are made up. */
#include <errno.h>

#include "support/test.h"
#include "http/internal.h"

static char pem[] = "certificate";
static struct http_web first = {.tls = true, .stamp = 1, .cert = {pem, sizeof(pem)}},
		       second = {.tls = true, .stamp = 2, .cert = {pem, sizeof(pem)}};
static const struct http_web *freed;
static int told, error;

struct http_web *__wrap_http_web_read(const char *path, const char *roles, char *why, size_t bytes);
uint64_t __wrap_http_web_stamp(const char *path, const char *roles);
void __wrap_http_web_free(struct http_web *w);
int __wrap_http_message_send(int fd, struct http_message m, const void *head, size_t head_bytes,
			     const void *body, size_t body_bytes, const void *more, size_t bytes);

struct http_web *__wrap_http_web_read(const char *path, const char *roles, char *why, size_t bytes)
{
	(void)path, (void)roles, (void)why, (void)bytes;
	return &second;
}

uint64_t __wrap_http_web_stamp(const char *path, const char *roles)
{
	(void)path, (void)roles;
	return second.stamp;
}

void __wrap_http_web_free(struct http_web *w)
{
	freed = w ?: freed;
}

int __wrap_http_message_send(int fd, struct http_message m, const void *head, size_t head_bytes,
			     const void *body, size_t body_bytes, const void *more, size_t bytes)
{
	(void)fd, (void)head, (void)head_bytes, (void)body, (void)body_bytes, (void)more,
		(void)bytes;
	assert_int_equal(m.type, HTTP_TLS);
	told++;
	return error;
}

static void settings_the_front_cannot_get_are_not_used(void **state)
{
	static struct http h = {.web = &first, .address = "somewhere"};

	(void)state;
	h.opts.web_config = "web.yml";
	h.refused = h.own_refused;
	pthread_rwlock_init(&h.web_lock, NULL);
	pthread_mutex_init(&h.say, NULL);
	error = -ENOMEM;
	http_guard_poll(&h);
	assert_ptr_equal(h.web, &first);
	assert_null(h.former);
	assert_ptr_equal(freed, &second);
	assert_int_equal(h.refused[HTTP_REFUSED_SETTINGS], 1);
	/* They are tried again, although the files do not change. */
	error = 0;
	freed = NULL;
	http_guard_poll(&h);
	assert_ptr_equal(h.web, &second);
	assert_ptr_equal(h.former, &first);
	assert_null(freed);
	http_guard_poll(&h);
	assert_int_equal(told, 2);
	/* A front that is gone is no reason: the next one is told when it starts. */
	h.web = &first;
	h.former = NULL;
	error = -EPIPE;
	http_guard_poll(&h);
	assert_ptr_equal(h.web, &second);
	assert_int_equal(h.refused[HTTP_REFUSED_SETTINGS], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_the_front_cannot_get_are_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
