// SPDX-License-Identifier: Apache-2.0
/*
 * test_line.c - the control channel: messages split anywhere, and descriptors that arrive with
 * their message.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"
#include "dta/translate/control.h"

static struct dta_control_line *end[2];

static void connect_both(void)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	end[0] = dta_control_line_new(fd[0]);
	end[1] = dta_control_line_new(fd[1]);
}

static void free_both(void)
{
	dta_control_line_free(end[0]);
	dta_control_line_free(end[1]);
}

static void each_message_comes_whole_in_whatever_pieces(void **state)
{
	const char *text = "{\"type\":\"a\",\"n\":1}\n{\"type\":\"b\"}\n";
	int passed;
	json_t *j;

	(void)state;
	connect_both();
	for (size_t i = 0; text[i]; i++) {
		j = dta_control_line_read(end[1], &passed);
		assert_null(j);
		assert_int_equal(errno, EAGAIN);
		assert_int_equal(write(dta_control_line_fd(end[0]), text + i, 1), 1);
		if (text[i] != '\n')
			continue;
		j = dta_control_line_read(end[1], &passed);
		assert_non_null(j);
		assert_string_equal(json_string_value(json_object_get(j, "type")),
				    i < 20 ? "a" : "b");
		json_decref(j);
	}
	assert_int_equal(write(dta_control_line_fd(end[0]), text, strlen(text)),
			 (ssize_t)strlen(text));
	for (int i = 0; i < 2; i++)
		json_decref(dta_control_line_read(end[1], &passed));
	assert_null(dta_control_line_read(end[1], &passed));
	assert_int_equal(errno, EAGAIN);
	shutdown(dta_control_line_fd(end[0]), SHUT_WR);
	assert_null(dta_control_line_read(end[1], &passed));
	assert_int_equal(errno, EPIPE);
	free_both();
}

/* More than a socket accepts at a time, with a descriptor in every third message. */
static void descriptors_come_with_their_message(void **state)
{
	enum { N = 300 };
	int fd = memfd_create("test", MFD_CLOEXEC), passed, got = 0;
	static char filler[40000];
	struct stat st;

	(void)state;
	memset(filler, 'x', sizeof(filler) - 1);
	connect_both();
	for (int i = 0; i < N; i++) {
		if (i % 3 == 0)
			assert_int_equal(ftruncate(fd, i + 1), 0);
		assert_int_equal(dta_control_line_write(end[0],
							json_pack("{s:i,s:s}", "n", i, "fill",
								  i % 7 ? "" : filler),
							i % 3 ? -1 : fd),
				 0);
		while (i == N - 1 ? got < N : dta_control_line_pending(end[0])) {
			json_t *j = dta_control_line_read(end[1], &passed);

			if (!j) {
				assert_int_equal(errno, EAGAIN);
				assert_int_equal(dta_control_line_flush(end[0]), 0);
				continue;
			}
			assert_int_equal(json_integer_value(json_object_get(j, "n")), got);
			assert_int_equal(passed >= 0, got % 3 == 0);
			if (passed >= 0) {
				assert_int_equal(fstat(passed, &st), 0);
				close(passed);
			}
			got++;
			json_decref(j);
		}
	}
	close(fd);
	free_both();
}

static void what_is_no_object_or_too_long_is_refused(void **state)
{
	static const char *const wrong[] = {"\n",    "{\n", "[]\n", "7\n", "{\"a\":1,\"a\":2}\n",
					    "{}{}\n"};
	static char filler[65536];
	int passed;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		connect_both();
		assert_int_equal(write(dta_control_line_fd(end[0]), wrong[i], strlen(wrong[i])),
				 (ssize_t)strlen(wrong[i]));
		assert_null(dta_control_line_read(end[1], &passed));
		assert_int_equal(errno, EPROTO);
		free_both();
	}
	connect_both();
	memset(filler, ' ', sizeof(filler));
	for (size_t sent = 0; errno != EMSGSIZE && sent < 4 * DTA_CONTROL_LINE_MAX;) {
		sent += (size_t)write(dta_control_line_fd(end[0]), filler, sizeof(filler));
		assert_null(dta_control_line_read(end[1], &passed));
		assert_true(sent <= DTA_CONTROL_LINE_MAX + sizeof(filler) || errno == EMSGSIZE);
	}
	assert_int_equal(errno, EMSGSIZE);
	free_both();
}

/* A peer that does not read costs at most a bounded queue. */
static void a_peer_that_does_not_read_is_given_up(void **state)
{
	static char filler[500000];
	int err = 0;

	(void)state;
	memset(filler, 'x', sizeof(filler) - 1);
	connect_both();
	for (int i = 0; i < 100 && !err; i++)
		err = dta_control_line_write(end[0], json_pack("{s:s}", "fill", filler), -1);
	assert_int_equal(err, -ENOBUFS);
	dta_control_line_free(end[1]);
	assert_int_equal(dta_control_line_write(end[0], json_pack("{}"), -1), -EPIPE);
	dta_control_line_free(end[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_message_comes_whole_in_whatever_pieces),
		cmocka_unit_test(descriptors_come_with_their_message),
		cmocka_unit_test(what_is_no_object_or_too_long_is_refused),
		cmocka_unit_test(a_peer_that_does_not_read_is_given_up),
	};

	return cmocka_run_group_tests_name("line", tests, NULL, NULL);
}
