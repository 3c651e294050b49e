// SPDX-License-Identifier: Apache-2.0
/* test_kafka.c - the collector's side of the stream to sidelight-kafka, which is made up here. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "base/child.h"
#include "export/kafka.h"
#include "export/kafka_wire.h"

/* The program's end of its socket, and the collector's. */
static int theirs = -1, ours = -1;
static _Atomic unsigned int restarts, without_descriptor;

int __wrap_base_program_find(const char *name, char path[PATH_MAX]);
struct base_child *__wrap_base_child_fork(const struct base_child_opts *o);
int __wrap_base_child_start(struct base_child *c, const struct base_child_start *with);
int __wrap_base_child_await(struct base_child *c);
int __wrap_base_child_sock(const struct base_child *c);
bool __wrap_base_child_again(struct base_child *c, const struct base_child_start *with);
void __wrap_base_child_free(struct base_child *c);
ssize_t __real_base_receive_fd(int sock, void *to, size_t bytes, int flags, int *fd);
ssize_t __wrap_base_receive_fd(int sock, void *to, size_t bytes, int flags, int *fd);

int __wrap_base_program_find(const char *name, char path[PATH_MAX])
{
	(void)name, (void)path;
	return 0;
}

struct base_child *__wrap_base_child_fork(const struct base_child_opts *o)
{
	static int child;

	(void)o;
	return (struct base_child *)(void *)&child;
}

/* Starts a program, which offers a stream at once. */
static void start_program(void)
{
	const struct iovec one = {.iov_base = (char[]){0}, .iov_len = 1};
	int sock[2], stream[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
	assert_true(base_send_fds(sock[0], &one, 1, &stream[1], 1, 0) >= 0);
	close(stream[1]);
	close(sock[0]); /* exits when the stream ends */
	ours = sock[1];
	theirs = stream[0];
}

int __wrap_base_child_start(struct base_child *c, const struct base_child_start *with)
{
	(void)c, (void)with;
	start_program();
	return 0;
}

int __wrap_base_child_await(struct base_child *c)
{
	(void)c;
	return 0;
}

int __wrap_base_child_sock(const struct base_child *c)
{
	(void)c;
	return ours;
}

/* A program that has been killed three times within a minute would end the collector. */
bool __wrap_base_child_again(struct base_child *c, const struct base_child_start *with)
{
	char byte;

	(void)c, (void)with;
	assert_int_equal(recv(ours, &byte, 1, MSG_DONTWAIT), 0); /* it has exited by itself */
	assert_int_equal(recv(theirs, &byte, 1, MSG_DONTWAIT), 0);
	close(ours);
	close(theirs);
	start_program();
	restarts++;
	return true;
}

void __wrap_base_child_free(struct base_child *c)
{
	(void)c;
}

ssize_t __wrap_base_receive_fd(int sock, void *to, size_t bytes, int flags, int *fd)
{
	ssize_t n = __real_base_receive_fd(sock, to, bytes, flags, fd);

	if (*fd < 0 || !without_descriptor)
		return n;
	without_descriptor--;
	close(*fd);
	*fd = -1;
	return -EMFILE;
}

static void a_stream_that_finds_no_descriptor_is_opened_again(void **state)
{
	struct export_kafka_header h;
	struct export_kafka *k;
	char error[256];

	(void)state;
	without_descriptor = 1;
	k = export_kafka_fork("config", true, error, sizeof(error));
	assert_non_null(k);
	assert_int_equal(export_kafka_open(k, error, sizeof(error)), 0);
	assert_int_equal(export_kafka_start(k, error, sizeof(error)), 0);
	for (int i = 0; i < 500 && !restarts; i++)
		usleep(10000);
	assert_int_equal(restarts, 1);
	assert_int_equal(export_kafka_errors(k), 1);
	assert_int_equal(export_kafka_send(k, EXPORT_KAFKA_INCIDENTS, "key", "body", 4), 0);
	assert_int_equal(recv(theirs, &h, sizeof(h), MSG_WAITALL), sizeof(h));
	assert_int_equal(h.body_bytes, 4);
	assert_int_equal(restarts, 1);
	export_kafka_free(k, 0);
	close(ours);
	close(theirs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_that_finds_no_descriptor_is_opened_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
