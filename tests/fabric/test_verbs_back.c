// SPDX-License-Identifier: Apache-2.0
/*
 * test_verbs_back.c - verdicts to a host, by WRITE into its verdict board; the set-up is
 * test_verbs.c's.
 */
#include "verbs_scene.h"
#include "fabric/verbs.h"

static struct fabric *open_notifier(const struct host *h)
{
	struct fabric *f = fabric_open(h->target, &(struct fabric_opts){.gid_index = -1,
									.queue_depth = 32,
									.buffer_bytes = 4096,
									.notify = true});

	assert_non_null(f);
	return f;
}

static const struct sl_msg_verdict verdict = {
	.instance = 7, .flags = SL_VERDICT_ANOMALOUS, .ttl_ns = 1000000, .score = 3};

/* Sends a verdict, waiting for room if necessary. */
static void notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *v)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS;
	int err;

	while ((err = fabric_notify(f, entry, v)) == -EAGAIN && clock_ns(CLOCK_MONOTONIC) < end) {
		fabric_drive(f, clock_ns(CLOCK_MONOTONIC), NULL);
		pause_us(100);
	}
	assert_int_equal(err, 0);
}

static struct reply await_notices(struct host *h, uint64_t count)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS;
	struct reply r;

	do {
		pause_us(1000);
		r = host_look(h);
	} while (r.notices < count && clock_ns(CLOCK_MONOTONIC) < end);
	assert_int_equal(r.notices, count);
	return r;
}

void a_verdict_is_written_and_the_host_hears_of_it(void **state)
{
	struct sl_msg_verdict v = verdict;
	struct fabric *f;
	struct host h;
	struct reply r;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_notifier(&h);
	come_up(f, NULL);
	notify(f, 5, &v);
	r = await_notices(&h, 1);
	assert_int_equal(r.last_notice, 5);
	assert_memory_equal(&r.line.verdict, &v, sizeof(v));
	assert_true(r.line.check == sl_line_check((const uint64_t *)&r.line));
	/* More than fit in queues and receives; each arrives once. */
	for (uint64_t i = 0; i < 1000; i++) {
		v.instance = 100 + i;
		notify(f, (uint32_t)(i % BOARD_LINES), &v);
	}
	r = await_notices(&h, 1001);
	assert_int_equal(r.line.verdict.instance, 1099);
	fabric_close(f);
	host_stop(&h);
}

void a_host_that_does_not_listen_holds_up_verdicts_alone(void **state)
{
	struct fabric *f, *reader;
	struct fabric_read r;
	struct host h;
	uint64_t epoch = 0, later, end;
	int err = 0;

	(void)state;
	host_start(&h, next_port++, 0);
	reader = open_fabric(&h, 0);
	come_up(reader, NULL);
	f = open_notifier(&h);
	come_up(f, &epoch);
	kill(h.pid, SIGSTOP);
	/* Its receives are used up, then our queue. This is noticed, and ends the connection. */
	end = clock_ns(CLOCK_MONOTONIC) + 2 * TIMEOUT_NS;
	later = epoch;
	while (err != -ENOTCONN && clock_ns(CLOCK_MONOTONIC) < end) {
		err = fabric_notify(f, 1, &verdict);
		fabric_drive(f, clock_ns(CLOCK_MONOTONIC), &later);
		pause_us(200);
	}
	assert_int_equal(err, -ENOTCONN);
	for (int i = 0; i < 100; i++) {
		r = (struct fabric_read){.remote = fabric_directory(reader),
					 .offset = (uint64_t)i * 64,
					 .length = 64,
					 .to = fabric_buffer(reader, NULL)};
		assert_int_equal(fabric_post(reader, &r, 1), 1);
		collect(reader, 1);
		assert_int_equal(r.status, 0);
	}
	kill(h.pid, SIGCONT);
	come_up(f, &later);
	assert_true(later > epoch);
	notify(f, 2, &verdict);
	end = clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS;
	while (host_look(&h).last_notice != 2 && clock_ns(CLOCK_MONOTONIC) < end)
		pause_us(1000);
	assert_int_equal(host_look(&h).last_notice, 2);
	fabric_close(f);
	fabric_close(reader);
	host_stop(&h);
}

/* The device refuses the WRITE: only that connection ends. */
static void refused_write(struct fabric *f, uint32_t entry)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS;

	assert_int_equal(fabric_notify(f, entry, &verdict), 0);
	while (fabric_drive(f, clock_ns(CLOCK_MONOTONIC), NULL) == FABRIC_UP &&
	       clock_ns(CLOCK_MONOTONIC) < end)
		pause_us(200);
	assert_null(fabric_directory(f));
}

void a_board_ends_where_it_ends(void **state)
{
	struct fabric *f;
	struct host h;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_notifier(&h);
	come_up(f, NULL);
	refused_write(f, 1u << 20);
	come_up(f, NULL);
	notify(f, BOARD_LINES - 1, &verdict);
	assert_int_equal(await_notices(&h, 1).last_notice, BOARD_LINES - 1);
	fabric_close(f);
	host_stop(&h);
}

void who_reads_writes_nothing_and_who_writes_reads_nothing(void **state)
{
	struct fabric *f, *reader;
	struct fabric_verbs key;
	struct fabric_read r;
	struct host h;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_notifier(&h);
	reader = open_fabric(&h, 0);
	come_up(f, NULL);
	key = *fabric_verbs_of(f);
	come_up(reader, NULL);
	assert_int_equal(fabric_notify(reader, 1, &verdict), -EOPNOTSUPP);
	r = (struct fabric_read){
		.remote = fabric_directory(f), .length = 64, .to = fabric_buffer(f, NULL)};
	assert_int_equal(fabric_post(f, &r, 1), 1);
	collect(f, 1);
	assert_int_not_equal(r.status, 0);
	/*
	 * Nor may the board be read, or written where READs are allowed: its key is the notifier's.
	 */
	struct fabric_remote board = {.addr = key.board_addr, .length = 64, .id = 1};

	board.rkey = key.board_rkey;
	assert_int_not_equal(board.rkey, 0);

	r = (struct fabric_read){.remote = &board, .length = 64, .to = fabric_buffer(reader, NULL)};
	assert_int_equal(fabric_post(reader, &r, 1), 1);
	collect(reader, 1);
	assert_int_equal(r.status, -EACCES);
	assert_int_equal(host_look(&h).notices, 0);
	fabric_close(f);
	fabric_close(reader);
	host_stop(&h);
}
