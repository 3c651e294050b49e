// SPDX-License-Identifier: Apache-2.0
/*
 * test_verbs_wrong.c - lies, strangers and failing devices of a host; see test_verbs.c for the
 * set-up.
 */
#include "verbs_scene.h"

/* ---- a host that lies ---- */

/* Accepts count connections with these bytes as its hello, then exits. */
static pid_t liar(uint16_t port, const void *hello, uint8_t bytes, int count)
{
	struct sockaddr_storage to;
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE},
			     *found;
	char service[8];
	int pair[2];
	char ready;
	pid_t pid;

	(void)to;
	assert_int_equal(pipe(pair), 0);
	pid = fork();
	if (pid) {
		close(pair[1]);
		assert_int_equal(read(pair[0], &ready, 1), 1);
		close(pair[0]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(service, sizeof(service), "%u", port);
	channel = rdma_create_event_channel();
	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_getaddrinfo(address, service, &hints, &found) ||
	    rdma_bind_addr(listener, found->ai_src_addr) || rdma_listen(listener, 8) ||
	    write(pair[1], "r", 1) != 1)
		_exit(1);
	while (count && !rdma_get_cm_event(channel, &event)) {
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type type = event->event;
		struct ibv_qp_init_attr attr = {
			.qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = 1,
				.max_recv_wr = 1,
				.max_send_sge = 1,
				.max_recv_sge = 1},
		};
		struct rdma_conn_param param = {
			.private_data = hello,
			.private_data_len = bytes,
			.responder_resources = 1,
		};

		rdma_ack_cm_event(event);
		if (type != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		if (rdma_create_qp(id, NULL, &attr) || rdma_accept(id, &param))
			_exit(2);
		count--;
	}
	for (;;)
		pause();
}

void a_host_that_lies_is_not_believed(void **state)
{
	static const struct fabric_host_hello good = {
		.magic = 0x31484c53,
		.version = 1,
		.agent_instance = 1,
		.directory_addr = 0x10000,
		.directory_length = 65536,
	};
	struct fabric_host_hello lies[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		lies[i] = good;
	lies[0].magic = 7;
	lies[1].version = 2;
	lies[2].directory_length = 64;
	lies[3].directory_length = 1ull << 40;
	lies[4].directory_addr = 0;
	lies[5].directory_addr = UINT64_MAX - 4096;
	for (int i = 0; i < 7; i++) {
		struct host h = {.port = next_port++};
		pid_t pid = liar(h.port, i < 6 ? &lies[i] : NULL, i < 6 ? sizeof(good) : 0, 1);
		struct fabric_stats s = {0};
		struct fabric *f;

		snprintf(h.target, sizeof(h.target), "%s:%u", address, h.port);
		f = open_fabric(&h, 0);
		for (int n = 0; n < 5000 && !s.last_error[0]; n++) {
			assert_int_not_equal(fabric_drive(f, clock_ns(CLOCK_MONOTONIC), NULL),
					     FABRIC_UP);
			fabric_stats(f, &s);
			pause_us(200);
		}
		assert_non_null(strstr(s.last_error, "not a sidelight agent"));
		assert_int_equal(s.connects, 0);
		fabric_close(f);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

void a_stranger_is_turned_away(void **state)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct rdma_cm_id *id;
	char service[8];
	struct host h;

	(void)state;
	host_start(&h, next_port++, 0);
	snprintf(service, sizeof(service), "%u", h.port);
	assert_int_equal(rdma_getaddrinfo(address, service, &hints, &found), 0);
	assert_int_equal(rdma_create_ep(&id, found, NULL, &attr), 0);
	assert_int_not_equal(rdma_connect(id, NULL), 0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(found);
	assert_int_equal(host_look(&h).rejected, 1);
	assert_int_equal(host_look(&h).queues, 0);
	host_stop(&h);
}

/* Connects with this secret. Returns NULL if the connection is up, otherwise the reason. */
static const char *enter(const struct host *h, const char *secret, bool notify)
{
	static struct fabric_stats s;
	struct fabric *f = fabric_open(h->target,
				       &(struct fabric_opts){
					       .gid_index = -1,
					       .notify = notify,
					       .secret = secret,
					       .secret_bytes = secret ? strlen(secret) : 0,
				       });
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + 100000000000ull;
	bool up = false;

	assert_non_null(f);
	s.last_error[0] = 0;
	while (!up && !s.last_error[0] && clock_ns(CLOCK_MONOTONIC) < end) {
		up = fabric_drive(f, clock_ns(CLOCK_MONOTONIC), NULL) == FABRIC_UP;
		fabric_stats(f, &s);
		pause_us(200);
	}
	fabric_close(f);
	return up ? NULL : s.last_error;
}

void a_secret_is_proven_both_ways_before_there_is_a_queue_pair(void **state)
{
	static const char right[] = "this is the right secret",
			  wrong[] = "this is the wrong secret";
	struct host h, open;
	struct reply r;

	(void)state;
	host_secret = right;
	host_start(&h, next_port++, 0);
	host_secret = NULL;
	host_start(&open, next_port++, 0);
	for (int notify = 0; notify < 2; notify++) {
		assert_non_null(strstr(enter(&h, NULL, notify), "requires a secret"));
		assert_non_null(strstr(enter(&h, wrong, notify), "different secret"));
		r = host_look(&h);
		assert_int_equal(r.accepted, notify);
		assert_null(enter(&h, right, notify));
		assert_non_null(strstr(enter(&open, right, notify),
				       "did not prove that it knows the secret"));
		assert_null(enter(&open, NULL, notify));
	}
	r = host_look(&h);
	assert_int_equal(r.accepted, 2);
	assert_int_equal(r.rejected, 4);
	host_stop(&h);
	host_stop(&open);
}

/* ---- devices ---- */

void what_is_not_there_is_said_in_one_line(void **state)
{
	struct fabric_opts none = {.device = "mlx5_99", .gid_index = -1};
	struct fabric_host_opts opts = {.device = "mlx5_99", .gid_index = -1};
	char error[256] = "";
	struct host h;

	(void)state;
	assert_null(fabric_open("10.0.0.1", &none));
	assert_int_equal(errno, ENODEV);
	assert_non_null(strstr(fabric_error(), "no RDMA device 'mlx5_99'"));
	assert_non_null(strstr(fabric_error(), device));
	assert_null(fabric_host_open(&opts, error, sizeof(error)));
	assert_int_equal(errno, ENODEV);
	assert_non_null(strstr(error, "no RDMA device 'mlx5_99'"));
	opts = (struct fabric_host_opts){.device = device, .gid_index = 200};
	assert_null(fabric_host_open(&opts, error, sizeof(error)));
	assert_non_null(strstr(error, "has no GID 200"));
	opts = (struct fabric_host_opts){.device = device, .gid_index = -1, .address = "127.0.0.1"};
	assert_null(fabric_host_open(&opts, error, sizeof(error)));
	assert_non_null(strstr(error, "127.0.0.1"));

	host_start(&h, next_port++, 0);
	opts = (struct fabric_host_opts){.device = device, .gid_index = -1, .port = h.port};
	assert_null(fabric_host_open(&opts, error, sizeof(error)));
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(strstr(error, "in use"));
	host_stop(&h);
}

void a_gid_is_chosen_by_its_index(void **state)
{
	const char *index = getenv("GID_INDEX");
	struct fabric_opts opts = {.device = device, .gid_index = index ? atoi(index) : 1};
	struct fabric_host_opts host_opts = {.device = device, .gid_index = opts.gid_index};
	struct fabric_host_stats stats;
	char error[256] = "";
	struct fabric_host *passive;
	struct fabric *f;
	struct fabric_read r;
	struct host h;

	(void)state;
	passive = fabric_host_open(&host_opts, error, sizeof(error));
	if (!passive)
		fail_msg("%s", error);
	fabric_host_stats(passive, &stats);
	assert_int_equal(stats.gid_index, opts.gid_index);
	assert_int_equal(stats.port, FABRIC_VERBS_PORT);
	assert_string_equal(stats.device, device);
	assert_non_null(strstr(stats.address, address));
	fabric_host_close(passive);

	host_start(&h, next_port++, 0);
	f = fabric_open(h.target, &opts);
	assert_non_null(f);
	come_up(f, NULL);
	r = (struct fabric_read){
		.remote = fabric_directory(f), .length = 64, .to = fabric_buffer(f, NULL)};
	assert_int_equal(fabric_post(f, &r, 1), 1);
	collect(f, 1);
	assert_int_equal(r.status, 0);
	fabric_close(f);
	host_stop(&h);
}

/*
 * Needs root in a guest: removes the device under both sides, and adds it again. A second device
 * stays, see fabric_rdma_forget_lost().
 */
void a_device_that_vanishes_is_survived(void **state)
{
	struct fabric *f;
	struct fabric_read r;
	struct host h;
	uint64_t epoch;
	bool lost = false;

	(void)state;
	if (!getenv("GUEST")) {
		print_message("SKIP: takes a device away, which only a guest may\n");
		skip();
	}
	assert_int_equal(system("ip link set dummy0 up && "
				"rdma link add rxe1 type rxe netdev dummy0"),
			 0);
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, &epoch);
	assert_int_equal(system("rdma link delete rxe0 &"), 0);
	assert_true(await_state(f, FABRIC_DOWN, 30000, &epoch));
	for (int i = 0; i < 1000 && !lost; i++) {
		lost = host_look(&h).lost;
		pause_us(1000);
	}
	assert_true(lost);
	host_stop(&h);
	assert_false(await_state(f, FABRIC_UP, 300, &epoch));
	assert_int_equal(system("! rdma link show rxe0/1 2>/dev/null"), 0);
	assert_int_equal(system("rdma link add rxe0 type rxe netdev eth0"), 0);
	host_start(&h, h.port, 0);
	come_up(f, &epoch);
	assert_int_equal(epoch, 2);
	r = (struct fabric_read){
		.remote = fabric_directory(f), .length = 64, .to = fabric_buffer(f, NULL)};
	assert_int_equal(fabric_post(f, &r, 1), 1);
	collect(f, 1);
	assert_int_equal(r.status, 0);
	fabric_close(f);
	host_stop(&h);
	/* This command ends only after this process, in which librdmacm holds the device open. */
	assert_int_equal(system("rdma link delete rxe1 &"), 0);
}
