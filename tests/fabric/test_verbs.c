// SPDX-License-Identifier: Apache-2.0
/*
 * test_verbs.c - the verbs provider against the real passive side, over the RDMA device at hand:
 * soft-RoCE in the guest (tests/guest/). Each test starts a host in its own process, which can be
 * stopped, killed and asked for its queue pairs.
 *
 * Environment: RDMA_DEVICE (without it, all is skipped), ADDRESS of that device.
 */
#include "verbs_scene.h"

const char *device, *address, *host_secret;
uint16_t next_port = 17475;

static void what_is_read_is_what_is_there(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
	} cases[] = {
		{0, 8},
		{0, 64},
		{64, 64},
		{4096, 4096},
		{1, 1},
		{13, 1000},
		{REGION_BYTES - 64, 64},
		{0, 1 << 20},
		{REGION_BYTES - 4097, 4097},
	};
	struct host h;
	struct fabric *f;
	struct fabric_stats s;
	struct fabric_read r;
	uint8_t *buffer;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, NULL);
	buffer = fabric_buffer(f, NULL);
	assert_int_equal(fabric_directory(f)->length, REGION_BYTES);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(buffer, 0xee, cases[i].length + 8);
		r = (struct fabric_read){
			.remote = fabric_directory(f),
			.offset = cases[i].offset,
			.length = cases[i].length,
			.to = buffer,
			.status = 1,
		};
		assert_int_equal(fabric_post(f, &r, 1), 1);
		collect(f, 1);
		assert_int_equal(r.status, 0);
		assert_pattern(buffer, cases[i].offset, cases[i].length);
		assert_int_equal(buffer[cases[i].length], 0xee);
	}
	fabric_stats(f, &s);
	assert_int_equal(s.reads, sizeof(cases) / sizeof(cases[0]));
	assert_int_equal(s.wrong_id, 0);
	fabric_close(f);
	host_stop(&h);
}

static void neighbours_travel_as_one_work_request(void **state)
{
	struct host h;
	struct fabric *f;
	struct fabric_stats s;
	struct fabric_read r[32];
	uint8_t *buffer;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, NULL);
	buffer = fabric_buffer(f, NULL);

	/* Adjacent on both sides: one request, one landing area. */
	for (uint32_t i = 0; i < 32; i++)
		r[i] = (struct fabric_read){.remote = fabric_directory(f),
					    .offset = i * 4096,
					    .length = 4096,
					    .to = buffer + i * 4096};
	assert_int_equal(fabric_post(f, r, 32), 32);
	collect(f, 32);
	assert_pattern(buffer, 0, 32 * 4096);
	fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 1);
	assert_int_equal(s.doorbells, 1);
	assert_int_equal(s.reads, 32);

	/*
	 * Adjacent in the host, separate here: one request scatters, and leaves the memory between
	 * intact.
	 */
	memset(buffer, 0xee, 1 << 20);
	for (uint32_t i = 0; i < 8; i++)
		r[i] = (struct fabric_read){.remote = fabric_directory(f),
					    .offset = 512 + i * 64,
					    .length = 64,
					    .to = buffer + (7 - i) * 256};
	assert_int_equal(fabric_post(f, r, 8), 8);
	collect(f, 8);
	for (uint32_t i = 0; i < 8; i++) {
		assert_pattern(buffer + (7 - i) * 256, 512 + i * 64, 64);
		for (uint32_t j = 64; j < 256; j++)
			assert_int_equal(buffer[(7 - i) * 256 + j], 0xee);
	}
	fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 2);

	/* A small gap is read as well, and discarded. */
	memset(buffer, 0xee, 1 << 20);
	for (uint32_t i = 0; i < 4; i++)
		r[i] = (struct fabric_read){.remote = fabric_directory(f),
					    .offset = i * 320,
					    .length = 64,
					    .to = buffer + i * 64};
	assert_int_equal(fabric_post(f, r, 4), 4);
	collect(f, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_pattern(buffer + i * 64, i * 320, 64);
	assert_int_equal(buffer[4 * 64], 0xee);
	fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 3);

	/* A large gap is not; neither are READs backward merged. */
	r[0] = (struct fabric_read){
		.remote = fabric_directory(f), .offset = 65536, .length = 64, .to = buffer};
	r[1] = (struct fabric_read){
		.remote = fabric_directory(f), .offset = 131072, .length = 64, .to = buffer + 64};
	r[2] = (struct fabric_read){
		.remote = fabric_directory(f), .offset = 0, .length = 64, .to = buffer + 128};
	assert_int_equal(fabric_post(f, r, 3), 3);
	collect(f, 3);
	fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 6);
	assert_int_equal(s.doorbells, 4);
	assert_pattern(buffer + 128, 0, 64);
	fabric_close(f);
	host_stop(&h);
}

static void every_read_completes_once_whatever_the_queue(void **state)
{
	static const uint32_t depths[] = {1, 2, 7, 128};
	enum { READS = 256, ROUNDS = 12 };
	static struct fabric_read r[READS];
	struct host h;

	(void)state;
	host_start(&h, next_port++, 0);
	for (size_t d = 0; d < sizeof(depths) / sizeof(depths[0]); d++) {
		struct fabric *f = open_fabric(&h, depths[d]);
		struct fabric_stats s;
		struct fabric_read *done[16];
		uint8_t *buffer;
		uint64_t end;

		come_up(f, NULL);
		buffer = fabric_buffer(f, NULL);
		srand(1);
		for (int round = 0; round < ROUNDS; round++) {
			uint32_t posted = 0, finished = 0;

			memset(buffer, 0, READS * 1024);
			for (uint32_t i = 0; i < READS; i++) {
				uint64_t offset = i && rand() % 2
							  ? r[i - 1].offset + r[i - 1].length +
								    (uint32_t)(rand() % 3) * 64
							  : (uint64_t)(rand() % 4096) * 64;

				r[i] = (struct fabric_read){
					.remote = fabric_directory(f),
					.offset = offset,
					.length = (uint32_t)(1 + rand() % 16) * 64,
					.to = buffer + i * 1024,
					.status = 1,
				};
			}
			end = clock_ns(CLOCK_MONOTONIC) + 100000000000ull;
			while (finished < READS && clock_ns(CLOCK_MONOTONIC) < end) {
				int n = fabric_post(f, r + posted, READS - posted);

				assert_true(n >= 0);
				posted += (uint32_t)n;
				assert_int_equal(f->outstanding, posted - finished);
				n = fabric_poll(f, done, 16, clock_ns(CLOCK_MONOTONIC), TIMEOUT_NS);
				for (int i = 0; i < n; i++) {
					assert_int_equal(done[i]->tag, 0);
					done[i]->tag = 1;
				}
				finished += (uint32_t)n;
			}
			assert_int_equal(finished, READS);
			for (uint32_t i = 0; i < READS; i++) {
				assert_int_equal(r[i].tag, 1);
				assert_int_equal(r[i].status, 0);
				assert_pattern(r[i].to, r[i].offset, r[i].length);
			}
		}
		fabric_stats(f, &s);
		assert_int_equal(s.reads, READS * ROUNDS);
		assert_int_equal(s.wrong_id, 0);
		assert_true(s.work_requests < s.reads);
		fabric_close(f);
	}
	host_stop(&h);
}

static void a_read_out_of_bounds_never_leaves(void **state)
{
	struct host h;
	struct fabric *f;
	struct fabric_stats s;
	uint8_t *buffer;
	size_t bytes;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, NULL);
	buffer = fabric_buffer(f, &bytes);
	struct fabric_read r[] = {
		{.remote = fabric_directory(f), .offset = 0, .length = 64, .to = buffer},
		{.remote = fabric_directory(f), .offset = REGION_BYTES, .length = 1, .to = buffer},
		{.remote = fabric_directory(f),
		 .offset = REGION_BYTES - 8,
		 .length = 16,
		 .to = buffer},
		{.remote = fabric_directory(f),
		 .offset = UINT64_MAX - 7,
		 .length = 16,
		 .to = buffer},
		{.remote = fabric_directory(f), .length = 16, .to = buffer + bytes - 8},
		{.remote = fabric_directory(f), .length = 16, .to = &s},
		{.remote = fabric_directory(f), .offset = 64, .length = 64, .to = buffer + 64},
	};
	assert_int_equal(fabric_post(f, r, 7), 7);
	collect(f, 7);
	assert_int_equal(r[0].status, 0);
	for (int i = 1; i < 6; i++)
		assert_int_equal(r[i].status, -ERANGE);
	assert_int_equal(r[6].status, 0);
	fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 2);
	assert_int_equal(s.errors_access, 5);
	fabric_close(f);
	host_stop(&h);
}

static void a_refused_key_ends_the_connection_and_nothing_else(void **state)
{
	struct host h;
	struct fabric *f;
	struct fabric_stats s;
	struct fabric_remote wrong, right;
	struct fabric_read r[6];
	uint64_t epoch = 0, later = 0;
	uint8_t *buffer;
	char answer;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, &epoch);
	assert_int_equal(epoch, 1);
	buffer = fabric_buffer(f, NULL);
	right = wrong = *fabric_directory(f);
	wrong.rkey ^= 0x55;
	for (uint32_t i = 0; i < 6; i++)
		r[i] = (struct fabric_read){.remote = i == 3 ? &wrong : &right,
					    .offset = i * 65536,
					    .length = 64,
					    .to = buffer + i * 64,
					    .status = 1};
	assert_int_equal(fabric_post(f, r, 6), 6);
	collect(f, 6);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(r[i].status, 0);
		assert_pattern(r[i].to, r[i].offset, 64);
	}
	assert_int_equal(r[3].status, -EACCES);
	assert_int_equal(r[4].status, -ENOTCONN);
	assert_int_equal(r[5].status, -ENOTCONN);
	assert_null(fabric_directory(f));
	assert_int_equal(fabric_post(f, r, 1), -ENOTCONN);

	come_up(f, &later);
	assert_int_equal(later, 2);
	r[0] = (struct fabric_read){.remote = fabric_directory(f), .length = 64, .to = buffer};
	assert_int_equal(fabric_post(f, r, 1), 1);
	collect(f, 1);
	assert_int_equal(r[0].status, 0);

	/* The same, when the host removes a registration that was valid before. */
	right = *fabric_directory(f);
	assert_int_equal(write(h.control, "u", 1), 1);
	assert_int_equal(read(h.control, &answer, 1), 1);
	r[0] = (struct fabric_read){.remote = &right, .length = 64, .to = buffer};
	assert_int_equal(fabric_post(f, r, 1), 1);
	collect(f, 1);
	assert_int_equal(r[0].status, -EACCES);
	come_up(f, &later);
	assert_int_equal(later, 3);
	assert_int_not_equal(fabric_directory(f)->rkey, right.rkey);
	fabric_stats(f, &s);
	assert_int_equal(s.errors_access, 2);
	assert_int_equal(s.errors_other, 2);
	assert_int_equal(s.connects, 3);
	assert_int_equal(s.disconnects, 2);
	fabric_close(f);
	host_stop(&h);
}

static void a_host_that_comes_back_is_found_again(void **state)
{
	struct host h;
	struct fabric *f;
	struct fabric_stats s;
	struct fabric_read r;
	uint64_t epoch = 0, start;
	uint16_t port = next_port++;

	(void)state;
	h.port = port;
	snprintf(h.target, sizeof(h.target), "%s:%u", address, port);
	f = open_fabric(&h, 0);
	/* A slow machine needs several attempts of 300 ms to hear of the refusal. */
	for (int i = 0; i < 60; i++) {
		assert_false(await_state(f, FABRIC_UP, 300, &epoch));
		fabric_stats(f, &s);
		if (strstr(s.last_error, "no process is listening"))
			break;
	}
	assert_non_null(strstr(s.last_error, "no process is listening"));

	host_start(&h, port, 0);
	come_up(f, &epoch);
	assert_int_equal(epoch, 1);
	for (int again = 0; again < 3; again++) {
		host_kill(&h);
		start = clock_ns(CLOCK_MONOTONIC);
		assert_true(await_state(f, FABRIC_DOWN, 100000, &epoch));
		assert_true(clock_ns(CLOCK_MONOTONIC) - start < 100000000000u);
		host_start(&h, port, 0);
		come_up(f, &epoch);
		assert_int_equal(epoch, again + 2);
		r = (struct fabric_read){.remote = fabric_directory(f),
					 .offset = 4096,
					 .length = 4096,
					 .to = fabric_buffer(f, NULL)};
		assert_int_equal(fabric_post(f, &r, 1), 1);
		collect(f, 1);
		assert_int_equal(r.status, 0);
		assert_pattern(r.to, 4096, 4096);
	}
	fabric_close(f);
	host_stop(&h);
}

static void a_stopped_host_is_read_all_the_same(void **state)
{
	struct host h;
	struct fabric *f;
	struct fabric_read r;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, NULL);
	kill(h.pid, SIGSTOP);
	for (int i = 0; i < 100; i++) {
		r = (struct fabric_read){.remote = fabric_directory(f),
					 .offset = (uint64_t)i * 64,
					 .length = 64,
					 .to = fabric_buffer(f, NULL)};
		assert_int_equal(fabric_post(f, &r, 1), 1);
		collect(f, 1);
		assert_int_equal(r.status, 0);
		assert_pattern(r.to, r.offset, 64);
	}
	kill(h.pid, SIGCONT);
	fabric_close(f);
	host_stop(&h);
}

static void await_queues(struct host *h, uint64_t want)
{
	struct reply reply = {.queues = ~0ull};

	for (int i = 0; i < 2000 && reply.queues != want; i++) {
		reply = host_look(h);
		pause_us(1000);
	}
	assert_int_equal(reply.queues, want);
}

static void a_queue_pair_is_freed_when_its_collector_dies(void **state)
{
	struct host h;
	struct fabric *f;
	struct reply reply;
	pid_t pid;
	int pair[2];
	char up;

	(void)state;
	host_start(&h, next_port++, 2);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(pipe(pair), 0);
		pid = fork();
		if (!pid) {
			f = open_fabric(&h, 0);
			come_up(f, NULL);
			if (write(pair[1], "u", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		assert_int_equal(read(pair[0], &up, 1), 1);
		reply = host_look(&h);
		assert_int_equal(reply.queues, 1);
		assert_string_equal(reply.state, "RTS");
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(pair[0]);
		close(pair[1]);
		await_queues(&h, 0);
	}
	reply = host_look(&h);
	assert_int_equal(reply.accepted, 5);
	assert_int_equal(reply.disconnected, 5);
	host_stop(&h);
}

static void one_too_many_is_told_so_and_gets_in_later(void **state)
{
	struct host h;
	struct fabric *f[3];
	struct fabric_stats s;

	(void)state;
	host_start(&h, next_port++, 2);
	for (int i = 0; i < 3; i++)
		f[i] = open_fabric(&h, 0);
	come_up(f[0], NULL);
	come_up(f[1], NULL);
	assert_false(await_state(f[2], FABRIC_UP, 500, NULL));
	fabric_stats(f[2], &s);
	assert_non_null(strstr(s.last_error, "queue pairs of the agent are in use"));
	assert_true(host_look(&h).rejected >= 1);
	assert_int_equal(host_look(&h).queues, 2);
	fabric_close(f[0]);
	come_up(f[2], NULL);
	fabric_close(f[1]);
	fabric_close(f[2]);
	await_queues(&h, 0);
	host_stop(&h);
}

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test(test)
	const struct CMUnitTest tests[] = {
		T(what_is_read_is_what_is_there),
		T(neighbours_travel_as_one_work_request),
		T(every_read_completes_once_whatever_the_queue),
		T(a_read_out_of_bounds_never_leaves),
		T(a_refused_key_ends_the_connection_and_nothing_else),
		T(a_host_that_comes_back_is_found_again),
		T(a_stopped_host_is_read_all_the_same),
		T(a_queue_pair_is_freed_when_its_collector_dies),
		T(one_too_many_is_told_so_and_gets_in_later),
		T(a_host_that_lies_is_not_believed),
		T(a_stranger_is_turned_away),
		T(a_secret_is_proven_both_ways_before_there_is_a_queue_pair),
		T(what_is_not_there_is_said_in_one_line),
		T(a_gid_is_chosen_by_its_index),
		T(a_verdict_is_written_and_the_host_hears_of_it),
		T(a_host_that_does_not_listen_holds_up_verdicts_alone),
		T(a_board_ends_where_it_ends),
		T(who_reads_writes_nothing_and_who_writes_reads_nothing),
		T(a_device_that_vanishes_is_survived),
	};

	if (argc > 1 && !strcmp(argv[1], "--list")) {
		for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
			puts(tests[i].name);
		return 0;
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	device = getenv("RDMA_DEVICE");
	address = getenv("ADDRESS");
	if (!device || !address) {
		printf("SKIP: RDMA_DEVICE and ADDRESS name no RDMA device\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
