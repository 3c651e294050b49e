/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting of work requests in verbs.c, on a simulated device that executes READs when the test
 * says so, and can fail or lie in ways that real devices rarely do. Needs no RDMA.
 */

#include "support/test.h"
#include "../../src/fabric/verbs.c"

#define MEMORY (1u << 20)
#define MS     1000000ull

/* ---- the device ---- */

#define QUEUE 4096

static struct {
	struct {
		struct ibv_send_wr wr;
		struct ibv_sge sge[FABRIC_MERGE_AREAS_MAX];
	} queue[QUEUE];
	uint32_t posted, executed; /* numbers, mod QUEUE */
	struct ibv_wc done[QUEUE];
	uint32_t done_head, done_tail;
	int fail_at; /* post_send fails at this request of the chain; -1: not */
	int poll_fails;
	uint32_t doorbells, destroyed;
	uint32_t finished_when_destroyed;
} dev;

static struct fabric *fabric;
static uint8_t *memory;
static struct ibv_context context;
static struct ibv_qp qp;
static struct ibv_cq cq;
static struct ibv_mr mr;
static struct rdma_cm_id id;
static struct rdma_event_channel channel = {.fd = -1};
static struct fabric_remote region;

static int fake_post(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)q;
	dev.doorbells++;
	for (int i = 0; wr; wr = wr->next, i++) {
		uint32_t at = dev.posted % QUEUE;

		if (i == dev.fail_at) {
			*bad = wr;
			return ENOMEM;
		}
		assert_int_equal(wr->opcode, IBV_WR_RDMA_READ);
		assert_true(wr->num_sge >= 1 && wr->num_sge <= (int)FABRIC_MERGE_AREAS_MAX);
		assert_int_equal(wr->wr.rdma.rkey, 77);
		dev.queue[at].wr = *wr;
		memcpy(dev.queue[at].sge, wr->sg_list,
		       (size_t)wr->num_sge * sizeof(struct ibv_sge));
		dev.posted++;
		assert_true(dev.posted - dev.executed <= QUEUE);
	}
	return 0;
}

static int fake_poll(struct ibv_cq *c, int max, struct ibv_wc *wc)
{
	int n = 0;

	(void)c;
	if (dev.poll_fails)
		return -1;
	while (n < max && dev.done_head != dev.done_tail)
		wc[n++] = dev.done[dev.done_head++ % QUEUE];
	return n;
}

static void complete(uint64_t wr_id, enum ibv_wc_status status)
{
	dev.done[dev.done_tail++ % QUEUE] = (struct ibv_wc){.wr_id = wr_id, .status = status};
}

/* Executes the oldest count requests; an unsignalled one that succeeds has no completion. */
static void execute(uint32_t count, enum ibv_wc_status status)
{
	while (count--) {
		const struct ibv_send_wr *wr = &dev.queue[dev.executed % QUEUE].wr;
		const struct ibv_sge *sge = dev.queue[dev.executed % QUEUE].sge;
		const uint8_t *from = memory + (wr->wr.rdma.remote_addr - region.addr);

		dev.executed++;
		for (int i = 0; status == IBV_WC_SUCCESS && i < wr->num_sge; i++) {
			memcpy((void *)(uintptr_t)sge[i].addr, from, sge[i].length);
			from += sge[i].length;
		}
		if (status != IBV_WC_SUCCESS || wr->send_flags & IBV_SEND_SIGNALED)
			complete(wr->wr_id, status);
	}
}

int __wrap_fabric_rdma_find(const char *name, char *error, size_t bytes);
int __wrap_fabric_rdma_find(const char *name, char *error, size_t bytes)
{
	(void)name, (void)error, (void)bytes;
	return 0;
}

int __wrap_rdma_disconnect(struct rdma_cm_id *i);
int __wrap_rdma_disconnect(struct rdma_cm_id *i)
{
	assert_ptr_equal(i, &id);
	return 0;
}

void __wrap_rdma_destroy_qp(struct rdma_cm_id *i);
void __wrap_rdma_destroy_qp(struct rdma_cm_id *i)
{
	assert_ptr_equal(i->qp, &qp);
	i->qp = NULL;
	dev.destroyed++;
	dev.finished_when_destroyed = fabric->finished_count;
}

int __wrap_rdma_destroy_id(struct rdma_cm_id *i);
int __wrap_rdma_destroy_id(struct rdma_cm_id *i)
{
	assert_null(i->qp);
	return 0;
}

void __wrap_rdma_destroy_event_channel(struct rdma_event_channel *c);
void __wrap_rdma_destroy_event_channel(struct rdma_event_channel *c)
{
	assert_ptr_equal(c, &channel);
}

int __wrap_ibv_destroy_cq(struct ibv_cq *c);
int __wrap_ibv_destroy_cq(struct ibv_cq *c)
{
	assert_ptr_equal(c, &cq);
	return 0;
}

int __wrap_ibv_dereg_mr(struct ibv_mr *m);
int __wrap_ibv_dereg_mr(struct ibv_mr *m)
{
	assert_ptr_equal(m, &mr);
	assert_int_not_equal(dev.destroyed, 0);
	return 0;
}

int __wrap_rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **e);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **e)
{
	(void)c, (void)e;
	errno = EAGAIN;
	return -1;
}

/* ---- a connection that is up ---- */

static uint64_t now;

static void bring_up(uint32_t depth)
{
	struct fabric_verbs *v = fabric_verbs_of(fabric);

	context.ops.post_send = fake_post;
	context.ops.poll_cq = fake_poll;
	qp.context = cq.context = &context;
	id.qp = &qp;
	mr.lkey = 5;
	v->dial.channel = &channel;
	v->dial.id = &id;
	v->dial.phase = FABRIC_DIAL_UP;
	v->cq = &cq;
	v->mr = &mr;
	v->depth = depth;
	v->signal_every = depth >= 8 ? depth / 4 : 1;
	v->limits.areas = FABRIC_MERGE_AREAS_MAX;
	v->limits.bytes = 1u << 30;
	v->generation++;
	region = (struct fabric_remote){.id = 1, .addr = 0x7000000, .length = MEMORY, .rkey = 77};
	fabric_went_up(fabric, &region);
}

static void begin(uint32_t depth)
{
	struct fabric_opts opts = {.queue_depth = depth, .gid_index = -1};

	memset(&dev, 0, sizeof(dev));
	dev.fail_at = -1;
	fabric = fabric_open("192.0.2.1", &opts);
	assert_non_null(fabric);
	bring_up(depth);
	now = base_now_ns();
}

static void end(void)
{
	fabric_close(fabric);
}

static int make_memory(void **state)
{
	(void)state;
	memory = malloc(MEMORY);
	if (!memory)
		return -1;
	for (uint32_t i = 0; i < MEMORY; i++)
		memory[i] = (uint8_t)(i * 2654435761u >> 13);
	return 0;
}

static int free_memory(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

/* Makes count READs far from each other, so that each is a separate request. */
static void far_apart(struct fabric_read *r, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		r[i] = (struct fabric_read){
			.remote = &region,
			.offset = (uint64_t)i * 4096,
			.length = 64,
			.to = fabric->buffer + (size_t)i * 64,
			.status = 1,
		};
}

static uint32_t poll_all(uint64_t timeout_ns)
{
	struct fabric_read *done[64];
	uint32_t total = 0;
	int n;

	while ((n = fabric_poll(fabric, done, 64, now, timeout_ns)) > 0) {
		for (int i = 0; i < n; i++)
			assert_int_equal(done[i]->tag++, 0);
		total += (uint32_t)n;
	}
	return total;
}

/* ---- tests ---- */

static void any_schedule_completes_every_read_once_and_right(void **state)
{
	enum { READS = 64 };
	static const uint32_t depths[] = {1, 2, 3, 8, 100, 128};

	(void)state;
	for (size_t d = 0; d < sizeof(depths) / sizeof(depths[0]); d++) {
		static struct fabric_read r[READS];
		struct fabric_verbs *v;
		uint64_t reads = 0;

		begin(depths[d]);
		v = fabric_verbs_of(fabric);
		v->base.head = v->base.tail = UINT32_MAX - 500; /* the numbers wrap at 2^32 */
		srand((unsigned int)d);
		for (int round = 0; round < 400; round++) {
			uint32_t posted = 0, finished = 0;
			uint64_t offset = 0;

			memset(fabric->buffer, 0xee, READS * 4096);
			for (uint32_t i = 0; i < READS; i++) {
				offset += rand() % 4 ? (uint64_t)(rand() % 3) * 300 : 0;
				if (rand() % 8 == 0)
					offset = (uint64_t)(rand() % (MEMORY / 2));
				r[i] = (struct fabric_read){
					.remote = &region,
					.offset = offset,
					.length = 1 + (uint32_t)rand() % 2000,
					.status = 1,
					.to = i && rand() % 2 &&
							      (uint8_t *)r[i - 1].to +
									      r[i - 1].length +
									      2000 <
								      fabric->buffer +
									      (i + 1) * 4096
						      ? (uint8_t *)r[i - 1].to + r[i - 1].length
						      : fabric->buffer + i * 4096,
				};
				offset += r[i].length;
			}
			for (uint32_t i = 1; i < READS; i++) /* landing areas must not overlap */
				if ((uint8_t *)r[i].to < (uint8_t *)r[i - 1].to + r[i - 1].length)
					r[i].to = (uint8_t *)r[i - 1].to + r[i - 1].length;
			while (finished < READS) {
				int n = fabric_post(fabric, r + posted, READS - posted);

				assert_true(n >= 0);
				posted += (uint32_t)n;
				assert_true(v->base.tail - v->base.head <= depths[d]);
				execute((uint32_t)rand() % (dev.posted - dev.executed + 1),
					IBV_WC_SUCCESS);
				finished += poll_all(0);
				assert_int_equal(fabric->outstanding, posted - finished);
			}
			for (uint32_t i = 0; i < READS; i++) {
				assert_int_equal(r[i].tag, 1);
				assert_int_equal(r[i].status, 0);
				if (memcmp(r[i].to, memory + r[i].offset, r[i].length))
					fail_msg("READ %u of round %d brought something else", i,
						 round);
			}
			reads += READS;
		}
		assert_int_equal(fabric->stats.reads, reads);
		assert_int_equal(fabric->stats.wrong_id, 0);
		if (depths[d] > 8)
			assert_true(fabric->stats.work_requests < reads / 2);
		end();
	}
}

static void one_signal_is_enough_for_a_batch(void **state)
{
	struct fabric_read r[16];
	uint32_t signalled = 0;

	(void)state;
	begin(128);
	fabric->head = fabric->tail = 1;
	far_apart(r, 16);
	assert_int_equal(fabric_post(fabric, r, 16), 16);
	assert_int_equal(dev.doorbells, 1);
	assert_int_equal(dev.posted, 16);
	for (int i = 0; i < 16; i++)
		signalled += (dev.queue[i].wr.send_flags & IBV_SEND_SIGNALED) != 0;
	assert_int_equal(signalled, 1);
	execute(15, IBV_WC_SUCCESS);
	assert_int_equal(poll_all(0), 0);
	execute(1, IBV_WC_SUCCESS);
	assert_int_equal(poll_all(0), 16);
	end();
}

/* An unexpected completion never counts as data. */
static void a_wrong_completion_ends_the_link_without_data(void **state)
{
	(void)state;
	for (int lie = 0; lie < 5; lie++) {
		struct fabric_read r[8];
		struct fabric_verbs *v;
		uint64_t base;

		begin(128);
		v = fabric_verbs_of(fabric);
		far_apart(r, 8);
		assert_int_equal(fabric_post(fabric, r, 4), 4);
		execute(4, IBV_WC_SUCCESS);
		assert_int_equal(poll_all(0), 4);
		assert_int_equal(fabric_post(fabric, r + 4, 4), 4);
		base = (uint64_t)v->generation << 32;
		switch (lie) {
		case 0: /* of the previous connection */
			complete((uint64_t)(v->generation - 1) << 32 | v->base.head,
				 IBV_WC_SUCCESS);
			break;
		case 1: /* not yet posted */
			complete(base | v->base.tail, IBV_WC_SUCCESS);
			break;
		case 2: /* long completed */
			complete(base | (v->base.head - 1), IBV_WC_SUCCESS);
			break;
		case 3:
			complete(~0ull, IBV_WC_SUCCESS);
			break;
		case 4:
			complete(0, IBV_WC_WR_FLUSH_ERR);
			break;
		}
		assert_int_equal(poll_all(0), 4);
		for (int i = 4; i < 8; i++)
			assert_int_equal(r[i].status, -ENOTCONN);
		assert_int_equal(fabric->stats.wrong_id, 1);
		assert_int_equal(fabric->state, FABRIC_DOWN);
		assert_int_equal(dev.destroyed, 1);
		assert_int_equal(fabric->stats.disconnects, 1);
		end();
	}
}

static void a_failure_names_the_read_that_failed_and_no_other(void **state)
{
	static const struct {
		enum ibv_wc_status wc;
		int status;
	} cases[] = {
		{IBV_WC_REM_ACCESS_ERR, -EACCES},
		{IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT},
		{IBV_WC_RNR_RETRY_EXC_ERR, -ETIMEDOUT},
		{IBV_WC_WR_FLUSH_ERR, -ENOTCONN},
		{IBV_WC_REM_OP_ERR, -EIO},
		{IBV_WC_LOC_PROT_ERR, -EIO},
		{IBV_WC_GENERAL_ERR, -EIO},
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct fabric_read r[10];

		begin(128);
		far_apart(r, 10);
		r[5].offset = r[4].offset + 64; /* these two are merged */
		assert_int_equal(fabric_post(fabric, r, 10), 10);
		assert_int_equal(dev.posted, 9);
		execute(4, IBV_WC_SUCCESS);
		execute(1, cases[c].wc);
		execute(4, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(poll_all(0), 10);
		for (int i = 0; i < 10; i++) {
			int want = i < 4 ? 0 : i < 6 ? cases[c].status : -ENOTCONN;

			if (r[i].status != want)
				fail_msg("case %zu READ %d: %d instead of %d", c, i, r[i].status,
					 want);
		}
		assert_int_equal(fabric->state, FABRIC_DOWN);
		assert_null(fabric_directory(fabric));
		assert_int_equal(fabric_post(fabric, r, 1), -ENOTCONN);
		assert_true(fabric->stats.last_error[0]);
		end();
	}
}

static void only_what_is_late_has_timed_out(void **state)
{
	struct fabric_read r[8];

	(void)state;
	begin(128);
	far_apart(r, 8);
	assert_int_equal(fabric_post(fabric, r, 3), 3);
	for (uint32_t i = 0; i < 3; i++)
		fabric->requests[(fabric->head + i) & fabric->mask].posted_ns -= 600 * MS;
	assert_int_equal(fabric_post(fabric, r + 3, 5), 5);
	now = base_now_ns();
	assert_int_equal(poll_all(0), 0); /* 0: never */
	assert_int_equal(poll_all(700 * MS), 0);
	assert_int_equal(fabric->state, FABRIC_UP);
	assert_int_equal(poll_all(500 * MS), 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(r[i].status, i < 3 ? -ETIMEDOUT : -ENOTCONN);
	assert_int_equal(fabric->state, FABRIC_DOWN);
	assert_int_equal(fabric->stats.errors_timeout, 3);
	/* Until the queue pair was gone, the device might have written to the landing memory. */
	assert_int_equal(dev.destroyed, 1);
	assert_int_equal(dev.finished_when_destroyed, 0);
	end();
}

static void what_could_not_be_posted_was_not_taken(void **state)
{
	(void)state;
	for (int fail_at = 0; fail_at < 6; fail_at++) {
		struct fabric_read r[7];
		int taken;

		begin(128);
		far_apart(r, 7);
		r[3].offset = r[2].offset + 64; /* one request of two: the chain has 6 */
		dev.fail_at = fail_at;
		taken = fabric_post(fabric, r, 7);
		assert_int_equal(taken, fail_at <= 2 ? fail_at : fail_at + 1);
		assert_int_equal(fabric->outstanding, taken);
		assert_int_equal(fabric->stats.work_requests, fail_at);
		assert_int_equal(fabric_post(fabric, r, 7), 0); /* until it was reset */
		if (taken)
			assert_int_equal(poll_all(0), taken);
		else
			fabric_drive(fabric, now, NULL);
		for (int i = 0; i < 7; i++) {
			assert_int_equal(r[i].tag, i < taken);
			assert_int_equal(r[i].status, i < taken ? -ENOTCONN : 1);
		}
		assert_int_equal(fabric->state, FABRIC_DOWN);
		end();
	}
}

static void a_new_connection_starts_with_a_clean_account(void **state)
{
	struct fabric_read r[300];

	(void)state;
	begin(64);
	for (int again = 0; again < 20; again++) {
		uint64_t epoch;
		int taken;

		far_apart(r, 200);
		taken = fabric_post(fabric, r, 200);
		assert_int_equal(taken, 64);
		execute((uint32_t)again, IBV_WC_SUCCESS);
		dev.poll_fails = again % 2;
		complete(~0ull, IBV_WC_SUCCESS);
		assert_int_equal(poll_all(0), 64);
		assert_int_equal(fabric->outstanding, 0);
		assert_int_equal(fabric->state, FABRIC_DOWN);
		epoch = fabric->epoch;
		memset(&dev, 0, sizeof(dev));
		dev.fail_at = -1;
		bring_up(64);
		assert_int_equal(fabric->epoch, epoch + 1);
	}
	end();
}

static void a_read_that_no_device_can_carry_is_refused(void **state)
{
	struct fabric_read r[3];

	(void)state;
	begin(16);
	fabric_verbs_of(fabric)->limits.bytes = 4096;
	far_apart(r, 3);
	r[1].length = 4097;
	assert_int_equal(fabric_post(fabric, r, 3), 1);
	assert_int_equal(fabric_post(fabric, r + 1, 2), 1);
	assert_int_equal(fabric_post(fabric, r + 2, 1), 1);
	execute(2, IBV_WC_SUCCESS);
	assert_int_equal(poll_all(0), 3);
	assert_int_equal(r[0].status, 0);
	assert_int_equal(r[1].status, -ERANGE);
	assert_int_equal(r[2].status, 0);
	end();
}

static void host_and_port_are_taken_apart(void **state)
{
	static const struct {
		const char *target, *host, *port;
	} good[] = {
		{"node1", "node1", "7475"},
		{"node1:1", "node1", "1"},
		{"10.0.0.1:65535", "10.0.0.1", "65535"},
		{"[fe80::1%eth0]:80", "fe80::1%eth0", "80"},
		{"[::1]", "::1", "7475"},
		{"fe80::1", "fe80::1", "7475"},
	};
	static const char *const wrong[] = {":1",   "a:",   "a:0",    "a:65536", "a:1x",
					    "a:-1", "[::1", "[::1]1", "[]:1",	 ""};
	char host[256], port[8], longest[400];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(fabric_gate_split(good[i].target, host, port));
		assert_string_equal(host, good[i].host);
		assert_string_equal(port, good[i].port);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (fabric_gate_split(wrong[i], host, port))
			fail_msg("'%s' was taken", wrong[i]);
	memset(longest, 'x', sizeof(longest));
	longest[399] = '\0';
	assert_false(fabric_gate_split(longest, host, port));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_schedule_completes_every_read_once_and_right),
		cmocka_unit_test(one_signal_is_enough_for_a_batch),
		cmocka_unit_test(a_wrong_completion_ends_the_link_without_data),
		cmocka_unit_test(a_failure_names_the_read_that_failed_and_no_other),
		cmocka_unit_test(only_what_is_late_has_timed_out),
		cmocka_unit_test(what_could_not_be_posted_was_not_taken),
		cmocka_unit_test(a_new_connection_starts_with_a_clean_account),
		cmocka_unit_test(a_read_that_no_device_can_carry_is_refused),
		cmocka_unit_test(host_and_port_are_taken_apart),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make_memory, free_memory);
}
