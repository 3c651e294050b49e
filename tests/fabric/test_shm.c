/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm provider and the code common to all providers, with a simulated agent: the test itself
 * drives the other end of the socket, so that it can lie in any way and at any moment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "shm_scene.h"

/* ---- the agent ---- */

/* ---- tests: opening ---- */

static void a_target_names_its_provider_or_nothing(void **state)
{
	struct fabric *f;
	char longest[200];

	(void)state;
	f = fabric_open("unix:relative.sock", NULL);
	assert_non_null(f);
	assert_string_equal(fabric_name(f), "shm");
	fabric_close(f);

	static const char *const wrong[] = {
		"",	      "./here", "a/b",	 "unix:", "host:", "host:0",
		"host:65536", "host:x", ":7475", "[::1",  "[::1]x"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		errno = 0;
		assert_null(fabric_open(wrong[i], NULL));
		assert_true(errno == EINVAL || errno == EOPNOTSUPP);
		assert_true(fabric_error()[0]);
		assert_null(strchr(fabric_error(), '\n'));
	}
	assert_null(fabric_open(NULL, NULL));
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[199] = '\0';
	assert_null(fabric_open(longest, NULL));
	assert_int_equal(errno, EINVAL);

	/* A remote host without RDMA: refused immediately. */
	f = fabric_open("10.255.255.1", &(struct fabric_opts){.device = "none0"});
	assert_null(f);
	assert_true(errno == ENODEV || errno == EOPNOTSUPP);
	assert_non_null(strstr(fabric_error(), "RDMA"));
	fabric_close(NULL);
}

static void reads_see_the_memory_as_it_is_now(void **state)
{
	struct agent *a = *state;
	struct fabric_remote region = {.id = 5, .length = SIZE};
	struct fabric_stats s;
	struct fabric *f;
	struct answer answer;
	uint64_t *buffer, *map;
	size_t bytes;

	agent_listen(a);
	f = connect_to(a);
	buffer = fabric_buffer(f, &bytes);
	assert_int_equal(bytes, 4 << 20);
	assert_int_equal((uintptr_t)buffer % 64, 0);
	answer = good_answer(a, 5, SIZE);
	int fd = fcntl(answer.fd, F_DUPFD_CLOEXEC, 0);

	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(map_with(f, &region, &answer), 0);
	for (uint64_t i = 0; i < 5; i++) {
		struct fabric_read r = {
			.remote = &region, .offset = 64, .length = 4096, .to = buffer, .status = 1};

		map[8] = i * 77;
		assert_int_equal(read_one(f, &r)->status, 0);
		assert_int_equal(buffer[0], i * 77);
		for (uint64_t w = 1; w < 512; w++)
			assert_int_equal(buffer[w], 8 + w);
	}
	/* Also lengths that are not multiples of a word. */
	for (uint32_t length = 1; length < 24; length++) {
		struct fabric_read r = {.remote = &region,
					.offset = 801,
					.length = length,
					.to = (uint8_t *)buffer + 3};

		memset(buffer, 0xee, 64);
		assert_int_equal(read_one(f, &r)->status, 0);
		assert_memory_equal((uint8_t *)buffer + 3, (uint8_t *)map + 801, length);
		assert_int_equal(((uint8_t *)buffer)[3 + length], 0xee);
	}
	fabric_stats(f, &s);
	assert_int_equal(s.reads, 28);
	assert_int_equal(s.bytes, 5 * 4096 + 23 * 24 / 2);
	fabric_unmap(f, &region);
	assert_null(region.local);
	fabric_unmap(f, &region);
	munmap(map, SIZE);
	close(fd);
	fabric_close(f);
}

/* Kilobytes that a memfd uses. */
static long occupied(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_blocks / 2;
}

static void read_all(struct fabric *f, const struct fabric_remote *region, uint64_t *buffer)
{
	for (uint64_t at = 0; at < region->length; at += 65536) {
		struct fabric_read r = {
			.remote = region, .offset = at, .length = 65536, .to = buffer};

		memset(buffer, 0xee, 65536);
		assert_int_equal(read_one(f, &r)->status, 0);
	}
}

/* A publisher's holes remain holes: a reader that faulted in pages would be charged for them. */
static void holes(struct agent *a, unsigned int seals, bool punch)
{
	const uint64_t bytes = 16u << 20, value = 77, offset = 5 << 20;
	struct fabric_remote region = {.id = 5, .length = bytes};
	struct answer answer = good_answer(a, 5, SIZE);
	struct fabric_read one;
	struct fabric *f;
	uint64_t *buffer, *map;
	size_t ignored;
	int fd;

	close(answer.fd);
	fd = memfd_create("holes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	if (fcntl(fd, F_ADD_SEALS, seals)) {
		assert_int_equal(errno, EINVAL); /* an old kernel */
		skip();
	}
	agent_listen(a);
	f = connect_to(a);
	buffer = fabric_buffer(f, &ignored);
	answer.region.size = bytes;
	answer.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(map_with(f, &region, &answer), 0);
	read_all(f, &region, buffer);
	assert_int_equal(occupied(fd), 0);
	for (size_t i = 0; i < 65536 / 8; i++)
		assert_int_equal(buffer[i], 0);
	/* Data written later is seen, also beside holes. */
	one = (struct fabric_read){
		.remote = &region, .offset = offset - 4096, .length = 12288, .to = buffer};
	for (uint64_t n = value; n < value + 3; n++) {
		map[offset / 8 + 1] = n;
		assert_int_equal(read_one(f, &one)->status, 0);
		assert_int_equal(buffer[512], 0);
		assert_int_equal(buffer[513], n);
		assert_int_equal(buffer[1024], 0);
	}
	one.offset = offset + 8 - 800;
	one.length = 813;
	assert_int_equal(read_one(f, &one)->status, 0);
	assert_int_equal(buffer[100], value + 2);
	assert_true(occupied(fd) <= 64);
	if (punch) { /* a hole that was data before */
		assert_int_equal(madvise(map, bytes, MADV_REMOVE), 0);
		read_all(f, &region, buffer);
		assert_int_equal(occupied(fd), 0);
	} else { /* no more holes can be made */
		assert_int_equal(madvise(map, bytes, MADV_REMOVE), -1);
	}
	fabric_unmap(f, &region);
	munmap(map, bytes);
	close(fd);
	fabric_close(f);
}

static void a_read_of_holes_allocates_nothing(void **state)
{
	holes(*state, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, false);
}

static void nor_where_holes_may_be_punched_again(void **state)
{
	holes(*state, F_SEAL_SHRINK | F_SEAL_GROW, true);
}

static void a_read_out_of_bounds_is_refused_and_copies_nothing(void **state)
{
	struct agent *a = *state;
	struct fabric *f;
	struct fabric_remote none = {.id = 3, .length = SIZE};
	struct fabric_stats s;
	struct fabric_read *done[16];
	uint8_t *buffer;
	size_t bytes;
	int n;

	agent_listen(a);
	f = connect_to(a);
	buffer = fabric_buffer(f, &bytes);
	memset(buffer, 0xee, bytes);
	const struct fabric_remote *d = fabric_directory(f);
	struct fabric_read r[] = {
		{.remote = d, .offset = SIZE, .length = 1, .to = buffer},
		{.remote = d, .offset = SIZE - 8, .length = 9, .to = buffer},
		{.remote = d, .offset = UINT64_MAX, .length = 2, .to = buffer},
		{.remote = d, .offset = 0, .length = 0, .to = buffer},
		{.remote = d, .offset = 0, .length = UINT32_MAX, .to = buffer},
		{.remote = d, .offset = 0, .length = 64, .to = buffer + bytes - 63},
		{.remote = d, .offset = 0, .length = 64, .to = buffer - 1},
		{.remote = d, .offset = 0, .length = 64, .to = NULL},
		{.remote = &none, .offset = 0, .length = 64, .to = buffer},
		{.remote = d, .offset = SIZE - 64, .length = 64, .to = buffer + bytes - 64},
	};
	assert_int_equal(fabric_post(f, r, 10), 10);
	n = fabric_poll(f, done, 16, now, 0);
	assert_int_equal(n, 10);
	for (int i = 0; i < 8; i++)
		assert_int_equal(r[i].status, -ERANGE);
	assert_int_equal(r[8].status, -EACCES); /* never mapped */
	assert_int_equal(r[9].status, 0);
	for (size_t i = 0; i < bytes - 64; i++)
		if (buffer[i] != 0xee)
			fail_msg("byte %zu was written", i);
	fabric_stats(f, &s);
	assert_int_equal(s.errors_access, 9);
	assert_int_equal(s.reads, 1);
	fabric_close(f);
}

static void reads_not_collected_are_kept_up_to_a_bound(void **state)
{
	enum { MANY = 6000 };
	struct agent *a = *state;
	struct fabric_read *r = calloc(MANY, sizeof(*r)), *done[64];
	struct fabric *f;
	int taken, got = 0, n;

	agent_listen(a);
	f = connect_to(a);
	for (int i = 0; i < MANY; i++)
		r[i] = (struct fabric_read){.remote = fabric_directory(f),
					    .offset = 0,
					    .length = 64,
					    .to = fabric_buffer(f, NULL),
					    .status = 1};
	taken = fabric_post(f, r, MANY);
	assert_true(taken > 0 && taken < MANY);
	assert_int_equal(fabric_post(f, r + taken, MANY - (uint32_t)taken), 0);
	/* Also if the connection is lost, each completes once. */
	agent_gone(a);
	now += 10 * MS;
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_DOWN);
	assert_int_equal(fabric_post(f, r + taken, 1), -ENOTCONN);
	while ((n = fabric_poll(f, done, 64, now, 0)) > 0)
		for (int i = 0; i < n; i++) {
			assert_int_equal(done[i]->tag++, 0);
			got++;
		}
	assert_int_equal(got, taken);
	assert_int_equal(f->outstanding, 0);
	fabric_close(f);
	free(r);
}

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_target_names_its_provider_or_nothing),
		T(reads_see_the_memory_as_it_is_now),
		T(a_read_of_holes_allocates_nothing),
		T(nor_where_holes_may_be_punched_again),
		T(a_read_out_of_bounds_is_refused_and_copies_nothing),
		T(reads_not_collected_are_kept_up_to_a_bound),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
